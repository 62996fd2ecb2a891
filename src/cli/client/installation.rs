//! Which installation a command uses, and how to reach the user's other one.
//!
//! A user may have jobs in a personal and in a shared installation, and a command talks to one of
//! them: see [`Home::find`].

use super::source::QuerySource;
use super::unreachable_server::Away;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::wire::message::{Detail, Question};

/// The installation in use, as users know it.
pub fn current() -> Option<String> {
    Home::find().ok().map(|home| home.to_string())
}

/// Names the installation in use and the user's other one, with the change of the environment that
/// selects it. None if the user has no other one.
pub fn other() -> Option<String> {
    let (home, other) = both()?;
    Some(format!(
        "this is the {home}; to use the {other}: {}",
        other.selection()
    ))
}

/// The same for a failure that the choice of the installation may explain: no server answers, or
/// the other installation knows a job that is unknown here.
pub fn hint(away: Option<&Away>, unknown: Option<JobId>) -> Option<String> {
    if let Some(Away::Silent(_)) = away {
        return other();
    }
    let job = unknown?;
    let (home, other) = both()?;
    knows(&other, job).then(|| {
        format!(
            "this is the {home}; job {job} is in the {other}: {}",
            other.selection()
        )
    })
}

fn both() -> Option<(Home, Home)> {
    let home = Home::find().ok()?;
    let other = home.other()?;
    Some((home, other))
}

/// Whether an installation knows a job of this id, or an array of its number.
fn knows(home: &Home, job: JobId) -> bool {
    let question = Question::JobsById(vec![job, JobId::array(job.number)], Detail::Row);
    let answers = QuerySource::open(home).and_then(|mut source| source.ask(&question));
    answers.is_ok_and(|answers| !answers.rows.is_empty() || !answers.jobs.is_empty())
}
