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
fn a_shell_on_the_jobs_terminal_has_the_persons_window_and_its_exit_code_is_qsubs() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Terminal::at_shell(&sandbox, &["-l", "ncpus=1"]);
    person.asks("stty size", "24 80\r\n");
    person.asks(
        "echo $PBS_ENVIRONMENT/$ENVIRONMENT/$TERM/$PBS_JOBID",
        &format!("PBS_INTERACTIVE//vt52/{id}\r\n"),
    );
    let own = person.terminal.display().to_string();
    person.asks("tty", "/dev/pts/");
    assert!(
        !person.screen.trim_end().ends_with(&own),
        "the job has a terminal of its own"
    );
    person.resizes(50, 132);
    person.asks("sleep 0.2; stty size", "50 132\r\n");
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["interactive"], &job["Rerunable"]),
        (&"True".into(), &"False".into())
    );
    assert!(
        person.settings().contains("-echo "),
        "the person's terminal is raw"
    );
    person.types("exit 7\r");
    person.sees(&format!("\r\nqsub: job {id} completed\r\n"));
    assert_eq!(person.ends(), 7);
    assert!(
        !person.settings().contains("-echo "),
        "the person's terminal is as it was"
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
        "nobody sits there: {again:?}"
    );
}

#[test]
fn control_c_interrupts_what_runs_and_the_shell_lives_on() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, _) = Terminal::at_shell(&sandbox, &[]);
    person.types("sleep 600; echo slept\r");
    person.sees("echo slept\r\n");
    std::thread::sleep(Duration::from_millis(300));
    person.types("\x03");
    person.expect_prompt();
    person.asks("echo alive", "alive\r\n");
    person.types("exit\r");
    assert!(
        person.ends() == 0 || person.ends() == 130,
        "dash tells of the sleep it was interrupted in"
    );
}

#[test]
fn a_waiting_interactive_qsub_shows_the_reason_and_may_be_cancelled() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut first, held) = Terminal::at_shell(&sandbox, &["-l", "ncpus=2"]);
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount of resource: ncpus (R: 1 A: 0 T: 2)");
    person.types("\x03");
    person.sees("Do you wish to terminate the job and exit (y|[n])? ");
    person.types("\r");
    person.sees("Insufficient amount");
    person.types("\x03");
    person.sees("Do you wish to terminate the job and exit (y|[n])? ");
    person.types("y\r");
    person.sees("is being deleted");
    assert_eq!(person.ends(), 1);
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
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount");
    kill(person.pid(), 15);
    person.sees("interrupted by signal 15");
    assert_eq!(person.ends(), 2);
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-l", "ncpus=1"]);
    person.sees("Insufficient amount");
    first.types("exit\r");
    person.sees(" ready\r\n\r\n");
    first.ends();
}

#[test]
fn a_queued_job_deleted_by_another_user_is_reported_as_apparently_deleted() {
    let sandbox = Sandbox::configured(SMALL);
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-h"]);
    let id = person.expect_id();
    person.sees("Job held: u");
    sandbox.run("qdel", &[&id]).ok();
    person.sees(&format!("qsub: job {id} apparently deleted"));
    assert_eq!(person.ends(), 1);
}

#[test]
fn a_session_is_ended_by_qdel_by_tilde_dot_and_by_a_terminal_that_hangs_up() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Terminal::at_shell(&sandbox, &[]);
    sandbox.run("qdel", &[&id]).ok();
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 271 % 256);
    let (mut person, id) = Terminal::at_shell(&sandbox, &[]);
    person.types("\r~.");
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 271 % 256);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    let (mut person, id) = Terminal::at_shell(&sandbox, &[]);
    person.keyboard = None;
    assert_eq!(person.ends(), 129);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 257);
    let (mut person, id) = Terminal::at_shell(&sandbox, &[]);
    person.asks("trap '' HUP TERM; sleep 300 & echo set", "set\r\n");
    kill(person.pid(), 9);
    sandbox.ended(&id);
    assert!(
        sandbox.pids_of("sleep").is_empty(),
        "what ignores the hangup is killed"
    );
}

#[test]
fn killing_the_daemons_ends_no_session_and_loses_no_exit_code() {
    let sandbox = Sandbox::configured(SMALL);
    let (mut person, id) = Terminal::at_shell(&sandbox, &[]);
    sandbox.kill("schedd");
    person.asks("echo one", "one\r\n");
    sandbox.kill("noded");
    person.asks("echo two", "two\r\n");
    person.types("exit 9\r");
    person.sees(&format!("qsub: job {id} completed"));
    assert_eq!(person.ends(), 9);
    sandbox.run("qstat", &[]);
    sandbox.run("schedd", &["--status"]);
    let _ = sandbox.submit(&["-W", "block=true"], "true\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 9);
}

#[test]
fn a_waiting_interactive_qsub_survives_a_restart_of_schedd() {
    let sandbox = Sandbox::configured(SMALL);
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-h", "-S", "/bin/sh"]);
    let id = person.expect_id();
    person.sees("Job held: u");
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&id]).ok();
    person.sees(" ready\r\n\r\n");
    sandbox.kill("noded");
    person.types("exit 3\r");
    person.sees("completed");
    assert_eq!(person.ends(), 3);
}

