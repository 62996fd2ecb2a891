//! The result of a cycle: starts, resumed jobs, preemptions, planned starts, and verdicts. A
//! verdict is the reason why the jobs of a class (a set of interchangeable jobs) wait.

mod audit;

use super::eligible::Eligible;
use super::shape::{ClassId, ClassKey, JobOwner};
use super::starvation::Starving;
use crate::model::job::NodeShare;
use crate::model::job::preemption::{self, PreemptAction};
pub use crate::model::job::promise::SlipCause;
use crate::model::job_id::JobId;
use crate::model::reason::{self, Reason};
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A job to start now.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// The shares of nodes, chunk by chunk; the script runs on the node of the first share.
    pub shares: Vec<NodeShare>,
    /// The owner, and which other jobs may share the nodes. To be passed to `ClusterState::occupy`
    /// unchanged.
    pub exclusive: JobOwner,
    /// The expected end: the end of the walltime, or the end of the requested reservation if it
    /// ends the job earlier.
    pub until: Time,
    /// The first job in queue order that waits while the started job passes it; None if the started
    /// job passes no job.
    pub passed: Option<JobId>,
    /// The number of planned starts that the cycle decided before this start. The started job
    /// passes the jobs with these planned starts.
    pub behind: usize,
    /// Whether the job uses resources of planned starts. Such a job is preempted when one of these
    /// planned starts is due (M34).
    pub preemptible: bool,
    /// For a subjob that exceeds its array's limit on running subjobs: that limit (Q15).
    pub beyond: Option<u32>,
}

/// A suspended job to resume now.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    /// The job.
    pub job: JobId,
    /// The shares of nodes, with new CPU and GPU numbers. To be passed to `ClusterState::occupy`,
    /// like `exclusive` and `until`.
    pub shares: Vec<NodeShare>,
    /// The owner, and which other jobs may share the nodes.
    pub exclusive: JobOwner,
    /// The end of the walltime.
    pub until: Time,
}

/// A running job to preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// The job.
    pub job: JobId,
    /// The preemptor; None if no particular job gets the resources.
    pub by: Option<JobId>,
    /// The reason for the preemption.
    pub cause: preemption::PreemptCause,
    /// The action, such as suspend or requeue.
    pub action: PreemptAction,
}

/// A planned start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The job.
    pub job: JobId,
    /// The class of the job.
    pub class: ClassId,
    /// The latest start time, provided that all jobs end by their walltime.
    pub at: Time,
    /// The latest end of the job, provided that it starts by `at`.
    pub until: Time,
    /// The nodes, chunk by chunk, as far as they are already known.
    pub nodes: Arc<[String]>,
    /// The start time in the previous plan, if it was different.
    pub was: Option<Time>,
    /// Why the start is later than in the previous plan.
    pub cause: Option<SlipCause>,
    /// For a preemptor, the time until which the resources are held for it (G8).
    pub held_until: Option<Time>,
}

impl Booking {
    /// The nodes, each once.
    pub fn distinct_nodes(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.nodes
            .iter()
            .filter(|node| seen.insert(*node))
            .cloned()
            .collect()
    }
}

/// The decisions of a cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The time of the cycle.
    pub now: Time,
    /// The starts, in the order of the decisions.
    pub starts: Vec<Start>,
    /// The suspended jobs to resume, in the order of the decisions.
    pub resumes: Vec<Resume>,
    /// The jobs to preempt. A later cycle starts the preemptors, once the resources are free.
    pub preempts: Vec<Preemption>,
    /// The jobs that need the approval of the site's hooks before other jobs are preempted for
    /// them, each with the names of its nodes.
    pub asks: Vec<(JobId, Vec<String>)>,
    /// The planned starts.
    pub bookings: Vec<Booking>,
    /// The reasons why jobs wait. A reason holds for all jobs of a class that do not start, for all
    /// classes of a shape (the part of a request that decides where a job fits), or for a single
    /// job.
    pub verdicts: Vec<(ClassId, Arc<Reason>)>,
    /// The classes of which the cycle considered only some jobs (M24).
    pub eligible: Eligible,
    /// The time of the next cycle, if no event triggers a cycle earlier.
    pub next: Option<Time>,
    /// The number of jobs that the cycle tried to place. Jobs that share the refusal of another job
    /// are not counted.
    pub considered: usize,
    /// The jobs and pools (accounts) below their fair share and since when, if the policy uses
    /// starvation.
    pub starving: Option<Starving>,
    /// The indexes of resources that may be overcommitted, because only their measured use counts
    /// (M7).
    pub by_use: Vec<usize>,
}

