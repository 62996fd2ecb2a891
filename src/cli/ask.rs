//! How a reading command asks: of a [`Source`], or in tests of records made by hand.

use super::exit::Failure;
use super::source::{Answers, Source};
use crate::sys::home::Home;
use crate::wire::message::Question;

/// Answers a question.
pub type Ask<'a> = dyn FnMut(&Question) -> Result<Answers, Failure> + 'a;

/// What a reading command has to say: its output, and what it could not do.
#[derive(Debug, Default)]
pub struct Said {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error, in this order; the last one's code is the exit status.
    pub failures: Vec<Failure>,
}

/// Asks of this installation. Without an answer, `failure` words why.
pub fn source(failure: fn(&str) -> Failure) -> Result<impl FnMut(&Question) -> Result<Answers, Failure>, Failure> {
    let why = move |error: anyhow::Error| failure(&format!("{error:#}"));
    let mut source = Home::find().and_then(|home| Source::open(&home)).map_err(why)?;
    Ok(move |question: &Question| source.ask(question).map_err(why))
}

/// PBS's words for a server that does not answer, and why: `cannot connect to server: <why>
/// (errno=15010)`.
pub fn no_server(why: &str, code: u8) -> Failure {
    Failure::new(code, format!("cannot connect to server: {why} (errno=15010)"))
}

impl Said {
    /// Prints it all and returns the exit status.
    pub fn tell(self, name: &str, usage: fn() -> clap::Command) -> Result<u8, Failure> {
        super::exit::print(self.out)?;
        Ok(self.failures.iter().fold(0, |_, failure| failure.report(name, usage)))
    }
}
