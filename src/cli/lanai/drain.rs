//! `lanai nodes drain` and `lanai nodes resume`: take nodes out of service, and put them back.
//!
//! Both set the state and the comment of nodes, as `pbsnodes -o -C` and `pbsnodes -r` do. The
//! comment of a drained node ends with the user and the time, by which `resume` recognizes it.

use crate::cli::client::exit::Failure;
use crate::cli::client::reconnect;
use crate::cli::client::source::QuerySource;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Wall;
use crate::shown::timestamp;
use crate::sys::home::Home;
use crate::sys::{clock, record, user};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, NodeRecord, Question, Reply, ServerFacts, WatchedJobs};
use clap::Args;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};

/// The exit status for unknown nodes and for refused requests.
const FAILED: u8 = 1;

/// Maximum number of jobs that the progress names.
const NAMED: usize = 3;

/// Options of `lanai nodes drain`.
#[derive(Args, Clone, Debug, Default)]
pub struct DrainArgs {
    /// Why the nodes are drained; pbsnodes and qstat --why show the text
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Wait until no job runs on the nodes
    #[arg(long)]
    pub wait: bool,
    /// Nodes, or hosts with all their nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
}

/// Options of `lanai nodes resume`.
#[derive(Args, Clone, Debug, Default)]
pub struct ResumeArgs {
    /// Nodes, or hosts with all their nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
}

/// Sets nodes offline, so that no further job starts on them, with the reason as their comment. With
/// `--wait`, returns when no job runs on them.
pub fn drain(args: &DrainArgs) -> Result<u8, Failure> {
    drain_in(&Home::find()?, args)
}

/// Sets nodes online, and removes the comments of `drain`.
pub fn resume(args: &ResumeArgs) -> Result<u8, Failure> {
    resume_in(&Home::find()?, args)
}

/// [`drain`] in the installation `home`.
pub fn drain_in(home: &Home, args: &DrainArgs) -> Result<u8, Failure> {
    let by = format!("{}@{}", user::own().name, record::host());
    let comment = drain_comment(args.reason.as_deref(), &by, clock::wall());
    let nodes = names(&chosen(&query(home)?.1, &args.nodes)?);
    mark(home, &nodes, |_| (true, Some(comment.clone())))?;
    if args.wait {
        await_jobs(home, &nodes)?;
    }
    Ok(0)
}

/// [`resume`] in the installation `home`.
pub fn resume_in(home: &Home, args: &ResumeArgs) -> Result<u8, Failure> {
    let (_, records) = query(home)?;
    let records = chosen(&records, &args.nodes)?;
    let is_drained = |name: &str| {
        let mut records = records.iter();
        let record = records.find(|record| record.node.facts.name == name);
        let comment = record.and_then(|record| record.node.comment.as_deref());
        comment.is_some_and(is_drain_comment)
    };
    let nodes = names(&records);
    mark(home, &nodes, |node| {
        (false, is_drained(node).then(String::new))
    })?;
    Ok(0)
}

/// The words before the user in the comment of a drained node.
const MARK: &str = "drained by ";

/// The comment of a drained node, such as `new fans (drained by ann@head at Tue Nov 24 03:10:00
/// 2026)`.
fn drain_comment(reason: Option<&str>, by: &str, now: Wall) -> String {
    let mark = format!("{MARK}{by} at {}", timestamp::ctime(now));
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{reason} ({mark})"),
        None => mark,
    }
}

/// Whether `drain` has set this comment.
fn is_drain_comment(comment: &str) -> bool {
    comment.starts_with(MARK) || (comment.contains(&format!(" ({MARK}")) && comment.ends_with(')'))
}

/// All nodes of the installation.
fn query(home: &Home) -> Result<(ServerFacts, Vec<NodeRecord>), Failure> {
    let answers = QuerySource::open(home)?.ask(&Question::Nodes)?;
    Ok((answers.server, answers.nodes))
}

/// The nodes with these names, or on the hosts with these names. Fails if there is none for a name.
fn chosen<'a>(
    records: &'a [NodeRecord],
    operands: &[String],
) -> Result<Vec<&'a NodeRecord>, Failure> {
    let mut found = Vec::new();
    for operand in operands {
        let facts = |record: &'a NodeRecord| &record.node.facts;
        let named: Vec<&NodeRecord> = records
            .iter()
            .filter(|record| facts(record).name == *operand)
            .collect();
        let on_host = records
            .iter()
            .filter(|record| facts(record).host == *operand);
        let new = if named.is_empty() {
            on_host.collect()
        } else {
            named
        };
        if new.is_empty() {
            let text = format!("{operand}: {}", Refusal::unknown_node());
            return Err(Failure::new(FAILED, text));
        }
        found.extend(new);
    }
    Ok(found)
}

fn names(records: &[&NodeRecord]) -> BTreeSet<String> {
    let names = records.iter().map(|record| record.node.facts.name.clone());
    names.collect()
}

