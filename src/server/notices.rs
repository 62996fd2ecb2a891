//! Messages to notification programs when a job begins, ends, is aborted or becomes idle. The site's program is
//! set in `[server] notify`, the owner's program with `qsub -W notify=`.

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

/// The job attribute that names the owner's notification program.
const ATTRIBUTE: &str = "notify";

/// The recipient of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The site.
    Site,
    /// A user. The program runs as this user.
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
    Job(Box<NoticedEvent>),
    /// A summary of events that the rate limit does not allow to be sent individually.
    Digest {
        /// Number of events.
        count: usize,
        /// These events as JSON, without those after the first thousand.
        events: Vec<Value>,
    },
}

/// An event of a job, for a notice.
#[derive(Clone, Debug)]
pub struct NoticedEvent {
    /// `begin`, `end`, `abort` or `idle`.
    pub event: &'static str,
    /// Description of the event, in one or two lines.
    pub what: String,
    /// The job after the event.
    pub job: Job,
    /// The server's facts, such as its name and time.
    pub facts: Arc<ServerFacts>,
}

impl Notice {
    /// The server's facts; None for a digest.
    pub fn facts(&self) -> Option<Arc<ServerFacts>> {
        match &self.body {
            Body::Job(noticed) => Some(noticed.facts.clone()),
            Body::Digest { .. } => None,
        }
    }

    /// The first node of the job's latest attempt; None for a digest or a job that has not started.
    pub fn node(&self) -> Option<&str> {
        match &self.body {
            Body::Job(noticed) => noticed
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
            Body::Job(noticed) => json!({
                "event": noticed.event,
                "what": noticed.what,
                "server": noticed.facts.name,
                "job": job_json::of_job(&noticed.job, None, &noticed.facts),
            }),
            Body::Digest { count, events } => {
                json!({ "event": "digest", "user": self.user, "count": count, "jobs": events })
            }
        };
        document.to_string().into_bytes()
    }
}

/// The notices about an event. `before` is the job's state before the event, `job` the job after
/// the event. `job` is an array without an event if changes of its subjobs have changed its state.
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
    let body = Body::Job(Box::new(NoticedEvent {
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
    if let Some(Event::RequestGrown { .. }) = event {
        // The job continues with its next attempt.
        return None;
    }
    match mail::occasion(before, job, event) {
        Some(Occasion { what, .. }) if matches!(event, Some(Event::Idle { .. })) => {
            Some(("idle", what))
        }
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
        // A job that was deleted before it ran causes a notice, even where it causes no mail.
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
