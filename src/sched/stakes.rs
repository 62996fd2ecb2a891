//! What everybody owns of the machine, has had of it, and how that stands at a moment.

use super::shares::{self, Tree, standings};
use super::snapshot::State;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use crate::model::stake::Stake;
use crate::model::time::Time;
use std::collections::BTreeSet;

impl State {
    /// The tree of shares, row by row, with all who have jobs that wait or have used anything.
    pub fn stakes(&self, policy: &FairShare, now: Time) -> Vec<Stake> {
        let tree = Tree::of(&policy.accounts);
        shares::stakes(&tree, policy, self.usage(), &self.named(&tree), now)
    }

    /// What the method goes by before it scales, of each who has jobs that wait or run, by the account they
    /// ask for (I3).
    pub fn levels(&self, policy: &FairShare, now: Time) -> Vec<(Member, f64)> {
        let tree = Tree::of(&policy.accounts);
        let used = shares::decayed(&tree, self.usage(), &self.named(&tree), now);
        let standings = standings(&tree, policy, &used);
        let owners: BTreeSet<Member> = self.waiting_members().chain(self.usage().running().cloned()).collect();
        let level = |owner: Member| Some((standings.of(&tree.named(&owner))?.level?, owner));
        owners.into_iter().filter_map(level).map(|(level, owner)| (owner, level)).collect()
    }

    /// Who has jobs that wait, by the account asked for.
    fn waiting_members(&self) -> impl Iterator<Item = Member> {
        let owners = self.classes.values().map(|class| &class.key.who);
        owners.map(|who| Member::new(who.account.as_deref().unwrap_or_default(), &who.user))
    }

    fn named(&self, tree: &Tree) -> BTreeSet<Member> {
        self.waiting_members().map(|owner| tree.named(&owner)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::model::member::Member;
    use crate::model::policy::FairShare;
    use crate::model::policy::fair_share::Method;
    use crate::sched::fixture::cluster;
    use crate::sched::usage::Usage;
    use crate::model::charge::{Charge, Held, UsageRules};
    use crate::model::job::JobId;
    use crate::model::time::{Span, Time};
    use std::sync::Arc;

    /// I2's P1, P2 and P3 have used 6000, 3000 and 1000.
    #[test]
    fn i7_the_fair_share_priority_is_told_of_all_who_wait_or_run() {
        let mut scene = cluster("1 x ncpus=1").owned("p2").queued(1, "select=1").owned("new").queued(2, "select=1");
        let mut usage = Usage::new(UsageRules { decay: crate::model::decay::Decay::None, ..UsageRules::default() });
        let charge = |user: &str, cores| Charge {
            member: Member::new("", user),
            from: Time(0),
            to: Some(Time(0) + Span::seconds(1000)),
            held: Held { cores, ..Held::default() },
        };
        ["p1", "p2", "p3"].iter().zip([6, 2, 1]).for_each(|(user, cores)| usage.add(&charge(user, cores)));
        usage.charge(JobId::job(9), &Charge { to: None, ..charge("p2", 1) });
        scene.state.usage = Arc::new(usage);
        let policy = FairShare { method: Method::Linear, ..FairShare::default() };
        let levels = scene.state.levels(&policy, Time(0) + Span::seconds(1000));
        let expected = [("new", 1e6), ("p2", 7e5)].map(|(user, level)| (Member::new("", user), level));
        assert_eq!(levels, expected);
    }
}
