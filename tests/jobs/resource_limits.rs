//! Limits on a job and the rest of its files: what ends it says so, and its files are where they
//! were asked to be.

use crate::support::people::two_people;
use crate::support::sandbox::{Done, Sandbox, kill};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A sandbox with little patience for jobs that are told to end.
fn impatient() -> Sandbox {
    Sandbox::configured("[launch]\ngrace = \"1s\"\n")
}

/// A shared installation, served by root.
fn shared(config: &str) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("[server]\nshared = true\n{config}"));
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    sandbox
}

fn number(id: &str) -> &str {
    id.split('.').next().unwrap()
}

fn comment(job: &Value) -> &str {
    job["comment"].as_str().unwrap_or_default()
}

/// Kilobytes of `resources_used`.
fn used_kb(job: &Value, name: &str) -> u64 {
    job["resources_used"][name]
        .as_str()
        .unwrap()
        .trim_end_matches("kb")
        .parse()
        .unwrap()
}

/// What the job's error file says of its end: resource, used, limit.
#[track_caller]
fn killed(sandbox: &Sandbox, id: &str, name: &str) -> (String, String) {
    let text = sandbox.read(&format!("{name}.e{}", number(id)));
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("=>> PBS: job killed: "));
    let words: Vec<&str> = line
        .unwrap_or_else(|| panic!("{text:?}"))
        .split(' ')
        .collect();
    assert_eq!((words[2], words[3]), ("exceeded", "limit"), "{text}");
    (words[0].to_string(), format!("{} {}", words[1], words[4]))
}

#[track_caller]
fn refused(done: Done, code: i32, text: &str) {
    assert!(
        done.code == code && done.err.contains(text) && done.out.is_empty(),
        "{code} {text:?}: {done:?}"
    );
}

// ------------------------------------------------------------------------------- limits

#[test]
fn a_job_that_takes_too_much_memory_is_ended_and_told_by_how_much() {
    let sandbox = impatient();
    // `tail` must keep what has no end of a line.
    let script = "head -c 400m /dev/zero | tail; sleep 60; echo survived\n";
    let started = Instant::now();
    let id = sandbox.submit(&["-N", "hog", "-l", "select=1:ncpus=1:mem=60mb"], script);
    let job = sandbox.ended(&id);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(job["Exit_status"], -27, "{job}");
    let (resource, figures) = killed(&sandbox, &id, "hog");
    assert_eq!(resource, "mem");
    let (peak, limit) = figures.split_once(' ').unwrap();
    assert_eq!(limit, "61440kb");
    let peak: u64 = peak.trim_end_matches("kb").parse().unwrap();
    assert!(
        peak > 61440 && used_kb(&job, "mem") >= peak,
        "{peak}: {job}"
    );
    let expected = format!("and exceeded resource mem (mem {peak}kb exceeded limit 61440kb)");
    assert!(comment(&job).ends_with(&expected), "{job}");
    assert_eq!(sandbox.read(&format!("hog.o{}", number(&id))), "");
}

#[test]
fn memory_within_the_limit_or_without_one_ends_nobody() {
    let sandbox = Sandbox::new();
    let script = "head -c 80m /dev/zero | tail | wc -c; sleep 0.5\n";
    let within = sandbox.submit(&["-N", "in", "-l", "select=1:ncpus=1:mem=300mb"], script);
    let free = sandbox.submit(&["-N", "in"], script);
    for id in [within, free] {
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(
            sandbox.read(&format!("in.o{}", number(&id))).trim(),
            "83886080"
        );
    }
}

#[test]
fn memory_that_processes_share_is_counted_once() {
    if !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: needs perl");
    }
    let sandbox = impatient();
    // Six children that touch nothing of the 30 MB they share with their parent.
    let script = "exec perl -e '$x = \"a\" x 30_000_000; for (1..6) { sleep 3, exit unless fork } 1 while wait > 0'\n";
    let id = sandbox.submit(&["-l", "select=1:ncpus=1:mem=100mb"], script);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{}", sandbox.job(&id));
}

