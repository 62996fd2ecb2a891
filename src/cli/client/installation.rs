//! The installation in use, and hints how to use the user's other installation.
//!
//! A user may have jobs in a personal and in a shared installation. A command uses one of them: see
//! [`Home::find`].

use super::source::QuerySource;
use super::unreachable_server::UnreachableServer;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::wire::message::{Detail, Question};

/// The installation in use, as text for users; None if [`Home::find`] fails.
pub fn current() -> Option<String> {
    Home::find().ok().map(|home| home.to_string())
}

/// A hint with the installation in use, the user's other installation, and the shell command that
/// selects the other installation. None if the user has no other installation.
pub fn other() -> Option<String> {
    let (home, other) = this_and_other()?;
    Some(format!(
        "this is the {home}; to use the {other}: {}",
        other.selection()
    ))
}

/// A hint how to start schedd, if no server of a shared installation responds. The commands start
/// schedd of a personal installation themselves.
pub fn start_hint(away: Option<&UnreachableServer>) -> Option<String> {
    let Some(UnreachableServer::Silent(_)) = away else {
        return None;
    };
    let home = Home::find().ok().filter(|home| home.system)?;
    Some(format!(
        "schedd does not run or does not respond: an administrator starts it with \
         systemctl start schedd; its log is {}",
        home.log("schedd").display()
    ))
}

/// A hint for a failure that the choice of installation may explain: no server responds, or the
/// installation in use does not have a job that the other installation has. None for other
/// failures, or if the user has no other installation.
pub fn hint(away: Option<&UnreachableServer>, unknown: Option<JobId>) -> Option<String> {
    if let Some(UnreachableServer::Silent(_)) = away {
        return other();
    }
    let job = unknown?;
    let (home, other) = this_and_other()?;
    has_job(&other, job).then(|| {
        format!(
            "this is the {home}; job {job} is in the {other}; to use that installation: {}",
            other.selection()
        )
    })
}

fn this_and_other() -> Option<(Home, Home)> {
    let home = Home::find().ok()?;
    let other = home.other()?;
    Some((home, other))
}

/// Whether an installation has a job with this id, or an array with the number of this id. False if
/// the installation does not answer.
fn has_job(home: &Home, job: JobId) -> bool {
    let question = Question::JobsById(vec![job, JobId::array(job.number)], Detail::Row);
    let answers = QuerySource::open(home).and_then(|mut source| source.ask(&question));
    answers.is_ok_and(|answers| !answers.rows.is_empty() || !answers.jobs.is_empty())
}
