//! Tests of the output and errors of `qstat`.

use super::*;
use crate::cli::example::{self, NOW, System, finished, queued, running, share, with};

const USAGE_ALONE: (&str, bool, u8) = ("", true, 2);

fn output_of(system: &System, words: &str) -> Result<CommandOutput, Failure> {
    let args: QstatArgs = example::parse(command, words)?;
    let (format, mut out) = (args.check()?, Vec::new());
    let failures = args.answer(&format, &mut system.feed(), NOW, &mut out);
    Ok(CommandOutput { out, failures })
}

/// Output, then each failure as `<code> <text>`.
fn shown(system: &System, words: &str) -> (String, Vec<String>) {
    let output = output_of(system, words).unwrap();
    let failures = output
        .failures
        .iter()
        .map(|failure| format!("{} {}", failure.code, failure.text));
    (String::from_utf8(output.out).unwrap(), failures.collect())
}

fn system() -> System {
    let mut held = queued(2, "held", "");
    held.job.life.state = JobState::Held;
    let bobs = with(queued(4, "bobs", ""), |spec| {
        spec.submit_host = "login2".into()
    });
    let mut jobs = vec![
        running(queued(1, "runs", "walltime=10:00"), vec![share(2, None)]),
        held,
        finished(
            running(queued(3, "over", ""), vec![share(1, None)]),
            0,
            false,
        ),
        bobs,
    ];
    jobs[3].job.owner.user = "bob".into();
    jobs[0].environ = Some(b"N=4\0".to_vec());
    System {
        jobs,
        nodes: vec![],
    }
}

/// The names of the jobs in a plain list.
fn names(words: &str) -> Vec<String> {
    let (out, _) = shown(&system(), words);
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let all = ["runs", "held", "over", "bobs"];
    out.lines()
        .flat_map(words)
        .filter(|word| all.contains(&word.as_str()))
        .collect()
}

#[test]
fn conflicting_options_are_reported_with_the_usage() {
    for words in [
        "-a -i",
        "-a -r",
        "-i -H",
        "-q -a",
        "-q -f",
        "-G -M",
        "-F json",
        "-F dsv",
        "-F json -a -f",
        "-F json -n -f",
        "-F dsv -f -a -u alice",
        "-1",
        "-1 -a",
        "-B -Q",
        "-Q -F json",
    ] {
        let failure = output_of(&system(), words).unwrap_err();
        assert_eq!(
            (failure.text.as_str(), failure.usage, failure.code),
            ("conflicting options.", true, 2),
            "{words}"
        );
    }
    let failure = output_of(&system(), "-F json -w -f").unwrap_err();
    assert_eq!(
        failure.text,
        "conflicting options.\nqstat: option w cannot be used with -F"
    );
    for words in ["-F xml -f", "-D :", "-f -D :", "-W x"] {
        let failure = output_of(&system(), words).unwrap_err();
        assert_eq!(
            (failure.text.as_str(), failure.usage, failure.code),
            USAGE_ALONE,
            "{words}"
        );
    }
    for words in ["-E workq", "-E nosuch"] {
        let failure = output_of(&system(), words).unwrap_err();
        assert_eq!(
            (failure.text.as_str(), failure.code),
            ("Express option can only be used with job ids", 1)
        );
    }
}

#[test]
fn compatible_options_are_accepted() {
    for words in [
        "-x -H", "-B -a", "-Q -a", "-f -a", "-f -n", "-f -s", "-f -T", "-a -p", "-p -f", "-f -1",
        "-xf",
    ] {
        assert!(output_of(&system(), words).is_ok(), "{words}");
    }
    assert_eq!(
        shown(&system(), "-f -w -u bob").0,
        shown(&system(), "-f -w 4").0
    );
    assert_eq!(
        shown(&system(), "-f -F dsv -u bob").0,
        shown(&system(), "-f -F dsv 4").0
    );
    assert!(shown(&system(), "-f -n 1").0.contains("\n   head/0*2\n"));
    assert_eq!(shown(&system(), "-f -1 1").0, shown(&system(), "-f -w 1").0);
}

#[test]
fn lists_show_unfinished_jobs_by_default() {
    assert_eq!(names(""), ["runs", "held", "bobs"]);
    assert_eq!(names("-x"), ["runs", "held", "over", "bobs"]);
    assert_eq!(names("-H"), ["over"]);
    assert_eq!(names("-i"), ["held", "bobs"]);
    assert_eq!(names("-r"), ["runs"]);
    assert_eq!(names("-u bob"), ["bobs"]);
    assert_eq!(names("-u bob@login2,alice@other"), ["bobs"]);
    assert_eq!(names("-u *"), Vec::<String>::new());
    assert_eq!(names("-J"), Vec::<String>::new());
    assert_eq!(names("@head"), ["runs", "held", "bobs"]);
    assert_eq!(names("workq@head"), ["runs", "held", "bobs"]);
    assert_eq!(shown(&System::default(), "").0, "");
    assert_eq!(shown(&System::default(), "-a").0, "");
    assert_eq!(shown(&System::default(), "-f").0, "");
}

