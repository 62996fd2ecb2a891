//! Valid and invalid `lanai.toml` files, and the error messages.

use super::*;
use crate::model::account::charge::Weights;
use crate::model::account::decay::Decay;
use crate::model::job::response::{
    FailureRules, LimitAction, Missing, Response, Responses, Retries, StageIn,
};
use crate::model::resource::{ResourceType, ResourceValue};

fn refusal(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(Config::parse("").unwrap(), Config::default());
    assert_eq!(
        Config::parse("[server]\n[launch]\n[cycle]\n").unwrap(),
        Config::default()
    );
    let default = Config::default();
    assert_eq!(default.effective_policy(), Policy::default());
    assert_eq!(default.resources(), Resources::builtin());
    assert_eq!(default.queues().len(), 1);
    assert_eq!(default.queues()[0].name, "workq");
}

#[test]
fn the_settings_of_several_sections_are_read() {
    let config = Config::parse(
        r#"
        [server]
        name = "head"
        default_queue = "short"
        operators = ["ann@head", "*@desk"]
        managers = ["*"]
        history = "2d"
        workdir = "home"
        jobscript_max_size = "1mb"
        shared = true
        idle = "1h 30m"
        min_uid = 0
        [launch]
        login = false
        grace = "0s"
        [cycle]
        poll_interval = "5s"
        default_walltime = "1:00:00"
        [[queue]]
        name = "short"
        priority = -3
        enabled = false
        started = false
        backfill_depth = 2
        [[resource]]
        name = "scratch"
        type = "size"
        consumable = true
        host_level = true
        [[node]]
        name = "n1"
        socket = "/run/n1.sock"
        ncpus = 4
        mem = "8gb"
        scratch = "1tb"
        "#,
    )
    .unwrap();
    let server = &config.server;
    assert_eq!(
        (server.name.as_deref(), server.default_queue.as_str()),
        (Some("head"), "short")
    );
    assert_eq!(
        (server.history, server.idle),
        (Span::seconds(172_800), Span::seconds(5400))
    );
    assert_eq!(
        (server.workdir, server.shared, server.min_uid),
        (Workdir::Home, true, 0)
    );
    assert_eq!(server.jobscript_max_size.to_string(), "1mb");
    let launch = &config.launch;
    assert_eq!((launch.login, launch.grace), (Some(false), Span(0)));
    assert_eq!(config.cycle.poll_interval, Span::seconds(5));
    assert_eq!(
        config.effective_policy().default_walltime,
        Span::seconds(3600)
    );
    let stopped = Queue {
        enabled: false,
        started: false,
        ..Queue::named("short")
    };
    let short = Queue {
        priority: -3,
        has_priority: true,
        backfill_depth: Some(2),
        ..stopped
    };
    assert_eq!(config.queues(), vec![short]);
    let scratch = Definition {
        kind: ResourceType::Size,
        host_level: true,
        consumable: true,
        requestable: true,
    };
    assert_eq!(config.resources().get("scratch"), Some(&scratch));
    let node = &config.nodes[0];
    assert_eq!(
        node.socket.as_deref(),
        Some(std::path::Path::new("/run/n1.sock"))
    );
    assert_eq!(node.available.get("ncpus"), Some(&ResourceValue::Long(4)));
    assert_eq!(
        node.available
            .get("scratch")
            .map(ToString::to_string)
            .as_deref(),
        Some("1tb")
    );
}

fn response(action: LimitAction, after: i64) -> Response {
    Response {
        action,
        after: Span::seconds(after),
    }
}

#[test]
fn failure_responses_are_read() {
    let config = Config::parse(
        r#"
        [launch]
        max_failed_starts = 3
        retry = "1s"
        retry_max = "1m"
        overrun = "30s"
        walltime_action = "requeue"
        limits = { mem = "cancel after 5m", cput = "requeue" }
        start_timeout = "90s"
        stage_in = "wait"
        stage_in_retry = "5m"
        "#,
    )
    .unwrap();
    let launch = &config.launch;
    assert_eq!(launch.overrun, Span::seconds(30));
    let retries = Retries {
        most: 3,
        first: Span::seconds(1),
        longest: Span::seconds(60),
    };
    let limits = Responses {
        mem: response(LimitAction::Cancel, 300),
        cput: response(LimitAction::Requeue, 0),
        ..Default::default()
    };
    let stage_in = StageIn {
        missing: Missing::Wait,
        retry: Span::seconds(300),
    };
    let expected = FailureRules {
        retries,
        walltime: LimitAction::Requeue,
        limits,
        stage_in,
        ..FailureRules::default()
    };
    assert_eq!(launch.rules, expected);
    assert_eq!(launch.start_timeout, Some(Span::seconds(90)));
}

