//! The environment of a job (`PBS_*` and other variables).

use super::dialects;
use super::variables::{Environment, here, parse_environ};
use crate::model::job::NodeShare;
use crate::model::job::grant::{self, HostGrant};
use crate::sys::user::UserAccount;
use crate::wire::order::Launch;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The default `PATH` of a job.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The sources of a job's environment, in addition to the launch.
#[derive(Debug)]
pub struct EnvironmentSource<'a> {
    /// The account that the job runs as.
    pub account: &'a UserAccount,
    /// The job's node file.
    pub nodes: &'a Path,
    /// The job directory: the owner's home directory or a private directory.
    pub jobdir: &'a Path,
    /// The job's directory for temporary files.
    pub tmpdir: &'a Path,
    /// The cookie of the attempt: a secret random value with which processes prove that they
    /// belong to the job.
    pub cookie: &'a str,
    /// Whether the host has GPUs, which a job without GPUs must not see.
    pub gpus: bool,
    /// Whether the host has AMD GPUs.
    pub amd: bool,
    /// The `LANAI_HOME` to set, if any.
    pub home: Option<&'a Path>,
    /// The socket for task requests.
    pub tasks: &'a Path,
    /// The job's checkpoint directory, if the site checkpoints jobs.
    pub checkpoint: Option<&'a Path>,
    /// The directory of commands to append to `PATH`. None if it is unknown, or if the job's login
    /// shell appends it after reading the profile.
    pub commands: Option<&'a Path>,
}

/// The environment of a script or task: the variables that schedd sent with the launch, and the
/// variables of the node, which replace those of the same name.
pub fn of(launch: &Launch, source: &EnvironmentSource) -> Environment {
    let mut environment = match launch.place.task {
        0 => of_script(launch, source),
        _ => of_task(launch, source),
    };
    if let Some(folder) = source.commands {
        append_to_path(&mut environment, folder);
    }
    environment
}

/// Appends a directory to `PATH`. At the end of `PATH`, the directory hides no program of the user.
fn append_to_path(environment: &mut Environment, folder: &Path) {
    let folder = folder.as_os_str().as_bytes();
    let path = environment
        .entry("PATH".into())
        .or_insert_with(|| PATH.into());
    if path.split(|&b| b == b':').all(|entry| entry != folder) {
        path.push(b':');
        path.extend(folder);
    }
}

fn of_script(launch: &Launch, source: &EnvironmentSource) -> Environment {
    let mut environment = parse_environ(&launch.environ);
    let account = source.account;
    let mut set = |name: &str, value: &[u8]| environment.insert(name.into(), value.to_vec());
    set("HOME", account.home.as_os_str().as_bytes());
    set("LOGNAME", account.name.as_bytes());
    set("USER", account.name.as_bytes());
    set("SHELL", account.shell.as_os_str().as_bytes());
    if launch.interactive {
        set("PBS_ENVIRONMENT", b"PBS_INTERACTIVE");
    } else {
        set("PBS_ENVIRONMENT", b"PBS_BATCH");
        set("ENVIRONMENT", b"BATCH");
    }
    set("PBS_JOBID", launch.full_id.as_bytes());
    if let Some((array, index)) = launch.job.parent().zip(launch.job.index()) {
        let server = launch
            .full_id
            .split_once('.')
            .map_or("", |(_, server)| server);
        set("PBS_ARRAY_ID", array.full(server).as_bytes());
        set("PBS_ARRAY_INDEX", index.to_string().as_bytes());
    }
    set("PBS_JOBNAME", launch.name.as_bytes());
    set("PBS_QUEUE", launch.queue.as_bytes());
    set("PBS_NODEFILE", source.nodes.as_os_str().as_bytes());
    set("PBS_NODENUM", b"0");
    set("PBS_VNODENUM", b"0");
    set("PBS_TASKNUM", b"1");
    set("LANAI_TASKS", source.tasks.as_os_str().as_bytes());
    // The number of this start of the job, from 1. qalter --retry does not reset it, so scripts can
    // use it in file names.
    set("LANAI_ATTEMPT", launch.attempt.to_string().as_bytes());
    if let Some(folder) = source.checkpoint {
        set("LANAI_CHECKPOINT", folder.as_os_str().as_bytes());
    }
    set("PBS_JOBDIR", source.jobdir.as_os_str().as_bytes());
    set("PBS_JOBCOOKIE", source.cookie.as_bytes());
    set("TMPDIR", source.tmpdir.as_os_str().as_bytes());
    let threads = launch.threads.to_string();
    set("NCPUS", threads.as_bytes());
    set("OMP_NUM_THREADS", threads.as_bytes());
    match &launch.account {
        Some(name) => set("PBS_ACCOUNT", name.as_bytes()),
        None => environment.remove(&b"PBS_ACCOUNT"[..]),
    };
    if let Some(home) = source.home {
        environment.insert("LANAI_HOME".into(), home.as_os_str().as_bytes().to_vec());
    }
    count_nodes(&mut environment, &launch.shares);
    set_grant(&mut environment, &launch.shares);
    set_gpus(&mut environment, launch, source);
    dialects::set_variables(&mut environment, launch, source.nodes);
    environment
        .entry("PATH".into())
        .or_insert_with(|| PATH.into());
    environment
}

