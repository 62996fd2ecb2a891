//! `qmgr`, and the commands that open and close queues: authorization and conflicts.

use crate::config::UserPattern;
use crate::config::overrides::QmgrObject;
use crate::config::overrides::QmgrOverrides;
use crate::config::overrides::attributes::known;
use crate::config::overrides::command::Edit;
use crate::config::overrides::command::Op;
use crate::config::overrides::command::QmgrCommand;
use crate::config::overrides::command::Verb;
use crate::config::settings::SettingOrigin;
use crate::config::settings::effective;
use crate::model::job::state::JobState;
use crate::model::refusal::Refusal;
use crate::model::resource::ResourceType;
use crate::model::resource::ResourceValue;
use crate::model::system_resource::ReportedCount;
use crate::server::granted::Granted;
use crate::server::log_lines::LogLine;
use crate::server::request_context::RequestContext;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use std::sync::Arc;

/// The user names to which a command grants the rights of managers or operators.
fn granted_names(command: &QmgrCommand) -> Vec<String> {
    let mut granted = Vec::new();
    for edit in &command.edits {
        if edit.op != Op::Remove && edit.changes_one_of(&["managers", "operators"]) {
            let people = edit.value.split(',');
            let people = people.filter_map(|text| UserPattern::parse(text.trim()));
            granted.extend(people.filter_map(|person| person.account().map(str::to_string)));
        }
    }
    granted
}

