//! Completion in real shells. A test is skipped if its shell is not installed.

use crate::support::root;
use crate::support::sandbox::Sandbox;
use crate::support::terminal::Terminal;
use std::process::Command;
use std::time::{Duration, Instant};

/// A sandbox with the running job 1, named `sim`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(1, 2);
    let id = sandbox
        .run("qsub", &["-N", "sim", "--", "sleep", "600"])
        .line();
    sandbox.running(&id);
    sandbox
}

/// The shell with the environment of the sandbox; None if it is not installed.
fn shell(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        eprintln!("skipped: {name} is not installed");
        return None;
    }
    let example = sandbox.command("qstat");
    let mut shell = Command::new(name);
    shell.args(arguments).current_dir(sandbox.work());
    for (variable, value) in example.get_envs() {
        if let Some(value) = value {
            shell.env(variable, value);
        }
    }
    Some(shell)
}

fn script(path: &str) -> String {
    root().join("completions").join(path).display().to_string()
}

/// Types a line that ends with TAB, waits for the completed line, and clears it.
fn complete(terminal: &mut Terminal, line: &str, completed: &str) {
    terminal.type_keys(&format!("{line}\t"));
    terminal.expect_text(completed);
    terminal.type_keys("\u{15}");
}

#[test]
fn bash_completes_ids_keys_and_values() {
    let sandbox = sandbox();
    let Some(bash) = shell(&sandbox, "bash", &["--norc", "--noprofile", "-i"]) else {
        return;
    };
    let mut terminal = Terminal::with(&bash);
    for name in ["qdel", "qsub", "qstat", "lanai"] {
        terminal.type_keys(&format!("source {}\r", script(&format!("bash/{name}"))));
    }
    terminal.type_and_expect("echo ready", "ready\r\n");
    complete(&mut terminal, "qdel ", "qdel 1 ");
    complete(&mut terminal, "qsub -q wo", "qsub -q workq ");
    complete(&mut terminal, "qsub -W dep", "qsub -W depend=");
    complete(&mut terminal, "qsub -l mem=1gb,ncp", "-l mem=1gb,ncpus=");
    complete(&mut terminal, "qstat -f -F js", "-F json ");
    complete(&mut terminal, "qstat --wh", "qstat --why ");
    complete(&mut terminal, "lanai hist", "lanai history ");
    complete(&mut terminal, "lanai list state=fai", "state=failed ");
    complete(&mut terminal, "lanai list name=s", "name=sim ");
    complete(&mut terminal, "lanai nodes drain ", "lanai nodes drain n ");
}

#[test]
fn zsh_completes_at_the_first_attempt() {
    let sandbox = sandbox();
    let Some(zsh) = shell(&sandbox, "zsh", &["-f", "-i"]) else {
        return;
    };
    let mut terminal = Terminal::with(&zsh);
    let folder = script("zsh");
    terminal.type_keys(&format!("fpath=({folder} $fpath); autoload -Uz compinit\r"));
    terminal.type_and_expect("compinit -u -D; echo ready", "ready\r\n");
    complete(&mut terminal, "qdel ", "qdel 1");
    complete(&mut terminal, "lanai list state=fai", "state=failed");
    complete(&mut terminal, "qsub -W dep", "depend=");
}

#[test]
fn fish_completes_with_explanations() {
    let sandbox = sandbox();
    let complete = |command: &str, line: &str| {
        let file = script(&format!("fish/{command}.fish"));
        let commands = format!("source {file}; complete -C '{line}'");
        let mut fish = shell(&sandbox, "fish", &["--no-config", "-c", &commands])?;
        Some(String::from_utf8(fish.output().unwrap().stdout).unwrap())
    };
    let Some(ids) = complete("qdel", "qdel ") else {
        return;
    };
    assert_eq!(ids, "1\tsim (R)\n");
    let states = complete("lanai", "lanai list state=fai").unwrap();
    assert!(states.contains("state=failed"), "{states}");
    let columns = complete("lanai", "lanai list -o id,end").unwrap();
    assert!(columns.contains("id,ended\ttime of the end"), "{columns}");
}

#[test]
fn completion_is_silent_without_a_server_and_starts_none() {
    let sandbox = Sandbox::new();
    let mut qdel = sandbox.command("qdel");
    qdel.env("_LANAI_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "1")
        .args(["--", "qdel", ""]);
    let output = qdel.output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sandbox.pid_of("schedd"), None);
}

/// Measures, and fails only if completion is slower than a person would accept.
#[test]
fn completion_lists_the_newest_jobs_of_many() {
    let sandbox = sandbox();
    let ids = sandbox
        .shell("for i in $(seq 300); do qsub -h -- true; done")
        .ok();
    assert_eq!(ids.lines().count(), 300);
    let started = Instant::now();
    let mut qdel = sandbox.command("qdel");
    qdel.env("_LANAI_COMPLETE", "fish").args(["--", "qdel", ""]);
    let output = qdel.output().unwrap();
    let elapsed = started.elapsed();
    let lines = String::from_utf8(output.stdout).unwrap().lines().count();
    eprintln!("{lines} candidates in {elapsed:?}");
    assert!(lines >= 200, "{lines}");
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}
