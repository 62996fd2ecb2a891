//! Tests of the scopes of limits, and of limits as text.

use super::*;

fn subject(user: &str, qos: &str) -> LimitSubject {
    let names = [
        vec!["batch"],
        vec![user],
        vec!["staff"],
        vec!["none"],
        vec!["dev", "root"],
        vec![qos],
    ];
    LimitSubject {
        names: names.map(|names| names.into_iter().map(str::to_string).collect()),
    }
}

fn jobs(scope: LimitScope, hard: i64) -> Limit {
    let (stage, quantity) = (LimitStage::Running, Quantity::Jobs);
    Limit {
        scope,
        stage,
        quantity,
        soft: None,
        hard: Some(hard),
        overrides: false,
    }
}

fn named(name: &str) -> Selector {
    Selector::Named(name.to_string())
}

fn found(limits: &Limits, user: &str, qos: &str) -> Vec<(i64, String)> {
    let found = limits.concerning(
        &subject(user, qos),
        &Directory::new(limits, LimitStage::Running),
    );
    found
        .iter()
        .map(|found| (found.bounds.hard.unwrap(), found.key.join("/")))
        .collect()
}

#[test]
fn limits_on_other_quantities_or_queues_replace_nothing() {
    let each = || LimitScope {
        user: Selector::Each,
        ..LimitScope::default()
    };
    let own = || LimitScope {
        user: named("ann"),
        ..LimitScope::default()
    };
    let both = |other: Limit| {
        found(
            &Limits {
                all: vec![jobs(each(), 2), other],
                ..Limits::default()
            },
            "ann",
            "normal",
        )
        .len()
    };
    assert_eq!(both(jobs(own(), 5)), 1);
    assert_eq!(
        both(Limit {
            quantity: Quantity::Nodes,
            ..jobs(own(), 5)
        }),
        2
    );
    assert_eq!(
        both(jobs(
            LimitScope {
                queue: named("batch"),
                ..own()
            },
            5
        )),
        2
    );
}

/// M22.
#[test]
fn a_limit_for_a_named_user_replaces_the_generic_limit() {
    let each = jobs(
        LimitScope {
            user: Selector::Each,
            ..LimitScope::default()
        },
        4,
    );
    let john = jobs(
        LimitScope {
            user: named("john"),
            ..LimitScope::default()
        },
        8,
    );
    let everybody = jobs(LimitScope::default(), 100);
    let limits = Limits {
        all: vec![each, john, everybody],
        ..Limits::default()
    };
    assert_eq!(
        found(&limits, "john", "normal"),
        [(8, "john".into()), (100, String::new())]
    );
    assert_eq!(
        found(&limits, "ann", "normal"),
        [(4, "ann".into()), (100, String::new())]
    );
    assert_eq!(
        limits.concerning(
            &subject("ann", "normal"),
            &Directory::new(&limits, LimitStage::Idle)
        ),
        []
    );
}

/// M25.
#[test]
fn a_limit_can_apply_to_each_user_in_a_queue() {
    let scope = |queue: Selector| LimitScope {
        queue,
        user: Selector::Each,
        ..LimitScope::default()
    };
    let limits = Limits {
        all: vec![
            jobs(scope(named("batch")), 3),
            jobs(scope(named("fast")), 5),
            jobs(scope(Selector::Each), 7),
        ],
        ..Limits::default()
    };
    assert_eq!(found(&limits, "ann", "normal"), [(3, "batch/ann".into())]);
}

/// M26.
#[test]
fn a_limit_of_a_quality_can_override_limits_of_all_qualities() {
    let steve = jobs(
        LimitScope {
            user: named("steve"),
            ..LimitScope::default()
        },
        30,
    );
    let high = Limit {
        overrides: true,
        ..jobs(
            LimitScope {
                qos: named("high"),
                ..LimitScope::default()
            },
            64,
        )
    };
    let limits = Limits {
        all: vec![steve, high],
        ..Limits::default()
    };
    assert_eq!(found(&limits, "steve", "high"), [(64, "high".into())]);
    assert_eq!(found(&limits, "steve", "normal"), [(30, "steve".into())]);
}

