//! What the configuration comes to: names, resources, policy, who may do what.

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
    /// Whether it serves many users even if the configuration does not say so.
    pub system: bool,
    /// Whether it runs within a job of another instance.
    pub nested: bool,
    /// The configuration file.
    pub config: PathBuf,
    /// The usual program that sends mail, if it is installed.
    pub mailer: Option<PathBuf>,
    /// Users and groups.
    pub accounts: Arc<dyn Accounts>,
}

/// The configuration, resolved.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine and the installation.
    pub installation: Installation,
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
    pub overrides: Arc<QmgrOverrides>,
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
    /// A configuration without changes by `qmgr`, and the text it was read from.
    pub fn new(installation: Installation, text: Arc<str>, file: Arc<Config>) -> Setup {
        Setup::of(installation, text, file, Arc::default(), BTreeMap::new())
    }

    /// The same configuration with these changes by `qmgr`.
    pub fn with_overrides(&self, overrides: Arc<QmgrOverrides>) -> Setup {
        let mut setup = Setup::of(
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

    /// The same with these accounts as managers and operators.
    pub fn granted_to(self, grantees: Grantees) -> Setup {
        Setup { grantees, ..self }
    }

    fn of(
        installation: Installation,
        text: Arc<str>,
        file: Arc<Config>,
        overrides: Arc<QmgrOverrides>,
        groups: BTreeMap<String, u32>,
    ) -> Setup {
        let (config, misfits) = file.with_overrides(&overrides);
        let host = installation.host.clone();
        let mut policy = config.effective_policy();
        // A group without a number is looked up again each time.
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
        let objects = described(&self.config, &self.overrides);
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
            has_scores: self.policy.precedence.order != PriorityOrder::Fcfs,
        }
    }

    /// What a node reports of itself, with the values that the configuration sets for it.
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

/// The configured program, or the usual one. An empty path means no mail.
fn mailer(server: &ServerConfig, installation: &Installation) -> Option<PathBuf> {
    match &server.mailer {
        Some(path) => Some(path.clone()).filter(|path| !path.as_os_str().is_empty()),
        None => installation.mailer.clone(),
    }
}
