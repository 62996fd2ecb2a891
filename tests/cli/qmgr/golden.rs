//! Golden transcripts of a real PBS, restricted to one program.

use crate::support::blocks;
use std::path::Path;

/// A command, the user who runs it, and the expected result.
#[derive(Debug)]
pub struct Block {
    pub line: usize,
    pub is_root: bool,
    pub command: String,
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Blocks of a file that run this program, beginning with the first that contains `from`. None if
/// the file does not exist.
pub fn blocks(file: &Path, from: &str, program: &str) -> Option<Vec<Block>> {
    let all = blocks::read(file)?;
    let first = all.iter().position(|block| block.command.contains(from))?;
    let of_program = all
        .into_iter()
        .skip(first)
        .filter(|block| block.command.contains(program));
    Some(of_program.map(Block::from).collect())
}

impl From<blocks::Block> for Block {
    fn from(block: blocks::Block) -> Block {
        let blocks::Block {
            line,
            who,
            command,
            out,
            err,
            code,
        } = block;
        Block {
            line,
            is_root: who == "root",
            command,
            out,
            err,
            code: code.unwrap_or(-1),
        }
    }
}
