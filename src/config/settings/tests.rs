//! The effective settings are complete, have their origins, and are read back unchanged.

use super::*;
use crate::config::sections::listed;
use crate::model::policy::Preset;
use std::collections::BTreeSet;

fn written(text: &str) -> String {
    Written(&effective(
        &Config::parse(text).unwrap(),
        text,
        &QmgrOverrides::default(),
    ))
    .to_string()
}

#[test]
fn written_settings_are_read_back_unchanged() {
    let mut texts: Vec<String> = Preset::ALL
        .iter()
        .map(|(name, _)| format!("preset = \"{name}\""))
        .collect();
    texts.push(
        r#"
        [order]
        by = "formula"
        formula = "ncpus"
        formula_threshold = -1.5
        update_period = "1500ms"
        weights = { slowdown = 7 }
        [usage]
        decay = "window"
        windows = 3
        reset = "365d"
        [backfill]
        depth = "all"
        chunk_size = 4
        chunk_duration = "5m"
        groups = [{ qos = ["high"], depth = 2 }]
        [placement]
        availability = { default = "combined", mem = "dedicated" }
        rank = "host.name eq \"n1\""
        program = "/opt/choose"
        sets = { choice = "oneof", by = "switch", values = ["a"], delay = "10m" }
        "#
        .to_string(),
    );
    for text in texts {
        let (config, again) = (Config::parse(&text).unwrap(), written(&text));
        let read = Config::parse(&again).unwrap_or_else(|error| panic!("{error}\n{again}"));
        assert_eq!(
            (read.effective_policy(), read.cycle, read.server),
            (config.effective_policy(), config.cycle, config.server),
            "{again}"
        );
    }
}

#[test]
fn queues_limits_and_resources_are_written_with_their_origins() {
    use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
    use crate::config::overrides::{AttributeKey, QmgrObject};
    let text = "[[resource]]\nname = \"lic\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 3\n\
                [[queue]]\nname = \"fast\"\npriority = 4\nacl_users = [\"ann\"]\nroute_destinations = [\"workq\"]\n\
                factor = 0.5\nresources_max = { walltime = \"1:00:00\", mem = \"2gb\" }\n\
                [[limit]]\nuser = \"*\"\nrunning = { jobs = 4, mem = \"1gb\" }\nrunning_soft = { jobs = 2 }\n\
                [[limit]]\nqos = \"high\"\nidle = { jobs = 1 }\noverride = true\n";
    let file = Config::parse(text).unwrap();
    let edit = |attribute: &str, value: &str| Edit {
        key: AttributeKey::plain(attribute),
        op: Op::Set,
        value: value.to_string(),
    };
    let edits = vec![edit("max_run", "[u:bob=7]"), edit("Priority", "5")];
    let command = QmgrCommand {
        verb: Verb::Set,
        target: QmgrObject::Queue("fast".into()),
        edits,
    };
    let overrides = QmgrOverrides::default().with(&command, &file).unwrap();
    let (config, _) = file.with_overrides(&overrides);
    let again = Written(&effective(&config, text, &overrides)).to_string();
    let read = Config::parse(&again).unwrap_or_else(|error| panic!("{error}\n{again}"));
    assert_eq!(
        (read.queues(), read.effective_policy(), read.pools.clone()),
        (config.queues(), config.effective_policy(), config.pools)
    );
    let remark = |line: &str| {
        again
            .lines()
            .find(|known| known.starts_with(line))
            .and_then(|line| line.split("# ").nth(1))
    };
    assert_eq!(
        (remark("priority = 5"), remark("factor = 0.5")),
        (Some("qmgr"), Some("line 12")),
        "{again}"
    );
    assert_eq!(
        (remark("running_soft"), remark("total = 3")),
        (Some("line 17"), Some("line 6")),
        "{again}"
    );
    assert_eq!(
        (remark("user = \"bob\""), remark("idle = {")),
        (Some("qmgr"), Some("line 20")),
        "{again}"
    );
}

