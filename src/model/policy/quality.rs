//! Qualities of service (F4): factors, permissions, flags and charges.

mod flag;

use crate::model::credentials::NORMAL_QOS;
use crate::model::limit::Limit;
use crate::model::limit::LimitScope;
use crate::model::limit::LimitStage;
use crate::model::limit::Limits;
use crate::model::limit::Quantity;
use crate::model::limit::Selector;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
pub use flag::Flag;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// `[[qos]]`: a quality of service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Name, as given by jobs.
    pub name: String,
    /// Priority factor, from 0 to 1.
    pub factor: f64,
    /// Users who may request the quality, besides operators and managers.
    pub grant: QosGrant,
    /// True if jobs are exempt from the minimum and maximum requests of queues.
    pub exempt: bool,
    /// Priority of jobs with this quality in the credential component (M14).
    pub priority: i64,
    /// Special treatment of the jobs.
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// Jobs that get the quality by default.
    #[serde(default)]
    pub default_for: JobCriteria,
    /// Factor applied to the jobs' usage when it is charged, at least 0 (X24).
    #[serde(default = "whole")]
    pub charge: f64,
}

fn whole() -> f64 {
    1.0
}

/// Users who may request a quality of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QosGrant {
    /// All users.
    All,
    /// Owners of jobs that match a list; no users if all lists are empty.
    Listed(JobCriteria),
}

/// Lists of users, groups, accounts and queues. A job matches if one of the lists contains the
/// job's user, group, account or queue. `*` stands for all names. A job without an account matches
/// no list of accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCriteria {
    /// User names.
    pub users: Vec<String>,
    /// Names of groups. [`QosRequester::is_member`] compares them with the groups of the owner.
    pub groups: Vec<String>,
    /// Accounts (`-A`).
    pub accounts: Vec<String>,
    /// Queues.
    pub queues: Vec<String>,
}

impl JobCriteria {
    fn includes(&self, asker: &QosRequester) -> bool {
        includes(&self.users, asker.user)
            || asker
                .account
                .is_some_and(|account| includes(&self.accounts, account))
            || includes(&self.queues, asker.queue)
            || self
                .groups
                .iter()
                .any(|group| group == "*" || (asker.is_member)(group))
    }
}

fn includes(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == name || listed == "*")
}

/// Requester of a quality of service.
#[derive(Clone, Copy)]
pub struct QosRequester<'a> {
    /// Owner of the job.
    pub user: &'a str,
    /// Account of the job.
    pub account: Option<&'a str>,
    /// Queue of the job.
    pub queue: &'a str,
    /// True if the requester is an operator or a manager.
    pub privileged: bool,
    /// Tests whether the named group is a group of the owner. For the default quality, only the
    /// owner's primary group counts.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

/// Configured qualities of service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Qualities {
    /// Qualities in configuration order, without duplicates.
    pub all: Vec<Quality>,
    /// True if unknown names are refused; otherwise they act as `normal`.
    pub closed: bool,
}

/// Qualities of an installation that configures none. Unknown names act as `normal`.
impl Default for Qualities {
    fn default() -> Qualities {
        let all = vec![
            Quality {
                grant: QosGrant::Listed(JobCriteria::default()),
                ..Quality::new("expedite", 1.0)
            },
            Quality::new(Qualities::NORMAL, Qualities::NORMAL_FACTOR),
            Quality {
                exempt: true,
                ..Quality::new("standby", 0.0)
            },
        ];
        Qualities { all, closed: false }
    }
}

impl Quality {
    /// Creates a quality for all users with default settings.
    pub fn new(name: &str, factor: f64) -> Quality {
        let (flags, default_for) = Default::default();
        Quality {
            name: name.into(),
            factor,
            grant: QosGrant::All,
            exempt: false,
            priority: 0,
            flags,
            default_for,
            charge: 1.0,
        }
    }
}

impl Qualities {
    /// Returns the limits, followed by the exemptions that flags of the qualities grant (M27).
    pub fn with_exemptions(&self, limits: &Limits) -> Limits {
        let counted = limits
            .all
            .iter()
            .map(|limit| (limit.stage, &limit.quantity));
        let counted: BTreeSet<(LimitStage, &Quantity)> = counted.collect();
        let mut all = limits.all.clone();
        for quality in &self.all {
            for &(stage, quantity) in &counted {
                if quality.flags.iter().any(|flag| flag.ignores(quantity)) {
                    let scope = LimitScope {
                        qos: Selector::Named(quality.name.clone()),
                        ..LimitScope::default()
                    };
                    all.push(Limit {
                        scope,
                        stage,
                        quantity: quantity.clone(),
                        soft: None,
                        hard: None,
                        overrides: true,
                    });
                }
            }
        }
        Limits {
            all,
            ..limits.clone()
        }
    }

    /// Name of the quality of a job that requests no quality.
    pub const NORMAL: &str = NORMAL_QOS;

