//! Live reservations: created, shown, changed and deleted with PBS's commands; their queues and
//! jobs, over time and after crashes of schedd.

mod access;

use crate::support::sandbox::{Done, Sandbox};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// A sandbox with a connected node, so that reservations can be confirmed.
fn sandbox(config: &str) -> Sandbox {
    let sandbox = Sandbox::configured(config);
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    sandbox
}

/// Time `seconds` from now in the format of `-R` and `-E`; the sandbox uses UTC.
pub fn ahead(seconds: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + seconds;
    let (days, rest) = (now / 86_400, now % 86_400);
    // Civil date from days (H. Hinnant), sufficient for this century.
    let z = days as i64 + 719_468;
    let era = z / 146_097;
    let doe = z - era * 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (
        doy - (153 * mp + 2) / 5 + 1,
        if mp < 10 { mp + 3 } else { mp - 9 },
    );
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!(
        "{year}{month:02}{day:02}{:02}{:02}.{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

fn reservation(sandbox: &Sandbox, id: &str) -> Value {
    let done = sandbox.run("pbs_rstat", &["-F", "json", id]);
    let document: Value =
        serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    document["Reservations"][id].clone()
}

fn state(sandbox: &Sandbox, id: &str) -> String {
    reservation(sandbox, id)["reserve_state"]
        .as_str()
        .unwrap_or("none")
        .to_string()
}

fn until_state(sandbox: &Sandbox, id: &str, wanted: &str) {
    sandbox.until(&format!("{id} to be {wanted}"), || {
        (state(sandbox, id) == wanted).then_some(())
    });
}

/// Creates a confirmed reservation; returns its id.
#[track_caller]
fn reserve(sandbox: &Sandbox, from: &str, arguments: &[&str]) -> String {
    let line = sandbox
        .run("pbs_rsub", &[&["-I", "5", "-R", from], arguments].concat())
        .line();
    let (id, answer) = line.split_once(' ').unwrap();
    assert_eq!(answer, "CONFIRMED");
    id.to_string()
}

/// Exit status, output and first error line of a command.
fn result(done: &Done) -> (i32, &str, &str) {
    (
        done.code,
        done.out.as_str(),
        done.err.lines().next().unwrap_or_default(),
    )
}

fn queue_of(id: &str) -> &str {
    id.split('.').next().unwrap()
}

/// Number of processors of the only node.
fn processors(sandbox: &Sandbox) -> u64 {
    let document: Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-a", "-F", "json"]).out).unwrap();
    let node = document["nodes"]
        .as_object()
        .and_then(|nodes| nodes.values().next())
        .cloned()
        .unwrap_or_default();
    node["resources_available"]["ncpus"]
        .as_u64()
        .unwrap_or_else(|| panic!("{document}"))
}

#[test]
fn a_reservation_is_created_shown_changed_and_deleted() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let from = ahead(3600);
    let line = sandbox
        .run(
            "pbs_rsub",
            &[
                "-R",
                &from,
                "-D",
                "600",
                "-l",
                "select=1:ncpus=1",
                "-N",
                "res1",
            ],
        )
        .line();
    let id = line
        .strip_suffix(" UNCONFIRMED")
        .unwrap_or_else(|| panic!("{line}"))
        .to_string();
    assert!(id.starts_with('R') && id.ends_with(".head"), "{id}");
    let shown = reservation(&sandbox, &id);
    assert_eq!(
        (&shown["Reserve_Name"], &shown["reserve_state"]),
        (&"res1".into(), &"RESV_CONFIRMED".into())
    );
    assert_eq!(
        (&shown["reserve_duration"], &shown["reserve_substate"]),
        (&600.into(), &2.into())
    );
    assert_eq!(shown["Resource_List"]["walltime"], "00:10:00");
    let full = sandbox.run("pbs_rstat", &["-f", queue_of(&id)]).ok();
    assert!(
        full.starts_with(&format!("Resv ID: {id}\nReserve_Name = res1\n")),
        "{full}"
    );
    assert!(
        full.contains("\nResource_List.select = 1:ncpus=1\nResource_List.place = free\n"),
        "{full}"
    );
    let table = sandbox.run("pbs_rstat", &[]).ok();
    assert!(
        table.lines().nth(2).unwrap().contains(" CO ") && table.contains(" / 600 / "),
        "{table}"
    );
    assert_eq!(
        sandbox.run("pbs_rstat", &["-B"]).ok(),
        format!("Resv ID: {id}\n")
    );
    let queue = sandbox.run("qstat", &["-Q"]).ok();
    let row = queue
        .lines()
        .find(|line| line.starts_with(queue_of(&id)))
        .unwrap_or_else(|| panic!("{queue}"));
    assert!(row.contains(" yes  no "), "{row}");
    assert_eq!(
        sandbox.run("pbs_ralter", &["-N", "newn", &id]).ok(),
        format!("pbs_ralter: {id} ALTER REQUESTED\n")
    );
    assert_eq!(reservation(&sandbox, &id)["Reserve_Name"], "newn");
    let denied = sandbox
        .run("pbs_ralter", &["-I", "1", "-l", "select=1:ncpus=4000", &id])
        .ok();
    assert_eq!(denied, format!("pbs_ralter: {id} DENIED\n"));
    assert_eq!(
        reservation(&sandbox, &id)["Resource_List"]["select"],
        "1:ncpus=1"
    );
    assert_eq!(sandbox.run("pbs_rdel", &[&id]).ok(), "");
    assert_eq!(sandbox.run("pbs_rstat", &[]).ok(), "");
    assert!(!sandbox.run("qstat", &["-Q"]).ok().contains(queue_of(&id)));
}

#[test]
#[allow(clippy::too_many_lines, reason = "tables")]
fn errors_use_the_messages_of_pbs() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let run = |program: &str, arguments: &[&str]| sandbox.run(program, arguments);
    let from = ahead(3600);
    assert_eq!(run("pbs_rsub", &[]).code, 2);
    for (arguments, code, text) in [
        (
            &["-R", "9999", "-D", "60"][..],
            2,
            "pbs_rsub: illegal -R time value",
        ),
        (&["-R", &from], 238, "pbs_rsub: Bad time specification(s)"),
        (
            &["-D", "60", "-l", "ncpus=1", "-I", "5"],
            238,
            "pbs_rsub: Bad time specification(s)",
        ),
        (
            &["-R", &from, "-D", "60", "-l", "foo=1"],
            187,
            "pbs_rsub: Unknown resource Resource_List.foo",
        ),
        (
            &["-R", &from, "-D", "60", "-M", "|/bin/sh"],
            166,
            "pbs_rsub: Illegal attribute or resource value Mail_Users",
        ),
        (
            &["-R", &from, "-D", "x"],
            166,
            "pbs_rsub: Illegal attribute or resource value Resource_List.walltime",
        ),
        (
            &["-R", &from, "-D", "60", "-r", "FREQ=DAILY;COUNT=2"],
            2,
            "pbs_rsub error: a valid PBS_TZID timezone environment variable is required.",
        ),
        (&["-y"], 2, "pbs_rsub: invalid option -- 'y'"),
    ] {
        assert_eq!(
            result(&run("pbs_rsub", arguments)),
            (code, "", text),
            "{arguments:?}"
        );
    }
    let denied = run(
        "pbs_rsub",
        &[
            "-R",
            &from,
            "-D",
            "60",
            "-l",
            "select=1:ncpus=4000",
            "-I",
            "5",
        ],
    )
    .line();
    assert!(denied.ends_with(".head DENIED"), "{denied}");
    for (program, arguments, code, text) in [
        (
            "pbs_rstat",
            &["R99"][..],
            236,
            "pbs_rstat: Unknown Reservation Id",
        ),
        (
            "pbs_rstat",
            &["R99x"],
            1,
            "pbs_rstat: illegally formed reservation identifier: R99x",
        ),
        (
            "pbs_rdel",
            &["R99"],
            236,
            "pbs_rdel: Unknown Reservation Id R99.head",
        ),
        (
            "pbs_rdel",
            &["99"],
            236,
            "pbs_rdel: Unknown Reservation Id 99.head",
        ),
        (
            "pbs_ralter",
            &["-N", "x", "R99"],
            236,
            "pbs_ralter: Unknown Reservation Id",
        ),
        (
            "qsub",
            &["-q", "R99", "--", "true"],
            170,
            "qsub: Unknown queue",
        ),
        (
            "qsub",
            &["-W", "resv=nosuch", "--", "true"],
            236,
            "qsub: Unknown Reservation Id",
        ),
    ] {
        assert_eq!(
            result(&run(program, arguments)),
            (code, "", text),
            "{program} {arguments:?}"
        );
    }
    assert_eq!(run("pbs_rstat", &["-y"]).code, 1);
}

