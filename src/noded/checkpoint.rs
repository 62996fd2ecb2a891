//! Runs the site's checkpoint command without blocking noded's loop. If the command succeeds, the
//! job is killed at once, so that it does not run past the checkpoint; its next attempt can
//! continue from there. If the command fails, the job continues, and schedd is notified.
//!
//! When noded ends, running commands are killed. schedd repeats the order to the next noded.

use super::attempts::Attempts;
use super::control::Cancel;
use super::folder::AttemptName;
use super::poller::Poller;
use crate::model::job::Owner;
use crate::model::job::checkpoint::folder;
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::program::{ProgramCall, ProgramFault, ProgramResult, RunningProgram, Surroundings};
use crate::sys::{clock, filesystem};
use crate::wire::order::{Checkpoint, NodeReport};
use nix::libc::SIGKILL;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum length of a failure message, in characters.
const MAX_MESSAGE: usize = 500;

/// The order that ends a checkpointed job.
const CHECKPOINTED: Cancel = Cancel {
    grace: Span(0),
    signal: Some(SIGKILL),
    again: true,
};

/// The checkpoint commands that run on this host.
#[derive(Debug)]
pub struct CheckpointCommands {
    /// noded's state directory.
    state: PathBuf,
    /// The uid of noded's user.
    uid: u32,
    entries: Vec<RunningCommand>,
    /// Reports to send to schedd.
    reports: Vec<NodeReport>,
}

