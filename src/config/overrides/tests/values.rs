//! Tests which values of attributes are valid, and how the values are displayed.

use super::*;
use crate::config::Config;
use crate::model::time::Span;

const REFUSED: u16 = 15014;

fn refused(site: &mut Site, target: QmgrObject, edit: &str) -> u16 {
    let refusal = site.set(target, &[edit]).expect_err(edit);
    refusal.code
}

#[test]
fn every_reference_to_a_resource_is_found() {
    let file = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"b\"\n[[node]]\nname = \"n\"\n[[node]]\nname = \"m\"\n\
                [[limit]]\nrunning = { jobs = 1 }\n[[limit]]\nuser = \"*\"\nrunning = { mem = \"1gb\" }\n";
    let node = || QmgrObject::Node("n".to_string());
    for (target, words) in [
        (QmgrObject::Server, "resources_default.lic=1"),
        (QmgrObject::Server, "resources_max.lic=1"),
        (queue("b"), "resources_min.lic=1"),
        (queue("b"), "default_chunk.lic=1"),
        (queue("b"), "max_run_res.lic=[u:ann=1]"),
        (node(), "resources_available.lic=1"),
    ] {
        let mut site = Site::of(file);
        site.run(
            Verb::Create,
            QmgrObject::Resource("lic".to_string()),
            &["type=long", "flag=hn"],
        )
        .unwrap();
        assert!(!site.config().mentions("lic"), "before {words}");
        site.set(target, &[words]).unwrap();
        assert!(
            site.config().mentions("lic") && !site.config().mentions("ngpus"),
            "{words}"
        );
    }
}

