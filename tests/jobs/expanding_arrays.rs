//! Arrays that expand into idle resources, retries of failed jobs, and labels.

use crate::support::sandbox::{Done, Sandbox};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// A server named `head` with one node of `slots` processors.
fn head(slots: usize) -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    Sandbox::configured(&format!(
        "[server]\nname = \"head\"\n[[node]]\nname = \"{node}\"\nncpus = {slots}\n"
    ))
}

#[track_caller]
fn refused(done: &Done, code: i32, part: &str) {
    assert!(done.code == code && done.err.contains(part), "{done:?}");
}

/// Script that records begin and end with its index. In between it waits for the file `go` or
/// `go.INDEX`.
const RECORD: &str = "echo begin $PBS_ARRAY_INDEX >> log\n\
                    while [ ! -e go ] && [ ! -e go.$PBS_ARRAY_INDEX ]; do sleep 0.02; done\n\
                    echo end $PBS_ARRAY_INDEX >> log\n";

/// Maximum number of subjobs that ran at once, from their records.
fn max_concurrent(sandbox: &Sandbox) -> i32 {
    let mut running = 0;
    let steps = sandbox.read("log");
    let count = |line: &str| {
        running += if line.starts_with("begin") { 1 } else { -1 };
        running
    };
    steps.lines().map(count).max().unwrap_or(0)
}

fn started_count(sandbox: &Sandbox) -> usize {
    let log = fs::read_to_string(sandbox.file("log")).unwrap_or_default();
    log.lines().filter(|line| line.starts_with("begin")).count()
}

