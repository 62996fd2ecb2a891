//! The scheduling stages in order, each with its verdict on a job.

use super::super::counted;
use super::JobView;
use super::obstacles::WaitObstacle;
use crate::cli::report::fair_share;
use crate::model::job::How;
use crate::model::job::event::Event;
use crate::model::job::preemption::job_list_text;
use crate::model::reason::CycleStage;
use crate::model::report::outlook::{PreemptionOutlook, QueueRank};
use crate::model::time::Time;

/// The verdict of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageVerdict {
    Passed,
    Failed,
    /// An earlier stage failed, or the scheduler has not considered the job yet. The launch stage
    /// always has this verdict, unless it is the stage of the first obstacle.
    NotReached,
    /// The stage is not configured or does not apply.
    Off,
}

impl StageVerdict {
    /// The verdict in JSON.
    pub fn name(self) -> &'static str {
        match self {
            StageVerdict::Passed => "passed",
            StageVerdict::Failed => "failed",
            StageVerdict::NotReached => "not_reached",
            StageVerdict::Off => "off",
        }
    }

    /// The verdict in a table.
    pub fn shown(self) -> &'static str {
        match self {
            StageVerdict::Failed => "FAILED",
            StageVerdict::NotReached => "not reached",
            other => other.name(),
        }
    }
}

/// A row of the table of stages.
#[derive(Clone, Debug, PartialEq)]
pub struct StageStep {
    pub stage: CycleStage,
    pub verdict: StageVerdict,
    /// The stable code of the reason; None if the stage has no reason.
    pub code: Option<String>,
    /// The reason, or the fact that lets the job pass the stage, for users. Usually empty if the
    /// stage is not reached.
    pub text: String,
}