#[test]
fn deleting_an_object_deletes_only_its_own_settings() {
    let limits = "[[limit]]\nqueue = \"a\"\nrunning = { jobs = 1 }\n[[limit]]\nqueue = \"b\"\nrunning = { jobs = 2 }\n";
    let mut site = Site::of(&format!(
        "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"b\"\n{limits}"
    ));
    site.run(Verb::Delete, queue("a"), &[]).unwrap();
    assert_eq!(
        site.config()
            .policy
            .limits
            .all
            .iter()
            .map(|limit| limit.hard)
            .collect::<Vec<_>>(),
        [Some(2)]
    );
    let lic = |name: &str| QmgrObject::Resource(name.to_string());
    site.run(Verb::Create, lic("x"), &["type=string_array", "flag=nh"])
        .unwrap();
    for name in ["y", "z"] {
        site.run(Verb::Create, lic(name), &["type=long", "flag=q"])
            .unwrap();
        site.set(
            QmgrObject::Server,
            &[&format!("resources_available.{name}=5")],
        )
        .unwrap();
    }
    assert_eq!(
        site.shown(&lic("x")),
        ["type=string_array", "flag=hn"],
        "flags have a fixed order"
    );
    let totals = |site: &Site| {
        let lines = site.shown(&QmgrObject::Server).into_iter();
        lines
            .filter(|line| line.starts_with("resources_available"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        totals(&site),
        ["resources_available.y=5", "resources_available.z=5"]
    );
    site.set(QmgrObject::Server, &["resources_available.z=7"])
        .unwrap();
    assert_eq!(
        site.config()
            .pools
            .iter()
            .map(|(_, pool)| pool.total)
            .collect::<Vec<_>>(),
        [5, 7]
    );
}

#[test]
fn a_new_queue_is_stopped_and_attribute_names_ignore_case() {
    let mut site = Site::of("[[queue]]\nname = \"other\"\n");
    site.run(Verb::Create, queue("workq"), &[]).unwrap();
    site.run(Verb::Create, queue("q"), &["queue_type=e"])
        .unwrap();
    let made = site
        .config()
        .queues()
        .into_iter()
        .find(|queue| queue.name == "q")
        .unwrap();
    assert!(!made.enabled && !made.started);
    site.set(queue("other"), &["priority=3"]).unwrap();
    site.set(queue("other"), &["Priority=4"]).unwrap();
    assert_eq!(
        site.overrides.of(&queue("other")).unwrap().values.len(),
        1,
        "attribute names ignore case"
    );
    site.set(queue("other"), &["Priority+=2"]).unwrap();
    site.set(queue("other"), &["Priority-=5"]).unwrap();
    assert_eq!(site.config().queues[0].priority, 1);
    assert_eq!(refused(&mut site, queue("other"), "Priority+=x"), REFUSED);
    assert_eq!(
        site.run(Verb::Create, queue("a b"), &[]),
        Err(Refusal::bad_name())
    );
    assert_eq!(
        site.run(Verb::Create, QmgrObject::Resource("a b".to_string()), &[]),
        Err(Refusal::bad_name())
    );
}

#[test]
fn the_number_of_objects_and_the_size_of_values_are_limited() {
    let mut site = Site::of("");
    let most = 64 << 10;
    site.set(
        QmgrObject::Server,
        &[&format!("comment={}", "x".repeat(most))],
    )
    .unwrap();
    let long = site
        .set(
            QmgrObject::Server,
            &[&format!("comment={}", "x".repeat(most + 1))],
        )
        .unwrap_err();
    assert!(long.text.contains("65536"), "{long}");
    assert!(site.set(QmgrObject::Server, &["comment=a\nb"]).is_err());
    assert_eq!(
        site.set(queue("workq"), &["Priority.mem=1"]),
        Err(Refusal::undefined_attribute())
    );
    site.overrides
        .all
        .extend((0..10_000).map(|place| (queue(&format!("q{place}")), QmgrOverride::default())));
    let many = site
        .run(Verb::Create, queue("new"), &["queue_type=e"])
        .unwrap_err();
    assert!(many.text.contains("10000"), "{many}");
}

#[test]
fn one_resource_of_a_list_is_unset_without_the_others() {
    let mut site = Site::of("");
    site.set(
        queue("workq"),
        &["resources_max.mem=1gb", "resources_max.ncpus=4"],
    )
    .unwrap();
    let command = |resource: Option<&str>| QmgrCommand {
        verb: Verb::Unset,
        target: queue("workq"),
        edits: vec![Edit {
            key: AttributeKey {
                attribute: "resources_max".to_string(),
                resource: resource.map(str::to_string),
            },
            op: Op::Set,
            value: String::new(),
        }],
    };
    site.overrides = site
        .overrides
        .with(&command(Some("mem")), &site.file)
        .unwrap();
    assert_eq!(
        site.config().queues[0].most.keys().collect::<Vec<_>>(),
        ["ncpus"]
    );
    site.overrides = site.overrides.with(&command(None), &site.file).unwrap();
    assert!(site.config().queues[0].most.is_empty());
}

/// An override that no longer fits the file is reported, and does not prevent other overrides.
#[test]
fn a_conflicting_override_does_not_prevent_other_overrides() {
    let mut site = Site::of("[[resource]]\nname = \"lic\"\ntype = \"long\"\n");
    site.set(queue("workq"), &["resources_max.lic=4"]).unwrap();
    site.file = Config::parse("").unwrap();
    site.set(queue("workq"), &["Priority=2"]).unwrap();
    let (config, conflicts) = site.file.with_overrides(&site.overrides);
    assert_eq!((config.queues[0].priority, conflicts.len()), (2, 1));
    assert!(site.set(queue("workq"), &["resources_max.lic=5"]).is_err());
}

#[test]
fn a_queue_type_may_be_abbreviated() {
    let mut site = Site::of("");
    for bad in ["queue_type=x", "queue_type=", "queue_type=executions"] {
        assert_eq!(refused(&mut site, queue("workq"), bad), REFUSED, "{bad}");
    }
    site.run(
        Verb::Create,
        queue("in"),
        &["queue_type=Rout", "route_destinations=workq"],
    )
    .unwrap();
    site.set(
        queue("in"),
        &[
            "route_retry_time=90",
            "route_lifetime=1:00:00",
            "acl_users=bob,ann",
        ],
    )
    .unwrap();
    let lines = site.shown(&queue("in"));
    for line in [
        "queue_type=Route",
        "route_destinations=workq",
        "route_retry_time=90",
        "route_lifetime=3600",
    ] {
        assert!(lines.iter().any(|known| known == line), "{line}: {lines:?}");
    }
    for line in ["acl_user_enable=False", "acl_users=bob,ann"] {
        assert!(lines.iter().any(|known| known == line), "{line}: {lines:?}");
    }
    assert!(
        !lines.iter().any(|line| line.starts_with("acl_host")),
        "{lines:?}"
    );
    for bad in [
        "route_lifetime=abc",
        "route_destinations=a b",
        "max_array_size=0",
        "acl_user_enable=x",
    ] {
        assert_eq!(refused(&mut site, queue("in"), bad), REFUSED, "{bad}");
    }
    assert_eq!(
        refused(&mut site, queue("in"), "queue_type=e"),
        REFUSED,
        "the queue has routing attributes"
    );
    site.set(queue("in"), &["route_lifetime=0"]).unwrap();
    let route = site
        .config()
        .queues()
        .into_iter()
        .find_map(|queue| queue.route)
        .unwrap();
    assert_eq!(
        (route.lifetime, route.retry_time),
        (None, Some(Span::seconds(90)))
    );
}

#[test]
fn the_server_displays_its_attributes() {
    let mut site = Site::of("");
    site.set(
        QmgrObject::Server,
        &[
            "job_sort_formula=eligible_time * 2",
            "managers=bob@*,ann",
            "log_events=511",
        ],
    )
    .unwrap();
    site.set(
        QmgrObject::Server,
        &[
            "query_other_jobs=1",
            "job_history_duration=10:00:00",
            "job_history_enable=t",
        ],
    )
    .unwrap();
    let lines = site.shown(&QmgrObject::Server);
    for line in [
        "job_sort_formula=eligible_time * 2",
        "managers=bob@*,ann",
        "log_events=511",
    ] {
        assert!(lines.iter().any(|known| known == line), "{line}: {lines:?}");
    }
    assert_eq!(site.config().server.history, Span::seconds(36_000));
    assert_eq!(
        refused(&mut site, QmgrObject::Server, "log_events=x"),
        REFUSED
    );
    site.run(
        Verb::Unset,
        QmgrObject::Server,
        &["job_sort_formula", "log_events"],
    )
    .unwrap();
    let lines = site.shown(&QmgrObject::Server);
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with("job_sort") || line.starts_with("log_events")),
        "{lines:?}"
    );
    let mut none = Site::of("[server]\nhistory = \"0s\"\n");
    none.set(QmgrObject::Server, &["job_history_enable=t"])
        .unwrap();
    assert_eq!(none.config().server.history, Span::seconds(90 * 24 * 3600));
}

