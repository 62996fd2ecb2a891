//! Dependencies between jobs: which are accepted, how they are shown, and the result for each way
//! in which a parent ends.

mod arrays;
mod chain;
mod graph;
mod lists;
mod outcomes;

use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, number, refused};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A server named `head` with free resources for all jobs of a test.
fn head() -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let config = format!(
        "[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n[[node]]\nname = \"{node}\"\nncpus = 64\n"
    );
    Sandbox::configured(&config)
}

/// Submits a command that exits at once with this status; returns the id.
#[track_caller]
fn quick(sandbox: &Sandbox, options: &[&str], status: u32) -> String {
    let script = format!("exit {status}");
    let command = ["--", "/bin/sh", "-c", &script];
    sandbox.run("qsub", &[options, &command].concat()).line()
}

/// Submits a short job with this `depend`.
#[track_caller]
fn dependent(sandbox: &Sandbox, depend: &str) -> String {
    quick(sandbox, &["-W", &format!("depend={depend}")], 0)
}

/// All jobs with all attributes.
fn jobs(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    let done = sandbox.run("qstat", &["-x", "-f", "-F", "json"]);
    let document: Value =
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    let Some(jobs) = document["Jobs"].as_object() else {
        return BTreeMap::new();
    };
    jobs.iter()
        .map(|(id, job)| (id.clone(), job.clone()))
        .collect()
}

/// Waits until all jobs have finished; returns their attributes.
#[track_caller]
fn await_all_ended(sandbox: &Sandbox) -> BTreeMap<String, Value> {
    sandbox.until("the end of all jobs", || {
        sandbox.run("qselect", &[]).ok().is_empty().then_some(())
    });
    jobs(sandbox)
}

/// State, holds, substate and `depend` of a job.
fn job_status(sandbox: &Sandbox, id: &str) -> (String, String, i64, String) {
    let job = sandbox.job(id);
    let text = |name: &str| job[name].as_str().unwrap_or("").to_string();
    (
        text("job_state"),
        text("Hold_Types"),
        job["substate"].as_i64().unwrap_or(0),
        text("depend"),
    )
}

fn expected_status(
    state: &str,
    holds: &str,
    substate: i64,
    depend: &str,
) -> (String, String, i64, String) {
    (state.into(), holds.into(), substate, depend.into())
}

#[track_caller]
fn assert_refused(sandbox: &Sandbox, depend: &str, code: i32, text: &str) {
    refused(
        sandbox.run(
            "qsub",
            &["-W", &format!("depend={depend}"), "--", "/bin/true"],
        ),
        code,
        text,
    );
}

