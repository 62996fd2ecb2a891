//! `pbsnodes`: shows nodes, marks them offline and online, comments on them.

use super::ask::{self, Ask};
use super::attributes::Attributes;
use super::dsv;
use super::exit::{self, Failure};
use super::full;
use super::getopt::{self, Line};
use super::json::{Document, Preamble};
use super::layout::cut;
use super::listing::unknown_host;
use super::nodes::{self, Format, Group};
use crate::model::attribute::same_server;
use crate::model::refusal::Refusal;
use crate::model::time::Wall;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::Client;
use crate::wire::message::{NodeRecord, Question, Reply, Request, ServerFacts};
use clap::{CommandFactory, Parser};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// The exit status of whatever goes wrong here.
const FAILED: u8 = 1;

/// Show nodes and what runs on them; mark them offline.
#[derive(Debug, Default, Parser)]
#[command(name = "pbsnodes", disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// All hosts; with -v, all nodes
    #[arg(short = 'a')]
    all: bool,
    /// Nodes, each for itself, where a host presents several
    #[arg(short = 'v')]
    vnodes: bool,
    /// Hosts, each with all its nodes
    #[arg(short = 'H')]
    hosts: bool,
    /// Nodes that are offline or down, with their comments
    #[arg(short = 'l')]
    list: bool,
    /// A summary, one line for each
    #[arg(short = 'S')]
    summary: bool,
    /// With -S: of jobs, and of what is free
    #[arg(short = 'j')]
    jobs: bool,
    /// With -S: names are not cut
    #[arg(short = 'L')]
    long: bool,
    /// The format: json or dsv
    #[arg(short = 'F', value_name = "FORMAT")]
    format: Option<String>,
    /// With -F dsv: what sets the values apart
    #[arg(short = 'D', value_name = "DELIMITER")]
    delimiter: Option<String>,
    /// Mark offline: no job starts there any more
    #[arg(short = 'o')]
    offline: bool,
    /// Mark online again
    #[arg(short = 'r')]
    online: bool,
    /// Set the comment; an empty one clears it
    #[arg(short = 'C', value_name = "COMMENT")]
    comment: Option<String>,
    /// Say nothing about what goes wrong
    #[arg(short = 'q')]
    quiet: bool,
    /// The server
    #[arg(short = 's', value_name = "SERVER")]
    server: Option<String>,
    /// Hosts; with -v, nodes
    #[arg(value_name = "HOST")]
    operands: Vec<String>,
}

/// Its options.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs it.
pub fn main() -> ExitCode {
    exit::run("pbsnodes", command, || match getopt::read::<Args>(command).map_err(as_failed)? {
        Line::Answered => Ok(0),
        Line::Asked(args) => args.run(),
    })
}

/// A wrong command line ends as everything else that goes wrong here.
fn as_failed(failure: Failure) -> Failure {
    Failure { code: FAILED, ..failure }
}

fn no_server(why: &str) -> Failure {
    Failure::new(FAILED, format!("cannot connect to server: {why}, error=15010"))
}

/// What is said: output, and complaints that PBS words without the command's name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    out: Vec<u8>,
    complaints: Vec<String>,
}

impl Args {
    fn run(&self) -> Result<u8, Failure> {
        self.check()?;
        let mut ask = ask::source(no_server)?;
        let said = if self.marks() { self.mark(&mut ask, &mut send()?)? } else { self.show(&mut ask, clock::wall())? };
        exit::print(said.out)?;
        let complaints = said.complaints.concat();
        if !self.quiet {
            std::io::stderr().write_all(complaints.as_bytes())?;
        }
        Ok(if complaints.is_empty() { 0 } else { FAILED })
    }

    fn marks(&self) -> bool {
        self.offline || self.online || self.comment.is_some()
    }

    fn check(&self) -> Result<(), Failure> {
        let chosen = self.all || !self.operands.is_empty();
        let wrong = (!chosen && !self.list)
            || (self.list && chosen)
            || (self.all && !self.operands.is_empty())
            || (self.marks() && (self.all || self.list || self.summary || self.operands.is_empty()))
            || (self.offline && self.online)
            || self.format.as_deref().is_some_and(|format| format != "json" && format != "dsv");
        if wrong { Err(Failure { text: String::new(), usage: true, code: FAILED }) } else { Ok(()) }
    }

