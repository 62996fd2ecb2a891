//! Explains why nodes do not fit a job, node by node. A cycle only counts the nodes that fit, so
//! this is computed on demand for one job.

use crate::model::reason::Mismatch;
use crate::model::report::outlook::{Rejection, Survey};
use crate::sched::cycle::state::CycleState;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::filter;
use crate::sched::placement::place::TentativePlacement;
use crate::sched::placement::rank::Candidates;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::{ChunkShape, ClassKey, Shape};
use std::collections::BTreeMap;

/// In the final state of a cycle, checks one chunk of a class of jobs on every node with known
/// properties. This is the first chunk that does not fit as often as requested, or the first chunk
/// if all fit. If `counts_planned_starts` is true, a node is also rejected if a planned start on it
/// is due before the job would end. None for a request without chunks.
pub fn of(class: &ClassKey, cycle: &CycleState, counts_planned_starts: bool) -> Option<Survey> {
    let (space, shape) = (&cycle.space, &*class.shape);
    let number = (0..shape.chunks.len())
        .find(|&chunk| {
            Candidates::of(space, shape, chunk, None).supply() < shape.chunks[chunk].count
        })
        .unwrap_or(0);
    let chunk = shape.chunks.get(number)?;
    let until = cycle.end_of(class);
    let windows = cycle.windows();
    let left = windows.inside(space, class, until);
    let beside = left
        .as_ref()
        .or_else(|| windows.left(class, until))
        .unwrap_or(space);
    let checks = NodeChecks {
        space,
        beside,
        shape,
        chunk,
        trial: TentativePlacement::new(space, shape),
        number,
    };
    let mut tally = SurveyCounts {
        survey: Survey {
            chunk: checks.requested_chunk(),
            ..Survey::default()
        },
        groups: BTreeMap::new(),
    };
    for ix in space
        .cluster
        .indices()
        .filter(|&ix| space.cluster.node(ix).kind.is_some())
    {
        let name = &space.cluster.node(ix).name;
        let is_planned =
            counts_planned_starts && space.next_planned_start(ix).is_some_and(|at| at < until);
        let objection = if windows.encloses(class, name) {
            checks
                .objection(ix)
                .or_else(|| is_planned.then(Objection::planned))
        } else {
            Some(Objection::outside())
        };
        tally.note(name, objection, &checks);
    }
    Some(tally.close(&checks))
}

/// Why a node does not fit the chunk.
struct Objection {
    code: &'static str,
    /// The resource, if the objection is about one: its name, and its free amount on the node (its
    /// total amount if `never` is true). The amount is None for a resource that is compared and not
    /// counted.
    resource: Option<(String, Option<i64>)>,
    text: Option<String>,
    /// Whether the node can never fit the chunk.
    never: bool,
}

impl Objection {
    fn with_text(code: &'static str, text: impl Into<String>) -> Objection {
        Objection {
            code,
            resource: None,
            text: Some(text.into()),
            never: false,
        }
    }

    fn outside() -> Objection {
        Objection::with_text("window_acl", "not in the job's reservation")
    }

    fn planned() -> Objection {
        Objection::with_text(
            "would_delay_booking",
            "resources are free, but kept for the planned start of another job",
        )
    }

    /// The position of the objection's code in the order in which rejections are reported.
    fn place(&self) -> usize {
        const ORDER: [&str; 14] = [
            "attribute",
            "requirement",
            "restriction",
            "hosts",
            "vetoed",
            "failed_start",
            "access_policy",
            "node_limit",
            "node_state",
            AMOUNT,
            "used_outside",
            "in_use",
            "window_acl",
            "would_delay_booking",
        ];
        ORDER
            .iter()
            .position(|code| *code == self.code)
            .unwrap_or(ORDER.len())
    }
}

const AMOUNT: &str = "amount";

/// The input of the checks.
struct NodeChecks<'a> {
    /// The free resources, including reserved resources.
    space: &'a AvailabilityMap<'a>,
    /// The free resources of the reservation that the job requests. Without such a reservation, the
    /// free resources that all reservations leave for the job.
    beside: &'a AvailabilityMap<'a>,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
    number: usize,
    trial: TentativePlacement<'a>,
}

