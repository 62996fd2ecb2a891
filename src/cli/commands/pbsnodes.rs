//! `pbsnodes`: displays nodes, marks them offline or online, and sets their comments.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::query::{self, Ask};
use crate::cli::output::attribute_output::preamble;
use crate::cli::output::dsv;
use crate::cli::output::full;
use crate::cli::output::job_list::cut;
use crate::cli::output::json::Document;
use crate::cli::output::nodes::{self, NodeFormat, NodeGroup};
use crate::cli::output::table::{FixedColumn, push_line};
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::model::time::Wall;
use crate::shown::attributes::Attributes;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::Client;
use crate::wire::message::{ClientRequest, NodeRecord, Question, Reply, ServerFacts};
use clap::{CommandFactory, Parser};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// The exit status for failures, except a malformed answer of the server (183).
const FAILED: u8 = 1;

/// Show nodes and the jobs on them; mark nodes offline.
#[derive(Debug, Default, Parser)]
#[command(
    name = "pbsnodes",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct PbsnodesArgs {
    /// Show all hosts; with -v, all nodes
    #[arg(short = 'a')]
    all: bool,
    /// Show each node of a host that has several nodes
    #[arg(short = 'v')]
    vnodes: bool,
    /// Show each HOST with all its nodes
    #[arg(short = 'H')]
    hosts: bool,
    /// List nodes that are offline or down, with their comments
    #[arg(short = 'l')]
    list: bool,
    /// Show a summary: one line for each host or node
    #[arg(short = 'S')]
    summary: bool,
    /// With -S: show jobs and free resources
    #[arg(short = 'j')]
    jobs: bool,
    /// With -S: do not cut names and states to the width of their columns. Numbers, comments and
    /// lists of jobs are never cut
    #[arg(short = 'L')]
    long: bool,
    /// Output format: json or dsv
    #[arg(short = 'F', value_name = "FORMAT")]
    format: Option<String>,
    /// Delimiter between values, with -F dsv
    #[arg(short = 'D', value_name = "DELIMITER")]
    delimiter: Option<String>,
    /// Mark nodes offline: no further job starts on them
    #[arg(short = 'o')]
    offline: bool,
    /// Clear the offline state of nodes
    #[arg(short = 'r')]
    online: bool,
    /// Set the comment of nodes; an empty text deletes the comment
    #[arg(short = 'C', value_name = "COMMENT")]
    comment: Option<String>,
    /// Declare that hosts which do not respond are lost: requeue the jobs on them, or end jobs that
    /// are not rerunnable (managers only)
    #[arg(long)]
    gone: bool,
    /// Do not print error messages about nodes
    #[arg(short = 'q')]
    quiet: bool,
    /// Name of the server
    #[arg(short = 's', value_name = "SERVER")]
    server: Option<String>,
    /// Hosts; with -v, nodes. -o, -r, -C and --gone accept nodes also without -v
    #[arg(value_name = "HOST")]
    operands: Vec<String>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    PbsnodesArgs::command()
}

/// Runs pbsnodes.
pub fn main() -> ExitCode {
    exit::run(
        "pbsnodes",
        command,
        || match getopt::read::<PbsnodesArgs>(command).map_err(as_failed)? {
            Some(args) => args.run(),
            None => Ok(0),
        },
    )
}

/// Replaces the exit status of a failure by [`FAILED`].
fn as_failed(failure: Failure) -> Failure {
    failure.with_code(FAILED)
}

fn no_server(why: &str) -> Failure {
    as_failed(Failure::server_unreachable(why))
}

/// The output, and error messages that PBS prints without the command's name.
#[derive(Debug, Default, PartialEq, Eq)]
struct NodesOutput {
    out: Vec<u8>,
    complaints: Vec<String>,
}

impl PbsnodesArgs {
    fn run(&self) -> Result<u8, Failure> {
        self.check()?;
        let mut ask = query::source(no_server)?;
        let output = if self.changes_nodes() {
            self.mark(&mut ask, &mut send()?)?
        } else {
            self.show(&mut ask, clock::wall())?
        };
        exit::print(output.out)?;
        let complaints = output.complaints.concat();
        if !self.quiet {
            std::io::stderr().write_all(complaints.as_bytes())?;
        }
        Ok(if complaints.is_empty() { 0 } else { FAILED })
    }

    fn changes_nodes(&self) -> bool {
        self.offline || self.online || self.gone || self.comment.is_some()
    }

