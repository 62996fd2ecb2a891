//! A nested Lanai in a job: a private queue on the resources of the job (F17).

mod parent_queue;

use crate::support::sandbox::{Sandbox, kill};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// An installation with one node of 4 processors and a short grace period.
fn outer() -> Sandbox {
    let sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    sandbox
        .run("noded", &["--ncpus", "4", "--mem", "2gb", "--name", "n1"])
        .ok();
    sandbox.script("inner.sh", "echo + >> steps; sleep 0.3; echo - >> steps");
    sandbox
}

/// Submits a job with 2 processors that runs this workflow in a nested installation.
#[track_caller]
fn submit_nested(sandbox: &Sandbox, workflow: &str) -> String {
    sandbox.script("workflow.sh", workflow);
    let arguments = [
        "-V",
        "-N",
        "nest",
        "-l",
        "select=1:ncpus=2:mem=1gb",
        "--",
        "schedd",
        "--nested",
        "--",
        "./workflow.sh",
    ];
    sandbox.run("qsub", &arguments).line()
}

fn output(sandbox: &Sandbox, id: &str) -> String {
    let number = id.split('.').next().unwrap();
    sandbox.read(&format!("nest.o{number}")) + &sandbox.read(&format!("nest.e{number}"))
}

/// Sorted names of the processes in the sandbox.
fn process_names(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = sandbox
        .processes()
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    names.sort();
    names
}

/// Waits until only the outer daemons run.
#[track_caller]
fn await_end_of_nested_processes(sandbox: &Sandbox) {
    sandbox.until("the end of all nested processes", || {
        (process_names(sandbox) == ["lanai-spawner", "noded", "schedd"]).then_some(())
    });
}

/// Maximum number of concurrent steps, from a `+` for each begin and a `-` for each end.
fn max_concurrent(steps: &str) -> i32 {
    let walk = steps.lines().scan(0, |running, step| {
        *running += if step == "+" { 1 } else { -1 };
        Some(*running)
    });
    walk.max().unwrap_or(0)
}

#[test]
fn f17_a_nested_queue_uses_its_jobs_resources_and_returns_the_status() {
    let sandbox = outer();
    let workflow = "for i in 1 2 3 4 5; do qsub -V inner.sh; done\n\
                    qsub -V -l select=1:ncpus=3 inner.sh || echo too large
\
                    pbsnodes -aSj; qstat > inner-list; exit 7";
    let id = submit_nested(&sandbox, workflow);
    sandbox.until("the list of nested jobs", || {
        sandbox.file("inner-list").exists().then_some(())
    });
    let list = sandbox.run("qstat", &[]).ok();
    assert_eq!(
        list.lines().count(),
        3,
        "the outer queue has one job: {list}"
    );
    let job = sandbox.ended(&id);
    let text = output(&sandbox, &id);
    assert_eq!(job["Exit_status"], 7, "{text}");
    let steps = sandbox.read("steps");
    assert_eq!(
        (steps.matches('+').count(), steps.matches('-').count()),
        (5, 5),
        "{steps}"
    );
    assert_eq!(max_concurrent(&steps), 2, "{steps}");
    assert!(
        text.contains("1.job1.") && text.contains("1gb") && text.contains("too large"),
        "{text}"
    );
    await_end_of_nested_processes(&sandbox);
    let node = sandbox.run("pbsnodes", &["-F", "json", "n1"]).ok();
    assert!(
        !node.contains("\"ncpus\":2"),
        "no resources remain assigned: {node}"
    );
}

#[test]
fn f17_a_nested_queue_is_first_come_first_served_without_a_preset() {
    let sandbox = outer();
    sandbox.script("named.sh", "echo $PBS_JOBNAME >> order; sleep $1");
    let submit = |name: &str, ncpus: u32, seconds: &str| {
        format!(
            "qsub -V -N {name} -l select=1:ncpus={ncpus} -l walltime=60 -- ./named.sh {seconds}\n"
        )
    };
    let workflow = [
        submit("first", 1, "1"),
        submit("large", 2, "0"),
        submit("small", 1, "0"),
    ]
    .concat();
    sandbox.ended(&submit_nested(&sandbox, &workflow));
    assert_eq!(sandbox.read("order"), "first\nlarge\nsmall\n");
    fs::remove_file(sandbox.file("order")).unwrap();
    let nested = "schedd --nested --preset ytsaurus -- ./workflow.sh";
    let id = sandbox.submit(&["-V", "-l", "select=1:ncpus=2"], &format!("{nested}\n"));
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(sandbox.read("order"), "first\nsmall\nlarge\n");
}

