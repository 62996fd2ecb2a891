//! Behavior that libraries driving PBS's commands rely on: the quirks that break them most easily,
//! by number, and calls that only one library makes. `cli/commands.rs` tests what users rely on,
//! too: exit status, directives, output files, the environment of a job.

mod listings;

use crate::support::sandbox::Sandbox;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// A server named `head` with four processors, regardless of the machine.
fn head() -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let limits = "[launch]\ngrace = \"1s\"\nlogin = false\n";
    Sandbox::configured(&format!(
        "[server]\nname = \"head\"\n{limits}[[node]]\nname = \"{node}\"\nncpus = 4\n"
    ))
}

/// Parses `qstat -f` as clients do: an empty line ends a job, a line that begins with TAB continues
/// the previous value, and any other line is an attribute.
fn attributes(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut jobs = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let whole = block.replace("\n\t", "");
        let mut lines = whole.lines();
        let id = lines
            .next()
            .and_then(|line| line.strip_prefix("Job Id: "))
            .unwrap_or_else(|| panic!("{block}"));
        let read = |line: &str| {
            let (name, value) = line.strip_prefix("    ")?.split_once(" = ")?;
            (!name.contains(' ')).then(|| (name.to_string(), value.to_string()))
        };
        let read = lines.map(|line| read(line).unwrap_or_else(|| panic!("no attribute: {line:?}")));
        assert!(
            jobs.insert(id.to_string(), read.collect()).is_none(),
            "{id} is shown twice"
        );
    }
    jobs
}

/// Columns of the rows of a table, without its headings.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    rows.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn quirk_1_qsub_prints_the_id_and_nothing_else() {
    let sandbox = head();
    let script = sandbox.script("job.sh", "true").display().to_string();
    for (place, arguments) in [
        &["-h", &script][..],
        &["-h", "-W", "block=false", &script],
        &["-h", "-m", "abe", "--", "/bin/true"],
    ]
    .into_iter()
    .enumerate()
    {
        let done = sandbox.run("qsub", arguments);
        assert_eq!(
            (done.out, done.err.as_str()),
            (format!("{}.head\n", place + 1), ""),
            "{arguments:?}"
        );
    }
    let array = sandbox.run("qsub", &["-h", "-J", "1-3", &script]);
    assert_eq!((array.out.as_str(), array.err.as_str()), ("4[].head\n", ""));
    let waits = sandbox.run("qsub", &["-W", "block=true", &script]);
    assert_eq!((waits.out.as_str(), waits.err.as_str()), ("5.head\n", ""));
}

