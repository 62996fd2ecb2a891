//! The attempts on this host: orders and events.
//!
//! noded keeps an attempt from the first order about it until schedd confirms its end. Then noded
//! forgets the attempt, even its number. noded then accepts orders only from the schedd that
//! confirmed the end, or from a schedd with a higher epoch (a number that grows with each start of
//! schedd). Both have the end on disk, so neither starts the attempt again.

mod launches;
mod stopping;

use super::adopt::{self, AdoptedAttempt};
use super::control::{Cancel, Control};
use super::folder::{self, AttemptName, Folder};
use super::hollow::Hollow;
use super::poller::{PollSource, Poller};
use super::site::Site;
use super::spawner::{LaunchLock, Spawner};
use super::spawner_messages::{self, SpawnerMessage};
use super::terminal::TerminalConnection;
use crate::model::job::{Attempt, AttemptOutcome, How, TaskNumber, Usage, attempt};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::sys::{cgroup, clock};
use crate::wire::order::{AttemptStatus, Launch, NodeReport};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use tracing::{error, info, warn};

/// Maximum number of orders kept for a shepherd that cannot be reached yet. Further orders are
/// dropped.
const MAX_KEPT_ORDERS: usize = 16;

/// Time limit for a shepherd to end after its job was deleted by force. Then noded kills the
/// shepherd.
const FORCE_TIMEOUT: Span = Span::seconds(10);

/// All attempts, and the spawner that starts them.
#[derive(Debug)]
pub struct Attempts {
    site: Site,
    runner: Runner,
    entries: BTreeMap<AttemptName, AttemptEntry>,
    /// Launches not yet sent to the spawner, oldest first.
    unsent: VecDeque<AttemptName>,
    /// Launches that were sent to a spawner that has ended, until it is known whether they began.
    /// The key is the number of the spawner's poll source.
    in_doubt: BTreeMap<u64, Vec<AttemptName>>,
    /// When noded checks next whether orders to suspend or resume are carried out, and the delay
    /// before that check.
    pending_check: Option<(Span, Span)>,
    /// Whether the spawner's socket is full and polled for writing.
    awaits_spawner: bool,
    /// Reports to send to schedd.
    reports: Vec<NodeReport>,
}

#[derive(Debug)]
enum Runner {
    Spawner(Spawner, LaunchLock),
    Hollow(Hollow),
}

/// The state of one attempt.
#[derive(Debug)]
struct AttemptEntry {
    status: AttemptStatus,
    /// The launch in the spawner's format, until the job is known to run or to have ended.
    launch: Option<Vec<u8>>,
    /// Orders that the shepherd has not received yet.
    kept: Vec<Control>,
    used: Usage,
    /// The poll source that reports the shepherd's end, if noded watches the shepherd.
    watched: Option<PollSource>,
    /// The ordered state until the shepherd confirms it: suspended (true) or running (false).
    ordered_suspended: Option<bool>,
    /// When noded kills the shepherd, if the job was deleted by force.
    kill_at: Option<Span>,
}

impl AttemptEntry {
    fn new(status: AttemptStatus) -> AttemptEntry {
        AttemptEntry {
            status,
            launch: None,
            kept: Vec::new(),
            used: Usage::default(),
            watched: None,
            ordered_suspended: None,
            kill_at: None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.status, AttemptStatus::Ended(_))
    }
}

impl Attempts {
    /// Forks the spawner, which is a copy of noded. Call this before noded opens further files.
    pub fn new(site: Site, launch_lock: LaunchLock) -> io::Result<Attempts> {
        let spawner = Spawner::start(&site, &launch_lock)?;
        Ok(Attempts::with(site, Runner::Spawner(spawner, launch_lock)))
    }

    /// Attempts of hollow nodes.
    pub fn hollow(site: Site) -> Attempts {
        Attempts::with(site, Runner::Hollow(Hollow::default()))
    }

