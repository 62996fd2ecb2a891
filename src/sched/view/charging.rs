//! The charge (the usage that fair share counts) of a job that starts, computed from the class of
//! the job. Replays of traces need this, because they have only classes of interchangeable jobs,
//! not the jobs themselves.

use super::plan::Start;
use super::snapshot::ClusterState;
use crate::model::account::charge::{self, Charge};
use crate::model::account::member::Member;
use crate::model::job::held::Held;
use crate::model::policy::quality::Qualities;
use crate::model::time::Time;

impl ClusterState {
    /// The charge that begins with a start; None if the queue or the quality of service is free of
    /// charge (I5), or if the job no longer waits.
    pub fn charge_for(&self, start: &Start, qualities: &Qualities, now: Time) -> Option<Charge> {
        let who = &self.waiting_class(start.job)?.who;
        let factor = qualities.charge(who.qos.as_deref(), self.queues.get(&who.queue));
        let member = Member::new(who.account.as_deref().unwrap_or_default(), &who.user);
        let (held, amounts) = (Held::of(&start.shares), charge::amounts(&start.shares));
        (factor > 0.0).then_some(Charge {
            member,
            from: now,
            to: None,
            held,
            amounts,
            factor,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::model::policy::quality::Qualities;
    use crate::model::time::Time;
    use crate::sched::fixture::{cluster, queue};

    /// I5.
    #[test]
    fn a_start_is_charged_to_its_owner_unless_its_queue_is_free_of_charge() {
        let mut fixture = cluster("2 x ncpus=4")
            .queued(1, "select=2:ncpus=3")
            .queued(2, "select=1 queue=free");
        fixture.state.set_queue(&crate::model::queue::Queue {
            charge: 0.0,
            ..queue("free", true)
        });
        let plan = fixture.plan();
        let qualities = Qualities::default();
        let charges: Vec<_> = plan
            .starts
            .iter()
            .map(|start| fixture.state.charge_for(start, &qualities, Time(7)))
            .collect();
        let charge = charges[0].as_ref().unwrap();
        assert_eq!(
            (charge.from, charge.to, charge.held.cores, charge.held.nodes),
            (Time(7), None, 6, 2)
        );
        assert_eq!(
            (charge.member.account.as_str(), charges.len(), &charges[1]),
            ("", 2, &None)
        );
        fixture.state.withdraw(plan.starts[0].job);
        assert_eq!(
            fixture
                .state
                .charge_for(&plan.starts[0], &qualities, Time(7)),
            None
        );
    }
}
