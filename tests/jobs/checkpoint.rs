//! Checkpoints of real processes by a command of the site: jobs continue where they were. If the
//! command fails, the next preemption action is used.

use crate::support::installation::shared;
use crate::support::people::{TestUser, two_users};
use crate::support::sandbox::{Sandbox, finish, kill};
use lanai::sys::procfs;
use nix::libc::SIGHUP;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Directory with the site's command and its output.
struct Site {
    folder: TempDir,
}

impl Site {
    /// A command that records its arguments and then runs `body`.
    fn new(body: &str) -> Site {
        let folder = tempfile::Builder::new()
            .prefix("lanai-checkpoint-")
            .tempdir()
            .unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let command = Site { folder };
        let script = format!(
            "#!/bin/sh\ncd {}\necho \"$@\" >>calls\n{body}\n",
            command.folder.path().display()
        );
        fs::write(command.path("checkpoint"), script).unwrap();
        fs::set_permissions(command.path("checkpoint"), Permissions::from_mode(0o755)).unwrap();
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.path("calls"))
            .unwrap_or_default()
            .lines()
            .map(String::from)
            .collect()
    }

    /// True if the last process of a [hanging](HANGS) command still runs.
    fn hangs(&self) -> bool {
        let pid = fs::read_to_string(self.path("hanging"))
            .ok()
            .and_then(|text| text.trim().parse().ok());
        pid.and_then(procfs::process)
            .is_some_and(|process| process.lives())
    }

    /// A node with one processor, where jobs of higher priority preempt others with these actions.
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

/// A file system that never answers.
struct HungDisk {
    folder: PathBuf,
    /// The FUSE device, from which no server ever reads.
    _silent: fs::File,
}

impl HungDisk {
    /// Mounts a file system at `folder`; None, with a message on standard output, if that is not
    /// possible.
    fn mount(folder: PathBuf) -> Option<HungDisk> {
        fs::create_dir(&folder).unwrap();
        let silent = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok();
        let mounted = silent.filter(|silent| {
            let mut mount = Command::new("mount");
            mount
                .args([
                    "-i",
                    "-t",
                    "fuse",
                    "-o",
                    "fd=0,rootmode=40000,user_id=0,group_id=0",
                    "none",
                ])
                .arg(&folder);
            let done = mount.stdin(silent.try_clone().unwrap()).output();
            done.is_ok_and(|done| done.status.success())
        });
        if mounted.is_none() {
            println!("skipped: needs root and the right to mount");
        }
        Some(HungDisk {
            folder,
            _silent: mounted?,
        })
    }
}

impl Drop for HungDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.folder)
            .output();
    }
}

/// A command that hangs and records the pid of its child process.
const HANGS: &str = "sleep 300 & echo $! >new; mv new hanging; wait";

/// A command that copies the job's progress from its working directory.
const COPY: &str = "cp /proc/$2/cwd/progress $3/progress";

/// A script that continues to count from its checkpoint and records the first count of each run.
const COUNTER: &str = "n=0\n[ -f $LANAI_CHECKPOINT/progress ] && n=$(cat $LANAI_CHECKPOINT/progress)\n\
                       echo $n >>began\n\
                       while [ ! -e go ]; do n=$((n+1)); echo $n >new; mv new progress; sleep 0.02; done\n\
                       echo $LANAI_CHECKPOINT >folder\n";

fn submit(sandbox: &Sandbox, priority: i32, more: &[&str], script: &str) -> String {
    let priority = priority.to_string();
    sandbox.submit(
        &[&["-l", "ncpus=1", "-p", &priority], more].concat(),
        script,
    )
}

/// Waits until a job has counted to `count`.
fn await_count(sandbox: &Sandbox, count: u32) {
    let progress = || {
        fs::read_to_string(sandbox.file("progress"))
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    };
    sandbox.until("the job to continue counting", || {
        progress().filter(|&n| n >= count)
    });
}

