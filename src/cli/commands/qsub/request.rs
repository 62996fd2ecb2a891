//! Combines the options of the command line, the script and the server's defaults. The command line
//! has the highest precedence, the server's defaults the lowest.

use super::dialects::{self, LineOrigin, grid_engine};

use super::setting_places::SettingPlaces;
use super::{
    ARRAY, DISPLAY, INTERACTIVE, QsubArgs, SubmittedJob, check, check_array_options, command,
};
use crate::cli::arguments::directives;
use crate::cli::arguments::environment::{self, SubmitOrigin};
use crate::cli::arguments::job_options::{SubmissionPlace, illegal, illegal_value, joined};
use crate::cli::arguments::paths;
use crate::cli::arguments::script::{self, ScriptSource};
use crate::cli::arguments::slurm;
use crate::cli::client::exit::{self, Failure};
use crate::cli::commands::qsub::submission::SubmissionOptions;
use crate::cli::session::interactive;
use crate::model::attribute::{AttributeSetting, remedy};
use crate::model::job::value_syntax::shell_list;
use crate::model::refusal::Refusal;
use crate::model::text::Text;
use crate::model::time::Wall;
use crate::sys::process::random;
use crate::sys::{clock, env, home::Home};
use crate::wire::client::{Client, Continue};

use crate::wire::message::{ClientAnswer, ClientRequest, NewJob, Payload, Question, Reply};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The environment in which qsub runs.
#[derive(Clone, Debug)]
pub struct SubmitEnvironment {
    /// The working directory.
    pub workdir: PathBuf,
    /// The name of this host.
    pub host: String,
    /// The operating system's name.
    pub system: String,
    /// The current time.
    pub now: Wall,
    /// Returns true if a host with this name exists.
    pub host_exists: fn(&str) -> bool,
    /// The environment variables.
    pub vars: Vec<(OsString, OsString)>,
}

impl SubmitEnvironment {
    pub(super) fn find() -> Result<SubmitEnvironment, Failure> {
        let names = nix::sys::utsname::uname().map_err(std::io::Error::from)?;
        Ok(SubmitEnvironment {
            workdir: env::workdir()?,
            host: names.nodename().to_string_lossy().into_owned(),
            system: names.sysname().to_string_lossy().into_owned(),
            now: clock::wall(),
            host_exists: paths::host_exists,
            vars: env::vars().collect(),
        })
    }

    fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    fn has_display(&self) -> bool {
        self.var(DISPLAY).is_some_and(|display| !display.is_empty())
    }

    fn place(&self) -> SubmissionPlace<'_> {
        SubmissionPlace {
            workdir: &self.workdir,
            host: &self.host,
            now: self.now,
            host_exists: self.host_exists,
        }
    }
}

/// The job to submit, and the options for qsub itself.
#[derive(Debug)]
pub(super) struct SubmissionPlan {
    pub(super) submission: NewJob,
    pub(super) quiet: bool,
    pub(super) block: bool,
    pub(super) interactive: bool,
    pub(super) is_grid_engine: bool,
    pub(super) dry_run: bool,
    pub(super) remarks: Vec<String>,
}

/// The job that qsub would submit for this command line, or the failure that qsub would report.
/// `script` stands for the content of the script file or of standard input. The server's default
/// options are not applied.
pub fn submission_of(
    words: Vec<OsString>,
    script: &[u8],
    here: &SubmitEnvironment,
) -> Result<NewJob, Failure> {
    let request = SubmissionRequest::read_with(words, here.clone(), |source| {
        source.check_content(script.to_vec())
    })?;
    request.plan("").map(|plan| plan.submission)
}

/// The options of the command line and the script.
pub(super) struct SubmissionRequest {
    here: SubmitEnvironment,
    words: Vec<OsString>,
    args: QsubArgs,
    source: ScriptSource,
    script: Vec<u8>,
    wanted: SubmissionOptions,
    places: SettingPlaces,
}

impl SubmissionRequest {
    /// Reads the options of the command line, then the script and its options. The script is in a
    /// file or on standard input.
    pub(super) fn gather(
        words: Vec<OsString>,
        here: SubmitEnvironment,
    ) -> Result<SubmissionRequest, Failure> {
        SubmissionRequest::read_with(words, here, ScriptSource::read)
    }

