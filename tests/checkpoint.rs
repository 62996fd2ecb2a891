//! Jobs that a command of the site checkpoints, with real processes: they go on where they were, and where the
//! command fails another way is taken.

use crate::support::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// The site's command, and what it leaves.
struct Command {
    folder: TempDir,
}

impl Command {
    /// A command that keeps its arguments, waits until it may, and then does this.
    fn new(body: &str) -> Command {
        let folder = tempfile::Builder::new().prefix("lanai-checkpoint-").tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let command = Command { folder };
        let script = format!("#!/bin/sh\ncd {}\necho \"$@\" >>asked\n{body}\n", command.folder.path().display());
        fs::write(command.path("checkpoint"), script).unwrap();
        fs::set_permissions(command.path("checkpoint"), Permissions::from_mode(0o755)).unwrap();
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn asked(&self) -> Vec<String> {
        fs::read_to_string(self.path("asked")).unwrap_or_default().lines().map(String::from).collect()
    }

    /// A node of its own with one processor, where who goes before others has their places.
    fn sandbox(&self, actions: &str, more: &str) -> Sandbox {
        let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
        let node = host.split('.').next().unwrap();
        Sandbox::configured(&format!(
            "preset = \"qube\"\n[order]\nby = \"priority\"\nuser_priority = \"free\"\nlowest_is_best = false\n\
             [preemption]\nmode = \"aggressive\"\naction = {actions}\n\
             [launch]\ncheckpoint = \"{}\"\n{more}\n[[node]]\nname = \"{node}\"\nncpus = 1\n",
            self.path("checkpoint").display()
        ))
    }
}

/// Copies what a job has come to, which is in its working folder.
const COPY: &str = "cp /proc/$2/cwd/progress $3/progress";

/// Counts on from where it had come to, and says from where that was.
const COUNTER: &str = "n=0\n[ -f $LANAI_CHECKPOINT/progress ] && n=$(cat $LANAI_CHECKPOINT/progress)\n\
                       echo $n >>began\n\
                       while [ ! -e go ]; do n=$((n+1)); echo $n >new; mv new progress; sleep 0.02; done\n\
                       echo $LANAI_CHECKPOINT >folder\n";

fn submit(sandbox: &Sandbox, priority: i32, more: &[&str], script: &str) -> String {
    let priority = priority.to_string();
    sandbox.submit(&[&["-l", "ncpus=1", "-p", &priority], more].concat(), script)
}

/// Until a job has counted so far.
fn counted(sandbox: &Sandbox, far: u32) {
    let number = || fs::read_to_string(sandbox.file("progress")).ok()?.trim().parse::<u32>().ok();
    sandbox.until("the job to come on", || number().filter(|&n| n >= far));
}

fn begins(sandbox: &Sandbox) -> Vec<u32> {
    sandbox.read("began").lines().map(|line| line.parse().unwrap()).collect()
}

/// M45: the job is ended once its state is copied, and goes on from there in its next attempt.
#[test]
fn a_job_that_the_site_checkpoints_goes_on_from_where_it_was() {
    let command = Command::new(COPY);
    let sandbox = command.sandbox("[\"checkpoint\", \"delete\"]", "");
    let low = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    let session = sandbox.job(&low)["session_id"].clone();
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    sandbox.ended(&high);
    sandbox.until("the second begin", || (begins(&sandbox).len() == 2).then_some(()));
    fs::write(sandbox.file("go"), "").unwrap();
    let ended = sandbox.ended(&low);
    assert_eq!((&ended["Exit_status"], &ended["run_count"], &ended["preempted"]), (&0.into(), &2.into(), &1.into()));
    let begins = begins(&sandbox);
    assert!(begins[0] == 0 && begins[1] >= 5, "{begins:?}");
    let folder = sandbox.read("folder").trim().to_string();
    assert_eq!(command.asked(), [format!("{low} {session} {folder}")]);
    assert!(!std::path::Path::new(&folder).exists(), "what went well is not begun again");
    let told = sandbox.run("tracejob", &[&low]).ok();
    assert!(
        told.contains(&format!("Job preempted: checkpointed and put back into the queue for job {high}")),
        "{told}"
    );
}

/// X15: where the command fails, what comes after it in the order is done.
#[test]
fn a_command_that_fails_leaves_the_next_action() {
    let command = Command::new("echo no disk >&2; exit 3");
    let sandbox = command.sandbox("[\"checkpoint\", \"requeue\"]", "");
    let low = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    sandbox.ended(&high);
    sandbox.until("the second begin", || (begins(&sandbox).len() == 2).then_some(()));
    assert_eq!((begins(&sandbox), command.asked().len()), (vec![0, 0], 1));
    assert_eq!(sandbox.job(&low)["preempted"], 1);
    let told = sandbox.run("tracejob", &[&low]).ok();
    let failed = "Job not checkpointed, it goes on: it ended with status 3; it complains: no disk";
    assert!(told.contains(failed), "{told}");
    assert!(told.contains(&format!("Job preempted: put back into the queue for job {high}")), "{told}");
}

#[test]
fn where_nothing_else_is_allowed_the_job_goes_on_and_is_not_asked_again() {
    let command = Command::new("sleep 300");
    let sandbox = command.sandbox("\"checkpoint\"", "checkpoint_timeout = \"1s\"");
    let low = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    let told = || sandbox.run("tracejob", &[&low]).ok();
    sandbox.until("the failure", || told().contains("it took longer than 1 s").then_some(()));
    submit(&sandbox, 20, &[], "exit 0\n");
    let far = sandbox.read("progress").trim().parse::<u32>().unwrap();
    counted(&sandbox, far + 50);
    let job = sandbox.job(&low);
    assert_eq!(
        (job["job_state"].as_str(), job["run_count"].as_u64(), sandbox.state(&high)),
        (Some("R"), Some(1), "Q".into())
    );
    assert_eq!(command.asked().len(), 1);
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&low)["Exit_status"], 0);
}

