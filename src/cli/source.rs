//! Where a reading command gets its answers: from the spool itself when the caller owns it, else
//! from schedd. The same query function answers either way.

use crate::sys::home::Home;
use crate::wire::message::{Answer, NodeRecord, Question, QueueCounts, Record, Row, ServerFacts};
use anyhow::Result;

/// A place to ask.
pub struct Source {}

/// All parts of an answer, put together.
#[derive(Debug)]
pub struct Answers {
    /// How to show ids and times; always there.
    pub server: ServerFacts,
    /// For a question about jobs with [`crate::wire::message::Detail::Row`].
    pub rows: Vec<Row>,
    /// For a question about jobs with more detail.
    pub jobs: Vec<Record>,
    /// For a question about queues.
    pub queues: Vec<QueueCounts>,
    /// For a question about nodes.
    pub nodes: Vec<NodeRecord>,
}

impl Source {
    /// Opens the spool, or else a connection to schedd.
    pub fn open(home: &Home) -> Result<Source> {
        let _ = home;
        todo!()
    }

    /// Asks; the answer is complete.
    pub fn ask(&mut self, question: &Question) -> Result<Answers> {
        let _: (&Question, Option<Answer>) = (question, None);
        todo!()
    }
}
