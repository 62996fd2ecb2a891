//! A Lanai within a job of a Lanai: a private queue on what the job was given (F17).

use crate::security::multi_user::shared;
use crate::support::people::two_people;
use crate::support::sandbox::{Sandbox, kill};
use lanai::sys::home::Home;
use lanai::wire::client::{Client, More};
use lanai::wire::message::{Answer, Claim, Offered, Question, Reply, Request};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// An installation with one node of 4 processors, and little patience for jobs that are told to
/// end.
fn outer() -> Sandbox {
    let sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    sandbox
        .run("noded", &["--ncpus", "4", "--mem", "2gb", "--name", "n1"])
        .ok();
    sandbox.script("inner.sh", "echo + >> steps; sleep 0.3; echo - >> steps");
    sandbox
}

/// Submits a job of 2 processors that runs this in a queue of its own.
#[track_caller]
fn nest(sandbox: &Sandbox, workflow: &str) -> String {
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

/// Names of the processes of the sandbox, sorted.
fn left(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = sandbox
        .processes()
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    names.sort();
    names
}

/// Waits until the outer daemons alone are there.
#[track_caller]
fn until_the_outer_alone_is_left(sandbox: &Sandbox) {
    sandbox.until("the end of all that was within the job", || {
        (left(sandbox) == ["lanai-spawner", "noded", "schedd"]).then_some(())
    });
}

/// The most that were under way at once, by a `+` for each begin and a `-` for each end.
fn most(steps: &str) -> i32 {
    let walk = steps.lines().scan(0, |under_way, step| {
        *under_way += if step == "+" { 1 } else { -1 };
        Some(*under_way)
    });
    walk.max().unwrap_or(0)
}

#[test]
fn f17_a_nested_queue_runs_its_jobs_on_what_its_job_was_given_and_hands_on_the_status() {
    let sandbox = outer();
    let workflow = "for i in 1 2 3 4 5; do qsub -V inner.sh; done\n\
                    qsub -V -l select=1:ncpus=3 inner.sh || echo too large
\
                    pbsnodes -aSj; qstat > inner-list; exit 7";
    let id = nest(&sandbox, workflow);
    sandbox.until("inner jobs", || {
        sandbox.file("inner-list").exists().then_some(())
    });
    let list = sandbox.run("qstat", &[]).ok();
    assert_eq!(
        list.lines().count(),
        3,
        "the outer queue has one job: {list}"
    );
    let job = sandbox.ended(&id);
    let said = output(&sandbox, &id);
    assert_eq!(job["Exit_status"], 7, "{said}");
    let steps = sandbox.read("steps");
    assert_eq!(
        (steps.matches('+').count(), steps.matches('-').count()),
        (5, 5),
        "{steps}"
    );
    assert_eq!(most(&steps), 2, "{steps}");
    assert!(
        said.contains("1.job1.") && said.contains("1gb") && said.contains("too large"),
        "{said}"
    );
    until_the_outer_alone_is_left(&sandbox);
    let node = sandbox.run("pbsnodes", &["-F", "json", "n1"]).ok();
    assert!(
        !node.contains("\"ncpus\":2"),
        "nothing is left taken: {node}"
    );
}

#[test]
fn f17_a_nested_queue_is_first_come_first_served_unless_a_preset_says_otherwise() {
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
    sandbox.ended(&nest(&sandbox, &workflow));
    assert_eq!(sandbox.read("order"), "first\nlarge\nsmall\n");
    fs::remove_file(sandbox.file("order")).unwrap();
    let nested = "schedd --nested --preset ytsaurus -- ./workflow.sh";
    let id = sandbox.submit(&["-V", "-l", "select=1:ncpus=2"], &format!("{nested}\n"));
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(sandbox.read("order"), "first\nsmall\nlarge\n");
}

#[test]
fn f17_a_deleted_job_takes_along_all_that_runs_within_it() {
    let sandbox = outer();
    sandbox.script(
        "stubborn.sh",
        "trap '' TERM HUP; setsid sleep 1000 & echo up >> up; sleep 1000; sleep 1000",
    );
    let id = nest(
        &sandbox,
        "qsub -V stubborn.sh; qsub -V -J 1-9 stubborn.sh; trap '' TERM; sleep 1000",
    );
    sandbox.until("two inner jobs", || {
        (fs::read_to_string(sandbox.file("up"))
            .unwrap_or_default()
            .lines()
            .count()
            == 2)
            .then_some(())
    });
    assert!(
        left(&sandbox)
            .iter()
            .filter(|name| *name == "lanai-shepherd")
            .count()
            == 3,
        "{:?}",
        left(&sandbox)
    );
    sandbox.run("qdel", &[&id]).ok();
    sandbox.ended(&id);
    until_the_outer_alone_is_left(&sandbox);
    assert_eq!(
        sandbox.read("up").lines().count(),
        2,
        "no other has started meanwhile"
    );
}

#[test]
fn f17_killed_daemons_of_a_nested_queue_lose_no_job_and_a_killed_keeper_leaves_none() {
    let sandbox = outer();
    sandbox.run("qstat", &["-B"]).ok();
    sandbox.until("the outer daemons", || {
        (!sandbox.pids_of("noded").is_empty()).then_some(())
    });
    let known: Vec<i32> = sandbox.pids_of("schedd");
    let id = nest(
        &sandbox,
        "for i in 1 2 3 4; do qsub -V inner.sh; done; touch ready; while [ ! -e go ]; do sleep 0.05; done; exit 3",
    );
    sandbox.until("the workflow", || {
        sandbox.file("ready").exists().then_some(())
    });
    // Killed are both that the job has, the keeper's daemon last started first.
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

    let id = nest(&sandbox, "qsub -V -- sleep 1000; touch again; sleep 1000");
    sandbox.until("the workflow", || {
        sandbox.file("again").exists().then_some(())
    });
    let keeper = sandbox.running(&id)["session_id"].as_i64().unwrap() as i32;
    kill(keeper, 9);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 137);
    until_the_outer_alone_is_left(&sandbox);
}

