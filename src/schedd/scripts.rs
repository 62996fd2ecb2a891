//! Large scripts wait for a turn of their own, so that one transaction never writes more than one
//! of them: the requests of other users come before it, and between two of them.

use super::tick::Input;
use crate::wire::message::{Payload, Request};
use std::collections::VecDeque;

/// The smallest script that waits for a turn, in bytes: smaller ones cost little more than a job.
const LARGE: usize = 256 << 10;

/// Submissions with large scripts that wait for their turn, in the order in which they came.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: VecDeque<T>,
    /// The last turn was of others alone.
    passed: bool,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { waiting: VecDeque::new(), passed: false }
    }
}

impl<T> Turns<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What is written next: all inputs but large scripts, or at most one of these with them. A large
    /// script lets others pass once.
    pub fn take(&mut self, inputs: Vec<T>, is_large: impl Fn(&T) -> bool) -> Vec<T> {
        let (large, mut now): (Vec<T>, Vec<T>) = inputs.into_iter().partition(is_large);
        self.waiting.extend(large);
        if now.is_empty() || self.passed {
            now.extend(self.waiting.pop_front());
            self.passed = false;
        } else {
            self.passed = !self.waiting.is_empty();
        }
        now
    }
}

/// Whether an input is a submission with a large script.
pub fn is_large(input: &Input) -> bool {
    let Input::Request(_, _, Request::Submit(submission)) = input else { return false };
    matches!(&submission.payload, Payload::Script(text) if text.len() >= LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_at_most_one_large_script_and_others_come_first() {
        let mut turns = Turns::default();
        let mut take = |inputs: &[usize]| turns.take(inputs.to_vec(), |size| *size > 9);
        assert_eq!(take(&[16, 1, 17, 2, 18, 3]), [1, 2, 3], "large ones let others pass");
        assert_eq!(take(&[4]), [4, 16], "but only once");
        assert_eq!(take(&[]), [17]);
        assert_eq!(take(&[5, 19]), [5]);
        assert_eq!(take(&[6]), [6, 18]);
        assert_eq!(take(&[]), [19]);
        assert_eq!(take(&[]), [0; 0]);
        assert_eq!(take(&[7]), [7]);
        assert_eq!(take(&[20]), [20], "alone, it does not wait");
        assert!(turns.is_empty());
    }
}
