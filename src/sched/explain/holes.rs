//! Free windows: the resources that a new job could use without delaying planned starts, and for
//! how long. The window with the most resources comes first.
//!
//! The windows are found in the final state of a cycle: a request is tried with more and more
//! copies, and for longer and longer times.

use crate::model::job::Job;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::report::outlook::FreeWindow;
use crate::sched::cycle::state::{CycleState, Pass};
use crate::sched::cycle::{self, feasibility, throttling};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::placement::place::Placement;
use crate::sched::placement::resolution::{Resolution, Resolved};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;

use crate::model::request::select::Request;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A walltime with which a job would end after every planned start.
const EVER: Span = Span::seconds(1000 * 366 * 86_400);

/// The maximum number of windows.
const MOST: usize = 100;

/// The maximum number of copies of a request in a window.
const MOST_COPIES: u32 = 1 << 20;

/// The free windows for the request of a job, whatever its walltime: the number of copies of the
/// request that fit at `now`, and for how long (M29). At most `MOST` windows; empty if the request
/// does not fit now. The error is the reason why the job can never run, or why it cannot start now
/// even if resources are free.
pub fn windows(
    state: &ClusterState,
    policy: &Policy,
    now: Time,
    job: &Job,
) -> Result<Vec<FreeWindow>, Reason> {
    let state = &*state.prioritised(policy, now);
    let resolved = Resolved::new(state, policy, now);
    let cycle = cycle::decide(state, policy, &resolved, now, &mut CycleCache::default());
    let mut probe = Probe { cycle, policy, job };
    probe.admit()?;
    let (mut windows, mut shortest) = (Vec::new(), Span::seconds(1));
    while windows.len() < MOST
        && let Some((copies, nodes)) = probe.widest(shortest)
    {
        let lasts = probe.longest(copies, shortest);
        windows.push(FreeWindow {
            copies: u64::from(copies),
            nodes,
            lasts,
        });
        match lasts {
            Some(lasts) => shortest = lasts + Span::seconds(1),
            None => break,
        }
    }
    Ok(windows)
}

/// The final state of a cycle, in which copies of the request are tried.
struct Probe<'a> {
    cycle: CycleState<'a>,
    policy: &'a Policy,
    job: &'a Job,
}

