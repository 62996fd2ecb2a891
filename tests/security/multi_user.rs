//! One installation for many users: each job runs as its owner, and users cannot affect each
//! other's jobs. Skipped with a message without root.

use crate::support::installation::shared;
use crate::support::people::{TestUser, two_users};
use crate::support::sandbox::{Sandbox, finish, refused};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

/// All attributes of a job that a user sees.
fn attributes_for(person: &TestUser, sandbox: &Sandbox, id: &str) -> Value {
    let done = person.run(sandbox, "qstat", &["-x", "-f", "-F", "json", id]);
    let document: Value =
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    document["Jobs"][id].clone()
}

#[test]
fn a_job_runs_as_its_owner_without_extra_rights() {
    let Some(people) = two_users("own") else {
        return;
    };
    let sandbox = shared("");
    let script =
        "id -u; id -g; id -G; sed -n 's/^\\(NoNewPrivs\\|CapEff\\):.//p' /proc/self/status; umask
        echo $HOME $USER; stat -c '%a %u' $TMPDIR; echo $TMPDIR; touch made; sleep 0.2";
    let ids = people
        .each_ref()
        .map(|person| person.submit(&sandbox, &["-N", "who"], script));
    for (person, id) in people.iter().zip(&ids) {
        let job = sandbox.ended(id);
        assert_eq!(job["Exit_status"], 0, "{job}");
        let number = id.split('.').next().unwrap();
        let out = person.read(&format!("who.o{number}"));
        let lines: Vec<&str> = out.lines().collect();
        let (uid, gid, other) = (person.uid.to_string(), person.gid.to_string(), person.other);
        assert_eq!(lines[..3], [&uid, &gid, &format!("{gid} {other}")], "{out}");
        let home = person.home().display().to_string();
        let rest = [
            "0000000000000000",
            "1",
            "0077",
            &format!("{home} {}", person.name),
            &format!("700 {uid}"),
        ];
        assert_eq!(lines[3..8], rest, "{out}");
        assert!(!Path::new(lines[8]).exists(), "TMPDIR is removed: {out}");
        for file in [
            format!("who.o{number}"),
            format!("who.e{number}"),
            "made".into(),
        ] {
            let found = fs::metadata(person.file(&file)).unwrap();
            assert_eq!(
                (found.uid(), found.gid(), found.mode() & 0o777),
                (person.uid, person.gid, 0o600),
                "{file}"
            );
        }
    }
}

#[test]
fn users_cannot_read_files_of_other_users_jobs() {
    let Some([ann, bob]) = two_users("read") else {
        return;
    };
    // A unique server name, so that no other test or test run has a TMPDIR of the same name.
    let sandbox = shared(&format!("name = \"reading{}\"\n", std::process::id()));
    let id = ann.submit(
        &sandbox,
        &["-v", "SECRET=env-secret"],
        "# script-secret\ntouch $TMPDIR/x; sleep 60",
    );
    let job = sandbox.running(&id);
    let number = id.split('.').next().unwrap();
    let home = sandbox.home().display().to_string();
    let script = format!("{home}/node/attempts/{number}.1/script");
    assert!(
        fs::read_to_string(&script)
            .unwrap()
            .contains("script-secret")
    );
    let closed = [
        format!("cat {script}"),
        format!("ls {home}/node/attempts"),
        format!("ls {home}/node/attempts/{number}.1"),
        format!("cat {home}/node/attempts/{number}.1/record"),
        format!("echo cancel 0 > {home}/node/attempts/{number}.1/orders"),
        format!("touch {home}/node/attempts/{number}.1/exit"),
        format!("ls {home}/node/tombstones"),
        format!("cat {home}/node/lock"),
        format!("cat {home}/node/building.lock"),
        format!("cat {home}/schedd.log"),
        format!("ls {home}/spool"),
        format!("cat {home}/spool/spool.db"),
        format!("cat {home}/spool/lock"),
        format!("cat /proc/{}/environ", job["session_id"]),
        format!("ls /var/tmp/pbs.{id}/ || ls /tmp/pbs.{id}/"),
        format!("ls {}", ann.home().display()),
        format!("kill -9 {}", job["session_id"]),
    ];
    for line in closed {
        let done = bob.shell(&sandbox, &line);
        assert!(
            done.code != 0
                && done.err.to_lowercase().contains("not permitted") | done.err.contains("denied"),
            "{line}: {done:?}"
        );
    }
    bob.shell(&sandbox, &format!("cat {home}/schedd.json")).ok();
    assert!(
        attributes_for(&ann, &sandbox, &id)
            .to_string()
            .contains("env-secret")
    );
    let shown = attributes_for(&bob, &sandbox, &id);
    assert_eq!(shown["job_state"], "R", "{shown}");
    assert!(
        shown["Variable_List"].is_null() && !shown.to_string().contains("secret"),
        "{shown}"
    );
    let list = bob.run(&sandbox, "qstat", &[]).ok();
    assert!(
        list.contains(&ann.name[..8]) && list.contains(" R "),
        "{list}"
    );
}

