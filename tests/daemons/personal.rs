//! Personal mode: the first `qsub` starts the daemons, they exit when idle, and they hold nothing
//! of the user's session.

use crate::support::sandbox::{Sandbox, kill};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

const EXITS_SOON: &str = "[server]\nidle = \"1s\"\n";

/// Waits until no daemon of the sandbox runs.
fn until_daemons_exit(sandbox: &Sandbox) {
    sandbox.until("the exit of the daemons", || {
        let daemons: Vec<i32> = ["schedd", "noded"]
            .into_iter()
            .flat_map(|name| sandbox.pids_of(name))
            .collect();
        daemons.is_empty().then_some(())
    });
}

#[test]
fn daemons_started_by_qsub_hold_no_descriptor_of_the_shell() {
    let sandbox = Sandbox::new();
    sandbox.script("job.sh", "sleep 60");
    // `cat` ends when no process holds the other end of descriptor 7 any more.
    let script = "rm -f fifo; mkfifo fifo; cat fifo > /dev/null & cat=$!\n\
                  exec 7> fifo; id=$(qsub job.sh) || exit 1; exec 7>&-; \n\
                  (sleep 30; kill $cat) > /dev/null 2>&1 & timer=$!; wait $cat || exit 2; kill $timer; echo $id";
    let started = Instant::now();
    let id = sandbox.shell(script).line();
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    sandbox.running(&id);
    for (pid, name) in sandbox.processes() {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let files: Vec<_> = open
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .collect();
        assert!(
            !files.iter().any(|file| file.ends_with("fifo")),
            "{name}: {files:?}"
        );
    }
}

#[test]
fn the_daemons_run_outside_the_callers_session() {
    let sandbox = Sandbox::new();
    sandbox.submit(&[], "true\n");
    let session = |pid: i32| nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid))).unwrap();
    let own = nix::unistd::getsid(None).unwrap();
    sandbox.until("noded", || sandbox.pid_of("noded"));
    for name in ["schedd", "noded"] {
        assert_ne!(session(sandbox.pid_of(name).unwrap()), own, "{name}");
    }
}

#[test]
fn ten_concurrent_first_qsubs_start_one_schedd_and_one_noded() {
    let sandbox = Sandbox::new();
    sandbox.script("job.sh", "true");
    let submit = || {
        sandbox
            .command("qsub")
            .arg("job.sh")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let children: Vec<_> = (0..10).map(|_| submit().unwrap()).collect();
    let outputs = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap());
    let ids: BTreeSet<String> = outputs
        .map(|output| {
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_string()
        })
        .collect();
    assert_eq!(ids.len(), 10, "{ids:?}");
    for id in &ids {
        assert_eq!(sandbox.ended(id)["Exit_status"], 0);
    }
    assert_eq!(
        sandbox.pids_of("schedd").len(),
        1,
        "{:?}",
        sandbox.processes()
    );
    assert_eq!(
        sandbox.pids_of("noded").len(),
        1,
        "{:?}",
        sandbox.processes()
    );
}

#[test]
fn idle_daemons_exit_and_old_jobs_are_kept() {
    let sandbox = Sandbox::configured(EXITS_SOON);
    let first = sandbox.submit(&[], "exit 4\n");
    assert_eq!(sandbox.ended(&first)["Exit_status"], 4);
    until_daemons_exit(&sandbox);
    assert_eq!(sandbox.processes(), [], "no process may remain");
    assert!(
        !sandbox.home().join("schedd.sock").exists()
            && !sandbox.home().join("schedd.json").exists()
    );
    assert_eq!(
        sandbox.job(&first)["Exit_status"],
        4,
        "qstat must work without schedd"
    );
    let second = sandbox.submit(&[], "exit 5\n");
    assert_ne!(first, second);
    assert_eq!(sandbox.ended(&second)["Exit_status"], 5);
    assert_eq!(sandbox.job(&first)["Exit_status"], 4);
}

#[test]
fn daemons_do_not_exit_while_a_job_runs() {
    let sandbox = Sandbox::configured(EXITS_SOON);
    let id = sandbox.submit(&[], "sleep 3; exit 6\n");
    sandbox.running(&id);
    let daemon = sandbox.pid_of("schedd");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(sandbox.pid_of("schedd"), daemon);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 6);
}

