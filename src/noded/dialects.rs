//! Variables for scripts written for TORQUE and Grid Engine, in addition to PBS's variables.
//!
//! TORQUE's variables are set for every job. Other programs also use variables with Grid Engine's
//! names (`JOB_ID`, `QUEUE`). So Grid Engine's variables are set only for jobs submitted with Grid
//! Engine options, which qsub marks with the variable `SGE_O_WORKDIR`.

use super::variables::{Environment, here, parse_environ};
use crate::model::job::NodeShare;
use crate::wire::order::Launch;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that marks a job submitted with Grid Engine options.
const MARK: &[u8] = b"SGE_O_WORKDIR";

/// Name of the file for `PBS_GPUFILE`, next to the node file.
const GPU_FILE: &str = "gpus";
/// Name of the file for `PE_HOSTFILE`, next to the node file.
const HOST_FILE: &str = "hosts";

/// The additional files next to the node file, as name and text.
pub fn files(launch: &Launch) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    if launch.shares.iter().any(|share| !share.gpus.is_empty()) {
        files.push((GPU_FILE, gpu_file(&launch.shares)));
    }
    if is_marked(&parse_environ(&launch.environ)) {
        files.push((HOST_FILE, host_file(launch)));
    }
    files
}

/// Sets TORQUE's and, for a marked job, Grid Engine's variables. `nodes` is the path of the node
/// file.
pub fn set_variables(environment: &mut Environment, launch: &Launch, nodes: &Path) {
    let mut set = |name: &str, value: String| environment.insert(name.into(), value.into_bytes());
    if let Some(index) = launch.job.index() {
        set("PBS_ARRAYID", index.to_string());
    }
    if let Some(walltime) = launch.walltime {
        set("PBS_WALLTIME", walltime.as_seconds().to_string());
    }
    set(
        "PBS_O_SERVER",
        launch
            .full_id
            .split_once('.')
            .map_or("", |(_, server)| server)
            .to_string(),
    );
    if here(&launch.shares).any(|share| !share.gpus.is_empty()) {
        environment.insert("PBS_GPUFILE".into(), path_next_to(nodes, GPU_FILE));
    }
    if is_marked(environment) {
        set_grid_engine(environment, launch, nodes);
    }
}

fn set_grid_engine(environment: &mut Environment, launch: &Launch, nodes: &Path) {
    let hosts: BTreeSet<&str> = launch
        .shares
        .iter()
        .map(|share| share.host.as_str())
        .collect();
    let slots: u64 = launch.shares.iter().map(processors).sum();
    let task = launch
        .job
        .index()
        .map_or("undefined".into(), |index| index.to_string());
    let restarted = u8::from(launch.attempt > 1);
    for (name, value) in [
        ("JOB_ID", launch.job.number.to_string()),
        ("JOB_NAME", launch.name.clone()),
        ("REQUEST", launch.name.clone()),
        ("QUEUE", launch.queue.clone()),
        ("NSLOTS", slots.to_string()),
        ("NHOSTS", hosts.len().to_string()),
        ("NQUEUES", "1".to_string()),
        ("SGE_TASK_ID", task),
        ("RESTARTED", restarted.to_string()),
    ] {
        environment.insert(name.into(), value.into_bytes());
    }
    for name in ["SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"] {
        environment
            .entry(name.into())
            .or_insert_with(|| b"undefined".to_vec());
    }
    environment.insert("PE_HOSTFILE".into(), path_next_to(nodes, HOST_FILE));
}

fn is_marked(environment: &Environment) -> bool {
    environment.contains_key(MARK)
}

fn path_next_to(nodes: &Path, name: &str) -> Vec<u8> {
    let file: PathBuf = nodes.with_file_name(name);
    file.as_os_str().as_bytes().to_vec()
}

/// The number of slots of a share, which is the ncpus of the share.
fn processors(share: &NodeShare) -> u64 {
    let given = share
        .taken
        .iter()
        .find(|(name, _)| name == "ncpus")
        .and_then(|(_, value)| value.amount());
    given
        .and_then(|given| u64::try_from(given).ok())
        .unwrap_or(0)
}

/// The text of `PBS_GPUFILE`: a line per GPU, in TORQUE's format.
fn gpu_file(shares: &[NodeShare]) -> String {
    let mut lines = String::new();
    for share in shares {
        for gpu in &share.gpus {
            lines += &format!("{}-gpu{gpu}\n", share.host);
        }
    }
    lines
}

/// The text of `PE_HOSTFILE`, in Grid Engine's format: a line per host with host, slots,
/// queue@host, and `UNDEFINED` for the processors.
fn host_file(launch: &Launch) -> String {
    let mut hosts: Vec<(&str, u64)> = Vec::new();
    for share in &launch.shares {
        match hosts.iter_mut().find(|(host, _)| *host == share.host) {
            Some((_, slots)) => *slots += processors(share),
            None => hosts.push((&share.host, processors(share))),
        }
    }
    hosts
        .iter()
        .map(|(host, slots)| format!("{host} {slots} {}@{host} UNDEFINED\n", launch.queue))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::resource::ResourceValue;
    use crate::model::time::Span;

    fn environment_of(launch: &Launch) -> Environment {
        let mut environment = parse_environ(&launch.environ);
        set_variables(&mut environment, launch, Path::new("/f/nodes"));
        environment
    }

    fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        environment
            .get(name.as_bytes())
            .map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn an_unmarked_job_gets_only_variables_of_torque() {
        let mut launch = launch();
        (launch.job, launch.walltime) = (JobId::element(7, 3), Some(Span::seconds(90)));
        let plain = environment_of(&launch);
        let found = |name| value(&plain, name);
        assert_eq!(
            (
                found("PBS_ARRAYID"),
                found("PBS_WALLTIME"),
                found("PBS_O_SERVER")
            ),
            (Some("3"), Some("90"), Some("here"))
        );
        assert_eq!(
            (found("JOB_ID"), found("NSLOTS"), found("PBS_GPUFILE")),
            (None, None, None)
        );
        assert!(files(&launch).is_empty());
    }

    #[test]
    fn a_marked_job_gets_variables_of_grid_engine() {
        let mut launch = launch();
        launch.environ = b"SGE_O_WORKDIR=/w\0SGE_TASK_LAST=9\0JOB_ID=x\0".to_vec();
        launch.shares[0]
            .taken
            .push(("ncpus".into(), ResourceValue::Long(2)));
        launch.shares.push(NodeShare {
            host: "n2".into(),
            gpus: vec![1],
            ..launch.shares[0].clone()
        });
        launch.shares.push(launch.shares[0].clone());
        let environment = environment_of(&launch);
        for (name, expected) in [
            ("JOB_ID", "1"),
            ("NSLOTS", "6"),
            ("NHOSTS", "2"),
            ("SGE_TASK_ID", "undefined"),
            ("SGE_TASK_FIRST", "undefined"),
            ("SGE_TASK_LAST", "9"),
            ("PE_HOSTFILE", "/f/hosts"),
        ] {
            assert_eq!(value(&environment, name), Some(expected), "{name}");
        }
        let expected = [
            ("gpus", "n2-gpu1\n"),
            (
                "hosts",
                "n1 4 workq@n1 UNDEFINED\nn2 2 workq@n2 UNDEFINED\n",
            ),
        ];
        assert_eq!(
            files(&launch),
            expected.map(|(name, text)| (name, text.to_string()))
        );
    }
}
