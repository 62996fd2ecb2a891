//! Positions of waiting jobs in the queue.

use super::priority_score::{PriorityScore, ScorePart};
use serde::{Deserialize, Serialize};

/// Position of a waiting job or array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueTurn {
    /// Rank from 1; rank 1 is considered first (I12).
    pub rank: u64,
    /// Owner of the job.
    pub user: String,
    /// Account that the job requests (`-A`).
    pub account: Option<String>,
    /// Queue of the job.
    pub queue: String,
    /// True if the job requests a reservation. Such jobs come first, because they use no resources
    /// of other jobs (M1).
    pub is_reserved: bool,
    /// Cluster of the job, if the order depends on clusters. On the nodes of that cluster, the job
    /// precedes the jobs of all other clusters.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Sort keys before the score, as displayed; empty for none.
    pub precedence: String,
    /// Priority and its components.
    pub priority: PriorityScore,
}

/// Position of a job and its neighbors in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    /// Position of the job.
    pub own: QueueTurn,
    /// Next job ahead; None for the first job.
    pub above: Option<QueueTurn>,
    /// Next job behind; None for the last job.
    pub below: Option<QueueTurn>,
}

/// Reason why one job precedes another in the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderDifference {
    /// Only one of the jobs requests a reservation.
    Reserved,
    /// Clusters of the two jobs: each job comes first on the nodes of its own cluster.
    Cluster(String, String),
    /// Sort keys before the score, for each of the two jobs, as displayed.
    Tier(String, String),
    /// System priorities of the two jobs; None for a job without a system priority.
    SystemPriority(Option<f64>, Option<f64>),
    /// Component of the score, for each job.
    Part(ScorePart, ScorePart),
    /// Scores of the two jobs, if no component differs.
    Score(f64, f64),
    /// Place in the queue, because nothing else differs.
    Place,
}