    fn read_with(
        words: Vec<OsString>,
        here: SubmitEnvironment,
        read: impl FnOnce(&ScriptSource) -> Result<Vec<u8>, Failure>,
    ) -> Result<SubmissionRequest, Failure> {
        let mut command = command();
        let line =
            dialects::translate_line(&command, &with_files(&words)?, LineOrigin::CommandLine)?;
        let args = QsubArgs::read(&mut command, line.words.clone())?;
        let source = ScriptSource::of(&args.operands)
            .map_err(|failure| failure.hint_if(value_of_flag(&args)))?;
        check(&args, args.array_comes_first, here.has_display())?;
        let mut options = args.submission_options(&here.place())?;
        options.words.apply_translated(line);
        let on_terminal = options.is_true(INTERACTIVE);
        if on_terminal {
            interactive::require_terminal()?;
        }
        // Without a script file, an interactive job has no script, because standard input is the
        // terminal.
        let script = if on_terminal && source == ScriptSource::Stdin {
            Vec::new()
        } else {
            let arguments = options.words.arguments.as_deref().unwrap_or_default();
            read(&source).map_err(|failure| missing_script(failure, &source, arguments, &here))?
        };
        let mut places = SettingPlaces::of(&source, &options.settings);
        let mut wanted = of_script(&script, &args, &here, &mut places)?;
        wanted.override_with(options);
        Ok(SubmissionRequest {
            here,
            words,
            args,
            source,
            script,
            wanted,
            places,
        })
    }

    /// The failure for a refused submission.
    pub(super) fn refused(&self, refusal: Refusal) -> Failure {
        self.places.failure(refusal)
    }

    /// The plan if `defaults` are the server's default options.
    pub(super) fn plan(&self, defaults: &str) -> Result<SubmissionPlan, Failure> {
        let (args, here) = (&self.args, &self.here);
        let mut wanted = of_server(defaults, here)?;
        wanted.override_with(self.wanted.clone());
        let interactive = wanted.is_true(INTERACTIVE);
        if interactive {
            check_interactive(&wanted, args)?;
        }
        if !wanted.sets("Job_Name") {
            wanted.set("Job_Name", self.source.name()?);
        }
        if !wanted.sets("Shell_Path_List")
            && let Some(shell) = here.var("PBS_SHELL")
        {
            if !shell_list(&shell.to_string_lossy()) {
                return Err(illegal_value('S', "Shell_Path_List", shell));
            }
            wanted.set("Shell_Path_List", Text(shell.as_bytes().to_vec()));
        }
        check_array_options(&wanted)?;
        let (quiet, block) = (wanted.words.quiet, wanted.is_true("block"));
        let is_grid_engine = wanted.words.is_grid_engine;
        let remarks = std::mem::take(&mut wanted.words.remarks);
        if is_grid_engine {
            grid_engine::name_files(&mut wanted);
        }
        let payload = payload(self.source.clone(), self.script.clone());
        let mut submission = submission(wanted, payload, joined(&self.words), here)?;
        submission.defaults = defaults.to_string();
        if interactive {
            environment::add(&mut submission.environ, "TERM", here.var("TERM"));
        }
        submission.inherited = environment::inherited(&here.vars, &submission.environ);
        Ok(SubmissionPlan {
            submission,
            quiet,
            block,
            interactive,
            is_grid_engine,
            dry_run: args.dry_run,
            remarks,
        })
    }

    /// The plan. If several queues are requested, [`choose_queue`] chooses one.
    pub(super) fn plan_with_queue(
        &self,
        defaults: &str,
        home: &Home,
    ) -> Result<SubmissionPlan, Failure> {
        let mut plan = self.plan(defaults)?;
        choose_queue(&mut plan, home)?;
        Ok(plan)
    }

    /// Submits the job. If the server replies with default options, applies them and submits again.
    pub(super) fn submit(
        &self,
        client: &mut Client,
        mut plan: SubmissionPlan,
        home: &Home,
    ) -> Result<(SubmissionPlan, Reply), Failure> {
        for _ in 0..MOST_CHANGES {
            match client.call(&ClientRequest::Submit(Box::new(plan.submission.clone())))? {
                Reply::Defaults(defaults) => {
                    let token = plan.submission.token;
                    plan = self.plan_with_queue(&defaults, home)?;
                    plan.submission.token = token;
                }
                reply => return Ok((plan, reply)),
            }
        }
        Err(Failure::new(
            1,
            "the server's default_qsub_arguments keep changing; try again",
        ))
    }

    /// Connects to schedd and submits the job. Also returns the plan with the default options of
    /// the server. Fails if the server refuses the job.
    pub(super) fn submit_once(
        &self,
        plan: SubmissionPlan,
        home: &Home,
    ) -> Result<(SubmittedJob, SubmissionPlan), Failure> {
        let mut client = Client::connect(home)?;
        match self.submit(&mut client, plan, home)? {
            (plan, Reply::Accepted { id, notes }) => Ok((SubmittedJob { id, notes, client }, plan)),
            (_, Reply::Refused(refusal)) => Err(self.refused(refusal)),
            _ => Err(exit::protocol_error()),
        }
    }