#[test]
fn one_process_too_large_and_too_much_address_space_end_a_job_too() {
    let sandbox = impatient();
    let script = "head -c 400m /dev/zero | tail; sleep 60\n";
    let one = sandbox.submit(&["-N", "one", "-l", "pmem=60mb"], script);
    let space = sandbox.submit(
        &["-N", "space", "-l", "select=1:ncpus=1:vmem=120mb"],
        script,
    );
    assert_eq!(sandbox.ended(&one)["Exit_status"], -27);
    assert_eq!(killed(&sandbox, &one, "one").0, "pmem");
    let job = sandbox.ended(&space);
    assert_eq!(job["Exit_status"], -26);
    assert!(
        comment(&job).contains("and exceeded resource vmem (vmem "),
        "{job}"
    );
}

#[test]
fn limits_of_one_process_are_the_kernels() {
    let sandbox = Sandbox::new();
    let script = "ulimit -v; ulimit -t; head -c 9m /dev/zero > large; stat -c %s large\n";
    let id = sandbox.submit(
        &["-N", "u", "-l", "pvmem=900mb,pcput=0:50,file=5mb"],
        script,
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(
        sandbox.read(&format!("u.o{}", number(&id))),
        "921600\n50\n5242880\n"
    );
}

#[test]
fn an_endless_loop_is_ended_over_its_processor_time() {
    let sandbox = impatient();
    let id = sandbox.submit(&["-N", "busy", "-l", "cput=2"], "while :; do :; done\n");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -28, "{job}");
    let (resource, figures) = killed(&sandbox, &id, "busy");
    assert_eq!((resource.as_str(), figures.as_str()), ("cput", "2 2"));
    assert!(
        comment(&job).ends_with("and exceeded resource cput (cput 2 exceeded limit 2)"),
        "{job}"
    );
}

#[test]
fn processor_time_is_bounded_anew_while_a_job_runs() {
    let sandbox = impatient();
    let id = sandbox.submit(
        &["-N", "busy", "-l", "cput=1:00:00"],
        "while :; do :; done\n",
    );
    sandbox.running(&id);
    sandbox.run("qalter", &["-l", "cput=1", &id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], -28);
}

#[test]
fn an_endless_loop_is_ended_over_its_walltime() {
    let sandbox = impatient();
    let id = sandbox.submit(
        &["-N", "long", "-l", "walltime=1"],
        "while :; do sleep 0.1; done\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -29, "{job}");
    assert_eq!(
        killed(&sandbox, &id, "long"),
        ("walltime".into(), "1 1".into())
    );
    assert!(
        comment(&job).ends_with("and exceeded resource walltime (walltime 1 exceeded limit 1)"),
        "{job}"
    );
}

// ------------------------------------------------------------------------------- the warning

#[test]
fn a_job_is_warned_before_its_walltime_is_over() {
    let sandbox = impatient();
    let script = "trap 'echo warned; exit 3' USR1; while :; do sleep 0.1; done\n";
    let trapped = sandbox.submit(
        &["-N", "w", "-l", "walltime=62", "-W", "warn=USR1@60"],
        script,
    );
    let short = sandbox.submit(
        &["-l", "walltime=62", "-W", "warn=USR1@120"],
        &format!("sleep 0.3; {script}"),
    );
    let killed = sandbox.submit(
        &["-l", "walltime=1:00:00", "-W", "warn=12@59:59"],
        "sleep 60\n",
    );
    let started = Instant::now();
    assert_eq!(sandbox.ended(&trapped)["Exit_status"], 3);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(
        sandbox.read(&format!("w.o{}", number(&trapped))),
        "warned\n"
    );
    assert_eq!(
        sandbox.ended(&short)["Exit_status"],
        3,
        "it had time for its trap"
    );
    let job = sandbox.ended(&killed);
    assert_eq!(
        (&job["Exit_status"], &job["warn"]),
        (&(256 + 12).into(), &"12@59:59".into())
    );
}

#[test]
fn a_warning_comes_once_and_can_be_asked_for_while_the_job_runs() {
    let sandbox = impatient();
    let script =
        "trap 'echo warned' USR1; echo ready > ready; while [ ! -e go ]; do sleep 0.05; done\n";
    let id = sandbox.submit(&["-N", "w", "-l", "walltime=1:00:00"], script);
    sandbox.running(&id);
    sandbox.until("the trap", || sandbox.file("ready").exists().then_some(()));
    let out = format!("w.o{}", number(&id));
    sandbox
        .run("qalter", &["-W", "warn=SIGUSR1@1:00:00", &id])
        .ok();
    let so_far = format!("{out}.part");
    sandbox.until("the warning", || {
        (sandbox.read(&so_far) == "warned\n").then_some(())
    });
    sandbox.run("qalter", &["-l", "walltime=0:30:00", &id]).ok();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], sandbox.read(&out).as_str()),
        (&0.into(), "warned\n"),
        "{job}"
    );
}

