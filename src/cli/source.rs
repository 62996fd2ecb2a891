//! Where a reading command gets its answers: from the spool itself when the caller owns it, else
//! from schedd. The same query function answers either way.

use crate::model::event::Event;
use crate::model::time::{ClockTable, Time};
use crate::spool::query::Viewer;
use crate::spool::{self, Reader, SpoolError};
use crate::sys::home::Home;
use crate::sys::{filesystem, record};
use crate::wire::client::Client;
use crate::wire::message::{Answer, NodeRecord, Question, QueueCounts, Record, Row, ServerFacts};
use anyhow::{Context, Result};
use std::os::unix::fs::MetadataExt;

/// A place to ask.
pub enum Source {
    /// The caller's own spool, with or without schedd running.
    Spool(Box<Reader>),
    /// schedd.
    Schedd(Box<Client>),
    /// A personal installation in which nothing has been submitted yet.
    Nothing,
}

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
    /// For a question about what has happened to a job.
    pub events: Vec<(Time, Event)>,
}

impl Source {
    /// Opens the spool, or else a connection to schedd.
    pub fn open(home: &Home) -> Result<Source> {
        if is_own(home) && filesystem::network(&home.spool())?.is_none() {
            let file = spool::file(home);
            if let Some(reader) = Reader::open(&file).with_context(|| file.display().to_string())? {
                return Ok(Source::Spool(Box::new(reader)));
            }
        }
        if !home.system && !home.spool().exists() {
            return Ok(Source::Nothing);
        }
        Ok(Source::Schedd(Box::new(Client::connect(home)?)))
    }

    /// Asks; the answer is complete.
    pub fn ask(&mut self, question: &Question) -> Result<Answers> {
        let mut answers = Answers::empty();
        match self {
            Source::Nothing => {}
            Source::Schedd(client) => client.ask(question, |part| answers.add(part))?,
            Source::Spool(reader) => {
                let viewer = Viewer { uid: nix::unistd::geteuid().as_raw(), privileged: true };
                reader.answer(question, viewer, &mut |part| {
                    answers.add(part);
                    Ok::<_, SpoolError>(())
                })?;
            }
        }
        Ok(answers)
    }
}

/// Whether the spool is the caller's: nobody else may read its files.
fn is_own(home: &Home) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    std::fs::metadata(home.spool()).is_ok_and(|metadata| metadata.uid() == own)
}

impl Answers {
    fn empty() -> Answers {
        let host = record::host();
        let server = ServerFacts {
            name: host.clone(),
            host,
            version: env!("CARGO_PKG_VERSION").to_string(),
            default_queue: None,
            clock: ClockTable::default(),
            resources: Default::default(),
            managers: Vec::new(),
            operators: Vec::new(),
            privileged: true,
            history: true,
        };
        Answers {
            server,
            rows: Vec::new(),
            jobs: Vec::new(),
            queues: Vec::new(),
            nodes: Vec::new(),
            events: Vec::new(),
        }
    }

    fn add(&mut self, part: Answer) {
        match part {
            Answer::Server(server) => self.server = *server,
            Answer::Rows(rows) => self.rows.extend(rows),
            Answer::Jobs(jobs) => self.jobs.extend(jobs),
            Answer::Queues(queues) => self.queues.extend(queues),
            Answer::Nodes(nodes) => self.nodes.extend(nodes),
            Answer::Events(events) => self.events.extend(events),
        }
    }
}
