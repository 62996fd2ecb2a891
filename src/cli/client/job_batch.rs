//! Runs commands with a list of job ids: sends the requests for several jobs together, and prints a
//! line for each failure.

use super::exit::{self, Failure};
use super::operand::Operand;
use super::source::QuerySource;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::sys::home::Home;
use crate::wire::batch::{self, Act, Batch, BatchTarget};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, Question, Reply};
use std::ffi::OsString;

/// A connection that sends requests to schedd; tests use a substitute.
pub trait Server {
    /// Sends a request and waits for the reply.
    fn call(&mut self, request: &ClientRequest) -> Result<Reply, ClientError>;
    /// The server name after the dot of every job id.
    fn name(&mut self) -> Result<String, Failure>;
}

/// The schedd of this installation; connects at the first request.
pub struct LazySchedd {
    home: Home,
    client: Option<Client>,
    name: Option<String>,
}

impl LazySchedd {
    /// Finds the installation without connecting.
    pub fn find() -> Result<LazySchedd, Failure> {
        Ok(LazySchedd {
            home: Home::find()?,
            client: None,
            name: None,
        })
    }
}

impl Server for LazySchedd {
    fn call(&mut self, request: &ClientRequest) -> Result<Reply, ClientError> {
        match &mut self.client {
            Some(client) => client.call(request),
            none => none.insert(Client::connect(&self.home)?).call(request),
        }
    }

    fn name(&mut self) -> Result<String, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let name = QuerySource::open(&self.home)?
            .ask(&Question::Server)?
            .server
            .name;
        Ok(self.name.insert(name).clone())
    }
}