#[test]
fn every_operand_is_processed_under_one_heading() {
    let (out, failures) = shown(&system(), "4 999 1 1.head 3 12x nosuch");
    let expected = "\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
4.head            bobs             bob                      0 Q workq           \n\
1.head            runs             alice             00:04:55 R workq           \n";
    assert_eq!(out, expected);
    let expected = [
        "153 Unknown Job Id 999.head",
        "35 3.head Job has finished, use -x or -H to obtain historical job information",
        "1 illegally formed job identifier: 12x",
        "170 Unknown queue destination nosuch",
    ];
    assert_eq!(failures, expected);
    let elsewhere = "255 cannot connect to server other (errno=15008): Unknown Host.";
    assert_eq!(
        shown(&system(), "1[3] 2@other").1,
        ["153 Unknown Job Id 1[3].head", elsewhere]
    );
    assert!(
        shown(&system(), "@other").1[0]
            .starts_with("255 cannot connect to server other (errno=15008)")
    );
}

#[test]
fn subjobs_are_shown_on_request() {
    let mut arrays = system();
    arrays
        .jobs
        .push(example::array(queued(7, "many", ""), "1-5:2"));
    let ids = |words: &str| {
        let (out, failures) = shown(&arrays, words);
        let ids = out
            .lines()
            .skip(2)
            .filter_map(|line| line.split(".head").next())
            .map(str::to_string);
        (ids.collect::<Vec<_>>().join(" "), failures)
    };
    for (words, expected) in [
        ("7[]", "7[]"),
        ("-t 7[]", "7[] 7[1] 7[3] 7[5]"),
        ("-t 7[] 7[3] 7[] 1", "7[] 7[1] 7[3] 7[5] 1"),
        ("-Jt 7[]", "7[1] 7[3] 7[5]"),
        ("7[3] 7[1-9]", "7[3] 7[1] 7[5]"),
        ("7[1-3] 7[3-5] 7[5]", "7[1] 7[3] 7[5]"),
        ("7[] 7[4-9]", "7[] 7[5]"),
    ] {
        assert_eq!(ids(words), (expected.to_string(), vec![]), "{words}");
    }
    for unknown in ["7", "7[2]", "7[6-9]"] {
        assert_eq!(
            ids(unknown),
            (
                String::new(),
                vec![format!("153 Unknown Job Id {unknown}.head")]
            )
        );
    }
    let elsewhere = "1 illegally formed job identifier: 7[1-3].other";
    assert_eq!(
        ids("7[1-3].other"),
        (String::new(), vec![elsewhere.to_string()])
    );
    let (out, _) = shown(&arrays, "-t -f -F json 7[] 7[1]");
    assert_eq!(out.matches("\t\t\"7[").count(), 4, "{out}");
}

#[test]
fn filters_do_not_apply_to_job_ids() {
    for words in ["-i 1", "-r 2", "-H 1", "-u bob 1", "-J 1", "-x 3", "-H 3"] {
        assert_eq!(names(words).len(), 1, "{words}");
        assert_eq!(shown(&system(), words).1, Vec::<String>::new(), "{words}");
    }
}

#[test]
fn json_is_one_document_over_all_operands() {
    let (out, failures) = shown(&system(), "-f -F json 1 999 2 3 1");
    let read: serde_json::Value = serde_json::from_str(&out).unwrap();
    let keys: Vec<&String> = read["Jobs"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["1.head", "2.head"]);
    assert_eq!(read["Jobs"]["1.head"]["Variable_List"]["N"], "4");
    assert_eq!(failures.len(), 2);
    let (out, failures) = shown(&system(), "-f -F json 999");
    let read: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&read["timestamp"], &read["pbs_server"]),
        (&1_700_000_300.into(), &"head".into())
    );
    assert!(read.get("Jobs").is_none());
    assert_eq!(failures, ["153 Unknown Job Id 999.head"]);
    assert!(
        serde_json::from_slice::<serde_json::Value>(&attribute_output::without_server(
            &AttributeFormat::Json,
            NOW
        ))
        .is_ok()
    );
}

#[test]
fn queues_and_the_server_are_shown_in_every_format() {
    let system = system();
    assert!(
        shown(&system, "-Q workq")
            .0
            .contains("\nworkq                0     4 yes yes     1     1     1")
    );
    assert_eq!(
        shown(&system, "-Q nosuch"),
        (String::new(), vec!["170 Unknown queue nosuch".to_string()])
    );
    assert_eq!(
        shown(&system, "-q nosuch"),
        (String::new(), vec!["170 Unknown queue nosuch".to_string()])
    );
    assert!(
        shown(&system, "-Qf -F dsv")
            .0
            .starts_with("Queue: workq|queue_type=Execution|total_jobs=4|")
    );
    let read: serde_json::Value = serde_json::from_str(&shown(&system, "-Bf -F json").0).unwrap();
    assert_eq!(read["Server"]["head"]["server_state"], "Active");
    assert_eq!(read["Server"]["head"]["resources_assigned"]["ncpus"], 2);
    let read: serde_json::Value =
        serde_json::from_str(&shown(&system, "-Q -f -F json nosuch").0).unwrap();
    assert!(read.get("Queue").is_none());
    assert!(
        shown(&system, "-B")
            .0
            .contains("\nhead                 0     4     1     1     1")
    );
    let (out, failures) = shown(&system, "-B nosuch");
    assert_eq!((out.as_str(), failures.len()), ("", 1));
    assert!(failures[0].starts_with("255 cannot connect to server nosuch"));
}

#[test]
fn percentages_refer_to_the_requested_walltime() {
    assert!(
        shown(&system(), "-p 1")
            .0
            .ends_with("                50  R workq           \n")
    );
}
