//! Parses the golden transcripts of a real PBS: blocks with a command, its output and exit status.
//!
//! A line `$ command` begins a block; `root$ command` runs the command as another user. The
//! following lines are standard output, `2> text` is a line of standard error, and `? 3` is the
//! exit status. A command continues on the next line while a quote or a here-document is open. `#
//! text` between blocks is a comment.

use std::path::Path;

/// A command, the user who runs it, and the expected result.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Line number in the file where the block begins.
    pub line: usize,
    /// User name; empty for the default user.
    pub who: String,
    pub command: String,
    pub out: String,
    pub err: String,
    /// Exit status; None if the recording timed out.
    pub code: Option<i32>,
}

/// Reads all blocks of a file. None if the file does not exist.
pub fn read(file: &Path) -> Option<Vec<Block>> {
    let bytes = std::fs::read(file).ok()?;
    Some(parse(&String::from_utf8_lossy(&bytes)))
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().copied().enumerate() {
        if let Some(block) = blocks.last_mut().filter(|block| is_open(&block.command)) {
            block.command = format!("{}\n{line}", block.command);
        } else if let Some((who, command)) = prompt(line) {
            let (who, command) = (who.to_string(), command.replace("<EOL>", ""));
            blocks.push(Block {
                line: at + 1,
                who,
                command,
                code: Some(0),
                ..Block::default()
            });
        } else if let Some(block) = blocks.last_mut().filter(|_| !is_remark(&lines[at..])) {
            block.take(line);
        }
    }
    blocks
}

impl Block {
    fn take(&mut self, line: &str) {
        let plain = |text: &str| {
            format!("{}\n", text.strip_suffix("<EOL>").unwrap_or(text)).replace("<NUL>", "\0")
        };
        if line == "? TIMEOUT" {
            self.code = None;
        } else if let Some(code) = line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
            self.code = Some(code);
        } else if let Some(err) = line.strip_prefix("2> ") {
            self.err += &plain(err);
        } else if let Some(rest) = line.strip_suffix("<NO-NEWLINE>") {
            self.out += rest;
        } else {
            self.out += &plain(line);
        }
    }
}

/// Splits a line that begins a block into user name and command; None for any other line.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (who, command) = line.split_once("$ ")?;
    let is_name = who
        .chars()
        .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
    is_name.then_some((who, command))
}

/// True if the line is a comment of the recorder, and not output of qmgr's `print`, which also
/// begins with `#`.
fn is_remark(lines: &[&str]) -> bool {
    let is_comment = |line: &&str| {
        line.starts_with("# ") && !line.starts_with("# Create ") && !line.starts_with("# Set ")
    };
    is_comment(&lines[0])
        && lines
            .iter()
            .find(|line| !is_comment(line))
            .is_none_or(|line| prompt(line).is_some())
}

/// True if the shell needs another line to complete the command: a quote or a `<<WORD`
/// here-document is open.
fn is_open(command: &str) -> bool {
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (None | Some('"'), '\\') => drop(chars.next()),
            (Some(open), char) if open == char => quote = None,
            _ => {}
        }
    }
    let here = command
        .split_once("<<")
        .map(|(_, rest)| rest.trim_start_matches(['\'', '"']));
    let word = here.map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect::<String>()
    });
    quote.is_some()
        || word.is_some_and(|word| {
            !word.is_empty() && !command.lines().skip(1).any(|line| line == word)
        })
}

#[test]
fn comments_of_the_recorder_are_skipped_and_output_is_kept() {
    let text = "# about\n$ printf 'a\nb' | cat\na\nb<NO-NEWLINE>\n# next\nroot$ qmgr -c 'print server'\n#\n# Create x\n\
        $ sleep 9\nx <EOL>\n2> why\n? TIMEOUT\n";
    let blocks = parse(text);
    let found: Vec<_> = blocks
        .iter()
        .map(|block| (block.line, block.who.as_str(), block.out.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (2, "", "a\nb"),
            (7, "root", "#\n# Create x\n"),
            (10, "", "x \n")
        ]
    );
    assert_eq!(blocks[0].command, "printf 'a\nb' | cat");
    assert_eq!((blocks[2].code, blocks[2].err.as_str()), (None, "why\n"));
}
