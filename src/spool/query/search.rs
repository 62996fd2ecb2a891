//! Searches for jobs by id or by filter.

use super::super::commit::NEVER_RUN;
use super::super::load::{self, Specs, job_of};
use super::super::{SpoolError, dependencies};
use super::elements::{expire, length, longest_id, longest_of, waiting_again};
use super::{Each, PART, PART_BYTES, Viewer, state_of};
use crate::model::job::array::Indices;
use crate::model::job::promise::PromisedStart;
use crate::model::job::state::JobState;
use crate::model::job::{Digest, Job, JobProgram, Owner};
use crate::model::job_id::JobId;
use crate::model::reason::{self, Reason};
use crate::model::text::Text;
use crate::model::time::{Span, Time};
use crate::wire::message::{Arrays, ClientAnswer, Detail, Filter, History, JobRecord, JobRow};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Converts a filter to an SQL condition on the columns of `job`, with a value for each `?`.
pub(super) fn condition(filter: &Filter) -> (String, Vec<String>) {
    let mut conditions = vec![match filter.history {
        History::Live => "state <> 'F'".to_string(),
        History::Finished => "state = 'F'".to_string(),
        History::All => "1".to_string(),
    }];
    if matches!(filter.arrays, Arrays::Only | Arrays::ElementsOnly) {
        conditions.push("is_array".to_string());
    }
    if let Some(after) = filter.after {
        // If `after` is a subjob, the row of its array is needed for the next subjobs. So the
        // condition includes the number of `after`, and the caller must skip jobs up to `after`.
        conditions.push(format!(
            "id >= {}",
            i64::try_from(after.number).unwrap_or(i64::MAX)
        ));
    }
    let mut columns = vec![
        ("queue", filter.queues.clone()),
        ("owner", filter.owners.clone()),
    ];
    if !filter.arrays.shows_elements() {
        let letters = filter.states.iter().map(|state| state.letter().to_string());
        columns.push(("state", letters.collect()));
    }
    let mut values = Vec::new();
    for (column, wanted) in columns {
        if !wanted.is_empty() {
            let marks = vec!["?"; wanted.len()].join(",");
            conditions.push(format!("{column} IN ({marks})"));
            values.extend(wanted);
        }
    }
    (conditions.join(" AND "), values)
}

/// The jobs that a viewer may see.
#[derive(Clone, Debug)]
pub(super) struct Visible {
    /// True if finished jobs are visible.
    pub(super) history: bool,
    /// Owner of the visible jobs; None if the jobs of all users are visible.
    pub(super) only: Option<Owner>,
}

impl Visible {
    fn includes(&self, job: &Job) -> bool {
        (self.history || job.life.state != JobState::Finished)
            && self
                .only
                .as_ref()
                .is_none_or(|owner| owner.is_same_account(&job.owner))
    }

    /// The SQL condition for visible jobs, on the columns of `job`.
    fn sql(&self) -> String {
        let of_history = if self.history { "1" } else { "state <> 'F'" };
        self.only.as_ref().map_or_else(
            || of_history.to_string(),
            |owner| format!("{of_history} AND uid = {}", owner.uid),
        )
    }
}

/// A search for jobs: the detail, the viewer, and the part of the answer that is being filled.
pub(super) struct SpoolSearch<'a> {
    pub(super) connection: &'a Connection,
    detail: Detail,
    viewer: Viewer,
    visible: Visible,
    waits: Waits,
    rows: Vec<JobRow>,
    records: Vec<JobRecord>,
    /// Approximate size of `records` in an answer, in bytes.
    bytes: usize,
    /// The environment that was read last; jobs often have the same environment.
    environ: Option<(Digest, Option<Vec<u8>>)>,
    /// The array that was read last; consecutive subjobs often belong to the same array.
    array: Option<Rc<Job>>,
}

