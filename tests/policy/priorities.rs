//! Priority settings of single jobs by users and administrators, on a live system: permissions,
//! messages and persistence.

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Done, Sandbox, refused};
use std::time::{Duration, Instant};

/// Asserts that the command succeeded and printed one warning with this text.
#[track_caller]
fn assert_warned(done: &Done, text: &str) {
    assert!(
        done.code == 0 && done.err.contains(text) && done.err.lines().count() == 1,
        "{text:?}: {done:?}"
    );
}

/// F4: the quality of service `expedite` is for operators and managers.
#[test]
fn expedite_is_refused_without_a_grant() {
    let Some([ann, bob]) = two_users("qos") else {
        return;
    };
    let sandbox = shared(&format!("operators = [\"{}\"]\n", bob.name));
    let denied = "qos_denied: quality of service `expedite` is for operators and managers; available to you: normal, standby";
    refused(
        ann.run(
            &sandbox,
            "qsub",
            &["-h", "-W", "qos=expedite", "--", "true"],
        ),
        159,
        denied,
    );
    let anns = ann
        .run(&sandbox, "qsub", &["-h", "-W", "qos=standby", "--", "true"])
        .line();
    refused(
        ann.run(&sandbox, "qalter", &["-W", "qos=expedite", &anns]),
        159,
        denied,
    );
    bob.run(&sandbox, "qalter", &["-W", "qos=expedite", &anns])
        .ok();
    assert_eq!(sandbox.job(&anns)["qos"], "expedite");
    let bobs = bob
        .run(
            &sandbox,
            "qsub",
            &["-h", "-W", "qos=expedite", "--", "true"],
        )
        .line();
    assert_eq!(sandbox.job(&bobs)["qos"], "expedite");
}

/// F4: membership in a group is decided by the system's group database.
#[test]
fn a_quality_of_service_for_a_group_is_limited_to_its_members() {
    let Some([ann, bob]) = two_users("grp") else {
        return;
    };
    let own = format!("{}x", ann.name);
    let sandbox = shared(&format!(
        "[[qos]]\nname = \"urgent\"\nfactor = 1\ngroups = [\"{own}\"]\n"
    ));
    let arguments = ["-h", "-W", "qos=urgent", "--", "true"];
    let id = ann.run(&sandbox, "qsub", &arguments).line();
    assert_eq!(sandbox.job(&id)["qos"], "urgent");
    refused(
        bob.run(&sandbox, "qsub", &arguments),
        159,
        &format!("is for groups {own}, operators and managers"),
    );
    refused(
        bob.run(&sandbox, "qsub", &["-W", "qos=nosuch", "--", "true"]),
        166,
        "available to you: normal",
    );
}

/// F7: only the owner sets the user factor, and it only lowers the priority.
#[test]
fn only_the_owner_sets_the_user_factor() {
    let Some([ann, bob]) = two_users("fac") else {
        return;
    };
    let sandbox = shared("");
    let id = ann
        .run(
            &sandbox,
            "qsub",
            &["-h", "--user-factor", ".5", "--", "true"],
        )
        .line();
    assert_eq!(sandbox.job(&id)["user_factor"], 0.5);
    refused(
        bob.run(&sandbox, "qalter", &["--user-factor", ".2", &id]),
        159,
        "Unauthorized Request",
    );
    for (person, program, rest) in [
        (&ann, "qalter", &[id.as_str()][..]),
        (&ann, "qsub", &["--", "true"]),
    ] {
        let done = person.run(
            &sandbox,
            program,
            &[&["--user-factor", "1.5"], rest].concat(),
        );
        refused(
            &done,
            166,
            "user_factor: the factor lowers the priority: give a number from 0 to 1",
        );
    }
    ann.run(&sandbox, "qalter", &["--user-factor=.2", &id]).ok();
    assert_eq!(sandbox.job(&id)["user_factor"], 0.2);
    let shown = sandbox.run("qstat", &["-f", &id]).ok();
    assert!(shown.contains("\n    user_factor = 0.2\n"), "{shown}");
    ann.run(&sandbox, "qalter", &["--user-factor", "1", &id])
        .ok();
    assert!(
        sandbox.job(&id)["user_factor"].is_null(),
        "factor 1 is the default and is not shown"
    );
    let id = ann.submit(&sandbox, &["-h"], "#PBS --user-factor .3\ntrue\n");
    assert_eq!(sandbox.job(&id)["user_factor"], 0.3);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    assert_eq!(sandbox.job(&id)["user_factor"], 0.3);
}