    fn with(site: Site, runner: Runner) -> Attempts {
        Attempts {
            site,
            runner,
            entries: BTreeMap::new(),
            unsent: VecDeque::new(),
            in_doubt: BTreeMap::new(),
            pending_check: None,
            awaits_spawner: false,
            reports: Vec::new(),
        }
    }

    /// Removes cgroups that earlier shepherds left behind.
    pub fn tidy(&self) {
        if let Some(parent) = &self.site.cgroup {
            cgroup::tidy(parent);
        }
    }

    /// Reads the attempts of an earlier noded from the state directory: attempts that run under
    /// their shepherds, have ended, were lost or were canceled.
    pub fn adopt(&mut self, poller: &mut Poller) -> io::Result<()> {
        self.watch_spawner(poller)?;
        for name in folder::names(&folder::attempts(&self.site.state))? {
            self.entries
                .insert(name, AttemptEntry::new(AttemptStatus::Starting));
            self.examine(name, poller);
        }
        for name in folder::names(&folder::tombstones(&self.site.state))? {
            match self.entries.get(&name) {
                None => drop(self.entries.insert(
                    name,
                    AttemptEntry::new(AttemptStatus::Ended(AttemptOutcome::new(How::Cancelled))),
                )),
                // The earlier noded may have died after it wrote the tombstone, and before it
                // passed the order to the shepherd.
                Some(_) => self.cancel(
                    name,
                    folder::read_tombstone(&self.site.state, name).unwrap_or_default(),
                ),
            }
        }
        let running = self
            .entries
            .values()
            .filter(|entry| !entry.has_ended())
            .count();
        info!(
            "attempts found: {}, of which running: {running}",
            self.entries.len()
        );
        self.reports.clear();
        Ok(())
    }

    // ------------------------------------------------------------------------------- orders

    /// Starts an attempt. A known attempt is only reported. An attempt below the highest known
    /// attempt of its job is refused.
    pub fn start(&mut self, launch: &Launch, poller: &mut Poller) {
        let name = AttemptName::of(launch);
        if self.entries.contains_key(&name) {
            return self.report(name);
        }
        if let Some(highest) = self.higher_attempt(name) {
            return warn!(
                "refused to start attempt {name}: the later attempt {highest} of the job is known"
            );
        }
        self.entries
            .insert(name, AttemptEntry::new(AttemptStatus::Starting));
        if let Err(why) = check_launch(launch) {
            return self.set_ended(name, AttemptOutcome::new(How::NodeFault(why)));
        }
        if let Runner::Hollow(hollow) = &mut self.runner {
            hollow.start(launch, clock::monotonic());
            return self.set_status(name, AttemptStatus::Running(1));
        }
        match postcard::to_stdvec(launch) {
            Ok(bytes) => {
                self.entry(name, |entry| entry.launch = Some(bytes));
                self.unsent.push_back(name);
                self.send_launches(poller);
            }
            Err(e) => self.set_ended(
                name,
                AttemptOutcome::new(How::NodeFault(format!("cannot encode the launch: {e}"))),
            ),
        }
    }

    /// Ends an attempt that has not ended or is unknown, after writing its tombstone (a file that
    /// marks the attempt as canceled). An attempt that has ended is only reported. An unknown
    /// attempt below the highest known attempt of its job is refused.
    pub fn cancel(&mut self, name: AttemptName, cancel: Cancel) {
        match self.entries.get(&name).map(AttemptEntry::has_ended) {
            Some(true) => return self.report(name),
            None if self.higher_attempt(name).is_some() => {
                return warn!(
                    "refused to cancel attempt {name}: a later attempt of the job is known"
                );
            }
            _ => {}
        }
        if let Err(e) = folder::write_tombstone(&self.site.state, name, cancel) {
            error!("cannot write the tombstone of attempt {name}: {e}");
        }
        if let Runner::Hollow(hollow) = &mut self.runner {
            let ended = hollow
                .cancel(name, clock::monotonic())
                .unwrap_or_else(|| AttemptOutcome::new(How::Cancelled));
            return self.set_ended(name, ended);
        }
        let unsent = self.unsent.len();
        self.unsent.retain(|waiting| *waiting != name);
        if self.unsent.len() < unsent || !self.entries.contains_key(&name) {
            return self.set_ended(name, AttemptOutcome::new(How::Cancelled));
        }
        if cancel.is_forced() {
            let kill_at = clock::monotonic() + FORCE_TIMEOUT;
            self.entry(name, |entry| {
                entry.kill_at = entry.kill_at.or(Some(kill_at))
            });
        }
        self.send_order(name, Control::Cancel(cancel));
    }

