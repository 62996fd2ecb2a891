//! `qsub`: submits a job.
//!
//! The script's directives and the command line go through one parser and become attribute
//! settings. The command line takes precedence. qsub then sends one request and prints the job id
//! from the reply.

use self::submission::{QsubOptions, SubmissionOptions};
use crate::cli::arguments::getopt;
use crate::cli::arguments::job_options::{
    self, JobOptions, SubmissionPlace, illegal, illegal_value, unsupported,
};
use crate::cli::arguments::script::ScriptSource;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::logout;
use crate::cli::report::{advice, dry_run};
use crate::cli::session::interactive;
use crate::model::attribute::AttributeSetting;
use crate::model::job::value_syntax;
use crate::sys::{env, home::Home};
use crate::wire::client::Client;
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

pub mod dialects;

mod request;

mod setting_places;

pub mod submission;

use dialects::torque;
use request::SubmissionRequest;
pub use request::{SubmitEnvironment, submission_of};

/// Submit a job: a script from a file or standard input, or a command. Prints the job id.
///
/// The script may contain options in lines that begin with #PBS, before the first command. Options
/// on the command line take precedence.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "qsub",
    override_usage = "qsub [OPTIONS] [script | -- command [arg1 ...]]"
)]
pub struct QsubArgs {
    /// Options of the job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Queue: queue, queue@server or @server
    #[arg(short = 'q', value_name = "queue", help_heading = job_options::COMMON)]
    pub queue: Option<OsString>,
    /// Job array: one subjob for each index from X to Y (X below Y), or for each Z-th index; at
    /// most M subjobs run at once (0: no limit). See ARRAYS
    #[arg(short = 'J', value_name = "X-Y[:Z][%M]", help_heading = job_options::COMMON)]
    pub array: Option<OsString>,
    /// Interactive job: a shell on this terminal, on the allocated nodes. If a script is given,
    /// only its directives are used; its commands are not run. ~. at the start of a line ends the
    /// session, ~^Z suspends qsub
    #[arg(short = 'I', help_heading = job_options::COMMON)]
    pub interactive: bool,
    /// Variables of the job: NAME,NAME=VALUE,...; precede a comma in a value by a backslash, or
    /// quote the value
    #[arg(short = 'v', value_name = "variable_list", help_heading = job_options::COMMON)]
    pub variables: Option<OsString>,
    /// Export all environment variables, except PBS_O_*, to the job
    #[arg(short = 'V', help_heading = job_options::COMMON)]
    pub all_variables: bool,
    /// Hold the job until qrls releases it
    #[arg(short = 'h', help_heading = job_options::COMMON)]
    pub hold: bool,
    /// Show when and where the job would start; submit nothing, run no hooks
    #[arg(long, help_heading = job_options::COMMON)]
    pub dry_run: bool,
    /// Job array as with -J; also a single index, or indices and ranges separated by commas, as in
    /// TORQUE and Grid Engine
    #[arg(short = 't', value_name = "X-Y[:Z],N,...[%M]", help_heading = job_options::SCHEDULING)]
    pub tasks: Option<OsString>,
    /// Chunks in TORQUE's syntax: tasks=N:lprocs=N:memory=SIZE:gpus=N
    #[arg(short = 'L', value_name = "task_request", help_heading = job_options::SCHEDULING)]
    pub task_requests: Vec<OsString>,
    /// Use nodes exclusively, as with -W naccess=singlejob
    #[arg(short = 'n', help_heading = job_options::SCHEDULING)]
    pub node_exclusive: bool,
    /// Start the job in this directory; relative paths of files still refer to the directory where
    /// qsub runs
    #[arg(short = 'd', value_name = "folder", help_heading = job_options::EXECUTION)]
    pub folder: Option<OsString>,
    /// Start the job in this directory; relative paths of files refer to this directory
    #[arg(short = 'w', value_name = "folder", help_heading = job_options::EXECUTION)]
    pub base: Option<OsString>,
    /// Arguments of the script, quoted as one word; the same as words after the script
    #[arg(short = 'F', value_name = "arguments", help_heading = job_options::EXECUTION)]
    pub arguments: Option<OsString>,
    /// Prefix of directives in the script (default #PBS); with an empty prefix there are no
    /// directives
    #[arg(short = 'C', value_name = "directive_prefix", help_heading = job_options::EXECUTION)]
    pub prefix: Option<OsString>,
    /// Do not print the job id
    #[arg(short = 'z', help_heading = job_options::OTHER)]
    pub quiet: bool,
    /// Forward X11 to an interactive job; not supported by this version
    #[arg(short = 'X', help_heading = job_options::OTHER)]
    pub x11: bool,
    /// Accepted for compatibility with PBS; has no effect
    #[arg(short = 'f', help_heading = job_options::OTHER)]
    pub foreground: bool,
    /// True if `-J` or `-t` is given before `-I`.
    #[arg(skip)]
    array_comes_first: bool,
    /// Script file (default or -: standard input), or -- command arguments
    #[arg(value_name = "script")]
    pub operands: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(QsubArgs::command())
}

