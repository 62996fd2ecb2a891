//! The factors of a job's priority (F1).

use serde::{Deserialize, Serialize};

/// A number for each factor: what a job has of it, from 0 to 1, or what it counts for, as in preset
/// `hybrid` where nobody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    /// How long the job has been waiting, of the longest wait that counts (F2).
    pub wait_time: f64,
    /// What its owner has had of what is theirs: .5 for just that (F3).
    pub fair_share: f64,
    /// Its quality of service (F4).
    pub qos: f64,
    /// Its queue (F5).
    pub queue: f64,
    /// The fewest nodes that hold it, of all nodes (F6).
    pub job_size: f64,
    /// What its owner says of it; 1 unless that is less (F7).
    pub user: f64,
    /// How many times its walltime it will have taken at least, its wait included, of what counts
    /// at most.
    pub slowdown: f64,
}

impl Factors {
    /// Their names in `[order.weights]`, in the order of [`Factors::each`].
    pub const NAMES: [&str; 7] = [
        "wait_time",
        "fair_share",
        "qos",
        "queue",
        "job_size",
        "user",
        "slowdown",
    ];

    /// Nothing of any.
    pub const NONE: Factors = Factors::of([0.0; 7]);

    /// What they count for with Flux (F1).
    pub const FLUX: Factors = Factors::of([1000.0, 10000.0, 5000.0, 500.0, 1000.0, 1000.0, 0.0]);

    /// What they count for in preset `hybrid` (decision 36): quality of service, queue and user
    /// move no two jobs of one queue that say nothing; an `expedite` job, and one of a queue of
    /// factor 1, are ahead as if they had waited for ten times their walltime.
    pub const HYBRID: Factors =
        Factors::of([5000.0, 2000.0, 20000.0, 10000.0, 0.0, 10000.0, 10000.0]);

    /// One number for each, in the order of [`Factors::NAMES`].
    pub const fn of(
        [wait_time, fair_share, qos, queue, job_size, user, slowdown]: [f64; 7],
    ) -> Factors {
        Factors {
            wait_time,
            fair_share,
            qos,
            queue,
            job_size,
            user,
            slowdown,
        }
    }

    /// The numbers.
    pub const fn each(&self) -> [f64; 7] {
        let Factors {
            wait_time,
            fair_share,
            qos,
            queue,
            job_size,
            user,
            slowdown,
        } = *self;
        [wait_time, fair_share, qos, queue, job_size, user, slowdown]
    }

    /// What they come to where each counts for so much: the priority of a job (F1).
    pub fn weighed(&self, weights: &Factors) -> f64 {
        self.each()
            .iter()
            .zip(weights.each())
            .map(|(factor, weight)| factor * weight)
            .sum()
    }
}

impl Default for Factors {
    fn default() -> Factors {
        Factors::HYBRID
    }
}
