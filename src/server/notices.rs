//! Messages to notification programs when a job begins, ends or fails: the site's program
//! (`[server] notify`) and the owner's (`-W notify=`).

use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::server::mail;
use crate::server::mail::Occasion;
use crate::server::setup::Setup;
use crate::shown::job_json;
use crate::wire::message::ServerFacts;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The attribute that names the owner's program.
const ATTRIBUTE: &str = "notify";

/// The recipient of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The site.
    Site,
    /// A user, by a program that runs as this user.
    User(Owner),
}

/// A message about a job.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The recipient.
    pub recipient: Recipient,
    /// The job's owner.
    pub user: String,
    /// The program.
    pub program: PathBuf,
    /// The contents.
    pub body: Body,
}

/// The contents of a notice.
#[derive(Clone, Debug)]
pub enum Body {
    /// An event of a job.
    Job(Box<Turn>),
    /// Several events, more than the rate limit allows individually.
    Digest {
        /// Number of events.
        count: usize,
        /// The first of them, as JSON.
        turns: Vec<Value>,
    },
}

/// An event of a job, for a notice.
#[derive(Clone, Debug)]
pub struct Turn {
    /// `begin`, `end` or `abort`.
    pub event: &'static str,
    /// Description in one or two lines.
    pub what: String,
    /// The job after the event.
    pub job: Job,
    /// The server's name and facts.
    pub facts: Arc<ServerFacts>,
}

impl Notice {
    /// The server's facts; None for a digest.
    pub fn facts(&self) -> Option<Arc<ServerFacts>> {
        match &self.body {
            Body::Job(turn) => Some(turn.facts.clone()),
            Body::Digest { .. } => None,
        }
    }

    /// The node on which the job last ran or runs, if the notice is about one job that has started.
    pub fn node(&self) -> Option<&str> {
        match &self.body {
            Body::Job(turn) => turn
                .job
                .life
                .run
                .as_ref()?
                .shares
                .first()
                .map(|share| share.node.as_str()),
            Body::Digest { .. } => None,
        }
    }

    /// The JSON that the program reads.
    pub fn document(&self) -> Vec<u8> {
        let document = match &self.body {
            Body::Job(turn) => json!({
                "event": turn.event,
                "what": turn.what,
                "server": turn.facts.name,
                "job": job_json::of_job(&turn.job, None, &turn.facts),
            }),
            Body::Digest { count, turns } => {
                json!({ "event": "digest", "user": self.user, "count": count, "jobs": turns })
            }
        };
        document.to_string().into_bytes()
    }
}

/// The notices about an event. `before` is the state before the event, `job` the job after it.
/// Without an event, the job is an array: its state follows from its subjobs.
pub fn notices(
    setup: &Setup,
    facts: impl FnOnce() -> Arc<ServerFacts>,
    before: JobState,
    job: &Job,
    event: Option<&Event>,
) -> Vec<Notice> {
    let site = setup
        .config
        .server
        .notify
        .iter()
        .map(|program| (Recipient::Site, program.clone()));
    let own = job
        .spec
        .other
        .get(ATTRIBUTE)
        .filter(|program| !program.is_empty());
    let own = own.map(|program| (Recipient::User(job.owner.clone()), PathBuf::from(program)));
    let mut programs = site.chain(own).peekable();
    if programs.peek().is_none() || !mail::has_own_mail(job) {
        return Vec::new();
    }
    let Some((event, what)) = event_of(before, job, event) else {
        return Vec::new();
    };
    let body = Body::Job(Box::new(Turn {
        event,
        what,
        job: job.clone(),
        facts: facts(),
    }));
    let user = &job.owner.user;
    programs
        .map(|(recipient, program)| Notice {
            recipient,
            user: user.clone(),
            program,
            body: body.clone(),
        })
        .collect()
}

fn event_of(before: JobState, job: &Job, event: Option<&Event>) -> Option<(&'static str, String)> {
    match mail::occasion(before, job, event) {
        Some(Occasion { points, what }) => {
            let event = if points.contains('a') {
                "abort"
            } else if points == "b" {
                "begin"
            } else {
                "end"
            };
            Some((event, what))
        }
        // The owner deleted the job: no mail, but a notice.
        None if before != JobState::Finished
            && job.life.state == JobState::Finished
            && job.life.moved_to.is_none() =>
        {
            Some((
                "abort",
                job.life
                    .comment
                    .clone()
                    .unwrap_or_else(|| "Job deleted before it ran".into()),
            ))
        }
        None => None,
    }
}
