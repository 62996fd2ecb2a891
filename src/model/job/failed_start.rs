//! Failed starts (M10). After a failed start, a job is first tried on other hosts without a pause,
//! and then on any host after a pause.

use super::life::EventContext;
use super::state::Holds;
use super::{Job, Life};
use crate::model::time::{Span, Time};
use std::collections::BTreeSet;

/// Number of other hosts that a job tries before a pause that applies to all hosts. The number is
/// small, because further attempts would also fail if the cause affects all hosts, such as an
/// unreachable file server.
const HOSTS_TO_TRY: u32 = 2;

impl Life {
    /// Returns the hosts on which the job may not start until `not_before`; None if `not_before`
    /// applies to all hosts, or if no host has failed.
    pub fn avoided_hosts(&self) -> Option<&BTreeSet<String>> {
        Some(&self.failed_hosts).filter(|hosts| self.hosts_to_try > 0 && !hosts.is_empty())
    }

    /// Resets the count of failed starts and the set of failed hosts.
    pub(super) fn forget_failed_starts(&mut self) {
        self.failed_starts = 0;
        self.failed_hosts.clear();
    }

    /// Ends the pause before the next start. The job may then start immediately, on any host.
    pub(super) fn end_start_pause(&mut self) {
        self.not_before = None;
        self.failed_hosts.clear();
    }
}

impl Job {
    /// Handles a start that failed because of the host of the script. The job tries up to
    /// [`HOSTS_TO_TRY`] other hosts immediately; the failures on these hosts are not counted. Even
    /// after the maximum number of failures, the job is held only if it has failed on every host.
    pub(super) fn failed_on_its_host(&mut self, moment: EventContext) {
        let first = self.life.run.as_ref().and_then(|run| run.shares.first());
        let host = first.map(|share| share.host.clone());
        let is_another = host.is_some_and(|host| self.life.failed_hosts.insert(host));
        let retries = moment.rules.retries;
        if is_another && self.life.hosts_to_try > 0 {
            let left = self.life.hosts_to_try - 1;
            self.defer_start(retries.wait(self.life.failed_starts), moment);
            self.life.hosts_to_try = left;
            return self.requeue(moment);
        }
        let most = if self.life.failed_hosts.len() < moment.hosts {
            u32::MAX
        } else {
            retries.most
        };
        self.count_failed_start(0, most, moment);
        self.life.hosts_to_try = HOSTS_TO_TRY;
    }

    /// Counts a failed start and requeues the job (M10). The pause before the next start increases
    /// with each failure; the first `free` failures cause none. At the maximum number of
    /// consecutive failures, the job is held instead.
    pub(super) fn requeue_after_failure(&mut self, free: u32, moment: EventContext) {
        self.count_failed_start(free, moment.rules.retries.most, moment);
    }

    /// Counts a failed start and requeues the job. The job is held at the `most`th consecutive
    /// failure.
    fn count_failed_start(&mut self, free: u32, most: u32, moment: EventContext) {
        self.life.failed_starts = self.life.failed_starts.saturating_add(1);
        let failed = self.life.failed_starts;
        if failed >= most {
            self.life.holds = self.life.holds.with(Holds::SYSTEM);
            self.life.forget_failed_starts();
        } else if failed > free {
            self.defer_start(moment.rules.retries.wait(failed - free), moment);
        }
        self.requeue(moment);
    }

