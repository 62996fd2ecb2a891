//! Commands of `qmgr` and the effect of these commands on the configuration.

mod values;

use super::command::{Edit, Op, QmgrCommand, Verb};
use super::*;
use crate::config::Config;
use crate::model::limit::LimitStage;
use crate::model::policy::PriorityOrder;
use crate::model::policy::preemption::{LevelCondition, Victims};
use crate::model::refusal::Refusal;

fn edit(text: &str) -> Edit {
    let (key, op, value) = match (
        text.split_once("+="),
        text.split_once("-="),
        text.split_once('='),
    ) {
        (Some((key, value)), ..) => (key, Op::Add, value),
        (_, Some((key, value)), _) => (key, Op::Remove, value),
        (.., Some((key, value))) => (key, Op::Set, value),
        _ => (text, Op::Set, ""),
    };
    let (attribute, resource) = match key.split_once('.') {
        Some((attribute, resource)) => (attribute, Some(resource.to_string())),
        None => (key, None),
    };
    Edit {
        key: AttributeKey {
            attribute: attribute.to_string(),
            resource,
        },
        op,
        value: value.to_string(),
    }
}

fn queue(name: &str) -> QmgrObject {
    QmgrObject::Queue(name.to_string())
}

/// A configuration file, and the overrides that qmgr makes.
struct Site {
    file: Config,
    overrides: QmgrOverrides,
}

impl Site {
    fn of(file: &str) -> Site {
        Site {
            file: Config::parse(file).unwrap(),
            overrides: QmgrOverrides::default(),
        }
    }

    fn run(&mut self, verb: Verb, target: QmgrObject, edits: &[&str]) -> Result<(), Refusal> {
        let command = QmgrCommand {
            verb,
            target,
            edits: edits.iter().map(|text| edit(text)).collect(),
        };
        self.overrides = self.overrides.with(&command, &self.file)?;
        Ok(())
    }

    fn set(&mut self, target: QmgrObject, edits: &[&str]) -> Result<(), Refusal> {
        self.run(Verb::Set, target, edits)
    }

    fn config(&self) -> Config {
        let (config, conflicts) = self.file.with_overrides(&self.overrides);
        assert_eq!(conflicts, []);
        config
    }

    fn shown(&self, target: &QmgrObject) -> Vec<String> {
        let config = self.config();
        let all = description::described(&config, &self.overrides);
        let lines = all
            .into_iter()
            .filter(|one| one.target == *target)
            .flat_map(|one| one.lines);
        lines
            .map(|line| {
                let resource = line
                    .resource
                    .map(|name| format!(".{name}"))
                    .unwrap_or_default();
                format!("{}{resource}={}", line.name, line.value)
            })
            .collect()
    }
}

#[test]
fn a_new_queue_is_disabled_and_can_be_enabled_once_its_type_is_set() {
    let mut site = Site::of("");
    site.run(Verb::Create, queue("gpu"), &[]).unwrap();
    assert_eq!(site.shown(&queue("gpu")), [""; 0]);
    assert_eq!(
        site.set(queue("gpu"), &["enabled=t"]),
        Err(Refusal::no_queue_type())
    );
    site.set(
        queue("gpu"),
        &["queue_type=e", "enabled=t", "started=1", "priority=7"],
    )
    .unwrap();
    assert_eq!(
        site.shown(&queue("gpu")),
        [
            "queue_type=Execution",
            "Priority=7",
            "enabled=True",
            "started=True"
        ]
    );
    let made = site
        .config()
        .queues()
        .into_iter()
        .find(|queue| queue.name == "gpu")
        .unwrap();
    assert!(made.enabled && made.started && made.priority == 7);
    site.set(queue("gpu"), &["priority=0"]).unwrap();
    assert!(
        site.shown(&queue("gpu"))
            .contains(&"Priority=0".to_string()),
        "an explicit 0 is shown, as in PBS"
    );
    assert_eq!(
        site.run(Verb::Create, queue("gpu"), &[]),
        Err(Refusal::queue_exists())
    );
    site.run(Verb::Delete, queue("gpu"), &[]).unwrap();
    assert_eq!(
        site.run(Verb::Delete, queue("gpu"), &[]),
        Err(Refusal::unknown_queue())
    );
    assert_eq!(
        site.overrides,
        QmgrOverrides::default(),
        "deleting the queue removes its override"
    );
}

