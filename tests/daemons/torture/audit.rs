//! Checks of the state after a storm.

use super::crew::{Crew, ELEMENTS, open};
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
    complaints: BTreeMap<String, u32>,
    wrong: Vec<String>,
}

/// Checks the spool, the marks, the processes and the remaining files.
pub fn audit(crew: &Crew, killed: &[Kill]) -> Report {
    let mut wrong = Vec::new();
    let spool = open(&crew.spool()).expect("a spool");
    let whole: String = spool
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    require(&mut wrong, whole == "ok", || {
        format!("the spool is damaged: {whole}")
    });
    let records = records(&spool);
    let marks = marks(crew, &mut wrong);
    for id in crew.accepted.lock().unwrap().iter() {
        require(&mut wrong, records.contains_key(id), || {
            format!("job {id} was accepted and is lost")
        });
    }
    for (id, record) in &records {
        let mut wrongs = Vec::new();
        let empty = BTreeSet::new();
        if id.is_array() {
            right_array(*id, &records, &mut wrongs);
        } else {
            right_end(crew, *id, record, &mut wrongs);
            right_attempts(record, marks.get(id).unwrap_or(&empty), &mut wrongs);
        }
        wrong.extend(
            wrongs
                .into_iter()
                .map(|what| format!("job {id}: {what}\n    {:?}", record.events)),
        );
    }
    for id in marks.keys().filter(|id| !records.contains_key(id)) {
        wrong.push(format!("job {id} ran and is in no spool"));
    }
    nothing_lies_about(crew, &mut wrong);
    let complaints = crew.complaints.lock().unwrap().clone();
    for hung in complaints.keys().filter(|text| text.contains("HANGS")) {
        wrong.push(hung.clone());
    }
    let counts = counts(crew, &records, &marks);
    Report {
        killed: killed.to_vec(),
        counts,
        complaints,
        wrong,
    }
}

