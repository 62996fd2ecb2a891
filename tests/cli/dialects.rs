//! TORQUE and Grid Engine options, with the real programs.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;

/// A node with four processors and the name of this host, and two queues.
fn node() -> Sandbox {
    let host = lanai::sys::sensors::short_host_name();
    let queues = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"long\"\n";
    Sandbox::configured(&format!(
        "[server]\nname = \"head\"\nrefuse_impossible = false\n{queues}[[node]]\nname = \"{host}\"\nncpus = 4\nmem = \"8gb\"\n"
    ))
}

/// Submits a held job; returns its attributes.
#[track_caller]
fn held(sandbox: &Sandbox, words: &[&str]) -> Value {
    let words: Vec<&str> = ["-h"].iter().chain(words).copied().collect();
    sandbox.job(&sandbox.submit(&words, "true\n"))
}

#[track_caller]
fn assert_refused(sandbox: &Sandbox, words: &[&str], code: i32, expected: &str) {
    let done = sandbox.run_with_input("qsub", words, "true\n");
    assert_eq!(
        (done.code, done.err.lines().next().unwrap_or_default()),
        (code, expected),
        "{words:?}: {done:?}"
    );
}

#[test]
fn resources_with_other_names_are_mapped_to_pbs_names() {
    let sandbox = node();
    for (words, select, place) in [
        (
            &["-l", "nodes=1:ppn=2:gpus=1"][..],
            "1:ncpus=2:ngpus=1:mpiprocs=2",
            "scatter",
        ),
        (&["-l", "procs=3"], "3:ncpus=1:mpiprocs=1", "free"),
        (&["-l", "nodes=1:ppn=all"], "1:ncpus=all", "scatter"),
        (
            &["-pe", "smp", "2", "-l", "h_vmem=1.5G"],
            "1:ncpus=2:mem=3145728kb",
            "free",
        ),
        (&["-pe", "smp", "2-4"], "1:ncpus=2-4", "free"),
        (&["-pe", "openmpi", "4"], "4:ncpus=1:mpiprocs=1", "free"),
        (
            &["-L", "tasks=2:lprocs=2:memory=1gb"],
            "2:ncpus=2:mem=1gb",
            "free",
        ),
        (&["-l", "mem_free=1G"], "1:mem=1048576kb:ncpus=1", "pack"),
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["-W", "resv="]).collect();
        let list = &held(&sandbox, &words)["Resource_List"];
        assert_eq!(
            (&list["select"], &list["place"]),
            (&select.into(), &place.into()),
            "{words:?} {list}"
        );
    }
    let host = lanai::sys::sensors::short_host_name();
    let times = format!("h_rt=0:1:30,s_rt=60,hostname=zz|{host}");
    let job = held(&sandbox, &["-n", "-l", &times, "-tc", "2", "-t", "4-8:2"]);
    assert_eq!(
        (&job["naccess"], &job["hosts"]),
        (&"singlejob".into(), &format!("{host},zz").into()),
        "{job}"
    );
    assert_eq!(
        (&job["Resource_List"]["walltime"], &job["warn"]),
        (&"00:01:30".into(), &"USR1@30".into())
    );
    assert_eq!(
        (&job["array_indices_submitted"], &job["max_run_subjobs"]),
        (&"4-8:2".into(), &2.into())
    );
    assert_refused(
        &sandbox,
        &["-l", "h_rt=soon"],
        166,
        "qsub: Illegal attribute or resource value Resource_List.h_rt",
    );
    assert_refused(
        &sandbox,
        &["-l", "h_foo=1"],
        187,
        "qsub: Unknown resource Resource_List.h_foo",
    );
    assert_refused(
        &sandbox,
        &["-pe", "smp", "0"],
        166,
        "qsub: Illegal attribute or resource value Resource_List.pe",
    );
}

#[test]
fn a_resource_name_defined_by_the_site_is_not_mapped() {
    let resource = "[[resource]]\nname = \"h_vmem\"\ntype = \"size\"\nconsumable = true\n";
    let sandbox = Sandbox::configured(&format!("[server]\nrefuse_impossible = false\n{resource}"));
    let job = held(&sandbox, &["-l", "h_vmem=1gb"]);
    assert_eq!(job["Resource_List"]["h_vmem"], "1gb", "{job}");
}

