//! Output appears at its final path once the job has finished, and is complete (decision 52).

use crate::support::installation::shared;
use crate::support::people::people;
use crate::support::sandbox::{Sandbox, kill, number};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const WAIT: &str = "while [ ! -e go ]; do sleep 0.02; done";

/// Configuration of this host as a node with 8 processors.
fn eight_processors() -> String {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    format!(
        "[[node]]\nname = \"{}\"\nncpus = 8\n",
        name.split('.').next().unwrap()
    )
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

/// Waits until a file of a running job has this content.
#[track_caller]
fn await_content(sandbox: &Sandbox, file: &str, text: &str) {
    sandbox.until(file, || {
        fs::read_to_string(sandbox.file(file))
            .is_ok_and(|found| found == text)
            .then_some(())
    });
}

#[test]
fn output_is_delivered_when_the_job_ends_and_not_before() {
    let sandbox = Sandbox::configured(&eight_processors());
    let live = sandbox.submit(
        &["-N", "live"],
        &format!("echo begun; echo err >&2; {WAIT}; echo done\n"),
    );
    let n = number(&live);
    await_content(&sandbox, &format!("live.e{n}.part"), "err\n");
    await_content(&sandbox, &format!("live.o{n}.part"), "begun\n");
    assert_eq!(
        names(&sandbox.work(), "live."),
        [format!("live.e{n}.part"), format!("live.o{n}.part")]
    );
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&live);
    assert_eq!(
        names(&sandbox.work(), "live."),
        [format!("live.e{n}"), format!("live.o{n}")]
    );
    assert_eq!(sandbox.read(&format!("live.o{n}")), "begun\ndone\n");
    for round in 0..5 {
        let name = format!("quiet{round}");
        sandbox
            .run(
                "qsub",
                &["-N", &name, "-W", "block=true", "--", "/bin/true"],
            )
            .ok();
        let found = names(&sandbox.work(), &name);
        let is_whole = matches!(&found[..], [e, o] if e.contains(".e") && o.contains(".o"));
        assert!(
            is_whole && found.iter().all(|file| !file.ends_with("part")),
            "{found:?}"
        );
    }
}

#[test]
fn the_output_of_a_deleted_limited_or_unstarted_job_is_delivered() {
    let sandbox = Sandbox::configured(&eight_processors());
    let deleted = sandbox.submit(&["-N", "d", "-j", "oe"], "echo begun; sleep 60\n");
    let long = sandbox.submit(
        &["-N", "l", "-j", "oe", "-l", "walltime=1"],
        "echo begun; sleep 60\n",
    );
    let bad = sandbox.submit(&["-N", "b", "-j", "oe"], "#!/no/such/interpreter\n");
    await_content(
        &sandbox,
        &format!("d.o{}.part", number(&deleted)),
        "begun\n",
    );
    sandbox.run("qdel", &[&deleted]).ok();
    for (name, id, text) in [
        ("d", &deleted, "begun"),
        ("l", &long, "walltime"),
        ("b", &bad, "/no/such/interpreter"),
    ] {
        sandbox.ended(id);
        let file = format!("{name}.o{}", number(id));
        assert_eq!(names(&sandbox.work(), &format!("{name}.")), [file.as_str()]);
        assert!(
            sandbox.read(&file).contains(text),
            "{file}: {}",
            sandbox.read(&file)
        );
    }
}

