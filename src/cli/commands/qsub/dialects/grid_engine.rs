//! Translates Grid Engine's options to PBS's options.

use super::super::submission::SubmissionOptions;
use super::{TranslatedLine, text};
use crate::cli::arguments::environment::{self, SubmitOrigin};
use crate::cli::client::exit::Failure;
use crate::model::attribute::AttributeSetting;
use crate::model::indices::list::IndexList;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The state of the translation of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct TranslationState {
    /// True if the line contains options that only Grid Engine has, or is a directive with `#$`.
    pub is_grid_engine: bool,
    /// `-b y`: the operands are a command.
    is_binary: bool,
    /// `-shell n`: run the command without a shell.
    is_without_shell: bool,
    /// True after `-soft`, until `-hard`: `-l` and `-q` are ignored.
    is_soft: bool,
}

/// An option that must be translated.
#[derive(Clone, Copy, Debug)]
pub struct ForeignOption {
    name: &'static str,
    action: OptionAction,
}

/// The translation of an option and its value.
#[derive(Clone, Copy, Debug)]
enum OptionAction {
    /// An option without value. These words replace the option.
    Words(&'static [&'static str]),
    /// The value goes to this PBS option.
    Letter(&'static str),
    /// The value goes to `-W` under this name.
    Attribute(&'static str),
    /// These words replace the option if the value is `yes`. With `no`, the option has no effect.
    Yes(&'static [&'static str]),
    /// The option and its value have no effect.
    Ignored,
    /// A function translates the option.
    Function(TranslationFn),
}

/// A function that translates an option. The words are the option and all words after the option.
/// Returns the number of words that were used after the option.
type TranslationFn =
    fn(&[OsString], &mut TranslationState, &mut TranslatedLine) -> Result<usize, Failure>;

/// Grid Engine's options that PBS would misread, by full name.
const OPTIONS: &[(&str, OptionAction)] = &[
    ("-cwd", OptionAction::Words(&["-d", "."])),
    ("-wd", OptionAction::Letter("-w")),
    ("-pe", OptionAction::Function(parallel)),
    ("-hold_jid", OptionAction::Attribute("hold_jid")),
    ("-hold_jid_ad", OptionAction::Function(hold_each)),
    ("-sync", OptionAction::Yes(&["-W", "block=true"])),
    ("-tc", OptionAction::Attribute("max_run_subjobs")),
    ("-ar", OptionAction::Attribute("resv")),
    ("-notify", OptionAction::Words(&["-W", "warn=USR2@60"])),
    ("-verify", OptionAction::Words(&["--dry-run"])),
    ("-terse", OptionAction::Words(&[])),
    ("-clear", OptionAction::Words(&[])),
    ("-ac", OptionAction::Ignored),
    ("-sc", OptionAction::Ignored),
    ("-dc", OptionAction::Ignored),
    ("-binding", OptionAction::Function(binding)),
    ("-now", OptionAction::Function(now)),
    ("-b", OptionAction::Function(binary)),
    ("-shell", OptionAction::Function(shell)),
    (
        "-soft",
        OptionAction::Function(|_, state, _| set_soft(state, true)),
    ),
    (
        "-hard",
        OptionAction::Function(|_, state, _| set_soft(state, false)),
    ),
];

/// Options that TORQUE has too. They are no evidence that a line is for Grid Engine.
const SHARED: [&str; 1] = ["-b"];

/// Options of PBS with values that only Grid Engine accepts: option, values, translation. If the
/// translation is empty, the option and its value have no effect.
const VALUES: &[(&str, &[&str], &[&str])] = &[
    ("-j", &["y", "yes"], &["-j", "oe"]),
    ("-j", &["no"], &["-j", "n"]),
    ("-r", &["yes"], &["-r", "y"]),
    ("-r", &["no"], &["-r", "n"]),
    ("-R", &["y", "yes", "n", "no"], &[]),
    ("-w", &["e", "w", "n"], &[]),
    ("-w", &["v", "p"], &["--dry-run"]),
];

