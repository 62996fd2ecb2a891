//! Error messages and exit statuses of the commands.
//!
//! Scripts depend on the messages (`<command>: <text>`) and on the exit statuses, which are usually
//! PBS error numbers modulo 256.

use super::installation;
use super::operand::Operand;
use super::unreachable_server::UnreachableServer;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::wire::client::ClientError;
use std::io::{self, Write};
use std::process::ExitCode;

/// The usual exit status for a wrong command line.
pub const USAGE: u8 = 2;

/// The usual exit status if no server responds: PBS's error number 15010 modulo 256.
pub const NO_SERVER: u8 = 162;

/// The usual exit status for an unknown host: PBS's error number 15008 modulo 256.
const UNKNOWN_HOST: u8 = 160;

/// An error message and an exit status of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message without the command's name; empty for no message.
    pub text: String,
    /// Whether the command's usage is printed after the message.
    pub usage: bool,
    /// The exit status.
    pub code: u8,
    /// The reason, if the server is unreachable or unknown. Then its [`UnreachableServer::lines`]
    /// are printed instead of `text`, because the message differs by command.
    pub away: Option<UnreachableServer>,
    /// The requested job, if it is unknown to this server.
    pub unknown: Option<JobId>,
    /// Lines that PBS does not print: the wrong word, its place, and the remedy. Each is printed as
    /// `<command>: <hint>` after the message or, without a message, after the usage.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure that prints `<command>: <text>`, with exit status `code`.
    pub fn new(code: u8, text: impl Into<String>) -> Failure {
        Failure {
            text: text.into(),
            usage: false,
            code,
            away: None,
            unknown: None,
            hints: Vec::new(),
        }
    }

    /// A failure that prints `<command>: <text>` and the usage, with exit status 2.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure {
            text: text.into(),
            usage: true,
            code: USAGE,
            away: None,
            unknown: None,
            hints: Vec::new(),
        }
    }

    /// A failure that prints nothing, with exit status `code`.
    pub fn silent(code: u8) -> Failure {
        Failure::new(code, "")
    }

    /// The failure for a server that does not respond. `why` is the reason.
    pub fn server_unreachable(why: &str) -> Failure {
        let text = format!("cannot connect to server: {why} (errno=15010)");
        Failure {
            away: Some(UnreachableServer::Silent(why.into())),
            ..Failure::new(NO_SERVER, text)
        }
    }

    /// The failure for an unknown server `host`.
    pub fn unknown_host(host: &str) -> Failure {
        let text = format!("cannot connect to server {host} (errno=15008): Unknown Host.");
        Failure {
            away: Some(UnreachableServer::Unknown(host.into())),
            ..Failure::new(UNKNOWN_HOST, text)
        }
    }

    /// The failure for a refused request about the job `id`, such as `12.head`. As in PBS, the
    /// message ends with the job id, except for an unknown node, for an illegal priority, and, in
    /// all commands but `qdel`, for a finished job.
    pub fn of_job(command: &str, refusal: &Refusal, id: &str) -> Failure {
        if let Some(failure) = illegal_priority(refusal) {
            return failure;
        }
        let is_about_a_node = refusal.code == Refusal::unknown_node().code;
        let is_without_id = is_about_a_node || *refusal == Refusal::finished() && command != "qdel";
        let text = if is_without_id {
            refusal.text.clone()
        } else {
            format!("{} {id}", refusal.text)
        };
        let mut failure = Failure::new(refusal.exit_code(), text).with_remedy_of(refusal);
        if *refusal == Refusal::unknown_job() {
            let operand = Operand::parse(id.as_ref()).ok();
            failure.unknown = operand.map(|operand| operand.id());
        }
        failure
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    pub fn hint_if(self, hint: Option<String>) -> Failure {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Adds the remedy of a refusal as a hint.
    fn with_remedy_of(self, refusal: &Refusal) -> Failure {
        let remedy = refusal.remedy.clone();
        self.hint_if(Some(remedy).filter(|remedy| !remedy.is_empty()))
    }

    /// Replaces the exit status.
    pub fn with_code(self, code: u8) -> Failure {
        Failure { code, ..self }
    }

    /// Prints the failure on standard error, with a hint if the user's other installation may help,
    /// and returns the exit status. `usage` returns the definition of the command's options.
    pub fn report(&self, command: &str, usage: fn() -> clap::Command) -> u8 {
        // PBS prints no blank before a text that begins with a tab.
        let blank = if self.text.starts_with('\t') { "" } else { " " };
        let mut message = match &self.away {
            Some(away) => away.lines(command),
            None if self.text.is_empty() => String::new(),
            None => format!("{command}:{blank}{}\n", self.text),
        };
        let other = installation::hint(self.away.as_ref(), self.unknown);
        let start = installation::start_hint(self.away.as_ref());
        let hints: String = self
            .hints
            .iter()
            .chain(&start)
            .chain(&other)
            .map(|hint| format!("{command}: {hint}\n"))
            .collect();
        let usage = if self.usage {
            usage_text(command, usage())
        } else {
            String::new()
        };
        if message.is_empty() {
            message = usage + &hints;
        } else {
            message.push_str(&hints);
            message.push_str(&usage);
        }
        let _ = io::stderr().write_all(message.as_bytes());
        self.code
    }
}

/// Prints notes, which are not failures, on standard error.
pub fn print_notes(command: &str, notes: &[String]) {
    let message: String = notes
        .iter()
        .map(|note| format!("{command}: {note}\n"))
        .collect();
    let _ = io::stderr().write_all(message.as_bytes());
}

/// The usage of a command, in a few lines.
pub fn usage_text(name: &str, mut command: clap::Command) -> String {
    let usage = command
        .render_usage()
        .to_string()
        .replacen("Usage: ", "usage: ", 1);
    format!("{}\n       {name} --version\n", usage.trim_end())
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        illegal_priority(&refusal).unwrap_or_else(|| {
            Failure::new(refusal.exit_code(), &*refusal.text).with_remedy_of(&refusal)
        })
    }
}

