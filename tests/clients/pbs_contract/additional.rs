//! Ten additional checks, which the contract lists after the forty.

use super::{alone, assert_prints, busy, comment, quiet, running, submitted};
use crate::support::sandbox::{Sandbox, number};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn extra_01_a_job_has_its_environment_variables() {
    let sandbox = busy();
    let script = "echo $PBS_JOBID $PBS_O_WORKDIR $NCPUS\ncat $PBS_NODEFILE\n";
    let id = sandbox.submit(
        &["-N", "names", "-l", "select=1:ncpus=2:mpiprocs=2"],
        script,
    );
    let job = sandbox.ended(&id);
    let node = job["exec_host"]
        .as_str()
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let expected = format!("{id} {} 2\n{node}\n{node}\n", sandbox.work().display());
    assert_eq!(sandbox.read(&format!("names.o{}", number(&id))), expected);
}

/// Decision 7: a job starts in the directory where it was submitted; in the home directory, as in
/// PBS, only if configured.
#[test]
fn extra_02_a_job_starts_where_submitted_or_at_home_if_configured() {
    let lines = "mkdir -p sub && cd sub && echo pwd | qsub -N where -W block=true -o ../where";
    let here = busy();
    here.shell(lines).line();
    assert_eq!(
        here.read("where"),
        format!("{}\n", here.file("sub").display())
    );
    let home = Sandbox::configured("[server]\nname = \"head\"\nworkdir = \"home\"\n");
    home.shell(lines).line();
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid())
        .unwrap()
        .unwrap()
        .dir;
    assert_eq!(home.read("where"), format!("{}\n", own.display()));
}

#[test]
fn extra_03_a_job_over_its_walltime_ends_with_minus_29() {
    let sandbox = busy();
    let id = running(&sandbox, "-N long -l walltime=1");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29, "{job}");
    let errors = sandbox.read(&format!("long.e{}", number(&id)));
    assert_eq!(errors, "=>> PBS: job killed: walltime 1 exceeded limit 1\n");
}

#[test]
fn extra_04_joined_output_is_one_file_readable_only_by_the_owner() {
    let sandbox = busy();
    let id = sandbox.submit(&["-N", "both", "-j", "oe"], "echo out; echo err >&2\n");
    sandbox.ended(&id);
    let name = format!("both.o{}", number(&id));
    assert_eq!(sandbox.read(&name), "out\nerr\n");
    assert!(!sandbox.file(&format!("both.e{}", number(&id))).exists());
    assert_eq!(
        fs::metadata(sandbox.file(&name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

#[test]
fn extra_05_a_failure_ends_the_afterok_job() {
    let sandbox = busy();
    let parent = sandbox.submit(&["-h"], "exit 1\n");
    let child = submitted(&sandbox, &format!("-W depend=afterok:{parent}"));
    sandbox.run("qrls", &[&parent]).ok();
    let job = sandbox.ended(&child);
    assert_eq!(
        (&job["Exit_status"], &job["exec_host"]),
        (&json!(271), &json!(null)),
        "{job}"
    );
    assert!(job["comment"].as_str().unwrap().contains(&parent), "{job}");
}

#[test]
fn extra_06_a_failure_releases_the_afternotok_job() {
    let sandbox = busy();
    let parent = sandbox.submit(&["-h"], "exit 1\n");
    let child = sandbox.submit(&["-W", &format!("depend=afternotok:{parent}")], "true\n");
    assert_eq!(sandbox.state(&child), "H");
    sandbox.run("qrls", &[&parent]).ok();
    let job = sandbox.ended(&child);
    assert_eq!(
        (&job["Exit_status"], &job["depend"]),
        (&json!(0), &json!(null)),
        "{job}"
    );
}

/// Decision 14: the comment has figures, also if no processor is free.
#[test]
fn extra_07_a_queued_job_shows_the_missing_amounts() {
    let sandbox = alone("");
    running(&sandbox, "-l ncpus=2");
    let waits = "Not Running: Insufficient amount of resource: ncpus";
    let more = submitted(&sandbox, "-l ncpus=4");
    assert_eq!(
        comment(&sandbox, &more, "Not Running: Ins"),
        format!("{waits} (R: 4 A: 2 T: 4)")
    );
    sandbox.run("qdel", &[&more]).ok();
    running(&sandbox, "-l ncpus=2");
    let none = submitted(&sandbox, "-l ncpus=1");
    assert_eq!(
        comment(&sandbox, &none, "Not Running: Ins"),
        format!("{waits} (R: 1 A: 0 T: 4)")
    );
    let never = submitted(&sandbox, "-l ncpus=8");
    let text = comment(&sandbox, &never, "Can Never Run: ");
    assert!(
        text.starts_with("Can Never Run: Insufficient amount of resource: ncpus (R: 8 A: 4 T: 4)"),
        "{text}"
    );
}

#[test]
fn extra_08_qmgr_names_object_server_and_error() {
    let expected =
        "qmgr obj=nosuch svr=default: Unknown queue\nqmgr: Error (15018) returned from server\n";
    assert_prints(&quiet(), "qmgr -c 'list queue nosuch'", 1, "", expected);
}

#[test]
fn extra_09_a_queue_limit_is_reported_to_the_blocked_user() {
    let sandbox = alone("");
    assert_prints(
        &sandbox,
        "qmgr -c 'set queue workq max_run = [u:PBS_GENERIC=1]'",
        0,
        "",
        "",
    );
    running(&sandbox, "");
    let waits = submitted(&sandbox, "");
    let expected = "Not Running: User has reached queue workq running job limit.";
    let text = comment(&sandbox, &waits, "Not Running: User");
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn extra_10_joining_wrapped_lines_gives_the_wide_output() {
    let sandbox = quiet();
    let long = "x".repeat(300);
    let odd = format!("-v 'A=\"a, b\",B={long},C=c\\d,D=e=f,E=line\nmore\tend,F=\u{fc}'");
    let id = submitted(
        &sandbox,
        &format!("{odd} -N {} -A 'a  b' -l walltime=60", "n".repeat(200)),
    );
    let narrow = sandbox.run("qstat", &["-f", &id]).ok();
    assert!(
        narrow.lines().all(|line| line.chars().count() < 80),
        "{narrow}"
    );
    assert_eq!(
        narrow.replace("\n\t", ""),
        sandbox.run("qstat", &["-f", "-w", &id]).ok()
    );
}