impl NodeChecks<'_> {
    /// The requested chunk as text.
    fn requested_chunk(&self) -> String {
        let catalog = &self.space.cluster.catalog;
        let given = self
            .chunk
            .given
            .iter()
            .map(|(index, value)| format!("{}={value}", catalog.names()[*index]));
        let needs = self
            .chunk
            .needs
            .iter()
            .map(|need| format!("{}={}", need.resource, need.value));
        given.chain(needs).collect::<Vec<_>>().join(":")
    }

    /// Why a node does not fit the chunk; None if it fits. If several checks fail, this is the
    /// objection of the first one.
    fn objection(&self, ix: NodeIx) -> Option<Objection> {
        self.attribute(ix)
            .or_else(|| self.filtered(ix))
            .or_else(|| self.too_small(ix))
            .or_else(|| {
                (!self.space.is_open(ix)).then(|| {
                    Objection::with_text("node_state", "down, offline or under maintenance")
                })
            })
            .or_else(|| self.access(ix))
            .or_else(|| self.amount(ix))
            .or_else(|| self.window(ix))
    }

    fn attribute(&self, ix: NodeIx) -> Option<Objection> {
        let cluster = self.space.cluster;
        let need = self
            .chunk
            .needs
            .iter()
            .find(|need| !cluster.node_meets(ix, std::slice::from_ref(need)))?;
        let found = cluster
            .value(cluster.node(ix), &need.resource)
            .map_or("unset".to_string(), |v| v.to_string());
        let text = Some(format!("{} is {found}, not {}", need.resource, need.value));
        let resource = Some((need.resource.clone(), None));
        Some(Objection {
            code: "attribute",
            resource,
            text,
            never: true,
        })
    }

    fn filtered(&self, ix: NodeIx) -> Option<Objection> {
        let (mismatch, text) = filter::objection(self.space, self.shape, ix)?;
        let never = matches!(mismatch, Mismatch::Restriction | Mismatch::Hosts);
        Some(Objection {
            never,
            ..Objection::with_text(mismatch.name(), text)
        })
    }

    fn too_small(&self, ix: NodeIx) -> Option<Objection> {
        let kind = self.space.cluster.kind(self.space.cluster.node(ix).kind?);
        self.lacking(&kind.empty.free).map(|objection| Objection {
            never: true,
            ..objection
        })
    }

    fn access(&self, ix: NodeIx) -> Option<Objection> {
        let room = self.space.room(ix);
        if self
            .space
            .in_use()
            .get(&ix)
            .is_some_and(|in_use| in_use.is_closed)
        {
            return Some(Objection::with_text(
                "in_use",
                "the load average of the node has reached the configured maximum",
            ));
        }
        let is_taken = self.chunk.needs_idle_hosts() && room.tenants > 0;
        if self.space.admits(ix, self.shape.owner()) && !is_taken {
            return None;
        }
        let is_full =
            room.tenants >= room.bounds.jobs || room.barred().contains(&self.shape.owner().user);
        let (code, text) = if room.alone > 0 {
            ("access_policy", "a job has exclusive access")
        } else if is_full {
            (
                "node_limit",
                "the node's limit on jobs, or on jobs of this user, is reached",
            )
        } else if self.shape.access.is_exclusive() || is_taken {
            (
                "access_policy",
                "the job needs exclusive access, but other jobs run there",
            )
        } else {
            (
                "access_policy",
                "the jobs there do not share the node with this job",
            )
        };
        Some(Objection::with_text(code, text))
    }

    fn amount(&self, ix: NodeIx) -> Option<Objection> {
        let objection = self.lacking(&self.space.room(ix).free)?;
        let unused = self
            .space
            .in_use()
            .get(&ix)
            .map(|in_use| in_use.free_without_use(self.space.room(ix)));
        if unused.is_some_and(|room| self.lacking(&room.free).is_none()) {
            return Some(Objection {
                code: "in_use",
                ..objection
            });
        }
        let outside = self.space.cluster.outside(ix);
        let is_gpus = objection
            .resource
            .as_ref()
            .is_some_and(|(name, _)| name == "ngpus");
        let would_fit = objection
            .resource
            .as_ref()
            .and_then(|(_, found)| *found)
            .is_some_and(|free| {
                let index = self.space.cluster.catalog.index("ngpus");
                self.chunk
                    .asked
                    .iter()
                    .any(|&(i, amount)| Some(i) == index && amount <= free + outside)
            });
        Some(if is_gpus && outside > 0 && would_fit {
            Objection {
                code: "used_outside",
                ..objection
            }
        } else {
            objection
        })
    }

    /// The first resource of which the chunk requests more than `free`, as an objection.
    fn lacking(&self, free: &[i64]) -> Option<Objection> {
        let &(index, _) = self
            .chunk
            .asked
            .iter()
            .find(|&&(index, amount)| amount > free[index])?;
        let name = self.space.cluster.catalog.names()[index].clone();
        Some(Objection {
            code: AMOUNT,
            resource: Some((name, Some(free[index].max(0)))),
            text: None,
            never: false,
        })
    }

    /// Checks whether reservations leave enough resources on a node that otherwise has enough.
    fn window(&self, ix: NodeIx) -> Option<Objection> {
        let left = self.beside.room(ix);
        let is_left = self.lacking(&left.free).is_none() && left.admits(self.shape.owner());
        (!is_left || self.trial.times(ix, self.number) == 0).then(|| {
            Objection::with_text(
                "window_acl",
                "reserved for other jobs, or outside the requested reservation",
            )
        })
    }

    fn shown(&self, resource: &str, amount: i64) -> Option<String> {
        let catalog = &self.space.cluster.catalog;
        Some(
            self.shape
                .shown(catalog.index_on_node(resource)?, amount, catalog),
        )
    }

    fn requested(&self, resource: &str) -> Option<String> {
        let index = self.space.cluster.catalog.index_on_node(resource);
        let given = self.chunk.given.iter().find(|(i, _)| Some(*i) == index);
        if let Some((_, value)) = given {
            return Some(value.to_string());
        }
        let mut needs = self.chunk.needs.iter();
        let need = needs.find(|need| need.resource == resource)?;
        Some(need.value.to_string())
    }
}