#[test]
fn f17_without_a_command_it_serves_who_asks_until_nobody_does_for_a_while() {
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
    let export = sandbox.until("the way there", || {
        let said = fs::read_to_string(sandbox.file("nest.o1")).unwrap_or_default();
        said.lines()
            .next()
            .filter(|_| said.ends_with('\n'))
            .map(String::from)
    });
    let inner = sandbox.shell(&format!(
        "{export}\nqsub -v PATH -W block=true -- sh -c 'qstat > seen; exit 5'"
    ));
    assert_eq!(inner.code, 5, "{inner:?}");
    let seen = sandbox.read("seen");
    assert!(
        seen.contains("1.job1."),
        "a job within speaks to the queue within: {seen}"
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    until_the_outer_alone_is_left(&sandbox);
}

#[test]
fn f17_the_same_at_every_level() {
    let sandbox = outer();
    sandbox.script(
        "leaf.sh",
        "qsub -V inner.sh; qsub -V inner.sh; pbsnodes -aSj; exit 9",
    );
    let id = nest(
        &sandbox,
        "qsub -V -N leaf -W block=true -l select=1:ncpus=1 -- schedd --nested -- ./leaf.sh",
    );
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        9,
        "{}",
        output(&sandbox, &id)
    );
    assert_eq!(most(&sandbox.read("steps")), 1);
    let lowest = sandbox.read("leaf.o1");
    assert!(lowest.contains("1.job1.job1."), "{lowest}");
    until_the_outer_alone_is_left(&sandbox);
}