impl ForeignOption {
    /// The option that `word` contains; None if PBS's parser gets `word` unchanged. `next` is the
    /// word after `word`.
    pub fn of(
        word: &OsString,
        next: Option<&OsString>,
        state: &TranslationState,
    ) -> Option<ForeignOption> {
        let name = text(word);
        if let Some((name, action)) = OPTIONS.iter().find(|(known, _)| *known == name) {
            return Some(ForeignOption {
                name,
                action: *action,
            });
        }
        let value = next.map(text)?;
        if let Some((name, _, translation)) = VALUES
            .iter()
            .find(|(known, values, _)| *known == name && values.contains(&value))
        {
            return Some(ForeignOption {
                name,
                action: OptionAction::Function(if translation.is_empty() {
                    pass_value
                } else {
                    set_value
                }),
            });
        }
        let (name, action): (&'static str, TranslationFn) = match name {
            "-m" if value.contains('s') && value.chars().all(|c| "beasn".contains(c)) => {
                ("-m", mail)
            }
            "-o" if state.is_grid_engine => ("-o", path),
            "-e" if state.is_grid_engine => ("-e", path),
            "-h" if state.is_grid_engine
                && !value.is_empty()
                && value.chars().all(|c| "usonUSO".contains(c)) =>
            {
                ("-h", hold)
            }
            "-l" | "-q" if state.is_soft => ("-l", soft),
            _ => return None,
        };
        Some(ForeignOption {
            name,
            action: OptionAction::Function(action),
        })
    }

    /// The word after the option.
    fn value<'a>(&self, behind: &'a [OsString]) -> Result<&'a OsString, Failure> {
        behind.first().ok_or_else(|| missing(self.name))
    }

    /// Appends the translation to the line. `behind` are the words after the option. Returns the
    /// words that are not used.
    pub fn translate<'a>(
        self,
        behind: &'a [OsString],
        state: &mut TranslationState,
        line: &mut TranslatedLine,
    ) -> Result<&'a [OsString], Failure> {
        state.is_grid_engine |= !SHARED.contains(&self.name) && self.name.len() > 2;
        let taken = match self.action {
            OptionAction::Words(words) => {
                line.words.extend(words.iter().map(OsString::from));
                0
            }
            OptionAction::Letter(letter) => {
                line.words
                    .extend([OsString::from(letter), self.value(behind)?.clone()]);
                1
            }
            OptionAction::Attribute(name) => {
                let setting = joined(&format!("{name}="), self.value(behind)?);
                line.words.extend([OsString::from("-W"), setting]);
                1
            }
            OptionAction::Yes(words) => {
                if is_yes(self.name, self.value(behind)?)? {
                    line.words.extend(words.iter().map(OsString::from));
                }
                1
            }
            OptionAction::Ignored => {
                self.value(behind)?;
                1
            }
            OptionAction::Function(action) => {
                // `-soft` and `-hard` have no value.
                if !["-soft", "-hard"].contains(&self.name) {
                    self.value(behind)?;
                }
                let name = OsString::from(self.name);
                let with_name: Vec<OsString> = std::iter::once(name)
                    .chain(behind.iter().cloned())
                    .collect();
                action(&with_name, state, line)?
            }
        };
        Ok(&behind[taken..])
    }
}

impl TranslationState {
    /// The state at the start of a line.
    pub fn new(is_grid_engine: bool) -> TranslationState {
        TranslationState {
            is_grid_engine,
            ..TranslationState::default()
        }
    }

    /// True if all words after the first operand are arguments of the script or command.
    pub fn ends_at_operand(&self) -> bool {
        self.is_grid_engine || self.is_binary
    }

    /// Completes a line with a script or command and its arguments.
    pub fn complete(
        &self,
        mut line: TranslatedLine,
        script: OsString,
        arguments: &[OsString],
    ) -> Result<TranslatedLine, Failure> {
        if !self.is_binary {
            line.words.push(script);
            line.arguments = arguments.to_vec();
            return Ok(line);
        }
        if let Some(name) = name_of(&script) {
            // Insert the name first, so that a later -N takes precedence.
            line.words.splice(0..0, [OsString::from("-N"), name]);
        }
        line.words.push("--".into());
        if self.is_without_shell || !needs_shell(&script) {
            line.words.push(script);
            line.words.extend_from_slice(arguments);
        } else {
            let words: Vec<OsString> = std::iter::once(script)
                .chain(arguments.iter().cloned())
                .collect();
            line.words
                .extend(["/bin/sh".into(), "-c".into(), words.join(OsStr::new(" "))]);
        }
        Ok(line)
    }

