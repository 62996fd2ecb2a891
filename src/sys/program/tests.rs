//! Tests of programs and pools.

use super::*;
use crate::sys::procfs;
use std::time::Duration;

const SOON: Span = Span(200);
const LONG: Span = Span::seconds(60);

fn words(script: &str) -> [String; 3] {
    ["/bin/sh", "-c", script].map(String::from)
}

/// Starts a program with [`Surroundings::Own`].
fn isolated(script: &str, input: &[u8], timeout: Span) -> RunningProgram {
    let words = words(script);
    let call = ProgramCall {
        input,
        surroundings: Surroundings::Own(&[("X", "y")]),
        ..ProgramCall::new(&words, timeout)
    };
    call.start(clock::monotonic()).unwrap()
}

fn in_mode(output: OutputMode, script: &str, timeout: Span) -> RunningProgram {
    let words = words(script);
    let call = ProgramCall {
        input: b"question",
        output,
        ..ProgramCall::new(&words, timeout)
    };
    call.start(clock::monotonic()).unwrap()
}

fn exit(status: i32, text: &str) -> HookExit {
    HookExit {
        status: Some(status),
        text: text.into(),
    }
}

fn output_of(mut program: RunningProgram) -> String {
    program.wait().exit.unwrap().text
}

fn ends_soon(pid: i32) -> bool {
    for _ in 0..400 {
        if procfs::process(pid).is_none_or(|process| !process.lives()) {
            return true;
        }
        clock::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn the_result_has_the_exit_status_and_all_output() {
    let script = "read a; echo \"$a $X ${HOME-none} $(pwd)\"; exit 3";
    let result = isolated(script, b"input\n", LONG).wait();
    assert_eq!(result.exit.unwrap(), exit(3, "input y none /\n"));
    let long = "i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done";
    let text = output_of(isolated(long, b"", LONG));
    assert_eq!(text.len(), 200_000, "more than a pipe holds");
    let killed = isolated("exec >&-; sleep 0.05; kill -9 $$", b"", LONG).wait();
    assert_eq!(killed.exit.unwrap().status, None);
}

#[test]
fn a_program_with_output_over_the_limit_is_killed() {
    for output in [OutputMode::UntilExit, OutputMode::UntilClosed] {
        let mut program = in_mode(output, "yes", LONG);
        let fault = program.wait().exit.unwrap_err();
        assert!(fault.to_string().contains("exceeds 1 MiB"), "{fault}");
        program.wait_until_gone(LONG);
        assert!(program.is_gone());
    }
}

#[test]
fn a_program_that_exceeds_its_time_limit_is_killed_with_its_children() {
    for output in [
        OutputMode::UntilExit,
        OutputMode::UntilClosed,
        OutputMode::Discarded,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! >{}; trap '' TERM; wait", file.display());
        let mut program = in_mode(output, &script, SOON);
        let result = program.wait();
        assert!(
            matches!(result.exit, Err(ProgramFault::Late(SOON))),
            "{result:?}"
        );
        program.wait_until_gone(LONG);
        let child = std::fs::read_to_string(file).unwrap();
        assert!(ends_soon(child.trim().parse().unwrap()));
    }
}

#[test]
fn processes_left_running_are_killed_only_with_own_surroundings() {
    let script = "sleep 60 >/dev/null & echo $!";
    let left = output_of(isolated(script, b"", LONG));
    assert!(ends_soon(left.trim().parse().unwrap()));
    let left = output_of(in_mode(OutputMode::UntilExit, script, LONG));
    let left: i32 = left.trim().parse().unwrap();
    assert!(procfs::process(left).is_some_and(|process| process.lives()));
    process::end(left);
}

#[test]
fn a_process_left_running_with_the_output_open_does_not_delay_the_result() {
    let program = in_mode(OutputMode::UntilExit, "(sleep 20 &) ; echo yes", LONG);
    assert_eq!(output_of(program), "yes\n");
}

#[test]
fn in_mode_until_closed_a_program_that_closes_its_output_is_killed() {
    let script = "echo one; sleep 0.05; echo two; exec >&-; sleep 60";
    let mut program = in_mode(OutputMode::UntilClosed, script, LONG);
    assert_eq!(program.wait().exit.unwrap().text, "one\ntwo\n");
    program.wait_until_gone(LONG);
    assert_eq!(
        program.end(),
        Some(ProcessEnd::Signaled(9)),
        "the program was killed"
    );
}

#[test]
fn only_standard_descriptors_are_inherited() {
    use std::os::fd::AsRawFd;
    // exec does not close a descriptor of `dup`, unlike descriptors of the standard library.
    let open = nix::unistd::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    let script = format!("[ -e /proc/$$/fd/{} ]; echo $?", open.as_raw_fd());
    assert_eq!(output_of(isolated(&script, b"", LONG)), "1\n");
}

#[test]
fn the_last_line_of_the_standard_error_is_appended_to_a_failure() {
    let mut program = isolated("echo one >&2; echo two >&2; exit 1", b"", LONG);
    let blame = program.wait().blame("it failed".into());
    assert_eq!(blame, "it failed; standard error: two");
    let silent = isolated("true", b"", LONG).wait();
    assert_eq!(silent.blame("it failed".into()), "it failed");
    let flood = "head -c 1000000 /dev/zero | tr '\\0' x >&2; true";
    let complaint = isolated(flood, b"", LONG).wait().complaint;
    assert_eq!(complaint.map(|text| text.len()), Some(complaints::MAX_LINE));
}

#[test]
fn a_killed_program_has_no_status() {
    let mut program = isolated("trap '' TERM; sleep 60", b"", LONG);
    program.kill();
    let exit = program.wait().exit.unwrap();
    assert_eq!((exit.status, exit.text.as_str()), (None, ""));
}

#[test]
fn a_pool_limits_all_programs_and_the_programs_of_each_user() {
    let mut pool = ProgramPool::with_user_limit(3, 2);
    let sleeper = || in_mode(OutputMode::UntilExit, "sleep 60", LONG);
    pool.add("a", Some(1), sleeper());
    pool.add("b", Some(1), sleeper());
    assert!(!pool.has_room_for(Some(1)) && pool.has_room_for(Some(2)) && pool.has_room_for(None));
    pool.add("c", None, in_mode(OutputMode::UntilExit, "sleep 60", SOON));
    assert!(!pool.has_room() && !pool.has_room_for(None));
    let next = pool.next().unwrap();
    assert!(next <= clock::monotonic() + SOON, "the first time limit");
    let late = pool.finished(next);
    assert!(matches!(&late[..], [("c", result)] if result.exit.is_err()));
    pool.stop(|task| *task == "a");
    assert_eq!(pool.tasks().collect::<Vec<_>>(), [&"b"]);
    pool.stop(|_| true);
    while !pool.is_empty() {
        assert_eq!(pool.finished(clock::monotonic()).len(), 0);
        clock::sleep(Duration::from_millis(5));
    }
}
