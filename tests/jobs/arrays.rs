//! Arrays of jobs, as their users see them.

mod large;

mod meetings;

use crate::support::root;
use crate::support::sandbox::{Done, Sandbox};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

/// One server named `head` with one node that takes so many jobs at once.
fn head(slots: usize) -> Sandbox {
    configured(slots, "")
}

fn configured(slots: usize, more: &str) -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let server = format!("[server]\nname = \"head\"\n{more}\n");
    Sandbox::configured(&format!(
        "{server}[[node]]\nname = \"{node}\"\nncpus = {slots}\nmem = \"64gb\"\n"
    ))
}

#[track_caller]
fn says(done: &Done, code: i32, out: &str, first_of_err: &str) {
    let first = done.err.lines().next().unwrap_or_default();
    assert_eq!(
        (done.code, done.out.as_str(), first),
        (code, out, first_of_err),
        "{done:?}"
    );
}

/// Notes the element and its attempt.
const NOTE: &str = "echo $PBS_ARRAY_INDEX $LANAI_ATTEMPT >> done\n";

/// What elements have noted: index and attempt.
fn noted(sandbox: &Sandbox) -> Vec<(u32, u32)> {
    let text = fs::read_to_string(sandbox.file("done")).unwrap_or_default();
    let line = |line: &str| {
        let (index, attempt) = line.split_once(' ').unwrap();
        (index.parse().unwrap(), attempt.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// The same in the order of indices.
fn sorted(sandbox: &Sandbox) -> Vec<(u32, u32)> {
    let mut noted = noted(sandbox);
    noted.sort_unstable();
    noted
}

/// Ids without their server and letters of their states, as `qstat` lists them.
fn listed(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let shown = sandbox.run("qstat", arguments).ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} {}", words[0].trim_end_matches(".head"), words[4])
    };
    shown
        .lines()
        .skip(2)
        .map(line)
        .collect::<Vec<_>>()
        .join(", ")
}

fn counts(job: &Value) -> &str {
    job["array_state_count"].as_str().unwrap_or("none")
}

/// Lets elements end that wait for this.
fn touch(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.file(name), "").unwrap();
}

/// Waits for the file `go`.
const WAIT: &str = "while [ ! -e go ]; do sleep 0.02; done\n";

#[test]
fn qsub_reads_ranges_as_pbs_does() {
    let sandbox = configured(4, "max_array_size = 10000");
    sandbox.script("job.sh", "true");
    fs::write(sandbox.file("five"), "#PBS -J 5\n").unwrap();
    fs::write(sandbox.file("both"), "#PBS -J 1-3 -I\n").unwrap();
    let illegal = "qsub: illegal -J value";
    for range in [
        "5", "5-5", "10-1", "a-b", "1-", "-3", "-1-3", "1-3:0", "1-3:-1", "1-3,5", "1,2", "1-3 :2",
        "1-3:2:2",
    ] {
        says(
            &sandbox.run("qsub", &["-J", range, "job.sh"]),
            2,
            "",
            illegal,
        );
    }
    let limit = "qsub: Illegal attribute or resource value max_run_subjobs";
    let together = "qsub: interactive and array job submission cannot be used together";
    for (line, code, error) in [
        ("qsub -J '' job.sh", 2, illegal),
        ("qsub five", 2, illegal),
        ("qsub -J 1-3%x job.sh", 166, limit),
        ("qsub -J 1-3%2:2 job.sh", 166, limit),
        (
            "qsub -J 1-10001 job.sh",
            3,
            "qsub: Array job exceeds server or queue size limit",
        ),
        (
            "qsub -J 1-99999999999 job.sh",
            3,
            "qsub: Array job exceeds server or queue size limit",
        ),
        (
            "qsub -W max_run_subjobs=2 job.sh",
            127,
            "qsub: Attribute has to be set on an array job",
        ),
        (
            "qsub -W max_run_subjobs=2 -J 1-3%2 job.sh",
            2,
            "qsub: multiple max_run_subjobs values found",
        ),
        ("qsub -J 1-3 -I job.sh", 2, together),
        ("qsub both", 1, together),
        (
            "qsub -m aj job.sh",
            1,
            "qsub: mail option 'j' can not be used without array job",
        ),
    ] {
        says(&sandbox.shell(line), code, "", error);
    }
    assert_eq!(
        sandbox.run("qselect", &["-x"]).ok(),
        "",
        "nothing was accepted"
    );
    for (number, (line, submitted, remaining)) in (1..).zip([
        ("qsub -h -J 1-10:3 job.sh", "1-10:3", "1-10:3"),
        ("qsub -h -J 1-10:20 job.sh", "1-10:20", "1"),
        ("qsub -h -J 01-03%0 job.sh", "1-3", "1-3"),
        ("qsub -h -J 1-3 -r n -m abj job.sh", "1-3", "1-3"),
        ("qsub -h -t 0-9%2 job.sh", "0-9", "0-9"),
        (
            "qsub -h -J 1-2 -J 3-4 -W max_run_subjobs=1 job.sh",
            "3-4",
            "3-4",
        ),
        ("qsub -h -J 2-10001 job.sh", "2-10001", "2-10001"),
    ]) {
        says(&sandbox.shell(line), 0, &format!("{number}[].head\n"), "");
        let job = sandbox.job(&format!("{number}[].head"));
        assert_eq!(
            (
                &job["array_indices_submitted"],
                &job["array_indices_remaining"]
            ),
            (&json!(submitted), &json!(remaining))
        );
    }
    let most = ["3", "5", "6", "4"]
        .map(|number| sandbox.job(&format!("{number}[].head"))["max_run_subjobs"].clone());
    assert_eq!(most, [json!(0), json!(2), json!(1), Value::Null]);
}

