//! The site's command that writes down how far a job has come: run by noded's loop, which never
//! waits for it. Where it succeeds the job is ended at once, before it comes any farther; where it
//! fails the job goes on, and schedd is told.
//!
//! A noded that ends takes its commands along. schedd tells the next one the same again.

use super::attempts::Attempts;
use super::chore::BlockingIo;
use super::control::Cancel;
use super::folder::AttemptName;
use super::poller::{PollSource, Poller};
use crate::model::hook::HookExit;
use crate::model::job::Owner;
use crate::model::job::checkpoint::folder;
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::call::{Called, ProgramCall};
use crate::sys::{clock, filesystem};
use crate::wire::order::{Checkpoint, NodeReport};
use nix::libc::SIGKILL;
use std::io;
use std::path::{Path, PathBuf};

/// The most that is said of a failure, in characters.
const LONGEST: usize = 500;

/// How a job ends of which it is written down how far it has come.
const CHECKPOINTED: Cancel = Cancel {
    grace: Span(0),
    signal: Some(SIGKILL),
    again: true,
};

/// The commands that run.
#[derive(Debug)]
pub struct CheckpointCommands {
    /// The folder of this node's state.
    state: PathBuf,
    uid: u32,
    entries: Vec<RunningCommand>,
    /// What schedd has still to be told.
    said: Vec<NodeReport>,
}

#[derive(Debug)]
struct RunningCommand {
    name: AttemptName,
    order: Checkpoint,
    folder: PathBuf,
    stage: CommandStage,
    until: Span,
    /// It was given up: what it says does not matter.
    is_late: bool,
    /// Where the poller says that there is something to hear.
    sources: Vec<PollSource>,
}

/// How far it is.
#[derive(Debug)]
enum CommandStage {
    /// The folder is being made: it may be on a disk that hangs.
    Folder(BlockingIo),
    Called(Called),
}

/// What came of a stage that is over.
enum StageResult {
    /// The folder is there.
    Folder,
    /// It is written down how far the job has come.
    Written,
    Failed(String),
}

impl CommandStage {
    fn hear(&mut self) -> Option<StageResult> {
        match self {
            CommandStage::Folder(chore) => Some(
                chore
                    .hear()?
                    .map_or_else(StageResult::Failed, |()| StageResult::Folder),
            ),
            CommandStage::Called(called) => {
                let failure = match called.hear()? {
                    Ok(HookExit {
                        status: Some(0), ..
                    }) => return Some(StageResult::Written),
                    Ok(HookExit {
                        status: Some(status),
                        ..
                    }) => format!("it ended with status {status}"),
                    Ok(_) => "a signal ended it".into(),
                    Err(error) => error.to_string(),
                };
                Some(StageResult::Failed(called.blame(failure)))
            }
        }
    }

    fn kill(&self) {
        match self {
            CommandStage::Folder(chore) => chore.kill(),
            CommandStage::Called(called) => called.kill(),
        }
    }
}

impl CheckpointCommands {
    /// None run. `uid`: who we are.
    pub fn new(state: PathBuf, uid: u32) -> CheckpointCommands {
        CheckpointCommands {
            state,
            uid,
            entries: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Runs the command for a job, unless it runs already.
    pub fn begin(&mut self, order: &Checkpoint, poller: &mut Poller) {
        let name = AttemptName {
            job: order.job,
            attempt: order.attempt,
            task: 0,
        };
        match self.entries.iter().find(|entry| entry.name == name) {
            // Whoever asks again has not heard it.
            Some(entry) if entry.is_late => return self.said.push(late(entry)),
            Some(_) => return,
            None => {}
        }
        let folder = folder(&self.state, &order.folders, &order.full_id);
        match self.prepare(&folder, order, poller) {
            Ok((stage, sources)) => {
                let (until, order) = (
                    Span(clock::monotonic().0.saturating_add(order.timeout.0)),
                    order.clone(),
                );
                self.entries.push(RunningCommand {
                    name,
                    order,
                    folder,
                    stage,
                    until,
                    is_late: false,
                    sources,
                });
            }
            Err(error) => self.fail(name, &error.to_string()),
        }
    }

    /// A job is to end, whatever is written down of it.
    pub fn give_up(&mut self, name: AttemptName) {
        for entry in self.entries.iter_mut().filter(|entry| entry.name == name) {
            entry.is_late = true;
            entry.stage.kill();
        }
    }

    /// When the first of them has taken too long.
    pub fn due(&self) -> Option<Span> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_late)
            .map(|entry| entry.until)
            .min()
    }