/// Runs qsub.
pub fn main() -> ExitCode {
    exit::run("qsub", command, run)
}

fn run() -> Result<u8, Failure> {
    let words: Vec<OsString> = env::args().skip(1).collect();
    if getopt::print_help_or_version(command, &words)? {
        return Ok(0);
    }
    let request = SubmissionRequest::gather(words, SubmitEnvironment::find()?)?;
    let home = Home::find()?;
    let plan = request.plan_with_queue("", &home)?;
    exit::print_notes("qsub", &plan.remarks);
    if plan.dry_run {
        return dry_run::run(
            request.with_current_defaults(plan, &home)?.submission,
            &home,
        );
    }
    if plan.interactive {
        return interactive::run(&home, |client| Ok(request.submit(client, plan, &home)?.1));
    }
    let (submitted, plan) = request.submit_once(plan, &home)?;
    exit::print_notes("qsub", &submitted.notes);
    if !plan.quiet {
        exit::print(format!("{}\n", submitted.id))?;
    }
    logout::warn("qsub", &home);
    if !plan.quiet {
        advice::print("qsub", &submitted.id);
    }
    if plan.block {
        crate::cli::session::block::until_end(submitted.client, &home, &submitted.id)
    } else {
        Ok(0)
    }
}

/// A job that schedd has accepted.
pub struct SubmittedJob {
    /// The full id.
    pub id: String,
    /// Warnings.
    pub notes: Vec<String>,
    /// The connection to schedd.
    pub client: Client,
}

/// Submits the job of a command line of qsub, for other commands. Options that concern qsub itself,
/// such as `-I` and `--dry-run`, are refused.
pub fn submit(words: Vec<OsString>, home: &Home) -> Result<SubmittedJob, Failure> {
    let request = SubmissionRequest::gather(words, SubmitEnvironment::find()?)?;
    let plan = request.plan_with_queue("", home)?;
    if plan.interactive || plan.dry_run || plan.block {
        let text = "-I, --dry-run and -W block=true are options of qsub only";
        return Err(Failure::usage(text));
    }
    let remarks = plan.remarks.clone();
    let (mut submitted, _) = request.submit_once(plan, home)?;
    submitted.notes.splice(..0, remarks);
    Ok(submitted)
}

/// The attribute that `-I` sets.
const INTERACTIVE: &str = "interactive";

/// The attribute settings of a command line without a script, for callers other than a shell
/// (`qsim`).
pub(super) fn settings(
    words: Vec<OsString>,
    place: &SubmissionPlace,
) -> Result<Vec<AttributeSetting>, Failure> {
    let args = QsubArgs::read(&mut command(), words)?;
    if !args.operands.is_empty() {
        return Err(Failure::usage(
            "scripts and commands are not allowed in scenarios",
        ));
    }
    if args.interactive {
        return Err(Failure::usage(
            "-I is not allowed in scenarios: there is no terminal",
        ));
    }
    check(&args, false, true)?;
    let mut wanted = SubmissionOptions::default();
    wanted.override_with(args.submission_options(place)?);
    if !wanted.sets("Job_Name") {
        wanted.set("Job_Name", ScriptSource::Stdin.name()?);
    }
    check_array_options(&wanted)?;
    Ok(wanted.settings)
}

/// The environment variable with the X11 display, for `-X`.
const DISPLAY: &str = "DISPLAY";

