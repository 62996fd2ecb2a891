//! Queues: attributes, routing and access lists. [`admission`] checks jobs against them.
//!
//! [`admission`]: super::admission

pub mod counters;

use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::resource::{ResourceList, is_plain};
use crate::model::time::Span;
use serde::{Deserialize, Deserializer, Serialize};

/// Queue with its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Queue name of at most 15 characters.
    pub name: String,
    /// Queue priority, -1024 to 1023; higher first.
    pub priority: i32,
    /// True if the configuration sets the priority. As in PBS, it is displayed only then.
    #[serde(default)]
    pub has_priority: bool,
    /// The queue accepts jobs.
    pub enabled: bool,
    /// The queue's jobs may start. A routing queue passes jobs on.
    pub started: bool,
    /// Number of the queue's blocked jobs that get bookings; None shares the policy's depth.
    #[serde(default)]
    pub backfill_depth: Option<u32>,
    /// Fraction of the jobs' usage that is charged to the owners, 0 to 1 (I5, X24).
    #[serde(default = "whole", deserialize_with = "charged")]
    pub charge: f64,
    /// Destinations, if this is a routing queue.
    #[serde(default)]
    pub route: Option<Route>,
    /// The queue accepts jobs only from routing queues.
    #[serde(default)]
    pub from_route_only: bool,
    /// The queue's jobs start only in nested instances.
    #[serde(default)]
    pub nested: bool,
    /// Users, groups and hosts that may submit to the queue.
    #[serde(default)]
    pub access: AccessList,
    /// Minimum request of a job (`resources_min`).
    #[serde(default)]
    pub least: ResourceList,
    /// Maximum request of a job (`resources_max`).
    #[serde(default)]
    pub most: ResourceList,
    /// Default request of a job (`resources_default`).
    #[serde(default)]
    pub defaults: ResourceList,
    /// Default request of each chunk (`default_chunk`).
    #[serde(default)]
    pub chunk_defaults: ResourceList,
    /// Maximum number of subjobs of an array.
    #[serde(default)]
    pub max_array_size: Option<u32>,
    /// Comment set by the administrator.
    #[serde(default)]
    pub comment: Option<String>,
}

/// Routing of a queue's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination queues; the first that accepts a job gets it.
    pub destinations: Vec<String>,
    /// Held jobs are routed too.
    pub held_jobs: bool,
    /// Jobs with a start time in the future are routed too.
    pub waiting_jobs: bool,
    /// Time after which an unrouted job is deleted; None for never.
    pub lifetime: Option<Span>,
    /// Interval between attempts to route a job.
    pub retry_time: Option<Span>,
}

impl Route {
    /// Default of [`Route::retry_time`].
    pub const RETRY: Span = Span::seconds(30);

    /// Tests whether a job in this state is routed.
    pub fn passes(&self, state: JobState) -> bool {
        match state {
            JobState::Held => self.held_jobs,
            JobState::Waiting => self.waiting_jobs,
            JobState::Queued => true,
            _ => false,
        }
    }
}

/// Access control of a queue: lists of users, groups and hosts, each with its own switch. An
/// entry with `-` denies access. The first matching entry decides; without a match, access is
/// denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// `user`, `user@host`, `+user`, `-user`, `+`, `-` (`acl_users`).
    pub users: Vec<String>,
    /// Enables `users` (`acl_user_enable`).
    pub by_user: bool,
    /// Primary groups, same form (`acl_groups`).
    pub groups: Vec<String>,
    /// Enables `groups`.
    pub by_group: bool,
    /// Submission hosts, same form; also `*.example.org` (`acl_hosts`).
    pub hosts: Vec<String>,
    /// Enables `hosts`.
    pub by_host: bool,
}

fn whole() -> f64 {
    1.0
}

/// Reads a fraction, or the boolean that older spools contain.
fn charged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    // Wire frames carry no types and need none: all peers run one version.
    if !deserializer.is_human_readable() {
        return f64::deserialize(deserializer);
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ChargeRate {
        Whether(bool),
        Part(f64),
    }
    Ok(match ChargeRate::deserialize(deserializer)? {
        ChargeRate::Whether(charged) => f64::from(charged),
        ChargeRate::Part(part) => part,
    })
}

