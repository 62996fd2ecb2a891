//! Reconnects to schedd, so that a command that waits for a job continues after a restart of
//! schedd.

use super::installation;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use std::time::Duration;

/// The delay between two attempts to connect.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Tries to connect until schedd responds. If the first attempt fails, prints the reason. Fails if
/// the process at the socket is not trusted or uses another protocol.
pub fn connect(command: &str, home: &Home) -> Result<Client, ClientError> {
    let mut is_reported = false;
    loop {
        match Client::connect(home) {
            Err(ClientError::Unreachable(why)) => {
                if !std::mem::replace(&mut is_reported, true) {
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
