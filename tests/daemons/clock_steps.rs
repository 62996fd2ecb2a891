//! Steps of the wall clock while jobs are queued and running change only displayed times.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

const HOUR: i64 = 3_600_000;

/// A sandbox with an adjustable wall clock.
fn sandbox_with_clock() -> Sandbox {
    let mut sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    sandbox.set("LANAI_TEST_CLOCK", sandbox.file("clock").display());
    set_clock(&sandbox, 0);
    sandbox
}

/// Sets the offset of the wall clock, in milliseconds.
fn set_clock(sandbox: &Sandbox, offset: i64) {
    let new = sandbox.file("clock.new");
    fs::write(&new, offset.to_string()).unwrap();
    fs::rename(new, sandbox.file("clock")).unwrap();
}

/// A date for `-a` that is `seconds` after the current time of the stepped clock.
fn date(offset: i64, seconds: i64) -> String {
    let time = chrono::Utc::now()
        + chrono::Duration::milliseconds(offset)
        + chrono::Duration::seconds(seconds);
    time.format("%Y%m%d%H%M.%S").to_string()
}

/// Asserts that the job's `ctime` is the current time of the stepped clock.
#[track_caller]
fn assert_submitted_now(job: &Value, offset: i64) {
    let now = chrono::Utc::now() + chrono::Duration::milliseconds(offset);
    let shown = job["ctime"].as_str().unwrap();
    let shown = chrono::NaiveDateTime::parse_from_str(shown, "%a %b %d %H:%M:%S %Y").unwrap();
    let difference = (now.naive_utc() - shown).num_seconds();
    assert!((-2..60).contains(&difference), "{shown} at {now}");
}

/// All displayed times of a job.
fn times(job: &Value) -> Vec<String> {
    let names = ["ctime", "mtime", "qtime", "etime", "stime", "obittime"];
    names
        .iter()
        .filter_map(|name| job[name].as_str().map(|text| format!("{name} {text}")))
        .collect()
}

/// Steps the clock to an hour ahead, an hour behind, a day ahead and the correct time, with or
/// without restarts of schedd. Asserts that no job changes.
fn steps_change_nothing(restarts: bool) {
    let sandbox = sandbox_with_clock();
    let finished = sandbox.submit(&[], "exit 1\n");
    sandbox.ended(&finished);
    let before = times(&sandbox.job(&finished));
    let running = sandbox.submit(
        &["-l", "walltime=600"],
        "while [ ! -e go ]; do sleep 0.05; done; exit 2\n",
    );
    let held = sandbox.submit(&["-h"], "exit 3\n");
    sandbox.running(&running);
    let began = Instant::now();
    let (started, submitted) = (
        sandbox.job(&running)["stime"].clone(),
        sandbox.job(&held)["ctime"].clone(),
    );
    for offset in [HOUR, -HOUR, 24 * HOUR, 0] {
        set_clock(&sandbox, offset);
        if restarts {
            sandbox.kill("schedd");
            sandbox.run("schedd", &[]).ok();
        }
        let logged = sandbox.log().matches("the wall clock was stepped").count();
        let id = sandbox.submit(&[], "exit 4\n");
        let job = sandbox.ended(&id);
        assert_eq!(job["Exit_status"], 4);
        assert!(sandbox.log().matches("the wall clock was stepped").count() >= logged.max(1));
        assert_submitted_now(&job, offset);
        assert_eq!(
            times(&sandbox.job(&finished)),
            before,
            "the times of a finished job changed"
        );
        assert_eq!(
            (
                &sandbox.job(&running)["stime"],
                &sandbox.job(&held)["ctime"]
            ),
            (&started, &submitted)
        );
        assert_eq!(sandbox.state(&running), "R");
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
    let job = sandbox.ended(&running);
    assert_eq!(job["Exit_status"], 2);
    let used = job["resources_used"]["walltime"].as_str().unwrap();
    let used = used
        .split(':')
        .fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    assert!(
        used <= began.elapsed().as_secs() + 2,
        "{used} s of walltime in {:?}",
        began.elapsed()
    );
}

#[test]
fn wall_clock_steps_change_only_displayed_times() {
    steps_change_nothing(false);
}

#[test]
fn wall_clock_steps_before_a_restart_change_only_displayed_times() {
    steps_change_nothing(true);
}

#[test]
fn a_clock_step_does_not_change_the_walltime_limit() {
    let stepped = [HOUR, -HOUR].map(|offset| {
        let sandbox = sandbox_with_clock();
        let id = sandbox.submit(&["-l", "walltime=3"], "sleep 60\n");
        sandbox.running(&id);
        set_clock(&sandbox, offset);
        (sandbox, id, offset, Instant::now())
    });
    std::thread::sleep(Duration::from_millis(1000));
    for (sandbox, id, offset, _) in &stepped {
        assert_eq!(sandbox.state(id), "R", "{offset}");
    }
    for (sandbox, id, offset, began) in &stepped {
        assert_eq!(sandbox.ended(id)["Exit_status"], -29);
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{offset}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_begin_time_follows_the_wall_clock() {
    let sandbox = sandbox_with_clock();
    let in_half_an_hour = sandbox.submit(&["-a", &date(0, 1800)], "exit 1\n");
    let in_two_hours = sandbox.submit(&["-a", &date(0, 7200)], "exit 2\n");
    assert_eq!(sandbox.state(&in_half_an_hour), "W");
    set_clock(&sandbox, HOUR);
    assert_eq!(
        sandbox.ended(&in_half_an_hour)["Exit_status"],
        1,
        "the stepped clock has passed its begin time"
    );
    assert_eq!(sandbox.state(&in_two_hours), "W");
    set_clock(&sandbox, -HOUR);
    let soon = sandbox.submit(&["-a", &date(-HOUR, 2)], "exit 3\n");
    assert_eq!(sandbox.ended(&soon)["Exit_status"], 3);
    assert_eq!(sandbox.state(&in_two_hours), "W");
    set_clock(&sandbox, 3 * HOUR);
    assert_eq!(sandbox.ended(&in_two_hours)["Exit_status"], 2);
}

#[test]
fn a_clock_step_in_a_tick_with_a_failed_commit_is_not_lost() {
    let sandbox = sandbox_with_clock();
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
        set_clock(&sandbox, round * HOUR);
        let submitted = || sandbox.run_with_input("qsub", &["-h"], "true\n");
        let id = sandbox
            .until("an accepted submission", || {
                Some(submitted()).filter(|done| done.code == 0)
            })
            .line();
        assert_submitted_now(&sandbox.job(&id), round * HOUR);
        jobs.push((id.clone(), times(&sandbox.job(&id))));
    }
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    for (id, before) in jobs {
        assert_eq!(times(&sandbox.job(&id)), before);
    }
}
