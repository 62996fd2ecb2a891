//! Queries of commands that change nothing. Answers come from a [`QuerySource`], or in tests from
//! sample records.

use super::exit::Failure;
use super::source::{Answers, QuerySource};
use crate::sys::home::Home;
use crate::wire::client::Continue;
use crate::wire::message::{ClientAnswer, Question};

/// A function that answers a question.
pub type Ask<'a> = dyn FnMut(&Question) -> Result<Answers, Failure> + 'a;

/// A function that receives a part of an answer. The first part contains the server facts.
pub type TakePart<'a> = dyn FnMut(ClientAnswer) -> Result<(), Failure> + 'a;

/// A function that answers a question and passes the parts of the answer to a receiver, so that
/// only a part of the answer is in memory. An error of the receiver ends the answer and is
/// returned.
pub type Feed<'a> = dyn FnMut(&Question, &mut TakePart) -> Result<(), Failure> + 'a;

/// The result of a command that changes nothing.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// The text for standard output.
    pub out: Vec<u8>,
    /// The failures for standard error, in the order of output. The last failure determines the
    /// exit status.
    pub failures: Vec<Failure>,
}

/// Returns a [`Feed`] of this installation. `failure` converts the text of an error to a failure.
pub fn feed(
    failure: fn(&str) -> Failure,
) -> Result<impl FnMut(&Question, &mut TakePart) -> Result<(), Failure>, Failure> {
    let mut source = Home::find()
        .and_then(|home| QuerySource::open(&home))
        .map_err(|error| failure(&format!("{error:#}")))?;
    Ok(move |question: &Question, part: &mut TakePart| {
        let mut result = Ok(());
        let each = &mut |answer| {
            result = part(answer);
            if result.is_ok() {
                Continue::Wanted
            } else {
                Continue::Enough
            }
        };
        source
            .parts(question, each)
            .map_err(|error| failure(&format!("{error:#}")))?;
        result
    })
}

/// Returns an [`Ask`] of this installation. `failure` converts the text of an error to a failure.
pub fn source(
    failure: fn(&str) -> Failure,
) -> Result<impl FnMut(&Question) -> Result<Answers, Failure>, Failure> {
    let mut feed = feed(failure)?;
    Ok(move |question: &Question| whole(&mut feed)(question))
}

/// Returns an [`Ask`] that assembles the parts of each answer from `feed`.
pub fn whole(feed: &mut Feed) -> impl FnMut(&Question) -> Result<Answers, Failure> {
    |question| {
        let mut answers: Option<Answers> = None;
        feed(question, &mut |part| {
            match (&mut answers, part) {
                (None, ClientAnswer::Server(server)) => answers = Some(Answers::from(*server)),
                (None, _) => return Err(super::exit::protocol_error()),
                (Some(answers), part) => answers.add(part),
            }
            Ok(())
        })?;
        answers.ok_or_else(super::exit::protocol_error)
    }
}

/// The failure for a server that does not respond, with exit status `code`.
pub fn no_server(why: &str, code: u8) -> Failure {
    Failure::server_unreachable(why).with_code(code)
}

impl CommandOutput {
    /// Prints the output and the failures; returns the exit status.
    pub fn print(self, name: &str, usage: fn() -> clap::Command) -> Result<u8, Failure> {
        super::exit::print(self.out)?;
        Ok(report(&self.failures, name, usage))
    }
}

/// Prints all failures. Returns the exit status of the last failure; 0 without failures.
pub fn report(failures: &[Failure], name: &str, usage: fn() -> clap::Command) -> u8 {
    failures
        .iter()
        .fold(0, |_, failure| failure.report(name, usage))
}
