//! Limits on the memory, CPU time, walltime and processes of a job.

use crate::support::installation::shared;
use crate::support::people::people;
use crate::support::sandbox::{Sandbox, comment, number, refused};
use serde_json::Value;
use std::fs::{self};
use std::path::Path;
use std::time::{Duration, Instant};

/// A sandbox with a short grace period.
fn short_grace() -> Sandbox {
    Sandbox::configured("[launch]\ngrace = \"1s\"\n")
}

/// Value of a `resources_used` entry in kilobytes.
fn used_kb(job: &Value, name: &str) -> u64 {
    job["resources_used"][name]
        .as_str()
        .unwrap()
        .trim_end_matches("kb")
        .parse()
        .unwrap()
}

/// Exceeded resource, and its use and limit, from the kill message in the job's error file.
#[track_caller]
fn killed(sandbox: &Sandbox, id: &str, name: &str) -> (String, String) {
    let text = sandbox.read(&format!("{name}.e{}", number(id)));
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("=>> PBS: job killed: "));
    let words: Vec<&str> = line
        .unwrap_or_else(|| panic!("{text:?}"))
        .split(' ')
        .collect();
    assert_eq!((words[2], words[3]), ("exceeded", "limit"), "{text}");
    (words[0].to_string(), format!("{} {}", words[1], words[4]))
}

// ------------------------------------------------------------------------------- limits

#[test]
fn a_job_over_its_memory_limit_is_killed_with_the_excess_reported() {
    let sandbox = short_grace();
    // `tail` keeps an unterminated line in memory until its input ends.
    let script = "(head -c 400m /dev/zero; sleep 60) | tail; echo survived\n";
    let started = Instant::now();
    let id = sandbox.submit(&["-N", "hog", "-l", "select=1:ncpus=1:mem=60mb"], script);
    let job = sandbox.ended(&id);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(job["Exit_status"], -27, "{job}");
    let (resource, figures) = killed(&sandbox, &id, "hog");
    assert_eq!(resource, "mem");
    let (peak, limit) = figures.split_once(' ').unwrap();
    assert_eq!(limit, "61440kb");
    let peak: u64 = peak.trim_end_matches("kb").parse().unwrap();
    assert!(
        peak > 61440 && used_kb(&job, "mem") >= peak,
        "{peak}: {job}"
    );
    let expected = format!("and exceeded resource mem (mem {peak}kb exceeded limit 61440kb)");
    assert!(comment(&job).ends_with(&expected), "{job}");
    assert_eq!(sandbox.read(&format!("hog.o{}", number(&id))), "");
}

#[test]
fn memory_within_the_limit_or_without_one_kills_no_job() {
    let sandbox = Sandbox::new();
    let script = "head -c 80m /dev/zero | tail | wc -c; sleep 0.5\n";
    let within = sandbox.submit(&["-N", "in", "-l", "select=1:ncpus=1:mem=300mb"], script);
    let free = sandbox.submit(&["-N", "in"], script);
    for id in [within, free] {
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(
            sandbox.read(&format!("in.o{}", number(&id))).trim(),
            "83886080"
        );
    }
}

#[test]
fn memory_that_processes_share_is_counted_once() {
    if !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: needs perl");
    }
    let sandbox = short_grace();
    // Six children that only share 30 MB with their parent.
    let script = "exec perl -e '$x = \"a\" x 30_000_000; for (1..6) { sleep 3, exit unless fork } 1 while wait > 0'\n";
    let id = sandbox.submit(&["-l", "select=1:ncpus=1:mem=100mb"], script);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
}

#[test]
fn pmem_and_vmem_limits_kill_a_job() {
    let sandbox = short_grace();
    let script = "(head -c 400m /dev/zero; sleep 60) | tail\n";
    let one = sandbox.submit(&["-N", "one", "-l", "pmem=60mb"], script);
    let space = sandbox.submit(
        &["-N", "space", "-l", "select=1:ncpus=1:vmem=120mb"],
        script,
    );
    assert_eq!(sandbox.ended(&one)["Exit_status"], -27);
    assert_eq!(killed(&sandbox, &one, "one").0, "pmem");
    let job = sandbox.ended(&space);
    assert_eq!(job["Exit_status"], -26);
    assert!(
        comment(&job).contains("and exceeded resource vmem (vmem "),
        "{job}"
    );
}

#[test]
fn per_process_limits_are_set_in_the_kernel() {
    let sandbox = Sandbox::new();
    let script = "ulimit -v; ulimit -t; head -c 9m /dev/zero > large; stat -c %s large\n";
    let id = sandbox.submit(
        &["-N", "u", "-l", "pvmem=900mb,pcput=0:50,file=5mb"],
        script,
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(
        sandbox.read(&format!("u.o{}", number(&id))),
        "921600\n50\n5242880\n"
    );
}

#[test]
fn an_endless_loop_is_killed_at_its_cpu_time_limit() {
    let sandbox = short_grace();
    let id = sandbox.submit(&["-N", "busy", "-l", "cput=2"], "while :; do :; done\n");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -28, "{job}");
    let (resource, figures) = killed(&sandbox, &id, "busy");
    assert_eq!((resource.as_str(), figures.as_str()), ("cput", "2 2"));
    assert!(
        comment(&job).ends_with("and exceeded resource cput (cput 2 exceeded limit 2)"),
        "{job}"
    );
}

#[test]
fn the_cpu_time_limit_can_be_changed_while_a_job_runs() {
    let sandbox = short_grace();
    let id = sandbox.submit(
        &["-N", "busy", "-l", "cput=1:00:00"],
        "while :; do :; done\n",
    );
    sandbox.running(&id);
    sandbox.run("qalter", &["-l", "cput=1", &id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], -28);
}

