//! `qstat`: jobs, queues and the server, as lists, in full, as dsv or JSON.

use super::alternate::{self, Unit};
use super::ask::{self, Ask, Said};
use super::attributes::{self, Attributes};
use super::dsv;
use super::exit::{self, Failure, USAGE};
use super::full::{self, Lines};
use super::getopt::{self, Line};
use super::json::{Document, Preamble};
use super::layout;
use super::listing::{self, Found, Owner, Wanted, unknown_host};
use super::operand::Operand;
use super::queues;
use super::watch::Watch;
use crate::model::attribute::same_server;
use crate::model::job::JobId;
use crate::model::refusal::Refusal;
use crate::model::resource::Value;
use crate::model::state::State;
use crate::model::time::Wall;
use crate::sys::{clock, record, user};
use crate::wire::message::{Arrays, Detail, History, Question, QueueCounts, Record, ServerFacts, Watched};
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit status without a server.
const NO_SERVER: u8 = 255;

/// Show jobs, queues or the server.
///
/// Without options, one line for each job that is not over.
#[derive(Debug, Default, Parser)]
#[command(name = "qstat", disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// All jobs, with what they asked for
    #[arg(short = 'a')]
    all: bool,
    /// Jobs that are not running
    #[arg(short = 'i')]
    idle: bool,
    /// Running jobs
    #[arg(short = 'r')]
    running: bool,
    /// Finished jobs
    #[arg(short = 'H')]
    finished: bool,
    /// Finished jobs too
    #[arg(short = 'x')]
    history: bool,
    /// Jobs of these users: exact names, the host as in Job_Owner
    #[arg(short = 'u', value_name = "USER[@HOST],...")]
    users: Option<String>,
    /// Add the hosts that each job runs on
    #[arg(short = 'n')]
    hosts: bool,
    /// Add the comment of each job: why it does not start, where it runs, how it ended
    #[arg(short = 's')]
    comment: bool,
    /// Put hosts or comment on the job's line; with -f, each attribute on one line
    #[arg(short = '1')]
    one_line: bool,
    /// The promised start instead of the time used
    #[arg(short = 'T')]
    starts: bool,
    /// Memory in gigabytes
    #[arg(short = 'G')]
    gigabytes: bool,
    /// Memory in megawords of 8 bytes each
    #[arg(short = 'M')]
    megawords: bool,
    /// Wide: 120 columns; with -f, each attribute on one line
    #[arg(short = 'w')]
    wide: bool,
    /// All attributes of each job, queue or server
    #[arg(short = 'f')]
    full: bool,
    /// With -f: the format of the attributes, json or dsv
    #[arg(short = 'F', value_name = "FORMAT")]
    format: Option<String>,
    /// With -F dsv: what sets the values apart
    #[arg(short = 'D', value_name = "DELIMITER")]
    delimiter: Option<String>,
    /// Percent of the requested time that is used, instead of the time
    #[arg(short = 'p')]
    percent: bool,
    /// Job arrays only
    #[arg(short = 'J')]
    arrays: bool,
    /// Show the subjobs of job arrays too
    #[arg(short = 't')]
    subjobs: bool,
    /// Only job ids are given
    #[arg(short = 'E')]
    express: bool,
    /// Queues, with their jobs by state
    #[arg(short = 'Q')]
    queues: bool,
    /// Queues, with their limits
    #[arg(short = 'q')]
    limits: bool,
    /// The server
    #[arg(short = 'B')]
    server: bool,
    /// Show again whenever what is shown has changed, until all jobs named by id are over, or Ctrl-C.
    /// JSON is then one document on each line
    #[arg(long)]
    watch: bool,
    /// Not accepted, as in PBS
    #[arg(short = 'W', value_name = "SITE", hide = true)]
    site: Option<OsString>,
    /// Job ids, queues, or @server
    #[arg(value_name = "JOB|QUEUE")]
    operands: Vec<OsString>,
}

