//! A nested installation takes jobs from a queue of its parent (F5).

use super::output;
use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, kill};
use lanai::sys::home::Home;
use lanai::wire::client::{Client, Continue};
use lanai::wire::message::{ClientAnswer, ClientRequest, NestedClaim, Offered, Question, Reply};
use std::collections::BTreeSet;
use std::fs;

/// An installation with a queue for nested installations.
fn outer_with_nested_queue(faults: &str) -> Sandbox {
    let config = "[launch]\ngrace = \"1s\"\n[[queue]]\nname = \"inner\"\nnested = true\n";
    let mut sandbox = Sandbox::configured(config);
    if !faults.is_empty() {
        sandbox.set("LANAI_FAULTS", faults);
    }
    sandbox
        .run("noded", &["--ncpus", "4", "--mem", "2gb", "--name", "n1"])
        .ok();
    sandbox.run("qstat", &["-B"]).ok();
    sandbox
}

/// Submits a nested installation that takes jobs from the queue until the file `go` exists.
#[track_caller]
fn nest_with_queue(sandbox: &Sandbox) -> String {
    let wait =
        "echo $LANAI_HOME > home.new; mv home.new home\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    sandbox.script(
        "workflow.sh",
        &format!("{wait}qstat -xf -F json > inner.json"),
    );
    let nested = [
        "schedd",
        "--nested",
        "--queue",
        "inner",
        "--",
        "./workflow.sh",
    ];
    let arguments = [
        &["-V", "-N", "nest", "-l", "select=1:ncpus=2:mem=1gb", "--"],
        &nested[..],
    ]
    .concat();
    sandbox.run("qsub", &arguments).line()
}

#[test]
fn f5_a_nested_instance_takes_no_job_of_another_user() {
    let Some([ann, bob]) = two_users("take") else {
        return;
    };
    let sandbox = shared("[[queue]]\nname = \"inner\"\nnested = true\n");
    let [bobs, anns] =
        [&bob, &ann].map(|person| person.submit(&sandbox, &["-q", "inner"], "true\n"));
    let command = "schedd --nested --queue inner -- sh -c 'until qselect -x -s F | grep .; do sleep 0.1; done'\n";
    let host = ann.submit(&sandbox, &["-V", "-l", "select=1:ncpus=1"], command);
    assert_eq!(sandbox.ended(&host)["Exit_status"], 0);
    assert!(
        sandbox.ended(&anns)["comment"]
            .as_str()
            .unwrap()
            .starts_with("Job was moved to")
    );
    assert_eq!(sandbox.state(&bobs), "Q");
}

/// Submits a job to the queue that records its run.
#[track_caller]
fn submit_to_nested_queue(sandbox: &Sandbox) -> String {
    sandbox.submit(&["-q", "inner", "-N", "moves"], "echo ran >> ran\nexit 3\n")
}

/// Output of a command sent to the nested installation.
fn run_nested(sandbox: &Sandbox, command: &str) -> String {
    sandbox
        .shell(&format!("LANAI_HOME=$(cat home) {command}"))
        .out
}

/// Faults that fail the claim of a job for some seconds, so that its copy stays held.
fn late_claims() -> String {
    let rules: Vec<String> = (1..=24)
        .map(|nth| format!("nested.claim:{nth}:fail"))
        .collect();
    rules.join(",")
}

#[track_caller]
fn await_held_copy(sandbox: &Sandbox) {
    sandbox.until("a held copy", || {
        let is_up = sandbox.file("home").exists();
        (is_up && run_nested(sandbox, "qselect -s H").lines().count() == 1).then_some(())
    });
}

#[track_caller]
fn assert_one_run(sandbox: &Sandbox, id: &str, host: &str) {
    sandbox.until("the run in the nested installation", || {
        // A dead schedd is restarted by the next command.
        let _ = sandbox.run("schedd", &[]);
        if sandbox.file("home").exists() {
            run_nested(sandbox, "schedd");
        }
        let has_ended = || run_nested(sandbox, "qselect -x -s F").lines().count() > 0;
        (sandbox.file("ran").exists() && has_ended()).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the nested installation", || {
        let _ = sandbox.run("schedd", &[]);
        (sandbox.state(host) == "F").then_some(())
    });
    assert_eq!(
        sandbox.job(host)["Exit_status"],
        0,
        "{}",
        output(sandbox, host)
    );
    assert_eq!(sandbox.read("ran"), "ran\n");
    let inner = sandbox.read("inner.json");
    assert!(inner.contains("\"Exit_status\":\t3"), "{inner}");
    let job = sandbox.ended(id);
    let host = host.split('.').next().unwrap();
    let to = job["comment"]
        .as_str()
        .unwrap()
        .strip_prefix("Job was moved to ")
        .unwrap()
        .to_string();
    assert!(
        to.contains(&format!(".job{host}.")) && inner.contains(&to),
        "{job}"
    );
    assert!(job["Exit_status"].is_null(), "{job}");
}

