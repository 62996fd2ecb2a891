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
