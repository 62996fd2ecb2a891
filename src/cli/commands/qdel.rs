//! `qdel`: deletes jobs.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::{OsStr, OsString};

/// Delete jobs. A running job receives SIGTERM and, some seconds later, SIGKILL.
#[derive(Parser, Clone, Debug)]
#[command(name = "qdel")]
pub struct QdelArgs {
    /// force: remove the job immediately, without waiting for the node. suppress_email=N is
    /// accepted and has no effect: the number of mails is always limited
    #[arg(short = 'W', value_name = "force|suppress_email=X")]
    pub how: Option<OsString>,
    /// Also remove finished jobs from the history
    #[arg(short = 'x')]
    pub purge: bool,
    /// Job ids: 12 or 12.server; 12[], 12[3] or 12[1-9:2] for arrays and subjobs
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QdelArgs {
    const NAME: &'static str = "qdel";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        let force = self.how.as_deref().map_or(Ok(false), is_force)?;
        let purge = self.purge;
        Ok(vec![Act::Delete { force, purge }])
    }
}

fn is_force(how: &OsStr) -> Result<bool, Failure> {
    match how.to_str() {
        Some("force") => Ok(true),
        Some(how) if how.starts_with("suppress_email=") => Ok(false),
        _ => Err(crate::cli::arguments::job_options::illegal('W')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_pbs_are_accepted() {
        assert_eq!(is_force("force".as_ref()), Ok(true));
        assert_eq!(is_force("suppress_email=x".as_ref()), Ok(false));
        for bad in ["foo", "force=1", ""] {
            assert_eq!(
                is_force(bad.as_ref()),
                Err(Failure::usage("illegal -W value")),
                "{bad}"
            );
        }
    }
}
