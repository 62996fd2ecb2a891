//! `qsim replay`: runs the scheduler on a trace of past jobs.

use crate::cli::client::exit::{self, Failure};
use crate::config::Config;
use crate::model::policy::{Policy, Preset};
use crate::sim::accuracy::AccuracyTest;
use crate::sim::machine::NodeBatch;
use crate::sim::metrics::Metrics;
use crate::sim::plot;
use crate::sim::replay;
use crate::sim::report::{self, Summary};
use crate::sim::shorthand;
use crate::sim::swf::{self, Log};
use crate::sim::trace::{Trace, TraceJob, TraceSummary};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// Replay a trace in Standard Workload Format and report when the jobs in it would have started
///
/// The trace may be compressed with gzip. Fractions of seconds are truncated; jobs without
/// processors or run time and jobs larger than the machine are dropped; run times are cut to the
/// requested time. The summary counts the records that each rule affected. All events of one second
/// precede the cycle of that second: first ends, then submissions in the order of the file.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The trace: TRACE.swf or TRACE.swf.gz
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Number of nodes (default: 1; with --cores-per-node, the processors of the trace divided by
    /// C)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: Option<u32>,

    /// Number of processors of each node (default: the processors of the trace divided by the
    /// number of nodes)
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..))]
    cores_per_node: Option<u32>,

    /// Use the policy of a preset
    #[arg(long, value_name = "NAME", conflicts_with = "config", value_parser = presets())]
    preset: Option<String>,

    /// Use the policy of this lanai.toml, without its nodes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Use the order and backfill of a policy from the literature, instead of the order and
    /// backfill of the preset or configuration
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(shorthand::names()))]
    policy: Option<String>,

    /// Index of the first job to run (the first job of the trace has index 0)
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: usize,

    /// Number of jobs to run (default: all)
    #[arg(long, value_name = "N")]
    first: Option<usize>,

    /// Write the starts as CSV: job,submit,start,end,procs,nodes,via
    #[arg(long, value_name = "FILE")]
    jobs_out: Option<PathBuf>,

    /// Draw the schedule and the utilization over time as SVG into this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Predict the starts of about 1000 waiting jobs from the run times of the jobs that have ended
    /// before, and report how accurate the predictions are
    #[arg(long)]
    accuracy: bool,

    /// Format of the summary
    #[arg(long, value_name = "FORM", value_enum, default_value_t = ReplayFormat::Text)]
    summary: ReplayFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReplayFormat {
    /// One figure per line, with its unit
    Text,
    /// JSON; times in seconds
    Json,
}

/// Runs `qsim replay`.
pub(super) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    let summary = replay(args).map_err(|error| Failure::new(1, format!("{error:#}")))?;
    exit::print(match args.summary {
        ReplayFormat::Text => summary.to_string(),
        ReplayFormat::Json => {
            serde_json::to_string_pretty(&summary).map_err(anyhow::Error::from)? + "\n"
        }
    })?;
    Ok(0)
}

fn replay(args: &ReplayArgs) -> Result<Summary> {
    let name = args.trace.display().to_string();
    let (config, policy) = config_and_policy(args)?;
    let (machine, jobs, records) = load(args).with_context(|| name.clone())?;
    let bar = bar(jobs.len());
    let mut accuracy = args
        .accuracy
        .then(|| AccuracyTest::new(&jobs, policy.clone()));
    let outcomes = replay::run(&jobs, machine, &config, &policy, |instant| {
        if let Some(accuracy) = &mut accuracy {
            accuracy.observe(instant);
        }
        show(&bar, instant.started);
    });
    bar.finish_and_clear();
    let outcomes = outcomes.with_context(|| name.clone())?;

    if let Some(path) = &args.jobs_out {
        let file = File::create(path)
            .and_then(|file| report::write_starts(&outcomes, BufWriter::new(file)));
        file.with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.plot {
        let picture =
            plot::svg(&title(args), &outcomes, machine.processors()).map_err(anyhow::Error::msg);
        picture
            .and_then(|svg| Ok(std::fs::write(path, svg)?))
            .with_context(|| path.display().to_string())?;
    }
    let metrics = Metrics::new(&outcomes, machine.processors());
    Ok(Summary {
        trace: name,
        policy: rules(args),
        machine,
        records,
        metrics,
        accuracy: accuracy.map(|accuracy| accuracy.finish(&outcomes)),
    })
}

/// The machine, the jobs in the requested range, and counts of the dropped and changed records.
fn load(args: &ReplayArgs) -> Result<(NodeBatch, Vec<TraceJob>, TraceSummary)> {
    let log: Log = swf::read(BufReader::with_capacity(1 << 16, File::open(&args.trace)?))?;
    let machine = NodeBatch::new(&log, args.nodes, args.cores_per_node)?;
    let mut trace = Trace::new(&log, machine.processors())?;
    trace.window(args.from..args.from.saturating_add(args.first.unwrap_or(usize::MAX)));
    Ok((machine, trace.jobs, trace.summary))
}

/// The configuration, and the policy of the scheduling cycle.
fn config_and_policy(args: &ReplayArgs) -> Result<(Config, Policy)> {
    let config = match (&args.config, &args.preset) {
        (Some(path), _) => read_config(path).with_context(|| path.display().to_string())?,
        (None, Some(preset)) => Config::parse(&format!("preset = \"{preset}\""))?,
        (None, None) => Config::default(),
    };
    let policy = config.effective_policy();
    let policy = args
        .policy
        .as_ref()
        .and_then(|name| shorthand::applied(name, policy.clone()))
        .unwrap_or(policy);
    Ok((config, policy))
}

fn read_config(path: &Path) -> Result<Config> {
    Ok(Config::parse(&std::fs::read_to_string(path)?)?)
}

/// A short description of the scheduling policy.
fn rules(args: &ReplayArgs) -> String {
    let preset = args.preset.as_deref().map(|name| format!("preset {name}"));
    let config = args.config.as_ref().map(|path| path.display().to_string());
    let parts: Vec<String> = args
        .policy
        .clone()
        .into_iter()
        .chain(preset)
        .chain(config)
        .collect();
    if parts.is_empty() {
        format!("preset {}", Preset::default().name())
    } else {
        parts.join(", ")
    }
}

fn title(args: &ReplayArgs) -> String {
    format!(
        "{}: {}",
        args.trace.file_name().unwrap_or_default().display(),
        rules(args)
    )
}

fn presets() -> PossibleValuesParser {
    PossibleValuesParser::new(Preset::ALL.iter().map(|(name, _)| *name))
}

/// A progress bar with rate and remaining time; displayed only on a terminal.
fn bar(jobs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} jobs, {rate}, {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Errors of writing to a terminal are ignored.
        let _ = write!(out, "{:.0} a second", state.per_sec());
    });
    ProgressBar::new(jobs as u64).with_style(style)
}

/// Updates the bar in steps of at least 256 jobs, because an update costs more than scheduling a
/// job.
fn show(bar: &ProgressBar, started: usize) {
    if started as u64 >= bar.position() + 256 {
        bar.set_position(started as u64);
    }
}
