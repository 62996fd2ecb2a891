//! Notify programs of the site and of users, run when jobs begin, end or fail.

use crate::support::installation::{installed, shared};
use crate::support::people::people;
use crate::support::sandbox::Sandbox;
use lanai::sys::{cgroup, user};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A program that stores each message in a file.
struct Kept {
    folder: TempDir,
}

impl Kept {
    fn new(first: &str) -> Kept {
        let folder = tempfile::Builder::new()
            .prefix("lanai-notify-")
            .tempdir()
            .unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let kept = Kept { folder };
        let place = kept.folder.path().display();
        let body = format!(
            "#!/bin/sh\n{first}\nf={place}/$(date +%s%N).$$; cat > $f.new && mv $f.new $f.json\n"
        );
        fs::write(kept.program(), body).unwrap();
        fs::set_permissions(kept.program(), Permissions::from_mode(0o755)).unwrap();
        kept
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let mut files: Vec<_> = entries
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        files.sort();
        files
    }

    fn told(&self) -> Vec<Value> {
        self.files()
            .iter()
            .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
            .collect()
    }

    /// Waits for this number of messages.
    #[track_caller]
    fn await_told(&self, sandbox: &Sandbox, count: usize) -> Vec<Value> {
        sandbox.until("a notification", || {
            Some(self.told()).filter(|told| told.len() >= count)
        })
    }

    fn site(&self) -> String {
        format!("[server]\nnotify = \"{}\"\n", self.program().display())
    }

    fn own(&self) -> String {
        format!("notify={}", self.program().display())
    }
}

