//! Tags of jobs (`qsub -W tag=run=7+phase=b`): keys with values, by which users select jobs.

/// Maximum number of tags of a job.
pub const MOST_TAGS: usize = 32;

/// Maximum length of a key in bytes.
const LONGEST_KEY: usize = 64;

/// Maximum length of a value in bytes.
const LONGEST_VALUE: usize = 256;

/// The tags in the value of the attribute `tag`, in the order given. A tag without `=` has an
/// empty value.
pub fn parse(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('+')
        .filter(|tag| !tag.is_empty())
        .map(|tag| tag.split_once('=').unwrap_or((tag, "")))
}

/// Accepts tags `KEY` or `KEY=VALUE` with `+` between them. A key consists of letters, digits and
/// the characters `_ - .`, and occurs once. A value has no control characters, `+` or `,`.
pub fn are_valid(text: &str) -> bool {
    let keys: Vec<&str> = parse(text).map(|(key, _)| key).collect();
    let is_unique = |(at, key): (usize, &&str)| !keys[..at].contains(key);
    keys.len() <= MOST_TAGS
        && text.split('+').all(|tag| !tag.is_empty())
        && keys.iter().enumerate().all(is_unique)
        && parse(text).all(|(key, value)| is_key(key) && is_value(value))
}

fn is_key(key: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !key.is_empty() && key.len() <= LONGEST_KEY && key.chars().all(is_legal)
}

fn is_value(value: &str) -> bool {
    value.len() <= LONGEST_VALUE && !value.contains(|c: char| c.is_control() || c == ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_keys_with_values() {
        let tags: Vec<_> = parse("run=7+phase=a=b+urgent").collect();
        assert_eq!(tags, [("run", "7"), ("phase", "a=b"), ("urgent", "")]);
        for text in ["run=7", "a.b-c_D=x y", "urgent", "a=+b=", "k=\u{e9}"] {
            assert!(are_valid(text), "{text}");
        }
        for text in [
            "", "=7", "run=7+", "+run=7", "a b=1", "\u{e9}=1", "a=1,b", "a=\n", "a=1+a=2",
        ] {
            assert!(!are_valid(text), "{text}");
        }
    }

    #[test]
    fn number_and_length_of_tags_are_limited() {
        let tags = |count: usize| {
            let tags: Vec<String> = (0..count).map(|at| format!("k{at}=v")).collect();
            tags.join("+")
        };
        assert!(are_valid(&tags(MOST_TAGS)) && !are_valid(&tags(MOST_TAGS + 1)));
        let long = |key: usize, value: usize| format!("{}={}", "k".repeat(key), "v".repeat(value));
        assert!(are_valid(&long(LONGEST_KEY, LONGEST_VALUE)));
        assert!(!are_valid(&long(LONGEST_KEY + 1, 1)) && !are_valid(&long(1, LONGEST_VALUE + 1)));
    }
}
