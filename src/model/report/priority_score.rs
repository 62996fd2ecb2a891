//! What a job is worth under the order of the policy, part by part: what went in, what it counts
//! for, what comes of it.

use crate::model::job_id::JobId;
use serde::{Deserialize, Serialize};

/// One of the numbers that make up a job's worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScorePart {
    /// As it is called in the configuration: `wait_time`, `eligible_time`.
    pub name: String,
    /// What is known of the job: seconds, a fraction of the shares, nodes, a name.
    pub input: String,
    /// What is made of that: in a sum of factors a number from 0 to 1.
    pub factor: f64,
    /// What it counts for; None where it stands in a formula.
    pub weight: Option<f64>,
}

impl ScorePart {
    /// A part of a weighted sum.
    pub fn weighed(name: &str, input: String, factor: f64, weight: f64) -> ScorePart {
        ScorePart {
            name: name.to_string(),
            input,
            factor,
            weight: Some(weight),
        }
    }

    /// Something that a formula asks for.
    pub fn named(name: &str, value: f64) -> ScorePart {
        ScorePart {
            name: name.to_string(),
            input: format!("{value}"),
            factor: value,
            weight: None,
        }
    }

    /// What it adds to the sum; None where it stands in a formula.
    pub fn product(&self) -> Option<f64> {
        self.weight.map(|weight| weight * self.factor)
    }
}

/// What a job that waits is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorityScore {
    /// Which.
    pub job: JobId,
    /// What goes before the score: the jobs of the highest tier come first.
    pub tier: i64,
    /// What it is worth, as it counts now; the highest first.
    pub score: f64,
    /// What that is made of.
    pub parts: Vec<ScorePart>,
}

impl PriorityScore {
    /// The name of the only part of a score that an operator has given (M11).
    pub const SYSTEM_PRIORITY: &str = "system_priority";

    /// What an operator says of the job, if one does.
    pub fn system_priority(&self) -> Option<f64> {
        self.parts
            .iter()
            .find(|part| part.name == PriorityScore::SYSTEM_PRIORITY)
            .map(|part| part.factor)
    }
}
