//! Sends mail through the configured mail program, in a thread that starts with the first mail.
//!
//! Up to twenty mails per minute are sent about the jobs of each user. Further events are combined
//! into one mail at the end of the minute. schedd never waits for the mail program. Mail above the
//! queue limit is dropped; schedd logs this once until it can queue mail again.

use crate::model::time::Span;
use crate::schedd::programs::rate_limit::Fold;
use crate::schedd::programs::rate_limit::PERIOD;
use crate::schedd::programs::rate_limit::RateLimit;
use crate::server::mail::Letter;
use crate::server::setup::Setup;
use crate::sys::clock;
use crate::sys::process::ProcessEnd;
use crate::sys::program::{OutputMode, ProgramCall, UNLIMITED};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::Duration;

/// Maximum number of queued mails.
const MAX_QUEUED: usize = 1024;
/// Time limit of the mail program for one mail.
const SEND_TIMEOUT: Span = Span::seconds(30);
/// Maximum time by which queued mail delays the exit of schedd.
const EXIT_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of events that a combined mail lists.
const MAX_LINES: usize = 100;
/// Maximum number of recipients of a combined mail.
const MAX_RECIPIENTS: usize = 16;

/// Controls the thread that sends mail.
#[derive(Debug)]
pub struct Mailer {
    program: Option<MailProgram>,
    working: Option<MailerState>,
    dropped: u64,
}

/// The mail program and the sender's address.
#[derive(Clone, Debug)]
struct MailProgram {
    mailer: PathBuf,
    from: String,
}

#[derive(Debug)]
struct MailerState {
    mails: SyncSender<Letter>,
    /// Disconnected when all mail is sent.
    done: Receiver<()>,
}

impl Mailer {
    /// The mailer of a configuration. Without a mail program, mail is discarded.
    pub fn new(setup: &Setup) -> Mailer {
        let program = setup.mailer.clone().map(|mailer| MailProgram {
            mailer,
            from: setup.mail_from.clone(),
        });
        Mailer {
            program,
            working: None,
            dropped: 0,
        }
    }

    /// Queues mail. Never blocks.
    pub fn post(&mut self, mails: Vec<Letter>) {
        for letter in mails {
            let Some(working) = self.working() else {
                return;
            };
            match working.mails.try_send(letter) {
                Ok(()) => self.dropped = 0,
                Err(TrySendError::Full(_)) if self.dropped == 0 => {
                    self.dropped = 1;
                    tracing::warn!("the mail program is too slow: schedd drops mail");
                }
                Err(TrySendError::Full(_)) => self.dropped += 1,
                Err(TrySendError::Disconnected(_)) => self.working = None,
            }
        }
    }

    fn working(&mut self) -> Option<&MailerState> {
        if self.working.is_none() {
            let program = self.program.clone()?;
            let ((mails, inbox), (finished, done)) = (sync_channel(MAX_QUEUED), channel());
            let thread = thread::Builder::new().name("mailer".into());
            let started = thread.spawn(move || {
                program.deliver(&inbox);
                drop(finished);
            });
            match started {
                Ok(_) => self.working = Some(MailerState { mails, done }),
                Err(e) => tracing::warn!("cannot start the mailer thread: {e}"),
            }
        }
        self.working.as_ref()
    }

    /// Waits a limited time for queued mail to be sent.
    pub fn shut_down(&mut self) {
        if let Some(MailerState { mails, done }) = self.working.take() {
            drop(mails);
            let _ = done.recv_timeout(EXIT_DELAY);
        }
    }
}

impl MailProgram {
    fn deliver(&self, inbox: &Receiver<Letter>) {
        let mut rate_limit: RateLimit<MailDigest> = RateLimit::default();
        loop {
            let now = clock::monotonic();
            let wait = rate_limit
                .next()
                .map_or(PERIOD.0, |end| end.0 - now.0)
                .max(0);
            match inbox.recv_timeout(Duration::from_millis(wait.unsigned_abs())) {
                Ok(letter) => {
                    let user = letter.user.clone();
                    rate_limit
                        .allow(&user, letter, clock::monotonic())
                        .iter()
                        .for_each(|letter| self.send(letter));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            rate_limit
                .due(clock::monotonic())
                .iter()
                .for_each(|letter| self.send(letter));
        }
        rate_limit
            .due(Span(i64::MAX))
            .iter()
            .for_each(|letter| self.send(letter));
    }

    /// Runs `mailer -f from to ...` as PBS does, with headers and text on standard input.
    ///
    /// There is no `--` before the recipients, because a mail program written for PBS would use
    /// `--` as an address. No recipient begins with a dash (`value_syntax::mail_address`).
    fn send(&self, letter: &Letter) {
        let mailer = self.mailer.display().to_string();
        let mut words = vec![mailer.clone(), "-f".to_string(), self.from.clone()];
        words.extend(letter.to.iter().cloned());
        let (from, to) = (&self.from, letter.to.join(", "));
        let message = format!(
            "From: {from}\nTo: {to}\nSubject: PBS JOB {}\n\n{}",
            letter.job, letter.body
        );
        if let Err(error) = send(&words, message.as_bytes(), SEND_TIMEOUT) {
            tracing::warn!(
                "{mailer} failed to send a mail about {}: {error}",
                letter.job
            );
        }
    }
}

/// Runs a mail program with a message on standard input, and waits for the program's end.
fn send(words: &[String], message: &[u8], timeout: Span) -> io::Result<()> {
    let call = ProgramCall {
        input: message,
        output: OutputMode::Discarded,
        ..ProgramCall::new(words, timeout)
    };
    let mut mailer = call.start(clock::monotonic())?;
    let result = mailer.wait();
    mailer.wait_until_gone(UNLIMITED);
    if result.exit.is_err() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let status = ExitStatus::from_raw(match mailer.end() {
        Some(ProcessEnd::Exited(status)) => status << 8,
        Some(ProcessEnd::Signaled(number)) => number,
        None => 0,
    });
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(status.to_string()))
    }
}