#[test]
fn jobs_with_the_same_output_file_do_not_mix_and_the_last_replaces_it() {
    let sandbox = Sandbox::configured(&eight_processors());
    let submit = |name: &str| {
        let script =
            format!("echo {name}; while [ ! -e {name} ]; do sleep 0.02; done; echo {name}\n");
        sandbox.submit(&["-o", "log", "-e", "/dev/null"], &script)
    };
    let [first, second] = ["one", "two"].map(submit);
    let [a, b] = [&first, &second].map(|id| format!("log.{}.part", number(id)));
    await_content(&sandbox, &a, "one\n");
    await_content(&sandbox, &b, "two\n");
    assert_eq!(names(&sandbox.work(), "log"), [a.as_str(), &b]);
    for (name, id) in [("two", &second), ("one", &first)] {
        fs::write(sandbox.file(name), "").unwrap();
        sandbox.ended(id);
        assert_eq!(sandbox.read("log"), format!("{name}\n{name}\n"));
    }
    assert_eq!(names(&sandbox.work(), "log"), ["log"]);
    let array = sandbox.submit(
        &["-J", "1-2", "-o", "log", "-j", "oe"],
        &format!("echo $PBS_ARRAY_INDEX; {WAIT}\n"),
    );
    for index in [1, 2] {
        await_content(
            &sandbox,
            &format!("log.{}.{index}.part", number(&array)),
            &format!("{index}\n"),
        );
    }
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&array);
    let only_log = || Some(names(&sandbox.work(), "log")).filter(|left| left == &["log"]);
    sandbox.until("the output of both subjobs", only_log);
    assert!(
        ["1\n", "2\n"].contains(&sandbox.read("log").as_str()),
        "{}",
        sandbox.read("log")
    );
    assert!(Path::new("/dev/null").exists());
}

#[test]
fn output_is_written_directly_on_request() {
    let sandbox = Sandbox::configured(&eight_processors());
    let script = format!("echo out; echo err >&2; {WAIT}\n");
    let both = sandbox.submit(&["-N", "b", "-k", "oed"], &script);
    let one = sandbox.submit(&["-N", "o", "-k", "od"], &script);
    let joined = sandbox.submit(&["-N", "j", "-k", "ed", "-j", "eo"], &script);
    let [b, o, j] = [&both, &one, &joined].map(|id| number(id));
    await_content(&sandbox, &format!("b.o{b}"), "out\n");
    await_content(&sandbox, &format!("b.e{b}"), "err\n");
    await_content(&sandbox, &format!("o.o{o}"), "out\n");
    await_content(&sandbox, &format!("o.e{o}.part"), "err\n");
    await_content(&sandbox, &format!("j.e{j}"), "out\nerr\n");
    assert_eq!(
        names(&sandbox.work(), "b."),
        [format!("b.e{b}"), format!("b.o{b}")]
    );
    fs::write(sandbox.file("go"), "").unwrap();
    for id in [&both, &one, &joined] {
        sandbox.ended(id);
    }
    assert_eq!(
        names(&sandbox.work(), "o."),
        [format!("o.e{o}"), format!("o.o{o}")]
    );
}

#[test]
fn an_existing_file_is_unchanged_until_delivery_and_a_link_remains() {
    let sandbox = Sandbox::configured(&eight_processors());
    fs::create_dir(sandbox.file("d")).unwrap();
    fs::write(sandbox.file("d/old"), "old").unwrap();
    fs::set_permissions(sandbox.file("d/old"), Permissions::from_mode(0o640)).unwrap();
    symlink("d/old", sandbox.file("link")).unwrap();
    let id = sandbox.submit(&["-o", "link", "-j", "oe"], &format!("echo new; {WAIT}\n"));
    let part = format!("d/old.{}.part", number(&id));
    await_content(&sandbox, &part, "new\n");
    assert_eq!(sandbox.read("link"), "old");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    let found = fs::metadata(sandbox.file("d/old")).unwrap();
    assert_eq!(
        (sandbox.read("link").as_str(), found.mode() & 0o777),
        ("new\n", 0o640)
    );
    assert!(
        fs::symlink_metadata(sandbox.file("link"))
            .unwrap()
            .is_symlink()
            && !sandbox.file(&part).exists()
    );
}

#[test]
fn undeliverable_output_is_reported_and_stays_beside_its_target() {
    let sandbox = Sandbox::configured(&eight_processors());
    let id = sandbox.submit(
        &["-o", "out", "-j", "oe"],
        "echo precious; mkdir $PBS_O_WORKDIR/out\n",
    );
    let job = sandbox.ended(&id);
    let part = sandbox.file(&format!("out.{}.part", number(&id)));
    let expected = format!("out: Is a directory; the output is in {}", part.display());
    assert!(
        job["Exit_status"] == 0 && job["comment"].as_str().unwrap().contains(&expected),
        "{job:#}"
    );
    assert_eq!(fs::read_to_string(part).unwrap(), "precious\n");
    let gone = sandbox.submit(
        &["-N", "gone", "-j", "oe"],
        "rm $PBS_O_WORKDIR/gone.o*; exit 4\n",
    );
    let job = sandbox.ended(&gone);
    assert!(
        job["Exit_status"] == 4 && !job["comment"].as_str().unwrap().contains("gone"),
        "{job:#}"
    );
}