impl RequestContext<'_> {
    /// Applies a `qmgr` command. A refused command changes nothing.
    pub(crate) fn apply_qmgr_command(&mut self, command: &QmgrCommand) -> Result<Granted, Refusal> {
        command.check_size()?;
        self.check_rights(command)?;
        let note = match &command.target {
            QmgrObject::Node(name) => {
                self.is_node(name, command)?;
                let (own, others) = split_edits(command);
                let marks = own
                    .iter()
                    .map(|edit| mark(command.verb, edit))
                    .collect::<Result<Vec<_>, _>>()?;
                // A node exists once its noded connects. `create node` only sets the address of the
                // noded.
                let verb = if command.verb == Verb::Create {
                    Verb::Set
                } else {
                    command.verb
                };
                self.change_configuration(&QmgrCommand {
                    edits: others,
                    verb,
                    ..command.clone()
                })?;
                for (offline, comment) in marks {
                    self.mark_node(name, offline, comment)?;
                }
                if command.verb == Verb::Delete {
                    self.server.forget_node(name);
                }
                None
            }
            _ => {
                let (reported_edits, others) = split_edits(command);
                let others = QmgrCommand {
                    edits: others,
                    ..command.clone()
                };
                let mut next = None;
                if reported_edits.is_empty() || !others.edits.is_empty() || !is_change(command.verb)
                {
                    self.must_be_unused(&command.target, &others)?;
                    next = self.next_setup(&others)?;
                }
                let setup = next.as_ref().unwrap_or(&self.server.setup);
                let reported = self.reported_amounts(setup, command, &reported_edits)?;
                if let Some(next) = next {
                    self.server.reconfigure(next).map_err(Refusal::spool)?;
                }
                if let Some((name, count)) = reported {
                    self.server.set_reported(name, count);
                }
                ineffective_settings(&others)
                    .or_else(|| self.dangling_destination(&others))
                    .or_else(|| self.unused_priority(&others))
            }
        };
        let line = format!(
            "qmgr {} at request of {}",
            command_text(command),
            self.caller.shown()
        );
        self.server.log(Some(LogLine::info(line)));
        Ok(note.map_or(Granted::Done, Granted::Noted))
    }

    /// Refuses callers without the rights for a command. Managers may change everything except
    /// hooks, the mail program and the addresses of nodeds. Operators may only start, stop, enable
    /// and disable queues, set node states and comments, and report amounts of resources.
    fn check_rights(&self, command: &QmgrCommand) -> Result<(), Refusal> {
        if matches!(command.target, QmgrObject::Hook(_)) {
            return self.may_change_hooks();
        }
        self.caller.must_be_privileged()?;
        // These settings name a program that schedd runs, and the noded that receives job scripts.
        // Therefore only root and schedd's user may change these settings.
        let of_schedd = ["mailer", SOCKET];
        for edit in &command.edits {
            if edit.changes_one_of(&of_schedd) && !self.caller.is_ourselves() {
                return Err(Refusal::read_only(&edit.key.to_string()));
            }
        }
        if self.caller.manager {
            return Ok(());
        }
        let open: &[&str] = match &command.target {
            QmgrObject::Queue(_) => &["enabled", "started"],
            QmgrObject::Node(_) => &OF_NODE,
            QmgrObject::Resource(_) => &OF_RESOURCE,
            _ => &[],
        };
        if matches!(command.verb, Verb::Create | Verb::Delete) {
            return Err(Refusal::unauthorized());
        }
        let mut edits = command.edits.iter();
        match edits.find(|edit| !edit.changes_one_of(open)) {
            Some(edit) => Err(Refusal::read_only(&edit.key.to_string())),
            None => Ok(()),
        }
    }

    /// Hooks run as schedd's user, so only root and this user may change hooks.
    fn may_change_hooks(&self) -> Result<(), Refusal> {
        if self.caller.is_ourselves() {
            Ok(())
        } else {
            Err(Refusal::not_for_hooks(
                &self.caller.shown(),
                &self.server.setup.name,
            ))
        }
    }

    /// Refuses to import a program for an unknown hook, or on request of a user other than root and
    /// schedd's user.
    pub(crate) fn may_import_hook(&self, name: &str) -> Result<(), Refusal> {
        self.may_change_hooks()?;
        let hooks = &self.server.setup.config.hooks;
        if hooks.iter().any(|hook| hook.name == name) {
            Ok(())
        } else {
            Err(Refusal::no_hook(name))
        }
    }

    /// The total and used amounts that an operator or a site script reports for a system-wide
    /// resource of `setup` (Q21), with the name of the resource. None if the command reports no
    /// amount. The inner None removes the report.
    fn reported_amounts<'c>(
        &self,
        setup: &Setup,
        command: &'c QmgrCommand,
        reported_edits: &[Edit],
    ) -> Result<Option<(&'c str, Option<ReportedCount>)>, Refusal> {
        let QmgrObject::Resource(name) = &command.target else {
            return Ok(None);
        };
        if reported_edits.is_empty() {
            return Ok(None);
        }
        let has_total = setup.config.pools.iter().any(|(pool, _)| pool == name);
        let resource = setup.resources.get(name);
        let kind = resource.ok_or_else(Refusal::no_resource)?.kind;
        if !has_total {
            return Err(Refusal::unsupported(&format!(
                "{name}: the attributes total and used can be set only for a system-wide resource \
                 with a configured total"
            )));
        }
        let known = self.server.reported(name);
        let mut total = known.and_then(|reported| reported.total);
        let mut used = known.map(|reported| reported.elsewhere);
        for edit in reported_edits {
            let amount = amount_of(command.verb, edit, kind)?;
            if edit.key.attribute.eq_ignore_ascii_case("total") {
                total = amount
            } else {
                used = amount
            }
        }
        let (at, by) = (self.server.now, self.caller.shown());
        let is_reported = total.is_some() || used.is_some();
        let reported = is_reported.then(|| ReportedCount {
            total,
            elsewhere: used.unwrap_or(0),
            at,
            by,
        });
        Ok(Some((name, reported)))
    }

    fn change_configuration(&mut self, command: &QmgrCommand) -> Result<(), Refusal> {
        match self.next_setup(command)? {
            Some(next) => self.server.reconfigure(next).map_err(Refusal::spool),
            None => Ok(()),
        }
    }

    /// The setup after a command; None if the command changes no setting.
    fn next_setup(&self, command: &QmgrCommand) -> Result<Option<Setup>, Refusal> {
        if command.edits.is_empty() && is_change(command.verb) {
            return Ok(None);
        }
        let setup = &self.server.setup;
        let overrides = setup.overrides.with(command, &setup.file)?;
        let mut grantees = setup.grantees.clone();
        grantees.release(&granted_names(command));
        let next = setup
            .clone()
            .with_grantees(grantees)
            .with_overrides(Arc::new(overrides));
        Ok(Some(next))
    }

    /// The warning if a deleted queue is still a destination of another queue.
    fn dangling_destination(&self, command: &QmgrCommand) -> Option<String> {
        let QmgrObject::Queue(gone) = &command.target else {
            return None;
        };
        if command.verb != Verb::Delete {
            return None;
        }
        let mut queues = self.server.setup.queues.iter();
        let from = queues.find(|queue| {
            let mut routes = queue.route.iter();
            routes.any(|route| route.destinations.contains(gone))
        })?;
        let from = &from.name;
        let remedy = format!("qmgr -c 'set queue {from} route_destinations -= {gone}'");
        Some(format!(
            "warning: the deleted queue {gone} is still a destination of queue {from}: run {remedy}"
        ))
    }

    fn is_node(&self, name: &str, command: &QmgrCommand) -> Result<(), Refusal> {
        let configured = self
            .server
            .setup
            .config
            .nodes
            .iter()
            .find(|node| node.name == name);
        let has_socket = configured.is_some_and(|node| node.socket.is_some());
        let is_known = self.server.node(name).is_some();
        if !is_known && !split_edits(command).0.is_empty() {
            return Err(Refusal::unknown_node());
        }
        let is_there = is_known || has_socket;
        match command.verb {
            Verb::Create if is_there => Err(Refusal::node_exists()),
            // The node itself exists once its noded connects.
            Verb::Create if sets_socket(command) => Ok(()),
            Verb::Create => Err(Refusal::unknown_node()),
            Verb::Delete if is_there => self.must_be_free(name),
            _ if is_there => Ok(()),
            _ => Err(Refusal::unknown_node()),
        }
    }

    /// Refuses to delete a node while a job or reservation holds resources of it, the configuration
    /// file lists it, or its noded is connected. In the last two cases the node would return.
    fn must_be_free(&self, name: &str) -> Result<(), Refusal> {
        let runs = self.server.holders().filter_map(|job| job.life.open_run());
        let mut held = runs.flat_map(|run| run.shares.iter().chain(run.lingering()));
        let windows = self.server.reservations().filter(|made| !made.is_over());
        let mut reserved = windows.flat_map(|made| &made.occurrence().shares);
        if held.any(|share| share.node == name) || reserved.any(|share| share.node == name) {
            return Err(Refusal::busy());
        }
        let setup = &self.server.setup;
        if let Some(line) = line_of_node(setup, name) {
            let place = format!("line {line} of {}", setup.installation.config.display());
            return Err(Refusal::busy().because(&format!(
                "node {name} is defined at {place}; remove this [[node]] section and reload the \
                 file (SIGHUP to schedd)"
            )));
        }
        if self.server.node(name).is_some_and(|node| node.up) {
            Err(Refusal::busy().because(
                "the noded of the node is connected; stop this noded first (systemctl stop noded \
                 on the node's host)",
            ))
        } else {
            Ok(())
        }
    }

    /// Refuses to delete a queue with jobs, to create a queue with the name of a reservation's
    /// queue, and to delete or change a resource that jobs or the configuration use.
    fn must_be_unused(&self, target: &QmgrObject, command: &QmgrCommand) -> Result<(), Refusal> {
        let is_needed = match (target, command.verb) {
            (QmgrObject::Queue(name), Verb::Create)
                if self.server.reservation_queue(name).is_some() =>
            {
                return Err(Refusal::queue_exists());
            }
            (QmgrObject::Queue(name), Verb::Delete) => has_jobs(self.server, name),
            (QmgrObject::Resource(name), Verb::Delete | Verb::Set | Verb::Unset)
                if self.server.setup.config.has_own_resource(name) =>
            {
                self.server.setup.config.mentions(name) || self.server.requester_of(name).is_some()
            }
            _ => false,
        };
        if is_needed {
            Err(Refusal::busy())
        } else {
            Ok(())
        }
    }
}

