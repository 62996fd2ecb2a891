//! The filter language of `lanai`: `state=failed user=me name=sim* since=1d tag.run=7`.
//!
//! A filter consists of job ids and of terms `KEY=VALUE` or `KEY!=VALUE`. A job matches if its id is
//! among the ids, if there are ids, and if it satisfies every term. A value is a list separated by
//! commas; `=` requires that one element matches, `!=` that none does.

use super::job_view::JobView;
use super::status::JobStatus;
use crate::cli::arguments::period;
use crate::cli::client::exit::Failure;
use crate::cli::client::operand::Operand;
use crate::model::spelling;
use crate::model::time::Wall;
use chrono::{DateTime, Local};
use std::ffi::OsStr;

/// The word that stands for the caller as the value of `user`.
const ME: &str = "me";

/// The prefix of the key for a tag.
const TAG: &str = "tag.";

/// A filter of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// The jobs to consider; empty for all.
    pub ids: Vec<Operand>,
    terms: Vec<Term>,
}

/// A condition on one property of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    condition: Condition,
    /// True for `!=`.
    is_negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    State(Vec<JobStatus>),
    Exit(Vec<i32>),
    /// The job has not ended before this time.
    Since(Wall),
    /// The job was submitted before this time.
    Until(Wall),
    /// A text property matches one of these patterns.
    Text(TextKey, Vec<String>),
    /// The tag with this key matches one of these patterns.
    Tag(String, Vec<String>),
}

/// A property with a text value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKey {
    User,
    Name,
    Queue,
    Project,
    Account,
    Node,
}

/// The keys, each with its meaning for the help text.
pub const KEYS: [(&str, &str); 11] = [
    (
        "state",
        "queued, held, waiting, running, suspended, done, failed, deleted, or a group: pending, active, unfinished, finished",
    ),
    ("user", "the owner; `me` for yourself"),
    ("name", "the job name"),
    ("queue", "the queue"),
    ("project", "the project (qsub -P)"),
    ("account", "the account (qsub -A)"),
    ("node", "a node on which the job runs or ran"),
    ("exit", "the exit status"),
    (
        "since",
        "jobs that have not ended before this time: 1d, 2h, today, 2026-11-20",
    ),
    ("until", "jobs submitted before this time"),
    ("tag.KEY", "the tag KEY (qsub -W tag=KEY=VALUE)"),
];

/// What a filter needs to know about the caller.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The current time.
    pub now: DateTime<Local>,
    /// The caller's user name.
    pub user: String,
}

impl JobFilter {
    /// Parses the words of a command line.
    pub fn parse<W: AsRef<OsStr>>(
        words: &[W],
        context: &FilterContext,
    ) -> Result<JobFilter, Failure> {
        let mut filter = JobFilter::default();
        for word in words {
            let word = word.as_ref();
            match word.to_str().and_then(|text| text.split_once('=')) {
                Some((key, value)) => filter.terms.push(Term::parse(key, value, context)?),
                None => filter
                    .ids
                    .push(Operand::parse(word).map_err(|_| not_an_id(word))?),
            }
        }
        Ok(filter)
    }

    /// Adds the term `key=value`.
    pub fn require(
        &mut self,
        key: &str,
        value: &str,
        context: &FilterContext,
    ) -> Result<(), Failure> {
        self.terms.push(Term::parse(key, value, context)?);
        Ok(())
    }

    /// Tests whether the filter has neither ids nor terms.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.terms.is_empty()
    }

    /// Tests whether a term restricts the owner.
    pub fn restricts_owner(&self) -> bool {
        self.terms
            .iter()
            .any(|term| matches!(term.condition, Condition::Text(TextKey::User, _)))
    }

    /// Tests whether a term restricts the state, the exit status or the end time, so that finished
    /// jobs may be requested.
    pub fn restricts_state(&self) -> bool {
        self.terms.iter().any(|term| {
            matches!(
                term.condition,
                Condition::State(_) | Condition::Exit(_) | Condition::Since(_)
            )
        })
    }

    /// Tests whether a term restricts the end time.
    pub fn restricts_period(&self) -> bool {
        self.terms
            .iter()
            .any(|term| matches!(term.condition, Condition::Since(_)))
    }

    /// Tests whether unfinished jobs can match.
    pub fn allows_unfinished(&self) -> bool {
        JobStatus::ALL
            .iter()
            .any(|status| !status.is_finished() && self.allows(*status))
    }

    /// Tests whether finished jobs can match.
    pub fn allows_finished(&self) -> bool {
        JobStatus::ALL
            .iter()
            .any(|status| status.is_finished() && self.allows(*status))
    }

    fn allows(&self, status: JobStatus) -> bool {
        self.terms.iter().all(|term| match &term.condition {
            Condition::State(states) => states.contains(&status) != term.is_negated,
            Condition::Exit(_) => status.is_finished() || term.is_negated,
            _ => true,
        })
    }

    /// Tests whether a job satisfies every term. The ids are not tested.
    pub fn matches(&self, job: &JobView) -> bool {
        self.terms
            .iter()
            .all(|term| term.condition.matches(job) != term.is_negated)
    }
}

