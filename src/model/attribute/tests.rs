//! Tests of the attributes that users set at submission or alter later.

use super::*;
use crate::model::job::{DEFAULT_PROJECT, Join};
use crate::model::policy::{OwnerPriorityRule, UserPriority};
use crate::model::time::{Span, Wall};

fn origin() -> SubmitContext {
    SubmitContext {
        program: JobProgram::Command(vec!["/bin/true".into()]),
        environ: Digest([0; 32]),
        workdir: "/home/alice/w".into(),
        submit_host: "head".into(),
        arguments: Text::default(),
    }
}

/// Parses `a=1 | Resource_List.b=2` into settings.
fn settings(text: &str) -> Vec<AttributeSetting> {
    let setting = |part: &str| {
        let (name, value) = part.split_once('=').unwrap();
        match name.trim().split_once('.') {
            Some((_, resource)) => AttributeSetting::resource(resource, value.trim()),
            None => AttributeSetting::new(name.trim(), value.trim()),
        }
    };
    text.split('|')
        .filter(|part| !part.is_empty())
        .map(setting)
        .collect()
}

const OWNER: Rights = Rights {
    privileged: false,
    running: false,
};
const OPERATOR: Rights = Rights {
    privileged: true,
    running: false,
};

fn with_rights<T>(rights: Rights, body: impl FnOnce(&Context) -> T) -> T {
    with_policy(&Policy::default(), rights, body)
}

fn with_policy<T>(policy: &Policy, rights: Rights, body: impl FnOnce(&Context) -> T) -> T {
    body(&Context {
        resources: &Resources::builtin(),
        rights,
        owner: "alice",
        server: "head",
        default_queue: Some("workq"),
        policy,
        is_member: &|group| group == "staff",
    })
}

fn submitted(text: &str) -> Result<Draft, Refusal> {
    with_rights(OWNER, |context| submit(&settings(text), origin(), context))
}

fn altered(from: &str, to: &str, rights: Rights) -> Result<Draft, Refusal> {
    let old = with_rights(OPERATOR, |context| {
        submit(&settings(from), origin(), context)
    })
    .unwrap();
    with_rights(rights, |context| alter(&old, &settings(to), context))
}

#[test]
fn a_job_without_settings_has_pbs_defaults() {
    let draft = submitted("").unwrap();
    let spec = &draft.spec;
    assert_eq!(
        (spec.name.as_str(), spec.queue.as_str()),
        ("STDIN", "workq")
    );
    assert_eq!(
        (spec.project.as_str(), spec.priority, spec.rerunnable),
        (DEFAULT_PROJECT, 0, true)
    );
    assert_eq!(
        (draft.holds, draft.run_count, draft.comment),
        (Holds::NONE, 0, None)
    );
    let nowhere = with_rights(OWNER, |context| {
        submit(
            &[],
            origin(),
            &Context {
                default_queue: None,
                ..*context
            },
        )
    });
    assert_eq!(nowhere, Err(Refusal::no_default_queue()));
}

#[test]
fn settings_are_stored_in_the_draft() {
    let draft = submitted(
        "Job_Name=n | queue=q2@head | Account_Name=a b | Priority=-5 | Rerunable=n | Execution_Time=99 | Join_Path=oe \
         | Output_Path=head:/tmp/ | Shell_Path_List=/bin/sh | umask=022 | block=true | Hold_Types=u | run_count=3 \
         | Mail_Points=abe | create_resv_from_job=t | Resource_List.walltime=60 | Resource_List.ncpus=2",
    )
    .unwrap();
    let spec = &draft.spec;
    assert_eq!(
        (
            spec.name.as_str(),
            spec.queue.as_str(),
            spec.account.as_deref()
        ),
        ("n", "q2", Some("a b"))
    );
    assert_eq!(
        (spec.priority, spec.rerunnable, spec.begin),
        (-5, false, Some(Wall(99)))
    );
    assert_eq!(
        (spec.join, spec.umask, spec.block),
        (Join::Output, Some(0o22), true)
    );
    assert_eq!(spec.output, Some("head:/tmp/".into()));
    assert_eq!((draft.holds, draft.run_count), (Holds::USER, 3));
    let other = ["Mail_Points", "create_resv_from_job"]
        .map(|name| spec.other.get(name).map(String::as_str));
    assert_eq!(other, [Some("abe"), Some("True")]);
    assert_eq!(
        (spec.walltime(), spec.request.select.chunks[0].long("ncpus")),
        (Some(Span::seconds(60)), 2)
    );
}