#[test]
fn f17_what_cannot_be_nested_is_told_why() {
    let sandbox = outer();
    let outside = sandbox.run("schedd", &["--nested"]);
    assert!(
        outside.code == 1 && outside.err.contains("within a job of Lanai: submit it"),
        "{outside:?}"
    );
    let id = nest(
        &sandbox,
        "schedd --nested -- true || echo $? > second; schedd --nested --preset flux --config f || exit 4",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 4);
    assert_eq!(sandbox.read("second"), "1\n");
    let said = output(&sandbox, &id);
    assert!(
        said.contains("this job has a schedd already: export LANAI_HOME="),
        "{said}"
    );
    let id = sandbox.submit(
        &["-V"],
        "schedd --nested -- ./nothing; echo $? > status; schedd --nested -- /etc/passwd\n",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 126);
    assert_eq!(sandbox.read("status"), "127\n");
}

/// Whoever can write to `TMPDIR` could have put a link in the place of the nested installation.
#[test]
fn f17_a_tmpdir_that_others_can_write_to_is_refused_and_nothing_is_followed_there() {
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
        let said = output(&sandbox, &id);
        assert!(
            said.contains("is not yours alone: leave TMPDIR as the job was given it"),
            "{said}"
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
fn f17_a_job_that_can_never_run_is_told_of_and_not_waited_for() {
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
        let said = output(&sandbox, &id);
        assert!(
            said.contains("job 2 and 1 more that can never run ends here without having run: "),
            "{said}"
        );
        assert!(
            said.contains("the nearest that fits is -l select=1:ncpus=2"),
            "{said}"
        );
    }
    assert_eq!(sandbox.read("steps"), "+\n-\n+\n-\n", "what could run has");

    let id = submit(&format!(
        "schedd --nested --config own.toml > way & sleep 1; . ./way; {impossible}; wait $!\n"
    ));
    assert_eq!(sandbox.ended(&id)["Exit_status"], 1);
    let said = output(&sandbox, &id);
    assert!(
        said.contains("job 1 ends here without having run: Can Never Run: "),
        "{said}"
    );
    until_the_outer_alone_is_left(&sandbox);
}

/// An installation with a queue whose jobs wait for nested instances.
fn outer_with_nested_queue(faults: &str) -> Sandbox {
    let config = "[launch]\ngrace = \"1s\"\n[[queue]]\nname = \"inner\"\nnested = true\n";
    let mut sandbox = Sandbox::configured(config);
    if !faults.is_empty() {
        sandbox.set("LANAI_FAULTS", faults);
    }
    sandbox
        .run("noded", &["--ncpus", "4", "--mem", "2gb", "--name", "n1"])
        .ok();
    sandbox.run("qstat", &["-B"]).ok();
    sandbox
}

/// A nested instance that takes jobs of the queue until there is a file `go`.
#[track_caller]
fn nest_with_queue(sandbox: &Sandbox) -> String {
    let wait =
        "echo $LANAI_HOME > home.new; mv home.new home\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    sandbox.script(
        "workflow.sh",
        &format!("{wait}qstat -xf -F json > inner.json"),
    );
    let nested = [
        "schedd",
        "--nested",
        "--queue",
        "inner",
        "--",
        "./workflow.sh",
    ];
    let arguments = [
        &["-V", "-N", "nest", "-l", "select=1:ncpus=2:mem=1gb", "--"],
        &nested[..],
    ]
    .concat();
    sandbox.run("qsub", &arguments).line()
}

#[test]
fn f5_a_nested_instance_takes_no_job_of_another_user() {
    let Some([ann, bob]) = two_people("take") else {
        return;
    };
    let sandbox = shared("[[queue]]\nname = \"inner\"\nnested = true\n");
    let [his, hers] =
        [&bob, &ann].map(|person| person.submit(&sandbox, &["-q", "inner"], "true\n"));
    let command = "schedd --nested --queue inner -- sh -c 'until qselect -x -s F | grep .; do sleep 0.1; done'\n";
    let host = ann.submit(&sandbox, &["-V", "-l", "select=1:ncpus=1"], command);
    assert_eq!(sandbox.ended(&host)["Exit_status"], 0);
    assert!(
        sandbox.ended(&hers)["comment"]
            .as_str()
            .unwrap()
            .starts_with("Job was moved to")
    );
    assert_eq!(sandbox.state(&his), "Q");
}

