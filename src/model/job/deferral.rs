//! Causes for which the start of a waiting job is deferred.

use serde::{Deserialize, Serialize};

/// Cause of a deferred start, displayed in the job's comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// A hook rejected the start.
    HookRefused,
    /// An earlier start failed.
    StartFailed,
    /// Files to stage in are missing.
    FilesMissing,
}

impl Deferral {
    /// Returns the beginning of the comment of a job deferred for this cause.
    pub fn comment(self) -> &'static str {
        match self {
            // PBS's text.
            Deferral::HookRefused => "Not Running: PBS Error: ",
            Deferral::StartFailed => "Not Running: Job start failed, tried again ",
            Deferral::FilesMissing => {
                "Not Running: Files to stage in are missing, looked for again"
            }
        }
    }

    /// Returns the cause that a comment describes; None for other comments. Version 0.1 stored only
    /// the comment of a job, not the cause.
    pub fn of_comment(comment: &str) -> Option<Deferral> {
        let all = [
            Deferral::HookRefused,
            Deferral::StartFailed,
            Deferral::FilesMissing,
        ];
        all.into_iter()
            .find(|deferral| comment.starts_with(deferral.comment()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_version_0_1_contain_the_deferral() {
        let of = Deferral::of_comment;
        assert_eq!(
            of("Not Running: PBS Error: no license"),
            Some(Deferral::HookRefused)
        );
        assert_eq!(
            of("Not Running: Job start failed, tried again shortly: no home"),
            Some(Deferral::StartFailed)
        );
        assert_eq!(
            of("Not Running: Files to stage in are missing, looked for again: data"),
            Some(Deferral::FilesMissing)
        );
        assert_eq!(of("Not Running: Job was preempted"), None);
    }
}
