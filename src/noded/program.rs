//! The program to execute for a job: interpreter, shell and arguments.
//!
//! The interpreter replaces the login shell (`bash -c "exec ..."`). Otherwise the login shell could
//! swallow the job's signals or change its exit status.

use crate::model::job::value_syntax::for_host;
use crate::model::text::Text;
use crate::sys::user::UserAccount;
use crate::wire::message::Payload;
use crate::wire::order::Launch;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The program to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramToRun {
    /// The file. A name without a slash is searched in the job's `PATH`.
    pub file: PathBuf,
    /// The arguments of the program, including `argv[0]`.
    pub arguments: Vec<CString>,
    /// The files that must be executable, each with its role, such as "interpreter". They are
    /// checked in this order.
    pub needs: Vec<(&'static str, PathBuf)>,
}

/// File names of shells that support `exec` and `"$PATH"`.
const SHELLS: [&str; 12] = [
    "sh", "ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "tcsh", "yash", "zsh",
];

/// Whether a login shell reads its profile before the job's program starts. The profile may replace
/// `PATH`.
pub fn reads_profile(launch: &Launch) -> bool {
    launch.login && matches!(launch.payload, Payload::Script(_))
}

/// The program to execute for a launch. `script` is the path of the job's script. `commands` is the
/// directory that a login shell appends to `PATH` after reading the profile.
pub fn of(
    launch: &Launch,
    account: &UserAccount,
    host: &str,
    script: &Path,
    commands: Option<&Path>,
) -> io::Result<ProgramToRun> {
    match &launch.payload {
        Payload::Command(words) => command(words),
        Payload::Script(_) if launch.interactive => shell(
            interpreter(launch.shell.as_ref(), host, b"", account),
            launch.login,
            commands,
        ),
        Payload::Script(text) => {
            let mut words = interpreter(launch.shell.as_ref(), host, text, account);
            words.push(script.as_os_str().to_os_string());
            words.extend(split_arguments(&launch.arguments));
            if launch.login {
                under_login_shell(&words, account, commands)
            } else {
                directly(words)
            }
        }
    }
}

fn command(words: &[Text]) -> io::Result<ProgramToRun> {
    let words: Vec<OsString> = words
        .iter()
        .map(|word| OsString::from_vec(word.0.clone()))
        .collect();
    let file = PathBuf::from(words.first().cloned().unwrap_or_default());
    Ok(ProgramToRun {
        file,
        arguments: strings(words)?,
        needs: Vec::new(),
    })
}

/// Splits arguments that each end with a zero byte.
fn split_arguments(arguments: &Text) -> impl Iterator<Item = OsString> {
    let words = arguments.0.split_inclusive(|&byte| byte == 0);
    words.map(|word| OsString::from_vec(word.strip_suffix(b"\0").unwrap_or(word).to_vec()))
}

/// The shell of an interactive job. If `commands` is given, a login shell of a known kind reads its
/// profile, appends `commands` to `PATH`, and replaces itself with a second shell.
fn shell(
    mut words: Vec<OsString>,
    login: bool,
    commands: Option<&Path>,
) -> io::Result<ProgramToRun> {
    let file = PathBuf::from(words[0].clone());
    let is_known = file
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| SHELLS.contains(&name));
    if login && commands.is_some() && is_known {
        words = vec![as_login(&file), "-c".into(), exec_line(&words, commands)];
    } else if login {
        words[0] = as_login(&file);
    }
    Ok(ProgramToRun {
        needs: vec![("shell", file.clone())],
        file,
        arguments: strings(words)?,
    })
}

/// The `argv[0]` with which a shell becomes a login shell.
fn as_login(shell: &Path) -> OsString {
    let mut name = OsString::from("-");
    name.push(shell.file_name().unwrap_or(OsStr::new("sh")));
    name
}

fn directly(words: Vec<OsString>) -> io::Result<ProgramToRun> {
    let file = PathBuf::from(words[0].clone());
    Ok(ProgramToRun {
        needs: vec![("interpreter", file.clone())],
        file,
        arguments: strings(words)?,
    })
}