    /// Ends those that take too long.
    pub fn keep_time(&mut self, now: Span) {
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.until <= now && !entry.is_late)
        {
            entry.is_late = true;
            entry.stage.kill();
            tracing::warn!("attempt {} is not checkpointed in time", entry.name);
            self.said.push(late(entry));
        }
    }

    /// Takes in what they say: jobs that are checkpointed end.
    pub fn hear(&mut self, attempts: &mut Attempts, poller: &mut Poller) {
        for mut entry in std::mem::take(&mut self.entries) {
            let Some(heard) = entry.stage.hear() else {
                self.entries.push(entry);
                continue;
            };
            entry
                .sources
                .drain(..)
                .for_each(|source| poller.overlook(source));
            let Some(session) = attempts.session(entry.name).filter(|_| !entry.is_late) else {
                continue;
            };
            match heard {
                StageResult::Folder => self.call(entry, session, poller),
                // Before it comes any farther than what is written down.
                StageResult::Written => attempts.cancel(entry.name, CHECKPOINTED),
                StageResult::Failed(why) => self.fail(entry.name, &why),
            }
        }
    }

    fn call(&mut self, entry: RunningCommand, session: u32, poller: &mut Poller) {
        match call(&entry.order, session, &entry.folder, poller) {
            Ok((called, sources)) => self.entries.push(RunningCommand {
                stage: CommandStage::Called(called),
                sources,
                ..entry
            }),
            Err(error) => self.fail(entry.name, &error.to_string()),
        }
    }

    /// What schedd is to be told, since the last call.
    pub fn said(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.said)
    }

    fn fail(&mut self, name: AttemptName, why: &str) {
        tracing::warn!("attempt {name} is not checkpointed: {why}");
        self.said.push(failed(name, why));
    }

    /// Begins to make a folder that only the owner of the job may read. It is ours: the owner
    /// cannot put links there that the command would follow.
    fn prepare(
        &self,
        folder: &Path,
        order: &Checkpoint,
        poller: &mut Poller,
    ) -> io::Result<(CommandStage, Vec<PollSource>)> {
        let reader = self.reader(&order.owner);
        let named = |error| io::Error::other(format!("{}: {error}", folder.display()));
        let chore = BlockingIo::begin(|| filesystem::make_own(folder, reader).map_err(named))?;
        let sources = poller.add_all([chore.watched()].into_iter(), PollSource::Checkpoint);
        let sources = sources.inspect_err(|_| chore.kill())?;
        Ok((CommandStage::Folder(chore), sources))
    }

    /// The user who may read the checkpoint of a job besides us; None where the job is ours.
    fn reader(&self, owner: &Owner) -> Option<u32> {
        Some(owner.uid).filter(|&uid| uid != self.uid)
    }
}

fn late(entry: &RunningCommand) -> NodeReport {
    let why = match &entry.stage {
        CommandStage::Folder(_) => format!("{} could not be made in time", entry.folder.display()),
        CommandStage::Called(called) => called.blame(format!(
            "it took longer than {} s",
            entry.order.timeout.as_seconds()
        )),
    };
    failed(entry.name, &why)
}

fn failed(name: AttemptName, why: &str) -> NodeReport {
    NodeReport::NotCheckpointed {
        job: name.job,
        attempt: name.attempt,
        why: shortened(why.to_string(), LONGEST),
    }
}

