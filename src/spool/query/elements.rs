//! The elements of arrays: those with a record, and those that are no more than a place in a run.

use super::super::SpoolError;
use super::super::load;
use super::search::{Search, condition};
use super::{Each, PART};
use crate::model::array::Indices;
use crate::model::job::{Job, JobId};
use crate::model::state::State;
use crate::wire::message::{Answer, Filter};
use rusqlite::{Connection, params, params_from_iter};
use std::collections::VecDeque;

impl Search<'_> {
    /// The elements of one array, all or these alone.
    pub(super) fn elements_of(mut self, id: JobId, only: Option<Indices>, each: Each) -> Result<(), SpoolError> {
        if let Some(array) = load::job(self.connection, id)? {
            each(Answer::Longest(longest_id(&array)))?;
            self.elements(&array, only, &[], each)?;
        }
        self.flush(each)
    }

    /// The elements of an array in the order of their indices: those that have a record, and between
    /// them those that have none. `states` empty: in any state.
    pub(super) fn elements(
        &mut self,
        array: &Job,
        only: Option<Indices>,
        states: &[State],
        each: Each,
    ) -> Result<(), SpoolError> {
        let wanted = array.indices().and_then(|indices| only.map_or(Some(indices), |only| indices.common(only)));
        let mut recorded = Recorded::of(self.connection, array);
        let class = self.class(array)?;
        for index in wanted.into_iter().flat_map(Indices::iter) {
            let Some(mut element) = load::element_of(array, index, recorded.at(index)?) else { continue };
            expire(&mut element, array);
            if states.is_empty() || states.contains(&element.life.state) {
                let own = if element.life.run.is_some() { self.class(&element)? } else { None };
                self.known(element, own.or(class), each)?;
            }
        }
        Ok(())
    }
}

/// An element that is over is so for good only with its array.
pub(super) fn expire(element: &mut Job, array: &Job) {
    if element.life.state == State::Finished && array.life.state != State::Finished {
        element.life.state = State::Expired;
    }
}

/// The records of an array's elements, read in the order of their indices some at a time.
struct Recorded<'a> {
    connection: &'a Connection,
    array: &'a Job,
    read: VecDeque<Job>,
    /// The index to read on from; None when all have been read.
    from: Option<u32>,
}

impl Recorded<'_> {
    fn of<'a>(connection: &'a Connection, array: &'a Job) -> Recorded<'a> {
        Recorded { connection, array, read: VecDeque::new(), from: Some(0) }
    }

    /// The record of the element at this index; indices must be asked for in their order.
    fn at(&mut self, index: u32) -> Result<Option<Job>, SpoolError> {
        loop {
            match self.read.front().and_then(|job| job.id.index()) {
                Some(first) if first < index => drop(self.read.pop_front()),
                Some(first) if first == index => return Ok(self.read.pop_front()),
                Some(_) => return Ok(None),
                None if self.from.is_none() => return Ok(None),
                None => self.read_on(index)?,
            }
        }
    }

    fn read_on(&mut self, index: u32) -> Result<(), SpoolError> {
        let from = self.from.unwrap_or(0).max(index);
        let condition = "e.job = ?1 AND e.idx >= ?2 ORDER BY e.idx LIMIT ?3";
        let values = params![self.array.id.number, from, PART as i64];
        self.read = load::elements_where(self.connection, condition, values)?.into();
        let last = self.read.back().and_then(|job| job.id.index());
        self.from = last.filter(|_| self.read.len() == PART).map(|last| last + 1);
        Ok(())
    }
}

/// Elements of an array that have begun and neither run nor are over.
pub(super) fn waiting_again(connection: &Connection, array: JobId) -> Result<u32, SpoolError> {
    let sql = "SELECT count(*) FROM element WHERE job = ?1 AND state <> 'F' AND state <> 'R'";
    Ok(connection.prepare_cached(sql)?.query_row([array.number], |row| row.get(0))?)
}

/// How many characters an id has, its server's name aside.
pub(super) fn length(id: JobId) -> u32 {
    id.to_string().len() as u32
}

/// The same of the longest id that an array and its elements have.
pub(super) fn longest_id(job: &Job) -> u32 {
    let last = job.indices().map(|indices| JobId::element(job.id.number, indices.largest()));
    length(last.unwrap_or(job.id))
}

/// The same over all jobs that are meant, and the elements of all arrays among them.
pub(super) fn longest_of(connection: &Connection, filter: &Filter) -> Result<u32, SpoolError> {
    let (condition, values) = condition(filter);
    let most = |sql: &str| -> Result<Option<u64>, SpoolError> {
        Ok(connection.prepare(sql)?.query_row(params_from_iter(&values), |row| row.get(0))?)
    };
    let number = most(&format!("SELECT max(id) FROM job WHERE {condition}"))?.unwrap_or(0);
    let last = "json_extract(spec, '$.array.last')";
    let index = most(&format!("SELECT max({last}) FROM job WHERE is_array AND {condition}"))?;
    let index = index.and_then(|index| u32::try_from(index).ok());
    Ok(length(index.map_or(JobId::job(number), |index| JobId::element(number, index))))
}