#[test]
fn an_index_list_creates_an_array_of_only_these_indices() {
    let sandbox = node();
    let script = "echo $PBS_ARRAYID $PBS_ARRAY_INDEX > done.$PBS_ARRAYID\n";
    let id = sandbox.submit(&["-N", "list", "-t", "2,5-9:2,20%3"], script);
    let shown = sandbox.run("qstat", &["-x", "-t", &id]).ok();
    assert_eq!(shown.lines().count(), 2 + 1 + 5, "{shown}");
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["array_indices_submitted"]),
        (&0.into(), &"2,5-9:2,20".into()),
        "{job}"
    );
    assert_eq!(
        job["array_state_count"],
        "Queued:0 Running:0 Exiting:0 Expired:5"
    );
    let indices: Vec<u32> = (0..30)
        .filter(|index| sandbox.file(&format!("done.{index}")).exists())
        .collect();
    assert_eq!(indices, [2, 5, 7, 9, 20]);
    assert_eq!(sandbox.read("done.7"), "7 7\n");
    let number = id.split('[').next().unwrap();
    let none = sandbox.run("qstat", &["-x", &format!("{number}[6]")]);
    assert_eq!((none.code, none.out.as_str()), (153, ""), "{none:?}");
    let one = sandbox.submit(&["-t", "7"], script);
    assert_eq!(sandbox.ended(&one)["array_indices_submitted"], "7-7");
    for wrong in ["3-1", "1,", "a", "1-2;4"] {
        assert_refused(
            &sandbox,
            &["-t", wrong],
            2,
            "qsub: illegal -t value: use ranges and indices separated by commas, X-Y[:Z],N,...[%M]",
        );
    }
    assert_refused(&sandbox, &["-J", "5"], 2, "qsub: illegal -J value");
}

#[test]
fn an_index_list_survives_a_restart_and_deletions() {
    let sandbox = node();
    let id = sandbox.submit(
        &["-h", "-N", "list", "-t", "1-3,9"],
        "echo $PBS_ARRAY_INDEX >> done\n",
    );
    let number = id.split('[').next().unwrap().to_string();
    sandbox.run("qdel", &[&format!("{number}[2]")]).ok();
    let none = sandbox.run("qdel", &[&format!("{number}[5]")]);
    assert_ne!(none.code, 0, "{none:?}");
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&id]).ok();
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        1,
        "one subjob was deleted"
    );
    let mut done: Vec<String> = sandbox.read("done").lines().map(String::from).collect();
    done.sort();
    assert_eq!(done, ["1", "3", "9"]);
}

#[test]
fn hold_jid_accepts_job_names_and_numbers() {
    let sandbox = node();
    let first = sandbox.submit(&["-h", "-N", "align_1"], "echo first >> order\n");
    let second = sandbox.submit(&["-h", "-N", "align_2"], "echo second >> order\n");
    let last = sandbox.submit(
        &["-N", "merge", "-hold_jid", "align_*"],
        "echo last >> order\n",
    );
    let job = sandbox.job(&last);
    assert_eq!(job["job_state"], "H");
    assert_eq!(
        job["depend"],
        format!("afterany:{first}@head:{second}@head")
    );
    let done = sandbox.run_with_input("qsub", &["-hold_jid", "nosuch", "-terse"], "true\n");
    assert!(
        done.err.starts_with("qsub: warning: ")
            && done
                .err
                .ends_with(" has no unfinished job named nosuch: the dependency is ignored\n"),
        "{done:?}"
    );
    assert_eq!(sandbox.ended(done.out.trim_end())["Exit_status"], 0);
    let number = first.split('.').next().unwrap();
    let by_number = sandbox.submit(&["-hold_jid", number], "true\n");
    assert_eq!(
        sandbox.job(&by_number)["depend"],
        format!("afterany:{first}@head")
    );
    assert_refused(
        &sandbox,
        &["-hold_jid", "999"],
        153,
        "qsub: Unknown Job Id 999.head",
    );
    sandbox.run("qrls", &[&first, &second]).ok();
    sandbox.ended(&last);
    assert!(sandbox.read("order").ends_with("last\n"));
}

