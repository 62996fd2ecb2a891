//! The program of a job: a script from a file or from standard input, or a command.

use super::directives;
use crate::cli::client::exit::{self, Failure};
use crate::model::attribute::remedy;
use crate::model::job::value_syntax::{self, NameFault};
use crate::model::refusal::Refusal;
use crate::model::spelling::close;
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum size in bytes of a script that is read: PBS's default of `jobscript_max_size`. The
/// server's own maximum is lower.
const LIMIT: u64 = 100 << 20;

/// The default name of a job without a script file.
const NAMELESS: &str = "STDIN";

/// The program named by qsub's operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// A script on standard input.
    Stdin,
    /// A script in this file.
    File(OsString),
    /// A command: the program and its arguments.
    Command(Vec<OsString>),
}

impl ScriptSource {
    /// Parses the operands: none or `-`, a file, or `--` and a command. Anything else is a usage
    /// error.
    pub fn of(operands: &[OsString]) -> Result<ScriptSource, Failure> {
        match operands {
            [] => Ok(ScriptSource::Stdin),
            [only] if only == "-" => Ok(ScriptSource::Stdin),
            [dashes, command @ ..] if dashes == "--" && !command.is_empty() => {
                Ok(ScriptSource::Command(command.to_vec()))
            }
            [file] if file != "--" => Ok(ScriptSource::File(file.clone())),
            [dashes] if dashes == "--" => {
                Err(Failure::usage("")
                    .hint("a command must follow --, for example qsub -- sleep 60"))
            }
            [first, ..] => Err(Failure::usage("").hint(format!(
                "{} precedes --: give either a script or -- and a command, for example \
                 qsub -- sleep 60; see qsub --help for the values of options",
                remedy::shown(&first.to_string_lossy())
            ))),
        }
    }

    /// The default job name: the file name, or `STDIN` without a script file. Fails if the file
    /// name is not a legal job name.
    pub fn name(&self) -> Result<String, Failure> {
        let ScriptSource::File(file) = self else {
            return Ok(NAMELESS.into());
        };
        let name = Path::new(file).file_name().unwrap_or_default();
        job_name(name).map_err(|failure| Failure {
            hints: vec![format!(
                "the name of the script, {}, is no job name: name the job with -N, for example \
                 -N my_job-1",
                remedy::shown(&name.to_string_lossy())
            )],
            ..failure
        })
    }

    /// Reads and checks the script; empty for a command.
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        self.check_content(match self {
            ScriptSource::Stdin => read_stdin()?,
            ScriptSource::File(file) => read_file(Path::new(file))?,
            ScriptSource::Command(_) => Vec::new(),
        })
    }

    /// Returns `script`, the content of the file or of standard input. Fails if `script` contains
    /// CR LF. For a command, returns an empty script.
    pub fn check_content(&self, script: Vec<u8>) -> Result<Vec<u8>, Failure> {
        if matches!(self, ScriptSource::Command(_)) {
            return Ok(Vec::new());
        }
        if script.windows(2).any(|pair| pair == b"\r\n") {
            let line = 1 + before_crlf(&script).iter().filter(|&&b| b == b'\n').count();
            let hint = format!(
                "line {line} ends like in Windows; remove the carriage returns with \
                 sed -i 's/\\r$//' FILE"
            );
            return Err(Failure::new(1, "script contains cr, lf").hint(hint));
        }
        Ok(script)
    }
}

/// The script before its first CR LF.
fn before_crlf(script: &[u8]) -> &[u8] {
    let end = script.windows(2).position(|pair| pair == b"\r\n");
    &script[..end.unwrap_or(script.len())]
}

/// The options in a file, as words of a command line. Lines that begin with `#` are comments.
pub fn options(file: &OsStr) -> Result<Vec<OsString>, Failure> {
    let text = read_file(Path::new(file))?;
    let lines = text
        .split(|&b| b == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"));
    Ok(lines
        .map(directives::words)
        .collect::<Result<Vec<_>, _>>()?
        .concat())
}

/// Checks a job name. A leading `=` is removed, because some clients write `-N=name`.
pub fn job_name(name: &OsStr) -> Result<String, Failure> {
    let name = name.to_string_lossy();
    let name = name.strip_prefix('=').unwrap_or(&name);
    match value_syntax::job_name(name) {
        Ok(()) => Ok(name.to_string()),
        Err(NameFault::Illegal) => {
            let hint = remedy::of_value("Job_Name", name);
            Err(Failure::usage("illegal -N value").hint_if(hint))
        }
        Err(NameFault::TooLong) => Err(Failure::new(exit::USAGE, "Job name is too long ").hint(
            format!(
                "the name has {} bytes; at most 230 are possible",
                name.len()
            ),
        )),
    }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        exit::print("Job script will be read from standard input. Submit with CTRL+D.\n")?;
    }
    read_all(io::stdin().lock())
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = || remedy::shown(&path.to_string_lossy());
    let facts = std::fs::metadata(path).map_err(|error| {
        let failure = Failure::new(1, format!("script file:: {}", reason(&error)));
        failure.hint(format!("the script file is {}", shown()))
    })?;
    if !facts.is_file() {
        let hint = format!("{} is a directory or a special file", shown());
        return Err(Failure::new(1, "script not a file").hint(hint));
    }
    let file = File::open(path).map_err(|error| {
        let failure = Failure::new(8, format!("opening script file:: {}", reason(&error)));
        failure.hint(format!("make {} readable: chmod u+r", shown()))
    })?;
    read_all(file)
}

