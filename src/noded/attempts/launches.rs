//! Sending launches to the spawner, and replacing a spawner that has ended.

use super::{Attempts, Runner};
use crate::model::job::{AttemptOutcome, How};
use crate::noded::folder::{AttemptName, Folder};
use crate::noded::poller::{PollSource, Poller};
use crate::noded::spawner::Spawner;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use tracing::warn;

impl Attempts {
    pub(super) fn watch_spawner(&self, poller: &mut Poller) -> io::Result<()> {
        let Runner::Spawner(spawner, _) = &self.runner else {
            return Ok(());
        };
        poller.add(&spawner.socket, PollSource::Spawner)?;
        poller.add(&spawner.ended, PollSource::SpawnerEnded)
    }

    /// Sends unsent launches to the spawner until its socket is full. If a launch cannot be sent
    /// for another reason than a full socket or the spawner's end, its attempt ends.
    pub(super) fn send_launches(&mut self, poller: &mut Poller) {
        let mut failed = Vec::new();
        let Runner::Spawner(spawner, _) = &self.runner else {
            return;
        };
        while let Some(&name) = self.unsent.front() {
            let Some(launch) = self
                .entries
                .get(&name)
                .and_then(|entry| entry.launch.as_ref())
            else {
                self.unsent.pop_front();
                continue;
            };
            match spawner.send(name, launch) {
                Ok(()) => {}
                Err(e) if is_temporary(&e) => break,
                Err(e) => {
                    failed.push((name, format!("cannot send the launch to the spawner: {e}")))
                }
            }
            self.unsent.pop_front();
        }
        if self.awaits_spawner == self.unsent.is_empty() {
            self.awaits_spawner = !self.awaits_spawner;
            poller.want_write(
                spawner.socket.as_fd(),
                PollSource::Spawner,
                self.awaits_spawner,
            );
        }
        failed
            .into_iter()
            .for_each(|(name, why)| self.set_ended(name, AttemptOutcome::new(How::NodeFault(why))));
    }

    /// Replaces a spawner that has ended. The launches that were sent to the old spawner remain in
    /// doubt until each of its shepherds has created its attempt's directory or ended.
    pub fn spawner_ended(&mut self, poller: &mut Poller) -> io::Result<()> {
        self.read_messages(poller);
        let Runner::Spawner(spawner, launch_lock) = &mut self.runner else {
            return Ok(());
        };
        warn!(
            "the spawner (process {}) has ended; forking a new spawner",
            spawner.pid()
        );
        spawner.reap();
        poller.remove(&spawner.ended, PollSource::SpawnerEnded);
        poller.remove(&spawner.socket, PollSource::Spawner);
        let old = std::mem::replace(spawner, Spawner::start(&self.site, launch_lock)?);
        let number = poller.number();
        poller.keep(old.socket, PollSource::OldSpawner(number))?;
        poller.keep(old.launches_over, PollSource::OldLaunches(number))?;
        self.in_doubt.insert(number, self.sent_launches());
        self.awaits_spawner = false;
        self.watch_spawner(poller)?;
        self.send_launches(poller);
        Ok(())
    }

    /// The launches that were sent to the spawner that is being replaced, and of which neither a
    /// start nor an end is known.
    fn sent_launches(&self) -> Vec<AttemptName> {
        let unsent_or_doubtful: BTreeSet<AttemptName> = self
            .in_doubt
            .values()
            .flatten()
            .chain(&self.unsent)
            .copied()
            .collect();
        let unreported = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.launch.is_some());
        unreported
            .map(|(&name, _)| name)
            .filter(|name| !unsent_or_doubtful.contains(name))
            .collect()
    }

    /// Resolves the launches of a spawner that has ended. Call this once none of them is in
    /// progress. A launch without a directory never began and is sent again. If it were sent while
    /// the first launch is in progress, the attempt could run twice: the first run could end, be
    /// confirmed and be removed before the second shepherd looks for the attempt's directory.
    pub fn resolve_doubtful_launches(&mut self, number: u64, poller: &mut Poller) {
        poller.forget(PollSource::OldLaunches(number));
        self.read_old_messages(PollSource::OldSpawner(number), poller);
        for name in self.in_doubt.remove(&number).unwrap_or_default() {
            if Folder::of(&self.site.state, name).exists() {
                self.examine(name, poller)
            } else {
                self.unwatch(name, poller);
                self.unsent.push_back(name);
            }
        }
        // The spawner may have been killed after it forked a shepherd, and before it reported that.
        self.examine_unwatched(poller);
        self.send_launches(poller);
    }
}

/// Whether to retry later: the spawner's socket is full, or the spawner has ended (then
/// `spawner_ended` replaces it).
fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | BrokenPipe | ConnectionReset | NotConnected
    ) || error.raw_os_error() == Some(nix::libc::ENOBUFS)
}
