//! A full disk: new jobs are refused, accepted jobs are kept, and running jobs can end.
//! Without root, which is required to mount a file system, the tests are skipped with a message.

use crate::support::sandbox::{Done, Sandbox};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A file system of 24 MiB.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system at `folder`; None, with a message on standard output, if that is not
    /// possible.
    fn mount(folder: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=24m,mode=0755", "tmpfs"])
            .arg(folder);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            println!("skipped: requires root and permission to mount");
            return None;
        }
        Some(SmallDisk {
            folder: folder.to_path_buf(),
        })
    }

    /// Fills the file system to the last byte, including the last blocks of the daemons' logs.
    fn fill(&self) {
        for log in ["schedd.log", "node/noded.log"].map(|log| self.folder.join(log)) {
            if let Ok(mut file) = File::options().append(true).open(log) {
                let length = file.metadata().unwrap().len() as usize;
                let _ = file.write_all(&vec![b'\n'; length.next_multiple_of(4096) - length]);
            }
        }
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(self.padding())
            .unwrap();
        loop {
            match file.write_all(&[1; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn empty(&self) {
        fs::remove_file(self.padding()).unwrap();
    }

    fn padding(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.folder)
            .output();
    }
}

/// On drop, ends the daemons and jobs before the file system is unmounted.
struct Ending<'a>(&'a Sandbox);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

const CONFIG: &str = "[launch]\nlogin = false\nretry = \"1s\"\ngrace = \"1s\"\n";

#[track_caller]
fn assert_refused(done: &Done) {
    assert!(
        done.code == 162 && done.out.is_empty() && done.err.contains("no space left"),
        "{done:?}"
    );
}

/// Submits held jobs until one is refused. Returns the accepted ids.
#[track_caller]
fn submit_until_refused(sandbox: &Sandbox) -> Vec<String> {
    let mut accepted = Vec::new();
    let last = sandbox.until("a refusal", || {
        let done = sandbox.run("qsub", &["-h", "--", "true"]);
        if done.code == 0 {
            accepted.push(done.line());
            return None;
        }
        Some(done)
    });
    assert_refused(&last);
    accepted
}

/// Ids and states of all jobs.
fn states(sandbox: &Sandbox) -> Vec<(String, String)> {
    let shown = sandbox.run("qstat", &["-x"]).ok();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        (
            words.next().unwrap_or_default().to_string(),
            words.nth(3).unwrap_or_default().to_string(),
        )
    };
    shown.lines().skip(2).map(row).collect()
}

