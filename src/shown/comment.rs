//! The comment of a job: the comment that a user or the server has set, else the reason why the job
//! waits, else a description of the job's state. Some clients require a comment on every job. Only
//! a suspended job may have none, as in PBS.

use super::{exec_host, timestamp};
use crate::model::job::dependency::{DependencyKind, DependencyView};
use crate::model::job::state::JobState;
use crate::model::job::{Exit, Job, Run, Want};
use crate::model::time::ClockTable;
use crate::wire::message::{JobRecord, ServerFacts};
use std::borrow::Cow;

/// `Exit_status` of a job that exceeded a limit, with the limited resource.
const LIMITS: [(i32, &str); 4] = [
    (-26, "vmem"),
    (-27, "mem"),
    (-28, "cput"),
    (-29, "walltime"),
];

/// The resource whose limit the job exceeded, according to its `Exit_status`; None if the status
/// has another cause.
pub fn exceeded_resource(status: i32) -> Option<&'static str> {
    let (_, resource) = LIMITS.iter().find(|(limit, _)| *limit == status)?;
    Some(resource)
}

/// The comment of a job.
pub fn of<'a>(record: &'a JobRecord, server: &ServerFacts) -> Cow<'a, str> {
    let (job, clock) = (&record.job, &server.clock);
    if let Some(to) = &job.life.moved_to {
        return Cow::Owned(format!("Job was moved to {to}"));
    }
    match (&job.life.comment, &record.reason) {
        (Some(comment), _) if job.id.is_array() && job.life.state == JobState::Finished => {
            Cow::Owned(format!("{comment}{}", ending(job)))
        }
        (Some(comment), _) => Cow::Borrowed(comment),
        (None, Some(reason)) if job.life.state == JobState::Queued => {
            let since = record
                .never_since
                .map(|since| format!(", since {}", timestamp::ctime(clock.wall(since))));
            Cow::Owned(format!("{reason}{}", since.unwrap_or_default()))
        }
        (None, _) if is_held_by_dependency(job) => Cow::Owned(dependency(record, &server.name)),
        (None, _) => by_state(job, clock, &server.name),
    }
}

fn by_state<'a>(job: &Job, clock: &ClockTable, server: &str) -> Cow<'a, str> {
    match (job.life.state, &job.life.run) {
        (JobState::Queued, _) => "Not Running: Not yet considered by the scheduler".into(),
        (JobState::Held, _) => format!("Job held: {}", job.life.shown_holds()).into(),
        (JobState::Waiting, _) => waiting(job).into(),
        (JobState::Running, Some(run)) if run.session.is_none() => {
            started("was sent for execution", run, clock).into()
        }
        (JobState::Running, Some(run)) => started("run", run, clock).into(),
        (JobState::Running, None) => "Job is being started".into(),
        (JobState::Suspended, run) => suspended(job, run.as_ref(), clock, server).into(),
        (JobState::Begun, _) => format!("{}{}", array_began(job, clock), failing(job)).into(),
        (JobState::Finished, None) if job.life.began.is_some() => {
            format!("{}{}", array_began(job, clock), ending(job)).into()
        }
        (JobState::Finished | JobState::Expired, Some(run)) => {
            format!("{}{}", started("run", run, clock), ending(job)).into()
        }
        (JobState::Finished | JobState::Expired, None) if job.id.index().is_some() => {
            format!("Subjob finished{}", ending(job)).into()
        }
        (JobState::Finished | JobState::Expired, None) => {
            format!("Job was never started{}", ending(job)).into()
        }
    }
}

/// Tests whether the job is held only by dependencies.
fn is_held_by_dependency(job: &Job) -> bool {
    job.life.state == JobState::Held && job.life.holds.is_none() && !job.life.bars.are_open()
}

