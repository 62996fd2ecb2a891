//! Hosts that a job may use, and hosts that it excludes, by name and by group (Q24).

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// `hosts=n1,n2 groups=gpu omit_hosts=n2 omit_groups=old`: parts separated by blanks, each at
/// most once. With `hosts` or `groups`, the job uses only the listed hosts and the hosts of the
/// listed groups. Hosts in `omit_hosts`, and hosts of the groups in `omit_groups`, are never used.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostList {
    hosts: BTreeSet<String>,
    groups: BTreeSet<String>,
    omit_hosts: BTreeSet<String>,
    omit_groups: BTreeSet<String>,
}

impl HostList {
    /// Tests whether all hosts are allowed.
    pub fn is_empty(&self) -> bool {
        *self == HostList::default()
    }

    /// Tests whether the job may use `host`, which belongs to `groups`.
    pub fn accepts<G: AsRef<str>>(&self, host: &str, groups: &[G]) -> bool {
        let is_any_allowed = self.hosts.is_empty() && self.groups.is_empty();
        let is_listed =
            is_any_allowed || self.hosts.contains(host) || is_any_in(groups, &self.groups);
        is_listed && !self.omit_hosts.contains(host) && !is_any_in(groups, &self.omit_groups)
    }

    /// Returns the list with one part (`hosts`, `groups`, `omit_hosts`, `omit_groups`) replaced by
    /// `names`, which are separated by commas or `+`. An empty text clears the part.
    pub fn with(&self, part: &str, names: &str) -> Result<HostList, NotHostList> {
        let mut list = self.clone();
        if let Some(place) = list.part(part) {
            place.clear();
        }
        if !names.is_empty() {
            let named = format!("{part}={}", names.replace('+', ","));
            add(&mut list, &named).map_err(|why| NotHostList { found: named, why })?;
        }
        Ok(list)
    }

    /// Returns the name and text of each part that is not empty.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, String)> {
        let given = self
            .parts()
            .into_iter()
            .filter(|(_, names)| !names.is_empty());
        given.map(|(part, names)| {
            (
                part,
                names
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(","),
            )
        })
    }

    /// Tests whether the list contains names of hosts; false for groups only.
    pub fn names_hosts(&self) -> bool {
        !self.hosts.is_empty() || !self.omit_hosts.is_empty()
    }

    /// Returns the parts in the order of display.
    fn parts(&self) -> [(&'static str, &BTreeSet<String>); 4] {
        [
            ("hosts", &self.hosts),
            ("groups", &self.groups),
            ("omit_hosts", &self.omit_hosts),
            ("omit_groups", &self.omit_groups),
        ]
    }

    /// Returns the set of a part; `omit` is short for `omit_hosts`.
    fn part(&mut self, name: &str) -> Option<&mut BTreeSet<String>> {
        match name {
            "hosts" => Some(&mut self.hosts),
            "groups" => Some(&mut self.groups),
            "omit" | "omit_hosts" => Some(&mut self.omit_hosts),
            "omit_groups" => Some(&mut self.omit_groups),
            _ => None,
        }
    }
}

fn is_any_in<G: AsRef<str>>(names: &[G], set: &BTreeSet<String>) -> bool {
    names.iter().any(|name| set.contains(name.as_ref()))
}

/// Error for an invalid host list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` {why}")]
pub struct NotHostList {
    found: String,
    why: &'static str,
}

impl FromStr for HostList {
    type Err = NotHostList;

    fn from_str(text: &str) -> Result<HostList, NotHostList> {
        let mut list = HostList::default();
        for part in text.split_whitespace() {
            add(&mut list, part).map_err(|why| NotHostList {
                found: part.to_string(),
                why,
            })?;
        }
        Ok(list)
    }
}

fn add(list: &mut HostList, part: &str) -> Result<(), &'static str> {
    let (name, names) = part
        .split_once('=')
        .ok_or("is not a part of a host list: use hosts=NAME,...")?;
    let place = list
        .part(name)
        .ok_or("is not a part of a host list: use hosts, groups, omit_hosts or omit_groups")?;
    if !place.is_empty() {
        return Err("repeats a part of the host list: join all names of a part with commas");
    }
    if names
        .split(',')
        .any(|name| name.is_empty() || name.contains('='))
    {
        return Err("has an empty or invalid name: separate names with single commas");
    }
    place.extend(names.split(',').map(str::to_string));
    Ok(())
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let given = self
            .parts()
            .into_iter()
            .filter(|(_, names)| !names.is_empty());
        for (position, (part, names)) in given.enumerate() {
            let between = if position == 0 { "" } else { " " };
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            write!(f, "{between}{part}={}", names.join(","))?;
        }
        Ok(())
    }
}

impl TryFrom<String> for HostList {
    type Error = NotHostList;

    fn try_from(text: String) -> Result<HostList, NotHostList> {
        text.parse()
    }
}

impl From<HostList> for String {
    fn from(list: HostList) -> String {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepted(list: &str, hosts: &[(&str, &[&str])]) -> Vec<bool> {
        let list: HostList = list.parse().unwrap();
        hosts
            .iter()
            .map(|(host, groups)| list.accepts(host, groups))
            .collect()
    }

    /// Q24.
    #[test]
    fn only_listed_hosts_are_used_and_omitted_hosts_never() {
        let hosts: &[(&str, &[&str])] = &[("n1", &["gpu"]), ("n2", &["gpu", "old"]), ("n3", &[])];
        assert_eq!(accepted("hosts=n1,n2 omit=n2", hosts), [true, false, false]);
        assert_eq!(accepted("", hosts), [true, true, true]);
        assert_eq!(accepted("groups=gpu", hosts), [true, true, false]);
        assert_eq!(
            accepted("groups=gpu omit_groups=old", hosts),
            [true, false, false]
        );
        assert_eq!(accepted("hosts=n3 groups=old", hosts), [false, true, true]);
        assert_eq!(accepted("omit_hosts=n1", hosts), [false, true, true]);
        assert_eq!(accepted("omit_groups=gpu", hosts), [false, false, true]);
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for bad in [
            "n1",
            "host=n1",
            "hosts=",
            "hosts=n1,,n2",
            "hosts=n1 hosts=n2",
            "hosts=n1=n2",
            "hosts=n1, n2",
        ] {
            assert!(bad.parse::<HostList>().is_err(), "{bad:?}");
        }
        let refusal = "hosts=n1 node=n2"
            .parse::<HostList>()
            .unwrap_err()
            .to_string();
        assert_eq!(
            refusal,
            "`node=n2` is not a part of a host list: use hosts, groups, omit_hosts or omit_groups"
        );
    }

    #[test]
    fn a_list_is_stored_as_text() {
        let list: HostList = " omit=n9  hosts=n2,n1".parse().unwrap();
        let stored = serde_json::to_string(&list).unwrap();
        assert_eq!(stored, r#""hosts=n1,n2 omit_hosts=n9""#);
        assert_eq!(serde_json::from_str::<HostList>(&stored).unwrap(), list);
        assert!("".parse::<HostList>().unwrap().is_empty() && !list.is_empty());
    }

    proptest! {
        #[test]
        fn formatting_and_parsing_keep_a_list(text in "(hosts|omit|groups|=|,|n1| ){0,10}") {
            if let Ok(list) = text.parse::<HostList>() {
                prop_assert_eq!(list.to_string().parse(), Ok(list));
            }
        }
    }
}