/// Sets whether each node is offline, and its comment unless that is None.
fn mark(
    home: &Home,
    nodes: &BTreeSet<String>,
    change: impl Fn(&str) -> (bool, Option<String>),
) -> Result<(), Failure> {
    let mut client = Client::connect(home)?;
    for node in nodes {
        let (offline, comment) = change(node);
        let request = ClientRequest::MarkNode {
            node: node.clone(),
            offline: Some(offline),
            comment,
        };
        if let Reply::Refused(refusal) = client.call(&request)? {
            return Err(Failure::new(FAILED, format!("{node}: {refusal}")));
        }
    }
    Ok(())
}

/// Waits until no job runs on the nodes. On a terminal, standard error shows the remaining jobs.
/// Continues after a restart of schedd.
fn await_jobs(home: &Home, nodes: &BTreeSet<String>) -> Result<(), Failure> {
    let mut progress = Progress::default();
    let mut client = Client::connect(home)?;
    let mut seen = 0;
    loop {
        let (server, records) = query(home)?;
        let jobs = jobs_on(&records, nodes);
        if jobs.is_empty() {
            progress.end();
            return Ok(());
        }
        progress.show(&progress_text(&jobs, nodes, &server.name));
        let watched = WatchedJobs::Jobs(jobs.into_iter().collect());
        match client.watch(&watched, seen) {
            Ok(now) => seen = now,
            Err(ClientError::Unreachable(_)) => {
                progress.end();
                (client, seen) = (reconnect::connect("lanai", home)?, 0);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The jobs that have resources of these nodes.
fn jobs_on(records: &[NodeRecord], nodes: &BTreeSet<String>) -> BTreeSet<JobId> {
    records
        .iter()
        .filter(|record| nodes.contains(&record.node.facts.name))
        .flat_map(|record| record.jobs.iter().map(|(job, _)| *job))
        .collect()
}

/// The line about the remaining jobs, such as `Waiting for 2 jobs on n1: 12.head, 13.head`.
fn progress_text(jobs: &BTreeSet<JobId>, nodes: &BTreeSet<String>, server: &str) -> String {
    let plural = if jobs.len() == 1 { "" } else { "s" };
    let ids = jobs.iter().map(|job| job.full(server));
    format!(
        "Waiting for {} job{plural} on {}: {}",
        jobs.len(),
        some_of(nodes.iter().cloned(), nodes.len()),
        some_of(ids, jobs.len())
    )
}

/// The first of `count` names, and the number of the others.
fn some_of(names: impl Iterator<Item = String>, count: usize) -> String {
    let first: Vec<String> = names.take(NAMED).collect();
    match count.saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// A line on standard error that each change replaces. Shown only on a terminal.
#[derive(Default)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
            self.is_shown = true;
        }
    }

    /// Removes the line.
    fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;

    #[test]
    fn the_comment_has_the_reason_the_user_and_the_time() {
        let comment = drain_comment(Some(" new fans "), "ann@head", example::NOW);
        assert!(
            comment.starts_with("new fans (drained by ann@head at Tue Nov 14 "),
            "{comment}"
        );
        assert!(is_drain_comment(&comment));
        let comment = drain_comment(None, "ann@head", example::NOW);
        assert!(comment.starts_with("drained by ann@head at "), "{comment}");
        assert!(is_drain_comment(&comment));
        for other in ["", "new fans", "was drained by ann", "power (drained by"] {
            assert!(!is_drain_comment(other), "{other}");
        }
    }

    #[test]
    fn operands_are_nodes_or_hosts() {
        let records = [
            example::node("a0", "a"),
            example::node("a1", "a"),
            example::node("b", "b"),
        ];
        let found = |operands: &[&str]| {
            let operands: Vec<String> = operands.iter().map(ToString::to_string).collect();
            chosen(&records, &operands).map(|records| names(&records).into_iter().collect())
        };
        let all = |names: &[&str]| -> Result<Vec<String>, Failure> {
            Ok(names.iter().map(ToString::to_string).collect())
        };
        assert_eq!(found(&["a"]), all(&["a0", "a1"]));
        assert_eq!(found(&["a1", "b"]), all(&["a1", "b"]));
        let refused = found(&["b", "c"]).unwrap_err();
        assert_eq!(
            (refused.text.as_str(), refused.code),
            ("c: Unknown node ", 1)
        );
    }

    #[test]
    fn the_progress_names_the_first_jobs() {
        let nodes = BTreeSet::from(["n1".to_string()]);
        let jobs = |count: u64| (1..=count).map(JobId::job).collect();
        assert_eq!(
            progress_text(&jobs(1), &nodes, "head"),
            "Waiting for 1 job on n1: 1.head"
        );
        assert_eq!(
            progress_text(&jobs(5), &nodes, "head"),
            "Waiting for 5 jobs on n1: 1.head, 2.head, 3.head and 2 more"
        );
    }
}
