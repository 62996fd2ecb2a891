//! Another configuration while schedd runs: `lanai.toml` read anew, or said by `qmgr`; what follows from it
//! beyond the ledger.

use super::charging;
use super::chooser::Chooser;
use super::hooks::programs;
use super::postman::Postman;
use super::setup::Setup;
use super::{Schedd, timers};
use crate::model::config::Config;
use crate::model::config::resolved::{Setting, resolved};
use crate::model::time::Span;
use crate::sched::memory::Memory;
use crate::sys::clock::monotonic;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Schedd {
    /// Reads `lanai.toml` anew. One that is bad is refused whole, and all stays as it was.
    pub(super) fn reload(&mut self) {
        let setup = &self.ledger.setup;
        let mut next = match Setup::read(setup.home.clone()) {
            Ok(read) => read.amended(setup.amendments.clone()),
            Err(error) => return tracing::error!("not reloaded, all stays as it was: {error:#}"),
        };
        for fixed in keep_fixed(setup, &mut next) {
            tracing::warn!("{fixed}: stays as it was until schedd is started anew");
        }
        let changed = changes(setup, &next);
        for misfit in &next.misfits {
            tracing::warn!("what qmgr has said does not fit {}: {misfit}", next.home.config.display());
        }
        match self.ledger.reconfigure(next) {
            Ok(()) if changed.is_empty() => self.reloaded = Some("nothing has changed".to_string()),
            Ok(()) => self.reloaded = Some(changed.join(", ")),
            Err(error) => tracing::error!("not reloaded, all stays as it was: {error}"),
        }
    }

    /// Once another configuration is on disk, the parts of schedd that went by the one before follow it.
    pub(super) fn take_up_setup(&mut self) {
        let Some(before) = self.ledger.take_setup() else { return };
        if let Some(changed) = self.reloaded.take() {
            tracing::info!("reloaded: {changed}");
        }
        let now = monotonic();
        let setup = &self.ledger.setup;
        self.clients.authorize(setup);
        if (&before.mailer, &before.mail_from) != (&setup.mailer, &setup.mail_from) {
            self.postman.leave();
            self.postman = Postman::new(setup);
        }
        if before.policy.placement != setup.policy.placement {
            self.chooser.leave();
            self.chooser = Chooser::new(&setup.policy.placement);
        }
        if before.config.hooks != setup.config.hooks {
            self.hooks.forget_words();
            programs::clear(&setup.home.hooks(), &setup.config.hooks);
        }
        self.timers.poll = self.timers.poll.min(now + setup.config.cycle.poll_interval);
        if before.config.server.history != setup.config.server.history {
            self.timers.purge = self.timers.purge.min(now + Span::seconds(1)).min(now + timers::PURGE);
        }
        if before.policy.usage != setup.policy.usage {
            self.count_anew();
        }
        if before.resources != self.ledger.setup.resources {
            let promises = self.verdicts.promises();
            self.ledger.recall(&promises);
        }
        self.memory = Memory::default();
        self.scenes.forget();
        self.ledger.want_cycle();
    }

    fn count_anew(&mut self) {
        match charging::rebuild(self.ledger.setup.policy.usage, &self.spool) {
            Ok(usage) => self.ledger.load_usage(usage),
            Err(error) => tracing::error!("usage cannot be counted anew, and counts as before: {error}"),
        }
    }
}

/// Sets back what cannot be changed while schedd runs; what that is.
fn keep_fixed(now: &Setup, next: &mut Setup) -> Vec<&'static str> {
    let (old, file) = (&now.file, Arc::make_mut(&mut next.file));
    let mut kept = Vec::new();
    let mut keep = |is_changed: bool, what: &'static str| {
        if is_changed {
            kept.push(what);
        }
        is_changed
    };
    if keep(old.server.name != file.server.name, "[server] name") {
        file.server.name.clone_from(&old.server.name);
    }
    if keep(old.server.shared != file.server.shared, "[server] shared") {
        file.server.shared = old.server.shared;
    }
    if keep(
        (&old.cycle.record, old.cycle.record_size) != (&file.cycle.record, file.cycle.record_size),
        "[cycle] record",
    ) {
        file.cycle.record.clone_from(&old.cycle.record);
        file.cycle.record_size = old.cycle.record_size;
    }
    if keep(sockets(old) != sockets(file), "the sockets of [[node]]") {
        let known = sockets(old);
        file.nodes.iter_mut().for_each(|node| node.socket = known.get(node.name.as_str()).cloned().flatten());
    }
    if !kept.is_empty() {
        *next = next.amended(next.amendments.clone());
    }
    kept
}

fn sockets(config: &Config) -> BTreeMap<String, Option<std::path::PathBuf>> {
    let nodes = config.nodes.iter().filter(|node| node.socket.is_some());
    nodes.map(|node| (node.name.clone(), node.socket.clone())).collect()
}

/// What is configured otherwise than before: keys with their values, and kinds of objects.
fn changes(now: &Setup, next: &Setup) -> Vec<String> {
    let settings = |setup: &Setup| resolved(&setup.config, &setup.text, &setup.amendments);
    let place = |setting: &Setting| (setting.section, setting.name.clone(), setting.key);
    let before: BTreeMap<_, _> = settings(now).into_iter().map(|setting| (place(&setting), setting.value)).collect();
    let mut changed = Vec::new();
    let after = settings(next);
    for setting in after.iter().filter(|setting| before.get(&place(setting)) != Some(&setting.value)) {
        changed.push(match &setting.value {
            Some(value) => format!("{} = {value}", setting.title()),
            None => format!("{} is not set", setting.title()),
        });
    }
    let is_there = |place: &(&str, Option<String>, &str)| {
        after.iter().any(|setting| {
            (setting.section, setting.name.as_ref(), setting.key) == (place.0, place.1.as_ref(), place.2)
        })
    };
    let gone = before.keys().filter(|place| !is_there(place) && place.1.is_some());
    let mut gone: Vec<String> =
        gone.map(|(section, name, _)| format!("no [[{section}]] {}", name.clone().unwrap_or_default())).collect();
    gone.dedup();
    changed.extend(gone);
    let rest = [
        (now.config.launch != next.config.launch, "[launch]"),
        (now.config.nodes != next.config.nodes, "[[node]]"),
        (now.resources != next.resources || now.config.pools != next.config.pools, "[[resource]]"),
        (now.config.reservations != next.config.reservations, "[[reservation]]"),
        (now.config.hooks != next.config.hooks, "[[hook]]"),
        (now.config.qualities != next.config.qualities, "[[qos]]"),
        (now.config.dedicated != next.config.dedicated, "[[dedicated]]"),
        (now.config.primetime != next.config.primetime, "[primetime]"),
        (now.config.fair_share != next.config.fair_share, "[fairshare] and [[account]]"),
    ];
    changed.extend(rest.into_iter().filter(|(is_changed, _)| *is_changed).map(|(_, what)| what.to_string()));
    changed
}
