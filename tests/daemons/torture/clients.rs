//! The clients of a torture run: submitters, deleters, rerunners, and a watcher.

use super::rng::Rng;
use super::{RUNNING, SLOTS};
use crate::support::sandbox::{Done, Sandbox};
use lanai::model::job_id::JobId;
use lanai::noded::folder::{self, AttemptName, Folder};
use lanai::spool::scripts::SMALLEST;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

const SUBMITTERS: usize = 4;
const DELETERS: usize = 2;
const RERUNNERS: usize = 2;
/// Seconds after which a command counts as hanging.
const TIMEOUT: u64 = 30;

/// The indices of every array.
pub const INDICES: &str = "1-19:2";

/// Marks its start with an exclusively created file, then exits with the status in the job name:
/// 7 for `x7`.
const SCRIPT: &str = r#"#!/bin/sh
set -C
mark=$MARKS/${PBS_JOBID%%.*}.$LANAI_ATTEMPT
echo $$ > "$mark" || echo $$ > "$MARKS/TWICE.${mark##*/}.$$"
sleep $SLEEP
exit ${PBS_JOBNAME#x}
"#;

/// Jobs as the watcher last read them from the spool.
#[derive(Default)]
struct View {
    queued: Vec<JobId>,
    running: Vec<JobId>,
    arrays: usize,
}

/// All clients and a record of their actions.
pub struct Clients<'a> {
    pub sandbox: &'a Sandbox,
    ended: AtomicBool,
    view: Mutex<View>,
    /// Jobs with an id printed by `qsub`.
    pub accepted: Mutex<Vec<JobId>>,
    /// Jobs with an attempted `qdel`, and true if it succeeded.
    pub deleted: Mutex<BTreeMap<JobId, bool>>,
    /// Jobs with an attempted `qrerun`, and the number of successful ones.
    pub rerun: Mutex<BTreeMap<JobId, u32>>,
    /// Error messages of commands, with digits removed, and their counts.
    pub command_errors: Mutex<BTreeMap<String, u32>>,
}

impl<'a> Clients<'a> {
    pub fn new(sandbox: &'a Sandbox) -> Clients<'a> {
        fs::create_dir(sandbox.file("marks")).unwrap();
        fs::write(sandbox.file("job.sh"), SCRIPT).unwrap();
        let padding = "#\n".repeat(SMALLEST / 2);
        fs::write(sandbox.file("large.sh"), format!("{SCRIPT}{padding}")).unwrap();
        Clients {
            sandbox,
            ended: AtomicBool::new(false),
            view: Mutex::default(),
            accepted: Mutex::default(),
            deleted: Mutex::default(),
            rerun: Mutex::default(),
            command_errors: Mutex::default(),
        }
    }

    /// Starts all clients.
    pub fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>, rng: &mut Rng) {
        scope.spawn(|| self.watch());
        for _ in 0..SUBMITTERS {
            let rng = rng.fork();
            scope.spawn(|| self.work(rng, Clients::submit));
        }
        let own = rng.fork();
        scope.spawn(|| self.work(own, Clients::submit_array));
        for _ in 0..DELETERS {
            let rng = rng.fork();
            scope.spawn(|| self.work(rng, Clients::delete));
        }
        for _ in 0..RERUNNERS {
            let rng = rng.fork();
            scope.spawn(|| self.work(rng, Clients::rerun));
        }
    }

    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    fn work(&self, mut rng: Rng, mut act: impl FnMut(&Self, &mut Rng)) {
        while !self.has_ended() {
            act(self, &mut rng);
        }
    }

    /// Submits a job unless the queue is long enough.
    fn submit(&self, rng: &mut Rng) {
        if self.view.lock().unwrap().queued.len() > SLOTS {
            return sleep(20);
        }
        self.submit_one(rng, &[]);
    }

    /// Submits an array with at most 4 running subjobs, unless there are two unfinished arrays.
    fn submit_array(&self, rng: &mut Rng) {
        if self.view.lock().unwrap().arrays < 2 {
            self.submit_one(rng, &["-J", &format!("{INDICES}%4")]);
        }
        sleep(200);
    }

    fn submit_one(&self, rng: &mut Rng, more: &[&str]) {
        let code = rng.below(4) * rng.below(64);
        let milliseconds = match rng.below(20) {
            0..3 => 0,
            3..12 => 200 + rng.below(1800),
            12..19 => 1500 + rng.below(2500),
            _ => 6000,
        };
        let duration = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
        let variables = format!("SLEEP={duration},MARKS={}", self.marks().display());
        let name = format!("x{code}");
        let script = if rng.below(8) == 0 {
            "large.sh"
        } else {
            "job.sh"
        };
        let arguments = [
            "-N",
            &name,
            "-v",
            &variables,
            "-o",
            "/dev/null",
            "-e",
            "/dev/null",
            script,
        ];
        if let Some(done) = self.run("qsub", &[more, &arguments].concat()) {
            let id = done
                .out
                .split('.')
                .next()
                .and_then(|number| number.parse().ok());
            self.accepted
                .lock()
                .unwrap()
                .push(id.unwrap_or_else(|| panic!("{done:?}")));
        }
    }

