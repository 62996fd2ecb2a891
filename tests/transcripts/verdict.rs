//! Whether what a command did is what was recorded.

use super::placeholders::Bindings;
use super::world::{EXEC, PBSHOME, SCRATCH};
use crate::support::blocks::Block;
use crate::support::sandbox::Done;

/// How a command compares to its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The same.
    Same,
    /// The same, but standard error says more (decision 21).
    SaysMore,
    /// Not the same.
    Differs,
}

/// Compares; None stands for a command that does not end.
pub fn verdict(block: &Block, done: Option<&Done>, bindings: &mut Bindings) -> Verdict {
    let (Some(done), Some(code)) = (done, block.code) else {
        return if done.is_none() && block.code.is_none() { Verdict::Same } else { Verdict::Differs };
    };
    let out = lines_fit(&without_usage(&expected(&block.out)), &without_usage(&done.out), bindings);
    let (wanted, said) = (without_usage(&expected(&block.err)), without_usage(&done.err));
    let more = says_all(&wanted, &said, bindings);
    let same = lines_fit(&wanted, &said, bindings)
        || (wanted.ends_with("<USAGE>\n") && lines_fit(usage_apart(&wanted), usage_apart(&said), bindings));
    match (out && code == done.code, same, more) {
        (true, true, _) => Verdict::Same,
        (true, false, true) => Verdict::SaysMore,
        _ => Verdict::Differs,
    }
}

/// What was recorded, with names as they are here.
pub fn expected(text: &str) -> String {
    let text = text.replace("<EXEC>", EXEC).replace("<PBSHOME>", PBSHOME).replace("<OVL>", SCRATCH);
    let text = text.replace("23.06.06", "<VERSION>");
    [("pcpus = 2", "pcpus = <N>"), ("\"pcpus\":\t2", "\"pcpus\":\t<N>"), ("pcpus=2", "pcpus=<N>")]
        .iter()
        .fold(text, |text, (theirs, here)| text.replace(theirs, here))
}

/// Usage and help texts are ours (decision 8): one mark stands for them.
fn without_usage(text: &str) -> String {
    let is_usage = |line: &&str| line.to_ascii_lowercase().starts_with("usage:") || *line == "<USAGE>";
    let kept: Vec<&str> = text.split_inclusive('\n').take_while(|line| !is_usage(&line.trim_end())).collect();
    let is_all = kept.len() == text.split_inclusive('\n').count();
    kept.concat() + if is_all { "" } else { "<USAGE>\n" }
}

/// The text with or without a usage text.
fn usage_apart(text: &str) -> &str {
    text.strip_suffix("<USAGE>\n").unwrap_or(text)
}

fn lines_fit(expected: &str, text: &str, bindings: &mut Bindings) -> bool {
    let (wanted, said): (Vec<_>, Vec<_>) = (expected.split('\n').collect(), text.split('\n').collect());
    let fitting = wanted.iter().zip(&said).filter(|(wanted, said)| bindings.fits(wanted, said)).count();
    fitting == wanted.len() && wanted.len() == said.len()
}

/// Whether every line expected is said in order, maybe with more behind it.
fn says_all(expected: &str, text: &str, bindings: &mut Bindings) -> bool {
    let mut said = text.lines();
    let mut wanted = usage_apart(expected).lines().peekable();
    let is_silent = wanted.peek().is_none();
    wanted.all(|wanted| said.any(|line| bindings.begins(wanted, line))) && !is_silent
}