/// X22: a priority above the maximum is clamped with a warning.
#[test]
fn a_priority_above_the_maximum_is_lowered_with_a_warning() {
    let Some([ann, bob]) = two_users("pri") else {
        return;
    };
    let sandbox = shared(&format!("operators = [\"{}\"]\n", bob.name));
    let done = ann.run(&sandbox, "qsub", &["-h", "-p", "5", "--", "true"]);
    assert_warned(
        &done,
        "qsub: warning: only operators may set priority 5: the priority is 0 because of [order] user_priority = \"lower_only\"",
    );
    let id = done.out.trim().to_string();
    assert_eq!(sandbox.job(&id)["Priority"], 0);
    let lowered = ann.run(&sandbox, "qalter", &["-p", "-5", &id]);
    assert!(lowered.err.is_empty() && lowered.code == 0, "{lowered:?}");
    assert_warned(
        &ann.run(&sandbox, "qalter", &["-p", "7", &id]),
        "qalter: warning: only operators may set priority 7: the priority is 0",
    );
    let raised = bob.run(&sandbox, "qalter", &["-p", "7", &id]);
    assert!(raised.err.is_empty() && raised.code == 0, "{raised:?}");
    assert_eq!(sandbox.job(&id)["Priority"], 7);
}

/// Q18: the server decides which priorities are valid. The owner of a personal installation is its
/// operator.
#[test]
fn with_lowest_is_best_priorities_range_from_1_to_9999() {
    let sandbox = Sandbox::configured("[order]\nlowest_is_best = true\n");
    let id = sandbox.submit(&["-h"], "true\n");
    assert_eq!(sandbox.job(&id)["Priority"], 9999);
    let id = sandbox.submit(&["-h", "-p", "5000"], "true\n");
    assert_eq!(sandbox.job(&id)["Priority"], 5000);
    for wrong in ["0", "-5", "10000"] {
        refused(
            sandbox.run("qsub", &["-h", "-p", wrong, "--", "true"]),
            2,
            "qsub: illegal -p value\nqsub: -p ",
        );
        refused(
            sandbox.run("qalter", &["-p", wrong, &id]),
            2,
            "qalter: illegal -p value\nqalter: -p ",
        );
    }
    assert_eq!(sandbox.job(&id)["Priority"], 5000);
}

/// Displayed eligible time in seconds.
fn seconds(sandbox: &Sandbox, id: &str) -> f64 {
    let text = sandbox.job(id)["eligible_time"]
        .as_str()
        .unwrap()
        .to_string();
    text.split(':')
        .fold(0.0, |sum, part| 60.0 * sum + part.parse::<f64>().unwrap())
}

/// I6: an operator sets the eligible time; it continues to count from there.
#[test]
fn the_eligible_time_set_by_an_operator_continues_and_survives_restarts() {
    let sandbox = Sandbox::configured("[server]\nrefuse_impossible = false\n");
    let waiting = sandbox.submit(&["-l", "ncpus=100000"], "true\n");
    let held = sandbox.submit(&["-h"], "true\n");
    let set_at = Instant::now();
    sandbox
        .run("qalter", &["-W", "eligible_time=1:00:00", &waiting, &held])
        .ok();
    std::thread::sleep(Duration::from_millis(2200));
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let shown = seconds(&sandbox, &waiting);
    let max = 3600.0 + set_at.elapsed().as_secs_f64();
    assert!((3602.0..=max).contains(&shown), "3602 <= {shown} <= {max}");
    assert_eq!(seconds(&sandbox, &held), 3600.0);
    refused(
        sandbox.run("qalter", &["-W", "eligible_time=x", &held]),
        166,
        "eligible_time",
    );
    let given = sandbox.submit(&["-h", "-W", "eligible_time=90"], "true\n");
    assert_eq!(seconds(&sandbox, &given), 90.0);
    sandbox.run("qrls", &[&held]).ok();
    sandbox.ended(&held);
    assert!(
        seconds(&sandbox, &held) >= 3600.0,
        "a released job keeps its eligible time"
    );
}

/// I6: as in PBS, the eligible time can be changed while the job runs.
#[test]
fn operators_but_not_owners_set_the_eligible_time_of_a_running_job() {
    let Some([ann, _]) = two_users("elig") else {
        return;
    };
    let sandbox = shared("");
    let id = ann.submit(&sandbox, &[], "sleep 60");
    sandbox.running(&id);
    let denied = "Cannot set attribute, read only or insufficient permission  eligible_time";
    refused(
        ann.run(&sandbox, "qalter", &["-W", "eligible_time=1:00:00", &id]),
        155,
        denied,
    );
    sandbox
        .run("qalter", &["-W", "eligible_time=1:00:00", &id])
        .ok();
    assert_eq!(sandbox.job(&id)["eligible_time"], "01:00:00");
}

