//! Tests of the translation of lines with foreign options to PBS's options.

use super::*;

fn words(line: &str) -> Vec<OsString> {
    crate::cli::arguments::directives::words(line.as_bytes()).unwrap()
}

fn translated(line: &str, place: LineOrigin) -> Result<TranslatedLine, Failure> {
    translate_line(&super::super::command(), &words(line), place)
}

/// The words for PBS's parser; after a `|`, the script's arguments; after a `!`, the number of
/// remarks.
fn shown(line: &str, place: LineOrigin) -> String {
    let line = translated(line, place).unwrap_or_else(|failure| panic!("{line}: {}", failure.text));
    let joined = |words: &[OsString]| {
        words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut shown = joined(&line.words);
    if !line.arguments.is_empty() {
        shown.push_str(&format!(" | {}", joined(&line.arguments)));
    }
    if !line.remarks.is_empty() {
        shown.push_str(&format!(" !{}", line.remarks.len()));
    }
    shown
}

#[test]
fn pbs_options_are_unchanged() {
    for line in [
        "",
        "job.sh",
        "-N x -l select=1:ncpus=2 -W depend=afterok:1 job.sh",
        "-rn -koed -j oe -m abe -M a,b -h -z job.sh",
        "job.sh -N x",
        "-N -cwd job.sh",
        "-A -pe -- /bin/echo -terse -b y",
        "-v A=-cwd,B -V -",
        "-lwalltime=5 -NNAME",
        "--user-factor -pe --dry-run job.sh",
        "-c s -p -5 -P a -R oe -w e.d job.sh",
        "-o $JOB_ID job.sh",
        "job.sh -- x",
    ] {
        let translation = translated(line, LineOrigin::CommandLine).unwrap();
        assert_eq!(
            translation,
            TranslatedLine {
                words: words(line),
                ..TranslatedLine::default()
            },
            "{line}"
        );
    }
}

#[test]
fn foreign_options_become_pbs_options() {
    for (line, expected) in [
        ("-cwd job.sh", "-d . job.sh"),
        ("-wd /x job.sh", "-w /x job.sh"),
        ("-pe smp 4 job.sh", "-l pe=smp:4 job.sh"),
        ("-pe mpi 4-8 job.sh a -N b", "-l pe=mpi:4-8 job.sh | a -N b"),
        ("job.sh a -N b", "job.sh | a -N b"),
        ("-N x job.sh a", "-N x job.sh | a"),
        ("-hold_jid 12,align* job.sh", "-W hold_jid=12,align* job.sh"),
        ("-hold_jid_ad 12 job.sh", "-W hold_jid=12 job.sh !1"),
        ("-sync y job.sh", "-W block=true job.sh"),
        ("-sync n job.sh", "job.sh"),
        ("-terse -clear -ac a=b -binding linear:4 job.sh", "job.sh"),
        (
            "-binding env linear:4 -notify job.sh",
            "-W warn=USR2@60 job.sh",
        ),
        ("-tc 3 -t 1-9 job.sh", "-W max_run_subjobs=3 -t 1-9 job.sh"),
        ("-j y -r no -R y -w n job.sh", "-j oe -r n job.sh"),
        ("-verify job.sh", "--dry-run job.sh"),
        ("-ar R12 job.sh", "-W resv=R12 job.sh"),
        ("-m beas job.sh", "-m bea job.sh"),
        ("-m s job.sh", "-m n job.sh"),
        ("-now n job.sh", "job.sh"),
        ("-now y job.sh", "job.sh !1"),
        ("-soft -l a=1 -q x -hard -l b=1 job.sh", "-l b=1 job.sh !2"),
        ("-cwd -h u job.sh", "-d . -h job.sh"),
        ("-cwd -h n job.sh", "-d . job.sh"),
        ("-h -cwd job.sh", "-h -d . job.sh"),
        (
            "-o :x/$JOB_ID.${TASK_ID} -cwd job.sh",
            "-o x/^job_number^.^array_index^ -d . job.sh",
        ),
        ("-b n job.sh a", "job.sh | a"),
        ("-b 60 job.sh", "job.sh"),
        ("-b y hostname -f", "-N hostname -- hostname -f"),
        ("-b y -N x /bin/sleep 5", "-N sleep -N x -- /bin/sleep 5"),
        (
            "-b y 'sleep 1; date' x",
            "-N sleep -- /bin/sh -c sleep 1; date x",
        ),
        ("-b y -shell n 'my prog' x", "-N my -- my prog x"),
        ("-b y './a=b'", "-- /bin/sh -c ./a=b"),
    ] {
        assert_eq!(shown(line, LineOrigin::CommandLine), expected, "{line}");
    }
}

#[test]
fn a_directive_has_no_script() {
    assert_eq!(
        shown("-N x # a remark", LineOrigin::Directive),
        "-N x # a remark"
    );
    assert_eq!(
        shown("-cwd -o $JOB_NAME.o", LineOrigin::Directive),
        "-d . -o ^job_name^.o"
    );
    assert_eq!(
        shown("-o $JOB_NAME.o -h u", LineOrigin::GridEngineDirective),
        "-o ^job_name^.o -h"
    );
    assert!(
        translated("-N x", LineOrigin::GridEngineDirective)
            .unwrap()
            .is_grid_engine
    );
    assert!(
        !translated("-N x -j y -b 5 job.sh", LineOrigin::CommandLine)
            .unwrap()
            .is_grid_engine
    );
}

#[test]
fn missing_and_wrong_values_are_reported_with_the_option() {
    for (line, message) in [
        ("-pe smp", "option requires an argument -- 'pe'"),
        ("-pe", "option requires an argument -- 'pe'"),
        ("-pe a:b 4", "illegal -pe value"),
        ("-hold_jid", "option requires an argument -- 'hold_jid'"),
        ("-sync maybe job.sh", "illegal -sync value"),
        ("-b maybe job.sh", "illegal -b value"),
        ("-b y", "-b y needs a command"),
        ("-wd", "option requires an argument -- 'wd'"),
    ] {
        assert_eq!(
            translated(line, LineOrigin::CommandLine).unwrap_err(),
            Failure::usage(message),
            "{line}"
        );
    }
}
