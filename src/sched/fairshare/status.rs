//! The fair-share report: entitlement and usage of accounts and users, and the fair-share
//! priorities of members.

use super::factor::decayed;
use crate::model::account::member::Member;
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::Method;
use crate::model::report::share_status::ShareStatus;
use crate::model::time::Time;
use crate::sched::share_tree::linear::MAX_FAIRSHARE;
use crate::sched::share_tree::{self, Tree};
use crate::sched::view::snapshot::ClusterState;

impl ClusterState {
    /// The rows of the share tree, including all members with waiting jobs or usage.
    pub fn share_rows(&self, policy: &FairShare, now: Time) -> Vec<ShareStatus> {
        let tree = Tree::of(&policy.accounts);
        share_tree::entries(&tree, policy, self.usage(), &decayed(self, &tree, now), now)
    }

    /// The fair-share priorities of members (users under requested accounts) with waiting or
    /// running jobs, as last computed (I3). Empty unless the method is linear.
    pub fn fair_share_priorities(&self, policy: &FairShare) -> Vec<(Member, f64)> {
        if policy.method != Method::Linear {
            return Vec::new();
        }
        let shares = self.shares();
        let waiting = shares.all().map(|(user, account, factor)| {
            let name = self.cluster.users.get(&user).map_or("", String::as_str);
            (Member::new(account.unwrap_or_default(), name), factor)
        });
        let mut all: Vec<(Member, f64)> = waiting
            .chain(shares.running().iter().cloned())
            .map(|(member, factor)| (member, factor * MAX_FAIRSHARE))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|a, b| a.0 == b.0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::charge::{Charge, UsageRules};
    use crate::model::account::decay::Decay;
    use crate::model::job::held::Held;
    use crate::model::policy::PriorityOrder;
    use crate::model::time::Span;
    use crate::sched::fixture::cluster;
    use crate::sched::share_tree::usage::UsageTable;
    use std::sync::Arc;

    /// The usage is the example of I2: 6000, 3000 and 1000 CPU seconds.
    #[test]
    fn i7_the_report_shows_the_fair_share_priorities_as_last_computed() {
        let mut fixture = cluster("1 x ncpus=1")
            .owned("p2")
            .queued(1, "select=1")
            .owned("new")
            .queued(2, "select=1");
        let mut usage = UsageTable::new(UsageRules {
            decay: Decay::None,
            ..UsageRules::default()
        });
        for (user, cores) in [("p1", 6), ("p2", 3), ("p3", 1)] {
            let held = Held {
                cores,
                ..Held::default()
            };
            let to = Some(Time(0) + Span::seconds(1000));
            usage.add(&Charge {
                member: Member::new("", user),
                from: Time(0),
                to,
                held,
                amounts: Default::default(),
                factor: 1.0,
            });
        }
        fixture.state.usage = Arc::new(usage);
        fixture.policy.precedence.order = PriorityOrder::Multifactor;
        fixture.policy.fair_share.method = Method::Linear;
        let mut fixture = fixture.at(1000);
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let priorities = fixture
            .state
            .fair_share_priorities(&fixture.policy.fair_share);
        let expected =
            [("new", 1e6), ("p2", 7e5)].map(|(user, priority)| (Member::new("", user), priority));
        assert_eq!(priorities, expected);
        let entries = fixture
            .state
            .share_rows(&fixture.policy.fair_share, fixture.now);
        let usage: Vec<_> = entries
            .iter()
            .map(|entry| (entry.user.as_deref().unwrap_or_default(), entry.raw))
            .collect();
        assert_eq!(
            usage,
            [("new", 0.0), ("p1", 6000.0), ("p2", 3000.0), ("p3", 1000.0)]
        );
        // p3 now has a running job but no waiting job. Its priority is shown, too.
        let held = Held {
            cores: 1,
            ..Held::default()
        };
        let member = Member::new("", "p3");
        let charge = Charge {
            member,
            from: Time(0),
            to: None,
            held,
            amounts: Default::default(),
            factor: 1.0,
        };
        Arc::make_mut(&mut fixture.state.usage)
            .charge(crate::model::job_id::JobId::job(9), &charge);
        let mut fixture = fixture.at(2000);
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let priorities = fixture
            .state
            .fair_share_priorities(&fixture.policy.fair_share);
        let users: Vec<&str> = priorities
            .iter()
            .map(|(member, _)| member.user.as_str())
            .collect();
        assert_eq!(users, ["new", "p2", "p3"]);
        fixture.policy.fair_share.method = Method::Classic;
        assert_eq!(
            fixture
                .state
                .fair_share_priorities(&fixture.policy.fair_share),
            []
        );
    }
}
