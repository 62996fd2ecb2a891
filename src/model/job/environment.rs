//! The environment in which a job starts (`-W environment=`).

use super::Spec;
use serde::{Deserialize, Serialize};

named! {
    /// Source of the variables of a job, besides those of `-v` and those that the server and the
    /// node set.
    JobEnvironment {
        /// The owner's login: by default, a login shell reads the profile before a script runs.
        Login = "login",
        /// The environment of `qsub`. By default, no login shell runs.
        Submission = "submission",
    }
}

impl JobEnvironment {
    /// Name of the job attribute. A job without the attribute has the login environment.
    pub const ATTRIBUTE: &'static str = "environment";

    /// Returns the environment of a job.
    pub fn of(spec: &Spec) -> JobEnvironment {
        let text = spec.other.get(JobEnvironment::ATTRIBUTE);
        text.and_then(|text| JobEnvironment::named(text))
            .unwrap_or(JobEnvironment::Login)
    }
}
