//! What is different about a task, as against a job's script: its environment is that of the
//! process that asked for it, and on the script's host it shares the script's `TMPDIR`.

use super::environment::{self, Environment, EnvironmentSource};
use super::folder::{AttemptName, Folder};
use super::site::Site;
use crate::wire::order::Launch;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The environment of a task: its asker's, then what only this node knows.
pub fn environment(launch: &Launch, around: &EnvironmentSource) -> Environment {
    let mut environment = environment::handed_on(&launch.environ);
    let place = &launch.place;
    let mut set = |name: &str, value: &[u8]| environment.insert(name.into(), value.to_vec());
    set("PBS_JOBID", launch.full_id.as_bytes());
    set("PBS_NODEFILE", around.nodes.as_os_str().as_bytes());
    set("PBS_NODENUM", place.host.to_string().as_bytes());
    set("PBS_VNODENUM", place.slot.to_string().as_bytes());
    // The script is task 1 to PBS.
    set(
        "PBS_TASKNUM",
        (u64::from(place.task) + 1).to_string().as_bytes(),
    );
    set("LANAI_ATTEMPT", launch.attempt.to_string().as_bytes());
    set("LANAI_TASKS", around.tasks.as_os_str().as_bytes());
    set("PBS_JOBCOOKIE", around.cookie.as_bytes());
    set("TMPDIR", around.tmpdir.as_os_str().as_bytes());
    environment::tell_grant(&mut environment, &launch.shares);
    environment::set_gpus(&mut environment, launch, around);
    environment
}

/// The `TMPDIR` of the script of a task's attempt, if that runs here too.
pub fn script_tmpdir(site: &Site, launch: &Launch) -> Option<PathBuf> {
    if launch.place.task == 0 {
        return None;
    }
    let script = Folder::of(
        &site.state,
        AttemptName {
            task: 0,
            ..AttemptName::of(launch)
        },
    );
    let tmpdir = script.trace().ok()??.tmpdir;
    Some(PathBuf::from(OsString::from_vec(tmpdir.0))).filter(|tmpdir| tmpdir.is_dir())
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;
    use crate::sys::user::UserAccount;
    use crate::wire::task::TaskPlace;
    use std::path::Path;

    #[test]
    fn a_task_has_its_askers_environment_and_its_own_place() {
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
        let around = EnvironmentSource {
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
        let environment = environment::of(&launch, &around);
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