#[test]
fn f17_deleting_a_job_deletes_its_nested_jobs() {
    let sandbox = outer();
    sandbox.script(
        "stubborn.sh",
        "trap '' TERM HUP; setsid sleep 1000 & echo up >> up; sleep 1000; sleep 1000",
    );
    let id = submit_nested(
        &sandbox,
        "qsub -V stubborn.sh; qsub -V -J 1-9 stubborn.sh; trap '' TERM; sleep 1000",
    );
    sandbox.until("two nested jobs", || {
        (fs::read_to_string(sandbox.file("up"))
            .unwrap_or_default()
            .lines()
            .count()
            == 2)
            .then_some(())
    });
    assert!(
        process_names(&sandbox)
            .iter()
            .filter(|name| *name == "lanai-shepherd")
            .count()
            == 3,
        "{:?}",
        process_names(&sandbox)
    );
    sandbox.run("qdel", &[&id]).ok();
    sandbox.ended(&id);
    await_end_of_nested_processes(&sandbox);
    assert_eq!(
        sandbox.read("up").lines().count(),
        2,
        "no other nested job has started"
    );
}

#[test]
fn f17_nested_jobs_survive_a_killed_schedd_and_end_with_the_main_process() {
    let sandbox = outer();
    sandbox.run("qstat", &["-B"]).ok();
    sandbox.until("the outer daemons", || {
        (!sandbox.pids_of("noded").is_empty()).then_some(())
    });
    let known: Vec<i32> = sandbox.pids_of("schedd");
    let id = submit_nested(
        &sandbox,
        "for i in 1 2 3 4; do qsub -V inner.sh; done; touch ready; while [ ! -e go ]; do sleep 0.05; done; exit 3",
    );
    sandbox.until("the workflow", || {
        sandbox.file("ready").exists().then_some(())
    });
    // The schedd started last is the one of the nested installation.
    let inner = sandbox
        .pids_of("schedd")
        .into_iter()
        .filter(|pid| !known.contains(pid))
        .max()
        .unwrap();
    kill(inner, 9);
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        3,
        "{}",
        output(&sandbox, &id)
    );
    assert_eq!(sandbox.read("steps").matches('-').count(), 4);

    let id = submit_nested(&sandbox, "qsub -V -- sleep 1000; touch again; sleep 1000");
    sandbox.until("the workflow", || {
        sandbox.file("again").exists().then_some(())
    });
    let main_process = sandbox.running(&id)["session_id"].as_i64().unwrap() as i32;
    kill(main_process, 9);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 137);
    await_end_of_nested_processes(&sandbox);
}

#[test]
fn f17_a_nested_queue_without_a_command_serves_clients_until_idle() {
    let sandbox = outer();
    fs::write(
        sandbox.file("own.toml"),
        "[server]\nidle = \"2s\"\n[order]\nby = \"priority\"\n",
    )
    .unwrap();
    let arguments = [
        "-V",
        "-N",
        "nest",
        "-k",
        "od",
        "-l",
        "select=1:ncpus=2",
        "--",
        "schedd",
        "--nested",
        "--config",
        "own.toml",
    ];
    let id = sandbox.run("qsub", &arguments).line();
    let export = sandbox.until("the line that exports LANAI_HOME", || {
        let text = fs::read_to_string(sandbox.file("nest.o1")).unwrap_or_default();
        text.lines()
            .next()
            .filter(|_| text.ends_with('\n'))
            .map(String::from)
    });
    let inner = sandbox.shell(&format!(
        "{export}\nqsub -v PATH -W block=true -- sh -c 'qstat > seen; exit 5'"
    ));
    assert_eq!(inner.code, 5, "{inner:?}");
    let seen = sandbox.read("seen");
    assert!(
        seen.contains("1.job1."),
        "a nested job uses the nested queue: {seen}"
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    await_end_of_nested_processes(&sandbox);
}

#[test]
fn f17_nested_queues_can_contain_nested_queues() {
    let sandbox = outer();
    sandbox.script(
        "leaf.sh",
        "qsub -V inner.sh; qsub -V inner.sh; pbsnodes -aSj; exit 9",
    );
    let id = submit_nested(
        &sandbox,
        "qsub -V -N leaf -W block=true -l select=1:ncpus=1 -- schedd --nested -- ./leaf.sh",
    );
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        9,
        "{}",
        output(&sandbox, &id)
    );
    assert_eq!(max_concurrent(&sandbox.read("steps")), 1);
    let lowest = sandbox.read("leaf.o1");
    assert!(lowest.contains("1.job1.job1."), "{lowest}");
    await_end_of_nested_processes(&sandbox);
}