/// A job of the queue that says that it ran.
#[track_caller]
fn submit_to_nested_queue(sandbox: &Sandbox) -> String {
    sandbox.submit(&["-q", "inner", "-N", "moves"], "echo ran >> ran\nexit 3\n")
}

/// What a command prints that speaks to the nested instance.
fn within(sandbox: &Sandbox, command: &str) -> String {
    sandbox
        .shell(&format!("LANAI_HOME=$(cat home) {command}"))
        .out
}

/// Lets the claim of a job fail for some seconds, so that the copy stays held.
fn late_claims() -> String {
    let rules: Vec<String> = (1..=24)
        .map(|nth| format!("nested.claim:{nth}:fail"))
        .collect();
    rules.join(",")
}

#[track_caller]
fn until_there_is_a_held_copy(sandbox: &Sandbox) {
    sandbox.until("a held copy", || {
        let is_up = sandbox.file("home").exists();
        (is_up && within(sandbox, "qselect -s H").lines().count() == 1).then_some(())
    });
}

#[track_caller]
fn ends_after_one_run(sandbox: &Sandbox, id: &str, host: &str) {
    sandbox.until("the run within", || {
        // A schedd that has died is started again by the next command.
        let _ = sandbox.run("schedd", &[]);
        if sandbox.file("home").exists() {
            within(sandbox, "schedd");
        }
        let is_over = || within(sandbox, "qselect -x -s F").lines().count() > 0;
        (sandbox.file("ran").exists() && is_over()).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the nested instance", || {
        let _ = sandbox.run("schedd", &[]);
        (sandbox.state(host) == "F").then_some(())
    });
    assert_eq!(
        sandbox.job(host)["Exit_status"],
        0,
        "{}",
        output(sandbox, host)
    );
    assert_eq!(sandbox.read("ran"), "ran\n");
    let inner = sandbox.read("inner.json");
    assert!(inner.contains("\"Exit_status\":\t3"), "{inner}");
    let job = sandbox.ended(id);
    let host = host.split('.').next().unwrap();
    let to = job["comment"]
        .as_str()
        .unwrap()
        .strip_prefix("Job was moved to ")
        .unwrap()
        .to_string();
    assert!(
        to.contains(&format!(".job{host}.")) && inner.contains(&to),
        "{job}"
    );
    assert!(job["Exit_status"].is_null(), "{job}");
}

#[test]
fn f5_a_nested_instance_takes_jobs_of_its_parents_queue() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let comment = sandbox.until("a comment", || {
        let job = sandbox.job(&id);
        job["comment"]
            .as_str()
            .filter(|said| said.contains("nested"))
            .map(String::from)
    });
    assert_eq!(
        comment,
        "Not Running: Job waits for a nested instance of its owner to take it"
    );
    assert_eq!(sandbox.state(&id), "Q");
    let array = sandbox.submit(&["-q", "inner", "-J", "1-2"], "true\n");
    let first = submit_to_nested_queue(&sandbox);
    let second = sandbox.submit(
        &["-q", "inner", "-W", &format!("depend=afterok:{first}")],
        "true\n",
    );
    let host = nest_with_queue(&sandbox);
    ends_after_one_run(&sandbox, &id, &host);
    let stays = [array, first, second].map(|id| sandbox.state(&id));
    assert_eq!(
        stays,
        ["Q", "Q", "H"],
        "arrays and jobs that others wait for stay"
    );
    let refused = sandbox.run("qdel", &[&id]);
    assert!(
        refused.code != 0 && refused.err.contains("Job was moved to"),
        "{refused:?}"
    );
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterany:{id}")], "true\n");
    assert!(
        refused.code != 0 && refused.err.contains("was moved to"),
        "{refused:?}"
    );
    assert_ne!(sandbox.run("qalter", &["--retry", &id]).code, 0);
    let other = sandbox
        .run(
            "qsub",
            &[
                "-V", "-N", "nest", "--", "schedd", "--nested", "--queue", "workq",
            ],
        )
        .line();
    assert_eq!(sandbox.ended(&other)["Exit_status"], 1);
    assert!(output(&sandbox, &other).contains("queue workq is not for nested instances"));
}