#[test]
fn commands_directories_and_arguments_are_used_as_requested() {
    let sandbox = node();
    fs::create_dir(sandbox.file("sub")).unwrap();
    sandbox.script("show.sh", "echo \"$PWD $PBS_O_WORKDIR $#: $*\"");
    let work = sandbox.work().canonicalize().unwrap();
    let work = work.display();
    let output_of = |words: &[&str], file: &str| {
        let id = sandbox.run("qsub", words).line();
        let job = sandbox.ended(&id);
        assert_eq!(job["Exit_status"], 0, "{job}");
        sandbox.read(&file.replace('#', id.split('.').next().unwrap()))
    };
    assert_eq!(
        output_of(&["-d", "sub", "-j", "oe", "show.sh"], "show.sh.o#"),
        format!("{work}/sub {work} 0: \n")
    );
    assert_eq!(
        output_of(
            &["-wd", "sub", "-j", "y", "show.sh", "a b", "-c"],
            "sub/show.sh.o#"
        ),
        format!("{work}/sub {work}/sub 2: a b -c\n")
    );
    assert_eq!(
        output_of(&["-F", "x 'y z'", "-o", "out", "show.sh"], "out"),
        format!("{work} {work} 2: x y z\n")
    );
    assert_eq!(
        output_of(&["show.sh", "only", "these"], "show.sh.o#"),
        format!("{work} {work} 2: only these\n")
    );
    assert_eq!(
        output_of(&["-b", "y", "echo", "-n", "hello"], "echo.o#"),
        "hello"
    );
    assert_eq!(
        output_of(
            &["-b", "y", "-N", "two", "echo one; echo $NSLOTS two"],
            "two.o#"
        ),
        "one\n1 two\n"
    );
    assert_eq!(
        output_of(
            &["-cwd", "-N", "j", "-o", "$JOB_NAME-$JOB_ID.txt", "show.sh"],
            "j-#.txt"
        ),
        format!("{work} {work} 0: \n")
    );
    fs::write(
        sandbox.file("options"),
        "# for all\n-N opted\n-o opted.txt\n",
    )
    .unwrap();
    assert_eq!(
        output_of(&["-@", "options", "show.sh"], "opted.txt"),
        format!("{work} {work} 0: \n")
    );
    let home = Sandbox::configured("[server]\nname = \"head\"\nworkdir = \"home\"\n");
    let id = home.submit(&["-cwd", "-o", "where"], "pwd\n");
    home.ended(&id);
    assert_eq!(
        home.read("where"),
        format!("{}\n", home.work().canonicalize().unwrap().display())
    );
}

#[test]
fn qsub_sync_returns_the_exit_status_of_the_job() {
    let sandbox = node();
    let done = sandbox.run_with_input("qsub", &["-sync", "y", "-terse"], "exit 3\n");
    assert_eq!((done.code, done.out.lines().count()), (3, 1), "{done:?}");
}

#[test]
fn the_first_existing_queue_of_a_list_is_used() {
    let sandbox = node();
    assert_eq!(
        held(&sandbox, &["-cwd", "-q", "all.q,long,workq"])["queue"],
        "long"
    );
    assert_eq!(held(&sandbox, &["-q", "nosuch,workq"])["queue"], "workq");
    assert_refused(
        &sandbox,
        &["-cwd", "-q", "all.q"],
        170,
        "qsub: Unknown queue all.q: the queues are long, workq",
    );
    assert_refused(&sandbox, &["-q", "all.q"], 170, "qsub: Unknown queue");
}

#[test]
fn only_jobs_with_grid_engine_options_get_its_variables() {
    let sandbox = node();
    let script = "env | grep -E '^(JOB_ID|QUEUE|NSLOTS|SGE_TASK_ID|PE_HOSTFILE)=' | sort > vars.$PBS_JOBID\n";
    let plain = sandbox.submit(&[], script);
    sandbox.ended(&plain);
    assert_eq!(sandbox.read(&format!("vars.{plain}")), "");
    let marked = sandbox.submit(&["-cwd"], script);
    sandbox.ended(&marked);
    let output = sandbox.read(&format!("vars.{marked}"));
    let number = marked.split('.').next().unwrap();
    assert!(
        output.starts_with(&format!("JOB_ID={number}\nNSLOTS=1\nPE_HOSTFILE=/")),
        "{output}"
    );
    assert!(
        output.ends_with("\nQUEUE=workq\nSGE_TASK_ID=undefined\n"),
        "{output}"
    );
}