/// Its options.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs it.
pub fn main() -> ExitCode {
    exit::run("qstat", command, || match getopt::read::<Args>(command)? {
        Line::Answered => Ok(0),
        Line::Asked(args) => {
            let format = args.check()?;
            match args.watch {
                true => args.to_watch(&format).run(command, || args.look(&format)),
                false => args.say(&format).tell("qstat", command),
            }
        }
    })
}

/// How attributes are written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Format {
    Text(Lines),
    Dsv(String),
    Json,
}

impl Args {
    /// Finds the options that exclude each other.
    fn check(&self) -> Result<Format, Failure> {
        let wrong_format = self.format.as_deref().is_some_and(|format| format != "json" && format != "dsv");
        if self.site.is_some() || wrong_format || (self.delimiter.is_some() && self.format.is_none()) {
            return Err(Failure { text: String::new(), usage: true, code: USAGE });
        }
        let formatted = self.format.is_some();
        let lists = [self.all, self.idle, self.running, self.limits, self.finished];
        let conflict = lists.iter().filter(|given| **given).count() > 1
            || (self.gigabytes && self.megawords)
            || (formatted && (!self.full || self.is_alternate() || self.wide))
            || (self.limits && self.full)
            || (self.one_line && !(self.hosts || self.comment || self.full))
            || (self.server && self.queues);
        if conflict {
            let and_wide = if formatted && self.wide { "\nqstat: option w cannot be used with -F" } else { "" };
            return Err(Failure::usage(format!("conflicting options.{and_wide}")));
        }
        if self.express && !self.operands.iter().all(|word| listing::is_job_id(word)) {
            return Err(Failure::new(1, "Express option can only be used with job ids"));
        }
        Ok(self.format())
    }

    fn format(&self) -> Format {
        match self.format.as_deref() {
            Some("json") => Format::Json,
            Some(_) => Format::Dsv(self.delimiter.clone().unwrap_or_else(|| "|".to_string())),
            None if self.wide || self.one_line => Format::Text(Lines::Whole),
            None => Format::Text(Lines::Wrapped),
        }
    }

    fn is_alternate(&self) -> bool {
        let choosing = self.all || self.idle || self.running || self.finished || self.users.is_some();
        let showing = self.hosts || self.comment || self.starts || self.gigabytes || self.megawords;
        choosing || showing
    }

    fn say(&self, format: &Format) -> Said {
        self.look(format).unwrap_or_else(|failure| {
            let out = if *format == Format::Json { frame(clock::wall()) } else { Vec::new() };
            Said { out, failures: vec![failure] }
        })
    }

    /// What there is to say; an error when nobody answers.
    fn look(&self, format: &Format) -> Result<Said, Failure> {
        let mut ask = ask::source(|why| ask::no_server(why, NO_SERVER))?;
        self.answer(format, &mut ask, clock::wall())
    }

    fn answer(&self, format: &Format, ask: &mut Ask, now: Wall) -> Result<Said, Failure> {
        if self.server {
            self.show_server(format, ask, now)
        } else if self.queues || self.limits {
            self.show_queues(format, ask, now)
        } else {
            self.show_jobs(format, ask, now)
        }
    }

    fn show_jobs(&self, format: &Format, ask: &mut Ask, now: Wall) -> Result<Said, Failure> {
        let found = listing::find(&self.wanted(), &self.operands, ask)?;
        let out = if self.is_alternate() {
            alternate::list(&found.jobs, &found.server, self.alternate_style(now)).into_bytes()
        } else if self.full {
            full_jobs(&found, format, now)
        } else {
            self.plain_jobs(&found).into_bytes()
        };
        Ok(Said { out, failures: found.failures })
    }