#[test]
fn f5_a_nested_instance_takes_jobs_of_its_parents_queue() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let comment = sandbox.until("a comment", || {
        let job = sandbox.job(&id);
        job["comment"]
            .as_str()
            .filter(|comment| comment.contains("nested"))
            .map(String::from)
    });
    assert_eq!(
        comment,
        "Not Running: Job waits for a nested installation of its owner"
    );
    assert_eq!(sandbox.state(&id), "Q");
    let array = sandbox.submit(&["-q", "inner", "-J", "1-2"], "true\n");
    let first = submit_to_nested_queue(&sandbox);
    let second = sandbox.submit(
        &["-q", "inner", "-W", &format!("depend=afterok:{first}")],
        "true\n",
    );
    let host = nest_with_queue(&sandbox);
    assert_one_run(&sandbox, &id, &host);
    let stays = [array, first, second].map(|id| sandbox.state(&id));
    assert_eq!(
        stays,
        ["Q", "Q", "H"],
        "arrays and jobs with dependencies are not taken"
    );
    let refused = sandbox.run("qdel", &[&id]);
    assert!(
        refused.code != 0 && refused.err.contains("Job was moved to"),
        "{refused:?}"
    );
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterany:{id}")], "true\n");
    assert!(
        refused.code != 0 && refused.err.contains("was moved to"),
        "{refused:?}"
    );
    assert_ne!(sandbox.run("qalter", &["--retry", &id]).code, 0);
    let other = sandbox
        .run(
            "qsub",
            &[
                "-V", "-N", "nest", "--", "schedd", "--nested", "--queue", "workq",
            ],
        )
        .line();
    assert_eq!(sandbox.ended(&other)["Exit_status"], 1);
    assert!(
        output(&sandbox, &other).contains("queue workq passes no jobs to nested installations")
    );
}

#[test]
fn f5_a_job_runs_once_although_schedd_crashes_after_a_commit() {
    for commit in [6, 7, 8] {
        let sandbox = outer_with_nested_queue(&format!("spool.committed:{commit}:crash"));
        let id = submit_to_nested_queue(&sandbox);
        let host = nest_with_queue(&sandbox);
        assert_one_run(&sandbox, &id, &host);
    }
}

/// Jobs of other queues stay with the parent.
#[test]
fn f5_a_nested_instance_takes_no_job_of_another_queue() {
    let sandbox = outer_with_nested_queue("");
    let busy = sandbox.submit(
        &["-l", "select=1:ncpus=2"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&busy);
    let host = nest_with_queue(&sandbox);
    sandbox.running(&host);
    // This job waits for processors and was submitted first.
    let other = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let id = submit_to_nested_queue(&sandbox);
    assert_one_run(&sandbox, &id, &host);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
}

/// A job is adopted once, even if the request is repeated.
#[test]
fn f5_a_nested_schedd_that_crashes_after_a_commit_makes_one_copy() {
    for commit in 3..=5 {
        let mut sandbox = outer_with_nested_queue("");
        let id = submit_to_nested_queue(&sandbox);
        sandbox.set("LANAI_FAULTS", format!("spool.committed:{commit}:crash"));
        let host = nest_with_queue(&sandbox);
        sandbox.unset("LANAI_FAULTS");
        assert_one_run(&sandbox, &id, &host);
        let inner = sandbox.read("inner.json");
        assert_eq!(
            inner.matches("\"Job_Name\":\t\"moves\"").count(),
            1,
            "{commit}: {inner}"
        );
    }
}

#[test]
fn f5_a_killed_nested_schedd_does_not_lose_the_job_it_takes() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let known = sandbox.pids_of("schedd");
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    await_held_copy(&sandbox);
    let inner = sandbox
        .pids_of("schedd")
        .into_iter()
        .filter(|pid| !known.contains(pid))
        .max()
        .unwrap();
    kill(inner, 9);
    assert_eq!(sandbox.state(&id), "Q", "not claimed yet");
    assert_one_run(&sandbox, &id, &host);
}

