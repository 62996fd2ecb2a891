//! A Lanai installation in a temporary directory: schedd, and noded with 64 slots. Both run in the
//! foreground as children of this process, so that their processor time can be measured.

use anyhow::{Context, Result, bail, ensure};
use lanai::sys::home::Home;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};
use tempfile::TempDir;

/// The number of the node's processors, and so of concurrent jobs.
pub const SLOTS: usize = 64;

const NODE: &str = "porch";
/// A timeout that no step reaches.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running Lanai installation.
pub struct Stage {
    folder: TempDir,
    schedd: Child,
    noded: Child,
}

impl Stage {
    /// Starts the daemons, and waits until the node is free.
    pub fn begin(login: bool) -> Result<Stage> {
        let folder = scratch()?;
        let home = folder.path().join("home");
        fs::create_dir(&home)?;
        fs::write(
            home.join("lanai.toml"),
            format!("[launch]\nlogin = {login}\n"),
        )?;
        write_script(folder.path())?;
        let daemon = |name: &str, arguments: &[&str]| {
            let log = fs::File::create(home.join(format!("{name}.log")))?;
            let mut command = lanai_command(folder.path(), name);
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
            command.spawn().context(name.to_string())
        };
        let noded = daemon(
            "noded",
            &[
                "--foreground",
                "--ncpus",
                &SLOTS.to_string(),
                "--name",
                NODE,
            ],
        )?;
        until("noded's socket", || home.join("noded.sock").exists())?;
        let schedd = daemon("schedd", &["--foreground"])?;
        let stage = Stage {
            folder,
            schedd,
            noded,
        };
        until("schedd's socket", || home.join("schedd.sock").exists())?;
        until("a free node", || {
            let output = stage.lanai_command("pbsnodes").arg("-a").output();
            output.is_ok_and(|output| {
                String::from_utf8_lossy(&output.stdout).contains("state = free")
            })
        })?;
        Ok(stage)
    }

    /// A Lanai command, run as a user of this installation.
    pub fn lanai_command(&self, program: &str) -> Command {
        lanai_command(self.folder.path(), program)
    }

    /// The directories of the installation.
    pub fn home(&self) -> Home {
        let state = self.folder.path().join("home");
        Home {
            config: state.join("lanai.toml"),
            runtime: state.clone(),
            state,
            system: false,
        }
    }

    /// The command that submits the job with this number in its stamp.
    pub fn qsub(&self, number: usize) -> Command {
        let mut command = self.lanai_command("qsub");
        command.args([
            "-o",
            "/dev/null",
            "-e",
            "/dev/null",
            "-v",
            &format!("ID={number}"),
        ]);
        command
            .arg(script(self.folder.path()))
            .stdout(Stdio::null())
            .stdin(Stdio::null());
        command
    }

    /// The command that submits an array of this many such jobs.
    pub fn array(&self, elements: usize) -> Command {
        let mut command = self.qsub(0);
        command.args(["-J", &format!("0-{}", elements - 1)]);
        command
    }

    /// Prevents jobs from starting.
    pub fn stop_starts(&self) -> Result<()> {
        must(self.lanai_command("pbsnodes").args(["-o", NODE]))
    }

    /// Allows jobs to start.
    pub fn allow_starts(&self) -> Result<()> {
        must(self.lanai_command("pbsnodes").args(["-r", NODE]))
    }

    /// Submits this many jobs, with this many submitters in parallel.
    pub fn submit(&self, jobs: usize, submitters: usize) -> Result<()> {
        at_once(submitters, |first| {
            (first..jobs)
                .step_by(submitters)
                .try_for_each(|job| must(&mut self.qsub(job)))
        })
    }

    /// Waits for `jobs` starts, and returns their times by the jobs' clocks, in milliseconds since
    /// 1970.
    pub fn stamps(&self, jobs: usize) -> Result<Vec<f64>> {
        until("the last start", || {
            stamps(self.folder.path()).len() >= jobs
        })?;
        Ok(stamps(self.folder.path()))
    }

    /// Waits until all jobs have finished.
    pub fn drain(&self) -> Result<()> {
        until("the end of the last job", || {
            self.lanai_command("qselect")
                .output()
                .is_ok_and(|output| output.status.success() && output.stdout.is_empty())
        })
    }

    /// The resident memory of schedd in MiB.
    pub fn memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.schedd.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        Ok(kilobytes.context("schedd's memory")? / 1024.0)
    }

    /// The processor time of schedd in seconds.
    pub fn schedd_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.schedd.id()))?;
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        Ok(fields
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<f64>().ok())
            .sum::<f64>()
            / 100.0)
    }

    /// Ends the daemons, and reaps all child processes.
    pub fn end(mut self) -> Result<()> {
        must(
            self.lanai_command("schedd")
                .arg("--stop")
                .stdout(Stdio::null()),
        )?;
        self.schedd.wait()?;
        let _ = nix::sys::signal::kill(
            Pid::from_raw(self.noded.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        );
        self.noded.wait()?;
        // This process is a subreaper: spawners and shepherds that outlive noded become its
        // children.
        while waitpid(None, None).is_ok() {}
        Ok(())
    }
}

/// A temporary directory that is removed when dropped.
pub fn scratch() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("lanai-bench-").tempdir()?)
}

/// Writes the job script: two lines, the second of which executes a program.
pub fn write_script(folder: &Path) -> Result<()> {
    let text = format!(
        "#!/bin/sh\nexec date \"+$ID %s%N\" >>{}\n",
        stamp_file(folder).display()
    );
    fs::write(script(folder), text)?;
    Ok(fs::set_permissions(
        script(folder),
        fs::Permissions::from_mode(0o755),
    )?)
}

/// The path of the job script.
pub fn script(folder: &Path) -> PathBuf {
    folder.join("job.sh")
}

fn stamp_file(folder: &Path) -> PathBuf {
    folder.join("stamps")
}

/// The start times that jobs have written, in milliseconds since 1970.
pub fn stamps(folder: &Path) -> Vec<f64> {
    let text = fs::read_to_string(stamp_file(folder)).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let stamp = |line: &str| line.split(' ').nth(1)?.parse::<f64>().ok();
    complete
        .lines()
        .filter_map(stamp)
        .map(|nanoseconds| nanoseconds / 1e6)
        .collect()
}

/// A Lanai program with an environment of usual size.
pub fn lanai_command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(programs().join(program));
    command
        .env_clear()
        .current_dir(folder)
        .env("LANAI_HOME", folder.join("home"))
        .env("HOME", folder);
    command.envs([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("SHELL", "/bin/sh"),
    ]);
    command
}

/// The directory of the programs: `make bench` sets it to those that `make all` has built.
fn programs() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_lanai")).with_file_name("");
    std::env::var_os("LANAI_BENCH_PROGRAMS").map_or(built, PathBuf::from)
}

/// Runs a command that must succeed.
pub fn must(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Runs the work on several threads in parallel, each with its number.
pub fn at_once(threads: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn({
                    let work = &work;
                    move || work(number)
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => bail!("a submitter thread panicked"),
            })
    })
}

/// Waits until a condition holds. Returns an error after the timeout.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !condition() {
        ensure!(started.elapsed() < PATIENCE, "timeout: waited for {what}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The wall-clock time in milliseconds since 1970, as in the stamps.
pub fn wall() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
        * 1000.0
}
