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

/// A notify program that stores each message in a file.
struct Recorder {
    folder: TempDir,
}

impl Recorder {
    fn new(first: &str) -> Recorder {
        let folder = tempfile::Builder::new()
            .prefix("lanai-notify-")
            .tempdir()
            .unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let recorder = Recorder { folder };
        let place = recorder.folder.path().display();
        let body = format!(
            "#!/bin/sh\n{first}\nf={place}/$(date +%s%N).$$; cat > $f.new && mv $f.new $f.json\n"
        );
        fs::write(recorder.program(), body).unwrap();
        fs::set_permissions(recorder.program(), Permissions::from_mode(0o755)).unwrap();
        recorder
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

    fn messages(&self) -> Vec<Value> {
        self.files()
            .iter()
            .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
            .collect()
    }

    /// Waits for this number of messages.
    #[track_caller]
    fn await_messages(&self, sandbox: &Sandbox, count: usize) -> Vec<Value> {
        sandbox.until("a notification", || {
            Some(self.messages()).filter(|messages| messages.len() >= count)
        })
    }

    fn config(&self) -> String {
        format!("[server]\nnotify = \"{}\"\n", self.program().display())
    }

    fn option(&self) -> String {
        format!("notify={}", self.program().display())
    }
}

fn events(messages: &[Value]) -> Vec<(&str, &str)> {
    messages
        .iter()
        .map(|message| {
            (
                message["event"].as_str().unwrap(),
                message["job"]["id"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn site_and_owner_are_notified_of_begin_and_end() {
    let (site, own) = (Recorder::new(""), Recorder::new(""));
    let sandbox = Sandbox::configured(&site.config());
    let id = sandbox.submit(&["-N", "named", "-W", &own.option()], "exit 3");
    assert_eq!(
        sandbox.ended(&id)["notify"],
        own.program().display().to_string()
    );
    for recorder in [&site, &own] {
        let messages = recorder.await_messages(&sandbox, 2);
        assert_eq!(
            events(&messages),
            [("begin", id.as_str()), ("end", id.as_str())]
        );
        assert_eq!(
            (
                &messages[0]["job"]["job_state"],
                &messages[1]["job"]["job_state"]
            ),
            (&"R".into(), &"F".into())
        );
        assert_eq!(
            (
                &messages[1]["job"]["Exit_status"],
                &messages[1]["job"]["Job_Name"]
            ),
            (&3.into(), &"named".into())
        );
        assert!(
            messages[1]["job"]["resources_used"]["walltime"].is_string(),
            "{}",
            messages[1]
        );
    }
    sandbox.ended(&sandbox.submit(&[], "true"));
    site.await_messages(&sandbox, 4);
    assert_eq!(
        own.messages().len(),
        2,
        "the owner's program runs only for the job that names it"
    );
}

#[test]
fn a_failure_is_notified_as_an_abort() {
    let site = Recorder::new("");
    let sandbox = Sandbox::configured(&site.config());
    let exceeded = sandbox.submit(&["-l", "walltime=1"], "sleep 60");
    sandbox.ended(&exceeded);
    let held = sandbox.submit(&["-h"], "true");
    sandbox.run("qdel", &[&held]).ok();
    sandbox.ended(&held);
    let messages = site.await_messages(&sandbox, 3);
    assert_eq!(
        events(&messages),
        [
            ("begin", exceeded.as_str()),
            ("abort", exceeded.as_str()),
            ("abort", held.as_str())
        ]
    );
    assert!(
        messages[1]["what"].as_str().unwrap().contains("walltime"),
        "{}",
        messages[1]
    );
}

#[test]
fn many_events_become_twenty_messages_and_a_digest() {
    let site = Recorder::new("");
    let sandbox = Sandbox::configured(&site.config());
    let ids: Vec<String> = (0..15).map(|_| sandbox.submit(&[], "true")).collect();
    ids.iter().for_each(|id| drop(sandbox.ended(id)));
    site.await_messages(&sandbox, 20);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(site.messages().len(), 20);
    // Messages delayed until the end of the minute are sent before schedd exits.
    sandbox.run("schedd", &["--stop"]).ok();
    let messages = sandbox.until("the digest", || {
        Some(site.messages()).filter(|messages| messages.len() > 20)
    });
    let digest = messages.last().unwrap();
    assert_eq!(
        (&digest["event"], &digest["count"]),
        (&"digest".into(), &10.into())
    );
    assert_eq!(digest["jobs"].as_array().unwrap().len(), 10);
    assert_eq!(
        (messages.len(), &digest["jobs"][9]["event"]),
        (21, &"end".into())
    );
}

#[test]
fn an_array_is_notified_as_one_job_unless_subjobs_are_requested() {
    let site = Recorder::new("");
    let sandbox = Sandbox::configured(&site.config());
    let one = sandbox.submit(&["-J", "0-3"], "true");
    sandbox.ended(&one);
    assert_eq!(
        events(&site.await_messages(&sandbox, 2)),
        [("begin", one.as_str()), ("end", one.as_str())]
    );
    let each = sandbox.submit(&["-J", "0-3", "-m", "aj"], "true");
    sandbox.ended(&each);
    let messages = site.await_messages(&sandbox, 12);
    let subjobs = messages
        .iter()
        .filter(|message| message["job"]["array_id"] == each.as_str())
        .count();
    assert_eq!((messages.len(), subjobs), (12, 8));
}

#[test]
fn a_hanging_notify_program_times_out_and_blocks_no_job() {
    let (site, own) = (
        Recorder::new(""),
        Recorder::new("echo $$ > $0.pid; exec sleep 300"),
    );
    let sandbox = Sandbox::configured(&site.config());
    let id = sandbox.submit(&["-W", &own.option()], "true");
    sandbox.ended(&id);
    site.await_messages(&sandbox, 2);
    let pid = own.folder.path().join("program.pid");
    sandbox.until("the hanging program", || pid.exists().then_some(()));
    sandbox.ended(&sandbox.submit(&["-W", &own.option()], "true"));
    site.await_messages(&sandbox, 4);
    let first = fs::read_to_string(&pid).unwrap();
    // The program is killed after 30 s; then the next message is sent.
    sandbox.until("the end of the first program", || {
        (fs::read_to_string(&pid).unwrap() != first).then_some(())
    });
    let log = sandbox.log();
    assert!(log.contains("took longer than 30 s"), "{log}");
}

#[test]
fn a_relative_path_is_refused_and_a_missing_program_is_logged() {
    let sandbox = Sandbox::new();
    let done = sandbox.run("qsub", &["-W", "notify=here", "--", "true"]);
    assert!(
        done.code != 0 && done.err.contains("illegal -W value"),
        "{done:?}"
    );
    let id = sandbox.submit(&["-W", "notify=/no/such/program"], "true");
    sandbox.ended(&id);
    let expected = format!(
        "/no/such/program of {}: it was not started: No such file",
        user::own().name
    );
    sandbox.until("the log line", || {
        sandbox.log().contains(&expected).then_some(())
    });
    let held = sandbox.submit(&["-h", "-W", "notify=/bin/false"], "true");
    sandbox
        .run("qalter", &["-W", "notify=/bin/true", &held])
        .ok();
    assert_eq!(sandbox.job(&held)["notify"], "/bin/true");
}

#[test]
fn a_users_program_runs_as_the_user() {
    let Some([ann]) = people("notify") else {
        return;
    };
    let own = Recorder::new("");
    let sandbox = shared("");
    let id = ann.submit(&sandbox, &["-W", &own.option()], "true");
    sandbox.ended(&id);
    own.await_messages(&sandbox, 2);
    for file in own.files() {
        assert_eq!(fs::metadata(&file).unwrap().uid(), ann.uid);
    }
}

/// With and without control groups.
#[test]
fn a_users_program_is_limited_and_its_processes_end_with_it() {
    let Some([ann]) = people("fence") else { return };
    // Descriptors 10 and 11 are the shell's own: its script and saved output.
    let record = "cd ${0%/*}; setsid sleep 1000 & echo $! >>strays
        ls -l /proc/$$/fd >open; grep -v ' 1[01] ->' open | grep -c -e '->' >facts; ulimit -c >>facts; ulimit -n >>facts; ulimit -d >>facts
        cat /proc/$$/cgroup >groups
        p=$$; while [ $p -gt 1 ]; do cat /proc/$p/comm; p=$(sed -n 's/^PPid:.//p' /proc/$p/status); done >ancestors";
    let has_groups = cgroup::base().is_some_and(|folder| cgroup::usable(&folder));
    for (fence, is_fenced) in [(None, has_groups), (Some("--no-cgroups"), false)] {
        let own = Recorder::new(record);
        let sandbox = installed("");
        let node = [
            "--nodes", "1", "--ncpus", "2", "--mem", "4gb", "--name", "h",
        ];
        sandbox
            .run("noded", &node.into_iter().chain(fence).collect::<Vec<_>>())
            .ok();
        sandbox.run("schedd", &[]).ok();
        sandbox.ended(&ann.submit(&sandbox, &["-W", &own.option()], "true"));
        own.await_messages(&sandbox, 2);
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
    let own = Recorder::new("[ -e $0.begun ] && sleep 4; touch $0.begun");
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-W", &own.option()], "true");
    sandbox.ended(&id);
    own.await_messages(&sandbox, 1);
    sandbox.run("schedd", &["--stop"]).ok();
    assert_eq!(
        events(&own.await_messages(&sandbox, 2)),
        [("begin", id.as_str()), ("end", id.as_str())]
    );
}