fn require(wrong: &mut Vec<String>, so: bool, what: impl FnOnce() -> String) {
    if !so {
        wrong.push(what());
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
fn marks(crew: &Crew, wrong: &mut Vec<String>) -> BTreeMap<JobId, BTreeSet<u32>> {
    let mut marks: BTreeMap<JobId, BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir(crew.marks()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        match name
            .split_once('.')
            .map(|(job, attempt)| (job.parse(), attempt.parse()))
        {
            Some((Ok(job), Ok(attempt))) => drop(marks.entry(job).or_default().insert(attempt)),
            _ => wrong.push(format!("an attempt ran twice: {name}")),
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
fn right_end(crew: &Crew, id: JobId, record: &JobRecord, wrong: &mut Vec<String>) {
    let code: i32 = record.name[1..].parse().unwrap();
    let Some(exit) = record
        .life
        .exit
        .filter(|_| record.life.state == JobState::Finished)
    else {
        return wrong.push(format!("state {:?}, not finished", record.life.state));
    };
    let asked = crew.deleted.lock().unwrap().get(&id).copied();
    let should = if exit.deleted { DELETED } else { code };
    require(wrong, exit.status == should, || {
        format!("exit status {}, not {should}", exit.status)
    });
    require(wrong, !exit.deleted || asked.is_some(), || {
        "deleted, which nobody wanted".into()
    });
    let was_late = ended_before_its_deletion(record);
    require(
        wrong,
        exit.deleted || was_late || asked != Some(true),
        || "not deleted, though qdel said so".into(),
    );
}

/// Checks that an array finishes with its subjobs, and that its exit status follows from theirs.
fn right_array(id: JobId, records: &BTreeMap<JobId, JobRecord>, wrong: &mut Vec<String>) {
    let indices: Indices = ELEMENTS.parse().unwrap();
    let elements: Vec<_> = indices
        .iter()
        .map(|index| records.get(&JobId::element(id.number, index)))
        .collect();
    let statuses: Vec<i32> = elements
        .iter()
        .flatten()
        .filter_map(|record| Some(record.life.exit?.status))
        .collect();
    require(wrong, statuses.len() == elements.len(), || {
        format!("only {} elements are over", statuses.len())
    });
    let should = match () {
        () if statuses.iter().all(|&status| status == DELETED) => DELETED,
        () => i32::from(statuses.iter().any(|&status| status != 0)),
    };
    let exit = records[&id].life.exit.map(|exit| exit.status);
    require(wrong, exit == Some(should), || {
        format!("the array's exit status is {exit:?}, not {should}")
    });
}

/// Checks the attempts of a job: consecutive numbers, one end each, a reason for each further
/// attempt, and a mark exactly for each script that began.
fn right_attempts(record: &JobRecord, marks: &BTreeSet<u32>, wrong: &mut Vec<String>) {
    let life = &record.life;
    let mut attempts: Vec<(bool, Option<&AttemptOutcome>)> = Vec::new();
    for event in &record.events {
        let last = attempts.len() as u32;
        match event {
            Event::Started { attempt, .. } if *attempt == last + 1 => attempts.push((false, None)),
            Event::Started { attempt, .. } => {
                wrong.push(format!("attempt {attempt} started after {last}"))
            }
            Event::RerunWanted { .. } | Event::DeleteWanted { .. } => {
                if let Some(open) = attempts.last_mut().filter(|attempt| attempt.1.is_none()) {
                    open.0 = true;
                }
            }
            Event::Ended { attempt, outcome } => match attempts.last_mut() {
                Some(open) if *attempt == last && open.1.is_none() => open.1 = Some(outcome),
                _ => wrong.push(format!("attempt {attempt} ended out of turn")),
            },
            Event::Vanished { attempt, why } => {
                wrong.push(format!("attempt {attempt} vanished: {why}"))
            }
            _ => {}
        }
    }
    let told = (attempts.len() as u32, life.attempt, life.run_count);
    require(wrong, told.0 == told.1 && told.1 == told.2, || {
        format!("attempts, last attempt, run count: {told:?}")
    });
    for (number, (unwanted, outcome)) in (1..).zip(&attempts) {
        let is_last = number == attempts.len();
        let marked = marks.contains(&(number as u32));
        right_attempt(number, *unwanted, *outcome, is_last, marked, wrong);
    }
    let odd: Vec<_> = marks
        .iter()
        .filter(|&&mark| mark as usize > attempts.len())
        .collect();
    require(wrong, odd.is_empty(), || {
        format!("marks of attempts never started: {odd:?}")
    });
}

fn right_attempt(
    number: usize,
    unwanted: bool,
    outcome: Option<&AttemptOutcome>,
    is_last: bool,
    marked: bool,
    wrong: &mut Vec<String>,
) {
    let Some(outcome) = outcome else {
        return wrong.push(format!("attempt {number} never ended"));
    };
    let never_began = matches!(outcome.how, How::Cancelled | How::NodeFault(_));
    match &outcome.how {
        How::Exited(_) => {
            require(wrong, marked, || {
                format!("attempt {number} ended by itself without a mark")
            });
            require(wrong, is_last || unwanted, || {
                format!("attempt {number} had ended well and was followed by another")
            });
        }
        // A script killed between fork and mark leaves no mark.
        How::Signaled(_) => require(wrong, unwanted, || {
            format!("attempt {number} was ended, which nobody wanted")
        }),
        How::Cancelled => require(wrong, unwanted, || {
            format!("attempt {number} was cancelled, which nobody wanted")
        }),
        How::NodeFault(_) => {}
        other => wrong.push(format!("attempt {number}: {other:?}")),
    }
    require(wrong, !(never_began && marked), || {
        format!("attempt {number} never began, but left a mark")
    });
}

fn nothing_lies_about(crew: &Crew, wrong: &mut Vec<String>) {
    let left = crew.attempts();
    require(wrong, left.is_empty(), || {
        format!("attempts never confirmed: {left:?}")
    });
    let stones = fs::read_dir(crew.sandbox.home().join("node/tombstones"))
        .unwrap()
        .count();
    require(wrong, stones == 0, || {
        format!("{stones} tombstones are left")
    });
    let work = format!("PBS_O_WORKDIR={}", crew.sandbox.work().display());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ
            .split(|&byte| byte == 0)
            .any(|variable| variable == work.as_bytes())
        {
            wrong.push(format!(
                "a job's process is left: {}",
                entry.path().display()
            ));
        }
    }
    let daemons = crew.sandbox.processes();
    // schedd, noded and the spawner, apart from processes that are just exiting.
    require(wrong, daemons.len() == 3, || {
        format!("processes are left or missing: {daemons:?}")
    });
    let ours: Vec<i32> = daemons.iter().map(|(pid, _)| *pid).collect();
    let zombies = ours.iter().filter(|&&pid| has_zombies(pid)).count();
    require(wrong, zombies == 0, || {
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
    crew: &Crew,
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
        ("jobs accepted by qsub", crew.accepted.lock().unwrap().len()),
        ("jobs in the spool", records.len()),
        ("arrays", records.keys().filter(|id| id.is_array()).count()),
        (
            "attempts",
            records
                .values()
                .map(|record| record.life.attempt as usize)
                .sum(),
        ),
        ("starts marked", marks.values().map(BTreeSet::len).sum()),
        (
            "ended by themselves",
            how(|how| matches!(how, How::Exited(_))),
        ),
        (
            "ended by a signal",
            how(|how| matches!(how, How::Signaled(_))),
        ),
        (
            "cancelled before they began",
            how(|how| matches!(how, How::Cancelled)),
        ),
        (
            "failed on the node",
            how(|how| matches!(how, How::NodeFault(_))),
        ),
        (
            "reruns agreed to",
            crew.rerun.lock().unwrap().values().sum::<u32>() as usize,
        ),
        ("jobs deleted", deleted),
    ]
}

impl Report {
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    fn recoveries(&self, victim: Victim) -> Vec<i64> {
        let of = self.killed.iter().filter(|kill| kill.victim == victim);
        let mut times: Vec<i64> = of.filter_map(|kill| kill.recovery).collect();
        times.sort_unstable();
        times
    }

    /// Asserts that jobs started soon after every kill.
    pub fn assert_quick(&self) {
        let slow: Vec<&Kill> = self
            .killed
            .iter()
            .filter(|kill| kill.recovery.is_some_and(|t| t > RECOVERY))
            .collect();
        assert!(
            slow.is_empty(),
            "back at work only after more than {RECOVERY} ms: {slow:?}"
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut table = String::new();
        writeln!(
            table,
            "{:>28} {:>6} {:>24}",
            "", "kills", "back at work, ms"
        )?;
        writeln!(
            table,
            "{:>28} {:>6} {:>8} {:>7} {:>7}",
            "", "", "measured", "median", "most"
        )?;
        for victim in [Victim::Schedd, Victim::Noded, Victim::Spawner] {
            let kills = self
                .killed
                .iter()
                .filter(|kill| kill.victim == victim)
                .count();
            let times = self.recoveries(victim);
            let (median, most) = (
                times.get(times.len() / 2).unwrap_or(&0),
                times.last().unwrap_or(&0),
            );
            writeln!(
                table,
                "{victim:>28} {kills:>6} {:>8} {median:>7} {most:>7}",
                times.len()
            )?;
        }
        for (what, count) in &self.counts {
            writeln!(table, "{what:>28} {count:>6}")?;
        }
        for (text, count) in &self.complaints {
            writeln!(table, "{count:>6} times {text}")?;
        }
        f.write_str(&table)
    }
}
