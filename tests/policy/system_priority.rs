//! `qalter --system-priority`: only operators can put a job before all others (M11).

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;

/// Options of a job that has its node exclusively.
const ALONE: &[&str] = &[
    "-l",
    "select=1:ncpus=1",
    "-l",
    "place=excl",
    "-l",
    "walltime=60",
];

#[test]
fn a_job_with_a_system_priority_starts_before_earlier_jobs() {
    let sandbox = Sandbox::configured("[order]\nby = \"components\"\n");
    let first = sandbox.submit(ALONE, "while [ ! -e go ]; do sleep 0.05; done\n");
    sandbox.running(&first);
    let [early, late] =
        ["early", "late"].map(|name| sandbox.submit(ALONE, &format!("echo {name} >> order\n")));
    sandbox.run("qalter", &["--system-priority=5", &late]).ok();
    assert_eq!(sandbox.job(&late)["system_priority"], 5);
    let wrong = sandbox.run("qalter", &["--system-priority=-1", &early]);
    assert!(
        wrong.code == 2
            && wrong
                .err
                .contains("--system-priority must be 0 to 1000000 or none, not -1"),
        "{wrong:?}"
    );
    std::fs::write(sandbox.file("go"), "").unwrap();
    [&early, &late]
        .into_iter()
        .for_each(|id| drop(sandbox.ended(id)));
    assert_eq!(sandbox.read("order"), "late\nearly\n");
}

#[test]
fn only_an_operator_sets_and_clears_a_system_priority() {
    let Some([ann, bob]) = two_users("system") else {
        return;
    };
    let sandbox = shared(&format!("operators = [\"{}\"]\n", bob.name));
    let id = ann.submit(&sandbox, &["-h"], "true\n");
    let refused = ann.run(&sandbox, "qalter", &["--system-priority=5", &id]);
    assert!(
        refused.code != 0 && refused.err.contains("read only or insufficient permission"),
        "{refused:?}"
    );
    bob.run(&sandbox, "qalter", &["--system-priority=5", &id])
        .ok();
    assert_eq!(sandbox.job(&id)["system_priority"], 5);
    bob.run(&sandbox, "qalter", &["--system-priority=none", &id])
        .ok();
    assert!(sandbox.job(&id)["system_priority"].is_null());
}