#[test]
fn the_default_queue_can_be_changed_and_not_deleted() {
    let mut site = Site::of("");
    site.run(Verb::Create, queue("workq"), &[]).unwrap();
    assert!(
        site.config().queues()[0].enabled,
        "the default queue existed before the command"
    );
    assert_eq!(
        site.run(Verb::Create, queue("workq"), &[]),
        Err(Refusal::queue_exists())
    );
    assert_eq!(
        site.run(Verb::Delete, queue("workq"), &[]),
        Err(Refusal::busy())
    );
    assert_eq!(
        site.set(QmgrObject::Server, &["default_queue=nosuch"]),
        Err(Refusal::unknown_queue())
    );
    site.run(Verb::Create, queue("other"), &["queue_type=e"])
        .unwrap();
    site.set(QmgrObject::Server, &["default_queue=other"])
        .unwrap();
    let names: Vec<String> = site
        .config()
        .queues()
        .into_iter()
        .map(|queue| queue.name)
        .collect();
    assert_eq!(names, ["workq", "other"]);
    site.run(Verb::Delete, queue("workq"), &[]).unwrap();
    assert_eq!(site.config().queues().len(), 1);
}

#[test]
fn a_refused_command_changes_nothing() {
    let mut site = Site::of("");
    for (target, edits, code) in [
        (queue("nosuch"), "enabled=t", 15018),
        (queue("workq"), "foo=1", 15002),
        (queue("workq"), "Priority=abc", 15014),
        (queue("workq"), "Priority=5000", 15014),
        (queue("workq"), "resources_max.foo=1", 15035),
        (queue("workq"), "resources_max.mem=-1", 15014),
        (queue("workq"), "max_run=[u:PBS_GENERIC=x]", 15014),
        (queue("workq"), "total_jobs=1", 15003),
        (queue("workq"), "partition=p", 15029),
        (QmgrObject::Server, "scheduling=maybe", 15014),
        (QmgrObject::Server, "job_sort_formula=nonsense * 2", 15014),
        (QmgrObject::Server, "resv_enable=False", 15029),
        (QmgrObject::Server, "query_other_jobs=maybe", 15014),
        (QmgrObject::Server, "default_qsub_arguments=-r\nn", 15014),
        (QmgrObject::Server, "managers=a b", 15014),
        (QmgrObject::Server, "resources_available.ncpus=4", 15029),
        (QmgrObject::Sched, "preempt_order=SX", 15014),
        (QmgrObject::Sched, "preempt_order=SCR 50 S 80 R", 15014),
        (
            QmgrObject::Sched,
            "preempt_prio=express_queue, best_jobs",
            15014,
        ),
        (
            QmgrObject::Sched,
            "preempt_prio=normal_jobs, normal_jobs",
            15014,
        ),
        (QmgrObject::Sched, "preempt_queue_prio=many", 15014),
        (
            QmgrObject::Sched,
            "preempt_sort=max_time_since_start",
            15014,
        ),
        (
            QmgrObject::Server,
            "restrict_res_to_release_on_suspend=arch",
            15014,
        ),
        (
            QmgrObject::Server,
            "restrict_res_to_release_on_suspend=mem,mem",
            15014,
        ),
        (QmgrObject::Sched, "partition=p", 15029),
        (QmgrObject::Sched, "sched_host=h", 15003),
        (QmgrObject::Sched, "foo=1", 15002),
    ] {
        let refusal = site
            .set(
                target,
                &["comment=x", edits].into_iter().skip(1).collect::<Vec<_>>(),
            )
            .unwrap_err();
        assert_eq!(refusal.code, code, "{edits}: {refusal}");
    }
    assert_eq!(
        site.set(queue("workq"), &["Priority=5", "foo=1"])
            .unwrap_err()
            .code,
        15002
    );
    assert_eq!(site.overrides, QmgrOverrides::default());
}