#[test]
fn attributes_without_effect_are_recognized_and_the_display_order_is_fixed() {
    let known = |target: &QmgrObject, name: &str| attributes::known(target, name).unwrap().is_idle;
    assert!(known(&QmgrObject::Server, "log_events") && !known(&QmgrObject::Server, "comment"));
    assert!(!known(&QmgrObject::Server, "managers"));
    let place = |name: &str| attributes::place(&QmgrObject::Server, name);
    assert!(place("scheduling") < place("managers") && place("managers") < place("log_events"));
    assert_eq!((place("server_state"), place("nosuch")), (0, usize::MAX));
}

#[test]
fn a_node_displays_only_its_own_attributes() {
    let mut site = Site::of("[[node]]\nname = \"b\"\npriority = 3\n");
    let node = |name: &str| QmgrObject::Node(name.to_string());
    site.set(node("a"), &["max_running=2"]).unwrap();
    assert_eq!(
        site.shown(&node("a")),
        ["resv_enable=True", "max_running=2"]
    );
    assert_eq!(site.shown(&node("b")), ["Priority=3", "resv_enable=True"]);
}

#[test]
fn negative_amounts_are_refused_and_flags_decide_consumability() {
    let mut site = Site::of("");
    let own = |name: &str| QmgrObject::Resource(name.to_string());
    site.run(Verb::Create, own("load"), &["type=float"])
        .unwrap();
    site.run(Verb::Create, own("slots"), &["type=long"])
        .unwrap();
    site.run(Verb::Create, own("tag"), &["type=string", "flag=hn"])
        .unwrap();
    site.run(Verb::Create, own("share"), &["type=float", "flag=hn"])
        .unwrap();
    let resources = site.config().resources();
    let counted = ["load", "slots", "tag"].map(|name| resources.get(name).unwrap().consumable);
    assert_eq!(counted, [false; 3]);
    assert!(resources.get("share").unwrap().consumable);
    site.set(
        queue("workq"),
        &["resources_max.load=0.5", "resources_max.slots=0"],
    )
    .unwrap();
    for bad in [
        "resources_max.load=-0.5",
        "resources_max.slots=-1",
        "resources_max.ncpus=-1",
    ] {
        assert_eq!(refused(&mut site, queue("workq"), bad), REFUSED, "{bad}");
    }
    for bad in [["type=size", "flag=hn"], ["type=long", "flag=h"]] {
        assert!(
            site.run(Verb::Create, own("ngpus"), &bad).is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn an_empty_limit_is_removed() {
    let mut site = Site::of("");
    site.set(
        queue("workq"),
        &["max_run=[u:ann=3]", "max_run_soft=[u:ann=2]"],
    )
    .unwrap();
    site.run(Verb::Unset, queue("workq"), &["max_run"]).unwrap();
    let limits = site.config().policy.limits.all;
    assert_eq!(
        limits
            .iter()
            .map(|limit| (limit.soft, limit.hard))
            .collect::<Vec<_>>(),
        [(Some(2), None)]
    );
    site.run(Verb::Unset, queue("workq"), &["max_run_soft"])
        .unwrap();
    assert!(site.config().policy.limits.all.is_empty());
    assert_eq!(
        site.set(queue("workq"), &["max_run.mem=[u:ann=3]"]),
        Err(Refusal::undefined_attribute())
    );
}

#[test]
fn a_fixed_attribute_accepts_only_its_value() {
    let mut site = Site::of("");
    for text in ["resv_enable=True", "resv_enable=t", "resv_enable=1"] {
        site.set(QmgrObject::Server, &[text]).expect(text);
    }
    for text in ["resv_enable=False", "resv_enable=maybe", "resv_enable="] {
        assert_eq!(
            refused(&mut site, QmgrObject::Server, text),
            15029,
            "{text}"
        );
    }
    site.run(Verb::Unset, QmgrObject::Server, &["resv_enable"])
        .unwrap();
}

#[test]
fn limits_of_qmgr_replace_neither_limits_of_other_stages_nor_overriding_limits() {
    let mut site = Site::of("[[limit]]\nqos = \"high\"\nrunning = { jobs = 9 }\noverride = true\n");
    site.set(
        QmgrObject::Server,
        &["max_run=[u:PBS_GENERIC=1]", "max_queued=[u:PBS_GENERIC=2]"],
    )
    .unwrap();
    site.set(
        QmgrObject::Server,
        &[
            "max_run_res.ncpus=[u:PBS_GENERIC=3]",
            "max_run_soft=[u:PBS_GENERIC=4]",
        ],
    )
    .unwrap();
    site.set(QmgrObject::Server, &["max_run=[u:PBS_GENERIC=5]"])
        .unwrap();
    let config = site.config();
    let all = config
        .policy
        .limits
        .all
        .iter()
        .map(|limit| (limit.hard, limit.soft, limit.overrides))
        .collect::<Vec<_>>();
    let own = |hard, soft| (hard, soft, false);
    assert_eq!(
        all[0],
        (Some(9), None, true),
        "the overriding limit of the file remains"
    );
    assert_eq!(all.len(), 4, "{all:?}");
    for known in [
        own(Some(5), Some(4)),
        own(Some(2), None),
        own(Some(3), None),
    ] {
        assert!(all.contains(&known), "{known:?}: {all:?}");
    }
}

#[test]
fn overrides_are_found_by_object_attribute_and_resource() {
    let mut site = Site::of("");
    site.set(queue("workq"), &["resources_max.ncpus=4"])
        .unwrap();
    let key = |resource: &str| AttributeKey {
        attribute: "resources_max".into(),
        resource: Some(resource.into()),
    };
    assert!(site.overrides.sets(&queue("workq"), &key("ncpus")));
    assert!(
        !site.overrides.sets(&queue("workq"), &key("mem"))
            && !site.overrides.sets(&QmgrObject::Server, &key("ncpus"))
    );
}

#[test]
fn a_server_default_is_displayed_only_if_set() {
    let shown = |site: &Site, name: &str| {
        site.shown(&QmgrObject::Server)
            .iter()
            .any(|line| line.starts_with(name))
    };
    let mut site = Site::of("");
    for (name, text) in [
        ("backfill_depth", "backfill_depth=1"),
        ("job_history_duration", "job_history_duration=2160:00:00"),
    ] {
        assert!(!shown(&site, name), "{name}");
        site.set(QmgrObject::Server, &[text]).unwrap();
        assert!(shown(&site, name), "{name}");
    }
    let site = Site::of("[server]\nhistory = \"1d\"\n[backfill]\ndepth = 7\n");
    assert!(shown(&site, "backfill_depth=7") && shown(&site, "job_history_duration=24:00:00"));
}

#[test]
fn the_scheduler_shares_attributes_with_the_server() {
    let mut site = Site::of("");
    site.set(
        QmgrObject::Sched,
        &[
            "scheduling=False",
            "throughput_mode=t",
            "job_sort_formula_threshold=2",
        ],
    )
    .unwrap();
    let expected = [
        "throughput_mode=True",
        "scheduling=False",
        "scheduler_iteration=60",
        "job_sort_formula_threshold=2",
        "preempt_queue_prio=150",
        "preempt_prio=express_queue, normal_jobs",
        "preempt_order=R",
        "preempt_sort=min_time_since_start",
    ];
    assert_eq!(site.shown(&QmgrObject::Sched), expected);
    assert!(
        !site.config().cycle.scheduling && site.config().policy.precedence.threshold == Some(2.0)
    );
    assert!(
        site.overrides
            .sets(&QmgrObject::Server, &AttributeKey::plain("scheduling"))
    );
    site.set(QmgrObject::Server, &["scheduling=True"]).unwrap();
    assert!(
        site.shown(&QmgrObject::Sched)
            .contains(&"scheduling=True".to_string()),
        "both display the same attribute"
    );
    for (text, code) in [
        ("scheduler_iteration=0", REFUSED),
        ("throughput_mode=f", 15029),
        ("managers=ann", 15002),
    ] {
        assert_eq!(refused(&mut site, QmgrObject::Sched, text), code, "{text}");
    }
    site.run(
        Verb::Unset,
        QmgrObject::Sched,
        &["job_sort_formula_threshold"],
    )
    .unwrap();
    assert_eq!(site.config().policy.precedence.threshold, None);
}

#[test]
fn deleting_a_node_deletes_its_overrides() {
    let node = || QmgrObject::Node("n".to_string());
    let mut site = Site::of("[[node]]\nname = \"n\"\npriority = 3\n");
    site.set(node(), &["Priority=5"]).unwrap();
    site.run(Verb::Delete, node(), &[]).unwrap();
    assert_eq!(
        (
            site.overrides.clone(),
            site.config().nodes[0].terms.priority
        ),
        (QmgrOverrides::default(), 3)
    );
}
