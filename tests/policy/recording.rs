//! Replaying a recorded live run gives byte-identical plans (M53, G6).

use crate::support::sandbox::Sandbox;
use std::path::Path;
use tempfile::TempDir;

fn recording(limit: &str) -> (TempDir, Sandbox) {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let sandbox = Sandbox::configured(&format!(
        "[server]\nrefuse_impossible = false\n[cycle]\nrecord = \"{}\"\nrecord_size = \"{limit}\"\n",
        record.display()
    ));
    (folder, sandbox)
}

/// A live run with various jobs, a hold, a deletion and a restart of schedd.
fn run_jobs(sandbox: &Sandbox) {
    let ids: Vec<String> = (0..6)
        .map(|n| sandbox.submit(&["-l", &format!("walltime={}", 60 + n)], "sleep 0.2"))
        .collect();
    let held = sandbox.submit(&["-h", "-l", "walltime=60"], "true");
    let array = sandbox.submit(&["-J", "1-4%2", "-l", "walltime=60"], "true");
    let never = sandbox.submit(&["-l", "select=1:ncpus=9999", "-l", "walltime=60"], "true");
    let next = sandbox.submit(
        &[
            "-W",
            &format!("depend=afterok:{}", ids[0]),
            "-l",
            "walltime=60",
        ],
        "true",
    );
    sandbox.run("qrls", &[&held]).ok();
    sandbox.ended(&ids[5]);
    sandbox.run("schedd", &["--stop"]).ok();
    let last = sandbox.submit(&["-l", "walltime=60"], "true");
    sandbox.run("qdel", &[&never]).ok();
    for id in [&held, &array, &next, &last] {
        sandbox.ended(id);
    }
    sandbox.run("schedd", &["--stop"]).ok();
}

fn check(sandbox: &Sandbox, record: &Path) -> (i32, String, String) {
    let done = sandbox.run("qsim", &["check", "--recorded", record.to_str().unwrap()]);
    (done.code, done.out, done.err)
}

#[test]
fn replaying_a_recording_gives_identical_plans() {
    let (folder, sandbox) = recording("64mb");
    run_jobs(&sandbox);
    let record = folder.path().join("record");
    let (code, out, err) = check(&sandbox, &record);
    assert_eq!(code, 0, "{out}{err}");
    let cycles: usize = out.split(' ').next().unwrap().parse().unwrap();
    assert!(cycles > 6 && out.ends_with("cycles, identical\n"), "{out}");
    let text = std::fs::read_to_string(&record).unwrap();
    assert_eq!(
        text.matches("{\"begin\":").count(),
        2,
        "each start of schedd must begin a new part"
    );

    let altered = text.replacen(
        "walltime\":{\"Time\":62000",
        "walltime\":{\"Time\":69000",
        1,
    );
    assert_ne!(altered, text);
    std::fs::write(&record, altered).unwrap();
    let (code, out, err) = check(&sandbox, &record);
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        out.contains("differs") && out.contains("recorded") && out.contains("decided now"),
        "{out}"
    );
}

#[test]
fn a_recording_ends_at_its_size_limit() {
    let (folder, sandbox) = recording("8kb");
    run_jobs(&sandbox);
    let record = folder.path().join("record");
    let size = std::fs::metadata(&record).unwrap().len();
    assert!((4096..=8192).contains(&size), "{size}");
    let (code, out, err) = check(&sandbox, &record);
    assert!(
        code == 0 && out.contains("the recording stopped at its maximum size")
            || err.contains("the recording has no cycles"),
        "{out}{err}"
    );
}

#[test]
fn an_unwritable_recording_file_blocks_no_job() {
    let sandbox = Sandbox::configured("[cycle]\nrecord = \"/nosuch/folder/record\"\n");
    let id = sandbox.submit(&[], "true");
    sandbox.ended(&id);
    assert!(
        sandbox
            .log()
            .contains("/nosuch/folder/record: cannot record"),
        "{}",
        sandbox.log()
    );
}
