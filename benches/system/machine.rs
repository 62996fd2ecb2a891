//! The speed of the machine itself: a bound for each figure of Lanai.

use super::Scale;
use super::figures::{median, milliseconds, timed};
use super::stage::{at_once, lanai_command, must, scratch, script, write_script};
use anyhow::{Context, Result};
use lanai::sys::process::{self, Fork};
use nix::sys::wait::waitpid;
use nix::unistd::User;
use rusqlite::Connection;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// Measured bounds. Times are in milliseconds, rates per second.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Starts `/bin/true` and waits for it.
    pub start_true: f64,
    /// Starts a Lanai command without work (`qsub --version`) and waits for it.
    pub start_command: f64,
    /// Starts that command, four at a time.
    pub start_command_rate: f64,
    /// Runs the job's script without Lanai.
    pub script: f64,
    /// Runs scripts from forked processes, eight at a time, as shepherds do, without their records.
    pub shepherd_rate: f64,
    /// Runs scripts in the user's login shell, four at a time, profile included.
    pub login_rate: f64,
    /// Runs one submission's process and one job's processes, four at a time.
    pub pair_rate: f64,
    /// Commits one row to an SQLite log on disk.
    pub commit: f64,
    /// Connects to a Unix socket, sends one request and receives the answer.
    pub round_trip: f64,
}

impl Limits {
    /// The minimum time of a submission: a process, a connection, a commit.
    pub fn submit(&self) -> f64 {
        self.start_command + self.round_trip + self.commit
    }

    /// The minimum time from submission to start: a submission, a commit for the plan, the job's
    /// processes.
    pub fn start(&self) -> f64 {
        self.submit() + self.commit + self.script
    }
}

/// Measures all bounds.
pub fn measure(scale: &Scale) -> Result<Limits> {
    let folder = scratch()?;
    let folder = folder.path();
    write_script(folder)?;
    let nothing = || {
        lanai_command(folder, "qsub")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .map(drop)
    };
    let count = scale.jobs.clamp(50, 300);
    // Measured before any thread starts, as a process that forks must have only one thread.
    let shepherd_rate = shepherds(folder, count)?;
    let pair = || {
        nothing()?;
        must(&mut job(folder))
    };
    Ok(Limits {
        shepherd_rate,
        start_true: typical(count, || must(&mut Command::new("/bin/true")))?,
        start_command: typical(count, || Ok(nothing()?))?,
        start_command_rate: rate(count, 4, || Ok(nothing()?))?,
        script: typical(count, || must(&mut job(folder)))?,
        login_rate: rate(count / 10, 4, || must(&mut login(folder)?))?,
        pair_rate: rate(count, 4, pair)?,
        commit: commits(folder, count)?,
        round_trip: round_trips(folder, count)?,
    })
}

fn job(folder: &Path) -> Command {
    let mut command = Command::new(script(folder));
    command.env("ID", "0").stdin(Stdio::null());
    command
}

/// The job's script in the login shell of the current user.
fn login(folder: &Path) -> Result<Command> {
    let user = User::from_uid(nix::unistd::geteuid())?.context("an account for this user")?;
    let mut command = Command::new(&user.shell);
    command
        .arg("-l")
        .arg(script(folder))
        .env_clear()
        .env("HOME", &user.dir)
        .env("USER", &user.name);
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("ID", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// The median time of a piece of work.
fn typical(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let times = (0..count).map(|_| {
        let (time, done) = timed(&mut work);
        done.map(|()| time)
    });
    Ok(median(&times.collect::<Result<Vec<_>>>()?))
}

/// The rate per second, with `at_a_time` in parallel.
fn rate(count: usize, at_a_time: usize, work: impl Fn() -> Result<()> + Sync) -> Result<f64> {
    let (time, done) = timed(|| {
        at_once(at_a_time, |_| {
            (0..count / at_a_time).try_for_each(|_| work())
        })
    });
    done?;
    Ok((count / at_a_time * at_a_time) as f64 * 1000.0 / time)
}

fn shepherds(folder: &Path, count: usize) -> Result<f64> {
    let started = Instant::now();
    let mut running = 0;
    for _ in 0..count {
        if running == 8 {
            waitpid(None, None)?;
            running -= 1;
        }
        if matches!(process::fork()?, Fork::Child) {
            let done = job(folder).status().is_ok_and(|status| status.success());
            process::leave(i32::from(!done));
        }
        running += 1;
    }
    while waitpid(None, None).is_ok() {}
    Ok(count as f64 * 1000.0 / milliseconds(started.elapsed()))
}

fn commits(folder: &Path, count: usize) -> Result<f64> {
    let connection = Connection::open(folder.join("limit.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT)", [])?;
    let row = "x".repeat(1000);
    typical(count, || {
        Ok(connection
            .prepare_cached("INSERT INTO row (text) VALUES (?1)")?
            .execute([&row])
            .map(drop)?)
    })
}

fn round_trips(folder: &Path, count: usize) -> Result<f64> {
    let path = folder.join("limit.sock");
    let listener = UnixListener::bind(&path)?;
    let echo = thread::spawn(move || {
        let mut buffer = [0; 1024];
        for stream in listener.incoming().take(count) {
            let Ok(mut stream) = stream else { return };
            let read = stream.read(&mut buffer).unwrap_or(0);
            let _ = stream.write_all(&buffer[..read]);
        }
    });
    let time = typical(count, || {
        let mut stream = UnixStream::connect(&path)?;
        stream.write_all(&[1; 256])?;
        Ok(stream.read_exact(&mut [0; 256])?)
    });
    let _ = echo.join();
    time
}