/// X18: in the default order the ratio of wait to walltime precedes the order set by `qorder`.
#[test]
fn an_ineffective_qorder_is_reported() {
    let sandbox = Sandbox::configured("[server]\nrefuse_impossible = false\n");
    sandbox.run("schedd", &[]).ok();
    let [short, long] = ["0:01:00", "9:00:00"].map(|walltime| {
        sandbox.submit(
            &[
                "-l",
                "select=1:ncpus=1:vnode=nowhere",
                "-l",
                &format!("walltime={walltime}"),
            ],
            "true\n",
        )
    });
    let hint = format!(
        "qorder affects only jobs of equal priority (qstat --priority); qalter --user-factor=0.5 {short}"
    );
    for jobs in [[&short, &long], [&long, &short]] {
        sandbox.until("a warning", || {
            let done = sandbox.run("qorder", &[jobs[0], jobs[1]]);
            done.err
                .contains(&format!("qorder: warning: {short} still starts first"))
                .then(|| assert_warned(&done, &hint))
        });
    }
}

/// X18: ordered by priority, `-p` is the hint. With a site formula there is no hint.
#[test]
fn an_ineffective_qorder_is_reported_with_a_hint() {
    for (order, hint) in [
        (
            "by = \"priority\"\nuser_priority = \"free\"",
            "; qalter -p changes the priority",
        ),
        ("by = \"formula\"\nformula = \"walltime\"", ""),
    ] {
        let sandbox = Sandbox::configured(&format!(
            "[server]\nrefuse_impossible = false\n[order]\n{order}\n"
        ));
        let [low, high] = [("1", "0:01:00"), ("2", "9:00:00")].map(|(priority, walltime)| {
            let nowhere = ["-l", "select=1:ncpus=1:vnode=nowhere"];
            sandbox.submit(
                &[
                    &nowhere,
                    &["-p", priority, "-l", &format!("walltime={walltime}")][..],
                ]
                .concat(),
                "true\n",
            )
        });
        let hint = format!("of equal priority (qstat --priority){hint}\n");
        sandbox.until("a warning", || {
            let done = sandbox.run("qorder", &[&low, &high]);
            done.err
                .contains(&format!("qorder: warning: {high} still starts first"))
                .then(|| assert_warned(&done, &hint))
        });
    }
}

/// F18: `qstat --priority` shows the effect of a change at once.
#[test]
fn a_changed_user_factor_is_shown_at_once() {
    let sandbox = Sandbox::configured("[server]\nrefuse_impossible = false\n");
    sandbox.run("schedd", &[]).ok();
    let id = sandbox.submit(&["-l", "select=1:ncpus=1:vnode=nowhere"], "true\n");
    for factor in ["0.25", "0.5", "0.75"] {
        let is_shown = |out: &str| out.contains(&format!(" {factor} ")) && out.contains("  user ");
        sandbox.run("qstat", &["--priority", &id]).ok();
        sandbox.run("qalter", &["--user-factor", factor, &id]).ok();
        let output = sandbox.run("qstat", &["--priority", &id]).ok();
        assert!(is_shown(&output), "{factor}: {output}");
    }
}

/// Queued jobs in scheduling order.
fn scheduling_order(sandbox: &Sandbox) -> Vec<String> {
    let document = sandbox.run("qstat", &["--priority", "-F", "json"]).ok();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let jobs = document["Jobs"].as_object().unwrap();
    let mut places: Vec<(u64, String)> = jobs
        .iter()
        .map(|(id, job)| (job["priority"]["rank"].as_u64().unwrap(), id.clone()))
        .collect();
    places.sort();
    places.into_iter().map(|(_, id)| id).collect()
}

