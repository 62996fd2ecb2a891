//! Steps of the wall clock while jobs are queued and running change only displayed times.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

const HOUR: i64 = 3_600_000;

/// A sandbox with an adjustable wall clock.
fn watched() -> Sandbox {
    let mut sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    sandbox.set("LANAI_TEST_CLOCK", sandbox.file("clock").display());
    set(&sandbox, 0);
    sandbox
}

/// Sets the offset of the wall clock, in milliseconds.
fn set(sandbox: &Sandbox, off: i64) {
    let new = sandbox.file("clock.new");
    fs::write(&new, off.to_string()).unwrap();
    fs::rename(new, sandbox.file("clock")).unwrap();
}

/// A date for `-a` that is `seconds` after the current time of the stepped clock.
fn date(off: i64, seconds: i64) -> String {
    let moment = chrono::Utc::now()
        + chrono::Duration::milliseconds(off)
        + chrono::Duration::seconds(seconds);
    moment.format("%Y%m%d%H%M.%S").to_string()
}

/// Asserts that the job's `ctime` is the current time of the stepped clock.
#[track_caller]
fn came_just_now(job: &Value, off: i64) {
    let now = chrono::Utc::now() + chrono::Duration::milliseconds(off);
    let shown = job["ctime"].as_str().unwrap();
    let shown = chrono::NaiveDateTime::parse_from_str(shown, "%a %b %d %H:%M:%S %Y").unwrap();
    let apart = (now.naive_utc() - shown).num_seconds();
    assert!((-2..60).contains(&apart), "{shown} at {now}");
}

/// All displayed times of a job.
fn times(job: &Value) -> Vec<String> {
    let names = ["ctime", "mtime", "qtime", "etime", "stime", "obittime"];
    names
        .iter()
        .filter_map(|name| job[name].as_str().map(|text| format!("{name} {text}")))
        .collect()
}

/// Steps the clock forward by an hour, back by an hour, and forward again, with or without restarts
/// of schedd. No job changes.
fn steps_change_nothing(restarts: bool) {
    let sandbox = watched();
    let over = sandbox.submit(&[], "exit 1\n");
    sandbox.ended(&over);
    let before = times(&sandbox.job(&over));
    let runs = sandbox.submit(
        &["-l", "walltime=600"],
        "while [ ! -e go ]; do sleep 0.05; done; exit 2\n",
    );
    let held = sandbox.submit(&["-h"], "exit 3\n");
    sandbox.running(&runs);
    let began = Instant::now();
    let (started, submitted) = (
        sandbox.job(&runs)["stime"].clone(),
        sandbox.job(&held)["ctime"].clone(),
    );
    for off in [HOUR, -HOUR, 24 * HOUR, 0] {
        set(&sandbox, off);
        if restarts {
            sandbox.kill("schedd");
            sandbox.run("schedd", &[]).ok();
        }
        let logged = sandbox.log().matches("the wall clock was stepped").count();
        let id = sandbox.submit(&[], "exit 4\n");
        let job = sandbox.ended(&id);
        assert_eq!(job["Exit_status"], 4);
        assert!(sandbox.log().matches("the wall clock was stepped").count() >= logged.max(1));
        came_just_now(&job, off);
        assert_eq!(
            times(&sandbox.job(&over)),
            before,
            "the past stays as it was"
        );
        assert_eq!(
            (&sandbox.job(&runs)["stime"], &sandbox.job(&held)["ctime"]),
            (&started, &submitted)
        );
        assert_eq!(sandbox.state(&runs), "R");
        let all = sandbox.run("qstat", &["-xf"]).ok();
        let lines = all
            .lines()
            .filter(|line| !line.contains("Submit_arguments"));
        let negative: Vec<&str> = lines
            .filter(|line| line.contains("= -") || line.contains(":-"))
            .collect();
        assert!(negative.is_empty(), "no negative times: {negative:?}");
        let table = sandbox.run("qstat", &["-xa"]).ok();
        assert!(
            !table
                .lines()
                .skip(5)
                .any(|line| line.contains(" -0") || line.contains(":-")),
            "{table}"
        );
    }
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&runs);
    assert_eq!(job["Exit_status"], 2);
    let used = job["resources_used"]["walltime"].as_str().unwrap();
    let used = used
        .split(':')
        .fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    assert!(
        used <= began.elapsed().as_secs() + 2,
        "{used} s of {:?}",
        began.elapsed()
    );
}

#[test]
fn steps_of_the_wall_clock_change_nothing_but_what_is_shown() {
    steps_change_nothing(false);
}

#[test]
fn steps_that_schedd_did_not_live_to_see_change_nothing_either() {
    steps_change_nothing(true);
}

#[test]
fn a_walltime_is_as_long_as_it_was() {
    let stepped = [HOUR, -HOUR].map(|off| {
        let sandbox = watched();
        let id = sandbox.submit(&["-l", "walltime=3"], "sleep 60\n");
        sandbox.running(&id);
        set(&sandbox, off);
        (sandbox, id, off, Instant::now())
    });
    std::thread::sleep(Duration::from_millis(1000));
    for (sandbox, id, off, _) in &stepped {
        assert_eq!(sandbox.state(id), "R", "{off}");
    }
    for (sandbox, id, off, began) in &stepped {
        assert_eq!(sandbox.ended(id)["Exit_status"], -29);
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{off}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_begin_time_is_read_off_the_watch() {
    let sandbox = watched();
    let in_half_an_hour = sandbox.submit(&["-a", &date(0, 1800)], "exit 1\n");
    let in_two_hours = sandbox.submit(&["-a", &date(0, 7200)], "exit 2\n");
    assert_eq!(sandbox.state(&in_half_an_hour), "W");
    set(&sandbox, HOUR);
    assert_eq!(
        sandbox.ended(&in_half_an_hour)["Exit_status"],
        1,
        "by the watch its time has come"
    );
    assert_eq!(sandbox.state(&in_two_hours), "W");
    set(&sandbox, -HOUR);
    let soon = sandbox.submit(&["-a", &date(-HOUR, 2)], "exit 3\n");
    assert_eq!(sandbox.ended(&soon)["Exit_status"], 3);
    assert_eq!(sandbox.state(&in_two_hours), "W");
    set(&sandbox, 3 * HOUR);
    assert_eq!(sandbox.ended(&in_two_hours)["Exit_status"], 2);
}

#[test]
fn a_step_in_a_tick_that_the_disk_refused_is_not_forgotten() {
    let sandbox = watched();
    let every_other = (3..60)
        .step_by(2)
        .map(|n| format!("spool.commit:{n}:fail"))
        .collect::<Vec<_>>()
        .join(",");
    let faulty = sandbox
        .command("schedd")
        .env("LANAI_FAULTS", every_other)
        .output()
        .unwrap();
    assert!(faulty.status.success(), "{faulty:?}");
    let mut jobs = Vec::new();
    for round in 1..=6 {
        set(&sandbox, round * HOUR);
        let submitted = || sandbox.run_with_input("qsub", &["-h"], "true\n");
        let id = sandbox
            .until("an acknowledgement", || {
                Some(submitted()).filter(|done| done.code == 0)
            })
            .line();
        came_just_now(&sandbox.job(&id), round * HOUR);
        jobs.push((id.clone(), times(&sandbox.job(&id))));
    }
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    for (id, before) in jobs {
        assert_eq!(times(&sandbox.job(&id)), before);
    }
}