#[test]
fn f5_a_job_deleted_before_the_claim_never_runs() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    await_held_copy(&sandbox);
    sandbox.run("qdel", &[&id]).ok();
    sandbox.until("the end of the copy", || {
        (run_nested(&sandbox, "qselect -x -s F").lines().count() == 1).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert!(!sandbox.file("ran").exists());
    assert_eq!(sandbox.job(&id)["Exit_status"], 271);
}

#[test]
fn f5_a_nested_instance_without_a_startable_command_takes_no_job() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let host = sandbox.submit(&["-V"], "schedd --nested --queue inner -- ./typo\n");
    assert_eq!(sandbox.ended(&host)["Exit_status"], 127);
    assert_eq!(sandbox.state(&id), "Q");
}

#[test]
fn f5_a_nested_instance_takes_no_job_after_a_signal_to_end() {
    let sandbox = outer_with_nested_queue("");
    sandbox.script(
        "workflow.sh",
        "trap 'touch signaled' TERM\ntouch up\nwhile :; do sleep 0.1; done\n",
    );
    let host = sandbox.submit(
        &["-V"],
        "exec schedd --nested --queue inner -- ./workflow.sh\n",
    );
    sandbox.until("the nested command", || {
        sandbox.file("up").exists().then_some(())
    });
    let main_process = sandbox.running(&host)["session_id"].as_i64().unwrap() as i32;
    kill(main_process, 15);
    sandbox.until("the signal in the nested command", || {
        sandbox.file("signaled").exists().then_some(())
    });
    let id = submit_to_nested_queue(&sandbox);
    assert_eq!(sandbox.ended(&host)["Exit_status"], 143);
    assert_eq!(sandbox.state(&id), "Q");
}

#[test]
fn f5_a_nested_instance_does_not_restart_the_schedd_of_its_parent() {
    let sandbox = outer_with_nested_queue("");
    sandbox.script(
        "workflow.sh",
        "touch up\nwhile [ ! -e go ]; do sleep 0.05; done\n",
    );
    let nested = "schedd --nested --queue inner -- ./workflow.sh 2> errors";
    sandbox.submit(
        &["-V"],
        &format!("{nested}\necho $? > status.new; mv status.new status\n"),
    );
    sandbox.until("the nested command", || {
        sandbox.file("up").exists().then_some(())
    });
    let inner = sandbox.pids_of("schedd").len() - 1;
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.until("an error message", || {
        sandbox
            .read("errors")
            .contains("cannot take jobs from queue inner")
            .then_some(())
    });
    assert_eq!(
        sandbox.pids_of("schedd").len(),
        inner,
        "the parent stays stopped"
    );
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the nested installation", || {
        sandbox.file("status").exists().then_some(())
    });
    assert_eq!(sandbox.read("status"), "0\n");
}

/// Sends the requests of one user so that schedd receives them in one tick. Returns the replies.
fn in_one_tick(sandbox: &Sandbox, requests: &[ClientRequest]) -> Vec<Reply> {
    let schedd = sandbox.pid_of("schedd").unwrap();
    let mut client = Client::reach(&home_of(sandbox)).unwrap();
    kill(schedd, 19);
    requests
        .iter()
        .for_each(|request| client.begin(request).unwrap());
    kill(schedd, 18);
    requests.iter().map(|_| client.reply().unwrap()).collect()
}

fn home_of(sandbox: &Sandbox) -> Home {
    let state = sandbox.home();
    Home {
        runtime: state.clone(),
        config: state.join("lanai.toml"),
        state,
        system: false,
    }
}

fn offered(sandbox: &Sandbox) -> Option<Offered> {
    let mut offered = None;
    let question = Question::Offer {
        queue: "inner".into(),
        except: BTreeSet::new(),
    };
    let mut client = Client::reach(&home_of(sandbox)).unwrap();
    let mut take = |part| {
        if let ClientAnswer::Offer(offer) = part {
            offered = offer.unwrap();
        }
        Continue::Wanted
    };
    client.ask(&question, &mut take).unwrap();
    offered
}

#[test]
fn f5_repeated_claims_are_granted_and_malformed_or_late_ones_refused() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let Offered { job, revision, .. } = offered(&sandbox).unwrap();
    let claim = |to: &str, token| {
        ClientRequest::Claim(NestedClaim {
            job,
            revision,
            to: to.into(),
            token: [token; 16],
        })
    };
    let long = format!("1.{}", "x".repeat(300));
    let malformed = ["1", "1.he\u{1b}[2Jad", &long].map(|to| claim(to, 1));
    let replies = in_one_tick(&sandbox, &malformed);
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply, Reply::Refused(why) if why.code == 15004)),
        "{replies:?}"
    );
    let good = claim("1.job9.head", 2);
    let repeated = [
        good.clone(),
        good.clone(),
        claim("1.job9.head", 3),
        claim("2.job9.head", 4),
    ];
    let replies = in_one_tick(&sandbox, &repeated);
    assert!(
        matches!(
            &replies[..],
            [Reply::Done, Reply::Done, Reply::Done, Reply::Refused(_)]
        ),
        "{replies:?}"
    );
    assert!(matches!(in_one_tick(&sandbox, &[good])[..], [Reply::Done]));
    assert_eq!(sandbox.job(&id)["comment"], "Job was moved to 1.job9.head");
    assert_eq!(offered(&sandbox), None);
}

