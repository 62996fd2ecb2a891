//! PBS syntax of limits: `[u:PBS_GENERIC=4],[g:phys=20],[p:pool=5],[o:PBS_ALL=100]`.

use super::{LimitScope, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Name that stands for each user, group or project without an entry.
const EACH: &str = "PBS_GENERIC";

/// Name that stands for all jobs together; the only name valid after `o:`.
const ALL: &str = "PBS_ALL";

/// Scope of an entry: the jobs that count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitOwners {
    /// `u:`, a named user or each user.
    User(Selector),
    /// `g:`, a named primary group or each group.
    Group(Selector),
    /// `p:`, a named project or each project.
    Project(Selector),
    /// `o:PBS_ALL`, all jobs.
    Everybody,
}

/// Entry in brackets, such as `[u:alice=10]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitEntry {
    /// Scope of the limit: the jobs that count together.
    pub owners: LimitOwners,
    /// Value of the limit, as given.
    pub amount: String,
}

impl LimitOwners {
    /// Returns the scope of the limit; `queue` selects a queue or all queues.
    pub fn scope(&self, queue: &Selector) -> LimitScope {
        let scope = LimitScope {
            queue: queue.clone(),
            ..LimitScope::default()
        };
        match self.clone() {
            LimitOwners::User(user) => LimitScope { user, ..scope },
            LimitOwners::Group(group) => LimitScope { group, ..scope },
            LimitOwners::Project(project) => LimitScope { project, ..scope },
            LimitOwners::Everybody => scope,
        }
    }

    /// Returns the PBS form of a scope. None if PBS cannot express the scope: for several
    /// credentials, an account, a quality of service, or a name with quotes or control characters.
    pub fn of(scope: &LimitScope) -> Option<LimitOwners> {
        let LimitScope {
            user,
            group,
            project,
            account,
            qos,
            ..
        } = scope;
        if *account != Selector::All || *qos != Selector::All {
            return None;
        }
        let owners = match (user, group, project) {
            (Selector::All, Selector::All, Selector::All) => return Some(LimitOwners::Everybody),
            (user, Selector::All, Selector::All) => LimitOwners::User(user.clone()),
            (Selector::All, group, Selector::All) => LimitOwners::Group(group.clone()),
            (Selector::All, Selector::All, project) => LimitOwners::Project(project.clone()),
            _ => return None,
        };
        let named = [user, group, project];
        if named.into_iter().any(has_quotes) {
            return None;
        }
        Some(owners)
    }

    fn read(letter: &str, name: &str) -> Option<LimitOwners> {
        let selector = match name {
            "" | ALL => None,
            EACH => Some(Selector::Each),
            name => Some(Selector::Named(name.to_string())),
        };
        match (letter, selector) {
            ("o", None) if name == ALL => Some(LimitOwners::Everybody),
            ("u", Some(user)) => Some(LimitOwners::User(user)),
            ("g", Some(group)) => Some(LimitOwners::Group(group)),
            ("p", Some(project)) => Some(LimitOwners::Project(project)),
            _ => None,
        }
    }
}

/// Tests whether a name contains quotes or control characters, which PBS's syntax cannot express.
fn has_quotes(selector: &Selector) -> bool {
    matches!(selector, Selector::Named(name) if name.contains(|c: char| c == '"' || c.is_control()))
}

impl fmt::Display for LimitOwners {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (letter, selector) = match self {
            LimitOwners::User(user) => ("u", user),
            LimitOwners::Group(group) => ("g", group),
            LimitOwners::Project(project) => ("p", project),
            LimitOwners::Everybody => ("o", &Selector::All),
        };
        let name = match selector {
            Selector::All => ALL,
            Selector::Each => EACH,
            Selector::Named(name) => name,
        };
        if name.contains(|c: char| c.is_whitespace() || "[],=".contains(c)) {
            write!(f, "{letter}:\"{name}\"")
        } else {
            write!(f, "{letter}:{name}")
        }
    }
}

impl fmt::Display for LimitEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "[{}={}]", self.owners, self.amount)
    }
}