#[test]
fn a_warning_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    for value in ["USR1", "NOSUCH@5", "USR1@x", "USR1@0"] {
        refused(
            sandbox.run("qsub", &["-W", &format!("warn={value}"), "--", "true"]),
            2,
            "qsub: illegal -W value",
        );
    }
}

// ------------------------------------------------------------------------------- groups

#[test]
fn a_group_of_strangers_is_refused() {
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
fn a_job_runs_in_the_group_it_asked_for() {
    let Some([ann, bob]) = two_people("group") else {
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

// ------------------------------------------------------------------------------- output

#[test]
fn output_of_a_job_that_went_well_can_be_removed() {
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
fn output_is_kept_at_home_if_asked_for() {
    let Some([ann, _]) = two_people("keep") else {
        return;
    };
    let sandbox = shared("");
    fs::create_dir(ann.file("d")).unwrap();
    std::os::unix::fs::chown(ann.file("d"), Some(ann.uid), Some(ann.gid)).unwrap();
    let cd = |line: &str| ann.shell(&sandbox, &format!("cd d && {line}"));
    let qsub = crate::support::sandbox::bin("qsub");
    let submit = |options: &str| {
        let program =
            if lanai::sys::filesystem::closed_on_the_way_to(qsub.parent().unwrap()).is_none() {
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
fn output_that_cannot_be_delivered_is_left_at_home_and_said_so() {
    let Some([ann, _]) = two_people("undel") else {
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
    let said = format!(
        "no/such/place: No such file or directory; it is left in {}",
        place.display()
    );
    assert!(comment(&job).contains(&said), "{job}");
    let letter = mailbox.letters(&sandbox, 1).remove(0);
    assert!(letter.contains(&said), "{letter}");
}

#[test]
fn the_umask_governs_output_too() {
    let sandbox = Sandbox::new();
    for (mask, mode) in [("022", 0o644), ("0", 0o666), ("077", 0o600)] {
        let id = sandbox.submit(&["-N", "m", "-W", &format!("umask={mask}")], "umask\n");
        sandbox.ended(&id);
        let found = fs::metadata(sandbox.file(&format!("m.o{}", number(&id)))).unwrap();
        assert_eq!(found.mode() & 0o777, mode, "{mask}");
    }
}

// ------------------------------------------------------------------------------- staging

#[test]
fn files_are_copied_before_and_after_a_job() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.file("data")).unwrap();
    fs::write(sandbox.file("data/1.in"), "1").unwrap();
    fs::write(sandbox.file("data/2.in"), "2").unwrap();
    for folder in ["w", "results"] {
        fs::create_dir(sandbox.file(folder)).unwrap();
    }
    let work = sandbox.work().display().to_string();
    let stage_in = format!("stagein={work}/w@localhost:{work}/data/*.in");
    let stage_out =
        format!("stageout='{work}/w/sum@localhost:{work}/results,{work}/w/no@localhost:{work}/x'");
    let id = sandbox.submit(
        &["-W", &stage_in, "-W", &stage_out],
        "cd w; cat 1.in 2.in > sum; exit 5\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 5, "{job}");
    assert_eq!(sandbox.read("results/sum"), "12");
    let said = comment(&job);
    assert!(
        said.contains("and failed; stage-out failed: ")
            && said.contains("No such file or directory"),
        "{said}"
    );
}

#[test]
fn a_job_whose_files_are_not_there_does_not_start() {
    let sandbox = Sandbox::new();
    let work = sandbox.work().display().to_string();
    let id = sandbox.submit(
        &["-W", &format!("stagein={work}/x@localhost:{work}/none")],
        "touch ran\n",
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], -1, "{job}");
    let said = comment(&job);
    assert!(
        said.starts_with("Job could not be started: stage-in failed: ")
            && said.contains("/none: No such"),
        "{said}"
    );
    assert!(!sandbox.file("ran").exists());
    let done = sandbox.run("qsub", &["-W", "stagein=x@far.away:/y", "--", "true"]);
    refused(done, 166, "stagein: far.away is no host of this cluster");
}

/// Under preset `maui` files to stage in are a precondition; a key says so elsewhere.
#[test]
fn a_job_waits_for_files_to_stage_in_where_the_site_says_so() {
    // The load of the machine is no matter of this test.
    let maui = "preset = \"maui\"\nplacement = { availability = \"dedicated\" }\n[launch]\n";
    for config in [maui, "[launch]\nstage_in = \"wait\"\n"] {
        let sandbox = Sandbox::configured(&format!("{config}stage_in_retry = \"1s\"\n"));
        let work = sandbox.work().display().to_string();
        let stage_in = format!("stagein={work}/x@localhost:{work}/none");
        let id = sandbox.submit(&["-W", &stage_in], "cat x > ran\n");
        let missing = format!("{work}/none");
        let why = sandbox.until("the reason", || {
            let why = sandbox.run("qstat", &["--why", &id]).out;
            why.contains("(state: stage_in)").then_some(why)
        });
        assert!(
            why.contains(&format!(
                "Files to stage in are missing: {missing}. They are looked for"
            )),
            "{why}"
        );
        let said = comment(&sandbox.job(&id)).to_string();
        assert!(
            said.starts_with("Not Running: Files to stage in are missing")
                && said.ends_with(&missing),
            "{said}"
        );
        assert!(!sandbox.file("ran").exists());
        fs::write(sandbox.file("none"), "here").unwrap();
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(sandbox.read("ran"), "here");
    }
}

#[test]
fn a_job_that_waits_for_its_files_can_be_deleted() {
    let sandbox = Sandbox::new();
    let work = sandbox.work().display().to_string();
    let stage_in = format!("stagein={work}/copy@localhost:/dev/zero");
    refused_as_no_file(&sandbox, &stage_in);
    // A copy that takes for ever: nobody reads the other end.
    sandbox.shell("mkfifo pipe; echo text > file").ok();
    let id = sandbox.submit(
        &["-W", &format!("stagein={work}/pipe@localhost:{work}/file")],
        "touch ran\n",
    );
    sandbox.until("the copy", || {
        (sandbox.pids_of("lanai-shepherd").len() == 2).then_some(())
    });
    assert_eq!(sandbox.state(&id), "R");
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    assert!(!sandbox.file("ran").exists());
}

#[test]
fn a_shepherd_killed_while_files_are_copied_leaves_neither_a_copier_nor_a_folder() {
    let sandbox = Sandbox::configured(&format!(
        "[server]\nname = \"copies{}\"\n",
        std::process::id()
    ));
    let work = sandbox.work().display().to_string();
    sandbox.shell("mkfifo pipe; echo text > file").ok();
    let options = [
        "-r",
        "n",
        "-W",
        &format!("stagein={work}/pipe@localhost:{work}/file"),
    ];
    let id = sandbox.submit(&options, "touch ran\n");
    let tmpdir = Path::new("/var/tmp").join(format!("pbs.{id}"));
    let both = sandbox.until("the copy", || {
        Some(sandbox.pids_of("lanai-shepherd")).filter(|pids| pids.len() == 2)
    });
    assert!(tmpdir.is_dir());
    fs::write(tmpdir.join("left"), "").unwrap();
    let parent = |pid: &i32| lanai::sys::procfs::process(*pid).map(|process| process.parent);
    let copier = both
        .iter()
        .find(|pid| parent(pid).is_some_and(|parent| both.contains(&parent)))
        .unwrap();
    kill(parent(copier).unwrap(), 9);
    sandbox.ended(&id);
    sandbox.until("the end of both", || {
        sandbox.pids_of("lanai-shepherd").is_empty().then_some(())
    });
    sandbox.until("the end of its folder", || (!tmpdir.exists()).then_some(()));
    assert!(!sandbox.file("ran").exists());
}

fn refused_as_no_file(sandbox: &Sandbox, stage_in: &str) {
    let id = sandbox.submit(&["-W", stage_in], "true\n");
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("/dev/zero: neither a file nor a folder"),
        "{job}"
    );
}

#[test]
fn staging_reads_nothing_its_owner_could_not() {
    let Some([ann, bob]) = two_people("stage") else {
        return;
    };
    let sandbox = shared("");
    fs::write(bob.file("diary"), "secret").unwrap();
    let diary = bob.file("diary").display().to_string();
    let id = ann.submit(
        &sandbox,
        &["-W", &format!("stagein=mine@localhost:{diary}")],
        "cat mine",
    );
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("Permission denied") || comment(&job).contains("No such file"),
        "{job}"
    );
    assert!(!ann.file("mine").exists());
    let out = format!(
        "stageout=job.sh@localhost:{}",
        bob.file("planted").display()
    );
    let id = ann.submit(&sandbox, &["-W", &out], "true");
    let job = sandbox.ended(&id);
    assert!(
        comment(&job).contains("and finished; stage-out failed")
            && comment(&job).contains("denied"),
        "{job}"
    );
    assert!(!bob.file("planted").exists());
}

#[test]
fn a_private_sandbox_is_made_and_goes() {
    let Some([ann, _]) = two_people("box") else {
        return;
    };
    let sandbox = shared("");
    fs::write(ann.file("in"), "given").unwrap();
    fs::set_permissions(ann.file("in"), Permissions::from_mode(0o644)).unwrap();
    let options = [
        "-N",
        "p",
        "-W",
        "sandbox=PRIVATE,stagein=work@localhost:in",
        "-W",
        "stageout=result@localhost:kept",
    ];
    let script = "pwd; echo $PBS_JOBDIR; stat -c '%a %U' .; cat work; echo made > result";
    let id = ann.submit(&sandbox, &options, script);
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    let out = ann.read(&format!("p.o{}", number(&id)));
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with(&ann.file(&format!("pbs.{id}.")).display().to_string()),
        "{out}"
    );
    assert_eq!(
        lines[1..],
        [lines[0], &format!("700 {}", ann.name), "given"],
        "{out}"
    );
    assert_eq!(ann.read("kept"), "made\n");
    assert!(!Path::new(lines[0]).exists());
    let owner = fs::metadata(ann.file("kept")).unwrap().uid();
    assert_eq!(owner, ann.uid);
}

// ------------------------------------------------------------------------------- mail

/// A mailer that keeps what it is given.
pub struct Mailbox {
    folder: tempfile::TempDir,
    pub program: std::path::PathBuf,
}

impl Mailbox {
    pub fn new() -> Mailbox {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("mailer");
        let script = "#!/bin/sh\nd=$(dirname $0)/$(date +%s%N)\n{ echo \"args: $*\"; cat; } > $d.tmp && mv $d.tmp $d.mail\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Mailbox { folder, program }
    }

    pub fn sandbox(&self) -> Sandbox {
        Sandbox::configured(&format!(
            "[server]\nmailer = \"{}\"\nmail_from = \"adm\"\n",
            self.program.display()
        ))
    }

    /// All letters so far, in the order in which they came.
    pub fn all(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| path.extension().is_some_and(|end| end == "mail"))
            .collect();
        files.sort();
        files
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect()
    }

    /// Waits for so many letters.
    #[track_caller]
    pub fn letters(&self, sandbox: &Sandbox, count: usize) -> Vec<String> {
        sandbox.until(&format!("{count} letters"), || {
            Some(self.all()).filter(|letters| letters.len() >= count)
        })
    }
}

#[test]
fn begin_and_end_are_mailed_as_asked_for() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(
        &["-N", "told", "-m", "abe", "-M", "ann@far,bob"],
        "sleep 0.2; exit 4\n",
    );
    sandbox.ended(&id);
    let letters = mailbox.letters(&sandbox, 2);
    let begin =
        format!("Subject: PBS JOB {id}\n\nPBS Job Id: {id}\nJob Name:   told\nexec_host:  ");
    assert!(
        letters[0].starts_with("args: -f adm ann@far bob\nFrom: adm\nTo: ann@far, bob\n"),
        "{}",
        letters[0]
    );
    assert!(
        letters[0].contains(&begin) && letters[0].ends_with("\nBegun execution\n"),
        "{}",
        letters[0]
    );
    assert!(
        letters[1].contains("\nExecution terminated\nExit_status=4\nresources_used.cpupercent="),
        "{}",
        letters[1]
    );
    assert!(
        letters[1].contains("\nresources_used.walltime=00:00:00\n"),
        "{}",
        letters[1]
    );
}

#[test]
fn by_default_only_what_went_wrong_is_mailed_to_the_owner() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let quiet = sandbox.submit(&["-m", "n", "-l", "walltime=1"], "sleep 60\n");
    let fine = sandbox.submit(&[], "sleep 0.1; exit 1\n");
    let owner = sandbox.job(&fine)["Job_Owner"]
        .as_str()
        .unwrap()
        .split('@')
        .next()
        .unwrap()
        .to_string();
    let over = sandbox.submit(&["-l", "walltime=1"], "sleep 60\n");
    for id in [&quiet, &fine, &over] {
        sandbox.ended(id);
    }
    let letters = mailbox.letters(&sandbox, 1);
    assert_eq!(letters.len(), 1, "{letters:?}");
    let said = "\nJob exceeded resource walltime\nSee job standard error file\n(walltime 1 exceeded limit 1)\nExit_status=-29\n";
    assert!(
        letters[0].contains(&format!("PBS Job Id: {over}\n")) && letters[0].contains(said),
        "{}",
        letters[0]
    );
    assert!(
        letters[0].starts_with(&format!("args: -f adm {owner}\n")),
        "{}",
        letters[0]
    );
}

