//! Job states and holds, with PBS's letters.

use serde::{Deserialize, Serialize};
use std::fmt;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobState {
    /// `Q`: the job starts as soon as resources and limits allow.
    Queued,
    /// `H`: a hold prevents the start.
    Held,
    /// `W`: the requested start time lies in the future.
    Waiting,
    /// `R`: the job has an allocation and is starting, running or exiting.
    Running,
    /// `S`: the job has an allocation but is suspended, by request or by preemption.
    Suspended,
    /// `B`: an array with at least one started subjob.
    Begun,
    /// `X`: a finished subjob of an unfinished array. Only displayed, never stored.
    Expired,
    /// `F`: finished, kept in the history.
    Finished,
}

impl JobState {
    /// All states.
    pub const ALL: [JobState; 8] = [
        JobState::Queued,
        JobState::Held,
        JobState::Waiting,
        JobState::Running,
        JobState::Suspended,
        JobState::Begun,
        JobState::Expired,
        JobState::Finished,
    ];

    /// Returns PBS's letter.
    pub fn letter(self) -> char {
        match self {
            JobState::Queued => 'Q',
            JobState::Held => 'H',
            JobState::Waiting => 'W',
            JobState::Running => 'R',
            JobState::Suspended => 'S',
            JobState::Begun => 'B',
            JobState::Expired => 'X',
            JobState::Finished => 'F',
        }
    }

    /// Tests whether the job is neither held (`H`) nor finished (`F`, `X`).
    pub fn is_live(self) -> bool {
        matches!(
            self,
            JobState::Queued
                | JobState::Waiting
                | JobState::Running
                | JobState::Suspended
                | JobState::Begun
        )
    }

    /// Tests whether the job has an allocation: it runs or is suspended.
    pub fn is_under_way(self) -> bool {
        matches!(self, JobState::Running | JobState::Suspended)
    }

    /// Returns the state with this letter; None for unknown letters.
    pub fn from_letter(letter: char) -> Option<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.letter() == letter)
    }
}

/// Set of holds on a job: user, operator, system and bad password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds(u8);

impl Holds {
    /// Empty set.
    pub const NONE: Holds = Holds(0);
    /// User hold: set and released by the owner.
    pub const USER: Holds = Holds(1);
    /// Operator hold: set and released by operators.
    pub const OPERATOR: Holds = Holds(2);
    /// System hold: set by the system or a manager.
    pub const SYSTEM: Holds = Holds(4);
    /// Password hold: the owner's password is out of date.
    pub const PASSWORD: Holds = Holds(8);

    /// Parses letters of `u o s p`, or `n` for none. Returns None for all other texts, also the
    /// empty text.
    pub fn parse(letters: &str) -> Option<Holds> {
        if letters == "n" {
            return Some(Holds::NONE);
        }
        if letters.is_empty() {
            return None;
        }
        letters.chars().try_fold(Holds::NONE, |holds, letter| {
            let (_, hold) = Holds::LETTERS.iter().find(|&&(l, _)| l == letter)?;
            Some(holds.with(*hold))
        })
    }

    /// Letters in PBS's order of display.
    const LETTERS: [(char, Holds); 4] = [
        ('s', Holds::SYSTEM),
        ('o', Holds::OPERATOR),
        ('u', Holds::USER),
        ('p', Holds::PASSWORD),
    ];

    /// Tests whether the set contains no hold.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of this set and `more`.
    pub fn with(self, more: Holds) -> Holds {
        Holds(self.0 | more.0)
    }

    /// Returns this set without `fewer`.
    pub fn without(self, fewer: Holds) -> Holds {
        Holds(self.0 & !fewer.0)
    }

    /// Tests whether the set contains all of `other`.
    pub fn contains(self, other: Holds) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.is_none() {
            return f.write_str("n");
        }
        for (letter, hold) in Holds::LETTERS {
            if self.contains(hold) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_parsed_and_shown_in_pbs_order() {
        assert_eq!(Holds::parse("uos").unwrap().to_string(), "sou");
        assert_eq!(Holds::parse("n").unwrap().to_string(), "n");
        assert_eq!(Holds::parse("x"), None);
        assert_eq!(
            Holds::parse("us").unwrap().without(Holds::SYSTEM),
            Holds::USER
        );
    }
}
