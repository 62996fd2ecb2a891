//! Where a reading command gets its answers: from the spool itself when the caller owns it, else
//! from schedd. The same query function answers either way.

use crate::config::Config;
use crate::config::overrides::description::Described;
use crate::model::account::accounting::{AccountingEntry, RequestTotals};
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::reservation::Reservation;
use crate::model::time::{ClockTable, Time};
use crate::model::trigger::CycleRecord;
use crate::spool::query::Viewer;
use crate::spool::{self, SpoolError, SpoolReader};
use crate::sys::home::Home;
use crate::sys::{filesystem, record};
use crate::wire::ahead::ForecastAnswer;
use crate::wire::client::{Client, Continue};
use crate::wire::message::{
    ClientAnswer, JobRecord, JobRow, NodeRecord, Question, QueueCounts, ServerFacts,
};
use anyhow::Context;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The number of parts of an answer that are read ahead of the output.
const PARTS_AHEAD: usize = 4;

/// How long the spool waits for the reader of a part.
const A_WHILE: Duration = Duration::from_millis(500);

/// A place to ask.
pub enum QuerySource {
    /// The caller's own spool, with or without schedd running.
    Spool(Box<SpoolReader>, Home),
    /// schedd.
    Schedd(Box<Client>),
    /// A personal installation without a spool: it has no jobs.
    Nothing(Home),
}

/// All parts of an answer, put together.
#[derive(Debug)]
pub struct Answers {
    /// How to show ids and times; always there.
    pub server: ServerFacts,
    /// For a question about jobs with [`crate::wire::message::Detail::Row`].
    pub rows: Vec<JobRow>,
    /// For a question about jobs with more detail.
    pub jobs: Vec<JobRecord>,
    /// For a question about queues.
    pub queues: Vec<QueueCounts>,
    /// For a question about nodes.
    pub nodes: Vec<NodeRecord>,
    /// For a question about reservations.
    pub reservations: Vec<Reservation>,
    /// For a question about what has happened to a job.
    pub events: Vec<(Time, Event)>,
    /// The most characters of an id, if the answer has it.
    pub longest: Option<u32>,
    /// For a question about what entries of the accounts come to.
    pub tallies: Vec<RequestTotals>,
    /// For a question about entries of the accounts.
    pub entries: Vec<AccountingEntry>,
    /// For a question about what is to come.
    pub ahead: Vec<ForecastAnswer>,
    /// For a question about what is configured.
    pub objects: Vec<Described>,
    /// For a question about the looks of the scheduler.
    pub cycles: Vec<CycleRecord>,
}

impl From<ServerFacts> for Answers {
    fn from(server: ServerFacts) -> Answers {
        Answers {
            server,
            rows: Vec::new(),
            jobs: Vec::new(),
            queues: Vec::new(),
            nodes: Vec::new(),
            reservations: Vec::new(),
            events: Vec::new(),
            longest: None,
            tallies: Vec::new(),
            entries: Vec::new(),
            ahead: Vec::new(),
            objects: Vec::new(),
            cycles: Vec::new(),
        }
    }
}

impl QuerySource {
    /// Opens the spool, or else a connection to schedd.
    pub fn open(home: &Home) -> anyhow::Result<QuerySource> {
        if is_own(home) && filesystem::network(&home.spool())?.is_none() {
            let file = spool::file(home);
            match SpoolReader::open(&file) {
                Ok(Some(reader)) => return Ok(QuerySource::Spool(Box::new(reader), home.clone())),
                Ok(None) => {}
                Err(error) => {
                    // On a full disk SQLite cannot create the memory that reader and writer share.
                    if matches!(error, SpoolError::Sqlite(_) | SpoolError::Full)
                        && let Ok(client) = Client::reach(home)
                    {
                        return Ok(QuerySource::Schedd(Box::new(client)));
                    }
                    return Err(error).with_context(|| file.display().to_string());
                }
            }
        }
        if !home.system && !home.spool().exists() {
            return Ok(QuerySource::Nothing(home.clone()));
        }
        Ok(QuerySource::Schedd(Box::new(Client::connect(home)?)))
    }