/// I20: the attributes of `[preemption]`.
#[test]
fn preemption_attributes_use_the_syntax_of_pbs() {
    let mut site = Site::of("[preemption]\nexpress = 200\naction = \"suspend\"\n");
    let shown = |site: &Site, name: &str| {
        let head = format!("{name}=");
        site.shown(&QmgrObject::Sched)
            .iter()
            .find_map(|line| line.strip_prefix(&head).map(String::from))
    };
    assert_eq!(shown(&site, "preempt_queue_prio").as_deref(), Some("200"));
    assert_eq!(
        shown(&site, "preempt_prio").as_deref(),
        Some("express_queue, normal_jobs")
    );
    assert_eq!(shown(&site, "preempt_order").as_deref(), Some("S"));
    assert_eq!(
        shown(&site, "preempt_sort").as_deref(),
        Some("min_time_since_start")
    );
    let edits = [
        "preempt_order=SCR 80 SC 50 S",
        "preempt_queue_prio=100",
        "preempt_sort=cheapest",
    ];
    site.set(QmgrObject::Sched, &edits).unwrap();
    let levels = "preempt_prio=starving_jobs+express_queue, normal_jobs";
    site.set(QmgrObject::Sched, &[levels]).unwrap();
    site.set(
        QmgrObject::Server,
        &["restrict_res_to_release_on_suspend=ncpus,mem"],
    )
    .unwrap();
    let rule = site.config().effective_policy().preemption;
    assert_eq!(
        (rule.express, rule.victims, rule.actions.to_string()),
        (100, Victims::Cheapest, edits[0][14..].into())
    );
    let levels = [
        vec![LevelCondition::Starving, LevelCondition::Express],
        vec![LevelCondition::Normal],
    ];
    assert_eq!(
        (rule.levels, rule.releases),
        (
            levels.to_vec(),
            vec!["ncpus".to_string(), "mem".to_string()]
        )
    );
    assert_eq!(
        shown(&site, "preempt_prio").as_deref(),
        Some("starving_jobs+express_queue, normal_jobs")
    );
}

/// PBS's limits become limits of the policy. Limits of the file and of qmgr are displayed.
#[test]
fn limit_attributes_use_the_syntax_of_pbs() {
    let mut site = Site::of(
        "[[limit]]\nqueue = \"workq\"\ngroup = \"phys\"\nrunning = { jobs = 9, mem = \"2gb\" }\n",
    );
    site.set(
        queue("workq"),
        &[
            "max_run+=[u:PBS_GENERIC=4],[u:ann=2]",
            "max_run_soft=[u:PBS_GENERIC=1]",
        ],
    )
    .unwrap();
    site.set(
        QmgrObject::Server,
        &["max_queued_res.ncpus=[o:PBS_ALL=100]"],
    )
    .unwrap();
    assert_eq!(
        site.shown(&queue("workq"))
            .split_last_chunk::<2>()
            .unwrap()
            .0,
        [
            "queue_type=Execution",
            "max_run=[g:phys=9]",
            "max_run=[u:PBS_GENERIC=4]",
            "max_run=[u:ann=2]",
            "max_run_soft=[u:PBS_GENERIC=1]",
            "max_run_res.mem=[g:phys=2gb]",
        ]
    );
    let limits = site.config().effective_policy().limits.all;
    let each = limits.iter().find(|limit| limit.soft == Some(1)).unwrap();
    assert_eq!((each.hard, each.stage), (Some(4), LimitStage::Running));
    site.set(queue("workq"), &["max_run-=[g:phys=9]"]).unwrap();
    site.run(
        Verb::Unset,
        queue("workq"),
        &["max_run_soft", "max_run_res"],
    )
    .unwrap();
    let left = site.shown(&queue("workq"));
    assert_eq!(
        left[1..3],
        ["max_run=[u:PBS_GENERIC=4]", "max_run=[u:ann=2]"]
    );
    assert_eq!(
        site.set(queue("workq"), &["max_running=4"]),
        Err(Refusal::mixed_limits())
    );
}

