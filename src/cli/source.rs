//! Where a reading command gets its answers: from the spool itself when the caller owns it, else
//! from schedd. The same query function answers either way.

use crate::model::time::ClockTable;
use crate::spool::query::Viewer;
use crate::spool::{self, Reader, SpoolError};
use crate::sys::home::Home;
use crate::sys::{filesystem, record};
use crate::wire::client::{Client, More};
use crate::wire::message::{Answer, NodeRecord, Question, QueueCounts, Record, Row, ServerFacts};
use anyhow::Context;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;

/// So many parts of an answer may be read and not yet printed.
const PARTS_AHEAD: usize = 2;

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
    /// The most characters of an id, where that is told.
    pub longest: Option<u32>,
}

impl From<ServerFacts> for Answers {
    fn from(server: ServerFacts) -> Answers {
        Answers { server, rows: Vec::new(), jobs: Vec::new(), queues: Vec::new(), nodes: Vec::new(), longest: None }
    }
}

impl Source {
    /// Opens the spool, or else a connection to schedd.
    pub fn open(home: &Home) -> anyhow::Result<Source> {
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
    pub fn ask(&mut self, question: &Question) -> anyhow::Result<Answers> {
        let mut answers = Answers::empty();
        self.parts(question, &mut |part| {
            answers.add(part);
            More::Wanted
        })?;
        Ok(answers)
    }

    /// Asks, and hands on the parts of the answer as they come; the server's facts are the first. What
    /// has been asked is not read to its end once `each` wants no more, and no other question can follow.
    pub fn parts(&mut self, question: &Question, each: &mut dyn FnMut(Answer) -> More) -> anyhow::Result<()> {
        match self {
            Source::Nothing => drop(each(Answer::Server(Box::new(Answers::empty().server)))),
            Source::Schedd(client) => client.ask(question, each)?,
            Source::Spool(reader) => read(reader, question, each)?,
        }
        Ok(())
    }
}

/// While one part is printed, the next is read.
fn read(reader: &mut Reader, question: &Question, each: &mut dyn FnMut(Answer) -> More) -> Result<(), SpoolError> {
    let viewer = Viewer { uid: nix::unistd::geteuid().as_raw(), privileged: true };
    std::thread::scope(|scope| {
        let (sender, parts) = mpsc::sync_channel(PARTS_AHEAD);
        let reading = scope.spawn(move || {
            let mut hand_on = |part| sender.send(part).map_err(|_| SpoolError::Io(ErrorKind::BrokenPipe.into()));
            reader.answer(question, viewer, &mut hand_on)
        });
        let enough = parts.iter().any(|part| each(part) == More::Enough);
        drop(parts);
        let answered = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if enough { Ok(()) } else { answered }
    })
}

/// Whether the spool is the caller's: nobody else may read its files.
fn is_own(home: &Home) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    std::fs::metadata(home.spool()).is_ok_and(|metadata| metadata.uid() == own)
}

impl Answers {
    fn empty() -> Answers {
        let host = record::host();
        Answers::from(ServerFacts {
            name: host.clone(),
            host,
            version: env!("CARGO_PKG_VERSION").to_string(),
            default_queue: None,
            clock: ClockTable::default(),
            resources: Default::default(),
            managers: Vec::new(),
            operators: Vec::new(),
            privileged: true,
        })
    }

    /// Takes in a part of an answer.
    pub fn add(&mut self, part: Answer) {
        match part {
            Answer::Server(server) => self.server = *server,
            Answer::Rows(rows) => self.rows.extend(rows),
            Answer::Jobs(jobs) => self.jobs.extend(jobs),
            Answer::Queues(queues) => self.queues.extend(queues),
            Answer::Nodes(nodes) => self.nodes.extend(nodes),
            Answer::Longest(longest) => self.longest = Some(longest),
        }
    }
}
