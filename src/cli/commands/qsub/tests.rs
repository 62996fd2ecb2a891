//! Tests that command lines and scripts become the right requests to the server.

use super::request::SubmissionPlan;
use super::*;
use crate::model::attribute::AttributeSetting;
use crate::model::text::Text;
use crate::model::time::Wall;
use crate::wire::message::Payload;

/// The plan for `qsub words s.sh` with this script and these environment variables.
fn planned(words: &[&str], script: &str, vars: &[(&str, &str)]) -> Result<SubmissionPlan, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.sh");
    std::fs::write(&file, script).unwrap();
    let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
    if !words.contains(&"--") {
        line.push(file.into());
    }
    SubmissionRequest::gather(line, here(vars, "/home/alice/w"))?.plan("")
}

fn here(vars: &[(&str, &str)], workdir: &str) -> SubmitEnvironment {
    SubmitEnvironment {
        workdir: workdir.into(),
        host: "head".into(),
        system: "Linux".into(),
        now: Wall(0),
        host_exists: |_| false,
        vars: vars
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    }
}

/// All settings as `name=value`, sorted.
fn settings(words: &[&str], script: &str, vars: &[(&str, &str)]) -> Vec<String> {
    let shown = |s: AttributeSetting| {
        format!(
            "{}{}={}",
            s.attribute,
            s.resource.map_or(String::new(), |r| format!(".{r}")),
            s.value
        )
    };
    let mut all: Vec<String> = planned(words, script, vars)
        .unwrap()
        .submission
        .settings
        .into_iter()
        .map(shown)
        .collect();
    all.sort();
    all
}

#[test]
fn the_script_names_the_job_by_default() {
    assert_eq!(settings(&[], "sleep 60\n", &[]), ["Job_Name=s.sh"]);
    assert_eq!(
        settings(&["-h", "-q", "workq"], "", &[]),
        ["Hold_Types=u", "Job_Name=s.sh", "queue=workq"]
    );
    assert_eq!(
        settings(&[], "", &[("PBS_SHELL", "/bin/sh")]),
        ["Job_Name=s.sh", "Shell_Path_List=/bin/sh"]
    );
}

#[test]
fn options_of_the_command_line_and_of_directives_are_merged() {
    for (words, script, expected) in [
        (&[][..], "#PBS -N one\n#PBS -N two\n", &["Job_Name=two"][..]),
        (
            &["-N", "cli", "-N", "cli2"],
            "#PBS -N one\n",
            &["Job_Name=cli2"],
        ),
        (
            &["-W", "umask=77"],
            "#PBS -W umask=22\n",
            &["Job_Name=s.sh", "umask=77"],
        ),
        (
            &["-W", "Priority=7"],
            "#PBS -p 5\n",
            &["Job_Name=s.sh", "Priority=7"],
        ),
        (
            &["-p", "7"],
            "#PBS -W Priority=5\n",
            &["Job_Name=s.sh", "Priority=7"],
        ),
        (
            &["-p", "7", "-W", "Priority=5"],
            "",
            &["Job_Name=s.sh", "Priority=5"],
        ),
        (
            &["-l", "ncpus=3"],
            "#PBS -l ncpus=2,walltime=10\n",
            &[
                "Job_Name=s.sh",
                "Resource_List.ncpus=3",
                "Resource_List.walltime=10",
            ],
        ),
        (
            &["-l", "ncpus=2,ncpus=3"],
            "",
            &["Job_Name=s.sh", "Resource_List.ncpus=3"],
        ),
        (
            &[],
            "#PBS -l ncpus=2\n#PBS -l ncpus=3\n",
            &["Job_Name=s.sh", "Resource_List.ncpus=2"],
        ),
    ] {
        assert_eq!(
            settings(words, script, &[]),
            expected,
            "{words:?} {script:?}"
        );
    }
}

#[test]
fn mail_letter_j_needs_an_array_and_an_event() {
    assert_eq!(
        settings(&["-J", "1-2", "-m", "ej"], "", &[])
            .iter()
            .find(|s| s.starts_with("Mail"))
            .unwrap(),
        "Mail_Points=ej"
    );
    assert_eq!(
        planned(&["-J", "1-2", "-m", "j"], "", &[])
            .err()
            .map(|failure| failure.text),
        Some(illegal('m').text)
    );
    let no_array = Failure::new(1, "mail option 'j' can not be used without array job");
    let failure = planned(&["-m", "j"], "", &[]).unwrap_err();
    assert_eq!((failure.code, failure.text), (no_array.code, no_array.text));
}

