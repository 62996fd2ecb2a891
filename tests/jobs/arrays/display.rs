//! Arrays in qstat: the table and all attributes.

use super::{assert_result, counts, head, listed};
use serde_json::{Value, json};

#[test]
fn a_waiting_array_is_listed_as_in_pbs() {
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    let id = sandbox
        .run("qsub", &["-h", "-J", "1-3", "-N", "an", "job.sh"])
        .line();
    let plain = sandbox.run("qsub", &["-h", "-N", "plain", "job.sh"]).line();
    assert_eq!((id.as_str(), plain.as_str()), ("1[].head", "2.head"));
    let all = "1[] H, 1[1] H, 1[2] H, 1[3] H";
    for (arguments, expected) in [
        (&[][..], "1[] H, 2 H"),
        (&["-t"], "1[] H, 1[1] H, 1[2] H, 1[3] H, 2 H"),
        (&["-J"], "1[] H"),
        (&["-J", "-t"], "1[1] H, 1[2] H, 1[3] H"),
        (&["-Jt", "workq"], "1[1] H, 1[2] H, 1[3] H"),
        (&["-t", "1[]"], all),
        (
            &["-t", "1[].head", "2", "1[2]"],
            "1[] H, 1[1] H, 1[2] H, 1[3] H, 2 H",
        ),
        (
            &["-t", "1[]", "workq"],
            "1[] H, 1[1] H, 1[2] H, 1[3] H, 2 H",
        ),
        (&["1[]"], "1[] H"),
        (&["1[2]"], "1[2] H"),
        (&["1[1-9:2]"], "1[1] H, 1[3] H"),
        (&["1[1-2]", "1[2-3]"], "1[1] H, 1[2] H, 1[3] H"),
        (&["-u", "nobody"], ""),
    ] {
        assert_eq!(listed(&sandbox, arguments), expected, "{arguments:?}");
    }
    for (id, unknown) in [
        ("1", "1"),
        ("1[7]", "1[7]"),
        ("1[4-9]", "1[4-9]"),
        ("2[]", "2[]"),
        ("2[1]", "2[1]"),
    ] {
        assert_result(
            &sandbox.run("qstat", &[id]),
            153,
            "",
            &format!("qstat: Unknown Job Id {unknown}.head"),
        );
    }
    for (arguments, expected) in [
        (&[][..], "1[].head 2.head"),
        (&["-J"], "1[].head"),
        (&["-T"], "1[].head 1[1].head 1[2].head 1[3].head 2.head"),
        (&["-J", "-T"], "1[1].head 1[2].head 1[3].head"),
        (
            &["-T", "-N", "an", "-s", "H"],
            "1[].head 1[1].head 1[2].head 1[3].head",
        ),
        (&["-T", "-s", "X"], ""),
        (&["-s", "B"], ""),
    ] {
        let ids = sandbox.run("qselect", arguments).ok();
        assert_eq!(
            ids.split_whitespace().collect::<Vec<_>>().join(" "),
            expected,
            "{arguments:?}"
        );
    }
    let queues = sandbox.run("qstat", &["-Q", "workq"]).ok();
    assert!(
        queues.contains("workq                0     2 yes yes     0     0     2"),
        "{queues}"
    );
}

#[test]
#[allow(clippy::too_many_lines, reason = "lists of attributes")]
fn qstat_f_shows_an_array_with_the_attributes_of_pbs_in_order() {
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    let retried = ["-W", "retry=2,retry_delay=60"];
    let arguments = [
        &["-h", "-J", "1-10:2%2", "-N", "an"][..],
        &retried,
        &["job.sh"],
    ]
    .concat();
    sandbox.run("qsub", &arguments).line();
    let host = sandbox.job("1[].head")["Submit_Host"]
        .as_str()
        .unwrap()
        .to_string();
    let names = |id: &str| {
        let full = sandbox.run("qstat", &["-fw", id]).ok();
        let lines = full.lines().filter_map(|line| {
            line.strip_prefix("    ")?
                .split(" = ")
                .next()
                .map(str::to_string)
        });
        lines.collect::<Vec<_>>()
    };
    let array = names("1[]");
    let last_common = array
        .iter()
        .position(|name| name == "Submit_arguments")
        .unwrap();
    let expected = [
        "array",
        "array_state_count",
        "array_indices_submitted",
        "array_indices_remaining",
        "project",
        "Submit_Host",
        "max_run_subjobs",
        "retry",
        "retry_delay",
    ];
    assert_eq!(array[last_common + 1..], expected);
    let subjob = names("1[3]");
    assert_eq!(
        subjob[..=last_common],
        array[..=last_common],
        "a waiting subjob has the attributes of its array"
    );
    assert_eq!(
        subjob[last_common + 1..last_common + 3],
        ["array_id", "array_index"]
    );
    let text = sandbox.run("qstat", &["-tf", "-F", "json", "1[]"]).ok();
    let document: Value = serde_json::from_str(&text).unwrap();
    let jobs = document["Jobs"].as_object().unwrap();
    let ids: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("\t\t\"")?.split('"').next())
        .collect();
    assert_eq!(
        ids,
        [
            "1[].head",
            "1[1].head",
            "1[3].head",
            "1[5].head",
            "1[7].head",
            "1[9].head"
        ]
    );
    let path = |id: &str| {
        jobs[id]["Output_Path"]
            .as_str()
            .unwrap()
            .strip_prefix(&format!("{host}:"))
            .unwrap()
            .to_string()
    };
    let work = sandbox.work().display().to_string();
    assert_eq!(path("1[].head"), format!("{work}/an.o1.^array_index^"));
    assert_eq!(path("1[3].head"), format!("{work}/an.o1.3"));
    let array = &jobs["1[].head"];
    assert_eq!(
        (counts(array), &array["array"]),
        ("Queued:5 Running:0 Exiting:0 Expired:0", &json!("True"))
    );
    assert_eq!(
        (
            &array["max_run_subjobs"],
            &array["retry"],
            &array["retry_delay"]
        ),
        (&json!(2), &json!(2), &json!("00:01:00"))
    );
    assert_eq!(
        (
            &jobs["1[3].head"]["array_id"],
            &jobs["1[3].head"]["array_index"]
        ),
        (&json!("1[].head"), &json!(3))
    );
    let line = sandbox.run("qstat", &["-f", "-F", "dsv", "1[3]"]).ok();
    assert!(
        line.starts_with("Job Id: 1[3].head|Job_Name=an|") && line.contains("|array_index=3|"),
        "{line}"
    );
}
