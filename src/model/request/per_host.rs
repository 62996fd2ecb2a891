//! Lists that say something for each host: `/bin/sh@head,/bin/bash`, `phys@n1,chem`.

/// The entry of `what[@host],...` for this host, else the first without a host.
pub fn for_host<'a>(list: &'a [u8], host: &str) -> Option<&'a [u8]> {
    let entries = || list.split(|&b| b == b',').filter(|entry| !entry.is_empty());
    let at = |entry: &[u8]| entry.iter().rposition(|&b| b == b'@');
    let names_host = |entry: &&[u8]| {
        let name = at(entry).map(|at| &entry[at + 1..]);
        name.is_some_and(|name| name.split(|&b| b == b'.').next() == Some(host.as_bytes()))
    };
    let named = entries()
        .find(names_host)
        .map(|entry| &entry[..at(entry).unwrap_or(entry.len())]);
    named.or_else(|| entries().find(|entry| at(entry).is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_for_a_host_counts_more_than_the_one_for_all() {
        let found = |list: &'static str| {
            for_host(list.as_bytes(), "n1").map(|entry| std::str::from_utf8(entry).unwrap())
        };
        assert_eq!(found("a@n2,b,c@n1.some.where"), Some("c"));
        assert_eq!(found("a@n2,b"), Some("b"));
        assert_eq!(found("a@n2"), None);
        assert_eq!(found(""), None);
    }
}
