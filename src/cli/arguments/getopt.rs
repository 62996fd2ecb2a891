//! Splits the words of a command line like PBS's commands, then passes them to clap.
//!
//! PBS options are single letters, parsed by getopt: values may be attached (`-NNAME`,
//! `-lselect=2`) or begin with `-`, letters without values may be joined (`-xf`), and options may
//! follow operands. clap differs in details (it drops a leading `=` and refuses some values that
//! begin with `-`). This module therefore separates options, values and operands by clap's
//! definition of each letter, and passes them on in an unambiguous form.

use super::slurm::{self, SlurmOption};
use crate::cli::client::exit::{self, Failure};
use crate::model::spelling::close;
use clap::{ArgMatches, Command, FromArgMatches};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Parses the command line of this process. Returns None if [`print_help_or_version`] has printed
/// the answer. A wrong command line is a usage error (exit status 2).
pub fn read<T: FromArgMatches>(command: fn() -> Command) -> Result<Option<T>, Failure> {
    let words: Vec<OsString> = crate::sys::env::args().skip(1).collect();
    if print_help_or_version(command, &words)? {
        return Ok(None);
    }
    let matches = matches(&mut command(), words)?;
    read_matches(&matches).map(Some)
}

/// Prints the help if the first word is `--help`, or the version if the only word is `--version`.
/// Returns false for other words.
pub fn print_help_or_version(
    command: fn() -> Command,
    words: &[OsString],
) -> Result<bool, Failure> {
    match words {
        [only] if only == "--version" => {
            exit::print(format!("pbs_version = {}\n", env!("CARGO_PKG_VERSION")))?;
            Ok(true)
        }
        [first, ..] if first == "--help" => {
            exit::print(command().render_long_help().to_string())?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// True if the word begins with `-` and has more characters.
pub fn is_option(word: &OsStr) -> bool {
    matches!(word.as_bytes(), [b'-', _, ..])
}

/// True if the value of the last option in `word` is the next word.
pub fn wants_next(command: &Command, word: &OsStr) -> bool {
    let [b'-', letters @ ..] = word.as_bytes() else {
        return false;
    };
    if let Some(name) = letters.strip_prefix(b"-") {
        return command.get_arguments().any(|arg| {
            let is_named = arg.get_long().is_some_and(|long| long.as_bytes() == name);
            is_named && arg.get_action().takes_values()
        });
    }
    let first = letters.iter().position(|&letter| {
        by_letter(command, char::from(letter)).is_some_and(|arg| arg.get_action().takes_values())
    });
    first.is_some_and(|first| first + 1 == letters.len())
}

fn by_letter(command: &Command, letter: char) -> Option<&clap::Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_short() == Some(letter))
}

/// Converts clap's matches to the argument struct.
pub fn read_matches<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Failure> {
    T::from_arg_matches(matches).map_err(|error| from_clap(&error))
}

/// Settings that most PBS commands share: a command may define `-h` and `-V`, the last occurrence
/// of a repeated option counts, and `--help` and `--version` are described after the options.
pub fn pbs(command: Command) -> Command {
    command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .after_help("  --help     Print this text\n  --version  Print the version")
}

/// Parses words as the arguments of `command`.
pub fn matches(
    command: &mut Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, Failure> {
    let plain = split(command, words)?;
    let name = OsString::from(command.get_name());
    command
        .try_get_matches_from_mut(std::iter::once(name).chain(plain))
        .map_err(|error| from_clap(&error))
}

/// The words rewritten for clap: first the options, each as one word (`-X=VALUE`, `-F`,
/// `--long=VALUE`, `--long`), then `--` and the operands. A `--` on the command line is kept as an
/// operand, before the operands that follow it.
fn split(
    command: &Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut words = words.into_iter();
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => {
                operands.push(OsString::from("--"));
                operands.extend(words.by_ref());
            }
            [b'-', b'-', ..] => options.push(long(command, word, &mut words)?),
            [b'-', letters @ ..] if !letters.is_empty() => {
                cluster(command, letters, &mut words, &mut options)?
            }
            _ => operands.push(word),
        }
    }
    options.push("--".into());
    options.extend(operands);
    Ok(options)
}