/// The key by which objections are grouped and sorted: the position of the code
/// ([`Objection::place`]), the resource, and whether the node can never fit the chunk.
type ObjectionKey = (usize, Option<String>, bool);

/// The results for the nodes that have been checked.
struct SurveyCounts {
    survey: Survey,
    /// The rejected nodes, grouped by objection. If the objection is about an amount, the group has
    /// the minimum and the maximum of the amounts found on its nodes.
    groups: BTreeMap<ObjectionKey, (Rejection, Option<(i64, i64)>)>,
}

impl SurveyCounts {
    fn note(&mut self, name: &str, objection: Option<Objection>, checks: &NodeChecks) {
        let Some(objection) = objection else {
            self.survey.fitting += 1;
            if self.survey.named.len() < Survey::MOST {
                self.survey.named.push(name.to_string());
            }
            return;
        };
        let (resource, found) = objection
            .resource
            .clone()
            .map_or((None, None), |(name, found)| (Some(name), found));
        let key = (objection.place(), resource, objection.never);
        let (rejection, range) = self
            .groups
            .entry(key)
            .or_insert_with(|| (Rejection::first(objection, checks), None));
        rejection.nodes += 1;
        if rejection.named.len() < Survey::MOST {
            rejection.named.push(name.to_string());
        }
        if let Some(found) = found {
            let (least, most) = range.unwrap_or((found, found));
            *range = Some((least.min(found), most.max(found)));
        }
    }

    fn close(self, checks: &NodeChecks) -> Survey {
        let rejections =
            self.groups.into_values().map(|(rejection, range)| {
                let found = rejection.resource.as_deref().zip(range).and_then(
                    |(resource, (least, most))| {
                        Some((
                            checks.shown(resource, least)?,
                            checks.shown(resource, most)?,
                        ))
                    },
                );
                Rejection { found, ..rejection }
            });
        Survey {
            rejections: rejections.collect(),
            ..self.survey
        }
    }
}

