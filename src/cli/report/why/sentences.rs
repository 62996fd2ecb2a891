//! Sentences of `qstat --why` for reasons and for nodes that do not fit.

use super::JobView;
use crate::model::job_id::JobId;
use crate::model::reason::{Reason, SentenceContext};
use crate::model::report::outlook::Rejection;

impl JobView<'_> {
    /// A reason as a sentence.
    pub fn reason_sentence(&self, reason: &Reason) -> String {
        reason.sentence(&SentenceContext {
            queue: &self.found.record.job.spec.queue,
            never_since: self.found.record.never_since,
            refused_start: self.refused_start(),
            jobs: &|jobs, more| self.job_list(jobs, more),
            moment: &|at| self.moment(at),
        })
    }

    /// The ids of `jobs`, and the number of further jobs.
    pub fn job_list(&self, jobs: &[JobId], more: u64) -> String {
        let ids: Vec<String> = jobs.iter().map(|job| self.id(*job)).collect();
        let more = (more > 0).then(|| format!("{more} more"));
        ids.into_iter().chain(more).collect::<Vec<_>>().join(", ")
    }
}

/// The reason why nodes do not fit a chunk, such as `ncpus: 8 requested, 2 to 4 free`; for a reason
/// without amounts, its text for the first node.
pub fn rejected(rejection: &Rejection) -> String {
    let (Some(resource), Some(requested), Some((least, most))) =
        (&rejection.resource, &rejection.requested, &rejection.found)
    else {
        return rejection.said.clone().unwrap_or_default();
    };
    let range = if least == most {
        least.clone()
    } else {
        format!("{least} to {most}")
    };
    let kind = if rejection.never { "in total" } else { "free" };
    let outside = match rejection.code.as_str() {
        "used_outside" => ", some in use by processes that belong to no job",
        "in_use" => ", some in use beyond what is allocated to jobs",
        _ => "",
    };
    format!("{resource}: {requested} requested, {range} {kind}{outside}")
}