impl JobView<'_> {
    /// All stages in order. The stage of the first obstacle has failed, and later stages are not
    /// reached. The verdict of the preempt stage does not depend on the obstacle.
    pub fn steps(&self, obstacles: &[WaitObstacle]) -> Vec<StageStep> {
        let first = obstacles.first();
        let mut steps = Vec::new();
        for stage in CycleStage::ALL {
            let verdict = self.verdict(stage, first.map(|first| first.stage));
            let step = match first {
                Some(first) if verdict == StageVerdict::Failed && stage != CycleStage::Preempt => {
                    StageStep {
                        stage,
                        verdict,
                        code: Some(first.code.clone()),
                        text: first.text.clone(),
                    }
                }
                _ => self.without_obstacle(stage, verdict),
            };
            steps.push(step);
        }
        steps
    }

    /// The verdict of `stage`. `first` is the stage of the first obstacle; None without obstacles.
    fn verdict(&self, stage: CycleStage, first: Option<CycleStage>) -> StageVerdict {
        let is_known = first.is_some() || self.found.explanation.is_some();
        match first {
            _ if stage == CycleStage::Preempt => match self.preemption_outlook() {
                None => StageVerdict::Off,
                Some(PreemptionOutlook::Made(_)) => StageVerdict::Passed,
                Some(PreemptionOutlook::Barred { .. }) => StageVerdict::Failed,
            },
            Some(first) if stage == first => StageVerdict::Failed,
            Some(first) if stage < first => StageVerdict::Passed,
            None if is_known && stage < CycleStage::Launch => StageVerdict::Passed,
            None if stage == CycleStage::State => StageVerdict::Passed,
            _ => StageVerdict::NotReached,
        }
    }

    /// The row of the preempt stage, or of a stage to which the first obstacle does not belong.
    fn without_obstacle(&self, stage: CycleStage, verdict: StageVerdict) -> StageStep {
        let (mut code, mut text) = (None, String::new());
        match (stage, verdict) {
            (CycleStage::Launch, _) => {
                if let Some((name, failure)) = self.failed_start() {
                    (code, text) = (Some(name.to_string()), failure);
                }
            }
            (CycleStage::Preempt, _) => (code, text) = self.preemption(),
            (_, StageVerdict::NotReached) => {}
            (CycleStage::State, _) => {
                text = "no hold, unmet dependency or future begin time".to_string()
            }
            (CycleStage::Admission, _) => {
                text = format!(
                    "the job fits this system, and queue {} is started",
                    self.found.record.job.spec.queue
                );
            }
            (CycleStage::Priority, _) => text = self.rank().unwrap_or_default(),
            (CycleStage::Throttle, _) => text = "within all limits".to_string(),
            (CycleStage::Match, _) => {
                text = "suitable nodes have enough free resources".to_string()
            }
            (CycleStage::Allocate, _) => text = "unreserved resources are free".to_string(),
            (CycleStage::Backfill, _) => {
                text =
                    "the job is allowed to start before jobs that wait for resources".to_string();
            }
        }
        StageStep {
            stage,
            verdict,
            code,
            text,
        }
    }

    fn preemption_outlook(&self) -> Option<&PreemptionOutlook> {
        self.found.explanation.as_ref()?.way.as_ref()
    }

    /// The reason code and the text of the preempt stage.
    fn preemption(&self) -> (Option<String>, String) {
        let Some(outlook) = self.preemption_outlook() else {
            return (None, "no running job is preempted for this job".to_string());
        };
        let text = match outlook {
            PreemptionOutlook::Made(jobs) if jobs.len() == 1 => {
                format!(
                    "{} is being preempted for this job",
                    job_list_text(jobs, |job| self.id(job))
                )
            }
            PreemptionOutlook::Made(jobs) => {
                format!(
                    "{} are being preempted for this job",
                    job_list_text(jobs, |job| self.id(job))
                )
            }
            PreemptionOutlook::Barred {
                candidates: 0,
                protected: 0,
            } if self.fair_share().is_some() => self.fair_share().unwrap_or_default(),
            PreemptionOutlook::Barred {
                candidates: 0,
                protected: 0,
            } => "the triggers let the job preempt no running job".to_string(),
            PreemptionOutlook::Barred {
                candidates,
                protected,
            } => {
                let all = counted(candidates + protected, "running job");
                format!(
                    "no job is preempted: the triggers apply to {all} (added up over the \
                     triggers), {protected} of them exempted by their owners"
                )
            }
        };
        (Some(outlook.code().to_string()), text)
    }

    /// The fair share and usage of the job's operation (the job, or its array with all subjobs);
    /// None if schedd reports none, for instance because the preemption trigger `starvation` is not
    /// set.
    fn fair_share(&self) -> Option<String> {
        Some(fair_share::sentence(
            self.found.explanation.as_ref()?.fair_share.as_ref()?,
            self.server,
        ))
    }

    /// The job's position among the waiting jobs; None if the explanation or the position is
    /// missing.
    pub fn rank(&self) -> Option<String> {
        let QueueRank {
            before,
            waiting,
            cluster,
        } = self.found.explanation.as_ref()?.rank.as_ref()?;
        let place = match before {
            Some(0) => format!("first of {waiting} waiting jobs"),
            Some(1) => format!("1 of {waiting} waiting jobs is ahead of it"),
            Some(before) => format!("{before} of {waiting} waiting jobs are ahead of it"),
            None => format!("many of {waiting} waiting jobs are ahead of it"),
        };
        Some(match cluster {
            Some(cluster) => {
                format!(
                    "on nodes of cluster {cluster}, ahead of jobs of all other clusters; by \
                     priority: {place}"
                )
            }
            None => place,
        })
    }

    /// The reason code and the text of the launch stage. If a hook has refused a start since the
    /// job last started, they describe the last refusal. Otherwise they describe the last failed
    /// start; None if the count of failed starts is 0, or if no event describes a failure.
    fn failed_start(&self) -> Option<(&'static str, String)> {
        if let Some((hook, why)) = self.refused_start() {
            return Some((
                "start_refused",
                format!("hook {hook} of the site refused the last start: {why}"),
            ));
        }
        let count = self.found.record.job.life.failed_starts;
        if count == 0 {
            return None;
        }
        let mut events = self.found.events.iter().rev();
        let (code, failure) = events.find_map(|(at, event)| self.failure(*at, event))?;
        let text = if count == 1 {
            format!("a start failed {failure}")
        } else {
            format!("{count} starts failed, the last {failure}")
        };
        Some((code, text))
    }

    /// The last refusal of a start: the hook and its reason. None if no hook has refused a start
    /// since the job last started.
    pub fn refused_start(&self) -> Option<(&str, &str)> {
        let last = self.found.events.iter().rev().map(|(_, event)| event);
        last.take_while(|event| !matches!(event, Event::Started { .. }))
            .find_map(|event| match event {
                Event::StartRefused { hook, why } => Some((hook.as_str(), why.as_str())),
                _ => None,
            })
    }

    /// The reason code of a failed start, and its time and cause; None for other events.
    fn failure(&self, at: Time, event: &Event) -> Option<(&'static str, String)> {
        let at = self.moment(at);
        match event {
            Event::StartTimedOut { after, .. } => Some((
                "start_timeout",
                format!("at {at}: the node did not report the start within {after}"),
            )),
            Event::Vanished { why, .. } => Some(("node_lost", format!("at {at}: {why}"))),
            Event::Ended { outcome, .. } => match &outcome.how {
                How::NodeFault(why) => Some(("node_nack", format!("at {at}: {why}"))),
                _ => None,
            },
            _ => None,
        }
    }
}