/// The environment of a task: the environment of the process that requested the task, and the
/// variables of the node, which replace those of the same name.
fn of_task(launch: &Launch, source: &EnvironmentSource) -> Environment {
    let mut environment = parse_environ(&launch.environ);
    let place = &launch.place;
    let mut set = |name: &str, value: &[u8]| environment.insert(name.into(), value.to_vec());
    set("PBS_JOBID", launch.full_id.as_bytes());
    set("PBS_NODEFILE", source.nodes.as_os_str().as_bytes());
    set("PBS_NODENUM", place.host.to_string().as_bytes());
    set("PBS_VNODENUM", place.slot.to_string().as_bytes());
    // PBS counts the script as task 1.
    set(
        "PBS_TASKNUM",
        (u64::from(place.task) + 1).to_string().as_bytes(),
    );
    set("LANAI_ATTEMPT", launch.attempt.to_string().as_bytes());
    set("LANAI_TASKS", source.tasks.as_os_str().as_bytes());
    set("PBS_JOBCOOKIE", source.cookie.as_bytes());
    set("TMPDIR", source.tmpdir.as_os_str().as_bytes());
    set_grant(&mut environment, &launch.shares);
    set_gpus(&mut environment, launch, source);
    environment
}

/// Sets TORQUE's variables for the job's size: number of hosts, of lines in the node file, and of
/// lines of the first host.
fn count_nodes(environment: &mut Environment, shares: &[NodeShare]) {
    let hosts: BTreeSet<&str> = shares.iter().map(|share| share.host.as_str()).collect();
    let processes = shares.iter().map(|share| u64::from(share.mpiprocs));
    let on_first = here(shares).map(|share| u64::from(share.mpiprocs));
    for (name, value) in [
        ("PBS_NUM_NODES", hosts.len() as u64),
        ("PBS_NP", processes.sum()),
        ("PBS_NUM_PPN", on_first.sum()),
    ] {
        environment.insert(name.into(), value.to_string().into_bytes());
    }
}

/// Sets the variable with the job's resources on this host, for a Lanai that runs inside the job.
fn set_grant(environment: &mut Environment, shares: &[NodeShare]) {
    environment.insert(
        grant::VARIABLE.into(),
        HostGrant::of(here(shares)).text().into_bytes(),
    );
}