#[test]
fn a_dependent_job_is_held_and_shows_its_dependencies() {
    let sandbox = head();
    let [a, b] = [0, 0].map(|status| quick(&sandbox, &["-h"], status));
    let (one, two) = (number(&a), number(&b));
    for (depend, shown) in [
        (format!("afterok:{one}"), format!("afterok:{a}@head")),
        (
            format!("afterok:{a}@head:{two}"),
            format!("afterok:{a}@head:{b}@head"),
        ),
        (
            format!("afterok:{one},afternotok: {two}"),
            format!("afterok:{a}@head,afternotok:{b}@head"),
        ),
        ("on:1".to_string(), "on:1".to_string()),
    ] {
        let id = dependent(&sandbox, &depend);
        assert_eq!(
            job_status(&sandbox, &id),
            expected_status("H", "s", 22, &shown),
            "{depend}"
        );
        sandbox.run("qdel", &[&id]).ok();
        assert_eq!(
            sandbox.job(&id)["depend"],
            shown,
            "a deleted job keeps its dependencies"
        );
    }
    let child = quick(
        &sandbox,
        &[
            "-W",
            &format!("umask=22,depend=afterany:{one}"),
            "-W",
            &format!("depend=after:{two}"),
        ],
        0,
    );
    assert_eq!(
        job_status(&sandbox, &child),
        expected_status("H", "s", 22, &format!("afterany:{a}@head,after:{b}@head"))
    );
    assert_eq!(
        sandbox.job(&child)["comment"],
        format!("Job held by dependency: afterany:{a}, which is held, and 1 more")
    );
    assert_eq!(
        sandbox.job(&b)["depend"]
            .as_str()
            .unwrap()
            .split(',')
            .next_back()
            .unwrap(),
        format!("before:{child}@head")
    );
    let text = sandbox.run("qstat", &["-f", "-w", &child]).ok();
    assert!(
        text.contains(&format!("    depend = afterany:{a}@head,after:{b}@head\n")),
        "{text}"
    );
    let dsv = sandbox.run("qstat", &["-f", "-F", "dsv", &child]).ok();
    assert!(
        dsv.contains(&format!("|depend=afterany:{a}@head,after:{b}@head|")),
        "{dsv}"
    );
    let held = quick(&sandbox, &["-h", "-W", &format!("depend=afterok:{one}")], 0);
    assert_eq!(job_status(&sandbox, &held).1, "su");
    sandbox.run("qrls", &[&held]).ok();
    assert_eq!(
        job_status(&sandbox, &held),
        expected_status("H", "s", 22, &format!("afterok:{a}@head"))
    );
    assert!(sandbox.run("qselect", &["-h", "s"]).ok().contains(&held));
    sandbox.run("qrls", &["-h", "s", &held]).ok();
    assert_eq!(
        sandbox.ended(&held)["Exit_status"],
        0,
        "released by an operator"
    );
    sandbox.run("qrls", &[&a]).ok();
    sandbox.ended(&a);
    assert_eq!(
        sandbox.job(&child)["depend"],
        format!("after:{b}@head"),
        "satisfied dependencies are not shown"
    );
    assert!(
        sandbox.job(&a)["depend"]
            .as_str()
            .unwrap()
            .contains(&format!("beforeany:{child}@head"))
    );
}

#[test]
#[allow(clippy::too_many_lines, reason = "tables")]
fn invalid_or_unsatisfiable_dependencies_are_refused_at_submission() {
    let sandbox = head();
    let failed = quick(&sandbox, &[], 3);
    sandbox.ended(&failed);
    let succeeded = quick(&sandbox, &[], 0);
    sandbox.ended(&succeeded);
    let deleted = quick(&sandbox, &["-h"], 0);
    sandbox.run("qdel", &[&deleted]).ok();
    let held = quick(&sandbox, &["-h"], 0);
    for depend in [
        "on",
        "foo:1",
        "afterok",
        "afterok:",
        "afterok:abc",
        "afterok:1x",
        "afterok:1[1]",
        "afterok:1,",
        "",
    ] {
        assert_refused(
            &sandbox,
            depend,
            2,
            "qsub: illegal -W value\nqsub: -W depend=",
        );
    }
    for depend in ["on:0", "on:x", "synccount:2", "syncwith:1"] {
        assert_refused(
            &sandbox,
            depend,
            166,
            "qsub: Illegal attribute or resource value depend\n",
        );
    }
    for (id, shown) in [
        ("99999", "99999.head"),
        ("999[]", "999[].head"),
        ("18446744073709551615", "18446744073709551615.head"),
    ] {
        assert_refused(
            &sandbox,
            &format!("afterok:{id}:{held}"),
            153,
            &format!("qsub: Unknown Job Id {shown}\n"),
        );
    }
    assert_refused(
        &sandbox,
        &format!("afterany:{}[]", number(&held)),
        153,
        "Unknown Job Id ",
    );
    assert_refused(
        &sandbox,
        &format!("afterany:{}.other", number(&held)),
        153,
        "Unknown Job Id ",
    );
    let unmet = "qsub: Finished job did not satisfy dependency: ";
    for (depend, why) in [
        (
            format!("afterok:{failed}"),
            format!("afterok:{failed}, but it ended with status 3\n"),
        ),
        (
            format!("afterok:{succeeded}:{failed}"),
            format!("afterok:{failed}, but it ended with status 3\n"),
        ),
        (
            format!("afternotok:{succeeded}"),
            format!("afternotok:{succeeded}, but it ended with status 0\n"),
        ),
        (
            format!("after:{deleted}"),
            format!("after:{deleted}, but it was deleted before it ran\n"),
        ),
    ] {
        assert_refused(&sandbox, &depend, 125, &format!("{unmet}{why}"));
    }
    for depend in [
        format!("afterok:{succeeded},afternotok:{failed}:{deleted}"),
        format!("afterany:{succeeded}:{failed}:{deleted},after:{succeeded}:{failed}"),
    ] {
        let id = dependent(&sandbox, &depend);
        assert_eq!(
            sandbox.ended(&id)["Exit_status"],
            0,
            "{depend} is already satisfied"
        );
    }
    for (depend, why) in [
        (
            format!("before:{held}"),
            "accepts no further dependencies of type before: submit that job with \
             -W depend=on:COUNT to allow COUNT of them\n",
        ),
        (format!("beforeok:{succeeded}"), "has finished\n"),
    ] {
        assert_refused(
            &sandbox,
            &depend,
            206,
            &format!(
                "qsub: Invalid Job Dependency: {} {why}",
                depend.split(':').nth(1).unwrap()
            ),
        );
    }
    let before = sandbox.run("qselect", &["-x"]).ok();
    assert_refused(
        &sandbox,
        &format!("afterok:{held}:99999"),
        153,
        "99999.head",
    );
    assert_eq!(
        sandbox.run("qselect", &["-x"]).ok(),
        before,
        "a refused submission leaves no job"
    );
}

