//! `qmsg`: writes a line to the output files of running jobs.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::model::text::Text;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Write a message to the standard error or output of running jobs.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmsg")]
pub struct QmsgArgs {
    /// Write to the standard error of the job (the default)
    #[arg(short = 'E')]
    pub errors: bool,
    /// Write to the standard output of the job
    #[arg(short = 'O')]
    pub output: bool,
    /// The message, as one argument of at most 1024 bytes
    #[arg(value_name = "message", required = true)]
    pub message: OsString,
    /// Job ids: 12 or 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QmsgArgs {
    const NAME: &'static str = "qmsg";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        Ok(vec![Act::Message {
            output: self.output,
            errors: self.errors || !self.output,
            text: Text(self.message.as_bytes().to_vec()),
        }])
    }
}
