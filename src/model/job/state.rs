//! The states of a job and the holds on it, by PBS's letters.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobState {
    /// `Q`: may start as soon as it fits.
    Queued,
    /// `H`: barred by a hold.
    Held,
    /// `W`: its begin time lies ahead.
    Waiting,
    /// `R`: has an allocation; starting, running or being ended.
    Running,
    /// `S`: has an allocation and stands still, by order of somebody or for another job.
    Suspended,
    /// `B`: an array of which an element has started.
    Begun,
    /// `X`: an element that is over, while its array is not. Only shown.
    Expired,
    /// `F`: over, kept as history.
    Finished,
}

impl JobState {
    /// All there are.
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

    /// PBS's letter.
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

    /// Whether such a job may go on without anybody's doing: it waits or runs.
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

    /// Whether such a job has its allocation: it runs, or stands still in the middle of that.
    pub fn is_under_way(self) -> bool {
        matches!(self, JobState::Running | JobState::Suspended)
    }

    /// The state of a letter, if it is one of ours.
    pub fn from_letter(letter: char) -> Option<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.letter() == letter)
    }
}

/// The holds on a job: any of user, operator, system and bad password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds(u8);

impl Holds {
    /// No hold.
    pub const NONE: Holds = Holds(0);
    /// Set and released by the owner.
    pub const USER: Holds = Holds(1);
    /// Set and released by operators.
    pub const OPERATOR: Holds = Holds(2);
    /// Set by the system or a manager.
    pub const SYSTEM: Holds = Holds(4);
    /// The owner's password no longer fits.
    pub const PASSWORD: Holds = Holds(8);

    /// Reads letters of `u o s p`, or `n` for none.
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

    /// PBS shows them in this order.
    const LETTERS: [(char, Holds); 4] = [
        ('s', Holds::SYSTEM),
        ('o', Holds::OPERATOR),
        ('u', Holds::USER),
        ('p', Holds::PASSWORD),
    ];

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Both.
    pub fn with(self, more: Holds) -> Holds {
        Holds(self.0 | more.0)
    }

    /// These, less `fewer`.
    pub fn without(self, fewer: Holds) -> Holds {
        Holds(self.0 & !fewer.0)
    }

    /// Whether all of `other` are among these.
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
    fn holds_are_shown_in_pbs_order() {
        assert_eq!(Holds::parse("uos").unwrap().to_string(), "sou");
        assert_eq!(Holds::parse("n").unwrap().to_string(), "n");
        assert_eq!(Holds::parse("x"), None);
        assert_eq!(
            Holds::parse("us").unwrap().without(Holds::SYSTEM),
            Holds::USER
        );
    }
}