/// Every key of the sections that `every_key_is_written_with_its_line` checks.
const ALL_KEYS: &str = r#"
    [launch]
    login = false
    environment = "submission"
    grace = "5s"
    overrun = "1m"
    walltime_action = "requeue"
    limits = { mem = "cancel after 5m", cput = "requeue" }
    start_timeout = "none"
    staging_timeout = "20m"
    max_processes = 100
    max_failed_starts = 3
    retry = "2m"
    retry_max = "3h"
    stage_in = "wait"
    stage_in_retry = "5m"
    gpu_tool = "none"
    gpu_look = "1m"
    prologue = "/site/before"
    epilogue = "/site/after"
    script_timeout = "40s"
    checkpoint = "/site/checkpoint"
    checkpoint_timeout = "90s"
    checkpoint_path = "/site/checkpoints"
    [primetime]
    days = ["mon", "fri"]
    from = "6h"
    to = "18:30:00"
    cross = false
    [[node]]
    name = "n1"
    socket = "/run/n1.sock"
    gpus = [1, 0]
    exclude_gpus = [0]
    sharing = "force_excl"
    access = "singleuser"
    max_jobs = 4
    max_user_jobs = 2
    max_load = 1.001
    adjust = "procs"
    cluster = "/film"
    groups = ["gpu"]
    restrictions = "/film/+ || /promo"
    priority = -3
    ncpus = 8
    mem = "4gb"
    [[node]]
    name = "n2"
    max_running = 7
    max_user_run = 6
    [[qos]]
    name = "high"
    factor = 0.75
    users = []
    groups = ["staff"]
    accounts = ["physics"]
    queues = ["workq"]
    exempt = true
    priority = 4
    flags = ["NOBF", "USERESERVED:night"]
    default_for = { queues = ["night"] }
    charge = 0.5
    [[account]]
    name = "physics"
    shares = 40
    target = "25+"
    users = { ann = 2, bob = 0.5, eve = "parent" }
    [[account]]
    name = "crystals"
    parent = "physics"
    shares = "parent"
    guarantee = { ncpus = 4, mem = "1gb" }
    max_share = 0.5
    mode = "fifo"
    fifo_sort = ["weight", "pending_job_count"]
    tolerance = 0.7
    starvation_timeout = "1m"
    aggressive_starvation_timeout = "3m"
    enable_aggressive_starvation = true
    allow_aggressive_preemption = false
    aggressive_preemption_threshold = 0.25
    preemption_threshold = 1.5
    non_preemptible_threshold = { ncpus = 3 }
    [preemption.starvation]
    tolerance = 0.9
    timeout = "40s"
    aggressive_timeout = "4m"
    enable_aggressive = true
    allow_aggressive = false
    aggressive_threshold = 0.3
    preemption_threshold = 1.1
    boundary = "keep"
    non_preemptible_threshold = { ncpus = 2 }
    backoff = "3s"
    update_period = "2s"
    [[reservation]]
    name = "office"
    nodes = ["n1"]
    period = "day"
    start = "8h"
    end = "17:00:00"
    days = ["mon", "fri"]
    depth = 3
    users = ["john"]
    groups = ["staff"]
    projects = ["x"]
    accounts = ["physics"]
    queues = ["workq"]
    qos = ["high"]
    duration = "1h"
    time_limit = "2h"
    time_limit_for = "all"
    flags = ["byname", "ownerpreempt"]
    [[reservation]]
    name = "night"
    select = "2:ncpus=4"
    from = "2026-01-01 10:00"
    to = "2026-01-02 12:00:30"
    [[dedicated]]
    from = "2026-02-01 10:00"
    to = "2026-02-02 12:00"
    "#;

