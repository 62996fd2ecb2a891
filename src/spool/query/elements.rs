//! Subjobs of arrays. Subjobs that have started have a record; all others exist only as part of an
//! index range of the array.

use super::super::{SpoolError, load};
use super::search::{SpoolSearch, condition, texts_of};
use super::{Each, PART};
use crate::model::job::Job;
use crate::model::job::array::Indices;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::wire::message::{ClientAnswer, Filter};
use rusqlite::{Connection, params, params_from_iter};
use std::collections::VecDeque;

impl SpoolSearch<'_> {
    /// Passes the subjobs of an array to `each`: all, or the subjobs with the indices `only`.
    pub(super) fn elements_of(
        mut self,
        id: JobId,
        only: Option<Indices>,
        each: Each,
    ) -> Result<(), SpoolError> {
        if let Some(array) = self.shown(id)? {
            each(ClientAnswer::Longest(longest_id(&array)))?;
            self.elements(&array, only, &[], each)?;
        }
        self.flush(each)
    }

    /// Adds the subjobs of an array in index order: all, or the subjobs with the indices `only`.
    /// Empty `states` means any state.
    pub(super) fn elements(
        &mut self,
        array: &Job,
        only: Option<Indices>,
        states: &[JobState],
        each: Each,
    ) -> Result<(), SpoolError> {
        let mut recorded = Recorded::of(self.connection, array);
        let (key, texts) = (self.key(array)?, texts_of(array));
        for index in present(array, only) {
            let Some(mut element) = load::element_of(array, index, recorded.record(index)?) else {
                continue;
            };
            expire(&mut element, array);
            if states.is_empty() || states.contains(&element.life.state) {
                let own = if element.life.run.is_some() {
                    self.key(&element)?
                } else {
                    key
                };
                self.add_job(
                    element,
                    if own.0.is_some() { own } else { key },
                    texts,
                    each,
                )?;
            }
        }
        Ok(())
    }
}

/// The indices of an array's subjobs in order: all, or those that are also in `only`.
fn present(array: &Job, only: Option<Indices>) -> impl Iterator<Item = u32> {
    let runs = array
        .elements
        .as_ref()
        .map_or_else(Vec::new, |elements| elements.runs());
    let ranges = array.indices().into_iter().flat_map(move |indices| {
        runs.clone()
            .into_iter()
            .map(move |(first, last, _)| indices.between(first, last))
    });
    ranges
        .filter_map(move |range| only.map_or(Some(range), |only| range.common(only)))
        .flat_map(Indices::iter)
}

/// Shows a finished subjob of an unfinished array as expired.
pub(super) fn expire(element: &mut Job, array: &Job) {
    if element.life.state == JobState::Finished && array.life.state != JobState::Finished {
        element.life.state = JobState::Expired;
    }
}

/// Reader for the records of an array's subjobs, in index order and in portions.
struct Recorded<'a> {
    connection: &'a Connection,
    array: &'a Job,
    read: VecDeque<Job>,
    /// The index at which the next portion begins; None when all records have been read.
    from: Option<u32>,
}

impl Recorded<'_> {
    fn of<'a>(connection: &'a Connection, array: &'a Job) -> Recorded<'a> {
        Recorded {
            connection,
            array,
            read: VecDeque::new(),
            from: Some(0),
        }
    }

    /// The record of a subjob, if any. Callers must request indices in ascending order.
    fn record(&mut self, index: u32) -> Result<Option<Job>, SpoolError> {
        loop {
            match self.read.front().and_then(|job| job.id.index()) {
                Some(first) if first < index => drop(self.read.pop_front()),
                Some(first) if first == index => return Ok(self.read.pop_front()),
                Some(_) => return Ok(None),
                None if self.from.is_none() => return Ok(None),
                None => self.read_portion(index)?,
            }
        }
    }

    /// Reads the next portion of records. Skips records with an index below `index`.
    fn read_portion(&mut self, index: u32) -> Result<(), SpoolError> {
        let from = self.from.unwrap_or(0).max(index);
        let condition = "e.job = ?1 AND e.idx >= ?2 ORDER BY e.idx LIMIT ?3";
        let values = params![self.array.id.number, from, PART as i64];
        self.read = load::elements_where(self.connection, condition, values)?.into();
        self.from = None;
        if self.read.len() == PART {
            let last = self.read.back().and_then(|job| job.id.index());
            self.from = last.map(|last| last + 1);
        }
        Ok(())
    }
}

/// Number of an array's subjobs that have started, but neither run nor have finished: they wait to
/// start again, or are suspended.
pub(super) fn waiting_again(connection: &Connection, array: JobId) -> Result<u32, SpoolError> {
    let sql = "SELECT count(*) FROM element WHERE job = ?1 AND state <> 'F' AND state <> 'R'";
    Ok(connection
        .prepare_cached(sql)?
        .query_row([array.number], |row| row.get(0))?)
}

