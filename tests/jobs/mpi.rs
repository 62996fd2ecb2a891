//! MPI in jobs (M9): the node file, process and thread counts, and a real `mpirun`.

use crate::support::sandbox::Sandbox;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Command;

/// Version text of a program; None if it is not installed.
fn version(program: &str) -> Option<String> {
    let done = Command::new(program)
        .arg("--version")
        .output()
        .ok()
        .filter(|done| done.status.success())?;
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// This host as a node with four processors, whatever its real number.
fn four_processors() -> Sandbox {
    let host = lanai::sys::sensors::short_host_name();
    Sandbox::configured(&format!("[[node]]\nname = \"{host}\"\nncpus = 4\n"))
}

/// Runs a script on two chunks of two processes each. Returns the sorted output lines.
#[track_caller]
fn run_on_two_chunks(sandbox: &Sandbox, script: &str) -> Vec<String> {
    let allow_root = "PATH,OMPI_ALLOW_RUN_AS_ROOT=1,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    let select = "select=2:ncpus=2:mpiprocs=2:ompthreads=1";
    let id = sandbox.submit(
        &[
            "-N", "mpi", "-j", "oe", "-o", "out", "-l", select, "-v", allow_root,
        ],
        script,
    );
    let job = sandbox.ended(&id);
    let mut lines: Vec<String> = sandbox.read("out").lines().map(String::from).collect();
    assert_eq!(job["Exit_status"], 0, "{lines:?} {job}");
    lines.sort();
    lines
}

/// Rank, number of ranks and thread count of each of four ranks.
const FOUR_RANKS: [&str; 4] = [
    "rank 0 of 4, 1",
    "rank 1 of 4, 1",
    "rank 2 of 4, 1",
    "rank 3 of 4, 1",
];

#[test]
fn open_mpi_starts_a_process_for_each_line_of_the_node_file() {
    if !version("mpirun").is_some_and(|text| text.contains("Open MPI")) {
        return println!("skipped: needs Open MPI's mpirun (package openmpi-bin)");
    }
    let rank = "echo \"rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, $OMP_NUM_THREADS\"";
    let script = format!("mpirun --hostfile $PBS_NODEFILE sh -c '{rank}'\n");
    assert_eq!(run_on_two_chunks(&four_processors(), &script), FOUR_RANKS);
}

#[test]
fn mpich_starts_a_process_for_each_line_of_the_node_file() {
    if !version("mpiexec.hydra").is_some_and(|text| text.contains("HYDRA")) {
        return println!("skipped: needs MPICH's mpiexec.hydra (package mpich)");
    }
    let rank = "echo \"rank $PMI_RANK of $PMI_SIZE, $OMP_NUM_THREADS\"";
    let script = format!("mpiexec.hydra -f $PBS_NODEFILE sh -c '{rank}'\n");
    assert_eq!(run_on_two_chunks(&four_processors(), &script), FOUR_RANKS);
}

#[test]
fn deleting_a_job_ends_all_processes_of_mpirun() {
    if !version("mpirun").is_some_and(|text| text.contains("Open MPI")) {
        return println!("skipped: needs Open MPI's mpirun (package openmpi-bin)");
    }
    let sandbox = four_processors();
    let allow_root = "PATH,OMPI_ALLOW_RUN_AS_ROOT=1,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    let script =
        "mpirun --hostfile $PBS_NODEFILE sh -c 'echo $$ > rank.$OMPI_COMM_WORLD_RANK; sleep 600'\n";
    let id = sandbox.submit(
        &["-l", "select=2:ncpus=2:mpiprocs=2", "-v", allow_root],
        script,
    );
    let ranks: Vec<i32> = (0..4)
        .map(|rank| {
            let file = sandbox.file(&format!("rank.{rank}"));
            sandbox.until("the pid of a rank", || {
                std::fs::read_to_string(&file).ok()?.trim().parse().ok()
            })
        })
        .collect();
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    sandbox.until("the end of all ranks", || {
        ranks
            .iter()
            .all(|&pid| lanai::sys::procfs::process(pid).is_none_or(|p| !p.lives()))
            .then_some(())
    });
}

#[test]
fn the_node_file_and_pbsdsh_follow_the_chunks_over_several_nodes() {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "2", "--ncpus", "4", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    let script = "cat $PBS_NODEFILE\necho $NCPUS $OMP_NUM_THREADS $PBS_NP $PBS_NUM_NODES $PBS_NUM_PPN\n\
                  pbsdsh -- sh -c 'echo $PBS_VNODENUM on $PBS_NODENUM, $OMP_NUM_THREADS >> tasks'\n";
    let select = "select=2:ncpus=3:mpiprocs=2:ompthreads=3+1:ncpus=1+1:ncpus=0:mem=1gb";
    let id = sandbox.submit(
        &["-o", "out", "-e", "err", "-l", select, "-v", "PATH"],
        script,
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{}", sandbox.read("err"));
    assert_eq!(sandbox.read("out"), "h1\nh1\nh2\nh2\nh1\n3 3 5 2 3\n");
    let tasks: BTreeSet<String> = sandbox.read("tasks").lines().map(String::from).collect();
    let expected = [
        "0 on 0, 3",
        "1 on 0, 3",
        "2 on 1, 3",
        "3 on 1, 3",
        "4 on 0, 3",
    ]
    .map(String::from);
    assert_eq!(tasks, BTreeSet::from(expected));
    assert_eq!(
        job["exec_vnode"],
        json!("(h1:ncpus=3)+(h2:ncpus=3)+(h1:ncpus=1)+(h1:ncpus=0:mem=1048576kb)")
    );
}
