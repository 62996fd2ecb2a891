//! Expiry of old charges and accounting records, and the fair-share usage from the stored charges.

use crate::model::account::charge::UsageRules;
use crate::model::time::Time;
use crate::sched::share_tree::usage::UsageTable;
use crate::schedd::timers;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::spool::{Spool, SpoolError};
use crate::update::Update;

/// The fair-share usage: the sum of the stored charges, under `rules`.
pub fn stored_usage(rules: UsageRules, spool: &Spool) -> Result<UsageTable, SpoolError> {
    let mut usage = UsageTable::new(rules);
    spool.charges(|charge| usage.add(&charge))?;
    Ok(usage)
}

/// Deletes charges that no longer count for fair share and are older than the job history.
pub fn forget_charges(server: &mut ServerState, spool: &Spool) -> Result<(), SpoolError> {
    let Some(counts) = server.setup.policy.usage.counts_for() else {
        return Ok(());
    };
    let before = server.now - counts.max(timers::retention(server.setup.config.server.history));
    let mut old = Vec::new();
    spool.charges_before(before, |charge| old.push(charge))?;
    if !old.is_empty() {
        server.add_update(Update::ForgetCharges(before));
        server.remove_charges(old);
    }
    Ok(())
}

/// The update that deletes expired accounting records; None until a record has been expired for
/// [`timers::PURGE`], or for the retention time if that is shorter.
pub fn stale_entries(
    setup: &Setup,
    now: Time,
    spool: &Spool,
) -> Result<Option<Update>, SpoolError> {
    let kept = setup.config.server.accounting;
    let before = now - kept;
    let is_due = spool.has_entries_before(before - timers::PURGE.min(kept))?;
    Ok(is_due.then_some(Update::ForgetEntries(before)))
}
