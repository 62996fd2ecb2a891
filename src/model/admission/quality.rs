//! Quality of service of a job at admission (M27): the default quality, the effects of the
//! quality's flags on the job, and permissions by queue.

use super::QueueAdmission;
use crate::model::job::Spec;
use crate::model::policy::quality::{Flag, QosRequester};
use crate::model::refusal::Refusal;
use crate::model::request::placement_policy::NodeAccess;

impl QueueAdmission<'_> {
    /// Assigns the default quality to a job that requests none. If the job requests no node access,
    /// the flag DEDICATED of its quality sets it. If the job requests no reservation, the flag
    /// USERESERVED sets it.
    pub(super) fn assign_quality(&self, spec: &mut Spec) {
        if spec.qos.is_none() {
            let asker = QosRequester {
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

    /// Refuses a queue in which the job may not have its present quality of service. If the owner
    /// may not request this quality even in the present queue, an operator assigned it. The job
    /// then keeps the quality in all queues.
    pub fn keep_quality(&self, spec: &Spec, queue: &str) -> Result<(), Refusal> {
        let qos = spec.qos.as_deref();
        let in_present_queue = self.qualities.check(qos, &self.asker(spec, &spec.queue));
        if in_present_queue.is_err() {
            return Ok(());
        }
        self.qualities.check(qos, &self.asker(spec, queue))
    }

    /// Returns the owner of a job as the requester of a quality in a queue.
    fn asker<'a>(&'a self, spec: &'a Spec, queue: &'a str) -> QosRequester<'a> {
        let (user, is_member) = (self.visitor.user, self.visitor.is_member);
        QosRequester {
            user,
            account: spec.account.as_deref(),
            queue,
            privileged: false,
            is_member,
        }
    }
}
