//! Completion of command lines by bash, zsh and fish.
//!
//! The installed completion script of a command calls the command itself, with the variable
//! [`VARIABLE`] in the environment. The command then prints candidates for the last word: options,
//! and values such as job ids, queues and nodes of this installation. It never starts schedd, and
//! prints nothing if schedd does not respond.

use super::client::source::{Answers, answer_without_start};
use super::lanai::columns::COLUMNS;
use super::lanai::filter;
use super::lanai::status::JobStatus;
use super::programs::CliProgram;
use crate::model::attribute;
use crate::model::resource::Resources;
use crate::sys::env;
use crate::sys::home::Home;
use crate::wire::message::{Detail, Filter, History, JobRow, Question};
use clap::builder::StyledStr;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Shells, Zsh};
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// The environment variable by which a completion script requests candidates. It contains the name
/// of the shell.
pub const VARIABLE: &str = "_LANAI_COMPLETE";

/// The supported shells.
const SHELLS: [&dyn EnvCompleter; 3] = [&Bash, &Zsh, &Fish];

/// The maximum time to wait for schedd.
const PATIENCE: Duration = Duration::from_millis(200);

/// The maximum number of jobs among the candidates, the newest first.
const MOST_JOBS: usize = 200;

/// Tests whether a completion script has called this program.
pub fn is_requested() -> bool {
    env::var(VARIABLE).is_some()
}

