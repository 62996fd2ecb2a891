//! `qenable` and `qdisable` set whether queues accept jobs; `qstart` and `qstop` set whether the
//! jobs of queues start.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;

use crate::wire::message::{ClientRequest, Reply};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// A command that sets `attribute` of each named queue to `value`.
struct QueueStateCommand {
    name: &'static str,
    command: fn() -> clap::Command,
    attribute: &'static str,
    value: &'static str,
}

/// The exit status of a wrong command line.
const USAGE: u8 = 1;
/// The exit status if schedd refuses or does not answer the request for a change, or if the server
/// is unknown.
const FAILED: u8 = 2;

#[derive(Parser, Clone, Debug)]
struct QueueStateArgs {
    /// Queues: name or name@server
    #[arg(value_name = "queue", required = true)]
    queues: Vec<String>,
}

fn definition(name: &'static str, about: &'static str) -> clap::Command {
    getopt::pbs(QueueStateArgs::command().name(name).about(about))
}

/// The definition of `qenable`.
pub fn qenable_command() -> clap::Command {
    definition("qenable", "Make queues accept new jobs")
}

/// The definition of `qdisable`.
pub fn qdisable_command() -> clap::Command {
    definition(
        "qdisable",
        "Make queues reject new jobs; jobs already in the queues stay",
    )
}

/// The definition of `qstart`.
pub fn qstart_command() -> clap::Command {
    definition("qstart", "Allow jobs of queues to start")
}

/// The definition of `qstop`.
pub fn qstop_command() -> clap::Command {
    definition(
        "qstop",
        "Do not start further jobs of queues; running jobs continue",
    )
}

/// Runs qenable.
pub fn qenable() -> ExitCode {
    main(&QueueStateCommand {
        name: "qenable",
        command: qenable_command,
        attribute: "enabled",
        value: "True",
    })
}

/// Runs qdisable.
pub fn qdisable() -> ExitCode {
    main(&QueueStateCommand {
        name: "qdisable",
        command: qdisable_command,
        attribute: "enabled",
        value: "False",
    })
}

/// Runs qstart.
pub fn qstart() -> ExitCode {
    main(&QueueStateCommand {
        name: "qstart",
        command: qstart_command,
        attribute: "started",
        value: "True",
    })
}

/// Runs qstop.
pub fn qstop() -> ExitCode {
    main(&QueueStateCommand {
        name: "qstop",
        command: qstop_command,
        attribute: "started",
        value: "False",
    })
}

fn main(state_command: &QueueStateCommand) -> ExitCode {
    exit::run(state_command.name, state_command.command, || {
        run(state_command)
    })
}

fn run(state_command: &QueueStateCommand) -> Result<u8, Failure> {
    let read = getopt::read::<QueueStateArgs>(state_command.command)
        .map_err(|failure| failure.with_code(USAGE));
    let Some(args) = read? else {
        return Ok(0);
    };
    let mut schedd = LazySchedd::find()?;
    let mut code = 0;
    for queue in &args.queues {
        if let Some(refusal) = set_state(state_command, queue, &mut schedd)? {
            code = Failure::new(FAILED, format!("{} {queue}", refusal.text))
                .report(state_command.name, state_command.command);
        }
    }
    Ok(code)
}

/// Sets the attribute of a queue. Returns the refusal, if any.
fn set_state(
    state_command: &QueueStateCommand,
    queue: &str,
    schedd: &mut LazySchedd,
) -> Result<Option<Refusal>, Failure> {
    let (queue, server) = queue.split_once('@').unwrap_or((queue, ""));
    if !server.is_empty() && !same_server(server, &schedd.name()?) {
        return Err(Failure::unknown_host(server).with_code(FAILED));
    }
    let edit = Edit {
        key: AttributeKey::plain(state_command.attribute),
        op: Op::Set,
        value: state_command.value.to_string(),
    };
    let command = QmgrCommand {
        verb: Verb::Set,
        target: QmgrObject::Queue(queue.to_string()),
        edits: vec![edit],
    };
    let reply = schedd.call(&ClientRequest::Amend(command));
    match reply.map_err(|error| Failure::from(error).with_code(FAILED))? {
        Reply::Done | Reply::Noted(_) => Ok(None),
        Reply::Refused(refusal) => Ok(Some(refusal)),
        _ => Err(exit::protocol_error()),
    }
}