fn events(told: &[Value]) -> Vec<(&str, &str)> {
    told.iter()
        .map(|one| {
            (
                one["event"].as_str().unwrap(),
                one["job"]["id"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn site_and_owner_are_notified_of_begin_and_end() {
    let (site, own) = (Kept::new(""), Kept::new(""));
    let sandbox = Sandbox::configured(&site.site());
    let id = sandbox.submit(&["-N", "named", "-W", &own.own()], "exit 3");
    assert_eq!(
        sandbox.ended(&id)["notify"],
        own.program().display().to_string()
    );
    for kept in [&site, &own] {
        let told = kept.await_told(&sandbox, 2);
        assert_eq!(
            events(&told),
            [("begin", id.as_str()), ("end", id.as_str())]
        );
        assert_eq!(
            (&told[0]["job"]["job_state"], &told[1]["job"]["job_state"]),
            (&"R".into(), &"F".into())
        );
        assert_eq!(
            (&told[1]["job"]["Exit_status"], &told[1]["job"]["Job_Name"]),
            (&3.into(), &"named".into())
        );
        assert!(
            told[1]["job"]["resources_used"]["walltime"].is_string(),
            "{}",
            told[1]
        );
    }
    sandbox.ended(&sandbox.submit(&[], "true"));
    site.await_told(&sandbox, 4);
    assert_eq!(own.told().len(), 2, "only of the job that names it");
}

#[test]
fn a_failure_is_notified_as_an_abort() {
    let site = Kept::new("");
    let sandbox = Sandbox::configured(&site.site());
    let over = sandbox.submit(&["-l", "walltime=1"], "sleep 60");
    sandbox.ended(&over);
    let held = sandbox.submit(&["-h"], "true");
    sandbox.run("qdel", &[&held]).ok();
    sandbox.ended(&held);
    let told = site.await_told(&sandbox, 3);
    assert_eq!(
        events(&told),
        [
            ("begin", over.as_str()),
            ("abort", over.as_str()),
            ("abort", held.as_str())
        ]
    );
    assert!(
        told[1]["what"].as_str().unwrap().contains("walltime"),
        "{}",
        told[1]
    );
}

#[test]
fn a_flood_becomes_twenty_messages_and_a_digest() {
    let site = Kept::new("");
    let sandbox = Sandbox::configured(&site.site());
    let ids: Vec<String> = (0..15).map(|_| sandbox.submit(&[], "true")).collect();
    ids.iter().for_each(|id| drop(sandbox.ended(id)));
    site.await_told(&sandbox, 20);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(site.told().len(), 20);
    // Messages delayed until the end of the minute are sent before schedd exits.
    sandbox.run("schedd", &["--stop"]).ok();
    let told = sandbox.until("the digest", || {
        Some(site.told()).filter(|told| told.len() > 20)
    });
    let digest = told.last().unwrap();
    assert_eq!(
        (&digest["event"], &digest["count"]),
        (&"digest".into(), &10.into())
    );
    assert_eq!(digest["jobs"].as_array().unwrap().len(), 10);
    assert_eq!(
        (told.len(), &digest["jobs"][9]["event"]),
        (21, &"end".into())
    );
}

#[test]
fn an_array_is_notified_as_one_unless_subjobs_are_requested() {
    let site = Kept::new("");
    let sandbox = Sandbox::configured(&site.site());
    let one = sandbox.submit(&["-J", "0-3"], "true");
    sandbox.ended(&one);
    assert_eq!(
        events(&site.await_told(&sandbox, 2)),
        [("begin", one.as_str()), ("end", one.as_str())]
    );
    let each = sandbox.submit(&["-J", "0-3", "-m", "aj"], "true");
    sandbox.ended(&each);
    let told = site.await_told(&sandbox, 12);
    let subjobs = told
        .iter()
        .filter(|one| one["job"]["array_id"] == each.as_str())
        .count();
    assert_eq!((told.len(), subjobs), (12, 8));
}

#[test]
fn a_hanging_notify_program_times_out_and_blocks_no_job() {
    let (site, own) = (Kept::new(""), Kept::new("echo $$ > $0.pid; exec sleep 300"));
    let sandbox = Sandbox::configured(&site.site());
    let id = sandbox.submit(&["-W", &own.own()], "true");
    sandbox.ended(&id);
    site.await_told(&sandbox, 2);
    let pid = own.folder.path().join("program.pid");
    sandbox.until("the hanging program", || pid.exists().then_some(()));
    sandbox.ended(&sandbox.submit(&["-W", &own.own()], "true"));
    site.await_told(&sandbox, 4);
    let first = fs::read_to_string(&pid).unwrap();
    // The program is killed after 30 s; then the next message is sent.
    sandbox.until("the end of the first", || {
        (fs::read_to_string(&pid).unwrap() != first).then_some(())
    });
    let log = sandbox.log();
    assert!(log.contains("took longer than 30 s"), "{log}");
}

#[test]
fn a_path_that_is_none_is_refused_and_a_program_that_fails_is_logged() {
    let sandbox = Sandbox::new();
    let done = sandbox.run("qsub", &["-W", "notify=here", "--", "true"]);
    assert!(
        done.code != 0 && done.err.contains("illegal -W value"),
        "{done:?}"
    );
    let id = sandbox.submit(&["-W", "notify=/no/such/program"], "true");
    sandbox.ended(&id);
    let said = format!(
        "/no/such/program of {}: it was not started: No such file",
        user::own().name
    );
    sandbox.until("the log", || sandbox.log().contains(&said).then_some(()));
    let held = sandbox.submit(&["-h", "-W", "notify=/bin/false"], "true");
    sandbox
        .run("qalter", &["-W", "notify=/bin/true", &held])
        .ok();
    assert_eq!(sandbox.job(&held)["notify"], "/bin/true");
}

#[test]
fn a_users_program_runs_as_the_user() {
    let Some([ann]) = people("told") else { return };
    let own = Kept::new("");
    let sandbox = shared("");
    let id = ann.submit(&sandbox, &["-W", &own.own()], "true");
    sandbox.ended(&id);
    own.await_told(&sandbox, 2);
    for file in own.files() {
        assert_eq!(fs::metadata(&file).unwrap().uid(), ann.uid);
    }
}

/// With and without control groups.
#[test]
fn a_users_program_is_limited_under_noded_and_all_that_it_starts_ends_with_it() {
    let Some([ann]) = people("fence") else { return };
    // Descriptors 10 and 11 are the shell's own: its script and saved output.
    let record = "cd ${0%/*}; setsid sleep 1000 & echo $! >>strays
        ls -l /proc/$$/fd >open; grep -v ' 1[01] ->' open | grep -c -e '->' >facts; ulimit -c >>facts; ulimit -n >>facts; ulimit -d >>facts
        cat /proc/$$/cgroup >groups
        p=$$; while [ $p -gt 1 ]; do cat /proc/$p/comm; p=$(sed -n 's/^PPid:.//p' /proc/$p/status); done >ancestors";
    let has_groups = cgroup::base().is_some_and(|folder| cgroup::usable(&folder));
    for (fence, is_fenced) in [(None, has_groups), (Some("--no-cgroups"), false)] {
        let own = Kept::new(record);
        let sandbox = installed("");
        let node = [
            "--nodes", "1", "--ncpus", "2", "--mem", "4gb", "--name", "h",
        ];
        sandbox
            .run("noded", &node.into_iter().chain(fence).collect::<Vec<_>>())
            .ok();
        sandbox.run("schedd", &[]).ok();
        sandbox.ended(&ann.submit(&sandbox, &["-W", &own.own()], "true"));
        own.await_told(&sandbox, 2);
        let read = |name: &str| fs::read_to_string(own.folder.path().join(name)).unwrap();
        let strays = read("strays");
        assert_eq!(strays.lines().count(), 2, "one for each event");
        let is_gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        sandbox.until("the end of all processes", || {
            strays.lines().all(is_gone).then_some(())
        });
        assert_eq!(
            read("facts").lines().collect::<Vec<_>>(),
            ["3", "0", "1024", "1048576"],
            "{}",
            read("open")
        );
        assert_eq!(
            read("groups").contains("/lanai-notify-"),
            is_fenced,
            "{}",
            read("groups")
        );
        let ancestors = read("ancestors");
        assert!(
            ancestors.contains("lanai-notify") && !ancestors.contains("schedd"),
            "{ancestors}"
        );
    }
}

#[test]
fn a_users_program_continues_after_schedd_ends() {
    let own = Kept::new("[ -e $0.begun ] && sleep 4; touch $0.begun");
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-W", &own.own()], "true");
    sandbox.ended(&id);
    own.await_told(&sandbox, 1);
    sandbox.run("schedd", &["--stop"]).ok();
    assert_eq!(
        events(&own.await_told(&sandbox, 2)),
        [("begin", id.as_str()), ("end", id.as_str())]
    );
}