#[test]
fn every_key_is_written_with_its_line() {
    let config = Config::parse(ALL_KEYS).unwrap();
    let settings = effective(&config, ALL_KEYS, &QmgrOverrides::default());
    let line = |setting: &&KeySetting| matches!(setting.origin, SettingOrigin::Line(_));
    let with_lines: BTreeSet<(&str, &str)> = settings
        .iter()
        .filter(line)
        .map(|setting| (setting.section, &*setting.key))
        .collect();
    let sections = [
        "launch",
        "primetime",
        "node",
        "qos",
        "account",
        "preemption.starvation",
        "reservation",
        "dedicated",
    ];
    for one in listed() {
        let (section, keys) = (one.name, one.names());
        if !sections.contains(&section) {
            continue;
        }
        // A key with an alias is written under the main name only.
        let own = keys
            .iter()
            .filter(|key| !["max_running", "max_user_run"].contains(key));
        let missing: Vec<_> = own
            .filter(|key| !with_lines.contains(&(section, *key)))
            .collect();
        assert!(missing.is_empty(), "[{section}] {missing:?}");
    }
    assert!(with_lines.contains(&("node", "ncpus")) && with_lines.contains(&("node", "mem")));
    let again = Written(&settings).to_string();
    let read = Config::parse(&again).unwrap_or_else(|error| panic!("{error}\n{again}"));
    let config = Config {
        queues: config.configured_queues(),
        ..config
    };
    assert_eq!(read, config, "{again}");
}

#[test]
fn default_qualities_of_service_are_commented_out() {
    let output = written("");
    assert!(
        output.contains("\n# [[qos]]\n# name = \"expedite\"  "),
        "{output}"
    );
    let output = written("[[qos]]\nname = \"high\"\n");
    assert!(
        output.contains("\n[[qos]]\nname = \"high\"  ")
            && output.contains("\n# name = \"normal\"  "),
        "{output}"
    );
}

#[test]
fn node_settings_of_qmgr_and_of_the_file_are_distinguished() {
    use crate::config::overrides::AttributeKey;
    use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
    let text = "[[node]]\nname = \"n1\"\npriority = 3\nmem = \"4gb\"\n";
    let file = Config::parse(text).unwrap();
    let edit = |attribute: &str, resource: Option<&str>, value: &str| Edit {
        key: AttributeKey {
            attribute: attribute.to_string(),
            resource: resource.map(str::to_string),
        },
        op: Op::Set,
        value: value.to_string(),
    };
    let edits = vec![
        edit("max_running", None, "2"),
        edit("resources_available", Some("ncpus"), "4"),
    ];
    let command = |name: &str| QmgrCommand {
        verb: Verb::Set,
        target: QmgrObject::Node(name.into()),
        edits: edits.clone(),
    };
    let overrides = QmgrOverrides::default()
        .with(&command("n1"), &file)
        .unwrap()
        .with(&command("n2"), &file)
        .unwrap();
    let output = Written(&effective(
        &file.with_overrides(&overrides).0,
        text,
        &overrides,
    ))
    .to_string();
    let (first, second) = output
        .split_once("\n[[node]]\n")
        .unwrap()
        .1
        .split_once("\n[[node]]\n")
        .unwrap();
    let remark = |part: &str, key: &str| {
        let line = part
            .lines()
            .find(|line| line.starts_with(&format!("{key} = ")))
            .unwrap_or_else(|| panic!("{key}: {part}"));
        line.split("  # ").nth(1).map(str::to_string)
    };
    let origin = |text: &str| Some(text.to_string());
    assert_eq!(
        (remark(first, "name"), remark(first, "max_jobs")),
        (origin("line 2"), origin("qmgr"))
    );
    assert_eq!(
        (remark(first, "mem"), remark(first, "ncpus")),
        (origin("line 4"), origin("qmgr"))
    );
    assert_eq!(
        (remark(first, "priority"), remark(first, "adjust")),
        (origin("line 3"), origin("preset"))
    );
    assert_eq!(
        (remark(second, "name"), remark(second, "ncpus")),
        (origin("qmgr"), origin("qmgr"))
    );
}

#[test]
fn values_are_written_with_their_origins() {
    let text = "preset = \"it4i\"\n\n[order]\naccrual = \"always\"\n[order.weights]\nqos = 3\n";
    let output = written(text);
    let remark = |key: &str| {
        output
            .lines()
            .find(|line| line.starts_with(key))
            .unwrap_or(&output)
            .split("  #")
            .nth(1)
    };
    assert_eq!(remark("preset ="), Some(" line 1"));
    assert_eq!(remark("accrual ="), Some(" line 4"));
    assert_eq!(
        (remark("qos = 3"), remark("queue =")),
        (Some(" line 6"), Some(" preset"))
    );
    assert!(
        output.contains("\npoll_interval = \"10m\"  ") && output.contains("\n# rank is not set\n"),
        "{output}"
    );
}
