//! The credential component: the priorities of user, group, account, QoS and queue (M14).

use crate::model::policy::Components;
use crate::model::policy::components::Priorities;
use crate::sched::view::shape::ClassKey;

/// The priorities of the user, group, account, QoS and queue of a class of jobs; 0 if none is
/// configured. `of_queue` is the `Priority` attribute of the queue. It counts if the configuration
/// of the components has no priority for the queue.
pub fn values(rule: &Components, class: &ClassKey, of_queue: i64) -> [f64; 5] {
    let (names, who) = (&rule.priorities, &class.who);
    let group = names.groups.get(&who.gid).map(String::as_str);
    let of = |table, name| Priorities::in_table(table, name);
    [
        of(&names.user, Some(&who.user)).unwrap_or(0.0),
        of(&names.group, group).unwrap_or(0.0),
        of(&names.account, who.account.as_deref()).unwrap_or(0.0),
        of(&names.qos, who.qos.as_deref()).unwrap_or(0.0),
        of(&names.queue, Some(&who.queue)).unwrap_or(of_queue as f64),
    ]
}
