//! Replays one recording with Lanai's programs, block by block.

use super::placeholders::Bindings;
use super::tables::{Direction, Place};
use super::verdict::{Verdict, difference, expected, verdict};
use super::world::{PBSHOME, World};
use crate::support::blocks::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// Number of the first job: ids are as wide as in the recordings.
const FIRST_JOB: u32 = 1001;

const CONFIG: &str = "[server]\nname = \"head\"\nworkdir = \"home\"\nmanagers = [\"root\"]\nmax_array_size = 10000\n\
    mailer = \"/tmp/recorded-in/mailer\"\nmail_from = \"adm\"\nrefuse_impossible = false\n\
    [order]\nuser_priority = \"free\"\n[cycle]\npoll_interval = \"1s\"\n";

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(20);

/// Time limit of a command that timed out in the recording.
const TIMED_OUT_LIMIT: Duration = Duration::from_millis(1500);

/// Maximum time for which a query is repeated until its output matches, and a command until the
/// state of its job permits it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Result of a block.
pub struct Outcome {
    pub place: Place,
    pub verdict: Verdict,
    /// Command, expected and actual output; empty if equal.
    pub difference: String,
}

/// Replays one file. Blocks that are known to differ are not repeated.
pub struct Player<'a> {
    pub file: u8,
    pub directions: &'a BTreeMap<Place, Vec<Direction>>,
    pub known: &'a BTreeSet<Place>,
}

impl Player<'_> {
    /// Replays all blocks and returns their results.
    pub fn play(&self, blocks: &[Block]) -> Vec<Outcome> {
        let world = World::new(CONFIG);
        begin(&world);
        let mut bindings = Bindings::default();
        for place in [(0, 0), (self.file, 0)] {
            self.prepare(&world, place, &bindings);
        }
        blocks
            .iter()
            .map(|block| self.step(&world, block, &mut bindings))
            .collect()
    }

    fn prepare(&self, world: &World, place: Place, bindings: &Bindings) -> Option<String> {
        let mut instead = None;
        for direction in self.directions.get(&place).into_iter().flatten() {
            match direction {
                Direction::Run { user, command } => {
                    drop(world.run(user, &self.filled(command, bindings), LIMIT))
                }
                Direction::Means(..) => {}
                Direction::Wait(milliseconds) => {
                    std::thread::sleep(Duration::from_millis(*milliseconds))
                }
                Direction::Instead(command) => instead = Some(command.clone()),
            }
        }
        instead
    }

    /// Expands substitutions, names and job numbers in a command.
    fn filled(&self, command: &str, bindings: &Bindings) -> String {
        let mut command = command.to_string();
        for direction in [(0, 0), (self.file, 0)]
            .iter()
            .flat_map(|place| self.directions.get(place))
            .flatten()
        {
            if let Direction::Means(text, meaning) = direction {
                command = command.replace(text, meaning);
            }
        }
        let (number, id) = (
            bindings.last.as_deref().unwrap_or("0"),
            bindings.last_id.as_deref().unwrap_or(""),
        );
        bindings.filled(
            &expected(&command)
                .replace("<LAST>", number)
                .replace("<id>", id),
        )
    }

    fn step(&self, world: &World, block: &Block, bindings: &mut Bindings) -> Outcome {
        let place = (self.file, block.line);
        let instead = self.prepare(world, place, bindings);
        let command = self.filled(instead.as_ref().unwrap_or(&block.command), bindings);
        let user = if block.who.is_empty() {
            "alice"
        } else {
            &block.who
        };
        let (is_repeatable, is_known) = (is_query(&command), self.known.contains(&place));
        if is_known || (!is_repeatable && !command.contains("qsub")) {
            settle(world);
        }
        let patience = if is_known || !is_repeatable {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let started = Instant::now();
        loop {
            let done = world.run(
                user,
                &command,
                if block.code.is_none() {
                    TIMED_OUT_LIMIT
                } else {
                    LIMIT
                },
            );
            let mut bound = bindings.clone();
            let verdict = verdict(block, done.as_ref(), &mut bound);
            let is_early = done
                .as_ref()
                .is_some_and(|done| done.err.contains("Request invalid for state of job"));
            let is_last = started.elapsed()
                > if is_early && !is_known {
                    PATIENCE
                } else {
                    patience
                };
            if verdict != Verdict::Differs || is_last {
                *bindings = bound;
                bindings.note(&block.command, done.as_ref().map_or("", |done| &done.out));
                let difference = difference(block, &command, done.as_ref(), verdict, bindings);
                return Outcome {
                    place,
                    verdict,
                    difference,
                };
            }
            std::thread::sleep(Duration::from_millis(40));
        }
    }
}

