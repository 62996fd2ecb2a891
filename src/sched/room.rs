//! What a node has left, and who may join it.

use super::amounts::{Amounts, add, subtract};

/// Who may still join a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Anybody: nobody is there.
    Idle,
    /// Those that share.
    Shared,
    /// Nobody: one job has it alone.
    Alone,
}

/// What a node has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Below zero where a node has shrunk under its jobs.
    pub free: Amounts,
    /// Jobs that are there.
    pub tenants: u32,
    /// How many of these have it alone.
    pub alone: u32,
}

impl Room {
    /// Who may join.
    pub fn condition(&self) -> Condition {
        match (self.tenants, self.alone) {
            (_, 1..) => Condition::Alone,
            (0, 0) => Condition::Idle,
            _ => Condition::Shared,
        }
    }

    /// One job more, with these amounts.
    pub fn admit(&mut self, taken: &[i64], alone: bool) {
        subtract(&mut self.free, taken);
        self.tenants += 1;
        self.alone += u32::from(alone);
    }

    /// One job less.
    pub fn dismiss(&mut self, taken: &[i64], alone: bool) {
        add(&mut self.free, taken);
        self.tenants = self.tenants.saturating_sub(1);
        self.alone = self.alone.saturating_sub(u32::from(alone));
    }

    /// The tighter of both, in each respect.
    pub fn narrow(&mut self, other: &Room) {
        self.free.iter_mut().zip(&other.free).for_each(|(free, other)| *free = (*free).min(*other));
        self.tenants = self.tenants.max(other.tenants);
        self.alone = self.alone.max(other.alone);
    }
}
