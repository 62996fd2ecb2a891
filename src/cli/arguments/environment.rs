//! The environment of a job (`Variable_List`): variables that describe the submission, the
//! variables of `-v`, and with `-V` all variables of qsub's environment except `PBS_O_*`.

use crate::cli::client::exit::Failure;
use crate::model::attribute::remedy;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Variables of qsub's environment that every job gets with the prefix `PBS_O_`, if they are set.
const HANDED_ON: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "MAIL", "SHELL", "TZ"];

/// Variables that are ignored in `-v`. [`variable_list`] sets `PBS_O_HOST`; the server sets
/// `PBS_O_QUEUE`.
const RESERVED: [&[u8]; 2] = [b"PBS_O_HOST", b"PBS_O_QUEUE"];

/// Facts about the submission, for [`variable_list`].
#[derive(Clone, Debug)]
pub struct SubmitOrigin<'a> {
    /// The environment of qsub.
    pub vars: &'a [(OsString, OsString)],
    /// `PBS_O_WORKDIR`.
    pub workdir: &'a OsStr,
    /// `PBS_O_HOST`.
    pub host: &'a str,
    /// `PBS_O_SYSTEM`: the operating system's name.
    pub system: &'a str,
}

/// The variables as `K=V` entries, each terminated by a zero byte. `named`, the value of `-v`,
/// takes precedence over variables added by `all` (`-V`). Neither replaces the `PBS_O_` variables
/// that describe the submission. Fails if `named` is malformed, or has a name without `=` that is
/// not in qsub's environment.
pub fn variable_list(
    origin: &SubmitOrigin,
    named: Option<&OsStr>,
    all: bool,
) -> Result<Vec<u8>, Failure> {
    let mut list = VariableList::default();
    for name in HANDED_ON {
        if let Some(value) = lookup(origin.vars, name.as_bytes()) {
            list.add(format!("PBS_O_{name}").as_bytes(), value.as_bytes());
        }
    }
    list.add(b"PBS_O_WORKDIR", origin.workdir.as_bytes());
    list.add(b"PBS_O_SYSTEM", origin.system.as_bytes());
    let named = named.map_or(Ok(Vec::new()), |named| entries(named, origin.vars))?;
    for (name, value) in &named {
        if !RESERVED.contains(&name.as_slice()) {
            list.add(name, value);
        }
    }
    for (name, value) in origin.vars {
        if all && !name.as_bytes().starts_with(b"PBS_O_") {
            list.add(name.as_bytes(), value.as_bytes());
        }
    }
    list.add(b"PBS_O_HOST", origin.host.as_bytes());
    Ok(list.bytes)
}

/// Variables of Lanai: those of an enclosing job, and those that select an installation for this
/// command. A job gets its own.
const OWN_PREFIXES: [&[u8]; 2] = [b"PBS_", b"LANAI_"];

/// The variables that a job gets in addition to those in `list` if it gets the environment of its
/// submission, as `K=V` entries, each terminated by a zero byte.
pub fn inherited(vars: &[(OsString, OsString)], list: &[u8]) -> Vec<u8> {
    let names = list.split(|&byte| byte == 0).map(|entry| {
        let end = entry.iter().position(|&byte| byte == b'=');
        entry[..end.unwrap_or(entry.len())].to_vec()
    });
    let mut rest = VariableList {
        bytes: Vec::new(),
        names: names.collect(),
    };
    for (name, value) in vars {
        let name = name.as_bytes();
        if !OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            rest.add(name, value.as_bytes());
        }
    }
    rest.bytes
}

/// Adds a variable to a list, unless `value` is None or the list already contains the variable.
pub fn add(list: &mut Vec<u8>, name: &str, value: Option<&OsStr>) {
    let Some(value) = value else { return };
    let prefix = format!("{name}=").into_bytes();
    let mut entries = list.split(|&byte| byte == 0);
    if !entries.any(|entry| entry.starts_with(&prefix)) {
        list.extend([&prefix, value.as_bytes(), b"\0"].concat());
    }
}

fn lookup<'a>(vars: &'a [(OsString, OsString)], name: &[u8]) -> Option<&'a OsStr> {
    vars.iter()
        .find(|(known, _)| known.as_bytes() == name)
        .map(|(_, value)| value.as_os_str())
}

/// Variables in order. The first value of a variable is kept.
#[derive(Default)]
struct VariableList {
    bytes: Vec<u8>,
    names: std::collections::BTreeSet<Vec<u8>>,
}

impl VariableList {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.names.insert(name.to_vec()) {
            for part in [name, b"=", value, b"\0"] {
                self.bytes.extend_from_slice(part);
            }
        }
    }
}

type Variable = (Vec<u8>, Vec<u8>);

/// Parses `A,B=2,"C='x,y'",D=x\,y`. The value of a name without `=` is taken from the environment.
/// A later entry replaces an earlier entry with the same name.
fn entries(text: &OsStr, vars: &[(OsString, OsString)]) -> Result<Vec<Variable>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let illegal = |hint: String| Failure::new(1, "cannot send environment with the job").hint(hint);
    let given = String::from_utf8_lossy(text.as_bytes());
    let parts = split(text.as_bytes())
        .ok_or_else(|| illegal(format!("-v {given}: a quotation does not end")))?;
    let mut entries: Vec<Variable> = Vec::new();
    for part in parts {
        let (name, value) = entry(&part, vars).ok_or_else(|| illegal(entry_hint(&part)))?;
        entries.retain(|(known, _)| *known != name);
        entries.push((name, value));
    }
    Ok(entries)
}

