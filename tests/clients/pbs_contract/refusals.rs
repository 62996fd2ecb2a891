//! Checks 1 to 25: requests that `qsub` accepts, and its refusals.

use super::{assert_prints, assert_usage_error, busy, quiet, shown, submitted};
use crate::support::sandbox::Sandbox;
use std::fs;

#[test]
fn check_01_the_version_is_printed_on_standard_output() {
    let version = format!("pbs_version = {}\n", env!("CARGO_PKG_VERSION"));
    assert_prints(&quiet(), "qsub --version", 0, &version, "");
}

#[test]
fn check_02_a_script_on_standard_input_is_called_stdin() {
    let sandbox = quiet();
    let done = sandbox.shell("echo sleep 60 | qsub");
    let id = done.out.trim_end();
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (0, format!("{id}\n").as_str(), "")
    );
    assert!(
        id.strip_suffix(".head")
            .is_some_and(|number| number.parse::<u32>().is_ok()),
        "{id}"
    );
    assert_eq!(shown(&sandbox, id, "Job_Name"), "Job_Name = STDIN");
}

#[test]
fn check_03_qsub_with_z_prints_nothing() {
    let sandbox = quiet();
    assert_prints(&sandbox, "qsub -z -N quiet job.sh", 0, "", "");
    assert_eq!(
        sandbox
            .run("qselect", &["-N", "quiet"])
            .ok()
            .lines()
            .count(),
        1
    );
}

#[test]
fn check_04_an_unknown_option_is_refused_with_the_usage() {
    assert_usage_error(&quiet(), "qsub -y", 2, "qsub: invalid option -- 'y'\n");
}

#[test]
fn check_05_a_missing_script_is_reported_with_two_colons() {
    assert_prints(
        &quiet(),
        "qsub nosuch.sh",
        1,
        "",
        "qsub: script file:: No such file or directory\n",
    );
}

#[test]
fn check_06_a_directory_is_refused_as_a_script() {
    assert_prints(&quiet(), "qsub /tmp", 1, "", "qsub: script not a file\n");
}

#[test]
fn check_07_a_name_with_a_blank_is_refused() {
    assert_usage_error(
        &quiet(),
        "qsub -N 'a b' job.sh",
        2,
        "qsub: illegal -N value\n",
    );
}

#[test]
fn check_08_a_name_of_231_characters_is_too_long() {
    let sandbox = quiet();
    let line = |length: usize| format!("qsub -N {} job.sh", "a".repeat(length));
    assert_prints(&sandbox, &line(231), 2, "", "qsub: Job name is too long \n");
    sandbox.shell(&line(230)).line();
}

#[test]
fn check_09_a_priority_beyond_the_bounds_is_refused() {
    assert_usage_error(
        &quiet(),
        "qsub -p 5000 job.sh",
        2,
        "qsub: illegal -p value\n",
    );
}

#[test]
fn check_10_a_value_of_the_wrong_type_is_reported_with_its_resource() {
    let expected = "qsub: Illegal attribute or resource value Resource_List.ncpus\n";
    assert_prints(&quiet(), "qsub -l ncpus=abc job.sh", 166, "", expected);
}

#[test]
fn check_11_an_unknown_resource_is_reported_as_an_attribute() {
    assert_prints(
        &quiet(),
        "qsub -l foo=1 job.sh",
        187,
        "",
        "qsub: Unknown resource Resource_List.foo\n",
    );
}

#[test]
fn check_12_an_unknown_resource_of_a_chunk_is_reported_by_name() {
    assert_prints(
        &quiet(),
        "qsub -l select=1:foo=1 job.sh",
        187,
        "",
        "qsub: Unknown resource: foo\n",
    );
}

#[test]
fn check_13_a_job_wide_resource_in_a_chunk_is_refused() {
    let expected = "qsub: Resource invalid in \"select\" specification: walltime\n";
    assert_prints(
        &quiet(),
        "qsub -l select=1:walltime=60 job.sh",
        4,
        "",
        expected,
    );
}

#[test]
fn check_14_select_and_job_totals_exclude_each_other() {
    let expected =
        "qsub: \"-lresource=\" cannot be used with \"select\" or \"place\", resource is: ncpus\n";
    assert_prints(
        &quiet(),
        "qsub -l select=1 -l ncpus=2 job.sh",
        5,
        "",
        expected,
    );
}