    /// Default factor of `normal`.
    pub const NORMAL_FACTOR: f64 = 0.5;

    /// Creates a closed set of these qualities, adding `normal` if it is missing.
    pub fn only(all: Vec<Quality>) -> Qualities {
        let mut all = all;
        if !all.iter().any(|quality| quality.name == Qualities::NORMAL) {
            all.extend(
                Qualities::default()
                    .all
                    .into_iter()
                    .filter(|quality| quality.name == Qualities::NORMAL),
            );
        }
        Qualities { all, closed: true }
    }

    /// Returns the quality with this name.
    pub fn find(&self, name: &str) -> Option<&Quality> {
        self.all.iter().find(|quality| quality.name == name)
    }

    /// Returns the factors by name of the quality.
    pub fn factors(&self) -> BTreeMap<String, f64> {
        self.all
            .iter()
            .map(|quality| (quality.name.clone(), quality.factor))
            .collect()
    }

    /// Tests whether jobs of a quality (None for `normal`) are exempt from the minimum and maximum
    /// requests of queues.
    pub fn is_exempt(&self, name: Option<&str>) -> bool {
        self.find(name.unwrap_or(Qualities::NORMAL))
            .is_some_and(|quality| quality.exempt)
    }

    /// Returns the default quality of a job (M27): the first with a matching `default_for`.
    pub fn default_for(&self, asker: &QosRequester) -> Option<&str> {
        let found = self
            .all
            .iter()
            .find(|quality| quality.default_for.includes(asker));
        found.map(|quality| quality.name.as_str())
    }

    /// Returns the flags of the quality `name`. None stands for `normal`.
    pub fn flags(&self, name: Option<&str>) -> &[Flag] {
        self.find(name.unwrap_or(Qualities::NORMAL))
            .map_or(&[], |quality| &quality.flags)
    }

    /// Returns the fraction of usage that is charged: the product of the fractions of the quality
    /// (None for `normal`) and the queue (I5, X24). For the queue of a reservation, `queue` is
    /// None, because its fraction is 1.
    pub fn charge(&self, name: Option<&str>, queue: Option<&Queue>) -> f64 {
        let quality = self.find(name.unwrap_or(Qualities::NORMAL));
        quality.map_or(1.0, |quality| quality.charge) * queue.map_or(1.0, |queue| queue.charge)
    }

    /// Refuses a quality that the requester may not use, and if the set is closed, an unknown
    /// quality. Accepts None (no quality requested).
    pub fn check(&self, name: Option<&str>, asker: &QosRequester) -> Result<(), Refusal> {
        let Some(name) = name else { return Ok(()) };
        match self.find(name) {
            Some(quality) if asker.privileged || quality.grant.includes(asker) => Ok(()),
            Some(quality) => Err(Refusal::quality_denied(
                name,
                &quality.grant.to_string(),
                &self.open_to(asker),
            )),
            None if self.closed => Err(Refusal::unknown_quality(name, &self.open_to(asker))),
            None => Ok(()),
        }
    }

