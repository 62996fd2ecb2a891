//! Staging of files in and out, and the private sandbox.

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, comment, kill, number, refused};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

#[test]
fn files_are_copied_before_and_after_a_job() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.file("data")).unwrap();
    fs::write(sandbox.file("data/1.in"), "1").unwrap();
    fs::write(sandbox.file("data/2.in"), "2").unwrap();
    for folder in ["w", "results"] {
        fs::create_dir(sandbox.file(folder)).unwrap();
    }
    let work = sandbox.work().display().to_string();
    let stage_in = format!("stagein={work}/w@localhost:{work}/data/*.in");
    let stage_out =
        format!("stageout='{work}/w/sum@localhost:{work}/results,{work}/w/no@localhost:{work}/x'");
    let id = sandbox.submit(
        &["-W", &stage_in, "-W", &stage_out],
        "cd w; cat 1.in 2.in > sum; exit 5\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 5, "{job}");
    assert_eq!(sandbox.read("results/sum"), "12");
    let message = comment(&job);
    assert!(
        message.contains("and failed; stage-out failed: ")
            && message.contains("No such file or directory"),
        "{message}"
    );
}

#[test]
fn a_job_without_its_stage_in_files_does_not_start() {
    let sandbox = Sandbox::new();
    let work = sandbox.work().display().to_string();
    let id = sandbox.submit(
        &["-W", &format!("stagein={work}/x@localhost:{work}/none")],
        "touch ran\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -1, "{job}");
    let message = comment(&job);
    assert!(
        message.starts_with("Job could not be started: stage-in failed: ")
            && message.contains("/none: No such"),
        "{message}"
    );
    assert!(!sandbox.file("ran").exists());
    let done = sandbox.run("qsub", &["-W", "stagein=x@far.away:/y", "--", "true"]);
    refused(done, 166, "stagein: far.away is not a host of this cluster");
}

/// A job waits in the queue for missing files to stage in with preset `maui`, and otherwise with
/// `stage_in = "wait"`.
#[test]
fn a_job_waits_for_missing_stage_in_files_if_configured() {
    // Availability must not depend on the load of the test machine.
    let maui = "preset = \"maui\"\nplacement = { availability = \"dedicated\" }\n[launch]\n";
    for config in [maui, "[launch]\nstage_in = \"wait\"\n"] {
        let sandbox = Sandbox::configured(&format!("{config}stage_in_retry = \"1s\"\n"));
        let work = sandbox.work().display().to_string();
        let stage_in = format!("stagein={work}/x@localhost:{work}/none");
        let id = sandbox.submit(&["-W", &stage_in], "cat x > ran\n");
        let missing = format!("{work}/none");
        let why = sandbox.until("the reason", || {
            let why = sandbox.run("qstat", &["--why", &id]).out;
            why.contains("(state: stage_in)").then_some(why)
        });
        assert!(
            why.contains(&format!(
                "Files to stage in are missing: {missing}. The next check is at"
            )),
            "{why}"
        );
        let message = comment(&sandbox.job(&id)).to_string();
        assert!(
            message.starts_with("Not Running: Files to stage in are missing")
                && message.ends_with(&missing),
            "{message}"
        );
        assert!(!sandbox.file("ran").exists());
        fs::write(sandbox.file("none"), "here").unwrap();
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(sandbox.read("ran"), "here");
    }
}

#[test]
fn a_job_can_be_deleted_during_stage_in() {
    let sandbox = Sandbox::new();
    let work = sandbox.work().display().to_string();
    let stage_in = format!("stagein={work}/copy@localhost:/dev/zero");
    assert_not_a_file(&sandbox, &stage_in);
    // A copy that never ends: the FIFO has no reader.
    sandbox.shell("mkfifo pipe; echo text > file").ok();
    let id = sandbox.submit(
        &["-W", &format!("stagein={work}/pipe@localhost:{work}/file")],
        "touch ran\n",
    );
    sandbox.until("the copying process", || {
        (sandbox.pids_of("lanai-shepherd").len() == 2).then_some(())
    });
    assert_eq!(sandbox.state(&id), "R");
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    assert!(!sandbox.file("ran").exists());
}

#[test]
fn a_shepherd_killed_during_stage_in_leaves_no_process_or_directory() {
    let sandbox = Sandbox::configured(&format!(
        "[server]\nname = \"copies{}\"\n",
        std::process::id()
    ));
    let work = sandbox.work().display().to_string();
    sandbox.shell("mkfifo pipe; echo text > file").ok();
    let options = [
        "-r",
        "n",
        "-W",
        &format!("stagein={work}/pipe@localhost:{work}/file"),
    ];
    let id = sandbox.submit(&options, "touch ran\n");
    let tmpdir = Path::new("/var/tmp").join(format!("pbs.{id}"));
    let both = sandbox.until("the copying process", || {
        Some(sandbox.pids_of("lanai-shepherd")).filter(|pids| pids.len() == 2)
    });
    assert!(tmpdir.is_dir());
    fs::write(tmpdir.join("left"), "").unwrap();
    let parent = |pid: &i32| lanai::sys::procfs::process(*pid).map(|process| process.parent);
    let copier = both
        .iter()
        .find(|pid| parent(pid).is_some_and(|parent| both.contains(&parent)))
        .unwrap();
    kill(parent(copier).unwrap(), 9);
    sandbox.ended(&id);
    sandbox.until("the end of both processes", || {
        sandbox.pids_of("lanai-shepherd").is_empty().then_some(())
    });
    sandbox.until("the removal of TMPDIR", || (!tmpdir.exists()).then_some(()));
    assert!(!sandbox.file("ran").exists());
}

fn assert_not_a_file(sandbox: &Sandbox, stage_in: &str) {
    let id = sandbox.submit(&["-W", stage_in], "true\n");
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("/dev/zero: neither a file nor a directory"),
        "{job}"
    );
}

