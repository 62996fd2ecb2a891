//! Preemption of real processes: its delay, the preserved work of the victims, and the messages
//! shown.

use crate::support::sandbox::Sandbox;
use std::time::{Duration, Instant};

/// A node with one processor, where jobs of higher priority preempt others.
fn sandbox(preemption: &str) -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    Sandbox::configured(&format!(
        "preset = \"qube\"\n[order]\nby = \"priority\"\nuser_priority = \"free\"\nlowest_is_best = false\n\
         [preemption]\n{preemption}\n[[node]]\nname = \"{node}\"\nncpus = 1\n"
    ))
}

/// Submits a job with one processor and this priority.
fn submit(sandbox: &Sandbox, priority: i32, more: &[&str], script: &str) -> String {
    let priority = priority.to_string();
    let arguments = [&["-l", "ncpus=1", "-p", &priority], more].concat();
    sandbox.submit(&arguments, script)
}

/// Waits until a script has created the file `name`.
fn until_file(sandbox: &Sandbox, name: &str) {
    sandbox.until(name, || sandbox.work().join(name).exists().then_some(()));
}

const LOW: &str = "echo >low\nwhile [ ! -e go ]; do sleep 0.05; done\n";
const HIGH: &str = "echo >high\n";

#[test]
fn a_victim_that_ends_on_sigterm_is_preempted_within_a_second() {
    let sandbox = sandbox("mode = \"aggressive\"");
    let low = submit(&sandbox, 0, &[], LOW);
    until_file(&sandbox, "low");
    let submitted = Instant::now();
    let high = submit(&sandbox, 10, &[], "echo >high\nsleep 1\n");
    until_file(&sandbox, "high");
    let took = submitted.elapsed();
    println!("preempted and started within {} ms", took.as_millis());
    assert!(took < Duration::from_secs(1), "{took:?}");
    let job = sandbox.job(&low);
    assert_eq!(
        (job["job_state"].as_str(), &job["preempted"]),
        (Some("Q"), &1.into())
    );
    let comment = job["comment"].as_str().unwrap().to_string();
    let wanted = format!("Not Running: Job was preempted: requeued for job {high} (");
    assert!(comment.starts_with(&wanted), "{comment}");
    let trace = |id: &str| sandbox.run("tracejob", &[id]).ok();
    assert!(
        trace(&low).contains(&format!("Job preempted: requeued for job {high}")),
        "{}",
        trace(&low)
    );
    assert!(
        trace(&high).contains(&format!("Preempted for this job: job {low}")),
        "{}",
        trace(&high)
    );
    let accounts = sandbox.run("qacct", &["-j", &low, "-F", "json"]).ok();
    let expected = [
        format!("\"made_way_for\":\"{high}\""),
        "\"made_way_by\":\"requeue\"".to_string(),
    ];
    assert!(
        expected
            .iter()
            .all(|part| accounts.replace(":\t", ":").contains(part)),
        "{accounts}"
    );
    sandbox.ended(&high);
    std::fs::write(sandbox.file("go"), "").unwrap();
    let ended = sandbox.ended(&low);
    assert_eq!(
        (&ended["Exit_status"], &ended["run_count"]),
        (&0.into(), &2.into())
    );
}

#[test]
fn a_victim_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let sandbox = sandbox("mode = \"aggressive\"\ngrace = \"1s\"");
    submit(
        &sandbox,
        0,
        &[],
        "trap '' TERM\necho >low\nwhile true; do sleep 0.05; done\n",
    );
    until_file(&sandbox, "low");
    let submitted = Instant::now();
    submit(&sandbox, 10, &[], HIGH);
    until_file(&sandbox, "high");
    let took = submitted.elapsed();
    println!(
        "preempted and started within {} ms, of which 1000 are the grace",
        took.as_millis()
    );
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(2),
        "{took:?}"
    );
}

/// Q11: a running subjob runs to its end; the array continues afterwards.
#[test]
fn a_subjob_ends_by_itself_under_passive_preemption() {
    let sandbox = sandbox("mode = \"passive\"");
    let script = "echo $PBS_ARRAY_INDEX >>begun\nsleep 0.7\necho $PBS_ARRAY_INDEX >>done\n";
    let low = submit(&sandbox, 0, &["-J", "1-3"], script);
    until_file(&sandbox, "begun");
    let high = submit(&sandbox, 10, &[], "echo H >>done\n");
    sandbox.ended(&high);
    sandbox.ended(&low);
    assert_eq!(sandbox.read("done"), "1\nH\n2\n3\n");
    assert_eq!(
        sandbox.read("begun"),
        "1\n2\n3\n",
        "no subjob may start twice"
    );
}

/// Time after a label of `qstat --why`, such as `Planned:`.
fn shown_time(why: &str, label: &str) -> Option<String> {
    let line = why
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(label))?;
    let (at, _) = line
        .trim_start()
        .trim_start_matches("starts at ")
        .split_once(" on ")?;
    Some(at.to_string())
}

/// A cycle each second even without events.
const POLL: &str = "[cycle]\npoll_interval = \"1s\"";

