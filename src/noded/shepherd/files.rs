//! Files of a job: stage-in before the job runs; delivery of its output and stage-out after the job
//! has ended.

use super::super::child::UMASK;
use super::super::delivery::{self, Stream};
use super::super::folder::AttemptName;
use super::super::job_hooks;
use super::super::spawner_messages::{SpawnerMessage, send_message};
use super::super::staging::Staging;
use super::super::staging_worker::{
    Cancels, StagingResult, StagingWorker, join_failures, not_delivered, to_result,
};
use super::super::watch::WatchedEnd;
use super::{PreparedJob, other_owner};
use crate::model::job::{AttemptOutcome, How, Join};
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::wire::order::Launch;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// `Exit_status` of a job that did not run because its stage-in failed.
const STAGE_IN_FAILED: i32 = -1;
/// Maximum length of a note about files, in characters. The exit record, which stores it, is small.
const MAX_NOTE: usize = 600;
/// Time limit of work that copies no files of the job, such as renaming output files. If a user
/// stops the worker process, or a file system hangs, the job must still leave its node.
const DELIVERY_LIMIT: Span = Span::seconds(60);

impl PreparedJob<'_> {
    /// Stages files in. Returns the job's outcome if the job cannot run.
    pub(super) fn stage_in(&self) -> io::Result<Option<AttemptOutcome>> {
        if !self.launch.files.has_work_before() {
            return Ok(None);
        }
        self.write_trace(None);
        if let Some(outcome) =
            self.check(|staging| staging.find_home(self.account), How::NodeFault)?
        {
            return Ok(Some(outcome));
        }
        if let Some(outcome) = self.check_awaited()? {
            return Ok(Some(outcome));
        }
        let limit = self.launch.staging_timeout;
        match self.staging_worker(Cancels::All, limit, |staging| staging.stage_in())? {
            StagingResult::Done => Ok(None),
            StagingResult::Failed(why) => Ok(Some(AttemptOutcome::new(How::CannotStart {
                status: STAGE_IN_FAILED,
                why,
            }))),
            StagingResult::Cancelled => self
                .discard()
                .map(|()| Some(AttemptOutcome::new(How::Cancelled))),
            StagingResult::Late => {
                self.discard_private()?;
                let why = format!(
                    "stage-in failed: it took longer than {} s",
                    limit.as_seconds()
                );
                Ok(Some(AttemptOutcome::new(How::CannotStart {
                    status: STAGE_IN_FAILED,
                    why,
                })))
            }
        }
    }

    /// Checks whether the files to stage in exist, if the job waits for them. Returns the outcome
    /// if the job cannot run.
    fn check_awaited(&self) -> io::Result<Option<AttemptOutcome>> {
        if !self.launch.files.awaited || self.launch.files.before.is_empty() {
            return Ok(None);
        }
        self.check(|staging| staging.check_sources(), How::AwaitsFiles)
    }

    /// Runs `work`, which checks the owner's files, as the owner. Returns the outcome if the job
    /// cannot run. If `work` fails, `unable` creates the outcome from the error.
    fn check(
        &self,
        work: impl FnOnce(&Staging) -> Result<(), String>,
        unable: fn(String) -> How,
    ) -> io::Result<Option<AttemptOutcome>> {
        let limit = self.quick_limit();
        Ok(match self.staging_worker(Cancels::All, limit, work)? {
            StagingResult::Done => None,
            StagingResult::Failed(why) => Some(AttemptOutcome::new(unable(why))),
            StagingResult::Cancelled => Some(AttemptOutcome::new(How::Cancelled)),
            StagingResult::Late => {
                let seconds = limit.as_seconds();
                let why = format!("the owner's files could not be checked within {seconds} s");
                Some(AttemptOutcome::new(How::NodeFault(why)))
            }
        })
    }

    /// Delivers the output, unless the job runs again. If the job ran, also stages files out. If it
    /// succeeded, also removes unwanted output files. Adds a note about failures to the outcome.
    pub(super) fn deliver_and_stage_out(
        &self,
        noded: &OwnedFd,
        WatchedEnd {
            mut outcome,
            mut streams,
            runs_again,
        }: WatchedEnd,
    ) -> AttemptOutcome {
        let is_removed = outcome.how == How::Exited(0) && !runs_again;
        streams.retain(|_| !runs_again);
        let files = &self.launch.files;
        let note = if files.has_work_after() && outcome.how.ran() {
            // This message lets schedd release the other hosts of the job before stage-out.
            let shares = &self.launch.shares;
            if shares.iter().any(|share| share.host != shares[0].host) {
                send_message(
                    noded,
                    &SpawnerMessage::StagingOut(AttemptName::of(self.launch)),
                    None,
                    false,
                );
            }
            let mut unwanted = if is_removed {
                self.unwanted()
            } else {
                Vec::new()
            };
            let limit = self.launch.staging_timeout;
            let done = self.staging_worker(Cancels::New, limit, |staging| {
                let delivered = self.deliver(&streams);
                // A file at the path of an undelivered stream does not belong to this job.
                unwanted.retain(|path| {
                    let mut at_path = streams.iter().filter(|stream| stream.place() == path);
                    at_path.all(Stream::is_at_place)
                });
                join_failures([delivered, staging.stage_out(&unwanted)])
            });
            match done {
                // A cancel ends stage-out, but the output is still delivered.
                Ok(StagingResult::Cancelled) => join_failures([
                    self.deliver_as_owner(&streams),
                    Err("stage-out was canceled".into()),
                ]),
                Ok(StagingResult::Late) => {
                    let late = format!(
                        "stage-out took longer than {} s, so some files are possibly not copied",
                        limit.as_seconds()
                    );
                    join_failures([self.deliver_as_owner(&streams), Err(late)])
                }
                done => to_result(done),
            }
        } else {
            join_failures([
                self.deliver_as_owner(&streams),
                self.discard_private().map_err(not_delivered),
            ])
        };
        outcome
            .notes
            .extend(note.err().map(|note| shortened(note, MAX_NOTE)));
        outcome
    }

    fn deliver_as_owner(&self, streams: &[Stream]) -> Result<(), String> {
        match streams {
            [] => Ok(()),
            // The job runs as noded's user, so this process can deliver the files without a worker.
            _ if other_owner(self.site, self.account).is_none() => self.deliver(streams),
            _ => self.deliver_in_time(streams),
        }
    }

    fn deliver_in_time(&self, streams: &[Stream]) -> Result<(), String> {
        let limit = self.quick_limit();
        match self.staging_worker(Cancels::None, limit, |_| self.deliver(streams)) {
            Ok(StagingResult::Late) => {
                let why = format!("it took longer than {} s", limit.as_seconds());
                join_failures(
                    streams
                        .iter()
                        .map(|stream| Err(delivery::not_delivered(stream, self.launch, &why))),
                )
            }
            done => to_result(done),
        }
    }

    fn deliver(&self, streams: &[Stream]) -> Result<(), String> {
        join_failures(
            streams
                .iter()
                .map(|stream| delivery::deliver(stream, self.launch)),
        )
    }

    pub(super) fn discard_private(&self) -> io::Result<()> {
        if self.launch.files.private {
            self.discard()
        } else {
            Ok(())
        }
    }

    fn discard(&self) -> io::Result<()> {
        let done = self.staging_worker(Cancels::New, self.launch.staging_timeout, |staging| {
            staging.discard();
            Ok(())
        });
        done.map(drop)
    }

    /// The output files to remove after a job has succeeded (`qsub -R`).
    fn unwanted(&self) -> Vec<PathBuf> {
        let Launch {
            files,
            output,
            error,
            join,
            full_id,
            ..
        } = &*self.launch;
        let home = &self.account.home;
        let mut unwanted = Vec::new();
        // A file at the path of a joined stream does not belong to this job.
        if files.remove_output && *join != Join::Error {
            unwanted.push(delivery::place(&output.0, home, full_id, "OU"));
        }
        if files.remove_error && *join != Join::Output {
            unwanted.push(delivery::place(&error.0, home, full_id, "ER"));
        }
        unwanted
    }

    /// Runs `work` in a separate process as the owner.
    fn staging_worker(
        &self,
        cancels: Cancels,
        limit: Span,
        work: impl FnOnce(&Staging) -> Result<(), String>,
    ) -> io::Result<StagingResult> {
        let groups = job_hooks::groups(self.site, self.account, self.launch)?;
        let worker = StagingWorker {
            account: self.account,
            groups: groups.as_deref(),
            group: self.group(),
            umask: self.launch.umask.unwrap_or(UMASK),
            folder: &self.built.folder,
            cancels,
            limit,
        };
        let home = &self.account.home;
        let staging = Staging {
            files: &self.launch.files,
            home,
            folder: self.jobdir,
            host: &self.site.host,
        };
        worker.run(|| work(&staging))
    }

    /// The time limit of work that copies nothing.
    fn quick_limit(&self) -> Span {
        self.launch.staging_timeout.min(DELIVERY_LIMIT)
    }
}
