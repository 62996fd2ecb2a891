//! Suggestions for misspelled words.

/// Returns the known word with the smallest edit distance from `word`.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .copied()
        .min_by_key(|candidate| distance(word, candidate))
}

/// Returns the known word with the smallest edit distance from `word`, if that distance is at most
/// a third of the length of `word`.
pub fn close<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    nearest(word, known).filter(|near| distance(word, near) * 3 <= word.chars().count())
}

/// The maximum number of names in [`choice`].
const MOST_NAMES: usize = 20;

/// Describes the known names for a user who gave an unknown name: the nearest one, if it is close,
/// and the others. `kind` is the plural of the named objects, such as `queues`.
pub fn choice(word: &str, kind: &str, known: &[&str]) -> String {
    let listed = match known {
        [] => format!("there are no {kind}"),
        [only] => format!("the only one of the {kind} is {only}"),
        _ if known.len() > MOST_NAMES => {
            let first = known[..MOST_NAMES].join(", ");
            format!("some of the {} {kind} are {first}", known.len())
        }
        _ => format!("the {kind} are {}", known.join(", ")),
    };
    match close(word, known) {
        Some(near) => format!("the nearest known name is {near}; {listed}"),
        None => listed,
    }
}

/// Returns the Levenshtein distance: the smallest number of letters to insert, delete or replace.
/// Compares only the first 100 letters of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(100).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_precedes_the_list() {
        let choice = |word, known: &[&str]| choice(word, "queues", known);
        assert_eq!(choice("gpu", &[]), "there are no queues");
        assert_eq!(
            choice("gpu", &["workq"]),
            "the only one of the queues is workq"
        );
        assert_eq!(
            choice("zzz", &["short", "long"]),
            "the queues are short, long"
        );
        assert_eq!(
            choice("shrt", &["short", "long"]),
            "the nearest known name is short; the queues are short, long"
        );
        let many = vec!["q"; MOST_NAMES + 1];
        assert!(choice("zzz", &many).starts_with("some of the 21 queues are q, q"));
    }
}
