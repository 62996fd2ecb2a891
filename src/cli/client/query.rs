//! How a reading command asks: of a [`QuerySource`], or in tests of records made by hand.

use super::exit::Failure;
use super::source::{Answers, QuerySource};
use crate::sys::home::Home;
use crate::wire::client::Continue;
use crate::wire::message::{ClientAnswer, Question};

/// Answers a question.
pub type Ask<'a> = dyn FnMut(&Question) -> Result<Answers, Failure> + 'a;

/// Takes a part of an answer; the server's facts are the first.
pub type TakePart<'a> = dyn FnMut(ClientAnswer) -> Result<(), Failure> + 'a;

/// Answers a question part by part: no more than one part is in memory. What a part fails with ends
/// the answer, and is the result.
pub type Feed<'a> = dyn FnMut(&Question, &mut TakePart) -> Result<(), Failure> + 'a;

/// What a reading command has to say: its output, and what it could not do.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error, in this order; the last one's code is the exit status.
    pub failures: Vec<Failure>,
}

/// Asks of this installation, part by part. Without an answer, `failure` words why.
pub fn feed(
    failure: fn(&str) -> Failure,
) -> Result<impl FnMut(&Question, &mut TakePart) -> Result<(), Failure>, Failure> {
    let mut source = Home::find()
        .and_then(|home| QuerySource::open(&home))
        .map_err(|error| failure(&format!("{error:#}")))?;
    Ok(move |question: &Question, part: &mut TakePart| {
        let mut taken = Ok(());
        let each = &mut |answer| {
            taken = part(answer);
            if taken.is_ok() {
                Continue::Wanted
            } else {
                Continue::Enough
            }
        };
        source
            .parts(question, each)
            .map_err(|error| failure(&format!("{error:#}")))?;
        taken
    })
}

/// The same, for whole answers.
pub fn source(
    failure: fn(&str) -> Failure,
) -> Result<impl FnMut(&Question) -> Result<Answers, Failure>, Failure> {
    let mut feed = feed(failure)?;
    Ok(move |question: &Question| whole(&mut feed)(question))
}

/// Whole answers out of their parts.
pub fn whole(feed: &mut Feed) -> impl FnMut(&Question) -> Result<Answers, Failure> {
    |question| {
        let mut answers: Option<Answers> = None;
        feed(question, &mut |part| {
            match (&mut answers, part) {
                (None, ClientAnswer::Server(server)) => answers = Some(Answers::from(*server)),
                (None, _) => return Err(super::exit::garbled()),
                (Some(answers), part) => answers.add(part),
            }
            Ok(())
        })?;
        answers.ok_or_else(super::exit::garbled)
    }
}

/// The failure for a server that does not answer, with this exit status.
pub fn no_server(why: &str, code: u8) -> Failure {
    Failure::silent_server(why).with_code(code)
}

impl CommandOutput {
    /// Prints it all and returns the exit status.
    pub fn tell(self, name: &str, usage: fn() -> clap::Command) -> Result<u8, Failure> {
        super::exit::print(self.out)?;
        Ok(report(&self.failures, name, usage))
    }
}

/// Prints all failures. The exit status is that of the last one.
pub fn report(failures: &[Failure], name: &str, usage: fn() -> clap::Command) -> u8 {
    failures
        .iter()
        .fold(0, |_, failure| failure.report(name, usage))
}
