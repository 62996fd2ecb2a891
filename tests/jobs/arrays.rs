//! Job arrays from the user's point of view.

mod combinations;
mod display;
mod large;
mod ranges;

use crate::support::sandbox::{Done, Sandbox};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

/// A server named `head` with one node of `slots` processors.
fn head(slots: usize) -> Sandbox {
    configured(slots, "")
}

fn configured(slots: usize, more: &str) -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let server = format!("[server]\nname = \"head\"\n{more}\n");
    Sandbox::configured(&format!(
        "{server}[[node]]\nname = \"{node}\"\nncpus = {slots}\nmem = \"64gb\"\n"
    ))
}

#[track_caller]
fn assert_result(done: &Done, code: i32, out: &str, first_of_err: &str) {
    let first = done.err.lines().next().unwrap_or_default();
    assert_eq!(
        (done.code, done.out.as_str(), first),
        (code, out, first_of_err),
        "{done:?}"
    );
}

/// Script line that records the subjob's index and attempt.
const RECORD: &str = "echo $PBS_ARRAY_INDEX $LANAI_ATTEMPT >> done\n";

/// Recorded index and attempt of each started subjob.
fn recorded(sandbox: &Sandbox) -> Vec<(u32, u32)> {
    let text = fs::read_to_string(sandbox.file("done")).unwrap_or_default();
    let line = |line: &str| {
        let (index, attempt) = line.split_once(' ').unwrap();
        (index.parse().unwrap(), attempt.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// Recorded subjobs, sorted by index.
fn sorted(sandbox: &Sandbox) -> Vec<(u32, u32)> {
    let mut recorded = recorded(sandbox);
    recorded.sort_unstable();
    recorded
}

/// Ids (without server name) and state letters, as `qstat` lists them.
fn listed(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let shown = sandbox.run("qstat", arguments).ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} {}", words[0].trim_end_matches(".head"), words[4])
    };
    shown
        .lines()
        .skip(2)
        .map(line)
        .collect::<Vec<_>>()
        .join(", ")
}

fn counts(job: &Value) -> &str {
    job["array_state_count"].as_str().unwrap_or("none")
}

/// Creates a file that subjobs wait for.
fn touch(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.file(name), "").unwrap();
}

/// Script line that waits for the file `go`.
const WAIT: &str = "while [ ! -e go ]; do sleep 0.02; done\n";

