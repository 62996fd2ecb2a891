//! flux-accounting's integer priority: fair-share first, then the queue, the bank, and how urgent
//! somebody says a job is (F16).

/// What each input counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// For a factor of 1.
    pub fair_share: f64,
    /// For each point of the queue's priority.
    pub queue: f64,
    /// For each point of the bank's.
    pub bank: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { fair_share: 100_000.0, queue: 10_000.0, bank: 0.0 }
    }
}

/// The urgency of a job that says nothing.
pub const USUAL: u8 = 16;

/// The highest there is.
pub const HIGHEST: u8 = 31;

/// What one step of urgency counts for.
const STEP: f64 = 1000.0;

/// Whether somebody may give a job this urgency: above the usual only administrators (F16).
pub fn may_give(urgency: u8, is_administrator: bool) -> bool {
    urgency <= if is_administrator { HIGHEST } else { USUAL }
}

/// The priority from a fair-share factor, the priorities of queue and bank, and the urgency; None
/// for urgency 0, which holds the job (F16).
pub fn priority(fair_share: f64, queue: f64, bank: f64, urgency: u8, weights: &Weights) -> Option<f64> {
    let steps = f64::from(urgency.min(HIGHEST)) - f64::from(USUAL);
    let sum = fair_share * weights.fair_share + queue * weights.queue + bank * weights.bank + steps * STEP;
    (urgency > 0).then_some(sum)
}