#[test]
fn on_counts_down_with_each_job_that_names_the_waiting_job() {
    let sandbox = head();
    let waiting = dependent(&sandbox, "on:2");
    assert_refused(
        &sandbox,
        &format!("before:{waiting},beforeok:{waiting},beforeany:{waiting}"),
        206,
        "accepts no further dependencies of type before",
    );
    let first = quick(
        &sandbox,
        &["-h", "-W", &format!("depend=beforeany:{waiting}")],
        1,
    );
    assert_eq!(
        job_status(&sandbox, &waiting),
        expected_status("H", "s", 22, &format!("on:1,afterany:{first}@head"))
    );
    assert_eq!(
        job_status(&sandbox, &first),
        expected_status("H", "u", 20, &format!("beforeany:{waiting}@head"))
    );
    sandbox.run("qrls", &[&first]).ok();
    sandbox.ended(&first);
    assert_eq!(
        job_status(&sandbox, &waiting),
        expected_status("H", "s", 22, "on:1"),
        "one more job must name it"
    );
    let second = quick(&sandbox, &["-W", &format!("depend=beforeok:{waiting}")], 0);
    assert_eq!(sandbox.ended(&waiting)["Exit_status"], 0);
    sandbox.ended(&second);
}

#[test]
fn a_requeued_job_counts_as_started_but_not_as_ended() {
    let sandbox = head();
    let parent = sandbox.submit(&[], "sleep 100\n");
    sandbox.running(&parent);
    sandbox.run("qhold", &[&parent]).ok();
    sandbox.run("qrerun", &[&parent]).ok();
    sandbox.until("the requeue", || {
        (sandbox.state(&parent) == "H").then_some(())
    });
    let after = dependent(&sandbox, &format!("after:{parent}"));
    let ended = dependent(&sandbox, &format!("afterany:{parent}"));
    let named = dependent(&sandbox, "on:2");
    sandbox
        .run(
            "qalter",
            &[
                "-W",
                &format!("depend=before:{named},beforeany:{named}"),
                &parent,
            ],
        )
        .ok();
    assert_eq!(sandbox.ended(&after)["Exit_status"], 0);
    assert_eq!(
        job_status(&sandbox, &ended).3,
        format!("afterany:{parent}@head")
    );
    assert_eq!(
        job_status(&sandbox, &named),
        expected_status("H", "s", 22, &format!("afterany:{parent}@head"))
    );
}

