//! Dependencies on job names, like Grid Engine's `-hold_jid`. A job depends on all of its owner's
//! unfinished jobs that have the name when the dependency is requested.

use crate::model::attribute::Draft;
use crate::model::job::Owner;
use crate::model::job::dependency::DependencyCondition;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::dependency::Edge;
use crate::model::job::dependency::ParsedDependency;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::request_context::RequestContext;

/// Maximum number of jobs on which a job depends by one name. Further jobs of this name are
/// ignored.
const MAX_JOBS: usize = 10_000;

impl RequestContext<'_> {
    /// Makes the draft of a job depend on its owner's unfinished jobs with names that match the
    /// patterns in the draft. A pattern without a match adds a warning.
    pub(crate) fn add_named_dependencies(&self, owner: &Owner, draft: &mut Draft) {
        for name in std::mem::take(&mut draft.names) {
            let jobs = self.jobs_named(owner, &name);
            if jobs.is_empty() {
                draft.notes.push(format!(
                    "warning: {} has no unfinished job named {name}: the dependency is ignored",
                    owner.user
                ));
            }
            let edges = jobs
                .into_iter()
                .map(|job| Edge {
                    kind: DependencyKind::After(DependencyCondition::Ended),
                    job,
                })
                .collect();
            draft.depend = std::mem::take(&mut draft.depend).with(ParsedDependency {
                edges,
                ..ParsedDependency::default()
            });
        }
    }

    /// The owner's unfinished jobs and arrays with names that match a pattern, at most
    /// [`MAX_JOBS`].
    fn jobs_named(&self, owner: &Owner, name: &str) -> Vec<JobId> {
        let jobs = self
            .server
            .jobs()
            .filter(|job| owner.is_same_account(&job.owner) && job.id.index().is_none());
        let waiting = jobs
            .filter(|job| job.life.state != JobState::Finished && matches(name, &job.spec.name));
        waiting.map(|job| job.id).take(MAX_JOBS).collect()
    }
}

/// Whether a name matches a pattern: `*` matches any text, `?` matches any single character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, read));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[read] => (at, read) = (at + 1, read + 1),
            _ => match star {
                // Let the last star match one more character.
                Some((behind, from)) => {
                    star = Some((behind, from + 1));
                    (at, read) = (behind, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_patterns_match_like_file_name_patterns() {
        for (pattern, name, expected) in [
            ("align", "align", true),
            ("align", "align2", false),
            ("align*", "align_7", true),
            ("*", "", true),
            ("a*b*c", "a_bb_bc", true),
            ("a*b*c", "a_bb_bd", false),
            ("j?", "j1", true),
            ("j?", "j", false),
            ("*x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
