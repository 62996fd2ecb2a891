//! Large job scripts are written outside the main loop, never lost, and removed with their last
//! job.

use crate::support::sandbox::{Done, Sandbox, finish};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A script large enough to be stored in a file. It writes its own checksum to the file `sum.NAME`.
fn large(name: &str) -> String {
    format!(
        "cksum <$0 >sum.{name}\nexit\n{}\n",
        format!("# {name}\n").repeat(60_000)
    )
}

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join("spool/scripts")
}

/// Names of the files in the script directory.
fn files(sandbox: &Sandbox) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder(sandbox)) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn until_files(sandbox: &Sandbox, count: usize) {
    sandbox.until(&format!("{count} files"), || {
        (files(sandbox).len() == count).then_some(())
    });
}

/// Starts a `qsub` of this script without waiting for it.
fn begin(sandbox: &Sandbox, arguments: &[&str], script: &str) -> Child {
    let mut command = sandbox.command("qsub");
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    child
}

fn end(child: Child) -> Done {
    finish(child.wait_with_output().unwrap())
}

/// Asserts that the job has run exactly this script.
#[track_caller]
fn has_run(sandbox: &Sandbox, id: &str, name: &str) {
    assert_eq!(sandbox.ended(id)["Exit_status"], 0, "{}", sandbox.job(id));
    fs::write(sandbox.file("expected"), large(name)).unwrap();
    let expected = sandbox.shell("cksum <expected").ok();
    assert_eq!(sandbox.read(&format!("sum.{name}")), expected, "{name}");
}

#[test]
fn a_large_script_is_removed_with_the_last_job_that_uses_it() {
    let sandbox = Sandbox::new();
    let one = sandbox.submit(&[], &large("one"));
    has_run(&sandbox, &one, "one");
    let same = sandbox.submit(&["-h"], &large("one"));
    let other = sandbox.submit(&["-h"], &large("other"));
    assert_eq!(files(&sandbox).len(), 2);
    sandbox.run("qdel", &["-x", &one]).ok();
    sandbox.run("qdel", &["-W", "force", &other]).ok();
    sandbox.run("qdel", &["-x", &other]).ok();
    until_files(&sandbox, 1);
    fs::remove_file(sandbox.file("sum.one")).unwrap();
    sandbox.run("qrls", &[&same]).ok();
    has_run(&sandbox, &same, "one");
    sandbox.run("qdel", &["-x", &same]).ok();
    until_files(&sandbox, 0);
}

#[test]
fn a_refused_large_script_leaves_no_file() {
    let sandbox = Sandbox::configured("[server]\njobscript_max_size = \"2mb\"\n");
    let refused = sandbox.run_with_input("qsub", &["-l", "ncpus=100000"], &large("refused"));
    assert!(refused.code != 0 && refused.out.is_empty(), "{refused:?}");
    until_files(&sandbox, 0);
    let refused = sandbox.run_with_input("qsub", &["-h"], &"#".repeat(3 << 20));
    assert!(refused.code != 0 && refused.out.is_empty(), "{refused:?}");
    let accepted = sandbox.submit(&["-h"], &large("accepted"));
    assert_eq!(files(&sandbox).len(), 1);
    assert_eq!(sandbox.state(&accepted), "H");
}

/// schedd crashes while it stores a script, or before or after it commits the job. The repeated
/// request creates one job, and no other file remains.
#[test]
fn a_large_script_survives_a_crash_of_schedd_at_every_point() {
    let points = ["create", "sync", "rename", "renamed", "stored"];
    let points = points.map(|point| format!("script.{point}:1"));
    let commits = ["spool.commit", "spool.committed"];
    let commits = commits
        .iter()
        .flat_map(|point| (1..=3).map(move |n| format!("{point}:{n}")));
    for point in points.into_iter().chain(commits) {
        let sandbox = Sandbox::new();
        // Only the first schedd crashes.
        let mut schedd = sandbox.command("schedd");
        let faulty = schedd
            .env("LANAI_FAULTS", format!("{point}:crash"))
            .output()
            .unwrap();
        let first = sandbox.pid_of("schedd").filter(|_| faulty.status.success());
        let id = sandbox.submit(&[], &large("kept"));
        has_run(&sandbox, &id, "kept");
        assert_eq!(sandbox.run("qselect", &["-x"]).ok().trim(), id, "{point}");
        if point.starts_with("script.") {
            let is_dead = |pid| !sandbox.pids_of("schedd").contains(&pid);
            assert!(first.is_some_and(is_dead), "{point}: schedd did not crash");
        }
        until_files(&sandbox, 1);
        sandbox.run("qdel", &["-x", &id]).ok();
        until_files(&sandbox, 0);
    }
}

