//! Kills daemons in random order and at random times.

use super::clients::{Clients, open, sleep};
use super::rng::Rng;
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
    pub fn or_from_environment(self) -> Kills {
        let Ok(value) = std::env::var("TORTURE_KILLS") else {
            return self;
        };
        let numbers: Vec<usize> = value
            .split(',')
            .map(|number| number.parse().unwrap())
            .collect();
        Kills {
            schedd: numbers[0],
            noded: numbers[1],
            spawner: numbers[2],
        }
    }

    fn shuffled(self, rng: &mut Rng) -> Vec<Victim> {
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
            all.swap(last, rng.below(last as u64 + 1) as usize);
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
    /// if the next kill came first or no such mark appeared.
    pub recovery: Option<i64>,
}

/// Maximum wait for a condition. After it, no more daemons are killed.
const STALL: Duration = Duration::from_secs(30);

/// Performs all kills. Most come some time after jobs have started again, one in five during the
/// recovery.
pub fn kill_all(clients: &Clients, kills: Kills, rng: &mut Rng) -> Vec<Kill> {
    let mut killed: Vec<Kill> = Vec::new();
    for victim in kills.shuffled(rng) {
        if !wait_until(clients, "20 running jobs", || clients.is_busy()) {
            break;
        }
        sleep(rng.below(400));
        let Some(at) = kill_victim(clients, victim) else {
            break;
        };
        let into_recovery = rng.below(5) == 0;
        let recovery = if into_recovery {
            None
        } else {
            await_recovery(clients, at)
        };
        if into_recovery {
            sleep(rng.below(150));
        }
        killed.push(Kill { victim, recovery });
    }
    killed
}

fn wait_until(clients: &Clients, what: &str, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > STALL {
            println!(
                "stalled: no {what} after {STALL:?}\n{}",
                clients.sandbox.run("schedd", &["--status"]).out
            );
            return false;
        }
        sleep(5);
    }
    true
}

/// Kills the daemon at a time when enough jobs run. Returns the time of the kill.
fn kill_victim(clients: &Clients, victim: Victim) -> Option<i64> {
    let mut at = 0;
    let was_killed = wait_until(
        clients,
        &format!("{victim} process while enough jobs run"),
        || {
            let Some(pid) = process(clients, victim).filter(|_| clients.is_busy()) else {
                return false;
            };
            at = now();
            kill(pid, 9);
            true
        },
    );
    was_killed.then_some(at)
}

fn process(clients: &Clients, victim: Victim) -> Option<i32> {
    let home = clients.sandbox.home();
    let noded = || {
        fs::read_to_string(home.join("node/lock"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let pid = match victim {
        Victim::Schedd => {
            lanai::sys::record::read(&installation(clients)).map(|record| record.pid as i32)
        }
        Victim::Noded => noded(),
        Victim::Spawner => noded().and_then(spawner_of),
    }?;
    // The pid in the record of a dead daemon may belong to another process by now.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let expected = match victim {
        Victim::Spawner => "lanai-spawner".to_string(),
        other => other.to_string(),
    };
    (name.trim() == expected).then_some(pid)
}

fn spawner_of(noded: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{noded}/task/{noded}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn installation(clients: &Clients) -> lanai::sys::home::Home {
    let home = clients.sandbox.home();
    lanai::sys::home::Home {
        config: home.join("lanai.toml"),
        runtime: home.clone(),
        state: home,
        system: false,
    }
}

/// Waits for the mark of a job that schedd has started since the kill. Returns the delay.
fn await_recovery(clients: &Clients, at: i64) -> Option<i64> {
    let spool = open(&clients.spool())?;
    let mut marked = None;
    wait_until(clients, "start after a kill", || {
        let sql = "SELECT job, idx, json_extract(event, '$.Started.attempt') FROM event
            WHERE at > ?1 AND json_extract(event, '$.Started.attempt') IS NOT NULL";
        let started = spool.prepare_cached(sql).and_then(|mut statement| {
            let job_id = |number, index| {
                u32::try_from(index).map_or(JobId::job(number), |i| JobId::element(number, i))
            };
            let start = |row: &Row| {
                Ok((
                    job_id(row.get(0)?, row.get::<_, i64>(1)?),
                    row.get::<_, i64>(2)?,
                ))
            };
            let rows = statement.query_map([at], start)?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        let mark = |(job, attempt)| modified_at(&clients.marks().join(format!("{job}.{attempt}")));
        marked = started
            .unwrap_or_default()
            .into_iter()
            .filter_map(mark)
            .min();
        marked.is_some()
    });
    Some(marked? - at)
}

fn modified_at(path: &std::path::Path) -> Option<i64> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    Some(modified.duration_since(UNIX_EPOCH).ok()?.as_millis() as i64)
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64
}
