//! Effects of the commands on real jobs and nodes, from the user's point of view.

mod exit_status;
mod messages;

use crate::support::sandbox::{Done, Sandbox, number};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A server named `head`.
fn head() -> Sandbox {
    Sandbox::configured("[server]\nname = \"head\"\n")
}

/// Four nodes with 8 processors; `n1` and `n2` have resource `licences`, `n2` has `fast`.
fn cluster() -> Sandbox {
    let sandbox = Sandbox::configured(
        r#"
        [server]
        name = "head"
        refuse_impossible = false
        [[queue]]
        name = "workq"
        [[queue]]
        name = "closed"
        enabled = false
        [[resource]]
        name = "licences"
        type = "long"
        consumable = true
        [[resource]]
        name = "fast"
        type = "boolean"
        [[node]]
        name = "n1"
        licences = 2
        [[node]]
        name = "n2"
        licences = 1
        fast = true
        "#,
    );
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "4", "--ncpus", "8", "--mem", "8gb", "--name", "n",
            ],
        )
        .ok();
    sandbox
}

/// Node of each chunk of a job.
fn nodes_of(job: &Value) -> Vec<String> {
    let places = job["exec_vnode"].as_str().unwrap_or_default().split('+');
    places
        .map(|place| {
            place
                .trim_matches(['(', ')'])
                .split(':')
                .next()
                .unwrap()
                .to_string()
        })
        .collect()
}

#[track_caller]
fn assert_prints(done: &Done, code: i32, out: &str, first_error: &str) {
    let first = done.err.lines().next().unwrap_or_default();
    assert_eq!(
        (done.code, done.out.as_str(), first),
        (code, out, first_error),
        "{done:?}"
    );
}

#[test]
fn qsub_prints_only_the_job_id() {
    let sandbox = head();
    let version = sandbox.run("qsub", &["--version"]).line();
    assert!(version.starts_with("pbs_version = "), "{version}");
    assert_prints(&sandbox.shell("echo sleep 60 | qsub -h"), 0, "1.head\n", "");
    assert_eq!(sandbox.job("1.head")["Job_Name"], "STDIN");
    sandbox.script("job.sh", "true");
    assert_prints(&sandbox.run("qsub", &["-z", "-h", "job.sh"]), 0, "", "");
    assert_eq!(sandbox.job("2.head")["Job_Name"], "job.sh");
}

#[test]
fn directives_end_at_the_first_command_and_options_override_them() {
    let sandbox = head();
    fs::write(sandbox.file("f2"), "#PBS -N inner\necho x\n#PBS -N late\n").unwrap();
    fs::write(sandbox.file("f"), "#XX -N xx\necho x\n").unwrap();
    for (line, name) in [
        ("qsub -h -l walltime=60 f2", "inner"),
        ("qsub -h -N cli f2", "cli"),
        ("PBS_DPREFIX='#XX' qsub -h f", "xx"),
        ("qsub -h -C '#XX' f", "xx"),
        ("qsub -h -C '' f", "f"),
    ] {
        let id = sandbox.shell(line).line();
        assert_eq!(sandbox.job(&id)["Job_Name"], name, "{line}");
    }
    assert_eq!(
        sandbox.job("1.head")["Resource_List"]["walltime"],
        "00:01:00"
    );
}

