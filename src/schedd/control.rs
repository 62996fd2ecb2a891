//! Commands to a running schedd: status and stop.

use crate::sys::home::Home;
use crate::sys::{clock, record};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, Reply, ScheddStatus};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use std::time::Duration;

/// Maximum time for schedd to respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a running schedd answers a request. A schedd that accepts connections but does not
/// answer is possibly about to exit.
pub fn is_served(home: &Home) -> bool {
    let Ok(mut client) = Client::reach(home) else {
        return false;
    };
    client.set_timeout(TIMEOUT);
    let answer = client
        .begin(&ClientRequest::Status)
        .and_then(|()| client.reply());
    // A schedd of another version answers with an error, but is running.
    !matches!(answer, Err(ClientError::Unreachable(_)))
}

/// Prints the status of the running schedd.
pub fn status(home: &Home) -> Result<()> {
    let reply = Client::reach(home)
        .context("no schedd is running here")?
        .call(&ClientRequest::Status)?;
    let Reply::Status(status) = reply else {
        bail!("schedd sent an unexpected reply")
    };
    println!("{}", status_table(&status));
    Ok(())
}

fn status_table(status: &ScheddStatus) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let jobs = status
        .jobs
        .iter()
        .map(|(state, count)| format!("{count} {}", state.letter()))
        .collect::<Vec<_>>();
    let mut nodes = Vec::new();
    for (name, is_up) in &status.nodes {
        nodes.push(format!("{name} {}", if *is_up { "up" } else { "down" }));
    }
    table.add_row([
        "schedd",
        &format!("{} (process {})", status.version, status.pid),
    ]);
    table.add_row(["up", &status.uptime.to_string()]);
    table.add_row(["spool", &status.spool.to_string()]);
    table.add_row(["jobs", &or_none(&jobs)]);
    table.add_row(["nodes", &or_none(&nodes)]);
    table
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() {
        "none".to_string()
    } else {
        list.join(", ")
    }
}

/// Makes schedd exit, and waits at most five seconds until it has unlocked the spool. Succeeds if
/// no schedd is running.
pub fn stop(home: &Home) -> Result<()> {
    let reply = Client::reach(home).and_then(|mut client| client.call(&ClientRequest::Stop));
    match reply {
        Ok(Reply::Done) => {}
        Ok(Reply::Refused(refusal)) => bail!("{refusal}"),
        Ok(_) => bail!("schedd sent an unexpected reply"),
        Err(_) if !crate::spool::lock::is_held(home) => {
            println!("no schedd is running here");
            return Ok(());
        }
        Err(error) => terminate(home).context(error)?,
    }
    for _ in 0..1000 {
        if !crate::spool::lock::is_held(home) {
            return Ok(());
        }
        clock::sleep(Duration::from_millis(5));
    }
    bail!(
        "schedd has not exited: schedd still holds the spool {}",
        home.spool().display()
    )
}

/// Sends SIGTERM to a schedd of another version, or one that does not respond.
fn terminate(home: &Home) -> Result<()> {
    let record = record::read(home).context("the process id of schedd is unknown")?;
    let process = nix::unistd::Pid::from_raw(record.pid as i32);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM)
        .context("cannot send SIGTERM to schedd")
}
