//! Runs a command on a pseudo-terminal, as an interactive user does.

use crate::support::sandbox::Sandbox;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A pseudo-terminal with one running command.
pub struct Terminal {
    pub keyboard: Option<OwnedFd>,
    pub terminal: PathBuf,
    command: Child,
    pub screen: String,
    /// Length of the screen text that has been matched.
    read: usize,
}

impl Terminal {
    pub fn runs(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Terminal {
        let mut command = sandbox.command(program);
        command.args(arguments);
        Terminal::with(&command)
    }

    /// Runs this command on a new terminal.
    pub fn with(template: &Command) -> Terminal {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).unwrap();
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let terminal = nix::unistd::ttyname(&pty.slave).unwrap();
        let mut command = Command::new("setsid");
        // The test runner may have been started with SIGINT ignored.
        command
            .args(["-c", "env", "--default-signal"])
            .arg(template.get_program())
            .args(template.get_args());
        command.current_dir(template.get_current_dir().unwrap());
        command
            .env_clear()
            .envs(
                template
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "vt52");
        let screen = || pty.slave.try_clone().unwrap();
        let command = command
            .stdin(screen())
            .stdout(screen())
            .stderr(screen())
            .spawn()
            .unwrap();
        Terminal {
            keyboard: Some(pty.master),
            terminal,
            command,
            screen: String::new(),
            read: 0,
        }
    }

    /// Starts an interactive job and waits for the prompt `$ ` of its shell. Returns the terminal
    /// and the job id.
    pub fn at_shell(sandbox: &Sandbox, arguments: &[&str]) -> (Terminal, String) {
        let mut person = Terminal::runs(
            sandbox,
            "qsub",
            &[&["-I", "-S", "/bin/sh"], arguments].concat(),
        );
        let id = person.expect_id();
        person.expect_text(&format!("qsub: job {id} ready\r\n\r\n"));
        person.expect_prompt();
        (person, id)
    }

    /// Waits for the message of a waiting `qsub -I`; returns the job id in it.
    #[track_caller]
    pub fn expect_id(&mut self) -> String {
        self.expect_text("qsub: waiting for job ");
        let from = self.read;
        self.expect_text(" to start");
        self.screen[from..].split(' ').next().unwrap().to_string()
    }

    /// Waits for the prompt of the shell.
    pub fn expect_prompt(&mut self) {
        self.expect_text(if nix::unistd::geteuid().is_root() {
            "# "
        } else {
            "$ "
        });
    }

    pub fn type_keys(&self, keys: &str) {
        let keyboard = self.keyboard.as_ref().unwrap();
        assert_eq!(
            nix::unistd::write(keyboard, keys.as_bytes()).unwrap(),
            keys.len()
        );
    }

    /// Types a line and waits for this answer.
    pub fn type_and_expect(&mut self, line: &str, answer: &str) {
        self.type_keys(&format!("{line}\r"));
        self.expect_text(&format!("{line}\r\n"));
        self.expect_text(answer);
    }

    /// Waits until this text appears after the previous match.
    #[track_caller]
    pub fn expect_text(&mut self, text: &str) {
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
            self.read();
        }
    }

    /// Adds the output that arrives within 20 ms to the screen text.
    pub fn read(&mut self) {
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

    pub fn resize(&self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let mut stty = Command::new("stty");
        stty.arg("-F")
            .arg(&self.terminal)
            .args(["rows", &rows, "cols", &columns]);
        assert!(stty.status().unwrap().success());
    }

    pub fn settings(&self) -> String {
        let stty = Command::new("stty")
            .arg("-F")
            .arg(&self.terminal)
            .arg("-a")
            .output()
            .unwrap();
        String::from_utf8(stty.stdout).unwrap()
    }

    /// Waits until the command exits; returns its exit code, or 128 plus the signal.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            self.read();
            if let Some(status) = self.command.try_wait().unwrap() {
                self.read();
                return status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap());
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "the command does not exit: {:?}",
                self.screen
            );
        }
    }

    pub fn pid(&self) -> i32 {
        self.command.id().try_into().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}