#[test]
fn output_is_written_to_the_requested_path() {
    let sandbox = head();
    fs::create_dir(sandbox.file("logs")).unwrap();
    let script = "echo out; echo err >&2\n";
    let submit = |arguments: &[&str]| number(&sandbox.submit(arguments, script)).to_string();
    let usual = submit(&["-N", "usual"]);
    submit(&["-o", "given.out", "-e", "given.err"]);
    let folder = submit(&["-N", "in", "-o", "logs/", "-e", "logs/"]);
    let joined = submit(&["-N", "joined", "-j", "oe"]);
    let other = submit(&["-N", "other", "-j", "eo"]);
    let masked = submit(&["-N", "masked", "-W", "umask=022"]);
    for id in sandbox.run("qselect", &["-x"]).ok().lines() {
        assert_eq!(sandbox.ended(id)["Exit_status"], 0);
    }
    assert_eq!(sandbox.read(&format!("usual.o{usual}")), "out\n");
    assert_eq!(sandbox.read(&format!("usual.e{usual}")), "err\n");
    assert_eq!(
        (sandbox.read("given.out"), sandbox.read("given.err")),
        ("out\n".into(), "err\n".into())
    );
    let inside: Vec<String> = fs::read_dir(sandbox.file("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(inside.len(), 2, "{inside:?}");
    assert!(
        inside
            .iter()
            .all(|name| name.starts_with(&folder) || name.ends_with(&folder)),
        "{inside:?}"
    );
    assert_eq!(sandbox.read(&format!("joined.o{joined}")), "out\nerr\n");
    assert!(!sandbox.file(&format!("joined.e{joined}")).exists());
    assert_eq!(sandbox.read(&format!("other.e{other}")), "out\nerr\n");
    let mode = |name: String| {
        fs::metadata(sandbox.file(&name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(format!("usual.o{usual}")), 0o600);
    assert_eq!(mode(format!("masked.o{masked}")), 0o644);
}

#[test]
fn a_job_has_the_documented_environment() {
    let sandbox = head().with("FRUIT", "plum");
    let print = "env\npwd\numask\ncat $PBS_NODEFILE\n[ -d $TMPDIR ] && echo private\n";
    let bare = sandbox.submit(&["-N", "bare", "-v", "A=1,B='x,y',FRUIT"], print);
    sandbox.ended(&bare);
    let out = sandbox.read("bare.o1");
    let (work, node) = (
        sandbox.work().display().to_string(),
        sandbox.job(&bare)["exec_host"].to_string(),
    );
    for line in [
        "A=1",
        "B=x,y",
        "FRUIT=plum",
        "PBS_JOBID=1.head",
        "PBS_JOBNAME=bare",
        "PBS_QUEUE=workq",
        "PBS_O_QUEUE=workq",
        "PBS_ENVIRONMENT=PBS_BATCH",
        "NCPUS=1",
        "OMP_NUM_THREADS=1",
        "0077",
        "private",
        &format!("PBS_O_WORKDIR={work}"),
        &work,
    ] {
        assert!(out.lines().any(|found| found == line), "{line}:\n{out}");
    }
    assert!(
        node.contains(out.lines().rev().nth(1).unwrap()),
        "the node file: {out}"
    );
    let whole = sandbox.submit(
        &["-N", "whole", "-V", "-v", "FRUIT=pear"],
        "echo $FRUIT $LANAI_HOME\n",
    );
    sandbox.ended(&whole);
    assert_eq!(
        sandbox.read("whole.o2"),
        format!("pear {}\n", sandbox.home().display()),
        "-v overrides -V"
    );
    let command = sandbox
        .run(
            "qsub",
            &["-N", "command", "--", "/bin/echo", "a b", "*", "$HOME"],
        )
        .line();
    sandbox.ended(&command);
    assert_eq!(
        sandbox.read("command.o3"),
        "a b * $HOME\n",
        "no shell interprets a command"
    );
    assert_eq!(sandbox.job(&command)["Job_Name"], "command");
    let shell = sandbox.submit(
        &["-N", "shell", "-S", "/bin/sh"],
        "echo $0; ps -o comm= -p $$\n",
    );
    sandbox.ended(&shell);
    assert!(
        sandbox
            .read("shell.o4")
            .lines()
            .last()
            .unwrap()
            .contains("sh"),
        "{}",
        sandbox.read("shell.o4")
    );
}

#[test]
fn non_utf_8_values_reach_the_job_unchanged_and_json_stays_valid() {
    let sandbox = head();
    let folder = sandbox
        .file("x")
        .with_file_name(std::ffi::OsStr::from_bytes(b"w\xff\"\\\x01 y"));
    fs::create_dir(&folder).unwrap();
    let script = folder.join(std::ffi::OsStr::from_bytes(b"s\xfe.sh"));
    fs::write(&script, "printf %s \"$ODD\" > odd\npwd > here\n").unwrap();
    let mut command = sandbox.command("qsub");
    command
        .current_dir(&folder)
        .env("ODD", std::ffi::OsStr::from_bytes(b"a\xff\x02\"\nb\\"));
    command
        .args(["-V", "-N", "odd", "-A", "f\u{fc}r \"uns\""])
        .arg(&script)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let id = String::from_utf8(output.stdout).unwrap().trim().to_string();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    assert_eq!(fs::read(folder.join("odd")).unwrap(), b"a\xff\x02\"\nb\\");
    assert_eq!(job["Account_Name"], "f\u{fc}r \"uns\"");
    assert!(job["Variable_List"]["ODD"].is_string(), "{job}");
    let here = fs::read(folder.join("here")).unwrap();
    assert_eq!(here, [folder.as_os_str().as_bytes(), b"\n"].concat());
    let number = sandbox.submit(&["-h", "-v", "N=007,T=true,L=[1]", "-N", "1e5"], "true\n");
    let job = sandbox.job(&number);
    assert_eq!(job["Job_Name"], "1e5");
    assert_eq!(
        (&job["Variable_List"]["N"], &job["Variable_List"]["T"]),
        (&json!("007"), &json!("true"))
    );
}

#[test]
fn attributes_are_stored_as_requested() {
    let sandbox = head();
    let line = "qsub -h -N all -A acct -P proj -p 17 -r n -l walltime=1:00:00 -l ncpus=2 -l mem=1gb job.sh";
    sandbox.script("job.sh", "true");
    let job = sandbox.job(&sandbox.shell(line).line());
    for (name, value) in [
        ("Job_Name", json!("all")),
        ("Account_Name", json!("acct")),
        ("project", json!("proj")),
        ("Priority", json!(17)),
        ("Rerunable", json!("False")),
        ("Hold_Types", json!("u")),
        ("queue", json!("workq")),
        ("job_state", json!("H")),
    ] {
        assert_eq!(job[name], value, "{name}: {job}");
    }
    assert_eq!(job["Resource_List"]["walltime"], "01:00:00");
    assert_eq!(
        (&job["Resource_List"]["ncpus"], &job["Resource_List"]["mem"]),
        (&json!(2), &json!("1gb"))
    );
    sandbox
        .run(
            "qalter",
            &[
                "-N",
                "new",
                "-p",
                "-5",
                "-l",
                "walltime=30",
                "-A",
                "other",
                "1",
            ],
        )
        .ok();
    let job = sandbox.job("1.head");
    assert_eq!(
        (&job["Job_Name"], &job["Priority"]),
        (&json!("new"), &json!(-5))
    );
    assert_eq!(
        (&job["Account_Name"], &job["Resource_List"]["walltime"]),
        (&json!("other"), &json!("00:00:30"))
    );
    let refused = sandbox.run("qalter", &["-N", "half", "-l", "foo=1", "1"]);
    assert_eq!(refused.code, 187, "{refused:?}");
    assert_eq!(
        sandbox.job("1.head")["Job_Name"],
        "new",
        "a refused qalter changes nothing"
    );
}

#[test]
fn holds_and_begin_times_delay_a_job() {
    let sandbox = head();
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    let held = sandbox.submit(&["-h"], "exit 1\n");
    assert_eq!(
        (
            sandbox.state(&held),
            sandbox.job(&held)["Hold_Types"].clone()
        ),
        ("H".into(), json!("u"))
    );
    sandbox.run("qhold", &["-h", "os", &held]).ok();
    assert_eq!(sandbox.job(&held)["Hold_Types"], "sou");
    sandbox.run("qrls", &["-h", "u", &held]).ok();
    assert_eq!(sandbox.state(&held), "H");
    assert!(
        sandbox.job(&held)["comment"]
            .as_str()
            .unwrap()
            .starts_with("Job held by ")
    );
    sandbox.run("qrls", &["-h", "os", &held]).ok();
    assert_eq!(sandbox.ended(&held)["Exit_status"], 1);
    let soon = sandbox
        .shell("echo 'exit 2' | qsub -a $(date -u -d '+2 seconds' +%m%d%H%M.%S)")
        .line();
    let job = sandbox.job(&soon);
    assert_eq!(
        (&job["job_state"], &job["substate"]),
        (&json!("W"), &json!(30)),
        "{job}"
    );
    assert_eq!(sandbox.ended(&soon)["Exit_status"], 2);
    let later = sandbox
        .shell("echo true | qsub -a $(date -u -d '+1 day' +%m%d%H%M)")
        .line();
    assert_eq!(sandbox.state(&later), "W");
    sandbox
        .shell(&format!(
            "qalter -a $(date -u -d '-1 hour' +%Y%m%d%H%M) {later}"
        ))
        .ok();
    assert_eq!(sandbox.ended(&later)["Exit_status"], 0);
}

#[test]
fn a_running_job_can_be_held_rerun_and_extended() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n");
    let id = sandbox.submit(
        &["-l", "walltime=100"],
        "echo x >> starts; while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&id);
    sandbox.until("the first start", || {
        fs::read_to_string(sandbox.file("starts")).ok()
    });
    sandbox.run("qalter", &["-l", "walltime=200", &id]).ok();
    assert_eq!(sandbox.job(&id)["Resource_List"]["walltime"], "00:03:20");
    sandbox.run("qhold", &[&id]).ok();
    assert_eq!(sandbox.state(&id), "R");
    sandbox.run("qrerun", &[&id]).ok();
    sandbox.until("the job to be held", || {
        (sandbox.state(&id) == "H").then_some(())
    });
    sandbox.run("qrls", &[&id]).ok();
    sandbox.running(&id);
    sandbox.until("the second start", || {
        (sandbox.read("starts") == "x\nx\n").then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(2))
    );
    let once = sandbox.submit(&["-r", "n"], "sleep 60\n");
    sandbox.running(&once);
    assert_prints(
        &sandbox.run("qrerun", &[&once]),
        190,
        "",
        &format!("qrerun: job is not rerunnable {once}"),
    );
    let longer = sandbox.submit(&["-l", "walltime=100"], "sleep 60\n");
    sandbox.running(&longer);
    sandbox.run("qalter", &["-l", "walltime=1", &longer]).ok();
    assert_eq!(
        sandbox.ended(&longer)["Exit_status"],
        -29,
        "a shorter walltime applies at once"
    );
}

#[test]
fn chunks_are_placed_as_requested() {
    let sandbox = cluster();
    let submit = |select: &str, place: &str| {
        let (select, place) = (format!("select={select}"), format!("place={place}"));
        sandbox.submit(
            &["-l", &select, "-l", &place],
            "cat $PBS_NODEFILE; sleep 60\n",
        )
    };
    let scattered = submit("3:ncpus=2:mpiprocs=2", "scatter");
    let job = sandbox.running(&scattered);
    let mut nodes = nodes_of(&job);
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "{job}");
    assert_eq!(job["Resource_List"]["ncpus"], 6);
    let packed = submit("2:ncpus=2", "pack");
    let mut nodes = nodes_of(&sandbox.running(&packed));
    nodes.dedup();
    assert_eq!(nodes.len(), 1);
    let alone = submit("1:ncpus=1", "excl");
    let node = nodes_of(&sandbox.running(&alone)).remove(0);
    let beside = submit("4:ncpus=1", "scatter");
    sandbox.until("the comment", || {
        sandbox.job(&beside)["comment"]
            .as_str()?
            .strip_prefix("Not Running: ")
            .map(drop)
    });
    assert_eq!(
        sandbox.state(&beside),
        "Q",
        "the exclusive job does not share its node"
    );
    let nodes: Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-a", "-F", "json"]).ok()).unwrap();
    assert_eq!(nodes["nodes"][&node]["state"], "job-exclusive", "{nodes}");
    assert_eq!(nodes["nodes"].as_object().unwrap().len(), 4);
    sandbox.run("qdel", &[&alone]).ok();
    let mut nodes = nodes_of(&sandbox.running(&beside));
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3", "n4"]);
    sandbox.run("qdel", &[&scattered, &packed, &beside]).ok();
    sandbox.ended(&scattered);
    assert_eq!(
        sandbox
            .read(&format!("STDIN.o{}", number(&scattered)))
            .lines()
            .count(),
        6,
        "two lines for each chunk"
    );
    let never = submit("5:ncpus=1", "scatter");
    sandbox.until("the comment", || {
        sandbox.job(&never)["comment"]
            .as_str()?
            .starts_with("Can Never Run")
            .then_some(())
    });
}

#[test]
fn site_defined_resources_are_counted_and_matched() {
    let sandbox = cluster();
    let submit = |select: &str| sandbox.submit(&["-l", &format!("select={select}")], "sleep 60\n");
    let first = submit("1:licences=2");
    assert_eq!(nodes_of(&sandbox.running(&first)), ["n1"]);
    let second = submit("1:licences=1");
    assert_eq!(nodes_of(&sandbox.running(&second)), ["n2"]);
    let third = submit("1:licences=1");
    sandbox.until("the comment", || {
        let job = sandbox.job(&third);
        job["comment"].as_str()?.contains("licences").then_some(())
    });
    let fast = submit("1:fast=true");
    assert_eq!(nodes_of(&sandbox.running(&fast)), ["n2"]);
    sandbox.run("qdel", &[&first]).ok();
    assert_eq!(nodes_of(&sandbox.running(&third)), ["n1"]);
    assert_prints(
        &sandbox.shell("echo true | qsub -q closed"),
        173,
        "",
        "qsub: Queue is not enabled",
    );
}

#[test]
fn qselect_selects_jobs_by_their_attributes() {
    let sandbox = head();
    let a = sandbox.submit(&["-h", "-N", "a", "-p", "5", "-l", "ncpus=2"], "true\n");
    let b = sandbox.submit(&["-h", "-N", "b", "-A", "acct"], "true\n");
    let c = sandbox.submit(&["-N", "c"], "exit 1\n");
    sandbox.ended(&c);
    let select = |options: &[&str]| sandbox.run("qselect", options).ok();
    assert_eq!(select(&[]), format!("{a}\n{b}\n"));
    assert_eq!(select(&["-x"]), format!("{a}\n{b}\n{c}\n"));
    assert_eq!(select(&["-N", "a"]), format!("{a}\n"));
    assert_eq!(select(&["-p", ".gt.1"]), format!("{a}\n"));
    assert_eq!(select(&["-A", "acct"]), format!("{b}\n"));
    assert_eq!(select(&["-l", "ncpus.ge.2"]), format!("{a}\n"));
    assert_eq!(select(&["-h", "u", "-s", "H"]), format!("{a}\n{b}\n"));
    assert_eq!(select(&["-x", "-s", "F"]), format!("{c}\n"));
    let deleted = sandbox.shell("qdel $(qselect -N a)");
    assert_eq!(deleted.code, 0);
    assert_eq!(sandbox.job(&a)["Exit_status"], 271);
}

#[test]
fn a_blocking_qsub_returns_the_status_and_deletes_its_job_on_a_signal() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n");
    assert_prints(
        &sandbox.run_with_input("qsub", &["-W", "block=true"], "exit 7\n"),
        7,
        "1.head\n",
        "",
    );
    let wait = |id: &str| {
        sandbox.script("long.sh", "sleep 60");
        let mut command = sandbox.command("qsub");
        command
            .args(["-W", "block=true", "long.sh"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        sandbox.running(id);
        child
    };
    let child = wait("2.head");
    sandbox.run("qdel", &["2"]).ok();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let child = wait("3.head");
    crate::support::sandbox::kill(child.id() as i32, 2);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(sandbox.ended("3.head")["Exit_status"], 271);
    let mut child = wait("4.head");
    let started = Instant::now();
    sandbox.kill("schedd");
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        child.try_wait().unwrap().is_none(),
        "qsub waits for schedd to be restarted"
    );
    sandbox.run("qdel", &["4"]).ok();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn nodes_are_listed_and_can_be_taken_offline() {
    let sandbox = cluster();
    let id = sandbox.submit(&["-l", "select=1:ncpus=3"], "sleep 60\n");
    let node = nodes_of(&sandbox.running(&id)).remove(0);
    let listed: Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-a", "-F", "json"]).ok()).unwrap();
    let shown = &listed["nodes"][&node];
    assert_eq!(shown["resources_available"]["ncpus"], 8, "{shown}");
    assert_eq!(shown["resources_assigned"]["ncpus"], 3, "{shown}");
    assert_eq!(shown["resources_available"]["mem"], "8gb", "{shown}");
    let plain = sandbox.run("pbsnodes", &["-a"]).ok();
    assert!(
        ["n1", "n2", "n3", "n4"]
            .iter()
            .all(|name| plain.lines().any(|line| line == *name)),
        "{plain}"
    );
    sandbox.run("pbsnodes", &["-o", "n1", "n2", "n3"]).ok();
    let whole = sandbox.submit(&["-l", "select=1:ncpus=8"], "sleep 60\n");
    let free = if node == "n4" { None } else { Some("n4") };
    if let Some(free) = free {
        assert_eq!(nodes_of(&sandbox.running(&whole)), [free]);
    }
    assert!(sandbox.run("pbsnodes", &["-l"]).ok().contains("n2"));
    sandbox.run("pbsnodes", &["-r", "n1", "n2", "n3"]).ok();
    assert_eq!(sandbox.run("pbsnodes", &["-l"]).ok(), "");
    sandbox.running(&whole);
}
