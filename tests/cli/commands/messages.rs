//! Error messages of PBS.

use super::{assert_prints, head};
use serde_json::Value;
use std::fs;

#[test]
fn qsub_uses_the_error_messages_of_pbs() {
    let sandbox = head();
    sandbox.script("job.sh", "true");
    fs::write(sandbox.file("extra"), "#PBS -l ncpus=1 extra\n").unwrap();
    let long = format!("qsub -N {} job.sh", "a".repeat(231));
    let exclusive =
        r#"qsub: "-lresource=" cannot be used with "select" or "place", resource is: ncpus"#;
    for (line, code, error) in [
        ("qsub -y", 2, "qsub: invalid option -- 'y'"),
        (
            "qsub nosuch.sh",
            1,
            "qsub: script file:: No such file or directory",
        ),
        ("qsub /tmp", 1, "qsub: script not a file"),
        ("qsub -N 'a b' job.sh", 2, "qsub: illegal -N value"),
        (long.as_str(), 2, "qsub: Job name is too long "),
        ("qsub -p 5000 job.sh", 2, "qsub: illegal -p value"),
        (
            "qsub -l ncpus=abc job.sh",
            166,
            "qsub: Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "qsub -l foo=1 job.sh",
            187,
            "qsub: Unknown resource Resource_List.foo",
        ),
        (
            "qsub -l select=1:foo=1 job.sh",
            187,
            "qsub: Unknown resource: foo",
        ),
        (
            "qsub -l select=1:walltime=60 job.sh",
            4,
            "qsub: Resource invalid in \"select\" specification: walltime",
        ),
        ("qsub -l select=1 -l ncpus=2 job.sh", 5, exclusive),
        (
            "qsub -l place=pack job.sh",
            7,
            "qsub: Cannot have \"place\" without \"select\"",
        ),
        ("qsub -q nosuch job.sh", 170, "qsub: Unknown queue"),
        ("qsub -J 5 job.sh", 2, "qsub: illegal -J value"),
        ("qsub extra", 1, "qsub: directive error: -l ncpus=1 extra "),
        (
            "qsub -I",
            1,
            "qsub:\tstandard input and output must be a terminal for",
        ),
    ] {
        assert_prints(&sandbox.shell(line), code, "", error);
    }
    assert_eq!(
        sandbox.run("qselect", &["-x"]).ok(),
        "",
        "no job was accepted"
    );
}

#[test]
fn qstat_uses_the_layout_and_error_messages_of_pbs() {
    let sandbox = head();
    sandbox.script("job.sh", "sleep 60");
    let id = sandbox.run("qsub", &["-h", "job.sh"]).line();
    let shown = sandbox.run("qstat", &[&id]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[0],
        "Job id            Name             User              Time Use S Queue"
    );
    assert_eq!(
        lines[1],
        "----------------  ---------------- ----------------  -------- - -----"
    );
    assert!(
        lines[2].starts_with("1.head            job.sh") && lines[2].contains("0 H workq"),
        "{shown}"
    );
    sandbox.run("qrls", &[&id]).ok();
    sandbox.running(&id);
    let done = sandbox.submit(&[], "true\n");
    sandbox.ended(&done);
    let expected = format!(
        "qstat: {done} Job has finished, use -x or -H to obtain historical job information"
    );
    assert_prints(&sandbox.run("qstat", &[&done]), 35, "", &expected);
    assert!(
        sandbox
            .run("qstat", &["-x", &done])
            .ok()
            .contains(" F workq")
    );
    assert_prints(
        &sandbox.run("qstat", &["999"]),
        153,
        "",
        "qstat: Unknown Job Id 999.head",
    );
    assert_prints(
        &sandbox.run("qstat", &["-F", "json"]),
        2,
        "",
        "qstat: conflicting options.",
    );
    assert_prints(
        &sandbox.run("qstat", &["-Q", "nosuch"]),
        170,
        "",
        "qstat: Unknown queue nosuch",
    );
    let mixed = sandbox.run("qstat", &["-f", "-F", "json", "999", &id]);
    let document: Value = serde_json::from_str(&mixed.out).unwrap();
    assert_eq!(
        (mixed.code, mixed.err.as_str()),
        (153, "qstat: Unknown Job Id 999.head\n")
    );
    assert_eq!(document["Jobs"][&id]["job_state"], "R");
    for (name, wanted) in [
        ("-f", "Job Id: 1.head"),
        ("-a", "head: "),
        ("-Q", "workq"),
        ("-B", "head"),
    ] {
        assert!(
            sandbox.run("qstat", &[name]).ok().contains(wanted),
            "{name}"
        );
    }
}

#[test]
fn errors_about_jobs_and_job_states_are_those_of_pbs() {
    let sandbox = head();
    let finished = sandbox.submit(&[], "true\n");
    sandbox.ended(&finished);
    let running = sandbox.submit(&["-l", "walltime=60"], "sleep 60\n");
    sandbox.running(&running);
    let held = sandbox.submit(&["-h"], "true\n");
    for (line, code, error) in [
        ("qdel 999", 153, "qdel: Unknown Job Id 999.head"),
        ("qdel 1", 35, "qdel: Job has finished 1.head"),
        ("qhold 1", 35, "qhold: Job has finished"),
        ("qrls 999", 153, "qrls: Unknown Job Id 999.head"),
        (
            "qalter -A x 2",
            167,
            "qalter: Cannot modify attribute while job running  Account_Name 2.head",
        ),
        (
            "qsig -s SIGTERM 3",
            168,
            "qsig: Request invalid for state of job 3.head",
        ),
        (
            "qsig -s NOSUCH 2",
            165,
            "qsig: Unknown/illegal signal name 2.head",
        ),
        (
            "qrerun 3",
            168,
            "qrerun: Request invalid for state of job 3.head",
        ),
        ("qselect -s Z", 2, "qselect: illegal -s value"),
        ("qdel x", 1, "qdel: illegally formed job identifier: x"),
        ("pbsnodes nosuch", 1, "Node: nosuch,  Error: Unknown node "),
    ] {
        assert_prints(&sandbox.shell(line), code, "", error);
    }
    assert_prints(&sandbox.shell("qselect -s R -u nosuchuser"), 0, "", "");
    let all = sandbox.run("qdel", &["999", &held, &finished, "998"]);
    let errors = "qdel: Unknown Job Id 999.head\nqdel: Job has finished 1.head\nqdel: Unknown Job Id 998.head\n";
    assert_eq!(
        (all.code, all.err.as_str()),
        (153, errors),
        "each operand is processed"
    );
    assert_eq!(sandbox.state(&held), "F");
}