    fn wanted(&self) -> Wanted {
        let detail = match (self.is_alternate(), self.full) {
            (false, true) => Detail::Environment,
            (false, false) if !self.percent => Detail::Row,
            _ => Detail::Whole,
        };
        // Who watches a job wants to see its end.
        let history = match (self.finished, self.history || !self.watched_jobs().is_empty()) {
            (true, _) => History::Finished,
            (false, true) => History::All,
            (false, false) => History::Live,
        };
        let states = match (self.idle, self.running) {
            (true, _) => vec![State::Queued, State::Held, State::Waiting],
            (false, true) => vec![State::Running],
            (false, false) => Vec::new(),
        };
        let owners = self.users.as_deref().map(Owner::parse_list);
        Wanted { detail, history, states, owners, arrays: self.shown_arrays() }
    }

    fn shown_arrays(&self) -> Arrays {
        match (self.arrays, self.subjobs) {
            (false, false) => Arrays::Folded,
            (true, false) => Arrays::Only,
            (false, true) => Arrays::Unfolded,
            (true, true) => Arrays::ElementsOnly,
        }
    }

    fn to_watch(&self, format: &Format) -> Watch {
        let until = self.watched_jobs();
        let own = self.operands.is_empty() && self.users.as_ref().is_some_and(|users| *users == user::own().name);
        let of = match (until.is_empty(), own) {
            (false, _) => Watched::Jobs(until.iter().copied().collect()),
            (true, true) => Watched::Mine,
            (true, false) => Watched::Any,
        };
        Watch { of, until, json: *format == Format::Json }
    }

    /// With `--watch` and nothing but job ids, these.
    fn watched_jobs(&self) -> BTreeSet<JobId> {
        let only_ids = self.watch && self.operands.iter().all(|word| listing::is_job_id(word));
        let ids = self.operands.iter().filter(|_| only_ids).filter_map(|word| Operand::parse(word).ok());
        // A range of an array is over when the array is.
        ids.map(|id| id.id()).collect()
    }

    fn alternate_style(&self, now: Wall) -> alternate::Style {
        let unit = match (self.gigabytes, self.megawords) {
            (true, _) => Unit::Gigabytes,
            (false, true) => Unit::Megawords,
            (false, false) => Unit::Own,
        };
        alternate::Style {
            wide: self.wide,
            hosts: self.hosts,
            comment: self.comment,
            one_line: self.one_line,
            starts: self.starts.then_some(now),
            unit,
        }
    }

    fn plain_jobs(&self, found: &Found) -> String {
        let style = layout::Style { wide: self.wide, percent: self.percent };
        let server = &found.server.name;
        let rows = found.rows.iter().map(|row| layout::Line {
            id: row.id.full(server),
            name: &row.name,
            owner: &row.owner,
            used: layout::time_used(row.cput, row.state),
            state: row.state,
            queue: &row.queue,
        });
        let lines: Vec<layout::Line> = rows.chain(found.jobs.iter().map(|record| done(record, server))).collect();
        layout::list(&lines, style)
    }

    fn show_queues(&self, format: &Format, ask: &mut Ask, now: Wall) -> Result<Said, Failure> {
        let answers = ask(&Question::Queues)?;
        let (chosen, failures) = self.choose(&answers.queues, &answers.server);
        let out = match (self.limits, self.full) {
            (true, _) => queues::limits(&chosen, &answers.server).into_bytes(),
            (false, false) => queues::list(&chosen).into_bytes(),
            (false, true) => {
                let resources = &answers.server.resources;
                let things = chosen.iter().map(|queue| (queue.queue.name.clone(), queues::of_queue(queue, resources)));
                things_in_full("Queue", things, format, &preamble(&answers.server, now))
            }
        };
        Ok(Said { out, failures })
    }