#[test]
fn a_job_that_is_not_to_be_checkpointed_is_not() {
    let command = Command::new(COPY);
    let sandbox = command.sandbox("[\"checkpoint\", \"requeue\"]", "");
    submit(&sandbox, 0, &["-c", "n"], COUNTER);
    counted(&sandbox, 5);
    sandbox.ended(&submit(&sandbox, 10, &[], "exit 0\n"));
    sandbox.until("the second begin", || (begins(&sandbox).len() == 2).then_some(()));
    assert_eq!((begins(&sandbox), command.asked().len()), (vec![0, 0], 0));
}

/// As PBS: who is held while it runs is checkpointed and waits, where that is possible.
#[test]
fn a_running_job_that_is_held_is_checkpointed_and_goes_on_when_it_is_released() {
    let command = Command::new(COPY);
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the hold", || (sandbox.state(&id) == "H").then_some(()));
    let far = sandbox.read("progress").trim().parse::<u32>().unwrap();
    sandbox.run("qrls", &[&id]).ok();
    sandbox.until("the second begin", || (begins(&sandbox).len() == 2).then_some(()));
    assert!((5..=far).contains(&begins(&sandbox)[1]), "{:?} {far}", begins(&sandbox));
    assert_eq!(sandbox.job(&id)["preempted"], serde_json::Value::Null);
}

/// As PBS, too: where nothing can be written down a job that is held goes on to its end.
#[test]
fn a_running_job_that_is_held_goes_on_where_the_site_has_no_command() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&[], COUNTER);
    counted(&sandbox, 3);
    sandbox.run("qhold", &[&id]).ok();
    let far = sandbox.read("progress").trim().parse::<u32>().unwrap();
    counted(&sandbox, far + 10);
    assert_eq!(sandbox.state(&id), "R");
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!((&job["Exit_status"], &job["run_count"]), (&0.into(), &1.into()), "{job}");
    assert_eq!(begins(&sandbox), [0]);
}

#[test]
fn a_job_that_is_deleted_meanwhile_ends_at_once_and_the_command_with_it() {
    let command = Command::new("sleep 300");
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the command", || (command.asked().len() == 1).then_some(()));
    sandbox.run("qdel", &[&id]).ok();
    let ended = sandbox.ended(&id);
    assert_eq!(ended["run_count"], 1);
    let runs = || sandbox.processes().into_iter().any(|(_, line)| line.contains("lanai-checkpoint-"));
    sandbox.until("the command's end", || (!runs()).then_some(()));
}

/// What is wanted is told until it has happened: also to the next noded.
#[test]
fn a_noded_that_is_killed_meanwhile_is_followed_by_one_that_does_it() {
    let command = Command::new("[ -e again ] || { touch again; sleep 300; }\ncp /proc/$2/cwd/progress $3/progress");
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    counted(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the command", || (command.asked().len() == 1).then_some(()));
    sandbox.kill("noded");
    sandbox.until("the hold", || (sandbox.state(&id) == "H").then_some(()));
    assert_eq!(command.asked().len(), 2);
    sandbox.run("qrls", &[&id]).ok();
    sandbox.until("the second begin", || (begins(&sandbox).len() == 2).then_some(()));
    assert!(begins(&sandbox)[1] >= 5);
}