/// `-p` has this effect in the default order, too.
#[test]
fn a_priority_orders_the_jobs_of_its_owner() {
    let sandbox = Sandbox::configured("[cycle]\nscheduling = false\n");
    let submit = |more: &[&str]| {
        sandbox.run(
            "qsub",
            &[more, &["-l", "walltime=60", "--", "true"]].concat(),
        )
    };
    let [one, two, three] = [0; 3].map(|_| submit(&[]).line());
    assert_eq!(scheduling_order(&sandbox), [&*one, &*two, &*three]);
    let raised = sandbox.run("qalter", &["-p", "500", &three]);
    assert_eq!((raised.code, &*raised.err), (0, ""));
    assert_eq!(scheduling_order(&sandbox), [&*three, &*one, &*two]);
    sandbox.run("qalter", &["-p", "-10", &one]).ok();
    assert_eq!(scheduling_order(&sandbox), [&*three, &*two, &*one]);
    let four = submit(&["-p", "600"]).line();
    assert_eq!(scheduling_order(&sandbox), [&*four, &*three, &*two, &*one]);
    let shown = sandbox.run("qstat", &["--priority", &one]).ok();
    assert!(shown.contains("job_priority"), "{shown}");
}

/// F5: the queue priority counts without a `factor` key.
#[test]
fn the_priority_of_a_queue_puts_its_jobs_first() {
    let sandbox = Sandbox::configured("[cycle]\nscheduling = false\n");
    let set = sandbox.run(
        "qmgr",
        &[
            "-c",
            "create queue short queue_type=e,enabled=t,started=t,priority=50",
        ],
    );
    assert_eq!((set.code, &*set.err), (0, ""));
    let submit = |queue: &str| {
        sandbox
            .run(
                "qsub",
                &["-q", queue, "-l", "walltime=9:00:00", "--", "true"],
            )
            .line()
    };
    let [plain, short] = ["workq", "short"].map(submit);
    assert_eq!(scheduling_order(&sandbox), [&*short, &*plain]);
    sandbox
        .run("qmgr", &["-c", "set queue short priority = -50"])
        .ok();
    assert_eq!(scheduling_order(&sandbox), [&*plain, &*short]);
}

#[test]
fn a_priority_without_effect_is_reported() {
    let sandbox = Sandbox::configured("[order]\nby = \"fcfs\"\n[cycle]\nscheduling = false\n");
    let text = "warning: priority 5 has no effect: [order] by = \"fcfs\" does not use it";
    assert_warned(&sandbox.run("qsub", &["-p", "5", "--", "true"]), text);
    let id = sandbox.run("qsub", &["-p", "0", "--", "true"]).line();
    assert_warned(&sandbox.run("qalter", &["-p", "5", &id]), text);
    let set = sandbox.run(
        "qmgr",
        &["-c", "create queue short queue_type=e,priority=50"],
    );
    assert_warned(
        &set,
        "the priority of queue `short` has no effect: [order] by = \"fcfs\" does not use it",
    );
    assert_eq!(
        sandbox
            .run("qmgr", &["-c", "set queue short priority=0"])
            .err,
        ""
    );
}

/// The display shows the deciding part: the formula with its terms, the cluster, or the pool.
#[test]
fn qstat_priority_shows_the_deciding_part() {
    let shown = |order: &str, submissions: [&[&str]; 2]| {
        let sandbox =
            Sandbox::configured(&format!("[order]\n{order}\n[cycle]\nscheduling = false\n"));
        let [one, _] = submissions.map(|more| {
            sandbox
                .run("qsub", &[more, &["--", "true"]].concat())
                .line()
        });
        let document = sandbox
            .run("qstat", &["--priority", &one, "-F", "json"])
            .ok();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        (
            sandbox.run("qstat", &["--priority", &one]).ok(),
            document["Jobs"][&one]["priority"].clone(),
        )
    };
    let (text, data) = shown(
        "by = \"formula\"\nformula = \"job_priority + 7\"",
        [&["-p", "3"], &[]],
    );
    assert!(
        text.contains("  Formula: ") && !text.contains("Weight"),
        "{text}"
    );
    assert!(
        data["formula"]
            .as_str()
            .is_some_and(|formula| formula.contains("job_priority")),
        "{data}"
    );
    let (text, data) = shown(
        "by = \"cluster\"",
        [&["-W", "cluster=/a"], &["-W", "cluster=/b", "-p", "9"]],
    );
    assert!(
        text.contains(
            "  First:       on nodes of cluster /a, ahead of jobs of all other clusters\n"
        ),
        "{text}"
    );
    assert!(text.contains("cluster /b, this job /a"), "{text}");
    assert_eq!(data["cluster"], "/a");
    let (text, _) = shown("by = \"pool\"", [&[], &[]]);
    assert!(
        text.contains("pool_satisfaction") && text.contains("operation_satisfaction"),
        "{text}"
    );
}

