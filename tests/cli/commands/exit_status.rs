//! Exit status of jobs, after their own end, signals and deletion.

use crate::support::sandbox::Sandbox;
use serde_json::json;
use std::fs;

#[test]
fn jobs_have_the_exit_statuses_of_pbs() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n");
    let status = |id: &str| sandbox.ended(id)["Exit_status"].clone();
    let exits = sandbox.submit(&[], "exit 7\n");
    let kills = sandbox.submit(&[], "kill -9 $$\n");
    let overruns = sandbox.submit(&["-l", "walltime=1"], "sleep 60\n");
    let no_shell = sandbox.submit(&["-S", "/no/such/shell"], "true\n");
    let no_program = sandbox.run("qsub", &["--", "/no/such/program"]).line();
    let no_folder = sandbox
        .run_with_input("qsub", &["-d", "/no/such/folder"], "true\n")
        .line();
    let never_ran = sandbox.submit(&["-h"], "true\n");
    sandbox.run("qdel", &[&never_ran]).ok();
    assert_eq!(status(&exits), 7);
    assert_eq!(status(&kills), 128 + 9);
    assert_eq!(status(&overruns), -29);
    assert_eq!(status(&no_shell), 254);
    assert_eq!(status(&no_program), 254);
    assert_ne!(status(&no_folder), 0);
    assert_eq!(status(&never_ran), 271);
    assert!(
        sandbox.job(&never_ran)["comment"]
            .as_str()
            .unwrap()
            .contains("never started")
    );
    assert!(
        sandbox.job(&no_shell)["comment"]
            .as_str()
            .unwrap()
            .contains("/no/such/shell")
    );
    assert!(
        sandbox.job(&no_program)["comment"]
            .as_str()
            .unwrap()
            .contains("/no/such/program")
    );
    assert!(
        sandbox.job(&no_folder)["comment"]
            .as_str()
            .unwrap()
            .contains("/no/such/folder")
    );
    assert!(
        sandbox.job(&overruns)["comment"]
            .as_str()
            .unwrap()
            .contains("exceeded resource walltime")
    );
}

#[test]
fn signals_and_deletion_show_in_the_exit_status() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n");
    let script = "trap 'echo term >> seen; exit 3' TERM\ntrap 'echo usr1 >> seen' USR1\n\
                  touch ready\nwhile :; do sleep 0.05; done\n";
    let traps = sandbox.submit(&[], script);
    sandbox.until("the script to set its trap", || {
        sandbox.file("ready").exists().then_some(())
    });
    sandbox.run("qsig", &["-s", "USR1", &traps]).ok();
    sandbox.until("USR1", || fs::read_to_string(sandbox.file("seen")).ok());
    sandbox.run("qsig", &[&traps]).ok();
    assert_eq!(
        sandbox.ended(&traps)["Exit_status"],
        3,
        "the job trapped TERM and exited with 3"
    );
    assert_eq!(sandbox.read("seen"), "usr1\nterm\n");
    let signalled = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&signalled);
    sandbox.run("qsig", &["-s", "SIGINT", &signalled]).ok();
    assert_eq!(sandbox.ended(&signalled)["Exit_status"], 256 + 2);
    let ignores = sandbox.submit(
        &[],
        "trap '' TERM\ntouch deaf\nwhile :; do sleep 0.05; done\n",
    );
    sandbox.until("the script to set its trap", || {
        sandbox.file("deaf").exists().then_some(())
    });
    sandbox.run("qdel", &[&ignores]).ok();
    let job = sandbox.ended(&ignores);
    assert_eq!(
        (&job["Exit_status"], &job["substate"]),
        (&json!(271), &json!(91))
    );
    assert!(
        job["comment"].as_str().unwrap().contains("terminated by"),
        "{job}"
    );
}
