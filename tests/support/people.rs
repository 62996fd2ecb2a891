//! Temporary user accounts, for tests of isolation between users. Creating them requires root.

use super::sandbox::{Done, Sandbox, finish, is_root, kill};
use lanai::cli::programs::PROGRAMS;
use lanai::sys::filesystem::first_closed_ancestor;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A user with a primary group of the same name and a supplementary group. Removed on drop.
pub struct TestUser {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// ID of the supplementary group.
    pub other: u32,
}

/// Creates two users; None, with a message on standard output, if that is not possible.
pub fn two_users(test: &str) -> Option<[TestUser; 2]> {
    people(test)
}

/// Creates N users; None, with a message on standard output, if that is not possible.
pub fn people<const N: usize>(test: &str) -> Option<[TestUser; N]> {
    let tools = ["useradd", "userdel", "groupadd", "groupdel", "setpriv"];
    let missing = tools
        .iter()
        .find(|tool| Command::new(tool).arg("--help").output().is_err());
    if !is_root() || missing.is_some() {
        println!(
            "{test}: skipped: needs {}",
            missing.map_or("root", |tool| tool)
        );
        return None;
    }
    Some(std::array::from_fn(|at| {
        TestUser::make(&format!("{test}{}", char::from(b'a' + at as u8)))
    }))
}

impl TestUser {
    fn make(tag: &str) -> TestUser {
        let name = format!("lanai-{}{tag}", std::process::id());
        let other = format!("{name}x");
        change_accounts(Command::new("groupadd").arg(&other));
        let home = place(&name);
        change_accounts(
            Command::new("useradd")
                .args([
                    "--no-create-home",
                    "--user-group",
                    "--shell",
                    "/bin/sh",
                    "--home-dir",
                ])
                .arg(&home)
                .args(["--groups", &other, &name]),
        );
        let account = lanai::sys::user::named(&name).unwrap().unwrap();
        let other = nix::unistd::Group::from_name(&other)
            .unwrap()
            .unwrap()
            .gid
            .as_raw();
        fs::create_dir(&home).unwrap();
        chown(&home, Some(account.uid), Some(account.gid)).unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
        TestUser {
            name,
            uid: account.uid,
            gid: account.gid,
            other,
        }
    }

    /// Home directory, with mode 0700.
    pub fn home(&self) -> PathBuf {
        place(&self.name)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Waits until a file in the home directory exists; returns its content.
    #[track_caller]
    pub fn await_file(&self, sandbox: &Sandbox, name: &str) -> String {
        sandbox.until(name, || fs::read_to_string(self.file(name)).ok())
    }

    /// A program under test, run by this user in the home directory.
    pub fn command(&self, sandbox: &Sandbox, program: &str) -> Command {
        self.wrapped(sandbox, &programs(sandbox).join(program))
    }

    pub fn run(&self, sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Done {
        finish(
            self.command(sandbox, program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Runs a shell command line.
    pub fn shell(&self, sandbox: &Sandbox, line: &str) -> Done {
        let mut shell = self.wrapped(sandbox, Path::new("/bin/sh"));
        finish(
            shell
                .args(["-c", line])
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }

    /// Submits a script given as text; returns the job id.
    #[track_caller]
    pub fn submit(&self, sandbox: &Sandbox, arguments: &[&str], script: &str) -> String {
        let path = self.file("job.sh");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        self.run(sandbox, "qsub", &[arguments, &["job.sh"]].concat())
            .line()
    }

    /// Deletes the account and creates a different account with this name and uid.
    pub fn replace(&mut self, name: String, uid: u32) {
        self.end_all();
        fs::remove_dir_all(self.home()).unwrap();
        change_accounts(Command::new("userdel").arg(&self.name));
        if name != self.name {
            change_accounts(Command::new("groupadd").arg(format!("{name}x")));
            change_accounts(Command::new("groupdel").arg(format!("{}x", self.name)));
        }
        self.name = name;
        let mut useradd = Command::new("useradd");
        useradd.args([
            "--create-home",
            "--user-group",
            "--shell",
            "/bin/sh",
            "--uid",
            &uid.to_string(),
        ]);
        change_accounts(useradd.arg("--home-dir").arg(self.home()).arg(&self.name));
        let account = lanai::sys::user::named(&self.name).unwrap().unwrap();
        (self.uid, self.gid) = (account.uid, account.gid);
    }

    /// Kills all processes of this user. Returns true if there were any.
    pub fn end_all(&self) -> bool {
        let mut found = false;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            if entry
                .metadata()
                .is_ok_and(|metadata| metadata.uid() == self.uid)
            {
                kill(pid, 9);
                found = true;
            }
        }
        found
    }

    fn wrapped(&self, sandbox: &Sandbox, program: &Path) -> Command {
        let plain = sandbox.command("qsub");
        let mut command = Command::new("setpriv");
        command.env_clear().envs(
            plain
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", programs(sandbox).display()));
        command
            .env("HOME", self.home())
            .env("USER", &self.name)
            .env("LOGNAME", &self.name);
        command.current_dir(self.home());
        command.args([
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.gid),
            "--init-groups".into(),
        ]);
        command.arg("--").arg(program);
        command
    }
}

impl Drop for TestUser {
    fn drop(&mut self) {
        for _ in 0..100 {
            if !self.end_all() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_dir_all(self.home());
        change_accounts(Command::new("userdel").arg(&self.name));
        change_accounts(Command::new("groupdel").arg(format!("{}x", self.name)));
    }
}

fn place(name: &str) -> PathBuf {
    Path::new("/tmp").join(name)
}

/// Runs a tool that changes account data. Retries while another process holds the lock.
#[track_caller]
pub fn change_accounts(command: &mut Command) {
    let mut errors = String::new();
    for _ in 0..200 {
        let output = command.output().unwrap();
        errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return;
        }
        if !errors.contains("lock") && !errors.contains("currently used") {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // A second panic during unwinding would hide the first.
    assert!(std::thread::panicking(), "{command:?}: {errors}");
}

/// Directory of the programs under test: the build directory if all users can reach it, else copies
/// beside the sandbox.
fn programs(sandbox: &Sandbox) -> PathBuf {
    let here = super::sandbox::bin("qsub").parent().unwrap().to_path_buf();
    if first_closed_ancestor(&here).is_none() {
        return here;
    }
    let copies = sandbox.home().with_file_name("bin");
    if !copies.exists() {
        fs::create_dir(&copies).unwrap();
        for program in ["lanai", "schedd", "noded"] {
            fs::copy(here.join(program), copies.join(program)).unwrap();
        }
        let links = PROGRAMS
            .iter()
            .filter(|program| program.main.is_some() && program.name != "lanai");
        for program in links {
            std::os::unix::fs::symlink("lanai", copies.join(program.name)).unwrap();
        }
    }
    copies
}