    fn format(&self) -> Format {
        match self.format.as_deref() {
            Some("json") => Format::Json,
            Some(_) => Format::Dsv,
            None => Format::Text,
        }
    }

    fn check_server(&self, server: &ServerFacts) -> Result<(), Failure> {
        match &self.server {
            Some(named) if !same_server(named, &server.name) => Err(as_failed(unknown_host(named))),
            _ => Ok(()),
        }
    }

    fn show(&self, ask: &mut Ask, now: Wall) -> Result<Said, Failure> {
        let answers = ask(&Question::Nodes)?;
        self.check_server(&answers.server)?;
        if self.list {
            return Ok(Said { out: troubled(&answers.nodes).into_bytes(), complaints: Vec::new() });
        }
        if self.all && answers.nodes.is_empty() {
            return Err(Failure::new(FAILED, "Server has no node list"));
        }
        let (groups, unknown) = self.choose(&answers.nodes);
        let complaint = |name: &&str| format!("Node: {name},  Error: {}\n", Refusal::unknown_node());
        let complaints = unknown.iter().map(complaint).collect();
        let out = match self.format() {
            Format::Json => self.json(&groups, &unknown, &answers.server, now),
            Format::Dsv => self.dsv(&groups, &answers.server).into_bytes(),
            Format::Text if self.summary => self.table(&groups, &answers.server).into_bytes(),
            Format::Text => in_full(&groups, &answers.server).into_bytes(),
        };
        Ok(Said { out, complaints })
    }

    /// What is shown, and the operands that name nothing.
    fn choose<'a>(&'a self, records: &'a [NodeRecord]) -> (Vec<Group<'a>>, Vec<&'a str>) {
        let groups = if self.vnodes { Group::each(records) } else { Group::by_host(records) };
        if self.all {
            return (groups, Vec::new());
        }
        let (mut chosen, mut unknown) = (Vec::new(), Vec::new());
        for name in &self.operands {
            match groups.iter().find(|group| group.name() == name) {
                Some(group) if self.hosts => chosen.extend(group.0.iter().map(|record| Group(vec![*record]))),
                Some(group) => chosen.push(group.clone()),
                None => unknown.push(name.as_str()),
            }
        }
        (chosen, unknown)
    }

    fn attributes<'a>(&self, group: &Group<'a>, server: &'a ServerFacts) -> Attributes<'a> {
        match (self.summary, self.jobs) {
            (false, _) => nodes::attributes(group.first(), server, self.format()),
            (true, false) => nodes::summary(group, self.format()),
            (true, true) => nodes::job_summary(group, server, self.format()),
        }
    }

    fn json(&self, groups: &[Group], unknown: &[&str], server: &ServerFacts, now: Wall) -> Vec<u8> {
        let known = groups.iter().map(|group| (group.name().to_string(), self.attributes(group, server)));
        let unknown = unknown.iter().map(|name| {
            let mut attributes = Attributes::default();
            attributes.text("Error", Refusal::unknown_node().text);
            (name.to_string(), attributes)
        });
        let mut document =
            Document::begin(&Preamble { timestamp: now, version: &server.version, server: &server.name });
        document.section("nodes", known.chain(unknown));
        document.end()
    }

    fn dsv(&self, groups: &[Group], server: &ServerFacts) -> String {
        let delimiter = self.delimiter.as_deref().unwrap_or("|");
        let heading = if self.summary { "vnode=" } else { "Name=" };
        let mut out = String::new();
        for group in groups {
            dsv::write(&mut out, heading, group.name(), &self.attributes(group, server), delimiter);
        }
        out
    }

    fn table(&self, groups: &[Group], server: &ServerFacts) -> String {
        if groups.is_empty() {
            return String::new();
        }
        let (heading, columns) = if self.jobs { (JOB_HEADING, JOB_COLUMNS) } else { (HEADING, COLUMNS) };
        let mut out = heading.to_string();
        for group in groups {
            let attributes = self.attributes(group, server);
            let values = attributes.0.iter().filter_map(full::text);
            let texts: Vec<_> = std::iter::once(group.name().into()).chain(values).collect();
            let padded = texts.iter().zip(columns).map(|(text, column)| column.pad(text, self.long));
            let _ = writeln!(out, "{}", padded.collect::<Vec<_>>().join(" "));
        }
        out
    }

    fn mark(&self, ask: &mut Ask, send: &mut Send) -> Result<Said, Failure> {
        let answers = ask(&Question::Nodes)?;
        self.check_server(&answers.server)?;
        let groups = if self.vnodes { Group::each(&answers.nodes) } else { Group::by_host(&answers.nodes) };
        let offline = (self.offline || self.online).then_some(self.offline);
        let mut complaints = Vec::new();
        for name in &self.operands {
            let group = groups.iter().find(|group| group.name() == name);
            let members = group.map(|group| group.0.iter().map(|record| record.node.facts.name.clone()).collect());
            for node in members.unwrap_or_else(|| vec![name.clone()]) {
                let request = Request::MarkNode { node, offline, comment: self.comment.clone() };
                match send(&request)? {
                    Reply::Refused(refusal) => complaints.push(format!("Error marking node {name} - {refusal}\n")),
                    _ => continue,
                }
            }
        }
        Ok(Said { out: Vec::new(), complaints })
    }
}

