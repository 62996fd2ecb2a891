//! Changes of the snapshot, which is the input of the scheduler. schedd and the simulator apply the
//! changes, and recordings store them for replay.

use super::holdings::RunningOwner;
use super::preemption_candidate::PreemptionCandidate;
use super::snapshot::{ClassId, ClusterState, JobOwner};
use crate::model::account::charge::Charge;
use crate::model::credentials::Credentials;
use crate::model::job::eligible_time::Eligibility;
use crate::model::job::promise::PromisedStart;
use crate::model::job::state::JobState;
use crate::model::job::{Job, NodeShare, Run, SubjobLimit};
use crate::model::job_id::JobId;
use crate::model::node::{Node, NodeFacts};
use crate::model::policy::Policy;
use crate::model::policy::site_time::SiteTime;
use crate::model::queue::Queue;
use crate::model::reservation::window::{Admission, Window};
use crate::model::resource::Resources;
use crate::model::system_resource::Pool;
use crate::model::time::{Span, Time};
use crate::model::trigger::Triggers;
use crate::sched::share_tree::usage::UsageTable;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change of a [`ClusterState`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change<'a> {
    /// A node is added or changed.
    Node {
        /// The properties of the node.
        facts: Cow<'a, NodeFacts>,
        /// Whether the node may get jobs: it is up, and neither offline nor under maintenance.
        usable: bool,
    },
    /// A node is removed.
    NoNode(Cow<'a, str>),
    /// The names of the nodes that come first in the order of nodes. A node with such a name need
    /// not exist.
    Order(Vec<String>),
    /// The properties of a system-wide resource, such as its total, are set.
    Pool(Cow<'a, str>, Cow<'a, Pool>),
    /// A queue is added or changed.
    Queue(Cow<'a, Queue>),
    /// A queue is removed.
    NoQueue(Cow<'a, str>),
    /// A reservation is added or changed.
    Window(Cow<'a, Window>),
    /// A reservation has ended or is deleted.
    NoWindow(Cow<'a, str>),
    /// The dedicated and prime time that apply from now on.
    SiteTime(Cow<'a, SiteTime>),
    /// A job waits, that is, a cycle could start it. It holds no resources.
    Waits(Box<Cow<'a, Job>>),
    /// The accrued eligible time of a waiting job changes.
    Accrues(JobId, Eligibility),
    /// A job holds its allocation.
    Holds {
        /// The job.
        job: JobId,
        /// The shares of nodes that the job holds.
        shares: Vec<NodeShare>,
        /// The name of the owner.
        user: Cow<'a, str>,
        /// The owner, and which other jobs may share the nodes.
        #[serde(rename = "tenant")]
        owner: JobOwner,
        /// The expected end: the end of the walltime ([`Time::NEVER`] for a suspended job), or the
        /// end of the reservation if that is earlier.
        until: Time,
        /// The reservation in which the job runs.
        inside: Option<String>,
        /// The owner and the request, for limits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claimant: Option<Box<RunningOwner>>,
        /// The facts that preemption uses.
        #[serde(rename = "tenure", default, skip_serializing_if = "Option::is_none")]
        candidate: Option<Box<PreemptionCandidate>>,
        /// For a subjob that exceeds its array's limit on running subjobs: that limit (Q15).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beyond: Option<u32>,
        /// The complete job, if it is suspended and waits to resume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<Box<Cow<'a, Job>>>,
    },
    /// The allocation script has been started for a class of interchangeable jobs (M8i).
    Asked(ClassId),
    /// The script's answer for a class: nodes, best first; None if the script chose no nodes.
    Answered(ClassId, Option<Vec<String>>),
    /// A start that schedd planned for a waiting job before schedd was restarted.
    Promised {
        /// The job.
        job: JobId,
        /// The start time and the nodes.
        promise: Cow<'a, PromisedStart>,
        /// The planned duration.
        span: Span,
    },
    /// A job neither holds resources nor waits to be started.
    Gone(JobId),
    /// The limits of an array on its running subjobs change; None if the array is finished or no
    /// longer exists.
    Bounds(JobId, Option<SubjobLimit>),
    /// The jobs that the site's hooks allow to start; None if the site has no such hooks.
    Permits(Option<BTreeSet<JobId>>),
    /// Replaces the usage of all members of the share tree.
    Usage(Cow<'a, UsageTable>),
    /// The usage to charge for the latest attempt of a job, running or ended.
    Charged(JobId, Cow<'a, Charge>),
    /// Removes these charges, which are no longer stored.
    Forgotten(Cow<'a, [Charge]>),
}

impl<'a> Change<'a> {
    /// The change that adds a node or updates its facts.
    pub fn of_node(node: &'a Node) -> Change<'a> {
        Change::Node {
            facts: Cow::Borrowed(&node.facts),
            usable: node.is_usable(),
        }
    }

    /// The change that brings a job in the snapshot up to date; `Gone` if the job neither holds
    /// resources nor waits to be started. The policy supplies the default walltime and access
    /// policy.
    pub fn of(id: JobId, job: Option<&'a Job>, policy: &Policy) -> Change<'a> {
        let Some(job) = job else {
            return Change::Gone(id);
        };
        let Some(run) = job.life.open_run() else {
            return if is_candidate(job) {
                Change::Waits(Box::new(Cow::Borrowed(job)))
            } else {
                Change::Gone(id)
            };
        };
        let waits = job.waits_to_resume() && run.is_stopped();
        Change::Holds {
            job: id,
            shares: job.held().iter().map(|share| run.kept(share)).collect(),
            user: Cow::Borrowed(&job.owner.user),
            owner: JobOwner::of(job, policy.placement.access),
            until: end_of(job, run, policy),
            inside: None,
            claimant: Some(Box::new(RunningOwner::of(job))),
            candidate: PreemptionCandidate::of(job).map(Box::new),
            beyond: if run.extra {
                job.spec.max_run_subjobs
            } else {
                None
            },
            waits: waits.then(|| Box::new(Cow::Borrowed(job))),
        }
    }

    /// The change that sets the limits of an array on its running subjobs; None if the state
    /// already has these limits, or if the job is no array.
    pub fn of_limit(id: JobId, job: Option<&Job>, state: &ClusterState) -> Option<Change<'a>> {
        let known = state.subjob_limit(id.number);
        let array = job.filter(|job| id.is_array() && job.life.state != JobState::Finished);
        let limit = array.and_then(|array| {
            array
                .spec
                .subjob_limit()
                .or(known.and(Some(SubjobLimit::NONE)))
        });
        (id.is_array() && limit != known).then_some(Change::Bounds(id, limit))
    }

    /// Puts the job of a `Holds` inside a reservation, and moves the end of the job to `closes`
    /// (the end of the reservation) if that is earlier.
    pub fn inside(mut self, reservation: Option<String>, closes: Option<Time>) -> Change<'a> {
        if let Change::Holds { inside, until, .. } = &mut self {
            *inside = reservation;
            *until = closes.map_or(*until, |closes| closes.min(*until));
        }
        self
    }
}

/// The end of the walltime of a job, extended by its suspensions; NEVER for a suspended job.
fn end_of(job: &Job, run: &Run, policy: &Policy) -> Time {
    if run.is_stopped() {
        Time::NEVER
    } else {
        run.started + job.spec.walltime().unwrap_or(policy.default_walltime) + run.pauses().total
    }
}

/// Whether a cycle could start the job, or a subjob of the array.
pub fn is_candidate(job: &Job) -> bool {
    match (job.life.state, &job.elements) {
        (JobState::Queued, None) => true,
        (JobState::Queued | JobState::Begun, Some(elements)) => !elements.waiting().is_empty(),
        _ => false,
    }
}

impl ClusterState {
    /// Applies a change to the snapshot.
    pub fn make(&mut self, change: &Change) {
        match change {
            Change::Node { facts, usable } => self.set_node(facts, *usable),
            Change::NoNode(name) => self.remove_node(name),
            Change::Queue(queue) => self.set_queue(queue),
            Change::Waits(job) => {
                self.vacate(job.id);
                self.enqueue(job);
            }
            Change::Accrues(job, eligibility) => self.set_eligibility(*job, *eligibility),
            Change::NoQueue(name) => self.remove_queue(name),
            Change::Window(window) => self.set_window(Window::clone(window)),
            Change::NoWindow(id) => self.remove_window(id),
            Change::SiteTime(site_time) => self.set_site_time(SiteTime::clone(site_time)),
            Change::Order(names) => self.list_nodes(names),
            Change::Pool(resource, pool) => self.set_pool(resource, Pool::clone(pool)),
            Change::Holds {
                job,
                user,
                shares,
                owner,
                until,
                inside,
                claimant,
                candidate,
                beyond,
                waits,
            } => {
                self.user(user);
                self.occupy(*job, shares, *owner, *until);
                if let Some(limit) = beyond {
                    self.bookings.note_over_limit(*job, *limit);
                }
                if let Some(claimant) = claimant {
                    self.belongs_to(*job, claimant);
                }
                if let Some(candidate) = candidate {
                    self.set_candidate(*job, PreemptionCandidate::clone(candidate))
                }
                if let Some(reservation) = inside {
                    self.enclose(*job, reservation);
                }
                if let Some(waiting) = waits {
                    self.record_suspended(waiting);
                }
            }
            Change::Asked(class) => self.await_answer(*class),
            Change::Answered(class, nodes) => {
                self.set_answer(*class, nodes.as_deref());
            }
            Change::Promised { job, promise, span } => self.recall(*job, promise, *span),
            Change::Gone(job) => {
                self.withdraw(*job);
                self.vacate(*job);
            }
            Change::Bounds(array, limit) => self.set_subjob_limit(array.number, *limit),
            Change::Permits(permits) => self.set_permits(permits.clone()),
            Change::Usage(usage) => self.change_usage(|used| *used = UsageTable::clone(usage)),
            Change::Charged(job, charge) => self.change_usage(|used| used.charge(*job, charge)),
            Change::Forgotten(charges) => {
                self.change_usage(|used| charges.iter().for_each(|charge| used.forget(charge)))
            }
        }
    }

    fn change_usage(&mut self, change: impl FnOnce(&mut UsageTable)) {
        change(Arc::make_mut(&mut self.usage));
        self.edition += 1;
        self.ranks.note_use();
    }
}

impl ClusterState {
    /// The reservation of a running job: the reservation that it requests; otherwise the first open
    /// reservation that covers one of the job's nodes and admits its owner and its walltime. None
    /// if there is none.
    pub fn reservation_of(&self, job: &Job, default_walltime: Span, now: Time) -> Option<String> {
        let run = job.life.run.as_ref()?;
        if let Some(reservation) = &job.spec.reservation {
            return Some(reservation.clone());
        }
        let who = Credentials::of(job);
        let walltime = job.spec.walltime().unwrap_or(default_walltime);
        let mut windows = self.windows();
        let found = windows.find(|window| {
            run.shares.iter().any(|share| window.covers(&share.node))
                && window.is_open(now)
                && window.admits(&who, None, walltime) == Admission::Inside
        })?;
        Some(found.name().to_string())
    }
}

/// An entry of a recording, which stores the input and the result of each cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedEntry<'a> {
    /// schedd has started, with an empty snapshot and this policy.
    Begin {
        /// The resource definitions.
        resources: Cow<'a, Resources>,
        /// The policy.
        policy: Cow<'a, Policy>,
    },
    /// The policy has changed.
    Policy(Cow<'a, Policy>),
    /// The snapshot has changed.
    Change(Change<'a>),
    /// A cycle has run.
    Cycle {
        /// The time of the cycle.
        now: Time,
        /// The events that triggered the cycle.
        #[serde(default, skip_serializing_if = "is_unknown")]
        triggers: Cow<'a, Triggers>,
        /// The plan as text.
        plan: Cow<'a, str>,
    },
    /// The recording has reached its maximum length and ends here.
    Full,
}

fn is_unknown(triggers: &Triggers) -> bool {
    triggers.are_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::event::Event;
    use crate::model::job::suspension::SuspendMode;
    use crate::model::reservation::window::WindowAccess;
    use crate::sched::backfill::reservation_window;
    use crate::sched::fixture::{TestCluster, cluster, moment, resources};

    #[test]
    fn changes_move_a_job_from_the_queue_to_its_nodes_and_remove_it_at_its_end() {
        let mut fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=3 walltime=60");
        let mut job = fixture.job(1, "select=1:ncpus=3 walltime=60");
        let start = fixture.plan().starts.remove(0);
        job.apply(
            &Event::Started {
                attempt: 1,
                shares: start.shares,
                score: None,
                extra: false,
            },
            moment(5),
        );
        let change = Change::of(job.id, Some(&job), &Policy::default());
        assert!(
            matches!(
                &change,
                Change::Holds {
                    until: Time(65_000),
                    ..
                }
            ),
            "{change:?}"
        );
        fixture.state.make(&change);
        assert_eq!(
            (fixture.starts().as_str(), fixture.state.assigned("n1").jobs),
            ("", vec![job.id])
        );
        fixture
            .state
            .make(&Change::of(job.id, None, &Policy::default()));
        assert_eq!(fixture.state.holders().count(), 0);
    }

    fn window(
        fixture: &TestCluster,
        id: &str,
        users: &[&str],
        node: &str,
        hours: (i64, i64),
    ) -> Window {
        Window {
            id: id.into(),
            from: Time(0) + Span::seconds(hours.0 * 3600),
            to: Time(0) + Span::seconds(hours.1 * 3600),
            shares: reservation_window::whole(&fixture.state, &[node.to_string()]).unwrap(),
            whole: true,
            access: WindowAccess {
                users: users.iter().map(ToString::to_string).collect(),
                ..WindowAccess::default()
            },
            by_name: false,
            owner_preempts: false,
        }
    }

    #[test]
    fn a_running_job_is_in_the_open_reservation_on_its_nodes_that_it_may_use() {
        let mut fixture = cluster("3 x ncpus=4");
        for (id, users, node, hours) in [
            ("a.1", "bob", "n2", (0, 9)),
            ("b", "ann", "n2", (0, 1)),
            ("c.2", "ann", "n2", (1, 9)),
        ] {
            let window = window(&fixture, id, &[users], node, hours);
            fixture.state.set_window(window);
        }
        let inside = |nodes: &str, hour: i64| {
            let text = format!(
                "select={}:ncpus=1 walltime=60 place=scatter",
                nodes.split(',').count()
            );
            let (mut job, other) = (
                fixture.job(1, &text),
                cluster("3 x ncpus=4").queued(1, &text),
            );
            let elsewhere = [(7, "n1"), (8, "n2"), (9, "n3")]
                .into_iter()
                .filter(|(_, node)| !nodes.contains(node));
            let other = elsewhere.fold(other, |other, (id, node)| {
                other.running(id, "select=1:ncpus=4", node, 60)
            });
            let shares = other.plan().starts.remove(0).shares;
            job.apply(
                &Event::Started {
                    attempt: 1,
                    shares,
                    score: None,
                    extra: false,
                },
                moment(5),
            );
            fixture.state.reservation_of(
                &job,
                Span::seconds(60),
                Time(0) + Span::seconds(hour * 3600),
            )
        };
        assert_eq!(inside("n2", 0).as_deref(), Some("b"));
        assert_eq!(
            inside("n1,n2", 2).as_deref(),
            Some("c"),
            "one reserved node of the job is enough"
        );
        assert_eq!((inside("n1,n3", 2), inside("n2", 10)), (None, None));
        fixture.state.remove_window("b");
        assert_eq!(
            fixture
                .state
                .windows()
                .map(Window::name)
                .collect::<Vec<_>>(),
            ["a", "c"]
        );
    }

    /// M37.
    #[test]
    fn a_job_in_a_reservation_ends_no_later_than_the_reservation() {
        let until = |closes: Option<i64>| {
            let held = Change::Holds {
                job: JobId::job(1),
                shares: Vec::new(),
                user: "ann".into(),
                owner: JobOwner::default(),
                until: Time(60),
                inside: None,
                candidate: None,
                claimant: None,
                beyond: None,
                waits: None,
            };
            match held.inside(Some("R1".to_string()), closes.map(Time)) {
                Change::Holds { until, inside, .. } => (until.0, inside),
                other => panic!("{other:?}"),
            }
        };
        let inside = Some("R1".to_string());
        assert_eq!(
            [None, Some(50), Some(70)].map(until),
            [(60, inside.clone()), (50, inside.clone()), (60, inside)]
        );
    }

    /// A suspended job that waits to resume.
    fn suspended(fixture: &TestCluster) -> Job {
        let mut job = fixture.job(8, "select=1:ncpus=1");
        let manner = SuspendMode::For {
            job: JobId::job(9),
            releases: vec!["ncpus".into()],
        };
        for event in [
            Event::Started {
                attempt: 1,
                shares: vec![],
                score: Some(0.5),
                extra: false,
            },
            Event::Launched {
                attempt: 1,
                session: 1,
                boot: "b".into(),
            },
            Event::SuspendWanted {
                by: "s".into(),
                attempt: 1,
                manner,
            },
            Event::Suspended { attempt: 1 },
        ] {
            job.apply(&event, moment(0));
        }
        job
    }

    #[test]
    fn recorded_entries_survive_serialization() {
        let fixture = cluster("");
        let job = fixture.job(7, "select=2:ncpus=1 array=0-9:3%2");
        let promise = PromisedStart {
            at: Time(9),
            first: Time(7),
            nodes: vec!["n1".into()],
            held_until: None,
        };
        for change in [
            Change::of(job.id, Some(&job), &Policy::default()),
            Change::NoNode("n1".into()),
            Change::Accrues(job.id, job.life.eligibility),
            Change::Promised {
                job: job.id,
                promise: Cow::Owned(promise),
                span: Span(60),
            },
            Change::of(job.id, Some(&suspended(&fixture)), &Policy::default()),
            Change::Gone(job.id),
            Change::Permits(Some([JobId::job(7)].into())),
            Change::Bounds(JobId::array(7), Some(SubjobLimit { limit: 2, most: 5 })),
        ] {
            let text = serde_json::to_string(&RecordedEntry::Change(change)).unwrap();
            let again: RecordedEntry = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), text);
        }
        let begin = RecordedEntry::Begin {
            resources: Cow::Owned(resources()),
            policy: Cow::Owned(Policy::default()),
        };
        let text = serde_json::to_string(&begin).unwrap();
        assert_eq!(serde_json::from_str::<RecordedEntry>(&text).unwrap(), begin);
    }
}
