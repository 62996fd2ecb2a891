//! Unmodified job scripts from the documentation of sites (`tests/clients/site_scripts/`).

use crate::support::sandbox::{Sandbox, number};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies a script to the work directory.
fn copy_script(sandbox: &Sandbox, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients/site_scripts")
        .join(name);
    fs::copy(&source, sandbox.file(name))
        .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
}

/// Submits with these arguments of `qsub`; returns the id.
#[track_caller]
fn submitted(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox.run("qsub", arguments).line()
}

#[track_caller]
fn succeeded(sandbox: &Sandbox, id: &str) -> Value {
    let job = sandbox.ended(id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    job
}

/// A node with this number of processors and the name of this host.
fn node(ncpus: u32) -> Sandbox {
    let host = lanai::sys::sensors::short_host_name();
    Sandbox::configured(&format!(
        "[server]\nname = \"head\"\n[[node]]\nname = \"{host}\"\nncpus = {ncpus}\n"
    ))
}

/// Program that runs a remote command in a local shell, because the nodes do not exist.
fn pretend_login(sandbox: &Sandbox) -> PathBuf {
    let body = "while [ \"${1#-}\" != \"$1\" ]; do shift; done\nshift\nexec /bin/sh -c \"$*\"";
    sandbox.script("pretend_login", body)
}

fn is_open_mpi() -> bool {
    let version = Command::new("mpirun").arg("--version").output();
    version.is_ok_and(|done| String::from_utf8_lossy(&done.stdout).contains("Open MPI"))
}

#[test]
fn an_mpi_job_runs_two_processes_on_each_of_four_nodes() {
    let mut sandbox = Sandbox::new();
    let login = pretend_login(&sandbox);
    sandbox.set("OMPI_MCA_plm_rsh_agent", login.display());
    sandbox.set("OMPI_ALLOW_RUN_AS_ROOT", 1);
    sandbox.set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", 1);
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "4", "--ncpus", "2", "--mem", "1gb", "--name", "h",
            ],
        )
        .ok();
    if !is_open_mpi() {
        // Replaces mpirun: one process per line of the node file.
        let bin = sandbox.file("bin");
        fs::create_dir(&bin).unwrap();
        sandbox.script(
            "bin/mpirun",
            "n=0; while read host; do OMPI_COMM_WORLD_RANK=$n $5; n=$((n+1)); done < $4",
        );
        sandbox.set(
            "PATH",
            format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()),
        );
    }
    sandbox.script("hello", "echo \"hello from rank $OMPI_COMM_WORLD_RANK\"");
    copy_script(&sandbox, "mpi.sh");
    let id = submitted(&sandbox, &["mpi.sh"]);
    let job = succeeded(&sandbox, &id);
    assert_eq!(job["Resource_List"]["nodes"], "4:ppn=2");
    assert_eq!(
        job["exec_host"].as_str().unwrap().split('+').count(),
        4,
        "{job}"
    );
    let output = sandbox.read(&format!("mpi_hello.o{}", number(&id)));
    // Ignore mpirun's messages about several nodes on one host.
    let (ranks, head): (Vec<&str>, Vec<&str>) = output
        .lines()
        .filter(|line| !line.starts_with('['))
        .partition(|line| line.starts_with("hello"));
    let first = format!("Job {id} runs 8 processes on 4 nodes:");
    assert_eq!(
        head,
        [
            first.as_str(),
            "      2 h1",
            "      2 h2",
            "      2 h3",
            "      2 h4"
        ],
        "{output}"
    );
    let expected: BTreeSet<String> = (0..8)
        .map(|rank| format!("hello from rank {rank}"))
        .collect();
    assert_eq!(
        ranks.into_iter().map(String::from).collect::<BTreeSet<_>>(),
        expected,
        "{output}"
    );
}

