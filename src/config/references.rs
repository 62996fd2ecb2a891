//! The names in the settings that refer to other objects: queues, accounts, qualities of service,
//! nodes, users, groups and programs. `schedd --check` warns about names of missing objects.

use super::Config;
use crate::config::NO_TOOL;
use crate::model::account::ROOT_NAME;
use crate::model::credentials::NORMAL_QOS;
use crate::model::limit::{LimitScope, Selector};
use crate::model::policy::quality::{JobCriteria, QosGrant};
use std::collections::BTreeSet;
use std::path::Path;

/// The kind of the object that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referent {
    /// A queue.
    Queue,
    /// An account of the fair-share tree.
    Account,
    /// A quality of service.
    Qos,
    /// A node.
    Node,
    /// A user account of the host.
    User,
    /// A group of the host.
    Group,
    /// A program that schedd runs: a path, or a name to look up in `PATH`.
    Program,
    /// A program that noded runs on the nodes: a path, or a name to look up in `PATH`.
    NodeProgram,
}

/// A name that a setting contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The setting, such as `[[limit]]` or `acl_users of queue night`.
    pub place: String,
    /// The kind of the object.
    pub kind: Referent,
    /// The name.
    pub name: String,
}

/// All references in the settings, without duplicates and in order of places.
pub fn references(config: &Config) -> BTreeSet<Reference> {
    let mut found = Found::default();
    found.add_server(config);
    found.add_launch(config);
    found.add_queues(config);
    found.add_qualities(config);
    found.add_accounts(config);
    found.add_reservations(config);
    for limit in config.effective_policy().limits.all.iter() {
        found.add_scope(&limit.scope);
    }
    found.0
}

/// The references to queues, accounts and qualities of service that `config` itself does not
/// define, as sentences.
pub fn undefined(config: &Config) -> Vec<String> {
    let queues = config.queues();
    let (accounts, qualities) = (&config.policy.fair_share.accounts, &config.policy.qualities);
    let is_missing = |reference: &&Reference| {
        let name = reference.name.as_str();
        match reference.kind {
            Referent::Queue => !queues.iter().any(|queue| queue.name == name),
            // Without any account in the file, a job can charge every account.
            Referent::Account => {
                !accounts.is_empty()
                    && name != ROOT_NAME
                    && !accounts.iter().any(|account| account.name == name)
            }
            Referent::Qos => {
                name != NORMAL_QOS && !qualities.all.iter().any(|known| known.name == name)
            }
            _ => false,
        }
    };
    references(config)
        .iter()
        .filter(is_missing)
        .map(|reference| {
            let Reference { place, kind, name } = reference;
            let kind = match kind {
                Referent::Queue => "queue",
                Referent::Account => "account",
                _ => "quality of service",
            };
            format!("{place} names {kind} `{name}`, which does not exist")
        })
        .collect()
}

#[derive(Default)]
struct Found(BTreeSet<Reference>);

impl Found {
    fn add(&mut self, place: &str, kind: Referent, name: &str) {
        if !name.is_empty() && name != "*" {
            self.0.insert(Reference {
                place: place.to_string(),
                kind,
                name: name.to_string(),
            });
        }
    }

    fn add_all(&mut self, place: &str, kind: Referent, names: &[String]) {
        for name in names {
            self.add(place, kind, name);
        }
    }

    fn add_path(&mut self, place: &str, kind: Referent, path: Option<&Path>) {
        if let Some(path) = path {
            self.add(place, kind, &path.to_string_lossy());
        }
    }

    /// Adds the names in an access list of PBS, such as `-ann@head` or `+`.
    fn add_access_list(&mut self, place: &str, kind: Referent, entries: &[String]) {
        for entry in entries {
            let name = entry.strip_prefix(['-', '+']).unwrap_or(entry);
            self.add(place, kind, name.split('@').next().unwrap_or_default());
        }
    }

    fn add_server(&mut self, config: &Config) {
        let server = &config.server;
        let lists = [
            ("operators in [server]", &server.operators),
            ("managers in [server]", &server.managers),
            ("resv_users in [server]", &server.reserving.users),
        ];
        for (place, patterns) in lists {
            for user in patterns.iter().filter_map(|pattern| pattern.account()) {
                self.add(place, Referent::User, user);
            }
        }
        let programs = [
            ("mailer in [server]", &server.mailer),
            ("notify in [server]", &server.notify),
            ("program in [placement]", &config.policy.placement.program),
        ];
        for (place, program) in programs {
            self.add_path(place, Referent::Program, program.as_deref());
        }
        for (resource, meter) in &config.meters {
            let place = format!("the program of [[resource]] {resource}");
            let program = meter.command.first().map(String::as_str);
            self.add(&place, Referent::Program, program.unwrap_or_default());
        }
        for hook in config.hooks.iter().filter(|hook| hook.is_enabled) {
            let on_nodes = hook.occasions.iter().all(|event| event.is_on_nodes());
            let kind = if on_nodes {
                Referent::NodeProgram
            } else {
                Referent::Program
            };
            let program = hook.command.first().map(String::as_str);
            let place = format!("command of [[hook]] {}", hook.name);
            self.add(&place, kind, program.unwrap_or_default());
        }
    }

    fn add_launch(&mut self, config: &Config) {
        let launch = &config.launch;
        let programs = [
            ("prologue in [launch]", &launch.scripts.prologue),
            ("epilogue in [launch]", &launch.scripts.epilogue),
            ("checkpoint in [launch]", &launch.checkpoint.program),
        ];
        for (place, program) in programs {
            self.add_path(place, Referent::NodeProgram, program.as_deref());
        }
        // noded looks for a tool without a path only on hosts with GPUs.
        let tool = Some(launch.gpu_tool.as_path());
        let tool = tool.filter(|tool| tool.is_absolute() && *tool != Path::new(NO_TOOL));
        self.add_path("gpu_tool in [launch]", Referent::NodeProgram, tool);
    }

