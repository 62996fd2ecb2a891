//! The scheduling stages in order, each with its verdict on a job.

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
    /// An earlier stage failed.
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

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageStep {
    pub stage: CycleStage,
    pub verdict: StageVerdict,
    /// The reason's stable name, if there is one.
    pub code: Option<String>,
    /// The explanation for users.
    pub text: String,
}

impl JobView<'_> {
    /// All stages, in order.
    pub fn steps(&self, obstacles: &[WaitObstacle]) -> Vec<StageStep> {
        let first = obstacles.first();
        let mut steps = Vec::new();
        for stage in CycleStage::ALL {
            let verdict = self.verdict(stage, first.map(|first| first.stage));
            let step = match first {
                // Preemption is considered in addition to the obstacle.
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
            (CycleStage::State, _) => text = "no hold, dependency or begin time".to_string(),
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
                text = "it may start before jobs that wait for resources".to_string();
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

    /// The jobs that are or could be preempted for it: a code, and the text.
    fn preemption(&self) -> (Option<String>, String) {
        let Some(outlook) = self.preemption_outlook() else {
            return (None, "no running job is preempted for it".to_string());
        };
        let text = match outlook {
            PreemptionOutlook::Made(jobs) if jobs.len() == 1 => {
                format!(
                    "{} is being preempted for it",
                    job_list_text(jobs, |job| self.id(job))
                )
            }
            PreemptionOutlook::Made(jobs) => {
                format!(
                    "{} are being preempted for it",
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
            } => "it outranks no running job".to_string(),
            PreemptionOutlook::Barred {
                candidates,
                protected,
            } => {
                let all = candidates + protected;
                let noun = if all == 1 { "candidate" } else { "candidates" };
                format!("{all} {noun}, {protected} protected: none is preempted")
            }
        };
        (Some(outlook.code().to_string()), text)
    }

    /// The fair share and usage of its pool, if starvation leads to preemption.
    fn fair_share(&self) -> Option<String> {
        Some(fair_share::sentence(
            self.found.explanation.as_ref()?.fair_share.as_ref()?,
            self.server,
        ))
    }

    /// Its place in the order.
    pub fn rank(&self) -> Option<String> {
        let QueueRank {
            before,
            waiting,
            cluster,
        } = self.found.explanation.as_ref()?.rank.as_ref()?;
        let place = match before {
            Some(0) => format!("first of {waiting} waiting jobs"),
            Some(before) => format!("{before} of {waiting} waiting jobs are ahead of it"),
            None => format!("many of {waiting} waiting jobs are ahead of it"),
        };
        Some(match cluster {
            Some(cluster) => {
                format!(
                    "on nodes of cluster {cluster}, ahead of jobs of all other clusters; by \
                     priority {place}"
                )
            }
            None => place,
        })
    }

    /// The failure of its last start: a code, and the text.
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
        let starts = if count == 1 {
            "a start failed".to_string()
        } else {
            format!("{count} starts failed")
        };
        Some((code, format!("{starts}, the last {failure}")))
    }

    /// The hook that refused its last start, and the reason; None if no hook refused it or it has
    /// started since.
    pub fn refused_start(&self) -> Option<(&str, &str)> {
        let last = self.found.events.iter().rev().map(|(_, event)| event);
        last.take_while(|event| !matches!(event, Event::Started { .. }))
            .find_map(|event| match event {
                Event::StartRefused { hook, why } => Some((hook.as_str(), why.as_str())),
                _ => None,
            })
    }

    fn failure(&self, at: Time, event: &Event) -> Option<(&'static str, String)> {
        let at = self.moment(at);
        match event {
            Event::StartTimedOut { after, .. } => Some((
                "start_timeout",
                format!("at {at}: its node did not report it for {after}"),
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