/// Q15: of 8 slots the array uses 2 without and 5 with `--expand`, never 6.
#[test]
fn an_array_expands_into_idle_resources_up_to_its_maximum() {
    let sandbox = head(8);
    let id = sandbox.submit(&["-J", "1-20%2"], RECORD);
    sandbox.until("two running subjobs", || {
        (started_count(&sandbox) == 2).then_some(())
    });
    assert!(sandbox.job(&id)["expand"].is_null());
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(why.contains("max_run_subjobs is 2, in use: 2"), "{why}");
    sandbox.run("qalter", &["--expand", "5", &id]).ok();
    sandbox.until("five running subjobs", || {
        (started_count(&sandbox) == 5).then_some(())
    });
    assert_eq!(sandbox.job(&id)["expand"], 5);
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    for part in [
        "already runs 2 subjobs, the limit of the array",
        "It runs up to 5 if resources would otherwise be idle",
        "in use: 5",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    assert_eq!((started_count(&sandbox), max_concurrent(&sandbox)), (20, 5));
    for wrong in ["x", "-2", "1.5"] {
        refused(
            &sandbox.run(
                "qsub",
                &["-J", "1-3%1", &format!("--expand={wrong}"), "--", "true"],
            ),
            166,
            "expand",
        );
    }
    refused(
        &sandbox.run("qsub", &["--expand", "5", "--", "true"]),
        127,
        "Attribute has to be set on an array job",
    );
    let unlimited = sandbox.submit(&[], "#PBS -J 1-3%1\n#PBS --expand -1\ntrue\n");
    assert_eq!(sandbox.ended(&unlimited)["expand"], "unlimited");
}

/// Q15: an expanded array uses more than its own limit, so a job submitted later gets the next free
/// slot. This holds across a restart of schedd.
#[test]
fn queued_jobs_precede_expansion() {
    let sandbox = head(4);
    let id = sandbox.submit(&["-J", "1-20%2", "--expand=unlimited"], RECORD);
    sandbox.until("four running subjobs", || {
        (started_count(&sandbox) == 4).then_some(())
    });
    let other = sandbox.submit(&[], "while [ ! -e other ]; do sleep 0.02; done\n");
    assert_eq!(sandbox.state(&other), "Q");
    sandbox.kill("schedd");
    sandbox.run("qalter", &["-N", "other", &other]).ok();
    fs::write(sandbox.file("go.1"), "").unwrap();
    sandbox.running(&other);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        started_count(&sandbox),
        4,
        "three subjobs and the other job run"
    );
    fs::write(sandbox.file("other"), "").unwrap();
    sandbox.until("a fifth subjob", || {
        (started_count(&sandbox) == 5).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    assert_eq!(max_concurrent(&sandbox), 4);
}

/// Q2: the next subjob starts in the cycle that the end of the previous one triggers, without a
/// poll.
#[test]
fn the_next_subjob_gets_a_freed_slot_at_once() {
    let sandbox = head(1);
    let id = sandbox.submit(
        &["-J", "1-40"],
        "echo begin $(date +%s.%N) >> at; echo end $(date +%s.%N) >> at\n",
    );
    sandbox.ended(&id);
    let text = sandbox.read("at");
    let times: Vec<(&str, f64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(what, at)| (what, at.parse().unwrap()))
        .collect();
    let gaps = times
        .windows(2)
        .filter(|pair| pair[0].0 == "end")
        .map(|pair| (pair[1].1 - pair[0].1) * 1000.0);
    let mut gaps: Vec<f64> = gaps.collect();
    gaps.sort_by(f64::total_cmp);
    eprintln!(
        "from the end of a subjob to the start of the next: {:.1} ms, 90 of 100 within {:.1} ms",
        gaps[19], gaps[35]
    );
    assert_eq!(gaps.len(), 39);
    assert!(gaps[19] < 250.0, "{gaps:?}");
}

/// Q28: the array shows that it is failing and which subjobs have failed, and fails in the end.
#[test]
fn an_array_shows_that_it_is_failing_and_fails_in_the_end() {
    let sandbox = head(2);
    let script = "date +%s.%N >> at.$PBS_ARRAY_INDEX\n[ $PBS_ARRAY_INDEX = 2 ] && exit 1\nwhile [ ! -e go ]; do sleep 0.02; done\n";
    let id = sandbox.submit(&["-J", "1-2", "-W", "retry=2,retry_delay=1"], script);
    let failing = sandbox.until("a failure", || {
        let job = sandbox.job(&id);
        job["array_indices_failed"].is_string().then_some(job)
    });
    assert_eq!(
        (&failing["job_state"], &failing["array_indices_failed"]),
        (&json!("B"), &json!("2"))
    );
    let comment = failing["comment"].as_str().unwrap();
    assert!(
        comment.ends_with(", failing: 1 subjob has failed"),
        "{comment}"
    );
    let times: Vec<f64> = sandbox
        .read("at.2")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(
        times.len() == 3 && times.windows(2).all(|pair| pair[1] - pair[0] >= 1.0),
        "{times:?}"
    );
    fs::write(sandbox.file("go"), "").unwrap();
    let finished = sandbox.ended(&id);
    assert_eq!(
        (&finished["Exit_status"], &finished["array_indices_failed"]),
        (&json!(1), &json!("2"))
    );
    assert!(
        finished["comment"]
            .as_str()
            .unwrap()
            .ends_with(" and failed"),
        "{finished}"
    );
    assert_eq!(sandbox.job(&id.replace("[]", "[2]"))["run_count"], 3);
}

/// Q27: a retried job returns from the history with its script and the next attempt number.
#[test]
fn qalter_retry_reruns_failed_and_deleted_jobs() {
    let sandbox = head(2);
    let script = "echo $LANAI_ATTEMPT >> done; [ -e mended ]\n";
    let failed = sandbox.submit(&[], script);
    let deleted = sandbox.submit(&["-h"], script);
    assert_eq!(sandbox.ended(&failed)["Exit_status"], 1);
    sandbox.run("qdel", &[&deleted]).ok();
    assert_eq!(sandbox.ended(&deleted)["Exit_status"], 271);
    refused(&sandbox.run("qrls", &[&deleted]), 35, "Job has finished");
    for option in [&["-l", "walltime=5"][..], &["--shove"]] {
        let arguments = [&["--retry"], option, &[&failed]].concat();
        let text = "cannot be combined with other options";
        refused(&sandbox.run("qalter", &arguments), 2, text);
    }
    sandbox.kill("schedd");
    fs::write(sandbox.file("mended"), "").unwrap();
    sandbox.run("qalter", &["--retry", &failed, &deleted]).ok();
    sandbox.run("qrls", &[&deleted]).ok();
    let finished = [&failed, &deleted].map(|id| {
        sandbox.until("a successful end", || {
            let job = sandbox.job(id);
            (job["job_state"] == "F" && job["Exit_status"] == 0).then_some(job)
        })
    });
    assert_eq!(
        (&finished[0]["run_count"], &finished[1]["run_count"]),
        (&json!(2), &json!(1))
    );
    let mut attempts: Vec<String> = sandbox.read("done").lines().map(str::to_string).collect();
    attempts.sort();
    assert_eq!(attempts, ["1", "1", "2"]);
    refused(
        &sandbox.run("qalter", &["--retry", &failed]),
        168,
        "invalid for state",
    );
    let accounts = sandbox.run("qacct", &["-j", &failed, "-F", "json"]).ok();
    let attempts: Value = serde_json::from_str(&accounts).unwrap();
    assert_eq!(
        attempts.to_string().matches("\"attempt\":").count(),
        2,
        "{attempts}"
    );
    let trace = sandbox.run("tracejob", &[&failed]).ok();
    assert!(trace.contains("Job to be retried"), "{trace}");
}

/// A retry passes the same checks as a new submission.
#[test]
fn a_finished_job_is_not_retried_in_a_disabled_queue_or_without_history() {
    let sandbox = head(2);
    let qmgr = |command: &str| sandbox.run("qmgr", &["-c", command]).ok();
    let id = sandbox.submit(&[], "exit 1\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
    let retry = || sandbox.run("qalter", &["--retry", &id]);
    qmgr("set queue workq enabled = False");
    refused(&retry(), 173, "Queue is not enabled");
    qmgr("set queue workq enabled = True");
    qmgr("set server job_history_enable = False");
    refused(&retry(), 153, "Unknown Job Id");
    qmgr("set server job_history_enable = True");
    sandbox.until("a successful retry", || (retry().code == 0).then_some(()));
    sandbox.until("the second end", || {
        (sandbox.ended(&id)["run_count"] == 2).then_some(())
    });
}

#[test]
fn failed_and_deleted_subjobs_rerun_when_their_array_is_retried() {
    let sandbox = head(4);
    let script = "echo $PBS_ARRAY_INDEX $LANAI_ATTEMPT >> done; [ -e mended ] || exit $((PBS_ARRAY_INDEX % 2))\n";
    let id = sandbox.submit(&["-h", "-J", "1-6"], script);
    sandbox.run("qdel", &["1[6]"]).ok();
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["array_indices_failed"], "1,3,5");
    fs::write(sandbox.file("mended"), "").unwrap();
    sandbox.run("qalter", &["--retry", "1[3]"]).ok();
    sandbox.until("the retried subjob", || {
        sandbox.read("done").contains("3 2").then_some(())
    });
    assert_eq!(sandbox.ended(&id)["array_indices_failed"], "1,5");
    sandbox.run("qalter", &["--retry", &id]).ok();
    sandbox.until("a successful end", || {
        (sandbox.ended(&id)["Exit_status"] == 0).then_some(())
    });
    let mut done: Vec<String> = sandbox.read("done").lines().map(str::to_string).collect();
    done.sort();
    assert_eq!(
        done,
        [
            "1 1", "1 3", "2 1", "3 1", "3 2", "4 1", "5 1", "5 3", "6 3"
        ]
    );
    refused(
        &sandbox.run("qalter", &["--retry", "1[2]"]),
        168,
        "invalid for state",
    );
}

/// Q29, across a crash: a job that depends on a label is released when a job with that label has
/// succeeded.
#[test]
fn jobs_can_depend_on_a_label_in_their_process_group() {
    let sandbox = head(4);
    let group = ["--group", "show1"];
    let dependent = |depend: &str| {
        sandbox.submit(
            &[&group[..], &["-W", &format!("depend={depend}")]].concat(),
            "true\n",
        )
    };
    let (done, failed, complete) = (
        dependent("done-job-sim"),
        dependent("failed-job-sim"),
        dependent("afterany:@sim,afterok:@comp"),
    );
    let elsewhere = sandbox.submit(&["--group", "show2", "-W", "depend=afterok:@sim"], "true\n");
    let job = sandbox.job(&done);
    assert_eq!(
        (&job["job_state"], &job["depend"], &job["process_group"]),
        (&json!("H"), &json!("afterok:@sim"), &json!("show1"))
    );
    let comment = job["comment"].as_str().unwrap();
    assert_eq!(
        comment,
        "Job held by dependency: afterok:@sim, not met by any job of group show1 yet"
    );
    sandbox.kill("schedd");
    let sim = sandbox.submit(
        &["--group", "show1", "--label", "sim"],
        "while [ ! -e go ]; do sleep 0.02; done; [ -e good ]\n",
    );
    assert_eq!(sandbox.running(&sim)["label"], "sim");
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&failed)["Exit_status"], 0);
    assert_eq!(
        [&done, &complete, &elsewhere].map(|id| sandbox.state(id)),
        ["H", "H", "H"]
    );
    assert_eq!(sandbox.job(&complete)["depend"], "afterok:@comp");
    fs::write(sandbox.file("good"), "").unwrap();
    let retried_at = Instant::now();
    sandbox.run("qalter", &["--retry", &sim]).ok();
    assert_eq!(sandbox.ended(&done)["Exit_status"], 0);
    eprintln!(
        "from the retry to the end of the dependent job: {} ms",
        retried_at.elapsed().as_millis()
    );
    let late = dependent("done-job-sim");
    assert_eq!(
        sandbox.ended(&late)["Exit_status"],
        0,
        "the last job with that label has succeeded"
    );
    let altered = sandbox.submit(&["-h", "--group", "show1"], "true\n");
    sandbox
        .run("qalter", &["-W", "depend=afterok:@sim:@next", &altered])
        .ok();
    assert_eq!(
        sandbox.job(&altered)["depend"],
        "afterok:@next",
        "a dependency added later keeps only unsatisfied labels"
    );
    let circle = format!("jobs would wait in a circle: {complete} -> @comp -> {complete}");
    refused(
        &sandbox.run("qalter", &["--label", "comp", &complete]),
        206,
        &circle,
    );
    let one = sandbox.submit(&["--label", "one", "-W", "depend=afterok:@two"], "true\n");
    let two = ["--label", "two", "-W", "depend=afterok:@one", "--", "true"];
    let circle =
        format!("jobs would wait in a circle: this job -> @one -> {one} -> @two -> this job");
    refused(&sandbox.run("qsub", &two), 206, &circle);
    sandbox.submit(&["--label", "one"], "sleep 60\n");
    let done = sandbox.run("qsub", &two);
    assert!(done.code == 0, "another job has that label: {}", done.err);
    assert_eq!(sandbox.state(&elsewhere), "H");
    sandbox.run("qrls", &["-h", "s", &elsewhere]).ok();
    assert_eq!(sandbox.ended(&elsewhere)["Exit_status"], 0);
    for wrong in ["afterok:@", "before:@sim", "done-job-a/b"] {
        refused(
            &sandbox.run("qsub", &["-W", &format!("depend={wrong}"), "--", "true"]),
            2,
            "illegal -W value",
        );
    }
    refused(
        &sandbox.run("qsub", &["--label", "a b", "--", "true"]),
        166,
        "label",
    );
    let many: Vec<String> = (0..1001).map(|label| format!("@l{label}")).collect();
    let depend = format!("depend=afterok:{}", many.join(":"));
    refused(
        &sandbox.run("qsub", &["-W", &depend, "--", "true"]),
        206,
        "depend on at most 1000 labels",
    );
}