/// The command with which a shell appends `commands` to `PATH` and replaces itself with a program.
/// The command works in Bourne shells, C shells and fish.
fn exec_line(words: &[OsString], commands: Option<&Path>) -> OsString {
    let mut line = OsString::from("exec");
    if let Some(folder) = commands {
        line.push(" /usr/bin/env PATH=\"$PATH\":");
        line.push(quoted(folder.as_os_str()));
    }
    for word in words {
        line.push(" ");
        line.push(quoted(word));
    }
    line
}

fn under_login_shell(
    words: &[OsString],
    account: &UserAccount,
    commands: Option<&Path>,
) -> io::Result<ProgramToRun> {
    let line = exec_line(words, commands);
    Ok(ProgramToRun {
        file: account.shell.clone(),
        arguments: strings(vec![as_login(&account.shell), "-c".into(), line])?,
        needs: vec![
            ("interpreter", PathBuf::from(words[0].clone())),
            ("login shell", account.shell.clone()),
        ],
    })
}

fn strings(words: Vec<OsString>) -> io::Result<Vec<CString>> {
    Ok(words
        .into_iter()
        .map(|word| CString::new(word.into_vec()))
        .collect::<Result<_, _>>()?)
}

/// The interpreter and, if any, its own argument: the program in `qsub -S`, else the interpreter in
/// the first line of the script, else the owner's login shell.
fn interpreter(
    shell: Option<&Text>,
    host: &str,
    script: &[u8],
    account: &UserAccount,
) -> Vec<OsString> {
    let requested = shell
        .and_then(|list| for_host(&list.0, host))
        .map(|path| vec![OsString::from_vec(path.to_vec())]);
    requested
        .or_else(|| first_line(script))
        .unwrap_or_else(|| vec![account.shell.clone().into()])
}