/// I19: `g:staff` is a name, and jobs store their group as an id.
#[test]
fn named_groups_are_matched_by_id() {
    let staff = jobs(
        LimitScope {
            group: named("staff"),
            ..LimitScope::default()
        },
        2,
    );
    let each = jobs(
        LimitScope {
            group: Selector::Each,
            ..LimitScope::default()
        },
        4,
    );
    let mut limits = Limits {
        all: vec![staff, each],
        ..Limits::default()
    };
    limits.number_groups(|name| (name == "staff").then_some(50));
    let who = |gid| {
        let names = ["ann", "none", "batch"].map(str::to_string);
        let [user, project, queue] = names;
        Credentials {
            user,
            gid,
            project,
            account: None,
            qos: None,
            queue,
        }
    };
    let hard = |gid| {
        let subject = limits.subject(&who(gid), Vec::new());
        let found = limits.concerning(&subject, &Directory::new(&limits, LimitStage::Running));
        found
            .into_iter()
            .map(|found| (found.bounds.hard.unwrap(), found.key.join("/")))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (hard(50), hard(51)),
        (vec![(2, "staff".to_string())], vec![(4, "51".to_string())])
    );
}

/// X16: in PBS, `max_run` and `max_run_soft` each have their own lists of names.
#[test]
fn soft_and_hard_values_are_replaced_separately() {
    let user = |user| LimitScope {
        user,
        ..LimitScope::default()
    };
    let of = |scope, soft, hard| Limit {
        soft,
        hard,
        ..jobs(scope, 0)
    };
    let ann = || user(named("ann"));
    let found = |all: Vec<Limit>| {
        let limits = Limits {
            all,
            ..Limits::default()
        };
        let found = limits.concerning(
            &subject("ann", "high"),
            &Directory::new(&limits, LimitStage::Running),
        );
        found
            .iter()
            .map(|found| (found.place, found.bounds.soft, found.bounds.hard))
            .collect::<Vec<_>>()
    };
    let each = || of(user(Selector::Each), Some(3), Some(4));
    assert_eq!(
        found(vec![each(), of(ann(), Some(2), None)]),
        [(0, None, Some(4)), (1, Some(2), None)]
    );
    assert_eq!(
        found(vec![each(), of(ann(), None, Some(9))]),
        [(0, Some(3), None), (1, None, Some(9))]
    );
    let halves = vec![of(ann(), Some(2), None), each(), of(ann(), None, Some(9))];
    assert_eq!(found(halves), [(0, Some(2), None), (2, None, Some(9))]);
    let high = Limit {
        overrides: true,
        ..of(
            LimitScope {
                qos: named("high"),
                ..LimitScope::default()
            },
            Some(1),
            None,
        )
    };
    assert_eq!(
        found(vec![each(), high]),
        [(1, Some(1), None)],
        "an overriding limit replaces all others"
    );
}

/// If a limit names several credentials, the job must match all names.
#[test]
fn limits_are_indexed_by_their_most_selective_name() {
    let both = |user: &str, queue: &str| LimitScope {
        user: named(user),
        queue: named(queue),
        ..LimitScope::default()
    };
    let all = [
        both("ann", "batch"),
        both("bob", "batch"),
        both("ann", "fast"),
    ]
    .map(|scope| jobs(scope, 1));
    let limits = Limits {
        all: all.to_vec(),
        ..Limits::default()
    };
    assert_eq!(
        Directory::new(&limits, LimitStage::Running).of(&subject("ann", "normal")),
        [0, 2]
    );
    assert_eq!(
        found(&limits, "ann", "normal"),
        [(1, "batch/ann".to_string())]
    );
}

/// Recordings of cycles store limits as text.
#[test]
fn quantities_survive_serialization() {
    let quantities = Quantity::NAMED.map(|(_, quantity)| quantity).into_iter();
    for quantity in quantities.chain([Quantity::Resource("mem".to_string())]) {
        let limit = Limit {
            quantity,
            ..jobs(LimitScope::default(), 1)
        };
        let text = serde_json::to_string(&limit).unwrap();
        assert_eq!(
            serde_json::from_str::<Limit>(&text).unwrap(),
            limit,
            "{text}"
        );
    }
}

/// Y24.
#[test]
fn a_per_account_limit_applies_to_all_accounts_above() {
    let each = jobs(
        LimitScope {
            account: Selector::Each,
            ..LimitScope::default()
        },
        8,
    );
    let limits = Limits {
        all: vec![each],
        ..Limits::default()
    };
    assert_eq!(
        found(&limits, "ann", "normal"),
        [(8, "dev".into()), (8, "root".into())]
    );
}

#[test]
fn a_soft_limit_is_at_most_the_hard_limit() {
    let of = |soft, hard| LimitValues { soft, hard }.soft_limit();
    assert_eq!(
        [
            of(Some(2), Some(8)),
            of(Some(9), Some(8)),
            of(None, Some(8)),
            of(Some(2), None)
        ],
        [Some(2), Some(8), Some(8), Some(2)]
    );
}
