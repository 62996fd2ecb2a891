//! The obstacles to the start of a job. Obstacles of its state (holds, dependencies, begin time,
//! missing files) come from the job's record and events, all others from the scheduler.

use super::super::counted;
use super::JobView;
use crate::model::job::How;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::event::Event;
use crate::model::job::state::{Holds, JobState};
use crate::model::reason::{Code, CycleStage, Reason};
use crate::model::report::outlook::{Explanation, Prospect};
use crate::model::time::Span;
use crate::shown::comment;
use crate::shown::reason::numbers_of;
use crate::shown::timestamp;
use serde_json::{Map, Value, json};

/// Each hold with its reason code, sentence, and letter for `qrls -h`.
const HOLDS: [(Holds, &str, &str, &str); 4] = [
    (
        Holds::USER,
        "held.user",
        "The job is held by its owner",
        "u",
    ),
    (
        Holds::OPERATOR,
        "held.operator",
        "The job is held by an operator",
        "o",
    ),
    (
        Holds::SYSTEM,
        "held.system",
        "The job is held by the system",
        "s",
    ),
    (
        Holds::PASSWORD,
        "held.password",
        "The job has a password hold",
        "p",
    ),
];

/// Maximum number of blocking jobs named in a sentence.
const NAMED: usize = 3;

/// A reason why a job does not start.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitObstacle {
    pub stage: CycleStage,
    /// Stable code of the reason.
    pub code: String,
    /// A sentence for users.
    pub text: String,
    /// Remedies, the most certain one first.
    pub help: Vec<String>,
    /// The values that the scheduler compared, by name.
    pub numbers: Map<String, Value>,
}

impl WaitObstacle {
    /// An obstacle of the job's state, with one remedy.
    fn of_state(code: &str, text: String, help: String, numbers: Value) -> WaitObstacle {
        let stage = Code::find(code).map_or(CycleStage::State, |code| code.stage);
        let numbers = numbers.as_object().cloned().unwrap_or_default();
        WaitObstacle {
            stage,
            code: code.to_string(),
            text,
            help: vec![help],
            numbers,
        }
    }
}