/// Parses a first line `#! path argument` like the kernel: all text after the path is one argument.
fn first_line(script: &[u8]) -> Option<Vec<OsString>> {
    let line = script
        .strip_prefix(b"#!")?
        .split(|&b| b == b'\n')
        .next()?
        .trim_ascii();
    let end = line
        .iter()
        .position(|b| matches!(b, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (path, argument) = (&line[..end], line[end..].trim_ascii());
    let words = [path, argument].into_iter().filter(|word| !word.is_empty());
    let words: Vec<OsString> = words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    (!words.is_empty() && !line.contains(&0)).then_some(words)
}

/// Quotes a word for shells.
fn quoted(word: &OsStr) -> OsString {
    let bytes = word.as_bytes();
    let is_plain = bytes
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(b));
    if !bytes.is_empty() && is_plain {
        return word.to_os_string();
    }
    let mut quoted = vec![b'\''];
    for &b in bytes {
        match b {
            b'\'' => quoted.extend(b"'\\''"),
            _ => quoted.push(b),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;

    fn account() -> UserAccount {
        UserAccount {
            name: "ann".into(),
            uid: 1,
            gid: 1,
            home: "/h".into(),
            shell: "/bin/zsh".into(),
        }
    }

    fn arguments(launch: &Launch) -> Vec<String> {
        arguments_with(launch, None)
    }

    fn arguments_with(launch: &Launch, commands: Option<&Path>) -> Vec<String> {
        let program = of(launch, &account(), "n1", Path::new("/s p/script"), commands).unwrap();
        program
            .arguments
            .iter()
            .map(|word| word.to_str().unwrap().to_string())
            .collect()
    }

    #[test]
    fn the_login_shell_is_replaced_by_the_interpreter() {
        let mut launch = launch();
        launch.payload = Payload::Script(b"#!/usr/bin/env python3 -u\nprint()\n".to_vec());
        launch.login = true;
        assert_eq!(
            arguments(&launch),
            ["-zsh", "-c", "exec /usr/bin/env 'python3 -u' '/s p/script'"]
        );
        launch.login = false;
        assert_eq!(
            arguments(&launch),
            ["/usr/bin/env", "python3 -u", "/s p/script"]
        );
        launch.arguments = "a b\0\0-x\0".into();
        assert_eq!(arguments(&launch)[3..], ["a b", "", "-x"]);
    }

    #[test]
    fn the_directory_of_commands_is_appended_to_the_path_after_the_profile() {
        let commands = Some(Path::new("/opt/my lanai/bin"));
        let env = "exec /usr/bin/env PATH=\"$PATH\":'/opt/my lanai/bin'";
        let mut launch = launch();
        launch.payload = Payload::Script(b"#!/bin/sh\n".to_vec());
        launch.login = true;
        let line = format!("{env} /bin/sh '/s p/script'");
        assert_eq!(arguments_with(&launch, commands), ["-zsh", "-c", &line]);
        launch.interactive = true;
        let line = format!("{env} /bin/zsh");
        assert_eq!(arguments_with(&launch, commands), ["-zsh", "-c", &line]);
        launch.shell = Some("/usr/bin/python3".into());
        assert_eq!(
            arguments_with(&launch, commands),
            ["-python3"],
            "python3 is not a known shell"
        );
        launch.login = false;
        assert_eq!(arguments_with(&launch, commands), ["/usr/bin/python3"]);
    }

    #[test]
    fn the_interpreter_comes_from_the_request_the_script_or_the_account() {
        let mut launch = launch();
        launch.login = false;
        launch.payload = Payload::Script(b"echo\n".to_vec());
        assert_eq!(arguments(&launch)[0], "/bin/zsh");
        launch.payload = Payload::Script(b"#! /bin/sh\necho\n".to_vec());
        assert_eq!(arguments(&launch)[0], "/bin/sh");
        for (list, expected) in [
            ("/bin/a", "/bin/a"),
            ("/bin/b@n2,/bin/c", "/bin/c"),
            ("/bin/a,/bin/b@n1.some.where", "/bin/b"),
            ("/bin/b@n2", "/bin/sh"),
        ] {
            launch.shell = Some(list.into());
            assert_eq!(arguments(&launch)[0], expected, "{list}");
        }
    }

    #[test]
    fn an_interactive_job_ignores_the_interpreter_of_its_script() {
        let mut launch = launch();
        launch.payload = Payload::Script(b"#!/bin/cat\necho\n".to_vec());
        (launch.interactive, launch.login) = (true, false);
        assert_eq!(arguments(&launch), ["/bin/zsh"]);
        launch.login = true;
        assert_eq!(arguments(&launch), ["-zsh"]);
        launch.shell = Some("/bin/bash".into());
        assert_eq!(arguments(&launch), ["-bash"]);
        launch.payload = Payload::Command(vec!["top".into()]);
        assert_eq!(arguments(&launch), ["top"]);
    }

    #[test]
    fn a_command_is_run_unchanged() {
        let mut launch = launch();
        launch.payload = Payload::Command(vec!["echo".into(), "a b".into(), "".into()]);
        assert_eq!(arguments(&launch), ["echo", "a b", ""]);
    }

    #[test]
    fn each_shell_replaces_itself_with_a_program_that_has_the_extended_path() {
        let folder = Path::new("/no such/bin");
        let words = ["/bin/sh", "-c", "echo \"$PATH\""].map(OsString::from);
        let line = exec_line(&words, Some(folder));
        for shell in SHELLS
            .map(|name| Path::new("/bin").join(name))
            .iter()
            .filter(|shell| shell.exists())
        {
            #[allow(clippy::disallowed_methods, reason = "runs a real shell")]
            let mut command = std::process::Command::new(shell);
            let output = command
                .arg("-c")
                .arg(&line)
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .output()
                .unwrap();
            let path = String::from_utf8(output.stdout).unwrap();
            assert!(
                path.starts_with("/usr/bin:/bin:/no such/bin"),
                "{shell:?}: {path}"
            );
        }
    }

    #[test]
    fn a_shell_reads_a_quoted_word_unchanged() {
        use std::os::unix::process::CommandExt;
        for word in [
            "plain",
            "",
            "a b",
            "it's",
            "$HOME `x` \"y\" \\ !*",
            "new\nline",
        ] {
            let mut line = OsString::from("printf %s ");
            line.push(quoted(OsStr::new(word)));
            #[allow(clippy::disallowed_methods, reason = "runs a real shell")]
            let output = std::process::Command::new("/bin/sh")
                .arg0("sh")
                .arg("-c")
                .arg(line)
                .output()
                .unwrap();
            assert_eq!(output.stdout, word.as_bytes(), "{word}");
        }
    }
}