    fn add_queues(&mut self, config: &Config) {
        for queue in config.queues() {
            let name = &queue.name;
            if let Some(route) = &queue.route {
                let place = format!("route_destinations of queue {name}");
                self.add_all(&place, Referent::Queue, &route.destinations);
            }
            let access = &queue.access;
            let users = format!("acl_users of queue {name}");
            self.add_access_list(&users, Referent::User, &access.users);
            let groups = format!("acl_groups of queue {name}");
            self.add_access_list(&groups, Referent::Group, &access.groups);
        }
    }

    fn add_qualities(&mut self, config: &Config) {
        // The built-in qualities of service name no object.
        for quality in &config.policy.qualities.all {
            let place = format!("[[qos]] {}", quality.name);
            self.add_criteria(&place, &quality.default_for);
            if let QosGrant::Listed(criteria) = &quality.grant {
                self.add_criteria(&place, criteria);
            }
        }
    }

    fn add_criteria(&mut self, place: &str, criteria: &JobCriteria) {
        self.add_all(place, Referent::User, &criteria.users);
        self.add_all(place, Referent::Group, &criteria.groups);
        self.add_all(place, Referent::Account, &criteria.accounts);
        self.add_all(place, Referent::Queue, &criteria.queues);
    }

    fn add_accounts(&mut self, config: &Config) {
        for account in &config.policy.fair_share.accounts {
            let place = format!("users of [[account]] {}", account.name);
            for (user, _) in account.users.iter().flatten() {
                self.add(&place, Referent::User, user);
            }
        }
    }

    fn add_reservations(&mut self, config: &Config) {
        for reservation in &config.reservations {
            let place = format!("[[reservation]] {}", reservation.name);
            let access = &reservation.access;
            self.add_all(&place, Referent::Node, &reservation.nodes);
            self.add_all(&place, Referent::User, &access.users);
            self.add_all(&place, Referent::Group, &reservation.groups);
            self.add_all(&place, Referent::Account, &access.accounts);
            self.add_all(&place, Referent::Queue, &access.queues);
            self.add_all(&place, Referent::Qos, &access.qos);
        }
    }

    fn add_scope(&mut self, scope: &LimitScope) {
        let selectors = [
            (&scope.queue, Referent::Queue),
            (&scope.user, Referent::User),
            (&scope.group, Referent::Group),
            (&scope.account, Referent::Account),
            (&scope.qos, Referent::Qos),
        ];
        for (selector, kind) in selectors {
            if let Selector::Named(name) = selector {
                self.add("[[limit]]", kind, name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undefined_in(text: &str) -> Vec<String> {
        undefined(&Config::parse(text).unwrap())
    }

    #[test]
    fn names_of_undefined_queues_accounts_and_qualities_are_reported() {
        let text = "
            [[queue]]
            name = \"night\"
            [[account]]
            name = \"physics\"
            [[limit]]
            queue = \"nosuch\"
            running = { jobs = 4, ncpus = 8 }
            [[limit]]
            queue = \"night\"
            account = \"chemistry\"
            qos = \"fast\"
            running = { jobs = 4 }
            [[reservation]]
            name = \"office\"
            nodes = [\"n1\"]
            queues = [\"*\", \"day\"]
            accounts = [\"physics\"]
        ";
        let expected = [
            "[[limit]] names queue `nosuch`, which does not exist",
            "[[limit]] names account `chemistry`, which does not exist",
            "[[limit]] names quality of service `fast`, which does not exist",
            "[[reservation]] office names queue `day`, which does not exist",
        ];
        assert_eq!(undefined_in(text), expected);
    }

    #[test]
    fn names_are_valid_without_accounts_and_in_every_preset() {
        let limit = "[[limit]]\naccount = \"any\"\nqueue = \"*\"\nrunning = { jobs = 1 }\n";
        assert_eq!(undefined_in(limit), [""; 0]);
        for (name, _) in crate::model::policy::Preset::ALL {
            assert_eq!(undefined_in(&format!("preset = \"{name}\"\n")), [""; 0]);
        }
    }

    #[test]
    fn references_to_users_nodes_and_programs_are_found() {
        let text = "
            [server]
            operators = [\"ann@head\", \"*@head\"]
            mailer = \"/usr/sbin/sendmail\"
            [launch]
            prologue = \"/etc/lanai/prologue\"
            gpu_tool = \"none\"
            [[queue]]
            name = \"night\"
            acl_users = [\"-bob@head\", \"+\"]
            [[account]]
            name = \"physics\"
            users = { carl = 2 }
        ";
        let found = references(&Config::parse(text).unwrap());
        let found: Vec<(&str, Referent, &str)> = found
            .iter()
            .map(|Reference { place, kind, name }| (place.as_str(), *kind, name.as_str()))
            .collect();
        let expected = [
            ("acl_users of queue night", Referent::User, "bob"),
            (
                "mailer in [server]",
                Referent::Program,
                "/usr/sbin/sendmail",
            ),
            ("operators in [server]", Referent::User, "ann"),
            (
                "prologue in [launch]",
                Referent::NodeProgram,
                "/etc/lanai/prologue",
            ),
            ("users of [[account]] physics", Referent::User, "carl"),
        ];
        assert_eq!(found, expected);
    }
}