/// The failure for an illegal priority, with the message of PBS's qsub; None for another refusal.
/// The server checks the priority, because only the server knows the legal range.
fn illegal_priority(refusal: &Refusal) -> Option<Failure> {
    (*refusal == Refusal::illegal_value(Refusal::PRIORITY))
        .then(|| Failure::usage("illegal -p value").with_remedy_of(refusal))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Unreachable(why) => Failure::server_unreachable(&why),
            ClientError::Protocol(why) => Failure::new(183, why),
        }
    }
}

/// Converts an error. A closed pipe (`qstat | head`) becomes exit status 0 without a message.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::silent(0),
            _ => Failure::new(1, error.to_string()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        match error.downcast::<io::Error>() {
            Ok(error) => error.into(),
            Err(error) => match error.downcast::<ClientError>() {
                Ok(error) => error.into(),
                Err(error) => Failure::new(1, format!("{error:#}")),
            },
        }
    }
}

/// Runs the body of a command and returns the exit status. Prints the message of a failure.
pub fn run(
    name: &'static str,
    command: fn() -> clap::Command,
    body: impl FnOnce() -> Result<u8, Failure>,
) -> ExitCode {
    ExitCode::from(body().unwrap_or_else(|failure| failure.report(name, command)))
}

/// The failure for a reply that does not match its request.
pub fn protocol_error() -> Failure {
    Failure::new(183, "Batch protocol error")
}

/// Writes text to standard output, and flushes it.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_qdel_contain_the_id_of_a_finished_job() {
        let text = |command, refusal| Failure::of_job(command, &refusal, "12.head").text;
        assert_eq!(
            text("qrls", Refusal::unknown_job()),
            "Unknown Job Id 12.head"
        );
        assert_eq!(
            text("qrls", Refusal::unauthorized()),
            "Unauthorized Request  12.head"
        );
        assert_eq!(text("qrls", Refusal::finished()), "Job has finished");
        assert_eq!(
            text("qdel", Refusal::finished()),
            "Job has finished 12.head"
        );
        assert_eq!(
            Failure::of_job("qrls", &Refusal::finished(), "12.head").code,
            35
        );
    }

    #[test]
    fn a_closed_pipe_prints_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(closed), Failure::silent(0));
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(Failure::from(closed), Failure::silent(0));
    }
}