#[test]
fn an_array_with_limit_2_runs_two_subjobs_at_once() {
    let sandbox = node(4);
    fs::write(sandbox.file("inputs.txt"), "ant\nbee\ncat\ndog\neel\nfox\n").unwrap();
    copy_script(&sandbox, "array.sh");
    let id = submitted(&sandbox, &["array.sh"]);
    let mut maximum = 0;
    let job = sandbox.until("the end of the array", || {
        let job = sandbox.job(&id);
        let counts = job["array_state_count"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        let running = counts
            .split_whitespace()
            .find_map(|word| word.strip_prefix("Running:")?.parse::<u32>().ok());
        maximum = maximum.max(running.unwrap_or(0));
        (job["job_state"] == "F").then_some(job)
    });
    assert_eq!(
        (&job["Exit_status"], &job["max_run_subjobs"]),
        (&0.into(), &2.into()),
        "{job}"
    );
    assert_eq!(maximum, 2, "two subjobs run at once, never more");
    for (index, (input, result)) in [
        ("ant", "ANT"),
        ("bee", "BEE"),
        ("cat", "CAT"),
        ("dog", "DOG"),
    ]
    .iter()
    .enumerate()
    {
        let index = index + 1;
        assert_eq!(
            sandbox.read(&format!("result.{index}")),
            format!("{result}\n")
        );
        let output = sandbox.read(&format!("sweep.o{}.{index}", number(&id)));
        assert_eq!(output, format!("subjob {index} of {id} works on {input}\n"));
    }
    assert!(
        !sandbox.file(&format!("sweep.e{}.1", number(&id))).exists(),
        "standard error is joined"
    );
}

#[test]
fn a_gpu_job_sees_only_its_own_gpu() {
    let sandbox = Sandbox::new();
    let tool = sandbox.script(
        "smi",
        "case $1 in --query-gpu*) echo '0, GPU-aa'; echo '1, GPU-bb';; esac",
    );
    let config = format!(
        "[server]\nname = \"head\"\n[launch]\nlogin = false\ngpu_tool = \"{}\"\n",
        tool.display()
    );
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    sandbox
        .run(
            "noded",
            &[
                "--ncpus", "8", "--ngpus", "2", "--mem", "4gb", "--name", "n1",
            ],
        )
        .ok();
    copy_script(&sandbox, "gpu.sh");
    let id = submitted(&sandbox, &["gpu.sh"]);
    let job = succeeded(&sandbox, &id);
    assert_eq!(job["exec_vnode"], "(n1:ncpus=4:ngpus=1:mem=1048576kb)");
    let output = sandbox.read("train.out");
    assert!(
        output.ends_with("GPUs: 0\nCPUs: 4\ntraining on 1 GPU\n"),
        "{output}"
    );
    assert_eq!(sandbox.read("train.err"), "");
}

#[test]
fn each_job_of_a_chain_continues_the_previous_one() {
    let sandbox = node(4);
    ["chain.sh", "part.sh", "report.sh"]
        .into_iter()
        .for_each(|name| copy_script(&sandbox, name));
    let out = sandbox.shell("bash chain.sh").ok();
    let ids: Vec<&str> = out.lines().collect();
    assert_eq!(ids.len(), 4, "{out}");
    let report = succeeded(&sandbox, ids[3]);
    assert!(
        report["depend"].is_null(),
        "its dependencies are met: {report}"
    );
    let output = sandbox.read(&format!("report.o{}", number(ids[3])));
    let parts: String = (0..3)
        .map(|part| format!("part{} goes on from step {}\n", part + 1, part * 10))
        .collect();
    assert_eq!(output, format!("3 parts, the last step is 30\n{parts}"));
    assert!(
        sandbox.file(&format!("part1.o{}", number(ids[0]))).exists(),
        "the output is in the submission directory"
    );
}

#[test]
fn a_torque_script_runs_unmodified() {
    let sandbox = node(4);
    copy_script(&sandbox, "torque.sh");
    let done = sandbox.run("qsub", &["-F", "alpha 'beta gamma'", "torque.sh"]);
    assert_eq!(
        done.err,
        "qsub: warning: -W x=NACCESSPOLICY:SINGLEJOB is for Moab and has no effect\n"
    );
    let id = done.line();
    let job = succeeded(&sandbox, &id);
    assert_eq!(job["array_indices_submitted"], "1-3,7");
    assert_eq!(job["Resource_List"]["select"], "1:ncpus=2:mpiprocs=2");
    for index in [1, 2, 3, 7] {
        let output = sandbox.read(&format!("torque_demo.o{}.{index}", number(&id)));
        let expected = format!(
            "Server: head, queue: workq\nTask {index} has 2 cores on 1 node, 2 processes\nSeconds: 600\n\
             Arguments: 2 (alpha, beta gamma)\n"
        );
        assert_eq!(output, expected);
    }
    let others: Vec<u32> = (0..9)
        .filter(|index| {
            sandbox
                .file(&format!("torque_demo.o{}.{index}", number(&id)))
                .exists()
        })
        .collect();
    assert_eq!(others, [1, 2, 3, 7]);
}

#[test]
fn a_grid_engine_script_runs_unmodified() {
    let sandbox = node(4);
    fs::create_dir(sandbox.file("logs")).unwrap();
    copy_script(&sandbox, "sge.sh");
    fs::set_permissions(sandbox.file("sge.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let id = submitted(&sandbox, &["-terse", "sge.sh", "one", "-N", "two"]);
    let job = succeeded(&sandbox, &id);
    assert_eq!(
        (&job["Job_Name"], &job["max_run_subjobs"]),
        (&"sge_demo".into(), &2.into()),
        "{job}"
    );
    assert_eq!(job["Resource_List"]["select"], "1:ncpus=2:mem=524288kb");
    assert_eq!(
        (&job["Resource_List"]["walltime"], &job["warn"]),
        (&"00:10:00".into(), &"USR2@60".into())
    );
    let work = sandbox.work().canonicalize().unwrap();
    for index in [1, 3, 5] {
        let output = sandbox.read(&format!("logs/sge_demo.o{}.{index}", number(&id)));
        let work = work.display();
        let expected = format!(
            "Job {} (sge_demo) in queue workq\nTask {index} of 1-5:2\n2 slots on 1 host in smp\nslots: 2\n\
             submitted in {work}, runs in {work}\ngiven: one -N two\n",
            number(&id)
        );
        assert_eq!(output, expected);
    }
}