#[test]
fn a_configured_queue_priority_of_0_is_shown() {
    let sandbox = Sandbox::configured(
        "[[queue]]\nname = \"qprod\"\npriority = 0\n[[queue]]\nname = \"other\"\n",
    );
    assert!(
        sandbox
            .run("qstat", &["-Qf", "qprod"])
            .ok()
            .contains("    Priority = 0\n")
    );
    assert!(
        !sandbox
            .run("qstat", &["-Qf", "other"])
            .ok()
            .contains("Priority")
    );
}

/// On nodes of its own cluster a job starts first although it was submitted last; `--why`,
/// `--priority` and `--start` agree.
#[test]
fn qstat_why_shows_the_deciding_cluster() {
    let host = lanai::sys::sensors::short_host_name();
    let sandbox = Sandbox::configured(&format!(
        "preset = \"qube\"\n[[node]]\nname = \"{host}\"\nncpus = 1\ncluster = \"/a\"\n"
    ));
    let submit = |cluster: &str| {
        let cluster = format!("cluster={cluster}");
        sandbox.submit(
            &["-l", "ncpus=1,walltime=300", "-W", &cluster],
            "while [ ! -e go ]; do sleep 0.05; done\n",
        )
    };
    let first = submit("/a");
    sandbox.running(&first);
    let (other, own) = (submit("/b"), submit("/a"));
    let why = |id: &str| {
        let document = sandbox.run("qstat", &["--why", id, "-F", "json"]).ok();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        (
            sandbox.run("qstat", &["--why", id]).ok(),
            document["Jobs"][id].clone(),
        )
    };
    for (id, cluster, ahead) in [(&own, "/a", 0), (&other, "/b", 1)] {
        let (text, data) = why(id);
        assert!(
            text.contains(&format!(
                "on nodes of cluster {cluster}, ahead of jobs of all other clusters"
            )),
            "{text}"
        );
        let data = data.to_string();
        assert!(
            data.contains(&format!("\"cluster\":\"{cluster}\"")),
            "{data}"
        );
        assert!(data.contains(&format!("\"ahead\":{ahead},")), "{data}");
        let priority = sandbox.run("qstat", &["--priority", id]).ok();
        let expected =
            format!("on nodes of cluster {cluster}, ahead of jobs of all other clusters");
        assert!(priority.contains(&expected), "{priority}");
    }
    let start = sandbox.run("qstat", &["--start"]).ok();
    assert!(
        start.find(&own).unwrap() < start.find(&other).unwrap(),
        "{start}"
    );
    std::fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&other);
}

#[test]
fn qstat_f_shows_the_computed_priority() {
    let host = lanai::sys::sensors::short_host_name();
    let node = format!("[[node]]\nname = \"{host}\"\nncpus = 1\n");
    let script = "while [ ! -e go ]; do sleep 0.05; done\n";
    let sandbox = Sandbox::configured(&format!(
        "[order]\nby = \"formula\"\nformula = \"job_priority + 7\"\n{node}"
    ));
    let running = sandbox.submit(&["-p", "3"], script);
    sandbox.running(&running);
    let waiting = sandbox.submit(&["-p", "5"], script);
    let array = sandbox.submit(&["-p", "1", "-J", "1-2"], script);
    let held = sandbox.submit(&["-h"], script);
    let score = |id: &str| sandbox.job(id)["score"].as_f64();
    assert_eq!(
        [&running, &waiting, &array, &held].map(|id| score(id)),
        [Some(10.0), Some(12.0), Some(8.0), None]
    );
    assert_eq!(
        score(&array.replace("[]", "[2]")),
        Some(8.0),
        "a subjob has the score of its array"
    );
    let text = sandbox.run("qstat", &["-f", &waiting]).ok();
    assert!(
        text.contains("    Priority = 5\n    score = 12\n"),
        "{text}"
    );
    let all = sandbox.run("qstat", &["-f", "-F", "dsv"]).ok();
    let shown: Vec<&str> = all
        .split('|')
        .filter_map(|part| part.strip_prefix("score="))
        .collect();
    assert_eq!(shown, ["10", "12", "8"], "{all}");
    std::fs::write(sandbox.file("go"), "").unwrap();
    assert!(sandbox.ended(&running)["score"].is_null());

    let fcfs = Sandbox::configured(&format!("[order]\nby = \"fcfs\"\n{node}"));
    let running = fcfs.submit(&[], script);
    fcfs.running(&running);
    fcfs.submit(&[], script);
    let all = fcfs.run("qstat", &["-f"]).ok();
    assert!(
        all.matches("Job Id:").count() == 2 && !all.contains("score"),
        "{all}"
    );
    std::fs::write(fcfs.file("go"), "").unwrap();
    fcfs.ended(&running);
}
