//! `qsub -I` from the user's point of view, on a pseudo-terminal.

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, kill};
use crate::support::terminal::Terminal;
use lanai::model::job_id::JobId;
use lanai::wire::client::Client;
use lanai::wire::frame::{self, FrameError};
use lanai::wire::message::{ClientRequest, Reply};
use lanai::wire::order::{NodeReport, ScheddOrder};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

/// A node with two processors and a short grace period.
const SMALL: &str = "[launch]\ngrace = \"2s\"\n[[node]]\nname = \"n\"\nncpus = 2\n";

#[test]
fn an_interactive_shell_has_the_window_size_and_gives_qsub_its_exit_code() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut user, id) = Terminal::at_shell(&sandbox, &["-l", "ncpus=1"]);
    user.type_and_expect("stty size", "24 80\r\n");
    user.type_and_expect(
        "echo $PBS_ENVIRONMENT/$ENVIRONMENT/$TERM/$PBS_JOBID",
        &format!("PBS_INTERACTIVE//vt52/{id}\r\n"),
    );
    let own = user.terminal.display().to_string();
    user.type_and_expect("tty", "/dev/pts/");
    assert!(
        !user.screen.trim_end().ends_with(&own),
        "the job has its own terminal"
    );
    user.resize(50, 132);
    user.type_and_expect("sleep 0.2; stty size", "50 132\r\n");
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["interactive"], &job["Rerunable"]),
        (&"True".into(), &"False".into())
    );
    assert!(
        user.settings().contains("-echo "),
        "the user's terminal is in raw mode"
    );
    user.type_keys("exit 7\r");
    user.expect_text(&format!("\r\nqsub: job {id} completed\r\n"));
    assert_eq!(user.wait_for_exit(), 7);
    assert!(
        !user.settings().contains("-echo "),
        "the user's terminal settings are restored"
    );
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["Exit_status"]),
        (&"F".into(), &7.into())
    );
    let files = std::fs::read_dir(sandbox.work()).unwrap().count();
    assert_eq!(files, 0, "an interactive job has no output files");
    let again = sandbox.run("qalter", &["--retry", &id]);
    assert!(
        again.code == 168 && again.err.contains("invalid for state"),
        "an interactive job cannot be retried: {again:?}"
    );
}

#[test]
fn control_c_interrupts_the_command_but_not_the_shell() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut user, _) = Terminal::at_shell(&sandbox, &[]);
    user.type_keys("sleep 600; echo slept\r");
    user.expect_text("echo slept\r\n");
    std::thread::sleep(Duration::from_millis(300));
    user.type_keys("\x03");
    user.expect_prompt();
    user.type_and_expect("echo alive", "alive\r\n");
    user.type_keys("exit\r");
    assert!(
        user.wait_for_exit() == 0 || user.wait_for_exit() == 130,
        "dash may exit with the status of the interrupted sleep"
    );
}

#[test]
fn a_waiting_interactive_qsub_shows_the_reason_and_can_be_canceled() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut first, held) = Terminal::at_shell(&sandbox, &["-l", "ncpus=2"]);
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    user.expect_text("Insufficient amount of resource: ncpus (R: 1 A: 0 T: 2)");
    user.type_keys("\x03");
    user.expect_text("Do you wish to terminate the job and exit (y|[n])? ");
    user.type_keys("\r");
    user.expect_text("Insufficient amount");
    user.type_keys("\x03");
    user.expect_text("Do you wish to terminate the job and exit (y|[n])? ");
    user.type_keys("y\r");
    user.expect_text("is being deleted");
    assert_eq!(user.wait_for_exit(), 1);
    let others = || {
        sandbox
            .run("qstat", &[])
            .ok()
            .lines()
            .skip(2)
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert!(
        others().iter().all(|line| line.starts_with(&held)),
        "{:?}",
        others()
    );
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    user.expect_text("Insufficient amount");
    kill(user.pid(), 15);
    user.expect_text("interrupted by signal 15");
    assert_eq!(user.wait_for_exit(), 2);
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    user.expect_text("Insufficient amount");
    first.type_keys("exit\r");
    user.expect_text(" ready\r\n\r\n");
    first.wait_for_exit();
}

#[test]
fn qsub_reports_that_its_queued_interactive_job_was_deleted() {
    let sandbox = Sandbox::configured(SMALL);
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-h"]);
    let id = user.expect_id();
    user.expect_text("Job held: u");
    sandbox.run("qdel", &[&id]).ok();
    user.expect_text(&format!("qsub: job {id} apparently deleted"));
    assert_eq!(user.wait_for_exit(), 1);
}

