//! The explanation as JSON. Jobs in all states have the same keys. Times are seconds since 1970;
//! `estimated` contains the start and the end in PBS's format, too.

use super::super::starts::data as start;
use super::JobView;
use super::obstacles::WaitObstacle;
use super::sentences::rejected;
use super::steps::StageStep;
use crate::cli::report::fair_share;
use crate::model::job::event::Event;
use crate::model::report::outlook::{
    EstimateBasis, Explanation, PreemptionOutlook, QueueRank, RunTimeEstimate, Survey,
};

use crate::shown::comment;
use serde_json::{Value, json};

impl JobView<'_> {
    /// The whole explanation.
    pub fn data(&self) -> Value {
        let obstacles = self.obstacles();
        let steps = if self.waits() {
            self.steps(&obstacles)
        } else {
            Vec::new()
        };
        let first = obstacles.first();
        let mut data = json!({
            "state": self.state().letter().to_string(),
            "scheduling": self.server.scheduling,
            "comment": comment::of(&self.found.record, self.server),
            "stages": steps.iter().map(|step| self.stage(step, first)).collect::<Value>(),
            "reason": first.map(obstacle_data),
            "objections": obstacles.iter().map(obstacle_data).collect::<Value>(),
            "promise": self.found.record.promise.as_ref().map(|promise| json!({
                "start": self.wall(promise.at).0,
                "first": self.wall(promise.first).0,
                "nodes": promise.nodes,
            })),
            "slips": self.slips(),
            "exit_status": self.found.record.job.life.exit.as_ref().map(|exit| exit.status),
            "standing": (!self.waits()).then(|| self.state_text()),
        });
        let foreseen = self
            .found
            .explanation
            .as_ref()
            .map_or_else(no_forecast, |known| self.forecast(known));
        if let (Value::Object(all), Value::Object(foreseen)) = (&mut data, foreseen) {
            all.extend(foreseen);
        }
        data
    }

    fn stage(&self, step: &StageStep, first: Option<&WaitObstacle>) -> Value {
        let numbers = first
            .filter(|first| first.stage == step.stage)
            .map(|first| first.numbers.clone());
        json!({
            "stage": step.stage.name(),
            "verdict": step.verdict.name(),
            "code": step.code,
            "text": step.text,
            "numbers": numbers.unwrap_or_default(),
        })
    }

    /// The keys that the scheduler's explanation provides, such as the predicted start.
    fn forecast(&self, explanation: &Explanation) -> Value {
        let horizon = explanation.horizon;
        let occupants = explanation.occupants.iter().map(|occupant| {
            let (job, end) = (self.id(occupant.job), self.wall(occupant.end).0);
            json!({"job": job, "end": end, "nodes": occupant.nodes})
        });
        let overtakers = explanation.overtakers.iter().map(|passed| {
            let (start, end) = (self.wall(passed.started).0, self.wall(passed.end).0);
            json!({"job": self.id(passed.job), "start": start, "end": end})
        });
        let limits = explanation.barriers.iter().map(|barrier| {
            json!({
                "limit": barrier.limit,
                "value": barrier.value,
                "used": barrier.used,
                "by": barrier.by.iter().map(|job| self.id(*job)).collect::<Value>(),
                "more": barrier.more,
            })
        });
        json!({
            "estimated": start(self.server, &explanation.prospect, explanation.range),
            "run_time": explanation.run_time.as_ref().map(run_time),
            "horizon": {"until": self.wall(horizon.until).0, "cycles": horizon.cycles, "whole": horizon.is_whole},
            "rank": explanation.rank.as_ref().map(rank),
            "ahead": explanation.ahead,
            "waits_for": occupants.collect::<Value>(),
            "waits_for_more": explanation.more,
            "passed_by": overtakers.collect::<Value>(),
            "room_made_by": match &explanation.way {
                Some(PreemptionOutlook::Made(jobs)) => {
                    jobs.iter().map(|job| self.id(*job)).collect::<Value>()
                }
                _ => json!([]),
            },
            "fair_share": explanation.fair_share.as_ref().map(|report| fair_share::data(report, self.server)),
            "limits": limits.collect::<Value>(),
            "nodes": explanation.survey.as_ref().map(nodes),
            "closed_nodes": self.closed_nodes_data(),
            "walltime_to_start_now": explanation.shorter.map(|walltime| walltime.as_seconds()),
        })
    }

    fn slips(&self) -> Value {
        let mut slips = Vec::new();
        for (at, event) in &self.found.events {
            if let Event::Slipped { from, to, cause } = event {
                slips.push(json!({
                    "time": self.wall(*at).0,
                    "from": self.wall(*from).0,
                    "to": self.wall(*to).0,
                    "cause": cause.describe(|job| self.id(job)),
                }));
            }
        }
        slips.into()
    }
}

/// The keys of [`JobView::forecast`] for a job without an explanation.
fn no_forecast() -> Value {
    json!({
        "estimated": null,
        "run_time": null,
        "horizon": null,
        "rank": null,
        "ahead": null,
        "waits_for": [],
        "waits_for_more": 0,
        "passed_by": [],
        "room_made_by": [],
        "fair_share": null,
        "limits": [],
        "nodes": null,
        "closed_nodes": [],
        "walltime_to_start_now": null,
    })
}

fn rank(rank: &QueueRank) -> Value {
    json!({"before": rank.before, "waiting": rank.waiting, "cluster": rank.cluster})
}

fn obstacle_data(obstacle: &WaitObstacle) -> Value {
    json!({
        "stage": obstacle.stage.name(),
        "code": obstacle.code,
        "text": obstacle.text,
        "help": obstacle.help,
        "numbers": obstacle.numbers,
    })
}

fn nodes(survey: &Survey) -> Value {
    let rejected = survey.rejections.iter().map(|rejection| {
        let (least, most) = rejection.found.clone().unzip();
        json!({
            "code": rejection.code,
            "text": rejected(rejection),
            "resource": rejection.resource,
            "requested": rejection.requested,
            "least": least,
            "most": most,
            "never": rejection.never,
            "nodes": rejection.nodes,
            "named": rejection.named,
        })
    });
    json!({
        "chunk": survey.chunk,
        "fitting": survey.fitting,
        "named": survey.named,
        "rejected": rejected.collect::<Value>(),
    })
}

/// The predicted run time in seconds, and the number of past jobs from which it is predicted.
fn run_time(estimate: &RunTimeEstimate) -> Value {
    let (like, jobs) = match estimate.basis {
        EstimateBasis::Name(jobs) => ("name", jobs),
        EstimateBasis::Program(jobs) => ("script", jobs),
        EstimateBasis::Size(jobs) => ("processors", jobs),
        EstimateBasis::Walltimes(jobs) => ("walltimes", jobs),
    };
    json!({
        "like": like,
        "jobs": jobs,
        "median": estimate.median.rounded_up().as_seconds(),
        "p90": estimate.long.rounded_up().as_seconds(),
        "longest": estimate.longest.rounded_up().as_seconds(),
    })
}
