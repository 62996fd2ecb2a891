//! `lanai undo`.

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, number};
use serde_json::Value;

/// An installation with a queue that starts no jobs.
fn stopped() -> Sandbox {
    Sandbox::configured("[server]\nname = \"head\"\n[[queue]]\nname = \"workq\"\nstarted = false\n")
}

fn states(sandbox: &Sandbox, ids: &[&String]) -> String {
    ids.iter().map(|id| sandbox.state(id)).collect()
}

fn assert_nothing_to_undo(sandbox: &Sandbox) {
    let done = sandbox.run("lanai", &["undo"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err.starts_with("lanai: There is nothing to undo"),
        "{done:?}"
    );
}

#[test]
fn canceled_jobs_return_with_their_dependencies_and_places() {
    let sandbox = stopped();
    let first = sandbox.submit(&["-p", "7"], "true\n");
    let held = sandbox.submit(&["-h"], "true\n");
    let depend = |kind: &str| format!("depend={kind}:{first}");
    let after_ok = sandbox.submit(&["-W", &depend("afterok")], "true\n");
    let chain = format!("depend=afterok:{after_ok}");
    let chained = sandbox.submit(&["-W", &chain], "true\n");
    let after_any = sandbox.submit(&["-W", &depend("afterany")], "true\n");
    let all = [&first, &held, &after_ok, &chained, &after_any];
    sandbox.run("qorder", &[&first, &held]).ok();
    let before: Vec<Value> = all.iter().map(|id| sandbox.job(id)).collect();
    assert_eq!(states(&sandbox, &all), "QHHHH");
    sandbox.run("qdel", &[&first, &held]).ok();
    assert_eq!(states(&sandbox, &all), "FFFFQ");
    let dry = sandbox.run("lanai", &["undo", "--dry-run"]).ok();
    let ids = [&first, &held, &after_ok, &chained, &after_any].map(|id| number(id));
    assert!(dry.starts_with("Last action: cancellation ("), "{dry}");
    let last = format!(
        "Would revert the cancellation of 5 jobs ({}).\n",
        ids.join(" ")
    );
    assert!(dry.ends_with(&last), "{dry}");
    assert_eq!(states(&sandbox, &all), "FFFFQ");
    // The record survives a restart.
    sandbox.run("schedd", &["--stop"]).ok();
    let done = sandbox.run("lanai", &["undo"]).ok();
    let waits = format!(
        "  {}: reverted; the job waits for its dependency again\n",
        number(&after_any)
    );
    assert!(done.contains(&waits), "{done}");
    assert_eq!(states(&sandbox, &all), "QHHHH");
    for (id, before) in all.iter().zip(&before) {
        let after = sandbox.job(id);
        for key in [
            "depend",
            "Hold_Types",
            "Priority",
            "ctime",
            "qtime",
            "queue_rank",
            "etime",
        ] {
            assert_eq!(after[key], before[key], "{key} of {id}");
        }
        assert_eq!(after["Exit_status"], Value::Null);
    }
    assert_nothing_to_undo(&sandbox);
    // The restored dependencies are effective.
    sandbox.run("qdel", &[&first]).ok();
    assert_eq!(states(&sandbox, &all), "FHFFQ");
}

#[test]
fn holds_releases_and_alterations_are_reverted() {
    let sandbox = stopped();
    let one = sandbox.submit(&["-N", "a", "-h"], "true\n");
    let two = sandbox.submit(&["-N", "a"], "true\n");
    let all = [&one, &two];
    assert_eq!(states(&sandbox, &all), "HQ");
    sandbox.run("qhold", &[&one, &two]).ok();
    assert_eq!(states(&sandbox, &all), "HH");
    let done = sandbox.run("lanai", &["undo"]);
    // The first job was held before.
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(states(&sandbox, &all), "HQ");
    sandbox.run("lanai", &["release", "--mine"]).ok();
    assert_eq!(states(&sandbox, &all), "QQ");
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(states(&sandbox, &all), "HQ");
    let words = ["-N", "b", "-l", "walltime=5:00", "-p", "3", "-W", "tag=x=1"];
    let before = sandbox.job(&two);
    sandbox
        .run("qalter", &[&words[..], &[&one, &two]].concat())
        .ok();
    assert_eq!(sandbox.job(&two)["Job_Name"], "b");
    sandbox.run("qalter", &["-N", "c", &one]).ok();
    let done = sandbox.run("lanai", &["undo"]).ok();
    assert!(
        done.ends_with(&format!("alteration of 1 job ({}).\n", number(&one))),
        "{done}"
    );
    assert_eq!(sandbox.job(&one)["Job_Name"], "b");
    sandbox.run("qalter", &[&words[..], &[&two]].concat()).ok();
    sandbox
        .run("qalter", &["-N", "a", "-p", "0", "-W", "tag=", &two])
        .ok();
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(sandbox.job(&two)["Job_Name"], "b");
    assert_eq!(sandbox.job(&two)["tag"], "x=1");
    assert_ne!(sandbox.job(&two)["Priority"], before["Priority"]);
}

#[test]
fn jobs_that_have_started_are_not_reverted() {
    let sandbox = Sandbox::new();
    let runs = sandbox.submit(&[], "sleep 60\n");
    let held = sandbox.submit(&["-h"], "sleep 60\n");
    sandbox.running(&runs);
    sandbox.run("lanai", &["release", &held]).ok();
    sandbox.running(&held);
    let done = sandbox.run("lanai", &["undo"]);
    let line = format!(
        "  {}: not reverted: the job has started since\n",
        number(&held)
    );
    assert!(done.code == 1 && done.out.contains(&line), "{done:?}");
    assert!(
        done.out.ends_with("Reverted the release of 0 of 1 job.\n"),
        "{done:?}"
    );
    assert_nothing_to_undo(&sandbox);
    sandbox.run("qdel", &[&runs, &held]).ok();
    sandbox.ended(&runs);
    let done = sandbox.run("lanai", &["undo"]);
    let advice = format!("lanai retry {} runs it again", number(&runs));
    assert!(done.code == 1 && done.out.contains(&advice), "{done:?}");
    assert_eq!(sandbox.state(&runs), "F");
}

#[test]
fn each_command_is_an_action_and_purged_jobs_do_not_return() {
    let sandbox = stopped();
    let ids: Vec<String> = (0..3).map(|_| sandbox.submit(&[], "true\n")).collect();
    sandbox.run("qdel", &[&ids[0]]).ok();
    sandbox.run("qdel", &[&ids[1], &ids[2]]).ok();
    sandbox.run("qdel", &["-x", &ids[2]]).ok();
    let done = sandbox.run("lanai", &["undo"]);
    let line = format!(
        "  {}: not reverted: the job was removed from the history\n",
        number(&ids[2])
    );
    assert!(done.code == 1 && done.out.contains(&line), "{done:?}");
    assert_eq!(states(&sandbox, &[&ids[0], &ids[1]]), "FQ");
}

#[test]
fn deleted_arrays_and_subjobs_return() {
    let sandbox = stopped();
    let id = sandbox.submit(&["-J", "1-6"], "true\n");
    let remaining = || {
        let job = sandbox.job(&id);
        job["array_indices_remaining"].as_str().map(String::from)
    };
    sandbox.run("qdel", &[&id.replace("[]", "[2]")]).ok();
    assert_eq!(remaining().as_deref(), Some("1,3-6"));
    sandbox.run("lanai", &["cancel", &id]).ok();
    assert_eq!(sandbox.state(&id), "F");
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(sandbox.state(&id), "Q");
    assert_eq!(remaining().as_deref(), Some("1,3-6"));
    sandbox.run("qdel", &[&id.replace("[]", "[3-4]")]).ok();
    assert_eq!(remaining().as_deref(), Some("1,5-6"));
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(remaining().as_deref(), Some("1,3-6"));
}

#[test]
fn dependencies_of_all_kinds_return() {
    let sandbox = stopped();
    let depend = |sandbox: &Sandbox, id: &str| sandbox.job(id)["depend"].clone();
    let first = sandbox.submit(&["--group", "g", "--label", "sim"], "true\n");
    let rival = sandbox.submit(&["-W", &format!("depend=runone:{first}")], "true\n");
    let words = ["--group", "g", "-W", "depend=afterany:@sim"];
    let labeled = sandbox.submit(&words, "true\n");
    let all = [&first, &rival, &labeled];
    let before = all.map(|id| depend(&sandbox, id));
    assert_eq!(states(&sandbox, &all), "QQH");
    sandbox.run("qdel", &[&first]).ok();
    assert_eq!(states(&sandbox, &all), "FQQ");
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(states(&sandbox, &all), "QQH");
    assert_eq!(all.map(|id| depend(&sandbox, id)), before);
    // An operator removes the dependency of the job.
    sandbox.run("qrls", &["-h", "s", &labeled]).ok();
    assert_eq!(states(&sandbox, &all), "QQQ");
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(states(&sandbox, &all), "QQH");
    assert_eq!(all.map(|id| depend(&sandbox, id)), before);
}

#[test]
fn conditions_that_were_decided_meanwhile_count() {
    let sandbox = Sandbox::new();
    let gate = sandbox.file("gate");
    let wait = format!("until test -e {}; do sleep 0.1; done\n", gate.display());
    let [fine, bad] = ["true\n", "false\n"]
        .map(|end| sandbox.submit(&["-l", "ncpus=0"], &format!("{wait}{end}")));
    let waits = |id: &str| {
        let depend = format!("depend=afterok:{id}");
        sandbox.submit(&["-h", "-W", &depend], "true\n")
    };
    let [met, broken] = [waits(&fine), waits(&bad)];
    sandbox.run("qdel", &[&met, &broken]).ok();
    std::fs::write(&gate, "").unwrap();
    sandbox.ended(&fine);
    sandbox.ended(&bad);
    let done = sandbox.run("lanai", &["undo"]);
    let why = format!(
        "  {}: not reverted: it depends on job {} (afterok), but it ended with status 1\n",
        number(&broken),
        number(&bad)
    );
    assert!(done.code == 1 && done.out.contains(&why), "{done:?}");
    assert_eq!(states(&sandbox, &[&met, &broken]), "HF");
    sandbox.run("qrls", &[&met]).ok();
    assert_eq!(sandbox.ended(&met)["Exit_status"], 0);
}

#[test]
fn restored_jobs_are_within_the_limits_of_the_server() {
    let sandbox = stopped();
    let limit = "set server max_queued = [u:PBS_GENERIC=1]";
    sandbox.run("qmgr", &["-c", limit]).ok();
    let first = sandbox.submit(&[], "true\n");
    sandbox.run("qdel", &[&first]).ok();
    let second = sandbox.submit(&[], "true\n");
    for words in [&["undo", "--dry-run"][..], &["undo"]] {
        let done = sandbox.run("lanai", words);
        let line = format!("  {}: not reverted: ", number(&first));
        assert!(done.code == 1 && done.out.contains(&line), "{done:?}");
    }
    assert_eq!(states(&sandbox, &[&first, &second]), "FQ");
}

#[test]
fn undo_reverts_only_actions_of_its_user() {
    let Some([ann, bob]) = two_users("undo") else {
        return;
    };
    let sandbox = shared("[[queue]]\nname = \"workq\"\nstarted = false\n");
    let [of_ann, of_bob] = [&ann, &bob].map(|person| person.submit(&sandbox, &[], "true"));
    ann.run(&sandbox, "qdel", &[&of_ann]).ok();
    let nothing = bob.run(&sandbox, "lanai", &["undo"]);
    assert!(
        nothing.code == 1 && nothing.err.contains("nothing to undo"),
        "{nothing:?}"
    );
    assert_eq!(sandbox.state(&of_ann), "F");
    // A deletion by the administrator is not the owner's action.
    sandbox.run("qdel", &[&of_bob]).ok();
    let nothing = bob.run(&sandbox, "lanai", &["undo"]);
    assert!(
        nothing.code == 1 && nothing.err.contains("nothing to undo"),
        "{nothing:?}"
    );
    assert_eq!(states(&sandbox, &[&of_ann, &of_bob]), "FF");
    ann.run(&sandbox, "lanai", &["undo"]).ok();
    assert_eq!(states(&sandbox, &[&of_ann, &of_bob]), "QF");
    sandbox.run("lanai", &["undo"]).ok();
    assert_eq!(states(&sandbox, &[&of_ann, &of_bob]), "QQ");
    assert_eq!(
        sandbox.job(&of_bob)["Job_Owner"]
            .as_str()
            .unwrap()
            .split('@')
            .next(),
        Some(&*bob.name)
    );
    // The job of another user that depends on a canceled job stays as it is.
    let depend = format!("depend=afterany:{of_ann}");
    let dependent = bob.submit(&sandbox, &["-W", &depend], "true");
    assert_eq!(sandbox.state(&dependent), "H");
    ann.run(&sandbox, "qdel", &[&of_ann]).ok();
    assert_eq!(sandbox.state(&dependent), "Q");
    let done = ann.run(&sandbox, "lanai", &["undo"]);
    assert!(done.out.contains("belongs to another user"), "{done:?}");
    assert_eq!(states(&sandbox, &[&of_ann, &dependent]), "QQ");
}

#[test]
fn an_operator_without_rights_reverts_nothing_of_other_users() {
    let Some([ann, bob]) = two_users("rights") else {
        return;
    };
    let sandbox = shared("[[queue]]\nname = \"workq\"\nstarted = false\n");
    let set = |who: &str| {
        let command = format!("set server operators = {who}");
        sandbox.run("qmgr", &["-c", &command]).ok();
    };
    set(&format!("{}@*", bob.name));
    let id = ann.submit(&sandbox, &[], "true");
    bob.run(&sandbox, "qdel", &[&id]).ok();
    set(&format!("{}@*", ann.name));
    let done = bob.run(&sandbox, "lanai", &["undo"]);
    assert!(done.out.contains("belongs to another user"), "{done:?}");
    assert_eq!(sandbox.state(&id), "F");
}
