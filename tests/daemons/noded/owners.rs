//! Jobs run as their owners.

use super::Node;
use lanai::model::job::{How, Owner};
use lanai::sys::user;
use lanai::wire::order::{Launch, ScheddOrder};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

#[test]
fn root_runs_jobs_as_their_owners() {
    if user::effective() != 0 {
        return println!("skipped: requires root");
    }
    let name = format!("lanai-t{}", std::process::id() % 10_000);
    let added = Command::new("useradd")
        .args([
            "--no-create-home",
            "--shell",
            "/bin/bash",
            "--user-group",
            "--groups",
            "daemon",
            &name,
        ])
        .status();
    if !added.is_ok_and(|status| status.success()) {
        return println!("skipped: requires useradd");
    }
    let result = std::panic::catch_unwind(|| as_owner(&name));
    let _ = Command::new("userdel").arg(&name).status();
    result.unwrap();
}

fn as_owner(name: &str) {
    let mut node = Node::with(&["--shared"]);
    let account = user::named(name).unwrap().unwrap();
    let owner = Owner {
        user: name.into(),
        uid: account.uid,
        gid: account.gid,
    };
    let directory = node.path("directory");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(account.uid), Some(account.gid)).unwrap();
    let place = |file: &str| directory.join(file).to_str().unwrap().into();
    let own = |launch: Launch| Launch {
        owner: owner.clone(),
        workdir: place(""),
        output: place("out"),
        error: place("err"),
        ..launch
    };
    let text = "id -un; id -Gn; grep NoNewPrivs /proc/self/status; touch $TMPDIR/x; cat $PBS_NODEFILE; ls -d $0";
    assert_eq!(
        node.run(own(node.script(1, text))).how,
        How::Exited(0),
        "{}",
        node.read("directory/err")
    );
    let output = node.read("directory/out");
    assert!(
        output.starts_with(&format!("{name}\n{name} daemon\nNoNewPrivs:\t1\nn1\nn1\n")),
        "{output}"
    );
    assert_eq!(
        fs::metadata(directory.join("out")).unwrap().uid(),
        account.uid
    );

    // This user has no profile; another user's profile could print or start something.
    let login = Launch {
        login: true,
        ..own(node.script(5, "echo $$; ps -o args= -p $$"))
    };
    node.order(ScheddOrder::Start(Box::new(login)));
    let session = node.running(5);
    assert_eq!(
        node.ended(5).how,
        How::Exited(0),
        "{}",
        node.read("directory/err")
    );
    let output = node.read("directory/out");
    assert!(
        output.starts_with(&format!("{session}\n/bin/sh ")),
        "the login shell must exec the script: {output}"
    );

    let script = node.path("state/attempts/1.1/script");
    let mode = fs::metadata(script).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o500, "only the owner may read the script");

    fs::write(node.path("secret"), "kept").unwrap();
    symlink(node.path("secret"), directory.join("trap")).unwrap();
    let trapped = Launch {
        output: place("trap"),
        ..own(node.script(2, "echo overwritten"))
    };
    let outcome = node.run(trapped);
    assert!(
        matches!(&outcome.how, How::CannotStart { why, .. } if why.contains("Permission denied")),
        "{outcome:?}"
    );
    assert_eq!(node.read("secret"), "kept");

    let outcome = node.run(node.script(3, "touch ran"));
    assert!(
        matches!(&outcome.how, How::CannotStart { why, .. } if why.contains("shared")),
        "{outcome:?}"
    );
    let wrong = Owner {
        uid: account.uid + 1,
        ..owner.clone()
    };
    let outcome = node.run(Launch {
        owner: wrong,
        ..own(node.script(4, "true"))
    });
    assert!(
        matches!(&outcome.how, How::NodeFault(why) if why.contains("has uid")),
        "{outcome:?}"
    );
}