#[test]
fn failure_responses_default_to_the_preset() {
    let launch = |text| Config::parse(text).unwrap().launch;
    assert_eq!(launch("preset = \"maui\"\n").rules.retries, Retries::MAUI);
    let own = launch("preset = \"maui\"\n[launch]\nretry = \"5m\"\nstart_timeout = \"none\"\n");
    assert_eq!(
        (own.rules.retries.first, own.rules.retries.most),
        (Span::seconds(300), 24)
    );
    assert_eq!(own.start_timeout, None);
    let limits =
        launch("[launch]\nlimits = { vmem = \"requeue after 0:01:00\", pmem = \"requeue\" }\n")
            .rules
            .limits;
    assert_eq!(
        (limits.vmem, limits.pmem),
        (
            response(LimitAction::Requeue, 60),
            response(LimitAction::Requeue, 0)
        )
    );
    for bad in [
        "limits = { file = \"cancel\" }",
        "limits = { mem = \"kill\" }",
        "limits = { mem = \"cancel after\" }",
        "limits = { mem = \"cancel after soon\" }",
        "limits = \"cancel\"",
        "walltime_action = \"suspend\"",
        "start_timeout = \"0s\"",
        "retry_max = \"0s\"",
    ] {
        let key = bad.split(' ').next().unwrap();
        assert!(
            refusal(&format!("[launch]\n{bad}\n")).starts_with("line 2: `"),
            "{bad}"
        );
        assert!(
            refusal(&format!("[launch]\n{bad}\n")).contains(&format!("`{key}`")),
            "{bad}"
        );
    }
}

#[test]
fn gpus_can_be_selected_ordered_and_excluded() {
    let config = "[launch]\ngpu_tool = \"/opt/smi\"\ngpu_look = \"5s\"\n\
                  [[node]]\nname = \"n1\"\ngpus = [3, 1, 0]\nexclude_gpus = [1]\n\
                  [[node]]\nname = \"n2\"\nexclude_gpus = [0]\n";
    let config = Config::parse(config).unwrap();
    assert_eq!(config.launch.gpu_tool, std::path::Path::new("/opt/smi"));
    assert_eq!(config.launch.gpu_look, Span::seconds(5));
    assert_eq!(
        (config.nodes[0].gpus(&[0, 1]), config.nodes[1].gpus(&[0, 1])),
        (vec![3, 0], vec![1])
    );
    let twice = Config::parse("[[node]]\nname = \"n1\"\ngpus = [1, 1]\n")
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("gpus") && twice.contains("distinct"),
        "{twice}"
    );
}

#[test]
fn operators_may_be_limited_to_a_host() {
    let config =
        Config::parse("[server]\noperators = [\"ann@head\", \"bob\", \"*@desk\"]").unwrap();
    let is_operator = |user, host| {
        config
            .server
            .operators
            .iter()
            .any(|person| person.is(user, host))
    };
    assert!(is_operator("ann", "head") && !is_operator("ann", "hut"));
    assert!(is_operator("bob", "hut") && is_operator("eve", "desk") && !is_operator("eve", "hut"));
    assert_eq!(config.server.operators[0].to_string(), "ann@head");
}