    fn check(&self) -> Result<(), Failure> {
        let chosen = self.all || !self.operands.is_empty();
        let wrong = (!chosen && !self.list)
            || (self.list && chosen)
            || (self.all && !self.operands.is_empty())
            || (self.changes_nodes()
                && (self.all || self.list || self.summary || self.operands.is_empty()))
            || (self.offline && self.online)
            || (self.gone && (self.offline || self.online || self.comment.is_some()))
            || self
                .format
                .as_deref()
                .is_some_and(|format| format != "json" && format != "dsv");
        if wrong {
            Err(Failure::usage("").with_code(FAILED))
        } else {
            Ok(())
        }
    }

    fn format(&self) -> NodeFormat {
        match self.format.as_deref() {
            Some("json") => NodeFormat::Json,
            Some(_) => NodeFormat::Dsv,
            None => NodeFormat::Text,
        }
    }

    fn check_server(&self, server: &ServerFacts) -> Result<(), Failure> {
        match &self.server {
            Some(named) if !same_server(named, &server.name) => {
                Err(as_failed(Failure::unknown_host(named)))
            }
            _ => Ok(()),
        }
    }

    fn show(&self, ask: &mut Ask, now: Wall) -> Result<NodesOutput, Failure> {
        let answers = ask(&Question::Nodes)?;
        self.check_server(&answers.server)?;
        if self.list {
            return Ok(NodesOutput {
                out: unavailable(&answers.nodes).into_bytes(),
                complaints: Vec::new(),
            });
        }
        if self.all && answers.nodes.is_empty() {
            return Err(Failure::new(FAILED, "Server has no node list"));
        }
        let (groups, unknown) = self.choose(&answers.nodes);
        let complaints = unknown
            .iter()
            .map(|name| format!("Node: {name},  Error: {}\n", Refusal::unknown_node()))
            .collect();
        let out = match self.format() {
            NodeFormat::Json => self.json(&groups, &unknown, &answers.server, now),
            NodeFormat::Dsv => self.dsv(&groups, &answers.server).into_bytes(),
            NodeFormat::Text if self.summary => self.table(&groups, &answers.server).into_bytes(),
            NodeFormat::Text => in_full(&groups, &answers.server).into_bytes(),
        };
        Ok(NodesOutput { out, complaints })
    }

    /// The selected nodes or hosts, and the operands that match no node or host.
    fn choose<'a>(&'a self, records: &'a [NodeRecord]) -> (Vec<NodeGroup<'a>>, Vec<&'a str>) {
        let groups = if self.vnodes {
            NodeGroup::one_per_node(records)
        } else {
            NodeGroup::by_host(records)
        };
        if self.all {
            return (groups, Vec::new());
        }
        let (mut chosen, mut unknown) = (Vec::new(), Vec::new());
        for name in &self.operands {
            match groups.iter().find(|group| group.name() == name) {
                Some(group) if self.hosts => {
                    chosen.extend(group.0.iter().map(|record| NodeGroup(vec![*record])))
                }
                Some(group) => chosen.push(group.clone()),
                None => unknown.push(name.as_str()),
            }
        }
        (chosen, unknown)
    }

    fn attributes<'a>(&self, group: &NodeGroup<'a>, server: &'a ServerFacts) -> Attributes<'a> {
        if !self.summary {
            nodes::attributes(group.first(), server, self.format())
        } else if self.jobs {
            nodes::job_summary(group, server, self.format())
        } else {
            nodes::summary(group, self.format())
        }
    }

    fn json(
        &self,
        groups: &[NodeGroup],
        unknown: &[&str],
        server: &ServerFacts,
        now: Wall,
    ) -> Vec<u8> {
        let mut document = Document::begin(&preamble(server, now));
        for group in groups {
            document.add_object("nodes", group.name(), &self.attributes(group, server));
        }
        for name in unknown {
            let mut attributes = Attributes::default();
            attributes.text("Error", Refusal::unknown_node().text);
            document.add_object("nodes", name, &attributes);
        }
        document.end()
    }

    fn dsv(&self, groups: &[NodeGroup], server: &ServerFacts) -> String {
        let delimiter = self.delimiter.as_deref().unwrap_or("|");
        let heading = if self.summary { "vnode=" } else { "Name=" };
        let mut out = String::new();
        for group in groups {
            dsv::write(
                &mut out,
                heading,
                group.name(),
                &self.attributes(group, server),
                delimiter,
            );
        }
        out
    }

    fn table(&self, groups: &[NodeGroup], server: &ServerFacts) -> String {
        if groups.is_empty() {
            return String::new();
        }
        let (heading, columns) = if self.jobs {
            (JOB_HEADING, JOB_COLUMNS)
        } else {
            (HEADING, COLUMNS)
        };
        let mut out = heading.to_string();
        for group in groups {
            let attributes = self.attributes(group, server);
            let values = attributes.0.iter().filter_map(full::text);
            let texts: Vec<_> = std::iter::once(group.name().into()).chain(values).collect();
            let cells: Vec<Cow<str>> = texts
                .iter()
                .zip(columns)
                .map(|(text, &column)| self.cell(text, column))
                .collect();
            let cells = cells.iter().map(AsRef::as_ref);
            push_line(&mut out, columns.iter().copied(), cells);
            out.push('\n');
        }
        out
    }

    /// A cell of a summary. Without `-L`, left-aligned text is cut to the width of its column.
    fn cell<'a>(&self, text: &'a str, column: FixedColumn) -> Cow<'a, str> {
        match column {
            FixedColumn::Left(width) if !self.long => cut(text, width),
            FixedColumn::Rest => full::printable(text),
            _ => text.into(),
        }
    }

    fn mark(&self, ask: &mut Ask, send: &mut Send) -> Result<NodesOutput, Failure> {
        let answers = ask(&Question::Nodes)?;
        self.check_server(&answers.server)?;
        let groups = if self.vnodes {
            NodeGroup::one_per_node(&answers.nodes)
        } else {
            NodeGroup::by_host(&answers.nodes)
        };
        let offline = (self.offline || self.online).then_some(self.offline);
        let mut complaints = Vec::new();
        for name in &self.operands {
            let group = groups.iter().find(|group| group.name() == name);
            let members = group.map(|group| {
                group
                    .0
                    .iter()
                    .map(|record| record.node.facts.name.clone())
                    .collect()
            });
            for node in members.unwrap_or_else(|| vec![name.clone()]) {
                let request = if self.gone {
                    ClientRequest::DeclareGone { node }
                } else {
                    ClientRequest::MarkNode {
                        node,
                        offline,
                        comment: self.comment.clone(),
                    }
                };
                match send(&request)? {
                    Reply::Refused(refusal) => {
                        complaints.push(format!("Error marking node {name} - {refusal}\n"))
                    }
                    _ => continue,
                }
            }
        }
        Ok(NodesOutput {
            out: Vec::new(),
            complaints,
        })
    }
}

