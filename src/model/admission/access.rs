//! Access control of queues by PBS's access lists (`acl_users`, `acl_groups`, `acl_hosts`).

use crate::model::queue::AccessList;
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;

/// User and host that submit a job.
#[derive(Clone, Copy)]
pub struct Visitor<'a> {
    /// Owner of the job.
    pub user: &'a str,
    /// Function that returns the name of the owner's primary group; the lookup may be slow.
    pub group: &'a dyn Fn() -> String,
    /// Function that tests whether the owner is a member of a group; the lookup may be slow.
    pub is_member: &'a dyn Fn(&str) -> bool,
    /// Host on which the job was submitted.
    pub host: &'a str,
}

impl AccessList {
    /// Refuses a user, group or host that an enabled list denies; the error names the list.
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
    format!("{list} of queue {queue} denies you access; see qstat -Qf {queue}")
}

/// Tests whether a list allows access. The first matching entry decides: `-name` denies, `name` and
/// `+name` allow. Without a match, access is denied.
fn admits(list: &[String], matches: impl Fn(&str) -> bool) -> bool {
    let signed = list.iter().map(|entry| match entry.strip_prefix('-') {
        Some(name) => (name, false),
        None => (entry.strip_prefix('+').unwrap_or(entry), true),
    });
    signed
        .into_iter()
        .find(|(entry, _)| matches(entry))
        .is_some_and(|(_, is_allowed)| is_allowed)
}

fn is_user(entry: &str, visitor: &Visitor) -> bool {
    let (user, host) = entry.split_once('@').unwrap_or((entry, "*"));
    is_name(user, visitor.user) && is_host(host, visitor.host)
}

fn is_name(entry: &str, name: &str) -> bool {
    matches_any_name(entry) || entry == name
}

/// Tests whether an entry matches every name: the entry is `*`, or empty after its sign.
fn matches_any_name(entry: &str) -> bool {
    entry.is_empty() || entry == "*"
}

/// Tests whether an entry matches a host, with or without the host's domain. `*.example.org`
/// matches all hosts of a domain.
fn is_host(entry: &str, host: &str) -> bool {
    match entry.strip_prefix('*') {
        Some(domain) => host
            .to_ascii_lowercase()
            .ends_with(&domain.to_ascii_lowercase()),
        None => matches_any_name(entry) || same_server(entry, host),
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
    fn the_first_matching_entry_decides() {
        let users = |text: &str| AccessList {
            users: list(text),
            by_user: true,
            ..AccessList::default()
        };
        let admitted = |text: &str| -> Vec<bool> {
            ["ann", "bob", "eve"]
                .into_iter()
                .map(|user| refused(&users(text), user, "head").is_none())
                .collect()
        };
        assert_eq!(admitted("ann,bob"), [true, true, false]);
        assert_eq!(admitted("-eve,+"), [true, true, false]);
        assert_eq!(admitted("+@*"), [true; 3]);
        assert_eq!(admitted("-"), [false; 3]);
        assert_eq!(admitted("ann@login*,bob@head"), [false, true, false]);
        assert_eq!(refused(&users("ann"), "eve", "head"), Some(15007));
        let off = AccessList {
            users: list("ann"),
            ..AccessList::default()
        };
        assert_eq!(
            refused(&off, "eve", "head"),
            None,
            "a disabled list denies nothing"
        );
    }

    #[test]
    fn groups_and_hosts_have_separate_lists() {
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