/// What the user probably meant by a script file that does not exist: a program in `path`, the
/// value of PATH, with its arguments, or a file with a similar name. None if there is neither.
pub fn intended(file: &OsStr, arguments: &[OsString], path: Option<&OsStr>) -> Option<String> {
    let name = file.to_str()?;
    let is_program = !name.contains('/')
        && path
            .unwrap_or_default()
            .as_bytes()
            .split(|&byte| byte == b':')
            .filter(|folder| !folder.is_empty())
            .any(|folder| is_executable(&Path::new(OsStr::from_bytes(folder)).join(name)));
    if is_program {
        let words: Vec<_> = arguments
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let words = [&[name.into()], &words[..]].concat();
        return Some(format!(
            "{name} is a program; to run it as a job: qsub -- {}",
            words.join(" ")
        ));
    }
    let path = Path::new(file);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names: Vec<String> = entries
        .take(MOST_FILES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = close(path.file_name()?.to_str()?, &names)?;
    Some(format!(
        "the nearest file name there is {}",
        remedy::shown(near)
    ))
}

/// Number of files in a directory that are compared with a misspelled name.
const MOST_FILES: usize = 10_000;

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

fn read_all(source: impl Read) -> Result<Vec<u8>, Failure> {
    let mut script = Vec::new();
    source
        .take(LIMIT + 1)
        .read_to_end(&mut script)
        .map_err(|error| Failure::new(8, format!("reading script: {}", reason(&error))))?;
    if script.len() as u64 > LIMIT {
        return Err(Refusal::script_too_large().into());
    }
    Ok(script)
}

/// The system's text for an error, without the error number.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |number| Errno::from_raw(number).desc().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(words: &[&str]) -> Result<ScriptSource, Failure> {
        ScriptSource::of(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn operands_name_one_program() {
        assert_eq!(source(&[]), Ok(ScriptSource::Stdin));
        assert_eq!(source(&["-"]), Ok(ScriptSource::Stdin));
        assert_eq!(source(&["job.sh"]), Ok(ScriptSource::File("job.sh".into())));
        assert_eq!(
            source(&["--", "/bin/echo", "-N"]),
            Ok(ScriptSource::Command(vec!["/bin/echo".into(), "-N".into()]))
        );
        for wrong in [&["job.sh", "extra"][..], &["job.sh", "--", "x"], &["--"]] {
            let failure = source(wrong).unwrap_err();
            assert_eq!(
                (failure.text.as_str(), failure.usage),
                ("", true),
                "{wrong:?}"
            );
            assert_eq!(failure.hints.len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn the_file_name_must_be_a_legal_job_name() {
        assert_eq!(
            source(&["sub/.hidden"]).unwrap().name(),
            Ok(".hidden".into())
        );
        assert_eq!(
            source(&["my job.sh"]).unwrap().name(),
            Err(Failure::usage("illegal -N value").hint(
                "the name of the script, 'my job.sh', is no job name: name the job with -N, for \
                 example -N my_job-1"
            ))
        );
        assert_eq!(source(&["--", "ls"]).unwrap().name(), Ok("STDIN".into()));
        assert_eq!(job_name(OsStr::new("=psij")), Ok("psij".into()));
        assert_eq!(
            job_name(OsStr::new(&"a".repeat(231))),
            Err(Failure::new(2, "Job name is too long ")
                .hint("the name has 231 bytes; at most 230 are possible"))
        );
    }

    #[test]
    fn errors_of_scripts_have_the_messages_of_pbs() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| ScriptSource::File(folder.path().join(name).into()).read();
        let text = |name: &str| read(name).unwrap_err().text;
        assert_eq!(text("none"), "script file:: No such file or directory");
        assert_eq!(text("."), "script not a file");
        std::fs::write(folder.path().join("cr"), "#!/bin/sh\r\necho x\r\n").unwrap();
        let failure = read("cr").unwrap_err();
        assert_eq!(failure.text, "script contains cr, lf");
        assert!(failure.hints[0].starts_with("line 1 "), "{failure:?}");
        std::fs::write(folder.path().join("empty"), "").unwrap();
        assert_eq!(read("empty"), Ok(Vec::new()));
    }

    #[test]
    fn a_missing_script_can_be_a_program_or_a_misspelled_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(OsStr::new("/nosuch:/bin"));
        let arguments = [OsString::from("1")];
        assert_eq!(
            intended(OsStr::new("sleep"), &arguments, path).unwrap(),
            "sleep is a program; to run it as a job: qsub -- sleep 1"
        );
        std::fs::write(folder.path().join("job.sh"), "").unwrap();
        let near = |name: &str| intended(folder.path().join(name).as_os_str(), &[], path);
        assert_eq!(
            near("jbo.sh").unwrap(),
            "the nearest file name there is job.sh"
        );
        assert_eq!(near("sleep"), None);
        assert_eq!(intended(OsStr::new("sleep"), &[], None), None);
    }
}
