//! Hollow jobs: simulated jobs without processes, for tests of large clusters on one machine.

use super::folder::AttemptName;
use crate::model::job::{AttemptOutcome, How, Usage};
use crate::model::time::Span;
use crate::wire::order::Launch;
use nix::libc::SIGTERM;
use std::collections::{BTreeMap, BTreeSet};

/// The running hollow jobs.
#[derive(Debug, Default)]
pub struct Hollow {
    /// The end times of the jobs that are not suspended.
    ends: BTreeSet<(Span, AttemptName)>,
    /// The begin and end time of each job. A resumption moves both by the length of the suspension.
    began: BTreeMap<AttemptName, (Span, Span)>,
    /// Suspended jobs, with the time at which the suspension began.
    stopped: BTreeMap<AttemptName, Span>,
}

impl Hollow {
    /// Starts a job at `now`.
    pub fn start(&mut self, launch: &Launch, now: Span) {
        let name = AttemptName::of(launch);
        let end = Span(now.0.saturating_add(runtime(launch).0));
        self.began.insert(name, (now, end));
        self.ends.insert((end, name));
    }

    /// Ends a canceled job, even if it is suspended. None if there is no such job.
    pub fn cancel(&mut self, name: AttemptName, now: Span) -> Option<AttemptOutcome> {
        let used = self.forget(name, now)?;
        Some(AttemptOutcome {
            how: How::Signaled(SIGTERM),
            sent: Some(SIGTERM),
            used,
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        })
    }

    /// Suspends or resumes a job.
    pub fn set_suspended(&mut self, name: AttemptName, stop: bool, now: Span) {
        let Some(&(began, end)) = self.began.get(&name) else {
            return;
        };
        if stop {
            self.ends.remove(&(end, name));
            self.stopped.entry(name).or_insert(now);
        } else if let Some(since) = self.stopped.remove(&name) {
            let pause = now.0 - since.0;
            let began = Span(began.0.saturating_add(pause));
            let end = Span(end.0.saturating_add(pause));
            self.began.insert(name, (began, end));
            self.ends.insert((end, name));
        }
    }

    /// Ends the jobs that are due at `now`.
    pub fn end_due(&mut self, now: Span) -> Vec<(AttemptName, AttemptOutcome)> {
        let due: Vec<AttemptName> = self
            .ends
            .iter()
            .take_while(|(end, _)| *end <= now)
            .map(|&(_, name)| name)
            .collect();
        let mut ended = Vec::new();
        for name in due {
            if let Some(used) = self.forget(name, now) {
                let outcome = AttemptOutcome {
                    how: How::Exited(0),
                    sent: None,
                    used,
                    notes: Vec::new(),
                    unfit: None,
                    on_its_own: true,
                };
                ended.push((name, outcome));
            }
        }
        ended
    }

    /// When the next job ends; None if there is no job, or all are suspended.
    pub fn next(&self) -> Option<Span> {
        self.ends.first().map(|&(end, _)| end)
    }

    fn forget(&mut self, name: AttemptName, now: Span) -> Option<Usage> {
        let (began, end) = self.began.remove(&name)?;
        self.ends.remove(&(end, name));
        let now = self.stopped.remove(&name).unwrap_or(now);
        Some(Usage {
            walltime: Span(now.0 - began.0),
            ..Usage::default()
        })
    }
}

fn runtime(launch: &Launch) -> Span {
    let mut entries = launch.environ.split(|&b| b == 0);
    let requested = entries.find_map(|entry| entry.strip_prefix(b"HOLLOW_RUNTIME="));
    let seconds = requested.and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
    let requested = seconds
        .filter(|s| *s >= 0.0 && *s < 1e12)
        .map(|s| Span((s * 1000.0) as i64));
    requested.or(launch.walltime).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;

    #[test]
    fn a_hollow_job_ends_after_its_runtime_or_walltime() {
        let mut hollow = Hollow::default();
        let mut launch = launch();
        launch.walltime = Some(Span::seconds(60));
        launch.environ = b"HOLLOW_RUNTIME=1.5\0".to_vec();
        hollow.start(&launch, Span(1000));
        launch.attempt = 2;
        launch.environ.clear();
        hollow.start(&launch, Span(1000));
        assert!(hollow.end_due(Span(2499)).is_empty());
        let ended = hollow.end_due(Span(2500));
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].0.attempt, &ended[0].1.how), (1, &How::Exited(0)));
        assert_eq!(hollow.next(), Some(Span(61_000)));
        let outcome = hollow.cancel(AttemptName::of(&launch), Span(3000)).unwrap();
        assert_eq!(
            (outcome.sent, outcome.used.walltime),
            (Some(15), Span(2000))
        );
        assert_eq!(hollow.next(), None);
    }

    #[test]
    fn suspension_prolongs_a_hollow_job_and_does_not_count_as_walltime() {
        let mut hollow = Hollow::default();
        let mut launch = launch();
        launch.walltime = Some(Span::seconds(10));
        let name = AttemptName::of(&launch);
        hollow.start(&launch, Span(0));
        for moment in [4000, 5000] {
            hollow.set_suspended(name, true, Span(moment));
        }
        assert_eq!(
            (hollow.next(), hollow.end_due(Span(90_000)).len()),
            (None, 0)
        );
        hollow.set_suspended(name, false, Span(24_000));
        hollow.set_suspended(name, false, Span(25_000));
        assert_eq!(hollow.next(), Some(Span(30_000)));
        assert_eq!(
            hollow.end_due(Span(30_000))[0].1.used.walltime,
            Span(10_000)
        );
        hollow.start(&launch, Span(0));
        hollow.set_suspended(name, true, Span(4000));
        assert_eq!(
            hollow.cancel(name, Span(9000)).unwrap().used.walltime,
            Span(4000)
        );
    }

    #[test]
    fn an_invalid_runtime_is_replaced_by_the_walltime() {
        let lasts = |requested: &str| {
            let environ = format!("PATH=/bin\0HOLLOW_RUNTIME={requested}\0").into_bytes();
            runtime(&Launch {
                environ,
                walltime: Some(Span::seconds(60)),
                ..launch()
            })
        };
        assert_eq!(
            ["0", "0.25", "7"].map(lasts),
            [Span(0), Span(250), Span::seconds(7)]
        );
        for requested in ["-1", "1e12", "1e300", "nan", "soon", ""] {
            assert_eq!(lasts(requested), Span::seconds(60), "{requested}");
        }
    }
}
