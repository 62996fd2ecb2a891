//! Delivery of output and files of jobs and subjobs: `-k`, `-R`, `-j`, umask, group, and failures.

use crate::support::installation::shared;
use crate::support::mailbox::Mailbox;
use crate::support::people::{TestUser, people, two_users};
use crate::support::sandbox::{Sandbox, comment, kill, number, refused};
use lanai::sys::procfs;
use nix::libc::SIGSTOP;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn head() -> Sandbox {
    Sandbox::configured("[server]\nname = \"head\"\n")
}

/// Sorted names of the files in a directory that start with `begin`.
fn names(folder: &Path, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with(begin)).collect();
    names.sort();
    names
}

/// Pid of the process that copies files for this user. It has the same name as the shepherd.
fn copying_process(person: &TestUser) -> Option<i32> {
    let is_copying = |pid: i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        procfs::owner(pid) == Some(person.uid) && name.trim_end() == "lanai-shepherd"
    };
    procfs::all()
        .into_iter()
        .map(|process| process.pid)
        .find(|&pid| is_copying(pid))
}

/// The copying process runs as the job owner, who can stop it or make it block on a FIFO without a
/// reader.
#[test]
fn stopping_the_copying_process_does_not_keep_a_job_alive() {
    let Some((sandbox, ann)) = person("stops", "[launch]\nstaging_timeout = \"3s\"\n") else {
        return;
    };
    ann.shell(&sandbox, "mkfifo fifo; echo text >file").ok();
    for (transfer, status, comment) in [
        (
            "stageout=file@localhost:fifo",
            0,
            "stage-out took longer than 3 s",
        ),
        (
            "stagein=fifo@localhost:file",
            -1,
            "stage-in failed: it took longer than 3 s",
        ),
    ] {
        let id = ann.submit(
            &sandbox,
            &["-N", "s", "-l", "walltime=1", "-W", transfer],
            "echo output; touch ran",
        );
        // Until it executes the script, the job's process also has the shepherd's name.
        if transfer.starts_with("stageout") {
            ann.await_file(&sandbox, "ran");
        }
        let copying = sandbox.until("the copying process", || copying_process(&ann));
        kill(copying, SIGSTOP);
        let job = sandbox.ended(&id);
        assert_eq!(job["Exit_status"], status, "{job:#}");
        let is_staged_out = transfer.starts_with("stagein");
        assert_eq!(job["Stageout_status"], i64::from(is_staged_out), "{job:#}");
        assert!(
            job["comment"].as_str().unwrap().contains(comment),
            "{job:#}"
        );
        sandbox.until("the end of the copying process", || {
            copying_process(&ann).is_none().then_some(())
        });
    }
    assert_eq!(ann.read("s.o1"), "output\n");
}

#[test]
fn each_subjob_has_its_own_output_files() {
    let sandbox = head();
    fs::create_dir(sandbox.file("logs")).unwrap();
    let submit = |options: &[&str]| {
        let id = sandbox.submit(
            &[&["-J", "1-2", "-N", "a"], options].concat(),
            "echo out$PBS_ARRAY_INDEX; echo e >&2",
        );
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        number(&id).to_string()
    };
    let default = submit(&[]);
    let expected = ["e", "o"]
        .map(|letter| [1, 2].map(|index| format!("a.{letter}{default}.{index}")))
        .concat();
    assert_eq!(names(&sandbox.work(), "a."), expected);
    assert_eq!(sandbox.read(&format!("a.o{default}.2")), "out2\n");
    let folder = submit(&["-o", "logs/", "-j", "oe"]);
    assert_eq!(
        names(&sandbox.file("logs"), ""),
        [1, 2].map(|index| format!("{folder}[{index}].head.OU"))
    );
    assert_eq!(
        sandbox.read(&format!("logs/{folder}[1].head.OU")),
        "out1\ne\n"
    );
    submit(&["-o", "at.^array_index^.txt", "-e", "/dev/null"]);
    assert_eq!(
        (sandbox.read("at.1.txt"), sandbox.read("at.2.txt")),
        ("out1\n".into(), "out2\n".into())
    );
}

#[test]
fn output_of_successful_subjobs_can_be_removed() {
    let sandbox = head();
    let id = sandbox.submit(
        &["-J", "1-3", "-N", "r", "-R", "oe"],
        "echo x; exit $((PBS_ARRAY_INDEX == 2))",
    );
    sandbox.ended(&id);
    let kept = ["e", "o"].map(|letter| format!("r.{letter}{}.2", number(&id)));
    let left = || Some(names(&sandbox.work(), "r.")).filter(|left| *left == kept);
    sandbox.until("only the files of the failed subjob", left);
    assert_eq!(sandbox.job(&id)["Remove_Files"], "oe");
}

