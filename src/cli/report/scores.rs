//! The computed priorities of waiting jobs for `qstat -f`, as a running schedd reports them. The
//! spool does not contain priorities.

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

/// Maximum number of job ids in a query. With more operands, the query has no ids, which means all
/// jobs.
const MOST_NAMED: usize = 1000;

/// The timeout for schedd, after which qstat shows jobs without priorities.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The priorities by job id. A subjob without an entry has the priority of its array.
#[derive(Debug, Default)]
pub struct Scores(BTreeMap<JobId, f64>);

impl Scores {
    /// Queries the priorities of the jobs that the operands name. Queries all jobs if there are no
    /// operands, more than `MOST_NAMED`, or one that is not a job id. Returns no priorities if
    /// schedd does not answer.
    pub fn ask(operands: &[OsString]) -> Scores {
        let ids = operands
            .iter()
            .map(|word| Operand::parse(word).ok().map(|operand| operand.id()));
        let named = ids
            .collect::<Option<Vec<JobId>>>()
            .filter(|ids| ids.len() <= MOST_NAMED);
        let answers = Home::find().ok().and_then(|home| {
            let mut client = Client::reach(&home).ok()?;
            client.set_timeout(TIMEOUT);
            report::ask(
                &mut client,
                ForecastQuery::Scores(named.unwrap_or_default()),
            )
            .ok()
        });
        let parts = answers.into_iter().flat_map(|(_, answers)| answers);
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

    /// Adds the priorities to the records of queued jobs and of arrays that have begun. A queued
    /// subjob without an entry gets the priority of its array.
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