/// Starts the daemons, with the first job number set in the spool.
fn begin(world: &World) {
    let spool = world.outside(&format!("{PBSHOME}/spool"));
    world.ok("root", "schedd && schedd --stop");
    let file = rusqlite::Connection::open(spool.join("spool.db")).unwrap();
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('next', ?1)";
    file.execute(sql, [FIRST_JOB.to_string()]).unwrap();
    drop(file);
    world.ok("root", "schedd && noded --name head --ncpus 4 --mem 8gb");
    let started = Instant::now();
    while !world
        .ok("root", "pbsnodes -a || true")
        .contains("state = free")
    {
        assert!(
            started.elapsed() < LIMIT,
            "the node is not free after {LIMIT:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// True if a command only queries, so that it may be repeated.
fn is_query(command: &str) -> bool {
    let changing = [
        "qsub",
        "qdel",
        "qalter",
        "qhold",
        "qrls",
        "qrerun",
        "qmove",
        "qsig",
        "qmsg",
        "qorder",
        "qrun",
        "qenable",
        "qdisable",
        "qstart",
        "qstop",
        "qterm",
        "pbs_rsub",
        "pbs_rdel",
        "pbs_ralter",
        "pbs_release",
        "rm ",
        "cp ",
        "mkdir",
    ];
    let manages =
        command.contains("qmgr") && !command.contains("list") && !command.contains("print");
    let marks = command.contains("pbsnodes -o")
        || command.contains("pbsnodes -r")
        || command.contains("pbsnodes -C");
    !manages && !marks && !changing.iter().any(|program| command.contains(program))
}

/// Maximum time in which a job starts or ends, on a loaded machine.
const IN_TRANSIT: Duration = Duration::from_secs(20);

/// Maximum wait for a job that has no comment or that computes without a pause. Some recorded jobs
/// never leave these states.
const UNSETTLED: Duration = Duration::from_secs(5);

/// Waits until every job has a comment, has ended, or is running and sleeps. A signal sent before
/// the script has set its trap would have a different effect.
fn settle(world: &World) {
    let started = Instant::now();
    loop {
        let Some(done) = world.run("root", "qstat -f -F json", LIMIT) else {
            return;
        };
        let Ok(document) = serde_json::from_str::<serde_json::Value>(&done.out) else {
            return;
        };
        let jobs = document["Jobs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, job)| job);
        let patience = jobs
            .map(|job| patience(world, job))
            .max()
            .unwrap_or_default();
        if started.elapsed() >= patience {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Maximum wait for a job's next state; zero if it has settled.
fn patience(world: &World, job: &serde_json::Value) -> Duration {
    match (job["job_state"].as_str(), job["session_id"].as_u64()) {
        (Some("R"), None) | (Some("E"), _) => IN_TRANSIT,
        (Some("R"), Some(session)) if !is_asleep(world, session) => UNSETTLED,
        (Some("Q"), _) if job["comment"].is_null() => UNSETTLED,
        _ => Duration::ZERO,
    }
}

/// True if a process sleeps according to `/proc/PID/stat`, or has ended.
fn is_asleep(world: &World, process: u64) -> bool {
    let status = world.run("root", &format!("cat /proc/{process}/stat"), LIMIT);
    let state = status.and_then(|done| Some(done.out.rsplit_once(") ")?.1.chars().next()));
    !matches!(state, Some(Some('R' | 'D')))
}

/// Writes the differences of a file to the directory `LANAI_TRANSCRIPTS`, if set.
pub fn write_differences(file: u8, outcomes: &[Outcome]) {
    let Some(folder) = std::env::var_os("LANAI_TRANSCRIPTS") else {
        return;
    };
    fs::create_dir_all(&folder).unwrap();
    let text: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.difference.as_str())
        .collect();
    fs::write(
        std::path::Path::new(&folder).join(format!("{file:02}.diff")),
        text.concat(),
    )
    .unwrap();
}