/// Sends a request to schedd.
type Send<'a> = dyn FnMut(&ClientRequest) -> Result<Reply, Failure> + 'a;

fn send() -> Result<impl FnMut(&ClientRequest) -> Result<Reply, Failure>, Failure> {
    let home = Home::find().map_err(|error| no_server(&format!("{error:#}")))?;
    let mut client = Client::connect(&home).map_err(|error| no_server(&error.to_string()))?;
    Ok(move |request: &ClientRequest| {
        client
            .call(request)
            .map_err(|error| no_server(&error.to_string()))
    })
}

/// The output of `pbsnodes -l`.
fn unavailable(records: &[NodeRecord]) -> String {
    let mut out = String::new();
    for record in records
        .iter()
        .filter(|record| record.node.offline || !record.node.up)
    {
        let node = &record.node;
        let comment = node
            .refused
            .as_deref()
            .or(node.comment.as_deref())
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "{:20} {} {comment}",
            record.node.facts.name,
            nodes::state(record)
        );
    }
    out
}

fn in_full(groups: &[NodeGroup], server: &ServerFacts) -> String {
    let mut out = String::new();
    for group in groups {
        let _ = writeln!(out, "{}", group.name());
        for attribute in &nodes::attributes(group.first(), server, NodeFormat::Text).0 {
            let Some(value) = full::text(attribute) else {
                continue;
            };
            let dot = if attribute.resource.is_some() {
                "."
            } else {
                ""
            };
            let resource = attribute.resource.unwrap_or_default();
            let _ = writeln!(
                out,
                "     {}{dot}{resource} = {}",
                attribute.name,
                full::printable(&value)
            );
        }
        out.push('\n');
    }
    out
}

const HEADING: &str = "\
vnode           state           OS       hardware host            queue        mem     ncpus   nmics   ngpus  comment
--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- ------- ---------
";

const COLUMNS: &[FixedColumn] = {
    use FixedColumn::{Left, Rest, Right};
    &[
        Left(15),
        Left(15),
        Left(8),
        Left(8),
        Left(15),
        Left(10),
        Right(8),
        Right(7),
        Right(7),
        Right(7),
        Rest,
    ]
};

const JOB_HEADING: &str =
    "                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
";

const JOB_COLUMNS: &[FixedColumn] = {
    use FixedColumn::{Left, Rest, Right};
    &[
        Left(15),
        Left(15),
        Right(6),
        Right(5),
        Right(6),
        Right(12),
        Right(7),
        Right(7),
        Right(7),
        Rest,
    ]
};

#[cfg(test)]
mod tests;