/// Maximum length of a queue name, as in PBS.
const LONGEST_NAME: usize = 15;

impl Queue {
    /// Scale of [`Queue::priority`]: priorities range from -1024 to 1023.
    pub const PRIORITY_SCALE: f64 = 1024.0;

    /// Tests whether the queue's jobs may start. Jobs of routing and nested queues start
    /// elsewhere.
    pub fn runs_jobs(&self) -> bool {
        self.started && self.route.is_none() && !self.nested
    }

    /// Tests whether a nested instance of the owner may take this job, if no other job refers to
    /// it. Arrays, and jobs to which a client or a reservation refers, stay in the queue.
    pub fn passes_on(&self, job: &Job) -> bool {
        let spec = &job.spec;
        let waits = spec.queue == self.name
            && self.nested
            && self.started
            && job.life.state == JobState::Queued;
        let is_plain = spec.array.is_none() && !spec.interactive && !spec.block;
        waits && is_plain && spec.reservation.is_none() && spec.label.is_none()
    }

    /// Tests whether a job in this state may leave the queue: by routing, or because its lifetime
    /// in the queue ends.
    pub fn routes(&self, state: JobState) -> bool {
        let waits = matches!(state, JobState::Queued | JobState::Held | JobState::Waiting);
        self.route.as_ref().is_some_and(|route| {
            self.started && route.passes(state) || waits && route.lifetime.is_some()
        })
    }

    /// Tests for a valid queue name: a letter or digit, then letters, digits, `-`, `_` and `.`.
    pub fn is_name(name: &str) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        begins && name.len() <= LONGEST_NAME && name.chars().all(is_plain)
    }

    /// Creates an enabled, started execution queue with default attributes.
    pub fn named(name: &str) -> Queue {
        Queue {
            name: name.to_string(),
            priority: 0,
            has_priority: false,
            enabled: true,
            started: true,
            backfill_depth: None,
            charge: whole(),
            route: None,
            from_route_only: false,
            nested: false,
            access: AccessList::default(),
            least: ResourceList::new(),
            most: ResourceList::new(),
            defaults: ResourceList::new(),
            chunk_defaults: ResourceList::new(),
            max_array_size: None,
            comment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(held_jobs: bool, waiting_jobs: bool, lifetime: Option<Span>) -> Queue {
        let route = Route {
            held_jobs,
            waiting_jobs,
            lifetime,
            ..Route::default()
        };
        Queue {
            route: Some(route),
            ..Queue::named("in")
        }
    }

    /// Returns whether queued, held, waiting and running jobs leave the queue.
    fn leave(queue: &Queue) -> [bool; 4] {
        [
            JobState::Queued,
            JobState::Held,
            JobState::Waiting,
            JobState::Running,
        ]
        .map(|state| queue.routes(state))
    }

    #[test]
    fn a_routing_queue_passes_on_the_configured_states() {
        assert_eq!(leave(&Queue::named("run")), [false; 4]);
        assert_eq!(
            leave(&routing(false, false, None)),
            [true, false, false, false]
        );
        assert_eq!(
            leave(&routing(true, false, None)),
            [true, true, false, false]
        );
        assert_eq!(
            leave(&routing(false, true, None)),
            [true, false, true, false]
        );
        let stopped = |lifetime| Queue {
            started: false,
            ..routing(true, true, lifetime)
        };
        assert_eq!(leave(&stopped(None)), [false; 4]);
        assert_eq!(
            leave(&stopped(Some(Span::seconds(60)))),
            [true, true, true, false],
            "the lifetime also ends in a stopped queue"
        );
    }

    #[test]
    fn queues_survive_the_wire_and_older_spools_are_parsed() {
        let queue = Queue {
            charge: 0.25,
            ..Queue::named("cheap")
        };
        let frame = postcard::to_stdvec(&queue).unwrap();
        assert_eq!(postcard::from_bytes::<Queue>(&frame).unwrap(), queue);
        let charge = |text: &str| charged(&mut serde_json::Deserializer::from_str(text)).unwrap();
        assert_eq!(["false", "true", "0.5"].map(charge), [0.0, 1.0, 0.5]);
    }
}
