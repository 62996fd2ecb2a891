//! Arrays with a million subjobs.

use super::{RECORD, assert_result, counts, head, listed, recorded, since, sorted};
use crate::support::sandbox::Sandbox;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

/// Shortest of several runs, in seconds. Load on the machine only makes runs longer.
fn best(tries: usize, mut act: impl FnMut()) -> f64 {
    let times = (0..tries).map(|_| {
        let start = SystemTime::now();
        act();
        since(start)
    });
    times.fold(f64::MAX, f64::min)
}

/// Memory of a process in kilobytes: `VmRSS`, or `VmHWM` for the peak.
fn memory(pid: i32, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    line.map_or(0, |line| {
        line.trim().trim_end_matches(" kB").parse().unwrap()
    })
}

fn spool_bytes(sandbox: &Sandbox) -> u64 {
    let size = |name: &str| {
        fs::metadata(sandbox.home().join("spool").join(name)).map_or(0, |file| file.len())
    };
    size("spool.db") + size("spool.db-wal")
}

/// Runs a command with long output, passes each line to `each`, and returns its peak memory in
/// kilobytes.
fn streamed(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[&str],
    mut each: impl FnMut(usize, &str),
) -> u64 {
    let mut child = sandbox
        .command(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut peak, mut line) = (0, String::new());
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut count = 0;
    while out.read_line(&mut line).unwrap() > 0 {
        each(count, line.trim_end_matches('\n'));
        if count % 1000 == 0 {
            peak = peak.max(memory(child.id() as i32, "VmHWM"));
        }
        count += 1;
        line.clear();
    }
    assert!(child.wait().unwrap().success());
    peak
}

#[test]
fn a_million_waiting_subjobs_take_little_time_memory_and_space() {
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    sandbox.run("qsub", &["-h", "job.sh"]).line();
    let schedd = sandbox.pid_of("schedd").unwrap();
    let (before, stored) = (memory(schedd, "VmRSS"), spool_bytes(&sandbox));
    let submit = best(5, || {
        drop(
            sandbox
                .run("qsub", &["-h", "-J", "1-1000000", "job.sh"])
                .line(),
        )
    });
    assert!(submit < 0.05, "submitted in {submit} s");
    let grown = memory(schedd, "VmRSS").saturating_sub(before);
    assert!(
        grown < 10 << 10,
        "schedd's memory grew by {grown} kB for five arrays"
    );
    let stored = spool_bytes(&sandbox).saturating_sub(stored);
    assert!(stored < 1 << 20, "the spool grew by {stored} bytes");
    for (what, took) in [
        (
            "qstat",
            best(3, || {
                assert_eq!(
                    listed(&sandbox, &["6[]", "6[999999-1000000]"]),
                    "6[] H, 6[999999] H, 6[1000000] H"
                )
            }),
        ),
        (
            "qstat -f",
            best(3, || {
                assert_eq!(
                    sandbox.job("6[].head")["array_indices_remaining"],
                    "1-1000000"
                )
            }),
        ),
        (
            "qalter",
            best(3, || {
                assert_result(
                    &sandbox.run("qalter", &["-N", "new", "-W", "max_run_subjobs=5", "6[]"]),
                    0,
                    "",
                    "",
                )
            }),
        ),
        (
            "qhold",
            best(3, || {
                assert_result(&sandbox.run("qhold", &["6[]"]), 0, "", "")
            }),
        ),
        (
            "qdel of a range",
            best(1, || {
                assert_result(&sandbox.run("qdel", &["6[1000-500000]"]), 0, "", "")
            }),
        ),
        (
            "qdel of every second subjob",
            best(1, || {
                assert_result(&sandbox.run("qdel", &["6[600001-602000:2]"]), 0, "", "")
            }),
        ),
        ("qdel", best(3, || drop(sandbox.run("qdel", &["2[]"])))),
    ] {
        assert!(took < 0.25, "{what}: {took} s");
    }
    let array = sandbox.job("6[].head");
    assert_eq!(
        counts(&array),
        "Queued:499999 Running:0 Exiting:0 Expired:500001"
    );
    let scattered = sandbox.run("qdel", &["6[1-1000000:2]"]);
    assert_result(
        &scattered,
        166,
        "",
        "qdel: Illegal attribute or resource value: more than 100000 subjobs that are not adjacent; give fewer subjobs, or a range without a step 6[1-1000000:2].head",
    );
    assert_result(&sandbox.run("qdel", &["6[]"]), 0, "", "");
    assert_eq!(sandbox.state("6[].head"), "F");
    let grown = memory(schedd, "VmRSS").saturating_sub(before);
    assert!(grown < 20 << 10, "schedd's memory grew by {grown} kB");
}

