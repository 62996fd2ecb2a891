//! Ranges of `qsub -J`.

use super::{assert_result, configured, head};
use crate::support::root;
use serde_json::{Value, json};
use std::fs;

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
        assert_result(
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
        assert_result(&sandbox.shell(line), code, "", error);
    }
    assert_eq!(
        sandbox.run("qselect", &["-x"]).ok(),
        "",
        "no job was accepted"
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
        assert_result(&sandbox.shell(line), 0, &format!("{number}[].head\n"), "");
        let job = sandbox.job(&format!("{number}[].head"));
        assert_eq!(
            (
                &job["array_indices_submitted"],
                &job["array_indices_remaining"]
            ),
            (&json!(submitted), &json!(remaining))
        );
    }
    let limits = ["3", "5", "6", "4"]
        .map(|number| sandbox.job(&format!("{number}[].head"))["max_run_subjobs"].clone());
    assert_eq!(limits, [json!(0), json!(2), json!(1), Value::Null]);
}

/// Ranges listed in qsub's manual page after the line that starts with `introduction`.
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
