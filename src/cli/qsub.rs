//! `qsub`: submits a job.
//!
//! The script's directives and the command line go through one parser and become settings; the
//! command line counts more, whatever the order. Then one request, one reply, and the job's id.

use super::directives;
use super::environ::{self, Origin};
use super::exit::{self, Failure};
use super::getopt;
use super::interactive;
use super::options::{JobOptions, Place, illegal, joined, unsupported};
use super::paths;
use super::script::{self, Source};
use super::submission::{Wanted, Words};
use crate::model::attribute::Setting;
use crate::model::check;
use crate::model::text::Text;
use crate::model::time::Wall;
use crate::sys::process::random;
use crate::sys::{clock, env, home::Home};
use crate::wire::client::Client;
use crate::wire::message::{Payload, Reply, Request, Submission};
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) mod dialects;

mod queue;

use dialects::{Place as Spoken, grid_engine, torque};

/// Submit a job: a script from a file or from standard input, or a command. Prints the job's id.
///
/// Options may also stand in the script, in lines that begin with #PBS, before its first command.
/// The command line counts more than they do.
#[derive(Parser, Clone, Debug)]
#[command(name = "qsub", override_usage = "qsub [OPTIONS] [script | -- command [arg1 ...]]")]
pub struct Args {
    /// Options of the job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Prefix of directives in the script, instead of #PBS; empty for no directives
    #[arg(short = 'C', value_name = "directive_prefix")]
    pub prefix: Option<OsString>,
    /// Start the job in this folder instead of the working directory
    #[arg(short = 'd', value_name = "folder")]
    pub folder: Option<OsString>,
    /// What the script is given, in quotes; what stands behind the script on the command line is the same
    #[arg(short = 'F', value_name = "arguments")]
    pub arguments: Option<OsString>,
    /// Accepted for PBS's sake: there is no helper process to avoid
    #[arg(short = 'f')]
    pub foreground: bool,
    /// Hold the job until qrls releases it
    #[arg(short = 'h')]
    pub hold: bool,
    /// Interactive job: a shell on this terminal, on the nodes asked for. Of a script only the directives
    /// count. ~. at the start of a line ends the session, ~^Z suspends qsub
    #[arg(short = 'I')]
    pub interactive: bool,
    /// Job array: one job for each index from X to Y, or each Z-th, of which at most M run at once
    #[arg(short = 'J', value_name = "X-Y[:Z][%M]")]
    pub array: Option<OsString>,
    /// The same in TORQUE's and Grid Engine's spelling, in which single indices and several ranges are joined
    /// by commas
    #[arg(short = 't', value_name = "X-Y[:Z],N,...[%M]")]
    pub tasks: Option<OsString>,
    /// Chunks in TORQUE's spelling: tasks=N:lprocs=N:memory=SIZE:gpus=N
    #[arg(short = 'L', value_name = "task_request")]
    pub task_requests: Vec<OsString>,
    /// Have nodes without other jobs, as -W naccess=singlejob
    #[arg(short = 'n')]
    pub node_exclusive: bool,
    /// Queue: queue, queue@server or @server
    #[arg(short = 'q', value_name = "queue")]
    pub queue: Option<OsString>,
    /// Variables for the job: NAME or NAME=VALUE, joined by commas; quotes or \, keep a comma
    #[arg(short = 'v', value_name = "variable_list")]
    pub variables: Option<OsString>,
    /// Hand on the whole environment
    #[arg(short = 'V')]
    pub all_variables: bool,
    /// Start the job in this folder, and let paths of files be relative to it
    #[arg(short = 'w', value_name = "folder")]
    pub base: Option<OsString>,
    /// Forward X11, for interactive jobs; not supported by this version
    #[arg(short = 'X')]
    pub x11: bool,
    /// Do not print the job's id
    #[arg(short = 'z')]
    pub quiet: bool,
    /// Check the job and tell when and where it would start; submit nothing, and ask no hooks
    #[arg(long)]
    pub dry_run: bool,
    /// A script file, - or nothing for standard input, or -- and a command with its arguments
    #[arg(value_name = "script")]
    pub operands: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qsub.
pub fn main() -> ExitCode {
    exit::run("qsub", command, run)
}

fn run() -> Result<u8, Failure> {
    let words: Vec<OsString> = env::args().skip(1).collect();
    if getopt::answered(command, &words)? {
        return Ok(0);
    }
    let mut plan = plan(words, &Here::find()?)?;
    exit::remark("qsub", &plan.remarks);
    let home = Home::find()?;
    queue::settle(&mut plan, &home)?;
    if plan.dry_run {
        return super::ahead::trial::run(plan.submission, &home);
    }
    if plan.interactive {
        return interactive::run(plan.submission, &home);
    }
    let mut client = Client::connect(&home)?;
    let id = match client.call(&Request::Submit(Box::new(plan.submission)))? {
        Reply::Accepted { id, notes } => {
            exit::remark("qsub", &notes);
            id
        }
        Reply::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(exit::garbled()),
    };
    if !plan.quiet {
        exit::print(format!("{id}\n"))?;
    }
    if plan.block { super::block::until_over(client, &home, &id) } else { Ok(0) }
}

/// Where qsub runs.
#[derive(Clone, Debug)]
pub struct Here {
    /// The working directory.
    pub workdir: PathBuf,
    /// This host.
    pub host: String,
    /// The operating system's name.
    pub system: String,
    /// What a watch shows.
    pub now: Wall,
    /// Whether there is another host of this name.
    pub knows_host: fn(&str) -> bool,
    /// The environment.
    pub vars: Vec<(OsString, OsString)>,
}

impl Here {
    fn find() -> Result<Here, Failure> {
        let names = nix::sys::utsname::uname().map_err(std::io::Error::from)?;
        Ok(Here {
            workdir: env::workdir()?,
            host: names.nodename().to_string_lossy().into_owned(),
            system: names.sysname().to_string_lossy().into_owned(),
            now: clock::wall(),
            knows_host: paths::knows_host,
            vars: env::vars().collect(),
        })
    }

    fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    fn place(&self) -> Place<'_> {
        Place { workdir: &self.workdir, host: &self.host, now: self.now, knows_host: self.knows_host }
    }
}

/// What is to be done.
#[derive(Debug)]
struct Plan {
    submission: Submission,
    quiet: bool,
    block: bool,
    interactive: bool,
    is_grid_engine: bool,
    dry_run: bool,
    remarks: Vec<String>,
}

/// What qsub would send to the server for this command line, if its file or standard input held `script`.
/// The failure is what it would say instead.
pub fn submission_of(words: Vec<OsString>, script: &[u8], here: &Here) -> Result<Submission, Failure> {
    plan_of(words, here, |source| source.holding(script.to_vec())).map(|plan| plan.submission)
}

/// All that the command line, in whosever words, and the script come to.
fn plan(words: Vec<OsString>, here: &Here) -> Result<Plan, Failure> {
    plan_of(words, here, Source::read)
}

/// The same; `read` gets the script.
fn plan_of(
    words: Vec<OsString>,
    here: &Here,
    read: impl FnOnce(&Source) -> Result<Vec<u8>, Failure>,
) -> Result<Plan, Failure> {
    let mut command = command();
    let line = dialects::in_pbs(&command, &with_files(&words)?, Spoken::CommandLine)?;
    let args: Args = getopt::read_matches(&getopt::matches(&mut command, line.words.clone())?)?;
    let args = &args;
    let source = Source::of(&args.operands)?;
    check_support(args)?;
    let mut asked = args.wanted(&here.place())?;
    asked.words.heed(line);
    let on_terminal = asked.is_true(INTERACTIVE);
    if on_terminal {
        interactive::require_terminal()?;
    }
    // An interactive job needs its standard input for something else.
    let script = if on_terminal && source == Source::Stdin { Vec::new() } else { read(&source)? };
    let mut wanted = of_script(&script, args, here)?;
    wanted.outweigh(asked);
    let interactive = wanted.is_true(INTERACTIVE);
    if interactive {
        require_person(&wanted, args)?;
    }
    if !wanted.sets("Job_Name") {
        wanted.set("Job_Name", source.name()?);
    }
    if let Some(shell) = here.var("PBS_SHELL").filter(|_| !wanted.sets("Shell_Path_List")) {
        let shell = Some(shell).filter(|shell| check::shell_list(&shell.to_string_lossy()));
        wanted.set("Shell_Path_List", Text(shell.ok_or_else(|| illegal('S'))?.as_bytes().to_vec()));
    }
    suits_array(&wanted)?;
    let (quiet, block) = (wanted.words.quiet, wanted.is_true("block"));
    let (is_grid_engine, remarks) = (wanted.words.is_grid_engine, std::mem::take(&mut wanted.words.remarks));
    if is_grid_engine {
        grid_engine::name_files(&mut wanted);
    }
    let mut submission = submission(wanted, payload(source, script), joined(&words), here)?;
    if interactive {
        environ::add(&mut submission.environ, "TERM", here.var("TERM"));
    }
    Ok(Plan { submission, quiet, block, interactive, is_grid_engine, dry_run: args.dry_run, remarks })
}

