//! Checks of the state after a torture run.

use super::clients::{Clients, INDICES, open};
use super::killer::{Kill, Victim};
use lanai::model::job::array::Indices;
use lanai::model::job::attempt::DELETED;
use lanai::model::job::event::Event;
use lanai::model::job::state::JobState;
use lanai::model::job::{AttemptOutcome, How, Life};
use lanai::model::job_id::JobId;
use rusqlite::{Connection, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::fs;

/// Maximum time until a job starts after a kill, in milliseconds.
const RECOVERY: i64 = 1000;

/// A job as recorded in the spool.
struct JobRecord {
    name: String,
    life: Life,
    events: Vec<Event>,
}

/// Result of an audit.
pub struct Report {
    killed: Vec<Kill>,
    counts: Vec<(&'static str, usize)>,
    command_errors: BTreeMap<String, u32>,
    errors: Vec<String>,
}

/// Checks the spool, the marks, the processes and the remaining files.
pub fn audit(clients: &Clients, killed: &[Kill]) -> Report {
    let mut errors = Vec::new();
    let spool = open(&clients.spool()).expect("cannot open the spool");
    let integrity: String = spool
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    require(&mut errors, integrity == "ok", || {
        format!("the spool is damaged: {integrity}")
    });
    let records = records(&spool);
    let marks = marks(clients, &mut errors);
    for id in clients.accepted.lock().unwrap().iter() {
        require(&mut errors, records.contains_key(id), || {
            format!("job {id} was accepted but is not in the spool")
        });
    }
    for (id, record) in &records {
        let mut job_errors = Vec::new();
        let empty = BTreeSet::new();
        if id.is_array() {
            check_array(*id, &records, &mut job_errors);
        } else {
            check_end(clients, *id, record, &mut job_errors);
            check_attempts(record, marks.get(id).unwrap_or(&empty), &mut job_errors);
        }
        errors.extend(
            job_errors
                .into_iter()
                .map(|error| format!("job {id}: {error}\n    {:?}", record.events)),
        );
    }
    for id in marks.keys().filter(|id| !records.contains_key(id)) {
        errors.push(format!("job {id} ran but is not in the spool"));
    }
    check_cleanup(clients, &mut errors);
    let command_errors = clients.command_errors.lock().unwrap().clone();
    for hung in command_errors
        .keys()
        .filter(|text| text.contains("TIMEOUT"))
    {
        errors.push(hung.clone());
    }
    let counts = counts(clients, &records, &marks);
    Report {
        killed: killed.to_vec(),
        counts,
        command_errors,
        errors,
    }
}

fn require(errors: &mut Vec<String>, condition: bool, message: impl FnOnce() -> String) {
    if !condition {
        errors.push(message());
    }
}

fn records(spool: &Connection) -> BTreeMap<JobId, JobRecord> {
    let mut events: BTreeMap<JobId, Vec<Event>> = BTreeMap::new();
    let mut statement = spool
        .prepare("SELECT event.job, idx, is_array, event FROM event JOIN job ON job.id = event.job ORDER BY seq")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let event = serde_json::from_str(&row.get::<_, String>(3).unwrap()).unwrap();
        events.entry(id_of(row)).or_default().push(event);
    }
    let mut records = BTreeMap::new();
    let mut statement = spool
        .prepare(
            "SELECT id, -1, is_array, name, json_extract(life, '$[1]') FROM job
        UNION ALL SELECT job.id, idx, 0, name, element.life FROM element JOIN job ON job.id = element.job",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let life: Life = serde_json::from_str(&row.get::<_, String>(4).unwrap()).unwrap();
        let events = events.remove(&id_of(row)).unwrap_or_default();
        records.insert(
            id_of(row),
            JobRecord {
                name: row.get(3).unwrap(),
                life,
                events,
            },
        );
    }
    records
}

/// Job id from the columns number, index and is-array.
fn id_of(row: &Row) -> JobId {
    let (number, index, is_array): (u64, i64, bool) = (
        row.get(0).unwrap(),
        row.get(1).unwrap(),
        row.get(2).unwrap(),
    );
    match u32::try_from(index) {
        Ok(index) => JobId::element(number, index),
        Err(_) if is_array => JobId::array(number),
        Err(_) => JobId::job(number),
    }
}

/// Attempts of each job that have marked their start.
fn marks(clients: &Clients, errors: &mut Vec<String>) -> BTreeMap<JobId, BTreeSet<u32>> {
    let mut marks: BTreeMap<JobId, BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir(clients.marks()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        match name
            .split_once('.')
            .map(|(job, attempt)| (job.parse(), attempt.parse()))
        {
            Some((Ok(job), Ok(attempt))) => drop(marks.entry(job).or_default().insert(attempt)),
            _ => errors.push(format!("an attempt ran twice: {name}")),
        }
    }
    marks
}

/// True if the script had ended by itself when the delete order arrived: such a job keeps its exit
/// status.
fn ended_before_its_deletion(record: &JobRecord) -> bool {
    let mut ends = record.events.iter().rev().filter_map(|event| match event {
        Event::Ended { outcome, .. } => Some(outcome.on_its_own),
        _ => None,
    });
    ends.next() == Some(true)
}

/// Checks that a job is finished with the exit status of its script, or as deleted if a `qdel` was
/// issued.
fn check_end(clients: &Clients, id: JobId, record: &JobRecord, errors: &mut Vec<String>) {
    let code: i32 = record.name[1..].parse().unwrap();
    let Some(exit) = record
        .life
        .exit
        .filter(|_| record.life.state == JobState::Finished)
    else {
        return errors.push(format!("state {:?}, not finished", record.life.state));
    };
    let requested = clients.deleted.lock().unwrap().get(&id).copied();
    let expected = if exit.deleted { DELETED } else { code };
    require(errors, exit.status == expected, || {
        format!("exit status {}, expected {expected}", exit.status)
    });
    require(errors, !exit.deleted || requested.is_some(), || {
        "deleted without a qdel".into()
    });
    let ended_first = ended_before_its_deletion(record);
    require(
        errors,
        exit.deleted || ended_first || requested != Some(true),
        || "not deleted although qdel succeeded".into(),
    );
}

/// Checks that an array finishes with its subjobs, and that its exit status follows from theirs.
fn check_array(id: JobId, records: &BTreeMap<JobId, JobRecord>, errors: &mut Vec<String>) {
    let indices: Indices = INDICES.parse().unwrap();
    let elements: Vec<_> = indices
        .iter()
        .map(|index| records.get(&JobId::element(id.number, index)))
        .collect();
    let statuses: Vec<i32> = elements
        .iter()
        .flatten()
        .filter_map(|record| Some(record.life.exit?.status))
        .collect();
    require(errors, statuses.len() == elements.len(), || {
        format!("only {} subjobs have finished", statuses.len())
    });
    let expected = match () {
        () if statuses.iter().all(|&status| status == DELETED) => DELETED,
        () => i32::from(statuses.iter().any(|&status| status != 0)),
    };
    let exit = records[&id].life.exit.map(|exit| exit.status);
    require(errors, exit == Some(expected), || {
        format!("the array's exit status is {exit:?}, expected {expected}")
    });
}

/// Checks the attempts of a job: consecutive numbers, one end each, a reason for each further
/// attempt, and a mark for each script that started and for no other.
fn check_attempts(record: &JobRecord, marks: &BTreeSet<u32>, errors: &mut Vec<String>) {
    let life = &record.life;
    let mut attempts: Vec<(bool, Option<&AttemptOutcome>)> = Vec::new();
    for event in &record.events {
        let last = attempts.len() as u32;
        match event {
            Event::Started { attempt, .. } if *attempt == last + 1 => attempts.push((false, None)),
            Event::Started { attempt, .. } => {
                errors.push(format!("attempt {attempt} started after attempt {last}"))
            }
            Event::RerunWanted { .. } | Event::DeleteWanted { .. } => {
                if let Some(open) = attempts.last_mut().filter(|attempt| attempt.1.is_none()) {
                    open.0 = true;
                }
            }
            Event::Ended { attempt, outcome } => match attempts.last_mut() {
                Some(open) if *attempt == last && open.1.is_none() => open.1 = Some(outcome),
                _ => errors.push(format!(
                    "attempt {attempt} ended, but was not the running attempt"
                )),
            },
            Event::Vanished { attempt, why } => {
                errors.push(format!("attempt {attempt} vanished: {why}"))
            }
            _ => {}
        }
    }
    let counts = (attempts.len() as u32, life.attempt, life.run_count);
    require(errors, counts.0 == counts.1 && counts.1 == counts.2, || {
        format!("unequal counts (attempts, last attempt, run count): {counts:?}")
    });
    for (number, (end_requested, outcome)) in (1..).zip(&attempts) {
        let is_last = number == attempts.len();
        let marked = marks.contains(&(number as u32));
        check_attempt(number, *end_requested, *outcome, is_last, marked, errors);
    }
    let unexpected: Vec<_> = marks
        .iter()
        .filter(|&&mark| mark as usize > attempts.len())
        .collect();
    require(errors, unexpected.is_empty(), || {
        format!("marks of attempts that were never started: {unexpected:?}")
    });
}

/// Checks the end of an attempt. `end_requested` is true if a `qdel` or `qrerun` was accepted while
/// it ran.
fn check_attempt(
    number: usize,
    end_requested: bool,
    outcome: Option<&AttemptOutcome>,
    is_last: bool,
    marked: bool,
    errors: &mut Vec<String>,
) {
    let Some(outcome) = outcome else {
        return errors.push(format!("attempt {number} never ended"));
    };
    let never_started = matches!(outcome.how, How::Cancelled | How::NodeFault(_));
    match &outcome.how {
        How::Exited(_) => {
            require(errors, marked, || {
                format!("attempt {number} ended by itself without a mark")
            });
            require(errors, is_last || end_requested, || {
                format!("attempt {number} ended by itself but was followed by another")
            });
        }
        // A script killed between fork and mark leaves no mark.
        How::Signaled(_) => require(errors, end_requested, || {
            format!("attempt {number} was killed without a request")
        }),
        How::Cancelled => require(errors, end_requested, || {
            format!("attempt {number} was canceled without a request")
        }),
        How::NodeFault(_) => {}
        other => errors.push(format!("attempt {number}: {other:?}")),
    }
    require(errors, !(never_started && marked), || {
        format!("attempt {number} never started but left a mark")
    });
}

/// Checks that no attempts, tombstones, processes of jobs or zombies remain.
fn check_cleanup(clients: &Clients, errors: &mut Vec<String>) {
    let left = clients.attempts();
    require(errors, left.is_empty(), || {
        format!("attempts with unconfirmed ends: {left:?}")
    });
    let tombstones = fs::read_dir(clients.sandbox.home().join("node/tombstones"))
        .unwrap()
        .count();
    require(errors, tombstones == 0, || {
        format!("{tombstones} tombstones remain")
    });
    let work = format!("PBS_O_WORKDIR={}", clients.sandbox.work().display());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ
            .split(|&byte| byte == 0)
            .any(|variable| variable == work.as_bytes())
        {
            errors.push(format!(
                "a process of a job remains: {}",
                entry.path().display()
            ));
        }
    }
    let daemons = clients.sandbox.processes();
    // schedd, noded and the spawner, apart from processes that are just exiting.
    require(errors, daemons.len() == 3, || {
        format!("expected schedd, noded and a spawner, found {daemons:?}")
    });
    let pids: Vec<i32> = daemons.iter().map(|(pid, _)| *pid).collect();
    let zombies = pids.iter().filter(|&&pid| has_zombies(pid)).count();
    require(errors, zombies == 0, || {
        "a daemon does not reap its children".into()
    });
}

