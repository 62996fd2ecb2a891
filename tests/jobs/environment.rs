//! The environment of jobs: the environment of `qsub` or the owner's login environment.

use crate::support::sandbox::{Sandbox, refused};
use std::fs;

/// Script that prints the variables of these tests and whether a login shell has read the profile.
const SCRIPT: &str =
    "echo \"$PLAIN/$NAMED/$PBS_STRAY/$LANAI_STRAY/$HOME/$FROM_PROFILE\"; echo \"$PATH\"\n";

/// A sandbox with this configuration as it is, without the settings of other tests.
fn sandbox(config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    sandbox
        .with("PLAIN", "a b")
        .with("NAMED", "outer")
        .with("PBS_STRAY", "x")
        .with("LANAI_STRAY", "y")
}

/// The first line that a job with these options prints, without the home directory.
fn printed(sandbox: &Sandbox, options: &[&str]) -> String {
    let options = [options, &["-S", "/bin/sh", "-j", "oe", "-o", "out"]].concat();
    let id = sandbox.submit(&options, SCRIPT);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    let output = sandbox.read("out");
    let home = lanai::sys::user::own().home;
    let line = output.lines().next().unwrap();
    line.replace(&*home.to_string_lossy(), "HOME")
}

#[test]
fn a_personal_installation_starts_jobs_with_the_environment_of_qsub() {
    let sandbox = sandbox("");
    assert_eq!(printed(&sandbox, &[]), "a b/outer///HOME/");
    let path = sandbox.read("out").lines().nth(1).unwrap().to_string();
    let own = sandbox.command("qsub");
    let given = own.get_envs().find(|(name, _)| *name == "PATH").unwrap().1;
    assert_eq!(path, given.unwrap().to_string_lossy());
    assert_eq!(printed(&sandbox, &["-v", "NAMED=own"]), "a b/own///HOME/");
    let id = sandbox.submit(&["-h"], "true\n");
    let job = sandbox.job(&id);
    assert_eq!(job["environment"], "submission");
    assert_eq!(job["Variable_List"]["PLAIN"], "a b");
    assert!(job["Variable_List"]["PBS_STRAY"].is_null(), "{job}");
}

#[test]
fn the_login_environment_is_for_one_job_or_for_all() {
    let sandbox = sandbox("[launch]\nlogin = false\n");
    let login = ["-W", "environment=login"];
    assert_eq!(printed(&sandbox, &login), "////HOME/");
    assert_eq!(printed(&sandbox, &[]), "a b/outer///HOME/");
    let sandbox = self::sandbox("[launch]\nlogin = false\nenvironment = \"login\"\n");
    assert_eq!(printed(&sandbox, &[]), "////HOME/");
    let id = sandbox.submit(&["-h"], "true\n");
    assert!(sandbox.job(&id)["environment"].is_null());
    let submission = ["-W", "environment=submission"];
    assert_eq!(printed(&sandbox, &submission), "a b/outer///HOME/");
}

#[test]
fn an_unknown_environment_is_refused_and_no_job_changes_its_environment() {
    let sandbox = sandbox("");
    let text = "Illegal attribute or resource value environment: `shell` is no environment; write \
                login or submission";
    let done = sandbox.run("qsub", &["-W", "environment=shell", "--", "true"]);
    refused(done, 166, text);
    let id = sandbox.submit(&["-h"], "true\n");
    assert_ne!(
        sandbox
            .run("qalter", &["-W", "environment=login", &id])
            .code,
        0
    );
    assert_eq!(sandbox.job(&id)["environment"], "submission");
}
