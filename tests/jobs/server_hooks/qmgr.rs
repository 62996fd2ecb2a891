//! Hooks in qmgr.

use super::{Hook, qsub, with_hooks};
use crate::support::people::two_users;
use crate::support::sandbox::{Done, Sandbox};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn manage(sandbox: &Sandbox, command: &str) -> Done {
    sandbox.run("qmgr", &["-c", command])
}

fn programs(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    crate::support::files(&sandbox.home().join("hook-programs"))
}

#[test]
fn qmgr_makes_a_hook_brings_its_program_and_takes_it_away() {
    let sandbox = with_hooks(&[]);
    qsub(&sandbox, &["-h"]).line();
    manage(&sandbox, "create hook hq event=queuejob").ok();
    qsub(&sandbox, &["-h"]).line();
    let program = sandbox.script("own.sh", "echo '{\"reject\": \"by qmgr\"}'");
    manage(
        &sandbox,
        "import hook hq application/x-executable default own.sh",
    )
    .ok();
    assert_eq!(qsub(&sandbox, &["-h"]).err, "qsub: by qmgr\n");
    let kept = programs(&sandbox);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let shown = "Hook hq\n    type = site\n    enabled = true\n    event = queuejob\n    user = pbsadmin\n    alarm = 30\n    \
                 order = 1\n    debug = false\n    fail_action = none\n";
    let listed = manage(&sandbox, "list hook hq").ok();
    assert!(listed.starts_with(shown), "{listed}");
    assert_eq!(manage(&sandbox, "list hook").ok(), listed);
    manage(
        &sandbox,
        "export hook hq application/x-executable default copy.sh",
    )
    .ok();
    assert_eq!(
        sandbox.read("copy.sh"),
        fs::read_to_string(&program).unwrap()
    );

    sandbox.kill("schedd");
    assert_eq!(
        qsub(&sandbox, &["-h"]).err,
        "qsub: by qmgr\n",
        "it outlives schedd"
    );
    manage(
        &sandbox,
        "set hook hq enabled=false,alarm=5,order=7,event=\"queuejob,exechost_periodic\",freq=60",
    )
    .ok();
    qsub(&sandbox, &["-h"]).line();
    let printed = manage(&sandbox, "print hook").ok();
    manage(&sandbox, "delete hook hq").ok();
    assert_eq!(manage(&sandbox, "list hook").out, "");
    // The output of `print` recreates the hook, with an existing path of its program.
    let elsewhere = printed.replace(kept[0].to_str().unwrap(), program.to_str().unwrap());
    assert_ne!(elsewhere, printed);
    let again = sandbox.run_with_input("qmgr", &[], &elsewhere);
    assert_eq!((again.code, again.err.as_str()), (0, ""), "{printed}");
    assert_eq!(manage(&sandbox, "print hook").ok(), printed);
    manage(&sandbox, "set hook hq enabled=true").ok();
    assert_eq!(qsub(&sandbox, &["-h"]).err, "qsub: by qmgr\n");

    manage(&sandbox, "delete hook hq").ok();
    qsub(&sandbox, &["-h"]).line();
    sandbox.until("the program's end", || {
        programs(&sandbox).is_empty().then_some(())
    });
}

#[test]
fn invalid_hook_commands_are_refused_with_a_message() {
    let sandbox = with_hooks(&[Hook("filed", "event = \"modifyjob\"", "")]);
    sandbox.run("schedd", &[]).ok();
    sandbox.script("own.sh", "true");
    let told = |command: &str, code: i32, err: &str| {
        let done = manage(&sandbox, command);
        assert_eq!((done.code, done.err.as_str()), (code, err), "{command}");
    };
    told(
        "import hook nosuch application/x-executable default /x",
        1,
        "/x - No such file or directory\n",
    );
    let unknown = "qmgr obj=nosuch svr=default: nosuch does not exist!\nqmgr: hook error returned from server\n";
    told(
        "import hook nosuch application/x-executable default own.sh",
        32,
        unknown,
    );
    told("set hook nosuch enabled=true", 32, unknown);
    told("delete hook nosuch", 32, unknown);
    let python = manage(
        &sandbox,
        "import hook filed application/x-python default own.sh",
    );
    assert!(
        python.code == 1 && python.err.contains("programs here that read JSON"),
        "{python:?}"
    );
    assert_eq!(
        manage(&sandbox, "set hook filed event=dawn").code,
        15014 % 256
    );
    assert_eq!(manage(&sandbox, "set hook filed alarm=0").code, 15014 % 256);
    assert_eq!(manage(&sandbox, "create hook a/b").code, 15028 % 256);
    let there = manage(&sandbox, "create hook filed");
    assert!(
        there.err.contains("already exists, try a different name"),
        "{there:?}"
    );
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(
        checked.contains("[[hook]]") && checked.contains("modifyjob"),
        "{checked}"
    );
    // `qmgr` can delete a hook of the configuration file.
    manage(&sandbox, "delete hook filed").ok();
    assert_eq!(manage(&sandbox, "list hook").out, "");
}

#[test]
fn only_managers_see_hooks() {
    let Some([person, _]) = two_users("hooks") else {
        return;
    };
    let sandbox = Sandbox::configured("[server]\nshared = true\nname = \"head\"\n");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    manage(&sandbox, "create hook hq event=queuejob").ok();
    let text = "is unauthorized to access hooks data from server head\n";
    let listed = person.shell(&sandbox, "qmgr -c 'list hook'");
    assert!(
        listed.code == 0 && listed.err.ends_with(text) && listed.out.is_empty(),
        "{listed:?}"
    );
    let made = person.shell(&sandbox, "qmgr -c 'create hook zz'");
    let why = made
        .err
        .strip_suffix("qmgr: hook error returned from server\n");
    assert!(
        made.code == 32 && why.is_some_and(|why| why.ends_with(text)),
        "{made:?}"
    );
    assert!(
        made.err.starts_with("qmgr obj=zz svr=default: "),
        "{made:?}"
    );
    let brought = person.shell(
        &sandbox,
        "qmgr -c 'import hook hq application/x-executable default /bin/true'",
    );
    assert!(
        brought.code == 32 && brought.err.contains(text),
        "{brought:?}"
    );
}
