//! Job mail: contents, recipients and occasions (`-m`, `-M`).

use crate::model::job::How;
use crate::model::job::Job;
use crate::model::job::Want;
use crate::model::job::array::Elements;
use crate::model::job::array::Indices;
use crate::model::job::event::Event;
use crate::model::job::growth::GrownResource;
use crate::model::job::state::JobState;
use crate::model::job::value_syntax;
use crate::server::setup::Setup;
use std::fmt::Write;

/// Maximum length of the text of a mail, in bytes. The text is cut after `MAX_LENGTH / 4`
/// characters, because a character has up to 4 bytes.
const MAX_LENGTH: usize = 16 << 10;
/// Maximum number of index ranges in one line of a mail.
const MAX_RANGES: usize = 50;

/// A mail about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The job's owner.
    pub user: String,
    /// The recipients' addresses.
    pub to: Vec<String>,
    /// The job's full id; in a combined mail, the number of messages.
    pub job: String,
    /// What happened, in one or two lines; empty in a combined mail.
    pub what: String,
    /// The text of the mail.
    pub body: String,
}

/// An event that can cause mail, and the letters of `-m` that request this mail.
pub(crate) struct Occasion {
    pub(crate) points: &'static str,
    pub(crate) what: String,
}

/// The mail about an event, if requested. `before` is the job's state before the event, `job` the
/// job after the event. Without an event, the job is an array that changed state with its subjobs.
pub fn letter(setup: &Setup, before: JobState, job: &Job, event: Option<&Event>) -> Option<Letter> {
    setup.mailer.as_ref()?;
    let Occasion { points, what } = occasion(before, job, event)?;
    let is_requested = points_of(job).contains(|letter| points.contains(letter));
    if !is_requested || !has_own_mail(job) {
        return None;
    }
    let to = recipients(setup, job);
    let body = body(setup, job, &what);
    (!to.is_empty()).then(|| Letter {
        user: job.owner.user.clone(),
        to,
        job: job.id.full(&setup.name),
        what,
        body,
    })
}

fn points_of(job: &Job) -> &str {
    job.spec
        .other
        .get("Mail_Points")
        .map_or("a", String::as_str)
}

/// Whether a job gets mail of its own. A subjob gets mail only with `-m j`.
pub(crate) fn has_own_mail(job: &Job) -> bool {
    job.id.index().is_none() || points_of(job).contains('j')
}

/// The mail occasion of an event; None if the event causes no mail.
pub(crate) fn occasion(before: JobState, job: &Job, event: Option<&Event>) -> Option<Occasion> {
    let occasion = |points, what: &str| {
        Some(Occasion {
            points,
            what: what.to_string(),
        })
    };
    match event {
        Some(Event::Launched { .. }) => return occasion("b", "Begun execution"),
        // The default of -m, which is a, includes this mail; n excludes it.
        Some(Event::Idle { after, .. }) => {
            let what = format!("Job has used almost no processor time for {after}");
            return occasion("abe", &what);
        }
        _ => {}
    }
    if let Some(Event::RequestGrown { attempt, changes }) = event {
        return occasion("a", &retried(job, *attempt, changes));
    }
    match (before, job.life.state) {
        // No mail, because the job continues on another server.
        _ if job.life.moved_to.is_some() => None,
        (JobState::Queued, JobState::Begun) => occasion("b", "Begun execution"),
        (JobState::Running, JobState::Held) if !job.life.holds.is_none() => {
            occasion("a", job.life.comment.as_deref().unwrap_or("Job held"))
        }
        (JobState::Finished, _) => None,
        (_, JobState::Finished) => end(job, event),
        _ => None,
    }
}

fn end(job: &Job, event: Option<&Event>) -> Option<Occasion> {
    let occasion = |points, what: String| Some(Occasion { points, what });
    let began = job.life.run.is_some() || job.has_begun();
    let outcome = match event {
        Some(Event::Ended { outcome, .. }) => Some(outcome),
        _ => None,
    };
    if let Some(how) = outcome.map(|outcome| &outcome.how) {
        match how {
            How::CannotStart { why, .. } => {
                return occasion("ae", format!("Job could not be started: {why}"));
            }
            How::Overran { .. } => return occasion("ae", exceeded("walltime")),
            How::Exceeded { bound, .. } => return occasion("ae", exceeded(bound.name())),
            _ => {}
        }
    }
    match &job.life.want {
        // A deletion by another user. If the owner deletes a job before its start, no mail is sent.
        Want::Gone(by) if by.split('@').next() != Some(&job.owner.user) => {
            occasion("ae", format!("Job deleted at request of {by}"))
        }
        // No mail if the last waiting subjobs of an array were deleted, and none of its subjobs
        // had started.
        _ if !began && event.is_none() => None,
        _ if !began && !matches!(job.life.want, Want::Gone(_)) => occasion(
            "ae",
            job.life
                .comment
                .clone()
                .unwrap_or_else(|| "Job ended before it ran".into()),
        ),
        _ if !began => None,
        _ if outcome.is_some_and(|outcome| !outcome.notes.is_empty()) => {
            occasion("ae", "Execution terminated".into())
        }
        _ => occasion("e", "Execution terminated".into()),
    }
}