/// Parses entries separated by commas. Blanks outside quotes are ignored; inside quotes, blanks and
/// separators are part of the name. None for malformed texts and repeated scopes.
pub fn parse(text: &str) -> Option<Vec<LimitEntry>> {
    let letters = characters(text)?;
    let mut parts: Vec<&[QuotedChar]> = letters.split(|letter| *letter == sign(']')).collect();
    if !parts.pop()?.is_empty() || parts.is_empty() {
        return None;
    }
    let (mut entries, mut known) = (Vec::new(), BTreeSet::new());
    for (place, part) in parts.into_iter().enumerate() {
        let part = if place == 0 {
            part
        } else {
            part.strip_prefix(&[sign(',')])?
        };
        let entry = entry(part.strip_prefix(&[sign('[')])?)?;
        if !known.insert(entry.owners.clone()) {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}

/// Character; true if the character was inside quotes.
type QuotedChar = (char, bool);

const fn sign(c: char) -> QuotedChar {
    (c, false)
}

/// Returns all characters except quotes and blanks outside quotes; None if a quote is not closed.
fn characters(text: &str) -> Option<Vec<QuotedChar>> {
    let (mut all, mut is_quoted) = (Vec::new(), false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if is_quoted || !c.is_whitespace() => all.push((c, is_quoted)),
            _ => {}
        }
    }
    (!is_quoted).then_some(all)
}

fn entry(letters: &[QuotedChar]) -> Option<LimitEntry> {
    let equals = letters.iter().rposition(|letter| *letter == sign('='))?;
    let colon = letters.iter().position(|letter| *letter == sign(':'))?;
    let kind = plain(letters.get(..colon)?)?;
    let name = plain(letters.get(colon + 1..equals)?)?;
    Some(LimitEntry {
        owners: LimitOwners::read(&kind, &name)?,
        amount: plain(&letters[equals + 1..])?,
    })
}

/// Returns the text of a part; None if the part is empty or contains a separator outside quotes.
fn plain(part: &[QuotedChar]) -> Option<String> {
    let separators = ['[', ',', '='].map(sign);
    if part.is_empty() || part.iter().any(|c| separators.contains(c)) {
        return None;
    }
    Some(part.iter().map(|(c, _)| *c).collect())
}

/// Formats entries in the syntax that [`parse`] reads.
pub fn written(entries: &[LimitEntry]) -> String {
    entries
        .iter()
        .map(LimitEntry::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// Implements `+=`: adds entries; an entry replaces the existing entry with the same scope.
pub fn with(entries: &[LimitEntry], more: &[LimitEntry]) -> Vec<LimitEntry> {
    let mut all = entries.to_vec();
    let mut places: BTreeMap<LimitOwners, usize> = (0..)
        .zip(entries)
        .map(|(place, entry)| (entry.owners.clone(), place))
        .collect();
    for entry in more {
        match places.get(&entry.owners) {
            Some(place) => all[*place].amount.clone_from(&entry.amount),
            None => {
                places.insert(entry.owners.clone(), all.len());
                all.push(entry.clone());
            }
        }
    }
    all
}

/// Implements `-=`: removes the entries with the scopes of `fewer`.
pub fn without(entries: &[LimitEntry], fewer: &[LimitEntry]) -> Vec<LimitEntry> {
    entries
        .iter()
        .filter(|entry| fewer.iter().all(|other| other.owners != entry.owners))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reformatted(text: &str) -> Option<String> {
        parse(text).map(|entries| written(&entries))
    }

    #[test]
    fn pbs_syntax_is_parsed_and_formatted() {
        let all = "[u:PBS_GENERIC=4],[u:alice=10],[g:phys=20],[p:pool=5],[o:PBS_ALL=100]";
        assert_eq!(reformatted(all).as_deref(), Some(all));
        assert_eq!(
            reformatted(" [u:a=1] , [g:\"b\"=2gb]").as_deref(),
            Some("[u:a=1],[g:b=2gb]")
        );
        for entry in parse(all).unwrap() {
            assert_eq!(
                LimitOwners::of(&entry.owners.scope(&Selector::All)),
                Some(entry.owners.clone()),
                "{entry}"
            );
        }
    }

    #[test]
    fn malformed_texts_are_refused() {
        let bad = [
            "",
            "4",
            "[u:a]",
            "[x:a=1]",
            "[o:alice=3]",
            "[o:PBS_GENERIC=1]",
            "[u:PBS_ALL=1]",
            "[u:=1]",
            "[o:=1]",
        ];
        let more = [
            "u:a=1",
            "[u:a=1][u:b=2]",
            "[u:a=1],[u:a=2]",
            "[u:a=]",
            "[u:a=1",
            "[[u:a=1]]",
            "[u:a=1],",
        ];
        assert_eq!(
            bad.into_iter()
                .chain(more)
                .filter_map(reformatted)
                .collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn names_with_blanks_and_signs_are_quoted() {
        let text = "[g:\"domain users\"=4],[u:\"a,b]=\"=2],[p:x;y=1]";
        assert_eq!(reformatted(text).as_deref(), Some(text));
        assert_eq!(
            parse(text).unwrap()[0].owners,
            LimitOwners::Group(Selector::Named("domain users".into()))
        );
        assert_eq!(
            (reformatted("[u:\"a=1]"), reformatted("[u:\"\"=1]")),
            (None, None)
        );
        let quoted = LimitScope {
            user: Selector::Named("a\"b".into()),
            ..LimitScope::default()
        };
        assert_eq!(LimitOwners::of(&quoted), None);
    }

    #[test]
    fn entries_are_added_replaced_and_removed() {
        let [base, more] =
            ["[u:PBS_GENERIC=4],[u:a=2]", "[u:a=3],[g:x=1]"].map(|text| parse(text).unwrap());
        assert_eq!(
            written(&with(&base, &more)),
            "[u:PBS_GENERIC=4],[u:a=3],[g:x=1]"
        );
        assert_eq!(written(&without(&base, &more)), "[u:PBS_GENERIC=4]");
    }

    #[test]
    fn a_scope_with_two_credentials_has_no_pbs_form() {
        let scope = LimitScope {
            user: Selector::Each,
            group: Selector::Each,
            ..LimitScope::default()
        };
        assert_eq!(LimitOwners::of(&scope), None);
        assert_eq!(
            LimitOwners::of(&LimitScope {
                qos: Selector::Each,
                ..LimitScope::default()
            }),
            None
        );
    }
}
