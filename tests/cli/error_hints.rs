//! Error messages name the input, its place and a remedy. The first line is PBS's.

use crate::support::sandbox::Sandbox;
use std::fs;

/// A server `head` with a node of four processors and the queues `workq` and `long`.
fn head() -> Sandbox {
    let host = lanai::sys::sensors::short_host_name();
    let queues = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"long\"\n";
    let sandbox = Sandbox::configured(&format!(
        "[server]\nname = \"head\"\nrefuse_impossible = false\n{queues}[[node]]\nname = \"{host}\"\nncpus = 4\nmem = \"8gb\"\n"
    ));
    sandbox.script("job.sh", "true");
    sandbox
}

/// Asserts that a command fails with these lines on standard error. The usage is not compared.
#[track_caller]
fn assert_fails(sandbox: &Sandbox, line: &str, expected: &[&str]) {
    let done = sandbox.shell(line);
    let lines = done.err.lines();
    let lines: Vec<&str> = lines
        .filter(|line| !line.starts_with("usage: ") && !line.starts_with("       "))
        .collect();
    assert_eq!(lines, expected, "{line}");
    assert_ne!(done.code, 0, "{line}");
    assert_eq!(done.out, "", "{line}");
}

/// Asserts that a command is accepted with these lines on standard error.
#[track_caller]
fn assert_warns(sandbox: &Sandbox, line: &str, expected: &[&str]) {
    let done = sandbox.shell(line);
    assert_eq!(done.err.lines().collect::<Vec<_>>(), expected, "{line}");
    done.ok();
}

#[test]
fn unknown_long_options_are_named_with_the_nearest_or_the_pbs_form() {
    let sandbox = head();
    for (line, hint) in [
        (
            "qstat --wy 1",
            "qstat: unknown option --wy; the nearest known option is --why",
        ),
        (
            "qsub --dry job.sh",
            "qsub: unknown option --dry; the nearest known option is --dry-run",
        ),
        (
            "qsub --foo",
            "qsub: unknown option --foo; qsub --help lists the options",
        ),
        (
            "qsub --mem=4G job.sh",
            "qsub: --mem is an option of Slurm; in PBS: -l mem=4gb",
        ),
        (
            "qsub --array 1-10 job.sh",
            "qsub: --array is an option of Slurm; in PBS: -J 1-10",
        ),
        (
            "qsub --time=1-00:00:00 job.sh",
            "qsub: --time is an option of Slurm; in PBS: -l walltime=24:00:00",
        ),
        (
            "qstat -f --help",
            "qstat: --help must be the only option: qstat --help",
        ),
    ] {
        let command = line.split(' ').next().unwrap();
        assert_fails(
            &sandbox,
            line,
            &[&format!("{command}: invalid option -- '-'"), hint],
        );
    }
}

#[test]
fn wrong_operands_are_named_after_the_usage() {
    let sandbox = head();
    for (line, hints) in [
        (
            "qsub -n 4 -- true",
            &[
                "qsub: 4 precedes --: give either a script or -- and a command, for example qsub \
                 -- sleep 60; see qsub --help for the values of options",
                "qsub: -n has no value, it requests nodes for exclusive use; for 4 processors: -l \
                 ncpus=4",
            ][..],
        ),
        (
            "qsub --",
            &["qsub: a command must follow --, for example qsub -- sleep 60"],
        ),
        (
            "qalter -A x",
            &["qalter: missing operand: <job_identifier>..."],
        ),
    ] {
        assert_fails(&sandbox, line, hints);
        let err = sandbox.shell(line).err;
        assert!(err.starts_with("usage: "), "{err}");
    }
}

