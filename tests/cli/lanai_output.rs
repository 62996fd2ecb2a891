//! The subcommands of `lanai` that submit jobs, show their output and wait for them.

use crate::support::sandbox::Sandbox;
use crate::support::terminal::Terminal;
use std::process::{Child, Stdio};
use std::time::Duration;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(1, 2);
    sandbox
}

/// Starts a program, and collects its output.
fn start(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command("lanai");
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The exit status and the output of a program.
fn end(child: Child) -> (i32, String, String) {
    use std::os::unix::process::ExitStatusExt;
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    let code = code.unwrap_or_else(|| 1000 + output.status.signal().unwrap_or(0));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn run_shows_both_streams_and_exits_like_the_job() {
    let sandbox = sandbox();
    let line = "echo out; echo err >&2; exit 7";
    let (code, out, err) = end(start(&sandbox, &["run", "sh", "-c", line]));
    assert_eq!((code, &*out, &*err), (7, "out\n", "err\n"));
    let (code, out, _) = end(start(&sandbox, &["run", "-j", "oe", "echo a; echo b >&2"]));
    assert_eq!((code, &*out), (0, "a\nb\n"));
    let (code, _, _) = end(start(&sandbox, &["run", "sh", "-c", "kill -9 $$"]));
    assert_eq!(code, 128 + 9);
    let limited = ["run", "-l", "walltime=1", "sleep", "60"];
    let (code, _, err) = end(start(&sandbox, &limited));
    assert_eq!(code, 125, "{err}");
    assert!(err.contains("exceeded walltime"), "{err}");
}

#[test]
fn without_a_terminal_sigint_cancels_and_sigterm_detaches() {
    let sandbox = sandbox();
    let interrupted = start(&sandbox, &["run", "-N", "one", "sleep", "600"]);
    let id = sandbox.until("the job runs", || {
        let ids = sandbox.run("qselect", &["-N", "one", "-s", "R"]).ok();
        ids.lines().next().map(String::from)
    });
    crate::support::sandbox::kill(interrupted.id() as i32, 2);
    let (code, _, err) = end(interrupted);
    assert!(err.contains("canceling job"), "{err}");
    assert_eq!(code, 143, "{err}");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);

    let detached = start(&sandbox, &["run", "-N", "two", "sleep", "600"]);
    let id = sandbox.until("the job runs", || {
        let ids = sandbox.run("qselect", &["-N", "two", "-s", "R"]).ok();
        ids.lines().next().map(String::from)
    });
    crate::support::sandbox::kill(detached.id() as i32, 15);
    let (code, _, err) = end(detached);
    assert_eq!(code, 143);
    assert!(err.contains("lanai log -f"), "{err}");
    assert_eq!(sandbox.state(&id), "R");
}

#[test]
fn on_a_terminal_ctrl_c_asks() {
    let sandbox = sandbox();
    let mut terminal = Terminal::runs(&sandbox, "lanai", &["run", "-N", "job", "sleep", "600"]);
    terminal.expect_text("lanai: submitted job ");
    sandbox.until("the job runs", || {
        let ids = sandbox.run("qselect", &["-N", "job", "-s", "R"]).ok();
        ids.lines().next().map(String::from)
    });
    terminal.type_keys("\u{3}");
    terminal.expect_text("Enter to continue?");
    terminal.type_keys("\r");
    // Ctrl-C discards the input that the program has not read yet.
    std::thread::sleep(Duration::from_millis(500));
    terminal.type_keys("\u{3}");
    terminal.expect_text("Enter to continue?");
    terminal.type_keys("d\r");
    terminal.expect_text("lanai log -f ");
}

#[test]
fn log_follows_from_before_the_start_to_the_end() {
    let sandbox = sandbox();
    let line = "for i in 1 2 3; do echo line $i; sleep 0.3; done";
    let id = sandbox
        .run("qsub", &["-h", "-N", "steps", "--", "sh", "-c", line])
        .line();
    let following = start(&sandbox, &["log", "-f", "steps"]);
    std::thread::sleep(Duration::from_millis(300));
    sandbox.run("qrls", &[&id]).ok();
    let (code, out, err) = end(following);
    assert_eq!((code, &*out, &*err), (0, "line 1\nline 2\nline 3\n", ""));
    assert_eq!(sandbox.run("lanai", &["log", &id]).ok(), out);
    assert_eq!(
        sandbox.run("lanai", &["log", "-n", "1", &id]).ok(),
        "line 3\n"
    );
}

#[test]
fn log_reads_joined_named_and_array_output() {
    let sandbox = sandbox();
    let joined = [
        "-j",
        "oe",
        "-o",
        "out/",
        "--",
        "sh",
        "-c",
        "echo a; echo b >&2",
    ];
    std::fs::create_dir(sandbox.file("out")).unwrap();
    let id = sandbox.run("qsub", &joined).line();
    sandbox.ended(&id);
    assert_eq!(sandbox.run("lanai", &["log", &id]).ok(), "a\nb\n");
    assert_eq!(sandbox.run("lanai", &["log", "-e", &id]).ok(), "a\nb\n");
    let array = ["-J", "1-2", "--", "sh", "-c", "echo $PBS_ARRAY_INDEX"];
    let id = sandbox.run("qsub", &array).line();
    sandbox.ended(&id);
    let number = id.split('[').next().unwrap();
    let text = sandbox.run("lanai", &["log", &id]).ok();
    assert_eq!(
        text,
        format!("==> {number}[1] <==\n1\n==> {number}[2] <==\n2\n")
    );
    let held = sandbox.run("qsub", &["-h", "--", "true"]).line();
    let done = sandbox.run("lanai", &["log", &held]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("has not started"), "{}", done.err);
    let done = sandbox.run("lanai", &["log", "nosuch"]);
    assert!(
        done.err.contains("no job with the name nosuch"),
        "{}",
        done.err
    );
}

#[test]
fn the_exit_status_of_wait_names_the_worst_end() {
    let sandbox = sandbox();
    let submit = |arguments: &[&str]| sandbox.run("qsub", arguments).line();
    let good = submit(&["--", "true"]);
    let bad = submit(&["--", "false"]);
    let wait = |arguments: &[&str]| sandbox.run("lanai", &[&["wait"], arguments].concat());
    assert_eq!(wait(&[&good]).code, 0);
    let done = wait(&[&good, &bad]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("exit 1"), "{}", done.err);
    let deleted = submit(&["-h", "--", "true"]);
    sandbox.run("qdel", &[&deleted]).ok();
    assert_eq!(wait(&[&good, &deleted]).code, 3);
    let slow = submit(&["-N", "slow", "--", "sleep", "600"]);
    assert_eq!(wait(&["--timeout", "300ms", &slow]).code, 124);
    assert_eq!(wait(&["--any", &slow, &good]).code, 0);
    assert_eq!(wait(&["9999"]).code, 153);
    let waiting = start(&sandbox, &["wait", "name=slow"]);
    sandbox.run("qdel", &[&slow]).ok();
    assert_eq!(end(waiting).0, 3);
}

#[test]
fn submit_takes_commands_shell_lines_and_scripts() {
    let sandbox = sandbox();
    sandbox.script("work.sh", "#PBS -N named\necho from a script");
    let name = |id: &str| sandbox.ended(id)["Job_Name"].clone();
    let id = sandbox.run("lanai", &["submit", "echo", "-n", "x"]).line();
    assert_eq!(name(&id), "echo");
    let id = sandbox.run("lanai", &["submit", "work.sh"]).line();
    assert_eq!(name(&id), "named");
    let id = sandbox
        .run("lanai", &["submit", "-N", "mine", "echo a | tr a b"])
        .line();
    assert_eq!(name(&id), "mine");
    assert_eq!(sandbox.run("lanai", &["log", &id]).ok(), "b\n");
    let json = sandbox.run("lanai", &["--json", "submit", "true"]).ok();
    assert!(json.contains("\"kind\": \"submitted\""), "{json}");
}
