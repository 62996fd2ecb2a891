//! The program of a job: a script from a file or from standard input, or a command.

use super::directives;
use crate::cli::client::exit::{self, Failure};
use crate::model::job::value_syntax::{self, NameFault};
use crate::model::refusal::Refusal;
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
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
            _ => Err(Failure::usage("")),
        }
    }

    /// The default job name: the file name, or `STDIN` without a script file. Fails if the file
    /// name is not a legal job name.
    pub fn name(&self) -> Result<String, Failure> {
        let ScriptSource::File(file) = self else {
            return Ok(NAMELESS.into());
        };
        let name = Path::new(file).file_name().unwrap_or_default();
        job_name(name)
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
            return Err(Failure::new(1, "script contains cr, lf"));
        }
        Ok(script)
    }
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
        Err(NameFault::Illegal) => Err(Failure::usage("illegal -N value")),
        Err(NameFault::TooLong) => Err(Failure::new(exit::USAGE, "Job name is too long ")),
    }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        exit::print("Job script will be read from standard input. Submit with CTRL+D.\n")?;
    }
    read_all(io::stdin().lock())
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let facts = std::fs::metadata(path)
        .map_err(|error| Failure::new(1, format!("script file:: {}", reason(&error))))?;
    if !facts.is_file() {
        return Err(Failure::new(1, "script not a file"));
    }
    let file = File::open(path)
        .map_err(|error| Failure::new(8, format!("opening script file:: {}", reason(&error))))?;
    read_all(file)
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
            assert_eq!(source(wrong), Err(Failure::usage("")), "{wrong:?}");
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
            Err(Failure::usage("illegal -N value"))
        );
        assert_eq!(source(&["--", "ls"]).unwrap().name(), Ok("STDIN".into()));
        assert_eq!(job_name(OsStr::new("=psij")), Ok("psij".into()));
        assert_eq!(
            job_name(OsStr::new(&"a".repeat(231))),
            Err(Failure::new(2, "Job name is too long "))
        );
    }

    #[test]
    fn errors_of_scripts_have_the_messages_of_pbs() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| ScriptSource::File(folder.path().join(name).into()).read();
        assert_eq!(
            read("none"),
            Err(Failure::new(1, "script file:: No such file or directory"))
        );
        assert_eq!(read("."), Err(Failure::new(1, "script not a file")));
        std::fs::write(folder.path().join("cr"), "#!/bin/sh\r\necho x\r\n").unwrap();
        assert_eq!(read("cr"), Err(Failure::new(1, "script contains cr, lf")));
        std::fs::write(folder.path().join("empty"), "").unwrap();
        assert_eq!(read("empty"), Ok(Vec::new()));
    }
}
