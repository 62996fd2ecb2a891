//! The environment of the recordings: a host `head` with its own users, directories and processes.
//!
//! It uses kernel namespaces, so that users are named `alice` and `bob` and paths are the recorded
//! ones on any machine. Creating it requires root.

use crate::support::sandbox::{Done, bin, is_root};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Paths of the programs, of the spool, and of the recorder's scratch directory.
pub const EXEC: &str = "/opt/pbs";
pub const PBSHOME: &str = "/var/spool/lanai";
pub const SCRATCH: &str = "/tmp/recorded-in";

/// Users: name, uid and gid.
const USERS: &[(&str, u32, u32)] = &[("alice", 61001, 61000), ("bob", 61002, 61000)];

/// Mounts directories of the environment over those of the machine, and exits at the end of its
/// standard input.
const BUILD: &str = r#"
set -e
hostname head
for folder in etc home opt run var/spool var/tmp; do mount --bind "$1/$folder" "/$folder"; done
mount --bind "$2" /opt/pbs/bin
mount -o remount,ro,bind /opt/pbs/bin
mount --bind "$1/tmp" /tmp
echo 20000 > /proc/sys/kernel/ns_last_pid || true
echo ready
exec 3<&0
cat <&3 > /dev/null & wait $!
"#;

/// A simulated host; dropping it ends all its processes.
pub struct World {
    folder: TempDir,
    init: Child,
    /// Id of a process in the namespaces that commands enter.
    inner: i32,
}

/// Reason why the environment cannot be created; None if it can.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("root is required to create users and hosts".into());
    }
    let tried = Command::new("unshare")
        .args(["--mount", "--uts", "--ipc", "--pid", "--fork", "true"])
        .output();
    let is_able = tried.is_ok_and(|output| output.status.success());
    let tools = ["nsenter", "setpriv", "bash"].into_iter();
    let lacking = tools
        .filter(|tool| Command::new(tool).arg("--version").output().is_err())
        .collect::<Vec<_>>();
    match (is_able, lacking.as_slice()) {
        (true, []) => None,
        (false, _) => Some("`unshare` cannot create namespaces on this machine".into()),
        (true, lacking) => Some(format!("missing programs: {}", lacking.join(", "))),
    }
}

