//! `lanai metrics`: the state of the installation in the format OpenMetrics, for Prometheus and
//! compatible systems. lanai-metrics(7) describes the metrics.

use super::families::{self as family, MetricsInput};
use super::job_summary::{JobCounter, JobSummary};
use super::openmetrics::OpenMetrics;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::source::QuerySource;
use crate::spool;
use crate::sys::clock;
use crate::sys::filesystem;
use crate::sys::home::Home;
use crate::wire::client::{Client, Continue};
use crate::wire::message::{
    Arrays, ClientAnswer, ClientRequest, Detail, Filter, History, NodeRecord, Question, Reply,
    ScheddStatus, ServerFacts,
};
use clap::Args;
use std::path::{Path, PathBuf};

/// The mode of a text file: node_exporter runs as another user.
const MODE: u32 = 0o644;

/// The default of `--users`.
const USERS: usize = 100;

/// Options of `lanai metrics`.
#[derive(Args, Clone, Debug)]
pub struct MetricsArgs {
    /// Replace FILE atomically, instead of writing to standard output. node_exporter's textfile
    /// collector reads files with names that end in .prom
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Number of users with metrics of their own: those with the most jobs
    #[arg(long, value_name = "COUNT", default_value_t = USERS)]
    pub users: usize,
}

impl Default for MetricsArgs {
    fn default() -> MetricsArgs {
        MetricsArgs {
            textfile: None,
            users: USERS,
        }
    }
}

/// Writes the metrics to standard output or to a file.
pub fn run(args: &MetricsArgs) -> Result<u8, Failure> {
    run_in(&Home::find()?, args)
}

/// [`run`] for the installation `home`.
pub fn run_in(home: &Home, args: &MetricsArgs) -> Result<u8, Failure> {
    let text = collect(home, args.users)?;
    match &args.textfile {
        Some(file) => replace(file, &text)?,
        None => exit::print(text)?,
    }
    Ok(0)
}

fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    filesystem::replace(file, text.as_bytes(), MODE)
        .map_err(|error| Failure::new(1, format!("{}: {error}", file.display())))
}

/// The metrics of the installation `home`, with metrics for each of up to `users` users. If schedd
/// does not respond, the metrics come from the spool, without those of the running schedd.
pub fn collect(home: &Home, users: usize) -> Result<String, Failure> {
    // The status is queried before the source is opened, which can start a personal schedd.
    let status = status(home);
    let mut source = QuerySource::open(home)?;
    let (server, nodes, jobs) = jobs(&mut source)?;
    // Only operators may see the cycles.
    let cycles = server.privileged.then(|| source.ask(&Question::Cycles));
    let cycles = cycles.and_then(Result::ok).map(|answers| answers.cycles);
    let input = MetricsInput {
        server: &server,
        now: clock::wall(),
        status: status.as_ref(),
        jobs: &jobs,
        users,
        nodes: &nodes,
        cycles: &cycles.unwrap_or_default(),
        spool: spool_size(home),
    };
    let mut out = OpenMetrics::default();
    family::add_all(&input, &mut out);
    Ok(out.end())
}

/// The nodes, and the summary of all unfinished jobs. Job records are not kept in memory.
fn jobs(source: &mut QuerySource) -> Result<(ServerFacts, Vec<NodeRecord>, JobSummary), Failure> {
    let answers = source.ask(&Question::Nodes)?;
    let unfinished = Filter {
        history: History::Live,
        queues: Vec::new(),
        owners: Vec::new(),
        states: Vec::new(),
        arrays: Arrays::Folded,
        after: None,
    };
    let mut counter = JobCounter::new(&answers.nodes);
    source.parts(&Question::Jobs(unfinished, Detail::Whole), &mut |part| {
        if let ClientAnswer::Jobs(jobs) = part {
            jobs.iter().for_each(|record| counter.add(record));
        }
        Continue::Wanted
    })?;
    let summary = counter.end();
    Ok((answers.server, answers.nodes, summary))
}

/// The status of the running schedd; None if no schedd responds.
fn status(home: &Home) -> Option<ScheddStatus> {
    let mut client = Client::reach(home).ok()?;
    match client.call(&ClientRequest::Status).ok()? {
        Reply::Status(status) => Some(*status),
        _ => None,
    }
}

/// The size in bytes of the spool's database and of its write-ahead log; None if this user may not
/// read them.
fn spool_size(home: &Home) -> Option<u64> {
    let size = |file: PathBuf| Some(std::fs::metadata(file).ok()?.len());
    let database = size(spool::file(home))?;
    Some(database + size(spool::log(home)).unwrap_or(0))
}
