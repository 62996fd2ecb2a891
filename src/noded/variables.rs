//! Environment variables: parsed from a launch order, changed, and encoded for exec.

use crate::model::job::NodeShare;
use std::collections::BTreeMap;
use std::ffi::CString;

/// Variables by name.
pub type Environment = BTreeMap<Vec<u8>, Vec<u8>>;

/// Parses `K=V` entries that each end with a zero byte. Skips entries without a name or without
/// `=`.
pub fn parse_environ(environ: &[u8]) -> Environment {
    let entries = environ.split(|&b| b == 0).filter_map(|entry| {
        let equals = entry.iter().position(|&b| b == b'=').filter(|&at| at > 0)?;
        Some((entry[..equals].to_vec(), entry[equals + 1..].to_vec()))
    });
    entries.collect()
}

/// Changes variables in `environ` (`K=V` entries that each end with a zero byte): sets a variable
/// to its new value, or removes it if the new value is None.
pub fn changed(environ: &[u8], changes: &[(String, Option<String>)]) -> Vec<u8> {
    let mut variables = parse_environ(environ);
    for (name, value) in changes {
        match value {
            Some(value) => variables.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec()),
            None => variables.remove(name.as_bytes()),
        };
    }
    variables
        .iter()
        .flat_map(|(name, value)| [name, &b"="[..], value, b"\0"].concat())
        .collect()
}

/// The shares on this host. The first share is always on this host, because a script runs on the
/// first host of its job, and the launch of a task contains only the share of the task.
pub fn here(shares: &[NodeShare]) -> impl Iterator<Item = &NodeShare> {
    shares.iter().filter(|share| share.host == shares[0].host)
}

/// The `K=V` entries for an exec. An entry that contains a zero byte is left out.
pub fn entries(environment: &Environment) -> Vec<CString> {
    environment
        .iter()
        .filter_map(|(name, value)| CString::new([name, &b"="[..], value].concat()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_and_removed() {
        let changes = [
            ("A".into(), Some("2=".into())),
            ("B".into(), None),
            ("C".into(), Some(String::new())),
        ];
        assert_eq!(
            changed(b"A=1\0B=x\0Z=\xff\0", &changes),
            b"A=2=\0C=\0Z=\xff\0"
        );
    }
}
