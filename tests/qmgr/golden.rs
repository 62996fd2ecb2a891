//! The golden transcripts of a real PBS: blocks of a command with what it prints, and on which streams.

use std::path::Path;

/// A command, who runs it, and what is expected.
#[derive(Debug)]
pub struct Block {
    pub line: usize,
    pub is_root: bool,
    pub command: String,
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// The blocks of a file that run this program, from the first that holds `from` on; None where there is no
/// such file.
pub fn blocks(file: &Path, from: &str, program: &str) -> Option<Vec<Block>> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut blocks: Vec<Block> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let prompts = [("root$ ", true), ("$ ", false), ("bob$ ", false)];
        let begun = prompts.into_iter().find_map(|(prompt, is_root)| Some((line.strip_prefix(prompt)?, is_root)));
        if let Some((command, is_root)) = begun {
            let (command, line) = (command.to_string(), number + 1);
            blocks.push(Block { line, is_root, command, out: String::new(), err: String::new(), code: 0 });
            continue;
        }
        let Some(block) = blocks.last_mut() else { continue };
        let plain = |text: &str| format!("{}\n", text.strip_suffix("<EOL>").unwrap_or(text));
        if let Some(code) = line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
            block.code = code;
        } else if let Some(err) = line.strip_prefix("2> ") {
            block.err += &plain(err);
        } else if !line.starts_with("# ") || !is_remark(line) {
            block.out += &plain(line);
        }
    }
    let first = blocks.iter().position(|block| block.command.contains(from))?;
    Some(blocks.into_iter().skip(first).filter(|block| block.command.contains(program)).collect())
}

/// What the recorder says between blocks; what `print` prints begins with a `#`, too.
fn is_remark(line: &str) -> bool {
    ["# hooks", "# reservations", "# tracejob", "# mails"].contains(&line)
}
