//! The node daemon: it runs jobs as ordered by schedd and makes no scheduling decisions.
//!
//! schedd connects to noded's socket and sends orders about attempts; an attempt is one start of a
//! job. noded passes each start to its spawner, a small process that only forks. The spawner forks
//! a shepherd, the process that starts and watches one attempt. The shepherd forks the job. Any of
//! these processes may be killed at any time. Four rules protect the jobs:
//!
//! 1. The shepherd creates the attempt's directory before it forks the job. If the directory exists
//!    already, the shepherd does not start the job. So no attempt runs twice ([`folder`]).
//! 2. A cancel creates a tombstone, a file that marks the attempt as canceled, even if noded has
//!    not seen the attempt. So a canceled attempt never starts ([`attempts`]).
//! 3. noded refuses to start or cancel an unknown attempt below the highest known attempt of the
//!    job. It also refuses a schedd with an epoch below the highest known epoch. The epoch is a
//!    number that grows with each start of schedd ([`attempts`], [`daemon`]).
//! 4. noded removes the records of an attempt only after schedd has confirmed that the outcome is
//!    stored. So no outcome is lost ([`attempts`]).

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

pub mod task_clients;

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

/// Runs noded.
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

/// The command line, for manual pages and completions.
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
