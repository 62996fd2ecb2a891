//! Unreachable and unknown servers, in PBS's words, which differ from command to command.

use super::exit::{Failure, NO_SERVER};
use super::source;

/// The exit status for a host that is unknown: 15008, mod 256.
pub const UNKNOWN_HOST: u8 = 160;

/// Why there is no server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Away {
    /// The server does not answer; the text says why.
    Silent(String),
    /// No server has this name here.
    Unknown(String),
}

impl Away {
    /// What `command` says of it: first the reason, as a line of its own.
    fn lines(&self, command: &str) -> String {
        let (why, server, number) = match self {
            Away::Silent(why) => (
                format!("Connection refused: {why}"),
                source::name_of_silent(),
                15010,
            ),
            Away::Unknown(host) => ("Unknown Host.".to_string(), host.clone(), 15008),
        };
        let named = if matches!(self, Away::Unknown(_)) {
            server.as_str()
        } else {
            ""
        };
        let said = match command {
            "qdel" => format!("Couldn't connect to cluster: {server}"),
            "qmgr" => format!("qmgr: cannot connect to server {named}"),
            "pbs_rstat" => format!("pbs_rstat: cannot connect to server (errno={number})"),
            "pbsnodes" => format!("pbsnodes: cannot connect to server {server}, error={number}"),
            "qrun" | "qenable" | "qdisable" | "qstart" | "qstop" | "qterm" => {
                format!("{command}: could not connect to server {named} ({number})")
            }
            _ => format!("{command}: cannot connect to server {server} (errno={number})"),
        };
        format!("{why}\n{said}\n")
    }

    /// What `failure` has to say when `command` says it, if it is about a server.
    pub fn told(failure: &Failure, command: &str) -> Option<String> {
        failure.away.as_ref().map(|away| away.lines(command))
    }
}

/// The failure for a server that does not answer.
pub fn silent(why: &str) -> Failure {
    let text = format!("cannot connect to server: {why} (errno=15010)");
    Failure {
        away: Some(Away::Silent(why.into())),
        ..Failure::new(NO_SERVER, text)
    }
}

/// No server of that name is known here.
pub fn unknown_host(host: &str) -> Failure {
    let text = format!("cannot connect to server {host} (errno=15008): Unknown Host.");
    Failure {
        away: Some(Away::Unknown(host.into())),
        ..Failure::new(UNKNOWN_HOST, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_words() {
        let said = |command| Away::told(&unknown_host("other"), command).unwrap();
        assert_eq!(
            said("qalter"),
            "Unknown Host.\nqalter: cannot connect to server other (errno=15008)\n"
        );
        assert_eq!(
            said("qdel"),
            "Unknown Host.\nCouldn't connect to cluster: other\n"
        );
        assert_eq!(
            said("qenable"),
            "Unknown Host.\nqenable: could not connect to server other (15008)\n"
        );
        assert_eq!(
            said("pbsnodes"),
            "Unknown Host.\npbsnodes: cannot connect to server other, error=15008\n"
        );
        let silent = Away::told(&silent("/s: none"), "qrun").unwrap();
        assert_eq!(
            silent,
            "Connection refused: /s: none\nqrun: could not connect to server  (15010)\n"
        );
        assert_eq!(Away::told(&Failure::new(1, "x"), "qrun"), None);
    }
}