#[test]
fn qdel_tilde_dot_and_a_hangup_end_a_session() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut user, id) = Terminal::at_shell(&sandbox, &[]);
    sandbox.run("qdel", &[&id]).ok();
    user.expect_text(&format!("qsub: job {id} completed"));
    assert_eq!(user.wait_for_exit(), 271 % 256);
    let (mut user, id) = Terminal::at_shell(&sandbox, &[]);
    user.type_keys("\r~.");
    user.expect_text(&format!("qsub: job {id} completed"));
    assert_eq!(user.wait_for_exit(), 271 % 256);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    let (mut user, id) = Terminal::at_shell(&sandbox, &[]);
    user.keyboard = None;
    assert_eq!(user.wait_for_exit(), 129);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 257);
    let (mut user, id) = Terminal::at_shell(&sandbox, &[]);
    user.type_and_expect("trap '' HUP TERM; sleep 300 & echo set", "set\r\n");
    kill(user.pid(), 9);
    sandbox.ended(&id);
    assert!(
        sandbox.pids_of("sleep").is_empty(),
        "a process that ignores the hangup is killed"
    );
}

#[test]
fn a_session_and_its_exit_code_survive_killed_daemons() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut user, id) = Terminal::at_shell(&sandbox, &[]);
    sandbox.kill("schedd");
    user.type_and_expect("echo one", "one\r\n");
    sandbox.kill("noded");
    user.type_and_expect("echo two", "two\r\n");
    user.type_keys("exit 9\r");
    user.expect_text(&format!("qsub: job {id} completed"));
    assert_eq!(user.wait_for_exit(), 9);
    sandbox.run("qstat", &[]);
    sandbox.run("schedd", &["--status"]);
    let _ = sandbox.submit(&["-W", "block=true"], "true\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 9);
}

#[test]
fn a_waiting_interactive_qsub_survives_a_restart_of_schedd() {
    let sandbox = Sandbox::configured(SMALL);
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-h", "-S", "/bin/sh"]);
    let id = user.expect_id();
    user.expect_text("Job held: u");
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&id]).ok();
    user.expect_text(" ready\r\n\r\n");
    sandbox.kill("noded");
    user.type_keys("exit 3\r");
    user.expect_text("completed");
    assert_eq!(user.wait_for_exit(), 3);
}

#[test]
fn interactive_jobs_use_directives_and_run_commands_but_no_scripts() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.script("i.sh", "#PBS -N inter -A acc\necho never run");
    let (mut user, id) = Terminal::at_shell(&sandbox, &["i.sh"]);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["Job_Name"], &job["Account_Name"]),
        (&"inter".into(), &"acc".into())
    );
    user.type_keys("exit\r");
    user.wait_for_exit();
    assert!(!user.screen.contains("never run"));
    sandbox.script("d.sh", "#PBS -W interactive=true");
    let mut user = Terminal::runs(&sandbox, "qsub", &["-r", "y", "d.sh"]);
    user.expect_text("qsub (Warning): Interactive jobs will be treated as not rerunnable\r\n");
    user.expect_text("ready");
    user.type_keys("exit 5\r");
    assert_eq!(user.wait_for_exit(), 5);
    let mut user = Terminal::runs(
        &sandbox,
        "qsub",
        &["-I", "--", "/bin/sh", "-c", "stty size; exit 4"],
    );
    user.expect_text("24 80\r\n");
    assert_eq!(user.wait_for_exit(), 4);
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/no/such/program"]);
    user.expect_text("No such file or directory");
    assert_eq!(user.wait_for_exit(), 254);
}

#[test]
fn long_output_arrives_completely() {
    let sandbox = Sandbox::configured(SMALL);
    let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done";
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", count]);
    user.expect_text("line 20000\r\n");
    assert_eq!(user.wait_for_exit(), 0);
    let lines = user
        .screen
        .lines()
        .filter(|line| line.starts_with("line "))
        .count();
    assert_eq!(lines, 20000);
}

#[test]
fn an_interactive_job_without_a_terminal_is_refused() {
    let sandbox = Sandbox::new();
    for arguments in [&["-I"][..], &["-W", "interactive=true"]] {
        let done = sandbox.run("qsub", arguments);
        let expected =
            "qsub:\tstandard input and output must be a terminal for\n\tinteractive job submission\n".to_string();
        assert_eq!((done.code, done.err), (1, expected));
    }
    let done = sandbox.run("qsub", &["-I", "-X"]);
    assert!(
        done.code == 1
            && done
                .err
                .starts_with("qsub: DISPLAY not set\nqsub:\tstandard input"),
        "{done:?}"
    );
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "-J", "1-3"]);
    user.expect_text("interactive and array job submission cannot be used together");
    assert_eq!(user.wait_for_exit(), 2);
}

