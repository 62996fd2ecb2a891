//! A minimal scanner of Rust source for the architecture test: it separates code from comments,
//! literals and unit tests.

/// A source file.
pub struct Source {
    /// Path relative to `src/`, with `/` as separator.
    pub path: String,
    /// Full text of the file.
    pub text: String,
    /// The same lines without comments and without the contents of literals.
    pub code: String,
}

impl Source {
    /// Scans the text of a file.
    pub fn new(path: String, text: String) -> Source {
        let code = scrub(&text, &mut Vec::new());
        Source { path, text, code }
    }

    /// The comments and literals, each with the number of its first line, from 1.
    pub fn texts(&self) -> Vec<(usize, &str)> {
        let mut texts = Vec::new();
        scrub(&self.text, &mut texts);
        texts
    }

    /// Code before the unit tests, which are at the end of a file.
    pub fn production(&self) -> &str {
        if self.path.ends_with("tests.rs") {
            return "";
        }
        self.code
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
    }

    /// Number of lines that contain code.
    pub fn code_lines(&self) -> usize {
        self.code
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count()
    }

    /// Line number, from 1, of the first occurrence of `phrase` as whole words.
    pub fn line_of(code: &str, phrase: &str) -> Option<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole_word = |&(at, _): &(usize, &str)| {
            let before = code[..at].chars().next_back();
            let after = code[at + phrase.len()..].chars().next();
            let open_start = !phrase.starts_with(is_word) || !before.is_some_and(is_word);
            open_start && (!phrase.ends_with(is_word) || !after.is_some_and(is_word))
        };
        let (at, _) = code.match_indices(phrase).find(is_whole_word)?;
        Some(1 + code[..at].matches('\n').count())
    }
}

/// Replaces comments and the contents of literals by spaces and keeps line ends. Adds the comments
/// and literals with their line numbers, from 1, to `texts`.
fn scrub<'t>(text: &'t str, texts: &mut Vec<(usize, &'t str)>) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = opaque(rest);
        let (piece, tail) = rest.split_at(length.unwrap_or(first.len_utf8()));
        match length {
            Some(_) => {
                texts.push((line, piece));
                code.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
            None => code.push_str(piece),
        }
        line += piece.matches('\n').count();
        let in_word = first.is_alphanumeric() || first == '_';
        rest = if in_word && length.is_none() {
            copy_word(tail, &mut code)
        } else {
            tail
        };
    }
    code
}

/// Copies the rest of a word, so that the `r` of `for` does not begin a raw string.
fn copy_word<'t>(rest: &'t str, code: &mut String) -> &'t str {
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    code.push_str(&rest[..end]);
    &rest[end..]
}

/// Length of the comment or literal at the start of `rest`; None if there is none.
fn opaque(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    let prefix = rest.find(|c| !"bcr".contains(c)).filter(|&end| end <= 2)?;
    let (prefix, body) = rest.split_at(prefix);
    let length = match body.chars().next()? {
        '"' | '#' if prefix.contains('r') => raw_string(body)?,
        '"' => quoted(body, '"')?,
        '\'' if prefix.is_empty() || prefix == "b" => character(body)?,
        _ => return None,
    };
    Some(prefix.len() + length)
}

fn raw_string(body: &str) -> Option<usize> {
    let hashes = body.find(|c| c != '#')?;
    let inner = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &body[..hashes]);
    Some(hashes + 1 + inner.find(&end)? + end.len())
}

/// Length of a literal up to its unescaped closing `quote`.
fn quoted(body: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        if c == quote && !escaped {
            return Some(at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// Length of a character literal; None for a lifetime.
fn character(body: &str) -> Option<usize> {
    let length = quoted(body, '\'')?;
    let inner = &body[1..length - 1];
    (inner.starts_with('\\') || inner.chars().count() == 1).then_some(length)
}

#[test]
fn comments_and_literals_are_removed() {
    let text = "fn f<'a>(x: &'a str) { for r in 0..1 {} } // unsafe\nlet s = \"unsafe \\\" {\"; let c = '\"'; b\"x\"; r#\"unsafe\"#;\n";
    let code = scrub(text, &mut Vec::new());
    assert_eq!(code.lines().count(), 2);
    assert!(!code.contains("unsafe") && !code.contains('"'), "{code}");
    assert!(
        code.contains("fn f<'a>(x: &'a str) { for r in 0..1 {} }"),
        "{code}"
    );
    assert_eq!(Source::line_of("a\nunsafely\nunsafe {", "unsafe"), Some(3));
}
