//! `lanai`: an overview of the user's jobs, and a subcommand for each task.
//!
//! The PBS commands keep PBS's options and layouts. `lanai` adds one filter language for all
//! subcommands, tables as wide as the terminal, and JSON with a schema version.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "doc comments of options are help texts, in which brackets are no links"
)]

pub mod action;

pub mod cancel;

pub mod columns;

pub mod document;

pub mod drain;

pub mod expected_starts;

pub mod explanation;

pub mod families;

pub mod filter;

pub mod follow;

pub mod history;

pub mod job_summary;

pub mod hold;

pub mod job_view;

pub mod list;

pub mod log;

pub mod metrics;

pub mod nodes;

pub mod openmetrics;

pub mod output_files;

pub mod overview;

pub mod relative_time;

pub mod run;

pub mod retry;

pub mod report;

pub mod service;

pub mod session;

pub mod show;

pub mod status;

pub mod submit;

pub mod table;

pub mod wait;

pub mod undo;

pub mod top;

pub mod why;

use crate::cli::client::exit::{self, Failure};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use session::OutputOptions;
use std::process::ExitCode;

/// Submit jobs, and see, explain and change them.
///
/// Without a subcommand, lanai prints an overview: your jobs, the nodes, and what to type next.
#[derive(Debug, Parser)]
#[command(name = "lanai", version, disable_help_subcommand = true)]
pub struct LanaiArgs {
    /// Options of all subcommands.
    #[command(flatten)]
    output: OutputOptions,
    #[command(subcommand)]
    task: Option<Task>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Task {
    /// Run a command as a job: show its output, and exit with its exit status
    Run(run::RunArgs),
    /// Submit a command or a script
    Submit(submit::SubmitArgs),
    /// List jobs: by default your unfinished jobs
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// List finished jobs: by default your jobs of the last seven days
    History(history::HistoryArgs),
    /// Show all facts about jobs
    Show(show::ShowArgs),
    /// Explain why jobs wait, and when they are expected to start
    Why(why::WhyArgs),
    /// Show the output of a job
    Log(log::LogArgs),
    /// Wait until jobs have finished
    Wait(wait::WaitArgs),
    /// List the nodes, their free resources and their jobs; drain and resume nodes
    Nodes(nodes::NodesArgs),
    /// Start the schedd of a personal installation at boot
    Service(service::ServiceArgs),
    /// Print metrics in the format OpenMetrics
    Metrics(metrics::MetricsArgs),
    /// Delete unfinished jobs
    Cancel(cancel::CancelArgs),
    /// Run failed and deleted jobs again
    Retry(retry::RetryArgs),
    /// Hold jobs, so that they do not start
    Hold(hold::HoldArgs),
    /// Release the user hold of jobs
    Release(hold::HoldArgs),
    /// Revert your last hold, release, alteration or cancellation
    Undo(undo::UndoArgs),
    /// Report on utilization, waiting times, usage and failures; --html adds charts
    Report(report::ReportArgs),
    /// Watch jobs, nodes and a timeline on the whole terminal, and change jobs with keys
    Top(top::TopArgs),
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    LanaiArgs::command()
}

/// Runs lanai.
pub fn main() -> ExitCode {
    exit::run("lanai", command, || {
        let matches = match command().try_get_matches_from(crate::sys::env::args()) {
            Ok(matches) => matches,
            Err(error) => return print_clap(&error),
        };
        let args = LanaiArgs::from_arg_matches(&matches)
            .map_err(|error| Failure::usage(error.to_string()))?;
        args.run()
    })
}

/// Prints the help, the version or a usage error. Returns the exit status.
fn print_clap(error: &clap::Error) -> Result<u8, Failure> {
    error.print()?;
    Ok(if error.use_stderr() { exit::USAGE } else { 0 })
}

impl LanaiArgs {
    fn run(&self) -> Result<u8, Failure> {
        match &self.task {
            None => overview::run(&self.output),
            Some(Task::Run(args)) => args.run(&self.output),
            Some(Task::Submit(args)) => args.run(&self.output),
            Some(Task::Log(args)) => args.run(&self.output),
            Some(Task::Wait(args)) => args.run(&self.output),
            Some(Task::List(args)) => args.run(&self.output),
            Some(Task::History(args)) => args.run(&self.output),
            Some(Task::Show(args)) => args.run(&self.output),
            Some(Task::Why(args)) => args.run(&self.output),
            Some(Task::Nodes(args)) => args.run(&self.output),
            Some(Task::Service(args)) => service::run(args),
            Some(Task::Metrics(args)) => metrics::run(args),
            Some(Task::Cancel(args)) => args.run(&self.output),
            Some(Task::Retry(args)) => args.run(&self.output),
            Some(Task::Hold(args)) => args.hold(&self.output),
            Some(Task::Release(args)) => args.release(&self.output),
            Some(Task::Undo(args)) => args.run(&self.output),
            Some(Task::Report(args)) => args.run(&self.output),
            Some(Task::Top(args)) => args.run(&self.output),
        }
    }
}