#[test]
fn limits_that_were_set_in_the_old_style_are_displayed_in_the_old_style() {
    let mut site = Site::of("");
    site.set(
        queue("workq"),
        &["max_running=4", "max_user_run=2", "max_group_res.ncpus=8"],
    )
    .unwrap();
    assert_eq!(
        site.shown(&queue("workq"))[1..4],
        ["max_running=4", "max_user_run=2", "max_group_res.ncpus=8"]
    );
    assert_eq!(
        site.set(queue("workq"), &["max_run=[o:PBS_ALL=1]"]),
        Err(Refusal::mixed_limits())
    );
    site.run(
        Verb::Unset,
        queue("workq"),
        &["max_running", "max_user_run", "max_group_res"],
    )
    .unwrap();
    site.set(queue("workq"), &["max_run=[o:PBS_ALL=1]"])
        .unwrap();
    assert_eq!(site.config().effective_policy().limits.all.len(), 1);
}

#[test]
fn overrides_that_do_not_fit_the_file_are_kept_and_reported() {
    let with = "[[queue]]\nname = \"fast\"\n";
    let mut site = Site::of(with);
    site.set(queue("fast"), &["Priority=3"]).unwrap();
    let (config, conflicts) = Config::parse("").unwrap().with_overrides(&site.overrides);
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].to_string(), "queue fast: Unknown queue");
    assert_eq!(config.queues().len(), 1);
    let text = serde_json::to_string(&site.overrides).unwrap();
    site.overrides = serde_json::from_str(&text).unwrap();
    assert_eq!(
        site.config().queues()[0].priority,
        3,
        "the override applies again with the old file"
    );
}

#[test]
fn resources_are_created_with_types_and_flags() {
    let mut site = Site::of("");
    let lic = || QmgrObject::Resource("lic".to_string());
    site.run(Verb::Create, lic(), &["type=long", "flag=q"])
        .unwrap();
    site.set(QmgrObject::Server, &["resources_available.lic=5"])
        .unwrap();
    assert_eq!(site.config().pools[0].1.total, 5);
    let definition = site.config().resources().get("lic").cloned().unwrap();
    assert!(definition.consumable && !definition.host_level);
    assert_eq!(site.shown(&lic()), ["type=long", "flag=q"]);
    assert_eq!(
        site.run(Verb::Create, lic(), &[]),
        Err(Refusal::duplicate())
    );
    let ncpus = || QmgrObject::Resource("ncpus".to_string());
    assert_eq!(
        site.run(Verb::Create, ncpus(), &[]),
        Err(Refusal::duplicate())
    );
    assert_eq!(
        site.run(Verb::Delete, ncpus(), &[]),
        Err(Refusal::invalid_request())
    );
    let bad = site.run(
        Verb::Create,
        QmgrObject::Resource("bad".to_string()),
        &["type=xx"],
    );
    assert_eq!(bad, Err(Refusal::illegal_value("")));
    site.run(
        Verb::Create,
        QmgrObject::Resource("ngpus".to_string()),
        &["type=long", "flag=hn"],
    )
    .unwrap();
    assert_eq!(
        site.config().resources().get("ngpus"),
        Config::default().resources().get("ngpus")
    );
}