#[test]
fn quirk_2_json_and_wide_tables_show_the_id_that_qsub_printed() {
    let sandbox = Sandbox::configured(&format!(
        "[server]\nname = \"{}\"\n",
        "a-very-long-name.of.a-server.example.org"
    ));
    let id = sandbox.submit(&["-h"], "true\n");
    let array = sandbox.submit(&["-h", "-J", "1-2"], "true\n");
    assert_eq!(id, "1.a-very-long-name.of.a-server.example.org");
    let table = sandbox.run("qstat", &["-Ex", "-w", &id, &array]).ok();
    let shown = rows(&table)
        .into_iter()
        .map(|row| (row[0], row.len(), row[4]))
        .collect::<Vec<_>>();
    assert_eq!(shown, [(id.as_str(), 6, "H"), (array.as_str(), 6, "H")]);
    let document: Value =
        serde_json::from_str(&sandbox.run("qstat", &["-Efx", "-Fjson", &id, &array]).ok()).unwrap();
    assert_eq!(
        document["Jobs"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        [&id, &array]
    );
    let printed = sandbox.submit(&["-j", "oe", "-o", "printed"], "echo $PBS_JOBID\n");
    sandbox.ended(&printed);
    assert_eq!(sandbox.read("printed"), format!("{printed}\n"));
}

#[test]
fn quirk_3_a_finished_job_is_invisible_without_x() {
    let sandbox = head();
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    for options in [
        &[][..],
        &["-f"],
        &["-f", "-w"],
        &["-f", "-1"],
        &["-f", "-t"],
        &["-w"],
        &["-a"],
    ] {
        let done = sandbox.run("qstat", &[options, &[&id]].concat());
        let expected = format!(
            "qstat: {id} Job has finished, use -x or -H to obtain historical job information\n"
        );
        assert_eq!(
            (done.code, done.out.as_str(), done.err),
            (35, "", expected),
            "{options:?}"
        );
    }
    assert_eq!(sandbox.run("qstat", &["-f"]).ok(), "");
    let done = sandbox.run("qdel", &["1"]);
    assert_eq!(
        (done.code, done.err.as_str()),
        (35, "qdel: Job has finished 1.head\n")
    );
}

#[test]
fn quirk_4_and_5_with_x_a_finished_job_is_shown_with_its_status() {
    let sandbox = head();
    let fails = sandbox.submit(&[], "exit 3\n");
    let deleted = sandbox.submit(&["-h"], "true\n");
    let parent = sandbox.submit(&["-h"], "true\n");
    let child = sandbox.submit(&["-W", &format!("depend=afterok:{parent}")], "true\n");
    let array = sandbox.submit(&["-h", "-J", "1-2"], "true\n");
    sandbox.run("qdel", &[&deleted, &parent, &array]).ok();
    for (id, status) in [
        (&fails, 3),
        (&deleted, 271),
        (&parent, 271),
        (&child, 271),
        (&array, 271),
    ] {
        assert_eq!(sandbox.ended(id)["Exit_status"], status, "{id}");
        let shown = attributes(&sandbox.run("qstat", &["-xf", id]).ok());
        assert_eq!(
            (shown[id]["job_state"].as_str(), &shown[id]["Exit_status"]),
            ("F", &status.to_string())
        );
        let table = sandbox.run("qstat", &["-x", id]).ok();
        let last: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last[last.len() - 2], "F", "{table}");
    }
}

