//! `qsig`: sends a signal to running jobs.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Send a signal to all processes of running jobs.
#[derive(Parser, Clone, Debug)]
#[command(name = "qsig")]
pub struct QsigArgs {
    /// Signal: a name, with or without SIG, or a number (default SIGTERM); or suspend, resume,
    /// admin-suspend, admin-resume
    #[arg(short = 's', value_name = "signal")]
    pub signal: Option<OsString>,
    /// Job ids: 12 or 12.server; 12[], 12[3] or 12[1-9:2] for arrays and subjobs
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QsigArgs {
    const NAME: &'static str = "qsig";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        let signal = self.signal.as_deref().unwrap_or("SIGTERM".as_ref());
        Ok(vec![Act::Signal(signal.to_string_lossy().into_owned())])
    }
}
