//! The filter that the user types: plain words match the id, name or user of a job, words with `=`
//! are terms of the filter language.

use crate::cli::lanai::filter::{FilterContext, JobFilter};
use crate::cli::lanai::job_view::JobView;

/// A filter, with the text from which it was made.
#[derive(Clone, Debug, Default)]
pub struct LiveFilter {
    text: String,
    /// The plain words in lower case.
    words: Vec<String>,
    terms: JobFilter,
    error: Option<String>,
}

impl LiveFilter {
    /// The filter that `text` describes. If a term is wrong or incomplete, the filter consists of
    /// the plain words and the terms of `before`.
    pub fn parse(text: &str, before: &LiveFilter, context: &FilterContext) -> LiveFilter {
        let (terms, words): (Vec<&str>, Vec<&str>) =
            text.split_whitespace().partition(|word| word.contains('='));
        let words = words.iter().map(|word| word.to_lowercase()).collect();
        let (terms, error) = match JobFilter::parse(&terms, context) {
            Ok(terms) => (terms, None),
            Err(failure) => {
                let line = failure.text.lines().next().unwrap_or_default();
                (before.terms.clone(), Some(line.to_string()))
            }
        };
        LiveFilter {
            text: text.to_string(),
            words,
            terms,
            error,
        }
    }

    /// The text of the filter; empty if all jobs match.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why a term of the text is not applied.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Tests whether a job matches every word and every term.
    pub fn matches(&self, job: &JobView) -> bool {
        let spec = &job.record.job.spec;
        let has_word = |word: &String| {
            job.id().contains(word)
                || spec.name.to_lowercase().contains(word)
                || job.record.job.owner.user.to_lowercase().contains(word)
        };
        self.words.iter().all(has_word) && self.terms.matches(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, queued};
    use chrono::DateTime;

    fn parse(text: &str, before: &LiveFilter) -> LiveFilter {
        let context = FilterContext {
            now: DateTime::from_timestamp(example::NOW.0, 0).unwrap().into(),
            user: "alice".into(),
        };
        LiveFilter::parse(text, before, &context)
    }

    #[test]
    fn words_and_terms_must_match() {
        let (record, server) = (queued(17, "Simulation", ""), example::server());
        let job = JobView {
            record: &record,
            server: &server,
            now: example::NOW,
        };
        let none = LiveFilter::default();
        for text in ["", "17", "simul", "ALI", "sim alice", "sim state=queued"] {
            assert!(parse(text, &none).matches(&job), "{text}");
        }
        for text in ["18", "sim bob", "sim state=running"] {
            assert!(!parse(text, &none).matches(&job), "{text}");
        }
    }

    #[test]
    fn an_incomplete_term_keeps_the_terms_before_it() {
        let (record, server) = (queued(17, "a", ""), example::server());
        let job = JobView {
            record: &record,
            server: &server,
            now: example::NOW,
        };
        let before = parse("state=running", &LiveFilter::default());
        let after = parse("state=run", &before);
        assert!(after.error().unwrap().contains("unknown state 'run'"));
        assert!(!after.matches(&job));
        assert_eq!(after.text(), "state=run");
    }
}