#[test]
fn f5_a_job_runs_once_although_schedds_die_after_commits() {
    for when in [6, 7, 8] {
        let sandbox = outer_with_nested_queue(&format!("spool.committed:{when}:crash"));
        let id = submit_to_nested_queue(&sandbox);
        let host = nest_with_queue(&sandbox);
        ends_after_one_run(&sandbox, &id, &host);
    }
}

/// Jobs of other queues stay with the parent.
#[test]
fn f5_a_nested_instance_takes_no_job_of_another_queue() {
    let sandbox = outer_with_nested_queue("");
    let busy = sandbox.submit(
        &["-l", "select=1:ncpus=2"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&busy);
    let host = nest_with_queue(&sandbox);
    sandbox.running(&host);
    // It waits for processors, and would be offered first.
    let other = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let id = submit_to_nested_queue(&sandbox);
    ends_after_one_run(&sandbox, &id, &host);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
}

/// A job is adopted once, however often the request is repeated.
#[test]
fn f5_a_nested_schedd_that_dies_after_a_commit_makes_one_copy() {
    for when in 3..=5 {
        let mut sandbox = outer_with_nested_queue("");
        let id = submit_to_nested_queue(&sandbox);
        sandbox.set("LANAI_FAULTS", format!("spool.committed:{when}:crash"));
        let host = nest_with_queue(&sandbox);
        sandbox.unset("LANAI_FAULTS");
        ends_after_one_run(&sandbox, &id, &host);
        let inner = sandbox.read("inner.json");
        assert_eq!(
            inner.matches("\"Job_Name\":\t\"moves\"").count(),
            1,
            "{when}: {inner}"
        );
    }
}

#[test]
fn f5_a_killed_nested_schedd_does_not_lose_the_job_it_takes() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let known = sandbox.pids_of("schedd");
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    until_there_is_a_held_copy(&sandbox);
    let inner = sandbox
        .pids_of("schedd")
        .into_iter()
        .filter(|pid| !known.contains(pid))
        .max()
        .unwrap();
    kill(inner, 9);
    assert_eq!(sandbox.state(&id), "Q", "not claimed yet");
    ends_after_one_run(&sandbox, &id, &host);
}

#[test]
fn f5_a_job_deleted_before_the_claim_never_runs() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    until_there_is_a_held_copy(&sandbox);
    sandbox.run("qdel", &[&id]).ok();
    sandbox.until("the end of the copy", || {
        (within(&sandbox, "qselect -x -s F").lines().count() == 1).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert!(!sandbox.file("ran").exists());
    assert_eq!(sandbox.job(&id)["Exit_status"], 271);
}

#[test]
fn f5_a_nested_instance_whose_command_cannot_start_takes_no_job() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let host = sandbox.submit(&["-V"], "schedd --nested --queue inner -- ./typo\n");
    assert_eq!(sandbox.ended(&host)["Exit_status"], 127);
    assert_eq!(sandbox.state(&id), "Q");
}

#[test]
fn f5_a_nested_instance_takes_no_job_after_a_signal_to_end() {
    let sandbox = outer_with_nested_queue("");
    sandbox.script(
        "workflow.sh",
        "trap 'touch signaled' TERM\ntouch up\nwhile :; do sleep 0.1; done\n",
    );
    let host = sandbox.submit(
        &["-V"],
        "exec schedd --nested --queue inner -- ./workflow.sh\n",
    );
    sandbox.until("the command", || sandbox.file("up").exists().then_some(()));
    let keeper = sandbox.running(&host)["session_id"].as_i64().unwrap() as i32;
    kill(keeper, 15);
    sandbox.until("the signal in the command", || {
        sandbox.file("signaled").exists().then_some(())
    });
    let id = submit_to_nested_queue(&sandbox);
    assert_eq!(sandbox.ended(&host)["Exit_status"], 143);
    assert_eq!(sandbox.state(&id), "Q");
}

