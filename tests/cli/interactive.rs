//! `qsub -I` as a person meets it: on a real terminal, made by the test.

use crate::security::multi_user::shared;
use crate::support::people::two_people;
use crate::support::sandbox::{Sandbox, kill};
use lanai::model::job_id::JobId;
use lanai::wire::client::Client;
use lanai::wire::frame::{self, FrameError};
use lanai::wire::message::{Reply, Request};
use lanai::wire::order::{Order, Report};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A node of two processors, and a short grace.
const SMALL: &str = "[launch]\ngrace = \"2s\"\n[[node]]\nname = \"n\"\nncpus = 2\n";

/// Somebody at a terminal on which one command runs.
pub struct Person {
    keyboard: Option<OwnedFd>,
    terminal: PathBuf,
    command: Child,
    screen: String,
    /// How much of the screen has been read.
    read: usize,
}

impl Person {
    fn runs(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Person {
        let mut command = sandbox.command(program);
        command.args(arguments);
        Person::with(&command)
    }

    /// Runs this command on a terminal.
    fn with(ours: &Command) -> Person {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let made = openpty(Some(&size), None).unwrap();
        for end in [&made.master, &made.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        fcntl(&made.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let terminal = nix::unistd::ttyname(&made.slave).unwrap();
        let mut command = Command::new("setsid");
        // Whoever started the tests may have been told to ignore ^C.
        command
            .args(["-c", "env", "--default-signal"])
            .arg(ours.get_program())
            .args(ours.get_args());
        command.current_dir(ours.get_current_dir().unwrap());
        command
            .env_clear()
            .envs(
                ours.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "vt52");
        let screen = || made.slave.try_clone().unwrap();
        let command = command
            .stdin(screen())
            .stdout(screen())
            .stderr(screen())
            .spawn()
            .unwrap();
        Person {
            keyboard: Some(made.master),
            terminal,
            command,
            screen: String::new(),
            read: 0,
        }
    }

    /// At a shell of the job, whose prompt is `$ `.
    pub fn at_shell(sandbox: &Sandbox, arguments: &[&str]) -> (Person, String) {
        let mut person = Person::runs(
            sandbox,
            "qsub",
            &[&["-I", "-S", "/bin/sh"], arguments].concat(),
        );
        let id = person.sees_id();
        person.sees(&format!("qsub: job {id} ready\r\n\r\n"));
        person.sees_prompt();
        (person, id)
    }

    #[track_caller]
    fn sees_id(&mut self) -> String {
        self.sees("qsub: waiting for job ");
        let from = self.read;
        self.sees(" to start");
        self.screen[from..].split(' ').next().unwrap().to_string()
    }

    fn sees_prompt(&mut self) {
        self.sees(if nix::unistd::geteuid().is_root() {
            "# "
        } else {
            "$ "
        });
    }

    pub fn types(&self, keys: &str) {
        let keyboard = self.keyboard.as_ref().unwrap();
        assert_eq!(
            nix::unistd::write(keyboard, keys.as_bytes()).unwrap(),
            keys.len()
        );
    }

    /// Types a line, and sees what comes of it.
    pub fn asks(&mut self, line: &str, answer: &str) {
        self.types(&format!("{line}\r"));
        self.sees(&format!("{line}\r\n"));
        self.sees(answer);
    }

    /// Waits for this to appear, after what was seen before.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            if let Some(at) = self.screen[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{text:?} does not appear in {:?}",
                self.screen
            );
            self.look();
        }
    }

    fn look(&mut self) {
        let Some(keyboard) = &self.keyboard else {
            return;
        };
        let mut fds = [PollFd::new(keyboard.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(20u16)).unwrap();
        let mut buffer = [0; 4096];
        if let Ok(length) = nix::unistd::read(keyboard, &mut buffer) {
            self.screen
                .push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }

    fn resizes(&self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let mut stty = Command::new("stty");
        stty.arg("-F")
            .arg(&self.terminal)
            .args(["rows", &rows, "cols", &columns]);
        assert!(stty.status().unwrap().success());
    }

    fn settings(&self) -> String {
        let stty = Command::new("stty")
            .arg("-F")
            .arg(&self.terminal)
            .arg("-a")
            .output()
            .unwrap();
        String::from_utf8(stty.stdout).unwrap()
    }

    /// Waits for the end of the command; its exit code, or 128 and the signal.
    #[track_caller]
    fn ends(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            self.look();
            if let Some(status) = self.command.try_wait().unwrap() {
                self.look();
                return status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap());
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "it does not end: {:?}",
                self.screen
            );
        }
    }