    /// The queues that the operands name; all without any.
    fn choose<'a>(&self, queues: &'a [QueueCounts], server: &ServerFacts) -> (Vec<&'a QueueCounts>, Vec<Failure>) {
        let (mut chosen, mut failures) = (Vec::new(), Vec::new());
        for word in &self.operands {
            let text = word.to_string_lossy();
            let (name, host) = text.split_once('@').unwrap_or((&text, &server.name));
            let named: Vec<_> = queues.iter().filter(|q| name.is_empty() || q.queue.name == name).collect();
            match (same_server(host, &server.name), named.is_empty() && !name.is_empty()) {
                (false, _) => failures.push(unknown_host(host)),
                (true, true) => failures.push(unknown_queue(name)),
                (true, false) => chosen.extend(named),
            }
        }
        if self.operands.is_empty() {
            chosen.extend(queues);
        }
        (chosen, failures)
    }

    fn show_server(&self, format: &Format, ask: &mut Ask, now: Wall) -> Result<Said, Failure> {
        let answers = ask(&Question::Queues)?;
        let server = &answers.server;
        let elsewhere = |word: &OsString| !same_server(&word.to_string_lossy(), &server.name);
        let hosts = self.operands.iter().filter(|word| elsewhere(word));
        let failures: Vec<Failure> = hosts.map(|word| unknown_host(&word.to_string_lossy())).collect();
        let shown = self.operands.is_empty() || failures.len() < self.operands.len();
        let sums = queues::assigned_in_all(&answers.queues);
        let out = match (shown, self.full) {
            (false, false) => Vec::new(),
            (true, false) => queues::server_list(&answers.queues, server).into_bytes(),
            (shown, true) => {
                let thing = || (server.name.clone(), queues::of_server(&answers.queues, &sums, server));
                things_in_full("Server", shown.then(thing).into_iter(), format, &preamble(server, now))
            }
        };
        Ok(Said { out, failures })
    }
}

fn unknown_queue(name: &str) -> Failure {
    let refusal = Refusal::unknown_queue();
    Failure::new(refusal.exit_code(), format!("{} {name}", refusal.text))
}

/// A line of `qstat -p`.
fn done<'a>(record: &'a Record, server: &str) -> layout::Line<'a> {
    let (job, life) = (&record.job, &record.job.life);
    let asked = |name| match job.spec.request.list.get(name) {
        Some(Value::Time(span)) => Some(*span),
        _ => None,
    };
    let spent = [(asked("cput"), life.used.cput), (asked("walltime"), life.used.walltime)];
    layout::Line {
        id: job.id.full(server),
        name: &job.spec.name,
        owner: &job.owner.user,
        used: layout::percent_done(&spent, life.state),
        state: life.state,
        queue: &job.spec.queue,
    }
}

fn full_jobs(found: &Found, format: &Format, now: Wall) -> Vec<u8> {
    let server = &found.server;
    let things = found.jobs.iter().map(|record| (record.job.id.full(&server.name), attributes::of_job(record, server)));
    things_in_full("Jobs", things, format, &preamble(server, now))
}

/// Things with all their attributes. `section` is their name in JSON: `Jobs`, `Queue`, `Server`.
fn things_in_full<'a>(
    section: &str,
    things: impl Iterator<Item = (String, Attributes<'a>)>,
    format: &Format,
    preamble: &Preamble,
) -> Vec<u8> {
    let heading = if section == "Jobs" { "Job Id" } else { section };
    let mut out = String::new();
    match format {
        Format::Json => {
            let mut document = Document::begin(preamble);
            document.section(section, things);
            return document.end();
        }
        Format::Dsv(delimiter) => {
            let heading = format!("{heading}: ");
            things.for_each(|(id, attributes)| dsv::write(&mut out, &heading, &id, &attributes, delimiter));
        }
        Format::Text(lines) => {
            things.for_each(|(id, attributes)| full::write(&mut out, heading, &id, &attributes, *lines));
        }
    }
    out.into_bytes()
}

fn preamble(server: &ServerFacts, now: Wall) -> Preamble<'_> {
    Preamble { timestamp: now, version: &server.version, server: &server.name }
}

/// The document of a server that does not answer.
fn frame(now: Wall) -> Vec<u8> {
    let server = &record::host();
    Document::begin(&Preamble { timestamp: now, version: env!("CARGO_PKG_VERSION"), server }).end()
}

#[cfg(test)]
mod tests {
    use super::super::example::{self, NOW, System, finished, queued, running, share, with};
    use super::*;

    const USAGE_ALONE: (&str, bool, u8) = ("", true, 2);