#[test]
fn server_attributes_set_queue_defaults_and_the_order_of_jobs() {
    let mut site = Site::of("[[queue]]\nname = \"workq\"\nresources_default = { ncpus = 2 }\n");
    site.set(
        QmgrObject::Server,
        &["resources_default.ncpus=1", "resources_default.walltime=60"],
    )
    .unwrap();
    let config = site.config();
    let texts = |list: &crate::model::resource::ResourceList| {
        list.iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<String>>()
    };
    assert_eq!(
        texts(&config.queues()[0].defaults),
        ["ncpus=2", "walltime=00:01:00"]
    );
    assert_eq!(texts(&config.configured_queues()[0].defaults), ["ncpus=2"]);
    site.set(
        QmgrObject::Server,
        &["job_sort_formula=eligible_time * 2", "scheduling=f"],
    )
    .unwrap();
    assert_eq!(
        site.config().policy.precedence.order,
        PriorityOrder::Formula
    );
    assert!(!site.config().cycle.scheduling);
    site.run(Verb::Unset, QmgrObject::Sched, &["scheduling"])
        .unwrap();
    site.run(Verb::Unset, QmgrObject::Server, &["job_sort_formula"])
        .unwrap();
    assert_eq!(
        (
            site.config().policy.precedence.order,
            site.config().cycle.scheduling
        ),
        (PriorityOrder::Multifactor, true)
    );
    site.set(
        QmgrObject::Server,
        &["managers+=bob@*", "managers+=ann", "job_history_enable=f"],
    )
    .unwrap();
    site.set(
        QmgrObject::Server,
        &["managers-=bob@*", "job_history_duration=10:00:00"],
    )
    .unwrap();
    assert_eq!(
        site.config()
            .server
            .managers
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["ann"]
    );
    assert_eq!(
        site.config().server.history.as_seconds(),
        0,
        "the history is disabled, whatever its duration"
    );
}

#[test]
fn a_node_missing_in_the_file_has_no_position_in_the_order_of_nodes() {
    let mut site = Site::of("[[node]]\nname = \"b\"\n");
    site.set(
        QmgrObject::Node("a".to_string()),
        &["resources_available.mem=1gb", "max_running=2"],
    )
    .unwrap();
    let config = site.config();
    let listed: Vec<&str> = config
        .nodes
        .iter()
        .filter(|node| node.is_listed)
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(
        (listed, config.nodes[1].terms.max_jobs),
        (vec!["b"], Some(2))
    );
    let refused = site.set(
        QmgrObject::Node("a".to_string()),
        &["resources_available.host=x"],
    );
    assert_eq!(refused.unwrap_err().code, 15003);
}

#[test]
fn the_length_of_a_value_and_the_number_of_attributes_are_limited() {
    let mut site = Site::of("");
    let entry = |number: usize| format!("[u:a-user-of-a-long-name-{number:0>60}=1]");
    let entries: Vec<String> = (0..720).map(entry).collect();
    site.set(
        QmgrObject::Server,
        &[&format!("max_run={}", entries.join(","))],
    )
    .unwrap();
    let refused = (720..770).map(|number| {
        site.set(
            QmgrObject::Server,
            &[&format!("max_run+={}", entry(number))],
        )
    });
    let refused = refused.last().unwrap().err();
    assert!(
        refused
            .unwrap()
            .text
            .contains("a value of more than 65536 bytes")
    );
    let many: Vec<&str> = vec!["comment=x"; 1001];
    let refused = site.set(QmgrObject::Server, &many).unwrap_err();
    assert!(
        refused
            .text
            .ends_with("more than 1000 attributes in one command"),
        "{refused}"
    );
    assert!(
        site.set(QmgrObject::Server, &["comment=a\u{1b}[2Jb"])
            .is_err(),
        "control characters are refused"
    );
}

#[test]
fn a_configuration_mentions_the_resources_of_its_formula() {
    let mut site = Site::of("");
    site.run(
        Verb::Create,
        QmgrObject::Resource("gold".into()),
        &["type=long"],
    )
    .unwrap();
    assert!(!site.config().mentions("gold"));
    site.set(QmgrObject::Server, &["job_sort_formula=gold * 2"])
        .unwrap();
    assert!(site.config().mentions("gold"));
}

#[test]
fn a_group_name_with_a_blank_can_be_limited() {
    let mut site = Site::of("[[limit]]\ngroup = \"domain users\"\nrunning = { jobs = 3 }\n");
    assert!(
        site.shown(&QmgrObject::Server)
            .iter()
            .any(|line| line.contains("[g:\"domain users\"=3]"))
    );
    site.set(QmgrObject::Server, &["max_run+=[g:\"domain users\"=5]"])
        .unwrap();
    assert_eq!(
        site.config()
            .policy
            .limits
            .all
            .iter()
            .map(|limit| limit.hard)
            .collect::<Vec<_>>(),
        [Some(5)]
    );
}