fn has_zombies(pid: i32) -> bool {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let state = |child: &str| fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    children
        .split_whitespace()
        .any(|child| state(child).contains(") Z "))
}

fn counts(
    clients: &Clients,
    records: &BTreeMap<JobId, JobRecord>,
    marks: &BTreeMap<JobId, BTreeSet<u32>>,
) -> Vec<(&'static str, usize)> {
    let how = |matches: fn(&How) -> bool| {
        let ends = records.values().flat_map(|record| &record.events);
        ends.filter(|event| matches!(event, Event::Ended { outcome, .. } if matches(&outcome.how)))
            .count()
    };
    let deleted = records
        .values()
        .filter(|record| record.life.exit.is_some_and(|exit| exit.deleted))
        .count();
    vec![
        (
            "jobs accepted by qsub",
            clients.accepted.lock().unwrap().len(),
        ),
        ("jobs in the spool", records.len()),
        ("arrays", records.keys().filter(|id| id.is_array()).count()),
        (
            "attempts",
            records
                .values()
                .map(|record| record.life.attempt as usize)
                .sum(),
        ),
        ("start marks", marks.values().map(BTreeSet::len).sum()),
        (
            "ended by themselves",
            how(|how| matches!(how, How::Exited(_))),
        ),
        (
            "ended by a signal",
            how(|how| matches!(how, How::Signaled(_))),
        ),
        (
            "canceled before the start",
            how(|how| matches!(how, How::Cancelled)),
        ),
        (
            "failed on the node",
            how(|how| matches!(how, How::NodeFault(_))),
        ),
        (
            "successful qrerun commands",
            clients.rerun.lock().unwrap().values().sum::<u32>() as usize,
        ),
        ("jobs deleted", deleted),
    ]
}