    /// Asks; the answer is complete.
    pub fn ask(&mut self, question: &Question) -> anyhow::Result<Answers> {
        let mut answers = Answers::empty();
        self.parts(question, &mut |part| {
            answers.add(part);
            Continue::Wanted
        })?;
        Ok(answers)
    }

    /// Asks, and hands on the parts of the answer as they come, until `each` wants no more; the
    /// server's facts are the first. While one part is dealt with, the next is read.
    pub fn parts(
        &mut self,
        question: &Question,
        each: &mut dyn FnMut(ClientAnswer) -> Continue,
    ) -> anyhow::Result<()> {
        thread::scope(|scope| {
            let (sender, parts) = mpsc::channel();
            let (room, has_room) = mpsc::channel();
            // A reader that has read everything is gone: the results of send do not matter.
            for _ in 0..PARTS_AHEAD {
                let _ = room.send(());
            }
            let reading =
                scope.spawn(move || self.read(question, &PartSender { sender, has_room }));
            for part in &parts {
                if each(part) == Continue::Enough {
                    break;
                }
                let _ = room.send(());
            }
            drop((parts, room));
            reading
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Reads the answer to its end, or until the reader is gone. If the output is slow, as in a
    /// pager, the spool must not wait: its log could not be emptied meanwhile. Then the rest is
    /// requested later.
    fn read(&mut self, question: &Question, way: &PartSender) -> anyhow::Result<()> {
        let mut rest = question.clone();
        loop {
            let is_rest = rest != *question;
            let (mut last, mut left) = (None, None);
            self.ask_once(&rest, &mut |part| {
                if is_rest && matches!(part, ClientAnswer::Server(_) | ClientAnswer::Longest(_)) {
                    return Continue::Wanted;
                }
                last = last_id(&part).or(last);
                let patience = if last.is_some() && is_list(question) {
                    A_WHILE
                } else {
                    Duration::MAX
                };
                match way.hand_on(part, patience) {
                    Handed::Over => return Continue::Wanted,
                    Handed::Back(part) => left = Some(part),
                    Handed::Unwanted => {}
                }
                Continue::Enough
            })?;
            let next = last.and_then(|last| rest.after(last));
            let taken = left.map(|part| way.hand_on(part, Duration::MAX));
            match (taken, next) {
                (Some(Handed::Over), Some(next)) => rest = next,
                _ => return Ok(()),
            }
            if let QuerySource::Schedd(client) = self {
                client.reconnect()?;
            }
        }
    }

    /// Asks schedd where the spool cannot know the answer yet. A personal installation without a
    /// spool has no jobs, but it has queues, and nodes as soon as schedd reaches its noded.
    /// Questions about jobs start nothing.
    fn prefer_schedd(&mut self, question: &Question) -> anyhow::Result<()> {
        let home = match self {
            QuerySource::Nothing(home) if !is_about_jobs(question) => home,
            QuerySource::Spool(reader, home)
                if !home.system && *question == Question::Nodes && !reader.has_nodes()? =>
            {
                home
            }
            _ => return Ok(()),
        };
        *self = QuerySource::Schedd(Box::new(Client::connect(home)?));
        Ok(())
    }

    fn ask_once(
        &mut self,
        question: &Question,
        each: &mut dyn FnMut(ClientAnswer) -> Continue,
    ) -> anyhow::Result<()> {
        self.prefer_schedd(question)?;
        let mut enough = false;
        let answered = match self {
            QuerySource::Nothing(home) => {
                each(ClientAnswer::Server(Box::new(ServerFacts {
                    name: name_to_be(home),
                    ..Answers::empty().server
                })));
                return Ok(());
            }
            QuerySource::Schedd(client) => return Ok(client.ask(question, each)?),
            QuerySource::Spool(reader, _) => {
                let viewer = Viewer::own();
                reader.answer(question, viewer, &mut |part| match each(part) {
                    Continue::Wanted => Ok(()),
                    Continue::Enough => {
                        enough = true;
                        Err(SpoolError::Io(ErrorKind::BrokenPipe.into()))
                    }
                })
            }
        };
        if enough { Ok(()) } else { Ok(answered?) }
    }
}

/// The name of the server of this installation while it does not answer.
pub fn name_of_silent() -> String {
    Home::find().map_or_else(|_| record::host(), |home| name_to_be(&home))
}

/// The server's name by `lanai.toml`. schedd itself reports errors in that file when it starts.
fn name_to_be(home: &Home) -> String {
    let text = std::fs::read_to_string(&home.config).unwrap_or_default();
    let named = Config::parse(&text)
        .ok()
        .and_then(|config| config.server.name);
    named.unwrap_or_else(record::host)
}

/// Whether the answer is about jobs, or about the server's name alone.
fn is_about_jobs(question: &Question) -> bool {
    match question {
        Question::JobsById(..)
        | Question::Jobs(..)
        | Question::Elements(..)
        | Question::Trace(_) => true,
        Question::Accounts(..) | Question::Entries(..) | Question::Server => true,
        Question::Queues | Question::Nodes | Question::Reservations | Question::Objects => false,
        Question::Ahead(_) | Question::Cycles | Question::Offer { .. } => false,
    }
}

/// Whether the answer may be long, and can be asked for from anywhere in it.
fn is_list(question: &Question) -> bool {
    matches!(question, Question::Jobs(..) | Question::Elements(..))
}

fn last_id(part: &ClientAnswer) -> Option<JobId> {
    match part {
        ClientAnswer::Rows(rows) => rows.last().map(|row| row.id),
        ClientAnswer::Jobs(jobs) => jobs.last().map(|record| record.job.id),
        ClientAnswer::Queues(_)
        | ClientAnswer::Nodes(_)
        | ClientAnswer::Events(_)
        | ClientAnswer::Reservations(_) => None,
        ClientAnswer::Server(_)
        | ClientAnswer::Longest(_)
        | ClientAnswer::Ahead(_)
        | ClientAnswer::Objects(_) => None,
        ClientAnswer::Tallies(_)
        | ClientAnswer::Entries(_)
        | ClientAnswer::Cycles(_)
        | ClientAnswer::Offer(_) => None,
    }
}

/// The way of parts from who reads them to who prints them.
struct PartSender {
    sender: Sender<ClientAnswer>,
    /// One for each part there is room for.
    has_room: Receiver<()>,
}

/// What became of a part.
enum Handed {
    Over,
    /// There was no room for it in time.
    Back(ClientAnswer),
    /// The reader is gone.
    Unwanted,
}

impl PartSender {
    /// Hands on a part as soon as there is room for it.
    fn hand_on(&self, part: ClientAnswer, patience: Duration) -> Handed {
        match self.has_room.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => Handed::Back(part),
            Err(RecvTimeoutError::Disconnected) => Handed::Unwanted,
            Ok(()) if self.sender.send(part).is_ok() => Handed::Over,
            Ok(()) => Handed::Unwanted,
        }
    }
}

/// Whether the spool belongs to this user: no other user may read its files.
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
            comment: None,
            query_other_jobs: true,
            default_qsub_arguments: String::new(),
            clock: ClockTable::default(),
            now: Time::default(),
            resources: Default::default(),
            managers: Vec::new(),
            operators: Vec::new(),
            privileged: true,
            history: true,
            scheduling: true,
            fair_shares: Vec::new(),
            has_scores: false,
        })
    }

    /// Takes in a part of an answer.
    pub fn add(&mut self, part: ClientAnswer) {
        match part {
            ClientAnswer::Server(server) => self.server = *server,
            ClientAnswer::Rows(rows) => self.rows.extend(rows),
            ClientAnswer::Jobs(jobs) => self.jobs.extend(jobs),
            ClientAnswer::Queues(queues) => self.queues.extend(queues),
            ClientAnswer::Nodes(nodes) => self.nodes.extend(nodes),
            ClientAnswer::Reservations(reservations) => self.reservations.extend(reservations),
            ClientAnswer::Events(events) => self.events.extend(events),
            ClientAnswer::Longest(longest) => self.longest = Some(longest),
            ClientAnswer::Tallies(tallies) => self.tallies.extend(tallies),
            ClientAnswer::Entries(entries) => self.entries.extend(entries),
            ClientAnswer::Ahead(told) => self.ahead.push(told),
            ClientAnswer::Objects(objects) => self.objects.extend(objects),
            ClientAnswer::Cycles(cycles) => self.cycles.extend(cycles),
            ClientAnswer::Offer(_) => {}
        }
    }
}