/// The mails above the rate limit, collected for a combined mail.
#[derive(Default)]
struct MailDigest {
    count: usize,
    lines: Vec<String>,
    to: BTreeSet<String>,
}

impl Fold for MailDigest {
    type Message = Letter;

    fn fold(&mut self, letter: Letter) {
        self.count += 1;
        if self.lines.len() < MAX_LINES {
            self.lines.push(format!(
                "{}: {}",
                letter.job,
                letter.what.lines().next().unwrap_or_default()
            ));
        }
        let room = MAX_RECIPIENTS.saturating_sub(self.to.len());
        self.to.extend(letter.to.into_iter().take(room));
    }

    fn summary(self, user: String) -> Option<Letter> {
        let MailDigest { count, lines, to } = self;
        if count == 0 {
            return None;
        }
        let mut body = format!(
            "{count} more messages about jobs of {user}:\n{}\n",
            lines.join("\n")
        );
        if count > lines.len() {
            body += &format!("and {} more\n", count - lines.len());
        }
        Some(Letter {
            user,
            to: to.into_iter().collect(),
            job: format!("{count} messages"),
            what: String::new(),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedd::programs::rate_limit::MAX_MESSAGES;

    fn letter(job: usize) -> Letter {
        let text = |text: &str| text.to_string();
        Letter {
            user: text("ann"),
            to: vec![text("ann")],
            job: format!("{job}.here"),
            what: text("x"),
            body: text("x"),
        }
    }

    #[test]
    fn many_mails_become_twenty_mails_and_a_combined_mail() {
        let mut rate_limit: RateLimit<MailDigest> = RateLimit::default();
        let sent = (0..500)
            .filter_map(|job| rate_limit.allow("ann", letter(job), Span(job as i64)))
            .count();
        assert_eq!(sent, MAX_MESSAGES);
        assert!(rate_limit.due(Span(59_999)).is_empty());
        let digests = rate_limit.due(Span(60_000));
        assert_eq!(digests.len(), 1);
        assert!(
            digests[0]
                .body
                .starts_with("480 more messages about jobs of ann:\n20.here: x\n"),
            "{}",
            digests[0].body
        );
        assert!(
            digests[0].body.ends_with("and 380 more\n"),
            "{}",
            digests[0].body
        );
        assert_eq!(rate_limit.next(), None);
        assert!(
            rate_limit.allow("ann", letter(1), Span(60_001)).is_some(),
            "a new period"
        );
    }

    #[test]
    fn a_hanging_or_failing_mail_program_is_an_error() {
        let run = |script: &str| {
            let words = ["/bin/sh", "-c", script].map(String::from);
            send(&words, b"text\n", Span(200)).map_err(|error| error.to_string())
        };
        assert_eq!(run("read line; [ \"$line\" = text ]"), Ok(()));
        assert_eq!(run("exit 3"), Err("exit status: 3".to_string()));
        assert_eq!(run("exec sleep 60"), Err("timed out".to_string()));
        let missing = ["/no/such/mailer".to_string()];
        assert!(send(&missing, b"", Span(200)).is_err());
    }

    #[test]
    fn a_mail_program_does_not_inherit_blocked_signals() {
        crate::sys::process::block_signals().unwrap();
        let words = ["/bin/sh", "-c", "kill -TERM $$; exit 0"].map(String::from);
        let ended = send(&words, &[b'x'; 1 << 20], Span(5000)).map_err(|e| e.to_string());
        assert_eq!(ended, Err("signal: 15 (SIGTERM)".to_string()));
    }
}
