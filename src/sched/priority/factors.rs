//! The functions that compute the factors of the priority of a job (F1). A factor is from 0 to 1,
//! except that the queue factor is negative for a queue with a negative priority and without a
//! configured factor. The names and default weights are in [`FACTORS`].

use super::inputs::PriorityInputs;
use crate::model::policy::{FACTORS, Factor, Factors, Favor, Precedence};
use crate::model::queue::Queue;
use crate::model::report::priority_score::ScorePart;
use crate::model::time::Span;
use crate::sched::view::node_count::fewest_nodes;
use crate::sched::view::shape::ClassKey;

/// A job as input of the factors.
pub struct FactorContext<'a> {
    /// The policy, the cluster and the fair shares.
    pub inputs: &'a PriorityInputs<'a>,
    /// The request and the owner of the job.
    pub class: &'a ClassKey,
    /// The time that the job has waited.
    pub waited: Span,
}

/// The computation of a factor.
struct FactorMeasure {
    value: fn(&FactorContext) -> f64,
    /// Whether the value depends on the waiting time. If not, it is equal for all jobs of a class
    /// (a set of interchangeable jobs).
    grows: bool,
    /// The input of the computation as text, for `qstat --priority`.
    input: fn(&FactorContext) -> String,
}

const fn measure(factor: Factor) -> FactorMeasure {
    match factor {
        Factor::WaitTime => FactorMeasure {
            value: |job| part(job.waited.0 as f64, job.rule().max_wait.0 as f64),
            grows: true,
            input: |job| seconds(job.waited),
        },
        Factor::FairShare => FactorMeasure {
            value: |job| job.inputs.shares.factor(job.class),
            grows: false,
            input: |job| job.class.who.user.clone(),
        },
        Factor::Qos => FactorMeasure {
            value: |job| qos(job.rule(), job.class.who.qos.as_deref()),
            grows: false,
            input: |job| {
                let name = job.class.who.qos.as_deref();
                name.unwrap_or(Precedence::NORMAL).to_string()
            },
        },
        Factor::Queue => FactorMeasure {
            value: queue,
            grows: false,
            input: |job| job.class.who.queue.clone(),
        },
        Factor::JobSize => FactorMeasure {
            value: |job| size(job.nodes(), job.inputs.nodes, job.rule().favor),
            grows: false,
            input: |job| counted(job.nodes()),
        },
        Factor::User => FactorMeasure {
            value: |job| job.class.user_factor,
            grows: false,
            input: |job| job.class.who.user.clone(),
        },
        Factor::Slowdown => FactorMeasure {
            value: |job| slowdown(job.waited, job.walltime(), job.rule().slowdown_cap),
            grows: true,
            input: |job| {
                job.class.walltime.map_or("no walltime".to_string(), |_| {
                    format!("walltime {}", seconds(job.walltime()))
                })
            },
        },
    }
}

impl FactorContext<'_> {
    /// All factors of the job.
    pub fn factors(&self) -> Factors {
        self.computed(Factors::NONE, |_| true)
    }

    /// All factors of the job. `factors` are the factors of another job of the class; only the
    /// factors that depend on the waiting time are computed.
    pub fn after(&self, factors: Factors) -> Factors {
        self.computed(factors, |measure| measure.grows)
    }

    fn computed(
        &self,
        mut factors: Factors,
        is_computed: impl Fn(&FactorMeasure) -> bool,
    ) -> Factors {
        for row in FACTORS {
            let measure = measure(row.factor);
            if is_computed(&measure) {
                factors[row.factor] = (measure.value)(self);
            }
        }
        factors
    }

    /// The parts of the weighted sum, with the input of each factor.
    pub fn parts(&self, factors: &Factors) -> Vec<ScorePart> {
        let weights = &self.rule().weights;
        let rows = FACTORS.iter();
        rows.map(|row| {
            let input = (measure(row.factor).input)(self);
            ScorePart::weighed(row.name, input, factors[row.factor], weights[row.factor])
        })
        .collect()
    }

    fn rule(&self) -> &Precedence {
        &self.inputs.policy.precedence
    }

    fn walltime(&self) -> Span {
        self.inputs.walltime(self.class)
    }

    fn nodes(&self) -> u64 {
        fewest_nodes(&self.class.shape, &self.inputs.state.cluster)
    }
}

fn seconds(span: Span) -> String {
    format!("{} s", span.as_seconds())
}

fn counted(nodes: u64) -> String {
    if nodes == 1 {
        "1 node".to_string()
    } else {
        format!("{nodes} nodes")
    }
}

fn part(of: f64, all: f64) -> f64 {
    (of / all).clamp(0.0, 1.0)
}

fn qos(rule: &Precedence, name: Option<&str>) -> f64 {
    let factor = name
        .and_then(|name| rule.qos.get(name))
        .or_else(|| rule.qos.get(Precedence::NORMAL));
    factor.copied().unwrap_or(0.0)
}