/// What is wrong with an entry of `-v`.
fn entry_hint(part: &[u8]) -> String {
    let shown = remedy::shown(&String::from_utf8_lossy(part));
    if part.contains(&b'=') || part.is_empty() {
        format!("-v {shown}: use NAME or NAME=VALUE, for example -v A=1,B=2")
    } else {
        format!(
            "{shown} is not in the environment of qsub: export it, or give a value with \
             -v {shown}=VALUE"
        )
    }
}

/// Splits at commas that are neither quoted nor after a `\`. A quotation can begin at the start of
/// a part or after `=`. None if a quotation does not end.
fn split(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut parts, mut quote, mut bytes) = (vec![Vec::new()], None, text.iter().copied());
    while let Some(byte) = bytes.next() {
        let part = parts.last_mut()?;
        let opens = part.is_empty() || part.last() == Some(&b'=');
        match (quote, byte) {
            (None, b',') => {
                parts.push(Vec::new());
                continue;
            }
            (None, b'"' | b'\'') if opens => quote = Some(byte),
            (Some(open), _) if byte == open => quote = None,
            _ => {}
        }
        part.push(byte);
        if byte == b'\\' {
            part.extend(bytes.next());
        }
    }
    quote.is_none().then_some(parts)
}

fn entry(part: &[u8], vars: &[(OsString, OsString)]) -> Option<Variable> {
    let part = unquoted(part).unwrap_or(part);
    let equals = part.iter().position(|&b| b == b'=');
    let name = &part[..equals.unwrap_or(part.len())];
    if name.is_empty() {
        return None;
    }
    let value = match equals {
        None => lookup(vars, name)?.to_os_string().into_vec(),
        Some(at) => value(&part[at + 1..])?,
    };
    Some((name.to_vec(), value))
}

/// The text between quotes that enclose the whole text; None without such quotes.
fn unquoted(text: &[u8]) -> Option<&[u8]> {
    match text {
        [first @ (b'"' | b'\''), inner @ .., last] if first == last => Some(inner),
        _ => None,
    }
}

/// Removes the quotes that enclose a value, and each `\` before a comma, a quote or `\`. None if an
/// unescaped quote remains; quotes of one kind may enclose quotes of the other kind.
fn value(text: &[u8]) -> Option<Vec<u8>> {
    let (inner, quotes) = match unquoted(text) {
        Some(inner) => (inner, &text[..1]),
        None => (text, &b"\"'"[..]),
    };
    let (mut value, mut bytes) = (Vec::new(), inner.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => value.push(
                bytes
                    .next_if(|next| b",\\\"'".contains(next))
                    .unwrap_or(b'\\'),
            ),
            stray if quotes.contains(&stray) => return None,
            plain => value.push(plain),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(named: &str, all: bool) -> Result<String, Failure> {
        let pair = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        let vars = [
            pair("HOME", b"/home/alice"),
            pair("A", b"env"),
            pair("PBS_O_FOO", b"old"),
            pair("RAW", b"\xff,\"\\"),
        ];
        let origin = SubmitOrigin {
            vars: &vars,
            workdir: OsStr::new("/w"),
            host: "head",
            system: "Linux",
        };
        let list = variable_list(&origin, Some(OsStr::new(named)), all)?;
        Ok(list
            .iter()
            .map(|&b| if b == 0 { '|' } else { char::from(b) })
            .collect())
    }

    const BEFORE: &str = "PBS_O_HOME=/home/alice|PBS_O_WORKDIR=/w|PBS_O_SYSTEM=Linux|";
    const AFTER: &str = "PBS_O_HOST=head|";

    #[test]
    fn variable_lists_may_have_quotes_and_escapes() {
        for (named, expected) in [
            ("", ""),
            ("A", "A=env|"),
            ("A,B=2,\"C='x,y'\"", "A=env|B=2|C=x,y|"),
            ("FOO=\"a,b\",BAR=x\\,y,BAZ=p q", "FOO=a,b|BAR=x,y|BAZ=p q|"),
            ("BAZ=1=2", "BAZ=1=2|"),
            ("K=", "K=|"),
            ("\"K=V\",\"K2=V2\"", "K=V|K2=V2|"),
            ("W=a\\b\\\\c", "W=a\\b\\c|"),
            ("X=1,X=2", "X=2|"),
            (
                "PBS_O_HOME=y,PBS_O_NEW=z,PBS_O_HOST=h,PBS_O_QUEUE=q",
                "PBS_O_NEW=z|",
            ),
        ] {
            assert_eq!(
                list(named, false).unwrap(),
                format!("{BEFORE}{expected}{AFTER}"),
                "{named}"
            );
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for named in [
            "=x",
            "NOTSET",
            "A=1,B",
            "A='x",
            "FOO='q',BAR=a\"b",
            "A=1,",
            "A=\"x\"y",
            "\"",
        ] {
            let failure = list(named, false).expect_err(named);
            assert_eq!(
                failure.text, "cannot send environment with the job",
                "{named}"
            );
        }
        let hint = |named| list(named, false).unwrap_err().hints.remove(0);
        assert_eq!(
            hint("A=1,B"),
            "B is not in the environment of qsub: export it, or give a value with -v B=VALUE"
        );
        assert_eq!(
            hint("=x"),
            "-v =x: use NAME or NAME=VALUE, for example -v A=1,B=2"
        );
        assert_eq!(hint("A='x"), "-v A='x: a quotation does not end");
    }

    #[test]
    fn exporting_all_keeps_every_byte_and_named_variables() {
        let all = list("A=cli", true).unwrap();
        assert_eq!(
            all,
            format!("{BEFORE}A=cli|HOME=/home/alice|RAW=\u{ff},\"\\|{AFTER}")
        );
    }
}