/// The ranges that stand below a line of qsub's manual page that begins so.
fn documented(page: &str, introduction: &str) -> Vec<String> {
    let page = page.replace("\\-", "-");
    let mut lines = page
        .lines()
        .skip_while(|line| !line.starts_with(introduction));
    let ranges = lines.find_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
    ranges
        .unwrap_or_else(|| panic!("no {introduction:?}"))
        .split_whitespace()
        .map(str::to_string)
        .collect()
}

#[test]
fn qsub_accepts_and_refuses_the_ranges_that_its_manual_page_names() {
    let page = fs::read_to_string(root().join("man/qsub.1")).unwrap();
    let sandbox = head(4);
    sandbox.script("job.sh", "true");
    let code =
        |option: &str, range: &str| sandbox.run("qsub", &["-h", option, range, "job.sh"]).code;
    let accepted = documented(&page, "-J accepts:");
    for (option, ranges) in [
        ("-J", &accepted),
        ("-t", &accepted),
        (
            "-t",
            &documented(&page, "-t accepts what -J accepts, and also:"),
        ),
    ] {
        for range in ranges {
            assert_eq!(code(option, range), 0, "{option} {range}");
        }
    }
    for (option, introduction) in [("-J", "As in PBS, -J refuses"), ("-t", "-t refuses:")] {
        for range in documented(&page, introduction) {
            assert!([2, 166].contains(&code(option, &range)), "{option} {range}");
        }
    }
}