/// The factor of the queue: the configured factor, or otherwise the `Priority` attribute of the
/// queue divided by 1024, which is from -1 to 1 (F5).
fn queue(job: &FactorContext) -> f64 {
    let factor = job.rule().queues.get(&job.class.who.queue).copied();
    factor.unwrap_or_else(|| job.inputs.queue_priority(job.class) as f64 / Queue::PRIORITY_SCALE)
}

/// The size factor of a job that needs `requested` of the `nodes` nodes of the cluster (F6). With
/// `Large`, it is the requested fraction of the nodes. With `Small`, it falls from 1 for one node
/// to 0 for all nodes.
fn size(requested: u64, nodes: usize, favor: Favor) -> f64 {
    let (requested, nodes) = ((requested as f64).min(nodes as f64), nodes as f64);
    match favor {
        Favor::Small if nodes > 1.0 => 1.0 - part((requested - 1.0).max(0.0), nodes - 1.0),
        Favor::Small => 1.0,
        Favor::Large => part(requested, nodes.max(1.0)),
    }
}

/// The slowdown factor. The slowdown is (wait + walltime) / walltime; the walltime counts as at
/// least one second. The factor is 0 for a job that has not waited, and 1 once the slowdown has
/// reached the cap.
fn slowdown(waited: Span, walltime: Span, cap: f64) -> f64 {
    let least = Span::seconds(1).0 as f64;
    part(waited.0 as f64 / (walltime.0 as f64).max(least), cap - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::sched::fixture::cluster;

    const HOUR: i64 = 3600;

    /// F1: the job has waited 12 h, and the maximum is 168 h. Its fair-share factor is 0.5, its QoS
    /// is normal, its queue factor is 1, it requests 4 of 16 nodes, and its user factor is 1. F7:
    /// the user factor of the job is 0.2 instead.
    #[test]
    fn the_weighted_sum_equals_the_example_of_the_specification() {
        let mut fixture = cluster("16 x ncpus=1").queued(1, "select=4:ncpus=1 walltime=3600");
        fixture.policy.precedence = Precedence {
            weights: Factors::FLUX,
            slowdown_cap: 100.0,
            ..Precedence::default()
        };
        let job = FactorContext {
            inputs: &fixture.state.rated_by(&fixture.policy).inputs,
            class: fixture.state.waiting_class(JobId::job(1)).unwrap(),
            waited: Span::seconds(12 * HOUR),
        };
        let factors = job
            .factors()
            .with(Factor::FairShare, 0.5)
            .with(Factor::Queue, 1.0);
        let sum = |factors: Factors, weights: &Factors| format!("{:.2}", factors.weighed(weights));
        assert_eq!(sum(factors, &Factors::FLUX), "9321.43");
        let lowered = factors.with(Factor::User, 0.2);
        assert_eq!(sum(lowered, &Factors::FLUX), "8521.43");
        assert_eq!(sum(factors, &Factors::NONE), "0.00");
        let slowdown = Factors::NONE.with(Factor::Slowdown, 99.0);
        assert_eq!(sum(factors, &slowdown), "12.00");
        let parts = job.parts(&factors);
        assert_eq!(
            parts.iter().filter_map(ScorePart::product).sum::<f64>(),
            factors.weighed(&Factors::FLUX)
        );
        let fresh = FactorContext {
            waited: Span(0),
            ..job
        };
        assert_eq!(job.after(fresh.factors()), job.factors());
        assert_ne!(fresh.factors(), job.factors());
    }

    /// F2.
    #[test]
    fn the_waiting_time_counts_up_to_the_maximum() {
        assert_eq!((part(200.0, 168.0), part(84.0, 168.0)), (1.0, 0.5));
    }

    /// F4.
    #[test]
    fn a_job_without_qos_has_the_factor_of_the_qos_normal() {
        let rule = Precedence::default();
        assert_eq!(
            [Some("expedite"), None, Some("normal"), Some("standby")].map(|name| qos(&rule, name)),
            [1.0, 0.5, 0.5, 0.0]
        );
    }

    /// F6.
    #[test]
    fn the_size_factor_favors_large_or_small_jobs() {
        assert_eq!(
            (
                size(4, 16, Favor::Large),
                size(4, 16, Favor::Small),
                size(1, 16, Favor::Small),
                size(99, 16, Favor::Small)
            ),
            (0.25, 0.8, 1.0, 0.0)
        );
        assert_eq!(
            (size(1, 1, Favor::Small), size(1, 0, Favor::Large)),
            (1.0, 0.0)
        );
    }

    #[test]
    fn the_slowdown_counts_up_to_the_cap() {
        let hours = |hours: i64| Span::seconds(hours * HOUR);
        assert_eq!(
            (
                slowdown(hours(8), hours(1), 9.0),
                slowdown(hours(4), hours(1), 9.0)
            ),
            (1.0, 0.5)
        );
        assert_eq!(
            (
                slowdown(hours(0), hours(1), 9.0),
                slowdown(hours(80), hours(1), 9.0)
            ),
            (0.0, 1.0)
        );
    }
}