#[test]
fn joined_output_of_a_successful_job_is_removed_as_one_file() {
    let sandbox = head();
    for (join, mails, kept) in [
        ("oe", "o", 0),
        ("eo", "e", 0),
        ("eo", "o", 1),
        ("oe", "oe", 0),
    ] {
        let id = sandbox.submit(&["-N", "j", "-j", join, "-R", mails], "echo x");
        sandbox.ended(&id);
        let left: Vec<String> = names(&sandbox.work(), "j.")
            .into_iter()
            .filter(|n| n.ends_with(number(&id)))
            .collect();
        assert_eq!(left.len(), kept, "-j {join} -R {mails}: {left:?}");
    }
}

/// A user of a shared installation, with a home directory of this test only.
fn person(tag: &str, more: &str) -> Option<(Sandbox, TestUser)> {
    let [ann] = people(tag)?;
    Some((shared(&format!("name = \"head\"\n{more}")), ann))
}

#[test]
fn keep_files_applies_to_each_stream_and_to_subjobs() {
    let Some((sandbox, ann)) = person("keeps", "") else {
        return;
    };
    fs::create_dir(ann.file("d")).unwrap();
    std::os::unix::fs::chown(ann.file("d"), Some(ann.uid), Some(ann.gid)).unwrap();
    let submit = |options: &[&str]| {
        let all = [options, &["-N", "k", "-o", "d/out", "-e", "d/err"]].concat();
        let id = ann.submit(&sandbox, &all, "echo out; echo err >&2");
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
        id
    };
    let one = submit(&["-k", "e"]);
    assert_eq!(ann.read(&format!("k.e{}", number(&one))), "err\n");
    assert_eq!(names(&ann.file("d"), ""), ["out"]);
    assert_eq!(sandbox.job(&one)["Keep_Files"], "e");
    fs::remove_file(ann.file("d/out")).unwrap();
    let array = submit(&["-k", "oe", "-J", "1-2"]);
    let expected = ["e", "o"]
        .map(|letter| [1, 2].map(|index| format!("k.{letter}{}.{index}", number(&array))));
    let kept: Vec<String> = names(&ann.home(), "k.")
        .into_iter()
        .filter(|name| name.matches('.').count() == 2)
        .collect();
    assert_eq!(
        (kept, names(&ann.file("d"), "")),
        (expected.concat(), vec![])
    );
}

#[test]
fn undeliverable_output_of_jobs_and_subjobs_is_kept() {
    let mailbox = Mailbox::new();
    let mailer = format!("mailer = \"{}\"\n", mailbox.program.display());
    let Some((sandbox, ann)) = person("nowhere", &mailer) else {
        return;
    };
    let nowhere = ["-N", "u", "-o", "no/such/out", "-e", "no/such/err"];
    let script = "echo out; echo err >&2; sleep 0.1";
    let one = ann.submit(&sandbox, &nowhere, script);
    let array = ann.submit(&sandbox, &[&["-J", "1-2"], &nowhere[..]].concat(), script);
    let (one, array) = (sandbox.ended(&one), (sandbox.ended(&array), array));
    assert_eq!(
        (&one["Exit_status"], &array.0["Exit_status"]),
        (&json!(0), &json!(0))
    );
    for stream in ["out", "err"] {
        let message = format!("no/such/{stream}: No such file or directory; the output is in ");
        assert!(
            one["comment"].as_str().unwrap().contains(&message),
            "{one:#}"
        );
    }
    for (letter, text) in [("o", "out\n"), ("e", "err\n")] {
        assert_eq!(ann.read(&format!("u.{letter}{}.2", number(&array.1))), text);
    }
    let mails = mailbox.mails(&sandbox, 1).concat();
    assert!(
        mails.contains("no/such/out: No such file or directory; the output is in "),
        "{mails}"
    );
}

/// Clients that stage a whole directory submit `.@host:folder/*`, which copies it to the private
/// directory of the job.
#[test]
fn a_directory_is_staged_into_and_out_of_a_private_sandbox() {
    let Some((sandbox, ann)) = person("folder", "") else {
        return;
    };
    let line = "mkdir -p in/deep results; echo a > in/a; echo b > in/deep/b; chmod -R a+rX in";
    ann.shell(&sandbox, line).ok();
    let [stage_in, stage_out] = [
        "stagein=.@localhost:in/*",
        "stageout=made@localhost:results/",
    ];
    let options = [
        "-N",
        "f",
        "-Wsandbox=PRIVATE",
        "-W",
        stage_in,
        "-W",
        stage_out,
    ];
    let id = ann.submit(
        &sandbox,
        &options,
        "mkdir made; cat a deep/b > made/both; ls",
    );
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["sandbox"]),
        (&json!(0), &json!("PRIVATE")),
        "{job:#}"
    );
    assert_eq!(ann.read(&format!("f.o{}", number(&id))), "a\ndeep\nmade\n");
    assert_eq!(ann.read("results/made/both"), "a\nb\n");
    assert_eq!(names(&ann.home(), "pbs."), Vec::<String>::new());
}