/// Rewrites a long option. If it takes a value and has no `=`, the next word is the value.
fn long(
    command: &Command,
    word: OsString,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<OsString, Failure> {
    let text = word.to_string_lossy();
    let name = text[2..].split('=').next().unwrap_or_default();
    let known = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name));
    let arg = known.ok_or_else(|| {
        let value = text[2 + name.len()..].strip_prefix('=').map(String::from);
        // The value of an unknown option can be the next word.
        let value = value.or_else(|| {
            let next = words.next()?.to_string_lossy().into_owned();
            (!next.starts_with('-')).then_some(next)
        });
        unknown_option(command, name, value)
    })?;
    if text.contains('=') || !arg.get_action().takes_values() {
        return Ok(word);
    }
    let value = words
        .next()
        .ok_or_else(|| Failure::usage(format!("option requires an argument -- '{name}'")))?;
    let mut whole = word.into_vec();
    whole.push(b'=');
    whole.extend_from_slice(value.as_bytes());
    Ok(OsString::from_vec(whole))
}

/// The failure for an unknown long option. The message is PBS's; a hint names the option and the
/// remedy.
fn unknown_option(command: &Command, name: &str, value: Option<String>) -> Failure {
    let program = command.get_name();
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    let known: Vec<String> = longs.map(|long| format!("--{long}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let word = format!("--{name}");
    let is_beginning = |known: &&str| name.len() > 1 && known.starts_with(&word);
    let near = known.iter().copied().find(is_beginning);
    let translates = SUBMITTING.contains(&program) && slurm::is_known(name);
    let form = translates.then(|| {
        slurm::in_pbs(&[SlurmOption {
            name: name.to_string(),
            value: value.unwrap_or_default(),
        }])
        .options
        .join(" ")
    });
    let hint = match form.filter(|form| !form.is_empty()) {
        _ if ["help", "version"].contains(&name) => {
            format!("{word} must be the only option: {program} {word}")
        }
        Some(form) => format!("{word} is an option of Slurm; in PBS: {form}"),
        None if translates => format!("{word} is an option of Slurm; see {program} --help"),
        None => match near.or_else(|| close(&word, &known)) {
            Some(near) => format!("unknown option {word}; the nearest known option is {near}"),
            None => format!("unknown option {word}; {program} --help lists the options"),
        },
    };
    Failure::usage("invalid option -- '-'").hint(hint)
}

/// The commands that take the options of a job.
const SUBMITTING: [&str; 2] = ["qsub", "qalter"];

/// Rewrites a word of joined letters, such as `-zINjob1`. All letters are flags, up to the first
/// letter that takes a value. The value is the remainder of the word or, if that is empty, the next
/// word.
fn cluster(
    command: &Command,
    letters: &[u8],
    words: &mut impl Iterator<Item = OsString>,
    options: &mut Vec<OsString>,
) -> Result<(), Failure> {
    for (place, &letter) in letters.iter().enumerate() {
        let letter = char::from(letter);
        let arg = by_letter(command, letter)
            .ok_or_else(|| Failure::usage(format!("invalid option -- '{letter}'")))?;
        if !arg.get_action().takes_values() {
            options.push(format!("-{letter}").into());
            continue;
        }
        let mut value = OsStr::from_bytes(&letters[place + 1..]).to_os_string();
        if value.is_empty() {
            value = words.next().ok_or_else(|| {
                Failure::usage(format!("option requires an argument -- '{letter}'"))
            })?;
        }
        let mut option = OsString::from(format!("-{letter}="));
        option.push(value);
        options.push(option);
        return Ok(());
    }
    Ok(())
}

/// Converts an error of clap: a missing or extra operand, or a bad value of an option. For a wrong
/// operand, only the usage is printed, as in PBS.
fn from_clap(error: &clap::Error) -> Failure {
    use clap::error::ErrorKind::{
        MissingRequiredArgument, TooFewValues, TooManyValues, UnknownArgument,
    };
    let wrong_operands = [
        MissingRequiredArgument,
        TooFewValues,
        TooManyValues,
        UnknownArgument,
    ];
    let message = error.to_string();
    let first = message
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    if !wrong_operands.contains(&error.kind()) {
        return Failure::usage(first.to_string());
    }
    Failure::usage("").hint_if(operand_hint(error))
}

/// Names a missing or extra operand of a command line; None if clap does not name it.
fn operand_hint(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(" ")),
        _ => None,
    };
    let argument = named(ContextKind::InvalidArg).filter(|text| !text.is_empty())?;
    Some(match error.kind() {
        clap::error::ErrorKind::MissingRequiredArgument => format!("missing operand: {argument}"),
        clap::error::ErrorKind::UnknownArgument => format!("unexpected operand: {argument}"),
        _ => return None,
    })
}