impl Term {
    /// Parses a term; `key` ends with `!` for `!=`.
    fn parse(key: &str, value: &str, context: &FilterContext) -> Result<Term, Failure> {
        let (key, is_negated) = match key.strip_suffix('!') {
            Some(key) => (key, true),
            None => (key, false),
        };
        Ok(Term {
            condition: Condition::parse(key, value, context)?,
            is_negated,
        })
    }
}

impl Condition {
    fn parse(key: &str, value: &str, context: &FilterContext) -> Result<Condition, Failure> {
        if let Some(tag) = key.strip_prefix(TAG) {
            return Ok(Condition::Tag(tag.to_string(), list(value)));
        }
        if let Some(text_key) = TextKey::parse(key) {
            let mut patterns = list(value);
            if text_key == TextKey::User {
                patterns
                    .iter_mut()
                    .filter(|pattern| *pattern == ME)
                    .for_each(|pattern| pattern.clone_from(&context.user));
            }
            return Ok(Condition::Text(text_key, patterns));
        }
        match key {
            "state" => {
                let states: Result<Vec<_>, _> = list(value)
                    .iter()
                    .map(|word| JobStatus::parse(word).ok_or_else(|| unknown_state(word)))
                    .collect();
                Ok(Condition::State(states?.concat()))
            }
            "exit" => {
                let numbers: Result<Vec<i32>, _> = list(value)
                    .iter()
                    .map(|word| word.parse().map_err(|_| not_a_status(word)))
                    .collect();
                Ok(Condition::Exit(numbers?))
            }
            "since" => moment(key, value, context).map(Condition::Since),
            "until" => moment(key, value, context).map(Condition::Until),
            _ => Err(unknown_key(key)),
        }
    }

    fn matches(&self, job: &JobView) -> bool {
        match self {
            Condition::State(states) => states.contains(&job.status()),
            Condition::Exit(statuses) => job
                .exit_status()
                .is_some_and(|status| statuses.contains(&status)),
            Condition::Since(at) => job.ended().is_none_or(|end| end >= *at),
            Condition::Until(at) => job.submitted() < *at,
            Condition::Text(key, patterns) => key.matches(job, patterns),
            Condition::Tag(key, patterns) => job
                .tags()
                .get(key.as_str())
                .is_some_and(|value| matches_any(patterns, value)),
        }
    }
}

impl TextKey {
    fn parse(key: &str) -> Option<TextKey> {
        Some(match key {
            "user" => TextKey::User,
            "name" => TextKey::Name,
            "queue" => TextKey::Queue,
            "project" => TextKey::Project,
            "account" => TextKey::Account,
            "node" => TextKey::Node,
            _ => return None,
        })
    }

    fn matches(self, job: &JobView, patterns: &[String]) -> bool {
        let spec = &job.record.job.spec;
        match self {
            TextKey::User => matches_any(patterns, &job.record.job.owner.user),
            TextKey::Name => matches_any(patterns, &spec.name),
            TextKey::Queue => matches_any(patterns, &spec.queue),
            TextKey::Project => matches_any(patterns, &spec.project),
            TextKey::Account => matches_any(patterns, spec.account.as_deref().unwrap_or_default()),
            TextKey::Node => job.nodes().iter().any(|node| matches_any(patterns, node)),
        }
    }
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(String::from).collect()
}

fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches_glob(pattern, text))
}

/// Tests whether `text` matches a pattern in which `*` stands for any text and `?` for any
/// character. Runs in time proportional to the product of both lengths.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at_pattern, mut at_text) = (0, 0);
    // The position after the last `*`, and the position in `text` up to which that `*` extends.
    let mut star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some('*') => {
                at_pattern += 1;
                star = Some((at_pattern, at_text));
            }
            Some(&wanted) if wanted == '?' || wanted == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => match star {
                Some((after, extent)) => {
                    star = Some((after, extent + 1));
                    at_pattern = after;
                    at_text = extent + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|&rest| rest == '*')
}

