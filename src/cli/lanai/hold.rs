//! `lanai hold` and `lanai release`: set and release the user hold.

use super::action::{self, Action, ActionOptions, Selection};
use super::job_view::JobView;
use super::session::{OutputOptions, Session};
use crate::cli::client::exit::Failure;
use crate::model::job::state::Holds;
use crate::wire::batch::Act;
use clap::Args;

/// Options of `lanai hold` and `lanai release`.
#[derive(Args, Clone, Debug, Default)]
pub struct HoldArgs {
    /// All your jobs
    #[arg(long)]
    pub mine: bool,
    /// Jobs in this state: queued, held, waiting, running, suspended, pending or active
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Options of all subcommands that change jobs.
    #[command(flatten)]
    pub options: ActionOptions,
}

impl HoldArgs {
    /// Runs `lanai hold`. A running job is held only if its id is given, because it continues.
    pub fn hold(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let (mut session, selection) = self.select("hold")?;
        let takes_running = selection.has_ids() || self.state.is_some();
        let action = Action {
            name: "hold",
            past: "Held",
            hint: "To revert: lanai undo",
            choose: &|job| hold(job, takes_running),
        };
        action.run(selection, &self.options, &mut session, output)
    }

    /// Runs `lanai release`.
    pub fn release(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let (mut session, selection) = self.select("release")?;
        let action = Action {
            name: "release",
            past: "Released",
            hint: "To revert: lanai undo",
            choose: &release,
        };
        action.run(selection, &self.options, &mut session, output)
    }

    fn select(&self, name: &str) -> Result<(Session, Selection), Failure> {
        let session = Session::open()?;
        let mut selection = Selection::new(&self.options, &session)?;
        if let Some(state) = &self.state {
            selection.require("state", state, &session)?;
        }
        if self.mine {
            selection.require("user", "me", &session)?;
        }
        if selection.is_empty() {
            let examples = ["12", "--mine", "--name 'sim*'"];
            return Err(action::nothing_selected(name, &examples));
        }
        if !selection.has_ids() {
            selection.require("state", "unfinished", &session)?;
        }
        Ok((session, selection))
    }
}

fn hold(job: &JobView, takes_running: bool) -> Result<Act, String> {
    let job_record = &job.record.job;
    if job.status().is_finished() {
        return Err("the job has finished".into());
    }
    if job_record.life.holds.contains(Holds::USER) {
        return Err("the job has a user hold already".into());
    }
    if !takes_running && !job.status().is_pending() && job.counts().is_none() {
        return Err("the job runs".into());
    }
    Ok(Act::Hold(Holds::USER))
}

fn release(job: &JobView) -> Result<Act, String> {
    let life = &job.record.job.life;
    if job.status().is_finished() {
        Err("the job has finished".into())
    } else if life.holds.contains(Holds::USER) {
        Ok(Act::Release(Holds::USER))
    } else if life.shown_holds().is_none() {
        Err("the job is not held".into())
    } else {
        Err(format!(
            "the job has no user hold; its holds are {}",
            life.shown_holds()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, finished, queued, running, share};
    use crate::wire::message::JobRecord;

    fn view<'a>(
        record: &'a JobRecord,
        server: &'a crate::wire::message::ServerFacts,
    ) -> JobView<'a> {
        JobView {
            record,
            server,
            now: example::NOW,
        }
    }

    #[test]
    fn only_suitable_jobs_are_held_and_released() {
        let server = example::server();
        let waits = queued(1, "a", "");
        let mut held = waits.clone();
        held.job.life.holds = Holds::USER;
        held.job.life.state = crate::model::job::state::JobState::Held;
        let runs = running(waits.clone(), vec![share(1, None)]);
        let ended = finished(runs.clone(), 0, false);
        assert_eq!(
            hold(&view(&waits, &server), false),
            Ok(Act::Hold(Holds::USER))
        );
        assert_eq!(
            hold(&view(&runs, &server), true),
            Ok(Act::Hold(Holds::USER))
        );
        assert!(hold(&view(&runs, &server), false).is_err());
        assert!(hold(&view(&held, &server), true).is_err());
        assert!(hold(&view(&ended, &server), true).is_err());
        let released = Ok(Act::Release(Holds::USER));
        assert_eq!(release(&view(&held, &server)), released);
        for record in [&waits, &runs, &ended] {
            assert!(release(&view(record, &server)).is_err());
        }
        held.job.life.holds = Holds::SYSTEM;
        assert!(
            release(&view(&held, &server))
                .unwrap_err()
                .ends_with("are s")
        );
    }
}