#[test]
#[allow(clippy::too_many_lines, reason = "follows one array from start to end")]
fn an_array_begins_runs_and_ends() {
    let sandbox = head(4);
    let id = sandbox.submit(
        &["-J", "1-6%2", "-N", "run", "-l", "walltime=60"],
        &format!("{RECORD}{WAIT}"),
    );
    let array = sandbox.until("two running subjobs", || {
        (recorded(&sandbox).len() == 2).then(|| sandbox.job(&id))
    });
    sandbox.running("1[1].head");
    sandbox.running("1[2].head");
    assert_eq!(
        listed(&sandbox, &["-t"]),
        "1[] B, 1[1] R, 1[2] R, 1[3] Q, 1[4] Q, 1[5] Q, 1[6] Q"
    );
    assert_eq!(
        listed(&sandbox, &["-t", "-p"]),
        "1[] B, 1[1] R, 1[2] R, 1[3] Q, 1[4] Q, 1[5] Q, 1[6] Q"
    );
    assert_eq!(
        (&array["substate"], counts(&array)),
        (&json!(70), "Queued:4 Running:2 Exiting:0 Expired:0")
    );
    assert_eq!(array["array_indices_remaining"], "3-6");
    let comment = array["comment"].as_str().unwrap();
    assert!(
        comment.starts_with("Job Array Began at ") && array["stime"].is_string(),
        "{array}"
    );
    let subjob = sandbox.job("1[1].head");
    assert_eq!(
        (&subjob["substate"], &subjob["run_count"]),
        (&json!(42), &json!(1))
    );
    let present =
        ["Checkpoint", "Hold_Types", "Submit_arguments"].map(|name| subjob.get(name).is_some());
    assert_eq!(present, [false; 3], "{subjob}");
    let waiting_comment = sandbox.until("the comment of the waiting subjob", || {
        let comment = sandbox.job("1[3].head")["comment"].as_str()?.to_string();
        comment
            .starts_with("Not Running: Number of concurrent")
            .then_some(comment)
    });
    assert!(
        waiting_comment
            .starts_with("Not Running: Number of concurrent running subjobs limit reached"),
        "{waiting_comment}"
    );
    let ids = |arguments: &[&str]| {
        sandbox
            .run("qselect", arguments)
            .ok()
            .replace(".head\n", " ")
            .trim()
            .to_string()
    };
    assert_eq!(
        (ids(&["-s", "B"]), ids(&["-T", "-s", "R"])),
        ("1[]".into(), "1[1] 1[2]".into())
    );
    let running = sandbox.run("qstat", &["-r", "-t"]).ok();
    let lines: Vec<&str> = running
        .lines()
        .filter_map(|line| line.split(".head").next())
        .collect();
    assert_eq!(lines[lines.len() - 2..], ["1[1]", "1[2]"], "{running}");
    let queues = sandbox.run("qstat", &["-Q"]).ok();
    assert!(
        queues.contains(
            "workq                0     3 yes yes     0     2     0     0     0     0 Exe*"
        ),
        "{queues}"
    );
    let queues = sandbox.run("qstat", &["-Qfw"]).ok();
    assert!(
        queues.contains("Queued:0 Held:0 Waiting:0 Running:2 Exiting:0 Begun:1"),
        "{queues}"
    );
    touch(&sandbox, "go");
    let finished = sandbox.ended(&id);
    assert_eq!(
        sorted(&sandbox),
        (1..=6).map(|index| (index, 1)).collect::<Vec<_>>()
    );
    assert_eq!(
        (
            &finished["Exit_status"],
            &finished["substate"],
            counts(&finished)
        ),
        (
            &json!(0),
            &json!(92),
            "Queued:0 Running:0 Exiting:0 Expired:6"
        )
    );
    assert_eq!(
        (
            finished["comment"].as_str(),
            &finished["array_indices_remaining"]
        ),
        (Some(&*format!("{comment} and finished")), &json!("-"))
    );
    let third = sandbox.job("1[3].head");
    assert!(
        third["comment"]
            .as_str()
            .unwrap()
            .ends_with(" and finished"),
        "{third}"
    );
    assert_eq!(
        (
            &third["Exit_status"],
            &third["substate"],
            &third["array_index"]
        ),
        (&json!(0), &json!(92), &json!(3))
    );
    assert_eq!(
        listed(&sandbox, &["-xt", "1[]"]),
        "1[] F, 1[1] F, 1[2] F, 1[3] F, 1[4] F, 1[5] F, 1[6] F"
    );
    assert_eq!(listed(&sandbox, &["-x", "1[2]"]), "1[2] F");
    for id in ["1[]", "1[2]", "1[1-2]"] {
        let text = format!(
            "qstat: {id}.head Job has finished, use -x or -H to obtain historical job information"
        );
        assert_result(&sandbox.run("qstat", &[id]), 35, "", &text);
    }
    assert_result(&sandbox.run("qdel", &["-x", "1[]"]), 0, "", "");
    assert_result(
        &sandbox.run("qstat", &["-x", "1[]"]),
        153,
        "",
        "qstat: Unknown Job Id 1[].head",
    );
    assert_result(
        &sandbox.run("qstat", &["-x", "1[3]"]),
        153,
        "",
        "qstat: Unknown Job Id 1[3].head",
    );
}