/// The start of the period `value`.
fn moment(key: &str, value: &str, context: &FilterContext) -> Result<Wall, Failure> {
    let range = period::parse(value, &context.now);
    range
        .map(|(start, _)| start)
        .ok_or_else(|| Failure::new(2, format!("{key}={value}: expected {}", period::FORMS)))
}

fn unknown_key(key: &str) -> Failure {
    let keys: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    let hint = match spelling::close(key, &keys) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Failure::new(
        2,
        format!(
            "unknown filter key '{key}'{hint}\nThe keys are {}.",
            keys.join(", ")
        ),
    )
}

fn unknown_state(word: &str) -> Failure {
    let words = JobStatus::words();
    let hint = match spelling::close(word, &words) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Failure::new(
        2,
        format!(
            "unknown state '{word}'{hint}\nThe states are {}.",
            words.join(", ")
        ),
    )
}

fn not_a_status(word: &str) -> Failure {
    Failure::new(
        2,
        format!("exit={word}: an exit status is a whole number, such as exit=1"),
    )
}

fn not_an_id(word: &OsStr) -> Failure {
    let word = word.to_string_lossy();
    Failure::new(
        2,
        format!(
            "'{word}' is neither a job id, such as 12 or 12[3], nor a filter, such as \
             state=failed; for jobs of this name, type name={word}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, finished, queued, running, share, with};
    use crate::wire::message::JobRecord;

    fn context() -> FilterContext {
        FilterContext {
            now: DateTime::from_timestamp(example::NOW.0, 0).unwrap().into(),
            user: "alice".into(),
        }
    }

    fn parse(words: &[&str]) -> Result<JobFilter, Failure> {
        JobFilter::parse(words, &context())
    }

    fn matches(record: &JobRecord, words: &[&str]) -> bool {
        let server = example::server();
        parse(words).unwrap().matches(&JobView {
            record,
            server: &server,
            now: example::NOW,
        })
    }

    #[test]
    fn every_term_must_match() {
        let job = with(queued(1, "sim-17", ""), |spec| {
            spec.other.insert("tag".into(), "run=7".into());
        });
        for words in [
            vec![],
            vec!["state=queued"],
            vec!["state=pending", "user=me", "name=sim*"],
            vec!["state!=failed,done", "queue=workq", "tag.run=7"],
            vec!["user=bob,alice", "exit!=0", "since=1d"],
        ] {
            assert!(matches(&job, &words), "{words:?}");
        }
        for words in [
            vec!["state=failed"],
            vec!["state=queued", "name=*18"],
            vec!["user!=me"],
            vec!["tag.run=8"],
            vec!["tag.no=*"],
            vec!["exit=0"],
            vec!["node=head"],
        ] {
            assert!(!matches(&job, &words), "{words:?}");
        }
    }

    #[test]
    fn finished_jobs_match_by_exit_status_node_and_end() {
        let job = finished(running(queued(1, "a", ""), vec![share(1, None)]), 3, false);
        assert!(matches(&job, &["state=failed", "exit=1,3", "node=h*"]));
        assert!(!matches(&job, &["state=done"]));
    }

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("a*c", "abc"),
            ("a*c", "abcbc"),
            ("*b*", "abc"),
            ("?b?", "abc"),
            ("**", "x"),
        ] {
            assert!(matches_glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("b*", "ab"), ("?", ""), ("a*b", "abc")] {
            assert!(!matches_glob(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn wrong_words_are_named_with_a_remedy() {
        let text = |word| parse(&[word]).unwrap_err().text;
        assert!(text("stat=failed").contains("did you mean state?"));
        assert!(text("state=faild").contains("did you mean failed?"));
        assert!(text("exit=x").contains("exit=x"));
        assert!(text("since=1z").starts_with("since=1z: expected"));
        assert!(text("sim").contains("name=sim"));
    }

    #[test]
    fn the_states_of_a_filter_decide_which_jobs_are_read() {
        let filter = parse(&["state=failed"]).unwrap();
        assert!(filter.allows_finished() && !filter.allows_unfinished());
        let filter = parse(&["state!=finished"]).unwrap();
        assert!(!filter.allows_finished() && filter.allows_unfinished());
        let filter = parse(&["exit=1"]).unwrap();
        assert!(!filter.allows_unfinished());
    }
}