#[test]
fn dependency_cycles_are_refused_and_their_jobs_listed() {
    let sandbox = head();
    let first = quick(&sandbox, &["-h", "-W", "depend=on:5"], 0);
    let second = dependent(&sandbox, &format!("afterok:{first}"));
    let third = dependent(&sandbox, &format!("afterok:{second}"));
    assert_refused(
        &sandbox,
        &format!("afterok:{third},beforeany:{first}"),
        206,
        &format!(
            "jobs would wait in a circle: this job -> {third} -> {second} -> {first} -> this job\n"
        ),
    );
    let alter =
        |depend: &str, id: &str| sandbox.run("qalter", &["-W", &format!("depend={depend}"), id]);
    refused(
        alter(&format!("after:{third}"), &first),
        206,
        &format!("circle: {first} -> {third} -> {second} -> {first} {first}\n"),
    );
    refused(
        alter(&format!("after:{first}"), &first),
        206,
        &format!("{first} cannot depend on itself"),
    );
    refused(
        alter(&format!("before:{first}"), &third),
        206,
        &format!("circle: {third} -> {second} -> {first} -> {third}"),
    );
    assert_eq!(
        job_status(&sandbox, &first).3,
        format!("on:5,beforeok:{second}@head"),
        "nothing has changed"
    );
    let fourth = quick(&sandbox, &["-h"], 0);
    alter(&format!("after:{first},before:{first}"), &fourth)
        .code
        .eq(&206)
        .then_some(())
        .expect("a job cannot be both before and after another");
}

#[test]
fn qalter_adds_all_dependencies_or_none() {
    let sandbox = head();
    let [a, b, child] = [0, 0, 0].map(|status| quick(&sandbox, &["-h"], status));
    let alter = |depend: &str| sandbox.run("qalter", &["-W", &format!("depend={depend}"), &child]);
    refused(
        alter(&format!("afterok:{a}:999")),
        153,
        "qalter: Unknown Job Id 999.head",
    );
    refused(alter(""), 2, "qalter: illegal -W value\nqalter: -W depend=");
    assert_eq!(
        job_status(&sandbox, &child),
        expected_status("H", "u", 20, "")
    );
    alter(&format!("afterok:{a}")).ok();
    alter(&format!("afterany:{b},afterok:{a}")).ok();
    sandbox.run("qrls", &[&child]).ok();
    assert_eq!(
        job_status(&sandbox, &child),
        expected_status("H", "s", 22, &format!("afterok:{a}@head,afterany:{b}@head"))
    );
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&a]).ok();
    sandbox.ended(&a);
    assert_eq!(
        job_status(&sandbox, &child),
        expected_status("H", "s", 22, &format!("afterany:{b}@head"))
    );
    sandbox.run("qrls", &[&b]).ok();
    assert_eq!(sandbox.ended(&child)["Exit_status"], 0);
}

#[test]
fn a_failed_commit_ends_no_dependent_job() {
    let mut sandbox = head();
    let top = quick(&sandbox, &["-h"], 0);
    let child = dependent(&sandbox, &format!("afterok:{top}"));
    let grandchild = dependent(&sandbox, &format!("afterok:{child},runone:{child}"));
    sandbox.kill("schedd");
    // More faults than schedd's own retries consume before the first `qdel`.
    let faults: Vec<String> = (3..60)
        .map(|nth| format!("spool.commit:{nth}:fail"))
        .collect();
    sandbox.set("LANAI_FAULTS", faults.join(","));
    sandbox.run("schedd", &[]).ok();
    // The second commit, which has no fault, must store the node. Wait for it, so that no request
    // is the second commit.
    let node_is_up = || {
        sandbox
            .run("schedd", &["--status"])
            .out
            .lines()
            .any(|line| line.contains("nodes") && line.contains(" up"))
    };
    sandbox.until("the node", || node_is_up().then_some(()));
    let mut failures = 0;
    while sandbox.run("qdel", &[&top]).code != 0 {
        assert_eq!(
            job_status(&sandbox, &child).3,
            format!("afterok:{top}@head,beforeok:{grandchild}@head,runone:{grandchild}@head")
        );
        assert_eq!(job_status(&sandbox, &grandchild).0, "H");
        failures += 1;
    }
    assert!(failures > 0, "no fault was injected");
    for id in [&child, &grandchild] {
        assert_eq!(
            sandbox.job(id)["substate"],
            92,
            "a stored deletion ends all dependent jobs"
        );
    }
}