impl Rejection {
    /// A rejection with the properties of the first objection of a group, and without nodes.
    fn first(objection: Objection, checks: &NodeChecks) -> Rejection {
        let resource = objection.resource.map(|(name, _)| name);
        let code = match (&resource, objection.code) {
            (Some(name), AMOUNT) => format!("{AMOUNT}.{name}"),
            (_, code) => code.to_string(),
        };
        Rejection {
            code,
            requested: resource.as_deref().and_then(|name| checks.requested(name)),
            resource,
            found: None,
            said: objection.text,
            never: objection.never,
            nodes: 0,
            named: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::node::NodeTerms;
    use crate::model::reservation::window::{Window, WindowAccess};
    use crate::model::time::Time;
    use crate::sched::backfill::reservation_window;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::explain::why::explain;
    use crate::sched::fixture::{TestCluster, cluster};

    fn survey(fixture: &TestCluster, request: &str) -> Survey {
        let fixture = fixture.clone().queued(99, request);
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            JobId::job(99),
            &outlook,
        )
        .unwrap()
        .survey
        .unwrap()
    }

    /// The survey as text: `amount.ncpus 2 n1,n2 requested 4 has 1..3; fits 1 n3`. The word `ever`
    /// marks nodes that can never fit.
    fn text(fixture: &TestCluster, request: &str) -> String {
        let survey = survey(fixture, request);
        let rejections = survey.rejections.iter().map(|rejection| {
            let amounts = rejection.found.as_ref().zip(rejection.requested.as_ref());
            let amounts = amounts.map(|((least, most), requested)| {
                format!(" requested {requested} has {least}..{most}")
            });
            let never = if rejection.never { " ever" } else { "" };
            let named = rejection.named.join(",");
            format!(
                "{} {} {named}{}{never}",
                rejection.code,
                rejection.nodes,
                amounts.unwrap_or_default()
            )
        });
        let fits = (survey.fitting > 0)
            .then(|| format!("fits {} {}", survey.fitting, survey.named.join(",")));
        rejections.chain(fits).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn rejected_nodes_are_counted_by_reason() {
        let fixture = cluster(
            "4 x ncpus=8:mem=8gb:arch=linux, 1 x ncpus=8:mem=8gb:arch=aix, \
             2 x ncpus=2:mem=8gb:arch=linux",
        )
        .node("n8", "ncpus=8:mem=8gb:arch=linux", false)
        .running(1, "select=1:ncpus=6", "n1", 600)
        .running(2, "select=1:ncpus=7", "n2", 600)
        .running(3, "select=1:ncpus=1 place=excl", "n3", 600)
        .running(4, "select=1:ncpus=1:mem=6gb", "n4", 600);
        let expected = "attribute 1 n5 ever; access_policy 1 n3; node_state 1 n8; \
                        amount.mem 1 n4 requested 4gb has 2gb..2gb; \
                        amount.ncpus 2 n1,n2 requested 4 has 1..2; \
                        amount.ncpus 2 n6,n7 requested 4 has 2..2 ever";
        assert_eq!(
            text(&fixture, "select=1:ncpus=4:mem=4gb:arch=linux"),
            expected
        );
        assert_eq!(
            survey(&fixture, "select=1:ncpus=4:mem=4gb:arch=linux").chunk,
            "ncpus=4:mem=4gb:arch=linux"
        );
    }

    #[test]
    fn a_job_that_requests_exclusive_nodes_is_rejected_by_nodes_with_other_jobs() {
        let fixture = cluster("3 x ncpus=8").running(1, "select=2:ncpus=1", "n1,n2", 600);
        let survey = survey(&fixture, "select=2:ncpus=1 place=scatter:excl");
        let said = survey.rejections[0].said.as_deref();
        assert_eq!(
            said,
            Some("the job needs exclusive access, but other jobs run there")
        );
        assert_eq!(
            (survey.rejections[0].nodes, survey.fitting, survey.named),
            (2, 1, vec!["n3".to_string()])
        );
    }

    #[test]
    fn a_node_at_its_job_limit_is_reported() {
        let terms = NodeTerms {
            max_jobs: Some(1),
            ..NodeTerms::default()
        };
        let fixture = cluster("1 x ncpus=8")
            .terms("n1", "ncpus=8", terms)
            .running(1, "select=1:ncpus=1", "n1", 60);
        assert_eq!(text(&fixture, "select=1:ncpus=1"), "node_limit 1 n1");
    }

    #[test]
    fn gpus_used_outside_of_jobs_are_a_reason_of_their_own() {
        let fixture = cluster("1 x ncpus=4:ngpus=2").used_outside("n1", "ncpus=4:ngpus=2", &[1]);
        assert_eq!(
            text(&fixture, "select=1:ngpus=2"),
            "used_outside 1 n1 requested 2 has 1..1"
        );
    }

    #[test]
    fn of_several_chunks_the_chunk_that_does_not_fit_is_examined() {
        let fixture = cluster("2 x ncpus=4")
            .running(1, "select=1:ncpus=3", "n1", 60)
            .running(2, "select=1:ncpus=3", "n2", 60);
        let survey = survey(&fixture, "select=1:ncpus=1+1:ncpus=3");
        assert_eq!((survey.chunk.as_str(), survey.fitting), ("ncpus=3", 0));
    }

    #[test]
    fn a_survey_lists_a_limited_number_of_nodes() {
        let fixture = cluster("20 x ncpus=1");
        let survey = survey(&fixture, "select=1:ncpus=2");
        assert_eq!(
            (survey.rejections[0].nodes, survey.rejections[0].named.len()),
            (20, Survey::MOST)
        );
    }

    #[test]
    fn a_planned_start_rejects_a_node_only_if_it_blocks_the_job() {
        let fixture = cluster("1 x ncpus=8")
            .running(1, "select=1:ncpus=4", "n1", 3600)
            .queued(2, "select=1:ncpus=8 walltime=3600");
        assert_eq!(
            text(&fixture, "select=1:ncpus=4 walltime=7200"),
            "would_delay_booking 1 n1"
        );
        assert_eq!(
            text(&fixture, "select=1:ncpus=4 walltime=60 queue=night"),
            "fits 1 n1"
        );
        // The planned start of the job itself is no obstacle.
        let half = cluster("2 x ncpus=4").running(1, "select=1:ncpus=4", "n1", 60);
        let expected = "amount.ncpus 1 n1 requested 4 has 0..0; fits 1 n2";
        assert_eq!(text(&half, "select=2:ncpus=4 walltime=600"), expected);
    }

    /// M39.
    #[test]
    fn reserved_nodes_reject_other_jobs_and_other_nodes_reject_jobs_of_the_reservation() {
        let mut fixture = cluster("3 x ncpus=4");
        fixture.state.set_window(Window {
            id: "R1".into(),
            from: Time(0),
            to: Time(9_000_000),
            shares: reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap(),
            whole: true,
            access: WindowAccess {
                users: vec!["ann".into()],
                ..WindowAccess::default()
            },
            by_name: true,
            owner_preempts: false,
        });
        assert_eq!(
            text(&fixture, "select=3:ncpus=4 walltime=60"),
            "window_acl 1 n1; fits 2 n2,n3"
        );
        let mut job = fixture.job(5, "select=1:ncpus=3 walltime=60");
        std::sync::Arc::make_mut(&mut job.spec).reservation = Some("R1".into());
        let mut inside = fixture.running(1, "select=1:ncpus=2", "n1", 600);
        inside.state.enqueue(&job);
        let outlook = forecast::run(
            inside.state.clone(),
            &inside.policy,
            inside.now,
            Budget::default(),
        );
        let why = explain(&inside.state, &inside.policy, inside.now, job.id, &outlook).unwrap();
        let codes: Vec<_> = why
            .survey
            .unwrap()
            .rejections
            .into_iter()
            .map(|one| (one.code, one.nodes))
            .collect();
        assert_eq!(
            codes,
            [
                ("amount.ncpus".to_string(), 1),
                ("window_acl".to_string(), 2)
            ]
        );
    }
}