/// The words with those of files that `-@` names in their place.
fn with_files(words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let (mut all, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => {
                all.push(word.clone());
                all.extend(words.by_ref().cloned());
            }
            b"-@" => {
                let file = words.next().ok_or_else(|| Failure::usage("option requires an argument -- '@'"))?;
                all.extend(script::options(file)?);
            }
            _ => all.push(word.clone()),
        }
    }
    Ok(all)
}

/// The attribute of `-I`.
const INTERACTIVE: &str = "interactive";

fn require_person(wanted: &Wanted, args: &Args) -> Result<(), Failure> {
    interactive::require_terminal()?;
    if args.array.is_some() {
        return Err(interactive::not_an_array());
    }
    if wanted.is_true("Rerunable") {
        interactive::warn_of_rerun()?;
    }
    Ok(())
}

/// What a command line without a script asks for, for those who read it elsewhere than in a shell.
pub(super) fn settings(words: Vec<OsString>, place: &Place) -> Result<Vec<Setting>, Failure> {
    let args: Args = getopt::read_matches(&getopt::matches(&mut command(), words)?)?;
    if !args.operands.is_empty() {
        return Err(Failure::usage("no script and no command is named here"));
    }
    if args.interactive {
        return Err(Failure::usage("there is no terminal here for -I"));
    }
    check_support(&args)?;
    let mut wanted = args.wanted(place)?;
    if !wanted.sets("Job_Name") {
        wanted.set("Job_Name", Source::Stdin.name()?);
    }
    suits_array(&wanted)?;
    Ok(wanted.settings)
}

/// What the script's directives ask for.
fn of_script(script: &[u8], args: &Args, here: &Here) -> Result<Wanted, Failure> {
    let chosen = args.prefix.as_deref().or(here.var("PBS_DPREFIX"));
    let prefix = chosen.unwrap_or(OsStr::new(directives::PREFIX));
    let (mut found, mut spoken) = (directives::find(script, prefix.as_bytes()), Spoken::Directive);
    // Whoever wrote both kinds wrote one of them for PBS.
    if found.is_empty() && chosen.is_none() {
        (found, spoken) = (directives::grid_engine(script), Spoken::GridEngineDirective);
    }
    let (mut wanted, mut parser) = (Wanted::default(), None);
    for line in found {
        let words = directives::words(&line)?;
        let parser = parser.get_or_insert_with(command);
        let asked = of_directive(parser, &words, spoken, here).map_err(|failure| as_directive(&words, failure))?;
        wanted.follow(asked);
    }
    Ok(wanted)
}

fn of_directive(
    parser: &mut clap::Command,
    words: &[OsString],
    spoken: Spoken,
    here: &Here,
) -> Result<Wanted, Failure> {
    let mut line = dialects::in_pbs(parser, words, spoken)?;
    let words = std::mem::take(&mut line.words);
    let args: Args = getopt::matches(parser, words).and_then(|matches| getopt::read_matches(&matches))?;
    if !args.operands.is_empty() {
        return Err(Failure::usage(""));
    }
    check_support(&args)?;
    let mut wanted = args.wanted(&here.place())?;
    wanted.words.heed(line);
    Ok(wanted)
}

/// PBS shows the usage for most bad values in directives too; for these it shows the directive.
fn as_directive(words: &[OsString], failure: Failure) -> Failure {
    let option = failure.text.starts_with("invalid option") || failure.text.starts_with("option requires");
    let value = ['a', 'r', 'W'].into_iter().any(|letter| failure == illegal(letter));
    if failure.usage && (failure.text.is_empty() || option || value || failure == interactive::not_an_array()) {
        return directives::error(words, &failure.text);
    }
    failure
}