/// Length of a job id without the server name.
pub(super) fn length(id: JobId) -> u32 {
    id.to_string().len() as u32
}

/// Length of the longest id of an array and its subjobs.
pub(super) fn longest_id(job: &Job) -> u32 {
    let last = job
        .indices()
        .map(|indices| JobId::element(job.id.number, indices.largest()));
    length(last.unwrap_or(job.id))
}

/// Upper bound for the id lengths of the matching jobs, and of the subjobs of the matching arrays.
pub(super) fn longest_of(connection: &Connection, filter: &Filter) -> Result<u32, SpoolError> {
    let (condition, values) = condition(filter);
    let sql = format!("SELECT max(id) FROM job WHERE {condition}");
    let number: Option<u64> =
        connection.query_row(&sql, params_from_iter(&values), |row| row.get(0))?;
    let number = number.unwrap_or(0);
    let last = "json_extract(spec, '$.array.last')";
    let sql = format!("SELECT max({last}) FROM job WHERE is_array AND {condition}");
    let index: Option<u64> =
        connection.query_row(&sql, params_from_iter(&values), |row| row.get(0))?;
    let index = index.and_then(|index| u32::try_from(index).ok());
    Ok(length(index.map_or(JobId::job(number), |index| {
        JobId::element(number, index)
    })))
}

#[cfg(test)]
mod tests {
    use super::super::Viewer;
    use super::*;
    use crate::model::attribute::{self, AttributeSetting, Context, Rights, SubmitContext};
    use crate::model::job::array::{Elements, SubjobState};
    use crate::model::job::state::Holds;
    use crate::model::job::{Digest, JobProgram, Life, Owner, Run};
    use crate::model::resource::Resources;
    use crate::model::text::Text;
    use crate::model::time::{ClockTable, Time};
    use crate::sched::fixture::moment;
    use crate::spool::{Spool, SpoolReader};
    use crate::update::Update;
    use crate::wire::message::{Arrays, Detail, JobRow, Question, ServerFacts};
    use proptest::prelude::*;
    use std::path::Path;
    use std::sync::Arc;

    const ID: JobId = JobId::array(7);
    const INDICES: &str = "3-80:4";

    /// An array without started subjobs.
    fn array() -> Job {
        let indices: Indices = INDICES.parse().unwrap();
        let origin = SubmitContext {
            program: JobProgram::Command(vec!["/bin/true".into()]),
            environ: Digest([0; 32]),
            workdir: "/w".into(),
            submit_host: "head".into(),
            arguments: Text::default(),
        };
        let (resources, rights) = (Resources::builtin(), Rights::default());
        let context = Context {
            resources: &resources,
            rights,
            owner: "alice",
            server: "head",
            default_queue: Some("workq"),
            policy: &Default::default(),
            is_member: &|_| false,
        };
        let settings = [AttributeSetting::new("array_indices_submitted", INDICES)];
        let draft = attribute::submit(&settings, origin, &context).unwrap();
        let owner = Owner {
            user: "alice".into(),
            uid: 1,
            gid: 1,
        };
        let elements = Some(Arc::new(Elements::new(indices.count())));
        let mut life = Life::new(Holds::NONE, 0, Time(0));
        life.state = JobState::Queued;
        Job {
            id: ID,
            owner,
            spec: Arc::new(draft.spec),
            life,
            elements,
        }
    }

    fn facts() -> ServerFacts {
        ServerFacts {
            name: "head".into(),
            host: "head".into(),
            version: "0".into(),
            default_queue: None,
            comment: None,
            query_other_jobs: true,
            default_qsub_arguments: String::new(),
            now: Time(1),
            clock: ClockTable::default(),
            resources: Resources::builtin(),
            managers: vec![],
            operators: vec![],
            privileged: false,
            history: true,
            scheduling: true,
            fair_shares: Vec::new(),
            has_scores: false,
        }
    }

    /// Events of subjobs, with positions of subjobs in the array.
    #[derive(Clone, Copy, Debug)]
    enum SubjobEvent {
        Begin(u32),
        End(u32, i32),
        Delete(u32, u32),
        FailedAgain,
    }

    fn any_event() -> impl Strategy<Value = SubjobEvent> {
        prop_oneof![
            4 => (0u32..20).prop_map(SubjobEvent::Begin),
            4 => (0u32..20, 0i32..3).prop_map(|(position, status)| SubjobEvent::End(position, status)),
            1 => (0u32..20, 0u32..6).prop_map(|(first, more)| SubjobEvent::Delete(first, first + more)),
            1 => Just(SubjobEvent::FailedAgain),
        ]
    }

