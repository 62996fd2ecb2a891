//! The resolved configuration: `lanai.toml`, the changes of `qmgr`, and all that derives from them.

use crate::config::Config;
use crate::config::ServerConfig;
use crate::config::overrides::QmgrOverrides;
use crate::config::overrides::apply::Conflict;
use crate::config::overrides::description::described;
use crate::model::job::Owner;
use crate::model::node::NodeFacts;
use crate::model::policy::Policy;
use crate::model::policy::PriorityOrder;
use crate::model::queue::Queue;
use crate::model::resource::ResourceValue;
use crate::model::resource::Resources;
use crate::model::time::ClockTable;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::server::grantees::Grantees;
use crate::server::outside::Accounts;
use crate::update::Update;
use crate::wire::message::ServerFacts;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The facts about the machine and the installation that requests depend on.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The short name of this host.
    pub host: String,
    /// The account that the server runs as.
    pub own: Owner,
    /// Whether the server serves several users even if the configuration does not set `shared`.
    pub system: bool,
    /// Whether the server runs inside a job of another Lanai server.
    pub nested: bool,
    /// The configuration file.
    pub config: PathBuf,
    /// The default mail program, if installed.
    pub mailer: Option<PathBuf>,
    /// Lookup of users, groups and time zones.
    pub accounts: Arc<dyn Accounts>,
}

/// The resolved configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine and the installation.
    pub installation: Installation,
    /// Server name: the part of a job id after the dot.
    pub name: String,
    /// The short name of this host.
    pub host: String,
    /// Whether the server serves several users: jobs run as their owners, and root and system
    /// accounts may not submit.
    pub shared: bool,
    /// All resource definitions.
    pub resources: Resources,
    /// The scheduling policy.
    pub policy: Policy,
    /// All queues.
    pub queues: Vec<Queue>,
    /// The program that sends mail; None for no mail.
    pub mailer: Option<PathBuf>,
    /// The sender of mail.
    pub mail_from: String,
    /// The current settings: `lanai.toml` with the overrides of `qmgr`.
    pub config: Config,
    /// The text of `lanai.toml`.
    pub text: Arc<str>,
    /// `lanai.toml`, parsed.
    pub file: Arc<Config>,
    /// The overrides of `qmgr`.
    pub overrides: Arc<QmgrOverrides>,
    /// Overrides that conflict with the current file and have no effect.
    pub conflicts: Vec<Conflict>,
    /// Gids of the groups that limits and priorities name. A gid that has been found is kept until
    /// the file is read again, because repeating all lookups for each `qmgr` command could block
    /// schedd.
    groups: BTreeMap<String, u32>,
    /// The accounts of managers and operators.
    pub grantees: Grantees,
}

impl Setup {
    /// Resolves a parsed configuration file, without overrides of `qmgr`. `text` is the file's
    /// text.
    pub fn new(installation: Installation, text: Arc<str>, file: Arc<Config>) -> Setup {
        Setup::resolve(installation, text, file, Arc::default(), BTreeMap::new())
    }

    /// The same configuration file with other overrides of `qmgr`.
    pub fn with_overrides(&self, overrides: Arc<QmgrOverrides>) -> Setup {
        let mut setup = Setup::resolve(
            self.installation.clone(),
            self.text.clone(),
            self.file.clone(),
            overrides,
            self.groups.clone(),
        );
        setup.grantees = self.grantees.clone();
        setup
            .grantees
            .follow(&setup.config.server, &*setup.installation.accounts);
        setup
    }

    /// The same configuration with other accounts as managers and operators.
    pub fn with_grantees(self, grantees: Grantees) -> Setup {
        Setup { grantees, ..self }
    }

    fn resolve(
        installation: Installation,
        text: Arc<str>,
        file: Arc<Config>,
        overrides: Arc<QmgrOverrides>,
        groups: BTreeMap<String, u32>,
    ) -> Setup {
        let (config, conflicts) = file.with_overrides(&overrides);
        let host = installation.host.clone();
        let mut policy = config.effective_policy();
        // Only groups with an unknown gid are looked up.
        let groups = RefCell::new(groups);
        let number = |name: &str| {
            let known = groups.borrow().get(name).copied();
            let number = known.or_else(|| installation.accounts.group_number(name))?;
            groups.borrow_mut().insert(name.to_string(), number);
            Some(number)
        };
        policy.precedence.components.number_groups(number);
        policy.limits.number_groups(number);
        Setup {
            name: config.server.name.clone().unwrap_or_else(|| host.clone()),
            host,
            shared: installation.system || config.server.shared,
            resources: config.resources(),
            policy,
            queues: config.queues(),
            mailer: mailer(&config.server, &installation),
            mail_from: config
                .server
                .mail_from
                .clone()
                .unwrap_or_else(|| installation.own.user.clone()),
            installation,
            config,
            text,
            file,
            overrides,
            conflicts,
            groups: groups.into_inner(),
            grantees: Grantees::default(),
        }
    }

    /// Whether scheduling decisions could differ from those under `other`.
    pub fn decides_otherwise(&self, other: &Setup) -> bool {
        self.policy != other.policy
            || self.config.without_comments() != other.config.without_comments()
    }

    /// The nodes that the configuration lists, in the order of the file.
    pub fn listed(&self) -> Vec<String> {
        let listed = self.config.nodes.iter().filter(|node| node.is_listed);
        listed.map(|node| node.name.clone()).collect()
    }

    /// The configured queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The facts about the installation that `qstat` and other readers of the spool need.
    pub fn facts_on_disk(&self) -> serde_json::Result<[Update; 3]> {
        let objects = described(&self.config, &self.overrides);
        Ok([
            Update::Meta("server", serde_json::to_string(&self.facts())?),
            Update::Meta(ServerFacts::OBJECTS, serde_json::to_string(&objects)?),
            Update::Meta(Grantees::KEY, serde_json::to_string(&self.grantees)?),
        ])
    }

    /// The facts that displays need. The times, the fair shares and the caller's privilege are
    /// placeholders.
    pub fn facts(&self) -> ServerFacts {
        let names = |people: &[crate::config::UserPattern]| {
            people.iter().map(ToString::to_string).collect()
        };
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
            has_scores: self.policy.precedence.order != PriorityOrder::Fcfs,
        }
    }

    /// The facts that a node reported, with the values that the configuration sets for the node.
    pub fn configured_facts(&self, reported: &NodeFacts) -> NodeFacts {
        let mut facts = reported.clone();
        let nodes = &self.config.nodes;
        if let Some(config) = nodes.iter().find(|node| node.name == facts.name) {
            let gpus = config.gpus(&facts.gpus);
            if gpus != facts.gpus {
                let count = ResourceValue::Long(gpus.len() as i64);
                facts.available.insert("ngpus".to_string(), count);
            }
            facts.gpus = gpus;
            facts.terms = config.terms.clone();
            facts.available.extend(config.available.clone());
        }
        let gpus = &facts.gpus;
        facts.gpus_outside.retain(|number| gpus.contains(number));
        facts
    }
}

/// The configured mail program, or else the default one. An empty configured path means no mail.
fn mailer(server: &ServerConfig, installation: &Installation) -> Option<PathBuf> {
    match &server.mailer {
        Some(path) => Some(path.clone()).filter(|path| !path.as_os_str().is_empty()),
        None => installation.mailer.clone(),
    }
}