    fn pid(&self) -> i32 {
        self.command.id().try_into().unwrap()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

#[test]
fn a_shell_on_the_jobs_terminal_has_the_persons_window_and_its_exit_code_is_qsubs() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Person::at_shell(&sandbox, &["-l", "ncpus=1"]);
    person.asks("stty size", "24 80\r\n");
    person.asks(
        "echo $PBS_ENVIRONMENT/$ENVIRONMENT/$TERM/$PBS_JOBID",
        &format!("PBS_INTERACTIVE//vt52/{id}\r\n"),
    );
    let own = person.terminal.display().to_string();
    person.asks("tty", "/dev/pts/");
    assert!(
        !person.screen.trim_end().ends_with(&own),
        "the job has a terminal of its own"
    );
    person.resizes(50, 132);
    person.asks("sleep 0.2; stty size", "50 132\r\n");
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["interactive"], &job["Rerunable"]),
        (&"True".into(), &"False".into())
    );
    assert!(
        person.settings().contains("-echo "),
        "the person's terminal is raw"
    );
    person.types("exit 7\r");
    person.sees(&format!("\r\nqsub: job {id} completed\r\n"));
    assert_eq!(person.ends(), 7);
    assert!(
        !person.settings().contains("-echo "),
        "the person's terminal is as it was"
    );
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["Exit_status"]),
        (&"F".into(), &7.into())
    );
    let files = std::fs::read_dir(sandbox.work()).unwrap().count();
    assert_eq!(files, 0, "an interactive job has no output files");
    let again = sandbox.run("qalter", &["--retry", &id]);
    assert!(
        again.code == 168 && again.err.contains("invalid for state"),
        "nobody sits there: {again:?}"
    );
}

#[test]
fn control_c_interrupts_what_runs_and_the_shell_lives_on() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, _) = Person::at_shell(&sandbox, &[]);
    person.types("sleep 600; echo slept\r");
    person.sees("echo slept\r\n");
    std::thread::sleep(Duration::from_millis(300));
    person.types("\x03");
    person.sees_prompt();
    person.asks("echo alive", "alive\r\n");
    person.types("exit\r");
    assert!(
        person.ends() == 0 || person.ends() == 130,
        "dash tells of the sleep it was interrupted in"
    );
}

#[test]
fn one_who_waits_is_told_why_and_may_give_up() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut first, held) = Person::at_shell(&sandbox, &["-l", "ncpus=2"]);
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount of resource: ncpus (R: 1 A: 0 T: 2)");
    person.types("\x03");
    person.sees("Do you wish to terminate the job and exit (y|[n])? ");
    person.types("\r");
    person.sees("Insufficient amount");
    person.types("\x03");
    person.sees("Do you wish to terminate the job and exit (y|[n])? ");
    person.types("y\r");
    person.sees("is being deleted");
    assert_eq!(person.ends(), 1);
    let others = || {
        sandbox
            .run("qstat", &[])
            .ok()
            .lines()
            .skip(2)
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert!(
        others().iter().all(|line| line.starts_with(&held)),
        "{:?}",
        others()
    );
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount");
    kill(person.pid(), 15);
    person.sees("interrupted by signal 15");
    assert_eq!(person.ends(), 2);
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount");
    first.types("exit\r");
    person.sees(" ready\r\n\r\n");
    first.ends();
}

#[test]
fn a_waiting_job_that_somebody_deletes_is_apparently_deleted() {
    let sandbox = Sandbox::configured(SMALL);
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-h"]);
    let id = person.sees_id();
    person.sees("Job held: u");
    sandbox.run("qdel", &[&id]).ok();
    person.sees(&format!("qsub: job {id} apparently deleted"));
    assert_eq!(person.ends(), 1);
}

#[test]
fn a_session_is_ended_by_qdel_by_tilde_dot_and_by_a_terminal_that_hangs_up() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Person::at_shell(&sandbox, &[]);
    sandbox.run("qdel", &[&id]).ok();
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 271 % 256);
    let (mut person, id) = Person::at_shell(&sandbox, &[]);
    person.types("\r~.");
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 271 % 256);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    let (mut person, id) = Person::at_shell(&sandbox, &[]);
    person.keyboard = None;
    assert_eq!(person.ends(), 129);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 257);
    let (mut person, id) = Person::at_shell(&sandbox, &[]);
    person.asks("trap '' HUP TERM; sleep 300 & echo set", "set\r\n");
    kill(person.pid(), 9);
    sandbox.ended(&id);
    assert!(
        sandbox.pids_of("sleep").is_empty(),
        "what ignores the hangup is killed"
    );
}