#[test]
fn errors_have_the_codes_and_texts_of_pbs() {
    for (text, code, message) in [
        ("foo=1", 154, "Undefined attribute  foo"),
        (
            "nallok=fastest",
            154,
            "Undefined attribute  nallok; the nearest known name is `nalloc`",
        ),
        (
            "comment=zz",
            155,
            "Cannot set attribute, read only or insufficient permission  comment",
        ),
        (
            "job_state=R",
            155,
            "Cannot set attribute, read only or insufficient permission  job_state",
        ),
        (
            "project=a/b",
            166,
            "Illegal attribute or resource value project",
        ),
        (
            "Priority=5000",
            166,
            "Illegal attribute or resource value Priority",
        ),
        ("Checkpoint=c=0", 166, "Illegal attribute or resource value"),
        ("User_List=bob", 175, "Bad UID for job execution"),
        ("Hold_Types=o", 159, "Unauthorized Request "),
        (
            "max_run_subjobs=2",
            127,
            "Attribute has to be set on an array job",
        ),
        (
            "array_indices_submitted=1-3%x",
            166,
            "Illegal attribute or resource value max_run_subjobs",
        ),
        (
            "array_indices_submitted=1-3%2:2",
            166,
            "Illegal attribute or resource value max_run_subjobs",
        ),
        (
            "array_indices_submitted=5",
            166,
            "Illegal attribute or resource value array_indices_submitted",
        ),
        (
            "array_indices_submitted=9-99999999999",
            3,
            "Array job exceeds server or queue size limit",
        ),
        ("retry=x", 166, "Illegal attribute or resource value retry"),
        (
            "retry_mem=0.5",
            166,
            "Illegal attribute or resource value retry_mem: `0.5` is no factor; write a number \
             from 1 to 1000, such as 1.5",
        ),
        ("expand=5", 127, "Attribute has to be set on an array job"),
        (
            "array_indices_submitted=1-3%1 | expand=-2",
            166,
            "Illegal attribute or resource value expand",
        ),
        (
            "label=a b",
            166,
            "Illegal attribute or resource value label",
        ),
        (
            "process_group=a:b",
            166,
            "Illegal attribute or resource value process_group",
        ),
        (
            "queue=workq@nosuch",
            160,
            "Access from host not allowed, or unknown host",
        ),
        (
            "Resource_List.ncpus=abc",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
    ] {
        let refusal = submitted(text).expect_err(text);
        assert_eq!(
            (refusal.exit_code(), refusal.text.as_str()),
            (code, message),
            "{text}"
        );
    }
}

#[test]
fn the_limits_of_an_array_may_change_but_not_the_indices() {
    let spec = submitted("array_indices_submitted=1-9:2%3 | retry=2 | retry_delay=00:01:00")
        .unwrap()
        .spec;
    assert_eq!(
        (spec.array, spec.max_run_subjobs),
        ("1-9:2".parse().ok(), Some(3))
    );
    assert_eq!((spec.retry, spec.retry_delay), (2, Span::seconds(60)));
    let array = "array_indices_submitted=1-3";
    assert_eq!(
        altered(array, "max_run_subjobs=2", OWNER)
            .unwrap()
            .spec
            .max_run_subjobs,
        Some(2)
    );
    assert_eq!(
        altered("", "max_run_subjobs=2", OWNER),
        Err(Refusal::not_an_array())
    );
    let most = |text: &str| {
        altered("array_indices_submitted=1-9%2", text, OWNER)
            .unwrap()
            .spec
            .expands_to()
    };
    let all = [
        "expand=5",
        "expand=-1",
        "expand=unlimited",
        "expand=2",
        "expand=0",
        "max_run_subjobs=0 | expand=5",
    ];
    assert_eq!(
        all.map(most),
        [Some(5), Some(u32::MAX), Some(u32::MAX), None, None, None]
    );
    assert_eq!(
        altered(array, "array_indices_submitted=1-4", OWNER),
        Err(Refusal::illegal_value(""))
    );
}

#[test]
fn few_attributes_change_while_a_job_runs() {
    let running = Rights {
        running: true,
        ..OWNER
    };
    let code = |to: &str, rights| {
        altered("Resource_List.walltime=60", to, rights).map_err(|r| (r.exit_code(), r.text))
    };
    for to in [
        "Job_Name=x",
        "Priority=3",
        "Output_Path=head:/x",
        "Resource_List.walltime=30",
        "Resource_List.cput=5",
    ] {
        assert!(code(to, running).is_ok(), "{to}");
    }
    let fixed = |name: &str| {
        Err((
            167,
            format!("Cannot modify attribute while job running  {name}"),
        ))
    };
    assert_eq!(code("Account_Name=x", running), fixed("Account_Name"));
    assert_eq!(
        code(
            "Join_Path=oe",
            Rights {
                running: true,
                ..OPERATOR
            }
        ),
        fixed("Join_Path")
    );
    assert_eq!(
        code("Resource_List.ncpus=2", running),
        fixed("Resource_List.ncpus")
    );
    assert_eq!(
        code("Resource_List.walltime=61", running).unwrap_err().0,
        159
    );
    assert_eq!(code("Resource_List.walltime=", running).unwrap_err().0, 159);
    assert!(
        code(
            "Resource_List.walltime=61",
            Rights {
                running: true,
                ..OPERATOR
            }
        )
        .is_ok()
    );
    assert!(code("Resource_List.walltime=61", OWNER).is_ok());
}

#[test]
fn holds_and_run_counts_depend_on_permission() {
    let holds = |from: &str, to: &str, rights| {
        altered(from, to, rights).map(|draft| draft.holds.to_string())
    };
    assert_eq!(holds("Hold_Types=us", "Hold_Types=n", OWNER).unwrap(), "s");
    assert_eq!(
        holds("Hold_Types=us", "Hold_Types=n", OPERATOR).unwrap(),
        "n"
    );
    assert_eq!(holds("", "Hold_Types=so", OPERATOR).unwrap(), "so");
    assert_eq!(
        holds("run_count=5", "run_count=1", OWNER),
        Err(Refusal::unauthorized())
    );
    assert_eq!(
        altered("run_count=5", "run_count=1", OPERATOR)
            .unwrap()
            .run_count,
        1
    );
    let system = |value: &str, rights| {
        let changed = altered(
            "system_priority=5",
            &format!("system_priority={value}"),
            rights,
        );
        changed.map(|draft| draft.spec.system_priority)
    };
    assert_eq!(
        (system("7", OPERATOR), system("", OPERATOR)),
        (Ok(Some(7)), Ok(None))
    );
    assert!(
        ["7", ""]
            .iter()
            .all(|value| system(value, OWNER) == Err(Refusal::read_only("system_priority")))
    );
    assert_eq!(
        system("-1", OPERATOR),
        Err(Refusal::illegal_value("system_priority"))
    );
    assert_eq!(
        altered("", "comment=hello", OPERATOR)
            .unwrap()
            .comment
            .as_deref(),
        Some("hello")
    );
    assert_eq!(
        altered("", "block=true", OWNER),
        Err(Refusal::illegal_value(""))
    );
}

#[test]
fn attribute_names_are_unique() {
    let mut names: Vec<&str> = TABLE.iter().map(|attribute| attribute.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn interactive_jobs_are_never_rerunnable() {
    for text in [
        "interactive=True",
        "interactive=true | Rerunable=y",
        "Rerunable=y | interactive=1",
    ] {
        let spec = submitted(text).unwrap().spec;
        assert!(spec.interactive && !spec.rerunnable, "{text}");
    }
    assert!(
        !altered("interactive=True", "Rerunable=y", OPERATOR)
            .unwrap()
            .spec
            .rerunnable
    );
    assert!(
        altered("", "interactive=True", OPERATOR).is_err(),
        "a terminal cannot be added later"
    );
}

/// Creates a policy with these restrictions on owners.
fn policy(own_say: OwnerPriorityRule) -> Policy {
    let mut policy = Policy::default();
    policy.precedence.own_say = own_say;
    policy
}

fn submitted_under(policy: &Policy, text: &str, rights: Rights) -> Result<Draft, Refusal> {
    with_policy(policy, rights, |context| {
        submit(&settings(text), origin(), context)
    })
}

/// X22.
#[test]
fn a_priority_above_what_the_owner_may_set_is_lowered_with_a_warning() {
    let draft = submitted("Priority=5").unwrap();
    assert_eq!(draft.spec.priority, 0);
    let [note] = draft.notes.as_slice() else {
        panic!("{:?}", draft.notes)
    };
    assert!(
        note.starts_with("warning: only operators may set priority 5")
            && note.ends_with("user_priority = \"lower_only\""),
        "{note}"
    );
    let draft = submitted("Priority=-5").unwrap();
    assert_eq!((draft.spec.priority, draft.notes.len()), (-5, 0));
    for (from, to, rights, priority, notes) in [
        ("Priority=-5", "Priority=5", OWNER, 0, 1),
        ("Priority=-5", "Priority=-3", OWNER, -3, 0),
        ("Priority=-5", "Priority=5", OPERATOR, 5, 0),
    ] {
        let draft = altered(from, to, rights).unwrap();
        assert_eq!(
            (draft.spec.priority, draft.notes.len()),
            (priority, notes),
            "{from} {to}"
        );
    }
    let free = policy(OwnerPriorityRule {
        user_priority: UserPriority::Free,
        ..OwnerPriorityRule::default()
    });
    assert_eq!(
        submitted_under(&free, "Priority=5", OWNER)
            .unwrap()
            .spec
            .priority,
        5
    );
}

/// Q18, X1.
#[test]
fn with_lowest_is_best_priorities_range_from_1_to_9999() {
    let clamp = OwnerPriorityRule {
        lowest_is_best: true,
        user_priority: UserPriority::Clamp,
        highest_user_priority: Some(100),
        ..OwnerPriorityRule::default()
    };
    let priority = |text, rights| {
        submitted_under(&policy(clamp), text, rights).map(|draft| draft.spec.priority)
    };
    assert_eq!(
        ["", "Priority=5", "Priority=9999"].map(|text| priority(text, OWNER)),
        [Ok(9999), Ok(100), Ok(9999)]
    );
    assert_eq!(priority("Priority=5", OPERATOR), Ok(5));
    for wrong in ["Priority=0", "Priority=-5", "Priority=10000"] {
        assert_eq!(
            priority(wrong, OPERATOR),
            Err(Refusal::illegal_value("Priority")),
            "{wrong}"
        );
    }
    assert_eq!(
        submitted("Priority=1024").unwrap_err(),
        Refusal::illegal_value("Priority")
    );
}

/// F7.
#[test]
fn a_user_factor_may_be_raised_again() {
    assert_eq!(submitted("").unwrap().spec.user_factor, 1.0);
    assert_eq!(
        altered("user_factor=.2", "user_factor=1.0", OWNER)
            .unwrap()
            .spec
            .user_factor,
        1.0
    );
    for wrong in ["1.5", "-1", "", "x"] {
        let refusal = submitted(&format!("user_factor={wrong}")).unwrap_err();
        assert!(
            refusal
                .text
                .contains("user_factor: the factor lowers the priority: give a number from 0 to 1"),
            "{refusal}"
        );
    }
}

/// F7.
#[test]
fn with_the_ratchet_a_user_factor_can_only_be_lowered() {
    let ratchet = policy(OwnerPriorityRule {
        user_factor_ratchet: true,
        ..OwnerPriorityRule::default()
    });
    let before = submitted_under(&ratchet, "user_factor=.5", OWNER).unwrap();
    let altered = |to: &str, rights| {
        with_policy(&ratchet, rights, |context| {
            alter(&before, &settings(to), context)
        })
        .map(|draft| draft.spec.user_factor)
    };
    assert_eq!(altered("user_factor=.2", OWNER), Ok(0.2));
    let refusal = altered("user_factor=.6", OWNER).unwrap_err();
    assert!(
        refusal
            .text
            .contains("only allows lowering the factor, which is 0.5"),
        "{refusal}"
    );
    assert_eq!(altered("user_factor=.6", OPERATOR), Ok(0.6));
}

/// F4.
#[test]
fn a_quality_of_service_is_checked_when_requested() {
    let refusal = submitted("qos=expedite").unwrap_err();
    assert!(
        refusal.text.contains("qos_denied") && refusal.code == Refusal::unauthorized().code,
        "{refusal}"
    );
    assert_eq!(
        submitted_under(&Policy::default(), "qos=expedite", OPERATOR)
            .unwrap()
            .spec
            .qos
            .as_deref(),
        Some("expedite")
    );
    assert!(altered("", "qos=expedite", OWNER).is_err());
    // A quality assigned by an operator stays when the owner alters the job's name, but is checked
    // when the owner alters the job's account.
    let given = submitted_under(&Policy::default(), "qos=expedite", OPERATOR).unwrap();
    let renamed = with_rights(OWNER, |context| {
        alter(&given, &settings("Job_Name=b"), context)
    })
    .unwrap();
    assert_eq!(renamed.spec.qos.as_deref(), Some("expedite"));
    assert!(
        with_rights(OWNER, |context| alter(
            &given,
            &settings("Account_Name=b"),
            context
        ))
        .is_err()
    );
}

#[test]
fn operators_may_set_the_eligible_time() {
    let draft = altered("", "eligible_time=1:00:00", OPERATOR).unwrap();
    assert_eq!(draft.eligible_time, Some(Span::seconds(3600)));
    assert_eq!(
        altered("", "eligible_time=1:00:00", OWNER),
        Err(Refusal::read_only("eligible_time"))
    );
    for wrong in ["x", "-1", "", "9999999:00:00"] {
        let message = altered("", &format!("eligible_time={wrong}"), OPERATOR);
        assert_eq!(
            message,
            Err(Refusal::illegal_value("eligible_time")),
            "{wrong}"
        );
    }
}
