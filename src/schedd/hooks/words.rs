//! The starts that hooks have let: remembered until they are made, for a while.

use crate::model::job::{JobId, Spec};
use crate::model::time::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long what hooks have said of a start counts: the world they said it in becomes another.
const COUNTS: Span = Span::seconds(60);

/// The jobs that may start, as they were when hooks were asked, and until when.
#[derive(Debug, Default)]
pub struct Words(BTreeMap<JobId, (Arc<Spec>, Span)>);

impl Words {
    /// A job may start as it is.
    pub fn note(&mut self, job: JobId, spec: Arc<Spec>, now: Span) {
        self.0.retain(|_, (_, until)| *until > now);
        self.0.insert(job, (spec, now + COUNTS));
    }

    /// Whether a job may start as it is. The word is used up.
    pub fn take(&mut self, job: JobId, spec: &Arc<Spec>, now: Span) -> bool {
        self.0.remove(&job).is_some_and(|(known, until)| until > now && (Arc::ptr_eq(&known, spec) || known == *spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::cluster;

    #[test]
    fn a_word_is_of_the_job_as_it_was_and_counts_once_and_for_a_while() {
        let (scene, id, now) = (cluster(""), JobId::job(1), Span::seconds(5));
        let spec = |text: &str| scene.job(1, text).spec.clone();
        let mut words = Words::default();
        let mut said = |asked: &str, started: &str, later: Span| {
            words.note(id, spec(asked), now);
            (words.take(id, &spec(started), now + later), words.take(id, &spec(started), now + later))
        };
        assert_eq!(said("walltime=60", "walltime=60", Span(1)), (true, false));
        assert_eq!(said("walltime=60", "walltime=90", Span(1)), (false, false));
        assert_eq!(said("walltime=60", "walltime=60", COUNTS), (false, false));
    }
}