fn initial_counts(sandbox: &Sandbox) -> Vec<u32> {
    sandbox
        .read("began")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

/// M45: the job ends once its state is saved, and its next attempt continues from there.
#[test]
fn a_preempted_job_continues_from_its_checkpoint() {
    let command = Site::new(COPY);
    let sandbox = command.sandbox("[\"checkpoint\", \"delete\"]", "");
    let low = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    let session = sandbox.job(&low)["session_id"].clone();
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    sandbox.ended(&high);
    sandbox.until("the second start", || {
        (initial_counts(&sandbox).len() == 2).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    let ended = sandbox.ended(&low);
    assert_eq!(
        (
            &ended["Exit_status"],
            &ended["run_count"],
            &ended["preempted"]
        ),
        (&0.into(), &2.into(), &1.into())
    );
    let initial_counts = initial_counts(&sandbox);
    assert!(
        initial_counts[0] == 0 && initial_counts[1] >= 5,
        "{initial_counts:?}"
    );
    let folder = sandbox.read("folder").trim().to_string();
    assert_eq!(command.calls(), [format!("{low} {session} {folder}")]);
    sandbox.until("the removal of the checkpoint directory", || {
        (!PathBuf::from(&folder).exists()).then_some(())
    });
    let trace = sandbox.run("tracejob", &[&low]).ok();
    assert!(
        trace.contains(&format!(
            "Job preempted: checkpointed and requeued for job {high}"
        )),
        "{trace}"
    );
}

/// X15: if the command fails, the next action in the list is used.
#[test]
fn a_failed_checkpoint_falls_back_to_the_next_action() {
    let command = Site::new("echo no disk >&2; exit 3");
    let sandbox = command.sandbox("[\"checkpoint\", \"requeue\"]", "");
    let low = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    sandbox.ended(&high);
    sandbox.until("the second start", || {
        (initial_counts(&sandbox).len() == 2).then_some(())
    });
    assert_eq!(
        (initial_counts(&sandbox), command.calls().len()),
        (vec![0, 0], 1)
    );
    assert_eq!(sandbox.job(&low)["preempted"], 1);
    let trace = sandbox.run("tracejob", &[&low]).ok();
    let failed = "Checkpoint failed, the job continues: the checkpoint command ended with status 3; standard error: no disk";
    assert!(trace.contains(failed), "{trace}");
    assert!(
        trace.contains(&format!("Job preempted: requeued for job {high}")),
        "{trace}"
    );
}

/// X15: no further action is tried if the preempting job has been deleted.
#[test]
fn a_job_continues_if_its_checkpoint_fails_and_the_preemptor_is_gone() {
    let command = Site::new("while [ ! -e fail ]; do sleep 0.02; done; exit 3");
    let sandbox = command.sandbox("[\"checkpoint\", \"requeue\"]", "");
    let low = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    sandbox.until("the checkpoint command", || {
        (command.calls().len() == 1).then_some(())
    });
    sandbox.run("qdel", &[&high]).ok();
    sandbox.ended(&high);
    fs::write(command.path("fail"), "").unwrap();
    let trace = || sandbox.run("tracejob", &[&low]).ok();
    sandbox.until("the failed checkpoint", || {
        trace()
            .contains("Checkpoint failed, the job continues")
            .then_some(())
    });
    let count = sandbox.read("progress").trim().parse::<u32>().unwrap();
    await_count(&sandbox, count + 50);
    assert!(!trace().contains("Job preempted: requeued"), "{}", trace());
    fs::write(sandbox.file("go"), "").unwrap();
    let ended = sandbox.ended(&low);
    assert_eq!(
        (&ended["Exit_status"], &ended["run_count"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_victim_without_an_allowed_action_continues_and_is_not_chosen_again() {
    let command = Site::new(HANGS);
    let sandbox = command.sandbox("\"checkpoint\"", "checkpoint_timeout = \"1s\"");
    let low = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    let high = submit(&sandbox, 10, &[], "exit 0\n");
    let trace = || sandbox.run("tracejob", &[&low]).ok();
    sandbox.until("the checkpoint command", || command.hangs().then_some(()));
    sandbox.until("the failed checkpoint", || {
        trace().contains("it took longer than 1 s").then_some(())
    });
    sandbox.until("the end of the checkpoint command", || {
        (!command.hangs()).then_some(())
    });
    submit(&sandbox, 20, &[], "exit 0\n");
    let count = sandbox.read("progress").trim().parse::<u32>().unwrap();
    await_count(&sandbox, count + 50);
    let job = sandbox.job(&low);
    assert_eq!(
        (
            job["job_state"].as_str(),
            job["run_count"].as_u64(),
            sandbox.state(&high)
        ),
        (Some("R"), Some(1), "Q".into())
    );
    assert_eq!(command.calls().len(), 1);
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&low)["Exit_status"], 0);
}

#[test]
fn a_job_submitted_with_c_n_is_requeued_without_a_checkpoint() {
    let command = Site::new(COPY);
    let sandbox = command.sandbox("[\"checkpoint\", \"requeue\"]", "");
    submit(&sandbox, 0, &["-c", "n"], COUNTER);
    await_count(&sandbox, 5);
    sandbox.ended(&submit(&sandbox, 10, &[], "exit 0\n"));
    sandbox.until("the second start", || {
        (initial_counts(&sandbox).len() == 2).then_some(())
    });
    assert_eq!(
        (initial_counts(&sandbox), command.calls().len()),
        (vec![0, 0], 0)
    );
}

/// As in PBS: `qhold` of a running job checkpoints and requeues it, if the site has a command for
/// that.
#[test]
fn qhold_checkpoints_a_running_job_and_qrls_continues_it() {
    let command = Site::new(COPY);
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the hold", || (sandbox.state(&id) == "H").then_some(()));
    let count = sandbox.read("progress").trim().parse::<u32>().unwrap();
    sandbox.run("qrls", &[&id]).ok();
    sandbox.until("the second start", || {
        (initial_counts(&sandbox).len() == 2).then_some(())
    });
    assert!(
        (5..=count).contains(&initial_counts(&sandbox)[1]),
        "{:?} {count}",
        initial_counts(&sandbox)
    );
    assert_eq!(sandbox.job(&id)["preempted"], serde_json::Value::Null);
}

/// As in PBS: without a checkpoint command, a held running job continues to its end.
#[test]
fn a_held_running_job_continues_without_a_checkpoint_command() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&[], COUNTER);
    await_count(&sandbox, 3);
    sandbox.run("qhold", &[&id]).ok();
    let count = sandbox.read("progress").trim().parse::<u32>().unwrap();
    await_count(&sandbox, count + 10);
    assert_eq!(sandbox.state(&id), "R");
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&0.into(), &1.into()),
        "{job}"
    );
    assert_eq!(initial_counts(&sandbox), [0]);
}

#[test]
fn deleting_a_job_ends_its_checkpoint_command() {
    let command = Site::new(HANGS);
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the checkpoint command", || command.hangs().then_some(()));
    sandbox.run("qdel", &[&id]).ok();
    let ended = sandbox.ended(&id);
    assert_eq!(ended["run_count"], 1);
    sandbox.until("the end of the checkpoint command", || {
        (!command.hangs()).then_some(())
    });
}

/// schedd repeats the checkpoint order to each new noded until the checkpoint is done.
#[test]
fn a_checkpoint_is_repeated_after_noded_is_killed() {
    let command = Site::new(
        "[ -e again ] || { touch again; sleep 300; }\ncp /proc/$2/cwd/progress $3/progress",
    );
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the checkpoint command", || {
        (command.calls().len() == 1).then_some(())
    });
    sandbox.kill("noded");
    sandbox.until("the hold", || (sandbox.state(&id) == "H").then_some(()));
    assert_eq!(command.calls().len(), 2);
    sandbox.run("qrls", &[&id]).ok();
    sandbox.until("the second start", || {
        (initial_counts(&sandbox).len() == 2).then_some(())
    });
    assert!(initial_counts(&sandbox)[1] >= 5);
}

