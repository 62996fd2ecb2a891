//! The warning of `qsub` about jobs that end when the user logs out.

use crate::support::sandbox::Sandbox;
use crate::support::terminal::Terminal;
use std::fs;

/// A sandbox in which logind has these settings.
fn sandbox(logind: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let root = sandbox.file("root");
    fs::create_dir_all(root.join("run/systemd/system")).unwrap();
    fs::create_dir_all(root.join("etc/systemd")).unwrap();
    fs::write(root.join("etc/systemd/logind.conf"), logind).unwrap();
    let root = root.display().to_string();
    sandbox.with("LANAI_TEST_ROOT", root)
}

/// What `qsub` prints on a terminal.
fn printed(sandbox: &Sandbox) -> String {
    let mut terminal = Terminal::runs(sandbox, "qsub", &["-h", "--", "true"]);
    assert_eq!(terminal.wait_for_exit(), 0);
    terminal.read();
    terminal.screen.clone()
}

const KILLS: &str = "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n";

#[test]
fn qsub_warns_on_a_terminal_if_logind_ends_jobs_at_logout() {
    let warning = "qsub: jobs end when you log out, because logind kills the processes of the";
    let sandbox = sandbox(KILLS);
    let text = printed(&sandbox);
    assert!(text.contains(warning), "{text}");
    assert!(
        text.contains("lanai service install and loginctl enable-linger"),
        "{text}"
    );
    let done = sandbox.run("qsub", &["-h", "--", "true"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "no terminal");
    let quiet = self::sandbox("[Login]\n#KillUserProcesses=no\n");
    let text = printed(&quiet);
    assert!(!text.contains("log out"), "{text}");
}
