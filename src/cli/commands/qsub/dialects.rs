//! Translates command lines and directives of Grid Engine and TORQUE to PBS's options.
//!
//! A word is translated if PBS would refuse or misread it. In a line with options of Grid Engine, a
//! word is also translated if it has another meaning in Grid Engine than in PBS ([`grid_engine`]).
//! PBS refuses words after the script; here they become the arguments of the script.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::Failure;
use clap::Command;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

pub mod grid_engine;

pub mod torque;

use grid_engine::{ForeignOption, TranslationState};

/// A line translated to PBS's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslatedLine {
    /// The words for PBS's parser.
    pub words: Vec<OsString>,
    /// The arguments of the script.
    pub arguments: Vec<OsString>,
    /// True if the line contains options that only Grid Engine has, or is a directive with `#$`.
    pub is_grid_engine: bool,
    /// Warnings about options that have no effect, or another effect than in Grid Engine.
    pub remarks: Vec<String>,
}

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    /// The command line.
    CommandLine,
    /// A directive with `#PBS` or another chosen prefix.
    Directive,
    /// A directive with `#$`.
    GridEngineDirective,
}

/// Translates a line. `command` defines PBS's options.
pub fn translate_line(
    command: &Command,
    words: &[OsString],
    origin: LineOrigin,
) -> Result<TranslatedLine, Failure> {
    let is_grid_engine = origin == LineOrigin::GridEngineDirective;
    let line = translate_words(command, words, origin, is_grid_engine)?;
    // If one word is an option that only Grid Engine has, all words are read as in Grid Engine.
    if line.is_grid_engine && !is_grid_engine {
        translate_words(command, words, origin, true)
    } else {
        Ok(line)
    }
}

fn translate_words(
    command: &Command,
    words: &[OsString],
    origin: LineOrigin,
    is_grid_engine: bool,
) -> Result<TranslatedLine, Failure> {
    let mut state = TranslationState::new(is_grid_engine);
    let (mut line, mut script, mut operands) = (TranslatedLine::default(), None, 0);
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if word == "--" {
            operands = 0;
            line.words.push(word.clone());
            line.words.extend_from_slice(rest);
            break;
        }
        if let Some(option) = ForeignOption::of(word, rest.first(), &state) {
            rest = option.translate(rest, &mut state, &mut line)?;
        } else if getopt::is_option(word) {
            line.words.push(word.clone());
            if getopt::wants_next(command, word)
                && let Some((value, behind)) = rest.split_first()
            {
                line.words.push(value.clone());
                rest = behind;
            }
        } else {
            operands += 1;
            script.get_or_insert((line.clone(), rest));
            line.words.push(word.clone());
            if origin == LineOrigin::CommandLine && state.ends_at_operand() {
                break;
            }
        }
    }
    let has_arguments =
        origin == LineOrigin::CommandLine && (operands > 1 || state.ends_at_operand());
    match script {
        Some((before, arguments)) if has_arguments => {
            let script = words[words.len() - arguments.len() - 1].clone();
            line = state.complete(before, script, arguments)?;
        }
        _ => state.finish()?,
    }
    line.is_grid_engine = state.is_grid_engine;
    Ok(line)
}

/// The word as text; empty if it is not UTF-8.
fn text(word: &OsString) -> &str {
    std::str::from_utf8(word.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
