//! Lanai's commands are found inside jobs, whatever their directory and the login profile.

use crate::support::sandbox::{Sandbox, bin};
use crate::support::terminal::Terminal;

/// A sandbox without a `PATH` entry for Lanai. Login shells read the user's profile.
fn without_path(login: bool) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("[launch]\nlogin = {login}\n"));
    sandbox.with("PATH", "/usr/local/bin:/usr/bin:/bin")
}

fn path_of(command: &str) -> String {
    bin(command).display().to_string()
}

const SCRIPT: &str = "command -v qsub; pbsdsh -n 0 -- /bin/sh -c 'command -v pbsdsh'";

#[test]
fn a_script_and_its_tasks_find_the_commands() {
    for login in [true, false] {
        let sandbox = without_path(login);
        for arguments in [&["-S", "/bin/sh"][..], &["-V"]] {
            let arguments = [arguments, &["-j", "oe", "-o", "out"]].concat();
            let id = sandbox.submit(&arguments, SCRIPT);
            let job = sandbox.ended(&id);
            let expected = format!("{}\n{}\n", path_of("qsub"), path_of("pbsdsh"));
            assert_eq!(
                sandbox.read("out"),
                expected,
                "login {login}, {arguments:?}: {job}"
            );
        }
    }
}

#[test]
fn a_command_without_a_script_finds_the_commands() {
    let sandbox = without_path(true);
    let id = sandbox
        .run("qsub", &["-o", "out", "--", "qstat", "--version"])
        .line();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
}

#[test]
fn programs_in_the_users_path_take_precedence() {
    let mut sandbox = without_path(false);
    let own = sandbox.script("qsub", "echo mine");
    let path = format!("{}:/usr/bin:/bin", sandbox.work().display());
    sandbox.set("PATH", path);
    let id = sandbox.submit(&["-V", "-o", "out"], "command -v qsub");
    sandbox.ended(&id);
    assert_eq!(sandbox.read("out"), format!("{}\n", own.display()));
}

#[test]
fn an_interactive_shell_finds_the_commands() {
    for login in [true, false] {
        let sandbox = without_path(login);
        let (mut terminal, _) = Terminal::at_shell(&sandbox, &[]);
        terminal.type_and_expect("command -v pbsdsh", &format!("{}\r\n", path_of("pbsdsh")));
        terminal.type_keys("exit\r");
    }
}
