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

    /// Sends pending launches to the spawner, as many as its socket takes.
    pub(super) fn send(&mut self, poller: &mut Poller) {
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
        if self.waits == self.unsent.is_empty() {
            self.waits = !self.waits;
            poller.want_write(spawner.socket.as_fd(), PollSource::Spawner, self.waits);
        }
        failed
            .into_iter()
            .for_each(|(name, why)| self.end(name, AttemptOutcome::new(How::NodeFault(why))));
    }

    /// Replaces a killed spawner. Its launches remain in doubt until the last of its shepherds has
    /// created its attempt's directory.
    pub fn spawner_ended(&mut self, poller: &mut Poller) -> io::Result<()> {
        self.read_messages(poller);
        let Runner::Spawner(spawner, building) = &mut self.runner else {
            return Ok(());
        };
        warn!(
            "the spawner (process {}) has ended, forking another",
            spawner.pid()
        );
        spawner.reap();
        poller.remove(&spawner.ended, PollSource::SpawnerEnded);
        poller.remove(&spawner.socket, PollSource::Spawner);
        let old = std::mem::replace(spawner, Spawner::start(&self.site, building)?);
        let number = poller.number();
        poller.keep(old.socket, PollSource::OldSpawner(number))?;
        poller.keep(old.builders, PollSource::OldBuilders(number))?;
        self.in_doubt.insert(number, self.sent_launches());
        self.waits = false;
        self.watch_spawner(poller)?;
        self.send(poller);
        Ok(())
    }

    /// The launches sent to the spawner without a report since.
    fn sent_launches(&self) -> Vec<AttemptName> {
        let elsewhere: BTreeSet<AttemptName> = self
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
            .filter(|name| !elsewhere.contains(name))
            .collect()
    }

    /// Resolves the launches of a killed spawner, once none is in progress. Those without a
    /// directory never began and are sent again. Doing so earlier would be unsafe: an attempt may
    /// end, be confirmed and be removed before a second shepherd looks for its directory.
    pub fn resolve_doubtful_launches(&mut self, number: u64, poller: &mut Poller) {
        poller.forget(PollSource::OldBuilders(number));
        self.read_old_messages(PollSource::OldSpawner(number), poller);
        for name in self.in_doubt.remove(&number).unwrap_or_default() {
            if Folder::of(&self.site.state, name).exists() {
                self.examine(name, poller)
            } else {
                self.unwatch(name, poller);
                self.unsent.push_back(name);
            }
        }
        // The spawner may have been killed between a fork and its report.
        self.examine_unwatched(poller);
        self.send(poller);
    }
}

/// Whether to retry later: the spawner's socket is full, or it has ended, which is handled
/// elsewhere.
fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | BrokenPipe | ConnectionReset | NotConnected
    ) || error.raw_os_error() == Some(nix::libc::ENOBUFS)
}