#[test]
fn in_a_shared_installation_only_the_owner_can_use_the_terminal() {
    let Some([ann, bob]) = two_users("tty") else {
        return;
    };
    let sandbox = shared("");
    let mut qsub = ann.command(&sandbox, "qsub");
    let mut user = Terminal::with(qsub.args(["-I", "-h", "-S", "/bin/sh"]));
    let id = user.expect_id();
    ann.run(&sandbox, "qrls", &[&id]).ok();
    user.expect_text("ready");
    user.expect_text("$ ");
    user.type_and_expect("stat -c %u $(tty)", &format!("{}\r\n", ann.uid));
    user.type_and_expect(
        "id -u; : > /dev/tty && echo mine",
        &format!("{}\r\nmine\r\n", ann.uid),
    );
    let number: u64 = id.split('.').next().unwrap().parse().unwrap();
    let home = lanai::sys::home::Home {
        state: sandbox.home(),
        runtime: sandbox.home(),
        config: sandbox.home().join("lanai.toml"),
        system: false,
    };
    let mut root = Client::reach(&home).unwrap();
    let (reply, passed) = root
        .call_for_descriptor(&ClientRequest::Attach(JobId::job(number)))
        .unwrap();
    assert!(
        passed.is_none() && matches!(&reply, Reply::Refused(why) if why.code == 15007),
        "{reply:?}"
    );
    let socket = sandbox
        .home()
        .join(format!("node/attempts/{number}.1/terminal"))
        .display()
        .to_string();
    let connect =
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'");
    for other in [&ann, &bob] {
        assert!(
            other
                .shell(&sandbox, &connect)
                .err
                .contains("Permission denied"),
            "only noded may connect to the shepherd"
        );
    }
    user.type_keys("exit 6\r");
    assert_eq!(user.wait_for_exit(), 6);
}

#[test]
fn a_stopped_qsub_does_not_delay_the_end_of_the_job() {
    let sandbox = Sandbox::configured(SMALL);
    let arguments = ["-I", "-l", "walltime=2", "--", "/bin/sh", "-c", "yes"];
    let mut user = Terminal::runs(&sandbox, "qsub", &arguments);
    user.expect_text("y\r\ny\r\n");
    kill(user.pid(), 19);
    let id = sandbox.run("qselect", &[]).line();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29);
    let walltime = job["resources_used"]["walltime"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(walltime.as_str() < "00:00:05", "{walltime}");
}

#[test]
fn long_input_arrives_completely_even_if_it_is_read_late() {
    let sandbox = Sandbox::configured(SMALL);
    let read = "stty -echo; echo set; sleep 1; while read line && [ \"$line\" != end ]; do echo $line; done > got";
    let mut user = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", read]);
    user.expect_text("set\r\n");
    let lines: Vec<String> = (0..5000)
        .map(|number| format!("line {number} of a long text"))
        .collect();
    let pasted = lines.join("\r") + "\rend\r";
    let mut left = pasted.as_bytes();
    while !left.is_empty() {
        match nix::unistd::write(user.keyboard.as_ref().unwrap(), left) {
            Ok(taken) => left = &left[taken..],
            Err(_) => user.read(),
        }
    }
    assert_eq!(user.wait_for_exit(), 0);
    assert_eq!(sandbox.read("got").lines().count(), 5000);
}

#[test]
fn a_suspended_qsub_releases_the_terminal_and_resumes() {
    let sandbox = Sandbox::configured(SMALL);
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "--noprofile", "-i"])
        .current_dir(sandbox.work())
        .env_clear();
    shell.envs(
        sandbox
            .command("qsub")
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mut user = Terminal::with(shell.env("PS1", "outer> ").env("LC_ALL", "C"));
    user.expect_text("outer> ");
    user.type_keys("qsub -I -S /bin/sh\r");
    user.expect_text("ready");
    user.expect_prompt();
    user.type_keys("~\x1a");
    user.expect_text("Stopped");
    user.expect_text("outer> ");
    user.type_and_expect("echo outside", "outside\r\n");
    user.type_keys("fg\r");
    user.expect_text("fg\r\n");
    user.type_and_expect("echo $PBS_ENVIRONMENT", "PBS_INTERACTIVE\r\n");
    user.type_keys("exit 8\r");
    user.expect_text("completed");
    user.expect_text("outer> ");
    user.type_and_expect("echo code $?", "code 8\r\n");
}

#[test]
fn an_attach_request_for_an_unknown_terminal_is_disconnected() {
    let sandbox = Sandbox::configured(SMALL);
    let id = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&id);
    let batch = id.split('.').next().unwrap().parse().unwrap();
    let attach = |epoch, number| ScheddOrder::Attach {
        epoch,
        job: JobId::job(number),
        attempt: 1,
    };
    let fenced =
        |reply: Result<NodeReport, FrameError>| matches!(reply, Ok(NodeReport::Fenced { .. }));
    for (order, expects_fenced) in [
        (attach(1 << 30, 999), false),
        (attach(1 << 30, batch), false),
        (attach(0, batch), true),
    ] {
        let mut noded = UnixStream::connect(sandbox.home().join("noded.sock")).unwrap();
        frame::write(&mut noded, &order).unwrap();
        assert_eq!(fenced(frame::read(&mut noded)), expects_fenced, "{order:?}");
        assert!(matches!(
            frame::read::<NodeReport>(&mut noded),
            Err(FrameError::Closed | FrameError::Io(_))
        ));
    }
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
}