#[test]
fn staging_uses_the_permissions_of_the_job_owner() {
    let Some([ann, bob]) = two_users("stage") else {
        return;
    };
    let sandbox = shared("");
    fs::write(bob.file("diary"), "secret").unwrap();
    let diary = bob.file("diary").display().to_string();
    let id = ann.submit(
        &sandbox,
        &["-W", &format!("stagein=mine@localhost:{diary}")],
        "cat mine",
    );
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("Permission denied") || comment(&job).contains("No such file"),
        "{job}"
    );
    assert!(!ann.file("mine").exists());
    let out = format!(
        "stageout=job.sh@localhost:{}",
        bob.file("planted").display()
    );
    let id = ann.submit(&sandbox, &["-W", &out], "true");
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("and finished; stage-out failed")
            && comment(&job).contains("denied"),
        "{job}"
    );
    assert!(!bob.file("planted").exists());
}

#[test]
fn a_private_sandbox_is_created_and_removed() {
    let Some([ann, _]) = two_users("box") else {
        return;
    };
    let sandbox = shared("");
    fs::write(ann.file("in"), "given").unwrap();
    fs::set_permissions(ann.file("in"), Permissions::from_mode(0o644)).unwrap();
    let options = [
        "-N",
        "p",
        "-W",
        "sandbox=PRIVATE,stagein=work@localhost:in",
        "-W",
        "stageout=result@localhost:kept",
    ];
    let script = "pwd; echo $PBS_JOBDIR; stat -c '%a %U' .; cat work; echo made > result";
    let id = ann.submit(&sandbox, &options, script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    let out = ann.read(&format!("p.o{}", number(&id)));
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with(&ann.file(&format!("pbs.{id}.")).display().to_string()),
        "{out}"
    );
    assert_eq!(
        lines[1..],
        [lines[0], &format!("700 {}", ann.name), "given"],
        "{out}"
    );
    assert_eq!(ann.read("kept"), "made\n");
    assert!(!Path::new(lines[0]).exists());
    let owner = fs::metadata(ann.file("kept")).unwrap().uid();
    assert_eq!(owner, ann.uid);
}
