//! Access control of queues: PBS's access lists.

use crate::model::queue::AccessList;
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;

/// User and host that submit a job.
#[derive(Clone, Copy)]
pub struct Visitor<'a> {
    /// Owner of the job.
    pub user: &'a str,
    /// Returns the name of the owner's primary group; the lookup may be slow.
    pub group: &'a dyn Fn() -> String,
    /// Tests whether the owner is a member of the named group; may be slow.
    pub is_member: &'a dyn Fn(&str) -> bool,
    /// Host on which the job was submitted.
    pub host: &'a str,
}

impl AccessList {
    /// Refuses a user, group or host that a list denies; the error names the list.
    pub(super) fn admits(&self, visitor: &Visitor, queue: &str) -> Result<(), Refusal> {
        if self.by_user && !admits(&self.users, |entry| is_user(entry, visitor)) {
            return Err(Refusal::unauthorized().because(&reason("acl_users", queue)));
        }
        if self.by_group {
            let group = (visitor.group)();
            if !admits(&self.groups, |entry| is_name(entry, &group)) {
                return Err(Refusal::unauthorized().because(&reason("acl_groups", queue)));
            }
        }
        if self.by_host && !admits(&self.hosts, |entry| is_host(entry, visitor.host)) {
            return Err(Refusal::host_denied().because(&reason("acl_hosts", queue)));
        }
        Ok(())
    }
}

fn reason(list: &str, queue: &str) -> String {
    format!("the {list} of queue {queue} keeps you out; qstat -Qf {queue} shows it")
}

/// The first matching entry decides; without a match, access is denied.
fn admits(list: &[String], is_meant: impl Fn(&str) -> bool) -> bool {
    let signed = list.iter().map(|entry| match entry.strip_prefix('-') {
        Some(name) => (name, false),
        None => (entry.strip_prefix('+').unwrap_or(entry), true),
    });
    signed
        .into_iter()
        .find(|(entry, _)| is_meant(entry))
        .is_some_and(|(_, lets_in)| lets_in)
}

fn is_user(entry: &str, visitor: &Visitor) -> bool {
    let (user, host) = entry.split_once('@').unwrap_or((entry, "*"));
    is_name(user, visitor.user) && is_host(host, visitor.host)
}

fn is_name(entry: &str, name: &str) -> bool {
    is_everybody(entry) || entry == name
}

/// Matches every name: a sign alone, or `*`.
fn is_everybody(entry: &str) -> bool {
    entry.is_empty() || entry == "*"
}

/// Matches a host, with or without its domain; `*.example.org` matches all hosts of a domain.
fn is_host(entry: &str, host: &str) -> bool {
    match entry.strip_prefix('*') {
        Some(domain) => host
            .to_ascii_lowercase()
            .ends_with(&domain.to_ascii_lowercase()),
        None => is_everybody(entry) || same_server(entry, host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').map(str::to_string).collect()
    }

    fn refused(access: &AccessList, user: &str, host: &str) -> Option<u16> {
        let group = || {
            if user == "gina" {
                "staff".to_string()
            } else {
                "users".to_string()
            }
        };
        access
            .admits(
                &Visitor {
                    user,
                    group: &group,
                    is_member: &|_| false,
                    host,
                },
                "q",
            )
            .err()
            .map(|refusal| refusal.code)
    }

    #[test]
    fn the_first_entry_that_names_somebody_decides() {
        let users = |text: &str| AccessList {
            users: list(text),
            by_user: true,
            ..AccessList::default()
        };
        let who = |text: &str| -> Vec<bool> {
            ["ann", "bob", "eve"]
                .into_iter()
                .map(|user| refused(&users(text), user, "head").is_none())
                .collect()
        };
        assert_eq!(who("ann,bob"), [true, true, false]);
        assert_eq!(who("-eve,+"), [true, true, false]);
        assert_eq!(who("+@*"), [true; 3]);
        assert_eq!(who("-"), [false; 3]);
        assert_eq!(who("ann@login*,bob@head"), [false, true, false]);
        assert_eq!(refused(&users("ann"), "eve", "head"), Some(15007));
        let off = AccessList {
            users: list("ann"),
            ..AccessList::default()
        };
        assert_eq!(
            refused(&off, "eve", "head"),
            None,
            "a list that is not in force says nothing"
        );
    }

    #[test]
    fn groups_and_hosts_have_lists_of_their_own() {
        let groups = AccessList {
            groups: list("staff"),
            by_group: true,
            ..AccessList::default()
        };
        assert_eq!(
            (
                refused(&groups, "gina", "head"),
                refused(&groups, "ann", "head")
            ),
            (None, Some(15007))
        );
        let hosts = AccessList {
            hosts: list("-bad.example.org,*.example.org,head"),
            by_host: true,
            ..AccessList::default()
        };
        let of = |host| refused(&hosts, "ann", host);
        assert_eq!(
            [of("n1.example.org"), of("head.example.com"), of("HEAD")],
            [None; 3]
        );
        assert_eq!([of("bad.example.org"), of("elsewhere")], [Some(15008); 2]);
    }
}
