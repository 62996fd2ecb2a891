//! What the configuration comes to: names, resources, policy, who may do what.

use super::grantees::Grantees;
use crate::config::overrides::description::described;
use crate::config::overrides::{Conflict, QmgrOverrides};
use crate::config::{Config, ServerConfig};
use crate::model::policy::{Order, Policy};
use crate::model::queue::Queue;
use crate::model::resource::Resources;
use crate::model::time::{ClockTable, Span, Time};
use crate::sys::home::Home;
use crate::sys::{record, user};
use crate::update::Update;
use crate::wire::message::ServerFacts;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

/// Where mailers usually are.
const MAILER: &str = "/usr/sbin/sendmail";

/// The mailer named, unless by an empty path, else the usual one if there is one.
fn mailer(server: &ServerConfig) -> Option<PathBuf> {
    match &server.mailer {
        Some(path) => Some(path.clone()).filter(|path| !path.as_os_str().is_empty()),
        None => Some(PathBuf::from(MAILER)).filter(|path| path.exists()),
    }
}

/// What `lanai.toml` says; nothing, if there is none.
pub fn text(home: &Home) -> Result<String> {
    match std::fs::read_to_string(&home.config) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| home.config.display().to_string()),
    }
}

/// The number of a group that is known, or is looked up. One that is not there is looked up anew
/// each time.
fn number(known: &RefCell<BTreeMap<String, u32>>, name: &str) -> Option<u32> {
    let number = known
        .borrow()
        .get(name)
        .copied()
        .or_else(|| user::group_number(name))?;
    known.borrow_mut().insert(name.to_string(), number);
    Some(number)
}

/// The configuration, resolved.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the installation lives.
    pub home: Home,
    /// The name after the dot of every job id.
    pub name: String,
    /// This host.
    pub host: String,
    /// Many users: jobs run as their owners, root's not at all.
    pub shared: bool,
    /// All resources known.
    pub resources: Resources,
    /// What the cycle goes by.
    pub policy: Policy,
    /// All queues.
    pub queues: Vec<Queue>,
    /// The program that sends mail; None for no mail.
    pub mailer: Option<PathBuf>,
    /// In whose name mail is sent.
    pub mail_from: String,
    /// What holds: `lanai.toml`, and what `qmgr` has said above it.
    pub config: Config,
    /// The text of `lanai.toml`.
    pub text: Arc<str>,
    /// As written there.
    pub file: Arc<Config>,
    /// What `qmgr` has said.
    pub amendments: Arc<QmgrOverrides>,
    /// What of that does not fit the file as it is now, and has no effect.
    pub misfits: Vec<Conflict>,
    /// The numbers of the groups that limits and priorities name, as they were when the file was
    /// read: to ask for them anew at each command of `qmgr` could keep schedd waiting for a
    /// directory of users.
    groups: BTreeMap<String, u32>,
    /// The accounts that managers and operators are.
    pub grantees: Grantees,
}

impl Setup {
    /// Reads `lanai.toml`; a missing one is an empty one. `qmgr` has said nothing yet.
    pub fn read(home: Home) -> Result<Setup> {
        let text = text(&home)?;
        let file = Config::parse(&text).with_context(|| home.config.display().to_string())?;
        Ok(Setup::of(
            home,
            text.into(),
            Arc::new(file),
            Arc::default(),
            BTreeMap::new(),
        ))
    }

    /// The same file with what `qmgr` has said.
    pub fn with_overrides(&self, amendments: Arc<QmgrOverrides>) -> Setup {
        let groups = self.groups.clone();
        let mut setup = Setup::of(
            self.home.clone(),
            self.text.clone(),
            self.file.clone(),
            amendments,
            groups,
        );
        setup.grantees = self.grantees.clone();
        setup.grantees.follow(&setup.config.server);
        setup
    }

    /// The same with these accounts as managers and operators.
    pub fn granted_to(self, grantees: Grantees) -> Setup {
        Setup { grantees, ..self }
    }

    fn of(
        home: Home,
        text: Arc<str>,
        file: Arc<Config>,
        amendments: Arc<QmgrOverrides>,
        groups: BTreeMap<String, u32>,
    ) -> Setup {
        let (config, misfits) = file.with_overrides(&amendments);
        let host = record::host();
        let mut policy = config.policy();
        let groups = RefCell::new(groups);
        policy
            .precedence
            .components
            .number_groups(|name| number(&groups, name));
        policy.limits.number_groups(|name| number(&groups, name));
        Setup {
            name: config.server.name.clone().unwrap_or_else(|| host.clone()),
            host,
            shared: home.system || config.server.shared,
            resources: config.resources(),
            policy,
            queues: config.queues(),
            mailer: mailer(&config.server),
            mail_from: config
                .server
                .mail_from
                .clone()
                .unwrap_or_else(|| user::own().name),
            home,
            config,
            text,
            file,
            amendments,
            misfits,
            groups: groups.into_inner(),
            grantees: Grantees::default(),
        }
    }

    /// Whether jobs could be decided otherwise than by another one.
    pub fn decides_otherwise(&self, other: &Setup) -> bool {
        self.policy != other.policy
            || self.config.without_remarks() != other.config.without_remarks()
    }

    /// The nodes that have places of their own in the order of the nodes.
    pub fn listed(&self) -> Vec<String> {
        let listed = self.config.nodes.iter().filter(|node| node.is_listed);
        listed.map(|node| node.name.clone()).collect()
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// What readers of the spool are told of the installation.
    pub fn facts_on_disk(&self) -> serde_json::Result<[Update; 3]> {
        let objects = described(&self.config, &self.amendments);
        Ok([
            Update::Meta("server", serde_json::to_string(&self.facts())?),
            Update::Meta(ServerFacts::OBJECTS, serde_json::to_string(&objects)?),
            Update::Meta(Grantees::KEY, serde_json::to_string(&self.grantees)?),
        ])
    }

    /// What every display needs to know; the spool keeps it for those who read it directly.
    pub fn facts(&self) -> ServerFacts {
        let names =
            |people: &[crate::config::Person]| people.iter().map(ToString::to_string).collect();
        ServerFacts {
            name: self.name.clone(),
            host: self.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            default_queue: Some(self.config.server.default_queue.clone()),
            comment: self.config.comment().cloned(),
            default_qsub_arguments: self.config.server.default_qsub_arguments.clone(),
            query_other_jobs: self.config.server.query_other_jobs,
            clock: ClockTable::default(),
            now: Time::default(),
            resources: self.resources.clone(),
            managers: names(&self.config.server.managers),
            operators: names(&self.config.server.operators),
            privileged: false,
            history: self.config.server.history > Span(0),
            scheduling: self.config.cycle.scheduling,
            fair_shares: Vec::new(),
            has_scores: self.policy.precedence.order != Order::Fcfs,
        }
    }
}