#[test]
fn an_endless_loop_is_killed_at_its_walltime() {
    let sandbox = short_grace();
    let id = sandbox.submit(
        &["-N", "long", "-l", "walltime=1"],
        "while :; do sleep 0.1; done\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29, "{job}");
    assert_eq!(
        killed(&sandbox, &id, "long"),
        ("walltime".into(), "1 1".into())
    );
    assert!(
        comment(&job).ends_with("and exceeded resource walltime (walltime 1 exceeded limit 1)"),
        "{job}"
    );
}

// ------------------------------------------------------------------------------- the warning

#[test]
fn a_job_is_warned_before_its_walltime_ends() {
    let sandbox = short_grace();
    let script = "trap 'echo warned; exit 3' USR1; while :; do sleep 0.1; done\n";
    let trapped = sandbox.submit(
        &["-N", "w", "-l", "walltime=62", "-W", "warn=USR1@60"],
        script,
    );
    let short = sandbox.submit(
        &["-l", "walltime=62", "-W", "warn=USR1@120"],
        &format!("sleep 0.3; {script}"),
    );
    let killed = sandbox.submit(
        &["-l", "walltime=1:00:00", "-W", "warn=12@59:59"],
        "sleep 60\n",
    );
    let started = Instant::now();
    assert_eq!(sandbox.ended(&trapped)["Exit_status"], 3);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(
        sandbox.read(&format!("w.o{}", number(&trapped))),
        "warned\n"
    );
    assert_eq!(
        sandbox.ended(&short)["Exit_status"],
        3,
        "the script had time to set its trap"
    );
    let job = sandbox.ended(&killed);
    assert_eq!(
        (&job["Exit_status"], &job["warn"]),
        (&(256 + 12).into(), &"12@59:59".into())
    );
}

#[test]
fn a_warning_is_sent_once_and_can_be_requested_while_the_job_runs() {
    let sandbox = short_grace();
    let script =
        "trap 'echo warned' USR1; echo ready > ready; while [ ! -e go ]; do sleep 0.05; done\n";
    let id = sandbox.submit(&["-N", "w", "-l", "walltime=1:00:00"], script);
    sandbox.running(&id);
    sandbox.until("the trap", || sandbox.file("ready").exists().then_some(()));
    let out = format!("w.o{}", number(&id));
    sandbox
        .run("qalter", &["-W", "warn=SIGUSR1@1:00:00", &id])
        .ok();
    let so_far = format!("{out}.part");
    sandbox.until("the warning", || {
        (sandbox.read(&so_far) == "warned\n").then_some(())
    });
    sandbox.run("qalter", &["-l", "walltime=0:30:00", &id]).ok();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], sandbox.read(&out).as_str()),
        (&0.into(), "warned\n"),
        "{job}"
    );
}

#[test]
fn an_invalid_warning_is_refused() {
    let sandbox = Sandbox::new();
    for value in ["USR1", "NOSUCH@5", "USR1@x", "USR1@0"] {
        refused(
            sandbox.run("qsub", &["-W", &format!("warn={value}"), "--", "true"]),
            2,
            "qsub: illegal -W value",
        );
    }
}

/// A file in shared memory, removed on drop.
struct SharedFile(String);

impl SharedFile {
    fn new(test: &str) -> SharedFile {
        SharedFile(format!("/dev/shm/lanai-{test}-{}", std::process::id()))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn files_in_shared_memory_count_against_the_memory_limit() {
    let Some([ann]) = people("shm") else { return };
    let sandbox = shared("");
    let file = SharedFile::new("closed");
    let script = format!("head -c 300m /dev/zero > {}; sleep 30", file.0);
    let id = ann.submit(&sandbox, &["-l", "mem=50mb"], &script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -27, "{job}");
}

#[test]
fn open_shared_memory_files_count_despite_other_processes_of_the_user() {
    let sandbox = Sandbox::new();
    let file = SharedFile::new("open");
    let script = format!("exec 9> {}; head -c 300m /dev/zero >&9; sleep 30", file.0);
    let id = sandbox.submit(&["-l", "mem=50mb"], &script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -27, "{job}");
}

#[test]
fn the_files_of_another_job_of_the_same_user_do_not_count() {
    let Some([ann]) = people("shmtwo") else {
        return;
    };
    let sandbox = shared("[[node]]\nname = \"n\"\nncpus = 2\n");
    let file = SharedFile::new("other");
    let go = ann.file("go");
    let patient = format!(
        "while ! [ -e {} ]; do sleep 0.1; done; sleep 3",
        go.display()
    );
    let patient = ann.submit(&sandbox, &["-l", "mem=50mb"], &patient);
    sandbox.running(&patient);
    let script = format!(
        "head -c 300m /dev/zero > {}; touch {}",
        file.0,
        go.display()
    );
    let other = ann.submit(&sandbox, &["-l", "mem=1gb"], &script);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    assert!(Path::new(&file.0).exists(), "the file is not removed");
    let job = sandbox.ended(&patient);
    assert_eq!(job["Exit_status"], 0, "{job}");
}

#[test]
fn the_number_of_processes_of_a_job_is_limited() {
    let sandbox = Sandbox::configured("[launch]\nmax_processes = 40\n");
    let few = sandbox.submit(&[], "for n in $(seq 20); do sleep 1 & done; wait");
    assert_eq!(sandbox.ended(&few)["Exit_status"], 0);
    let script = "for n in $(seq 100); do sleep 60 & done || exit 7; jobs -r | wc -l > count; wait";
    let many = sandbox.submit(&[], script);
    let job = sandbox.ended(&many);
    assert_ne!(job["Exit_status"], 0, "{job}");
}
