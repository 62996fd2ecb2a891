//! `qrerun`: ends running jobs and queues them again.

use super::job_command::JobCommand;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// End running jobs and put them back into their queue, to start from the beginning. For operators.
///
/// With --failed, let the subjobs of job arrays that have failed run once more, also when the array
/// is over; those that ended well or were deleted stay as they are. The owner may do that.
///
/// Who knows Qube: its interrupt and its migrate of an instance are qrerun of a subjob, which
/// starts wherever there is room; its kill is qdel, its retry of what failed or was killed qalter
/// --retry, its retry of a frame qalter --retry of a subjob, its block and unblock are qhold and
/// qrls.
#[derive(Parser, Clone, Debug)]
#[command(name = "qrerun")]
pub struct QrerunArgs {
    /// force: at once, whatever the node says
    #[arg(short = 'W', value_name = "force")]
    pub how: Option<OsString>,
    /// Run the failed subjobs of these arrays once more; nothing that runs is ended
    #[arg(long, conflicts_with = "how")]
    pub failed: bool,
    /// Jobs, by id: 12, 12.server; 12[], 12[3] and 12[1-9:2] for arrays and their subjobs
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