#[test]
fn a_requeued_attempt_keeps_its_output_and_the_next_one_starts_empty() {
    let sandbox = Sandbox::configured(&eight_processors());
    let id = sandbox.submit(
        &["-N", "s", "-j", "oe"],
        &format!("echo attempt $LANAI_ATTEMPT; {WAIT}\n"),
    );
    let (place, part) = (
        format!("s.o{}", number(&id)),
        format!("s.o{}.part", number(&id)),
    );
    await_content(&sandbox, &part, "attempt 1\n");
    sandbox.running(&id);
    kill(sandbox.pid_of("lanai-shepherd").unwrap(), 9);
    await_content(&sandbox, &part, "attempt 2\n");
    assert!(!sandbox.file(&place).exists());
    sandbox.running(&id);
    // A rerun, as by preemption, does not count as the end of the job.
    sandbox.run("qrerun", &[&id]).ok();
    await_content(&sandbox, &part, "attempt 3\n");
    assert!(!sandbox.file(&place).exists());
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    assert_eq!(
        (
            sandbox.read(&place).as_str(),
            names(&sandbox.work(), "s.").len()
        ),
        ("attempt 3\n", 1)
    );
}

/// `-R` applies when the job has finished. A requeued attempt removes no existing file, even with
/// status 0.
#[test]
fn a_requeued_attempt_that_exits_0_removes_no_existing_file() {
    let sandbox = Sandbox::configured(&eight_processors());
    fs::write(sandbox.file("old"), "old").unwrap();
    let script = format!("trap 'exit 0' TERM; echo attempt $LANAI_ATTEMPT; {WAIT}\n");
    let id = sandbox.submit(&["-o", "old", "-j", "oe", "-R", "o"], &script);
    let part = format!("old.{}.part", number(&id));
    await_content(&sandbox, &part, "attempt 1\n");
    sandbox.running(&id);
    sandbox.run("qrerun", &[&id]).ok();
    await_content(&sandbox, &part, "attempt 2\n");
    assert_eq!(sandbox.read("old"), "old");
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(names(&sandbox.work(), "old"), Vec::<String>::new());
}

/// `-R` removes no file at the path of output that was not delivered: it belongs to others.
#[test]
fn failed_delivery_removes_no_existing_file() {
    let sandbox = Sandbox::configured(&eight_processors());
    let final_comment = |script: &str| {
        fs::create_dir(sandbox.file("d")).unwrap();
        let job =
            sandbox.ended(&sandbox.submit(&["-o", "d/out", "-e", "d/err", "-R", "oe"], script));
        assert_eq!(job["Exit_status"], 0);
        job["comment"].as_str().unwrap().to_string()
    };
    let comment = final_comment("echo text; mv d moved; mkdir d; echo other >d/out\n");
    assert!(
        sandbox.read("d/out") == "other\n" && !comment.contains("cannot remove"),
        "{comment}"
    );
    fs::remove_dir_all(sandbox.file("d")).unwrap();
    let comment = final_comment("echo text; echo text >&2; mkdir d/out; touch d/out/full\n");
    assert!(
        comment.contains("out: Is a directory; the output is in")
            && !comment.contains("cannot remove"),
        "{comment}"
    );
    let part = names(&sandbox.file("d"), "out.").concat();
    assert_eq!(
        (
            sandbox.read(&format!("d/{part}")).as_str(),
            names(&sandbox.file("d"), "err")
        ),
        ("text\n", vec![])
    );
}

