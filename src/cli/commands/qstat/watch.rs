//! `qstat --watch`: prints the output again whenever it changes, without polling.
//!
//! schedd reports each change. After a report, qstat repeats its query, and prints nothing if the
//! output is unchanged. On a terminal, the new output replaces the old output; in a file or pipe,
//! the new output follows after an empty line. JSON output has one document per line.

use super::no_server;
use crate::cli::client::exit::Failure;
use crate::cli::client::query::CommandOutput;
use crate::cli::client::reconnect;
use crate::cli::client::source::QuerySource;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::shown::timestamp;
use crate::sys::home::Home;
use crate::sys::terminal::{self, TerminalSize};
use crate::sys::{clock, env};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, Detail, Question, WatchedJobs};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::io::{IsTerminal, stdout};
use std::os::fd::AsFd;

/// The watched jobs, and the output format.
#[derive(Debug)]
pub struct WatchedView {
    /// The jobs for which changes are reported.
    pub of: WatchedJobs,
    /// The watch ends when these jobs have finished. If empty, it continues even if jobs finish.
    pub until: BTreeSet<JobId>,
    /// True for JSON output.
    pub json: bool,
}

impl WatchedView {
    /// Prints the output, which `produce` returns, after each change. Ends when all jobs in `until`
    /// have finished, when there are only failures, or when the reader closes the output.
    pub fn run(
        &self,
        command: fn() -> clap::Command,
        produce: impl Fn() -> Result<CommandOutput, Failure>,
    ) -> Result<u8, Failure> {
        let home = Home::find()?;
        let mut client = Client::connect(&home).map_err(|error| no_server(&error.to_string()))?;
        let (mut seen, mut shown) = (0, None);
        loop {
            // Changes are requested before the query, so that a change during the query is
            // reported.
            let Some(now) = change(&mut client, &home, &self.of, seen)? else {
                return Ok(0);
            };
            seen = now;
            // If schedd shuts down during the query, the query is repeated after its restart.
            let Ok((finished, output)) = self.query(&home, &produce) else {
                clock::sleep(reconnect::PAUSE);
                (client, seen) = (reconnect::connect("qstat", &home)?, 0);
                continue;
            };
            let content = (without_time(&output.out), output.failures.clone());
            // The watch ends if there are only failures, such as unknown ids.
            let is_refused = output.out.is_empty() && !output.failures.is_empty();
            let mut code = output.failures.last().map_or(0, |failure| failure.code);
            if shown.as_ref() != Some(&content) {
                code = self.show(output, shown.is_none(), command)?;
                shown = Some(content);
            }
            if finished || is_refused {
                return Ok(code);
            }
        }
    }

    /// Returns whether all jobs in `until` have finished (false if `until` is empty), and the
    /// output. Fails if the server does not answer.
    fn query(
        &self,
        home: &Home,
        produce: impl Fn() -> Result<CommandOutput, Failure>,
    ) -> Result<(bool, CommandOutput), Failure> {
        Ok((self.are_finished(home)?, produce()?))
    }

    fn are_finished(&self, home: &Home) -> Result<bool, Failure> {
        if self.until.is_empty() {
            return Ok(false);
        }
        let question = Question::JobsById(self.until.iter().copied().collect(), Detail::Row);
        let rows = QuerySource::open(home)
            .and_then(|mut source| source.ask(&question))?
            .rows;
        Ok(rows.iter().all(|row| row.state == JobState::Finished))
    }

    fn show(
        &self,
        output: CommandOutput,
        is_first: bool,
        command: fn() -> clap::Command,
    ) -> Result<u8, Failure> {
        let CommandOutput { out, failures } = output;
        let out = if self.json {
            on_one_line(out)
        } else if stdout().is_terminal() {
            page(&out)
        } else if is_first {
            out
        } else {
            [b"\n".to_vec(), out].concat()
        };
        CommandOutput { out, failures }.print("qstat", command)
    }
}