#[test]
fn killing_the_daemons_ends_no_session_and_loses_no_exit_code() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Person::at_shell(&sandbox, &[]);
    sandbox.kill("schedd");
    person.asks("echo one", "one\r\n");
    sandbox.kill("noded");
    person.asks("echo two", "two\r\n");
    person.types("exit 9\r");
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 9);
    sandbox.run("qstat", &[]);
    sandbox.run("schedd", &["--status"]);
    let _ = sandbox.submit(&["-W", "block=true"], "true\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 9);
}

#[test]
fn one_who_waits_outlasts_schedd() {
    let sandbox = Sandbox::configured(SMALL);
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-h", "-S", "/bin/sh"]);
    let id = person.sees_id();
    person.sees("Job held: u");
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&id]).ok();
    person.sees(" ready\r\n\r\n");
    sandbox.kill("noded");
    person.types("exit 3\r");
    person.sees("completed");
    assert_eq!(person.ends(), 3);
}

#[test]
fn directives_count_the_script_does_not_run_and_a_command_may() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.script("i.sh", "#PBS -N inter -A acc\necho never run");
    let (mut person, id) = Person::at_shell(&sandbox, &["i.sh"]);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["Job_Name"], &job["Account_Name"]),
        (&"inter".into(), &"acc".into())
    );
    person.types("exit\r");
    person.ends();
    assert!(!person.screen.contains("never run"));
    sandbox.script("d.sh", "#PBS -W interactive=true");
    let mut person = Person::runs(&sandbox, "qsub", &["-r", "y", "d.sh"]);
    person.sees("qsub (Warning): Interactive jobs will be treated as not rerunnable\r\n");
    person.sees("ready");
    person.types("exit 5\r");
    assert_eq!(person.ends(), 5);
    let mut person = Person::runs(
        &sandbox,
        "qsub",
        &["-I", "--", "/bin/sh", "-c", "stty size; exit 4"],
    );
    person.sees("24 80\r\n");
    assert_eq!(person.ends(), 4);
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "--", "/no/such/program"]);
    person.sees("No such file or directory");
    assert_eq!(person.ends(), 254);
}

#[test]
fn much_output_arrives_whole() {
    let sandbox = Sandbox::configured(SMALL);
    let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done";
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", count]);
    person.sees("line 20000\r\n");
    assert_eq!(person.ends(), 0);
    let lines = person
        .screen
        .lines()
        .filter(|line| line.starts_with("line "))
        .count();
    assert_eq!(lines, 20000);
}

#[test]
fn without_a_terminal_it_is_refused() {
    let sandbox = Sandbox::new();
    for arguments in [&["-I"][..], &["-W", "interactive=true"]] {
        let done = sandbox.run("qsub", arguments);
        let expected =
            "qsub:\tstandard input and output must be a terminal for\n\tinteractive job submission\n".to_string();
        assert_eq!((done.code, done.err), (1, expected));
    }
    let done = sandbox.run("qsub", &["-I", "-X"]);
    assert!(
        done.code == 1
            && done
                .err
                .starts_with("qsub: DISPLAY not set\nqsub:\tstandard input"),
        "{done:?}"
    );
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "-J", "1-3"]);
    person.sees("interactive and array job submission cannot be used together");
    assert_eq!(person.ends(), 2);
}