#[test]
fn output_has_the_owner_and_mode_of_its_target() {
    let Some([ann, bob]) = people("parts") else {
        return;
    };
    let sandbox = shared(&eight_processors());
    let setup =
        "echo old > log; chmod 640 log; mkdir closed; echo old > closed/log; chmod 500 closed";
    ann.shell(&sandbox, setup).ok();
    fs::write(ann.file("bobs"), "old").unwrap();
    std::os::unix::fs::chown(ann.file("bobs"), Some(bob.uid), Some(bob.gid)).unwrap();
    fs::set_permissions(ann.file("bobs"), Permissions::from_mode(0o666)).unwrap();
    let script = "echo new; while [ ! -e ~/go ]; do sleep 0.02; done";
    let submit =
        |place: &str| ann.submit(&sandbox, &["-N", "usual", "-j", "oe", "-o", place], script);
    let [log, closed, bobs] = ["log", "closed/log", "bobs"].map(submit);
    let usual = ann.submit(&sandbox, &["-N", "usual", "-j", "oe"], script);
    let owner_and_mode = |file: &str| {
        let has_content = || {
            fs::read_to_string(ann.file(file))
                .is_ok_and(|text| text == "new\n")
                .then_some(())
        };
        sandbox.until(file, has_content);
        let found = fs::metadata(ann.file(file)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o777)
    };
    assert_eq!(
        owner_and_mode(&format!("log.{}.part", number(&log))),
        (ann.uid, ann.gid, 0o640)
    );
    assert_eq!(
        owner_and_mode(&format!("usual.o{}.part", number(&usual))),
        (ann.uid, ann.gid, 0o600)
    );
    assert_eq!(owner_and_mode("closed/log").0, ann.uid);
    assert_eq!(owner_and_mode("bobs"), (bob.uid, bob.gid, 0o666));
    assert_eq!(ann.read("log"), "old\n");
    fs::write(ann.file("go"), "").unwrap();
    for id in [&log, &closed, &bobs, &usual] {
        let job = sandbox.ended(id);
        assert!(
            job["Exit_status"] == 0
                && !job["comment"]
                    .as_str()
                    .unwrap()
                    .contains("the output is in"),
            "{job:#}"
        );
    }
    assert_eq!(owner_and_mode("log"), (ann.uid, ann.gid, 0o640));
    assert_eq!(
        owner_and_mode(&format!("usual.o{}", number(&usual))),
        (ann.uid, ann.gid, 0o600)
    );
    assert_eq!(
        (names(&ann.home(), "log"), names(&ann.file("closed"), "log")),
        (vec!["log".into()], vec!["log".into()])
    );
    assert_eq!(
        (
            names(&ann.home(), "bobs"),
            names(&ann.home(), "usual").len()
        ),
        (vec!["bobs".into()], 1)
    );
    // Stageout and `-R` happen after delivery, so they find the output at its final path.
    let removed = ann.submit(&sandbox, &["-N", "removed", "-R", "oe"], "echo text");
    let staged = [
        "-N",
        "staged",
        "-j",
        "oe",
        "-o",
        "staged.out",
        "-W",
        "stageout=staged.out@localhost:copy",
    ];
    let staged = ann.submit(&sandbox, &staged, "echo text");
    for id in [&removed, &staged] {
        assert_eq!(sandbox.ended(id)["Exit_status"], 0, "{}", sandbox.job(id));
    }
    assert_eq!(
        (names(&ann.home(), "removed"), ann.read("copy")),
        (vec![], "text\n".to_string())
    );
}

/// Output is not delivered where root may write but the owner may not.
#[test]
fn output_is_delivered_with_the_permissions_of_the_job_owner() {
    let Some([ann]) = people("owner") else { return };
    let sandbox = shared(&eight_processors());
    ann.shell(&sandbox, "mkdir shut").ok();
    let id = ann.submit(
        &sandbox,
        &["-j", "oe", "-o", "shut/log"],
        "echo text; chmod 500 ~/shut",
    );
    let job = sandbox.ended(&id);
    let part = format!("shut/log.{}.part", number(&id));
    let expected = format!(
        "shut/log: Permission denied; the output is in {}",
        ann.file(&part).display()
    );
    assert!(
        job["Exit_status"] == 0 && job["comment"].as_str().unwrap().contains(&expected),
        "{job:#}"
    );
    assert_eq!(
        (ann.read(&part).as_str(), names(&ann.file("shut"), "").len()),
        ("text\n", 1)
    );
}