#[test]
fn a_recurring_reservation_plans_all_its_occurrences() {
    let sandbox = sandbox("[server]\nname = \"head\"\n").with("PBS_TZID", "UTC");
    let from = ahead(7200);
    let id = reserve(
        &sandbox,
        &from,
        &["-D", "60", "-r", "FREQ=DAILY;COUNT=2", "-l", "ncpus=1"],
    );
    assert!(id.starts_with('S'), "{id}");
    let shown = reservation(&sandbox, &id);
    assert_eq!(
        (&shown["reserve_count"], &shown["reserve_index"]),
        (&2.into(), &1.into())
    );
    assert_eq!(shown["reserve_rrule"], "FREQ=DAILY;COUNT=2");
    assert_eq!(shown["Variable_List"]["PBS_TZID"], "UTC");
    let sandbox = sandbox.with("PBS_TZID", "Nowhere/Atlantis");
    let refused = sandbox.run(
        "pbs_rsub",
        &["-R", &from, "-D", "60", "-r", "FREQ=DAILY;COUNT=2"],
    );
    assert!(
        refused.code == 166 && refused.err.contains("set PBS_TZID=UTC"),
        "{refused:?}"
    );
}

#[test]
fn jobs_wait_for_their_reservation_run_in_it_and_end_with_it() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let id = reserve(&sandbox, &ahead(3), &["-D", "8", "-l", "select=1:ncpus=1"]);
    let queue = queue_of(&id);
    let job = sandbox.submit(&["-q", queue], "sleep 100\n");
    assert_eq!(sandbox.job(&job)["reserve_ID"], id.as_str());
    sandbox.until("the reason", || {
        (sandbox.job(&job)["comment"] == "Not Running: Queue not started.").then_some(())
    });
    sandbox.running(&job);
    assert_eq!(state(&sandbox, &id), "RESV_RUNNING");
    assert!(
        sandbox
            .run("qstat", &["-Q", queue])
            .ok()
            .contains(" yes yes ")
    );
    assert_eq!(sandbox.ended(&job)["Exit_status"], 271);
    sandbox.until("the end of the reservation", || {
        (state(&sandbox, &id) == "none").then_some(())
    });
    assert_eq!(sandbox.run("qsub", &["-q", queue, "--", "true"]).code, 170);
}