/// The first unmet dependency of a job, and the number of further unmet dependencies.
pub fn dependency(record: &JobRecord, server: &str) -> String {
    let (bars, awaits) = (&record.job.life.bars, &record.job.life.awaits);
    let awaited = record
        .links
        .iter()
        .find(|link| matches!(link.edge.kind, DependencyKind::After(_)));
    match (awaited, bars.rival) {
        (Some(link), _) if bars.unmet > 0 => {
            let more = match (bars.unmet - 1) + bars.on {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let (kind, job) = (link.edge.kind.name(), link.edge.job.full(server));
            format!(
                "Job held by dependency: {kind}:{job}{}{more}",
                dependency_text(link)
            )
        }
        (None, _) if !awaits.is_empty() => {
            let more = match bars.unmet.saturating_sub(1) + bars.on {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            format!(
                "Job held by dependency: {}, not met by any job{} yet{more}",
                awaits[0],
                of_group(&record.job)
            )
        }
        (_, Some(rival)) => format!(
            "Job held by dependency: runone:{}, which has started",
            rival.full(server)
        ),
        _ => format!(
            "Job held by dependency: on:{0}, until {0} more jobs name this job in a \
             dependency of type before",
            bars.on
        ),
    }
}

fn of_group(job: &Job) -> String {
    job.spec
        .process_group
        .as_ref()
        .map_or(String::new(), |group| format!(" of group {group}"))
}

fn dependency_text(link: &DependencyView) -> &'static str {
    match link.state {
        Some(JobState::Queued) => ", which is queued",
        Some(JobState::Held) => ", which is held",
        Some(JobState::Waiting) => ", which waits for its start time",
        Some(JobState::Running | JobState::Begun) => ", which is running",
        Some(JobState::Suspended) => ", which is suspended",
        Some(JobState::Finished | JobState::Expired) | None => "",
    }
}

/// The comment of a suspended job that waits until resources are free. Empty for other suspended
/// jobs: PBS displays no comment for a job that a user has suspended.
fn suspended(job: &Job, run: Option<&Run>, clock: &ClockTable, server: &str) -> String {
    let Some(suspension) = run.and_then(|run| run.suspension.as_ref()) else {
        return String::new();
    };
    if !suspension.waits || job.life.want != Want::Run {
        return String::new();
    }
    let at = timestamp::comment_time(clock.wall(suspension.since));
    match suspension.manner.for_job() {
        Some(other) => format!(
            "Job suspended at {at} by {} for {}",
            suspension.by,
            other.full(server)
        ),
        None => format!(
            "Job suspended at {at} by {} until resources are free",
            suspension.by
        ),
    }
}

fn array_began(job: &Job, clock: &ClockTable) -> String {
    let at = job
        .life
        .began
        .map(|began| timestamp::comment_time(clock.wall(began)).to_string());
    format!("Job Array Began at {}", at.unwrap_or_default())
}

/// The end of an array's comment: the number of failed subjobs (Q28); empty for none.
fn failing(job: &Job) -> String {
    match job
        .elements
        .as_ref()
        .map_or(0, |elements| elements.failed().len())
    {
        0 => String::new(),
        1 => ", failing: 1 subjob has failed".to_string(),
        failed => format!(", failing: {failed} subjobs have failed"),
    }
}

fn waiting(job: &Job) -> String {
    match job.spec.begin {
        Some(begin) => format!("Not Running: Waiting until {}", timestamp::ctime(begin)),
        None => "Not Running: Waiting for its start time".to_string(),
    }
}

fn started(action: &str, run: &Run, clock: &ClockTable) -> String {
    let at = timestamp::comment_time(clock.wall(run.started));
    format!(
        "Job {action} at {at} on {}",
        exec_host::exec_vnode(&run.shares)
    )
}

/// The end of a finished job's comment: the result of the job, then the amounts of an exceeded
/// limit and the notes of the node, for example about stage-out.
fn ending(job: &Job) -> String {
    by_status(job) + job.life.ending.as_deref().unwrap_or_default()
}

fn by_status(job: &Job) -> String {
    match (job.life.exit, &job.life.want) {
        (Some(Exit { deleted: true, .. }) | None, Want::Gone(by)) => {
            format!(" and terminated by {by}")
        }
        (Some(Exit { deleted: true, .. }) | None, _) => " and terminated".to_string(),
        (Some(Exit { status: 0, .. }), _) => " and finished".to_string(),
        (Some(Exit { status, .. }), _) => match exceeded_resource(status) {
            Some(resource) => format!(" and exceeded resource {resource}"),
            None => " and failed".to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, finished, queued, running, share};
    use crate::model::job::dependency::{Edge, UnmetDependencies};
    use crate::model::job_id::JobId;
    use crate::model::reason::Reason;

    fn shown(record: &JobRecord) -> String {
        of(record, &example::server()).into_owned()
    }

    #[test]
    fn every_state_has_a_comment() {
        let day =
            timestamp::comment_time(example::server().clock.wall(example::SUBMITTED)).to_string();
        let job = running(queued(1, "a", ""), vec![share(2, Some("512mb"))]);
        let ran = format!("Job run at {day} on (head:ncpus=2:mem=524288kb)");
        assert_eq!(shown(&job), ran);
        assert_eq!(
            shown(&finished(job.clone(), 0, false)),
            format!("{ran} and finished")
        );
        assert_eq!(
            shown(&finished(job.clone(), 3, false)),
            format!("{ran} and failed")
        );
        assert_eq!(
            shown(&finished(job.clone(), -29, false)),
            format!("{ran} and exceeded resource walltime")
        );
        let mut over = finished(job.clone(), -27, false);
        over.job.life.ending = Some(" (mem 600kb exceeded limit 500kb); not removed".into());
        let expected = format!(
            "{ran} and exceeded resource mem (mem 600kb exceeded limit 500kb); not removed"
        );
        assert_eq!(shown(&over), expected);
        let mut deleted = finished(job, 271, true);
        deleted.job.life.want = Want::Gone("alice@head".into());
        assert_eq!(
            shown(&deleted),
            format!("{ran} and terminated by alice@head")
        );
        deleted.job.life.run = None;
        assert_eq!(
            shown(&deleted),
            "Job was never started and terminated by alice@head"
        );
    }

    #[test]
    fn the_comment_of_a_dependent_job_names_the_awaited_job() {
        let mut record = queued(2, "a", "");
        record.job.life.state = JobState::Held;
        record.job.life.bars.on = 2;
        assert_eq!(
            shown(&record),
            "Job held by dependency: on:2, until 2 more jobs name this job in a \
             dependency of type before"
        );
        let edge = Edge {
            kind: DependencyKind::from_name("afterok").unwrap(),
            job: JobId::job(1),
        };
        record.links = vec![
            DependencyView {
                edge: Edge {
                    kind: edge.kind.mirrored(),
                    ..edge
                },
                state: None,
            },
            DependencyView {
                edge,
                state: Some(JobState::Running),
            },
        ];
        record.job.life.bars = UnmetDependencies {
            unmet: 1,
            ..UnmetDependencies::default()
        };
        assert_eq!(
            shown(&record),
            "Job held by dependency: afterok:1.head, which is running"
        );
        record.job.life.bars.unmet = 3;
        assert_eq!(
            shown(&record),
            "Job held by dependency: afterok:1.head, which is running, and 2 more"
        );
        record.job.life.bars = UnmetDependencies {
            rival: Some(JobId::job(1)),
            ..UnmetDependencies::default()
        };
        assert_eq!(
            shown(&record),
            "Job held by dependency: runone:1.head, which has started"
        );
        record.job.life.holds = crate::model::job::state::Holds::USER;
        assert_eq!(shown(&record), "Job held: su");
    }

    #[test]
    fn the_comment_of_an_array_describes_the_begin_and_end() {
        let began = timestamp::comment_time(example::server().clock.wall(example::SUBMITTED));
        let mut record = example::array(queued(1, "a", ""), "1-3");
        let never = JobRecord {
            job: record.job.subjob_without_record(2).unwrap(),
            ..record.clone()
        };
        assert!(shown(&never).starts_with("Not Running: "));
        assert_eq!(
            shown(&finished(never, 271, true)),
            "Subjob finished and terminated"
        );
        record.job.life.began = Some(example::SUBMITTED);
        record.job.life.state = JobState::Begun;
        assert_eq!(shown(&record), format!("Job Array Began at {began}"));
        let elements = record
            .job
            .elements
            .as_mut()
            .map(std::sync::Arc::make_mut)
            .unwrap();
        elements.mark(0, 0, crate::model::job::array::SubjobState::Ended(3));
        assert_eq!(
            shown(&record),
            format!("Job Array Began at {began}, failing: 1 subjob has failed")
        );
        let failed = finished(record.clone(), 1, false);
        assert_eq!(
            shown(&failed),
            format!("Job Array Began at {began} and failed")
        );
        record.job.life.want = Want::Gone("alice@head".into());
        let deleted = finished(record, 271, true);
        assert_eq!(
            shown(&deleted),
            format!("Job Array Began at {began} and terminated by alice@head")
        );
    }

    #[test]
    fn a_reason_is_shown_only_while_queued_and_a_comment_of_a_user_always() {
        let mut record = queued(1, "a", "");
        assert!(shown(&record).starts_with("Not Running: "));
        record.reason = Some(Reason::QueueStopped);
        assert_eq!(shown(&record), "Not Running: Queue not started.");
        record.reason = Some(Reason::NeverNodes {
            requested: 2,
            total: 1,
        });
        record.never_since = Some(example::SUBMITTED);
        let since = timestamp::ctime(example::server().clock.wall(example::SUBMITTED));
        assert_eq!(
            shown(&record),
            format!("Can Never Run: Not enough total nodes available (R: 2 T: 1), since {since}")
        );
        record.job.life.state = JobState::Held;
        record.job.life.holds = crate::model::job::state::Holds::USER;
        assert_eq!(shown(&record), "Job held: u");
        record.job.life.comment = Some("mine".into());
        assert_eq!(shown(&record), "mine");
    }
}
