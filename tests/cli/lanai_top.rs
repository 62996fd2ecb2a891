//! `lanai top` on real terminals of tmux.

use crate::support::sandbox::Sandbox;
use crate::support::tmux::Tmux;

/// After `lanai top`, prints its exit status, and whether the terminal echoes again.
const LINE: &str =
    "lanai top; echo \"exit $?\"; stty -a | tr ' ' '\\n' | grep -x -- '-*echo'; sleep 100";

/// A sandbox with a node of two processors, a running job and two waiting jobs.
fn busy() -> (Sandbox, [String; 3]) {
    let node = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = node.split('.').next().unwrap();
    let sandbox = Sandbox::configured(&format!(
        "[[node]]\nname = \"{node}\"\nncpus = 2\nmem = \"4gb\"\n"
    ));
    let submit = |name: &str, script: &str| {
        let options = ["-N", name, "-l", "ncpus=2", "-l", "walltime=600"];
        sandbox.submit(&options, script)
    };
    let first = submit("alpha", "echo first line; sleep 500\n");
    sandbox.running(&first);
    let jobs = [first, submit("beta", "true\n"), submit("gamma", "true\n")];
    (sandbox, jobs)
}

#[test]
fn the_jobs_are_shown_and_changed_by_keys() {
    for size in [(80, 24), (200, 60)] {
        let (sandbox, [first, second, _]) = busy();
        let Some(tmux) = Tmux::run(&sandbox, size, LINE) else {
            return;
        };
        let screen = tmux.shows("gamma");
        assert!(
            screen.contains("alpha") && screen.contains("beta"),
            "{screen}"
        );
        assert!(
            screen
                .lines()
                .all(|line| line.chars().count() <= usize::from(size.0))
        );
        tmux.press(&["?"]);
        tmux.shows("after a confirmation");
        tmux.press(&["Escape"]);
        tmux.press(&["/", "b", "e", "t"]);
        tmux.until("only beta", |screen| {
            screen.contains("beta") && !screen.contains("gamma")
        });
        tmux.press(&["Enter", "h"]);
        sandbox.until("the hold", || {
            (sandbox.job(&second)["job_state"] == "H").then_some(())
        });
        tmux.press(&["r"]);
        sandbox.until("the release", || {
            (sandbox.job(&second)["job_state"] == "Q").then_some(())
        });
        tmux.press(&["w"]);
        tmux.shows("Not enough ncpus free");
        tmux.press(&["1", "c"]);
        tmux.shows("y or n");
        tmux.press(&["y"]);
        sandbox.until("the end of the job", || {
            sandbox.run("qstat", &[&second]).code.ne(&0).then_some(())
        });
        tmux.press(&["1", "Escape"]);
        tmux.shows("gamma");
        tmux.press(&["g", "l"]);
        tmux.shows("first line");
        assert_eq!(sandbox.job(&first)["job_state"], "R");
        tmux.press(&["q"]);
        let screen = tmux.shows("exit 0");
        assert!(
            !screen.contains("gamma"),
            "the alternate screen is left: {screen}"
        );
        let echo = |screen: &str| screen.lines().any(|line| line.trim() == "echo");
        tmux.until("echo", echo);
    }
}

#[test]
fn the_display_follows_the_size_of_the_terminal() {
    let (sandbox, _) = busy();
    let Some(tmux) = Tmux::run(&sandbox, (200, 60), LINE) else {
        return;
    };
    tmux.shows("gamma");
    tmux.resize(80, 24);
    let has_keys = |screen: &str, row: usize| {
        screen
            .lines()
            .nth(row)
            .is_some_and(|line| line.contains("q quit"))
    };
    tmux.until("the keys in the last of 24 lines", |screen| {
        has_keys(screen, 23)
    });
    tmux.resize(40, 8);
    tmux.until("the keys in the last of 8 lines", |screen| {
        has_keys(screen, 7)
    });
    tmux.resize(120, 40);
    tmux.until("the keys in the last of 40 lines", |screen| {
        has_keys(screen, 39)
    });
}

#[test]
fn a_killed_schedd_is_reported_and_the_display_recovers() {
    let (sandbox, _) = busy();
    let Some(tmux) = Tmux::run(&sandbox, (80, 24), LINE) else {
        return;
    };
    tmux.shows("gamma");
    sandbox.kill("schedd");
    sandbox.submit(&["-N", "delta", "-l", "ncpus=2"], "true\n");
    tmux.shows("delta");
    tmux.press(&["C-c"]);
    tmux.shows("exit 0");
}

#[test]
fn a_signal_restores_the_terminal() {
    let (sandbox, _) = busy();
    let top = "sh -c 'echo $$ > top.pid; exec lanai top'";
    let line = LINE.replace("lanai top", top);
    let line = format!("(sleep 3; kill -TERM $(cat top.pid)) & {line}");
    let Some(tmux) = Tmux::run(&sandbox, (80, 24), &line) else {
        return;
    };
    tmux.shows("gamma");
    tmux.shows("exit 143");
    tmux.until("echo", |screen| {
        screen.lines().any(|line| line.trim() == "echo")
    });
}

#[test]
fn without_a_terminal_another_command_is_named() {
    let sandbox = Sandbox::new();
    let done = sandbox.run("lanai", &["top"]);
    assert_eq!(done.code, 2);
    assert!(
        done.err.contains("top requires a terminal") && done.err.contains("lanai list"),
        "{done:?}"
    );
}