/// Serial numbers of the session keyrings in a `/proc/keys` text, which lists keys that its reader
/// possesses or owns.
fn session_keyrings(keys: &str) -> Vec<String> {
    let lines = keys
        .lines()
        .filter(|line| line.contains(" keyring ") && line.contains(" _ses"));
    lines
        .filter_map(|line| line.split_whitespace().next())
        .map(String::from)
        .collect()
}

/// Session keyrings, by file, of a notify program and of a job's script and task, each of which
/// saves its `/proc/keys`.
fn keyrings_of_programs(sandbox: &Sandbox, person: &TestUser) -> Vec<(&'static str, Vec<String>)> {
    let program = person.file("notify");
    fs::write(
        &program,
        "#!/bin/sh\ncd ${0%/*}; cat /proc/keys >new; mv new notify.keys\n",
    )
    .unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let notify = format!("notify={}", program.display());
    let script =
        "cat /proc/keys >job.keys; PATH=$PBS_O_PATH pbsdsh -- sh -c 'cat /proc/keys >~/task.keys'";
    let id = person.submit(sandbox, &["-W", &notify], script);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
    let files = ["job.keys", "task.keys", "notify.keys"];
    files
        .map(|file| (file, session_keyrings(&person.await_file(sandbox, file))))
        .into()
}

/// Keys in a session keyring are secrets of one user: tickets, tokens, file system keys.
#[test]
fn programs_of_two_users_share_no_session_keyring() {
    let Some([ann, bob]) = two_users("keyring") else {
        return;
    };
    let own = || session_keyrings(&fs::read_to_string("/proc/keys").unwrap_or_default());
    let before = own();
    // The daemons inherit this keyring. systemd also gives each service its own session keyring.
    lanai::sys::keyring::join_session().unwrap();
    let Some(inherited) = own().into_iter().find(|serial| !before.contains(serial)) else {
        println!("keyring: skipped: the kernel gives this process no session keyring");
        return;
    };
    let sandbox = shared("");
    let [anns, bobs] = [&ann, &bob].map(|person| keyrings_of_programs(&sandbox, person));
    for (file, serials) in anns.iter().chain(&bobs) {
        assert!(
            !serials.is_empty() && !serials.contains(&inherited),
            "{file}: {serials:?}"
        );
    }
    for (file, serials) in &anns {
        assert!(
            bobs.iter()
                .all(|(_, others)| others.iter().all(|serial| !serials.contains(serial))),
            "{file}"
        );
    }
}

#[test]
fn only_root_and_operators_change_another_users_job() {
    let Some([ann, bob]) = two_users("alter") else {
        return;
    };
    let sandbox = shared("");
    let queued = ann.submit(&sandbox, &["-h"], "true");
    let running = ann.submit(&sandbox, &[], "sleep 60");
    sandbox.running(&running);
    let before = [&queued, &running].map(|id| sandbox.job(id));
    for id in [&queued, &running] {
        for (program, arguments) in [
            ("qdel", &[][..]),
            ("qdel", &["-W", "force"]),
            ("qalter", &["-N", "other"]),
            ("qhold", &[]),
            ("qrls", &[]),
            ("qsig", &["-s", "KILL"]),
            ("qrerun", &[]),
        ] {
            let done = bob.run(&sandbox, program, &[arguments, &[id.as_str()]].concat());
            refused(done, 159, "Unauthorized Request");
        }
    }
    refused(
        ann.run(&sandbox, "qhold", &["-h", "s", &queued]),
        159,
        "Unauthorized Request",
    );
    let stopped = bob.run(&sandbox, "schedd", &["--stop"]);
    assert!(stopped.code != 0, "{stopped:?}");
    assert_eq!([&queued, &running].map(|id| sandbox.job(id)), before);
    sandbox.run("qhold", &["-h", "s", &queued]).ok();
    refused(
        ann.run(&sandbox, "qrls", &["-h", "s", &queued]),
        159,
        "Unauthorized Request",
    );
    sandbox.run("qdel", &[&running]).ok();
    assert_ne!(sandbox.ended(&running)["Exit_status"], 0);
    let log = sandbox.log();
    for (command, id) in [("qhold", &queued), ("qdel", &running)] {
        let line = format!(
            "{command} of job {id} (owner {}) at request of root@",
            ann.name
        );
        assert!(log.contains(&line), "{line}: {log}");
    }
    let line = format!(
        "job {running} ended: user {}, queue workq, nodes ",
        ann.name
    );
    assert!(log.contains(&line), "{line}: {log}");

    let with_operator = shared(&format!("operators = [\"{}\"]\n", bob.name));
    let id = ann.submit(&with_operator, &[], "sleep 60");
    with_operator.running(&id);
    assert!(attributes_for(&bob, &with_operator, &id)["Variable_List"].is_object());
    bob.run(&with_operator, "qdel", &[&id]).ok();
    with_operator.ended(&id);
}

