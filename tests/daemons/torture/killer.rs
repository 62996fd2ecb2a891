//! Kills daemons in random order and at random times.

use super::crew::{Crew, open, sleep};
use super::dice::Dice;
use crate::support::sandbox::kill;
use lanai::model::job_id::JobId;
use rusqlite::Row;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of kills of each daemon.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    pub schedd: usize,
    pub noded: usize,
    pub spawner: usize,
}

impl Kills {
    /// Numbers from `TORTURE_KILLS` if it is set.
    pub fn or_as_asked(self) -> Kills {
        let Ok(asked) = std::env::var("TORTURE_KILLS") else {
            return self;
        };
        let numbers: Vec<usize> = asked
            .split(',')
            .map(|number| number.parse().unwrap())
            .collect();
        Kills {
            schedd: numbers[0],
            noded: numbers[1],
            spawner: numbers[2],
        }
    }

    fn in_any_order(self, dice: &mut Dice) -> Vec<Victim> {
        let each = [
            (Victim::Schedd, self.schedd),
            (Victim::Noded, self.noded),
            (Victim::Spawner, self.spawner),
        ];
        let mut all: Vec<Victim> = each
            .into_iter()
            .flat_map(|(victim, count)| vec![victim; count])
            .collect();
        for last in (1..all.len()).rev() {
            all.swap(last, dice.below(last as u64 + 1) as usize);
        }
        all
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    Schedd,
    Noded,
    Spawner,
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Victim::Schedd => "schedd",
            Victim::Noded => "noded",
            Victim::Spawner => "spawner",
        })
    }
}

/// One kill.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    pub victim: Victim,
    /// Milliseconds from the kill to the first mark of a job that schedd started afterwards. None
    /// if another kill came first.
    pub recovery: Option<i64>,
}

/// Longest time without a start before the storm fails.
const STALL: Duration = Duration::from_secs(30);

/// Performs all kills. Most come some time after jobs have started again, one in five during the
/// recovery.
pub fn kill_all(crew: &Crew, kills: Kills, dice: &mut Dice) -> Vec<Kill> {
    let mut killed: Vec<Kill> = Vec::new();
    for victim in kills.in_any_order(dice) {
        if !await_work(crew, "20 running jobs", || crew.is_busy()) {
            break;
        }
        sleep(dice.below(400));
        let Some(at) = strike(crew, victim) else {
            break;
        };
        let into_recovery = dice.below(5) == 0;
        let recovery = if into_recovery {
            None
        } else {
            await_recovery(crew, at)
        };
        if into_recovery {
            sleep(dice.below(150));
        }
        killed.push(Kill { victim, recovery });
    }
    killed
}

fn await_work(crew: &Crew, what: &str, mut so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !so() {
        if start.elapsed() > STALL {
            println!(
                "stalled: no {what} after {STALL:?}\n{}",
                crew.sandbox.run("schedd", &["--status"]).out
            );
            return false;
        }
        sleep(5);
    }
    true
}

/// Kills the daemon at a time when enough jobs run. Returns the time of the kill.
fn strike(crew: &Crew, victim: Victim) -> Option<i64> {
    let mut at = 0;
    let struck = await_work(crew, &format!("{victim} to kill among enough jobs"), || {
        let Some(pid) = process(crew, victim).filter(|_| crew.is_busy()) else {
            return false;
        };
        at = now();
        kill(pid, 9);
        true
    });
    struck.then_some(at)
}

fn process(crew: &Crew, victim: Victim) -> Option<i32> {
    let home = crew.sandbox.home();
    let noded = || {
        fs::read_to_string(home.join("node/lock"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let pid = match victim {
        Victim::Schedd => {
            lanai::sys::record::read(&installation(crew)).map(|record| record.pid as i32)
        }
        Victim::Noded => noded(),
        Victim::Spawner => noded().and_then(spawner_of),
    }?;
    // The pid in the record of a dead daemon may belong to another process by now.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let named = match victim {
        Victim::Spawner => "lanai-spawner".to_string(),
        other => other.to_string(),
    };
    (name.trim() == named).then_some(pid)
}

fn spawner_of(noded: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{noded}/task/{noded}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn installation(crew: &Crew) -> lanai::sys::home::Home {
    let home = crew.sandbox.home();
    lanai::sys::home::Home {
        config: home.join("lanai.toml"),
        runtime: home.clone(),
        state: home,
        system: false,
    }
}

/// Waits for the mark of a job that schedd has started since the kill. Returns the delay.
fn await_recovery(crew: &Crew, at: i64) -> Option<i64> {
    let spool = open(&crew.spool())?;
    let mut marked = None;
    await_work(crew, "start after a kill", || {
        let sql = "SELECT job, idx, json_extract(event, '$.Started.attempt') FROM event
            WHERE at > ?1 AND json_extract(event, '$.Started.attempt') IS NOT NULL";
        let started = spool.prepare_cached(sql).and_then(|mut statement| {
            let of = |number, index| {
                u32::try_from(index).map_or(JobId::job(number), |i| JobId::element(number, i))
            };
            let one = |row: &Row| {
                Ok((
                    of(row.get(0)?, row.get::<_, i64>(1)?),
                    row.get::<_, i64>(2)?,
                ))
            };
            let rows = statement.query_map([at], one)?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        let mark = |(job, attempt)| made(&crew.marks().join(format!("{job}.{attempt}")));
        marked = started
            .unwrap_or_default()
            .into_iter()
            .filter_map(mark)
            .min();
        marked.is_some()
    });
    Some(marked? - at)
}

fn made(path: &std::path::Path) -> Option<i64> {
    let made = fs::metadata(path).ok()?.modified().ok()?;
    Some(made.duration_since(UNIX_EPOCH).ok()?.as_millis() as i64)
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64
}