#[derive(Debug)]
struct RunningCommand {
    name: AttemptName,
    order: Checkpoint,
    folder: PathBuf,
    stage: CommandStage,
    /// The program of the current stage.
    program: RunningProgram,
    /// When the first stage began. The time limit covers both stages together.
    begun: Span,
    /// Why the command was given up. Its process may still exist.
    given_up: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandStage {
    /// A worker process creates the directory, which may be on a hanging file system.
    Folder,
    /// The command runs.
    Command,
}

impl CheckpointCommands {
    /// Creates an empty set of commands. `uid` is the uid of noded's user.
    pub fn new(state: PathBuf, uid: u32) -> CheckpointCommands {
        CheckpointCommands {
            state,
            uid,
            entries: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Creates the checkpoint directory of a job, then runs the command. Does not start a second
    /// command while the first command exists. If the first command was given up, reports its
    /// failure again.
    pub fn begin(&mut self, order: &Checkpoint, poller: &mut Poller) {
        let name = AttemptName {
            job: order.job,
            attempt: order.attempt,
            task: 0,
        };
        match self.entries.iter().find(|entry| entry.name == name) {
            // schedd repeats the order if it has not received the report of the failure.
            Some(RunningCommand {
                given_up: Some(why),
                ..
            }) => return self.reports.push(failed(name, why)),
            Some(_) => return,
            None => {}
        }
        let folder = folder(&self.state, &order.folders, &order.full_id);
        let begun = clock::monotonic();
        match self.make_folder(&folder, order, begun, poller) {
            Ok(program) => self.entries.push(RunningCommand {
                name,
                order: order.clone(),
                folder,
                stage: CommandStage::Folder,
                program,
                begun,
                given_up: None,
            }),
            Err(error) => self.fail(name, &error.to_string()),
        }
    }

    /// Kills the checkpoint command of a job that ends without a checkpoint.
    pub fn give_up(&mut self, name: AttemptName) {
        for entry in self.entries.iter_mut().filter(|entry| entry.name == name) {
            entry.program.stop();
            entry.given_up = Some(entry.timeout_message());
        }
    }

    /// When the next command exceeds its time limit; None if no command has a time limit.
    pub fn due(&self) -> Option<Span> {
        let programs = self.entries.iter().map(|entry| &entry.program);
        programs.filter_map(RunningProgram::next).min()
    }

    /// Handles finished commands and ends the jobs that they have checkpointed. Kills commands
    /// that exceed their time limit.
    pub fn update(&mut self, now: Span, attempts: &mut Attempts, poller: &mut Poller) {
        for mut entry in std::mem::take(&mut self.entries) {
            match entry.program.poll(now) {
                Some(result) => self.conclude(entry, result, attempts, poller),
                None if entry.given_up.is_some() && entry.program.is_gone() => {}
                None => self.entries.push(entry),
            }
        }
    }

    /// Handles the result of a finished stage.
    fn conclude(
        &mut self,
        mut entry: RunningCommand,
        result: ProgramResult,
        attempts: &mut Attempts,
        poller: &mut Poller,
    ) {
        if matches!(result.exit, Err(ProgramFault::Late(_))) {
            tracing::warn!(
                "the checkpoint of attempt {} exceeds its time limit",
                entry.name
            );
            let why = match entry.stage {
                CommandStage::Folder => entry.timeout_message(),
                CommandStage::Command => result.blame(entry.timeout_message()),
            };
            self.reports.push(failed(entry.name, &why));
            entry.given_up = Some(why);
            return self.entries.push(entry);
        }
        let Some(session) = attempts.session(entry.name) else {
            return;
        };
        match (entry.stage, failure(entry.stage, result)) {
            (_, Some(why)) => self.fail(entry.name, &why),
            (CommandStage::Folder, None) => self.start_command(entry, session, poller),
            // Kill the job before it runs past the checkpoint.
            (CommandStage::Command, None) => attempts.cancel(entry.name, CHECKPOINTED),
        }
    }

    fn start_command(&mut self, entry: RunningCommand, session: u32, poller: &mut Poller) {
        match run_command(&entry, session).and_then(|program| poller.watch(program)) {
            Ok(program) => self.entries.push(RunningCommand {
                stage: CommandStage::Command,
                program,
                ..entry
            }),
            Err(error) => self.fail(entry.name, &error.to_string()),
        }
    }

    /// Takes the reports for schedd.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    fn fail(&mut self, name: AttemptName, why: &str) {
        tracing::warn!("cannot checkpoint attempt {name}: {why}");
        self.reports.push(failed(name, why));
    }

    /// Starts a worker that creates a checkpoint directory. The job's owner can read the directory.
    /// noded's user owns it, because the job's owner could otherwise place links in it that the
    /// command follows.
    fn make_folder(
        &self,
        folder: &Path,
        order: &Checkpoint,
        now: Span,
        poller: &mut Poller,
    ) -> io::Result<RunningProgram> {
        let reader = self.reader(&order.owner);
        let worker = RunningProgram::fork(now, order.timeout, || {
            filesystem::make_readable_by(folder, reader)
                .map_err(|error| io::Error::other(format!("{}: {error}", folder.display())))
        })?;
        poller.watch(worker)
    }

    /// The uid of the additional user that may read a job's checkpoint; None if noded runs as the
    /// job's owner.
    fn reader(&self, owner: &Owner) -> Option<u32> {
        (owner.uid != self.uid).then_some(owner.uid)
    }
}

impl RunningCommand {
    /// The timeout message of the current stage.
    fn timeout_message(&self) -> String {
        match self.stage {
            CommandStage::Folder => {
                format!("{} could not be created in time", self.folder.display())
            }
            CommandStage::Command => ProgramFault::Late(self.order.timeout).to_string(),
        }
    }
}

/// Why a stage failed; None if it succeeded.
fn failure(stage: CommandStage, result: ProgramResult) -> Option<String> {
    if stage == CommandStage::Folder {
        return result.work().err();
    }
    let why = match &result.exit {
        Ok(exit) => match exit.status {
            Some(0) => return None,
            Some(status) => format!("the checkpoint command ended with status {status}"),
            None => "the checkpoint command was killed by a signal".to_string(),
        },
        Err(fault) => fault.to_string(),
    };
    Some(result.blame(why))
}

fn failed(name: AttemptName, why: &str) -> NodeReport {
    NodeReport::NotCheckpointed {
        job: name.job,
        attempt: name.attempt,
        why: shortened(why.to_string(), MAX_MESSAGE),
    }
}

/// Starts the command with the arguments job id, session and directory.
fn run_command(entry: &RunningCommand, session: u32) -> io::Result<RunningProgram> {
    let order = &entry.order;
    let program = order.program.display().to_string();
    let folder = entry.folder.display().to_string();
    let words = [
        program.clone(),
        order.full_id.clone(),
        session.to_string(),
        folder.clone(),
    ];
    let environment = [
        ("PBS_JOBID", order.full_id.as_str()),
        ("LANAI_CHECKPOINT", &folder),
        ("LOGNAME", &order.owner.user),
    ];
    let call = ProgramCall {
        surroundings: Surroundings::Own(&environment),
        ..ProgramCall::new(&words, order.timeout)
    };
    call.start(entry.begun)
        .map_err(|e| io::Error::other(format!("{program} cannot be run: {e}")))
}

#[cfg(test)]
mod tests {
    use super::super::site;
    use super::*;
    use crate::model::job_id::JobId;

