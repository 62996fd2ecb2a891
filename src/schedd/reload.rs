//! Configuration changes at run time. Reloads `lanai.toml`. After a reload or `qmgr` has changed
//! the configuration, updates the parts of schedd.

use crate::config::settings::{KeySetting, effective};
use crate::model::time::Span;
use crate::model::trigger::Trigger;
use crate::sched::placement::cycle_cache::CycleCache;
use crate::schedd::configuration;
use crate::schedd::programs::allocation_script::AllocationScript;
use crate::schedd::programs::hooks::programs;
use crate::schedd::programs::mailer::Mailer;
use crate::schedd::state::Schedd;
use crate::schedd::storage::expiry;
use crate::schedd::timers;
use crate::server::orders;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::sys::clock::monotonic;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Schedd {
    /// Reloads `lanai.toml`. The file is refused as a whole if it is invalid, or if it removes a
    /// requested resource or changes the type of one.
    pub(super) fn reload(&mut self) {
        let setup = &self.server.setup;
        let mut next = match configuration::read(&self.home) {
            Ok(read) => read
                .with_grantees(setup.grantees.clone())
                .with_overrides(setup.overrides.clone()),
            Err(error) => {
                return tracing::error!(
                    "lanai.toml is not reloaded, settings unchanged: {error:#}"
                );
            }
        };
        if let Some(why) = resource_in_use(&self.server, &next) {
            return tracing::error!(
                "lanai.toml is not reloaded, settings unchanged: {}: {why}",
                next.installation.config.display()
            );
        }
        for fixed in keep_fixed(setup, &mut next) {
            tracing::warn!("{fixed}: takes effect when schedd is restarted");
        }
        let changed = changes(setup, &next);
        for conflict in &next.conflicts {
            tracing::warn!(
                "a setting of qmgr conflicts with {} and is ignored: {conflict}",
                next.installation.config.display()
            );
        }
        match self.server.reconfigure(next) {
            Ok(()) if changed.is_empty() => self.reloaded = Some("nothing has changed".to_string()),
            Ok(()) => self.reloaded = Some(changed.join(", ")),
            Err(error) => {
                tracing::error!("lanai.toml is not reloaded, settings unchanged: {error}")
            }
        }
    }

    /// If a changed configuration has been committed, updates the parts of schedd that depend on
    /// it.
    pub(super) fn apply_committed_setup(&mut self) {
        let Some(before) = self.server.take_setup() else {
            return;
        };
        if let Some(changed) = self.reloaded.take() {
            tracing::info!("lanai.toml is reloaded: {changed}");
        }
        let now = monotonic();
        let setup = &self.server.setup;
        self.clients.authorize(setup);
        if (&before.mailer, &before.mail_from) != (&setup.mailer, &setup.mail_from) {
            self.mailer.shut_down();
            self.mailer = Mailer::new(setup);
        }
        if before.policy.placement != setup.policy.placement {
            self.allocation_script.shut_down();
            self.allocation_script = AllocationScript::new(&setup.policy.placement);
        }
        self.resource_poller
            .apply_configuration(&setup.config, &setup.resources, now);
        if before.config.hooks != setup.config.hooks {
            self.hooks.forget_permissions();
            programs::remove_unused(&self.home.hooks(), &setup.config.hooks);
            let events = self.nodes.send_to_all(&orders::periodic_hooks(setup));
            self.handle_node_events(events);
        }
        let events = self.nodes.apply_setup(&self.server.setup);
        self.handle_node_events(events);
        let setup = &self.server.setup;
        self.timers.poll = self.timers.poll.min(now + setup.config.cycle.poll_interval);
        if before.config.server.history != setup.config.server.history {
            self.timers.purge = self
                .timers
                .purge
                .min(now + Span::seconds(1))
                .min(now + timers::PURGE);
        }
        if before.policy.usage != setup.policy.usage {
            self.recompute_usage();
        }
        if before.resources != self.server.setup.resources {
            let promises = self.verdicts.promises();
            self.server.restore_promises(&promises);
        }
        if before.decides_otherwise(&self.server.setup) {
            self.cycle_cache = CycleCache::default();
        }
        self.snapshots.forget();
        self.server.want_cycle(Trigger::Config);
    }

    fn recompute_usage(&mut self) {
        match expiry::stored_usage(self.server.setup.policy.usage.clone(), &self.spool) {
            Ok(usage) => self.server.load_usage(usage),
            Err(error) => {
                tracing::error!(
                    "cannot recompute the fair-share usage, which stays unchanged: {error}"
                )
            }
        }
    }
}

/// A message about a requested resource that `next` removes or gives another type; None if there is
/// no such resource.
fn resource_in_use(server: &ServerState, next: &Setup) -> Option<String> {
    for (name, known) in server.setup.resources.iter() {
        let other = next.resources.get(name);
        if other.is_none_or(|other| other.kind != known.kind)
            && let Some(requester) = server.requester_of(name)
        {
            return Some(format!(
                "{requester} requests resource `{name}`, which the file removes or gives another \
                 type: delete {requester} first"
            ));
        }
    }
    None
}

/// Some settings take effect only when schedd is restarted. Resets these settings in `next` to
/// their current values. Returns the names of the settings that differed.
fn keep_fixed(now: &Setup, next: &mut Setup) -> Vec<&'static str> {
    let (old, file) = (&now.file, Arc::make_mut(&mut next.file));
    let mut kept = Vec::new();
    if old.server.name != file.server.name {
        kept.push("[server] name");
        file.server.name.clone_from(&old.server.name);
    }
    if old.server.shared != file.server.shared {
        kept.push("[server] shared");
        file.server.shared = old.server.shared;
    }
    if (&old.cycle.record, old.cycle.record_size) != (&file.cycle.record, file.cycle.record_size) {
        kept.push("[cycle] record");
        file.cycle.record.clone_from(&old.cycle.record);
        file.cycle.record_size = old.cycle.record_size;
    }
    if !kept.is_empty() {
        *next = next.with_overrides(next.overrides.clone());
    }
    kept
}

/// Identifies a setting by its section, the name of the entry (for `[[...]]`), and its key.
fn place(setting: &KeySetting) -> (&'static str, Option<String>, Cow<'static, str>) {
    (setting.section, setting.name.clone(), setting.key.clone())
}

/// The changes as texts: each changed setting with its new value, each setting that is no longer
/// set, and each removed section.
fn changes(now: &Setup, next: &Setup) -> Vec<String> {
    let before = effective(&now.config, &now.text, &now.overrides);
    let after = effective(&next.config, &next.text, &next.overrides);
    let values: BTreeMap<_, _> = before
        .iter()
        .map(|setting| (place(setting), &setting.value))
        .collect();
    let mut places = BTreeSet::new();
    let mut sections = BTreeSet::new();
    let mut changed = Vec::new();
    for setting in &after {
        places.insert(place(setting));
        sections.insert((setting.section, setting.name.as_deref()));
        if values.get(&place(setting)) != Some(&&setting.value) {
            changed.push(match &setting.value {
                Some(value) => format!("{} = {value}", setting.title()),
                None => format!("{} is not set", setting.title()),
            });
        }
    }
    let mut gone = Vec::new();
    for setting in &before {
        if places.contains(&place(setting)) {
            continue;
        }
        let name = setting.name.as_deref();
        gone.push(if sections.contains(&(setting.section, name)) {
            format!("{} is not set", setting.title())
        } else if let Some(name) = name {
            format!("no [[{}]] {name}", setting.section)
        } else {
            format!("no [{}]", setting.section)
        });
    }
    gone.dedup();
    changed.extend(gone);
    changed
}
