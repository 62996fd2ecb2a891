//! Queries of commands that only read: to a [`QuerySource`], or in tests to sample records.

use super::exit::Failure;
use super::source::{Answers, QuerySource};
use crate::sys::home::Home;
use crate::wire::client::Continue;
use crate::wire::message::{ClientAnswer, Question};

/// Answers a question.
pub type Ask<'a> = dyn FnMut(&Question) -> Result<Answers, Failure> + 'a;

/// Receives a part of an answer; the server's facts are the first part.
pub type TakePart<'a> = dyn FnMut(ClientAnswer) -> Result<(), Failure> + 'a;

/// Answers a question part by part, with only one part in memory. An error from the receiver ends
/// the answer and is returned.
pub type Feed<'a> = dyn FnMut(&Question, &mut TakePart) -> Result<(), Failure> + 'a;

/// The result of a reading command: its output and its failures.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error, in this order; the last one determines the exit status.
    pub failures: Vec<Failure>,
}

/// Queries this installation part by part. `failure` turns an error text into a failure.
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

/// Queries this installation for whole answers; `failure` as for [`feed`].
pub fn source(
    failure: fn(&str) -> Failure,
) -> Result<impl FnMut(&Question) -> Result<Answers, Failure>, Failure> {
    let mut feed = feed(failure)?;
    Ok(move |question: &Question| whole(&mut feed)(question))
}

/// Assembles whole answers from their parts.
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

/// The failure for a server that does not answer, with exit status `code`.
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

/// Prints all failures and returns the exit status of the last one.
pub fn report(failures: &[Failure], name: &str, usage: fn() -> clap::Command) -> u8 {
    failures
        .iter()
        .fold(0, |_, failure| failure.report(name, usage))
}