#[test]
fn directives_count_the_script_does_not_run_and_a_command_may() {
    let sandbox = Sandbox::configured(SMALL);
    sandbox.script("i.sh", "#PBS -N inter -A acc\necho never run");
    let (mut person, id) = Terminal::at_shell(&sandbox, &["i.sh"]);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["Job_Name"], &job["Account_Name"]),
        (&"inter".into(), &"acc".into())
    );
    person.types("exit\r");
    person.ends();
    assert!(!person.screen.contains("never run"));
    sandbox.script("d.sh", "#PBS -W interactive=true");
    let mut person = Terminal::runs(&sandbox, "qsub", &["-r", "y", "d.sh"]);
    person.sees("qsub (Warning): Interactive jobs will be treated as not rerunnable\r\n");
    person.sees("ready");
    person.types("exit 5\r");
    assert_eq!(person.ends(), 5);
    let mut person = Terminal::runs(
        &sandbox,
        "qsub",
        &["-I", "--", "/bin/sh", "-c", "stty size; exit 4"],
    );
    person.sees("24 80\r\n");
    assert_eq!(person.ends(), 4);
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/no/such/program"]);
    person.sees("No such file or directory");
    assert_eq!(person.ends(), 254);
}

#[test]
fn much_output_arrives_whole() {
    let sandbox = Sandbox::configured(SMALL);
    let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done";
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", count]);
    person.sees("line 20000\r\n");
    assert_eq!(person.ends(), 0);
    let lines = person
        .screen
        .lines()
        .filter(|line| line.starts_with("line "))
        .count();
    assert_eq!(lines, 20000);
}

#[test]
fn without_a_terminal_it_is_refused() {
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
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "-J", "1-3"]);
    person.sees("interactive and array job submission cannot be used together");
    assert_eq!(person.ends(), 2);
}

#[test]
fn in_a_shared_installation_the_terminal_is_its_owners_and_not_even_root_sits_down_at_it() {
    let Some([ann, bob]) = two_users("tty") else {
        return;
    };
    let sandbox = shared("");
    let mut qsub = ann.command(&sandbox, "qsub");
    let mut person = Terminal::with(qsub.args(["-I", "-h", "-S", "/bin/sh"]));
    let id = person.expect_id();
    ann.run(&sandbox, "qrls", &[&id]).ok();
    person.sees("ready");
    person.sees("$ ");
    person.asks("stat -c %u $(tty)", &format!("{}\r\n", ann.uid));
    person.asks(
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
    let connect_nonblocking =
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'");
    for user in [&ann, &bob] {
        assert!(
            user.shell(&sandbox, &connect_nonblocking)
                .err
                .contains("Permission denied"),
            "root's shepherd lets noded in alone"
        );
    }
    person.types("exit 6\r");
    assert_eq!(person.ends(), 6);
}

#[test]
fn a_qsub_that_is_stopped_delays_no_end() {
    let sandbox = Sandbox::configured(SMALL);
    let arguments = ["-I", "-l", "walltime=2", "--", "/bin/sh", "-c", "yes"];
    let mut person = Terminal::runs(&sandbox, "qsub", &arguments);
    person.sees("y\r\ny\r\n");
    kill(person.pid(), 19);
    let id = sandbox.run("qselect", &[]).line();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29);
    let spent = job["resources_used"]["walltime"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(spent.as_str() < "00:00:05", "{spent}");
}

#[test]
fn much_that_is_typed_arrives_whole_though_it_is_read_late() {
    let sandbox = Sandbox::configured(SMALL);
    let read = "stty -echo; echo set; sleep 1; while read line && [ \"$line\" != end ]; do echo $line; done > got";
    let mut person = Terminal::runs(&sandbox, "qsub", &["-I", "--", "/bin/sh", "-c", read]);
    person.sees("set\r\n");
    let lines: Vec<String> = (0..5000)
        .map(|number| format!("line {number} of a long text"))
        .collect();
    let pasted = lines.join("\r") + "\rend\r";
    let mut left = pasted.as_bytes();
    while !left.is_empty() {
        match nix::unistd::write(person.keyboard.as_ref().unwrap(), left) {
            Ok(taken) => left = &left[taken..],
            Err(_) => person.look(),
        }
    }
    assert_eq!(person.ends(), 0);
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
    let mut person = Terminal::with(shell.env("PS1", "outer> ").env("LC_ALL", "C"));
    person.sees("outer> ");
    person.types("qsub -I -S /bin/sh\r");
    person.sees("ready");
    person.expect_prompt();
    person.types("~\x1a");
    person.sees("Stopped");
    person.sees("outer> ");
    person.asks("echo outside", "outside\r\n");
    person.types("fg\r");
    person.sees("fg\r\n");
    person.asks("echo $PBS_ENVIRONMENT", "PBS_INTERACTIVE\r\n");
    person.types("exit 8\r");
    person.sees("completed");
    person.sees("outer> ");
    person.asks("echo code $?", "code 8\r\n");
}

#[test]
fn a_request_for_an_unknown_terminal_is_disconnected() {
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
    for (order, says_why) in [
        (attach(1 << 30, 999), false),
        (attach(1 << 30, batch), false),
        (attach(0, batch), true),
    ] {
        let mut noded = UnixStream::connect(sandbox.home().join("noded.sock")).unwrap();
        frame::write(&mut noded, &order).unwrap();
        assert_eq!(fenced(frame::read(&mut noded)), says_why, "{order:?}");
        assert!(matches!(
            frame::read::<NodeReport>(&mut noded),
            Err(FrameError::Closed | FrameError::Io(_))
        ));
    }
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
}
