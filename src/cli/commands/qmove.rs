//! `qmove`: moves jobs to another queue.

use super::job_command::JobCommand;
use super::qsub::destination;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Move jobs that are not running to another queue.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmove")]
pub struct QmoveArgs {
    /// Destination: queue, queue@server, or @server for the default queue of the server
    #[arg(value_name = "destination", required = true)]
    pub destination: OsString,
    /// Job ids: 12 or 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QmoveArgs {
    const NAME: &'static str = "qmove";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        Ok(vec![Act::Move(destination(&self.destination)?)])
    }
}
