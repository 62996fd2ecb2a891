//! The forty checks of the contract with PBS's commands, and ten additional ones, by number: exact
//! output on each stream and exit status. Comments name the decisions that differ from PBS.
//!
//! Most checks do not affect each other, so checks that run at the same time share a sandbox.

mod additional;
mod jobs;
mod listings;
mod refusals;

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A server `head` with one node of 4 processors and 8gb, regardless of the machine.
const HEAD: &str = r#"
[server]
name = "head"
refuse_impossible = false
[launch]
grace = "1s"
login = false
[[node]]
name = "HOST"
ncpus = 4
mem = "8gb"
"#;

/// A sandbox that is shared as long as a test uses it.
type Slot = Mutex<Weak<Sandbox>>;

/// A shared server `head` that runs submitted jobs.
fn busy() -> Arc<Sandbox> {
    static SLOT: Slot = Mutex::new(Weak::new());
    shared(&SLOT, "")
}

/// A shared server `head` without scheduling: submitted jobs stay queued.
fn quiet() -> Arc<Sandbox> {
    static SLOT: Slot = Mutex::new(Weak::new());
    shared(&SLOT, "[cycle]\nscheduling = false\n")
}

fn shared(slot: &Slot, more: &str) -> Arc<Sandbox> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    slot.upgrade().unwrap_or_else(|| {
        let sandbox = Arc::new(alone(more));
        *slot = Arc::downgrade(&sandbox);
        sandbox
    })
}

/// A server `head` for one test, with additional configuration.
fn alone(more: &str) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("{}{more}", HEAD.replace("HOST", &host())));
    sandbox.script("job.sh", "sleep 60");
    sandbox.run("schedd", &[]).ok();
    sandbox
}

/// Short name of the host, as in node names.
fn host() -> String {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    name.split('.').next().unwrap().to_string()
}

/// Runs a shell command and asserts its exit status and complete output. Hints may follow an error
/// message of PBS (decision 21).
#[track_caller]
fn assert_prints(sandbox: &Sandbox, line: &str, code: i32, out: &str, err: &str) {
    let done = sandbox.shell(line);
    let shown = if err.is_empty() {
        done.err.as_str()
    } else {
        before_hints(line, &done.err, err)
    };
    assert_eq!(
        (done.code, done.out.as_str(), shown),
        (code, out, err),
        "{line}"
    );
}

/// The start of an error output, up to the end of `message`, if only hints follow: lines that begin
/// with the name of the program. Otherwise the complete output.
fn before_hints<'a>(line: &str, output: &'a str, message: &str) -> &'a str {
    let hint = format!("{}: ", line.split(' ').next().unwrap());
    match output.strip_prefix(message) {
        Some(rest) if rest.lines().all(|line| line.starts_with(&hint)) => &output[..message.len()],
        _ => output,
    }
}

/// Like [`assert_prints`], for a refusal that is followed by the usage.
#[track_caller]
fn assert_usage_error(sandbox: &Sandbox, line: &str, code: i32, err: &str) {
    let program = line.split(' ').next().unwrap();
    let done = sandbox.shell(line);
    let rest = done
        .err
        .strip_prefix(err)
        .unwrap_or_else(|| panic!("{line}: {done:?}"));
    let usage = rest.find("usage: ").unwrap_or_default();
    assert_eq!(
        before_hints(line, &rest[..usage], ""),
        "",
        "{line}: {done:?}"
    );
    let usage = &rest[usage..];
    assert_eq!((done.code, done.out.as_str()), (code, ""), "{line}");
    assert!(
        usage.starts_with(&format!("usage: {program} [")),
        "{line}: {usage:?}"
    );
    assert!(
        usage.ends_with(&format!("\n       {program} --version\n")),
        "{line}: {usage:?}"
    );
}

/// Submits `job.sh` with these options; returns the id.
#[track_caller]
fn submitted(sandbox: &Sandbox, options: &str) -> String {
    sandbox.shell(&format!("qsub {options} job.sh")).line()
}

/// Submits a long job and waits until it runs.
#[track_caller]
fn running(sandbox: &Sandbox, options: &str) -> String {
    let id = submitted(sandbox, options);
    sandbox.running(&id);
    id
}

/// Runs a job until it has finished.
#[track_caller]
fn finished(sandbox: &Sandbox) -> String {
    let id = sandbox.submit(&["-N", "over"], "true\n");
    sandbox.ended(&id);
    id
}

/// Line of an attribute in `qstat -f`, without its indentation.
fn shown(sandbox: &Sandbox, id: &str, attribute: &str) -> String {
    let full = sandbox.run("qstat", &["-x", "-f", "-w", id]).ok();
    let line = full
        .lines()
        .find(|line| line.trim_start().starts_with(&format!("{attribute} = ")));
    line.unwrap_or_else(|| panic!("no {attribute}: {full}"))
        .trim_start()
        .to_string()
}

/// Waits until the job's comment starts with this text; returns the comment.
#[track_caller]
fn comment(sandbox: &Sandbox, id: &str, begin: &str) -> String {
    let matching = |job: Value| {
        job["comment"]
            .as_str()
            .filter(|comment| comment.starts_with(begin))
            .map(str::to_string)
    };
    sandbox.until(&format!("a comment {begin:?} of {id}"), || {
        matching(sandbox.job(id))
    })
}

/// Replaces numbers with nine or more digits, which are times in seconds, by `<EPOCH>`.
fn without_times(text: &str) -> String {
    let mut rest = text;
    let mut result = String::new();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[at..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - at);
        result += &rest[..at];
        result += if length < 9 {
            &rest[at..at + length]
        } else {
            "<EPOCH>"
        };
        rest = &rest[at + length..];
    }
    result + rest
}
