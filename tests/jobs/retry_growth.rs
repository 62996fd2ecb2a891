//! Retries with a larger request after an exceeded limit (`-W retry_mem=`, `-W retry_walltime=`).

use crate::support::mailbox::Mailbox;
use crate::support::sandbox::{Sandbox, comment, refused};
use serde_json::json;

/// Script that needs 2 seconds.
const TWO_SECONDS: &str = "sleep 2; exit 7\n";

/// Script that needs 200 megabytes for a second.
const MUCH_MEMORY: &str = "(head -c 200m /dev/zero; sleep 1) | tail | wc -c; exit 7\n";

/// A sandbox with a short grace period.
fn sandbox(more: &str) -> Sandbox {
    Sandbox::configured(&format!("[launch]\ngrace = \"1s\"\n{more}\n"))
}

#[test]
fn a_job_over_its_walltime_is_retried_with_more_also_after_a_restart() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let retry = "retry=2,retry_delay=4,retry_walltime=6";
    let id = sandbox.submit(&["-l", "walltime=1", "-W", retry], TWO_SECONDS);
    let grown = "retry 1 of 2 requests walltime=00:00:06 instead of 00:00:01";
    let waiting = format!("Not Running: Job was requeued: walltime 1 exceeded limit 1; {grown}");
    sandbox.until("the retry", || {
        (comment(&sandbox.job(&id)) == waiting).then_some(())
    });
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.run("schedd", &[]).ok();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(7), &json!(3)),
        "other failures are retried with the same request: {job}"
    );
    assert_eq!(job["Resource_List"]["walltime"], "00:00:06");
    assert_eq!(job["retry_walltime"], "6");
    let history = sandbox.run("tracejob", &[&id]).ok();
    let event = "The retry after attempt 1 requests walltime=00:00:06 instead of 00:00:01";
    assert_eq!(history.matches(event).count(), 1, "{history}");
    assert_eq!(history.matches("The retry after").count(), 1, "{history}");
    let mails = mailbox.mails(&sandbox, 1);
    let text = "Attempt 1 exceeded a limit (walltime 1 exceeded limit 1)\nRetry 1 of 2 requests";
    assert!(mails[0].contains(text), "{mails:?}");
}

#[test]
fn a_request_grows_up_to_the_maximum_of_the_queue() {
    let queue = "[[queue]]\nname = \"workq\"\nresources_max = { walltime = \"0:00:02\" }\n";
    let sandbox = sandbox(&format!(
        "walltime_action = \"requeue\"\nretry = \"1s\"\n{queue}"
    ));
    let options = ["-l", "walltime=1", "-W", "retry=5,retry_walltime=9"];
    let job = sandbox.ended(&sandbox.submit(&options, "sleep 60\n"));
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(-29), &json!(2)),
        "{job}"
    );
    assert_eq!(job["Resource_List"]["walltime"], "00:00:02");
    let why = "(walltime 2 exceeded limit 2); not retried: walltime=00:00:02 cannot exceed the \
               maximum of queue workq";
    assert!(comment(&job).ends_with(why), "{job}");
}

#[test]
fn the_memory_of_each_chunk_grows_up_to_the_size_of_the_nodes() {
    let sandbox = sandbox("");
    let options = ["-l", "select=1:ncpus=1:mem=60mb", "-l", "place=pack", "-W"];
    let large = sandbox.submit(
        &[&options[..], &["retry=1,retry_mem=8"]].concat(),
        MUCH_MEMORY,
    );
    let small = sandbox.submit(
        &[&options[..], &["retry=1,retry_mem=1.5"]].concat(),
        MUCH_MEMORY,
    );
    let other = sandbox.submit(
        &[&options[..], &["retry=1,retry_walltime=8"]].concat(),
        MUCH_MEMORY,
    );
    let job = sandbox.ended(&large);
    assert_eq!(job["Exit_status"], 7, "{job}");
    assert_eq!(job["Resource_List"]["select"], "1:ncpus=1:mem=480mb");
    assert_eq!(job["Resource_List"]["mem"], "480mb");
    assert_eq!(job["Resource_List"]["place"], "pack");
    let job = sandbox.ended(&small);
    assert_eq!(job["Exit_status"], -27, "{job}");
    assert_eq!(job["Resource_List"]["mem"], "90mb");
    assert!(
        comment(&job).ends_with("not retried: retry 1 was the last"),
        "{job}"
    );
    let job = sandbox.ended(&other);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(-27), &json!(1)),
        "the factor of the walltime does not apply: {job}"
    );

    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap().to_string();
    let node = format!("[[node]]\nname = \"{host}\"\nncpus = 2\nmem = \"100mb\"\n");
    let sandbox = self::sandbox(&node);
    let options = [&options[..], &["retry=9,retry_mem=1.5"]].concat();
    let job = sandbox.ended(&sandbox.submit(&options, MUCH_MEMORY));
    assert_eq!(job["Resource_List"]["mem"], "100mb", "{job}");
    let why = "not retried: no nodes have enough resources for more than mem=100mb";
    assert!(comment(&job).ends_with(why), "{job}");
}

#[test]
fn each_subjob_has_its_own_request() {
    let sandbox = sandbox("");
    let script = "[ $PBS_ARRAY_INDEX = 1 ] || sleep 2\n";
    let options = [
        "-J",
        "1-2",
        "-l",
        "walltime=1",
        "-W",
        "retry=1,retry_walltime=9",
    ];
    let array = sandbox.submit(&options, script);
    let job = sandbox.ended(&array);
    assert_eq!(job["Exit_status"], 0, "{job}");
    assert_eq!(job["Resource_List"]["walltime"], "00:00:01");
    let walltime = |index: u32| {
        let subjob = array.replace("[]", &format!("[{index}]"));
        sandbox.job(&subjob)["Resource_List"]["walltime"].clone()
    };
    assert_eq!([walltime(1), walltime(2)], ["00:00:01", "00:00:09"]);
}

#[test]
fn factors_are_checked_and_can_be_altered() {
    let sandbox = sandbox("");
    for bad in ["0.5", "x", "-1", "1e3"] {
        let text = format!(
            "Illegal attribute or resource value retry_mem: `{bad}` is no factor; write a number \
             from 1 to 1000, such as 1.5"
        );
        let option = format!("retry_mem={bad}");
        refused(
            sandbox.run("qsub", &["-W", &option, "--", "true"]),
            166,
            &text,
        );
    }
    let script = "#PBS -W retry=1\n#PBS -W retry_mem=1.5\ntrue\n";
    let id = sandbox.submit(&["-h"], script);
    assert_eq!(sandbox.job(&id)["retry_mem"], "1.5");
    sandbox
        .run("qalter", &["-W", "retry_mem=2,retry_walltime=3", &id])
        .ok();
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["retry_mem"], &job["retry_walltime"]),
        (&json!("2"), &json!("3"))
    );
    let done = sandbox.run("qalter", &["-W", "retry=0", &id]);
    assert!(
        done.err.contains("retry_mem has no effect without retries"),
        "{done:?}"
    );
}
