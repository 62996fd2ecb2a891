//! Facts about a job for tables, filters and JSON documents.

use super::status::{self, JobStatus};
use crate::model::job::JobProgram;
use crate::model::job::array::SubjobState;
use crate::model::job::tags;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time, Wall};
use crate::shown::comment;
use crate::wire::message::{JobRecord, ServerFacts};
use std::collections::BTreeMap;

/// The attribute that contains the tags of a job: `run=7+phase=b`.
pub const TAGS: &str = "tag";

/// A job, with the facts that its display requires.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    /// The job.
    pub record: &'a JobRecord,
    /// The server.
    pub server: &'a ServerFacts,
    /// The current time.
    pub now: Wall,
}

/// Number of an array's subjobs in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounts {
    /// All subjobs.
    pub total: u32,
    /// Subjobs that have not started, or wait for another start.
    pub waiting: u32,
    /// Subjobs that run or are suspended.
    pub running: u32,
    /// Subjobs that finished with exit status 0.
    pub done: u32,
    /// Subjobs that finished with another exit status.
    pub failed: u32,
    /// Subjobs that were deleted.
    pub deleted: u32,
}

impl ArrayCounts {
    /// Number of finished subjobs.
    pub fn finished(&self) -> u32 {
        self.done + self.failed + self.deleted
    }
}

impl<'a> JobView<'a> {
    /// The id without the server: `12`, `12[]`, `12[3]`.
    pub fn id(&self) -> String {
        self.record.job.id.to_string()
    }

    /// The state.
    pub fn status(&self) -> JobStatus {
        JobStatus::of(&self.record.job)
    }

    /// The exit status; None before the end.
    pub fn exit_status(&self) -> Option<i32> {
        let job = &self.record.job;
        let exit = job.life.exit.map(|exit| exit.status);
        exit.or(match job.state_in_array() {
            SubjobState::Ended(status) if self.status().is_finished() => Some(status),
            _ => None,
        })
        .filter(|_| job.life.moved_to.is_none())
    }

    /// Submission time.
    pub fn submitted(&self) -> Wall {
        self.wall(self.record.job.life.ctime)
    }

    /// Start of the latest attempt, or of the array; None before the start.
    pub fn started(&self) -> Option<Wall> {
        self.start().map(|start| self.wall(start))
    }

    /// End time; None before the end.
    pub fn ended(&self) -> Option<Wall> {
        let life = &self.record.job.life;
        let end = life.obittime.filter(|_| self.status().is_finished())?;
        Some(self.wall(end))
    }

    fn start(&self) -> Option<Time> {
        let job = &self.record.job;
        if self.status().is_pending() {
            return None;
        }
        let run = job.life.run.as_ref().map(|run| run.started);
        job.life.began.or(run)
    }

    /// Time for which the job has run: since its start, or until its end. None before the start.
    pub fn elapsed(&self) -> Option<Span> {
        let end = match self.record.job.life.obittime {
            Some(end) if self.status().is_finished() => end,
            _ => self.server.now,
        };
        Some(end.since(self.start()?))
    }

    /// Time from the submission to the start, or until now.
    pub fn waited(&self) -> Span {
        let life = &self.record.job.life;
        let end = match (self.start(), life.obittime) {
            (Some(start), _) => start,
            (None, Some(end)) if self.status().is_finished() => end,
            _ => self.server.now,
        };
        end.since(life.ctime)
    }

    /// The requested walltime.
    pub fn walltime(&self) -> Option<Span> {
        self.record.job.spec.walltime()
    }