#[test]
fn failed_subjobs_make_their_array_fail() {
    let sandbox = head(4);
    let blocked = sandbox.run_with_input(
        "qsub",
        &["-W", "block=true", "-J", "0-3"],
        "exit $PBS_ARRAY_INDEX\n",
    );
    assert_result(&blocked, 1, "1[].head\n", "");
    let array = sandbox.job("1[].head");
    assert_eq!(
        (&array["Exit_status"], &array["substate"]),
        (&json!(1), &json!(93))
    );
    assert!(
        array["comment"].as_str().unwrap().ends_with(" and failed"),
        "{array}"
    );
    for index in 0..4 {
        let subjob = sandbox.job(&format!("1[{index}].head"));
        assert_eq!(
            (&subjob["Exit_status"], &subjob["substate"]),
            (&json!(index), &json!(92 + i32::from(index > 0)))
        );
    }
    assert_result(
        &sandbox.run_with_input("qsub", &["-W", "block=true", "-J", "0-3"], "true\n"),
        0,
        "2[].head\n",
        "",
    );
    assert_result(
        &sandbox.run("qrerun", &["--failed", "2[]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 2[].head",
    );
}

#[test]
fn subjobs_are_deleted_individually_and_by_range() {
    let sandbox = head(2);
    let id = sandbox.submit(&["-h", "-J", "1-9"], RECORD);
    assert_result(&sandbox.run("qdel", &["1[2]"]), 0, "", "");
    assert_eq!(
        listed(&sandbox, &["-t", "1[1-3]"]),
        "1[1] H, 1[2] X, 1[3] H"
    );
    assert_eq!(sandbox.job(&id)["job_state"], "H", "no subjob has started");
    let deleted = sandbox.job("1[2].head");
    assert_eq!(
        (&deleted["substate"], &deleted["Exit_status"]),
        (&json!(69), &json!(271))
    );
    assert_eq!(deleted["comment"], "Subjob finished and terminated");
    assert_result(
        &sandbox.run("qdel", &["1[2]"]),
        55,
        "",
        "qdel: Request invalid for finished array subjob 1[2].head",
    );
    assert_result(
        &sandbox.run("qdel", &["1[10]"]),
        156,
        "",
        "qdel: Invalid request 1[10].head",
    );
    assert_result(
        &sandbox.run("qdel", &["1[10-20]"]),
        156,
        "",
        "qdel: Invalid request 1[10-20].head",
    );
    assert_result(&sandbox.run("qdel", &["1[1-9:3]"]), 0, "", "");
    let array = sandbox.job(&id);
    assert_eq!(
        (counts(&array), &array["array_indices_remaining"]),
        (
            "Queued:5 Running:0 Exiting:0 Expired:4",
            &json!("3,5-6,8-9")
        )
    );
    assert_result(&sandbox.run("qrls", &[&id]), 0, "", "");
    sandbox.ended(&id);
    assert_eq!(sorted(&sandbox), [(3, 1), (5, 1), (6, 1), (8, 1), (9, 1)]);
    assert_result(
        &sandbox.run("qdel", &["1[3]"]),
        35,
        "",
        "qdel: Job has finished 1[3].head",
    );
    assert_result(
        &sandbox.run("qdel", &["1[]"]),
        35,
        "",
        "qdel: Job has finished 1[].head",
    );

    let by_ranges = sandbox.submit(&["-h", "-J", "0-20:5"], RECORD);
    assert_result(&sandbox.run("qdel", &["2[0-9]", "2[10-99]"]), 0, "", "");
    let finished = sandbox.job(&by_ranges);
    assert_eq!(
        (
            &finished["job_state"],
            &finished["substate"],
            &finished["Exit_status"]
        ),
        (&json!("F"), &json!(91), &json!(271))
    );

    let running = sandbox.submit(&["-J", "1-4"], WAIT);
    sandbox.running("3[2].head");
    assert_result(&sandbox.run("qdel", &["3[2-3]"]), 0, "", "");
    assert_eq!(
        sandbox.until("the end of the subjob", || {
            let subjob = sandbox.job("3[2].head");
            (subjob["job_state"] == "X").then_some(subjob)
        })["Exit_status"],
        271
    );
    assert_eq!(sandbox.state("3[3].head"), "X");
    assert_result(&sandbox.run("qdel", &[&running]), 0, "", "");
    let finished = sandbox.ended(&running);
    assert_eq!(
        (&finished["substate"], &finished["Exit_status"]),
        (&json!(91), &json!(271))
    );
    assert!(
        finished["comment"]
            .as_str()
            .unwrap()
            .contains(" and terminated by "),
        "{finished}"
    );
    assert_eq!(
        listed(&sandbox, &["-xt", "3[]"]),
        "3[] F, 3[1] F, 3[2] F, 3[3] F, 3[4] F"
    );
}

#[test]
fn an_array_is_held_and_altered_as_a_whole() {
    let sandbox = head(8);
    let id = sandbox.submit(&["-J", "1-6%2"], &format!("{RECORD}{WAIT}"));
    sandbox.running("1[1].head");
    sandbox.running("1[2].head");
    for command in ["qhold", "qrls", "qalter"] {
        for id in ["1[1]", "1[5]", "1[5-6]"] {
            assert_result(
                &sandbox.run(command, &[id]),
                156,
                "",
                &format!("{command}: Invalid request {id}.head"),
            );
        }
    }
    assert_result(&sandbox.run("qhold", &[&id]), 0, "", "");
    assert_eq!(
        listed(&sandbox, &["-t", &id]),
        "1[] H, 1[1] R, 1[2] R, 1[3] H, 1[4] H, 1[5] H, 1[6] H"
    );
    assert_result(
        &sandbox.run("qalter", &["-W", "max_run_subjobs=4", "-N", "new", &id]),
        0,
        "",
        "",
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(
        recorded(&sandbox).len(),
        2,
        "a held array starts no subjobs"
    );
    assert_result(&sandbox.run("qrls", &[&id]), 0, "", "");
    sandbox.until("two more subjobs", || {
        (recorded(&sandbox).len() == 4).then_some(())
    });
    let names =
        ["1[].head", "1[1].head", "1[3].head"].map(|id| sandbox.job(id)["Job_Name"].clone());
    assert_eq!(
        names,
        [json!("new"), json!("STDIN"), json!("new")],
        "a started subjob keeps its name"
    );
    assert_eq!(
        (
            &sandbox.job(&id)["comment"].as_str().unwrap()[..15],
            sandbox.state(&id).as_str()
        ),
        ("Job Array Began", "B")
    );
    assert_result(&sandbox.run("qsig", &["-s", "KILL", "1[2]"]), 0, "", "");
    assert_result(
        &sandbox.run("qsig", &["1[6]"]),
        168,
        "",
        "qsig: Request invalid for state of job 1[6].head",
    );
    assert_result(
        &sandbox.run("qrerun", &["1[6]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 1[6].head",
    );
    sandbox.until("the end of the subjob", || {
        (sandbox.state("1[2].head") == "X").then_some(())
    });
    assert_eq!(sandbox.job("1[2].head")["Exit_status"], 265);
    assert_result(
        &sandbox.run("qsig", &["1[2]"]),
        55,
        "",
        "qsig: Request invalid for finished array subjob 1[2].head",
    );
    assert_result(
        &sandbox.run("qrerun", &["1[2]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 1[2].head",
    );
    assert_result(&sandbox.run("qrerun", &["1[1]"]), 0, "", "");
    sandbox.until("the second start of the subjob", || {
        recorded(&sandbox).contains(&(1, 2)).then_some(())
    });
    touch(&sandbox, "go");
    sandbox.ended(&id);
    assert_eq!(
        sorted(&sandbox),
        [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
    );
    assert_eq!(sandbox.job("1[1].head")["run_count"], 2);
}

#[test]
fn the_number_of_running_subjobs_is_limited_and_the_limit_can_be_changed() {
    let sandbox = head(16);
    let count = "mkdir at.$PBS_ARRAY_INDEX; ls -d at.* | wc -l >> seen; sleep 0.3; rmdir at.$PBS_ARRAY_INDEX\n\
                 exit $((PBS_ARRAY_INDEX % 10 == 0))\n";
    let id = sandbox.submit(&["-J", "1-60%3", "-W", "retry=1"], count);
    let max_concurrent = || {
        sandbox
            .read("seen")
            .lines()
            .map(|line| line.trim().parse::<u32>().unwrap())
            .max()
            .unwrap()
    };
    let seen = || {
        fs::read_to_string(sandbox.file("seen"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    sandbox.until("three concurrent subjobs", || {
        (seen() > 12 && max_concurrent() >= 3).then_some(())
    });
    assert_eq!(max_concurrent(), 3);
    assert_result(
        &sandbox.run("qalter", &["-W", "max_run_subjobs=6", &id]),
        0,
        "",
        "",
    );
    let finished = sandbox.ended(&id);
    assert_eq!(
        sandbox.read("seen").lines().count(),
        66,
        "six subjobs ran twice"
    );
    assert_eq!(
        (
            max_concurrent(),
            &finished["Exit_status"],
            &finished["max_run_subjobs"]
        ),
        (6, &json!(1), &json!(6))
    );
}

#[test]
fn failed_subjobs_are_retried_with_the_requested_count_and_delay() {
    let sandbox = head(8);
    let record =
        "echo $PBS_ARRAY_INDEX $LANAI_ATTEMPT >> done; date +%s.%N >> at.$PBS_ARRAY_INDEX\n";
    let script = format!("{record}[ $PBS_ARRAY_INDEX -lt $LANAI_ATTEMPT ]\n");
    let id = sandbox.submit(
        &["-J", "0-4", "-W", "retry=2", "-W", "retry_delay=1"],
        &script,
    );
    sandbox.until("four subjobs that wait for their retry", || {
        (counts(&sandbox.job(&id)) == "Queued:4 Running:0 Exiting:0 Expired:1").then_some(())
    });
    let finished = sandbox.ended(&id);
    assert_eq!(finished["Exit_status"], 1);
    let mut attempts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    recorded(&sandbox)
        .into_iter()
        .for_each(|(index, attempt)| attempts.entry(index).or_default().push(attempt));
    let expected = BTreeMap::from([
        (0, vec![1]),
        (1, vec![1, 2]),
        (2, vec![1, 2, 3]),
        (3, vec![1, 2, 3]),
        (4, vec![1, 2, 3]),
    ]);
    assert_eq!(attempts, expected);
    let statuses =
        [0, 2, 3].map(|index| sandbox.job(&format!("1[{index}].head"))["Exit_status"].clone());
    assert_eq!(statuses, [json!(0), json!(0), json!(1)]);
    let times: Vec<f64> = sandbox
        .read("at.2")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= 1.0),
        "{times:?}"
    );
}

#[test]
fn qrerun_failed_reruns_only_failed_subjobs() {
    let sandbox = head(8);
    let script = format!("{RECORD}[ -e mended ] || exit $((PBS_ARRAY_INDEX % 3))\n");
    let id = sandbox.submit(&["-h", "-J", "1-9"], &script);
    sandbox.run("qdel", &["1[9]", "1[1]"]).ok();
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
    touch(&sandbox, "mended");
    assert_result(
        &sandbox.run("qrerun", &["--failed", "1[2]"]),
        156,
        "",
        "qrerun: Invalid request 1[2].head",
    );
    assert_result(&sandbox.run("qrerun", &["--failed", &id]), 0, "", "");
    let finished = sandbox.ended(&id);
    let again = [2, 4, 5, 7, 8];
    let mut expected: Vec<(u32, u32)> = (2..9).map(|index| (index, 1)).collect();
    expected.extend(again.map(|index| (index, 2)));
    expected.sort_unstable();
    assert_eq!(sorted(&sandbox), expected, "{finished}");
    let counts = ["1[2].head", "1[3].head"].map(|id| sandbox.job(id)["run_count"].clone());
    assert_eq!(counts, [json!(2), json!(1)]);
    let status = |index| sandbox.job(&format!("1[{index}].head"))["Exit_status"].clone();
    assert_eq!(
        [status(1), status(2), status(3), status(9)],
        [json!(271), json!(0), json!(0), json!(271)]
    );
}

/// schedd is killed while subjobs are queued, starting, running and ending.
#[test]
fn a_killed_schedd_starts_every_subjob_exactly_once() {
    let sandbox = head(8);
    let id = sandbox.submit(
        &["-J", "0-398:2", "-W", "umask=022"],
        &format!("{RECORD}sleep 0.01\n"),
    );
    for round in 1..=4 {
        sandbox.until("more started subjobs", || {
            (recorded(&sandbox).len() >= round * 40).then_some(())
        });
        sandbox.kill("schedd");
        std::thread::sleep(Duration::from_millis(40 * round as u64));
        sandbox.run("schedd", &[]).ok();
    }
    let finished = sandbox.ended(&id);
    assert_eq!(
        (&finished["Exit_status"], counts(&finished)),
        (&json!(0), "Queued:0 Running:0 Exiting:0 Expired:200")
    );
    assert_eq!(
        sorted(&sandbox),
        (0..200)
            .map(|position| (2 * position, 1))
            .collect::<Vec<_>>()
    );
}

/// Seconds since `start`.
fn since(start: SystemTime) -> f64 {
    start.elapsed().unwrap_or_default().as_secs_f64()
}
