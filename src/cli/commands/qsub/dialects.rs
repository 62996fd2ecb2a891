//! Command lines and directives in the words of Grid Engine and TORQUE, put into PBS's words before
//! PBS's parser sees them.
//!
//! A word counts as theirs only where PBS would refuse it. Options that only need another letter or
//! value are rewritten ([`grid_engine`]); what stands behind the script, which PBS refuses, are the
//! script's arguments.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::Failure;
use clap::Command;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

pub mod grid_engine;

pub mod torque;

use grid_engine::{Foreign, TranslationState};

/// A line in PBS's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslatedLine {
    /// For PBS's parser.
    pub words: Vec<OsString>,
    /// What the script is given.
    pub arguments: Vec<OsString>,
    /// Whether it was in Grid Engine's words.
    pub is_grid_engine: bool,
    /// Options that have no effect or another effect here.
    pub remarks: Vec<String>,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    /// It is the command line.
    CommandLine,
    /// Behind `#PBS`, or what else was chosen.
    Directive,
    /// Behind `#$`.
    GridEngineDirective,
}

/// The line in PBS's words. `command` knows PBS's options.
pub fn in_pbs(
    command: &Command,
    words: &[OsString],
    place: LineOrigin,
) -> Result<TranslatedLine, Failure> {
    let spoken = place == LineOrigin::GridEngineDirective;
    let line = read(command, words, place, spoken)?;
    // One word of Grid Engine's tells how the others are meant.
    if line.is_grid_engine && !spoken {
        read(command, words, place, true)
    } else {
        Ok(line)
    }
}

fn read(
    command: &Command,
    words: &[OsString],
    place: LineOrigin,
    spoken: bool,
) -> Result<TranslatedLine, Failure> {
    let mut state = TranslationState::new(spoken);
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
        if let Some(option) = Foreign::of(word, rest.first(), &state) {
            rest = option.put(rest, &mut state, &mut line)?;
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
            if place == LineOrigin::CommandLine && state.ends_at_operand() {
                break;
            }
        }
    }
    let has_arguments =
        place == LineOrigin::CommandLine && (operands > 1 || state.ends_at_operand());
    match script {
        Some((before, arguments)) if has_arguments => {
            let script = words[words.len() - arguments.len() - 1].clone();
            line = state.run(before, script, arguments)?;
        }
        _ => state.finish()?,
    }
    line.is_grid_engine = state.is_spoken;
    Ok(line)
}

/// The word as text, if it is any.
fn text(word: &OsString) -> &str {
    std::str::from_utf8(word.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
