//! Waiting without polling: `qstat --watch` and `qsub -W block=true`.

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, kill};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const SMALL: &str = "[launch]\ngrace = \"2s\"\n[[node]]\nname = \"n\"\nncpus = 2\n";

/// A command with continuous output.
struct Printing {
    command: Child,
    lines: Receiver<String>,
}

impl Printing {
    fn new(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Printing {
        let mut command = sandbox.command(program);
        command.args(arguments);
        Printing::by(command)
    }

    fn by(mut command: Command) -> Printing {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let out = BufReader::new(command.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| said.send(line))
        });
        Printing { command, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines
            .recv_timeout(Duration::from_secs(20))
            .expect("a line")
    }

    /// Reads lines up to the first one that contains this text.
    #[track_caller]
    fn until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines
            .last()
            .is_some_and(|line: &String| line.contains(text))
        {
            lines.push(self.line());
        }
        lines
    }

    #[track_caller]
    fn is_silent_for(&self, milliseconds: u64) {
        let heard = self.lines.recv_timeout(Duration::from_millis(milliseconds));
        assert_eq!(heard, Err(RecvTimeoutError::Timeout));
    }

    /// Waits until 2.5 s pass without a wake-up; returns the number of wake-ups so far. The first
    /// submission may cause some for two seconds. A program that polls never gets there.
    fn settled(&self) -> u64 {
        for _ in 0..10 {
            let before = wakeups(self.pid());
            self.is_silent_for(2500);
            if wakeups(self.pid()) == before {
                return before;
            }
        }
        panic!("it wakes up again and again though nothing has changed");
    }

    fn pid(&self) -> i32 {
        self.command.id().try_into().unwrap()
    }

    fn ends(&mut self) -> Option<i32> {
        self.command.wait().unwrap().code()
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// Voluntary context switches of a process, which increase if it polls.
fn wakeups(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn a_watched_job_is_shown_when_it_changes_and_not_otherwise_and_its_end_ends_the_watch() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&["-h"], "true\n");
    let mut watch = Printing::new(&sandbox, "qstat", &["--watch", &id]);
    assert!(watch.until(&id)[2].contains(" H "));
    let before = watch.settled();
    let other = sandbox.submit(&["-h"], "true\n");
    sandbox.run("qalter", &["-N", "renamed", &other]).ok();
    watch.is_silent_for(1500);
    assert_eq!(wakeups(watch.pid()), before, "qstat slept all the while");
    sandbox.run("qalter", &["-N", "new", &id]).ok();
    assert_eq!(watch.line(), "", "an empty line stands between two prints");
    assert!(watch.until(&id).last().unwrap().contains(" new "));
    sandbox.run("qrls", &[&id]).ok();
    let end = loop {
        let line = watch.until(&id).pop().unwrap();
        if line.contains(" F ") {
            break line;
        }
    };
    assert!(end.contains(" new "));
    assert_eq!(watch.ends(), Some(0));
}

#[test]
fn a_script_gets_one_document_a_line_and_the_last_has_the_exit_status() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&["-h"], "exit 5\n");
    let mut watch = Printing::new(&sandbox, "qstat", &["--watch", "-f", "-F", "json", &id]);
    let document =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["Jobs"][&id].clone();
    assert_eq!(document(&watch.line())["job_state"], "H");
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(watch.ends(), Some(0));
    let last = watch.lines.iter().last().unwrap();
    assert_eq!(document(&last)["Exit_status"], 5);
}

#[test]
fn all_jobs_are_watched_through_a_restart_until_the_reader_closes() {
    let sandbox = Sandbox::configured(SMALL);
    let first = sandbox.submit(&["-h"], "true\n");
    let mut watch = Printing::new(&sandbox, "qstat", &["--watch"]);
    watch.until(&first);
    sandbox.kill("schedd");
    watch.is_silent_for(500);
    let second = sandbox.submit(&["-h"], "true\n");
    watch.until(&second);
    kill(watch.pid(), 2);
    assert_eq!(watch.ends(), None, "Ctrl-C ends it");
    let shell = sandbox.shell("qstat --watch | head -1");
    assert!(shell.ok().contains("Job id"), "it ends with its reader");
}

#[test]
fn a_watch_of_many_that_changes_in_a_burst_is_shown_at_its_end_too() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.submit(&["-h"], "true\n");
    let watch = Printing::new(&sandbox, "qstat", &["--watch", "-f", "-F", "json"]);
    watch.line();
    let submit = "for i in $(seq 40); do echo true | qsub -h; done | tail -1";
    let last = sandbox.shell(submit).line();
    let shown = watch.until(&format!("\"{last}\""));
    assert!(shown.len() < 40, "{} prints for 40 changes", shown.len());
}

#[test]
fn an_unknown_job_is_reported_once() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.submit(&["-h"], "true\n");
    let done = sandbox.run("qstat", &["--watch", "999"]);
    assert_eq!((done.code, done.err.lines().count()), (153, 1), "{done:?}");
}

#[test]
fn a_blocking_qsub_sleeps_until_the_end_and_a_signal_deletes_the_job() {
    let sandbox = Sandbox::configured(SMALL);
    let mut wait = Printing::new(
        &sandbox,
        "qsub",
        &["-W", "block=true", "--", "/bin/sleep", "300"],
    );
    let id = wait.line();
    sandbox.running(&id);
    let before = wakeups(wait.pid());
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(wakeups(wait.pid()), before, "qsub slept all the while");
    kill(wait.pid(), 15);
    assert_eq!(wait.line(), format!("Job {id} is being deleted"));
    assert_eq!(wait.ends(), Some(2));
    let mut told = String::new();
    std::io::Read::read_to_string(&mut wait.command.stderr.take().unwrap(), &mut told).unwrap();
    assert_eq!(
        told,
        format!("qsub: wait for job {id} interrupted by signal 15\n")
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
}

#[test]
fn a_user_without_rights_to_start_schedd_waits_for_it() {
    let Some([ann, bob]) = two_users("watch") else {
        return;
    };
    let sandbox = shared("");
    let id = ann.submit(&sandbox, &["-h"], "true\n");
    let mut command = ann.command(&sandbox, "qstat");
    command.args(["--watch"]);
    let watch = Printing::by(command);
    watch.until(&id);
    let mut command = ann.command(&sandbox, "qsub");
    command.args(["-W", "block=true", "--", "/bin/sh", "-c", "sleep 1; exit 3"]);
    let mut wait = Printing::by(command);
    sandbox.running(&wait.line());
    // An update is sent in two steps, notice and content. Wait for its content before the kill.
    watch.until(" R workq");
    sandbox.kill("schedd");
    watch.is_silent_for(1200);
    sandbox.run("schedd", &[]).ok();
    assert_eq!(wait.ends(), Some(3));
    let other = bob.submit(&sandbox, &["-h"], "true\n");
    watch.until(&other);
}
