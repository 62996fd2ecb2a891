//! `qmsg`: writes a line into the files of running jobs.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::model::text::Text;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Write a message into the error file of running jobs, or into their output file.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmsg")]
pub struct QmsgArgs {
    /// Into the standard error of the job; so it is if neither -E nor -O is given
    #[arg(short = 'E')]
    pub errors: bool,
    /// Into the standard output of the job
    #[arg(short = 'O')]
    pub output: bool,
    /// What to say: one word, so quote it; at most 1024 bytes
    #[arg(value_name = "message", required = true)]
    pub message: OsString,
    /// Jobs, by id: 12, 12.server
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