#[test]
fn f5_a_nested_instance_does_not_start_its_parent_again() {
    let sandbox = outer_with_nested_queue("");
    sandbox.script(
        "workflow.sh",
        "touch up\nwhile [ ! -e go ]; do sleep 0.05; done\n",
    );
    let nested = "schedd --nested --queue inner -- ./workflow.sh 2> said";
    sandbox.submit(
        &["-V"],
        &format!("{nested}\necho $? > status.new; mv status.new status\n"),
    );
    sandbox.until("the command", || sandbox.file("up").exists().then_some(()));
    let inner = sandbox.pids_of("schedd").len() - 1;
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.until("a complaint", || {
        sandbox
            .read("said")
            .contains("no jobs can be taken from queue inner")
            .then_some(())
    });
    assert_eq!(
        sandbox.pids_of("schedd").len(),
        inner,
        "the parent stays stopped"
    );
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the nested instance", || {
        sandbox.file("status").exists().then_some(())
    });
    assert_eq!(sandbox.read("status"), "0\n");
}

/// The requests of one user that reach the schedd of the sandbox in one tick, and the replies.
fn in_one_tick(sandbox: &Sandbox, requests: &[Request]) -> Vec<Reply> {
    let schedd = sandbox.pid_of("schedd").unwrap();
    let mut client = Client::reach(&home_of(sandbox)).unwrap();
    kill(schedd, 19);
    requests
        .iter()
        .for_each(|request| client.begin(request).unwrap());
    kill(schedd, 18);
    requests.iter().map(|_| client.reply().unwrap()).collect()
}

fn home_of(sandbox: &Sandbox) -> Home {
    let state = sandbox.home();
    Home {
        runtime: state.clone(),
        config: state.join("lanai.toml"),
        state,
        system: false,
    }
}

fn offered(sandbox: &Sandbox) -> Option<Offered> {
    let mut offered = None;
    let question = Question::Offer {
        queue: "inner".into(),
        except: BTreeSet::new(),
    };
    let mut client = Client::reach(&home_of(sandbox)).unwrap();
    let mut take = |part| {
        if let Answer::Offer(offer) = part {
            offered = offer.unwrap();
        }
        More::Wanted
    };
    client.ask(&question, &mut take).unwrap();
    offered
}

#[test]
fn f5_a_claim_is_granted_again_in_the_same_tick_and_refused_if_it_is_malformed_or_too_late() {
    let sandbox = outer_with_nested_queue("");
    let id = submit_to_nested_queue(&sandbox);
    let Offered { job, revision, .. } = offered(&sandbox).unwrap();
    let claim = |to: &str, token| {
        Request::Claim(Claim {
            job,
            revision,
            to: to.into(),
            token: [token; 16],
        })
    };
    let long = format!("1.{}", "x".repeat(300));
    let malformed = ["1", "1.he\u{1b}[2Jad", &long].map(|to| claim(to, 1));
    let replies = in_one_tick(&sandbox, &malformed);
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply, Reply::Refused(why) if why.code == 15004)),
        "{replies:?}"
    );
    let good = claim("1.job9.head", 2);
    let repeated = [
        good.clone(),
        good.clone(),
        claim("1.job9.head", 3),
        claim("2.job9.head", 4),
    ];
    let replies = in_one_tick(&sandbox, &repeated);
    assert!(
        matches!(
            &replies[..],
            [Reply::Done, Reply::Done, Reply::Done, Reply::Refused(_)]
        ),
        "{replies:?}"
    );
    assert!(matches!(in_one_tick(&sandbox, &[good])[..], [Reply::Done]));
    assert_eq!(sandbox.job(&id)["comment"], "Job was moved to 1.job9.head");
    assert_eq!(offered(&sandbox), None);
}

