//! Queues: what one takes from whom, and what becomes of it. What it says is held against a job in
//! [`entrance`].
//!
//! [`entrance`]: super::admission

pub mod counters;

use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::resource::{ResourceList, is_plain};
use crate::model::time::Span;
use serde::{Deserialize, Deserializer, Serialize};

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// At most 15 characters.
    pub name: String,
    /// Higher first.
    pub priority: i32,
    /// Whether the configuration states the priority: as in PBS only then it is shown.
    #[serde(default)]
    pub has_priority: bool,
    /// Accepts jobs.
    pub enabled: bool,
    /// Its jobs may start; of a routing queue, its jobs are passed on.
    pub started: bool,
    /// How many of its blocked jobs are promised a start; None: they share the promises of the
    /// policy.
    #[serde(default)]
    pub backfill_depth: Option<u32>,
    /// How much of what its jobs use is charged to their owners: 1 for all, 0 for nothing (I5,
    /// X24).
    #[serde(default = "whole", deserialize_with = "charged")]
    pub charge: f64,
    /// Where it passes its jobs on to, if that is what it does.
    #[serde(default)]
    pub route: Option<Route>,
    /// Takes only jobs that a routing queue passes on.
    #[serde(default)]
    pub from_route_only: bool,
    /// Its jobs wait for nested instances to take them, and start nowhere else.
    #[serde(default)]
    pub nested: bool,
    /// Who may submit to it.
    #[serde(default)]
    pub access: AccessList,
    /// What a job must ask for at least (`resources_min`).
    #[serde(default)]
    pub least: ResourceList,
    /// What a job may ask for at most (`resources_max`).
    #[serde(default)]
    pub most: ResourceList,
    /// What a job has that does not say (`resources_default`).
    #[serde(default)]
    pub defaults: ResourceList,
    /// What each chunk has that does not say (`default_chunk`).
    #[serde(default)]
    pub chunk_defaults: ResourceList,
    /// The most elements an array may have.
    #[serde(default)]
    pub max_array_size: Option<u32>,
    /// What is said of it.
    #[serde(default)]
    pub comment: Option<String>,
}

/// How a routing queue passes its jobs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// To the first of these queues that takes a job.
    pub destinations: Vec<String>,
    /// Jobs that are held are passed on, too.
    pub held_jobs: bool,
    /// Likewise jobs whose time has not come.
    pub waiting_jobs: bool,
    /// How long a job may wait to be passed on before it is deleted; None for ever.
    pub lifetime: Option<Span>,
    /// How long until it is tried again.
    pub retry_time: Option<Span>,
}

impl Route {
    /// How long until a job is tried again, where nobody says otherwise.
    pub const RETRY: Span = Span::seconds(30);

    /// Whether a job that stands so is passed on.
    pub fn passes(&self, state: JobState) -> bool {
        match state {
            JobState::Held => self.held_jobs,
            JobState::Waiting => self.waiting_jobs,
            JobState::Queued => true,
            _ => false,
        }
    }
}

/// Who may submit to a queue: a list for users, groups and hosts, each in force if it is there. An
/// entry that begins with `-` keeps out whom it names, the first that matches decides, and who is
/// not named is kept out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessList {
    /// `user`, `user@host`, `+user`, `-user`, `+`, `-` (`acl_users`).
    pub users: Vec<String>,
    /// Whether that list counts (`acl_user_enable`).
    pub by_user: bool,
    /// Primary groups, likewise (`acl_groups`).
    pub groups: Vec<String>,
    /// Whether that list counts.
    pub by_group: bool,
    /// Hosts from which jobs are submitted, likewise; `*.example.org` (`acl_hosts`).
    pub hosts: Vec<String>,
    /// Whether that list counts.
    pub by_host: bool,
}

fn whole() -> f64 {
    1.0
}

/// Older spools say whether it is charged, and not how much.
fn charged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    // Frames say nothing of types, and need not: all who speak are of one version.
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

/// The longest name of a queue.
const LONGEST_NAME: usize = 15;

impl Queue {
    /// The bound of [`Queue::priority`]: priorities go from -1024 to 1023.
    pub const PRIORITY_SCALE: f64 = 1024.0;

    /// Whether its jobs may start: those of a routing queue start in others, those of a nested
    /// queue in nested instances.
    pub fn runs_jobs(&self) -> bool {
        self.started && self.route.is_none() && !self.nested
    }

    /// Whether a nested instance of its owner may take this job from here, if no other job refers
    /// to it. A job to which a client or a reservation refers stays where it is, and so does an
    /// array.
    pub fn passes_on(&self, job: &Job) -> bool {
        let spec = &job.spec;
        let waits = spec.queue == self.name
            && self.nested
            && self.started
            && job.life.state == JobState::Queued;
        let is_plain = spec.array.is_none() && !spec.interactive && !spec.block;
        waits && is_plain && spec.reservation.is_none() && spec.label.is_none()
    }

    /// Whether a job that stands so may leave by routing: because it is passed on, or has waited
    /// too long for that.
    pub fn routes(&self, state: JobState) -> bool {
        let waits = matches!(state, JobState::Queued | JobState::Held | JobState::Waiting);
        self.route.as_ref().is_some_and(|route| {
            self.started && route.passes(state) || waits && route.lifetime.is_some()
        })
    }

    /// Whether a queue can have this name: a letter or digit, then letters, digits, `-`, `_` and
    /// `.`.
    pub fn is_name(name: &str) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        begins && name.len() <= LONGEST_NAME && name.chars().all(is_plain)
    }

    /// An open execution queue about which nothing else is said.
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

    /// As queued, held, waiting and running jobs fare.
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
    fn who_leaves_a_routing_queue_is_as_it_says() {
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
            "its time runs out"
        );
    }

    #[test]
    fn a_queue_comes_over_the_wire_as_it_is_and_an_older_spool_is_understood() {
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
