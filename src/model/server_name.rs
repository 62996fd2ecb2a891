//! Server names, with or without a domain.

/// Tests whether two names denote the same server: the names are equal except for case, or one name
/// is the other name without the domain.
pub fn same_server(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let Some(head) = long.get(..short.len()) else {
        return false;
    };
    head.eq_ignore_ascii_case(short)
        && (long.len() == short.len() || long[short.len()..].starts_with('.'))
}
