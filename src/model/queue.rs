//! Queues: attributes, routing and access lists. Module [`admission`] decides which jobs a queue
//! accepts.
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
    /// True if the configuration sets the priority. As in PBS, commands display no priority
    /// otherwise.
    #[serde(default)]
    pub has_priority: bool,
    /// The queue accepts jobs.
    pub enabled: bool,
    /// The queue's jobs may start. In a routing queue: the queue passes jobs on.
    pub started: bool,
    /// Number of the queue's blocked jobs that get bookings (planned starts). If None, the jobs
    /// share the policy's depth with other queues.
    #[serde(default)]
    pub backfill_depth: Option<u32>,
    /// Factor applied to the usage of the queue's jobs when it is charged, at least 0 (I5, X24).
    #[serde(default = "whole", deserialize_with = "charged")]
    pub charge: f64,
    /// Destinations, if this is a routing queue.
    #[serde(default)]
    pub route: Option<Route>,
    /// The queue accepts jobs only from routing queues.
    #[serde(default)]
    pub from_route_only: bool,
    /// The queue's jobs start only in nested installations: personal installations inside a job.
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
    /// Destination queues. A job goes to the first destination that accepts the job.
    pub destinations: Vec<String>,
    /// Held jobs are routed, too.
    pub held_jobs: bool,
    /// Jobs with a start time in the future are routed, too.
    pub waiting_jobs: bool,
    /// Time after which a job is deleted if no destination has accepted it; None for never.
    pub lifetime: Option<Span>,
    /// Interval between attempts to route a job; None for [`Route::RETRY`].
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

/// Access control of a queue by lists of users, groups and hosts. A job must be allowed by each
/// enabled list. In a list, the first matching entry decides, and an entry with `-` denies access.
/// Without a matching entry, the list denies access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// `user`, `user@host`, `+user`, `-user`, `+`, `-` (`acl_users`).
    pub users: Vec<String>,
    /// True if the list `users` is enabled (`acl_user_enable`).
    pub by_user: bool,
    /// Primary groups, in the form of `users` (`acl_groups`).
    pub groups: Vec<String>,
    /// True if the list `groups` is enabled.
    pub by_group: bool,
    /// Submission hosts, in the form of `users`; also `*.example.org` (`acl_hosts`).
    pub hosts: Vec<String>,
    /// True if the list `hosts` is enabled.
    pub by_host: bool,
}

fn whole() -> f64 {
    1.0
}

/// Deserializes [`Queue::charge`]: a factor, or the boolean that older spools contain.
fn charged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    // Messages contain no type information, so a boolean cannot be recognized. They contain only
    // fractions, because all daemons run the same version.
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

    /// Tests whether jobs may start from this queue. Jobs of a routing queue start from another
    /// queue, and jobs of a nested queue start in nested installations.
    pub fn runs_jobs(&self) -> bool {
        self.started && self.route.is_none() && !self.nested
    }

    /// Tests whether a nested installation of the owner may get this job; the caller checks that no
    /// other job depends on it. Arrays, jobs with a label or a reservation, and jobs for which a
    /// client waits stay in the queue.
    pub fn passes_on(&self, job: &Job) -> bool {
        let spec = &job.spec;
        let waits = spec.queue == self.name
            && self.nested
            && self.started
            && job.life.state == JobState::Queued;
        let is_plain = spec.array.is_none() && !spec.interactive && !spec.block;
        waits && is_plain && spec.reservation.is_none() && spec.label.is_none()
    }

    /// Tests whether a job in this state may leave the queue: by routing, or because it exceeds the
    /// lifetime of jobs in the queue.
    pub fn routes(&self, state: JobState) -> bool {
        let waits = matches!(state, JobState::Queued | JobState::Held | JobState::Waiting);
        self.route.as_ref().is_some_and(|route| {
            self.started && route.passes(state) || waits && route.lifetime.is_some()
        })
    }

    /// Tests whether `name` is a valid queue name: a letter or digit, then letters, digits, `-`,
    /// `_` and `.`; at most 15 characters.
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
    fn leaves(queue: &Queue) -> [bool; 4] {
        [
            JobState::Queued,
            JobState::Held,
            JobState::Waiting,
            JobState::Running,
        ]
        .map(|state| queue.routes(state))
    }

    #[test]
    fn a_routing_queue_passes_on_jobs_in_the_configured_states() {
        assert_eq!(leaves(&Queue::named("run")), [false; 4]);
        assert_eq!(
            leaves(&routing(false, false, None)),
            [true, false, false, false]
        );
        assert_eq!(
            leaves(&routing(true, false, None)),
            [true, true, false, false]
        );
        assert_eq!(
            leaves(&routing(false, true, None)),
            [true, false, true, false]
        );
        let stopped = |lifetime| Queue {
            started: false,
            ..routing(true, true, lifetime)
        };
        assert_eq!(leaves(&stopped(None)), [false; 4]);
        assert_eq!(
            leaves(&stopped(Some(Span::seconds(60)))),
            [true, true, true, false],
            "the lifetime of a job also ends in a stopped queue"
        );
    }

    #[test]
    fn queues_in_messages_and_in_older_spools_are_parsed() {
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