#[test]
fn each_subjob_has_its_own_private_sandbox() {
    let Some((sandbox, ann)) = person("boxes", "") else {
        return;
    };
    let stage_out = "stageout=mine@localhost:mine.^array_index^";
    let options = ["-J", "1-2", "-W", "sandbox=PRIVATE", "-W", stage_out];
    let id = ann.submit(
        &sandbox,
        &options,
        "[ -e mine ] && exit 9; pwd > mine; sleep 0.2",
    );
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        0,
        "{:#}",
        sandbox.job(&id)
    );
    let [one, two] = [1, 2].map(|index| ann.read(&format!("mine.{index}")));
    assert!(
        one != two
            && [&one, &two]
                .iter()
                .all(|place| !Path::new(place.trim_end()).exists()),
        "{one}{two}"
    );
}

#[test]
fn sandbox_accepts_home_and_o_workdir_and_refuses_unknown_values() {
    let sandbox = head();
    for (name, code) in [("HOME", 0), ("O_WORKDIR", 0), ("PRIVATELY", 2)] {
        let done = sandbox.run(
            "qsub",
            &["-h", "-W", &format!("sandbox={name}"), "--", "/bin/true"],
        );
        assert_eq!(done.code, code, "{done:?}");
        let shown = |id: String| sandbox.job(&id)["sandbox"].clone();
        assert_eq!(
            done.out
                .lines()
                .next()
                .map_or(Value::Null, |id| shown(id.into())),
            [json!(name), Value::Null][code.min(1) as usize]
        );
    }
}

#[test]
fn kept_and_staged_files_have_the_umask_and_group_of_the_job() {
    let Some((sandbox, ann)) = person("mask", "") else {
        return;
    };
    let group = format!("group_list={}x,umask=027", ann.name);
    let options = [
        "-N",
        "g",
        "-k",
        "oe",
        "-W",
        &group,
        "-W",
        "stageout=made@localhost:out",
    ];
    let id = ann.submit(&sandbox, &options, "echo text | tee made");
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["umask"]),
        (&json!(0), &json!(27)),
        "{job:#}"
    );
    for name in [format!("g.o{}", number(&id)), "made".into(), "out".into()] {
        let found = fs::metadata(ann.file(&name)).unwrap();
        let seen = (found.uid(), found.gid(), found.permissions().mode() & 0o777);
        assert_eq!(seen, (ann.uid, ann.other, 0o640), "{name}");
    }
}

/// The job is not started, because its output would be lost.
#[test]
fn a_job_without_a_writable_output_directory_does_not_run() {
    let Some((sandbox, ann)) = person("closed", "") else {
        return;
    };
    let id = ann.submit(
        &sandbox,
        &["-h", "-j", "oe", "-o", "/no/such/place"],
        "touch /tmp/ran-$PBS_JOBID.$USER",
    );
    fs::set_permissions(ann.home(), Permissions::from_mode(0o500)).unwrap();
    sandbox.run("qrls", &[&id]).ok();
    let job = sandbox.ended(&id);
    fs::set_permissions(ann.home(), Permissions::from_mode(0o700)).unwrap();
    let message = job["comment"].as_str().unwrap();
    assert!(
        message.starts_with("Job could not be started: ") && message.contains("/no/such/place"),
        "{job:#}"
    );
    assert!(
        job["Exit_status"]
            .as_i64()
            .is_some_and(|status| status != 0),
        "{job:#}"
    );
    assert!(!Path::new(&format!("/tmp/ran-{id}.{}", ann.name)).exists());
}

#[test]
fn a_group_without_membership_is_refused() {
    let sandbox = Sandbox::new();
    for group in ["daemon", "no-such-group-here"] {
        let done = sandbox.run(
            "qsub",
            &["-W", &format!("group_list={group}"), "--", "true"],
        );
        refused(done, 197, "qsub: Bad GID for job execution");
    }
}