#[test]
fn the_prefix_comes_from_the_option_or_the_environment() {
    let name =
        |words: &[&str], vars: &[(&str, &str)]| settings(words, "#XX -N x\n#PBS -N y\n", vars);
    assert_eq!(name(&[], &[]), ["Job_Name=y"]);
    assert_eq!(name(&[], &[("PBS_DPREFIX", "#XX")]), ["Job_Name=x"]);
    assert_eq!(name(&["-C", "#XX"], &[("PBS_DPREFIX", "")]), ["Job_Name=x"]);
    assert_eq!(name(&["-C", ""], &[]), ["Job_Name=s.sh"]);
    assert_eq!(name(&[], &[("PBS_DPREFIX", "")]), ["Job_Name=s.sh"]);
}

#[test]
fn errors_of_directives_have_the_messages_of_pbs() {
    for (script, code, message) in [
        ("#PBSfoo\n", 1, "directive error: foo "),
        (
            "#PBS -N\n",
            1,
            "option requires an argument -- 'N'\nqsub: directive error: -N ",
        ),
        (
            "#PBS -N x # comment\n",
            1,
            "directive error: -N x # comment ",
        ),
        (
            "#PBS -l ncpus=1 extra\n",
            1,
            "directive error: -l ncpus=1 extra ",
        ),
        (
            "#PBS -y\n",
            1,
            "invalid option -- 'y'\nqsub: directive error: -y ",
        ),
        (
            "#PBS -r x\n",
            1,
            "illegal -r value\nqsub: directive error: -r x ",
        ),
        (
            "#PBS -a 9999\n",
            1,
            "illegal -a value\nqsub: directive error: -a 9999 ",
        ),
        (
            "#PBS -W foo\n",
            1,
            "illegal -W value\nqsub: directive error: -W foo ",
        ),
        ("#PBS -- /bin/ls\n", 1, "directive error: -- /bin/ls "),
        ("#PBS -A \"x\n", 1, "unmatched \""),
        ("#PBS -p 10000\n", 2, "illegal -p value"),
        ("#PBS -J 5\n", 2, "illegal -J value"),
        ("#PBS -j xx\n", 2, "illegal -j value"),
        ("#PBS -N x\r\n", 1, "script contains cr, lf"),
    ] {
        let failure = planned(&[], script, &[]).expect_err(script);
        assert_eq!(
            (failure.code, failure.text.as_str()),
            (code, message),
            "{script:?}"
        );
    }
}

#[test]
fn illegal_values_are_refused() {
    for (words, code, message) in [
        (&["-J", "5"][..], 2, "illegal -J value"),
        (&["-X"], 2, "DISPLAY not set"),
        (
            &["-q", "verylongqueuename1"],
            2,
            "illegally formed destination: verylongqueuename1",
        ),
        (&["-q", "a@b@c"], 2, "illegally formed destination: a@b@c"),
    ] {
        let failure = planned(words, "", &[]).expect_err(message);
        assert_eq!(
            (failure.code, failure.text.as_str()),
            (code, message),
            "{words:?}"
        );
    }
}

#[test]
fn a_command_runs_without_a_script() {
    let plan = planned(&["-h", "--", "/bin/echo", "-N", "a b"], "", &[]).unwrap();
    let words = ["/bin/echo", "-N", "a b"].map(Text::from);
    assert_eq!(plan.submission.payload, Payload::Command(words.to_vec()));
    assert_eq!(plan.submission.arguments, "-h -- /bin/echo -N a b".into());
    assert_eq!(
        plan.submission.settings,
        [
            AttributeSetting::new("Hold_Types", "u"),
            AttributeSetting::new("Job_Name", "STDIN")
        ]
    );
}

#[test]
fn the_last_variable_list_applies() {
    let environ = |words: &[&str], script: &str| {
        let plan = planned(words, script, &[("A", "env")]).unwrap();
        String::from_utf8(plan.submission.environ)
            .unwrap()
            .replace('\0', "|")
    };
    let list = |middle: &str| {
        format!("PBS_O_WORKDIR=/home/alice/w|PBS_O_SYSTEM=Linux|{middle}PBS_O_HOST=head|")
    };
    assert_eq!(environ(&["-v", "y=2"], "#PBS -v x=1\n"), list("y=2|"));
    assert_eq!(environ(&[], "#PBS -v x=1\n#PBS -v y=2\n"), list("y=2|"));
    assert_eq!(environ(&["-v", "A=cli"], "#PBS -V\n"), list("A=cli|"));
}

#[test]
fn qsub_itself_handles_quiet_and_block() {
    let plan = planned(&["-z", "-Wblock=true"], "", &[]).unwrap();
    assert!(plan.quiet && plan.block);
    let plan = planned(&["-W", "block=false"], "#PBS -W block=true\n", &[]).unwrap();
    assert!(!plan.quiet && !plan.block);
}