/// Checks the options of the command line or of one directive. `is_array` is true if array indices
/// were given before `-I`. As in PBS, the first option that cannot be applied is reported.
fn check(args: &QsubArgs, is_array: bool, has_display: bool) -> Result<(), Failure> {
    if args.interactive {
        if args.x11 && !has_display {
            exit::print_notes("qsub", &["DISPLAY not set".to_string()]);
        }
        if is_array {
            return Err(interactive::not_an_array());
        }
        interactive::require_terminal()?;
        if args.x11 {
            return Err(unsupported("-X"));
        }
    } else if args.x11 && !has_display {
        return Err(Failure::usage("DISPLAY not set"));
    } else if args.x11 {
        let text = "X11 Forwarding possible only for interactive jobs";
        return Err(Failure::new(1, text));
    }
    match (&args.array, &args.tasks) {
        (Some(range), _) if !value_syntax::array_range(&range.to_string_lossy()) => Err(
            illegal_value('J', ARRAY, args.array.as_deref().unwrap_or_default()),
        ),
        (None, Some(range)) if torque::indices(&range.to_string_lossy()).is_none() => {
            Err(Failure::usage(
                "illegal -t value: use ranges and indices separated by commas, X-Y[:Z],N,...[%M]",
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the combined options of all sources: some options require an array, others exclude an
/// array.
fn check_array_options(wanted: &SubmissionOptions) -> Result<(), Failure> {
    let mail = wanted.value("Mail_Points").unwrap_or_default();
    let Some(array) = wanted.value(ARRAY) else {
        if mail.contains('j') {
            let text = "mail option 'j' can not be used without array job";
            let hint = "j requests mail for each subjob: add -J X-Y, or omit j";
            return Err(Failure::new(1, text).hint(hint));
        }
        return Ok(());
    };
    if wanted.is_true("interactive") {
        return Err(interactive::not_an_array());
    }
    if wanted.sets("max_run_subjobs") && array.contains('%') {
        return Err(Failure::usage("multiple max_run_subjobs values found"));
    }
    // The letter j requests mail for each subjob. It needs another letter that selects an event.
    if mail == "j" {
        let hint = "-m j needs a letter that selects an event, for example -m ej";
        return Err(illegal('m').hint(hint));
    }
    Ok(())
}

/// The attribute that makes a job an array.
const ARRAY: &str = "array_indices_submitted";

impl QsubArgs {
    fn read(command: &mut clap::Command, words: Vec<OsString>) -> Result<QsubArgs, Failure> {
        let matches = getopt::matches(command, words)?;
        let mut args: QsubArgs = getopt::read_matches(&matches)?;
        let indices = matches.index_of("array").into_iter();
        let first = indices.chain(matches.index_of("tasks")).min();
        args.array_comes_first = args.interactive
            && first.is_some_and(|first| Some(first) < matches.index_of("interactive"));
        Ok(args)
    }

    /// The indices of an array.
    fn range(&self) -> Option<String> {
        match &self.array {
            Some(range) => Some(range.to_string_lossy().into_owned()),
            None => torque::indices(&self.tasks.as_ref()?.to_string_lossy()),
        }
    }

    fn submission_options(&self, place: &SubmissionPlace) -> Result<SubmissionOptions, Failure> {
        let words = QsubOptions {
            variables: self.variables.clone(),
            all_variables: self.all_variables,
            quiet: self.quiet,
            folder: self.folder.clone(),
            base: self.base.clone(),
            arguments: self
                .arguments
                .as_deref()
                .map(torque::arguments)
                .transpose()?,
            remarks: torque::remarks(&self.job.others),
            ..QsubOptions::default()
        };
        let base = self.base.as_ref().map(|base| place.workdir.join(base));
        let place = &SubmissionPlace {
            workdir: base.as_deref().unwrap_or(place.workdir),
            ..*place
        };
        let mut wanted = SubmissionOptions {
            words,
            settings: Vec::new(),
        };
        if self.hold {
            wanted.set("Hold_Types", "u");
        }
        if self.interactive {
            wanted.set(INTERACTIVE, "True");
        }
        if let Some(queue) = self.queue.as_ref().filter(|queue| !queue.is_empty()) {
            wanted.set("queue", destination(queue)?);
        }
        if let Some(range) = self.range() {
            wanted.set(ARRAY, range);
        }
        if self.node_exclusive {
            wanted.set("naccess", "singlejob");
        }
        if !self.task_requests.is_empty() {
            wanted.put(AttributeSetting::resource(
                "select",
                torque::tasks_as_select(&self.task_requests)?,
            ));
        }
        wanted.settings.extend(self.job.settings(place)?);
        Ok(wanted)
    }
}

/// Checks `queue`, `queue@server` or `@server`, and returns it as text. `queue` may be several
/// names separated by commas; each has at most 15 characters.
pub(super) fn destination(text: &OsStr) -> Result<String, Failure> {
    let shown = text.to_string_lossy();
    let (queue, server) = shown.split_once('@').unwrap_or((&shown, ""));
    let is_too_long = queue.split(',').any(|queue| queue.chars().count() > 15);
    let has_illegal = [queue, server]
        .concat()
        .contains(|c: char| c == '@' || c.is_whitespace() || c.is_control());
    if is_too_long || has_illegal {
        let text = format!("illegally formed destination: {shown}");
        return Err(Failure::new(exit::USAGE, text)
            .hint("use queue, queue@server or @server; a queue's name has at most 15 characters"));
    }
    Ok(shown.into_owned())
}

#[cfg(test)]
mod tests;