impl QueueTurn {
    /// Returns the reasons for the order of two jobs, at least one. The criteria that precede the
    /// score come first, then different system priorities. If the system priorities are equal,
    /// differing components of the scores follow, the largest difference first. A component of only
    /// one score is omitted. If nothing else is found, the only reason is the score or, with equal
    /// scores, the place in the queue.
    pub fn differences(&self, other: &QueueTurn) -> Vec<OrderDifference> {
        let mut all = Vec::new();
        if self.is_reserved != other.is_reserved {
            all.push(OrderDifference::Reserved);
        }
        if let (Some(own), Some(theirs)) = (&self.cluster, &other.cluster)
            && own != theirs
        {
            all.push(OrderDifference::Cluster(own.clone(), theirs.clone()));
        }
        if self.priority.tier != other.priority.tier {
            let (own, theirs) = (self.precedence.clone(), other.precedence.clone());
            all.push(OrderDifference::Tier(own, theirs));
        }
        let (own, theirs) = (
            self.priority.system_priority(),
            other.priority.system_priority(),
        );
        if own != theirs {
            all.push(OrderDifference::SystemPriority(own, theirs));
            return all;
        }
        let mut parts: Vec<(f64, OrderDifference)> = Vec::new();
        for part in &self.priority.parts {
            let same = other
                .priority
                .parts
                .iter()
                .find(|same| same.name == part.name);
            if let Some(same) = same
                && part.counts() != same.counts()
            {
                let distance = (part.counts() - same.counts()).abs();
                parts.push((distance, OrderDifference::Part(part.clone(), same.clone())));
            }
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.extend(parts.into_iter().map(|(_, part)| part));
        if all.is_empty() {
            let (own, theirs) = (self.priority.score, other.priority.score);
            all.push(if own == theirs {
                OrderDifference::Place
            } else {
                OrderDifference::Score(own, theirs)
            });
        }
        all
    }
}

impl ScorePart {
    /// Returns the contribution to the sum, or the value in a formula.
    pub fn counts(&self) -> f64 {
        self.product().unwrap_or(self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;

    fn turn(tier: i64, parts: &[(&str, f64, f64)]) -> QueueTurn {
        let part = |&(name, factor, weight): &(&str, f64, f64)| {
            ScorePart::weighed(name, String::new(), factor, weight)
        };
        let parts: Vec<ScorePart> = parts.iter().map(part).collect();
        let score = parts.iter().filter_map(ScorePart::product).sum();
        QueueTurn {
            rank: 1,
            user: "ann".into(),
            account: None,
            queue: "workq".into(),
            is_reserved: false,
            cluster: None,
            precedence: if tier == 0 {
                String::new()
            } else {
                format!("queue priority {tier}")
            },
            priority: PriorityScore {
                job: JobId::job(1),
                tier,
                score,
                parts,
            },
        }
    }

    fn differences_of(one: &QueueTurn, other: &QueueTurn) -> Vec<String> {
        let name = |difference: OrderDifference| match difference {
            OrderDifference::Part(one, other) => {
                format!("{} {} {}", one.name, one.counts(), other.counts())
            }
            other => format!("{other:?}"),
        };
        one.differences(other).into_iter().map(name).collect()
    }

    #[test]
    fn the_largest_difference_is_first_and_equal_components_are_omitted() {
        let one = turn(
            0,
            &[
                ("wait_time", 0.5, 100.0),
                ("fair_share", 0.25, 1000.0),
                ("queue", 1.0, 0.0),
            ],
        );
        let other = turn(
            0,
            &[
                ("wait_time", 1.0, 100.0),
                ("fair_share", 0.5, 1000.0),
                ("queue", 0.0, 0.0),
            ],
        );
        assert_eq!(
            differences_of(&one, &other),
            ["fair_share 250 500", "wait_time 50 100"]
        );
        let low = turn(0, &[("queue", 0.75, 100.0), ("wait_time", 0.0, 100.0)]);
        let high = turn(0, &[("queue", 1.0, 100.0), ("wait_time", 0.5, 100.0)]);
        assert_eq!(
            differences_of(&low, &high),
            ["wait_time 0 50", "queue 75 100"],
            "only the difference counts"
        );
        let above = turn(
            7,
            &[("wait_time", 0.5, 100.0), ("fair_share", 0.25, 1000.0)],
        );
        assert_eq!(
            differences_of(&above, &one),
            [r#"Tier("queue priority 7", "")"#]
        );
        let reserved = QueueTurn {
            is_reserved: true,
            ..one.clone()
        };
        assert_eq!(differences_of(&reserved, &one), ["Reserved"]);
    }

    #[test]
    fn system_priorities_and_scores_without_components_are_compared() {
        let one = turn(0, &[("wait_time", 0.5, 100.0)]);
        let mut ordered = turn(0, &[]);
        ordered.priority.parts = vec![ScorePart::named(PriorityScore::SYSTEM_PRIORITY, 5.0)];
        ordered.priority.score = 1e9 + 5.0;
        assert_eq!(
            differences_of(&one, &ordered),
            ["SystemPriority(None, Some(5.0))"]
        );
        let with = |score| QueueTurn {
            priority: PriorityScore {
                score,
                ..turn(0, &[]).priority
            },
            ..turn(0, &[])
        };
        assert_eq!(
            differences_of(&with(-1.0), &with(-0.5)),
            ["Score(-1.0, -0.5)"]
        );
    }

    #[test]
    fn the_cluster_is_the_first_criterion() {
        let of = |cluster: &str, score| QueueTurn {
            cluster: Some(cluster.into()),
            ..turn(0, &[("job_priority", score, 1.0)])
        };
        let expected = [r#"Cluster("/a", "/b")"#, "job_priority 1 5"];
        assert_eq!(differences_of(&of("/a", 1.0), &of("/b", 5.0)), expected);
        assert_eq!(
            differences_of(&of("/a", 1.0), &of("/a", 5.0)),
            expected[1..]
        );
    }

    #[test]
    fn equal_jobs_are_ordered_by_their_place_in_the_queue() {
        let one = turn(0, &[("wait_time", 0.5, 100.0)]);
        assert_eq!(differences_of(&one, &one), ["Place"]);
    }
}