/// Waits for several more cycles, so that the results of the first one are stored.
fn wait_for_cycles(sandbox: &Sandbox) {
    let latest = || {
        let text = sandbox.run("qstat", &["--cycles", "-F", "json"]).ok();
        let cycles: serde_json::Value = serde_json::from_str(&text).unwrap();
        cycles["Cycles"].as_array().unwrap().last().unwrap()["cycle"]
            .as_u64()
            .unwrap()
    };
    let before = latest();
    sandbox.until("three cycles", || (latest() >= before + 3).then_some(()));
}

/// A job that waits for the end of another one has its planned start at the end of the other's
/// walltime, and that time does not move.
#[test]
fn the_planned_start_under_passive_preemption_equals_the_estimate() {
    for more in [
        &["-l", "walltime=300"][..],
        &["-l", "walltime=300", "-J", "1-2"],
    ] {
        let sandbox = sandbox(&format!("mode = \"passive\"\nno_agenda = \"wait\"\n{POLL}"));
        submit(&sandbox, 0, more, LOW);
        until_file(&sandbox, "low");
        let high = submit(&sandbox, 10, &["-l", "walltime=60"], HIGH);
        let why = || sandbox.run("qstat", &["--why", &high]).ok();
        let planned = sandbox.until("a planned start", || shown_time(&why(), "Planned:"));
        let text = why();
        assert_eq!(
            shown_time(&text, "Predicted:"),
            Some(planned.clone()),
            "{text}"
        );
        wait_for_cycles(&sandbox);
        let text = why();
        assert_eq!(shown_time(&text, "Planned:"), Some(planned), "{text}");
        let trace = sandbox.run("tracejob", &[&high]).ok();
        assert!(
            !trace.contains("the policy changed") && !text.contains("Delayed"),
            "{trace}{text}"
        );
        std::fs::write(sandbox.file("go"), "").unwrap();
        sandbox.ended(&high);
    }
}

/// The end of a job without a walltime is unknown. Its estimate moves with the clock, which does
/// not count as a slip.
#[test]
fn no_start_is_planned_if_the_end_of_the_victim_is_unknown() {
    // An unlimited walltime: the default of five years would be a known end.
    let endless = format!(
        "mode = \"passive\"\nno_agenda = \"wait\"\n{POLL}\ndefault_walltime = \"{}s\"",
        i64::MAX / 1000
    );
    let sandbox = sandbox(&endless);
    submit(&sandbox, 0, &[], LOW);
    until_file(&sandbox, "low");
    let high = submit(&sandbox, 10, &[], HIGH);
    let start = || {
        sandbox.job(&high)["estimated"]["start_time"]
            .as_str()
            .map(String::from)
    };
    let first = sandbox.until("an estimated start", start);
    let second = sandbox.until("a later estimated start", || {
        start().filter(|at| *at != first)
    });
    // A slip of less than a second is not recorded. The second move exceeds that, so a slip would
    // be recorded with it.
    sandbox.until("a third estimated start", || {
        start().filter(|at| *at != first && *at != second)
    });
    let why = sandbox.run("qstat", &["--why", &high]).ok();
    assert!(
        why.contains("as soon as the preempted jobs have ended") && !why.contains("Delayed"),
        "{why}"
    );
}

/// Y8: if an array's limit is lowered to two running subjobs, the oldest two continue; the others
/// run later.
#[test]
fn repair_requeues_subjobs_beyond_a_lowered_limit() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let config = format!("[preemption]\nrepair = true\n[[node]]\nname = \"{node}\"\nncpus = 4\n");
    let sandbox = Sandbox::configured(&config);
    let script = "while [ ! -e go ]; do sleep 0.05; done\n";
    let array = sandbox.submit(&["-l", "ncpus=1", "-J", "1-4%4"], script);
    let subjobs = [1, 2, 3, 4].map(|index| array.replace("[]", &format!("[{index}]")));
    let states = || subjobs.each_ref().map(|id| sandbox.state(id)).join("");
    sandbox.until("four running subjobs", || {
        (states() == "RRRR").then_some(())
    });
    sandbox
        .run("qalter", &["-W", "max_run_subjobs=2", &array])
        .ok();
    sandbox.until("two requeued subjobs", || {
        (states() == "RRQQ").then_some(())
    });
    assert_eq!(sandbox.job(&subjobs[3])["preempted"], 1);
    std::fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&array)["Exit_status"], 0);
    assert_eq!(sandbox.job(&subjobs[3])["run_count"], 2);
}

/// The comment explains a suspension and disappears when the job runs again.
#[test]
fn the_comment_of_a_suspended_job_ends_with_the_suspension() {
    let sandbox = sandbox("mode = \"aggressive\"\naction = \"suspend\"");
    let low = submit(&sandbox, 0, &[], LOW);
    until_file(&sandbox, "low");
    let high = submit(
        &sandbox,
        10,
        &[],
        "echo >high\nwhile [ ! -e done ]; do sleep 0.05; done\n",
    );
    until_file(&sandbox, "high");
    let comment = sandbox.job(&low)["comment"]
        .as_str()
        .unwrap_or_default()
        .to_string();
    assert!(
        comment.contains(&format!("suspended for job {high}")),
        "{comment}"
    );
    std::fs::write(sandbox.file("done"), "").unwrap();
    sandbox.ended(&high);
    sandbox.running(&low);
    let comment = sandbox.job(&low)["comment"]
        .as_str()
        .unwrap_or_default()
        .to_string();
    assert!(!comment.contains("suspended"), "{comment}");
    std::fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&low);
}

