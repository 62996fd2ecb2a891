//! `lanai undo`: reverts the caller's last hold, release, alteration or cancellation.

use super::action::jobs;
use super::document;
use super::relative_time::relative;
use super::session::{OutputOptions, Session};
use super::table::printable;
use crate::cli::client::exit::{self, Failure};
use crate::model::job::undo::{UndoKind, UndoReport};
use crate::model::job_id::JobId;
use crate::wire::client::Client;
use crate::wire::message::{ClientRequest, Question, Reply, ServerFacts};
use clap::Args;
use serde_json::{Value, json};

/// Options of `lanai undo`.
#[derive(Args, Clone, Debug, Default)]
pub struct UndoArgs {
    /// Show what would be reverted, but change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

impl UndoArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let dry_run = self.dry_run;
        let mut client = Client::connect(&session.home)?;
        let report = match client.call(&ClientRequest::Undo { dry_run })? {
            Reply::Undone(report) => report,
            Reply::Refused(refusal) => return Err(Failure::new(1, refusal.text)),
            _ => return Err(exit::protocol_error()),
        };
        let server = session.ask(&Question::Server)?.server;
        if output.json {
            let content = content(&report, &server, dry_run);
            exit::print(document::document("undo", &server, session.now, content))?;
        } else {
            let at = relative(server.clock.wall(report.at), session.now);
            exit::print(text(&report, &at, dry_run))?;
        }
        let is_complete = report.unrecorded == 0 && report.jobs.iter().all(|(_, how)| how.is_ok());
        Ok(u8::from(!is_complete))
    }
}

/// The action as a noun.
fn noun(kind: UndoKind) -> &'static str {
    match kind {
        UndoKind::Hold => "hold",
        UndoKind::Release => "release",
        UndoKind::Alter => "alteration",
        UndoKind::Cancel => "cancellation",
    }
}

/// The report as text. `at` is the time of the action.
fn text(report: &UndoReport, at: &str, dry_run: bool) -> String {
    let mut text = format!("Last action: {} ({at})\n", noun(report.kind));
    for (id, how) in &report.jobs {
        let line = match how {
            Ok(None) => continue,
            Ok(Some(note)) => format!("  {id}: reverted; {}", printable(note)),
            Err(why) => format!("  {id}: not reverted: {}", printable(why)),
        };
        text.push_str(&format!("{line}\n"));
    }
    if report.unrecorded > 0 {
        text.push_str(&format!(
            "  {} more: not recorded, so not reverted\n",
            jobs(usize::try_from(report.unrecorded).unwrap_or(usize::MAX))
        ));
    }
    let (done, total) = (report.reverted().count(), report.jobs.len());
    let ids = ids(report.reverted());
    let verb = if dry_run { "Would revert" } else { "Reverted" };
    let count = if done == total {
        jobs(total)
    } else {
        format!("{done} of {}", jobs(total))
    };
    text.push_str(&format!(
        "{verb} the {} of {count}{ids}.\n",
        noun(report.kind)
    ));
    text
}

/// The first ids, in parentheses; empty without ids.
fn ids(reverted: impl Iterator<Item = JobId>) -> String {
    const SHOWN: usize = 10;
    let all: Vec<String> = reverted.map(|id| id.to_string()).collect();
    match all.len() {
        0 => String::new(),
        count if count <= SHOWN => format!(" ({})", all.join(" ")),
        count => format!(" ({} and {} more)", all[..SHOWN].join(" "), count - SHOWN),
    }
}

fn content(report: &UndoReport, server: &ServerFacts, dry_run: bool) -> Value {
    let jobs: Vec<Value> = report
        .jobs
        .iter()
        .map(|(id, how)| {
            json!({
                "id": id.full(&server.name),
                "reverted": how.is_ok() && !dry_run,
                "error": how.as_ref().err(),
                "note": how.as_ref().ok(),
            })
        })
        .collect();
    json!({
        "action": noun(report.kind),
        "action_time": document::time(server.clock.wall(report.at)),
        "dry_run": dry_run,
        "unrecorded": report.unrecorded,
        "jobs": jobs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;

    #[test]
    fn the_report_names_what_is_not_reverted_and_why() {
        let mut report = UndoReport {
            kind: UndoKind::Cancel,
            at: Time(0),
            unrecorded: 0,
            jobs: vec![
                (JobId::job(1), Ok(None)),
                (JobId::array(2), Ok(Some("2 subjobs had started".into()))),
            ],
        };
        assert_eq!(
            text(&report, "1m ago", false),
            "Last action: cancellation (1m ago)\n  2[]: reverted; 2 subjobs had started\n\
             Reverted the cancellation of 2 jobs (1 2[]).\n"
        );
        report
            .jobs
            .push((JobId::job(3), Err("it has started".into())));
        report.unrecorded = 1;
        let text = text(&report, "1m ago", true);
        assert!(text.contains("  3: not reverted: it has started\n"));
        assert!(text.contains("  1 job more"), "{text}");
        assert!(text.ends_with("Would revert the cancellation of 2 of 3 jobs (1 2[]).\n"));
    }
}
