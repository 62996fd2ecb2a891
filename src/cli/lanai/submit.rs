//! `lanai submit`: submits a command or a script with the options of qsub.

use super::document;
use super::session::OutputOptions;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::source::QuerySource;
use crate::cli::commands::qsub::{self, SubmittedJob};
use crate::cli::report::advice;
use crate::model::job::value_syntax;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::message::Question;
use clap::Args;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal, Read, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The arguments of `lanai submit` and `lanai run`.
#[derive(Args, Clone, Debug, Default)]
pub struct SubmitArgs {
    /// Options of qsub, such as -l ncpus=4 and -N NAME, then a command and its arguments, or a
    /// script file. One word with blanks is a command line for the shell
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

impl SubmitArgs {
    /// Submits the job, and prints its id.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let home = Home::find()?;
        let submitted = self.submit(&home)?;
        exit::print_notes("lanai", &submitted.notes);
        if output.json {
            let server = QuerySource::open(&home)?.ask(&Question::Server)?.server;
            let content = json!({ "id": submitted.id, "notes": submitted.notes });
            let text = document::document("submitted", &server, clock::wall(), content);
            exit::print(text)?;
        } else if stdout().is_terminal() {
            exit::print(format!("Submitted job {}.\n", submitted.id))?;
            advice::print("lanai", &submitted.id);
        } else {
            exit::print(format!("{}\n", submitted.id))?;
        }
        Ok(0)
    }

    /// Submits the job.
    pub fn submit(&self, home: &Home) -> Result<SubmittedJob, Failure> {
        qsub::submit(words_of_qsub(&self.words, is_script)?, home)
    }
}

/// The command line of qsub: a script file stays as it is, a command follows `--`. A command without
/// a name gets the name of its program.
fn words_of_qsub(
    words: &[OsString],
    is_script: impl Fn(&Path) -> bool,
) -> Result<Vec<OsString>, Failure> {
    let start = options_end(words);
    let (options, command) = words.split_at(start);
    let is_marked = command.first().is_some_and(|word| word == "--");
    let command = &command[usize::from(is_marked)..];
    let Some(program) = command.first() else {
        let text = "no command: type a command after the options, such as lanai run sleep 10";
        return Err(Failure::new(exit::USAGE, text));
    };
    let mut words = options.to_vec();
    if !is_marked && command.len() == 1 && is_script(Path::new(program)) {
        words.push(program.clone());
        return Ok(words);
    }
    let has_name = options
        .iter()
        .any(|word| word.as_bytes().starts_with(b"-N"));
    if !has_name {
        words.extend(["-N".into(), job_name(program)]);
    }
    words.push("--".into());
    let is_line = command.len() == 1 && program.as_bytes().iter().any(u8::is_ascii_whitespace);
    if is_line {
        words.extend(["/bin/sh".into(), "-c".into()]);
    }
    words.extend_from_slice(command);
    Ok(words)
}

/// The number of words before the command: options of qsub with their values.
fn options_end(words: &[OsString]) -> usize {
    let definition = qsub::command();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let bytes = word.as_bytes();
        if bytes == b"--" || !bytes.starts_with(b"-") || bytes == b"-" {
            break;
        }
        at += 1 + usize::from(takes_next_word(&definition, word));
    }
    at.min(words.len())
}

/// Tests whether the value of the option `word` is the next word. An unknown option has no value:
/// qsub reports it.
fn takes_next_word(definition: &clap::Command, word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    if let Some(long) = text.strip_prefix("--") {
        return definition.get_arguments().any(|arg| {
            arg.get_long() == Some(long) && takes_value(arg) && !arg.is_require_equals_set()
        });
    }
    let mut letters = text.chars().skip(1);
    while let Some(letter) = letters.next() {
        let option = definition
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter));
        if option.is_some_and(takes_value) {
            return letters.next().is_none();
        }
    }
    false
}

/// The file name of the program, as far as it is a legal job name.
fn job_name(program: &OsStr) -> OsString {
    let line = program.to_string_lossy();
    let program = line.split_whitespace().next().unwrap_or_default();
    let name = Path::new(program).file_name().unwrap_or_default();
    match name.to_str() {
        Some(name) if value_syntax::job_name(name).is_ok() => name.into(),
        _ => "command".into(),
    }
}

/// Tests whether a file is a script: a regular file that begins with `#!`, or whose first lines
/// contain a directive of PBS.
fn is_script(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut start = Vec::new();
    let read =
        || -> std::io::Result<usize> { File::open(path)?.take(4096).read_to_end(&mut start) };
    if !is_file || { read }().is_err() {
        return false;
    }
    start.starts_with(b"#!") || start.windows(6).any(|window| window == b"\n#PBS ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> String {
        let words: Vec<OsString> = line.split('|').map(OsString::from).collect();
        let result = words_of_qsub(&words, |path| path == Path::new("job.sh"));
        let words: Vec<String> = result
            .unwrap()
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join("|")
    }

    #[test]
    fn options_of_the_command_are_not_options_of_qsub() {
        assert_eq!(words("sleep|5"), "-N|sleep|--|sleep|5");
        assert_eq!(
            words("-l|ncpus=2|/usr/bin/python|t.py|-l|x"),
            "-l|ncpus=2|-N|python|--|/usr/bin/python|t.py|-l|x"
        );
        assert_eq!(words("-N|a|-V|true"), "-N|a|-V|--|true");
        assert_eq!(words("-lncpus=2|true"), "-lncpus=2|-N|true|--|true");
        assert_eq!(words("--group|g|true"), "--group|g|-N|true|--|true");
        assert_eq!(words("--|job.sh"), "-N|job.sh|--|job.sh");
    }

    #[test]
    fn one_word_is_a_script_a_shell_line_or_a_program() {
        assert_eq!(words("-V|job.sh"), "-V|job.sh");
        assert_eq!(words("a b & c"), "-N|a|--|/bin/sh|-c|a b & c");
        assert_eq!(words("3d+x?"), "-N|command|--|3d+x?");
    }

    #[test]
    fn a_missing_command_is_an_error() {
        let failure = words_of_qsub(&["-V".into()], |_| false).unwrap_err();
        assert!(failure.text.contains("no command"));
    }
}
