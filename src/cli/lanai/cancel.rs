//! `lanai cancel`: deletes unfinished jobs.

use super::action::{self, Action, ActionOptions, Selection};
use super::session::{OutputOptions, Session};
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use clap::Args;

/// Options of `lanai cancel`.
#[derive(Args, Clone, Debug, Default)]
pub struct CancelArgs {
    /// All your unfinished jobs
    #[arg(long)]
    pub mine: bool,
    /// Jobs in this state: queued, held, waiting, running, suspended, pending or active
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Options of all subcommands that change jobs.
    #[command(flatten)]
    pub options: ActionOptions,
}

impl CancelArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let mut selection = Selection::new(&self.options, &session)?;
        if let Some(state) = &self.state {
            selection.require("state", state, &session)?;
        }
        if self.mine {
            selection.require("user", "me", &session)?;
        }
        if selection.is_empty() {
            let examples = ["12", "--mine", "--name 'sim*' --state queued"];
            return Err(action::nothing_selected("cancel", &examples));
        }
        if !selection.has_ids() {
            selection.require("state", "unfinished", &session)?;
        }
        let action = Action {
            name: "cancel",
            past: "Canceled",
            hint: "To revert: lanai undo",
            choose: &|job| {
                if job.status().is_finished() {
                    return Err("the job has finished".into());
                }
                Ok(Act::Delete {
                    force: false,
                    purge: false,
                })
            },
        };
        action.run(selection, &self.options, &mut session, output)
    }
}
