//! The computed priorities of waiting jobs for `qstat -f`. The spool does not keep them: schedd
//! answers, if it runs.

use crate::cli::client::operand::Operand;
use crate::cli::report;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::client::Client;
use crate::wire::message::JobRecord;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// The jobs that one question may name; beyond that all are asked for.
const MOST_NAMED: usize = 1000;

/// qstat shows the other attributes of jobs although schedd does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The priorities by job, an array once.
#[derive(Debug, Default)]
pub struct Scores(BTreeMap<JobId, f64>);

impl Scores {
    /// Asks for those of the jobs that the operands name; for all if there are other operands, or
    /// none.
    pub fn ask(operands: &[OsString]) -> Scores {
        let ids = operands
            .iter()
            .map(|word| Operand::parse(word).ok().map(|operand| operand.id()));
        let named = ids
            .collect::<Option<Vec<JobId>>>()
            .filter(|ids| ids.len() <= MOST_NAMED);
        let told = Home::find().ok().and_then(|home| {
            let mut client = Client::reach(&home).ok()?;
            client.be_impatient(PATIENCE);
            report::ask(
                &mut client,
                ForecastQuery::Scores(named.unwrap_or_default()),
            )
            .ok()
        });
        let parts = told.into_iter().flat_map(|(_, told)| told);
        Scores(
            parts
                .flat_map(|part| {
                    if let ForecastAnswer::Scores(scores) = part {
                        scores
                    } else {
                        Vec::new()
                    }
                })
                .collect(),
        )
    }

    /// Adds the scores to the waiting jobs. A subjob has the score of its array.
    pub fn add_to(&self, jobs: &mut [JobRecord]) {
        let waiting = jobs
            .iter_mut()
            .filter(|record| matches!(record.job.life.state, JobState::Queued | JobState::Begun));
        for record in waiting {
            let id = record.job.id;
            let score = self.0.get(&id).or_else(|| self.0.get(&id.parent()?));
            record.score = score.copied();
        }
    }
}