#[test]
fn f5_a_job_altered_before_the_claim_is_taken_as_altered() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let id = submit_to_nested_queue(&sandbox);
    let host = nest_with_queue(&sandbox);
    until_there_is_a_held_copy(&sandbox);
    sandbox.run("qalter", &["-N", "altered", &id]).ok();
    sandbox.until("the end of two copies", || {
        (within(&sandbox, "qselect -x -s F").lines().count() == 2).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert_eq!(sandbox.read("ran"), "ran\n");
    let inner = sandbox.read("inner.json");
    assert!(inner.contains("\"Job_Name\":\t\"altered\""), "{inner}");
}

#[test]
fn f5_jobs_with_large_and_with_empty_scripts_move() {
    let sandbox = outer_with_nested_queue("");
    let line = format!("# {}\n", "x".repeat(1000));
    let large = line.repeat(6000) + "echo large >> ran\n";
    for script in [large.as_str(), "", "echo small >> ran\n"] {
        sandbox.submit(&["-q", "inner"], script);
    }
    let host = nest_with_queue(&sandbox);
    sandbox.until("the end of all jobs within", || {
        let is_up = sandbox.file("home").exists();
        (is_up && within(&sandbox, "qselect -x -s F").lines().count() == 3).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(
        sandbox.ended(&host)["Exit_status"],
        0,
        "{}",
        output(&sandbox, &host)
    );
    assert_eq!(sandbox.read("ran"), "large\nsmall\n");
}

/// The outer schedd has read the variable before, so it holds for the nested one alone.
#[test]
fn f5_a_job_runs_once_although_a_nested_schedd_cannot_write_or_the_answer_to_a_claim_is_lost() {
    let faults = (3..=7).map(|commit| format!("spool.commit:{commit}:fail"));
    for fault in faults.chain(["nested.claimed:1:fail".to_string()]) {
        let mut sandbox = outer_with_nested_queue("");
        let id = submit_to_nested_queue(&sandbox);
        sandbox.set("LANAI_FAULTS", fault);
        let host = nest_with_queue(&sandbox);
        ends_after_one_run(&sandbox, &id, &host);
    }
}

/// A program that writes down what it is told, and the option that names it.
fn notified(sandbox: &Sandbox) -> String {
    let told = sandbox.file("told").display().to_string();
    sandbox.script("notify.sh", &format!("(cat; echo) >> {told}"));
    format!("notify={}", sandbox.file("notify.sh").display())
}

/// How many notifications tell of this.
fn told(sandbox: &Sandbox, event: &str) -> usize {
    let told = fs::read_to_string(sandbox.file("told")).unwrap_or_default();
    told.matches(&format!("\"event\":\"{event}\"")).count()
}

#[test]
fn f5_no_notification_tells_of_a_move() {
    let sandbox = outer_with_nested_queue("");
    let notify = notified(&sandbox);
    let id = sandbox.submit(&["-q", "inner", "-W", &notify], "echo ran >> ran\nexit 3\n");
    let host = nest_with_queue(&sandbox);
    ends_after_one_run(&sandbox, &id, &host);
    let last = sandbox.submit(&["-W", &notify], "true\n");
    sandbox.ended(&last);
    sandbox.until("the end of the last job", || {
        sandbox.read("told").contains(&last).then_some(())
    });
    assert_eq!(told(&sandbox, "abort"), 0, "{}", sandbox.read("told"));
}

#[test]
fn f5_no_notification_tells_of_a_copy_that_is_given_back() {
    let sandbox = outer_with_nested_queue(&late_claims());
    let notify = notified(&sandbox);
    let id = sandbox.submit(&["-q", "inner", "-W", &notify], "true\n");
    let host = nest_with_queue(&sandbox);
    until_there_is_a_held_copy(&sandbox);
    sandbox.run("qdel", &[&id]).ok();
    sandbox.until("the end of the copy", || {
        (within(&sandbox, "qselect -x -s F").lines().count() == 1).then_some(())
    });
    let last = within(&sandbox, &format!("qsub -W {notify} -- true"))
        .trim()
        .to_string();
    sandbox.until("the last job", || {
        sandbox.read("told").contains(&last).then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&host);
    assert_eq!(
        told(&sandbox, "abort"),
        1,
        "only the job was deleted: {}",
        sandbox.read("told")
    );
}