    fn said(system: &System, words: &str) -> Result<Said, Failure> {
        let args: Args = example::parse(command, words)?;
        args.answer(&args.check()?, &mut system.ask(), NOW)
    }

    /// Output, then each failure as `<code> <text>`.
    fn shown(system: &System, words: &str) -> (String, Vec<String>) {
        let said = said(system, words).unwrap();
        let told = said.failures.iter().map(|failure| format!("{} {}", failure.code, failure.text));
        (String::from_utf8(said.out).unwrap(), told.collect())
    }

    fn system() -> System {
        let mut held = queued(2, "held", "");
        held.job.life.state = State::Held;
        let bobs = with(queued(4, "bobs", ""), |spec| spec.submit_host = "login2".into());
        let mut jobs = vec![
            running(queued(1, "runs", "walltime=10:00"), vec![share(2, None)]),
            held,
            finished(running(queued(3, "over", ""), vec![share(1, None)]), 0, false),
            bobs,
        ];
        jobs[3].job.owner.user = "bob".into();
        jobs[0].environ = Some(b"N=4\0".to_vec());
        System { jobs, nodes: vec![] }
    }

    /// The names of the jobs in a plain list.
    fn names(words: &str) -> Vec<String> {
        let (out, _) = shown(&system(), words);
        let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let all = ["runs", "held", "over", "bobs"];
        out.lines().flat_map(words).filter(|word| all.contains(&word.as_str())).collect()
    }

    #[test]
    fn options_that_exclude_each_other_are_told_with_the_usage() {
        for words in [
            "-a -i",
            "-a -r",
            "-i -H",
            "-q -a",
            "-q -f",
            "-G -M",
            "-F json",
            "-F dsv",
            "-F json -a -f",
            "-F json -n -f",
            "-F dsv -f -u alice",
            "-1",
            "-1 -a",
            "-B -Q",
            "-Q -F json",
        ] {
            let failure = said(&system(), words).unwrap_err();
            assert_eq!(
                (failure.text.as_str(), failure.usage, failure.code),
                ("conflicting options.", true, 2),
                "{words}"
            );
        }
        let failure = said(&system(), "-F json -w -f").unwrap_err();
        assert_eq!(failure.text, "conflicting options.\nqstat: option w cannot be used with -F");
        for words in ["-F xml -f", "-D :", "-f -D :", "-W x"] {
            let failure = said(&system(), words).unwrap_err();
            assert_eq!((failure.text.as_str(), failure.usage, failure.code), USAGE_ALONE, "{words}");
        }
        for words in ["-E workq", "-E nosuch"] {
            let failure = said(&system(), words).unwrap_err();
            assert_eq!((failure.text.as_str(), failure.code), ("Express option can only be used with job ids", 1));
        }
    }

    #[test]
    fn options_that_only_look_contrary_are_taken() {
        for words in ["-x -H", "-B -a", "-Q -a", "-f -a", "-f -n", "-f -s", "-f -T", "-a -p", "-p -f", "-f -1", "-xf"] {
            assert!(said(&system(), words).is_ok(), "{words}");
        }
        assert!(shown(&system(), "-f -n 1").0.contains("\n   head/0*2\n"));
        assert_eq!(shown(&system(), "-f -1 1").0, shown(&system(), "-f -w 1").0);
    }

    #[test]
    fn lists_show_live_jobs_unless_asked_for_more() {
        assert_eq!(names(""), ["runs", "held", "bobs"]);
        assert_eq!(names("-x"), ["runs", "held", "over", "bobs"]);
        assert_eq!(names("-H"), ["over"]);
        assert_eq!(names("-i"), ["held", "bobs"]);
        assert_eq!(names("-r"), ["runs"]);
        assert_eq!(names("-u bob"), ["bobs"]);
        assert_eq!(names("-u bob@login2,alice@other"), ["bobs"]);
        assert_eq!(names("-u *"), Vec::<String>::new());
        assert_eq!(names("-J"), Vec::<String>::new());
        assert_eq!(names("@head"), ["runs", "held", "bobs"]);
        assert_eq!(names("workq@head"), ["runs", "held", "bobs"]);
        assert_eq!(shown(&System::default(), "").0, "");
        assert_eq!(shown(&System::default(), "-a").0, "");
        assert_eq!(shown(&System::default(), "-f").0, "");
    }