/// The attribute with the address of a node's noded.
const SOCKET: &str = "socket";

fn sets_socket(command: &QmgrCommand) -> bool {
    command
        .edits
        .iter()
        .any(|edit| edit.key.attribute.eq_ignore_ascii_case(SOCKET))
}

/// The node attributes that are state of the server, not configuration.
const OF_NODE: [&str; 2] = ["state", "comment"];

/// The attributes of a system-wide resource that are state of the server, not configuration.
const OF_RESOURCE: [&str; 2] = ["total", "used"];

fn is_change(verb: Verb) -> bool {
    matches!(verb, Verb::Set | Verb::Unset)
}

/// Splits the edits of a command into edits of the server's state and edits of the configuration.
fn split_edits(command: &QmgrCommand) -> (Vec<Edit>, Vec<Edit>) {
    let own: &[&str] = match &command.target {
        QmgrObject::Node(_) => &OF_NODE,
        QmgrObject::Resource(_) => &OF_RESOURCE,
        _ => &[],
    };
    let edits = command.edits.iter().cloned();
    edits.partition(|edit| edit.changes_one_of(own))
}

/// The amount that an edit sets; None if the edit unsets the amount.
fn amount_of(verb: Verb, edit: &Edit, kind: ResourceType) -> Result<Option<i64>, Refusal> {
    if verb == Verb::Unset {
        return Ok(None);
    }
    let amount = ResourceValue::parse(kind, &edit.value)
        .and_then(|value| value.amount())
        .filter(|amount| *amount >= 0);
    match (verb, edit.op, amount) {
        (Verb::Set, Op::Set, Some(amount)) => Ok(Some(amount)),
        _ => Err(Refusal::illegal_value("")),
    }
}

