//! The quality of service that a job has that asks for none, what comes with one, and where it may
//! be had (M27).

use super::QueueAdmission;
use crate::model::job::Spec;
use crate::model::policy::quality::{Flag, QosApplicant};
use crate::model::refusal::Refusal;
use crate::model::request::placement_policy::NodeAccess;

impl QueueAdmission<'_> {
    /// Gives a job that asks for no quality of service the one that goes without saying for it, and
    /// what its quality brings along.
    pub(super) fn assign_quality(&self, spec: &mut Spec) {
        if spec.qos.is_none() {
            let asker = QosApplicant {
                is_member: &|group| (self.visitor.group)() == group,
                ..self.asker(spec, &spec.queue)
            };
            spec.qos = self.qualities.default_for(&asker).map(str::to_string);
        }
        for flag in self.qualities.flags(spec.qos.as_deref()) {
            match flag {
                Flag::Dedicated => {
                    spec.placement.access.get_or_insert(NodeAccess::SingleJob);
                }
                Flag::UseReserved(name) => {
                    spec.reservation.get_or_insert_with(|| name.clone());
                }
                _ => (),
            }
        }
    }

    /// Refuses a queue in which a job may not have the quality of service that it may have where it
    /// is. One that an operator gave it goes with it everywhere.
    pub fn keep_quality(&self, spec: &Spec, queue: &str) -> Result<(), Refusal> {
        let qos = spec.qos.as_deref();
        let here = self.qualities.check(qos, &self.asker(spec, &spec.queue));
        if here.is_err() {
            return Ok(());
        }
        self.qualities.check(qos, &self.asker(spec, queue))
    }

    /// The owner of a job, asking for it in a queue.
    fn asker<'a>(&'a self, spec: &'a Spec, queue: &'a str) -> QosApplicant<'a> {
        let (user, is_member) = (self.visitor.user, self.visitor.is_member);
        QosApplicant {
            user,
            account: spec.account.as_deref(),
            queue,
            privileged: false,
            is_member,
        }
    }
}