#[test]
fn a_qsub_during_daemon_shutdown_succeeds() {
    let sandbox = Sandbox::configured(EXITS_SOON);
    for round in 0..4 {
        sandbox.submit(&["-h"], "true\n");
        // The daemons exit after one idle second, checked once a second, so their exit falls into
        // the following loop.
        std::thread::sleep(Duration::from_millis(900));
        for _ in 0..6 {
            let done = sandbox.run_with_input("qsub", &["-h"], "true\n");
            assert_eq!(done.code, 0, "round {round}: {done:?}");
            std::thread::sleep(Duration::from_millis(37 * round));
        }
        let (stop, submit) = std::thread::scope(|scope| {
            let stop = scope.spawn(|| sandbox.run("schedd", &["--stop"]));
            let submit = scope.spawn(|| sandbox.run_with_input("qsub", &["-h"], "true\n"));
            (stop.join().unwrap(), submit.join().unwrap())
        });
        assert_eq!((stop.code, submit.code), (0, 0), "{stop:?} {submit:?}");
    }
}

#[test]
fn status_shows_whether_a_schedd_runs_and_its_jobs() {
    let sandbox = Sandbox::new();
    let none = sandbox.run("schedd", &["--status"]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("no schedd is running here"), "{none:?}");
    let id = sandbox.submit(&[], "sleep 60\n");
    sandbox.submit(&["-h"], "true\n");
    sandbox.running(&id);
    let status = sandbox.run("schedd", &["--status"]).ok();
    let pid = sandbox.pid_of("schedd").unwrap();
    for part in [
        format!("process {pid}"),
        "1 H, 1 R".to_string(),
        sandbox.home().display().to_string(),
    ] {
        assert!(status.contains(&part), "{part}: {status}");
    }
    assert!(
        status.contains(" up\n") || status.trim_end().ends_with(" up"),
        "{status}"
    );
}

#[test]
fn a_running_job_outlives_stopped_daemons_and_its_end_is_recorded() {
    let sandbox = Sandbox::new();
    let short = sandbox.submit(
        &["-N", "short"],
        "while [ ! -e go ]; do sleep 0.05; done; exit 11\n",
    );
    let long = sandbox.submit(
        &["-N", "long"],
        "while [ ! -e on ]; do sleep 0.05; done; exit 12\n",
    );
    sandbox.running(&short);
    sandbox.running(&long);
    assert_eq!(sandbox.run("schedd", &["--stop"]).code, 0);
    assert_eq!(
        sandbox.pids_of("schedd"),
        [] as [i32; 0],
        "--stop must return after the exit of schedd"
    );
    until_daemons_exit(&sandbox);
    assert_eq!(sandbox.state(&long), "R");
    fs::write(sandbox.file("go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let next = sandbox.submit(&[], "exit 13\n");
    assert_eq!(
        sandbox.ended(&short)["Exit_status"],
        11,
        "the job ended while no daemon ran"
    );
    assert_eq!(sandbox.ended(&next)["Exit_status"], 13);
    assert_eq!(sandbox.state(&long), "R");
    fs::write(sandbox.file("on"), "").unwrap();
    let job = sandbox.ended(&long);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&12.into(), &1.into())
    );
    assert_eq!(sandbox.run("schedd", &["--stop"]).code, 0);
    let again = sandbox.run("schedd", &["--stop"]);
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "no schedd is running here\n")
    );
}

#[test]
fn a_second_schedd_on_the_same_spool_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.submit(&["-h"], "true\n");
    let second = sandbox.run("schedd", &["--foreground"]);
    assert_eq!(second.code, 1);
    assert!(
        second.err.contains("another schedd holds the spool"),
        "{second:?}"
    );
    assert!(
        second
            .err
            .contains(&sandbox.home().join("spool").display().to_string()),
        "{second:?}"
    );
    assert_eq!(sandbox.pids_of("schedd").len(), 1);
    // Starting schedd where one already runs is not an error.
    assert_eq!(sandbox.run("schedd", &[]).code, 0);
}