    /// Defers the start by `wait`, whatever the host; a `wait` of 0 cancels a deferral. The time
    /// until which the start is deferred is rounded up, so that jobs deferred at about the same
    /// time become eligible at the same time. Such jobs form one class for the scheduler. Rounding
    /// adds at most a sixty-fourth of `wait`.
    pub(super) fn defer_start(&mut self, wait: Span, moment: EventContext) {
        self.life.hosts_to_try = 0;
        let step = (wait.0 / 64).max(1);
        let until = moment.now.0.saturating_add(wait.0).saturating_add(step - 1);
        self.life.not_before = (wait > Span(0)).then(|| Time(until - until % step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::event::Event;
    use crate::model::job::state::JobState;
    use crate::model::job::{Attempt, AttemptOutcome, How, NodeShare, Spec};
    use crate::sched::fixture::{self, cluster};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn queued() -> Job {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        job.spec = Arc::new(Spec {
            rerunnable: true,
            ..(*job.spec).clone()
        });
        job.apply(&Event::Submitted, fixture::moment(0));
        job
    }

    /// Starts the job on a host at hour `attempt`; the attempt ends at once.
    fn try_on(host: &str, attempt: Attempt, how: How, job: &mut Job) {
        try_at(
            fixture::moment(3600 * i64::from(attempt)),
            host,
            attempt,
            how,
            job,
        );
    }

    fn try_at(moment: EventContext, host: &str, attempt: Attempt, how: How, job: &mut Job) {
        let share = NodeShare {
            node: host.to_string(),
            host: host.to_string(),
            taken: vec![],
            pooled: vec![],
            cpus: vec![],
            gpus: vec![],
            mpiprocs: 1,
            ranks: vec![],
        };
        job.apply(
            &Event::Started {
                attempt,
                shares: vec![share],
                score: None,
                extra: false,
            },
            moment,
        );
        let outcome = AttemptOutcome {
            how,
            sent: None,
            used: Default::default(),
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        job.apply(&Event::Ended { attempt, outcome }, moment);
    }

    #[test]
    fn failed_starts_are_deferred_and_the_twentieth_holds_the_job() {
        // M10.
        let mut job = queued();
        for attempt in 1..=20 {
            let moment = fixture::moment(3600 * i64::from(attempt));
            try_on("n1", attempt, How::NodeFault("full".into()), &mut job);
            let wait = job
                .life
                .not_before
                .filter(|_| attempt < 20)
                .map_or(0, |until| until.since(moment.now).0 / 1000);
            let least = [60, 120, 240, 480, 960, 1920, 3600]
                .get(attempt as usize - 1)
                .copied()
                .unwrap_or(3600);
            let state = if attempt < 20 {
                JobState::Queued
            } else {
                JobState::Held
            };
            assert_eq!(job.life.state, state, "attempt {attempt}");
            assert!(
                attempt == 20 || (least..=least + least / 64).contains(&wait),
                "{attempt}: {wait}"
            );
        }
        assert!(job.life.holds.contains(Holds::SYSTEM));
        assert_eq!(
            job.life.failed_starts, 0,
            "the count of failed starts is reset"
        );
    }

    /// M10.
    #[test]
    fn a_job_tries_three_hosts_and_then_pauses_for_all_hosts() {
        let mut job = queued();
        let mut avoided = |attempt: Attempt, host: &str, how: How| {
            try_on(host, attempt, how, &mut job);
            let hosts = job
                .life
                .avoided_hosts()
                .into_iter()
                .flatten()
                .cloned()
                .collect::<Vec<_>>();
            (hosts.join(","), job.life.failed_starts)
        };
        let fault = || How::NodeFault("no home directory".into());
        assert_eq!(avoided(1, "n1", fault()), ("n1".into(), 1));
        assert_eq!(
            avoided(2, "n2", fault()),
            ("n1,n2".into(), 1),
            "a failure on another host is not counted"
        );
        assert_eq!(
            avoided(3, "n3", fault()),
            (String::new(), 1),
            "the pause applies to all hosts"
        );
        assert_eq!(
            avoided(4, "n4", fault()),
            ("n1,n2,n3,n4".into(), 2),
            "the first failure after the pause is counted"
        );
        assert_eq!(
            avoided(5, "n1", fault()),
            ("n1,n2,n3,n4".into(), 3),
            "a failure on a host that has already failed is counted"
        );
        assert_eq!(
            avoided(6, "n5", How::ShepherdLost),
            (String::new(), 4),
            "the pause after a loss applies to all hosts"
        );
    }

    /// M10.
    #[test]
    fn a_pause_for_another_reason_applies_to_all_hosts() {
        let mut job = queued();
        try_on(
            "n1",
            1,
            How::NodeFault("no home directory".into()),
            &mut job,
        );
        let mut shoved = job.clone();
        shoved.apply(
            &Event::Shoved {
                by: "root@head".into(),
            },
            fixture::moment(0),
        );
        assert_eq!(
            (shoved.life.not_before, shoved.life.avoided_hosts()),
            (None, None)
        );
        job.apply(
            &Event::StartRefused {
                hook: "h".into(),
                why: "no".into(),
            },
            fixture::moment(0),
        );
        assert_eq!(
            (job.life.not_before.is_some(), job.life.avoided_hosts()),
            (true, None)
        );
    }

    /// M10.
    #[test]
    fn a_job_is_held_only_after_it_has_failed_on_every_host() {
        let mut job = queued();
        let mut fail_on = |host: &str, attempt: Attempt| {
            let moment = EventContext {
                hosts: 2,
                ..fixture::moment(3600 * i64::from(attempt))
            };
            try_at(
                moment,
                host,
                attempt,
                How::NodeFault("no home directory".into()),
                &mut job,
            );
            job.life.state
        };
        for attempt in 1..=50 {
            assert_eq!(
                fail_on("n1", attempt),
                JobState::Queued,
                "attempt {attempt}: the job has not failed on n2 yet"
            );
        }
        assert_eq!(
            (fail_on("n2", 51), fail_on("n1", 52)),
            (JobState::Queued, JobState::Held)
        );
    }

    #[test]
    fn jobs_deferred_at_about_the_same_time_form_few_classes() {
        let job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        let defer_start = |now: i64, wait: Span| {
            let mut job = job.clone();
            job.defer_start(
                wait,
                EventContext {
                    now: Time(now),
                    ..fixture::moment(0)
                },
            );
            let until = job.life.not_before.unwrap();
            assert!(
                until >= Time(now) + wait && until.0 <= now + wait.0 + wait.0 / 64,
                "{until:?}"
            );
            until
        };
        let hour = Span::seconds(3600);
        let moments: BTreeSet<Time> = (0..100_000)
            .map(|n| defer_start(1_700_000_000_000 + 36 * n, hour))
            .collect();
        assert!(moments.len() <= 66, "{}", moments.len());
        assert_eq!(
            defer_start(1_700_000_000_001, Span(50)),
            Time(1_700_000_000_051)
        );
    }
}