    /// Returns the names of the qualities that the requester may use.
    fn open_to(&self, asker: &QosRequester) -> String {
        let open = self
            .all
            .iter()
            .filter(|quality| asker.privileged || quality.grant.includes(asker));
        open.map(|quality| quality.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl QosGrant {
    fn includes(&self, asker: &QosRequester) -> bool {
        match self {
            QosGrant::All => true,
            QosGrant::Listed(named) => named.includes(asker),
        }
    }
}

/// Lists the permitted users.
impl std::fmt::Display for QosGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let QosGrant::Listed(named) = self else {
            return f.write_str("all users");
        };
        let JobCriteria {
            users,
            groups,
            accounts,
            queues,
        } = named;
        let lists = [
            ("users", users),
            ("groups", groups),
            ("accounts", accounts),
            ("jobs in queues", queues),
        ];
        for (kind, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{kind} {}, ", names.join(" "))?;
        }
        f.write_str("operators and managers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_as(
        user: &str,
        account: Option<&str>,
    ) -> impl Fn(&Qualities, &str) -> Result<(), String> {
        let (user, account) = (user.to_string(), account.map(str::to_string));
        move |qualities, name| {
            let is_member = |group: &str| user == "gina" && group == "staff";
            let (account, privileged) = (account.as_deref(), user == "root");
            let asker = QosRequester {
                user: &user,
                account,
                queue: "night",
                privileged,
                is_member: &is_member,
            };
            qualities
                .check(Some(name), &asker)
                .map_err(|refusal| refusal.text)
        }
    }

    /// F4.
    #[test]
    fn expedite_is_for_operators_and_managers() {
        let qualities = Qualities::default();
        let refusal = request_as("ann", None)(&qualities, "expedite").unwrap_err();
        assert!(
            refusal.contains("qos_denied") && refusal.contains("operators and managers"),
            "{refusal}"
        );
        assert!(refusal.contains("normal, standby"), "{refusal}");
        for (user, name) in [
            ("root", "expedite"),
            ("ann", "standby"),
            ("ann", "normal"),
            ("ann", "any"),
        ] {
            assert_eq!(
                request_as(user, None)(&qualities, name),
                Ok(()),
                "{user} {name}"
            );
        }
        assert_eq!(
            [Some("standby"), Some("normal"), None, Some("any")]
                .map(|name| qualities.is_exempt(name)),
            [true, false, false, false]
        );
    }

    /// F4.
    #[test]
    fn a_qos_is_available_to_members_of_its_lists() {
        let listed = |users: &[&str], groups: &[&str], accounts: &[&str]| {
            let all = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            QosGrant::Listed(JobCriteria {
                users: all(users),
                groups: all(groups),
                accounts: all(accounts),
                queues: vec![],
            })
        };
        let of = |name: &str, grant| Quality {
            grant,
            ..Quality::new(name, 1.0)
        };
        let qualities = Qualities::only(vec![
            of("high", listed(&["ann"], &["staff"], &["paying"])),
            of("open", listed(&["*"], &[], &[])),
            of("shut", listed(&[], &[], &[])),
        ]);
        for (user, account) in [
            ("ann", None),
            ("gina", None),
            ("bob", Some("paying")),
            ("root", None),
        ] {
            assert_eq!(
                request_as(user, account)(&qualities, "high"),
                Ok(()),
                "{user} {account:?}"
            );
        }
        let refusal = request_as("bob", Some("other"))(&qualities, "high").unwrap_err();
        assert!(
            refusal.contains("users ann, groups staff, accounts paying, operators and managers"),
            "{refusal}"
        );
        assert_eq!(request_as("bob", None)(&qualities, "open"), Ok(()));
        assert!(request_as("bob", None)(&qualities, "shut").is_err());
        let refusal = request_as("bob", None)(&qualities, "nosuch").unwrap_err();
        assert!(
            refusal.contains("`nosuch`")
                && refusal.contains("open, normal")
                && !refusal.contains("shut"),
            "{refusal}"
        );
        assert_eq!(request_as("bob", None)(&qualities, "normal"), Ok(()));
        assert_eq!(qualities.factors()["normal"], 0.5);
        let mut half = Qualities::only(vec![Quality {
            charge: 0.5,
            ..of("low", QosGrant::All)
        }]);
        let queue = |charge| Queue {
            charge,
            ..Queue::named("q")
        };
        let charge = |qos, charge| half.charge(qos, Some(&queue(charge)));
        assert_eq!(
            [
                charge(Some("low"), 0.5),
                charge(None, 0.5),
                charge(Some("low"), 0.0)
            ],
            [0.25, 0.5, 0.0],
            "the fractions of the quality and the queue are multiplied (X24)"
        );
        assert_eq!(
            [
                half.charge(Some("low"), None),
                half.charge(Some("none"), None)
            ],
            [0.5, 1.0]
        );
        half.all[1].charge = 2.0;
        assert_eq!(
            half.charge(None, None),
            2.0,
            "without a request, normal applies"
        );
        let own = Qualities::only(vec![of("high", QosGrant::All), of("normal", QosGrant::All)]);
        assert_eq!(
            (own.all.len(), own.factors()["normal"]),
            (2, 1.0),
            "a site may define normal"
        );
    }

    /// M27: QDEF and QLIST.
    #[test]
    fn a_quality_can_be_the_default_of_a_queue_or_restricted_to_a_queue() {
        let queues = |name: &str| JobCriteria {
            queues: vec![name.to_string()],
            ..JobCriteria::default()
        };
        let night = Quality {
            grant: QosGrant::Listed(queues("night")),
            ..Quality::new("night", 1.0)
        };
        let low = Quality {
            default_for: queues("slow"),
            ..Quality::new("low", 0.1)
        };
        let qualities = Qualities::only(vec![night, low]);
        let asker = |queue| QosRequester {
            user: "ann",
            account: None,
            queue,
            privileged: false,
            is_member: &|_| false,
        };
        assert!(qualities.check(Some("night"), &asker("night")).is_ok());
        let refusal = qualities
            .check(Some("night"), &asker("slow"))
            .unwrap_err()
            .text;
        assert!(refusal.contains("jobs in queues night"), "{refusal}");
        assert_eq!(
            [
                qualities.default_for(&asker("slow")),
                qualities.default_for(&asker("night"))
            ],
            [Some("low"), None]
        );
    }

    #[test]
    fn qualities_of_older_spools_charge_fully_and_have_no_flags() {
        let mut stored = serde_json::to_value(Quality {
            charge: 0.5,
            ..Quality::new("low", 0.1)
        })
        .unwrap();
        let fields = stored.as_object_mut().unwrap();
        ["charge", "flags", "default_for"]
            .iter()
            .for_each(|name| drop(fields.remove(*name).unwrap()));
        assert_eq!(
            serde_json::from_value::<Quality>(stored).unwrap(),
            Quality::new("low", 0.1)
        );
    }
}