#[test]
fn a_home_with_a_long_path_works() {
    let mut sandbox = Sandbox::new();
    let deep = sandbox.home().join("a".repeat(100)).join("b".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    fs::rename(sandbox.home().join("lanai.toml"), deep.join("lanai.toml")).unwrap();
    sandbox.set("LANAI_HOME", deep.display());
    let id = sandbox.submit(&[], "exit 2\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 2);
    assert!(deep.join("schedd.sock").exists());
    assert!(sandbox.run("schedd", &["--status"]).ok().contains(" up"));
}

#[test]
fn a_relative_home_is_relative_to_the_callers_directory() {
    let mut sandbox = Sandbox::new();
    fs::rename(sandbox.home(), sandbox.file("here")).unwrap();
    sandbox.set("LANAI_HOME", "here");
    let id = sandbox.submit(&[], "exit 2\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 2);
    assert!(sandbox.file("here").join("spool").is_dir());
}

#[test]
fn a_removed_socket_is_created_again() {
    let sandbox = Sandbox::new();
    let running = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&running);
    for name in ["schedd.sock", "noded.sock"] {
        fs::remove_file(sandbox.home().join(name)).unwrap();
    }
    sandbox.until("schedd's socket", || {
        sandbox.home().join("schedd.sock").exists().then_some(())
    });
    let id = sandbox.submit(&[], "exit 3\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 3);
    assert_eq!(sandbox.pids_of("schedd").len(), 1);
}

/// A sandbox without LANAI_HOME, its runtime directory and its state directory: sockets are in the
/// former and the spool is in the latter.
fn sandbox_with_xdg_directories() -> (Sandbox, PathBuf, PathBuf) {
    let mut sandbox = Sandbox::new();
    sandbox.unset("LANAI_HOME");
    let (runtime, state) = (sandbox.file("run"), sandbox.file("state"));
    fs::create_dir(&runtime).unwrap();
    sandbox.set("XDG_RUNTIME_DIR", runtime.display());
    sandbox.set("XDG_STATE_HOME", state.display());
    sandbox.set("XDG_CONFIG_HOME", sandbox.file("config").display());
    fs::create_dir(sandbox.file("config")).unwrap();
    fs::rename(sandbox.home(), sandbox.file("config").join("lanai")).unwrap();
    (sandbox, runtime, state)
}

#[test]
fn a_removed_runtime_directory_is_created_again() {
    let (sandbox, runtime, state) = sandbox_with_xdg_directories();
    let running = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&running);
    assert!(runtime.join("lanai/schedd.sock").exists() && state.join("lanai/spool").exists());
    fs::remove_dir_all(runtime.join("lanai")).unwrap();
    // Submit at once: a client without a socket finds the lock held and waits for the new socket.
    let id = sandbox.submit(&[], "exit 3\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 3);
    assert_eq!(
        sandbox.pids_of("schedd").len(),
        1,
        "{:?}",
        sandbox.processes()
    );
    fs::remove_dir_all(&runtime).unwrap();
    let id = sandbox.submit(&[], "exit 4\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 4);
    assert_eq!(
        sandbox.pids_of("schedd").len(),
        1,
        "{:?}",
        sandbox.processes()
    );
}

/// At logout the runtime directory is removed, and its parent belongs to root, so that the daemons
/// cannot create it again.
#[test]
fn commands_reach_schedd_after_a_logout() {
    let (mut sandbox, runtime, state) = sandbox_with_xdg_directories();
    let running = sandbox.submit(&[], "sleep 3; exit 5\n");
    sandbox.running(&running);
    fs::remove_dir_all(&runtime).unwrap();
    // No directory can be created below a file, not even by root.
    fs::write(&runtime, "").unwrap();
    sandbox.until("schedd's socket in the state directory", || {
        state.join("lanai/schedd.sock").exists().then_some(())
    });
    sandbox.unset("XDG_RUNTIME_DIR");
    let id = sandbox.submit(&[], "exit 4\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 4);
    assert_eq!(sandbox.ended(&running)["Exit_status"], 5);
    assert_eq!(sandbox.pids_of("schedd").len(), 1);
    assert_eq!(sandbox.pids_of("noded").len(), 1);
}

#[test]
fn a_network_file_system_is_refused_with_a_hint() {
    let sandbox = Sandbox::new().with("LANAI_TEST_NETWORK_FS", 1);
    // A command additionally reports that it has found no server.
    let done = [
        (sandbox.run_with_input("qsub", &[], "true\n"), 2),
        (sandbox.run("schedd", &["--foreground"]), 1),
    ];
    for (done, lines) in done {
        assert_ne!(done.code, 0);
        for part in ["network file system (nfs)", "export LANAI_HOME=/"] {
            assert!(done.err.contains(part), "{part}: {done:?}");
        }
        assert_eq!(done.err.lines().count(), lines, "{done:?}");
    }
    sandbox.until("the end of all processes", || {
        sandbox.processes().is_empty().then_some(())
    });
}

#[test]
fn the_spool_of_another_machine_is_refused_with_a_hint() {
    let mut sandbox = Sandbox::new().with("LANAI_TEST_MACHINE", "one");
    sandbox.submit(&["-h"], "true\n");
    sandbox.kill("schedd");
    sandbox.set("LANAI_TEST_MACHINE", "two");
    let refused = sandbox.run_with_input("qsub", &[], "true\n");
    assert_ne!(refused.code, 0);
    for part in [
        "is in use by schedd on host",
        "export LANAI_HOME=/",
        "remove",
    ] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    assert!(
        refused
            .err
            .contains(&sandbox.home().join("schedd.json").display().to_string()),
        "{refused:?}"
    );
    sandbox.set("LANAI_TEST_MACHINE", "one");
    sandbox.submit(&["-h"], "true\n");
    assert_eq!(sandbox.run("schedd", &["--stop"]).code, 0);
    sandbox.set("LANAI_TEST_MACHINE", "two");
    sandbox.submit(&["-h"], "true\n");
}

#[test]
fn qstat_works_without_schedd_and_prints_nothing_without_jobs() {
    let sandbox = Sandbox::new();
    for options in [&[][..], &["-a"], &["-x"]] {
        let done = sandbox.run("qstat", options);
        assert_eq!(
            (done.code, done.out.as_str(), done.err.as_str()),
            (0, "", ""),
            "{options:?}"
        );
    }
    let done = sandbox.run("qselect", &[]);
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (0, "", "")
    );
    assert_eq!(sandbox.processes(), [], "a query must start no daemon");
    let id = sandbox.submit(&["-h", "-N", "kept"], "true\n");
    assert_eq!(sandbox.run("schedd", &["--stop"]).code, 0);
    until_daemons_exit(&sandbox);
    assert!(sandbox.run("qstat", &[]).ok().contains("kept"));
    assert_eq!(sandbox.state(&id), "H");
    assert_eq!(
        sandbox.pid_of("schedd"),
        None,
        "a query must start no daemon"
    );
}

#[test]
fn a_server_that_never_ran_has_its_configured_name() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    for (program, arguments) in [
        ("qstat", &["999"][..]),
        ("qstat", &["-f", "-F", "json", "999"]),
    ] {
        let done = sandbox.run(program, arguments);
        assert_eq!(
            (done.code, done.err.as_str()),
            (153, "qstat: Unknown Job Id 999.head\n"),
            "{done:?}"
        );
        assert!(
            done.out.is_empty() || done.out.contains("\"pbs_server\":\t\"head\""),
            "{done:?}"
        );
    }
    assert_eq!(sandbox.processes(), [], "a query must start no daemon");
    fs::write(sandbox.home().join("spool"), "not a directory").unwrap();
    let done = sandbox.run_with_input("qsub", &[], "true\n");
    assert!(
        done.err
            .ends_with("\nqsub: cannot connect to server head (errno=15010)\n"),
        "{done:?}"
    );
    let done = sandbox.run("qstat", &["-f", "-F", "json"]);
    assert!(
        done.code == 255 && done.out.contains("\"pbs_server\":\t\"head\""),
        "{done:?}"
    );
}

#[test]
fn a_qsub_that_starts_schedd_reports_an_invalid_configuration() {
    let sandbox = Sandbox::configured("[server]\nidel = \"1s\"\n");
    let done = sandbox.run_with_input("qsub", &[], "true\n");
    assert_eq!(done.code, 162, "{done:?}");
    for part in ["lanai.toml", "idel", "idle"] {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn stop_ends_a_schedd_that_does_not_answer() {
    let sandbox = Sandbox::new();
    sandbox.submit(&["-h"], "true\n");
    // The socket no longer answers, as with a schedd of a different version.
    let socket = sandbox.home().join("schedd.sock");
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "").unwrap();
    let done = sandbox.run("schedd", &["--stop"]);
    assert_eq!(done.code, 0, "{done:?}");
    until_daemons_exit(&sandbox);
}

#[test]
fn a_new_schedd_waits_for_the_end_of_a_hanging_one() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-h"], "true\n");
    // The stopped schedd still listens and holds the spool, but never answers.
    let hanging = sandbox.pid_of("schedd").unwrap();
    kill(hanging, 19);
    let mut new = sandbox
        .command("schedd")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(new.try_wait().unwrap(), None, "the new schedd must wait");
    kill(hanging, 9);
    assert!(new.wait().unwrap().success());
    assert!(std::os::unix::net::UnixStream::connect(sandbox.home().join("schedd.sock")).is_ok());
    assert_eq!(sandbox.state(&id), "H");
}