#[test]
fn a_flood_of_mail_is_folded_and_nobody_waits_for_the_mailer() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    sandbox.run("schedd", &[]).ok();
    let line = "for i in $(seq 60); do qsub -m b -o /dev/null -e /dev/null -- true || exit 1; done";
    sandbox.shell(line).ok();
    sandbox.until("the end of all", || {
        sandbox.run("qstat", &[]).out.is_empty().then_some(())
    });
    sandbox.run("schedd", &["--stop"]).ok();
    let letters = mailbox.letters(&sandbox, 21);
    assert_eq!(letters.len(), 21);
    assert!(
        letters[20].contains("\n40 more messages about jobs of "),
        "{}",
        letters[20]
    );
}

#[test]
fn a_mailer_that_hangs_or_is_not_there_disturbs_nobody() {
    let mailbox = Mailbox::new();
    fs::write(&mailbox.program, "#!/bin/sh\nexec sleep 60\n").unwrap();
    for program in [
        mailbox.program.display().to_string(),
        "/no/such/mailer".into(),
    ] {
        let sandbox = Sandbox::configured(&format!("[server]\nmailer = \"{program}\"\n"));
        let started = Instant::now();
        let ids: Vec<String> = (0..5)
            .map(|_| sandbox.submit(&["-m", "abe"], "true\n"))
            .collect();
        ids.iter()
            .for_each(|id| assert_eq!(sandbox.ended(id)["Exit_status"], 0));
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{:?}",
            started.elapsed()
        );
    }
}

#[test]
fn who_deletes_anothers_job_is_named_to_its_owner() {
    let Some([ann, _]) = two_people("mail") else {
        return;
    };
    let mailbox = Mailbox::new();
    let sandbox = shared(&format!("mailer = \"{}\"\n", mailbox.program.display()));
    let own = ann.submit(&sandbox, &["-h"], "true");
    let other = ann.submit(&sandbox, &["-h"], "true");
    ann.run(&sandbox, "qdel", &[&own]).ok();
    sandbox.run("qdel", &[&other]).ok();
    let letters = mailbox.letters(&sandbox, 1);
    assert!(
        letters[0].contains(&format!("PBS Job Id: {other}\n")),
        "{letters:?}"
    );
    assert!(
        letters[0].contains("\nJob deleted at request of root@"),
        "{letters:?}"
    );
    assert_eq!(mailbox.all().len(), 1);
}
