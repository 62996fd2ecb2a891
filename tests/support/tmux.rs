//! A terminal in tmux, which interprets the output of full-screen programs.

use crate::support::sandbox::Sandbox;
use std::process::Command;
use std::time::{Duration, Instant};

/// A tmux server with one window. Dropping it ends the server and its programs.
pub struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a shell command with the environment of a sandbox in a window of this size. None, with
    /// a message, if tmux is not installed.
    pub fn run(sandbox: &Sandbox, size: (u16, u16), line: &str) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let socket = sandbox.file("tmux.socket").to_str().unwrap().to_string();
        let tmux = Tmux { socket };
        let template = sandbox.command("lanai");
        let mut command = tmux.command();
        command
            .args(["new-session", "-d", "-c"])
            .arg(sandbox.work());
        command.args(["-x", &size.0.to_string(), "-y", &size.1.to_string()]);
        command.args(["env", "-i", "TERM=screen-256color", "LC_ALL=C.UTF-8"]);
        for (name, value) in template.get_envs() {
            if let Some(value) = value {
                let (name, value) = (name.to_str().unwrap(), value.to_str().unwrap());
                command.arg(format!("{name}={value}"));
            }
        }
        let program = template.get_program().to_str().unwrap();
        command.args([
            "sh",
            "-c",
            &line.replace("lanai top", &format!("{program} top")),
        ]);
        assert!(command.status().unwrap().success());
        Some(tmux)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket, "-f", "/dev/null"]);
        command.env("LC_ALL", "C.UTF-8");
        command
    }

    /// Presses keys, in the notation of tmux.
    pub fn press(&self, keys: &[&str]) {
        let mut command = self.command();
        command.args(["send-keys", "--"]).args(keys);
        assert!(command.status().unwrap().success());
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        let mut command = self.command();
        command.args(["resize-window", "-x", &columns.to_string()]);
        command.args(["-y", &rows.to_string()]);
        assert!(command.status().unwrap().success());
    }

    /// The displayed text.
    pub fn screen(&self) -> String {
        let output = self.command().args(["capture-pane", "-p"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// Waits until the screen fulfills the condition, and returns it.
    pub fn until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "no {what} on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the screen contains the text, and returns the screen.
    pub fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}