/// Its arguments: job id, session, folder.
fn call(
    order: &Checkpoint,
    session: u32,
    folder: &Path,
    poller: &mut Poller,
) -> io::Result<(Called, Vec<PollSource>)> {
    let program = order.program.display().to_string();
    let path = folder.display().to_string();
    let words = [
        program.clone(),
        order.full_id.clone(),
        session.to_string(),
        path.clone(),
    ];
    let environment = [
        ("PBS_JOBID", order.full_id.as_str()),
        ("LANAI_CHECKPOINT", &path),
        ("LOGNAME", &order.owner.user),
    ];
    let call = ProgramCall {
        words: &words,
        environment: &environment,
        input: b"",
        identity: None,
    };
    let called = call
        .start()
        .map_err(|e| io::Error::other(format!("{program} cannot be run: {e}")))?;
    let sources = poller
        .add_all(called.watched(), PollSource::Checkpoint)
        .inspect_err(|_| called.kill())?;
    Ok((called, sources))
}

#[cfg(test)]
mod tests {
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

    /// Commands that have begun at the time 0, and say nothing.
    fn running(orders: &[Checkpoint], poller: &mut Poller) -> CheckpointCommands {
        let mut checkpoints = CheckpointCommands::new("/no/such/folder".into(), 0);
        for order in orders {
            let words = ["/bin/sleep", "300"].map(String::from);
            let call = ProgramCall {
                words: &words,
                environment: &[],
                input: b"",
                identity: None,
            };
            let called = call.start().unwrap();
            let sources = poller
                .add_all(called.watched(), PollSource::Checkpoint)
                .unwrap();
            let (stage, folder) = (CommandStage::Called(called), "/no/such/folder".into());
            let entry = RunningCommand {
                name: name(order),
                order: order.clone(),
                folder,
                stage,
                until: order.timeout,
                is_late: false,
                sources,
            };
            checkpoints.entries.push(entry);
        }
        checkpoints
    }

    /// Why jobs are not checkpointed, as schedd is told.
    fn told(checkpoints: &mut CheckpointCommands) -> Vec<String> {
        let why = |report| match report {
            NodeReport::NotCheckpointed { why, .. } => why,
            other => panic!("{other:?}"),
        };
        checkpoints.said().into_iter().map(why).collect()
    }

    /// schedd asks again when it does not know what has come of it.
    #[test]
    fn who_asks_again_hears_of_what_was_too_late_and_else_waits() {
        let (mut poller, order) = (Poller::new().unwrap(), order(1, 60));
        let mut checkpoints = running(std::slice::from_ref(&order), &mut poller);
        checkpoints.begin(&order, &mut poller);
        assert_eq!(
            (told(&mut checkpoints).len(), checkpoints.due()),
            (0, Some(Span::seconds(60)))
        );
        checkpoints.keep_time(Span::seconds(60));
        assert_eq!(told(&mut checkpoints), ["it took longer than 60 s"]);
        assert_eq!(
            checkpoints.due(),
            None,
            "it has been ended, and is not ended again"
        );
        checkpoints.begin(&order, &mut poller);
        assert_eq!(
            (told(&mut checkpoints), checkpoints.entries.len()),
            (vec!["it took longer than 60 s".into()], 1)
        );
    }

    #[test]
    fn who_is_to_end_anyway_is_given_up_and_nobody_else() {
        let (mut poller, orders) = (
            Poller::new().unwrap(),
            [1, 2].map(|job| order(job, 10 * i64::from(job))),
        );
        let mut checkpoints = running(&orders, &mut poller);
        assert_eq!(checkpoints.due(), Some(Span::seconds(10)));
        checkpoints.give_up(name(&orders[0]));
        assert_eq!(
            (checkpoints.due(), told(&mut checkpoints).len()),
            (Some(Span::seconds(20)), 0)
        );
        checkpoints.give_up(AttemptName {
            attempt: 2,
            ..name(&orders[1])
        });
        assert_eq!(
            checkpoints.due(),
            Some(Span::seconds(20)),
            "another attempt of it"
        );
    }

    #[test]
    fn the_owner_reads_a_checkpoint_besides_us() {
        let owner = order(1, 1).owner;
        let reader = |uid| CheckpointCommands::new("/no/such/folder".into(), uid).reader(&owner);
        assert_eq!((reader(0), reader(1000)), (Some(1000), None));
    }
}