#[test]
fn an_unknown_key_is_reported_with_its_line_and_the_nearest_key() {
    let cases = [
        (
            "[sevrer]\n",
            "line 1: unknown key `sevrer`; the nearest known name is `server`",
        ),
        (
            "[server]\nname = \"a\"\ndefualt_queue = \"x\"\n",
            "line 3: unknown key `defualt_queue` in [server]; the nearest known name is `default_queue`",
        ),
        (
            "\n[[queue]]\nname = \"a\"\nenable = true\n",
            "line 4: unknown key `enable` in [[queue]]; the nearest known name is `enabled`",
        ),
        (
            "[[node]]\nname = \"a\"\nncpu = 4\n",
            "line 3: unknown key `ncpu` in [[node]]; the nearest known name is `ncpus`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn an_invalid_value_is_reported_with_its_line_and_valid_values() {
    let cases = [
        (
            "[server]\nhistory = 90",
            "line 2: `history` in [server] must be a time, such as \"90d\", not 90",
        ),
        (
            "[launch]\nprologue = \"p\"",
            "line 2: `prologue` in [launch] must be the absolute path of a program, not \"p\"",
        ),
        (
            "[server]\nmin_uid = -1",
            "line 2: `min_uid` in [server] must be a user id of at least 0, not -1",
        ),
        (
            "[launch]\nlogin = \"yes\"",
            "line 2: `login` in [launch] must be true or false, not \"yes\"",
        ),
        (
            "[backfill]\norder = \"best\"",
            "line 2: `order` in [backfill] must be \"priority\" or \"shortest\", not \"best\"",
        ),
        (
            "[[node]]\nname = \"a\"\nmem = \"much\"",
            "line 3: `mem` in [[node]] must be a size, such as \"8gb\", not \"much\"",
        ),
        (
            "[[node]]\nname = \"a\"\nncpus = -2",
            "line 3: `ncpus` in [[node]] must be a whole number of at least 0, not -2",
        ),
        (
            "[queue]\nname = \"a\"",
            "line 1: `queue` must be a list of tables: write [[queue]]",
        ),
        (
            "[[server]]",
            "line 1: `server` must be a single table: write [server]",
        ),
        (
            "[[resource]]\nname = \"ncpus\"\ntype = \"long\"",
            "line 2: `ncpus` is built in: choose another name",
        ),
        (
            "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"a\"",
            "line 4: there are two [[queue]] named `a`: remove one or rename it",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn unusable_values_are_refused() {
    let script = "[server]\njobscript_max_size = \"17mb\"";
    let queue = "[[queue]]\nname = \"a_name_of_sixteen\"";
    let poll = "[cycle]\npoll_interval = \"0s\"";
    let counted = "[[resource]]\nname = \"f\"\ntype = \"string\"\nconsumable = true";
    let global =
        "[[resource]]\nname = \"l\"\ntype = \"long\"\nconsumable = true\nhost_level = false";
    let socket = "[[node]]\nname = \"a\"\nsocket = \"n1.sock\"";
    let nameless = "[[node]]\nncpus = 1";
    let identity = "[[node]]\nname = \"a\"\nvnode = \"b\"";
    for text in [
        script,
        queue,
        poll,
        counted,
        global,
        socket,
        nameless,
        identity,
        "[server",
        "a = 1\na = 2",
    ] {
        assert!(refusal(text).starts_with("line "), "{text}");
    }
    assert!(refusal("[server]\nshared = true\nshared = true").starts_with("line 3: duplicate key"));
    assert!(refusal("[server]\nhistory = \"99999999999y\"").contains("`history`"));
}

#[test]
fn usage_settings_default_to_the_preset() {
    let usage = |text: &str| Config::parse(text).unwrap().effective_policy().usage;
    let week = Decay::WEEK;
    for (preset, decay) in [
        ("hybrid", Decay::Continuous { half_life: week }),
        ("flux", Decay::Continuous { half_life: week }),
        ("it4i", Decay::Step { half_life: week }),
        (
            "maui",
            Decay::Window {
                length: Span::seconds(24 * 3600),
                count: 7,
                factor: 1.0,
            },
        ),
        ("qube", Decay::None),
        ("ytsaurus", Decay::None),
    ] {
        assert_eq!(
            usage(&format!("preset = \"{preset}\"\n[usage]\n")).decay,
            decay,
            "{preset}"
        );
    }
    let own = usage(
        "preset = \"it4i\"\n[usage]\nhalf_life = \"24h\"\nreset = \"30d\"\nweights = { gpus = 10, mem = 0.25 }\n",
    );
    let expected = crate::model::account::charge::UsageRules {
        decay: Decay::Step {
            half_life: Span::seconds(24 * 3600),
        },
        reset: Some(Span::seconds(30 * 24 * 3600)),
        weights: Weights {
            gpus: 10.0,
            mem: 0.25,
            ..Weights::default()
        },
    };
    assert_eq!(own, expected);
    let site = "resource = [{ name = \"power\", type = \"long\", consumable = true }]\n[usage]\nweights = ";
    let weights = usage(&format!("{site}{{ power = 0.01 }}\n")).weights;
    assert_eq!(
        (weights.resources["power"], weights.cores),
        (0.01, 1.0),
        "F13"
    );
    for (given, expected) in [
        ("{ watts = 1 }", "unknown key `watts` in [usage.weights]"),
        ("{ ncpus = 1 }", "unknown key `ncpus` in [usage.weights]"),
        (
            "{ cores = -1 }",
            "`cores` in [usage.weights] must be a number from 0 to 1e9, not -1",
        ),
        ("{ cores = inf }", "must be a number from 0 to 1e9, not inf"),
        ("{ power = -1 }", "must be a number from 0 to 1e9, not -1"),
    ] {
        let error = Config::parse(&format!("{site}{given}\n"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let window = usage(
        "[usage]\ndecay = \"window\"\nwindow = \"1h\"\nwindows = 4\nfactor = 0.5\nreset = \"never\"\n",
    );
    assert_eq!(
        window.decay,
        Decay::Window {
            length: Span::seconds(3600),
            count: 4,
            factor: 0.5
        }
    );
    let queue = &Config::parse("[[queue]]\nname = \"qexp\"\ncharge = false\n")
        .unwrap()
        .queues()[0];
    assert!(
        queue.charge == 0.0 && Queue::named("workq").charge == 1.0,
        "I5"
    );
    for bad in [
        "half_life = \"0s\"",
        "windows = 0",
        "windows = 1001",
        "factor = 1.5",
        "factor = -1",
        "reset = \"0s\"",
        "weights = 1",
        "decay = \"linear\"",
    ] {
        let key = bad.split(' ').next().unwrap();
        let text = format!("[usage]\n{bad}\n");
        assert!(
            refusal(&text).starts_with("line 2: ") && refusal(&text).contains(&format!("`{key}`")),
            "{bad}"
        );
    }
}