#[test]
fn a_listing_of_a_million_subjobs_is_streamed() {
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    sandbox
        .run("qsub", &["-h", "-J", "1-1000000", "-N", "big", "job.sh"])
        .line();
    let mut lines = 0;
    let peak = streamed(&sandbox, "qstat", &["-t"], |number, line| {
        lines = number + 1;
        let expected = if number == 2 {
            "1[].head ".to_string()
        } else {
            format!("1[{}].head ", number.saturating_sub(2))
        };
        assert!(number < 2 || line.starts_with(&expected), "{line}");
    });
    assert_eq!(lines, 1_000_003);
    assert!(peak < 50 << 10, "qstat took {peak} kB");
    let peak = streamed(&sandbox, "qselect", &["-T"], |number, _| lines = number + 1);
    assert_eq!(lines, 1_000_001);
    assert!(peak < 50 << 10, "qselect took {peak} kB");
    let mut text = String::new();
    let peak = streamed(
        &sandbox,
        "qstat",
        &["-f", "-F", "json", "1[1-20000]"],
        |_, line| text.push_str(line),
    );
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["Jobs"].as_object().unwrap().len(), 20_000);
    assert_eq!(document["Jobs"]["1[20000].head"]["array_index"], 20_000);
    assert!(peak < 50 << 10, "qstat took {peak} kB");
}

/// While a client reads a list slowly, the spool's write-ahead log can be emptied, and the client
/// still gets the complete list.
#[test]
fn a_slow_reader_of_a_list_does_not_block_the_spool() {
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    sandbox
        .run("qsub", &["-h", "-J", "1-30000", "-N", "big", "job.sh"])
        .line();
    sandbox.run("qsub", &["-h", "-N", "plain", "job.sh"]).line();
    for arguments in [&["-t"][..], &["-t", "1[]"]] {
        let mut child = sandbox
            .command("qstat")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Vec<String> = out.by_ref().take(10).map(Result::unwrap).collect();
        sandbox
            .run("qdel", &[&format!("1[{}]", 29_000 + arguments.len())])
            .ok();
        let spool = rusqlite::Connection::open(sandbox.home().join("spool/spool.db")).unwrap();
        let checkpoint = || {
            spool
                .query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| {
                    row.get::<_, i64>(0)
                })
                .ok()
        };
        sandbox.until("a checkpoint of the spool's write-ahead log", || {
            (checkpoint() == Some(0)).then_some(())
        });
        let rest = out.map(Result::unwrap);
        let ids: Vec<String> = first
            .into_iter()
            .chain(rest)
            .skip(2)
            .map(|line| id_of(&line))
            .collect();
        assert!(child.wait().unwrap().success());
        let mut expected: Vec<String> = vec!["1[]".into()];
        expected.extend((1..=30_000).map(|index| format!("1[{index}]")));
        expected.extend((arguments.len() == 1).then(|| "2".to_string()));
        assert!(ids == expected, "{} ids of {}", ids.len(), expected.len());
    }
}

fn id_of(line: &str) -> String {
    line.split(".head").next().unwrap().to_string()
}

#[test]
fn subjobs_of_a_large_array_run_once_despite_a_restart() {
    let sandbox = head(40);
    let arguments = [
        "-J",
        "0-999999",
        "-o",
        "/dev/null",
        "-e",
        "/dev/null",
        "-N",
        "big",
    ];
    let id = sandbox.submit(&arguments, RECORD);
    sandbox.until("a thousand started subjobs", || {
        (recorded(&sandbox).len() >= 1000).then_some(())
    });
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.run("schedd", &[]).ok();
    let schedd = sandbox.pid_of("schedd").unwrap();
    let memory_before = memory(schedd, "VmRSS");
    sandbox.until("two thousand started subjobs", || {
        (recorded(&sandbox).len() >= 2000).then_some(())
    });
    let grown = memory(schedd, "VmRSS").saturating_sub(memory_before);
    assert!(grown < 10 << 10, "schedd's memory grew by {grown} kB");
    assert_result(&sandbox.run("qdel", &[&id]), 0, "", "");
    let finished = sandbox.ended(&id);
    assert_eq!(
        (&finished["Exit_status"], &finished["substate"]),
        (&json!(271), &json!(91))
    );
    sandbox.until("the end of all shepherds", || {
        (sandbox.pids_of("lanai-shepherd").is_empty()).then_some(())
    });
    let ran = sorted(&sandbox);
    let indices: BTreeSet<u32> = ran.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices.len(), ran.len(), "no subjob runs twice");
    let consecutive = (0..).take_while(|index| indices.contains(index)).count();
    assert!(
        consecutive + 200 > ran.len(),
        "subjobs start in order: the first {consecutive} of {} have no gap",
        ran.len()
    );
    assert!(ran.iter().all(|(_, attempt)| *attempt == 1));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        recorded(&sandbox).len(),
        ran.len(),
        "nothing starts after qdel"
    );
    let listed = sandbox.run("qselect", &[]).ok();
    assert_eq!(listed, "");
}
