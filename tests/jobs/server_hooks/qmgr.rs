//! Hooks in qmgr.

use super::{Hook, qsub, with_hooks};
use crate::support::people::two_users;
use crate::support::sandbox::{Done, Sandbox};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn qmgr(sandbox: &Sandbox, command: &str) -> Done {
    sandbox.run("qmgr", &["-c", command])
}

fn programs(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    crate::support::files(&sandbox.home().join("hook-programs"))
}

#[test]
fn qmgr_creates_imports_exports_and_deletes_a_hook() {
    let sandbox = with_hooks(&[]);
    qsub(&sandbox, &["-h"]).line();
    qmgr(&sandbox, "create hook hq event=queuejob").ok();
    qsub(&sandbox, &["-h"]).line();
    let program = sandbox.script("own.sh", "echo '{\"reject\": \"by qmgr\"}'");
    qmgr(
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
    let listed = qmgr(&sandbox, "list hook hq").ok();
    assert!(listed.starts_with(shown), "{listed}");
    assert_eq!(qmgr(&sandbox, "list hook").ok(), listed);
    qmgr(
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
        "the hook survives a killed schedd"
    );
    qmgr(
        &sandbox,
        "set hook hq enabled=false,alarm=5,order=7,event=\"queuejob,exechost_periodic\",freq=60",
    )
    .ok();
    qsub(&sandbox, &["-h"]).line();
    let printed = qmgr(&sandbox, "print hook").ok();
    qmgr(&sandbox, "delete hook hq").ok();
    assert_eq!(qmgr(&sandbox, "list hook").out, "");
    // The output of `print` recreates the hook, with an existing path of its program.
    let moved = printed.replace(kept[0].to_str().unwrap(), program.to_str().unwrap());
    assert_ne!(moved, printed);
    let again = sandbox.run_with_input("qmgr", &[], &moved);
    assert_eq!((again.code, again.err.as_str()), (0, ""), "{printed}");
    assert_eq!(qmgr(&sandbox, "print hook").ok(), printed);
    qmgr(&sandbox, "set hook hq enabled=true").ok();
    assert_eq!(qsub(&sandbox, &["-h"]).err, "qsub: by qmgr\n");

    qmgr(&sandbox, "delete hook hq").ok();
    qsub(&sandbox, &["-h"]).line();
    sandbox.until("the removal of the program", || {
        programs(&sandbox).is_empty().then_some(())
    });
}

#[test]
fn invalid_hook_commands_are_refused_with_a_message() {
    let sandbox = with_hooks(&[Hook("filed", "event = \"modifyjob\"", "")]);
    sandbox.run("schedd", &[]).ok();
    sandbox.script("own.sh", "true");
    let assert_fails = |command: &str, code: i32, err: &str| {
        let done = qmgr(&sandbox, command);
        assert_eq!((done.code, done.err.as_str()), (code, err), "{command}");
    };
    assert_fails(
        "import hook nosuch application/x-executable default /x",
        1,
        "/x - No such file or directory\n",
    );
    let unknown = "qmgr obj=nosuch svr=default: nosuch does not exist!\nqmgr: hook error returned from server\n";
    assert_fails(
        "import hook nosuch application/x-executable default own.sh",
        32,
        unknown,
    );
    assert_fails("set hook nosuch enabled=true", 32, unknown);
    assert_fails("delete hook nosuch", 32, unknown);
    let python = qmgr(
        &sandbox,
        "import hook filed application/x-python default own.sh",
    );
    assert!(
        python.code == 1
            && python
                .err
                .contains("programs, in any language, that read and write JSON"),
        "{python:?}"
    );
    assert_eq!(
        qmgr(&sandbox, "set hook filed event=dawn").code,
        15014 % 256
    );
    assert_eq!(qmgr(&sandbox, "set hook filed alarm=0").code, 15014 % 256);
    assert_eq!(qmgr(&sandbox, "create hook a/b").code, 15028 % 256);
    let existing = qmgr(&sandbox, "create hook filed");
    assert!(
        existing
            .err
            .contains("already exists, try a different name"),
        "{existing:?}"
    );
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(
        checked.contains("[[hook]]") && checked.contains("modifyjob"),
        "{checked}"
    );
    // `qmgr` can delete a hook of the configuration file.
    qmgr(&sandbox, "delete hook filed").ok();
    assert_eq!(qmgr(&sandbox, "list hook").out, "");
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
    qmgr(&sandbox, "create hook hq event=queuejob").ok();
    let text = "is unauthorized to access hooks data from server head\n";
    let listed = person.shell(&sandbox, "qmgr -c 'list hook'");
    assert!(
        listed.code == 0 && listed.err.ends_with(text) && listed.out.is_empty(),
        "{listed:?}"
    );
    let created = person.shell(&sandbox, "qmgr -c 'create hook zz'");
    let why = created
        .err
        .strip_suffix("qmgr: hook error returned from server\n");
    assert!(
        created.code == 32 && why.is_some_and(|why| why.ends_with(text)),
        "{created:?}"
    );
    assert!(
        created.err.starts_with("qmgr obj=zz svr=default: "),
        "{created:?}"
    );
    let imported = person.shell(
        &sandbox,
        "qmgr -c 'import hook hq application/x-executable default /bin/true'",
    );
    assert!(
        imported.code == 32 && imported.err.contains(text),
        "{imported:?}"
    );
}