/// Sends a request to schedd.
type Send<'a> = dyn FnMut(&Request) -> Result<Reply, Failure> + 'a;

fn send() -> Result<impl FnMut(&Request) -> Result<Reply, Failure>, Failure> {
    let home = Home::find().map_err(|error| no_server(&format!("{error:#}")))?;
    let mut client = Client::connect(&home).map_err(|error| no_server(&error.to_string()))?;
    Ok(move |request: &Request| client.call(request).map_err(|error| no_server(&error.to_string())))
}

/// `pbsnodes -l`.
fn troubled(records: &[NodeRecord]) -> String {
    let mut out = String::new();
    for record in records.iter().filter(|record| record.node.offline || !record.node.up) {
        let comment = record.node.comment.as_deref().unwrap_or_default();
        let _ = writeln!(out, "{:20} {} {comment}", record.node.facts.name, nodes::state(record));
    }
    out
}

fn in_full(groups: &[Group], server: &ServerFacts) -> String {
    let mut out = String::new();
    for group in groups {
        let _ = writeln!(out, "{}", group.name());
        for attribute in &nodes::attributes(group.first(), server, Format::Text).0 {
            let Some(value) = full::text(attribute) else { continue };
            let dot = if attribute.resource.is_some() { "." } else { "" };
            let resource = attribute.resource.unwrap_or_default();
            let _ = writeln!(out, "     {}{dot}{resource} = {}", attribute.name, full::printable(&value));
        }
        out.push('\n');
    }
    out
}

/// A column of a summary.
#[derive(Clone, Copy)]
enum Column {
    Left(usize),
    Right(usize),
    /// The last one, as long as it is.
    Rest,
}

impl Column {
    fn pad(self, text: &str, long: bool) -> String {
        let fitted = |width| if long { text.into() } else { cut(text, width) };
        match self {
            Column::Left(width) => format!("{:width$}", fitted(width)),
            Column::Right(width) => format!("{text:>width$}"),
            Column::Rest => full::printable(text).into_owned(),
        }
    }
}

const HEADING: &str = "\
vnode           state           OS       hardware host            queue        mem     ncpus   nmics   ngpus  comment
--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- ------- ---------
";

const COLUMNS: &[Column] = {
    use Column::{Left, Rest, Right};
    &[Left(15), Left(15), Left(8), Left(8), Left(15), Left(10), Right(8), Right(7), Right(7), Right(7), Rest]
};

const JOB_HEADING: &str = "                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
";

const JOB_COLUMNS: &[Column] = {
    use Column::{Left, Rest, Right};
    &[Left(15), Left(15), Right(6), Right(5), Right(6), Right(12), Right(7), Right(7), Right(7), Rest]
};

#[cfg(test)]
mod tests {
    use super::super::example::{self, NOW, System, node, share};
    use super::super::when;
    use super::*;
    use crate::model::job::JobId;
    use crate::model::resource::Value;

