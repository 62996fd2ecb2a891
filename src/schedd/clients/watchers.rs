//! Clients that wait for changes of jobs ([`crate::wire::message::ClientRequest::Watch`]).
//!
//! Changes are numbered, and each answer contains the number of the latest change. A client that
//! reads the jobs and then waits for changes after this number misses no change. After a restart of
//! schedd the numbers are higher than before; so each client is answered at once and reads the jobs
//! again. Changes are kept only while clients watch, and for a short time after the last watch.

use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::server::effects::Token;
use crate::wire::message::{Reply, WatchedJobs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of changes that are kept for clients between two watches.
const MAX_CHANGES: usize = 4096;
/// A watch that names more jobs than this reports changes of all jobs.
const MAX_JOBS: usize = 1000;
/// Maximum number of watches per user.
const MAX_PER_USER: usize = 100;
/// Delay of the answer to a watch of several jobs. Changes during the delay share one answer.
const ANSWER_DELAY: Span = Span(50);
/// How long changes are kept after the last watch.
const RETENTION: Span = Span::seconds(60);

/// All watching clients.
#[derive(Debug)]
pub struct Watchers {
    open: BTreeMap<Token, Watcher>,
    /// Number of the latest change.
    count: u64,
    /// The latest changes, oldest first.
    recent: VecDeque<WatchedChange>,
    /// The number of the latest change that is no longer kept.
    forgotten: u64,
    /// When to drop the kept changes and to stop recording changes; None while none are recorded.
    until: Option<Span>,
}

#[derive(Debug)]
struct Watcher {
    scope: Scope,
    uid: u32,
    /// When to answer; None until a watched job or the reasons of any jobs change.
    due: Option<Span>,
}

#[derive(Debug)]
enum Scope {
    /// Jobs and arrays with these numbers.
    Jobs(BTreeSet<u64>),
    /// The jobs of the user with this uid.
    Owner(u32),
    Any,
}

/// A change of a job (with its number and its owner's uid), or a change of the reasons why jobs
/// wait.
#[derive(Clone, Copy, Debug)]
enum WatchedChange {
    Job { number: u64, uid: u32 },
    Reasons,
}

impl Scope {
    fn of(watched: &WatchedJobs, uid: u32) -> Scope {
        match watched {
            WatchedJobs::Mine => Scope::Owner(uid),
            WatchedJobs::Jobs(ids) if ids.len() <= MAX_JOBS => {
                Scope::Jobs(ids.iter().map(|id: &JobId| id.number).collect())
            }
            WatchedJobs::Jobs(_) | WatchedJobs::Any => Scope::Any,
        }
    }

    fn matches(&self, change: WatchedChange) -> bool {
        match (self, change) {
            (Scope::Any, _) | (_, WatchedChange::Reasons) => true,
            (Scope::Jobs(numbers), WatchedChange::Job { number, .. }) => numbers.contains(&number),
            (Scope::Owner(owner), WatchedChange::Job { uid, .. }) => *owner == uid,
        }
    }

    /// The delay before an answer. A watch of a single job has no delay, because often a user waits
    /// for the start of this job.
    fn delay(&self) -> Span {
        match self {
            Scope::Jobs(numbers) if numbers.len() == 1 => Span(0),
            _ => ANSWER_DELAY,
        }
    }
}

impl Watchers {
    /// Starts without watches. Changes get higher numbers than under earlier schedds, which had a
    /// lower epoch (a number that grows with each start).
    pub fn new(epoch: u64) -> Watchers {
        let count = epoch << 40;
        Watchers {
            open: BTreeMap::new(),
            count,
            recent: VecDeque::new(),
            forgotten: count,
            until: None,
        }
    }

    /// Adds a watch for changes with numbers above `since`. If such a change has happened already,
    /// or if it is not known whether one has happened, returns the answer at once. If the user has
    /// too many watches, returns a refusal.
    pub fn open(
        &mut self,
        token: Token,
        uid: u32,
        watched: &WatchedJobs,
        since: u64,
        now: Span,
    ) -> Option<Reply> {
        if self.until.is_none() {
            // No changes were recorded while there were no watches, so assume one.
            self.count += 1;
            self.forgotten = self.count;
        }
        self.until = Some(now + RETENTION);
        let scope = Scope::of(watched, uid);
        if since < self.forgotten
            || since > self.count
            || self.since(since).any(|change| scope.matches(change))
        {
            self.open.remove(&token);
            return Some(Reply::Changed { seen: self.count });
        }
        let own = self
            .open
            .values()
            .filter(|watcher| watcher.uid == uid)
            .count();
        if own >= MAX_PER_USER {
            return Some(Reply::Refused(Refusal::spool(
                "too many of your commands watch jobs; end some of them",
            )));
        }
        self.open.insert(
            token,
            Watcher {
                scope,
                uid,
                due: None,
            },
        );
        None
    }

    /// The kept changes with higher numbers than `number`.
    fn since(&self, number: u64) -> impl Iterator<Item = WatchedChange> {
        let newer = usize::try_from(self.count - number)
            .unwrap_or(usize::MAX)
            .min(self.recent.len());
        self.recent.range(self.recent.len() - newer..).copied()
    }

    /// Records committed changes of these jobs.
    pub fn note_jobs<'a>(&mut self, jobs: impl Iterator<Item = &'a Job>, now: Span) {
        if self.until.is_some() {
            jobs.for_each(|job| {
                self.note(
                    WatchedChange::Job {
                        number: job.id.number,
                        uid: job.owner.uid,
                    },
                    now,
                )
            });
        }
    }

    /// Records a committed change of the reasons why jobs wait.
    pub fn note_reasons(&mut self, now: Span) {
        if self.until.is_some() {
            self.note(WatchedChange::Reasons, now);
        }
    }

    fn note(&mut self, change: WatchedChange, now: Span) {
        self.count += 1;
        self.recent.push_back(change);
        if self.recent.len() > MAX_CHANGES {
            self.recent.pop_front();
            self.forgotten = self.count - MAX_CHANGES as u64;
        }
        for watcher in self
            .open
            .values_mut()
            .filter(|watcher| watcher.due.is_none() && watcher.scope.matches(change))
        {
            watcher.due = Some(now + watcher.scope.delay());
        }
    }

    /// When the next answer is due.
    pub fn next(&self) -> Option<Span> {
        self.open.values().filter_map(|watcher| watcher.due).min()
    }

    /// Removes the watches with an answer that is due, and returns these answers.
    pub fn answers(&mut self, now: Span) -> Vec<(Token, Reply)> {
        let mut answers = Vec::new();
        self.open.retain(|&token, watcher| {
            let is_due = watcher.due.is_some_and(|due| due <= now);
            if is_due {
                answers.push((token, Reply::Changed { seen: self.count }));
            }
            !is_due
        });
        answers
    }

    /// Removes the watches of disconnected clients and, some time after the last watch, all
    /// changes.
    pub fn expire(&mut self, now: Span, is_connected: impl Fn(Token) -> bool) {
        self.open.retain(|&token, _| is_connected(token));
        if !self.open.is_empty() {
            self.until = Some(now + RETENTION);
        }
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.recent = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Span = Span(1000);

    fn job(number: u64) -> WatchedJobs {
        WatchedJobs::Jobs(vec![JobId::element(number, 3)])
    }

    fn seen(reply: Option<Reply>) -> u64 {
        match reply {
            Some(Reply::Changed { seen }) => seen,
            other => panic!("{other:?}"),
        }
    }

    fn answered(watchers: &mut Watchers, now: Span) -> Vec<Token> {
        watchers
            .answers(now)
            .into_iter()
            .map(|(token, _)| token)
            .collect()
    }

    #[test]
    fn the_first_watch_is_answered_at_once_and_the_next_after_a_change() {
        let mut watchers = Watchers::new(3);
        let since = seen(watchers.open(1, 10, &job(5), 0, NOW));
        assert!(watchers.open(1, 10, &job(5), since, NOW).is_none());
        watchers.note(WatchedChange::Job { number: 6, uid: 10 }, NOW);
        assert_eq!(watchers.next(), None);
        watchers.note(WatchedChange::Job { number: 5, uid: 11 }, NOW);
        assert_eq!(answered(&mut watchers, NOW), [1]);
        assert!(answered(&mut watchers, NOW).is_empty());
    }

    #[test]
    fn changes_between_two_watches_are_not_missed() {
        let mut watchers = Watchers::new(3);
        let since = seen(watchers.open(1, 10, &WatchedJobs::Mine, 0, NOW));
        watchers.note(WatchedChange::Job { number: 6, uid: 11 }, NOW);
        assert!(
            watchers
                .open(1, 10, &WatchedJobs::Mine, since, NOW)
                .is_none()
        );
        watchers.note(WatchedChange::Job { number: 6, uid: 10 }, NOW);
        watchers.open.clear();
        let later = seen(watchers.open(1, 10, &WatchedJobs::Mine, since, NOW));
        assert!(
            later > since
                && watchers
                    .open(1, 10, &WatchedJobs::Mine, later, NOW)
                    .is_none()
        );
    }

    #[test]
    fn changes_at_the_same_time_cause_one_answer() {
        let mut watchers = Watchers::new(3);
        let since = seen(watchers.open(1, 10, &WatchedJobs::Any, 0, NOW));
        watchers.open(1, 10, &WatchedJobs::Any, since, NOW);
        (0..100).for_each(|number| watchers.note(WatchedChange::Job { number, uid: 9 }, NOW));
        assert!(answered(&mut watchers, NOW).is_empty());
        assert_eq!(watchers.next(), Some(NOW + ANSWER_DELAY));
        assert_eq!(answered(&mut watchers, NOW + ANSWER_DELAY), [1]);
    }

    #[test]
    fn a_watch_with_a_number_that_is_too_old_or_of_another_schedd_is_answered_at_once() {
        let mut watchers = Watchers::new(3);
        let since = seen(watchers.open(1, 10, &job(5), 0, NOW));
        (0..=MAX_CHANGES as u64)
            .for_each(|_| watchers.note(WatchedChange::Job { number: 6, uid: 10 }, NOW));
        assert!(watchers.recent.len() <= MAX_CHANGES);
        let now = seen(watchers.open(1, 10, &job(5), since, NOW));
        assert!(watchers.open(1, 10, &job(5), now, NOW).is_none());
        let mut next = Watchers::new(4);
        assert!(seen(next.open(1, 10, &job(5), now, NOW)) > now);
    }

    #[test]
    fn without_watches_no_changes_are_kept_and_the_next_watch_is_answered_at_once() {
        let mut watchers = Watchers::new(3);
        watchers.note_reasons(NOW);
        let since = seen(watchers.open(1, 10, &job(5), 0, NOW));
        watchers.expire(NOW + RETENTION, |_| false);
        watchers.note_reasons(NOW + RETENTION);
        assert!(watchers.recent.is_empty() && watchers.until.is_none());
        seen(watchers.open(1, 10, &job(5), since, NOW + RETENTION));
    }

    #[test]
    fn watches_are_limited_per_user() {
        let mut watchers = Watchers::new(3);
        let since = seen(watchers.open(0, 10, &WatchedJobs::Any, 0, NOW));
        (0..MAX_PER_USER as u64).for_each(|token| {
            assert!(
                watchers
                    .open(token, 10, &WatchedJobs::Any, since, NOW)
                    .is_none()
            )
        });
        assert!(matches!(
            watchers.open(1000, 10, &WatchedJobs::Any, since, NOW),
            Some(Reply::Refused(_))
        ));
        assert!(
            watchers
                .open(1001, 11, &WatchedJobs::Any, since, NOW)
                .is_none()
        );
        watchers.expire(NOW, |token| token == 1001);
        assert_eq!(watchers.open.len(), 1);
    }
}