    fn delete(&self, rng: &mut Rng) {
        sleep(100 + rng.below(500));
        let view = self.view.lock().unwrap();
        let from = if rng.below(3) == 0 {
            &view.queued
        } else {
            &view.running
        };
        let Some(&id) = rng.one_of(from) else { return };
        drop(view);
        // Recorded first: the command may take effect even if it fails.
        self.deleted.lock().unwrap().entry(id).or_default();
        if self.run("qdel", &[&id.to_string()]).is_some() {
            self.deleted.lock().unwrap().insert(id, true);
        }
    }

    fn rerun(&self, rng: &mut Rng) {
        sleep(100 + rng.below(500));
        let id = rng.one_of(&self.view.lock().unwrap().running).copied();
        let Some(id) = id else { return };
        self.rerun.lock().unwrap().entry(id).or_default();
        if self.run("qrerun", &[&id.to_string()]).is_some() {
            *self.rerun.lock().unwrap().entry(id).or_default() += 1;
        }
    }

    /// Result of a successful command; otherwise None, and its error message is recorded.
    fn run(&self, program: &str, arguments: &[&str]) -> Option<Done> {
        let template = self.sandbox.command(program);
        let mut command = Command::new("timeout");
        command.env_clear().envs(
            template
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
            .current_dir(self.sandbox.work())
            .arg(TIMEOUT.to_string())
            .arg(template.get_program())
            .args(arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let done = Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if done.code == 0 {
            return Some(done);
        }
        let error = if done.code == 124 {
            "TIMEOUT"
        } else {
            done.err.trim()
        };
        let error: String = error.chars().filter(|c| !c.is_ascii_digit()).collect();
        *self
            .command_errors
            .lock()
            .unwrap()
            .entry(format!("{program}: {error}"))
            .or_default() += 1;
        None
    }

    fn watch(&self) {
        let mut spool = None;
        while !self.has_ended() {
            spool = spool.or_else(|| open(&self.spool()));
            if let Some(view) = spool.as_ref().and_then(|spool| read_view(spool).ok()) {
                *self.view.lock().unwrap() = view;
            }
            sleep(50);
        }
    }

    pub fn spool(&self) -> PathBuf {
        self.sandbox.home().join("spool/spool.db")
    }

    pub fn marks(&self) -> PathBuf {
        self.sandbox.file("marks")
    }

    /// Directories of attempts that noded still keeps.
    pub fn attempts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.sandbox.home().join("node/attempts"))
            .into_iter()
            .flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// True if at least [`RUNNING`] attempts have started and have no recorded end.
    pub fn is_busy(&self) -> bool {
        let state = self.sandbox.home().join("node");
        let running = |name: &AttemptName| {
            let folder = Folder::of(&state, *name);
            matches!(folder.trace(), Ok(Some(_))) && matches!(folder.outcome(), Ok(None))
        };
        let names = folder::names(&folder::attempts(&state)).unwrap_or_default();
        names.iter().filter(|name| running(name)).count() >= RUNNING
    }

    /// Waits until every job has finished and every end is confirmed. False on timeout.
    pub fn wait_until_quiet(&self, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            // Starts schedd if it was the last daemon killed.
            let listed = self.sandbox.run("qselect", &[]);
            self.sandbox.run("schedd", &[]);
            if listed.code == 0 && listed.out.is_empty() && self.attempts().is_empty() {
                return true;
            }
            sleep(200);
        }
        false
    }

    /// Copies the state of the daemons to a directory that is kept.
    pub fn keep_state(&self) -> PathBuf {
        let kept = tempfile::Builder::new()
            .prefix("lanai-torture-")
            .tempdir()
            .unwrap()
            .keep();
        let _ = Command::new("cp")
            .arg("-a")
            .arg(self.sandbox.home())
            .arg(self.sandbox.work())
            .arg(&kept)
            .output();
        kept
    }
}

pub fn sleep(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Opens the spool for reading.
pub fn open(spool: &Path) -> Option<Connection> {
    let connection = Connection::open_with_flags(spool, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.busy_timeout(Duration::from_secs(5)).ok()?;
    Some(connection)
}

fn read_view(spool: &Connection) -> rusqlite::Result<View> {
    let mut view = View::default();
    let sql = "SELECT id, -1, state FROM job WHERE state <> 'F' AND NOT is_array
        UNION ALL SELECT job, idx, state FROM element WHERE state <> 'F'";
    let mut statement = spool.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ids = if row.get::<_, String>(2)? == "R" {
            &mut view.running
        } else {
            &mut view.queued
        };
        let index = u32::try_from(row.get::<_, i64>(1)?).ok();
        let number = row.get(0)?;
        ids.push(index.map_or(JobId::job(number), |index| JobId::element(number, index)));
    }
    let sql = "SELECT count(*) FROM job WHERE state <> 'F' AND is_array";
    view.arrays = spool.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(view)
}