/// Y17: the job has no checkpoint, so its exit status is final.
#[test]
fn a_job_that_exits_0_without_a_checkpoint_finishes_with_its_output() {
    let command = Site::new("sleep 300");
    let sandbox = command.sandbox("\"requeue\"", "");
    let script = "trap 'echo terminated; exit 0' TERM; echo begun; while :; do sleep 0.02; done\n";
    let id = submit(&sandbox, 0, &["-o", "out", "-e", "/dev/null"], script);
    let part = format!("out.{}.part", id.split('.').next().unwrap());
    sandbox.until("the output", || {
        fs::read(sandbox.file(&part))
            .is_ok_and(|text| text == b"begun\n")
            .then_some(())
    });
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the checkpoint command", || {
        (command.calls().len() == 1).then_some(())
    });
    let file = sandbox.home().join("lanai.toml");
    let without: Vec<String> = fs::read_to_string(&file)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with("checkpoint ="))
        .map(String::from)
        .collect();
    fs::write(file, without.join("\n")).unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), SIGHUP);
    sandbox.until("the reload", || {
        sandbox.log().contains("reloaded: ").then_some(())
    });
    // schedd repeats the order to the new noded.
    sandbox.kill("noded");
    let ended = sandbox.ended(&id);
    assert_eq!(
        (&ended["Exit_status"], &ended["run_count"]),
        (&0.into(), &1.into())
    );
    assert_eq!(
        (sandbox.read("out").as_str(), sandbox.file(&part).exists()),
        ("begun\nterminated\n", false)
    );
}

