//! Actions on jobs that exceed their walltime (M50) and other limits (M51).

use crate::support::sandbox::{Sandbox, number};
use serde_json::json;
use std::time::{Duration, Instant};

/// A sandbox with a short grace period.
fn sandbox(launch: &str) -> Sandbox {
    Sandbox::configured(&format!(
        "[launch]\ngrace = \"1s\"\nretry = \"1s\"\n{launch}\n"
    ))
}

/// Script line that ends the second attempt at once.
const SECOND_IS_SHORT: &str = "[ $LANAI_ATTEMPT = 1 ] || exit 5\n";

/// Script line that uses this many megabytes for this many seconds.
fn use_memory(megabytes: u32, seconds: u32) -> String {
    format!("(head -c {megabytes}m /dev/zero; sleep {seconds}) | tail | wc -c\n")
}

#[test]
fn a_job_may_exceed_its_walltime_by_the_configured_overrun() {
    // M50: walltime 60 and overrun 30 give TERM at 90; here 1 and 2.
    let sandbox = sandbox("overrun = \"2s\"");
    let started = Instant::now();
    let long = sandbox.submit(&["-N", "long", "-l", "walltime=1"], "sleep 60\n");
    let short = sandbox.submit(&["-l", "walltime=1"], "sleep 2; exit 4\n");
    let job = sandbox.ended(&long);
    assert!(
        started.elapsed() >= Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(job["Exit_status"], -29, "{job}");
    let message = sandbox.read(&format!("long.e{}", number(&long)));
    assert_eq!(
        message,
        "=>> PBS: job killed: walltime 3 exceeded limit 1\n"
    );
    assert_eq!(
        sandbox.ended(&short)["Exit_status"],
        4,
        "the job ended within the overrun"
    );
}

#[test]
fn a_job_over_its_walltime_is_requeued_if_configured() {
    let sandbox = sandbox("walltime_action = \"requeue\"");
    let script = format!("{SECOND_IS_SHORT}sleep 60\n");
    let again = sandbox.submit(&["-l", "walltime=1"], &script);
    let never = sandbox.submit(&["-l", "walltime=1", "-r", "n"], &script);
    let job = sandbox.until("the requeue", || {
        Some(sandbox.job(&again)).filter(|job| job["run_count"] == 1 && job["job_state"] == "Q")
    });
    assert_eq!(
        job["comment"],
        "Not Running: Job was requeued: walltime 1 exceeded limit 1"
    );
    let job = sandbox.ended(&again);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(5), &json!(2)),
        "{job}"
    );
    assert_eq!(
        sandbox.ended(&never)["Exit_status"],
        -29,
        "the job is not rerunnable"
    );
}

#[test]
fn a_job_may_exceed_its_memory_limit_for_the_configured_time() {
    // M51: MEM:EXTENDED:CANCEL, with a delay.
    let sandbox = sandbox("limits = { mem = \"cancel after 5s\" }");
    let started = Instant::now();
    let select = ["-l", "select=1:ncpus=1:mem=60mb"];
    let long = sandbox.submit(
        &[&select[..], &["-N", "long"]].concat(),
        &use_memory(400, 60),
    );
    let short = sandbox.submit(
        &[&select[..], &["-N", "short"]].concat(),
        &use_memory(100, 0),
    );
    let job = sandbox.ended(&short);
    assert_eq!(job["Exit_status"], 0, "{job}");
    let job = sandbox.ended(&long);
    assert_eq!(job["Exit_status"], -27, "{job}");
    assert!(
        started.elapsed() >= Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    assert!(
        sandbox
            .read(&format!("long.e{}", number(&long)))
            .contains("exceeded limit 61440kb")
    );
}

#[test]
fn a_job_over_its_memory_or_cpu_time_is_requeued() {
    let sandbox = sandbox("limits = { mem = \"requeue\", cput = \"requeue after 1s\" }");
    let hog = sandbox.submit(
        &["-l", "select=1:ncpus=1:mem=60mb"],
        &format!("{SECOND_IS_SHORT}{}", use_memory(400, 60)),
    );
    let busy = sandbox.submit(
        &["-l", "cput=1"],
        &format!("{SECOND_IS_SHORT}while :; do :; done\n"),
    );
    for id in [hog, busy] {
        let job = sandbox.ended(&id);
        assert_eq!(
            (&job["Exit_status"], &job["run_count"]),
            (&json!(5), &json!(2)),
            "{job}"
        );
    }
}
