//! `qmgr`: changes the configuration while the system runs, in PBS's grammar.

mod grammar;

mod help;

mod hints;

mod hooks;

mod input;

mod show;

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::cli::client::source::{Answers, QuerySource};
use crate::config::overrides::attributes::known;
use crate::config::overrides::command::{Op, QmgrCommand, Verb};
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::refusal::Refusal;
use crate::sys::home::Home;
use crate::wire::client::Client;
use crate::wire::message::{ClientRequest, Question, Reply};
use clap::{CommandFactory, Parser};
use grammar::{Command, CommandWord, GrammarError, ObjectKind};
use input::CommandReader;
use show::ConfiguredObjects;
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Change queues, limits, resources, nodes and the server while the system runs.
///
/// The changes take effect at once, are stored in the spool and override lanai.toml. Without -c,
/// qmgr reads commands from standard input.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmgr")]
pub struct QmgrArgs {
    /// Stop at the first error in commands from standard input
    #[arg(short = 'a')]
    pub abort: bool,
    /// Commands, separated by semicolons, such as "set queue gpu enabled = True"
    #[arg(short = 'c', value_name = "command")]
    pub command: Option<String>,
    /// Print each command before running it
    #[arg(short = 'e')]
    pub echo: bool,
    /// Only check the syntax of the commands
    #[arg(short = 'n')]
    pub no_execution: bool,
    /// Do not print error messages
    #[arg(short = 'z')]
    pub silent: bool,
    /// Name of the server
    #[arg(value_name = "server")]
    pub servers: Vec<String>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(QmgrArgs::command())
}

/// Runs qmgr.
pub fn main() -> ExitCode {
    exit::run("qmgr", command, run)
}

/// Exit status if `-a` ended qmgr at an error, as in PBS.
const ABORTED: u8 = 2;
/// Exit status if the server is unreachable or unknown when qmgr starts, as in PBS.
const NO_SERVER: u8 = 3;
/// Exit status of `-c` after a syntax error, as in PBS.
const SYNTAX: u8 = 4;
/// Exit status after `help`, and of `-c` without a command, as in PBS.
const NOTHING: u8 = 255;

fn run() -> Result<u8, Failure> {
    let read = getopt::read::<QmgrArgs>(command).map_err(|failure| failure.with_code(1));
    let Some(args) = read? else {
        return Ok(0);
    };
    let home = Home::find()?;
    let mut session = Session::open(&args, home)?;
    match &args.command {
        Some(text) => session.run_all(text),
        None => session.run_input(),
    }
}

/// The attributes to display, and the format.
struct ObjectFilter {
    /// The selected attributes; empty for all.
    keys: Vec<AttributeKey>,
    /// True to display commands (`print`) instead of a list (`list`).
    is_printed: bool,
}

/// The state of a qmgr process.
struct Session<'a> {
    args: &'a QmgrArgs,
    home: Home,
    schedd: LazySchedd,
    /// The active objects, to which commands without names apply.
    active: BTreeMap<ObjectKind, Vec<String>>,
    history: Vec<String>,
    /// If the previous command set only one limit, with `=`: the objects and the limit of that
    /// command; otherwise None. Always None if `is_read` is false.
    last_limit: Option<(Vec<QmgrObject>, AttributeKey)>,
    /// True if commands are read from standard input, and standard input is not a terminal.
    is_read: bool,
}