    /// Checks a line that [`Self::complete`] does not complete. Fails after `-b y`, which requires
    /// a command.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.is_binary {
            Err(Failure::usage("-b y needs a command"))
        } else {
            Ok(())
        }
    }
}

/// The job name derived from a command; None if the derived name is not legal.
fn name_of(command: &OsString) -> Option<OsString> {
    let first = command.as_bytes().split(|&b| b == b' ').next()?;
    let name = first
        .rsplit(|&b| b == b'/')
        .next()
        .filter(|name| !name.is_empty())?;
    name.iter()
        .all(|b| b.is_ascii_alphanumeric() || b"-_+.".contains(b))
        .then(|| OsString::from_vec(name.to_vec()))
}

/// True if the command is a shell command line rather than a program.
fn needs_shell(command: &OsString) -> bool {
    command
        .as_bytes()
        .iter()
        .any(|b| b" \t\n;&|<>()$`\\\"'*?[]{}~#=".contains(b))
}

fn missing(name: &str) -> Failure {
    Failure::usage(format!(
        "option requires an argument -- '{}'",
        name.trim_start_matches('-')
    ))
}

fn illegal(name: &str) -> Failure {
    Failure::usage(format!("illegal {name} value"))
}

fn joined(before: &str, value: &OsStr) -> OsString {
    OsString::from_vec([before.as_bytes(), value.as_bytes()].concat())
}

fn is_yes(name: &str, value: &OsString) -> Result<bool, Failure> {
    match text(value) {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err(illegal(name)),
    }
}

/// Translates `-pe NAME N[-M]`.
fn parallel(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    let [_, name, slots, ..] = words else {
        return Err(missing("-pe"));
    };
    let (name, slots) = (text(name), text(slots));
    for word in [name, slots] {
        if word.is_empty() || word.contains([':', ',', '=']) || word.contains(char::is_whitespace) {
            return Err(illegal("-pe"));
        }
    }
    line.words
        .extend(["-l".into(), format!("pe={name}:{slots}").into()]);
    Ok(2)
}

/// Translates `-hold_jid_ad`, which pairs subjobs, to a dependency on the whole array.
fn hold_each(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    line.words
        .extend([OsString::from("-W"), joined("hold_jid=", &words[1])]);
    line.remarks
        .push("warning: -hold_jid_ad: each task waits for all tasks of the other array".into());
    Ok(1)
}

/// Skips `-binding [env|pe|set] STRATEGY`, which has no effect.
fn binding(
    words: &[OsString],
    _: &mut TranslationState,
    _: &mut TranslatedLine,
) -> Result<usize, Failure> {
    match (text(&words[1]), words.len()) {
        ("env" | "pe" | "set", 3..) => Ok(2),
        _ => Ok(1),
    }
}

fn now(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    if is_yes("-now", &words[1])? {
        line.remarks
            .push("warning: -now has no effect: the job is queued as usual".into());
    }
    Ok(1)
}

/// Translates `-b y`. `-b SECONDS` is TORQUE's retry time and has no effect.
fn binary(
    words: &[OsString],
    state: &mut TranslationState,
    _: &mut TranslatedLine,
) -> Result<usize, Failure> {
    let value = text(&words[1]);
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_digit()) {
        state.is_binary = is_yes("-b", &words[1])?;
        state.is_grid_engine = true;
    }
    Ok(1)
}

fn shell(
    words: &[OsString],
    state: &mut TranslationState,
    _: &mut TranslatedLine,
) -> Result<usize, Failure> {
    state.is_without_shell = !is_yes("-shell", &words[1])?;
    Ok(1)
}

fn set_soft(state: &mut TranslationState, is_soft: bool) -> Result<usize, Failure> {
    state.is_soft = is_soft;
    Ok(0)
}

fn soft(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    line.remarks.push(format!(
        "warning: -soft: {} is ignored",
        words[1].to_string_lossy()
    ));
    Ok(1)
}

fn pass_value(
    _: &[OsString],
    _: &mut TranslationState,
    _: &mut TranslatedLine,
) -> Result<usize, Failure> {
    Ok(1)
}

fn set_value(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    let (name, value) = (text(&words[0]), text(&words[1]));
    let row = VALUES
        .iter()
        .find(|(known, values, _)| *known == name && values.contains(&value));
    line.words.extend(
        row.into_iter()
            .flat_map(|(_, _, translation)| translation.iter().map(OsString::from)),
    );
    Ok(1)
}

