//! `qhold`: places holds on jobs.

use super::job_command::JobCommand;
use crate::cli::arguments::job_options;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Keep jobs from starting. One that runs goes on, unless the site has a program that checkpoints
/// jobs (checkpoint in [launch] of lanai.toml): then it is checkpointed, ended and held.
#[derive(Parser, Clone, Debug)]
#[command(name = "qhold")]
pub struct QholdArgs {
    /// Place holds of these kinds: letters of u (user), o (operator), s (system), p (password), or
    /// n (none); u if not given
    #[arg(short = 'h', value_name = "hold_list")]
    pub holds: Option<OsString>,
    /// Jobs, by id: 12, 12.server; 12[] for an array
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