impl<'a> Session<'a> {
    fn open(args: &'a QmgrArgs, home: Home) -> Result<Session<'a>, Failure> {
        let connected = Client::connect(&home);
        if let Err(error) = connected {
            return Err(Failure::from(error).with_code(NO_SERVER));
        }
        let mut schedd = LazySchedd::find()?;
        let name = schedd.name()?;
        if let Some(other) = args
            .servers
            .iter()
            .find(|server| **server != name && *server != "default")
        {
            return Err(Failure::unknown_host(other).with_code(NO_SERVER));
        }
        let (active, history) = (BTreeMap::new(), Vec::new());
        Ok(Session {
            args,
            home,
            schedd,
            active,
            history,
            last_limit: None,
            is_read: false,
        })
    }

    /// Runs the commands of `-c`, up to `quit`. Returns the exit status of the last command;
    /// [`NOTHING`] without commands.
    fn run_all(&mut self, text: &str) -> Result<u8, Failure> {
        let mut code = NOTHING;
        for command in input::commands(text) {
            let (status, continues) = self.run_one(&command)?;
            code = status;
            if !continues {
                break;
            }
        }
        Ok(code)
    }

    /// Runs commands from standard input, line by line. A failed command is reported; with `-a`, it
    /// also ends qmgr with status [`ABORTED`]. Otherwise the status is [`NOTHING`] if the last
    /// command was `help`, else 0.
    fn run_input(&mut self) -> Result<u8, Failure> {
        exit::print("Max open servers: 49\n")?;
        let stdin = std::io::stdin();
        let is_terminal = stdin.is_terminal();
        self.is_read = !is_terminal;
        let (mut input, mut code, mut line) = (CommandReader::default(), 0, Vec::new());
        loop {
            if is_terminal {
                exit::print(if input.continues() { "> " } else { "Qmgr: " })?;
            }
            line.clear();
            let is_over = stdin.lock().read_until(b'\n', &mut line)? == 0;
            let text = String::from_utf8_lossy(&line);
            let commands = if is_over {
                std::mem::take(&mut input).end()
            } else {
                input.add_line(text.trim_end_matches(['\n', '\r']))
            };
            for command in commands {
                let (status, continues) = self.run_one(&command)?;
                if status != 0 && status != NOTHING && self.args.abort {
                    return Ok(ABORTED);
                }
                code = if status == NOTHING { NOTHING } else { 0 };
                if !continues {
                    return Ok(0);
                }
            }
            if is_over {
                return Ok(code);
            }
        }
    }

    /// Runs a command. Returns the exit status, and false if the command ends qmgr.
    fn run_one(&mut self, text: &str) -> Result<(u8, bool), Failure> {
        if self.args.echo {
            exit::print(format!("{text}\n"))?;
        }
        self.history.push(text.to_string());
        let command = match grammar::read(text) {
            Ok(command) => command,
            Err(fault) => return Ok((self.report_error(text, &fault), true)),
        };
        if command.word == CommandWord::Quit {
            return Ok((0, false));
        }
        if self.args.no_execution {
            return Ok((0, true));
        }
        let last_limit = self.last_limit.take();
        let code = match command.word {
            CommandWord::Help => {
                exit::print(help::about(&command.rest))?;
                NOTHING
            }
            CommandWord::History => {
                exit::print(
                    self.history
                        .iter()
                        .map(|line| format!("{line}\n"))
                        .collect::<String>(),
                )?;
                0
            }
            CommandWord::Import | CommandWord::Export => self.transfer(&command)?,
            CommandWord::Active => self.activate(&command),
            CommandWord::List | CommandWord::Print => self.show(&command)?,
            _ => self.change(command, last_limit)?,
        };
        Ok((code, true))
    }

    /// Reports an error in the text of a command. Returns the exit status.
    fn report_error(&self, text: &str, fault: &GrammarError) -> u8 {
        let (message, code) = match fault {
            GrammarError::Syntax(at) => {
                let hint = hints::of_syntax_error(text).map(|hint| format!("qmgr: {hint}\n"));
                let mark = " ".repeat(*at);
                let hint = hint.unwrap_or_default();
                (
                    format!("qmgr: Syntax error\n{text}\n{mark}^\n{hint}"),
                    SYNTAX,
                )
            }
            GrammarError::Operation(word) => (
                format!("qmgr: Illegal operation: {word}\nTry 'help' if you are having trouble.\n"),
                1,
            ),
            GrammarError::NoObject => ("qmgr: No object type given\n".to_string(), 2),
            GrammarError::Object(word) => (format!("qmgr: Illegal object type: {word}.\n"), 2),
        };
        self.complain(&message);
        code
    }

    fn complain(&self, message: &str) {
        if !self.args.silent {
            print_error(message);
        }
    }

    fn activate(&mut self, command: &Command) -> u8 {
        if let Some(object) = command.object {
            self.active.insert(object, command.names.clone());
        }
        0
    }

    /// The names of the objects to which a command applies: the names in the command, otherwise the
    /// names of the active objects. A name such as `@default` stands for all objects of the kind in
    /// `view`. There is only one server and one scheduler, so names given for them are ignored.
    fn names(
        &self,
        command: &Command,
        object: ObjectKind,
        view: Option<&ConfiguredObjects>,
    ) -> Vec<String> {
        let given = if command.names.is_empty() {
            self.active.get(&object)
        } else {
            Some(&command.names)
        };
        match object {
            ObjectKind::Server => return vec![String::new()],
            ObjectKind::Sched => return vec![show::SCHED.to_string()],
            _ => {}
        }
        let mut names = Vec::new();
        for name in given.into_iter().flatten() {
            match name.split_once('@') {
                Some(("", _)) => {
                    names.extend(view.map(|view| view.names(object)).unwrap_or_default());
                }
                Some((name, _)) => names.push(name.to_string()),
                None => names.push(name.clone()),
            }
        }
        names
    }

    fn view(&self) -> Result<ConfiguredObjects, Failure> {
        let mut source = QuerySource::open(&self.home)?;
        let mut answers: Answers = source.ask(&Question::Objects)?;
        answers.queues = source.ask(&Question::Queues)?.queues;
        answers.nodes = source.ask(&Question::Nodes)?.nodes;
        Ok(ConfiguredObjects::new(answers))
    }

    fn show(&mut self, command: &Command) -> Result<u8, Failure> {
        let (Some(object), view) = (command.object, self.view()?) else {
            return Ok(0);
        };
        let is_printed = command.word == CommandWord::Print;
        let filter = ObjectFilter {
            keys: command.edits.iter().map(|edit| edit.key.clone()).collect(),
            is_printed,
        };
        let mut names = self.names(command, object, Some(&view));
        let mut out = String::new();
        if object == ObjectKind::Hook && !view.server().privileged {
            return Ok(self.not_for_hooks(view.server()));
        }
        let goes_without_name = matches!(object, ObjectKind::Resource | ObjectKind::Hook);
        if names.is_empty() && goes_without_name {
            names = view.names(object);
            let is_headed = object == ObjectKind::Resource && !is_printed && !names.is_empty();
            out.push_str(if is_headed { show::heading(object) } else { "" });
        }
        if names.is_empty() && !goes_without_name {
            let kind = object.name();
            let (head, tail) = kind.split_at(1);
            self.complain(&format!(
                "No Active {}{tail}s, nothing done.\n",
                head.to_ascii_uppercase()
            ));
            return Ok(0);
        }
        if is_printed && object == ObjectKind::Server && filter.keys.is_empty() {
            for kind in [ObjectKind::Resource, ObjectKind::Queue] {
                let all = view.names(kind);
                self.push_objects(&view, kind, &all, &filter, &mut out);
            }
        }
        let code = self.push_objects(&view, object, &names, &filter, &mut out);
        exit::print(out)?;
        self.report(code)
    }

    /// Reports the objects that could not be displayed, after the output of the other objects.
    fn report(&self, failures: Vec<(String, Refusal)>) -> Result<u8, Failure> {
        for (name, refusal) in &failures {
            self.report_refusal(name, refusal);
        }
        Ok(u8::from(!failures.is_empty()))
    }

    /// Appends the named objects to `out`. Returns the unknown names, with refusals.
    fn push_objects(
        &self,
        view: &ConfiguredObjects,
        object: ObjectKind,
        names: &[String],
        filter: &ObjectFilter,
        out: &mut String,
    ) -> Vec<(String, Refusal)> {
        let mut failures = Vec::new();
        if filter.is_printed && !names.is_empty() {
            out.push_str(show::heading(object));
        }
        for name in names {
            let Some(mut shown) = view.object(object, name) else {
                failures.push((name.clone(), unknown(object, name)));
                continue;
            };
            shown.keep_only(&filter.keys);
            if filter.is_printed {
                shown.write_as_commands(out)
            } else {
                shown.write_as_list(out)
            }
        }
        failures
    }

    fn report_refusal(&self, name: &str, refusal: &Refusal) {
        let why = if refusal.text.is_empty() {
            String::new()
        } else {
            format!("qmgr obj={name} svr=default: {}\n", refusal.text)
        };
        let what = if refusal.is_of_hook() {
            "hook error".to_string()
        } else {
            format!("Error ({})", refusal.code)
        };
        self.complain(&format!("{why}qmgr: {what} returned from server\n"));
    }

    fn change(
        &mut self,
        mut command: Command,
        last_limit: Option<(Vec<QmgrObject>, AttributeKey)>,
    ) -> Result<u8, Failure> {
        let Some(object) = command.object else {
            return Ok(0);
        };
        let mut view = None;
        if command.names.iter().any(|name| name.starts_with('@')) {
            view = Some(self.view()?);
        }
        let names = self.names(&command, object, view.as_ref());
        if names.is_empty() {
            return Ok(self.report_error("", &GrammarError::Syntax(0)));
        }
        let targets: Vec<QmgrObject> = names.iter().map(|name| object.target(name)).collect();
        self.continue_limit(&mut command, &targets, last_limit);
        let verb = match command.word {
            CommandWord::Create => Verb::Create,
            CommandWord::Delete => Verb::Delete,
            CommandWord::Unset => Verb::Unset,
            _ => Verb::Set,
        };
        let mut code = 0;
        for (target, name) in targets.into_iter().zip(&names) {
            // The only scheduler always exists.
            if target == QmgrObject::Sched && verb == Verb::Create {
                continue;
            }
            let order = QmgrCommand {
                verb,
                target,
                edits: command.edits.clone(),
            };
            match self.schedd.call(&ClientRequest::Amend(order.clone()))? {
                Reply::Done => {}
                Reply::Noted(notes) => exit::print_notes("qmgr", &notes),
                Reply::Refused(refusal) => {
                    self.report_refusal(name, &refusal);
                    if let Some(hint) = hints::of_refusal(&refusal, &order) {
                        self.complain(&format!("qmgr: {hint}\n"));
                    }
                    code = refusal.exit_code();
                }
                _ => return Err(exit::protocol_error()),
            }
        }
        Ok(code)
    }

    /// Changes `=` to `+=` if the previous command set the same limit of the same objects.
    /// Otherwise the output of `print`, which has a line with `=` for each entry of a limit, would
    /// set only the last entry. Applies only to input that is not a terminal.
    fn continue_limit(
        &mut self,
        command: &mut Command,
        targets: &[QmgrObject],
        last: Option<(Vec<QmgrObject>, AttributeKey)>,
    ) {
        let (CommandWord::Set, [edit]) = (command.word, &mut command.edits[..]) else {
            return;
        };
        let is_limit = targets
            .first()
            .and_then(|target| known(target, &edit.key.attribute))
            .is_some_and(|known| known.is_limit);
        if !self.is_read || edit.op != Op::Set || !is_limit {
            return;
        }
        let place = (targets.to_vec(), edit.key.clone());
        if last.as_ref() == Some(&place) {
            edit.op = Op::Add;
        }
        self.last_limit = Some(place);
    }
}

fn unknown(object: ObjectKind, name: &str) -> Refusal {
    match object {
        ObjectKind::Hook => Refusal::no_hook(name),
        ObjectKind::Queue => Refusal::unknown_queue(),
        ObjectKind::Resource => Refusal::no_resource(),
        _ => Refusal::unknown_node(),
    }
}

fn print_error(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