    /// Passes an order to the shepherd of an attempt that has not ended. If the shepherd does not
    /// listen yet, the order is kept and sent later.
    pub fn send_order(&mut self, name: AttemptName, order: Control) {
        let Some(entry) = self
            .entries
            .get_mut(&name)
            .filter(|entry| !entry.has_ended())
        else {
            return;
        };
        match Folder::of(&self.site.state, name).order(&order) {
            Ok(()) => {}
            Err(_) if entry.kept.len() < MAX_KEPT_ORDERS => entry.kept.push(order),
            Err(e) => warn!("dropped an order: cannot reach the shepherd of attempt {name}: {e}"),
        }
    }

    /// Replaces the node file of an attempt that has not ended.
    pub fn replace_nodes(&mut self, name: AttemptName, nodes: &str) {
        if self.entries.get(&name).is_none_or(AttemptEntry::has_ended)
            || matches!(self.runner, Runner::Hollow(_))
        {
            return;
        }
        if let Err(e) = Folder::of(&self.site.state, name).replace_nodes(nodes) {
            warn!("cannot remove released nodes from the node file of attempt {name}: {e}");
        }
    }

    /// Connects to the terminal of an attempt that has not ended.
    pub fn connect_terminal(&self, name: AttemptName) -> io::Result<TerminalConnection> {
        match self.entries.get(&name).map(AttemptEntry::has_ended) {
            Some(false) => {
                TerminalConnection::connect_nonblocking(&Folder::of(&self.site.state, name))
            }
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("attempt {name} is not running"),
            )),
        }
    }

    /// The session of a running or suspended attempt; None for other attempts, and if the attempt
    /// is being canceled.
    pub fn session(&self, name: AttemptName) -> Option<u32> {
        if folder::read_tombstone(&self.site.state, name).is_some() {
            return None;
        }
        match self.entries.get(&name)?.status {
            AttemptStatus::Running(session) | AttemptStatus::Suspended(session) => Some(session),
            AttemptStatus::Starting | AttemptStatus::Ended(_) => None,
        }
    }

    /// The pids of the shepherds of attempts that have not ended.
    pub fn shepherds(&self) -> BTreeSet<i32> {
        let running = self.entries.iter().filter(|(_, entry)| !entry.has_ended());
        running
            .filter_map(|(&name, _)| Some(Folder::of(&self.site.state, name).identity().ok()?.pid))
            .collect()
    }

    /// Forgets an attempt and removes its records, because schedd has its end on disk. An attempt
    /// that has not ended is kept.
    pub fn confirm(&mut self, name: AttemptName) {
        match self.entries.get(&name).map(AttemptEntry::has_ended) {
            Some(false) => {
                return warn!("schedd confirmed the end of attempt {name}, which has not ended");
            }
            Some(true) => drop(self.entries.remove(&name)),
            None => {}
        }
        folder::remove_tombstone(&self.site.state, name);
        if let Err(e) = Folder::of(&self.site.state, name).remove() {
            error!("cannot remove the records of attempt {name}: {e}");
        }
    }

    // ------------------------------------------------------------------------------- events

    /// Handles messages of the spawner and its shepherds. Then sends launches for which the
    /// spawner's socket had no space.
    pub fn read_messages(&mut self, poller: &mut Poller) {
        while let Runner::Spawner(spawner, _) = &self.runner {
            let Some((message, passed)) = spawner.receive() else {
                break;
            };
            self.handle_message(message, passed, poller);
        }
        self.send_launches(poller);
    }

    /// Handles messages of the shepherds of a spawner that has ended.
    pub fn read_old_messages(&mut self, source: PollSource, poller: &mut Poller) {
        while let Some(socket) = poller.kept(source) {
            match spawner_messages::receive(socket) {
                Ok(Some((message, passed))) => self.handle_message(message, passed, poller),
                Ok(None) => return poller.forget(source),
                Err(_) => return,
            }
        }
    }

    fn handle_message(
        &mut self,
        message: SpawnerMessage,
        passed: Option<OwnedFd>,
        poller: &mut Poller,
    ) {
        match message {
            SpawnerMessage::Forked(name) => match passed {
                Some(ended) => self.watch_shepherd(name, ended, poller),
                None => {
                    warn!("cannot watch the shepherd of attempt {name}: no descriptor received")
                }
            },
            SpawnerMessage::Running(name, session) if self.is_starting(name) => {
                self.set_status(name, AttemptStatus::Running(session));
                self.send_kept_orders(name);
            }
            SpawnerMessage::Stopped(name, session, stopped) => {
                self.note_stopped(name, session, stopped)
            }
            SpawnerMessage::StagingOut(name) => self
                .reports
                .push(NodeReport::StagingOut(name.job, name.attempt)),
            SpawnerMessage::Failed(name, why) if self.is_starting(name) => {
                self.set_ended(name, AttemptOutcome::new(How::NodeFault(why)))
            }
            SpawnerMessage::Over(name) => self.examine(name, poller),
            SpawnerMessage::Unrecorded(name, outcome, why) => {
                self.keep_outcome(name, outcome, &why)
            }
            SpawnerMessage::LeftBehind(name, why) => warn!("attempt {name}: {why}"),
            SpawnerMessage::Running(..) | SpawnerMessage::Failed(..) => {}
        }
    }

    /// Reports an outcome that the shepherd could not record. Until schedd confirms the outcome, it
    /// is only in noded's memory.
    fn keep_outcome(&mut self, name: AttemptName, outcome: AttemptOutcome, why: &str) {
        if self.entries.get(&name).is_none_or(AttemptEntry::has_ended) {
            return;
        }
        let status = attempt::exit_status(&outcome);
        let status = status.map_or(String::new(), |status| format!(" (exit status {status})"));
        error!(
            "attempt {name}{status}: the outcome cannot be recorded on disk and is only sent to \
             schedd: {why}"
        );
        self.set_ended(name, outcome);
    }

    fn is_starting(&self, name: AttemptName) -> bool {
        self.entries
            .get(&name)
            .is_some_and(|entry| entry.status == AttemptStatus::Starting)
    }

    /// Handles the end of a shepherd of this attempt.
    pub fn shepherd_ended(&mut self, name: AttemptName, source: PollSource, poller: &mut Poller) {
        poller.forget(source);
        let watched = self
            .entries
            .get_mut(&name)
            .and_then(|entry| entry.watched.take_if(|known| *known == source));
        // Handle the last messages of the shepherd before handling its end.
        self.read_messages(poller);
        // After a repeated launch, ignore the end of the earlier shepherd.
        if watched.is_some() {
            self.examine(name, poller);
        }
    }

    /// Updates an attempt's status from its directory.
    fn examine(&mut self, name: AttemptName, poller: &mut Poller) {
        if self.entries.get(&name).is_none_or(AttemptEntry::has_ended) {
            return;
        }
        let folder = Folder::of(&self.site.state, name);
        if !folder.exists() {
            let why = "the shepherd ended before it recorded the attempt";
            return self.set_ended(name, AttemptOutcome::new(How::NodeFault(why.into())));
        }
        match adopt::find(&self.site, &folder) {
            AdoptedAttempt::Ended(outcome) => self.set_ended(name, outcome),
            AdoptedAttempt::Alive {
                ended,
                session,
                stopped,
            } => {
                self.watch_shepherd(name, ended, poller);
                match session {
                    Some(session) if self.is_starting(name) && !stopped => {
                        self.set_status(name, AttemptStatus::Running(session))
                    }
                    Some(session) => self.note_stopped(name, session, stopped),
                    None => {}
                }
            }
            AdoptedAttempt::Lost => {
                adopt::clear_up(&self.site, &folder);
                let used = folder.usage().unwrap_or_default();
                self.set_ended(
                    name,
                    AttemptOutcome {
                        how: How::ShepherdLost,
                        sent: None,
                        used,
                        notes: Vec::new(),
                        unfit: None,
                        on_its_own: false,
                    },
                );
            }
            AdoptedAttempt::Unknown(e) => {
                warn!("cannot read the state of attempt {name} and will try again: {e}")
            }
        }
    }

    fn watch_shepherd(&mut self, name: AttemptName, ended: OwnedFd, poller: &mut Poller) {
        let source = PollSource::Shepherd(name, poller.number());
        if let Some(entry) = self
            .entries
            .get_mut(&name)
            .filter(|entry| entry.watched.is_none())
        {
            match poller.keep(ended, source) {
                Ok(()) => entry.watched = Some(source),
                Err(e) => error!("cannot watch the shepherd of attempt {name}: {e}"),
            }
        }
        self.send_kept_orders(name);
    }

    /// Stops watching the shepherd of an attempt.
    fn unwatch(&mut self, name: AttemptName, poller: &mut Poller) {
        if let Some(source) = self
            .entries
            .get_mut(&name)
            .and_then(|entry| entry.watched.take())
        {
            poller.forget(source);
        }
    }

    /// Sends the orders that were kept because the shepherd did not listen. Orders that still
    /// cannot be sent are kept again.
    fn send_kept_orders(&mut self, name: AttemptName) {
        let kept = self
            .entries
            .get_mut(&name)
            .map(|entry| std::mem::take(&mut entry.kept));
        kept.into_iter()
            .flatten()
            .for_each(|order| self.send_order(name, order));
    }

    /// Examines started attempts without a watched shepherd.
    fn examine_unwatched(&mut self, poller: &mut Poller) {
        let mut begun = Vec::new();
        for (&name, entry) in &self.entries {
            let is_unwatched = !entry.has_ended() && entry.watched.is_none();
            if is_unwatched && Folder::of(&self.site.state, name).exists() {
                begun.push(name);
            }
        }
        for name in begun {
            self.examine(name, poller);
        }
    }

    // ------------------------------------------------------------------------------- time

    /// Ends the hollow jobs that are due.
    pub fn end_hollow_jobs(&mut self) {
        let Runner::Hollow(hollow) = &mut self.runner else {
            return;
        };
        let ended = hollow.end_due(clock::monotonic());
        ended
            .into_iter()
            .for_each(|(name, outcome)| self.set_ended(name, outcome));
    }

    /// When the next hollow job ends; None if no hollow job runs.
    pub fn next_end(&self) -> Option<Span> {
        match &self.runner {
            Runner::Hollow(hollow) => hollow.next(),
            Runner::Spawner(..) => None,
        }
    }

    /// Periodic check: reads the usage of running jobs, sends kept orders, and examines attempts
    /// with an unreported start or an unwatched shepherd. Kills the shepherds of jobs that were
    /// deleted by force and have not ended in time.
    pub fn check_all(&mut self, poller: &mut Poller) {
        let mut changed = Vec::new();
        let mut unreported = Vec::new();
        let mut with_orders = Vec::new();
        for (&name, entry) in self
            .entries
            .iter_mut()
            .filter(|(_, entry)| !entry.has_ended())
        {
            let folder = Folder::of(&self.site.state, name);
            if let Some(used) = folder.usage().filter(|used| *used != entry.used) {
                entry.used = used;
                changed.push((name.job, name.attempt, name.task, used));
            }
            if entry.status == AttemptStatus::Starting
                && let Ok(Some(trace)) = folder.trace()
                && trace.session().is_some()
            {
                unreported.push(name);
            }
            if !entry.kept.is_empty() {
                with_orders.push(name);
            }
        }
        if !changed.is_empty() {
            self.reports.push(NodeReport::Usage(changed));
        }
        with_orders
            .into_iter()
            .for_each(|name| self.send_kept_orders(name));
        unreported
            .into_iter()
            .for_each(|name| self.examine(name, poller));
        self.examine_unwatched(poller);
        self.kill_overdue();
    }

    /// Kills shepherds that have not ended in time after a deletion by force, for instance because
    /// of a stopped process or a hanging disk. The ends of these shepherds are then handled as
    /// usual.
    fn kill_overdue(&mut self) {
        let now = clock::monotonic();
        for (&name, entry) in &self.entries {
            if entry.has_ended() || entry.kill_at.is_none_or(|at| at > now) {
                continue;
            }
            match adopt::kill(&self.site, &Folder::of(&self.site.state, name)) {
                Ok(()) => warn!(
                    "killed the shepherd of attempt {name}: the job was deleted by force, but the \
                     shepherd did not end"
                ),
                Err(e) => warn!(
                    "cannot kill the shepherd of attempt {name} after the job was deleted by \
                     force: {e}"
                ),
            }
        }
    }

    // ------------------------------------------------------------------------------- reports

    /// The status of every attempt, except attempts with an end confirmed by schedd.
    pub fn statuses(&self) -> Vec<(JobId, Attempt, TaskNumber, AttemptStatus)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.job, name.attempt, name.task, entry.status.clone()))
            .collect()
    }

    /// Repeats the reports of unconfirmed ends.
    pub fn repeat_ends(&mut self) {
        let ended: Vec<AttemptName> = self
            .entries
            .iter()
            .filter(|(_, e)| e.has_ended())
            .map(|(&name, _)| name)
            .collect();
        ended.into_iter().for_each(|name| self.report(name));
    }

    /// Takes the reports for schedd.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    /// Whether all attempts have ended.
    pub fn is_idle(&self) -> bool {
        self.entries.values().all(AttemptEntry::has_ended)
    }

    fn set_ended(&mut self, name: AttemptName, outcome: AttemptOutcome) {
        self.set_status(name, AttemptStatus::Ended(outcome));
    }

    fn set_status(&mut self, name: AttemptName, status: AttemptStatus) {
        let entry = self
            .entries
            .entry(name)
            .or_insert_with(|| AttemptEntry::new(AttemptStatus::Starting));
        entry.status = status;
        entry.launch = None;
        self.report(name);
    }

    fn report(&mut self, name: AttemptName) {
        if let Some(entry) = self.entries.get(&name) {
            self.reports.push(NodeReport::Attempt(
                name.job,
                name.attempt,
                name.task,
                entry.status.clone(),
            ));
        }
    }

    fn entry(&mut self, name: AttemptName, change: impl FnOnce(&mut AttemptEntry)) {
        self.entries.get_mut(&name).map(change);
    }

    /// The number of the job's highest known attempt; None if it is not above the attempt of
    /// `name`.
    fn higher_attempt(&self, name: AttemptName) -> Option<Attempt> {
        let highest = AttemptName {
            attempt: Attempt::MAX,
            task: TaskNumber::MAX,
            ..name
        };
        let known = self.entries.range(name..=highest).next_back()?;
        Some(known.0.attempt).filter(|&attempt| attempt > name.attempt)
    }
}

/// Refuses a launch without nodes, or with a job id that is no plain file name.
fn check_launch(launch: &Launch) -> Result<(), String> {
    let id = &launch.full_id;
    if id.is_empty() || id.len() > 200 || id.starts_with('.') || id.contains(['/', '\0']) {
        return Err(format!("the job id {id:?} cannot be part of a file name"));
    }
    if launch.shares.is_empty() {
        return Err("the launch contains no node".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