    /// Applies an event to the array in memory and returns the updates for the spool.
    fn apply(array: &mut Job, event: SubjobEvent) -> Vec<Update> {
        let indices = array.indices().unwrap();
        let record = |array: &Job, index: u32, state| {
            let mut element = array.subjob_without_record(index).unwrap();
            let run = Run {
                open: false,
                ..Run::new(1, vec![], Time(1))
            };
            (element.life.state, element.life.run) = (state, Some(run));
            Update::Life(Arc::new(element), None)
        };
        let mut changes = Vec::new();
        match event {
            SubjobEvent::Begin(position)
                if array.subjob_state(indices.at(position)) == Some(SubjobState::Waiting) =>
            {
                changes.push(record(array, indices.at(position), JobState::Running));
                array.set_subjob_state(indices.at(position), SubjobState::Begun, moment(1));
            }
            SubjobEvent::End(position, status)
                if array.subjob_state(indices.at(position)) == Some(SubjobState::Begun) =>
            {
                changes.push(record(array, indices.at(position), JobState::Finished));
                array.set_subjob_state(indices.at(position), SubjobState::Ended(status), moment(1));
            }
            SubjobEvent::Delete(first, last) => array.end_waiting(first, last, moment(1)),
            SubjobEvent::FailedAgain => {
                array.run_again(crate::model::job::retry::Again::Failed, 1, moment(1))
            }
            _ => {}
        }
        let rewrite = array
            .elements
            .as_mut()
            .and_then(|elements| Arc::make_mut(elements).take_unwritten());
        changes.extend(rewrite.map(|rewrite| Update::Elements(ID, rewrite)));
        changes.push(Update::Life(Arc::new(array.clone()), None));
        changes
    }

    fn rows(file: &Path, question: &Question) -> Vec<JobRow> {
        let mut rows = Vec::new();
        let viewer = Viewer {
            owner: Owner {
                user: "u".into(),
                uid: 1,
                gid: 1,
            },
            privileged: false,
        };
        let mut reader = SpoolReader::open(file).unwrap().unwrap();
        let mut take = |part| {
            if let ClientAnswer::Rows(more) = part {
                rows.extend(more);
            }
            Ok(())
        };
        reader.answer(question, viewer, &mut take).unwrap();
        rows
    }

    /// The displayed state of a subjob of `array` with the stored state `state`.
    fn shown(state: SubjobState, array: &Job) -> JobState {
        match state {
            SubjobState::Waiting => JobState::Queued,
            SubjobState::Begun => JobState::Running,
            SubjobState::Ended(_) if array.life.state == JobState::Finished => JobState::Finished,
            SubjobState::Ended(_) => JobState::Expired,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// After any events, the spool has the same subjob states as the array in memory.
        #[test]
        fn the_spool_has_the_state_of_every_subjob(events in prop::collection::vec(any_event(), 1..40), only in 0u32..90) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("spool.db");
            let (mut spool, mut array) = (Spool::open(&file).unwrap(), array());
            let rewrite = Arc::make_mut(array.elements.as_mut().unwrap()).take_unwritten().unwrap();
            let server = serde_json::to_string(&facts()).unwrap();
            spool.commit(&[
                Update::Meta("server", server),
                Update::Elements(ID, rewrite),
                Update::Job(Arc::new(array.clone()), None),
            ]).unwrap();
            for event in events {
                let changes = apply(&mut array, event);
                spool.commit(&changes).unwrap();
            }
            prop_assert_eq!(spool.job(ID).unwrap().unwrap().elements.unwrap().runs(), array.elements.as_ref().unwrap().runs());
            let indices = array.indices().unwrap();
            let expected: Vec<(JobId, JobState)> = indices.iter()
                .map(|index| {
                    let state = array.subjob_state(index).unwrap();
                    (JobId::element(7, index), shown(state, &array))
                })
                .collect();
            let found = |question| rows(&file, &question).iter().map(|row| (row.id, row.state)).collect::<Vec<_>>();
            prop_assert_eq!(found(Question::Elements(ID, None, Detail::Row)), expected.clone());
            let filter = Filter { arrays: Arrays::ElementsOnly, history: crate::wire::message::History::All, ..Filter::default() };
            prop_assert_eq!(found(Question::Jobs(filter, Detail::Row)), expected.clone());
            let one: Vec<(JobId, JobState)> = expected
                .into_iter()
                .filter(|(id, _)| *id == JobId::element(7, only))
                .collect();
            prop_assert_eq!(found(Question::Elements(ID, Some(Indices::one(only)), Detail::Row)), one.clone());
            prop_assert_eq!(found(Question::JobsById(vec![JobId::element(7, only)], Detail::Row)), one);
        }
    }
}
