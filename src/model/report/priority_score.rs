//! Priority of a job under the policy, component by component: input, factor, weight.

use crate::model::job_id::JobId;
use serde::{Deserialize, Serialize};

/// Component of a job's priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScorePart {
    /// Name in the configuration, such as `wait_time` or `eligible_time`.
    pub name: String,
    /// Input as displayed: seconds, a fraction of the shares, nodes, a name.
    pub input: String,
    /// Value computed from the input; in a weighted sum of factors, usually from 0 to 1.
    pub factor: f64,
    /// Weight; None for a variable of a formula.
    pub weight: Option<f64>,
}

impl ScorePart {
    /// Creates a component of a weighted sum.
    pub fn weighed(name: &str, input: String, factor: f64, weight: f64) -> ScorePart {
        ScorePart {
            name: name.to_string(),
            input,
            factor,
            weight: Some(weight),
        }
    }

    /// Creates a variable of a formula.
    pub fn named(name: &str, value: f64) -> ScorePart {
        ScorePart {
            name: name.to_string(),
            input: format!("{value}"),
            factor: value,
            weight: None,
        }
    }

    /// Returns the contribution to the sum; None for a variable of a formula.
    pub fn product(&self) -> Option<f64> {
        self.weight.map(|weight| weight * self.factor)
    }
}

/// Priority of a waiting job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorityScore {
    /// Job id.
    pub job: JobId,
    /// Sort key before the score: jobs of the highest tier come first.
    pub tier: i64,
    /// Current priority; the highest first.
    pub score: f64,
    /// Components of the score.
    pub parts: Vec<ScorePart>,
}

impl PriorityScore {
    /// Name of the only component of a score if an operator has set a system priority (M11).
    pub const SYSTEM_PRIORITY: &str = "system_priority";

    /// Returns the system priority, if an operator set one.
    pub fn system_priority(&self) -> Option<f64> {
        self.parts
            .iter()
            .find(|part| part.name == PriorityScore::SYSTEM_PRIORITY)
            .map(|part| part.factor)
    }
}