impl Plan {
    /// A plan without decisions.
    pub fn new(now: Time) -> Plan {
        Plan {
            now,
            starts: Vec::new(),
            resumes: Vec::new(),
            preempts: Vec::new(),
            asks: Vec::new(),
            bookings: Vec::new(),
            verdicts: Vec::new(),
            eligible: Eligible::default(),
            next: None,
            considered: 0,
            starving: None,
            by_use: Vec::new(),
        }
    }

    /// Why the jobs of a class wait; None if the plan has no verdict on the class.
    pub fn verdict(&self, class: &ClassKey) -> Option<&Reason> {
        class.verdict_names().into_iter().find_map(|name| {
            let (_, reason) = self.verdicts.iter().find(|(id, _)| *id == name)?;
            Some(&**reason)
        })
    }

    /// Why a job of a class waits: the verdict on the class, or the verdict on the job itself if a
    /// limit on idle jobs refuses only other jobs of the class (M24).
    pub fn verdict_on(&self, class: &ClassKey, job: JobId) -> Option<&Reason> {
        let of_class = self.verdict(class)?;
        if !of_class.is_idle_limit() || self.eligible.refusal(class.id, job).is_some() {
            return Some(of_class);
        }
        let own = ClassId(reason::own_reason_key(job));
        self.verdicts
            .iter()
            .find(|(id, _)| *id == own)
            .map(|(_, reason)| &**reason)
    }

    /// The preempted jobs of each preemptor. If a preemptor is a subjob, its array is the key.
    pub fn victims_by_preemptor(&self) -> BTreeMap<JobId, Vec<JobId>> {
        let mut victims: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        for (preemption, by) in self
            .preempts
            .iter()
            .filter_map(|each| Some((each, each.by?)))
        {
            victims
                .entry(by.parent().unwrap_or(by))
                .or_default()
                .push(preemption.job);
        }
        victims
    }

    /// Requests another cycle at this time at the latest.
    pub fn request_cycle(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Formats one line for each decision. Times are relative to the time of the plan.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for start in &self.starts {
            let nodes: Vec<&str> = start
                .shares
                .iter()
                .map(|share| share.node.as_str())
                .collect();
            write!(f, "start  {}  {}", start.job, runs(&nodes))?;
            if start.exclusive.access.is_exclusive() {
                f.write_str(" alone")?;
            }
            if start.beyond.is_some() {
                f.write_str(" as an extra")?;
            }
            writeln!(f, ", for {}", self.ahead(start.until))?;
        }
        for Resume {
            job, shares, until, ..
        } in &self.resumes
        {
            let nodes: Vec<&str> = shares.iter().map(|share| share.node.as_str()).collect();
            writeln!(
                f,
                "resume {job}  {}, for {}",
                runs(&nodes),
                self.ahead(*until)
            )?;
        }
        for Preemption {
            job, by, action, ..
        } in &self.preempts
        {
            let preemptor = by.map_or("nobody".to_string(), |by| by.to_string());
            writeln!(f, "{}  {job}  for {preemptor}", action.name())?;
        }
        for (job, nodes) in &self.asks {
            writeln!(f, "ask    {job}  {}", nodes.join(","))?;
        }
        for booking in &self.bookings {
            let nodes: Vec<&str> = booking.nodes.iter().map(String::as_str).collect();
            write!(
                f,
                "book   {}  {}, in {}",
                booking.job,
                runs(&nodes),
                self.ahead(booking.at)
            )?;
            match (booking.was, &booking.cause) {
                (Some(was), Some(cause)) => writeln!(f, ", not in {}: {cause}", self.ahead(was))?,
                _ => writeln!(f)?,
            }
        }
        for (class, reason) in &self.verdicts {
            writeln!(f, "wait   {class}  {reason}")?;
        }
        Ok(())
    }
}

impl Plan {
    fn ahead(&self, time: Time) -> String {
        if time == Time::NEVER {
            "ever".to_string()
        } else {
            time.since(self.now).to_string()
        }
    }
}

