//! The queries of `lanai` (overview, list, history, show, why, nodes), and the JSON of all
//! subcommands.

use crate::support::root;
use crate::support::sandbox::Sandbox;
use serde_json::Value;

/// A sandbox with one node of two processors, on which jobs of every state exist: 1 done, 2 failed,
/// 3 deleted, 4 running, 5 queued, 6 held, 7 waiting for its begin time, and the array 8.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(1, 2);
    let submit = |arguments: &[&str]| sandbox.run("qsub", arguments).line();
    let done = submit(&["-N", "good", "--", "true"]);
    sandbox.ended(&done);
    let failed = submit(&["-N", "bad", "--", "sh", "-c", "exit 3"]);
    sandbox.ended(&failed);
    let deleted = submit(&["-h", "-N", "gone", "--", "true"]);
    sandbox.run("qdel", &[&deleted]).ok();
    let running = submit(&["-l", "ncpus=2", "-N", "sim-1", "--", "sleep", "600"]);
    sandbox.running(&running);
    submit(&["-N", "sim-2", "--", "true"]);
    submit(&["-h", "-N", "later", "--", "true"]);
    submit(&["-a", "203001010000", "-N", "much_later", "--", "true"]);
    submit(&["-J", "1-4", "-N", "many", "--", "true"]);
    sandbox
}

fn lanai(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox
        .run("lanai", &[&["--color", "never"], arguments].concat())
        .ok()
}

/// The first column of a table, without its heading and the summary.
fn ids(table: &str) -> Vec<String> {
    let lines: Vec<&str> = table.lines().collect();
    let rows = &lines[1..lines.len().saturating_sub(1)];
    rows.iter()
        .map(|line| line.split_whitespace().next().unwrap().to_string())
        .collect()
}

#[test]
fn filters_select_jobs_by_state_name_and_exit_status() {
    let sandbox = sandbox();
    let list = |filter: &[&str]| ids(&lanai(&sandbox, &[&["list"], filter].concat()));
    assert_eq!(list(&[]), ["4", "5", "6", "7", "8[]"]);
    assert_eq!(list(&["state=running"]), ["4"]);
    assert_eq!(list(&["state=pending", "name!=many"]), ["5", "6", "7"]);
    assert_eq!(list(&["name=sim-*"]), ["4", "5"]);
    assert_eq!(list(&["state=finished"]), ["1", "2", "3"]);
    assert_eq!(list(&["exit=3", "since=1d"]), ["2"]);
    assert_eq!(list(&["8", "1"]), ["8[]", "1"]);
    assert_eq!(list(&["8[2-3]"]), ["8[2]", "8[3]"]);
    assert_eq!(list(&["--sort", "-id", "name=sim*"]), ["5", "4"]);
    let table = lanai(&sandbox, &["list", "-o", "name,state,end", "1", "2"]);
    let expected = "NAME  STATE   END\ngood  done    exit 0\nbad   failed  exit 3\n\
                    2 jobs: 1 done, 1 failed\n";
    assert_eq!(table, expected);
}

#[test]
fn history_shows_how_jobs_ended_and_the_latest_first() {
    let sandbox = sandbox();
    let table = lanai(&sandbox, &["history"]);
    assert_eq!(ids(&table), ["3", "2", "1"]);
    assert!(table.contains("exit 3") && table.ends_with("3 jobs: 1 done, 1 failed, 1 deleted\n"));
    assert_eq!(ids(&lanai(&sandbox, &["history", "-n", "1"])), ["3"]);
    assert_eq!(
        lanai(&sandbox, &["history", "name=none"]),
        "No finished jobs match.\n"
    );
}

#[test]
fn the_overview_lists_jobs_and_nodes_and_suggests_commands() {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(1, 2);
    let empty = lanai(&sandbox, &[]);
    assert!(empty.starts_with("You have no unfinished jobs"), "{empty}");
    assert!(empty.contains("lanai run COMMAND"), "{empty}");
    let id = sandbox.run("qsub", &["--", "sleep", "600"]).line();
    sandbox.running(&id);
    let busy = lanai(&sandbox, &[]);
    assert!(busy.contains("1 job: 1 running\n"), "{busy}");
    assert!(busy.contains("lanai log -f 1"), "{busy}");
    assert!(busy.contains("\nn     free"), "{busy}");
}

#[test]
fn why_lists_the_waiting_jobs_and_explains_one() {
    let sandbox = sandbox();
    let table = lanai(&sandbox, &["why"]);
    assert!(table.contains("5    sim-2"), "{table}");
    assert!(table.ends_with("For more: lanai why 5\n"), "{table}");
    let explained = lanai(&sandbox, &["why", "5"]);
    assert!(explained.starts_with("Job 5."), "{explained}");
}

#[test]
fn mistakes_are_named_with_a_suggestion() {
    let sandbox = Sandbox::new();
    let fails = |arguments: &[&str], code: i32, part: &str| {
        let done = sandbox.run("lanai", arguments);
        assert_eq!(done.code, code, "{arguments:?}: {}", done.err);
        assert!(done.err.contains(part), "{arguments:?}: {}", done.err);
    };
    fails(&["lst"], 2, "'list'");
    fails(&["list", "--colums", "id"], 2, "'--columns'");
    fails(&["list", "state=runing"], 2, "did you mean running?");
    fails(&["list", "nam=x"], 2, "did you mean name?");
    fails(&["list", "-o", "idd"], 2, "did you mean id?");
    fails(&["list", "sim"], 2, "name=sim");
    fails(&["show", "99"], 153, "Unknown Job Id 99.");
}

/// The schema with `additionalProperties` false for every object, so that a key that the schema
/// does not describe is an error.
fn strict_schema() -> Value {
    let path = root().join("etc/lanai.schema.json");
    let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for definition in schema["$defs"].as_object_mut().unwrap().values_mut() {
        close(definition);
    }
    schema["unevaluatedProperties"] = false.into();
    schema
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".into(), false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn the_json_of_every_subcommand_matches_the_schema() {
    let sandbox = sandbox();
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&strict_schema())
        .unwrap();
    for arguments in [
        &[][..],
        &["list"],
        &["list", "state=finished"],
        &["list", "name=none"],
        &["list", "-t", "8[]"],
        &["history"],
        &["show", "1", "2", "3", "4", "5", "6", "7", "8", "8[1]"],
        &["why"],
        &["why", "1", "2", "3", "4", "5", "6", "7", "8"],
        &["nodes"],
        &["nodes", "n"],
        &["cancel", "--dry-run", "name=sim*"],
        &["hold", "5"],
        &["undo", "--dry-run"],
        &["undo"],
        &["retry", "2", "3"],
        &["cancel", "7"],
        &["wait", "1"],
        &["submit", "true"],
        &["report"],
        &["report", "--since", "2d", "--until", "1d"],
    ] {
        let text = lanai(&sandbox, &[&["--json"], arguments].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:?}\n{text}");
    }
}
