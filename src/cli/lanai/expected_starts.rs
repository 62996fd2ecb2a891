//! The next expected starts of the caller's waiting jobs, for the overview.

use super::document;
use super::session::FoundJobs;
use crate::cli::report::{self, estimate};
use crate::model::job_id::JobId;
use crate::model::report::outlook::{JobForecast, Prospect};
use crate::model::time::{Time, Wall};
use crate::shown::timestamp;
use crate::sys::clock;
use crate::wire::message::ServerFacts;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The maximum number of expected starts.
const MOST: usize = 3;

/// The maximum number of waiting jobs in the request to schedd.
const MAX_REQUESTED: usize = 500;

/// The forecast for a waiting job.
pub struct ExpectedStart {
    name: String,
    forecast: JobForecast,
    now: Wall,
}

/// The forecasts for the caller's waiting jobs: the earliest start first, jobs without a start last.
/// An array has one start. Empty if schedd does not answer, because the overview needs only the
/// spool.
pub fn find(found: &FoundJobs) -> Vec<ExpectedStart> {
    let waiting: Vec<(JobId, String)> = found
        .views()
        .filter(|job| job.status().is_pending())
        .map(|job| (job.record.job.id, job.record.job.spec.name.clone()))
        .take(MAX_REQUESTED)
        .collect();
    let ids: Vec<JobId> = waiting.iter().map(|(id, _)| *id).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let mut forecasts = report::forecasts(&ids).unwrap_or_default();
    forecasts.sort_by_key(|forecast| start_of(forecast).unwrap_or(Time::NEVER));
    let mut names: BTreeMap<JobId, String> = waiting.into_iter().collect();
    let now = clock::wall();
    let first_of_job = |forecast: JobForecast| {
        let parent = forecast.job.parent().unwrap_or(forecast.job);
        let name = names
            .remove(&forecast.job)
            .or_else(|| names.remove(&parent))?;
        Some(ExpectedStart {
            name,
            forecast,
            now,
        })
    };
    forecasts
        .into_iter()
        .filter_map(first_of_job)
        .take(MOST)
        .collect()
}

fn start_of(forecast: &JobForecast) -> Option<Time> {
    match forecast.prospect {
        Prospect::Starts { at, .. } => Some(at),
        _ => None,
    }
}

impl ExpectedStart {
    /// One line: the job, its name and its expected start.
    pub fn text(&self, server: &ServerFacts) -> String {
        let start = match &self.forecast.prospect {
            Prospect::Starts { at, .. } => {
                let at = timestamp::day_and_time(server.clock.wall(*at), self.now);
                let range = self.forecast.range;
                let range = range.map_or(String::new(), |range| {
                    format!(" {}", estimate::range(range, server, self.now))
                });
                format!("{at}{range}")
            }
            Prospect::Waits(_) => "not before something changes".to_string(),
            Prospect::Beyond => "not within the forecast".to_string(),
            Prospect::Unknown(job) => estimate::unknown(&job.to_string()),
        };
        format!(
            "{:<8} {:<15} {start}",
            self.forecast.job.to_string(),
            self.name
        )
    }

    /// The JSON object; None without an expected start.
    pub fn data(&self, server: &ServerFacts) -> Option<Value> {
        let start = start_of(&self.forecast)?;
        let time = |time: Time| document::time(server.clock.wall(time));
        let range = self.forecast.range;
        Some(json!({
            "job": self.forecast.job.full(&server.name),
            "expected_start": time(start),
            "earliest_start": range.map(|range| time(range.earliest)),
            "latest_start": range.map(|range| time(range.latest)),
        }))
    }
}