#[test]
fn f5_a_job_altered_before_the_claim_is_taken_as_altered() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    await_held_copy(&sandbox);
    sandbox.run("qalter", &["-N", "altered", &id]).ok();
    sandbox.until("the end of two copies", || {
        (run_nested(&sandbox, "qselect -x -s F").lines().count() == 2).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert_eq!(sandbox.read("ran"), "ran\n");
    let inner = sandbox.read("inner.json");
    assert!(inner.contains("\"Job_Name\":\t\"altered\""), "{inner}");
}

#[test]
fn f5_jobs_with_large_or_empty_scripts_are_moved() {
    let sandbox = outer_with_nested_queue("");
    let line = format!("# {}\n", "x".repeat(1000));
    let large = line.repeat(6000) + "echo large >> ran\n";
    for script in [large.as_str(), "", "echo small >> ran\n"] {
        sandbox.submit(&["-q", "inner"], script);
    }
    let host = nest_with_queue(&sandbox);
    sandbox.until("the end of all nested jobs", || {
        let is_up = sandbox.file("home").exists();
        (is_up && run_nested(&sandbox, "qselect -x -s F").lines().count() == 3).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert_eq!(sandbox.read("ran"), "large\nsmall\n");
}

/// The outer schedd already runs, so the variable applies to the nested one only.
#[test]
fn f5_a_job_runs_once_despite_failed_commits_or_a_lost_claim_reply() {
    let faults = (3..=7).map(|commit| format!("spool.commit:{commit}:fail"));
    for fault in faults.chain(["nested.claimed:1:fail".to_string()]) {
        let mut sandbox = outer_with_nested_queue("");
        let id = submit_to_nested_queue(&sandbox);
        sandbox.set("LANAI_FAULTS", fault);
        let host = nest_with_queue(&sandbox);
        assert_one_run(&sandbox, &id, &host);
    }
}

/// Creates a notify program that records its messages. Returns the option that configures it.
fn notify_option(sandbox: &Sandbox) -> String {
    let file = sandbox.file("notifications").display().to_string();
    sandbox.script("notify.sh", &format!("(cat; echo) >> {file}"));
    format!("notify={}", sandbox.file("notify.sh").display())
}

/// Number of notifications of this event.
fn notification_count(sandbox: &Sandbox, event: &str) -> usize {
    let text = fs::read_to_string(sandbox.file("notifications")).unwrap_or_default();
    text.matches(&format!("\"event\":\"{event}\"")).count()
}

#[test]
fn f5_a_move_sends_no_notification() {
    let sandbox = outer_with_nested_queue("");
    let notify = notify_option(&sandbox);
    let id = sandbox.submit(&["-q", "inner", "-W", &notify], "echo ran >> ran\nexit 3\n");
    let host = nest_with_queue(&sandbox);
    assert_one_run(&sandbox, &id, &host);
    let last = sandbox.submit(&["-W", &notify], "true\n");
    sandbox.ended(&last);
    sandbox.until("the notification of the last job", || {
        sandbox.read("notifications").contains(&last).then_some(())
    });
    assert_eq!(
        notification_count(&sandbox, "abort"),
        0,
        "{}",
        sandbox.read("notifications")
    );
}

#[test]
fn f5_a_returned_copy_sends_no_notification() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let notify = notify_option(&sandbox);
    let id = sandbox.submit(&["-q", "inner", "-W", &notify], "true\n");
    let host = nest_with_queue(&sandbox);
    await_held_copy(&sandbox);
    sandbox.run("qdel", &[&id]).ok();
    sandbox.until("the end of the copy", || {
        (run_nested(&sandbox, "qselect -x -s F").lines().count() == 1).then_some(())
    });
    let last = run_nested(&sandbox, &format!("qsub -W {notify} -- true"))
        .trim()
        .to_string();
    sandbox.until("the notification of the last job", || {
        sandbox.read("notifications").contains(&last).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&host);
    assert_eq!(
        notification_count(&sandbox, "abort"),
        1,
        "only the job was deleted: {}",
        sandbox.read("notifications")
    );
}
