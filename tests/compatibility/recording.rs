//! `recording` was written by `[cycle] record` during a run with queued, held, dependent and
//! finished jobs, an array, a suspension, a reservation and changes by qmgr.

use super::old_file;
use crate::support::sandbox::Sandbox;

#[test]
fn an_old_recording_gives_the_recorded_decisions() {
    let sandbox = Sandbox::new();
    let recording = old_file("recording");
    let done = sandbox.run(
        "qsim",
        &["check", "--recorded", recording.to_str().unwrap()],
    );
    assert_eq!(done.ok(), "24 cycles, identical\n");
}