    fn order(job: u32, timeout: i64) -> Checkpoint {
        Checkpoint {
            job: JobId::job(job.into()),
            attempt: 1,
            full_id: format!("{job}.here"),
            owner: Owner {
                user: "ann".into(),
                uid: 1000,
                gid: 100,
            },
            program: "/bin/cat".into(),
            timeout: Span::seconds(timeout),
            folders: "checkpoints".into(),
        }
    }

    fn name(order: &Checkpoint) -> AttemptName {
        AttemptName {
            job: order.job,
            attempt: order.attempt,
            task: 0,
        }
    }

    /// Checkpoint commands that were started at time 0 and do not end.
    fn running(orders: &[Checkpoint], poller: &mut Poller) -> CheckpointCommands {
        let mut checkpoints = CheckpointCommands::new("/no/such/folder".into(), 0);
        for order in orders {
            let words = ["/bin/sleep", "300"].map(String::from);
            let call = ProgramCall::new(&words, order.timeout);
            let program = poller.watch(call.start(Span(0)).unwrap()).unwrap();
            checkpoints.entries.push(RunningCommand {
                name: name(order),
                order: order.clone(),
                folder: "/no/such/folder".into(),
                stage: CommandStage::Command,
                program,
                begun: Span(0),
                given_up: None,
            });
        }
        checkpoints
    }

    /// The failures reported to schedd.
    fn reported_failures(checkpoints: &mut CheckpointCommands) -> Vec<String> {
        let why = |report| match report {
            NodeReport::NotCheckpointed { why, .. } => why,
            other => panic!("{other:?}"),
        };
        checkpoints.take_reports().into_iter().map(why).collect()
    }

    /// schedd repeats the order until it receives a result.
    #[test]
    fn a_repeated_order_reports_a_timeout_and_starts_no_second_command() {
        let (mut poller, order) = (Poller::new().unwrap(), order(1, 60));
        let mut checkpoints = running(std::slice::from_ref(&order), &mut poller);
        checkpoints.begin(&order, &mut poller);
        assert_eq!(
            (reported_failures(&mut checkpoints).len(), checkpoints.due()),
            (0, Some(Span::seconds(60)))
        );
        let mut attempts = Attempts::hollow(site::tests::site(0, false));
        checkpoints.update(Span::seconds(60), &mut attempts, &mut poller);
        assert_eq!(
            reported_failures(&mut checkpoints),
            ["it took longer than 60 s"]
        );
        assert_eq!(
            checkpoints.due(),
            None,
            "a killed command has no time limit"
        );
        checkpoints.begin(&order, &mut poller);
        assert_eq!(
            (
                reported_failures(&mut checkpoints),
                checkpoints.entries.len()
            ),
            (vec!["it took longer than 60 s".into()], 1)
        );
    }

    #[test]
    fn only_the_command_of_the_same_attempt_is_given_up() {
        let (mut poller, orders) = (
            Poller::new().unwrap(),
            [1, 2].map(|job| order(job, 10 * i64::from(job))),
        );
        let mut checkpoints = running(&orders, &mut poller);
        assert_eq!(checkpoints.due(), Some(Span::seconds(10)));
        checkpoints.give_up(name(&orders[0]));
        assert_eq!(
            (checkpoints.due(), reported_failures(&mut checkpoints).len()),
            (Some(Span::seconds(20)), 0)
        );
        checkpoints.give_up(AttemptName {
            attempt: 2,
            ..name(&orders[1])
        });
        assert_eq!(
            checkpoints.due(),
            Some(Span::seconds(20)),
            "the command of another attempt continues"
        );
    }

    #[test]
    fn a_job_owner_other_than_noded_gets_read_access_to_the_checkpoint() {
        let owner = order(1, 1).owner;
        let reader = |uid| CheckpointCommands::new("/no/such/folder".into(), uid).reader(&owner);
        assert_eq!((reader(0), reader(1000)), (Some(1000), None));
    }
}