#[test]
fn a_job_runs_in_the_requested_group() {
    let Some([ann, bob]) = two_users("group") else {
        return;
    };
    let sandbox = shared("");
    let own = format!("group_list={}x", ann.name);
    refused(
        bob.run(&sandbox, "qsub", &["-W", &own, "--", "true"]),
        197,
        "Bad GID for job execution",
    );
    let id = ann.submit(
        &sandbox,
        &["-N", "g", "-W", &own],
        "id -g; id -G; touch made",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
    let out = ann.read(&format!("g.o{}", number(&id)));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], ann.other.to_string());
    assert!(
        lines[1].split(' ').any(|gid| gid == ann.gid.to_string()),
        "{out}"
    );
    for file in ["made".to_string(), format!("g.o{}", number(&id))] {
        let found = fs::metadata(ann.file(&file)).unwrap();
        assert_eq!((found.uid(), found.gid()), (ann.uid, ann.other), "{file}");
    }
    let waiting = bob.submit(&sandbox, &["-h"], "true");
    refused(
        bob.run(&sandbox, "qalter", &["-W", &own, &waiting]),
        197,
        "Bad GID for job execution",
    );
}

#[test]
fn output_of_a_successful_job_can_be_removed() {
    let sandbox = Sandbox::new();
    let submit = |letters: &str, script: &str| {
        let id = sandbox.submit(&["-N", "r", "-R", letters], script);
        sandbox.ended(&id);
        ["o", "e"].map(|letter| sandbox.file(&format!("r.{letter}{}", number(&id))).exists())
    };
    assert_eq!(submit("oe", "echo a\n"), [false, false]);
    assert_eq!(submit("e", "echo a\n"), [true, false]);
    assert_eq!(submit("oe", "exit 1\n"), [true, true]);
    fs::create_dir(sandbox.file("logs")).unwrap();
    let id = sandbox.submit(&["-o", "logs/", "-e", "/dev/null", "-R", "oe"], "true\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(fs::read_dir(sandbox.file("logs")).unwrap().count(), 0);
    assert!(Path::new("/dev/null").exists());
}

#[test]
fn output_is_kept_in_the_home_directory_on_request() {
    let Some([ann, _]) = two_users("keep") else {
        return;
    };
    let sandbox = shared("");
    fs::create_dir(ann.file("d")).unwrap();
    std::os::unix::fs::chown(ann.file("d"), Some(ann.uid), Some(ann.gid)).unwrap();
    let cd = |line: &str| ann.shell(&sandbox, &format!("cd d && {line}"));
    let qsub = crate::support::sandbox::bin("qsub");
    let submit = |options: &str| {
        let program =
            if lanai::sys::filesystem::first_closed_ancestor(qsub.parent().unwrap()).is_none() {
                qsub.clone()
            } else {
                ann.run(&sandbox, "qstat", &[]);
                sandbox.home().with_file_name("bin/qsub")
            };
        let id = cd(&format!(
            "{} {options} -N k -- echo text",
            program.display()
        ))
        .line();
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
        format!("k.o{}", number(&id))
    };
    let kept = submit("-k o -o elsewhere");
    assert_eq!(ann.read(&kept), "text\n");
    assert!(!ann.file("d/elsewhere").exists());
    let plain = submit("-k od");
    assert_eq!(ann.read(&format!("d/{plain}")), "text\n");
    submit("-o localhost:from-home");
    assert_eq!(ann.read("from-home"), "text\n");
}

#[test]
fn undeliverable_output_is_kept_in_the_home_directory_and_reported() {
    let Some([ann, _]) = two_users("undel") else {
        return;
    };
    let mailbox = Mailbox::new();
    let sandbox = shared(&format!("mailer = \"{}\"\n", mailbox.program.display()));
    let id = ann.submit(
        &sandbox,
        &["-N", "u", "-o", "no/such/place"],
        "echo precious; sleep 0.1",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    let place = ann.file(&format!("u.o{}", number(&id)));
    assert_eq!(fs::read_to_string(&place).unwrap(), "precious\n");
    let message = format!(
        "no/such/place: No such file or directory; the output is in {}",
        place.display()
    );
    assert!(comment(&job).contains(&message), "{job}");
    let mail = mailbox.mails(&sandbox, 1).remove(0);
    assert!(mail.contains(&message), "{mail}");
}

#[test]
fn the_umask_applies_to_output_files() {
    let sandbox = Sandbox::new();
    for (mask, mode) in [("022", 0o644), ("0", 0o666), ("077", 0o600)] {
        let id = sandbox.submit(&["-N", "m", "-W", &format!("umask={mask}")], "umask\n");
        sandbox.ended(&id);
        let found = fs::metadata(sandbox.file(&format!("m.o{}", number(&id)))).unwrap();
        assert_eq!(found.mode() & 0o777, mode, "{mask}");
    }
}