/// Prints the candidates for the last word of the command line. Failures print nothing, because
/// output would disturb the user's command line.
pub fn main(program: &'static CliProgram) -> ExitCode {
    let is_option = env::args()
        .last()
        .is_some_and(|word| word.to_string_lossy().starts_with('-'));
    let complete = CompleteEnv::with_factory(|| with_candidates((program.command)(), is_option))
        .var(VARIABLE)
        .shells(Shells(&SHELLS))
        .bin(program.name);
    let workdir = env::workdir().ok();
    match complete.try_complete(env::args(), workdir.as_deref()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The completion script for bash. bash splits words at `=` and `:`, so the script joins them again,
/// and removes the part before the last of these characters from each candidate.
const BASH_SCRIPT: &str = r#"_lanai_NAME() {
    local words=() word joined
    for word in "${COMP_WORDS[@]:0:COMP_CWORD}" "$2"; do
        if [[ ${#words[@]} -gt 0 && ( $word =~ ^[=:]+$ || ${words[-1]} =~ [=:]$ ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    joined=${words[-1]}
    local IFS=$'\013'
    COMPREPLY=($(VARIABLE=bash _CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) \
        NAME -- "${words[@]}" 2>/dev/null))
    [[ $2 =~ ^[=:]+$ ]] || joined=${joined%"$2"}
    COMPREPLY=("${COMPREPLY[@]#"$joined"}")
    [[ ${COMPREPLY[*]} =~ [=.]$ ]] && compopt -o nospace
}
complete -o bashdefault -F _lanai_NAME NAME
"#;

/// Writes the completion script of a program for a shell: `bash`, `zsh` or `fish`.
pub fn write_script(program: &CliProgram, shell: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let name = program.name;
    let script: &dyn EnvCompleter = match shell {
        "bash" => {
            let script = BASH_SCRIPT.replace("NAME", name);
            return out.write_all(script.replace("VARIABLE", VARIABLE).as_bytes());
        }
        "fish" => &Fish,
        _ => &Zsh,
    };
    script.write_registration(VARIABLE, name, name, name, out)?;
    if shell == "zsh" {
        // zsh loads the script at the first completion, which the script must then perform.
        writeln!(
            out,
            "if [[ ${{funcstack[1]}} == _{name} ]]; then _clap_dynamic_completer_{name}; fi"
        )?;
    }
    Ok(())
}

/// The command, with a source of candidates for each argument whose values are known. Options are
/// candidates only for a word that begins with a minus sign (`is_option`).
fn with_candidates(command: clap::Command, is_option: bool) -> clap::Command {
    let command = command.disable_help_flag(!is_option);
    let command = command.disable_version_flag(!is_option);
    let command = command.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || !is_option && !arg.is_positional();
        let arg = arg.hide(is_hidden);
        match candidates_of(&arg) {
            Some(candidates) => arg.add(ArgValueCompleter::new(candidates)),
            None => arg,
        }
    });
    command.mut_subcommands(|command| with_candidates(command, is_option))
}

/// Returns the candidates for a value that begins with this text.
type Candidates = fn(&OsStr) -> Vec<CompletionCandidate>;

/// The candidates for an argument, according to the name of its value; None for arguments with
/// other values, such as files.
fn candidates_of(arg: &clap::Arg) -> Option<Candidates> {
    let name = arg.get_value_names()?.first()?.as_str();
    Some(match name {
        "job_identifier" | "JOB" | "JOB,..." => |text| listed(text, job_ids(History::Live)),
        "JOB|QUEUE" => |text| listed(text, [job_ids(History::Live), queues()].concat()),
        "FILTER" => filter_words,
        "queue" | "QUEUE" | "QUEUE,..." | "destination" | "dest" => |text| listed(text, queues()),
        "NODE" | "HOST" | "vnode_specification" | "host_or_vnode" => |text| listed(text, nodes()),
        "USER,..." | "USER[@HOST],..." => |text| listed(text, users()),
        "resource_list" => |text| listed(text, resources()),
        "attribute=value" => |text| listed(text, attributes()),
        "COLUMNS" => |text| listed(text, columns()),
        "FORMAT" | "format" => |text| listed(text, [word("json", ""), word("dsv", "")].into()),
        "oe|eo|n" => |text| listed(text, [word("oe", ""), word("eo", ""), word("n", "")].into()),
        "y|n" => |text| listed(text, [word("y", ""), word("n", "")].into()),
        _ => return None,
    })
}

/// A candidate, with an explanation that zsh and fish display.
type Word = (String, String);

fn word(value: &str, help: &str) -> Word {
    (value.to_string(), help.to_string())
}

/// The candidates that continue the last element of a list separated by commas.
fn listed(text: &OsStr, words: Vec<Word>) -> Vec<CompletionCandidate> {
    let Some(text) = text.to_str() else {
        return Vec::new();
    };
    let start = text.rfind(',').map_or(0, |comma| comma + 1);
    let (before, element) = text.split_at(start);
    words
        .into_iter()
        .filter(|(value, _)| value.starts_with(element))
        .map(|(value, help)| {
            let candidate = CompletionCandidate::new(format!("{before}{value}"));
            candidate.help((!help.is_empty()).then(|| StyledStr::from(help)))
        })
        .collect()
}

/// Job ids, keys of conditions, and, after `state=` and similar keys, their values.
fn filter_words(text: &OsStr) -> Vec<CompletionCandidate> {
    let shown = text.to_string_lossy();
    let values = match shown.split_once('=') {
        Some(("state" | "state!", _)) => JobStatus::words()
            .into_iter()
            .map(|state| word(state, ""))
            .collect(),
        Some(("user" | "user!", _)) => [users(), vec![word("me", "your own jobs")]].concat(),
        Some(("queue" | "queue!", _)) => queues(),
        Some(("node" | "node!", _)) => nodes(),
        Some(("name" | "name!", _)) => names(),
        Some(_) => return Vec::new(),
        None => {
            let keys = filter::KEYS
                .iter()
                .map(|(key, help)| (format!("{}=", key.trim_end_matches("KEY")), help));
            let keys = keys.map(|(key, help)| (key.replace(".=", "."), help.to_string()));
            return listed(text, keys.chain(job_ids(History::All)).collect());
        }
    };
    let key_end = shown.find('=').map_or(0, |at| at + 1);
    let (key, value) = shown.split_at(key_end);
    listed(OsStr::new(value), values)
        .into_iter()
        .map(|candidate| candidate.add_prefix(key))
        .collect()
}

fn ask(question: &Question) -> Option<Answers> {
    answer_without_start(&Home::find().ok()?, question, PATIENCE)
}

/// The rows of the caller's jobs, the newest first; the rows of all users if the caller has none.
fn rows(history: History) -> Vec<JobRow> {
    let question = Question::Jobs(
        Filter {
            history,
            ..Filter::default()
        },
        Detail::Row,
    );
    let mut rows = ask(&question)
        .map(|answers| answers.rows)
        .unwrap_or_default();
    let user = crate::sys::user::own().name;
    if rows.iter().any(|row| row.owner == user) {
        rows.retain(|row| row.owner == user);
    }
    rows.reverse();
    rows.truncate(MOST_JOBS);
    rows
}

fn job_ids(history: History) -> Vec<Word> {
    let rows = rows(history);
    rows.iter()
        .map(|row| {
            (
                row.id.to_string(),
                format!("{} ({})", row.name, row.state.letter()),
            )
        })
        .collect()
}

/// The names of jobs, each once.
fn names() -> Vec<Word> {
    let mut names: Vec<Word> = rows(History::All)
        .into_iter()
        .map(|row| (row.name, String::new()))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn users() -> Vec<Word> {
    let question = Question::Jobs(Filter::default(), Detail::Row);
    let rows = ask(&question)
        .map(|answers| answers.rows)
        .unwrap_or_default();
    let mut users: Vec<Word> = rows
        .into_iter()
        .map(|row| (row.owner, String::new()))
        .collect();
    users.sort();
    users.dedup();
    users
}

fn queues() -> Vec<Word> {
    let answers = ask(&Question::Queues);
    let queues = answers.map(|answers| answers.queues).unwrap_or_default();
    queues
        .iter()
        .map(|counts| word(&counts.queue.name, "queue"))
        .collect()
}

fn nodes() -> Vec<Word> {
    let answers = ask(&Question::Nodes);
    let nodes = answers.map(|answers| answers.nodes).unwrap_or_default();
    nodes
        .iter()
        .map(|record| word(&record.node.facts.name, "node"))
        .collect()
}

/// The resources of this installation, and `select` and `place`, each with `=`.
fn resources() -> Vec<Word> {
    let resources =
        ask(&Question::Server).map_or_else(Resources::builtin, |answers| answers.server.resources);
    let names = resources.iter().map(|(name, _)| name.to_string());
    names
        .chain(["select".to_string(), "place".to_string()])
        .map(|name| (format!("{name}="), String::new()))
        .collect()
}

/// The attributes that `-W` sets, each with `=`.
fn attributes() -> Vec<Word> {
    attribute::settable()
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .map(|name| (format!("{name}="), String::new()))
        .collect()
}

fn columns() -> Vec<Word> {
    COLUMNS
        .iter()
        .map(|column| word(column.name, column.help))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        candidates
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn the_last_element_of_a_list_is_completed() {
        let words = vec![word("ncpus=", ""), word("ngpus=", ""), word("mem=", "")];
        let complete = |text: &str| values(listed(OsStr::new(text), words.clone()));
        assert_eq!(complete("n"), ["ncpus=", "ngpus="]);
        assert_eq!(complete("mem=1gb,nc"), ["mem=1gb,ncpus="]);
        assert_eq!(complete("x"), Vec::<String>::new());
    }

    #[test]
    fn values_of_a_filter_follow_its_key() {
        let complete = |text: &str| values(filter_words(OsStr::new(text)));
        assert_eq!(complete("state=fai"), ["state=failed"]);
        assert_eq!(complete("state!=done,fai"), ["state!=done,failed"]);
    }

    #[test]
    fn owners_may_set_every_completed_attribute() {
        let names = values(listed(OsStr::new(""), attributes()));
        assert!(names.contains(&"depend=".to_string()), "{names:?}");
        assert!(names.contains(&"block=".to_string()), "{names:?}");
    }
}