#[test]
fn jobs_of_root_and_of_users_below_min_uid_are_refused() {
    let Some([ann, bob]) = two_users("uid") else {
        return;
    };
    let sandbox = shared(&format!("min_uid = {}\n", ann.uid.max(bob.uid)));
    let (low, high) = if ann.uid < bob.uid {
        (&ann, &bob)
    } else {
        (&bob, &ann)
    };
    refused(
        sandbox.run("qsub", &["--", "true"]),
        175,
        "Bad UID for job execution",
    );
    refused(
        low.run(&sandbox, "qsub", &["--", "true"]),
        175,
        "Bad UID for job execution",
    );
    let id = high.run(&sandbox, "qsub", &["--", "true"]).line();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

/// Submits a job that cannot start; returns its comment.
fn comment(person: &TestUser, sandbox: &Sandbox, arguments: &[&str]) -> String {
    let id = person.submit(sandbox, arguments, "echo overwritten");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 127, "{job}");
    job["comment"].as_str().unwrap_or_default().to_string()
}

#[test]
fn output_is_written_only_where_the_job_owner_may_write() {
    let Some([ann, bob]) = two_users("out") else {
        return;
    };
    let sandbox = shared("");
    // Bob's home is accessible, so that only the modes of his files protect them.
    fs::set_permissions(bob.home(), Permissions::from_mode(0o755)).unwrap();
    fs::write(bob.file("diary"), "kept").unwrap();
    fs::create_dir(bob.file("box")).unwrap();
    for name in ["diary", "box"] {
        std::os::unix::fs::chown(bob.file(name), Some(bob.uid), Some(bob.gid)).unwrap();
    }
    symlink(bob.file("diary"), ann.file("trap")).unwrap();
    let roots = sandbox.file("roots");
    fs::write(&roots, "kept").unwrap();
    symlink(&roots, ann.file("root-trap")).unwrap();
    ann.shell(&sandbox, "mkfifo fifo").ok();
    let diary = bob.file("diary").display().to_string();
    let inside = format!("{}/", bob.file("box").display());
    let new = bob.file("box/new").display().to_string();
    for (place, why) in [
        ("trap", "Permission denied"),
        ("root-trap", "Permission denied"),
        (&diary, "Permission denied"),
        (&inside, "Permission denied"),
        (&new, "Permission denied"),
        ("fifo", "No such device or address"),
        ("no/such/folder/out", "No such file or directory"),
    ] {
        for option in ["-o", "-e"] {
            let id = ann.submit(
                &sandbox,
                &["-N", "kept", option, place],
                "echo text; echo text >&2",
            );
            let job = sandbox.ended(&id);
            let message = job["comment"].as_str().unwrap_or_default();
            assert_eq!(job["Exit_status"], 0, "{job}");
            assert!(
                message.contains(why) && message.contains(place.trim_end_matches('/')),
                "{place}: {message}"
            );
            let name = format!("kept.{}{}", &option[1..], id.split('.').next().unwrap());
            assert_eq!(ann.read(&name), "text\n", "{message}");
        }
    }
    assert_eq!(bob.read("diary"), "kept");
    assert_eq!(fs::read_dir(bob.file("box")).unwrap().count(), 0);
    assert_eq!(sandbox.read("roots"), "kept");
}