#[test]
fn check_15_place_requires_select() {
    assert_prints(
        &quiet(),
        "qsub -l place=pack job.sh",
        7,
        "",
        "qsub: Cannot have \"place\" without \"select\"\n",
    );
}

#[test]
fn check_16_an_unknown_queue_is_refused() {
    assert_prints(
        &quiet(),
        "qsub -q nosuch job.sh",
        170,
        "",
        "qsub: Unknown queue\n",
    );
}

#[test]
fn check_17_a_single_number_is_not_an_array_range() {
    assert_usage_error(&quiet(), "qsub -J 5 job.sh", 2, "qsub: illegal -J value\n");
}

/// Decision 4: PBS refuses this request, but real clients send it.
#[test]
fn check_18_a_non_rerunnable_array_is_accepted() {
    let sandbox = quiet();
    let id = submitted(&sandbox, "-J 1-3 -r n");
    assert!(id.ends_with("[].head"), "{id}");
    assert_eq!(shown(&sandbox, &id, "Rerunable"), "Rerunable = False");
}

#[test]
fn check_19_array_state_count_has_no_trailing_blank() {
    let sandbox = quiet();
    let id = submitted(&sandbox, "-J 1-3");
    assert!(
        id.strip_suffix("[].head")
            .is_some_and(|number| number.parse::<u32>().is_ok()),
        "{id}"
    );
    let counts = "array_state_count = Queued:3 Running:0 Exiting:0 Expired:0";
    assert_eq!(shown(&sandbox, &id, "array_state_count"), counts);
}

#[test]
fn check_20_an_extra_word_in_a_directive_is_refused() {
    let sandbox = quiet();
    fs::write(sandbox.file("f1"), "#PBS -l ncpus=1 extra\n").unwrap();
    assert_prints(
        &sandbox,
        "qsub f1",
        1,
        "",
        "qsub: directive error: -l ncpus=1 extra \n",
    );
}

#[test]
fn check_21_directives_end_at_the_first_command_and_options_override_them() {
    let sandbox = quiet();
    fs::write(sandbox.file("f2"), "#PBS -N inner\necho x\n#PBS -N late\n").unwrap();
    assert_job_name(&sandbox, "qsub -l walltime=60 f2", "inner");
    assert_job_name(&sandbox, "qsub -N cli f2", "cli");
}

#[test]
fn check_22_an_option_or_variable_sets_the_directive_prefix() {
    let sandbox = quiet();
    fs::write(sandbox.file("f"), "#XX -N xx\necho x\n").unwrap();
    assert_job_name(&sandbox, "PBS_DPREFIX='#XX' qsub f", "xx");
    assert_job_name(&sandbox, "qsub -C '#XX' f", "xx");
    assert_job_name(&sandbox, "qsub -C '' f", "f");
}

#[track_caller]
fn assert_job_name(sandbox: &Sandbox, line: &str, name: &str) {
    let id = sandbox.shell(line).line();
    assert_eq!(
        shown(sandbox, &id, "Job_Name"),
        format!("Job_Name = {name}"),
        "{line}"
    );
}

#[test]
fn check_23_a_blocking_qsub_exits_with_the_status_of_the_job() {
    let sandbox = busy();
    let done = sandbox.shell("echo 'exit 7' | qsub -W block=true");
    let id = done.out.trim_end();
    assert_eq!(
        (done.code, done.err.as_str(), done.out.as_str()),
        (7, "", format!("{id}\n").as_str())
    );
    assert_eq!(shown(&sandbox, id, "Exit_status"), "Exit_status = 7");
}

#[test]
fn check_24_a_dependency_on_a_subjob_is_refused() {
    assert_usage_error(
        &quiet(),
        "qsub -W depend=afterok:9[2] job.sh",
        2,
        "qsub: illegal -W value\n",
    );
}

#[test]
fn check_25_an_interactive_job_requires_a_terminal() {
    let expected =
        "qsub:\tstandard input and output must be a terminal for\n\tinteractive job submission\n";
    assert_prints(&quiet(), "qsub -I </dev/null", 1, "", expected);
}
