//! One scheduling cycle, start to finish.
//!
//! Read it aloud: job by job in order of priority, screen for feasibility, throttle, match,
//! allocate, distribute and launch -- or record why not, and promise the first blocked its start.

use super::ledger::Ledger;
use super::plan::{Plan, Start};
use super::priority::{self, Candidate};
use super::snapshot::State;
use super::space::Claim;
use super::{allocation, distribution, feasibility, filling, launch, throttling};
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use std::sync::Arc;

/// Decides what is to start now, and says of every class that waits why. Pure: equal state, policy
/// and moment give an equal plan. The first refusal of a class stands for all its jobs, because
/// room only shrinks within a cycle.
pub fn run(state: &State, policy: &Policy, now: Time) -> Plan {
    let mut ledger = Ledger::open(state, policy, now);
    let mut ranking = priority::rank(state, policy.order);

    while let Some(job) = ranking.next() {
        ledger.consider();
        match place(job, &mut ledger) {
            Ok((start, claim)) => {
                ledger.start(job, start, claim);
                ranking.follow(job);
            }
            Err(reason) => {
                if ledger.wait(job, reason) {
                    ranking.follow(job);
                }
                filling::reorder(&mut ranking, &mut ledger);
            }
        }
    }
    ledger.close()
}

fn place<'s>(job: Candidate<'s>, ledger: &mut Ledger<'s>) -> Result<(Start, Claim), Arc<Reason>> {
    let (shape, cluster) = (&job.class.shape, &ledger.state.cluster);
    feasibility::screen(shape, ledger)?;
    throttling::admit(job, ledger)?;
    let placement = ledger.place(job)?;
    let claim = allocation::claim(cluster, shape, &placement);
    let shares = distribution::lay_out(cluster, shape, &placement);
    let start = launch::order(job, shares, ledger.end_of(job.class), cluster, &mut ledger.numbers);
    Ok((start, claim))
}