#[test]
fn deleting_a_reservation_deletes_its_jobs() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let id = reserve(
        &sandbox,
        &ahead(0),
        &["-D", "1:00:00", "-l", "select=1:ncpus=1"],
    );
    let running = sandbox.submit(&["-q", queue_of(&id)], "sleep 100\n");
    let waiting = sandbox.submit(&["-h", "-q", queue_of(&id)], "true\n");
    sandbox.running(&running);
    sandbox.run("pbs_rdel", &[&id]).ok();
    for job in [&running, &waiting] {
        assert_eq!(sandbox.ended(job)["Exit_status"], 271, "{job}");
    }
    sandbox.until("the end of all reservations", || {
        (state(&sandbox, &id) == "none").then_some(())
    });
}

#[test]
fn reservations_and_their_jobs_survive_a_crash_of_schedd() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let soon = reserve(
        &sandbox,
        &ahead(3),
        &["-D", "1:00:00", "-l", "select=1:ncpus=1"],
    );
    let later = reserve(&sandbox, &ahead(7200), &["-D", "60", "-U", "bob,carol"]);
    let job = sandbox.submit(&["-q", queue_of(&soon)], "sleep 100\n");
    sandbox.kill("schedd");
    assert_eq!(
        reservation(&sandbox, &later)["Authorized_Users"],
        "bob,carol",
        "pbs_rstat must work without schedd"
    );
    let other = sandbox.submit(&["-h", "-q", queue_of(&later)], "true\n");
    sandbox.running(&job);
    until_state(&sandbox, &soon, "RESV_RUNNING");
    assert_eq!(sandbox.job(&other)["reserve_ID"], later.as_str());
    sandbox.kill("schedd");
    sandbox.run("pbs_rdel", &[&soon, &later]).ok();
    assert_eq!(sandbox.ended(&job)["Exit_status"], 271);
    sandbox.until("the end of all reservations", || {
        sandbox.run("pbs_rstat", &[]).ok().is_empty().then_some(())
    });
}

#[test]
fn a_running_job_stays_in_its_reservation_after_a_restart() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let most = format!("select=1:ncpus={}", processors(&sandbox) - 1);
    let id = reserve(&sandbox, &ahead(0), &["-D", "1:00:00", "-l", &most]);
    let inside = sandbox.submit(&["-q", queue_of(&id), "-l", &most], "sleep 100\n");
    sandbox.running(&inside);
    sandbox.kill("schedd");
    let beside = sandbox.submit(&["-l", "walltime=2:00:00"], "true\n");
    assert_eq!(
        sandbox.ended(&beside)["Exit_status"],
        0,
        "the other processor is free"
    );
    sandbox.run("pbs_rdel", &[&id]).ok();
    sandbox.ended(&inside);
}

