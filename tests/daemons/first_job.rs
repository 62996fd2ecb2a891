//! One job from `qsub` to its exit status, with real daemons.

use crate::support::sandbox::Sandbox;

#[test]
fn a_job_runs_from_qsub_to_its_exit_status() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-N", "light"], "echo $PBS_JOBID; pwd; exit 3\n");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 3, "{job}");
    let number = id.split('.').next().unwrap();
    let out = sandbox.read(&format!("light.o{number}"));
    assert_eq!(out, format!("{id}\n{}\n", sandbox.work().display()));
    assert_eq!(sandbox.read(&format!("light.e{number}")), "");
}

#[test]
fn a_waiting_qsub_ends_with_the_jobs_exit_status() {
    let sandbox = Sandbox::new();
    let done = sandbox.run_with_input("qsub", &["-W", "block=true"], "exit 7\n");
    assert_eq!(done.code, 7, "{done:?}");
}
