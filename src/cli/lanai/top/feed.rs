//! The thread that reads the jobs and nodes when schedd reports a change. Changes in quick
//! succession share a refresh.

use super::pace::RefreshPace;
use super::state::Snapshot;
use super::tasks::TaskResult;
use crate::cli::client::exit::Failure;
use crate::cli::client::source::QuerySource;
use crate::model::account::accounting::AccountingFilter;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time, Wall};
use crate::sys::clock;
use crate::sys::home::Home;
use crate::sys::pipe::{self, WakeupReceiver, WakeupSender};
use crate::wire::client::Client;
use crate::wire::message::{
    Arrays, ClientRequest, Detail, Filter, JobRecord, Question, WatchedJobs,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;

/// How long finished jobs are displayed.
const KEPT: Span = Span::seconds(3600);

/// Maximum number of displayed finished jobs.
const MOST_FINISHED: usize = 200;

/// The delay before the next attempt to connect to schedd, in milliseconds.
const RETRY: u16 = 1000;

/// A message to the thread that draws.
pub enum Event {
    /// New data.
    Snapshot(Box<Snapshot>),
    /// There are no current data, for this reason.
    Offline(String),
    /// A background task has finished.
    Done(TaskResult),
}

/// Sends events to the thread that draws, and wakes it.
#[derive(Clone)]
pub struct EventSender {
    sender: Sender<Event>,
    bell: Arc<WakeupSender>,
}

impl EventSender {
    /// The sender for a receiver that polls the other end of `bell`.
    pub fn new(sender: Sender<Event>, bell: WakeupSender) -> EventSender {
        EventSender {
            sender,
            bell: Arc::new(bell),
        }
    }

    /// Sends an event. If the receiver has ended, so does the program.
    pub fn send(&self, event: Event) {
        let _ = self.sender.send(event);
        self.bell.ring();
    }
}

/// The requested data.
#[derive(Debug, Default)]
struct Scope {
    /// True for the jobs of all users.
    all: AtomicBool,
    /// True if the running subjobs of arrays are required.
    subjobs: AtomicBool,
}

/// The running thread.
pub struct Feed {
    scope: Arc<Scope>,
    bell: WakeupSender,
}

impl Feed {
    /// Starts the thread.
    pub fn start(home: Home, user: String, all: bool, sender: EventSender) -> io::Result<Feed> {
        let (bell, wakeups) = pipe::bell()?;
        let scope = Arc::new(Scope::default());
        scope.all.store(all, Ordering::Relaxed);
        let mut reader = Reader {
            home,
            user,
            scope: scope.clone(),
            wakeups,
            sender,
            pace: RefreshPace::default(),
            live: BTreeSet::new(),
            finished: BTreeMap::new(),
        };
        thread::spawn(move || reader.run());
        Ok(Feed { scope, bell })
    }

    /// Sets the requested data.
    pub fn request(&self, all: bool, subjobs: bool) {
        let had_all = self.scope.all.swap(all, Ordering::Relaxed);
        let had_subjobs = self.scope.subjobs.swap(subjobs, Ordering::Relaxed);
        if all != had_all || (subjobs && !had_subjobs) {
            self.bell.ring();
        }
    }
}

struct Reader {
    home: Home,
    user: String,
    scope: Arc<Scope>,
    wakeups: WakeupReceiver,
    sender: EventSender,
    pace: RefreshPace,
    /// The unfinished jobs of the last refresh.
    live: BTreeSet<JobId>,
    /// Jobs that finished recently.
    finished: BTreeMap<JobId, JobRecord>,
}

impl Reader {
    fn run(&mut self) {
        loop {
            if let Err(failure) = self.follow() {
                self.sender.send(Event::Offline(failure.text));
                self.is_woken(None, PollTimeout::from(RETRY));
            }
            self.wakeups.clear_wakeups();
        }
    }

    /// Refreshes the data after each change, until the requested data change or schedd does not
    /// respond.
    fn follow(&mut self) -> Result<(), Failure> {
        self.live.clear();
        self.finished.clear();
        let mut client = Client::connect(&self.home)?;
        let mut source = QuerySource::open(&self.home)?;
        let all = self.scope.all.load(Ordering::Relaxed);
        let of = if all {
            WatchedJobs::Any
        } else {
            WatchedJobs::Mine
        };
        let (mut seen, mut is_first) = (0, true);
        loop {
            // Changes are requested before the query, so that a change during the query is
            // reported.
            client.begin(&ClientRequest::Watch {
                of: of.clone(),
                since: seen,
            })?;
            if self.is_woken(Some(client.stream().as_fd()), PollTimeout::NONE) {
                return Ok(());
            }
            seen = client.changed()?;
            if !is_first && self.is_woken_in_pause() {
                return Ok(());
            }
            self.pace
                .begin(clock::monotonic_micros(), clock::processor_micros());
            let snapshot = self.read(&mut source, all, is_first)?;
            self.sender.send(Event::Snapshot(Box::new(snapshot)));
            is_first = false;
        }
    }

    /// Waits until `other` is readable, the time has passed, or the requested data change. Returns
    /// whether the requested data have changed.
    fn is_woken(&self, other: Option<BorrowedFd>, timeout: PollTimeout) -> bool {
        let mut fds: Vec<PollFd> = std::iter::once(self.wakeups.as_fd())
            .chain(other)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        poll(&mut fds, timeout).is_ok() && fds[0].any() == Some(true)
    }

    /// Waits until the next refresh may begin. Returns whether the requested data have changed.
    fn is_woken_in_pause(&self) -> bool {
        loop {
            let earliest = self.pace.earliest(clock::processor_micros());
            let left = earliest.saturating_sub(clock::monotonic_micros());
            if left == 0 {
                return false;
            }
            let milliseconds = u16::try_from(left.div_ceil(1000)).unwrap_or(u16::MAX);
            if self.is_woken(None, PollTimeout::from(milliseconds)) {
                return true;
            }
        }
    }

    fn read(
        &mut self,
        source: &mut QuerySource,
        all: bool,
        is_first: bool,
    ) -> Result<Snapshot, Failure> {
        let owners = if all {
            Vec::new()
        } else {
            vec![self.user.clone()]
        };
        let filter = Filter {
            owners,
            ..Filter::default()
        };
        let answers = source.ask(&Question::Jobs(filter.clone(), Detail::Whole))?;
        let nodes = source.ask(&Question::Nodes)?.nodes;
        let live: BTreeSet<JobId> = answers.jobs.iter().map(|record| record.job.id).collect();
        let ended = if is_first {
            recently_finished(source, &filter.owners)
        } else {
            self.live.difference(&live).copied().collect()
        };
        self.live = live;
        self.add_finished(source, ended, answers.server.now)?;
        let mut jobs = answers.jobs;
        let needs_subjobs = self.scope.subjobs.load(Ordering::Relaxed)
            && jobs.iter().any(|record| record.job.id.is_array());
        let subjobs = if needs_subjobs {
            let filter = Filter {
                states: vec![JobState::Running],
                arrays: Arrays::ElementsOnly,
                ..filter
            };
            source.ask(&Question::Jobs(filter, Detail::Whole))?.jobs
        } else {
            Vec::new()
        };
        jobs.extend(self.finished.values().cloned());
        Ok(Snapshot {
            server: answers.server,
            jobs,
            subjobs,
            nodes,
        })
    }

    /// Adds the jobs that have ended since the last refresh, and removes old ones.
    fn add_finished(
        &mut self,
        source: &mut QuerySource,
        ended: Vec<JobId>,
        now: Time,
    ) -> Result<(), Failure> {
        if !ended.is_empty() {
            let question = Question::JobsById(ended, Detail::Whole);
            for record in source.ask(&question)?.jobs {
                if record.job.life.state == JobState::Finished {
                    self.finished.insert(record.job.id, record);
                }
            }
        }
        let end = |record: &JobRecord| record.job.life.obittime.unwrap_or_default();
        let live = &self.live;
        self.finished
            .retain(|id, record| !live.contains(id) && end(record) + KEPT > now);
        while self.finished.len() > MOST_FINISHED {
            let oldest = self
                .finished
                .values()
                .min_by_key(|record| end(record))
                .map(|record| record.job.id);
            oldest.and_then(|id| self.finished.remove(&id));
        }
        Ok(())
    }
}

/// The jobs that finished in the last hour, according to their accounting entries. Empty if the
/// entries cannot be read.
fn recently_finished(source: &mut QuerySource, owners: &[String]) -> Vec<JobId> {
    let filter = AccountingFilter {
        users: owners.to_vec(),
        from: Some(Wall(clock::wall().0 - KEPT.as_seconds())),
        ..AccountingFilter::default()
    };
    let question = Question::Entries(Box::new(filter), Vec::new());
    let Ok(answers) = source.ask(&question) else {
        return Vec::new();
    };
    let mut ends: Vec<(i64, JobId)> = answers
        .entries
        .iter()
        .filter(|entry| entry.end.is_some())
        .map(|entry| (entry.stamps.ended, entry.job.parent().unwrap_or(entry.job)))
        .collect();
    ends.sort_unstable();
    let latest = ends.len().saturating_sub(MOST_FINISHED);
    let ids: BTreeSet<JobId> = ends[latest..].iter().map(|(_, id)| *id).collect();
    ids.into_iter().collect()
}