    /// The requested amount of a resource, as displayed; None if the job requests none.
    pub fn requested(&self, resource: &str) -> Option<&'a ResourceValue> {
        self.record.job.spec.request.list.get(resource)
    }

    /// The requested number of processors.
    pub fn processors(&self) -> i64 {
        match self.requested("ncpus") {
            Some(ResourceValue::Long(count)) => *count,
            _ => 1,
        }
    }

    /// The nodes of the latest attempt, each once; empty for an array.
    pub fn nodes(&self) -> Vec<&'a str> {
        let mut nodes = Vec::new();
        let run = self.record.job.life.run.as_ref();
        for share in run.iter().flat_map(|run| &run.shares) {
            if !nodes.contains(&share.node.as_str()) {
                nodes.push(&share.node);
            }
        }
        nodes
    }

    /// The tags of the job (`qsub -W tag=`).
    pub fn tags(&self) -> BTreeMap<&'a str, &'a str> {
        let text = self.record.job.spec.other.get(TAGS);
        tags::parse(text.map_or("", String::as_str)).collect()
    }

    /// The command of the job; None for a script.
    pub fn command(&self) -> Option<String> {
        match &self.record.job.spec.program {
            JobProgram::Script(_) => None,
            JobProgram::Command(words) => {
                let words = words.iter().map(|word| String::from_utf8_lossy(&word.0));
                Some(words.collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// The number of subjobs in each state; None if the job is no array.
    pub fn counts(&self) -> Option<ArrayCounts> {
        let job = &self.record.job;
        let elements = job.elements.as_ref()?;
        let counts = elements.counts();
        let failed = elements.failed().len();
        let done = elements.ended().get(&0).map_or(0, |set| set.len());
        let waiting_again = self.record.waiting_again.min(counts.begun);
        Some(ArrayCounts {
            total: counts.waiting + counts.begun + counts.ended,
            waiting: counts.waiting + waiting_again,
            running: counts.begun - waiting_again,
            done,
            failed,
            deleted: counts.ended.saturating_sub(done + failed),
        })
    }

    /// The progress of an array: `37/100, 2 failed`. None if the job is no array.
    pub fn progress(&self) -> Option<String> {
        let counts = self.counts()?;
        let mut text = format!("{}/{}", counts.finished(), counts.total);
        if counts.failed > 0 {
            text.push_str(&format!(", {} failed", counts.failed));
        }
        if counts.deleted > 0 {
            text.push_str(&format!(", {} deleted", counts.deleted));
        }
        Some(text)
    }

    /// Why the job waits, where it runs, or how it ended, in a few words.
    pub fn detail(&self) -> String {
        let detail = match self.status() {
            JobStatus::Running | JobStatus::Suspended => self.nodes().join(","),
            JobStatus::Done => String::new(),
            JobStatus::Failed => self
                .exit_status()
                .map(status::exit_text)
                .unwrap_or_default(),
            JobStatus::Deleted => self.deleter(),
            JobStatus::Queued | JobStatus::Held | JobStatus::Waiting => self.reason(),
        };
        match self.progress() {
            Some(progress) if detail.is_empty() => progress,
            Some(progress) => format!("{progress}; {detail}"),
            None => detail,
        }
    }

    fn deleter(&self) -> String {
        match &self.record.job.life.want {
            crate::model::job::Want::Gone(by) => format!("by {by}"),
            _ => String::new(),
        }
    }

    /// Why the job waits. The comment's introduction is omitted, because the state says the same.
    fn reason(&self) -> String {
        let comment = comment::of(self.record, self.server);
        let text = ["Not Running: ", "Job held by ", "Job held: "]
            .iter()
            .find_map(|start| comment.strip_prefix(start));
        text.unwrap_or(&comment).trim_end_matches('.').to_string()
    }

    fn wall(&self, time: Time) -> Wall {
        self.server.clock.wall(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, array, finished, queued, running, share, with};
    use crate::model::job::array::SubjobState;
    use std::sync::Arc;

    fn view<'a>(record: &'a JobRecord, server: &'a ServerFacts) -> JobView<'a> {
        JobView {
            record,
            server,
            now: Wall(0),
        }
    }

    #[test]
    fn the_detail_depends_on_the_state() {
        let server = example::server();
        let waits = queued(1, "a", "");
        let runs = running(waits.clone(), vec![share(2, None)]);
        assert_eq!(view(&runs, &server).detail(), "head");
        assert_eq!(
            view(&finished(runs.clone(), 0, false), &server).detail(),
            ""
        );
        let failed = finished(runs.clone(), 137, false);
        assert_eq!(view(&failed, &server).detail(), "signal 9 (KILL)");
        let mut held = waits.clone();
        held.job.life.state = crate::model::job::state::JobState::Held;
        held.job.life.holds = crate::model::job::state::Holds::USER;
        assert_eq!(view(&held, &server).detail(), "u");
        let mut waits = waits;
        waits.reason = Some(crate::model::reason::Reason::QueueStopped);
        assert_eq!(view(&waits, &server).detail(), "Queue not started");
    }

    #[test]
    fn an_array_counts_its_subjobs() {
        let server = example::server();
        let mut record = array(queued(1, "a", ""), "1-10");
        let elements = record.job.elements.as_mut().map(Arc::make_mut).unwrap();
        elements.mark(0, 3, SubjobState::Ended(0));
        elements.mark(4, 4, SubjobState::Ended(3));
        elements.mark(5, 6, SubjobState::Begun);
        let view = view(&record, &server);
        let expected = ArrayCounts {
            total: 10,
            waiting: 3,
            running: 2,
            done: 4,
            failed: 1,
            deleted: 0,
        };
        assert_eq!(view.counts(), Some(expected));
        assert_eq!(view.progress().as_deref(), Some("5/10, 1 failed"));
    }

    #[test]
    fn tags_are_keys_with_values() {
        let server = example::server();
        let record = with(queued(1, "a", ""), |spec| {
            spec.other.insert(TAGS.into(), "run=7+urgent".into());
        });
        let tags = view(&record, &server).tags();
        assert_eq!(tags.get("run"), Some(&"7"));
        assert_eq!(tags.get("urgent"), Some(&""));
    }
}
