//! `[idle]`: running jobs that use no processor time are reported by comment, mail and notification
//! program; interactive ones can be ended.

use crate::support::mailbox::Mailbox;
use crate::support::sandbox::{Sandbox, comment};
use crate::support::terminal::Terminal;
use serde_json::Value;
use std::fs;

fn is_idle(sandbox: &Sandbox, id: &str) -> bool {
    comment(&sandbox.job(id)).starts_with("Idle since ")
}

#[test]
fn idle_jobs_are_reported_until_they_use_processor_time_again() {
    let mailbox = Mailbox::new();
    let mut sandbox = Sandbox::new();
    let notices = sandbox.file("notices");
    let notify = sandbox.script(
        "notify",
        &format!("cat >> {0}; echo >> {0}", notices.display()),
    );
    let config = format!(
        "[server]\nmailer = \"{}\"\nnotify = \"{}\"\n[launch]\nlogin = false\n\
         [idle]\nafter = \"3s\"\ncpu = 0.05\n",
        mailbox.program.display(),
        notify.display()
    );
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    sandbox.set("LC_ALL", "C");
    let idle = sandbox.submit(
        &["-l", "ncpus=1"],
        "until test -e go; do sleep 0.5; done\nwhile :; do :; done\n",
    );
    let busy = sandbox.submit(&["-l", "ncpus=1"], "while :; do :; done\n");
    sandbox.running(&busy);
    sandbox.until("the comment", || is_idle(&sandbox, &idle).then_some(()));
    assert!(!is_idle(&sandbox, &busy), "{}", sandbox.job(&busy));

    let mails = mailbox.mails(&sandbox, 1);
    let what = "Job has used almost no processor time for 00:00:03";
    assert!(mails.len() == 1 && mails[0].contains(what), "{mails:?}");
    let message = sandbox.until("the notice", || {
        let text = fs::read_to_string(&notices).unwrap_or_default();
        let messages = text.lines().map(serde_json::from_str::<Value>);
        messages
            .flatten()
            .find(|message| message["event"] == "idle")
    });
    assert_eq!(message["what"], what);
    assert_eq!(message["job"]["Job_Owner"], sandbox.job(&idle)["Job_Owner"]);

    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the idle time", || {
        (!is_idle(&sandbox, &idle)).then_some(())
    });
    let trace = sandbox.run("tracejob", &[&idle]).ok();
    for part in [what, "Job uses processor time again"] {
        assert_eq!(trace.matches(part).count(), 1, "{part}: {trace}");
    }
    sandbox.run("qdel", &[&idle, &busy]).ok();
}

#[test]
fn idle_interactive_jobs_are_ended_if_configured() {
    let sandbox = Sandbox::configured("[idle]\nafter = \"3s\"\nend_interactive = true\n");
    let batch = sandbox.submit(&["-l", "ncpus=1"], "sleep 1000\n");
    let (mut terminal, id) = Terminal::at_shell(&sandbox, &["-l", "ncpus=1"]);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 271, "{job}");
    terminal.expect_text("completed");
    terminal.wait_for_exit();
    let trace = sandbox.run("tracejob", &[&id]).ok();
    assert!(
        trace.contains("Job to be deleted at request of schedd@"),
        "{trace}"
    );
    sandbox.until("the batch job is idle", || {
        is_idle(&sandbox, &batch).then_some(())
    });
    assert_eq!(sandbox.state(&batch), "R", "batch jobs continue");
    sandbox.run("qdel", &[&batch]).ok();
}