/// Sets `fs.protected_symlinks`, the default of distributions: users do not follow other users'
/// links in directories like /tmp. Restores the previous value on drop.
struct ProtectedSymlinks {
    before: String,
}

impl ProtectedSymlinks {
    const KEY: &str = "/proc/sys/fs/protected_symlinks";

    fn set() -> Option<ProtectedSymlinks> {
        let before = fs::read_to_string(Self::KEY).ok()?;
        fs::write(Self::KEY, "1").ok()?;
        Some(ProtectedSymlinks { before })
    }
}

impl Drop for ProtectedSymlinks {
    fn drop(&mut self) {
        let _ = fs::write(Self::KEY, &self.before);
    }
}

#[test]
fn output_follows_only_links_that_the_kernel_follows_for_the_owner() {
    let Some([ann, bob]) = two_users("link") else {
        return;
    };
    let Some(_protected) = ProtectedSymlinks::set() else {
        println!("link: skipped: fs.protected_symlinks cannot be set");
        return;
    };
    let sandbox = shared("");
    let sticky = sandbox.file("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
    ann.shell(&sandbox, "echo kept >precious").ok();
    // The second link has the name of job 3's output.
    let links = [
        ("trap", "precious"),
        ("named.o3", "precious"),
        ("new", "created"),
    ];
    for (link, target) in links {
        let line = format!(
            "ln -s {} {}",
            ann.file(target).display(),
            sticky.join(link).display()
        );
        bob.shell(&sandbox, &line).ok();
    }
    let denied = ann.shell(&sandbox, &format!("cat {}", sticky.join("trap").display()));
    assert!(
        denied.code != 0 && denied.err.contains("Permission denied"),
        "{denied:?}"
    );
    for link in ["trap", "new"] {
        let id = ann.submit(
            &sandbox,
            &["-j", "oe", "-o", sticky.join(link).to_str().unwrap()],
            "echo output",
        );
        let job = sandbox.ended(&id);
        let comment = job["comment"].as_str().unwrap_or_default();
        assert!(comment.contains("Permission denied"), "{link}: {job:#}");
        assert_eq!(
            ann.read(&format!("job.sh.o{}", id.split('.').next().unwrap())),
            "output\n"
        );
    }
    let mut submit = ann.command(&sandbox, "qsub");
    submit
        .current_dir(&sticky)
        .args(["-N", "named", "-j", "oe", "--", "/bin/echo", "output"]);
    let id = finish(submit.output().unwrap()).line();
    assert!(id.starts_with("3."), "{id}");
    sandbox.ended(&id);
    assert_eq!(
        (ann.read("precious"), ann.file("created").exists()),
        ("kept\n".to_string(), false)
    );
    assert_eq!(ann.read("named.o3"), "output\n");

    // The owner's own links are followed in every directory.
    for (link, target) in [("own", "precious"), ("own-new", "created")] {
        let link = sticky.join(link);
        ann.shell(
            &sandbox,
            &format!("ln -s $HOME/{target} {}", link.display()),
        )
        .ok();
        let id = ann.submit(
            &sandbox,
            &["-j", "oe", "-o", link.to_str().unwrap()],
            "echo output",
        );
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(ann.read(target), "output\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}

#[test]
fn an_inaccessible_working_directory_is_reported() {
    let Some([ann, bob]) = two_users("dir") else {
        return;
    };
    let sandbox = shared("");
    let closed = bob.home().display().to_string();
    let message = comment(
        &ann,
        &sandbox,
        &["-d", &closed, "-o", "/dev/null", "-e", "/dev/null"],
    );
    assert!(
        message.contains("Permission denied") && message.contains(&closed),
        "{message}"
    );
}

#[test]
fn a_fifo_with_a_reader_receives_the_output() {
    let Some([ann, _]) = two_users("fifo") else {
        return;
    };
    let sandbox = shared("");
    ann.shell(&sandbox, "mkfifo fifo").ok();
    let fifo = fs::File::options()
        .read(true)
        .write(true)
        .open(ann.file("fifo"))
        .unwrap();
    let id = ann.submit(&sandbox, &["-o", "fifo"], "echo through");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    let mut buffer = [0; 8];
    std::io::Read::read_exact(&mut &fifo, &mut buffer).unwrap();
    assert_eq!(&buffer, b"through\n");
}

#[test]
fn no_user_impersonates_schedd_or_noded() {
    let Some([ann, bob]) = two_users("speak") else {
        return;
    };
    let sandbox = shared("");
    let id = ann.submit(&sandbox, &[], "sleep 60");
    sandbox.running(&id);
    let socket = sandbox.home().join("noded.sock");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    assert_eq!(
        fs::metadata(sandbox.home().join("schedd.sock"))
            .unwrap()
            .mode()
            & 0o777,
        0o666
    );
    UnixStream::connect(&socket).unwrap();
    for program in ["schedd", "noded"] {
        let done = bob.run(&sandbox, program, &[]);
        assert!(done.code != 0 && done.err.contains("denied"), "{done:?}");
    }

    // The record of Bob's schedd, with his socket, lies in a directory that is not his. Clients of
    // that directory must not trust it.
    let bobs = bob.home().join("own");
    open_home(&bob);
    bob.shell(
        &sandbox,
        "mkdir -m 755 own && echo '[server]\nshared = true' > own/lanai.toml",
    )
    .ok();
    let mut serve = bob.command(&sandbox, "schedd");
    finish(serve.env("LANAI_HOME", &bobs).output().unwrap()).ok();
    let trap = sandbox.work().with_file_name("trap");
    fs::create_dir(&trap).unwrap();
    fs::copy(bobs.join("schedd.json"), trap.join("schedd.json")).unwrap();
    fs::create_dir(trap.join("spool")).unwrap();
    fs::set_permissions(&trap, Permissions::from_mode(0o755)).unwrap();
    let mut submit = ann.command(&sandbox, "qsub");
    let done = finish(
        submit
            .env("LANAI_HOME", &trap)
            .args(["--", "true"])
            .output()
            .unwrap(),
    );
    let mut stop = bob.command(&sandbox, "schedd");
    finish(
        stop.env("LANAI_HOME", &bobs)
            .arg("--stop")
            .output()
            .unwrap(),
    )
    .ok();
    bob.end_all();
    assert!(
        done.code != 0
            && done
                .err
                .contains(&format!("served by uid {}, which is not trusted", bob.uid)),
        "{done:?}"
    );
}

fn open_home(bob: &TestUser) {
    fs::set_permissions(bob.home(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_inherited_socket_is_served_and_not_removed() {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join("schedd.sock");
    let socket = UnixListener::bind(&path).unwrap();
    // This command starts before schedd and waits for it.
    let mut early = sandbox.command("qsub");
    let mut early = early
        .args(["--", "true"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Shells accept only single-digit descriptors, and this process may have many open, so the
    // socket is passed as standard input.
    let line =
        "exec 3<&0 0</dev/null && LISTEN_PID=$$ LISTEN_FDS=1 exec schedd --foreground 2>schedd.log";
    let plain = sandbox.command("schedd");
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell
        .args(["-c", line])
        .current_dir(sandbox.home())
        .stdin(std::os::fd::OwnedFd::from(socket));
    let mut schedd = shell.spawn().unwrap();
    // This closes this process's own descriptor of the socket.
    drop(shell);
    let ended = (0..4000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        early.try_wait().unwrap().is_some()
    });
    let _ = early.kill();
    let early = finish(early.wait_with_output().unwrap());
    assert!(ended, "the command that started before schedd got no reply");
    let id = early.line();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    sandbox.run("schedd", &["--stop"]).ok();
    schedd.wait().unwrap();
    assert!(path.exists());
}

#[test]
fn a_slow_reader_gets_the_complete_listing() {
    let Some(people) = two_users("slow") else {
        return;
    };
    let sandbox = shared("");
    people[0].submit(&sandbox, &["-h", "-J", "1-30000", "-N", "big"], "true\n");
    people[0].submit(&sandbox, &["-h", "-N", "plain"], "true\n");
    let mut child = people[1]
        .command(&sandbox, "qstat")
        .arg("-t")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Longer than qstat waits before it closes its connection.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let ids: Vec<String> = lines
        .skip(2)
        .map(|line| line.split('.').next().unwrap().to_string())
        .collect();
    assert!(child.wait().unwrap().success());
    let mut expected = vec!["1[]".to_string()];
    expected.extend((1..=30_000).map(|index| format!("1[{index}]")));
    expected.push("2".into());
    assert!(ids == expected, "{} ids of {}", ids.len(), expected.len());
}