#[test]
fn in_a_shared_installation_the_terminal_is_its_owners_and_not_even_root_sits_down_at_it() {
    let Some([ann, bob]) = two_people("tty") else {
        return;
    };
    let sandbox = shared("");
    let mut qsub = ann.command(&sandbox, "qsub");
    let mut person = Person::with(qsub.args(["-I", "-h", "-S", "/bin/sh"]));
    let id = person.sees_id();
    ann.run(&sandbox, "qrls", &[&id]).ok();
    person.sees("ready");
    person.sees("$ ");
    person.asks("stat -c %u $(tty)", &format!("{}\r\n", ann.uid));
    person.asks(
        "id -u; : > /dev/tty && echo mine",
        &format!("{}\r\nmine\r\n", ann.uid),
    );
    let number: u64 = id.split('.').next().unwrap().parse().unwrap();
    let home = lanai::sys::home::Home {
        state: sandbox.home(),
        runtime: sandbox.home(),
        config: sandbox.home().join("lanai.toml"),
        system: false,
    };
    let mut root = Client::reach(&home).unwrap();
    let (reply, passed) = root
        .call_for_descriptor(&Request::Attach(JobId::job(number)))
        .unwrap();
    assert!(
        passed.is_none() && matches!(&reply, Reply::Refused(why) if why.code == 15007),
        "{reply:?}"
    );
    let socket = sandbox
        .home()
        .join(format!("node/attempts/{number}.1/terminal"))
        .display()
        .to_string();
    let knock =
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'");
    for user in [&ann, &bob] {
        assert!(
            user.shell(&sandbox, &knock)
                .err
                .contains("Permission denied"),
            "root's shepherd lets noded in alone"
        );
    }
    person.types("exit 6\r");
    assert_eq!(person.ends(), 6);
}

#[test]
fn a_qsub_that_is_stopped_delays_no_end() {
    let sandbox = Sandbox::configured(SMALL);
    let arguments = ["-I", "-l", "walltime=2", "--", "/bin/sh", "-c", "yes"];
    let mut person = Person::runs(&sandbox, "qsub", &arguments);
    person.sees("y\r\ny\r\n");
    kill(person.pid(), 19);
    let id = sandbox.run("qselect", &[]).line();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29);
    let spent = job["resources_used"]["walltime"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(spent.as_str() < "00:00:05", "{spent}");
}

#[test]
fn much_that_is_typed_arrives_whole_though_it_is_read_late() {
    let sandbox = Sandbox::configured(SMALL);
    let read = "stty -echo; echo set; sleep 1; while read line && [ \"$line\" != end ]; do echo $line; done > got";
    let mut person = Person::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", read]);
    person.sees("set\r\n");
    let lines: Vec<String> = (0..5000)
        .map(|number| format!("line {number} of a long text"))
        .collect();
    let pasted = lines.join("\r") + "\rend\r";
    let mut left = pasted.as_bytes();
    while !left.is_empty() {
        match nix::unistd::write(person.keyboard.as_ref().unwrap(), left) {
            Ok(taken) => left = &left[taken..],
            Err(_) => person.look(),
        }
    }
    assert_eq!(person.ends(), 0);
    assert_eq!(sandbox.read("got").lines().count(), 5000);
}

#[test]
fn a_suspended_qsub_gives_the_terminal_back_and_goes_on_where_it_was() {
    let sandbox = Sandbox::configured(SMALL);
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "--noprofile", "-i"])
        .current_dir(sandbox.work())
        .env_clear();
    shell.envs(
        sandbox
            .command("qsub")
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mut person = Person::with(shell.env("PS1", "outer> ").env("LC_ALL", "C"));
    person.sees("outer> ");
    person.types("qsub -I -S /bin/sh\r");
    person.sees("ready");
    person.sees_prompt();
    person.types("~\x1a");
    person.sees("Stopped");
    person.sees("outer> ");
    person.asks("echo outside", "outside\r\n");
    person.types("fg\r");
    person.sees("fg\r\n");
    person.asks("echo $PBS_ENVIRONMENT", "PBS_INTERACTIVE\r\n");
    person.types("exit 8\r");
    person.sees("completed");
    person.sees("outer> ");
    person.asks("echo code $?", "code 8\r\n");
}

#[test]
fn who_asks_noded_for_a_terminal_that_is_not_there_is_hung_up_on_and_disturbs_nobody() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&id);
    let batch = id.split('.').next().unwrap().parse().unwrap();
    let attach = |epoch, number| Order::Attach {
        epoch,
        job: JobId::job(number),
        attempt: 1,
    };
    let fenced = |reply: Result<Report, FrameError>| matches!(reply, Ok(Report::Fenced { .. }));
    for (order, says_why) in [
        (attach(1 << 30, 999), false),
        (attach(1 << 30, batch), false),
        (attach(0, batch), true),
    ] {
        let mut noded = UnixStream::connect(sandbox.home().join("noded.sock")).unwrap();
        frame::write(&mut noded, &order).unwrap();
        assert_eq!(fenced(frame::read(&mut noded)), says_why, "{order:?}");
        assert!(matches!(
            frame::read::<Report>(&mut noded),
            Err(FrameError::Closed | FrameError::Io(_))
        ));
    }
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
}