#[test]
fn unused_script_files_are_removed_when_schedd_starts() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-h"], &large("held"));
    let kept = files(&sandbox);
    sandbox.kill("schedd");
    for name in ["0".repeat(64), format!("{}.part", kept[0])] {
        fs::write(folder(&sandbox).join(name), "left behind").unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the removal of unused files", || {
        (files(&sandbox) == kept).then_some(())
    });
    sandbox.run("qrls", &[&id]).ok();
    has_run(&sandbox, &id, "held");
}

#[test]
fn other_requests_are_answered_while_a_large_script_is_written() {
    let sandbox = Sandbox::new();
    let hold = sandbox.file("hold");
    fs::write(&hold, "").unwrap();
    let mut sandbox = sandbox.with("LANAI_FAULTS", "script.sync:1:hold");
    sandbox.set("LANAI_FAULTS_HOLD", hold.display());
    // Three scripts: schedd reads two, the third waits on its connection.
    let slow = ["one", "two", "three"].map(|name| begin(&sandbox, &["-h"], &large(name)));
    sandbox.until("a partly written script", || {
        let written = files(&sandbox).iter().any(|name| name.ends_with(".part"));
        written.then_some(())
    });
    let small = sandbox.submit(&["-h"], "true\n");
    sandbox.run("qdel", &[&small]).ok();
    assert_eq!(
        sandbox.run("qselect", &[]).ok(),
        "",
        "a job was committed before its script"
    );
    assert_eq!(files(&sandbox).len(), 1);
    fs::remove_file(hold).unwrap();
    for child in slow {
        let id = end(child).line();
        assert_eq!(sandbox.state(&id), "H");
    }
    assert_eq!(files(&sandbox).len(), 3);
}

#[test]
fn a_disk_error_is_reported_with_the_file_name() {
    let sandbox = Sandbox::new().with("LANAI_FAULTS", "script.sync:1:fail");
    let refused = sandbox.run_with_input("qsub", &["-h"], &large("lost"));
    assert!(
        refused.code != 0 && refused.err.contains("spool/scripts/"),
        "{refused:?}"
    );
    assert_eq!(files(&sandbox), [""; 0]);
    sandbox.submit(&["-h"], &large("lost"));
    assert_eq!(files(&sandbox).len(), 1);
}

/// The programs of a build: those in `folder`, or of this build if None.
struct Build<'a> {
    sandbox: &'a Sandbox,
    folder: Option<PathBuf>,
}

impl Build<'_> {
    fn submit(&self, file: &str) {
        let template = self.sandbox.command("qsub");
        let program = match &self.folder {
            Some(folder) => folder.join("qsub"),
            None => PathBuf::from(template.get_program()),
        };
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.sandbox.work());
        command.envs(
            template
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        assert!(
            command
                .args(["-h", file])
                .output()
                .unwrap()
                .status
                .success()
        );
    }

    /// Submits different scripts of 16 MB until this time. Returns their number.
    fn submit_large(&self, name: &str, until: Instant) -> usize {
        let mut count = 0;
        while Instant::now() < until {
            let line = format!("# {name} {count}\n");
            let script = line.repeat((16 << 20) / line.len());
            fs::write(self.sandbox.file(name), script).unwrap();
            self.submit(name);
            count += 1;
        }
        count
    }

    /// Submits small scripts until this time. Returns the duration of each in milliseconds, sorted.
    fn submit_small(&self, until: Instant) -> Vec<u128> {
        let mut durations = Vec::new();
        while Instant::now() < until {
            let started = Instant::now();
            self.submit("small");
            durations.push(started.elapsed().as_millis());
            std::thread::sleep(Duration::from_millis(5));
        }
        durations.sort_unstable();
        durations
    }
}

/// Measures and prints the duration of a small `qsub` while others submit scripts of 16 MB.
/// `LANAI_BENCH_BIN` names a directory of other programs to measure:
/// `cargo test --test all -- --ignored --nocapture large_scripts::delays`
#[test]
#[ignore = "a measurement"]
fn delays_of_small_submissions_by_large_ones() {
    let sandbox = Sandbox::new();
    let folder = std::env::var_os("LANAI_BENCH_BIN").map(PathBuf::from);
    let build = &Build {
        sandbox: &sandbox,
        folder,
    };
    fs::write(sandbox.file("small"), "true\n").unwrap();
    build.submit("small");
    for submitters in [0, 1, 4] {
        let until = Instant::now() + Duration::from_secs(10);
        let (durations, stored) = std::thread::scope(|scope| {
            let submit = |n| scope.spawn(move || build.submit_large(&format!("large{n}"), until));
            let threads: Vec<_> = (0..submitters).map(submit).collect();
            let durations = build.submit_small(until);
            let stored: usize = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum();
            (durations, stored)
        });
        let [p50, p99, max] =
            [50, 99, 100].map(|share| durations[(durations.len() - 1) * share / 100]);
        println!(
            "{submitters} submitters: {stored} scripts of 16 MB, {} small",
            durations.len()
        );
        println!("    small: p50 {p50} ms, p99 {p99} ms, max {max} ms");
    }
}