/// Q29: jobs depend on one subjob by the array's label, before and after that subjob has ended.
#[test]
fn jobs_can_depend_on_a_single_subjob_by_label() {
    let sandbox = Sandbox::new();
    let early = sandbox.submit(&["-W", "depend=done-frame-sim-2"], "ls ended* >early\n");
    let failed = sandbox.submit(&["-W", "depend=failed-frame-sim-3"], "true\n");
    let script = "[ $PBS_ARRAY_INDEX = 1 ] && while [ ! -e go ]; do sleep 0.02; done\ntouch ended$PBS_ARRAY_INDEX\n\
                  [ $PBS_ARRAY_INDEX != 3 ]\n";
    let array = sandbox.submit(&["--label", "sim", "-J", "1-3"], script);
    assert_eq!(sandbox.ended(&early)["Exit_status"], 0);
    assert!(
        !sandbox.read("early").contains("ended1"),
        "subjob 1 still runs"
    );
    assert_eq!(sandbox.ended(&failed)["Exit_status"], 0);
    let late = sandbox.submit(&["-W", "depend=afterok:@sim[2]"], "true\n");
    assert_eq!(
        sandbox.ended(&late)["Exit_status"],
        0,
        "the subjob has ended, its array has not"
    );
    let never = sandbox.submit(&["-W", "depend=done-frame-sim-3"], "true\n");
    assert_eq!(sandbox.job(&never)["depend"], "afterok:@sim[3]");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&array);
    let last = sandbox.submit(&["-W", "depend=complete-frame-sim-1"], "true\n");
    assert_eq!(
        sandbox.ended(&last)["Exit_status"],
        0,
        "the array has finished"
    );
    assert_eq!(sandbox.state(&never), "H");
}