#[test]
fn a_waiting_array_is_listed_as_pbs_lists_it() {
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
        says(
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
fn an_array_in_full_has_the_attributes_of_pbs_in_its_order() {
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
    let behind = array
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
    assert_eq!(array[behind + 1..], expected);
    let element = names("1[3]");
    assert_eq!(
        element[..=behind],
        array[..=behind],
        "an element that waits has what its array has"
    );
    assert_eq!(element[behind + 1..behind + 3], ["array_id", "array_index"]);
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

#[test]
fn an_array_begins_runs_and_ends() {
    let sandbox = head(4);
    let id = sandbox.submit(
        &["-J", "1-6%2", "-N", "run", "-l", "walltime=60"],
        &format!("{NOTE}{WAIT}"),
    );
    let two = sandbox.until("two elements at work", || {
        (noted(&sandbox).len() == 2).then(|| sandbox.job(&id))
    });
    sandbox.running("1[1].head");
    sandbox.running("1[2].head");
    assert_eq!(
        listed(&sandbox, &["-t"]),
        "1[] B, 1[1] R, 1[2] R, 1[3] Q, 1[4] Q, 1[5] Q, 1[6] Q"
    );
    assert_eq!(
        listed(&sandbox, &["-t", "-p"]),
        "1[] B, 1[1] R, 1[2] R, 1[3] Q, 1[4] Q, 1[5] Q, 1[6] Q"
    );
    assert_eq!(
        (&two["substate"], counts(&two)),
        (&json!(70), "Queued:4 Running:2 Exiting:0 Expired:0")
    );
    assert_eq!(two["array_indices_remaining"], "3-6");
    let comment = two["comment"].as_str().unwrap();
    assert!(
        comment.starts_with("Job Array Began at ") && two["stime"].is_string(),
        "{two}"
    );
    let element = sandbox.job("1[1].head");
    assert_eq!(
        (&element["substate"], &element["run_count"]),
        (&json!(42), &json!(1))
    );
    let gone =
        ["Checkpoint", "Hold_Types", "Submit_arguments"].map(|name| element.get(name).is_some());
    assert_eq!(gone, [false; 3], "{element}");
    let waits = sandbox.until("the reason", || {
        let comment = sandbox.job("1[3].head")["comment"].as_str()?.to_string();
        comment
            .starts_with("Not Running: Number of concurrent")
            .then_some(comment)
    });
    assert!(
        waits.starts_with("Not Running: Number of concurrent running subjobs limit reached"),
        "{waits}"
    );
    let ids = |arguments: &[&str]| {
        sandbox
            .run("qselect", arguments)
            .ok()
            .replace(".head\n", " ")
            .trim()
            .to_string()
    };
    assert_eq!(
        (ids(&["-s", "B"]), ids(&["-T", "-s", "R"])),
        ("1[]".into(), "1[1] 1[2]".into())
    );
    let running = sandbox.run("qstat", &["-r", "-t"]).ok();
    let lines: Vec<&str> = running
        .lines()
        .filter_map(|line| line.split(".head").next())
        .collect();
    assert_eq!(lines[lines.len() - 2..], ["1[1]", "1[2]"], "{running}");
    let queues = sandbox.run("qstat", &["-Q"]).ok();
    assert!(
        queues.contains(
            "workq                0     3 yes yes     0     2     0     0     0     0 Exe*"
        ),
        "{queues}"
    );
    let queues = sandbox.run("qstat", &["-Qfw"]).ok();
    assert!(
        queues.contains("Queued:0 Held:0 Waiting:0 Running:2 Exiting:0 Begun:1"),
        "{queues}"
    );
    touch(&sandbox, "go");
    let over = sandbox.ended(&id);
    assert_eq!(
        sorted(&sandbox),
        (1..=6).map(|index| (index, 1)).collect::<Vec<_>>()
    );
    assert_eq!(
        (&over["Exit_status"], &over["substate"], counts(&over)),
        (
            &json!(0),
            &json!(92),
            "Queued:0 Running:0 Exiting:0 Expired:6"
        )
    );
    assert_eq!(
        (over["comment"].as_str(), &over["array_indices_remaining"]),
        (Some(&*format!("{comment} and finished")), &json!("-"))
    );
    let third = sandbox.job("1[3].head");
    assert!(
        third["comment"]
            .as_str()
            .unwrap()
            .ends_with(" and finished"),
        "{third}"
    );
    assert_eq!(
        (
            &third["Exit_status"],
            &third["substate"],
            &third["array_index"]
        ),
        (&json!(0), &json!(92), &json!(3))
    );
    assert_eq!(
        listed(&sandbox, &["-xt", "1[]"]),
        "1[] F, 1[1] F, 1[2] F, 1[3] F, 1[4] F, 1[5] F, 1[6] F"
    );
    assert_eq!(listed(&sandbox, &["-x", "1[2]"]), "1[2] F");
    for id in ["1[]", "1[2]", "1[1-2]"] {
        let text = format!(
            "qstat: {id}.head Job has finished, use -x or -H to obtain historical job information"
        );
        says(&sandbox.run("qstat", &[id]), 35, "", &text);
    }
    says(&sandbox.run("qdel", &["-x", "1[]"]), 0, "", "");
    says(
        &sandbox.run("qstat", &["-x", "1[]"]),
        153,
        "",
        "qstat: Unknown Job Id 1[].head",
    );
    says(
        &sandbox.run("qstat", &["-x", "1[3]"]),
        153,
        "",
        "qstat: Unknown Job Id 1[3].head",
    );
}

#[test]
fn elements_that_fail_make_their_array_fail() {
    let sandbox = head(4);
    let blocked = sandbox.run_with_input(
        "qsub",
        &["-W", "block=true", "-J", "0-3"],
        "exit $PBS_ARRAY_INDEX\n",
    );
    says(&blocked, 1, "1[].head\n", "");
    let array = sandbox.job("1[].head");
    assert_eq!(
        (&array["Exit_status"], &array["substate"]),
        (&json!(1), &json!(93))
    );
    assert!(
        array["comment"].as_str().unwrap().ends_with(" and failed"),
        "{array}"
    );
    for index in 0..4 {
        let element = sandbox.job(&format!("1[{index}].head"));
        assert_eq!(
            (&element["Exit_status"], &element["substate"]),
            (&json!(index), &json!(92 + i32::from(index > 0)))
        );
    }
    says(
        &sandbox.run_with_input("qsub", &["-W", "block=true", "-J", "0-3"], "true\n"),
        0,
        "2[].head\n",
        "",
    );
    says(
        &sandbox.run("qrerun", &["--failed", "2[]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 2[].head",
    );
}

#[test]
fn elements_are_deleted_one_by_one_and_in_ranges() {
    let sandbox = head(2);
    let id = sandbox.submit(&["-h", "-J", "1-9"], NOTE);
    says(&sandbox.run("qdel", &["1[2]"]), 0, "", "");
    assert_eq!(
        listed(&sandbox, &["-t", "1[1-3]"]),
        "1[1] H, 1[2] X, 1[3] H"
    );
    assert_eq!(sandbox.job(&id)["job_state"], "H", "nothing has begun");
    let waits = sandbox.job("1[2].head");
    assert_eq!(
        (&waits["substate"], &waits["Exit_status"]),
        (&json!(69), &json!(271))
    );
    assert_eq!(waits["comment"], "Subjob finished and terminated");
    says(
        &sandbox.run("qdel", &["1[2]"]),
        55,
        "",
        "qdel: Request invalid for finished array subjob 1[2].head",
    );
    says(
        &sandbox.run("qdel", &["1[10]"]),
        156,
        "",
        "qdel: Invalid request 1[10].head",
    );
    says(
        &sandbox.run("qdel", &["1[10-20]"]),
        156,
        "",
        "qdel: Invalid request 1[10-20].head",
    );
    says(&sandbox.run("qdel", &["1[1-9:3]"]), 0, "", "");
    let array = sandbox.job(&id);
    assert_eq!(
        (counts(&array), &array["array_indices_remaining"]),
        (
            "Queued:5 Running:0 Exiting:0 Expired:4",
            &json!("3,5-6,8-9")
        )
    );
    says(&sandbox.run("qrls", &[&id]), 0, "", "");
    sandbox.ended(&id);
    assert_eq!(sorted(&sandbox), [(3, 1), (5, 1), (6, 1), (8, 1), (9, 1)]);
    says(
        &sandbox.run("qdel", &["1[3]"]),
        35,
        "",
        "qdel: Job has finished 1[3].head",
    );
    says(
        &sandbox.run("qdel", &["1[]"]),
        35,
        "",
        "qdel: Job has finished 1[].head",
    );

    let by_ranges = sandbox.submit(&["-h", "-J", "0-20:5"], NOTE);
    says(&sandbox.run("qdel", &["2[0-9]", "2[10-99]"]), 0, "", "");
    let over = sandbox.job(&by_ranges);
    assert_eq!(
        (&over["job_state"], &over["substate"], &over["Exit_status"]),
        (&json!("F"), &json!(91), &json!(271))
    );

    let runs = sandbox.submit(&["-J", "1-4"], WAIT);
    sandbox.running("3[2].head");
    says(&sandbox.run("qdel", &["3[2-3]"]), 0, "", "");
    assert_eq!(
        sandbox.until("the end of it", || {
            let element = sandbox.job("3[2].head");
            (element["job_state"] == "X").then_some(element)
        })["Exit_status"],
        271
    );
    assert_eq!(sandbox.state("3[3].head"), "X");
    says(&sandbox.run("qdel", &[&runs]), 0, "", "");
    let over = sandbox.ended(&runs);
    assert_eq!(
        (&over["substate"], &over["Exit_status"]),
        (&json!(91), &json!(271))
    );
    assert!(
        over["comment"]
            .as_str()
            .unwrap()
            .contains(" and terminated by "),
        "{over}"
    );
    assert_eq!(
        listed(&sandbox, &["-xt", "3[]"]),
        "3[] F, 3[1] F, 3[2] F, 3[3] F, 3[4] F"
    );
}

#[test]
fn an_array_is_held_and_altered_as_a_whole() {
    let sandbox = head(8);
    let id = sandbox.submit(&["-J", "1-6%2"], &format!("{NOTE}{WAIT}"));
    sandbox.running("1[1].head");
    sandbox.running("1[2].head");
    for command in ["qhold", "qrls", "qalter"] {
        for id in ["1[1]", "1[5]", "1[5-6]"] {
            says(
                &sandbox.run(command, &[id]),
                156,
                "",
                &format!("{command}: Invalid request {id}.head"),
            );
        }
    }
    says(&sandbox.run("qhold", &[&id]), 0, "", "");
    assert_eq!(
        listed(&sandbox, &["-t", &id]),
        "1[] H, 1[1] R, 1[2] R, 1[3] H, 1[4] H, 1[5] H, 1[6] H"
    );
    says(
        &sandbox.run("qalter", &["-W", "max_run_subjobs=4", "-N", "new", &id]),
        0,
        "",
        "",
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(noted(&sandbox).len(), 2, "a held array starts nothing");
    says(&sandbox.run("qrls", &[&id]), 0, "", "");
    sandbox.until("two more", || (noted(&sandbox).len() == 4).then_some(()));
    let names =
        ["1[].head", "1[1].head", "1[3].head"].map(|id| sandbox.job(id)["Job_Name"].clone());
    assert_eq!(
        names,
        [json!("new"), json!("STDIN"), json!("new")],
        "what has begun stays what it was"
    );
    assert_eq!(
        (
            &sandbox.job(&id)["comment"].as_str().unwrap()[..15],
            sandbox.state(&id).as_str()
        ),
        ("Job Array Began", "B")
    );
    says(&sandbox.run("qsig", &["-s", "KILL", "1[2]"]), 0, "", "");
    says(
        &sandbox.run("qsig", &["1[6]"]),
        168,
        "",
        "qsig: Request invalid for state of job 1[6].head",
    );
    says(
        &sandbox.run("qrerun", &["1[6]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 1[6].head",
    );
    sandbox.until("the end of it", || {
        (sandbox.state("1[2].head") == "X").then_some(())
    });
    assert_eq!(sandbox.job("1[2].head")["Exit_status"], 265);
    says(
        &sandbox.run("qsig", &["1[2]"]),
        55,
        "",
        "qsig: Request invalid for finished array subjob 1[2].head",
    );
    says(
        &sandbox.run("qrerun", &["1[2]"]),
        168,
        "",
        "qrerun: Request invalid for state of job 1[2].head",
    );
    says(&sandbox.run("qrerun", &["1[1]"]), 0, "", "");
    sandbox.until("its second start", || {
        noted(&sandbox).contains(&(1, 2)).then_some(())
    });
    touch(&sandbox, "go");
    sandbox.ended(&id);
    assert_eq!(
        sorted(&sandbox),
        [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
    );
    assert_eq!(sandbox.job("1[1].head")["run_count"], 2);
}

#[test]
fn no_more_elements_run_at_once_than_is_said_and_that_may_be_changed() {
    let sandbox = head(16);
    let count = "mkdir at.$PBS_ARRAY_INDEX; ls -d at.* | wc -l >> seen; sleep 0.3; rmdir at.$PBS_ARRAY_INDEX\n\
                 exit $((PBS_ARRAY_INDEX % 10 == 0))\n";
    let id = sandbox.submit(&["-J", "1-60%3", "-W", "retry=1"], count);
    let most = || {
        sandbox
            .read("seen")
            .lines()
            .map(|line| line.trim().parse::<u32>().unwrap())
            .max()
            .unwrap()
    };
    let seen = || {
        fs::read_to_string(sandbox.file("seen"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    sandbox.until("three at once", || {
        (seen() > 12 && most() >= 3).then_some(())
    });
    assert_eq!(most(), 3);
    says(
        &sandbox.run("qalter", &["-W", "max_run_subjobs=6", &id]),
        0,
        "",
        "",
    );
    let over = sandbox.ended(&id);
    assert_eq!(
        sandbox.read("seen").lines().count(),
        66,
        "six of them twice"
    );
    assert_eq!(
        (most(), &over["Exit_status"], &over["max_run_subjobs"]),
        (6, &json!(1), &json!(6))
    );
}

#[test]
fn what_fails_is_run_again_as_often_and_as_late_as_is_said() {
    let sandbox = head(8);
    let note = "echo $PBS_ARRAY_INDEX $LANAI_ATTEMPT >> done; date +%s.%N >> at.$PBS_ARRAY_INDEX\n";
    let script = format!("{note}[ $PBS_ARRAY_INDEX -lt $LANAI_ATTEMPT ]\n");
    let id = sandbox.submit(
        &["-J", "0-4", "-W", "retry=2", "-W", "retry_delay=1"],
        &script,
    );
    sandbox.until("one that waits again", || {
        (counts(&sandbox.job(&id)) == "Queued:4 Running:0 Exiting:0 Expired:1").then_some(())
    });
    let over = sandbox.ended(&id);
    assert_eq!(over["Exit_status"], 1);
    let mut attempts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    noted(&sandbox)
        .into_iter()
        .for_each(|(index, attempt)| attempts.entry(index).or_default().push(attempt));
    let expected = BTreeMap::from([
        (0, vec![1]),
        (1, vec![1, 2]),
        (2, vec![1, 2, 3]),
        (3, vec![1, 2, 3]),
        (4, vec![1, 2, 3]),
    ]);
    assert_eq!(attempts, expected);
    let ends =
        [0, 2, 3].map(|index| sandbox.job(&format!("1[{index}].head"))["Exit_status"].clone());
    assert_eq!(ends, [json!(0), json!(0), json!(1)]);
    let times: Vec<f64> = sandbox
        .read("at.2")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= 1.0),
        "{times:?}"
    );
}

#[test]
fn only_what_has_failed_is_run_once_more() {
    let sandbox = head(8);
    let script = format!("{NOTE}[ -e mended ] || exit $((PBS_ARRAY_INDEX % 3))\n");
    let id = sandbox.submit(&["-h", "-J", "1-9"], &script);
    sandbox.run("qdel", &["1[9]", "1[1]"]).ok();
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
    touch(&sandbox, "mended");
    says(
        &sandbox.run("qrerun", &["--failed", "1[2]"]),
        156,
        "",
        "qrerun: Invalid request 1[2].head",
    );
    says(&sandbox.run("qrerun", &["--failed", &id]), 0, "", "");
    let over = sandbox.ended(&id);
    let again = [2, 4, 5, 7, 8];
    let mut expected: Vec<(u32, u32)> = (2..9).map(|index| (index, 1)).collect();
    expected.extend(again.map(|index| (index, 2)));
    expected.sort_unstable();
    assert_eq!(sorted(&sandbox), expected, "{over}");
    let counts = ["1[2].head", "1[3].head"].map(|id| sandbox.job(id)["run_count"].clone());
    assert_eq!(counts, [json!(2), json!(1)]);
    let status = |index| sandbox.job(&format!("1[{index}].head"))["Exit_status"].clone();
    assert_eq!(
        [status(1), status(2), status(3), status(9)],
        [json!(271), json!(0), json!(0), json!(271)]
    );
}

/// Elements through the death of schedd, at whatever moment of their lives.
#[test]
fn a_killed_schedd_starts_every_element_exactly_once() {
    let sandbox = head(8);
    let id = sandbox.submit(
        &["-J", "0-398:2", "-W", "umask=022"],
        &format!("{NOTE}sleep 0.01\n"),
    );
    for share in 1..=4 {
        sandbox.until("some of them", || {
            (noted(&sandbox).len() >= share * 40).then_some(())
        });
        sandbox.kill("schedd");
        std::thread::sleep(Duration::from_millis(40 * share as u64));
        sandbox.run("schedd", &[]).ok();
    }
    let over = sandbox.ended(&id);
    assert_eq!(
        (&over["Exit_status"], counts(&over)),
        (&json!(0), "Queued:0 Running:0 Exiting:0 Expired:200")
    );
    assert_eq!(
        sorted(&sandbox),
        (0..200)
            .map(|position| (2 * position, 1))
            .collect::<Vec<_>>()
    );
}

/// Since when, in seconds.
fn since(start: SystemTime) -> f64 {
    start.elapsed().unwrap_or_default().as_secs_f64()
}
