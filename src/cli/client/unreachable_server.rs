//! Messages about unreachable and unknown servers. As in PBS, the messages differ by command.

use super::source;

/// The reason why a command cannot reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreachableServer {
    /// The server does not respond, for this reason.
    Silent(String),
    /// No known server has this name.
    Unknown(String),
}

impl UnreachableServer {
    /// The message of `command` in two lines: the reason, and the text of PBS's command.
    pub fn lines(&self, command: &str) -> String {
        let (why, server, number) = match self {
            UnreachableServer::Silent(why) => (
                format!("Connection refused: {why}"),
                source::configured_server_name(),
                15010,
            ),
            UnreachableServer::Unknown(host) => ("Unknown Host.".to_string(), host.clone(), 15008),
        };
        let named = if matches!(self, UnreachableServer::Unknown(_)) {
            server.as_str()
        } else {
            ""
        };
        let message = match command {
            "qdel" => format!("Couldn't connect to cluster: {server}"),
            "qmgr" => format!("qmgr: cannot connect to server {named}"),
            "pbs_rstat" => format!("pbs_rstat: cannot connect to server (errno={number})"),
            "pbsnodes" => format!("pbsnodes: cannot connect to server {server}, error={number}"),
            "qrun" | "qenable" | "qdisable" | "qstart" | "qstop" | "qterm" => {
                format!("{command}: could not connect to server {named} ({number})")
            }
            _ => format!("{command}: cannot connect to server {server} (errno={number})"),
        };
        format!("{why}\n{message}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_the_message_of_pbs() {
        let message = |command| UnreachableServer::Unknown("other".into()).lines(command);
        assert_eq!(
            message("qalter"),
            "Unknown Host.\nqalter: cannot connect to server other (errno=15008)\n"
        );
        assert_eq!(
            message("qdel"),
            "Unknown Host.\nCouldn't connect to cluster: other\n"
        );
        assert_eq!(
            message("qenable"),
            "Unknown Host.\nqenable: could not connect to server other (15008)\n"
        );
        assert_eq!(
            message("pbsnodes"),
            "Unknown Host.\npbsnodes: cannot connect to server other, error=15008\n"
        );
        let silent = UnreachableServer::Silent("/s: none".into()).lines("qrun");
        assert_eq!(
            silent,
            "Connection refused: /s: none\nqrun: could not connect to server  (15010)\n"
        );
    }
}
