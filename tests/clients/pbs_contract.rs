//! The forty checks of the contract with PBS's commands, and ten more, each by its number: what a
//! command says on which stream, to the byte, and its exit status. Where a decision of Lanai's
//! stands above PBS, the name says so.
//!
//! Most checks leave others alone, so those that are made at the same time share a sandbox.

mod additional;
mod jobs;
mod listings;
mod refusals;

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A server `head` with one node of 4 processors and 8gb, whatever the machine has.
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

/// Where a sandbox is found as long as some test uses it.
type Place = Mutex<Weak<Sandbox>>;

/// A server `head` that runs what is submitted.
fn busy() -> Arc<Sandbox> {
    static PLACE: Place = Mutex::new(Weak::new());
    shared(&PLACE, "")
}

/// The same where nothing starts: what is submitted waits.
fn quiet() -> Arc<Sandbox> {
    static PLACE: Place = Mutex::new(Weak::new());
    shared(&PLACE, "[cycle]\nscheduling = false\n")
}

fn shared(place: &Place, more: &str) -> Arc<Sandbox> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    place.upgrade().unwrap_or_else(|| {
        let sandbox = Arc::new(alone(more));
        *place = Arc::downgrade(&sandbox);
        sandbox
    })
}

/// A server `head` for one test alone, with more in its configuration.
fn alone(more: &str) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("{}{more}", HEAD.replace("HOST", &host())));
    sandbox.script("job.sh", "sleep 60");
    sandbox.run("schedd", &[]).ok();
    sandbox
}

/// What the machine is called in names of nodes.
fn host() -> String {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    name.split('.').next().unwrap().to_string()
}

/// Runs a line of shell, which says this and no more.
#[track_caller]
fn says(sandbox: &Sandbox, line: &str, code: i32, out: &str, err: &str) {
    let done = sandbox.shell(line);
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (code, out, err),
        "{line}"
    );
}

/// The same of a refusal after which the usage follows.
#[track_caller]
fn says_with_usage(sandbox: &Sandbox, line: &str, code: i32, err: &str) {
    let program = line.split(' ').next().unwrap();
    let done = sandbox.shell(line);
    let usage = done
        .err
        .strip_prefix(err)
        .unwrap_or_else(|| panic!("{line}: {done:?}"));
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

/// Submits `job.sh` with these options; its id.
#[track_caller]
fn submitted(sandbox: &Sandbox, options: &str) -> String {
    sandbox.shell(&format!("qsub {options} job.sh")).line()
}

/// A job that runs and does so for a while.
#[track_caller]
fn running(sandbox: &Sandbox, options: &str) -> String {
    let id = submitted(sandbox, options);
    sandbox.running(&id);
    id
}

/// A job that is over.
#[track_caller]
fn finished(sandbox: &Sandbox) -> String {
    let id = sandbox.submit(&["-N", "over"], "true\n");
    sandbox.ended(&id);
    id
}

/// One line of `qstat -f`, without its indentation.
fn shown(sandbox: &Sandbox, id: &str, attribute: &str) -> String {
    let full = sandbox.run("qstat", &["-x", "-f", "-w", id]).ok();
    let line = full
        .lines()
        .find(|line| line.trim_start().starts_with(&format!("{attribute} = ")));
    line.unwrap_or_else(|| panic!("no {attribute}: {full}"))
        .trim_start()
        .to_string()
}

/// The attribute of a job, waited for until it says something that begins so.
#[track_caller]
fn comment(sandbox: &Sandbox, id: &str, begin: &str) -> String {
    let told = |job: Value| {
        job["comment"]
            .as_str()
            .filter(|comment| comment.starts_with(begin))
            .map(str::to_string)
    };
    sandbox.until(&format!("{begin:?} of {id}"), || told(sandbox.job(id)))
}

/// A text with each run of at least nine digits replaced: moments, in seconds.
fn timeless(text: &str) -> String {
    let mut rest = text;
    let mut said = String::new();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[at..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - at);
        said += &rest[..at];
        said += if length < 9 {
            &rest[at..at + length]
        } else {
            "<EPOCH>"
        };
        rest = &rest[at + length..];
    }
    said + rest
}
