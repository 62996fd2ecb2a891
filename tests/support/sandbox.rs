//! A private Lanai for each test: real daemons and commands in a temporary directory.

#![allow(dead_code, reason = "each test binary uses its own part")]

use serde_json::Value;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A temporary directory with a home directory, a work directory and the environment of the
/// programs under test.
pub struct Sandbox {
    folder: TempDir,
    environment: Vec<(String, String)>,
    /// Directories outside the sandbox left behind by killed processes.
    debris: Mutex<BTreeSet<PathBuf>>,
}

/// Result of a finished command.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Standard output of a successful command. Panics with the full output otherwise.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The single line of standard output.
    #[track_caller]
    pub fn line(self) -> String {
        let out = self.ok();
        assert_eq!(out.lines().count(), 1, "{out:?}");
        out.trim_end().to_string()
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox::configured("")
    }

    /// Creates a sandbox with this text as `lanai.toml`. Login shells are off unless the text
    /// enables them, so that profile files of the host do not affect the tests. Jobs get PBS's
    /// environment, as in shared installations, unless the text sets another.
    pub fn configured(config: &str) -> Sandbox {
        let mut launch = "[launch]".to_string();
        if !config.contains("login =") {
            launch.push_str("\nlogin = false");
        }
        if !config.contains("environment =") {
            launch.push_str("\nenvironment = \"login\"");
        }
        let config = if config.contains("[launch]") {
            config.replace("[launch]", &launch)
        } else {
            format!("{config}\n{launch}\n")
        };
        let folder = tempfile::Builder::new()
            .prefix("lanai-test-")
            .tempdir()
            .unwrap();
        let mut sandbox = Sandbox {
            folder,
            environment: Vec::new(),
            debris: Mutex::default(),
        };
        sandbox.set("LANAI_HOME", sandbox.home().display());
        fs::create_dir(sandbox.home()).unwrap();
        fs::create_dir(sandbox.work()).unwrap();
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        sandbox
    }

    /// Adds a variable to the environment of all commands and daemons.
    pub fn with(mut self, name: &str, value: impl ToString) -> Sandbox {
        self.set(name, value);
        self
    }

    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_string(), value.to_string()));
    }

    pub fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Directory that `LANAI_HOME` names.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Working directory of commands.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes an executable script to the work directory.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Command for a program under test, with a fixed environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(bin(program));
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            bin("qsub").parent().unwrap().display()
        );
        command.current_dir(self.work()).env_clear();
        command.envs([
            ("PATH", path.as_str()),
            ("TZ", "UTC"),
            ("LANG", "C.UTF-8"),
            ("COLUMNS", "80"),
        ]);
        command
            .env("HOME", self.work())
            .env("USER", user())
            .env("LOGNAME", user())
            .env("SHELL", "/bin/sh");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a program and waits until it exits.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Done {
        finish(
            self.command(program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Starts a noded in the foreground, with its socket and state directory in the home directory.
    /// Its output is appended to the log in the state directory.
    pub fn start_noded(
        &self,
        name: &str,
        ncpus: &str,
        socket: &str,
        state: &str,
        environment: &[(&str, &str)],
    ) -> Child {
        let home = self.home();
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(home.join(format!("{state}.log")))
            .unwrap();
        self.command("noded")
            .args(["--foreground", "--name", name, "--ncpus", ncpus])
            .args(["--mem", "1gb", "--socket"])
            .arg(home.join(format!("{socket}.sock")))
            .arg("--state")
            .arg(home.join(state))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Starts schedd and `count` simulated hosts n1, n2, ... with `ncpus` processors and 4 GB each.
    /// Waits until all are free.
    #[track_caller]
    pub fn start_nodes(&self, count: usize, ncpus: usize) {
        let (nodes, processors) = (count.to_string(), ncpus.to_string());
        self.run(
            "noded",
            &[
                "--nodes",
                &nodes,
                "--ncpus",
                &processors,
                "--mem",
                "4gb",
                "--name",
                "n",
            ],
        )
        .ok();
        self.run("schedd", &[]).ok();
        self.until("the nodes", || {
            let shown = self.run("pbsnodes", &["-a"]).out;
            (shown.matches("state = free").count() == count).then_some(())
        });
    }

    /// Runs a program with this standard input.
    pub fn run_with_input(&self, program: &str, arguments: &[&str], input: &str) -> Done {
        let mut command = self.command(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that refuses its arguments reads no input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        finish(child.wait_with_output().unwrap())
    }

    /// Runs a shell command line.
    pub fn shell(&self, line: &str) -> Done {
        let command = self.command("qsub");
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        shell
            .current_dir(self.work())
            .args(["-c", line])
            .stdin(Stdio::null());
        finish(shell.output().unwrap())
    }

    /// Submits a script given as text; returns the job id.
    #[track_caller]
    pub fn submit(&self, arguments: &[&str], script: &str) -> String {
        self.run_with_input("qsub", arguments, script).line()
    }

    /// Job as `qstat -x -f -F json` shows it; `Null` for an unknown job.
    pub fn job(&self, id: &str) -> Value {
        let done = self.run("qstat", &["-x", "-f", "-F", "json", id]);
        let document: Value =
            serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        document["Jobs"][id].clone()
    }

    pub fn state(&self, id: &str) -> String {
        self.job(id)["job_state"]
            .as_str()
            .unwrap_or("none")
            .to_string()
    }

    /// User name of the job's owner.
    pub fn owner(&self, id: &str) -> String {
        let job = self.job(id);
        let owner = job["Job_Owner"].as_str().unwrap();
        owner.split('@').next().unwrap().to_string()
    }

    /// Waits until the job has finished; returns its final attributes.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        self.until(&format!("the end of {id}"), || {
            let job = self.job(id);
            (job["job_state"] == "F").then_some(job)
        })
    }

    /// Waits until the job is running and its session has started.
    #[track_caller]
    pub fn running(&self, id: &str) -> Value {
        self.until(&format!("the start of {id}"), || {
            let job = self.job(id);
            (job["job_state"] == "R" && job["session_id"].is_number()).then_some(job)
        })
    }

    /// Polls until `condition` returns a value. Panics after 40 seconds.
    #[track_caller]
    pub fn until<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        // Most conditions run a program, so the pause grows: long waits leave the processors to the
        // daemons.
        let mut pause = Duration::from_millis(5);
        loop {
            if let Some(found) = condition() {
                return found;
            }
            if started.elapsed() > Duration::from_secs(40) {
                panic!(
                    "timeout: waited for {what}\nqstat:\n{}\nlog:\n{}",
                    self.run("qstat", &["-xa"]).out,
                    self.log()
                );
            }
            std::thread::sleep(pause);
            pause = (pause * 5 / 4).min(Duration::from_millis(40));
        }
    }

    /// Content of schedd's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home().join("schedd.log")).unwrap_or_default()
    }

    /// Pid and command name of all processes of this sandbox, including jobs.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mark = self.folder.path().as_os_str().as_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
                continue;
            };
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environ.windows(mark.len()).any(|part| part == mark) {
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                found.push((pid, name.trim_end().to_string()));
            }
        }
        found
    }

    /// Pids of the processes with this name: `schedd`, `noded`, `lanai-spawner` or
    /// `lanai-shepherd`.
    pub fn pids_of(&self, name: &str) -> Vec<i32> {
        let named = |process: &(i32, String)| process.1 == name;
        self.processes()
            .into_iter()
            .filter(named)
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Pid of a daemon in this sandbox; None if it is not running.
    pub fn pid_of(&self, name: &str) -> Option<i32> {
        self.pids_of(name).first().copied()
    }

    /// Kills a daemon with SIGKILL and waits until it is gone.
    #[track_caller]
    pub fn kill(&self, name: &str) {
        let pid = self
            .pid_of(name)
            .unwrap_or_else(|| panic!("{name} is not running in this sandbox"));
        kill(pid, 9);
        self.until(&format!("the exit of {name}"), || {
            is_gone(pid).then_some(())
        });
    }

    /// Simulates a power failure: kills all processes of this sandbox.
    pub fn cut_power(&self) {
        self.debris.lock().unwrap().extend(self.leftovers());
        for _ in 0..400 {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(|(pid, _)| kill(pid, 9));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sandbox {
    /// Ends all processes and removes their leftovers, whether the test passed or failed.
    pub fn end(&self) {
        let _ = self.run("schedd", &["--stop"]);
        // The shepherd of a finished job may still be removing its TMPDIR.
        for _ in 0..20 {
            if self.processes().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.cut_power();
        for folder in std::mem::take(&mut *self.debris.lock().unwrap()) {
            let _ = fs::remove_dir(&folder).or_else(|_| fs::remove_dir_all(&folder));
        }
    }

    /// Control groups and `TMPDIR`s that killed shepherds could not remove, read from the records
    /// of the attempts.
    fn leftovers(&self) -> Vec<PathBuf> {
        let files = super::files(self.folder.path()).into_iter();
        let records = files
            .filter(|file| file.ends_with("record"))
            .filter_map(|file| fs::read(file).ok());
        let named = records.flat_map(|record| {
            let text = String::from_utf8_lossy(&record).into_owned();
            ["\"cgroup\":\"", "\"tmpdir\":\""]
                .map(|key| Some(text.split(key).nth(1)?.split('"').next()?.to_string()))
        });
        named.flatten().map(PathBuf::from).collect()
    }
}

/// Sends a signal; errors are ignored.
pub fn kill(pid: i32, signal: i32) {
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// True if a process has ended and closed its files. Files stay open until the last thread ends,
/// even if the first thread is already a zombie.
fn is_gone(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

/// Path of a program under test. The build script links the commands to the client program.
pub fn bin(program: &str) -> PathBuf {
    let client = Path::new(env!("CARGO_BIN_EXE_lanai"));
    client.with_file_name(program)
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Name of the user who runs the tests.
pub fn user() -> String {
    nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten()
        .map_or("nobody".into(), |user| user.name)
}

pub fn finish(output: Output) -> Done {
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sequence number of a job id.
pub fn number(id: &str) -> &str {
    id.split(['.', '[']).next().unwrap()
}

/// Comment of a job; empty if there is none.
pub fn comment(job: &Value) -> &str {
    job["comment"].as_str().unwrap_or_default()
}

/// Asserts that the command failed with this exit status, printed nothing on standard output, and
/// that its error message contains `part`.
#[track_caller]
pub fn refused(done: impl Borrow<Done>, code: i32, part: &str) {
    let done = done.borrow();
    assert!(
        done.code == code && done.err.contains(part) && done.out.is_empty(),
        "{code} {part:?}: {done:?}"
    );
}

/// Asserts that the command failed with this exit status and printed exactly this line, on standard
/// error.
#[track_caller]
pub fn refused_exactly(done: impl Borrow<Done>, code: i32, line: &str) {
    let done = done.borrow();
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (code, "", format!("{line}\n").as_str())
    );
}
