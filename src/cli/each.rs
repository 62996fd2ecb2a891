//! One request for each job id of a command line, in order, over one connection.

use super::exit::{self, Failure};
use super::operand::Operand;
use super::source::Source;
use crate::model::array::Indices;
use crate::model::job::JobId;
use crate::model::refusal::Refusal;
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
        Some(job) => match reply(server, job, &operand, request)? {
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

/// The server's answer. Clients that keep the digits of an id alone have lost the brackets of an array: where
/// there is no job of a bare number, the array of that number is meant.
fn reply(
    server: &mut dyn Server,
    job: JobId,
    operand: &Operand,
    request: &impl Fn(JobId, Option<Indices>) -> Request,
) -> Result<Reply, ClientError> {
    let reply = server.call(&request(job, operand.only()))?;
    let is_unknown = |reply: &Reply| matches!(reply, Reply::Refused(refusal) if *refusal == Refusal::unknown_job());
    let is_bare = job == JobId::job(job.number) && !operand.names_server();
    if !is_bare || !is_unknown(&reply) {
        return Ok(reply);
    }
    let of_array = server.call(&request(JobId::array(job.number), None))?;
    Ok(if is_unknown(&of_array) { reply } else { of_array })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// Knows job 1 (on which it acts), job 2 (which has finished), and the array 3[].
    #[derive(Default)]
    struct Scripted(Vec<String>);

    impl Server for Scripted {
        fn call(&mut self, request: &Request) -> Result<Reply, ClientError> {
            let Request::Wait(job) = request else { unreachable!() };
            self.0.push(job.to_string());
            Ok(match job.to_string().as_str() {
                "1" | "3[]" => Reply::Done,
                "2" => Reply::Refused(Refusal::finished()),
                _ => Reply::Refused(Refusal::unknown_job()),
            })
        }

        fn name(&mut self) -> Result<String, Failure> {
            Ok("head".into())
        }
    }

    fn acted(ids: &[&str]) -> (Result<u8, Failure>, String) {
        let operands: Vec<OsString> = ids.iter().map(OsString::from).collect();
        let mut server = Scripted::default();
        (act("qdel", || Command::new("qdel"), &operands, &mut server, whole(Request::Wait)), server.0.join(" "))
    }

    #[test]
    fn every_operand_is_acted_on_and_the_last_failure_counts() {
        assert_eq!(acted(&["1"]), (Ok(0), "1".into()));
        assert_eq!(acted(&["9.head", "2", "1"]), (Ok(35), "9 2 1".into()));
        assert_eq!(acted(&["2", "9.head", "1.head\n"]), (Ok(153), "2 9 1".into()));
        assert_eq!(acted(&["1.other", "1"]), (Ok(1), "1".into()));
        assert_eq!(acted(&["1@other", "1"]), (Ok(160), "1".into()));
        assert_eq!(acted(&["2", "x"]), (Ok(1), "2".into()));
        assert_eq!(acted(&[]).0, Err(Failure::usage("")));
    }

    #[test]
    fn a_bare_number_means_the_array_where_there_is_no_such_job() {
        assert_eq!(acted(&["3"]), (Ok(0), "3 3[]".into()));
        assert_eq!(acted(&["3.head"]), (Ok(153), "3".into()));
        assert_eq!(acted(&["3[1]"]), (Ok(153), "3[1]".into()));
        assert_eq!(acted(&["4"]), (Ok(153), "4 4[]".into()));
    }
}
