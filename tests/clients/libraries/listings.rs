//! Tables, node lists and counts that monitoring tools read.

use super::{attributes, head};
use serde_json::{Value, json};

#[test]
fn options_and_ids_may_be_combined_in_any_order() {
    let sandbox = head();
    let (finished, held) = (
        sandbox.submit(&[], "exit 1\n"),
        sandbox.submit(&["-h"], "true\n"),
    );
    sandbox.ended(&finished);
    let plain = |arguments: &[&str]| {
        let shown = sandbox.run("qstat", arguments).ok();
        shown
            .lines()
            .filter(|line| !line.contains("timestamp"))
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let expected = plain(&["-f", "-x", "-F", "json", &finished, &held]);
    for arguments in [
        &["-F", "json", "-f", &finished, &held, "-x"][..],
        &[&finished, "-xf", &held, "-Fjson"],
        &["-fxF", "json", &finished, &held],
        &["-Efx", "-Fjson", &finished, &held],
        &["-fx", "-F", "json", "1", "2@head"],
    ] {
        assert_eq!(plain(arguments), expected, "{arguments:?}");
    }
    assert_eq!(plain(&["-fx", "1"]), plain(&["1", "-x", "-f"]));
}

#[test]
fn qstat_f_accepts_names_of_servers_queues_and_users() {
    let sandbox = head();
    let id = sandbox.submit(&["-h", "-q", "workq@head"], "true\n");
    let user = sandbox.owner(&id);
    let full = sandbox.run("qstat", &["-f", &id]).ok();
    let joined = format!("-u{user}");
    for arguments in [
        &["-f"][..],
        &["-f", "@head"],
        &["-f", "workq"],
        &["-f", "-u", &user],
        &["-f", &joined],
    ] {
        assert_eq!(sandbox.run("qstat", arguments).ok(), full, "{arguments:?}");
    }
    assert_eq!(
        sandbox.run("qstat", &["-f", "-1", "workq"]).ok(),
        sandbox.run("qstat", &["-fw"]).ok()
    );
    assert_eq!(sandbox.run("qstat", &["-f", "-u", "nosuchuser"]).ok(), "");
    assert!(
        sandbox
            .run("qstat", &["-B", "-f"])
            .ok()
            .starts_with("Server: head\n    server_state = ")
    );
    let elsewhere = sandbox.run("qstat", &["@nosuch"]);
    assert!(
        elsewhere.code != 0 && elsewhere.err.contains("cannot connect to server nosuch"),
        "{elsewhere:?}"
    );
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(
        sandbox.run("qstat", &["-f", "@head"]).ok(),
        "",
        "an empty list is not an error"
    );
}

#[test]
fn every_row_of_the_wide_list_has_all_columns_and_a_comment() {
    let sandbox = head();
    let finished = sandbox.submit(&["-l", "mem=10mb,walltime=1:0:0"], "true\n");
    let held = sandbox.submit(&["-h", "-J", "1-2"], "true\n");
    sandbox.ended(&finished);
    let user = sandbox.owner(&finished);
    let table = sandbox.run("qstat", &["-s", "-x", "-w", "-u", &user]).ok();
    let lines: Vec<&str> = table
        .lines()
        .skip_while(|line| !line.starts_with("---"))
        .skip(1)
        .collect();
    assert_eq!(lines.len(), 4, "{table}");
    for (pair, id, state) in [(&lines[..2], &finished, "F"), (&lines[2..], &held, "H")] {
        let columns: Vec<&str> = pair[0].split_whitespace().collect();
        assert_eq!(
            (columns.len(), columns[0], columns[9]),
            (11, id.as_str(), state),
            "{table}"
        );
        assert!(
            pair[1].starts_with("   ") && pair[1].trim().len() > 2,
            "{table}"
        );
    }
    let heading: Vec<&str> = table
        .lines()
        .find(|line| line.starts_with("Job ID"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        heading[2..],
        [
            "Username", "Queue", "Jobname", "SessID", "NDS", "TSK", "Memory", "Time", "S", "Time"
        ]
    );
}

#[test]
fn nodes_are_shown_with_the_keys_and_types_that_monitors_read() {
    let sandbox = head();
    let id = sandbox.submit(&["-l", "ncpus=2"], "sleep 60\n");
    sandbox.running(&id);
    let shown = sandbox.run("pbsnodes", &["-av", "-F", "json"]);
    assert_eq!(shown.err, "");
    let document: Value = serde_json::from_str(&shown.ok()).unwrap();
    let node = document["nodes"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    assert!(
        node["pcpus"].is_u64() && node["last_state_change_time"].is_u64(),
        "{node}"
    );
    assert_eq!(
        (&node["jobs"], &node["resources_available"]["ncpus"]),
        (&json!([id]), &json!(4))
    );
    assert_eq!(node["resources_assigned"]["ncpus"], 2);
    let document: Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-aSj", "-F", "json"]).ok()).unwrap();
    let node = document["nodes"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    assert_eq!(
        (&node["State"], &node["state"]),
        (&json!("free"), &json!("free"))
    );
    assert_eq!(
        (&node["ncpus f/t"], &node["jobs"]),
        (&json!("2/4"), &json!([id]))
    );
    let text = sandbox.run("pbsnodes", &["-a"]).ok();
    assert!(
        text.lines()
            .any(|line| line.trim_start().starts_with("pcpus = ")),
        "{text}"
    );
    let trace = sandbox.run("tracejob", &["-v", &id]).ok();
    assert!(trace.contains(&format!("Job: {id}")), "{trace}");
}

#[test]
fn subjobs_are_counted_and_shown_as_members_of_their_array() {
    let sandbox = head();
    let array = sandbox.submit(&["-h", "-J", "1-3"], "true\n");
    let single = sandbox.submit(&["-h"], "true\n");
    let listed = |arguments: &[&str]| sandbox.run("qselect", arguments).ok().lines().count();
    let user = sandbox.owner(&single);
    assert_eq!(
        (
            listed(&["-u", &user]),
            listed(&["-T"]),
            listed(&["-T", "-u", &user])
        ),
        (2, 5, 5)
    );
    let jobs = attributes(&sandbox.run("qstat", &["-f", "-t", &array]).ok());
    let members = ["1[1].head", "1[2].head", "1[3].head", "1[].head"];
    assert_eq!(jobs.keys().collect::<Vec<_>>(), members);
    for attributes in jobs.values() {
        for required in [
            "Resource_List.nodect",
            "Resource_List.ncpus",
            "Job_Owner",
            "job_state",
            "queue",
            "ctime",
        ] {
            assert!(
                attributes.contains_key(required),
                "{required} in {attributes:?}"
            );
        }
    }
}
