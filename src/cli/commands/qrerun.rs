//! `qrerun`: stops running jobs and requeues them.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Stop running jobs and requeue them; they start again from the beginning (operators only).
///
/// With --failed, rerun the failed subjobs of job arrays, even of finished arrays. Subjobs that
/// succeeded or were deleted do not run again. Owners may use --failed.
///
/// Commands of Qube have these equivalents. Interrupt or migrate an instance: qrerun of a subjob,
/// which then starts on any node with free resources. Kill: qdel. Retry a failed or killed job:
/// qalter --retry. Retry a frame: qalter --retry of a subjob. Block and unblock: qhold and qrls.
#[derive(Parser, Clone, Debug)]
#[command(name = "qrerun")]
pub struct QrerunArgs {
    /// force: accepted for compatibility with PBS; has no effect: the job is requeued when its node
    /// reports the end of the attempt
    #[arg(short = 'W', value_name = "force")]
    pub how: Option<OsString>,
    /// Rerun the failed subjobs of these arrays; running subjobs continue
    #[arg(long, conflicts_with = "how")]
    pub failed: bool,
    /// Job ids: 12 or 12.server; 12[], 12[3] or 12[1-9:2] for arrays and subjobs
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QrerunArgs {
    const NAME: &'static str = "qrerun";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        if self.how.as_ref().is_some_and(|how| how != "force") {
            return Err(Failure::usage(""));
        }
        let force = self.how.is_some();
        let act = if self.failed {
            Act::RerunFailed
        } else {
            Act::Rerun { force }
        };
        Ok(vec![act])
    }
}
