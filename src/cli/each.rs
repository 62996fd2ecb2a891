//! One request for each job id of a command line, in order, over one connection.

use super::exit::{self, Failure};
use super::operand::Operand;
use super::source::Source;
use crate::model::array::Indices;
use crate::model::job::JobId;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{Question, Reply, Request};
use std::ffi::OsString;

/// How an act reaches schedd; in tests, a stand-in for it.
pub trait Server {
    /// Asks and waits for the reply.
    fn call(&mut self, request: &Request) -> Result<Reply, ClientError>;
    /// The name after the dot of every job id.
    fn name(&mut self) -> Result<String, Failure>;
}

/// The schedd of this installation, connected to when first asked.
pub struct Schedd {
    home: Home,
    client: Option<Client>,
    name: Option<String>,
}

impl Schedd {
    /// Finds the installation; connects later.
    pub fn find() -> Result<Schedd, Failure> {
        Ok(Schedd { home: Home::find()?, client: None, name: None })
    }
}

impl Server for Schedd {
    fn call(&mut self, request: &Request) -> Result<Reply, ClientError> {
        match &mut self.client {
            Some(client) => client.call(request),
            none => none.insert(Client::connect(&self.home)?).call(request),
        }
    }

    fn name(&mut self) -> Result<String, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let name = Source::open(&self.home)?.ask(&Question::Server)?.server.name;
        Ok(self.name.insert(name).clone())
    }
}

/// A request about whole jobs: a range of elements is none, as in PBS.
pub fn whole(request: impl Fn(JobId) -> Request) -> impl Fn(JobId, Option<Indices>) -> Request {
    // An element alone is refused by the server in the same words.
    move |job, only| request(only.map_or(job, |only| JobId::element(job.number, only.at(0))))
}

/// Acts on every operand; what fails is told as it fails, and the code of the last failure is the
/// exit status. Only a server that cannot be reached ends it early.
pub fn act(
    command: &'static str,
    usage: fn() -> clap::Command,
    operands: &[OsString],
    server: &mut dyn Server,
    request: impl Fn(JobId, Option<Indices>) -> Request,
) -> Result<u8, Failure> {
    if operands.is_empty() {
        return Err(Failure::usage(""));
    }
    let mut code = 0;
    for operand in operands {
        if let Err(failure) = one(command, operand, server, &request)? {
            code = failure.report(command, usage);
        }
    }
    Ok(code)
}

/// The outer result is about the server, the inner about this job.
fn one(
    command: &str,
    operand: &OsString,
    server: &mut dyn Server,
    request: &impl Fn(JobId, Option<Indices>) -> Request,
) -> Result<Result<(), Failure>, Failure> {
    let word = operand;
    let operand = match Operand::parse(word) {
        Ok(operand) => operand,
        Err(failure) => return Ok(Err(failure)),
    };
    let job = match operand.names_server() {
        true => operand.job(&server.name()?),
        false => operand.local(),
    };
    let refusal = match job {
        None => return Ok(Err(operand.misplaced(word))),
        Some(job) => match server.call(&request(job, operand.only()))? {
            Reply::Refused(refusal) => refusal,
            Reply::Done => return Ok(Ok(())),
            Reply::Noted(notes) => {
                exit::remark(command, &notes);
                return Ok(Ok(()));
            }
            _ => return Err(exit::garbled()),
        },
    };
    let id = server.name().map_or_else(|_| operand.short(), |name| operand.full(&name));
    Ok(Err(Failure::of_job(command, &refusal, &id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::refusal::Refusal;
    use clap::Command;

    /// Knows jobs 1 (which it acts on) and 2 (which has finished).
    #[derive(Default)]
    struct Scripted(Vec<u64>);

    impl Server for Scripted {
        fn call(&mut self, request: &Request) -> Result<Reply, ClientError> {
            let Request::Wait(JobId { number, .. }) = request else { unreachable!() };
            self.0.push(*number);
            Ok(match number {
                1 => Reply::Done,
                2 => Reply::Refused(Refusal::finished()),
                _ => Reply::Refused(Refusal::unknown_job()),
            })
        }

        fn name(&mut self) -> Result<String, Failure> {
            Ok("head".into())
        }
    }

    fn acted(ids: &[&str]) -> (Result<u8, Failure>, Vec<u64>) {
        let operands: Vec<OsString> = ids.iter().map(OsString::from).collect();
        let mut server = Scripted::default();
        (act("qdel", || Command::new("qdel"), &operands, &mut server, whole(Request::Wait)), server.0)
    }

    #[test]
    fn every_operand_is_acted_on_and_the_last_failure_counts() {
        assert_eq!(acted(&["1"]), (Ok(0), vec![1]));
        assert_eq!(acted(&["9", "2", "1"]), (Ok(35), vec![9, 2, 1]));
        assert_eq!(acted(&["2", "9.head", "1.head\n"]), (Ok(153), vec![2, 9, 1]));
        assert_eq!(acted(&["1.other", "1"]), (Ok(1), vec![1]));
        assert_eq!(acted(&["1@other", "1"]), (Ok(160), vec![1]));
        assert_eq!(acted(&["2", "x"]), (Ok(1), vec![2]));
        assert_eq!(acted(&[]).0, Err(Failure::usage("")));
    }
}
