//! The daemon that runs jobs: it executes, never decides.
//!
//! schedd dials noded's socket and gives orders about attempts; noded hands each start to its
//! spawner, which forks a shepherd, which forks the job. Four rules keep that safe at any moment at
//! which any of them may be killed:
//!
//! 1. the shepherd makes the attempt's folder before it forks the job, and an existing one means
//!    that the attempt has been started: so none runs twice ([`folder`])
//! 2. a cancel leaves a tombstone, also for an attempt not yet seen: so what was cancelled never
//!    starts ([`attempts`])
//! 3. an order below the highest attempt seen of its job is refused, and so is a schedd of an
//!    earlier epoch ([`attempts`], [`daemon`])
//! 4. records are removed only when schedd has confirmed: so no outcome is lost ([`attempts`])

pub mod args;

pub mod rules;

pub mod probe;

pub mod grant;

pub mod state;

pub mod daemon;

pub mod background;

pub mod gauge;

pub mod gpus;
mod poller;

pub mod askers;

pub mod attempts;

pub mod adopt;
pub mod checkpoint;

pub mod hollow;

pub mod site;

pub mod folder;

pub mod spawner;

pub mod spawner_messages;

pub mod shepherd;

pub mod variables;

pub mod environment;

pub mod dialects;

pub mod program;

pub mod tmpdir;

pub mod child;

pub mod launch_fault;

pub mod terminal;

pub mod control;

pub mod watch;

pub mod sweep;

pub mod pause;

pub mod meter;

pub mod shared_memory;

pub mod limits;

pub mod staging_worker;

pub mod job_hooks;

pub mod periodic;

pub mod staging;

pub mod delivery;

mod notify;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// The program `noded`.
pub fn main() -> ExitCode {
    let args = match args::NodedArgs::try_parse_from(crate::sys::env::args()) {
        Ok(args) => args,
        Err(e) => e.exit(),
    };
    match daemon::main(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("noded: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Its command line, for manual pages and completions.
pub fn command() -> clap::Command {
    args::NodedArgs::command()
}

#[cfg(test)]
fn launch_for_tests() -> crate::wire::order::Launch {
    use crate::model::job::{Join, NodeShare, Owner};
    use crate::model::job_id::JobId;
    use crate::model::time::Span;
    let share = NodeShare {
        node: "n1".into(),
        host: "n1".into(),
        taken: Vec::new(),
        cpus: Vec::new(),
        gpus: Vec::new(),
        mpiprocs: 1,
        pooled: vec![],
        ranks: vec![],
    };
    crate::wire::order::Launch {
        job: JobId::job(1),
        attempt: 1,
        full_id: "1.here".into(),
        name: "job".into(),
        queue: "workq".into(),
        account: None,
        owner: Owner {
            user: "ann".into(),
            uid: 1,
            gid: 1,
        },
        payload: crate::wire::message::Payload::Script(b"#!/bin/sh\n".to_vec()),
        arguments: Default::default(),
        shell: None,
        login: false,
        interactive: false,
        environ: Vec::new(),
        workdir: "/".into(),
        output: "/dev/null".into(),
        error: "/dev/null".into(),
        join: Join::No,
        umask: None,
        walltime: None,
        overrun: Span(0),
        grace: Span::seconds(1),
        staging_timeout: Span::seconds(60),
        shares: vec![share],
        threads: 1,
        limits: Default::default(),
        responses: Default::default(),
        files: Default::default(),
        groups: None,
        place: Default::default(),
        checkpoints: None,
        job_hooks: None,
    }
}