#[test]
fn a_missing_script_is_named_with_what_was_probably_meant() {
    let sandbox = head();
    let first = "qsub: script file:: No such file or directory";
    for (line, hints) in [
        (
            "qsub sleep 1",
            &[
                "qsub: the script file is sleep",
                "qsub: sleep is a program; to run it as a job: qsub -- sleep 1",
            ][..],
        ),
        (
            "qsub jbo.sh",
            &[
                "qsub: the script file is jbo.sh",
                "qsub: the nearest file name there is job.sh",
            ],
        ),
        ("qsub zzzzzz", &["qsub: the script file is zzzzzz"]),
    ] {
        assert_fails(&sandbox, line, &[&[first], hints].concat());
    }
}

#[test]
fn slurm_lines_are_reported_and_translated() {
    let sandbox = head();
    let slurm = "#!/bin/sh\n#SBATCH --ntasks=2\n#SBATCH -t 10 --nice\ntrue\n";
    fs::write(sandbox.file("slurm.sh"), slurm).unwrap();
    assert_warns(
        &sandbox,
        "qsub -h slurm.sh",
        &[
            "qsub: warning: lines 2 to 3 are for Slurm (#SBATCH) and ignored: --ntasks=2 --time=10 \
             --nice",
            "qsub: warning: in PBS: #PBS -l walltime=00:10:00 -l select=2:ncpus=1:mpiprocs=1",
            "qsub: warning: without a known form in PBS: --nice",
        ],
    );
    // A script with directives for both systems is complete.
    fs::write(
        sandbox.file("both.sh"),
        slurm.replace("-t 10", "-t 10\n#PBS -N x\n#SBATCH"),
    )
    .unwrap();
    assert_warns(&sandbox, "qsub -h both.sh", &[]);
}

#[test]
fn illegal_values_of_options_are_named_with_their_form() {
    let sandbox = head();
    for (option, first, hint) in [
        (
            "-a tomorrow",
            "illegal -a value",
            "-a tomorrow: use a local time [[[[CC]YY]MM]DD]hhmm[.SS], for example -a 0830 for the \
             next 8:30, or -a 12312200 for December 31, 22:00",
        ),
        (
            "-m foo",
            "illegal -m value",
            "-m foo: use letters of a (aborted), b (begins), e (ends) and j (each subjob), or n, \
             for example -m abe",
        ),
        (
            "-N 'a b'",
            "illegal -N value",
            "-N 'a b': use up to 230 letters, digits and characters . - _ +, for example -N \
             my_job-1",
        ),
        (
            "-k z",
            "illegal -k value",
            "-k z: use letters of o, e and d, or n, for example -k oed",
        ),
        (
            "-J 5-1",
            "illegal -J value",
            "-J 5-1: use X-Y[:STEP][%MOST] with X below Y, for example -J 1-10",
        ),
        (
            "-W umask=999",
            "illegal -W value",
            "-W umask=999: use an octal number up to 777, for example -W umask=027",
        ),
        (
            "-p 5000",
            "illegal -p value",
            "-p 5000: use a whole number from -1024 to 1023, or in the range that the site sets, \
             for example -p 100",
        ),
        (
            "-v A=1,NOT_SET",
            "cannot send environment with the job",
            "NOT_SET is not in the environment of qsub: export it, or give a value with -v \
             NOT_SET=VALUE",
        ),
        (
            "-l walltime=2d",
            "Illegal attribute or resource value Resource_List.walltime",
            "walltime=2d: use seconds or [[HH:]MM:]SS, for example -l walltime=48:00:00",
        ),
        (
            "-l walltime=abc",
            "Illegal attribute or resource value Resource_List.walltime",
            "walltime=abc: use seconds or [[HH:]MM:]SS, for example -l walltime=01:00:00",
        ),
        (
            "-l cpus=3",
            "Unknown resource Resource_List.cpus",
            "cpus: the nearest known resource is ncpus: -l ncpus=3",
        ),
        (
            "-l select=0:ncpus=1",
            "Illegal attribute or resource value",
            "select=0:ncpus=1: use COUNT:RESOURCE=VALUE:...+COUNT:... with counts of at least 1, \
             for example -l select=2:ncpus=4:mem=8gb",
        ),
        ("-q gpu", "Unknown queue", "gpu: the queues are workq, long"),
        (
            "-q lng",
            "Unknown queue",
            "lng: the nearest known name is long; the queues are workq, long",
        ),
    ] {
        let (first, hint) = (format!("qsub: {first}"), format!("qsub: {hint}"));
        assert_fails(&sandbox, &format!("qsub {option} job.sh"), &[&first, &hint]);
    }
    assert_eq!(sandbox.run("qselect", &["-x"]).ok(), "");
}