    fn system() -> System {
        let mut head = node("head", "head");
        head.jobs.push((JobId::job(1), share(2, Some("1gb"))));
        head.node.used = Some(example::SUBMITTED);
        let mut broken = node("n2", "n2.example.org");
        broken.node.offline = true;
        broken.node.up = false;
        broken.node.comment = Some("broken disk".into());
        System { jobs: vec![], nodes: vec![head, broken] }
    }

    /// Three nodes on one host.
    fn split() -> System {
        let mut nodes = vec![node("head", "head"), node("head[0]", "head"), node("head[1]", "head")];
        nodes[1].jobs.push((JobId::job(7), share(4, Some("1gb"))));
        nodes[2].exclusive = true;
        System { jobs: vec![], nodes }
    }

    fn said(system: &System, words: &str) -> Result<Said, Failure> {
        let args: Args = example::parse(command, words).map_err(as_failed)?;
        args.check()?;
        args.show(&mut system.ask(), NOW)
    }

    fn shown(system: &System, words: &str) -> String {
        String::from_utf8(said(system, words).unwrap().out).unwrap()
    }

    #[test]
    fn gpus_are_shown_with_those_who_have_them() {
        let mut system = system();
        let head = &mut system.nodes[0];
        head.node.facts.available.insert("ngpus".into(), Value::Long(4));
        head.node.facts.gpus = vec![3, 0, 1, 2];
        head.node.facts.gpus_outside = vec![0, 2];
        let mut held = share(1, None);
        (held.gpus, held.taken) = (vec![2, 3], vec![("ngpus".into(), Value::Long(2))]);
        head.jobs.push((JobId::job(5), held));
        let text = shown(&system, "head");
        for line in [
            "     gpus = 3,0,1,2\n     gpus_assigned = 2=5.head,3=5.head\n     gpus_used_outside = 0,2\n",
            "     comment = GPUs 0,2 are in use by processes outside the queue\n",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        let document: serde_json::Value = serde_json::from_str(&shown(&system, "-aSj -F json")).unwrap();
        assert_eq!(document["nodes"]["head"]["ngpus f/t"], "1/4");
        system.nodes[0].node.comment = Some("mine".into());
        assert!(shown(&system, "head").contains("     comment = mine\n"), "the administrator's word stands");
    }

    #[test]
    fn a_node_in_full_is_shown_as_pbs_shows_it() {
        let date = when::ctime(example::server().clock.wall(example::SUBMITTED));
        let expected = format!(
            "\
head
     Mom = head
     ntype = PBS
     state = free
     pcpus = 4
     jobs = 1.head/0, 1.head/1
     resources_available.arch = linux
     resources_available.host = head
     resources_available.mem = 8gb
     resources_available.ncpus = 4
     resources_available.vnode = head
     resources_assigned.accelerator_memory = 0kb
     resources_assigned.hbmem = 0kb
     resources_assigned.mem = 1048576kb
     resources_assigned.naccelerators = 0
     resources_assigned.ncpus = 2
     resources_assigned.vmem = 0kb
     resv_enable = True
     sharing = default_shared
     last_state_change_time = {date}
     last_used_time = {date}

"
        );
        for words in ["head", "-v head", "-H head"] {
            assert_eq!(shown(&system(), words), expected, "{words}");
        }
        assert!(shown(&system(), "-a").starts_with(&expected));
    }

    #[test]
    fn summaries_are_laid_out_as_pbs_lays_them_out() {
        let expected = "\
vnode           state           OS       hardware host            queue        mem     ncpus   nmics   ngpus  comment
--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- ------- ---------
head            free            --       --       head            --              8gb       4       0       0 --
n2              offline,down    --       --       n2.example.org  --              8gb       4       0       0 broken disk
";
        assert_eq!(shown(&system(), "-aS"), expected);
        let expected = "                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
head            free                 1     1      0      7gb/8gb     2/4     0/0     0/0 1
n2              offline,down         0     0      0      8gb/8gb     4/4     0/0     0/0 --
";
        assert_eq!(shown(&system(), "-aSj"), expected);
    }

    #[test]
    fn a_host_stands_for_its_nodes() {
        assert_eq!(shown(&split(), "-a").lines().filter(|line| !line.contains(' ')).collect::<Vec<_>>(), ["head", ""]);
        let sum = "\nhead            <various>       --       --       head            --             24gb      12       0       0 --\n";
        assert!(shown(&split(), "-aS").ends_with(sum), "{}", shown(&split(), "-aS"));
        let states: Vec<String> =
            shown(&split(), "-avS").lines().skip(2).map(|line| line[16..31].trim().into()).collect();
        assert_eq!(states, ["free", "job-busy", "job-exclusive"]);
        assert_eq!(shown(&split(), "-H head").matches("Mom = head").count(), 3);
        assert_eq!(said(&split(), "head[0]").unwrap().complaints, ["Node: head[0],  Error: Unknown node \n"]);
        assert!(said(&split(), "-v head[0]").unwrap().complaints.is_empty());
        let apart = System { jobs: vec![], nodes: vec![node("n1", "box"), node("n2", "box")] };
        assert_eq!(shown(&apart, "-aS").lines().count(), 4);
    }

    #[test]
    fn json_has_moments_as_numbers_and_each_job_once() {
        let read: serde_json::Value = serde_json::from_str(&shown(&system(), "-F json head nosuch")).unwrap();
        let head = &read["nodes"]["head"];
        assert_eq!(head["jobs"], serde_json::json!(["1.head"]));
        assert_eq!(head["resources_assigned"], serde_json::json!({"mem": "1048576kb", "ncpus": 2}));
        assert_eq!(head["last_state_change_time"], 1_700_000_000);
        assert_eq!(read["nodes"]["nosuch"]["Error"], "Unknown node ");
        assert_eq!(said(&system(), "-F json nosuch").unwrap().complaints.len(), 1);
        let read: serde_json::Value = serde_json::from_str(&shown(&system(), "-aSj -F json")).unwrap();
        let expected = serde_json::json!({
            "State": "free", "state": "free", "Total Jobs": 1, "Running Jobs": 1, "Suspended Jobs": 0,
            "mem f/t": "7gb/8gb", "ncpus f/t": "2/4", "nmics f/t": "0/0", "ngpus f/t": "0/0", "jobs": ["1.head"],
        });
        assert_eq!(read["nodes"]["head"], expected);
    }

    #[test]
    fn dsv_and_the_list_of_troubled_nodes() {
        assert!(
            shown(&system(), "-a -F dsv")
                .starts_with("Name=head|Mom=head|ntype=PBS|state=free|pcpus=4|jobs=1.head/0,1.head/1|")
        );
        let expected =
            "vnode=head:state=free:OS=--:hardware=--:host=head:queue=--:mem=8gb:ncpus=4:nmics=0:ngpus=0:comment=--";
        assert_eq!(shown(&system(), "-aS -F dsv -D :").lines().next(), Some(expected));
        assert_eq!(shown(&system(), "-l"), "n2                   offline,down broken disk\n");
    }

    #[test]
    fn faults_end_with_1() {
        for words in ["", "-S", "-a -F xml", "-ao", "-l head", "-o", "-C text", "-a head", "-y"] {
            let failure = said(&system(), words).unwrap_err();
            assert_eq!((failure.usage, failure.code), (true, 1), "{words}");
        }
        assert_eq!(said(&system(), "-s nosuch -a").unwrap_err().code, 1);
        assert_eq!(said(&System::default(), "-a").unwrap_err().text, "Server has no node list");
    }

    #[test]
    fn every_node_named_is_marked_and_each_refusal_told() {
        let args: Args = example::parse(command, "-o -C broken nosuch head").unwrap();
        args.check().unwrap();
        let mut sent = Vec::new();
        let mut send = |request: &Request| {
            let Request::MarkNode { node, offline, comment } = request else { panic!("{request:?}") };
            sent.push((node.clone(), *offline, comment.clone()));
            Ok(if node == "nosuch" { Reply::Refused(Refusal::unknown_node()) } else { Reply::Done })
        };
        let said = args.mark(&mut split().ask(), &mut send).unwrap();
        assert_eq!(said.complaints, ["Error marking node nosuch - Unknown node \n"]);
        let names: Vec<&str> = sent.iter().map(|(node, ..)| node.as_str()).collect();
        assert_eq!(names, ["nosuch", "head", "head[0]", "head[1]"]);
        assert_eq!(sent[1], ("head".to_string(), Some(true), Some("broken".to_string())));
    }
}