impl Report {
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    fn recoveries(&self, victim: Victim) -> Vec<i64> {
        let kills = self.killed.iter().filter(|kill| kill.victim == victim);
        let mut times: Vec<i64> = kills.filter_map(|kill| kill.recovery).collect();
        times.sort_unstable();
        times
    }

    /// Asserts that jobs started soon after every kill.
    pub fn assert_quick_recovery(&self) {
        let slow: Vec<&Kill> = self
            .killed
            .iter()
            .filter(|kill| kill.recovery.is_some_and(|t| t > RECOVERY))
            .collect();
        assert!(
            slow.is_empty(),
            "recovery took longer than {RECOVERY} ms: {slow:?}"
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut table = String::new();
        writeln!(table, "{:>28} {:>6} {:>24}", "", "kills", "recovery, ms")?;
        writeln!(
            table,
            "{:>28} {:>6} {:>8} {:>7} {:>7}",
            "", "", "measured", "median", "max"
        )?;
        for victim in [Victim::Schedd, Victim::Noded, Victim::Spawner] {
            let kills = self
                .killed
                .iter()
                .filter(|kill| kill.victim == victim)
                .count();
            let times = self.recoveries(victim);
            let (median, max) = (
                times.get(times.len() / 2).unwrap_or(&0),
                times.last().unwrap_or(&0),
            );
            writeln!(
                table,
                "{victim:>28} {kills:>6} {:>8} {median:>7} {max:>7}",
                times.len()
            )?;
        }
        for (label, count) in &self.counts {
            writeln!(table, "{label:>28} {count:>6}")?;
        }
        for (text, count) in &self.command_errors {
            writeln!(table, "{count:>6} times {text}")?;
        }
        f.write_str(&table)
    }
}
