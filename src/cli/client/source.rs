//! The source of answers for commands that change nothing: usually the spool (schedd's database) if
//! the caller owns it, else schedd. schedd answers with the function that reads the spool here.

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

/// The maximum number of parts of an answer that are read ahead of the output.
const PARTS_AHEAD: usize = 4;

/// The time that the query of a list waits for slow output. Then the query ends, and the remaining
/// entries are queried later.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);

/// Where the answers of a command come from.
pub enum QuerySource {
    /// The caller's own spool, with or without schedd running.
    Spool(Box<SpoolReader>, Home),
    /// A connection to schedd.
    Schedd(Box<Client>),
    /// A personal installation without a spool: it has no jobs.
    Nothing(Home),
}

/// An answer assembled from all its parts.
#[derive(Debug)]
pub struct Answers {
    /// Server facts, such as the server's name and clock, with which ids and times are displayed.
    pub server: ServerFacts,
    /// Jobs, for a question with [`crate::wire::message::Detail::Row`].
    pub rows: Vec<JobRow>,
    /// Jobs, for a question with more detail.
    pub jobs: Vec<JobRecord>,
    /// Queues, for a question about queues.
    pub queues: Vec<QueueCounts>,
    /// Nodes, for a question about nodes.
    pub nodes: Vec<NodeRecord>,
    /// Reservations, for a question about reservations.
    pub reservations: Vec<Reservation>,
    /// Events, for a question about the events of a job.
    pub events: Vec<(Time, Event)>,
    /// Upper bound for the number of characters of the job ids; None if the answer has no bound.
    pub longest: Option<u32>,
    /// Totals, for a question about totals of accounting entries.
    pub tallies: Vec<RequestTotals>,
    /// Accounting entries, for a question about them.
    pub entries: Vec<AccountingEntry>,
    /// The answers of the scheduler, for a [`Question::Ahead`].
    pub ahead: Vec<ForecastAnswer>,
    /// Configured objects, for a question about them.
    pub objects: Vec<Described>,
    /// Scheduling cycles, for a question about them.
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
    /// Opens the caller's own spool if it is on a local file system; otherwise connects to schedd.
    /// Returns [`QuerySource::Nothing`] for a personal installation without a spool.
    pub fn open(home: &Home) -> anyhow::Result<QuerySource> {
        if is_own(home) && filesystem::network(&home.spool())?.is_none() {
            let file = spool::file(home);
            match SpoolReader::open(&file) {
                Ok(Some(reader)) => return Ok(QuerySource::Spool(Box::new(reader), home.clone())),
                Ok(None) => {}
                Err(error) => {
                    // On a full disk, SQLite cannot create the shared-memory file (-shm) of the
                    // database. A running schedd can still answer.
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

    /// Sends a question and returns the complete answer.
    pub fn ask(&mut self, question: &Question) -> anyhow::Result<Answers> {
        let mut answers = Answers::empty();
        self.parts(question, &mut |part| {
            answers.add(part);
            Continue::Wanted
        })?;
        Ok(answers)
    }

    /// Sends a question and passes each part of the answer to `each`, until `each` returns
    /// [`Continue::Enough`]. The first part contains the server facts. While `each` processes a
    /// part, another thread reads the next parts.
    pub fn parts(
        &mut self,
        question: &Question,
        each: &mut dyn FnMut(ClientAnswer) -> Continue,
    ) -> anyhow::Result<()> {
        thread::scope(|scope| {
            let (sender, parts) = mpsc::channel();
            let (permit, permits) = mpsc::channel();
            // If `send` fails, the reading thread has ended, which is harmless.
            for _ in 0..PARTS_AHEAD {
                let _ = permit.send(());
            }
            let reading = scope.spawn(move || self.read(question, &PartSender { sender, permits }));
            for part in &parts {
                if each(part) == Continue::Enough {
                    break;
                }
                let _ = permit.send(());
            }
            drop((parts, permit));
            reading
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Reads the answer completely, or until the receiver closes. If output is slow, as in a pager,
    /// the query of a list ends, and the remaining entries are queried later, because SQLite cannot
    /// checkpoint its log during a long query.
    fn read(&mut self, question: &Question, sender: &PartSender) -> anyhow::Result<()> {
        let mut rest = question.clone();
        loop {
            let is_rest = rest != *question;
            let (mut last, mut unsent) = (None, None);
            self.ask_once(&rest, &mut |part| {
                if is_rest && matches!(part, ClientAnswer::Server(_) | ClientAnswer::Longest(_)) {
                    return Continue::Wanted;
                }
                last = last_id(&part).or(last);
                let timeout = if last.is_some() && is_list(question) {
                    OUTPUT_TIMEOUT
                } else {
                    Duration::MAX
                };
                match sender.send(part, timeout) {
                    SendResult::Sent => return Continue::Wanted,
                    SendResult::TimedOut(part) => unsent = Some(part),
                    SendResult::Closed => {}
                }
                Continue::Enough
            })?;
            let next = last.and_then(|last| rest.after(last));
            let sent = unsent.map(|part| sender.send(part, Duration::MAX));
            match (sent, next) {
                (Some(SendResult::Sent), Some(next)) => rest = next,
                _ => return Ok(()),
            }
            if let QuerySource::Schedd(client) = self {
                client.reconnect()?;
            }
        }
    }

    /// Switches to schedd if the spool cannot have the answer yet. Starts schedd if necessary. A
    /// personal installation without a spool has queues, and it gets nodes as soon as schedd has
    /// connected to noded. It has no jobs, so lists of jobs do not start schedd.
    fn prefer_schedd(&mut self, question: &Question) -> anyhow::Result<()> {
        let home = match self {
            QuerySource::Nothing(home) if !is_known_without_spool(question) => home,
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
        let mut is_enough = false;
        let result = match self {
            QuerySource::Nothing(home) => {
                each(ClientAnswer::Server(Box::new(ServerFacts {
                    name: configured_name(home),
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
                        is_enough = true;
                        Err(SpoolError::Io(ErrorKind::BrokenPipe.into()))
                    }
                })
            }
        };
        if is_enough { Ok(()) } else { Ok(result?) }
    }
}

/// Answers a question without starting schedd: from the caller's own spool, or from a running schedd
/// that answers within `patience`. None if there is no answer.
pub fn answer_without_start(
    home: &Home,
    question: &Question,
    patience: Duration,
) -> Option<Answers> {
    let mut answers = Answers::empty();
    if is_own(home) {
        let mut reader = SpoolReader::open(&spool::file(home)).ok()??;
        let each = &mut |part| {
            answers.add(part);
            Ok(())
        };
        reader.answer(question, Viewer::own(), each).ok()?;
    } else {
        let mut client = Client::reach(home).ok()?;
        client.set_timeout(patience);
        let each = |part| {
            answers.add(part);
            Continue::Wanted
        };
        client.ask(question, each).ok()?;
    }
    Some(answers)
}

/// The server name of this installation according to its configuration. Does not contact schedd.
pub fn configured_server_name() -> String {
    Home::find().map_or_else(|_| record::host(), |home| configured_name(&home))
}

/// The server name in `lanai.toml`, by default the host name. Errors in `lanai.toml` are ignored,
/// because schedd reports them when it starts.
fn configured_name(home: &Home) -> String {
    let text = std::fs::read_to_string(&home.config).unwrap_or_default();
    let name = Config::parse(&text)
        .ok()
        .and_then(|config| config.server.name);
    name.unwrap_or_else(record::host)
}

/// Whether the answer is known if the spool does not exist: no jobs, no accounting entries, or only
/// server facts.
fn is_known_without_spool(question: &Question) -> bool {
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

/// Whether the answer can be long. If output is slow, later queries continue such an answer.
fn is_list(question: &Question) -> bool {
    matches!(question, Question::Jobs(..) | Question::Elements(..))
}

/// The last job id in a part of an answer.
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

/// The channel from the thread that reads parts to the thread that prints them.
struct PartSender {
    sender: Sender<ClientAnswer>,
    /// Receives a permit for each part. A part is sent only after a permit has been received.
    permits: Receiver<()>,
}

/// The result of sending a part.
enum SendResult {
    Sent,
    /// The receiver was not ready in time. Contains the part, which was not sent.
    TimedOut(ClientAnswer),
    /// The receiver needs no more parts.
    Closed,
}

impl PartSender {
    /// Sends a part when the receiver is ready for it. Waits up to `timeout`.
    fn send(&self, part: ClientAnswer, timeout: Duration) -> SendResult {
        match self.permits.recv_timeout(timeout) {
            Err(RecvTimeoutError::Timeout) => SendResult::TimedOut(part),
            Err(RecvTimeoutError::Disconnected) => SendResult::Closed,
            Ok(()) if self.sender.send(part).is_ok() => SendResult::Sent,
            Ok(()) => SendResult::Closed,
        }
    }
}

/// Whether the spool belongs to this user. Other users cannot read it.
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

    /// Adds a part of an answer.
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
            ClientAnswer::Ahead(answer) => self.ahead.push(answer),
            ClientAnswer::Objects(objects) => self.objects.extend(objects),
            ClientAnswer::Cycles(cycles) => self.cycles.extend(cycles),
            ClientAnswer::Offer(_) => {}
        }
    }
}
