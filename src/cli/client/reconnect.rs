//! A schedd that has gone away is waited for: what a command waits for outlasts it.

use super::installation;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use std::time::Duration;

/// The pause before it is looked for again.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Connects once there is a schedd again; says once what it waits for. An error when there is one
/// that does not understand us.
pub fn connect(command: &str, home: &Home) -> Result<Client, ClientError> {
    let mut told = false;
    loop {
        match Client::connect(home) {
            Err(ClientError::Unreachable(why)) => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("{command}: waiting for schedd: {why}");
                    if let Some(hint) = installation::other() {
                        eprintln!("{command}: {hint}");
                    }
                }
            }
            other => return other,
        }
        clock::sleep(PAUSE);
    }
}
