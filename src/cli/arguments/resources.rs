//! The value of `-l`: resources separated by commas or blanks, split as in PBS.

/// Splits `text` into names and values, in order. A name without `=` has an empty value. None if a
/// name is missing, as in `=1`, in `a=1,,b=2` and after a trailing comma.
pub fn split(text: &str) -> Option<Vec<(String, String)>> {
    let (mut pairs, mut rest) = (Vec::new(), text.trim_start());
    let mut name_follows = false;
    while name_follows || !rest.is_empty() {
        let (name, behind) = rest.split_at(rest.find(ends_name).unwrap_or(rest.len()));
        if name.is_empty() {
            return None;
        }
        let behind = behind.trim_start();
        let (value, behind) = match behind.strip_prefix('=') {
            Some(behind) => read_value(behind.trim_start()),
            None => ("", behind),
        };
        pairs.push((name.to_string(), unquoted(value).to_string()));
        let behind = behind.trim_start();
        name_follows = behind.starts_with(',');
        rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
    }
    Some(pairs)
}

fn ends_name(c: char) -> bool {
    c == '=' || c == ',' || c.is_whitespace()
}

/// Splits `text` after the value at its start. The value ends at a comma or blank outside of
/// quotes.
fn read_value(text: &str) -> (&str, &str) {
    let mut quote = None;
    let end = text.find(|c: char| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && (c == ',' || c.is_whitespace())
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// The text between quotes that enclose the whole text; without such quotes, `text`.
fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
            && !inner.contains(quote)
        {
            return inner;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_as_in_pbs() {
        let shown = |text: &str| {
            let pairs = split(text)?;
            Some(
                pairs
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>()
                    .join("|"),
            )
        };
        for (text, expected) in [
            ("", ""),
            ("ncpus=2,mem=1gb", "ncpus=2|mem=1gb"),
            ("ncpus = 2", "ncpus=2"),
            ("ncpus", "ncpus="),
            ("walltime=", "walltime="),
            ("ncpus==2", "ncpus==2"),
            (
                "select=2:ncpus=1+1,place=free",
                "select=2:ncpus=1+1|place=free",
            ),
            ("select=1 :ncpus=1", "select=1|:ncpus=1"),
            (
                "select=1:ncpus=1 + 1:ncpus=2",
                "select=1:ncpus=1|+=|1:ncpus=2",
            ),
            ("select=1:color=\"a b\",x=1", "select=1:color=\"a b\"|x=1"),
            ("software=\"a,b\"", "software=a,b"),
            ("mem=10 gb", "mem=10|gb="),
            ("place=free excl", "place=free|excl="),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["=1", "a=1,,b=2", "a=1,", ","] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }
}
