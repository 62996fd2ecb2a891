//! Starts that fail (M10): the job is tried again, elsewhere at once, on the same host after a pause.

use super::job::{Job, Life};
use super::life::Moment;
use super::state::Holds;
use super::time::{Span, Time};

impl Life {
    /// Counts failed starts from the beginning again.
    pub(super) fn forget_failed_starts(&mut self) {
        self.failed_starts = 0;
        self.failed_hosts.clear();
    }

    /// Ends the pause after a failed start.
    pub(super) fn start_anywhere_now(&mut self) {
        self.not_before = None;
        self.failed_hosts.clear();
    }
}

impl Job {
    /// The host that was to run the script could not start it: the pause that follows holds for this host and
    /// those that failed just before it.
    pub(super) fn failed_on_its_host(&mut self, moment: Moment) {
        let mut hosts = std::mem::take(&mut self.life.failed_hosts);
        let first = self.life.run.as_ref().and_then(|run| run.shares.first());
        hosts.extend(first.map(|share| share.host.clone()));
        self.try_again(0, moment);
        if self.life.not_before.is_some() {
            self.life.failed_hosts = hosts;
        }
    }

    /// M10: the job is tried again after pauses that grow, and held in the end. The first `free` failures cost no
    /// pause.
    pub(super) fn try_again(&mut self, free: u32, moment: Moment) {
        self.life.failed_starts += 1;
        let (failed, retries) = (self.life.failed_starts, moment.rules.retries);
        if failed >= retries.most {
            self.life.holds = self.life.holds.with(Holds::SYSTEM);
            self.life.forget_failed_starts();
        } else if failed > free {
            self.put_off(retries.wait(failed - free), moment);
        }
        self.requeue(moment);
    }

    /// Does not start the job for `wait`, and up to a sixty-fourth longer: jobs that are put off at about the same
    /// time become one class, however many they are. The pause holds for all hosts.
    pub(super) fn put_off(&mut self, wait: Span, moment: Moment) {
        self.life.failed_hosts.clear();
        let step = (wait.0 / 64).max(1);
        let until = moment.now.0.saturating_add(wait.0).saturating_add(step - 1);
        self.life.not_before = (wait > Span(0)).then(|| Time(until - until % step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::model::job::{Attempt, How, Outcome, Share, Spec};
    use crate::model::state::State;
    use crate::sched::fixture::{self, cluster};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn queued() -> Job {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        job.spec = Arc::new(Spec { rerunnable: true, ..(*job.spec).clone() });
        job.apply(&Event::Submitted, fixture::moment(0));
        job
    }

    /// Starts the job on a host at that many hours; the attempt ends at once.
    fn try_on(host: &str, attempt: Attempt, how: How, job: &mut Job) {
        let share = Share {
            node: host.to_string(),
            host: host.to_string(),
            taken: vec![],
            pooled: vec![],
            cpus: vec![],
            gpus: vec![],
            mpiprocs: 1,
            ranks: vec![],
        };
        let moment = fixture::moment(3600 * i64::from(attempt));
        job.apply(&Event::Started { attempt, shares: vec![share], score: None, extra: false }, moment);
        let outcome =
            Outcome { how, sent: None, used: Default::default(), notes: Vec::new(), unfit: None, on_its_own: false };
        job.apply(&Event::Ended { attempt, outcome }, moment);
    }

    #[test]
    fn a_start_that_fails_is_put_off_and_the_twentieth_in_a_row_holds_the_job() {
        // M10.
        let mut job = queued();
        for attempt in 1..=20 {
            let moment = fixture::moment(3600 * i64::from(attempt));
            try_on("n1", attempt, How::NodeFault("full".into()), &mut job);
            let wait = job.life.not_before.filter(|_| attempt < 20).map_or(0, |until| until.since(moment.now).0 / 1000);
            let least = [60, 120, 240, 480, 960, 1920, 3600].get(attempt as usize - 1).copied().unwrap_or(3600);
            let state = if attempt < 20 { State::Queued } else { State::Held };
            assert_eq!(job.life.state, state, "attempt {attempt}");
            assert!(attempt == 20 || (least..=least + least / 64).contains(&wait), "{attempt}: {wait}");
        }
        assert!(job.life.holds.contains(Holds::SYSTEM));
        assert_eq!(job.life.failed_starts, 0, "released, it has all its tries again");
    }

    /// M10.
    #[test]
    fn the_hosts_of_failed_starts_are_kept_as_long_as_their_pause() {
        let mut job = queued();
        let mut run = |attempt: Attempt, host: &str, how: How| {
            try_on(host, attempt, how, &mut job);
            job.life.failed_hosts.iter().cloned().collect::<Vec<_>>()
        };
        let fault = || How::NodeFault("no home directory".into());
        assert_eq!(run(1, "n1", fault()), ["n1"]);
        assert_eq!(run(2, "n2", fault()), ["n1", "n2"]);
        let mut shoved = job.clone();
        shoved.apply(&Event::Shoved { by: "root@head".into() }, fixture::moment(0));
        assert!(shoved.life.failed_hosts.is_empty(), "an operator lets it start anywhere");
        job.apply(&Event::StartRefused { hook: "h".into(), why: "no".into() }, fixture::moment(0));
        assert!(job.life.failed_hosts.is_empty(), "the pause after a refusal holds for all hosts");
    }

    #[test]
    fn jobs_that_are_put_off_one_after_another_are_few_classes() {
        let job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        let put_off = |now: i64, wait: Span| {
            let mut job = job.clone();
            job.put_off(wait, Moment { now: Time(now), ..fixture::moment(0) });
            let until = job.life.not_before.unwrap();
            assert!(until >= Time(now) + wait && until.0 <= now + wait.0 + wait.0 / 64, "{until:?}");
            until
        };
        let hour = Span::seconds(3600);
        let moments: BTreeSet<Time> = (0..100_000).map(|n| put_off(1_700_000_000_000 + 36 * n, hour)).collect();
        assert!(moments.len() <= 66, "{}", moments.len());
        assert_eq!(put_off(1_700_000_000_001, Span(50)), Time(1_700_000_000_051));
    }
}