fn check_support(args: &Args) -> Result<(), Failure> {
    match (args.x11, args.interactive) {
        (true, true) => return Err(unsupported("-X")),
        (true, false) => return Err(Failure::new(1, "X11 Forwarding possible only for interactive jobs")),
        (false, true) if args.range().is_some() => return Err(interactive::not_an_array()),
        (false, true) => interactive::require_terminal()?,
        (false, false) => {}
    }
    match (&args.array, &args.tasks) {
        (Some(range), _) if !check::array_range(&range.to_string_lossy()) => Err(illegal('J')),
        (None, Some(range)) if torque::indices(&range.to_string_lossy()).is_none() => {
            Err(Failure::usage("illegal -t value: it is ranges and indices joined by commas, X-Y[:Z],N,...[%M]"))
        }
        _ => Ok(()),
    }
}

/// What goes with an array only, and what does not go with one, from wherever it was asked for.
fn suits_array(wanted: &Wanted) -> Result<(), Failure> {
    let has = |attribute: &str, mark: char| wanted.value(attribute).is_some_and(|value| value.contains(mark));
    match wanted.sets(ARRAY) {
        true if wanted.is_true("interactive") => Err(interactive::not_an_array()),
        true if wanted.sets("max_run_subjobs") && has(ARRAY, '%') => {
            Err(Failure::usage("multiple max_run_subjobs values found"))
        }
        false if has("Mail_Points", 'j') => Err(Failure::new(1, "mail option 'j' can not be used without array job")),
        _ => Ok(()),
    }
}

/// The attribute that makes a job an array.
const ARRAY: &str = "array_indices_submitted";

impl Args {
    /// The indices of an array.
    fn range(&self) -> Option<String> {
        let tasks = || torque::indices(&self.tasks.as_ref()?.to_string_lossy());
        self.array.as_ref().map(|range| range.to_string_lossy().into_owned()).or_else(tasks)
    }

    fn wanted(&self, place: &Place) -> Result<Wanted, Failure> {
        let words = Words {
            variables: self.variables.clone(),
            all_variables: self.all_variables,
            quiet: self.quiet,
            folder: self.folder.clone(),
            base: self.base.clone(),
            arguments: self.arguments.as_deref().map(torque::arguments).transpose()?,
            remarks: torque::remarks(&self.job.others),
            ..Words::default()
        };
        let base = self.base.as_ref().map(|base| place.workdir.join(base));
        let place = &Place { workdir: base.as_deref().unwrap_or(place.workdir), ..*place };
        let mut wanted = Wanted { words, settings: Vec::new() };
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
            wanted.put(Setting::resource("select", torque::tasks_as_select(&self.task_requests)?));
        }
        self.job.settings(place)?.into_iter().for_each(|setting| wanted.put(setting));
        Ok(wanted)
    }
}

/// `queue`, `queue@server` or `@server`; a queue's name has at most 15 characters.
pub(super) fn destination(text: &OsStr) -> Result<String, Failure> {
    let shown = text.to_string_lossy();
    let (queue, server) = shown.split_once('@').unwrap_or((&shown, ""));
    let is_too_long = |queue: &str| queue.chars().count() > 15;
    let word = |text: &str| !text.contains(|c: char| c == '@' || c.is_whitespace() || c.is_control());
    if queue.split(',').any(is_too_long) || !word(queue) || !word(server) {
        return Err(Failure::new(exit::USAGE, format!("illegally formed destination: {shown}")));
    }
    Ok(shown.into_owned())
}

fn payload(source: Source, script: Vec<u8>) -> Payload {
    match source {
        Source::Command(words) => Payload::Command(words.into_iter().map(|word| Text(word.into_vec())).collect()),
        Source::File(_) | Source::Stdin => Payload::Script(script),
    }
}

fn submission(wanted: Wanted, payload: Payload, arguments: Text, here: &Here) -> Result<Submission, Failure> {
    let origin = Origin { vars: &here.vars, workdir: here.workdir.as_os_str(), host: &here.host, system: &here.system };
    let words = wanted.words;
    let workdir = words.base(&here.workdir);
    let origin = Origin { workdir: workdir.as_os_str(), ..origin };
    let environ = environ::variable_list(&origin, words.variables.as_deref(), words.all_variables)?;
    let (mut settings, mut environ) = (wanted.settings, environ);
    for (attribute, value) in words.attributes(&here.workdir) {
        settings.push(Setting::new(attribute, value));
    }
    if words.is_grid_engine {
        grid_engine::tell(&mut environ, &origin, &settings);
    }
    Ok(Submission {
        token: random()?,
        settings,
        payload,
        environ,
        workdir: Text(workdir.into_os_string().into_vec()),
        submit_host: here.host.clone(),
        arguments,
    })
}

#[cfg(test)]
mod tests;