#[test]
fn errors_in_a_script_name_the_line() {
    let sandbox = head();
    for (directive, first, hint) in [
        (
            "-l walltime=48h",
            "qsub: Illegal attribute or resource value Resource_List.walltime",
            "walltime=48h: use seconds or [[HH:]MM:]SS, for example -l walltime=48:00:00",
        ),
        (
            "-q gpu",
            "qsub: Unknown queue",
            "gpu: the queues are workq, long",
        ),
        (
            "-r maybe",
            "qsub: illegal -r value\nqsub: directive error: -r maybe ",
            "-r maybe: use y or n, for example -r n",
        ),
        ("-A 'x", "qsub: unmatched '", "-A 'x"),
        (
            "--walltime=5",
            "qsub: invalid option -- '-'\nqsub: directive error: --walltime=5 ",
            "unknown option --walltime; qsub --help lists the options",
        ),
    ] {
        let script = format!("#!/bin/sh\n# a comment\n#PBS {directive}\ntrue\n");
        fs::write(sandbox.file("bad.sh"), script).unwrap();
        let hint = format!("qsub: line 3 of bad.sh: {hint}");
        let expected: Vec<&str> = first.lines().chain([hint.as_str()]).collect();
        assert_fails(&sandbox, "qsub bad.sh", &expected);
    }
    // The command line takes precedence over the script, so the line is not to blame.
    fs::write(sandbox.file("bad.sh"), "#PBS -q long\ntrue\n").unwrap();
    assert_fails(
        &sandbox,
        "qsub -q gpu bad.sh",
        &[
            "qsub: Unknown queue",
            "qsub: gpu: the queues are workq, long",
        ],
    );
}

#[test]
fn qalter_and_qmgr_name_the_remedy() {
    let sandbox = head();
    let held = sandbox.submit(&["-h"], "true\n");
    let done = sandbox.submit(&[], "true\n");
    sandbox.ended(&done);
    let queue = "qmgr obj=workq svr=default:";
    for (line, expected) in [
        (
            format!("qalter -l walltime=2d {held}"),
            vec![
                format!(
                    "qalter: Illegal attribute or resource value Resource_List.walltime {held}"
                ),
                "qalter: walltime=2d: use seconds or [[HH:]MM:]SS, for example -l \
                 walltime=48:00:00"
                    .to_string(),
            ],
        ),
        (
            format!("qalter --retry {done}"),
            vec![
                format!("qalter: Request invalid for state of job {done}"),
                "qalter: the job has exit status 0, and only a job that failed or was deleted can \
                 run again: submit it again with qsub"
                    .to_string(),
            ],
        ),
        (
            "qmgr -c 'set queue workq enabled=maybe'".to_string(),
            vec![
                format!("{queue} Illegal attribute or resource value"),
                "qmgr: Error (15014) returned from server".to_string(),
                "qmgr: enabled=maybe: use True or False, for example enabled=True".to_string(),
            ],
        ),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert_fails(&sandbox, &line, &expected);
    }
    let err = sandbox.shell("qmgr -c 'set queue workq enabeld=true'").err;
    let hint = "qmgr: enabeld: the nearest known name is enabled; some of the ";
    assert!(err.lines().last().unwrap().starts_with(hint), "{err}");
    let err = sandbox.shell("qmgr -c 'set server max_run = 5'").err;
    assert!(err.contains("\nqmgr: max_run=5: a limit names"), "{err}");
}