impl Probe<'_> {
    fn admit(&mut self) -> Result<(), Reason> {
        let class = self.class(1, Span::seconds(1));
        feasibility::check(&class.shape, &mut self.cycle)?;
        let job = Candidate::alone(self.job.id, &class);
        throttling::check(job, Pass::Order, &mut self.cycle).map_err(Arc::unwrap_or_clone)
    }

    /// The class of a job with this number of copies of the request and this walltime.
    fn class(&self, copies: u32, walltime: Span) -> ClassKey {
        let mut job = self.job.clone();
        let spec = Arc::make_mut(&mut job.spec);
        let mut request = Request::clone(&spec.request);
        for chunk in &mut request.select.chunks {
            chunk.count = chunk.count.saturating_mul(copies);
        }
        request
            .list
            .insert("walltime".to_string(), ResourceValue::Time(walltime));
        spec.request = Arc::new(request);
        let class = ClassKey::of(&job, &self.cycle.state.cluster.catalog);
        let resolution = Resolution::needed(self.cycle.state, self.policy, self.cycle.now);
        resolution.map_or(class.clone(), |resolution| resolution.class(&class, false))
    }

    fn fit(&mut self, copies: u32, walltime: Span) -> Option<Placement> {
        let class = self.class(copies, walltime);
        let job = Candidate::alone(self.job.id, &class);
        let found = self.cycle.match_now(job).ok()?;
        Some(found.placement)
    }

    /// The maximum number of copies that fit for this walltime, up to [`MOST_COPIES`], and the
    /// number of nodes they use. None if not even one copy fits.
    fn widest(&mut self, walltime: Span) -> Option<(u32, u64)> {
        let mut found = self.fit(1, walltime)?;
        let (mut fits, mut too_many) = (1, 2);
        while too_many <= MOST_COPIES
            && let Some(more) = self.fit(too_many, walltime)
        {
            (found, fits, too_many) = (more, too_many, too_many * 2);
        }
        while too_many - fits > 1 && too_many <= MOST_COPIES {
            let middle = fits + (too_many - fits) / 2;
            match self.fit(middle, walltime) {
                Some(more) => (found, fits) = (more, middle),
                None => too_many = middle,
            }
        }
        let nodes: BTreeSet<_> = found.picks.iter().map(|&(node, _)| node).collect();
        Some((fits, nodes.len() as u64))
    }

    /// The longest time for which this number of copies fits, in whole seconds; None if the time is
    /// unlimited. The copies must fit for `walltime`.
    fn longest(&mut self, copies: u32, walltime: Span) -> Option<Span> {
        if self.fit(copies, EVER).is_some() {
            return None;
        }
        let (mut fits, mut step) = (walltime.as_seconds(), 1);
        while self.fit(copies, Span::seconds(fits + step)).is_some() {
            (fits, step) = (fits + step, step * 2);
        }
        let mut too_long = fits + step;
        while too_long - fits > 1 {
            let middle = fits + (too_long - fits) / 2;
            match self.fit(copies, Span::seconds(middle)) {
                Some(_) => fits = middle,
                None => too_long = middle,
            }
        }
        Some(Span::seconds(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::{TestCluster, cluster};

    /// The windows as text, with times in seconds: `4 on 4 for 3600; 1 on 1 for ever`.
    fn text(fixture: &TestCluster, request: &str) -> String {
        let windows = windows(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            &fixture.job(999, request),
        );
        let text = windows.unwrap().into_iter().map(
            |FreeWindow {
                 copies,
                 nodes,
                 lasts,
             }| {
                let lasts =
                    lasts.map_or("ever".to_string(), |lasts| lasts.as_seconds().to_string());
                format!("{copies} on {nodes} for {lasts}")
            },
        );
        text.collect::<Vec<_>>().join("; ")
    }

    /// M29: 4 of the 8 nodes are idle, and the others are busy for an hour. Job 5 requests 7 nodes,
    /// so its planned start in an hour needs 3 of the idle nodes.
    #[test]
    fn m29_the_window_with_the_most_copies_comes_first() {
        let mut fixture = cluster("8 x ncpus=1");
        for job in 1..=4 {
            fixture = fixture.running(job, "select=1:ncpus=1", &format!("n{}", job + 4), 3600);
        }
        let fixture = fixture.queued(5, "select=7:ncpus=1 walltime=100");
        assert_eq!(
            text(&fixture, "select=1:ncpus=1"),
            "4 on 4 for 3600; 1 on 1 for ever"
        );
    }

    #[test]
    fn a_window_counts_copies_of_the_request() {
        let fixture = cluster("3 x ncpus=8:mem=8gb").running(1, "select=1:ncpus=6", "n1", 60);
        assert_eq!(text(&fixture, "select=1:ncpus=1"), "18 on 3 for ever");
        assert_eq!(text(&fixture, "select=1:ncpus=3"), "4 on 2 for ever");
        assert_eq!(
            text(&fixture, "select=1:ncpus=1 place=scatter"),
            "3 on 3 for ever"
        );
        assert_eq!(
            text(&fixture, "select=1:ncpus=4:mem=6gb+1:ncpus=1"),
            "2 on 3 for ever"
        );
        assert_eq!(
            text(
                &fixture.running(2, "select=2:ncpus=8", "n2,n3", 60),
                "select=1:ncpus=3"
            ),
            ""
        );
    }

    #[test]
    fn a_job_that_cannot_start_has_a_reason_instead_of_windows() {
        let fixture = cluster("1 x ncpus=1");
        let windows = |text: &str| {
            windows(
                &fixture.state,
                &fixture.policy,
                fixture.now,
                &fixture.job(9, text),
            )
        };
        assert_eq!(
            windows("select=1:ncpus=2").unwrap_err().code(),
            "unsatisfiable"
        );
        assert_eq!(windows("queue=night").unwrap_err().code(), "queue_stopped");
    }

    #[test]
    fn a_job_starts_only_if_it_fits_in_a_window() {
        let fixture = cluster("1 x ncpus=16")
            .running(1, "select=1:ncpus=8", "n1", 3600)
            .queued(2, "select=1:ncpus=14 walltime=1:00:00");
        assert_eq!(
            text(&fixture, "select=1:ncpus=1"),
            "8 on 1 for 3600; 2 on 1 for ever"
        );
        for (request, starts) in [
            ("ncpus=8 walltime=3600", true),
            ("ncpus=8 walltime=3601", false),
            ("ncpus=2", true),
        ] {
            let fixture = fixture.clone().queued(3, &format!("select=1:{request}"));
            assert_eq!(!fixture.starts().is_empty(), starts, "{request}");
        }
    }
}