#[test]
fn only_one_job_of_a_runone_set_runs() {
    let sandbox = head();
    // A `runone` that names a finished job is evaluated like any other condition.
    let first = quick(&sandbox, &["-h"], 0);
    let second = dependent(&sandbox, &format!("on:1,runone:{first}"));
    let third = quick(
        &sandbox,
        &["-h", "-W", &format!("depend=runone:{second}")],
        0,
    );
    assert_eq!(
        job_status(&sandbox, &third).3,
        format!("runone:{first}@head:{second}@head")
    );
    sandbox.run("qdel", &[&second]).ok();
    assert_eq!(
        job_status(&sandbox, &third),
        expected_status("H", "u", 20, &format!("runone:{first}@head")),
        "the deleted job has left the set"
    );
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&first]).ok();
    assert_eq!(sandbox.ended(&first)["Exit_status"], 0);
    let third = sandbox.ended(&third);
    let why =
        format!("Job deleted as result of dependency on job {first}: runone, and that job has run");
    assert_eq!(
        (&third["comment"], &third["Exit_status"], &third["substate"]),
        (&why.into(), &271.into(), &92.into())
    );
    assert_refused(
        &sandbox,
        &format!("runone:{first}"),
        125,
        &format!("runone:{first}, but it ended with status 0"),
    );
    // Several members become eligible in one cycle, with free resources for all.
    let blocker = quick(&sandbox, &["-h"], 0);
    let one = quick(&sandbox, &["-W", &format!("depend=afterany:{blocker}")], 0);
    let set: Vec<String> = (0..5)
        .map(|_| dependent(&sandbox, &format!("afterany:{blocker},runone:{one}")))
        .collect();
    sandbox.run("qrls", &[&blocker]).ok();
    let ended = await_all_ended(&sandbox);
    let ran: Vec<bool> = set
        .iter()
        .chain([&one])
        .map(|id| ended[id]["run_count"] == 1)
        .collect();
    assert_eq!(ran.iter().filter(|&&ran| ran).count(), 1, "{ran:?}");
}

#[test]
fn a_runone_set_chooses_again_after_its_running_job_is_requeued() {
    let sandbox = head();
    let running = sandbox.submit(&[], "sleep 100\n");
    sandbox.running(&running);
    let other = dependent(&sandbox, &format!("runone:{running}"));
    assert_eq!(
        job_status(&sandbox, &other),
        expected_status("H", "s", 22, &format!("runone:{running}@head"))
    );
    assert_eq!(
        sandbox.job(&other)["comment"],
        format!("Job held by dependency: runone:{running}, which has started")
    );
    sandbox.run("qhold", &[&running]).ok();
    sandbox.run("qrerun", &[&running]).ok();
    // The second job runs while the first is held. Its run may be too short to observe, so only its
    // end is checked.
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "the first is held, so the second runs"
    );
    assert_eq!(sandbox.ended(&running)["substate"], 92);
}

#[test]
fn users_can_depend_on_other_users_jobs_but_not_change_them() {
    let Some([ann, bob]) = two_users("depend") else {
        return;
    };
    let sandbox = Sandbox::configured("[server]\nshared = true\nname = \"head\"\n");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    let waiting = ann.submit(&sandbox, &["-W", "depend=on:1"], "true");
    let depend = |kind: &str| format!("depend={kind}:{waiting}");
    let refusal = format!("Invalid Job Dependency: {waiting} is another user's job");
    for kind in ["before", "beforeany", "runone"] {
        refused(
            bob.run(&sandbox, "qsub", &["-W", &depend(kind), "--", "/bin/true"]),
            206,
            &refusal,
        );
    }
    let child = bob.submit(&sandbox, &["-W", &depend("afterany")], "true");
    refused(
        bob.run(&sandbox, "qrls", &["-h", "s", &child]),
        159,
        "qrls: Unauthorized Request  ",
    );
    assert_eq!(sandbox.state(&child), "H");
    sandbox.run("qrls", &["-h", "s", &waiting]).ok();
    assert_eq!(sandbox.ended(&child)["Exit_status"], 0);
}