/// The next attempt starts from the checkpoint, whatever exit status the requeued attempt returns.
#[test]
fn a_requeued_job_that_exits_0_keeps_its_checkpoint() {
    let command = Site::new(COPY);
    let sandbox = command.sandbox("\"requeue\"", "");
    let id = submit(&sandbox, 0, &[], &format!("trap 'exit 0' TERM\n{COUNTER}"));
    await_count(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the hold", || (sandbox.state(&id) == "H").then_some(()));
    let initial_count = |times: usize| {
        let starts = || {
            Some(initial_counts(&sandbox)).filter(|initial_counts| initial_counts.len() == times)
        };
        sandbox.until("another start", starts)[times - 1]
    };
    sandbox.run("qrls", &[&id]).ok();
    let count = initial_count(2);
    assert!(count >= 5);
    await_count(&sandbox, count + 5);
    sandbox.run("qrerun", &[&id]).ok();
    assert_eq!(initial_count(3), count);
    assert_eq!(command.calls().len(), 1);
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    let folder = PathBuf::from(sandbox.read("folder").trim());
    sandbox.until("the removal of the checkpoint directory", || {
        (!folder.exists()).then_some(())
    });
}

#[test]
fn a_directory_that_cannot_be_created_is_reported_and_the_job_continues() {
    let command = Site::new(COPY);
    let sandbox = command.sandbox("\"requeue\"", "checkpoint_path = \"/dev/null/here\"");
    let id = submit(&sandbox, 0, &[], COUNTER);
    await_count(&sandbox, 5);
    sandbox.run("qhold", &[&id]).ok();
    let trace = || sandbox.run("tracejob", &[&id]).ok();
    let failed =
        format!("Checkpoint failed, the job continues: /dev/null/here/{id}.CK: Not a directory");
    sandbox.until("the failed checkpoint", || {
        trace().contains(&failed).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        (
            sandbox.ended(&id)["run_count"].as_u64(),
            command.calls().len()
        ),
        (Some(1), 0)
    );
}

/// A checkpoint contains the memory of the job. The group of the files has no access, because users
/// often share a primary group.
#[test]
fn only_the_owner_can_read_a_checkpoint() {
    let Some([ann, bob]) = two_users("saved") else {
        return;
    };
    let command = Site::new("umask 022; echo secret >$3/state");
    let config = format!(
        "[launch]\ncheckpoint = \"{}\"\n",
        command.path("checkpoint").display()
    );
    let sandbox = shared(&config);
    let id = ann.submit(
        &sandbox,
        &[],
        "cat $LANAI_CHECKPOINT/state 2>/dev/null && exit 3; sleep 60",
    );
    sandbox.running(&id);
    sandbox.run("qhold", &[&id]).ok();
    sandbox.until("the checkpoint", || {
        (sandbox.job(&id)["job_state"] == "H").then_some(())
    });
    let folder = sandbox.home().join(format!("node/checkpoints/{id}.CK"));
    let groups = [format!("--regid={}", ann.gid), "--clear-groups".into()];
    let read = |person: &TestUser| {
        let mut read = Command::new("setpriv");
        read.arg(format!("--reuid={}", person.uid))
            .args(&groups)
            .args(["cat", "--"])
            .arg(folder.join("state"));
        finish(read.output().unwrap())
    };
    let denied = read(&bob);
    assert!(
        denied.code != 0 && denied.err.contains("Permission denied"),
        "{denied:?}"
    );
    assert_eq!(read(&ann).ok(), "secret\n");
    let written = ann.shell(&sandbox, &format!("touch {}", folder.join("new").display()));
    assert!(written.code != 0, "{written:?}");
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        3,
        "the next attempt reads the checkpoint"
    );
}

/// Neither creating nor removing a checkpoint directory delays other jobs or the job itself.
#[test]
fn a_hanging_checkpoint_disk_delays_no_job() {
    let command = Site::new(COPY);
    let folders = command.path("disk");
    let config = format!(
        "checkpoint_timeout = \"1s\"\ncheckpoint_path = \"{}\"",
        folders.display()
    );
    let sandbox = command.sandbox("\"requeue\"", &config);
    let Some(_disk) = HungDisk::mount(folders) else {
        return;
    };
    let id = sandbox.submit(
        &["-l", "ncpus=0"],
        "while [ ! -e go ]; do sleep 0.02; done\n",
    );
    sandbox.running(&id);
    sandbox.run("qhold", &[&id]).ok();
    let trace = || sandbox.run("tracejob", &[&id]).ok();
    sandbox.until("the failed checkpoint", || {
        trace()
            .contains(".CK could not be created in time")
            .then_some(())
    });
    assert_eq!(
        sandbox.ended(&submit(&sandbox, 0, &[], "exit 0\n"))["Exit_status"],
        0
    );
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}