#[test]
fn f17_an_impossible_nesting_is_refused_with_a_reason() {
    let sandbox = outer();
    let outside = sandbox.run("schedd", &["--nested"]);
    assert!(
        outside.code == 1
            && outside
                .err
                .contains("inside a job of Lanai; submit a job that runs it"),
        "{outside:?}"
    );
    let id = submit_nested(
        &sandbox,
        "schedd --nested -- true || echo $? > second; schedd --nested --preset flux --config f || exit 4",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 4);
    assert_eq!(sandbox.read("second"), "1\n");
    let text = output(&sandbox, &id);
    assert!(
        text.contains("this job already has a nested schedd: export LANAI_HOME="),
        "{text}"
    );
    let id = sandbox.submit(
        &["-V"],
        "schedd --nested -- ./nothing; echo $? > status; schedd --nested -- /etc/passwd\n",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 126);
    assert_eq!(sandbox.read("status"), "127\n");
}

/// A user who can write to `TMPDIR` could have replaced the nested installation by a link.
#[test]
fn f17_a_tmpdir_writable_by_others_is_refused_and_links_are_not_followed() {
    let sandbox = outer();
    for name in ["open", "own", "elsewhere"] {
        fs::create_dir(sandbox.file(name)).unwrap();
    }
    let mode = |name: &str, mode| {
        fs::set_permissions(sandbox.file(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    [("open", 0o1777), ("own", 0o700), ("elsewhere", 0o755)]
        .into_iter()
        .for_each(|(name, bits)| mode(name, bits));
    for name in ["open", "own"] {
        symlink(sandbox.file("elsewhere"), sandbox.file(name).join("lanai")).unwrap();
    }
    for name in ["open", "own"] {
        let id = sandbox.submit(
            &["-V", "-N", "nest"],
            &format!("TMPDIR=$PWD/{name} schedd --nested -- true\n"),
        );
        assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
        let text = output(&sandbox, &id);
        assert!(
            text.contains("is not a private directory: keep the TMPDIR of the job"),
            "{text}"
        );
    }
    assert_eq!(fs::read_dir(sandbox.file("elsewhere")).unwrap().count(), 0);
    assert_eq!(
        fs::metadata(sandbox.file("elsewhere"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
    fs::remove_file(sandbox.file("own").join("lanai")).unwrap();
    let id = sandbox.submit(
        &["-V", "-N", "nest"],
        "TMPDIR=$PWD/own schedd --nested -- qsub -V -- true\n",
    );
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &id)
    );
}

#[test]
fn f17_an_infeasible_job_is_reported_and_not_awaited() {
    let sandbox = outer();
    fs::write(
        sandbox.file("own.toml"),
        "[server]\nrefuse_impossible = false\nidle = \"1s\"\n",
    )
    .unwrap();
    let impossible = "qsub -V -l select=1:ncpus=3 inner.sh";
    let submit =
        |command: &str| sandbox.submit(&["-V", "-N", "nest", "-l", "select=1:ncpus=2"], command);
    sandbox.script(
        "workflow.sh",
        &format!("qsub -V inner.sh; {impossible}; {impossible}; exit $1"),
    );
    for (given, status) in [(0, 1), (5, 5)] {
        let id = submit(&format!(
            "schedd --nested --config own.toml -- ./workflow.sh {given}\n"
        ));
        assert_eq!(sandbox.ended(&id)["Exit_status"], status);
        let text = output(&sandbox, &id);
        assert!(
            text.contains("job 2 (and 1 more) ends without having run: "),
            "{text}"
        );
        assert!(
            text.contains("the nearest request that fits is -l select=1:ncpus=2"),
            "{text}"
        );
    }
    assert_eq!(
        sandbox.read("steps"),
        "+\n-\n+\n-\n",
        "the feasible jobs have run"
    );

    let id = submit(&format!(
        "schedd --nested --config own.toml > exports & sleep 1; . ./exports; {impossible}; wait $!\n"
    ));
    assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
    let text = output(&sandbox, &id);
    assert!(
        text.contains("job 1 ends without having run: Can Never Run: "),
        "{text}"
    );
    await_end_of_nested_processes(&sandbox);
}