/// Applies `act` to the jobs of all operands. A request contains up to [`batch::LARGEST`] jobs.
/// Failures are printed in the order of the operands, and the last failure determines the exit
/// status. Only a failure to communicate with the server ends the command before all jobs are
/// handled. Without operands, returns a usage error.
pub fn act(
    command: &'static str,
    usage: fn() -> clap::Command,
    operands: &[OsString],
    server: &mut dyn Server,
    act: &Act,
) -> Result<u8, Failure> {
    if operands.is_empty() {
        return Err(Failure::usage(""));
    }
    let mut targets = Vec::with_capacity(operands.len());
    for word in operands {
        targets.push(target(word, server)?);
    }
    let jobs: Vec<BatchTarget> = targets
        .iter()
        .flatten()
        .map(|(_, target)| *target)
        .collect();
    let mut outcomes = request(server, act, &jobs).into_iter();
    let mut code = 0;
    for target in targets {
        let outcome = match target {
            Ok((operand, _)) => {
                let outcome = outcomes.next().ok_or_else(exit::protocol_error)??;
                report_outcome(command, server, &operand, outcome)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = outcome {
            code = failure.report(command, usage);
        }
    }
    Ok(code)
}

/// Prints the notes about a job, or turns its refusal into a failure.
fn report_outcome(
    command: &str,
    server: &mut dyn Server,
    operand: &Operand,
    outcome: Result<Vec<String>, Refusal>,
) -> Result<(), Failure> {
    let refusal = match outcome {
        Ok(notes) => {
            exit::print_notes(command, &notes);
            return Ok(());
        }
        Err(refusal) => refusal,
    };
    let id = server
        .name()
        .map_or_else(|_| operand.short(), |name| operand.full(&name));
    Err(Failure::of_job(command, &refusal, &id))
}

/// The job of an operand. The outer error is a failure to reach the server. The inner error is a
/// wrong operand.
fn target(
    word: &OsString,
    server: &mut dyn Server,
) -> Result<Result<(Operand, BatchTarget), Failure>, Failure> {
    let operand = match Operand::parse(word) {
        Ok(operand) => operand,
        Err(failure) => return Ok(Err(failure)),
    };
    let job = if operand.has_server() {
        operand.job(&server.name()?)
    } else {
        operand.local()
    };
    let Some(job) = job else {
        return Ok(Err(operand.wrong_server(word)));
    };
    let or_array = job == JobId::job(job.number) && !operand.has_server();
    let only = operand.only();
    Ok(Ok((
        operand,
        BatchTarget {
            job,
            only,
            or_array,
        },
    )))
}

/// The outcome for a job. The inner result is the reply: notes or a refusal. The outer error means
/// that communication with schedd failed; no further outcomes follow it.
pub type JobOutcome = Result<Result<Vec<String>, Refusal>, Failure>;

/// Sends the requests for these jobs, up to [`batch::LARGEST`] jobs in each. Returns the outcomes
/// in the order of the jobs, up to the first failure of communication.
pub fn request(server: &mut dyn Server, act: &Act, jobs: &[BatchTarget]) -> Vec<JobOutcome> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(batch::LARGEST) {
        match request_together(server, act, jobs) {
            Ok(part) => outcomes.extend(part.into_iter().map(Ok)),
            Err(failure) => {
                outcomes.push(Err(failure));
                return outcomes;
            }
        }
    }
    outcomes
}

fn request_together(
    server: &mut dyn Server,
    act: &Act,
    jobs: &[BatchTarget],
) -> Result<Vec<Result<Vec<String>, Refusal>>, Failure> {
    if let [job] = jobs {
        return Ok(vec![request_one(server, act, job)?]);
    }
    match server.call(&ClientRequest::Batch(Batch {
        act: act.clone(),
        jobs: jobs.to_vec(),
    }))? {
        Reply::Batch(outcomes) if outcomes.len() == jobs.len() => Ok(outcomes),
        Reply::Refused(refusal) => Ok(vec![Err(refusal); jobs.len()]),
        Reply::NotBatched => jobs
            .iter()
            .map(|job| request_one(server, act, job))
            .collect(),
        _ => Err(exit::protocol_error()),
    }
}

fn request_one(
    server: &mut dyn Server,
    act: &Act,
    target: &BatchTarget,
) -> Result<Result<Vec<String>, Refusal>, Failure> {
    let outcome = outcome_of(server, &act.on(target.job, target.only))?;
    match target.array() {
        Some(array)
            if outcome
                .as_ref()
                .is_err_and(|refusal| *refusal == Refusal::unknown_job()) =>
        {
            outcome_of(server, &act.on(array, None))
        }
        _ => Ok(outcome),
    }
}

fn outcome_of(
    server: &mut dyn Server,
    request: &ClientRequest,
) -> Result<Result<Vec<String>, Refusal>, Failure> {
    match server.call(request)? {
        Reply::Done => Ok(Ok(Vec::new())),
        Reply::Noted(notes) => Ok(Ok(notes)),
        Reply::Refused(refusal) => Ok(Err(refusal)),
        _ => Err(exit::protocol_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// A server with job 1 (which accepts requests), job 2 (finished) and the array 3[]. Records
    /// all requests.
    #[derive(Default)]
    struct FakeServer(Vec<String>);

    impl FakeServer {
        fn outcome(&mut self, job: JobId) -> Result<Vec<String>, Refusal> {
            self.0.push(job.to_string());
            match job.to_string().as_str() {
                "1" | "3[]" => Ok(Vec::new()),
                "2" => Err(Refusal::finished()),
                _ => Err(Refusal::unknown_job()),
            }
        }
    }

    impl Server for FakeServer {
        fn call(&mut self, request: &ClientRequest) -> Result<Reply, ClientError> {
            Ok(match request {
                ClientRequest::Shove(job) => self
                    .outcome(*job)
                    .map_or_else(Reply::Refused, |_| Reply::Done),
                ClientRequest::Batch(batch) => {
                    self.0.push("batch".into());
                    Reply::Batch(
                        batch
                            .jobs
                            .iter()
                            .map(|target| self.outcome(target.job))
                            .collect(),
                    )
                }
                _ => unreachable!(),
            })
        }

        fn name(&mut self) -> Result<String, Failure> {
            Ok("head".into())
        }
    }

    fn run_qdel(ids: &[&str]) -> (Result<u8, Failure>, String) {
        let operands: Vec<OsString> = ids.iter().map(OsString::from).collect();
        let mut server = FakeServer::default();
        (
            act(
                "qdel",
                || Command::new("qdel"),
                &operands,
                &mut server,
                &Act::Shove,
            ),
            server.0.join(" "),
        )
    }

    #[test]
    fn every_operand_is_handled_and_the_last_failure_sets_the_exit_status() {
        assert_eq!(run_qdel(&["1"]), (Ok(0), "1".into()));
        assert_eq!(
            run_qdel(&["9.head", "2", "1"]),
            (Ok(35), "batch 9 2 1".into())
        );
        assert_eq!(
            run_qdel(&["2", "9.head", "1.head\n"]),
            (Ok(153), "batch 2 9 1".into())
        );
        assert_eq!(run_qdel(&["1.other", "1"]), (Ok(1), "1".into()));
        assert_eq!(run_qdel(&["1@other", "1"]), (Ok(160), "1".into()));
        assert_eq!(run_qdel(&["2", "x"]), (Ok(1), "2".into()));
        assert_eq!(run_qdel(&["x", "1", "y", "1"]), (Ok(1), "batch 1 1".into()));
        assert_eq!(run_qdel(&[]).0, Err(Failure::usage("")));
    }

    #[test]
    fn a_list_longer_than_a_batch_is_sent_in_parts() {
        let ids = vec!["1"; batch::LARGEST + 1];
        let (code, calls) = run_qdel(&ids);
        assert_eq!(code, Ok(0));
        assert_eq!(
            (calls.matches("batch").count(), calls.matches('1').count()),
            (1, batch::LARGEST + 1)
        );
    }

    #[test]
    fn a_bare_number_selects_the_array_if_no_such_job_exists() {
        assert_eq!(run_qdel(&["3"]), (Ok(0), "3 3[]".into()));
        assert_eq!(run_qdel(&["3.head"]), (Ok(153), "3".into()));
        assert_eq!(run_qdel(&["3[1]"]), (Ok(153), "3[1]".into()));
        assert_eq!(run_qdel(&["4"]), (Ok(153), "4 4[]".into()));
    }
}