impl SpoolSearch<'_> {
    pub(super) fn new(
        connection: &Connection,
        detail: Detail,
        viewer: Viewer,
        visible: Visible,
    ) -> Result<SpoolSearch<'_>, SpoolError> {
        let has_dependencies = dependencies::exist(connection)?;
        let waits = Waits {
            promises: load::promises(connection)?,
            reasons: BTreeMap::new(),
            has_dependencies,
        };
        let (rows, records) = (Vec::new(), Vec::new());
        Ok(SpoolSearch {
            connection,
            detail,
            viewer,
            visible,
            waits,
            rows,
            records,
            bytes: 0,
            environ: None,
            array: None,
        })
    }

    /// Passes the visible jobs with these ids to `each`, in the order of `ids`.
    pub(super) fn by_id(mut self, ids: &[JobId], each: Each) -> Result<(), SpoolError> {
        let lengths = ids.iter().map(|id| {
            if id.is_array() {
                Ok(load::job(self.connection, *id)?.map_or(0, |array| longest_id(&array)))
            } else {
                Ok(length(*id))
            }
        });
        let longest = lengths
            .collect::<Result<Vec<u32>, SpoolError>>()?
            .into_iter()
            .max();
        each(ClientAnswer::Longest(longest.unwrap_or(0)))?;
        for id in ids {
            if let Some(job) = self.shown(*id)? {
                self.found(job, each)?;
            }
        }
        self.flush(each)
    }

    /// The job with this id; None if the job does not exist or is not visible.
    pub(super) fn shown(&mut self, id: JobId) -> Result<Option<Job>, SpoolError> {
        let job = match (self.array_of(id)?, id.index()) {
            (Some(array), Some(index)) => load::element_in(self.connection, &array, index)?,
            _ => load::job(self.connection, id)?,
        };
        Ok(job.filter(|job| self.visible.includes(job)))
    }

    /// The array of a subjob, from the cache if possible; None for other jobs, or if the array does
    /// not exist.
    fn array_of(&mut self, id: JobId) -> Result<Option<Rc<Job>>, SpoolError> {
        let Some(parent) = id.parent() else {
            return Ok(None);
        };
        if self.array.as_ref().is_none_or(|array| array.id != parent) {
            self.array = load::job(self.connection, parent)?.map(Rc::new);
        }
        Ok(self.array.clone())
    }

    /// Passes to `each` all visible jobs that match `filter`.
    pub(super) fn all(mut self, filter: &Filter, each: Each) -> Result<(), SpoolError> {
        let shows_elements = filter.arrays.shows_elements();
        if shows_elements {
            each(ClientAnswer::Longest(longest_of(self.connection, filter)?))?;
        }
        if matches!(self.detail, Detail::Row) && !shows_elements {
            self.plain_rows(filter, each)?;
        } else {
            self.jobs(filter, each)?;
        }
        self.flush(each)
    }

    /// Adds the rows of a plain list of jobs, without parsing JSON columns.
    fn plain_rows(&mut self, filter: &Filter, each: Each) -> Result<(), SpoolError> {
        let (condition, values) = condition(filter);
        let shown = self.visible.sql();
        let sql = format!(
            "SELECT id, name, owner, cput, state, queue, is_array FROM job WHERE {condition} AND {shown} ORDER BY id"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&values))?;
        while let Some(row) = found.next()? {
            let (number, cput) = (row.get(0)?, row.get::<_, i64>(3)?);
            let id = if row.get(6)? {
                JobId::array(number)
            } else {
                JobId::job(number)
            };
            if !filter.reaches(id) {
                continue;
            }
            self.rows.push(JobRow {
                id,
                name: row.get(1)?,
                owner: row.get(2)?,
                cput: (cput != NEVER_RUN).then_some(Span(cput)),
                state: state_of(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?),
                queue: row.get(5)?,
            });
            self.flush_full(each)?;
        }
        Ok(())
    }

    fn jobs(&mut self, filter: &Filter, each: Each) -> Result<(), SpoolError> {
        let (condition, values) = condition(filter);
        let shown = self.visible.sql();
        let sql = format!(
            "SELECT id, spec, life, class, shape FROM job WHERE {condition} AND {shown} ORDER BY id"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&values))?;
        let mut specs = Specs::default();
        while let Some(row) = found.next()? {
            let texts = row.get_ref(1)?.as_str().map_or(0, str::len)
                + row.get_ref(2)?.as_str().map_or(0, str::len);
            let job = job_of(self.connection, row, &mut specs)?;
            let elements = job.id.is_array() && filter.arrays.shows_elements();
            let array = elements.then(|| job.clone());
            if filter.arrays != Arrays::ElementsOnly
                && filter.shows(job.life.state)
                && filter.reaches(job.id)
            {
                self.add_job(job, (row.get(3)?, row.get(4)?), texts, each)?;
            }
            if let Some(array) = array {
                let last_shown = filter
                    .after
                    .filter(|after| after.number == array.id.number)
                    .and_then(JobId::index);
                let only = last_shown.and_then(Indices::after);
                self.elements(&array, only, &filter.states, each)?;
            }
        }
        Ok(())
    }

    /// Adds a job found by its id.
    fn found(&mut self, mut job: Job, each: Each) -> Result<(), SpoolError> {
        let mut key = self.key(&job)?;
        if let Some(array) = self.array_of(job.id)? {
            expire(&mut job, &array);
            key = if key.0.is_some() {
                key
            } else {
                self.key(&array)?
            };
        }
        let texts = texts_of(&job);
        self.add_job(job, key, texts, each)
    }

    /// The key of the verdict of a waiting job.
    pub(super) fn key(&self, job: &Job) -> Result<VerdictKey, SpoolError> {
        let number = job.id.number;
        let index = job.id.index();
        let sql = match index {
            None => "SELECT class, shape FROM job WHERE id = ?1",
            Some(_) => "SELECT class, shape FROM element WHERE job = ?1 AND idx = ?2",
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let values = std::iter::once(number).chain(index.map(u64::from));
        let found = statement.query_row(params_from_iter(values), |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        Ok(found.optional()?.unwrap_or_default())
    }

    /// Adds a job to the answer. `texts` is the size of the job's texts in bytes.
    pub(super) fn add_job(
        &mut self,
        job: Job,
        key: VerdictKey,
        texts: usize,
        each: Each,
    ) -> Result<(), SpoolError> {
        match self.detail {
            Detail::Row => self.rows.push(JobRow {
                id: job.id,
                name: job.spec.name.clone(),
                owner: job.owner.user,
                cput: job.life.run.is_some().then_some(job.life.used.cput),
                state: job.life.state,
                queue: job.spec.queue.clone(),
            }),
            Detail::Whole | Detail::Environment => {
                let record = self.record(job, key)?;
                self.bytes += texts + size_of(&record);
                self.records.push(record);
            }
        }
        self.flush_full(each)
    }

    fn record(&mut self, mut job: Job, key: VerdictKey) -> Result<JobRecord, SpoolError> {
        let queued = job.life.state == JobState::Queued;
        let (mut reason, mut never_since, mut promise) = (None, None, None);
        if job.life.state == JobState::Begun {
            let verdict = self.waits.reason(self.connection, key, job.id)?;
            reason = verdict.map(|(verdict, _)| verdict);
        }
        if queued {
            promise = self.waits.promise(job.id).cloned();
            if let Some((verdict, since)) = self.waits.reason(self.connection, key, job.id)? {
                let was_startable = job
                    .life
                    .etime
                    .is_some_and(|eligible| since.since(eligible) > LATER);
                if was_startable && verdict.is_never() {
                    never_since = Some(since);
                }
                reason = Some(verdict);
            }
        }
        let may_see = self.viewer.privileged || self.viewer.owner.is_same_account(&job.owner);
        let environ = match self.detail {
            Detail::Environment if may_see => self.environ(job.spec.environ)?,
            _ => None,
        };
        if !may_see {
            withhold(&mut job);
        }
        let waiting_again = if job.id.is_array() {
            waiting_again(self.connection, job.id)?
        } else {
            0
        };
        let has_dependencies = self.waits.has_dependencies && job.id.index().is_none();
        let links = if has_dependencies {
            dependencies::links(self.connection, job.id)?
        } else {
            Vec::new()
        };
        Ok(JobRecord {
            job,
            reason,
            never_since,
            promise,
            waiting_again,
            environ,
            links,
            score: None,
        })
    }

    fn flush_full(&mut self, each: Each) -> Result<(), SpoolError> {
        let full = self.rows.len() == PART || self.records.len() == PART || self.bytes > PART_BYTES;
        if full { self.flush(each) } else { Ok(()) }
    }

    /// The environment with this digest, from the cache if possible.
    fn environ(&mut self, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
        if self
            .environ
            .as_ref()
            .is_none_or(|(known, _)| *known != digest)
        {
            self.environ = Some((digest, load::blob(self.connection, digest)?));
        }
        Ok(self
            .environ
            .as_ref()
            .and_then(|(_, environ)| environ.clone()))
    }

    pub(super) fn flush(&mut self, each: Each) -> Result<(), SpoolError> {
        self.bytes = 0;
        match self.detail {
            Detail::Row => each(ClientAnswer::Rows(std::mem::take(&mut self.rows))),
            Detail::Whole | Detail::Environment => {
                each(ClientAnswer::Jobs(std::mem::take(&mut self.records)))
            }
        }
    }
}

/// Approximate size of a record in an answer in bytes, without the texts of the job.
fn size_of(record: &JobRecord) -> usize {
    let pieces = record
        .job
        .elements
        .as_ref()
        .map_or(0, |elements| elements.pieces());
    let shares = record
        .job
        .life
        .run
        .as_ref()
        .map_or(0, |run| run.shares.len());
    512 + size_of_val(&record.links[..])
        + record.environ.as_ref().map_or(0, Vec::len)
        + 16 * pieces
        + 128 * shares
}

/// Size of a job's spec as JSON, in bytes.
pub(super) fn texts_of(job: &Job) -> usize {
    serde_json::to_string(&job.spec).map_or(0, |text| text.len())
}

/// Limit for the time between a job's eligibility and the verdict that the job can never run. After
/// a longer time, the job could have run before, and the time of the verdict is displayed.
const LATER: Span = Span::seconds(10);

/// The key of a verdict: the class of a job (jobs that are equal for scheduling), and the shape of
/// the job's request.
pub(super) type VerdictKey = (Option<i64>, Option<i64>);

/// The reasons and planned starts of queued jobs.
struct Waits {
    promises: BTreeMap<JobId, PromisedStart>,
    /// The verdicts that were read, by class or shape.
    reasons: BTreeMap<i64, Option<(Reason, Time)>>,
    /// True if the spool contains any dependency.
    has_dependencies: bool,
}

impl Waits {
    /// The planned start of a job; for an array, the earliest planned start of a subjob.
    fn promise(&self, id: JobId) -> Option<&PromisedStart> {
        let elements = JobId::element(id.number, 0)..=JobId::element(id.number, u32::MAX);
        if id.is_array() {
            self.promises
                .range(elements)
                .map(|(_, promise)| promise)
                .min_by_key(|promise| promise.at)
        } else {
            self.promises.get(&id)
        }
    }

    /// The reason why a job waits, with the time of the verdict. The verdict on the shape is used
    /// only if there is none on the class. If the verdict is a limit on idle jobs, a verdict on the
    /// job itself replaces it, because the limit can apply to only some jobs of the class.
    fn reason(
        &mut self,
        connection: &Connection,
        key: VerdictKey,
        job: JobId,
    ) -> Result<Option<(Reason, Time)>, SpoolError> {
        for class in [key.0, key.1].into_iter().flatten() {
            match self.verdict(connection, class)? {
                Some(found) if found.0.is_idle_limit() => {
                    let own = verdict(connection, reason::own_reason_key(job) as i64)?;
                    return Ok(own.or(Some(found)));
                }
                Some(found) => return Ok(Some(found)),
                None => (),
            }
        }
        Ok(None)
    }

    fn verdict(
        &mut self,
        connection: &Connection,
        class: i64,
    ) -> Result<Option<(Reason, Time)>, SpoolError> {
        if let Some(known) = self.reasons.get(&class) {
            return Ok(known.clone());
        }
        let reason = verdict(connection, class)?;
        self.reasons.insert(class, reason.clone());
        Ok(reason)
    }
}

/// Removes the private data of a job: the command line of qsub, which can contain variables (`-v`),
/// and the arguments of the job's command. The name of the command stays.
fn withhold(job: &mut Job) {
    let spec = Arc::make_mut(&mut job.spec);
    spec.arguments = Text::default();
    if let JobProgram::Command(words) = &mut spec.program {
        words.truncate(1);
    }
}

fn verdict(connection: &Connection, class: i64) -> Result<Option<(Reason, Time)>, SpoolError> {
    let mut statement =
        connection.prepare_cached("SELECT reason, since FROM verdict WHERE class = ?1")?;
    let mut rows = statement.query([class])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let text: String = row.get(0)?;
    Ok(Some((serde_json::from_str(&text)?, Time(row.get(1)?))))
}