/// Translates `-m`, and drops the letter `s`: no mail is sent when a job is suspended.
fn mail(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    let letters = text(&words[1]).replace('s', "");
    let letters = if letters.is_empty() {
        "n".into()
    } else {
        letters
    };
    line.words.extend(["-m".into(), letters.into()]);
    Ok(1)
}

/// Translates `-h` to PBS's user hold; `n` is no hold.
fn hold(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    if text(&words[1]) != "n" {
        line.words.push("-h".into());
    }
    Ok(1)
}

/// Variables in file paths, and the placeholders that replace them.
const MARKS: [(&str, &str); 3] = [
    ("$JOB_ID", "^job_number^"),
    ("$JOB_NAME", "^job_name^"),
    ("$TASK_ID", "^array_index^"),
];

fn path(
    words: &[OsString],
    _: &mut TranslationState,
    line: &mut TranslatedLine,
) -> Result<usize, Failure> {
    let mut path = words[1].as_bytes().to_vec();
    // The path can begin with a colon, after an empty host name.
    if path.first() == Some(&b':') {
        path.remove(0);
    }
    for (variable, mark) in MARKS {
        path = replaced(&path, variable.as_bytes(), mark.as_bytes());
        let braced = format!("${{{}}}", &variable[1..]);
        path = replaced(&path, braced.as_bytes(), mark.as_bytes());
    }
    line.words
        .extend([words[0].clone(), OsString::from_vec(path)]);
    Ok(1)
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut done, mut rest) = (Vec::new(), text);
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(from) {
            done.extend_from_slice(to);
            rest = behind;
        } else {
            done.push(first);
            rest = behind;
        }
    }
    done
}

/// Appends Grid Engine's default file name to output paths that end with `/`.
pub fn name_files(wanted: &mut SubmissionOptions) {
    let each = if wanted.sets("array_indices_submitted") {
        ".^array_index^"
    } else {
        ""
    };
    for setting in &mut wanted.settings {
        let letter = match setting.attribute.as_str() {
            "Output_Path" => 'o',
            "Error_Path" => 'e',
            _ => continue,
        };
        if setting.value.0.ends_with(b"/") {
            setting
                .value
                .0
                .extend(format!("^job_name^.{letter}^job_number^{each}").into_bytes());
        }
    }
}

/// Adds the variables that only qsub can set to the environment of a Grid Engine job.
/// `SGE_O_WORKDIR` marks the job as a Grid Engine job.
pub fn add_variables(environ: &mut Vec<u8>, origin: &SubmitOrigin, settings: &[AttributeSetting]) {
    environment::add(environ, "SGE_O_WORKDIR", Some(origin.workdir));
    environment::add(environ, "SGE_O_HOST", Some(OsStr::new(origin.host)));
    for name in ["HOME", "LOGNAME", "PATH", "SHELL"] {
        let own = origin
            .vars
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str());
        environment::add(environ, &format!("SGE_O_{name}"), own);
    }
    let parallel = settings
        .iter()
        .rfind(|setting| setting.resource.as_deref() == Some("pe"));
    if let Some(setting) = parallel
        && let Some((name, _)) = setting.value.lossy().rsplit_once(':')
    {
        environment::add(environ, "PE", Some(OsStr::new(name)));
    }
    let range = settings
        .iter()
        .rfind(|setting| setting.attribute == "array_indices_submitted");
    let list: Option<IndexList> =
        range.and_then(|setting| setting.value.lossy().split('%').next()?.parse().ok());
    let Some(list) = list else { return };
    let (first, last, step) = bounds(&list);
    for (name, number) in [("FIRST", first), ("LAST", last), ("STEPSIZE", step)] {
        environment::add(
            environ,
            &format!("SGE_TASK_{name}"),
            Some(OsStr::new(&number.to_string())),
        );
    }
}

/// The first index, the last index, and the step of the indices.
fn bounds(list: &IndexList) -> (u32, u32, u32) {
    let range = list.single().unwrap_or_else(|| list.enclosing());
    let mut indices = range.iter();
    let first = indices.next().unwrap_or_default();
    let step = indices.next().map_or(1, |second| second - first);
    (first, range.largest(), step)
}