/// Y17: a job that saves its state on the signal and exits with 0 is finished.
#[test]
fn a_job_that_exits_with_0_on_its_signal_is_finished() {
    let sandbox = sandbox("mode = \"aggressive\"\ninterruption = \"5s\"");
    let script =
        "trap 'echo saved >saved; exit 0' USR1\necho >low\nwhile true; do sleep 0.05; done\n";
    let low = submit(&sandbox, 0, &["-W", "interrupt=USR1"], script);
    until_file(&sandbox, "low");
    let high = submit(&sandbox, 10, &[], HIGH);
    let ended = sandbox.ended(&low);
    assert_eq!(
        (ended["job_state"].as_str(), &ended["Exit_status"]),
        (Some("F"), &0.into())
    );
    assert_eq!(
        (sandbox.read("saved").as_str(), &ended["run_count"]),
        ("saved\n", &1.into())
    );
    let output = ended["Output_Path"]
        .as_str()
        .and_then(|path| path.split_once(':'))
        .unwrap()
        .1;
    assert!(
        std::path::Path::new(output).exists(),
        "a finished job must have its output file: {output}"
    );
    sandbox.ended(&high);
}

/// Y17: a job that does not end in time is requeued.
#[test]
fn a_job_that_does_not_end_in_time_is_requeued() {
    let sandbox = sandbox("mode = \"aggressive\"\ninterruption = \"500ms\"");
    let script =
        "trap 'echo caught >caught' USR1\necho >low\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    let low = submit(&sandbox, 0, &["-W", "interrupt=USR1"], script);
    until_file(&sandbox, "low");
    let high = submit(&sandbox, 10, &[], HIGH);
    sandbox.ended(&high);
    std::fs::write(sandbox.file("go"), "").unwrap();
    let ended = sandbox.ended(&low);
    assert_eq!(
        (sandbox.read("caught").as_str(), &ended["run_count"]),
        ("caught\n", &2.into())
    );
}

/// G8: resources freed by preemption stay with the preemptor if schedd is killed.
#[test]
fn freed_resources_stay_with_the_preemptor_if_schedd_is_killed() {
    let sandbox = sandbox("mode = \"aggressive\"\ngrace = \"2s\"");
    submit(
        &sandbox,
        0,
        &[],
        "trap '' TERM\necho >low\nwhile true; do sleep 0.05; done\n",
    );
    until_file(&sandbox, "low");
    let high = submit(&sandbox, 10, &[], "echo >high\nsleep 0.5\n");
    sandbox.until("the preemption in the comment", || {
        sandbox.job(&high)["comment"]
            .as_str()
            .is_some_and(|comment| comment.contains("preemption of"))
            .then_some(())
    });
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let higher = submit(&sandbox, 500, &[], "ls high >higher\n");
    sandbox.ended(&high);
    sandbox.ended(&higher);
    assert_eq!(
        sandbox.read("higher"),
        "high\n",
        "the job submitted later must start later"
    );
}

/// Q9: `no_preempt` exempts a job from preemption.
#[test]
fn a_job_marked_not_preemptable_is_not_preempted() {
    let sandbox = sandbox("mode = \"aggressive\"");
    submit(&sandbox, 0, &["-W", "no_preempt=true"], LOW);
    until_file(&sandbox, "low");
    let high = submit(&sandbox, 10, &[], HIGH);
    sandbox.until("the job to be queued", || {
        (sandbox.state(&high) == "Q").then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(!sandbox.work().join("high").exists());
    std::fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&high);
}

/// I20: a change by qmgr applies from the next cycle. Victims are suspended while it is set, and
/// requeued after it is unset.
#[test]
fn only_managers_set_the_preemption_order() {
    let sandbox = sandbox("mode = \"aggressive\"");
    let low = submit(&sandbox, 0, &[], LOW);
    until_file(&sandbox, "low");
    sandbox
        .run("qmgr", &["-c", "set sched preempt_order = S"])
        .ok();
    let high = submit(
        &sandbox,
        10,
        &[],
        "while [ ! -e done ]; do sleep 0.05; done\n",
    );
    sandbox.running(&high);
    assert_eq!(sandbox.state(&low), "S");
    std::fs::write(sandbox.file("done"), "").unwrap();
    sandbox.ended(&high);
    sandbox.until("the first job to resume", || {
        (sandbox.state(&low) == "R").then_some(())
    });
    sandbox
        .run("qmgr", &["-c", "unset sched preempt_order"])
        .ok();
    sandbox.ended(&submit(&sandbox, 10, &[], HIGH));
    assert_eq!(sandbox.job(&low)["preempted"], 2);
    sandbox.until("the second start of the first job", || {
        (sandbox.job(&low)["run_count"] == 2).then_some(())
    });
}
