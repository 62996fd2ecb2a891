//! One recording played against our own programs, block by block.

use super::placeholders::Bindings;
use super::tables::{Direction, Place};
use super::verdict::{Verdict, difference, expected, verdict};
use super::world::{PBSHOME, World};
use crate::support::blocks::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// The number of the first job, so that ids are as wide as those recorded.
const FIRST: u32 = 1001;

const CONFIG: &str = "[server]\nname = \"head\"\nworkdir = \"home\"\nmanagers = [\"root\"]\nmax_array_size = 10000\n\
    mailer = \"/tmp/recorded-in/mailer\"\nmail_from = \"adm\"\nrefuse_impossible = false\n\
    [order]\nuser_priority = \"free\"\n[cycle]\npoll_interval = \"1s\"\n";

/// How long a command may take, and one that the recorder gave up on.
const LIMIT: Duration = Duration::from_secs(20);
const GIVEN_UP: Duration = Duration::from_millis(1500);

/// How long a question is asked again, until its answer is the one recorded, and what comes too
/// early for a job's state is tried again.
const PATIENCE: Duration = Duration::from_secs(8);

/// What a block came to.
pub struct Outcome {
    pub place: Place,
    pub verdict: Verdict,
    /// The command, what was expected and what came; empty if they are the same.
    pub difference: String,
}

/// Plays one file. Where a block is known to differ there is no waiting for it to be the same.
pub struct Player<'a> {
    pub file: u8,
    pub directions: &'a BTreeMap<Place, Vec<Direction>>,
    pub known: &'a BTreeSet<Place>,
}

impl Player<'_> {
    /// What became of each block.
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
                Direction::Run { who, command } => {
                    drop(world.run(who, &self.filled(command, bindings), LIMIT))
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

    /// A command with what it stands for, names as they are here, and the numbers of jobs.
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
        let who = if block.who.is_empty() {
            "alice"
        } else {
            &block.who
        };
        let (asks, is_known) = (is_question(&command), self.known.contains(&place));
        if is_known || (!asks && !command.contains("qsub")) {
            settle(world);
        }
        let patience = if is_known || !asks {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let started = Instant::now();
        loop {
            let done = world.run(
                who,
                &command,
                if block.code.is_none() {
                    GIVEN_UP
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

/// Starts the daemons.
fn begin(world: &World) {
    let spool = world.outside(&format!("{PBSHOME}/spool"));
    world.ok("root", "schedd && schedd --stop");
    let file = rusqlite::Connection::open(spool.join("spool.db")).unwrap();
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('next', ?1)";
    file.execute(sql, [FIRST.to_string()]).unwrap();
    drop(file);
    world.ok("root", "schedd && noded --name head --ncpus 4 --mem 8gb");
    let started = Instant::now();
    while !world
        .ok("root", "pbsnodes -a || true")
        .contains("state = free")
    {
        assert!(started.elapsed() < LIMIT, "the node comes up");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a command only asks, so that it may be asked again.
fn is_question(command: &str) -> bool {
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

/// How long a job may be starting or ending, on a loaded machine.
const IN_TRANSIT: Duration = Duration::from_secs(20);

/// How long a job may have no comment, or compute without a pause. Some jobs of the recordings do
/// either for ever.
const RESTLESS: Duration = Duration::from_secs(5);

/// Waits until every job has been considered, has ended, or runs and waits for something: a signal
/// that comes before the script has set its trap has another effect.
fn settle(world: &World) {
    let started = Instant::now();
    loop {
        let Some(done) = world.run("root", "qstat -f -F json", LIMIT) else {
            return;
        };
        let Ok(said) = serde_json::from_str::<serde_json::Value>(&done.out) else {
            return;
        };
        let jobs = said["Jobs"]
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

/// How long to wait for a job's next state; zero if it has settled.
fn patience(world: &World, job: &serde_json::Value) -> Duration {
    match (job["job_state"].as_str(), job["session_id"].as_u64()) {
        (Some("R"), None) | (Some("E"), _) => IN_TRANSIT,
        (Some("R"), Some(session)) if !is_asleep(world, session) => RESTLESS,
        (Some("Q"), _) if job["comment"].is_null() => RESTLESS,
        _ => Duration::ZERO,
    }
}

/// Whether a process waits for something, as shown in `/proc/PID/stat`. A process that has ended
/// does not hold up the commands either.
fn is_asleep(world: &World, process: u64) -> bool {
    let status = world.run("root", &format!("cat /proc/{process}/stat"), LIMIT);
    let state = status.and_then(|done| Some(done.out.rsplit_once(") ")?.1.chars().next()));
    !matches!(state, Some(Some('R' | 'D')))
}

/// Writes the differences of a file where somebody wants them: into the folder `LANAI_TRANSCRIPTS`.
pub fn write_down(file: u8, outcomes: &[Outcome]) {
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
