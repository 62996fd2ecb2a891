//! `qterm`: shuts down schedd.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::{Client, Continue};
use crate::wire::message::{ClientAnswer, ClientRequest, QtermMode, Question, Reply};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use std::time::Duration;

/// The exit status of a wrong command line.
const USAGE: u8 = 1;
/// The exit status of all other failures.
const FAILED: u8 = 2;

/// The maximum number of checks whether schedd has exited.
const CHECKS: usize = 1000;
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Shut down schedd (operators only).
///
/// Waiting jobs stay in the spool. -t selects what happens to running jobs. In a personal
/// installation, the next command that needs a running schedd starts schedd again.
#[derive(Parser, Clone, Debug)]
#[command(name = "qterm")]
pub struct QtermArgs {
    /// quick (default): running jobs continue, and schedd exits at once. delay: rerunnable running
    /// jobs are requeued, and schedd exits when the other running jobs have ended. immediate:
    /// rerunnable running jobs are requeued, other running jobs are deleted, and schedd exits at
    /// once
    #[arg(short = 't', value_name = "immediate|delay|quick")]
    pub manner: Option<String>,
    /// Also shut down all nodeds; this ends no job
    #[arg(short = 'm')]
    pub nodes: bool,
    /// Accepted for compatibility: the scheduler always stops with schedd
    #[arg(short = 's')]
    pub scheduler: bool,
    /// Accepted for compatibility: there is no secondary server
    #[arg(short = 'f', conflicts_with = "idle")]
    pub secondary: bool,
    /// Accepted for compatibility; shuts down nothing, because there is no secondary server
    #[arg(short = 'i')]
    pub idle: bool,
    /// Name of this server
    #[arg(value_name = "server")]
    pub servers: Vec<String>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(QtermArgs::command())
}

/// Runs qterm.
pub fn main() -> ExitCode {
    exit::run("qterm", command, || run().map_err(as_qterm))
}

/// Replaces the exit status of a failure by the status of qterm.
fn as_qterm(failure: Failure) -> Failure {
    let code = if failure.usage { USAGE } else { FAILED };
    failure.with_code(code)
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<QtermArgs>(command)? else {
        return Ok(0);
    };
    let manner = manner(args.manner.as_deref())?;
    if args.idle {
        exit::print_notes(
            "qterm",
            &["there is no secondary server: nothing to do".to_string()],
        );
        return Ok(0);
    }
    let home = Home::find()?;
    // This connects only if schedd runs: qterm does not start schedd to shut it down.
    let mut client = Client::reach(&home)?;
    if let Some(other) = foreign_server(&args.servers, &mut client)? {
        return Err(Failure::unknown_host(other));
    }
    match client.call(&ClientRequest::Terminate {
        manner,
        nodes: args.nodes,
    })? {
        Reply::Done => {}
        Reply::Refused(refusal) => return Err(refused(&refusal)),
        _ => return Err(exit::protocol_error()),
    }
    if manner != QtermMode::Delay {
        await_end(&home)?;
    }
    Ok(0)
}

fn manner(text: Option<&str>) -> Result<QtermMode, Failure> {
    match text {
        None | Some("quick") => Ok(QtermMode::Quick),
        Some("delay") => Ok(QtermMode::Delay),
        Some("immediate") => Ok(QtermMode::Immediate),
        Some(_) => Err(crate::cli::arguments::job_options::illegal('t')),
    }
}

/// The first of `servers` that is not the name of this server.
fn foreign_server<'a>(
    servers: &'a [String],
    client: &mut Client,
) -> Result<Option<&'a str>, Failure> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mut name = None;
    client.ask(&Question::Server, |answer| {
        if let ClientAnswer::Server(server) = answer {
            name = Some(server.name);
        }
        Continue::Wanted
    })?;
    let name = name.ok_or_else(exit::protocol_error)?;
    Ok(servers
        .iter()
        .map(String::as_str)
        .find(|server| !same_server(server, &name)))
}

/// The failure in PBS's words, which end in a blank where a job id would follow.
fn refused(refusal: &Refusal) -> Failure {
    Failure::of_job("qterm", refusal, "")
}

/// Waits until schedd has exited. Fails if it still runs after a few seconds.
fn await_end(home: &Home) -> Result<(), Failure> {
    for _ in 0..CHECKS {
        if !crate::spool::lock::is_held(home) {
            return Ok(());
        }
        clock::sleep(PAUSE);
    }
    Err(Failure::new(
        FAILED,
        format!(
            "schedd accepted the request to exit, but still locks {}",
            home.spool().display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_mode_is_quick() {
        let all = [None, Some("quick"), Some("delay"), Some("immediate")]
            .map(|text| manner(text).unwrap());
        assert_eq!(
            all,
            [
                QtermMode::Quick,
                QtermMode::Quick,
                QtermMode::Delay,
                QtermMode::Immediate
            ]
        );
        let wrong = as_qterm(manner(Some("slow")).unwrap_err());
        assert_eq!(
            (wrong.text.as_str(), wrong.usage, wrong.code),
            ("illegal -t value", true, 1)
        );
    }
}
