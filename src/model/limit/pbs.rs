//! Limits as PBS writes them: `[u:PBS_GENERIC=4],[g:phys=20],[p:pool=5],[o:PBS_ALL=100]`.

use super::{Scope, Selector};
use std::fmt;

/// The name that stands for each user, group or project without an entry of its own.
const EACH: &str = "PBS_GENERIC";

/// The only name of what is for all together.
const ALL: &str = "PBS_ALL";

/// Whose jobs an entry counts together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whom {
    /// `u:`, a user or each.
    User(Selector),
    /// `g:`, a primary group or each.
    Group(Selector),
    /// `p:`, a project or each.
    Project(Selector),
    /// `o:PBS_ALL`.
    Everybody,
}

/// One of the brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose jobs.
    pub whom: Whom,
    /// How much there may be, as it was written.
    pub amount: String,
}

impl Whom {
    /// The scope: this, in a queue or in all.
    pub fn scope(&self, queue: &Selector) -> Scope {
        let scope = Scope { queue: queue.clone(), ..Scope::default() };
        match self.clone() {
            Whom::User(user) => Scope { user, ..scope },
            Whom::Group(group) => Scope { group, ..scope },
            Whom::Project(project) => Scope { project, ..scope },
            Whom::Everybody => scope,
        }
    }

    /// Whom a scope is for, if PBS's language can say it: one credential at most, beside the queue.
    pub fn of(scope: &Scope) -> Option<Whom> {
        let Scope { user, group, project, account, qos, .. } = scope;
        let all = Selector::All;
        if *account != all || *qos != all {
            return None;
        }
        match (*user == all, *group == all, *project == all) {
            (true, true, true) => Some(Whom::Everybody),
            (false, true, true) => Some(Whom::User(user.clone())),
            (true, false, true) => Some(Whom::Group(group.clone())),
            (true, true, false) => Some(Whom::Project(project.clone())),
            _ => None,
        }
    }

    fn read(letter: &str, name: &str) -> Option<Whom> {
        let selector = match name {
            "" | ALL => None,
            EACH => Some(Selector::Each),
            name => Some(Selector::Named(name.to_string())),
        };
        match (letter, selector) {
            ("o", None) if name == ALL => Some(Whom::Everybody),
            ("u", Some(user)) => Some(Whom::User(user)),
            ("g", Some(group)) => Some(Whom::Group(group)),
            ("p", Some(project)) => Some(Whom::Project(project)),
            _ => None,
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (letter, selector) = match self {
            Whom::User(user) => ("u", user),
            Whom::Group(group) => ("g", group),
            Whom::Project(project) => ("p", project),
            Whom::Everybody => ("o", &Selector::All),
        };
        let name = match selector {
            Selector::All => ALL,
            Selector::Each => EACH,
            Selector::Named(name) => name,
        };
        write!(f, "{letter}:{name}")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "[{}={}]", self.whom, self.amount)
    }
}

/// Reads entries, separated by commas; blanks count nothing. None for what is malformed, or names somebody
/// twice.
pub fn parse(text: &str) -> Option<Vec<Entry>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let mut entries: Vec<Entry> = Vec::new();
    for one in text.strip_suffix(']')?.split("],") {
        let entry = entry(one.strip_prefix('[')?)?;
        if entries.iter().any(|known| known.whom == entry.whom) {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}

fn entry(text: &str) -> Option<Entry> {
    let (whom, amount) = text.rsplit_once('=')?;
    let (letter, name) = whom.split_once(':')?;
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['[', ']', ',', '=']);
    let entry = Entry { whom: Whom::read(letter, name)?, amount: amount.to_string() };
    (is_plain(name) && is_plain(amount)).then_some(entry)
}

/// As text that [`parse`] reads.
pub fn written(entries: &[Entry]) -> String {
    entries.iter().map(Entry::to_string).collect::<Vec<_>>().join(",")
}

/// `+=`: entries besides, or in the place of those for the same.
pub fn with(entries: &[Entry], more: &[Entry]) -> Vec<Entry> {
    let mut all = entries.to_vec();
    for entry in more {
        match all.iter_mut().find(|known| known.whom == entry.whom) {
            Some(known) => known.amount.clone_from(&entry.amount),
            None => all.push(entry.clone()),
        }
    }
    all
}

/// `-=`: all entries but those for the same as one of these.
pub fn without(entries: &[Entry], fewer: &[Entry]) -> Vec<Entry> {
    let is_meant = |entry: &&Entry| !fewer.iter().any(|other| other.whom == entry.whom);
    entries.iter().filter(is_meant).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        parse(text).map(|entries| written(&entries))
    }

    #[test]
    fn what_pbs_writes_is_read_and_written_again() {
        let all = "[u:PBS_GENERIC=4],[u:alice=10],[g:phys=20],[p:pool=5],[o:PBS_ALL=100]";
        assert_eq!(told(all).as_deref(), Some(all));
        assert_eq!(told(" [u:a=1] , [g:\"b\"=2gb]").as_deref(), Some("[u:a=1],[g:b=2gb]"));
        for entry in parse(all).unwrap() {
            assert_eq!(Whom::of(&entry.whom.scope(&Selector::All)), Some(entry.whom.clone()), "{entry}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let bad =
            ["", "4", "[u:a]", "[x:a=1]", "[o:alice=3]", "[o:PBS_GENERIC=1]", "[u:PBS_ALL=1]", "[u:=1]", "[o:=1]"];
        let more = ["u:a=1", "[u:a=1][u:b=2]", "[u:a=1],[u:a=2]", "[u:a=]", "[u:a=1", "[[u:a=1]]", "[u:a=1],"];
        assert_eq!(bad.into_iter().chain(more).filter_map(told).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn entries_are_added_replaced_and_removed() {
        let [base, more] = ["[u:PBS_GENERIC=4],[u:a=2]", "[u:a=3],[g:x=1]"].map(|text| parse(text).unwrap());
        assert_eq!(written(&with(&base, &more)), "[u:PBS_GENERIC=4],[u:a=3],[g:x=1]");
        assert_eq!(written(&without(&base, &more)), "[u:PBS_GENERIC=4]");
    }

    #[test]
    fn a_scope_of_two_kinds_cannot_be_written() {
        let scope = Scope { user: Selector::Each, group: Selector::Each, ..Scope::default() };
        assert_eq!(Whom::of(&scope), None);
        assert_eq!(Whom::of(&Scope { qos: Selector::Each, ..Scope::default() }), None);
    }
}
