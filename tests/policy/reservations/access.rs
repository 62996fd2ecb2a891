//! Users, groups and nodes of a reservation.

use super::{ahead, processors, queue_of, result, sandbox, state, until_state};
use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;

#[test]
fn a_reservation_admits_its_users_and_refuses_others_with_a_reason() {
    let Some([ann, bob]) = two_users("resv") else {
        return;
    };
    let sandbox = shared("name = \"head\"\nresv_max_share = 1\n");
    let first = ann.submit(&sandbox, &[], "true");
    sandbox.ended(&first);
    let all = format!("select=1:ncpus={}", processors(&sandbox));
    let arguments = ["-I", "5", "-R", &ahead(3), "-D", "12", "-l", &all];
    let line = ann.run(&sandbox, "pbs_rsub", &arguments).line();
    let id = line
        .strip_suffix(" CONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    let denied = bob.run(&sandbox, "qsub", &["-q", queue_of(id), "--", "true"]);
    assert_eq!(
        result(&denied),
        (174, "", "qsub: Access to queue is denied")
    );
    let refused = bob.run(&sandbox, "pbs_rdel", &[id]);
    assert_eq!(
        result(&refused),
        (
            159,
            "",
            format!("pbs_rdel: Unauthorized Request  {id}").as_str()
        )
    );
    let own = ann.submit(&sandbox, &["-q", queue_of(id)], "sleep 100");
    let other = bob.submit(&sandbox, &["-l", "walltime=1:00:00"], "true");
    let reason = "Not Running: Job would conflict with reservation or top job";
    sandbox.until("the reason", || {
        bob.run(&sandbox, "qstat", &["-s", &other])
            .out
            .contains(reason)
            .then_some(())
    });
    let short = bob.submit(&sandbox, &["-l", "walltime=1"], "true");
    assert_eq!(
        sandbox.ended(&short)["Exit_status"],
        0,
        "a job that ends before the reservation must run"
    );
    sandbox.running(&own);
    assert_eq!(
        (sandbox.state(&other).as_str(), state(&sandbox, id).as_str()),
        ("Q", "RESV_RUNNING")
    );
    let output = bob.run(&sandbox, "qstat", &["-s", &other]).out;
    assert!(output.contains(reason), "{output}");
    assert_eq!(
        sandbox.ended(&own)["Exit_status"],
        271,
        "the job must end with the reservation"
    );
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "the node must be free again"
    );
    assert_eq!(state(&sandbox, id), "none");
}

#[test]
fn a_reservation_admits_the_users_in_its_list() {
    let Some([ann, bob]) = two_users("auth") else {
        return;
    };
    let sandbox = shared("name = \"head\"\n");
    sandbox.ended(&ann.submit(&sandbox, &[], "true"));
    let line = ann
        .run(
            &sandbox,
            "pbs_rsub",
            &["-I", "5", "-R", &ahead(0), "-D", "600", "-U", &bob.name],
        )
        .line();
    let id = line
        .strip_suffix(" CONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    let job = bob.submit(&sandbox, &["-q", queue_of(id)], "true");
    assert_eq!(sandbox.ended(&job)["Exit_status"], 0);
    ann.run(
        &sandbox,
        "pbs_ralter",
        &["-U", &format!("-{}", bob.name), id],
    )
    .ok();
    assert_eq!(
        bob.run(&sandbox, "qsub", &["-q", queue_of(id), "--", "true"])
            .code,
        174
    );
    assert_eq!(
        bob.run(
            &sandbox,
            "pbs_rsub",
            &["-R", &ahead(60), "-D", "60", "--hosts", "head"]
        )
        .code,
        159
    );
    let forced = ann.run(
        &sandbox,
        "pbs_ralter",
        &["-W", "force", "-l", "select=1:ncpus=9999", id],
    );
    assert_eq!(
        forced.code, 159,
        "only operators may force an overlapping reservation: {forced:?}"
    );
    ann.run(&sandbox, "pbs_rdel", &[id]).ok();
}

#[test]
fn maintenance_reserves_whole_hosts_for_its_queue() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let running = sandbox.submit(&[], "sleep 100\n");
    let host = sandbox.running(&running)["exec_host"]
        .as_str()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_string();
    let line = sandbox
        .run(
            "pbs_rsub",
            &[
                "-I",
                "5",
                "-R",
                &ahead(0),
                "-D",
                "1:00:00",
                "--hosts",
                &host,
            ],
        )
        .line();
    let id = line
        .strip_suffix(" CONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    assert!(id.starts_with('M'), "{id}");
    until_state(&sandbox, id, "RESV_RUNNING");
    let node = sandbox.run("pbsnodes", &["-v", &host]).ok();
    assert!(
        node.contains("resv-exclusive") && node.contains(&format!("resv = {id}")),
        "{node}"
    );
    let excluded = sandbox.submit(&["-l", "walltime=60"], "true\n");
    let inside = sandbox.submit(&["-q", queue_of(id)], "true\n");
    assert_eq!(sandbox.ended(&inside)["Exit_status"], 0);
    let reason = "Not Running: Job would conflict with reservation or top job";
    sandbox.until("the reason", || {
        sandbox
            .run("qstat", &["-s", &excluded])
            .out
            .contains(reason)
            .then_some(())
    });
    assert_eq!(
        sandbox.state(&running),
        "R",
        "jobs that already run must continue"
    );
    sandbox.run("pbs_rdel", &[id]).ok();
    assert_eq!(sandbox.ended(&excluded)["Exit_status"], 0);
}

#[test]
fn m42_a_job_that_requests_a_configured_reservation_runs_in_it() {
    let user = lanai::sys::user::own().name;
    let config = format!(
        "[server]\nname = \"head\"\n[[reservation]]\nname = \"own\"\nselect = \"1:ncpus=1\"\nperiod = \"infinity\"\n\
         users = [\"{user}\"]\nflags = [\"byname\"]\n\
         [[reservation]]\nname = \"others\"\nselect = \"1:ncpus=1\"\nperiod = \"infinity\"\nusers = [\"nosuchuser\"]\n"
    );
    let sandbox = Sandbox::configured(&config);
    sandbox.submit(&["-h"], "true\n");
    until_state(&sandbox, "own.head", "RESV_RUNNING");
    until_state(&sandbox, "others.head", "RESV_RUNNING");
    let inside = sandbox.submit(&["-W", "resv=own"], "true\n");
    assert_eq!(sandbox.ended(&inside)["resv"], "own");
    let excluded = sandbox.submit(&["-W", "resv=others"], "true\n");
    let reason = "Not Running: Job would conflict with reservation or top job (others)";
    sandbox.until("the reason", || {
        (sandbox.job(&excluded)["comment"] == reason).then_some(())
    });
    let all = format!("select=1:ncpus={}", processors(&sandbox));
    let plain = sandbox.submit(&["-l", &all], "true\n");
    sandbox.until("the reason of the plain job", || {
        let comment = sandbox.job(&plain)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        comment
            .starts_with("Not Running: Job would conflict with reservation")
            .then_some(())
    });
}
