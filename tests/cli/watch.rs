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
struct OutputReader {
    command: Child,
    lines: Receiver<String>,
}

impl OutputReader {
    fn new(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> OutputReader {
        let mut command = sandbox.command(program);
        command.args(arguments);
        OutputReader::spawn(command)
    }

    fn spawn(mut command: Command) -> OutputReader {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let out = BufReader::new(command.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        OutputReader { command, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines
            .recv_timeout(Duration::from_secs(20))
            .expect("the command printed no line in 20 s")
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
        let received = self.lines.recv_timeout(Duration::from_millis(milliseconds));
        assert_eq!(received, Err(RecvTimeoutError::Timeout));
    }

    /// Waits until 2.5 s pass without a wake-up; returns the number of wake-ups so far. The first
    /// submission may cause some for two seconds. Panics if the program polls.
    fn settled(&self) -> u64 {
        for _ in 0..10 {
            let before = wakeups(self.pid());
            self.is_silent_for(2500);
            if wakeups(self.pid()) == before {
                return before;
            }
        }
        panic!("the program keeps waking up although nothing changes");
    }

    fn pid(&self) -> i32 {
        self.command.id().try_into().unwrap()
    }

    fn ends(&mut self) -> Option<i32> {
        self.command.wait().unwrap().code()
    }
}

impl Drop for OutputReader {
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
fn qstat_watch_prints_only_changes_and_exits_when_the_job_ends() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&["-h"], "true\n");
    let mut watch = OutputReader::new(&sandbox, "qstat", &["--watch", &id]);
    assert!(watch.until(&id)[2].contains(" H "));
    let before = watch.settled();
    let other = sandbox.submit(&["-h"], "true\n");
    sandbox.run("qalter", &["-N", "renamed", &other]).ok();
    watch.is_silent_for(1500);
    assert_eq!(wakeups(watch.pid()), before, "qstat did not wake up");
    sandbox.run("qalter", &["-N", "new", &id]).ok();
    assert_eq!(watch.line(), "", "an empty line separates two outputs");
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
fn qstat_watch_prints_one_json_document_per_line_with_the_exit_status() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&["-h"], "exit 5\n");
    let mut watch = OutputReader::new(&sandbox, "qstat", &["--watch", "-f", "-F", "json", &id]);
    let document =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["Jobs"][&id].clone();
    assert_eq!(document(&watch.line())["job_state"], "H");
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(watch.ends(), Some(0));
    let last = watch.lines.iter().last().unwrap();
    assert_eq!(document(&last)["Exit_status"], 5);
}

#[test]
fn qstat_watch_ends_if_it_finds_none_of_its_operands() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.submit(&["-h"], "true\n");
    let done = sandbox.shell("timeout 20 qstat --watch nosuch");
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (170, "", "qstat: Unknown queue destination nosuch\n")
    );
}

#[test]
fn watching_all_jobs_survives_a_restart_and_ends_with_its_reader() {
    let sandbox = Sandbox::configured(SMALL);
    let first = sandbox.submit(&["-h"], "true\n");
    let mut watch = OutputReader::new(&sandbox, "qstat", &["--watch"]);
    watch.until(&first);
    sandbox.kill("schedd");
    watch.is_silent_for(500);
    let second = sandbox.submit(&["-h"], "true\n");
    watch.until(&second);
    kill(watch.pid(), 2);
    assert_eq!(watch.ends(), None, "SIGINT ends qstat");
    let shell = sandbox.shell("qstat --watch | head -1");
    assert!(
        shell.ok().contains("Job id"),
        "qstat ends when its reader exits"
    );
}

#[test]
fn a_burst_of_changes_is_combined_and_its_last_state_is_shown() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.submit(&["-h"], "true\n");
    let watch = OutputReader::new(&sandbox, "qstat", &["--watch", "-f", "-F", "json"]);
    watch.line();
    let submit = "for i in $(seq 40); do echo true | qsub -h; done | tail -1";
    let last = sandbox.shell(submit).line();
    let shown = watch.until(&format!("\"{last}\""));
    assert!(shown.len() < 40, "{} lines for 40 changes", shown.len());
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
    let mut wait = OutputReader::new(
        &sandbox,
        "qsub",
        &["-W", "block=true", "--", "/bin/sleep", "300"],
    );
    let id = wait.line();
    sandbox.running(&id);
    let before = wakeups(wait.pid());
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(wakeups(wait.pid()), before, "qsub did not wake up");
    kill(wait.pid(), 15);
    assert_eq!(wait.line(), format!("Job {id} is being deleted"));
    assert_eq!(wait.ends(), Some(2));
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut wait.command.stderr.take().unwrap(), &mut errors).unwrap();
    assert_eq!(
        errors,
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
    let watch = OutputReader::spawn(command);
    watch.until(&id);
    let mut command = ann.command(&sandbox, "qsub");
    command.args(["-W", "block=true", "--", "/bin/sh", "-c", "sleep 1; exit 3"]);
    let mut wait = OutputReader::spawn(command);
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