#[test]
fn a_request_for_a_named_reservation_survives_a_move_to_another_queue() {
    let config = "[server]\nname = \"head\"\n[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"other\"\n\
                  [[reservation]]\nname = \"office\"\nselect = \"1:ncpus=1\"\nflags = [\"byname\"]\n";
    let sandbox = sandbox(config);
    let job = sandbox.submit(&["-h", "-W", "resv=office"], "true\n");
    sandbox.run("qmove", &["other", &job]).ok();
    let moved = sandbox.job(&job);
    assert_eq!(
        (&moved["queue"], &moved["resv"]),
        (&"other".into(), &"office".into())
    );
    let refused = sandbox.run("qalter", &["-W", "resv=nosuch", &job]);
    assert!(
        refused.code != 0 && refused.err.contains("Unknown Reservation Id"),
        "{refused:?}"
    );
    sandbox.run("qdel", &[&job]).ok();
}

#[test]
fn a_reservation_can_be_created_from_a_running_job() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let first = sandbox.submit(
        &["-l", "walltime=1:00:00", "-W", "create_resv_from_job=true"],
        "sleep 100\n",
    );
    let job = sandbox.running(&first);
    let id = job["reserve_ID"]
        .as_str()
        .unwrap_or_else(|| panic!("{job}"))
        .to_string();
    assert_eq!(
        (job["queue"].as_str(), state(&sandbox, &id).as_str()),
        (Some(queue_of(&id)), "RESV_RUNNING")
    );
    assert_eq!(reservation(&sandbox, &id)["reserve_job"], first.as_str());
    let other = sandbox.submit(&["-l", "walltime=1:00:00"], "sleep 100\n");
    sandbox.running(&other);
    let line = sandbox.run("pbs_rsub", &["--job", &other]).line();
    let second = line
        .strip_suffix(" CONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    assert_eq!(sandbox.job(&other)["reserve_ID"], second);
    sandbox.run("pbs_rdel", &[&id, second]).ok();
    sandbox.ended(&first);
    sandbox.ended(&other);
}

#[test]
fn configured_reservations_are_created_and_shown() {
    let config = "[server]\nname = \"head\"\n[[reservation]]\nname = \"office\"\nselect = \"1:ncpus=1\"\nusers = [\"ann\"]\n\
                  flags = [\"byname\"]\n";
    let sandbox = sandbox(config);
    let shown = sandbox.until("two occurrences", || {
        let done = sandbox.run("pbs_rstat", &["-F", "json"]);
        let document: Value = serde_json::from_str(&done.out).ok()?;
        let all = document["Reservations"].as_object()?.clone();
        (all.len() == 2).then_some(all)
    });
    assert!(
        shown.keys().all(|id| id.starts_with("office.20")),
        "{shown:?}"
    );
    let states: Vec<&str> = shown
        .values()
        .filter_map(|one| one["reserve_state"].as_str())
        .collect();
    assert!(
        states.contains(&"RESV_RUNNING") && states.contains(&"RESV_CONFIRMED"),
        "{states:?}"
    );
    assert_eq!(
        sandbox
            .run("qsub", &["-h", "-W", "resv=office", "--", "true"])
            .code,
        0
    );
}

#[test]
fn a_reservation_as_first_command_is_confirmed_when_nodes_connect() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    let line = sandbox
        .run("pbs_rsub", &["-R", &ahead(600), "-D", "60"])
        .line();
    let id = line
        .strip_suffix(" UNCONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    until_state(&sandbox, id, "RESV_CONFIRMED");
}

#[test]
fn an_offline_node_degrades_a_reservation() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let id = reserve(&sandbox, &ahead(600), &["-D", "60"]);
    let nodes = reservation(&sandbox, &id)["resv_nodes"]
        .as_str()
        .unwrap()
        .to_string();
    let node = nodes.trim_start_matches('(').split(':').next().unwrap();
    sandbox.run("pbsnodes", &["-o", node]).ok();
    until_state(&sandbox, &id, "RESV_DEGRADED");
    sandbox.run("pbsnodes", &["-r", node]).ok();
    until_state(&sandbox, &id, "RESV_CONFIRMED");
}

#[test]
fn a_running_reservation_can_be_shortened() {
    let sandbox = sandbox("[server]\nname = \"head\"\n");
    let id = reserve(&sandbox, &ahead(0), &["-D", "1:00:00"]);
    until_state(&sandbox, &id, "RESV_RUNNING");
    let job = sandbox.submit(&["-q", queue_of(&id)], "sleep 100\n");
    sandbox.running(&job);
    let late = sandbox.run("pbs_ralter", &["-R", &ahead(600), &id]);
    assert_eq!(
        result(&late),
        (238, "", "pbs_ralter: Bad time specification(s)")
    );
    let altered = sandbox
        .run("pbs_ralter", &["-I", "1", "-E", &ahead(3), &id])
        .ok();
    assert_eq!(altered, format!("pbs_ralter: {id} CONFIRMED\n"));
    assert_eq!(sandbox.ended(&job)["Exit_status"], 271);
    sandbox.until("the end of the reservation", || {
        (state(&sandbox, &id) == "none").then_some(())
    });
}
