//! How the quantities of limits are counted: as integers. Processor equivalents are counted in
//! thousandths, times in milliseconds.

use super::cluster::Cluster;
use super::holdings::{Holding, RemainingUse};
use super::processor_equivalents;
use super::shape::ClassKey;
use super::snapshot::ClusterState;
use crate::model::limit::Quantity;
use crate::model::limit::usage::Figure;
use crate::model::time::Span;
use crate::sched::amounts::Catalog;

/// How a quantity is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched) enum QuantityKind {
    Jobs,
    /// The number of chunks.
    Nodes,
    /// Processor equivalents, in thousandths.
    Equivalents,
    /// The remaining milliseconds of the walltime, multiplied by the number of CPUs.
    ProcessorTime,
    /// The remaining milliseconds of the walltime.
    Time,
    /// The amount of the resource with this index.
    Amount(usize),
    /// An unknown resource, which always counts as 0.
    Nothing,
}

impl QuantityKind {
    /// How this quantity is counted.
    pub fn of(quantity: &Quantity, catalog: &Catalog) -> QuantityKind {
        match quantity {
            Quantity::Jobs => QuantityKind::Jobs,
            Quantity::Nodes => QuantityKind::Nodes,
            Quantity::Equivalents => QuantityKind::Equivalents,
            Quantity::ProcessorSeconds => QuantityKind::ProcessorTime,
            Quantity::Seconds => QuantityKind::Time,
            Quantity::Resource(name) => catalog
                .index(name)
                .map_or(QuantityKind::Nothing, QuantityKind::Amount),
        }
    }

    /// The number of counted units in one unit of the configured limit.
    fn scale(self) -> i64 {
        match self {
            QuantityKind::Equivalents | QuantityKind::ProcessorTime | QuantityKind::Time => 1000,
            QuantityKind::Jobs
            | QuantityKind::Nodes
            | QuantityKind::Amount(_)
            | QuantityKind::Nothing => 1,
        }
    }

    /// A configured limit in counted units.
    pub fn most(self, limit: i64) -> i64 {
        limit.saturating_mul(self.scale())
    }

    /// The amount that a job of a class adds to the quantity when it starts; `span` is its
    /// walltime.
    pub fn requested(self, class: &ClassKey, span: Span, cluster: &Cluster) -> i64 {
        match self {
            QuantityKind::Jobs => 1,
            QuantityKind::Nodes => i64::try_from(class.shape.instances).unwrap_or(i64::MAX),
            QuantityKind::Equivalents => {
                processor_equivalents::thousandths(&class.shape.total, cluster)
            }
            QuantityKind::ProcessorTime | QuantityKind::Time => {
                self.weight(class, cluster).saturating_mul(span.0)
            }
            QuantityKind::Amount(index) => class.shape.total[index],
            QuantityKind::Nothing => 0,
        }
    }

    /// The decrease of the amount per millisecond while a job of the class runs; 0 for quantities
    /// that do not decrease with time.
    pub fn weight(self, class: &ClassKey, cluster: &Cluster) -> i64 {
        match self {
            QuantityKind::ProcessorTime => cluster
                .catalog
                .index("ncpus")
                .map_or(0, |index| class.shape.total[index]),
            QuantityKind::Time => 1,
            _ => 0,
        }
    }

    /// The decrease of the amount per millisecond while a job with this number of CPUs runs; 0 for
    /// quantities that do not decrease with time.
    pub fn weight_of(self, processors: i64) -> i64 {
        match self {
            QuantityKind::ProcessorTime => processors,
            QuantityKind::Time => 1,
            _ => 0,
        }
    }

    /// The amount of the running jobs of an owner; 0 for quantities that decrease with time, and
    /// for unknown resources.
    pub fn held(self, holding: &Holding, state: &ClusterState) -> i64 {
        match self {
            QuantityKind::Jobs => holding.jobs.len() as i64,
            QuantityKind::Nodes => i64::try_from(holding.chunks).unwrap_or(i64::MAX),
            // Processor equivalents change with the nodes, so no sum of them is stored.
            QuantityKind::Equivalents => {
                let holders = holding
                    .jobs
                    .iter()
                    .filter_map(|job| state.running.get(job)?.holder.as_ref());
                holders
                    .map(|holder| processor_equivalents::thousandths(&holder.asked, &state.cluster))
                    .sum()
            }
            QuantityKind::Amount(index) => holding.asked[index],
            QuantityKind::ProcessorTime | QuantityKind::Time | QuantityKind::Nothing => 0,
        }
    }

    /// The remaining use of the running jobs of an owner, for quantities that decrease with time.
    pub fn remaining_use(self, holding: &Holding) -> RemainingUse {
        match self {
            QuantityKind::ProcessorTime => holding.processors,
            QuantityKind::Time => holding.times,
            _ => RemainingUse::default(),
        }
    }

    /// Converts an amount in counted units to the unit of the configured limit, rounded up, and to
    /// the text for users.
    pub fn figure(self, amount: i64, catalog: &Catalog) -> Figure {
        let whole = amount / self.scale() + i64::from(amount % self.scale() > 0);
        let shown = match self {
            _ if amount == i64::MAX => "unlimited".to_string(),
            QuantityKind::Amount(index) => catalog.value(index, amount).to_string(),
            QuantityKind::Equivalents if amount % 1000 != 0 => {
                format!("{:.3}", amount as f64 / 1000.0)
            }
            _ => whole.to_string(),
        };
        Figure {
            amount: whole,
            shown,
        }
    }
}