/// The offline state or the comment that an edit sets for a node.
fn mark(verb: Verb, edit: &Edit) -> Result<(Option<bool>, Option<&str>), Refusal> {
    let is_set = verb == Verb::Set;
    if edit.key.attribute.eq_ignore_ascii_case("comment") {
        Ok((None, Some(if is_set { edit.value.as_str() } else { "" })))
    } else {
        Ok((Some(is_set && is_offline(edit)?), None))
    }
}

/// Whether an edit sets a node offline. Other states than `offline` and `free` are refused.
fn is_offline(edit: &Edit) -> Result<bool, Refusal> {
    match (edit.value.as_str(), edit.op) {
        ("offline", Op::Set | Op::Add) => Ok(true),
        ("offline", Op::Remove) | ("free", Op::Set) => Ok(false),
        _ => Err(Refusal::illegal_value("")),
    }
}

fn has_jobs(server: &ServerState, queue: &str) -> bool {
    server
        .jobs()
        .any(|job| job.spec.queue == queue && job.life.state != JobState::Finished)
}

/// The line of the configuration file that names a node.
fn line_of_node(setup: &Setup, name: &str) -> Option<usize> {
    let all = effective(&setup.file, &setup.text, &QmgrOverrides::default());
    let stated = all.iter().find(|known| {
        (known.section, known.name.as_deref(), &*known.key) == ("node", Some(name), "name")
    });
    match stated?.origin {
        SettingOrigin::Line(line) => Some(line),
        SettingOrigin::Preset | SettingOrigin::Qmgr => None,
    }
}

impl RequestContext<'_> {
    /// The warning if a command sets a queue priority that has no effect.
    fn unused_priority(&self, command: &QmgrCommand) -> Option<String> {
        let QmgrObject::Queue(queue) = &command.target else {
            return None;
        };
        let policy = &self.server.setup.policy;
        if command.verb == Verb::Unset || policy.uses_queue_priority(queue) {
            return None;
        }
        let mut edits = command.edits.iter();
        let is_set = edits.any(|edit| edit.changes_one_of(&["priority"]) && edit.value != "0");
        is_set.then(|| policy.unused_queue_priority(queue))
    }
}

/// The note about settings of a command that are stored and shown but have no effect.
fn ineffective_settings(command: &QmgrCommand) -> Option<String> {
    if command.verb == Verb::Unset {
        return None;
    }
    let names = command.edits.iter().map(|edit| edit.key.attribute.as_str());
    let names: Vec<&str> = names
        .filter(|name| known(&command.target, name).is_some_and(|known| known.is_idle))
        .collect();
    if names.is_empty() {
        return None;
    }
    let names = names.join(", ");
    Some(format!(
        "{names}: stored and shown, without effect in Lanai"
    ))
}

/// A command as text, for the log.
fn command_text(command: &QmgrCommand) -> String {
    let verb = match command.verb {
        Verb::Create => "create",
        Verb::Delete => "delete",
        Verb::Set => "set",
        Verb::Unset => "unset",
    };
    let mut edits = Vec::new();
    for Edit { key, op, value } in &command.edits {
        let op = match op {
            Op::Set => "=",
            Op::Add => "+=",
            Op::Remove => "-=",
        };
        edits.push(if command.verb == Verb::Unset {
            key.to_string()
        } else {
            format!("{key} {op} {value:?}")
        });
    }
    format!("{verb} {} {}", command.target, edits.join(", "))
        .trim_end()
        .to_string()
}
