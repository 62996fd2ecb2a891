//! Which of a job's waiting counts as eligible time (I13, M17, X9).

use serde::{Deserialize, Serialize};

named! {
    /// Which of a job's waiting counts as eligible time. What is meant by each is in
    /// [`crate::model::job::eligible_time`].
    Accrual {
        /// Waiting for what others have; not for itself: its owner's hold, its begin time, its
        /// dependencies, a limit of its own.
        Pbs = "pbs",
        /// All of it.
        Always = "always",
        /// Waiting without a hold, while it is within the limits on waiting jobs.
        QueuePolicy = "queue_policy",
        /// Waiting without a hold, while it is within all limits of its own.
        FullPolicy = "full_policy",
    }
}