/// Waits for a change, even if schedd restarts. None if the output has been closed by its reader.
fn change(
    client: &mut Client,
    home: &Home,
    of: &WatchedJobs,
    seen: u64,
) -> Result<Option<u64>, Failure> {
    loop {
        let sent = client.begin(&ClientRequest::Watch {
            of: of.clone(),
            since: seen,
        });
        let changed = match sent {
            Ok(()) if !is_ready(client) => return Ok(None),
            Ok(()) => client.changed(),
            Err(error) => Err(error),
        };
        match changed {
            Ok(now) => return Ok(Some(now)),
            Err(ClientError::Unreachable(_)) => *client = reconnect::connect("qstat", home)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until schedd answers or disconnects. False if the output has been closed by its reader.
fn is_ready(client: &Client) -> bool {
    let out = stdout();
    loop {
        let mut fds = [
            PollFd::new(client.stream().as_fd(), PollFlags::POLLIN),
            PollFd::new(out.as_fd(), PollFlags::empty()),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_ok() {
            return fds[0].any() == Some(true);
        }
    }
}

/// The output without its time of creation, for comparison.
fn without_time(out: &[u8]) -> Vec<u8> {
    let lines = out.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"\t\"timestamp\":"))
        .flatten()
        .copied()
        .collect()
}

/// A JSON document on one line. Line feeds and tabs within strings are escaped and remain.
fn on_one_line(mut out: Vec<u8>) -> Vec<u8> {
    out.retain(|byte| !matches!(byte, b'\n' | b'\t'));
    out.push(b'\n');
    out
}

/// The output for a terminal: clears the screen, then shows a head line and as many lines as fit.
fn page(out: &[u8]) -> Vec<u8> {
    let window = terminal::window(stdout()).unwrap_or(TerminalSize::USUAL);
    let words: Vec<String> = env::args()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let head = format!(
        "qstat {}   {}   Ctrl-C to exit",
        words.join(" "),
        timestamp::ctime(clock::wall())
    );
    fit(&head, &String::from_utf8_lossy(out), window).into_bytes()
}

fn fit(head: &str, text: &str, window: TerminalSize) -> String {
    let mut free_rows = usize::from(window.rows).saturating_sub(4).max(1);
    let width = usize::from(window.columns);
    let head: String = head.chars().take(width).collect();
    let mut page = format!("\x1b[H\x1b[2J{head}\n\n");
    let mut lines = text.lines();
    let mut left = 0;
    for line in lines.by_ref() {
        let rows = line.chars().count().div_ceil(width).max(1);
        if rows > free_rows {
            left = 1;
            break;
        }
        free_rows -= rows;
        page.extend([line, "\n"]);
    }
    left += lines.count();
    if left > 0 {
        let lines = if left == 1 { "line" } else { "lines" };
        page.push_str(&format!("({left} more {lines})\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_timestamp_alone_is_no_change() {
        let document = |time: &str, name: &str| {
            format!("{{\n\t\"timestamp\":\t{time},\n\t\"name\":\t\"{name}\"\n}}\n")
        };
        assert_eq!(
            without_time(document("1", "a").as_bytes()),
            without_time(document("2", "a").as_bytes())
        );
        assert_ne!(
            without_time(document("1", "a").as_bytes()),
            without_time(document("1", "b").as_bytes())
        );
        let line = String::from_utf8(on_one_line(document("1", "a\\tb").into_bytes())).unwrap();
        assert_eq!(line, "{\"timestamp\":1,\"name\":\"a\\tb\"}\n");
    }

    #[test]
    fn a_page_fits_the_window() {
        let window = TerminalSize {
            rows: 6,
            columns: 5,
        };
        assert_eq!(
            fit("qstat 12", "a\nb\nc\n", window),
            "\x1b[H\x1b[2Jqstat\n\na\nb\n(1 more line)\n"
        );
        let window = TerminalSize {
            rows: 7,
            columns: 5,
        };
        assert_eq!(
            fit("q", "wrapped\nb\nc\n", window),
            "\x1b[H\x1b[2Jq\n\nwrapped\nb\n(1 more line)\n"
        );
        assert_eq!(fit("q", "", window), "\x1b[H\x1b[2Jq\n\n");
    }
}
