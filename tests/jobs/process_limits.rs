//! Limits of a job that its processes could leave: files in shared memory, and many processes.

use crate::security::multi_user::shared;
use crate::support::people::people;
use crate::support::sandbox::Sandbox;
use std::path::Path;

/// A file in shared memory, gone at the end.
struct SharedFile(String);

impl SharedFile {
    fn new(test: &str) -> SharedFile {
        SharedFile(format!("/dev/shm/lanai-{test}-{}", std::process::id()))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn files_in_shared_memory_count_against_the_limit_on_memory() {
    let Some([ann]) = people("shm") else { return };
    let sandbox = shared("");
    let file = SharedFile::new("closed");
    let script = format!("head -c 300m /dev/zero > {}; sleep 30", file.0);
    let id = ann.submit(&sandbox, &["-l", "mem=50mb"], &script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -27, "{job}");
}

#[test]
fn files_that_a_job_has_open_count_though_its_owner_runs_other_processes() {
    let sandbox = Sandbox::new();
    let file = SharedFile::new("open");
    let script = format!("exec 9> {}; head -c 300m /dev/zero >&9; sleep 30", file.0);
    let id = sandbox.submit(&["-l", "mem=50mb"], &script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -27, "{job}");
}

#[test]
fn the_files_of_another_job_of_the_same_user_do_not_count() {
    let Some([ann]) = people("shmtwo") else {
        return;
    };
    let sandbox = shared("[[node]]\nname = \"n\"\nncpus = 2\n");
    let file = SharedFile::new("other");
    let go = ann.file("go");
    let patient = format!(
        "while ! [ -e {} ]; do sleep 0.1; done; sleep 3",
        go.display()
    );
    let patient = ann.submit(&sandbox, &["-l", "mem=50mb"], &patient);
    sandbox.running(&patient);
    let script = format!(
        "head -c 300m /dev/zero > {}; touch {}",
        file.0,
        go.display()
    );
    let other = ann.submit(&sandbox, &["-l", "mem=1gb"], &script);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    assert!(Path::new(&file.0).exists(), "it is not removed");
    let job = sandbox.ended(&patient);
    assert_eq!(job["Exit_status"], 0, "{job}");
}

#[test]
fn a_job_has_no_more_processes_than_it_may() {
    let sandbox = Sandbox::configured("[launch]\nmax_processes = 40\n");
    let few = sandbox.submit(&[], "for n in $(seq 20); do sleep 1 & done; wait");
    assert_eq!(sandbox.ended(&few)["Exit_status"], 0);
    let script = "for n in $(seq 100); do sleep 60 & done || exit 7; jobs -r | wc -l > count; wait";
    let many = sandbox.submit(&[], script);
    let job = sandbox.ended(&many);
    assert_ne!(job["Exit_status"], 0, "{job}");
}
