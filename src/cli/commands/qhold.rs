//! `qhold`: places holds on jobs.

use super::job_command::JobCommand;
use crate::cli::arguments::job_options;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Hold jobs, so that they do not start. A running job continues, unless the site can checkpoint
/// the job (key checkpoint of [launch] in lanai.toml): then the job is checkpointed, ended and
/// held. Running subjobs always continue.
#[derive(Parser, Clone, Debug)]
#[command(name = "qhold")]
pub struct QholdArgs {
    /// Holds: u (user, default), o (operator), s (system), p (password), n (none)
    #[arg(short = 'h', value_name = "hold_list")]
    pub holds: Option<OsString>,
    /// Job ids: 12 or 12.server; 12[] for an array
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QholdArgs {
    const NAME: &'static str = "qhold";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        let holds = job_options::holds(self.holds.as_deref())?;
        Ok(vec![Act::Hold(holds)])
    }
}