#[test]
fn a_full_disk_loses_no_accepted_job() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(&sandbox.home()) else {
        return;
    };
    let _ending = Ending(&sandbox);
    fs::write(sandbox.home().join("lanai.toml"), CONFIG).unwrap();
    sandbox.run("noded", &["--ncpus", "3", "--name", "n1"]).ok();
    let early = sandbox.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 7");
    let late = sandbox.submit(&[], "until [ -e late ]; do sleep 0.05; done; exit 8");
    let killed = sandbox.submit(&[], "sleep 300");
    let queued: Vec<String> = (0..5)
        .map(|n| sandbox.submit(&[], &format!("echo started >> mark.{n}")))
        .collect();
    for id in [&early, &late, &killed] {
        sandbox.running(id);
    }

    disk.fill();
    let accepted = submit_until_refused(&sandbox);
    let before = states(&sandbox);
    assert_eq!(before.len(), 8 + accepted.len());
    File::create(sandbox.file("go")).unwrap();
    assert_eq!(sandbox.ended(&early)["Exit_status"], 7);
    sandbox.run("qdel", &[&queued[4], &killed]).ok();
    sandbox.ended(&queued[4]);
    sandbox.ended(&killed);
    // Simulate another program that takes all space freed meanwhile.
    for _ in 0..30 {
        disk.fill();
        assert_refused(&sandbox.run("qsub", &["--", "true"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    sandbox.run("qhold", &[&queued[3]]).ok();
    assert_eq!(sandbox.state(&queued[3]), "H");
    assert_eq!(
        sandbox.state(&queued[0]),
        "Q",
        "a job started although the disk is full"
    );

    sandbox.kill("schedd");
    File::create(sandbox.file("late")).unwrap();
    disk.fill();
    let before_restart = states(&sandbox);
    sandbox.run("schedd", &[]).ok();
    disk.fill();
    assert_eq!(sandbox.ended(&late)["Exit_status"], 8);
    assert_refused(&sandbox.run("qsub", &["--", "true"]));
    sandbox.run("qrls", &[&queued[3]]).ok();
    let changed = states(&sandbox)
        .into_iter()
        .zip(&before_restart)
        .filter(|(now, then)| now != *then)
        .count();
    assert_eq!(changed, 2, "{before_restart:?}");

    disk.empty();
    let new = sandbox
        .until("free disk space", || {
            Some(sandbox.run("qsub", &["--", "true"])).filter(|done| done.code == 0)
        })
        .line();
    for id in queued[..4].iter().chain([&new]) {
        assert_eq!(sandbox.ended(id)["Exit_status"], 0, "{id}");
    }
    for n in 0..4 {
        assert_eq!(sandbox.read(&format!("mark.{n}")), "started\n");
    }
    assert!(!sandbox.file("mark.4").exists());
    assert_eq!(
        [&early, &late].map(|id| sandbox.job(id)["Exit_status"].as_i64()),
        [Some(7), Some(8)]
    );
    assert!(accepted.iter().all(|id| sandbox.state(id) == "H"));
    assert_intact(&sandbox);
}

/// Asserts that the spool is intact and its reserve is allocated again.
#[track_caller]
fn assert_intact(sandbox: &Sandbox) {
    let spool = sandbox.home().join("spool");
    let reserve = || {
        let log = fs::metadata(spool.join("spool.db-wal")).unwrap();
        (log.blocks() * 512 >= 4 << 20).then_some(())
    };
    sandbox.until("the reserve", reserve);
    let database = rusqlite::Connection::open(spool.join("spool.db")).unwrap();
    let verdict: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn an_exhausted_reserve_refuses_requests_and_keeps_exit_statuses() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(&sandbox.home()) else {
        return;
    };
    let _ending = Ending(&sandbox);
    fs::write(sandbox.home().join("lanai.toml"), CONFIG).unwrap();
    sandbox.run("noded", &["--ncpus", "1", "--name", "n1"]).ok();
    let early = sandbox.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 7");
    sandbox.running(&early);
    let held = sandbox.submit(&["-h", "-A", &"y".repeat(60_000)], "true");
    // A script larger than the reserve, before schedd has detected the full disk.
    let large = format!("# {}\n", "x".repeat(6 << 20));
    disk.fill();
    assert_refused(&sandbox.run_with_input("qsub", &[], &large));
    assert_eq!(states(&sandbox).len(), 2);
    // Hold and release a job with a large record until the reserve is exhausted.
    assert_refused(&sandbox.run("qalter", &["-N", "other", &held]));
    let mut full = None;
    for n in 0..2000 {
        disk.fill();
        let done = sandbox.run(["qhold", "qrls"][n % 2], &[&held]);
        if done.code != 0 {
            full = Some(done);
            break;
        }
    }
    assert_refused(&full.expect("2000 changes do not exhaust the reserve"));
    File::create(sandbox.file("go")).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    sandbox.kill("schedd");
    disk.fill();
    let restarted = sandbox.run("schedd", &[]);
    assert!(
        restarted.code == 0 || restarted.err.contains("no space left"),
        "{restarted:?}"
    );
    disk.empty();
    if restarted.code != 0 {
        sandbox.run("schedd", &[]).ok();
    }
    assert_eq!(sandbox.ended(&early)["Exit_status"], 7);
    assert_intact(&sandbox);
}

#[test]
fn a_node_with_a_full_disk_starts_no_job_and_loses_no_exit_status() {
    let sandbox = Sandbox::new();
    // A noded that schedd does not start itself.
    let socket = sandbox.home().join("n1.sock").display().to_string();
    let config = format!("{CONFIG}[[node]]\nname = \"n1\"\nsocket = \"{socket}\"\n");
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    let state = sandbox.home().with_file_name("node-disk");
    fs::create_dir(&state).unwrap();
    let Some(disk) = SmallDisk::mount(&state) else {
        return;
    };
    let _ending = Ending(&sandbox);
    let noded = || {
        let folder = state.join("node").display().to_string();
        sandbox
            .run(
                "noded",
                &[
                    "--ncpus", "2", "--name", "n1", "--state", &folder, "--socket", &socket,
                ],
            )
            .ok();
    };
    noded();
    let early = sandbox.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 7");
    let late = sandbox.submit(
        &["-l", "select=1:ncpus=1"],
        "until [ -e late ]; do sleep 0.05; done; exit 8",
    );
    sandbox.running(&early);
    sandbox.running(&late);
    disk.fill();
    File::create(sandbox.file("go")).unwrap();
    assert_eq!(sandbox.ended(&early)["Exit_status"], 7);
    disk.fill();
    let failing = sandbox.submit(&[], "echo started >> mark");
    let retried = sandbox.until("a second attempt", || {
        disk.fill();
        let job = sandbox.job(&failing);
        (job["run_count"].as_i64() >= Some(2) && job["job_state"] == "Q").then_some(job)
    });
    assert!(!sandbox.file("mark").exists(), "{retried}");
    assert!(
        retried["comment"]
            .as_str()
            .is_some_and(|comment| comment.contains("No space left")),
        "{retried}"
    );

    sandbox.kill("noded");
    disk.fill();
    noded();
    File::create(sandbox.file("late")).unwrap();
    assert_eq!(sandbox.ended(&late)["Exit_status"], 8);
    disk.empty();
    let job = sandbox.ended(&failing);
    assert_eq!(job["Exit_status"], 0, "{job}");
    assert_eq!(sandbox.read("mark"), "started\n");
}

/// A file system of 32 MiB in an image file. It can become read-only while files on it are open.
struct FragileDisk {
    folder: PathBuf,
    _image: tempfile::NamedTempFile,
}

impl FragileDisk {
    /// Mounts a file system at `folder`; None, with a message on standard output, if that is not
    /// possible.
    fn mount(folder: &Path) -> Option<FragileDisk> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(32 << 20).unwrap();
        let mounted = succeeds(
            Command::new("mkfs.ext4")
                .args(["-q", "-F"])
                .arg(image.path()),
        ) && succeeds(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(image.path())
                .arg(folder),
        );
        if !mounted {
            println!("skipped: requires root, mkfs.ext4 and a loop device");
            return None;
        }
        Some(FragileDisk {
            folder: folder.to_path_buf(),
            _image: image,
        })
    }

    /// Simulates an I/O error in the file system's metadata.
    fn become_read_only(&self) {
        assert!(succeeds(
            Command::new("mount")
                .args(["-o", "remount,abort"])
                .arg(&self.folder)
        ));
    }
}

impl Drop for FragileDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.folder)
            .output();
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_read_only_spool_is_reported() {
    let sandbox = Sandbox::new();
    let Some(disk) = FragileDisk::mount(&sandbox.home()) else {
        return;
    };
    let _ending = Ending(&sandbox);
    fs::write(sandbox.home().join("lanai.toml"), CONFIG).unwrap();
    let held = sandbox.submit(&["-h"], "true");
    disk.become_read_only();
    let spool = sandbox.home().join("spool");
    let cause = format!(
        "the spool's file system is read-only: remount {} read-write",
        spool.display()
    );
    // Before and after the next check of the disk by schedd.
    for attempt in 0..2 {
        for (program, arguments) in [("qsub", &["--", "true"][..]), ("qdel", &[&held])] {
            let done = sandbox.run(program, arguments);
            assert!(
                done.code != 0 && done.err.contains(&cause),
                "{attempt}: {done:?}"
            );
        }
        std::thread::sleep(Duration::from_secs(3));
    }
}

#[test]
fn a_lack_of_file_descriptors_is_not_reported_as_a_full_disk() {
    let sandbox = Sandbox::new();
    let held = sandbox.submit(&["-h"], "true");
    let schedd = sandbox.pid_of("schedd").unwrap();
    let limit = |soft: &str| {
        let limit = format!("--nofile={soft}:");
        assert!(succeeds(Command::new("prlimit").args([
            "--pid",
            &schedd.to_string(),
            &limit
        ])));
    };
    limit("3");
    sandbox.until("the log message", || {
        sandbox
            .log()
            .contains("no file descriptor is left")
            .then_some(())
    });
    assert!(
        !sandbox.log().contains("no space left"),
        "{}",
        sandbox.log()
    );
    limit("1000");
    sandbox.submit(&["-h"], "true");
    assert_eq!(sandbox.state(&held), "H");
}