impl JobView<'_> {
    /// All obstacles, in the order of the stages.
    pub fn obstacles(&self) -> Vec<WaitObstacle> {
        let mut obstacles = self.obstacles_of_state();
        if let Some(explanation) = &self.found.explanation {
            let has_pause = obstacles
                .iter()
                .any(|obstacle| ["begin_time", "stage_in"].contains(&&*obstacle.code));
            let others = explanation.objections.iter().filter(|reason| {
                // The scheduler reports a wait for the begin time or for files as a deferral.
                !(has_pause && matches!(reason, Reason::Deferred { .. }))
            });
            obstacles.extend(others.map(|reason| self.obstacle(reason, explanation)));
        }
        obstacles
    }

    /// The obstacles that follow from the state of the job.
    fn obstacles_of_state(&self) -> Vec<WaitObstacle> {
        let job = &self.found.record.job;
        match job.life.state {
            JobState::Held => self
                .hold_obstacles()
                .into_iter()
                .chain(self.dependency())
                .collect(),
            JobState::Waiting => self.begin_time().into_iter().collect(),
            JobState::Queued => self.stage_in().into_iter().collect(),
            JobState::Finished | JobState::Expired => self.broken().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn hold_obstacles(&self) -> Vec<WaitObstacle> {
        let job = &self.found.record.job;
        let mut obstacles = Vec::new();
        for (hold, code, text, letter) in HOLDS {
            if !job.life.holds.contains(hold) {
                continue;
            }
            let help = match letter {
                "u" => format!("the owner releases the job: qrls {}", self.id(job.id)),
                "o" => format!(
                    "an operator releases the job: qrls -h o {}",
                    self.id(job.id)
                ),
                _ => format!(
                    "a manager releases the job: qrls -h {letter} {}",
                    self.id(job.id)
                ),
            };
            obstacles.push(WaitObstacle::of_state(
                code,
                format!("{text}{}.", self.starts_failed()),
                help,
                json!({ "hold": letter }),
            ));
        }
        obstacles
    }

    /// The number of failed starts, as the end of a sentence; empty if no start has failed.
    fn starts_failed(&self) -> String {
        match self.found.record.job.life.failed_starts {
            0 => String::new(),
            count => format!("; {} failed", counted(count.into(), "start")),
        }
    }

    fn dependency(&self) -> Option<WaitObstacle> {
        let record = &self.found.record;
        if record.job.life.bars.are_open() {
            return None;
        }
        let comment = comment::dependency(record, &self.server.name);
        let text = format!(
            "{}.",
            comment.replacen(
                "Job held by dependency: ",
                "The job waits for other jobs: ",
                1
            )
        );
        let awaited = record.links.iter().filter(|link| {
            matches!(
                link.edge.kind,
                DependencyKind::After(_) | DependencyKind::RunOne
            )
        });
        let jobs: Vec<Value> = awaited
            .map(|link| {
                let state = link.state.map(|state| state.letter().to_string());
                json!({"kind": link.edge.kind.name(), "job": self.id(link.edge.job), "state": state})
            })
            .collect();
        let help = "the dependency is met (no action is needed) or changed (qalter -W depend=...)"
            .to_string();
        Some(WaitObstacle::of_state(
            "dep_wait",
            text,
            help,
            json!({ "depends_on": jobs }),
        ))
    }

    /// The broken dependency that ended the job.
    fn broken(&self) -> Option<WaitObstacle> {
        let why = self
            .found
            .events
            .iter()
            .rev()
            .find_map(|(_, event)| match event {
                Event::DependencyBroken { why, .. } => Some(why),
                _ => None,
            });
        let help = "the job is submitted again with other dependencies".to_string();
        why.map(|why| WaitObstacle::of_state("dep_failed", format!("{why}."), help, json!({})))
    }

    fn begin_time(&self) -> Option<WaitObstacle> {
        let job = &self.found.record.job;
        let begin = job.spec.begin?;
        let text = format!("The job must not start before {}.", timestamp::ctime(begin));
        let help = format!(
            "the job gets an earlier begin time: qalter -a [[CC]YY]MMDDhhmm {}",
            self.id(job.id)
        );
        Some(WaitObstacle::of_state(
            "begin_time",
            text,
            help,
            json!({ "at": begin.0 }),
        ))
    }

    /// The obstacle if missing files prevented the last start.
    fn stage_in(&self) -> Option<WaitObstacle> {
        let job = &self.found.record.job;
        let (files, at) = (self.awaited_files()?, job.life.not_before?);
        let text = format!(
            "Files to stage in are missing: {files}. The next check is at {}.",
            self.moment(at)
        );
        let help = format!(
            "the files are created, or removed from the list: qalter -W stagein=... {}",
            self.id(job.id)
        );
        let numbers = json!({ "files": files, "until": self.wall(at).0 });
        Some(WaitObstacle::of_state("stage_in", text, help, numbers))
    }

    /// The missing files that ended the last attempt. None if the job has started since, or if no
    /// attempt ended because of missing files.
    fn awaited_files(&self) -> Option<&str> {
        let last = self.found.events.iter().rev().map(|(_, event)| event);
        last.take_while(|event| !matches!(event, Event::Started { .. }))
            .find_map(|event| match event {
                Event::Ended { outcome, .. } => match &outcome.how {
                    How::AwaitsFiles(files) => Some(files.as_str()),
                    _ => None,
                },
                _ => None,
            })
    }

    /// The obstacle for a reason of the scheduler.
    fn obstacle(&self, reason: &Reason, explanation: &Explanation) -> WaitObstacle {
        let is_first = explanation.reason.as_ref() == Some(reason);
        let mut help: Vec<String> = Vec::new();
        if is_first {
            help.extend(
                explanation
                    .shorter
                    .map(|walltime| self.shorter_walltime(walltime)),
            );
            if reason.is_blocked() {
                help.extend(self.awaited_jobs(explanation));
            }
        }
        let is_exact = is_first && explanation.shorter.is_some();
        if !is_exact {
            help.push(reason.remedy().to_string());
        }
        let stage = reason.stage();
        if is_first && [CycleStage::Match, CycleStage::Allocate].contains(&stage) {
            // If the job cannot start otherwise, this is the most certain remedy.
            let place = if explanation.needs_change() {
                0
            } else {
                help.len()
            };
            help.splice(place..place, self.reopening());
        }
        WaitObstacle {
            stage,
            code: reason.code().into(),
            text: self.reason_sentence(reason),
            help,
            numbers: self.numbers(reason),
        }
    }

    /// The remedy with which the job starts now: a walltime of at most `walltime`.
    fn shorter_walltime(&self, walltime: Span) -> String {
        let (walltime, id) = (with_margin(walltime), self.id(self.found.record.job.id));
        format!(
            "its walltime is at most {walltime}; then it starts now: qalter -l \
             walltime={walltime} {id}"
        )
    }

    /// The events for which the job waits until its predicted start, as a remedy that needs no
    /// action of the user; None without a predicted start. If all running jobs on the nodes of the
    /// start are known, and the last one ends no earlier than the start, the text names these jobs.
    /// Otherwise it has the number of jobs ahead; None if this number is 0.
    fn awaited_jobs(&self, explanation: &Explanation) -> Option<String> {
        let Prospect::Starts { at, .. } = explanation.prospect else {
            return None;
        };
        let ends = explanation.occupants.iter().map(|occupant| occupant.end);
        let last = match ends.max() {
            Some(last) if explanation.more == 0 && last >= at => last,
            _ if explanation.ahead == 0 => return None,
            _ => {
                let ahead = counted(explanation.ahead, "job");
                let start = if explanation.ahead == 1 {
                    "starts"
                } else {
                    "start"
                };
                return Some(format!(
                    "the {ahead} ahead of it {start}; it is then expected to start at {}",
                    self.moment(at)
                ));
            }
        };
        let ids: Vec<String> = explanation
            .occupants
            .iter()
            .take(NAMED)
            .map(|occupant| self.id(occupant.job))
            .collect();
        let more = explanation.occupants.len().saturating_sub(NAMED);
        let all = match more {
            0 => ids.join(" and "),
            more => format!("{} and {more} more", ids.join(", ")),
        };
        let (jobs, ends) = if ids.len() == 1 && more == 0 {
            ("job", "ends")
        } else {
            ("jobs", "have ended")
        };
        Some(format!(
            "{jobs} {all} {ends}, at the latest at {}",
            self.moment(last)
        ))
    }

    /// The values that the reason compares, by name.
    fn numbers(&self, reason: &Reason) -> Map<String, Value> {
        let mut numbers = numbers_of(reason, self.server)
            .as_object()
            .cloned()
            .unwrap_or_default();
        numbers.retain(|key, _| key != "code" && key != "stage");
        numbers
    }
}

/// A walltime of 11 minutes or more, reduced by 1 to 2 minutes to whole minutes, so that it is
/// still short enough when the user has entered it. A shorter walltime is not changed.
fn with_margin(walltime: Span) -> Span {
    let minutes = walltime.0 / 60_000;
    if minutes > 10 {
        Span::seconds((minutes - 1) * 60)
    } else {
        walltime
    }
}