#[test]
fn quirk_6_an_unknown_id_does_not_hide_the_others() {
    let sandbox = head();
    let (one, two) = (
        sandbox.submit(&["-h"], "true\n"),
        sandbox.submit(&["-h"], "true\n"),
    );
    for options in [
        &["-f"][..],
        &["-f", "-w"],
        &["-xf"],
        &["-x", "-f", "-F", "json"],
        &["-Ex", "-w"],
        &[],
    ] {
        let done = sandbox.run("qstat", &[options, &[&one, "999", &two]].concat());
        assert_eq!(
            (done.code, done.err.as_str()),
            (153, "qstat: Unknown Job Id 999.head\n"),
            "{options:?}"
        );
        let found = match options {
            [.., "json"] => {
                let document: Value = serde_json::from_str(&done.out).unwrap();
                document["Jobs"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect()
            }
            ["-f" | "-xf", ..] => attributes(&done.out).into_keys().collect::<Vec<_>>(),
            _ => rows(&done.out)
                .iter()
                .map(|row| row[0].to_string())
                .collect(),
        };
        assert_eq!(found, [one.as_str(), &two], "{options:?}");
    }
    let none = sandbox.run("qstat", &["-f", "-F", "json", "998", "999"]);
    let document: Value = serde_json::from_str(&none.out).unwrap();
    assert_eq!((none.code, document.get("Jobs")), (153, None));
}

#[test]
fn quirk_7_json_has_the_types_of_pbs_and_is_always_valid() {
    let hostile = "a\"b\\c\nd,e\t";
    let sandbox = head()
        .with("HOSTILE", hostile)
        .with("BASH_FUNC_f%%", "() {  echo \"hi\"\n}");
    let select = "select=1:ncpus=1,walltime=60";
    let id = sandbox.submit(
        &[
            "-V", "-N", "007", "-A", "1e5", "-P", "12", "-p", "-3", "-l", select,
        ],
        "true\n",
    );
    let job = sandbox.ended(&id);
    for (name, value) in [
        ("Exit_status", json!(0)),
        ("Priority", json!(-3)),
        ("run_count", json!(1)),
        ("Job_Name", json!("007")),
        ("Account_Name", json!("1e5")),
        ("project", json!("12")),
        ("Rerunable", json!("True")),
    ] {
        assert_eq!(job[name], value, "{name}");
    }
    let request = json!({"ncpus": 1, "nodect": 1, "place": "free", "select": "1:ncpus=1", "walltime": "00:01:00"});
    assert_eq!(job["Resource_List"], request);
    assert_eq!(job["Variable_List"]["HOSTILE"], hostile);
    assert_eq!(
        job["Variable_List"]["BASH_FUNC_f%%"],
        "() {  echo \"hi\"\n}"
    );
    let time = job["stime"].as_str().unwrap();
    assert_eq!(
        (time.len(), time.split_whitespace().count()),
        (24, 5),
        "{time}"
    );
    assert!(
        sandbox
            .run("qstat", &["-f", "-F", "json"])
            .ok()
            .ends_with("\"pbs_server\":\t\"head\"\n}\n"),
        "the key Jobs is absent"
    );
}

#[test]
fn quirk_8_a_value_never_looks_like_an_attribute() {
    let sandbox = head().with(
        "LINES_",
        "one\n    job_state = F\n\nJob Id: 9.head\n\tjob_state = F",
    );
    let quoted = "P=a\"b,c\\d";
    let id = sandbox.submit(
        &["-h", "-v", "LINES_,P=a\\\"b\\,c\\\\d", "-N", "long"],
        "true\n",
    );
    let wrapped = sandbox.run("qstat", &["-f", &id]).ok();
    let whole = sandbox.run("qstat", &["-f", "-w", &id]).ok();
    assert_eq!(whole, sandbox.run("qstat", &["-f", "-1", &id]).ok());
    let (wrapped_jobs, jobs) = (attributes(&wrapped), attributes(&whole));
    assert_eq!(jobs.keys().collect::<Vec<_>>(), [&id]);
    assert_eq!(jobs, wrapped_jobs);
    assert_eq!(jobs[&id]["job_state"], "H");
    let list = &jobs[&id]["Variable_List"];
    assert!(list.contains(r#",P=a\"b\,c\\d,"#), "{quoted} in {list}");
    assert!(
        wrapped.lines().all(|line| line.chars().count() <= 79 + 1),
        "{wrapped}"
    );
    assert!(
        wrapped.starts_with("Job Id: 1.head\n    Job_Name = long\n    Job_Owner = "),
        "{wrapped}"
    );
    assert!(wrapped.ends_with("\n\n") && whole.ends_with("\n\n"));
}

#[test]
fn quirk_9_directives_are_read_up_to_the_first_command() {
    let sandbox = head();
    let submit = |text: &str, arguments: &[&str]| {
        fs::write(sandbox.file("script"), text).unwrap();
        sandbox.job(
            &sandbox
                .run("qsub", &[arguments, &["-h", "script"]].concat())
                .line(),
        )
    };
    let job = submit(
        "\n#!/bin/sh\n\n# why\n#PBS -N one -r n\n\n#PBS   -l ncpus=2 -l walltime=0:5:0\ntrue\n",
        &[],
    );
    assert_eq!(
        (&job["Job_Name"], &job["Rerunable"]),
        (&json!("one"), &json!("False"))
    );
    assert_eq!(
        (
            &job["Resource_List"]["ncpus"],
            &job["Resource_List"]["walltime"]
        ),
        (&json!(2), &json!("00:05:00"))
    );
    let job = submit(
        "#PBS -l walltime=90,mem=1gb\n#PBS -A \"a b\"\n",
        &["-l", "mem=2gb"],
    );
    assert_eq!(
        (
            &job["Resource_List"]["mem"],
            &job["Resource_List"]["walltime"]
        ),
        (&json!("2gb"), &json!("00:01:30"))
    );
    assert_eq!(job["Account_Name"], "a b");
    let job = submit("#PBS -l walltime=2:3 \n#PBS \n:\ntrue\n#PBS -N late\n", &[]);
    assert_eq!(
        (&job["Job_Name"], &job["Resource_List"]["walltime"]),
        (&json!("script"), &json!("00:02:03"))
    );
}

#[test]
fn quirk_10_paths_are_relative_to_where_qsub_ran() {
    let sandbox = head();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    for folder in ["elsewhere", "logs"] {
        fs::create_dir(sandbox.file(folder)).unwrap();
    }
    sandbox.script(
        "job.sh",
        "echo $PBS_JOBID $PBS_JOBNAME $PBS_O_WORKDIR; pwd; wc -l < $PBS_NODEFILE",
    );
    let line =
        "cd elsewhere && qsub -o rel.out -e ../rel.err -l select=2:ncpus=2:mpiprocs=2 ../job.sh";
    let id = sandbox.shell(line).line();
    let file = format!("{host}:{}", sandbox.file("host.out").display());
    let named = sandbox
        .run("qsub", &["-o", &file, "-j", "oe", "job.sh"])
        .line();
    let array = sandbox
        .run(
            "qsub",
            &["-o", "logs/", "-e", "/dev/null", "-J", "1-2", "job.sh"],
        )
        .line();
    for id in [&id, &named, &array] {
        assert_eq!(sandbox.ended(id)["Exit_status"], 0, "{id}");
    }
    let folder = sandbox.file("elsewhere");
    let expected = format!("{id} job.sh {0}\n{0}\n4\n", folder.display());
    assert_eq!(sandbox.read("elsewhere/rel.out"), expected);
    assert_eq!(sandbox.read("rel.err"), "");
    assert!(
        sandbox
            .read("host.out")
            .starts_with(&format!("{named} job.sh "))
    );
    assert!(
        sandbox
            .read("logs/3[1].head.OU")
            .starts_with("3[1].head job.sh ")
    );
    assert_eq!(fs::read_dir(sandbox.file("logs")).unwrap().count(), 2);
}

#[test]
fn quirk_11_a_variable_without_value_is_taken_from_qsub() {
    let sandbox = head().with("FRUIT", "plum").with("COMMA", "x,y \"z\"");
    let print = "printf '%s|%s|%s|%s\\n' \"$FRUIT\" \"$COMMA\" \"$K\" \"$K2\"\n";
    let script = format!("#PBS -v \"K=V\",\"K2=V 2\",FRUIT,COMMA\n{print}");
    sandbox.ended(&sandbox.submit(&["-j", "oe", "-o", "directive"], &script));
    assert_eq!(sandbox.read("directive"), "plum|x,y \"z\"|V|V 2\n");
    let done = sandbox.run("qsub", &["-v", "FRUIT,NO_SUCH_VARIABLE", "--", "/bin/true"]);
    assert_eq!(
        (done.code, done.err.lines().next()),
        (1, Some("qsub: cannot send environment with the job"))
    );
}

#[test]
fn quirk_12_qstat_x_shows_the_history_and_not_xml() {
    let sandbox = head();
    let (finished, held) = (
        sandbox.submit(&[], "true\n"),
        sandbox.submit(&["-h"], "true\n"),
    );
    sandbox.ended(&finished);
    let table = sandbox.run("qstat", &["-x"]).ok();
    assert_eq!(
        rows(&table)
            .iter()
            .map(|row| (row[0], row[4]))
            .collect::<Vec<_>>(),
        [(&*finished, "F"), (&*held, "H")]
    );
}

#[test]
fn options_of_individual_clients_are_accepted() {
    let sandbox = head();
    fs::create_dir(sandbox.file("there")).unwrap();
    let there = sandbox.file("there").display().to_string();
    let submitted =
        |arguments: &[&str], script: &str| sandbox.job(&sandbox.submit(arguments, script));
    let job = submitted(
        &["-h"],
        "#PBS -N=\"psi\"\n#PBS -l wd\n#PBS -l walltime=0:0:9\n",
    );
    assert_eq!(
        (&job["Job_Name"], &job["Resource_List"]["walltime"]),
        (&json!("psi"), &json!("00:00:09"))
    );
    let job = submitted(
        &[
            "-rn",
            "-NNAME",
            "-h",
            "-l",
            "ncpus=2:mem=64mb",
            "-o",
            "/dev/null",
        ],
        "true\n",
    );
    let requested = (
        &job["Resource_List"]["select"],
        &job["Resource_List"]["ncpus"],
        &job["Rerunable"],
    );
    assert_eq!(
        requested,
        (&json!("1:mem=64mb:ncpus=2"), &json!(2), &json!("False"))
    );
    let job = submitted(
        &[
            "-h",
            "-lwalltime=1:0:0,nodes=1:ppn=2,mem=9mb",
            "-d",
            &there,
            "-k",
            "doe",
        ],
        "true\n",
    );
    assert_eq!(
        (&job["Resource_List"]["mpiprocs"], &job["Keep_Files"]),
        (&json!(2), &json!("doe"))
    );
    let job = submitted(&["-h", "-l", "select=1:mem=477MB:ncpus=1"], "true\n");
    assert_eq!(job["Resource_List"]["mem"], "477mb");
    let job = submitted(&["-h", "-N", "_twice0.hold"], "true\n");
    assert_eq!(job["Job_Name"], "_twice0.hold");
    let done = sandbox.run("qstat", &["-l", "1"]);
    assert_eq!(
        done.ok(),
        sandbox.run("qstat", &["1"]).ok(),
        "-l has no effect: job ids are never truncated"
    );
    sandbox.run("qdel", &["1\n", "2.head\n", "3@head"]).ok();
    assert_eq!(sandbox.run("qselect", &[]).ok(), "4.head\n5.head\n");
}

#[test]
fn an_array_can_be_signaled_and_deleted_by_its_number() {
    let sandbox = head();
    let runs = sandbox.submit(&["-J", "1-2"], "sleep 60\n");
    for index in 1..=2 {
        sandbox.running(&format!("1[{index}].head"));
    }
    sandbox.run("qsig", &["-s", "10", "1"]).ok();
    assert_eq!(sandbox.ended(&runs)["Exit_status"], 1);
    assert_eq!(sandbox.job("1[2].head")["Exit_status"], 256 + 10);
    let held = sandbox.submit(&["-h", "-J", "1-2"], "true\n");
    sandbox.run("qdel", &["2"]).ok();
    assert_eq!(sandbox.ended(&held)["Exit_status"], 271);
    let again = sandbox.run("qdel", &["2"]);
    assert_eq!(
        (
            again.code,
            again.err.starts_with("qdel: Job has finished 2")
        ),
        (35, true),
        "{again:?}"
    );
    assert_eq!(sandbox.run("qdel", &["7"]).code, 153);
}

#[test]
fn a_deleted_job_gets_sigterm_at_once_and_a_grace_period() {
    let sandbox = head();
    let script = "trap 'echo got TERM; exit 1' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n";
    let traps = sandbox.submit(&["-j", "oe", "-o", "trapped"], script);
    let waits = sandbox.submit(&["-h"], "true\n");
    sandbox.until("the script to set its trap", || {
        sandbox.file("ready").exists().then_some(())
    });
    let started = Instant::now();
    sandbox.run("qdel", &[&traps, &waits]).ok();
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "clients kill a qdel that takes longer"
    );
    assert_eq!(sandbox.ended(&traps)["Exit_status"], 271);
    assert!(
        sandbox.read("trapped").ends_with("got TERM\n"),
        "{}",
        sandbox.read("trapped")
    );
}