    #[test]
    fn every_operand_is_acted_on_and_the_heading_is_printed_once() {
        let (out, told) = shown(&system(), "4 999 1 1.head 3 12x nosuch");
        let expected = "\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
4.head            bobs             bob                      0 Q workq           \n\
1.head            runs             alice             00:04:55 R workq           \n";
        assert_eq!(out, expected);
        let expected = [
            "153 Unknown Job Id 999.head",
            "35 3.head Job has finished, use -x or -H to obtain historical job information",
            "1 illegally formed job identifier: 12x",
            "170 Unknown queue destination nosuch",
        ];
        assert_eq!(told, expected);
        assert_eq!(shown(&system(), "1[3] 2@other").1, ["153 Unknown Job Id 1[3].head", "153 Unknown Job Id 2.other"]);
        assert!(shown(&system(), "@other").1[0].starts_with("255 cannot connect to server other (errno=15008)"));
    }

    #[test]
    fn filters_do_not_touch_a_job_named_by_its_id() {
        for words in ["-i 1", "-r 2", "-H 1", "-u bob 1", "-J 1", "-x 3", "-H 3"] {
            assert_eq!(names(words).len(), 1, "{words}");
            assert_eq!(shown(&system(), words).1, Vec::<String>::new(), "{words}");
        }
    }

    #[test]
    fn json_is_one_document_over_all_operands() {
        let (out, told) = shown(&system(), "-f -F json 1 999 2 3 1");
        let read: serde_json::Value = serde_json::from_str(&out).unwrap();
        let keys: Vec<&String> = read["Jobs"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["1.head", "2.head"]);
        assert_eq!(read["Jobs"]["1.head"]["Variable_List"]["N"], "4");
        assert_eq!(told.len(), 2);
        let (out, told) = shown(&system(), "-f -F json 999");
        let read: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&read["timestamp"], &read["pbs_server"]), (&1_700_000_300.into(), &"head".into()));
        assert!(read.get("Jobs").is_none());
        assert_eq!(told, ["153 Unknown Job Id 999.head"]);
        assert!(serde_json::from_slice::<serde_json::Value>(&frame(NOW)).is_ok());
    }

    #[test]
    fn queues_and_the_server_are_shown_in_every_format() {
        let system = system();
        assert!(shown(&system, "-Q workq").0.contains("\nworkq                0     4 yes yes     1     1     1"));
        assert_eq!(shown(&system, "-Q nosuch"), (String::new(), vec!["170 Unknown queue nosuch".to_string()]));
        assert_eq!(shown(&system, "-q nosuch"), (String::new(), vec!["170 Unknown queue nosuch".to_string()]));
        assert!(shown(&system, "-Qf -F dsv").0.starts_with("Queue: workq|queue_type=Execution|total_jobs=4|"));
        let read: serde_json::Value = serde_json::from_str(&shown(&system, "-Bf -F json").0).unwrap();
        assert_eq!(read["Server"]["head"]["server_state"], "Active");
        assert_eq!(read["Server"]["head"]["resources_assigned"]["ncpus"], 2);
        let read: serde_json::Value = serde_json::from_str(&shown(&system, "-Q -f -F json nosuch").0).unwrap();
        assert!(read.get("Queue").is_none());
        assert!(shown(&system, "-B").0.contains("\nhead                 0     4     1     1     1"));
        let (out, told) = shown(&system, "-B nosuch");
        assert_eq!((out.as_str(), told.len()), ("", 1));
        assert!(told[0].starts_with("255 cannot connect to server nosuch"));
    }

    #[test]
    fn percent_done_is_of_the_walltime() {
        assert!(shown(&system(), "-p 1").0.ends_with("                50  R workq           \n"));
    }
}