/// Formats names as `n1,n2*3,n4`, with a count for equal neighbors.
fn runs(names: &[&str]) -> String {
    let runs = names.chunk_by(|a, b| a == b).map(|run| match run.len() {
        1 => run[0].to_string(),
        count => format!("{}*{count}", run[0]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    #[test]
    fn a_plan_is_shown_line_by_line() {
        let fixture = cluster("2 x ncpus=4")
            .queued(1, "select=3:ncpus=2 walltime=1:00:00")
            .queued(2, "select=2:ncpus=4 walltime=1:00:00");
        let all = super::ClassId::of_request(&fixture.job(2, "select=2:ncpus=4 walltime=1:00:00"));
        let wanted = format!(
            "start  1  n1*2,n2, for 01:00:00\nbook   2  n1,n2, in 01:00:00\n\
             wait   {all}  Not Running: Insufficient amount of resource: ncpus (R: 8 A: 2 T: 8)\n"
        );
        assert_eq!(fixture.plan().to_string(), wanted);
    }

    #[test]
    fn the_audit_finds_impossible_starts() {
        let mut fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=4");
        let plan = fixture.plan();
        let mut twice = plan.clone();
        twice.starts.extend(plan.starts.clone());
        assert_eq!(
            twice.audit(&fixture.state),
            Err("job 1: started twice".to_string())
        );
        let mut short = plan.clone();
        short.starts[0].shares.clear();
        assert_eq!(
            short.audit(&fixture.state),
            Err("job 1: 0 shares for 1 chunks".to_string())
        );
        let full = fixture.clone().running(2, "select=1:ncpus=1", "n1", 60);
        assert_eq!(
            plan.audit(&full.state),
            Err("job 1: n1 is overcommitted".to_string())
        );
        let barred = fixture
            .clone()
            .running(2, "select=1:ncpus=0 place=excl", "n1", 60);
        assert_eq!(
            plan.audit(&barred.state),
            Err("job 1: n1 does not admit the job".to_string())
        );
        fixture.apply(&plan);
        assert_eq!(
            plan.audit(&fixture.state),
            Err("job 1: not a candidate".to_string())
        );
    }

    #[test]
    fn the_audit_finds_wrong_arrangements_double_allocations_and_nodes_that_are_down() {
        let fixture = cluster("2 x ncpus=4")
            .queued(1, "select=2:ncpus=1 place=pack")
            .queued(2, "select=1:ncpus=1");
        let plan = fixture.plan();
        let audited = |change: &dyn Fn(&mut super::Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.audit(&fixture.state).unwrap_err()
        };
        let elsewhere = |plan: &mut super::Plan| {
            (plan.starts[0].shares[1].node, plan.starts[0].shares[1].host) =
                ("n2".into(), "n2".into())
        };
        assert_eq!(audited(&elsewhere), "job 1: not arranged as Pack");
        let twice = |plan: &mut super::Plan| {
            plan.starts[1].shares[0].cpus = plan.starts[0].shares[0].cpus.clone()
        };
        assert_eq!(
            audited(&twice),
            "job 2: CPU or GPU 0 of n1 is allocated twice"
        );
        let down = fixture.node("n1", "ncpus=4", false);
        assert_eq!(
            plan.audit(&down.state),
            Err("job 1: n1 does not accept jobs".to_string())
        );
    }

    /// A job with an exclusive host is on all nodes of the host, even on nodes that are down.
    #[test]
    fn the_audit_accepts_an_exclusive_host_with_a_node_that_is_down() {
        let mut fixture = cluster("")
            .on_host("h", "2 x ncpus=4")
            .queued(1, "select=1:ncpus=1 place=exclhost");
        let facts = crate::model::node::NodeFacts {
            name: "n2".into(),
            host: "h".into(),
            ..Default::default()
        };
        fixture.state.set_node(&facts, false);
        assert_eq!(fixture.starts(), "1 on n1");
    }

    #[test]
    fn the_audit_finds_excess_use_of_a_system_wide_resource() {
        let pool = |total| crate::model::system_resource::Pool {
            total,
            ..Default::default()
        };
        let mut fixture = cluster("1 x ncpus=4")
            .queued(1, "site_lic=2")
            .queued(2, "select=1");
        fixture.state.set_pool("site_lic", pool(2));
        let plan = fixture.plan();
        fixture.state.set_pool("site_lic", pool(1));
        assert_eq!(
            plan.audit(&fixture.state),
            Err("job 1: exceeds a system-wide resource".to_string())
        );
        let fixture = fixture.running(9, "select=1:ncpus=1 site_lic=2", "n1", 60);
        assert_eq!(
            fixture.starts(),
            "2 on n1",
            "a job that does not use the resource may start"
        );
    }

    #[test]
    fn a_delayed_planned_start_is_shown_with_its_cause() {
        let mut fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=4", "n1", 60)
            .queued(2, "select=1:ncpus=4");
        let plan = fixture.plan();
        fixture.apply(&plan);
        let shown = fixture.at(70).plan().to_string();
        assert!(shown.starts_with("book   2  n1, in 00:00:0"), "{shown}");
        let line = shown.lines().next().unwrap();
        assert!(
            line.contains(", not in ")
                && line.ends_with(
                    &super::SlipCause::Overdue {
                        job: crate::model::job_id::JobId::job(1)
                    }
                    .to_string()
                ),
            "{line}"
        );
    }
}