fn retried(job: &Job, attempt: u32, changes: &[GrownResource]) -> String {
    let excess = job.life.ending.as_deref().unwrap_or_default();
    let (retry, most) = (job.life.retries, job.spec.retry);
    let grown = GrownResource::list(changes);
    format!("Attempt {attempt} exceeded a limit{excess}\nRetry {retry} of {most} requests {grown}")
}

fn exceeded(resource: &str) -> String {
    format!("Job exceeded resource {resource}\nSee job standard error file")
}

/// The addresses of `-M`; by default the owner at the submission host.
///
/// Invalid addresses, possible in jobs of earlier versions, are dropped.
fn recipients(setup: &Setup, job: &Job) -> Vec<String> {
    let here = format!("@{}", setup.host);
    let owner = || format!("{}@{}", job.owner.user, job.spec.submit_host);
    let list = job
        .spec
        .other
        .get("Mail_Users")
        .cloned()
        .unwrap_or_else(owner);
    let names = list
        .split(',')
        .map(|name| name.strip_suffix(&here).unwrap_or(name));
    names
        .filter(|name| value_syntax::mail_address(name))
        .map(str::to_string)
        .collect()
}

fn body(setup: &Setup, job: &Job, what: &str) -> String {
    let mut text = format!(
        "PBS Job Id: {}\nJob Name:   {}\n",
        job.id.full(&setup.name),
        job.spec.name
    );
    if let Some(run) = &job.life.run {
        let mut hosts: Vec<&str> = run.shares.iter().map(|share| share.host.as_str()).collect();
        hosts.dedup();
        let _ = writeln!(text, "exec_host:  {}", hosts.join("+"));
    }
    let _ = writeln!(text, "{what}");
    if let Some(exit) = job.life.exit {
        if let Some(more) = &job.life.ending {
            let _ = writeln!(text, "{}", more.trim_start_matches("; ").trim());
        }
        let _ = writeln!(text, "Exit_status={}", exit.status);
        if let Some((indices, elements)) = job.indices().zip(job.elements.as_ref()) {
            write_subjobs(&mut text, elements, indices);
        }
        if job.life.run.is_some() {
            write_used(&mut text, job);
        }
    }
    match text.char_indices().nth(MAX_LENGTH / 4) {
        Some((end, _)) => text[..end].to_string() + "...\n",
        None => text,
    }
}

/// Writes one line per exit status, with the indices of the subjobs that ended with this status.
fn write_subjobs(text: &mut String, elements: &Elements, indices: Indices) {
    for (status, set) in elements.ended() {
        let runs = set
            .iter()
            .take(MAX_RANGES)
            .map(|(first, last)| indices.between(first, last).to_string());
        let (named, more) = (
            runs.collect::<Vec<_>>().join(","),
            if set.runs() > MAX_RANGES { ",..." } else { "" },
        );
        let _ = writeln!(
            text,
            "{} with status {status}: {named}{more}",
            subjobs(set.len())
        );
    }
}

fn subjobs(count: u32) -> String {
    if count == 1 {
        "1 subjob".into()
    } else {
        format!("{count} subjobs")
    }
}

fn write_used(text: &mut String, job: &Job) {
    let used = &job.life.used;
    for (name, value) in [
        ("cpupercent", used.cpupercent().to_string()),
        ("cput", used.cput.to_string()),
        ("mem", format!("{}kb", used.mem_kb)),
        ("ncpus", used.ncpus.to_string()),
        ("vmem", format!("{}kb", used.vmem_kb)),
        ("walltime", used.walltime.to_string()),
    ] {
        let _ = writeln!(text, "resources_used.{name}={value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::array::SubjobState;

    fn digest(indices: Indices, status: impl Fn(u32) -> i32) -> String {
        let mut elements = Elements::new(indices.count());
        (0..indices.count()).for_each(|at| elements.mark(at, at, SubjobState::Ended(status(at))));
        let mut text = String::new();
        write_subjobs(&mut text, &elements, indices);
        text
    }

    #[test]
    fn the_mail_of_an_array_lists_its_subjobs_by_exit_status() {
        let indices = "1-11:2".parse().unwrap();
        let text = digest(indices, |at| [0, 0, 0, 2, 0, 271][at as usize]);
        assert_eq!(
            text,
            "4 subjobs with status 0: 1-5:2,9\n1 subjob with status 2: 7\n1 subjob with status 271: 11\n"
        );
    }

    #[test]
    fn the_mail_of_a_large_array_is_bounded() {
        let indices = "0-99999".parse().unwrap();
        let text = digest(indices, |at| (at % 2) as i32);
        assert!(
            text.starts_with("50000 subjobs with status 0: 0,2,4,") && text.contains(",98,...\n"),
            "{text}"
        );
        assert_eq!(
            (text.lines().count(), text.contains(",100")),
            (2, false),
            "{text}"
        );
    }
}