#[test]
fn grid_engine_directives_apply_only_without_pbs_directives() {
    let script = "#!/bin/bash\n#$ -N ge -cwd\n#$ -pe smp 4 -l h_rt=1:0:0\n#$ -t 2-8:3 -tc 2 -j y\n";
    let expected = [
        "Job_Name=ge",
        "Join_Path=oe",
        "Resource_List.h_rt=1:0:0",
        "Resource_List.pe=smp:4",
        "array_indices_submitted=2-8:3",
        "init_work_dir=/home/alice/w",
        "max_run_subjobs=2",
    ];
    assert_eq!(settings(&[], script, &[]), expected);
    let plan = planned(&[], script, &[]).unwrap();
    let environ = String::from_utf8(plan.submission.environ).unwrap();
    for entry in [
        "SGE_O_WORKDIR=/home/alice/w",
        "PE=smp",
        "SGE_TASK_FIRST=2",
        "SGE_TASK_LAST=8",
        "SGE_TASK_STEPSIZE=3",
    ] {
        assert!(
            environ.split('\0').any(|known| known == entry),
            "{entry}: {environ:?}"
        );
    }
    assert_eq!(
        settings(&[], &format!("#PBS -N pbs\n{script}"), &[]),
        ["Job_Name=pbs"]
    );
    assert_eq!(settings(&["-C", "#X"], script, &[]), ["Job_Name=s.sh"]);
    assert_eq!(
        planned(&[], "#$ -pe smp\n", &[]).unwrap_err().code,
        1,
        "a directive error"
    );
}

#[test]
fn directories_arguments_and_output_paths_of_dialects_are_applied() {
    let all =
        |words: &[&str], script: &str| settings(words, script, &[]).join(" ").replace('\0', "|");
    assert_eq!(
        all(&["-d", "sub"], ""),
        "Job_Name=s.sh init_work_dir=/home/alice/w/sub"
    );
    assert_eq!(
        all(&["-w", "/x", "-o", "f"], ""),
        "Job_Name=s.sh Output_Path=head:/x/f init_work_dir=/x"
    );
    assert_eq!(
        planned(&["-w", "/x"], "", &[]).unwrap().submission.workdir,
        "/x".into()
    );
    assert_eq!(
        all(&["-F", "a 'b c'"], ""),
        "Job_Name=s.sh job_arguments=a|b c|"
    );
    assert_eq!(
        all(&["-n", "-t", "1-3,7"], ""),
        "Job_Name=s.sh array_indices_submitted=1-3,7 naccess=singlejob"
    );
    assert_eq!(
        all(&["-L", "tasks=2:lprocs=4"], ""),
        "Job_Name=s.sh Resource_List.select=2:ncpus=4"
    );
    let file = all(&[], "#$ -cwd -o /tmp -e $JOB_NAME.$JOB_ID.$TASK_ID\n");
    assert!(
        file.starts_with("Error_Path=head:/home/alice/w/^job_name^.^job_number^.^array_index^ "),
        "{file}"
    );
    assert!(
        file.ends_with(
            " Output_Path=head:/tmp/^job_name^.o^job_number^ init_work_dir=/home/alice/w"
        ),
        "{file}"
    );
    let plan = planned(&["-W", "x=QOS:high"], "", &[]).unwrap();
    assert_eq!(
        plan.remarks,
        ["warning: -W x=QOS:high is for Moab and has no effect"]
    );
}

#[test]
fn default_options_of_the_server_have_the_lowest_precedence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.sh");
    std::fs::write(&file, "#PBS -A dir\n").unwrap();
    let request =
        SubmissionRequest::gather(vec!["-p".into(), "3".into(), file.into()], here(&[], "/w"))
            .unwrap();
    let settings = |defaults: &str| request.plan(defaults).unwrap().submission;
    let value = |name: &str| {
        let of = settings("-A dflt -p 7 -l walltime=60");
        of.settings
            .iter()
            .find(|setting| setting.attribute == name)
            .map(|setting| setting.value.to_string())
    };
    assert_eq!(
        (value("Account_Name"), value("Priority")),
        (Some("dir".into()), Some("3".into()))
    );
    assert_eq!(value("Resource_List").as_deref(), Some("60"));
    assert_eq!(
        (
            settings("-r n").defaults.as_str(),
            settings("").defaults.as_str()
        ),
        ("-r n", "")
    );
    let failure = request.plan("-y").unwrap_err();
    assert_eq!(
        failure.text,
        "the server's default_qsub_arguments -y: invalid option -- 'y'"
    );
}

#[test]
fn repeated_resources_are_merged_as_in_pbs() {
    let of = |words: &[&str], script: &str| settings(words, script, &[]).join(" ");
    assert_eq!(
        of(&["-l", "ncpus=2,ncpus=3"], ""),
        "Job_Name=s.sh Resource_List.ncpus=3"
    );
    assert_eq!(
        of(&[], "#PBS -l ncpus=2,ncpus=3\n"),
        "Job_Name=s.sh Resource_List.ncpus=2"
    );
}