/// Restricts a job to its granted GPUs.
///
/// AMD's libraries also read NVIDIA's variable, and apply it to the GPUs that ROCr's variable
/// leaves visible. With both variables set, granted GPUs would be hidden. So only one is set.
fn set_gpus(environment: &mut Environment, launch: &Launch, source: &EnvironmentSource) {
    let requested = launch.shares.iter().flat_map(|share| &share.taken);
    let requested = requested
        .filter(|(name, _)| name == "ngpus")
        .any(|(_, value)| value.amount().unwrap_or(0) > 0);
    let numbers: Vec<String> = here(&launch.shares)
        .flat_map(|share| &share.gpus)
        .map(u16::to_string)
        .collect();
    // Change nothing if the job requested GPUs but got no numbers on this host (nodes can offer
    // GPUs without numbers), or if it requested no GPUs and the host has none.
    if if requested {
        numbers.is_empty()
    } else {
        !source.gpus
    } {
        return;
    }
    for name in [
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
    ] {
        environment.remove(name.as_bytes());
    }
    let variable = if source.amd {
        "ROCR_VISIBLE_DEVICES"
    } else {
        "CUDA_VISIBLE_DEVICES"
    };
    environment.insert(variable.into(), numbers.join(",").into_bytes());
    if !source.amd {
        // noded numbers the GPUs in the order of NVIDIA's tool, which is the order of PCI.
        environment.insert("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;
    use crate::model::resource::ResourceValue;
    use crate::wire::task::TaskPlace;

    fn environment_of(launch: &Launch, gpus: bool) -> Environment {
        environment_with(launch, gpus, false)
    }

    fn environment_with(launch: &Launch, gpus: bool, amd: bool) -> Environment {
        let account = UserAccount {
            name: "ann".into(),
            uid: 1,
            gid: 1,
            home: "/h".into(),
            shell: "/bin/sh".into(),
        };
        let (nodes, tmpdir) = (Path::new("/n"), Path::new("/t"));
        let (jobdir, tasks) = (Path::new("/j"), Path::new("/s"));
        let home = Some(Path::new("/l"));
        of(
            launch,
            &EnvironmentSource {
                account: &account,
                nodes,
                jobdir,
                tmpdir,
                cookie: "c",
                gpus,
                amd,
                home,
                tasks,
                checkpoint: None,
                commands: None,
            },
        )
    }

    fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        environment
            .get(name.as_bytes())
            .map(|value| std::str::from_utf8(value).unwrap())
    }

    #[test]
    fn submitted_variables_are_kept_but_do_not_replace_variables_of_the_node() {
        let mut launch = launch();
        launch.attempt = 3;
        launch.environ =
            b"A=b=c\0LANAI_ATTEMPT=9\0PBS_JOBID=9\0PBS_ACCOUNT=x\0=y\0junk\0PBS_O_PATH=/p\0"
                .to_vec();
        let environment = environment_of(&launch, false);
        assert_eq!(value(&environment, "A"), Some("b=c"));
        assert_eq!(value(&environment, "PBS_JOBID"), Some("1.here"));
        assert_eq!(value(&environment, "PBS_ACCOUNT"), None);
        assert_eq!(value(&environment, "LANAI_ATTEMPT"), Some("3"));
        assert_eq!(value(&environment, "PBS_O_PATH"), Some("/p"));
        assert_eq!(value(&environment, "PATH"), Some(PATH));
        assert_eq!(value(&environment, "junk"), None);
        assert_eq!(value(&environment, "LANAI_HOME"), Some("/l"));
        assert_eq!(value(&environment, "CUDA_VISIBLE_DEVICES"), None);
    }

    #[test]
    fn the_directory_of_commands_is_appended_to_the_path_once() {
        let path = |before: &str| {
            let mut environment = Environment::from([(b"PATH".to_vec(), before.into())]);
            append_to_path(&mut environment, Path::new("/l/bin"));
            value(&environment, "PATH").map(str::to_string)
        };
        assert_eq!(path("/a:/b").as_deref(), Some("/a:/b:/l/bin"));
        assert_eq!(path("/l/bin:/b").as_deref(), Some("/l/bin:/b"));
        let mut none = Environment::new();
        append_to_path(&mut none, Path::new("/l/bin"));
        assert_eq!(
            value(&none, "PATH"),
            Some("/usr/local/bin:/usr/bin:/bin:/l/bin")
        );
    }

    #[test]
    fn a_job_sees_only_its_gpus_on_this_host() {
        let mut launch = launch();
        assert_eq!(
            value(&environment_of(&launch, true), "CUDA_VISIBLE_DEVICES"),
            Some("")
        );
        launch.shares[0]
            .taken
            .push(("ngpus".into(), ResourceValue::Long(1)));
        launch.shares[0].gpus = vec![2];
        launch.shares.push(NodeShare {
            gpus: vec![3],
            ..launch.shares[0].clone()
        });
        launch.shares.push(NodeShare {
            gpus: vec![7],
            host: "other".into(),
            ..launch.shares[0].clone()
        });
        assert_eq!(
            value(&environment_of(&launch, true), "CUDA_VISIBLE_DEVICES"),
            Some("2,3")
        );
        assert_eq!(
            value(&environment_of(&launch, true), "CUDA_DEVICE_ORDER"),
            Some("PCI_BUS_ID")
        );
        assert_eq!(
            value(&environment_of(&launch, true), "ROCR_VISIBLE_DEVICES"),
            None
        );
        let grant =
            HostGrant::parse(value(&environment_of(&launch, true), grant::VARIABLE).unwrap())
                .unwrap();
        assert_eq!(grant.gpus, [2, 3], "only the GPUs of this host");
        launch.environ = b"CUDA_VISIBLE_DEVICES=9\0HIP_VISIBLE_DEVICES=9\0".to_vec();
        let amd = environment_with(&launch, true, true);
        assert_eq!(value(&amd, "ROCR_VISIBLE_DEVICES"), Some("2,3"));
        assert_eq!(
            (
                value(&amd, "CUDA_VISIBLE_DEVICES"),
                value(&amd, "HIP_VISIBLE_DEVICES")
            ),
            (None, None)
        );
    }

    #[test]
    fn a_task_has_the_environment_of_the_requesting_process_and_its_own_numbers() {
        let mut launch = launch();
        launch.environ = b"HOME=/elsewhere\0PBS_TASKNUM=1\0PBS_JOBCOOKIE=old\0X=y\0".to_vec();
        launch.place = TaskPlace {
            task: 3,
            slot: 2,
            host: 1,
            ..TaskPlace::default()
        };
        let account = UserAccount {
            name: "ann".into(),
            uid: 1,
            gid: 1,
            home: "/h".into(),
            shell: "/bin/sh".into(),
        };
        let (nodes, tmpdir, tasks) = (Path::new("/n"), Path::new("/t"), Path::new("/s"));
        let (jobdir, home) = (Path::new("/h"), None);
        let source = EnvironmentSource {
            account: &account,
            nodes,
            jobdir,
            tmpdir,
            cookie: "new",
            gpus: false,
            amd: false,
            home,
            tasks,
            checkpoint: None,
            commands: None,
        };
        let environment = of(&launch, &source);
        for (name, value) in [
            ("HOME", "/elsewhere"),
            ("X", "y"),
            ("PBS_TASKNUM", "4"),
            ("PBS_NODENUM", "1"),
            ("PBS_VNODENUM", "2"),
            ("PBS_JOBCOOKIE", "new"),
            ("LANAI_TASKS", "/s"),
        ] {
            assert_eq!(
                environment.get(name.as_bytes()).map(Vec::as_slice),
                Some(value.as_bytes()),
                "{name}"
            );
        }
    }
}