    /// The plan with the server's current default options.
    pub(super) fn with_current_defaults(
        &self,
        plan: SubmissionPlan,
        home: &Home,
    ) -> Result<SubmissionPlan, Failure> {
        let mut server = crate::cli::client::source::QuerySource::open(home)?;
        let defaults = server.ask(&Question::Server)?.server.default_qsub_arguments;
        if defaults.is_empty() {
            Ok(plan)
        } else {
            self.plan_with_queue(&defaults, home)
        }
    }
}

/// Chooses the first existing queue of Grid Engine's `-q a,b`. If none of the queues exists, the
/// failure lists all queues, because users of Grid Engine expect a queue `all.q`.
fn choose_queue(plan: &mut SubmissionPlan, home: &Home) -> Result<(), Failure> {
    let is_grid_engine = plan.is_grid_engine;
    let mut settings = plan.submission.settings.iter_mut();
    let Some(setting) = settings.find(|setting| setting.attribute == "queue") else {
        return Ok(());
    };
    let requested = setting.value.lossy().into_owned();
    // qsub checks the queue only if several queues are requested or an option of Grid Engine is
    // used. Otherwise the server refuses an unknown queue. It always refuses a queue of another
    // server.
    if requested.contains('@') || !is_grid_engine && !requested.contains(',') {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    Client::connect(home)?.ask(&Question::Queues, |part| {
        if let ClientAnswer::Queues(queues) = part {
            known.extend(queues.into_iter().map(|counts| counts.queue.name));
        }
        Continue::Wanted
    })?;
    for name in requested.split(',') {
        if known.iter().any(|known| known == name) {
            setting.value = name.into();
            return Ok(());
        }
    }
    let refusal = Refusal::unknown_queue();
    let text = format!(
        "{} {requested}: the queues are {}",
        refusal.text,
        known.join(", ")
    );
    Err(Failure::new(refusal.exit_code(), text))
}

/// Maximum number of times that qsub sends a job. If qsub has not applied the server's current
/// default options, schedd does not accept the job, but replies with these options.
const MOST_CHANGES: usize = 5;

/// Parses the server's default options.
fn of_server(defaults: &str, here: &SubmitEnvironment) -> Result<SubmissionOptions, Failure> {
    let mut wanted = SubmissionOptions::default();
    if !defaults.is_empty() {
        let words = directives::words(defaults.as_bytes())?;
        wanted.override_with(
            of_directive(&mut command(), &words, LineOrigin::Directive, here, false).map_err(
                |failure| {
                    let text = format!(
                        "the server's default_qsub_arguments {defaults}: {}",
                        failure.text
                    );
                    Failure {
                        text,
                        usage: false,
                        ..failure
                    }
                },
            )?,
        );
    }
    Ok(wanted)
}

/// Replaces `-@ FILE` by the words of the file.
fn with_files(words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let (mut all, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => {
                all.push(word.clone());
                all.extend(words.by_ref().cloned());
            }
            b"-@" => {
                let file = words
                    .next()
                    .ok_or_else(|| Failure::usage("option requires an argument -- '@'"))?;
                all.extend(script::options(file)?);
            }
            _ => all.push(word.clone()),
        }
    }
    Ok(all)
}

/// Checks the combined options of an interactive job.
fn check_interactive(wanted: &SubmissionOptions, args: &QsubArgs) -> Result<(), Failure> {
    interactive::require_terminal()?;
    if args.array.is_some() {
        return Err(interactive::not_an_array());
    }
    if wanted.is_true("Rerunable") {
        interactive::warn_not_rerunnable()?;
    }
    Ok(())
}

/// A hint for `-n 4`, which requests four tasks in Slurm but has no value in PBS.
fn value_of_flag(args: &QsubArgs) -> Option<String> {
    let number = args.operands.first()?.to_str()?.parse::<u32>().ok()?;
    args.node_exclusive.then(|| {
        format!(
            "-n has no value, it requests nodes for exclusive use; for {number} processors: \
             -l ncpus={number}"
        )
    })
}

/// Adds what the user probably meant to the failure for a script file that does not exist.
fn missing_script(
    failure: Failure,
    source: &ScriptSource,
    arguments: &[OsString],
    here: &SubmitEnvironment,
) -> Failure {
    let ScriptSource::File(file) = source else {
        return failure;
    };
    if std::path::Path::new(file).exists() {
        return failure;
    }
    let intended = script::intended(file, arguments, here.var("PATH"));
    failure.hint_if(intended)
}

