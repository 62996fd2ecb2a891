//! The golden transcripts of a real PBS: blocks of a command with what it prints, and on which
//! streams.
//!
//! A line `$ command` begins a block, or `root$ command` for another user. The lines below it are
//! standard output, `2> text` is a line of standard error, `? 3` the exit status. A command goes on
//! over the next line while a quote or a here-text of it is open. `# text` between blocks is a
//! remark.

use std::path::Path;

/// A command, who runs it, and what is expected.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The line of the file it begins in.
    pub line: usize,
    /// The user, or empty: the ordinary one.
    pub who: String,
    pub command: String,
    pub out: String,
    pub err: String,
    /// None where the recorder gave up waiting.
    pub code: Option<i32>,
}

/// All blocks of a file; None where there is no such file.
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

/// A user's name and a command, if the line is where a block begins.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (who, command) = line.split_once("$ ")?;
    let is_name = who
        .chars()
        .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
    is_name.then_some((who, command))
}

/// Whether a line is the recorder's own. What `print` of qmgr prints begins with a `#`, too.
fn is_remark(lines: &[&str]) -> bool {
    let says = |line: &&str| {
        line.starts_with("# ") && !line.starts_with("# Create ") && !line.starts_with("# Set ")
    };
    says(&lines[0])
        && lines
            .iter()
            .find(|line| !says(line))
            .is_none_or(|line| prompt(line).is_some())
}

/// Whether the shell would want another line of this command: a quote is open, or the text of a
/// `<<WORD`.
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
fn blocks_are_read_with_their_streams_and_marks() {
    let text = "# about\n$ printf 'a\nb' | cat\na\nb<NO-NEWLINE>\n# next\nroot$ qmgr -c 'print server'\n#\n# Create x\n\
        $ sleep 9\nx <EOL>\n2> why\n? TIMEOUT\n";
    let blocks = parse(text);
    let seen: Vec<_> = blocks
        .iter()
        .map(|block| (block.line, block.who.as_str(), block.out.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            (2, "", "a\nb"),
            (7, "root", "#\n# Create x\n"),
            (10, "", "x \n")
        ]
    );
    assert_eq!(blocks[0].command, "printf 'a\nb' | cat");
    assert_eq!((blocks[2].code, blocks[2].err.as_str()), (None, "why\n"));
}
