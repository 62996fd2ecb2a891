//! What the spawner is given to start, also when one is killed and another follows it.

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

    /// Gives the spawner what it has room for.
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
                Err(e) if later(&e) => break,
                Err(e) => failed.push((name, format!("spawner: {e}"))),
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

    /// The spawner has been killed: forks another one. What the old one was given stays in doubt
    /// until the last of its shepherds has got its attempt's folder in place.
    pub fn spawner_ended(&mut self, poller: &mut Poller) -> io::Result<()> {
        self.hear(poller);
        let Runner::Spawner(spawner, building) = &mut self.runner else {
            return Ok(());
        };
        warn!(
            "the spawner, process {}, has ended: forking another",
            spawner.pid()
        );
        spawner.reap();
        poller.remove(&spawner.ended, PollSource::SpawnerEnded);
        poller.remove(&spawner.socket, PollSource::Spawner);
        let old = std::mem::replace(spawner, Spawner::start(&self.site, building)?);
        let number = poller.number();
        poller.keep(old.socket, PollSource::OldSpawner(number))?;
        poller.keep(old.builders, PollSource::OldBuilders(number))?;
        self.in_doubt.insert(number, self.given());
        self.waits = false;
        self.watch_spawner(poller)?;
        self.send(poller);
        Ok(())
    }

    /// What the spawner was given and nothing has been heard of since.
    fn given(&self) -> Vec<AttemptName> {
        let elsewhere: BTreeSet<AttemptName> = self
            .in_doubt
            .values()
            .flatten()
            .chain(&self.unsent)
            .copied()
            .collect();
        let unheard = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.launch.is_some());
        unheard
            .map(|(&name, _)| name)
            .filter(|name| !elsewhere.contains(name))
            .collect()
    }

    /// No launch of a spawner that was killed is on its way any more. Those without a folder never
    /// began, and only now is it safe to give them to another one: an attempt that has begun may be
    /// over, confirmed and forgotten before a second shepherd of it gets to look for its folder.
    pub fn settle(&mut self, number: u64, poller: &mut Poller) {
        poller.forget(PollSource::OldBuilders(number));
        self.hear_old(PollSource::OldSpawner(number), poller);
        for name in self.in_doubt.remove(&number).unwrap_or_default() {
            if Folder::of(&self.site.state, name).exists() {
                self.examine(name, poller)
            } else {
                self.unwatch(name, poller);
                self.unsent.push_back(name);
            }
        }
        // It may have been killed between a fork and the word of it.
        self.examine_unwatched(poller);
        self.send(poller);
    }
}

/// The spawner is full, or gone, which is noticed elsewhere.
fn later(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | BrokenPipe | ConnectionReset | NotConnected
    ) || error.raw_os_error() == Some(nix::libc::ENOBUFS)
}