impl World {
    /// Creates an environment with this `lanai.toml`, without any daemons.
    pub fn new(config: &str) -> World {
        let folder = tempfile::Builder::new()
            .prefix("lanai-world-")
            .tempdir()
            .unwrap();
        create_files(folder.path(), config);
        let mut init = Command::new("unshare")
            .args([
                "--mount",
                "--uts",
                "--ipc",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["/bin/bash", "-c", BUILD, "build"])
            .arg(folder.path())
            .arg(bin("qsub").parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(init.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "the environment could not be set up");
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", init.id())).unwrap();
        World {
            folder,
            init,
            inner: children.split_whitespace().next().unwrap().parse().unwrap(),
        }
    }

    /// Path of a file in this environment as seen from outside.
    pub fn outside(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    /// Runs a command as a user; None if it exceeds the time limit.
    pub fn run(&self, user: &str, command: &str, limit: Duration) -> Option<Done> {
        let [mut out, mut err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let mut entered = self.entered(user);
        entered
            .args(["/bin/bash", "-c", command])
            .process_group(0)
            .stdin(Stdio::null());
        let mut child = entered
            .stdout(out.try_clone().unwrap())
            .stderr(err.try_clone().unwrap())
            .spawn()
            .unwrap();
        let code = ended(&mut child, limit);
        let read = |file: &mut fs::File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Some(Done {
            code: code?,
            out: read(&mut out),
            err: read(&mut err),
        })
    }

    /// Runs a command that must succeed; returns its output.
    #[track_caller]
    pub fn ok(&self, user: &str, command: &str) -> String {
        let done = self.run(user, command, Duration::from_secs(20));
        done.unwrap_or_else(|| panic!("{command} did not end in 20 s"))
            .ok()
    }

    /// Command that enters the environment as a user, with only the variables that the recorder
    /// had.
    fn entered(&self, user: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            "umask 022; exec \"$@\"",
            "enter",
            "nsenter",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
        ]);
        command.args(["--target", &self.inner.to_string(), "--"]);
        let account = USERS.iter().find(|(name, ..)| *name == user);
        if let Some((_, uid, gid)) = account {
            command.args([
                "setpriv",
                &format!("--reuid={uid}"),
                &format!("--regid={gid}"),
                "--init-groups",
                "--",
            ]);
        }
        let home = account.map_or("/root".into(), |(name, ..)| format!("/home/{name}"));
        let work = account.map_or(SCRATCH.into(), |_| format!("{home}/w"));
        command.args([
            "env",
            "-i",
            "-C",
            &work,
            &format!("HOME={home}"),
            &format!("LOGNAME={user}"),
        ]);
        command.args([
            &format!("USER={user}"),
            "SHELL=/bin/bash",
            "LANG=C.UTF-8",
            &format!("MAIL=/var/mail/{user}"),
        ]);
        command.arg(format!(
            "PATH={EXEC}/bin:{EXEC}/sbin:/usr/local/bin:/usr/bin:/bin"
        ));
        command.arg(format!("PWD={work}"));
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

/// Exit status; None if the process was killed after this time.
fn ended(child: &mut Child, limit: Duration) -> Option<i32> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    let _ = child.wait();
    None
}

/// Creates the directories and files, before the namespaces are entered.
fn create_files(root: &Path, config: &str) {
    let folder = |path: &str, mode| {
        fs::create_dir_all(root.join(path)).unwrap();
        fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
    };
    folder("", 0o755);
    for path in [
        "opt/pbs/bin",
        "opt/pbs/sbin",
        "home",
        "run",
        "var/spool",
        "tmp/recorded-in/mail",
    ] {
        folder(path, 0o755);
    }
    folder("tmp", 0o1777);
    folder("var/tmp", 0o1777);
    let copied = Command::new("cp")
        .args(["-a", "/etc"])
        .arg(root)
        .stderr(Stdio::null())
        .status();
    copied.unwrap();
    let _ = fs::remove_dir_all(root.join("etc/profile.d"));
    let _ = fs::remove_file(root.join("etc/hostname"));
    folder("etc/lanai", 0o755);
    write(root, "etc/lanai/lanai.toml", config, 0o644);
    write(root, "etc/hosts", "127.0.0.1 localhost head\n", 0o644);
    let mailer = format!("#!/bin/sh\n(echo \"ARGS: $*\"; cat) > {SCRATCH}/mail/$(date +%s.%N)\n");
    write(root, "tmp/recorded-in/mailer", &mailer, 0o755);
    create_users(root);
}

/// Creates the users with their groups, homes and scripts.
fn create_users(root: &Path) {
    let add = |file: &str, text: &str| {
        let known = fs::read_to_string(root.join(file)).unwrap();
        write(root, file, &format!("{known}{text}"), 0o644);
    };
    add("etc/group", "users1:x:61000:\nphys:x:61009:alice\n");
    for (name, uid, gid) in USERS {
        add(
            "etc/passwd",
            &format!("{name}:x:{uid}:{gid}::/home/{name}:/bin/bash\n"),
        );
        let work = format!("home/{name}/w");
        fs::create_dir_all(root.join(&work)).unwrap();
        for (script, text) in [
            // Outlasts the replay, which is slower than the recording.
            ("job.sh", "#!/bin/sh\nsleep 1000\n"),
            ("true.sh", "exit 0\n"),
            ("false.sh", "exit 3\n"),
            ("env.sh", "#!/bin/bash\nenv | sort\n"),
        ] {
            write(root, &format!("{work}/{script}"), text, 0o644);
            chown(root.join(&work).join(script), Some(*uid), Some(*gid)).unwrap();
        }
        for folder in [format!("home/{name}"), work] {
            chown(root.join(folder), Some(*uid), Some(*gid)).unwrap();
        }
    }
}

fn write(root: &Path, path: &str, text: &str, mode: u32) {
    fs::write(root.join(path), text).unwrap();
    fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
}
