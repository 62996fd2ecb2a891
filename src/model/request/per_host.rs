//! Lists with entries for hosts: `/bin/sh@head,/bin/bash`, `phys@n1,chem`.

/// The entry of `value[@host],...` for this host, else the first without a host.
pub fn for_host<'a>(list: &'a [u8], host: &str) -> Option<&'a [u8]> {
    let mut default = None;
    for entry in list.split(|&b| b == b',').filter(|entry| !entry.is_empty()) {
        let Some(at) = entry.iter().rposition(|&b| b == b'@') else {
            default = default.or(Some(entry));
            continue;
        };
        let mut labels = entry[at + 1..].split(|&b| b == b'.');
        if labels.next() == Some(host.as_bytes()) {
            return Some(&entry[..at]);
        }
    }
    default
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