/// The options of the script's directives. Adds their settings to `places`.
fn of_script(
    script: &[u8],
    args: &QsubArgs,
    here: &SubmitEnvironment,
    places: &mut SettingPlaces,
) -> Result<SubmissionOptions, Failure> {
    let chosen = args.prefix.as_deref().or(here.var("PBS_DPREFIX"));
    let prefix = chosen.unwrap_or(OsStr::new(directives::PREFIX));
    let mut found = directives::find(script, prefix.as_bytes());
    let mut origin = LineOrigin::Directive;
    // Directives of Grid Engine count only in a script without PBS's directives, and only if no
    // prefix is chosen.
    if found.is_empty() && chosen.is_none() {
        (found, origin) = (
            directives::grid_engine(script),
            LineOrigin::GridEngineDirective,
        );
    }
    let (mut wanted, mut parser) = (SubmissionOptions::default(), None);
    // A script with directives of PBS or Grid Engine is complete without Slurm's.
    if found.is_empty() && chosen.is_none() {
        wanted.words.remarks = slurm::warnings(script);
    }
    for directive in found {
        let parser = parser.get_or_insert_with(command);
        let is_array = wanted.sets(ARRAY);
        let options = directives::words(&directive.text).and_then(|words| {
            of_directive(parser, &words, origin, here, is_array)
                .map_err(|failure| as_directive(&words, failure))
        });
        let options = options.map_err(|failure| places.in_line(&directive, failure))?;
        places.add(&directive, &options.settings);
        wanted.append(options);
    }
    Ok(wanted)
}

fn of_directive(
    parser: &mut clap::Command,
    words: &[OsString],
    origin: LineOrigin,
    here: &SubmitEnvironment,
    is_array: bool,
) -> Result<SubmissionOptions, Failure> {
    let mut line = dialects::translate_line(parser, words, origin)?;
    let words = std::mem::take(&mut line.words);
    let args = QsubArgs::read(parser, words)?;
    if !args.operands.is_empty() {
        let operands: Vec<_> = args
            .operands
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        return Err(Failure::usage("").hint(format!(
            "{} is not part of an option; put values with blanks in quotes",
            remedy::shown(&operands.join(" "))
        )));
    }
    check(
        &args,
        is_array || args.array_comes_first,
        here.has_display(),
    )?;
    let mut wanted = args.submission_options(&here.place())?;
    wanted.words.apply_translated(line);
    Ok(wanted)
}

/// Converts a failure in a directive. For some failures qsub prints the directive instead of the
/// usage, like PBS: an operand, an unknown option, an option without its value, an illegal value of
/// `-a`, `-r` or `-W`, and an interactive array.
fn as_directive(words: &[OsString], failure: Failure) -> Failure {
    let option =
        failure.text.starts_with("invalid option") || failure.text.starts_with("option requires");
    let value = ['a', 'r', 'W']
        .into_iter()
        .any(|letter| failure.text == illegal(letter).text);
    let not_an_array = failure.text == interactive::not_an_array().text;
    if failure.usage && (failure.text.is_empty() || option || value || not_an_array) {
        return Failure {
            hints: failure.hints,
            ..directives::error(words, &failure.text)
        };
    }
    failure
}

fn payload(source: ScriptSource, script: Vec<u8>) -> Payload {
    match source {
        ScriptSource::Command(words) => Payload::Command(
            words
                .into_iter()
                .map(|word| Text(word.into_vec()))
                .collect(),
        ),
        ScriptSource::File(_) | ScriptSource::Stdin => Payload::Script(script),
    }
}

fn submission(
    wanted: SubmissionOptions,
    payload: Payload,
    arguments: Text,
    here: &SubmitEnvironment,
) -> Result<NewJob, Failure> {
    let origin = SubmitOrigin {
        vars: &here.vars,
        workdir: here.workdir.as_os_str(),
        host: &here.host,
        system: &here.system,
    };
    let words = wanted.words;
    let workdir = words.base(&here.workdir);
    let origin = SubmitOrigin {
        workdir: workdir.as_os_str(),
        ..origin
    };
    let environ =
        environment::variable_list(&origin, words.variables.as_deref(), words.all_variables)?;
    let (mut settings, mut environ) = (wanted.settings, environ);
    for (attribute, value) in words.attributes(&here.workdir) {
        settings.push(AttributeSetting::new(attribute, value));
    }
    if words.is_grid_engine {
        grid_engine::add_variables(&mut environ, &origin, &settings);
    }
    Ok(NewJob {
        token: random()?,
        settings,
        payload,
        environ,
        inherited: Vec::new(),
        workdir: Text(workdir.into_os_string().into_vec()),
        submit_host: here.host.clone(),
        arguments,
        defaults: String::new(),
        stored: None,
    })
}
