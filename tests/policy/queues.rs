//! Queues with the real programs: routing, access, bounds, defaults, limits, and the messages for
//! refused jobs.

use crate::support::sandbox::{Sandbox, refused};

const QUEUES: &str = r#"
[[queue]]
name = "workq"
resources_max = { ncpus = 2, walltime = "1:00:00" }
resources_default = { walltime = "0:10:00" }
default_chunk = { mem = "64mb" }
[[queue]]
name = "long"
resources_min = { walltime = "1:00:00" }
max_array_size = 2
[[queue]]
name = "few"
from_route_only = true
[[queue]]
name = "in"
route_destinations = ["few"]
route_retry_time = "1s"
[[queue]]
name = "strict"
route_destinations = ["long"]
[[queue]]
name = "own"
acl_users = ["no-such-user"]
[[queue]]
name = "far"
acl_hosts = ["-*", "elsewhere"]
[[limit]]
queue = "few"
user = "*"
queued = { jobs = 2 }
queued_soft = { jobs = 1 }
"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::configured(QUEUES);
    sandbox.script("job.sh", "sleep 600\n");
    sandbox
}

fn queue_of(sandbox: &Sandbox, id: &str) -> String {
    sandbox.job(id)["queue"]
        .as_str()
        .unwrap_or_default()
        .to_string()
}

#[test]
fn queue_bounds_are_reported_and_defaults_are_applied() {
    let sandbox = sandbox();
    let message = "qsub: Job violates queue and/or server resource limits";
    refused(
        sandbox.run("qsub", &["-l", "ncpus=3", "job.sh"]),
        188,
        message,
    );
    let long = sandbox.run("qsub", &["-l", "walltime=2:00:00", "job.sh"]);
    refused(
        &long,
        188,
        &format!(
            "{message}: walltime 02:00:00 is above the maximum 01:00:00 of queue workq; request less"
        ),
    );
    refused(
        sandbox.run("qsub", &["-q", "long", "-l", "walltime=5", "job.sh"]),
        188,
        "is below the minimum 01:00:00",
    );
    let id = sandbox.submit(&["-h", "-l", "select=2:ncpus=1"], "true\n");
    let job = sandbox.job(&id);
    let list = &job["Resource_List"];
    assert_eq!(
        (&list["walltime"], &list["mem"], &list["ncpus"]),
        (&"00:10:00".into(), &"128mb".into(), &2.into())
    );
    let altered = sandbox.run("qalter", &["-l", "walltime=2:00:00", &id]);
    refused(
        &altered,
        188,
        "qalter: Job violates queue and/or server resource limits: walltime 02:00:00",
    );
    assert_eq!(sandbox.job(&id)["Resource_List"]["walltime"], "00:10:00");
    sandbox.run("qmove", &["long", &id]).ok();
    assert!(
        sandbox.job(&id)["Resource_List"]["walltime"].is_null(),
        "the default of the old queue no longer applies"
    );
    let short = sandbox.submit(&["-h", "-l", "walltime=300"], "true\n");
    refused(
        sandbox.run("qmove", &["long", &short]),
        188,
        "qmove: Job violates",
    );
    refused(
        sandbox.run("qsub", &["-q", "long", "-J", "1-3", "job.sh"]),
        3,
        "Array job exceeds",
    );
}

/// F4: jobs with quality of service `standby` are exempt from the bounds of a queue.
#[test]
fn standby_is_exempt_from_bounds() {
    let sandbox = sandbox();
    let id = sandbox.submit(
        &["-h", "-W", "qos=standby", "-l", "walltime=5:00:00"],
        "true\n",
    );
    assert_eq!(sandbox.job(&id)["Resource_List"]["walltime"], "05:00:00");
    refused(
        sandbox.run("qalter", &["-W", "qos=normal", &id]),
        188,
        "walltime 05:00:00 is above",
    );
}

#[test]
fn users_outside_the_acl_are_refused() {
    let sandbox = sandbox();
    refused(
        sandbox.run("qsub", &["-q", "own", "job.sh"]),
        159,
        "qsub: Unauthorized Request",
    );
    refused(
        sandbox.run("qsub", &["-q", "far", "job.sh"]),
        160,
        "qsub: Access from host not allowed, or unknown host",
    );
    refused(
        sandbox.run("qsub", &["-q", "few", "job.sh"]),
        174,
        "qsub: Access to queue is denied",
    );
    let id = sandbox.submit(&["-h"], "true\n");
    refused(
        sandbox.run("qmove", &["own", &id]),
        159,
        "Unauthorized Request",
    );
}

/// I19, P30: a routing queue keeps the jobs above the limit of its destination.
#[test]
fn a_routing_queue_moves_jobs_up_to_the_destinations_limit() {
    let sandbox = sandbox();
    let out = sandbox.run("qsub", &["-q", "in", "job.sh"]);
    let first = out.line();
    assert_eq!(queue_of(&sandbox, &first), "few");
    let second = sandbox.run("qsub", &["-q", "in", "job.sh"]);
    assert!(
        second.code == 0
            && second
                .err
                .contains("warning: soft limit: would exceed queue few's"),
        "{second:?}"
    );
    let third = sandbox.run("qsub", &["-q", "in", "job.sh"]).line();
    assert_eq!(queue_of(&sandbox, &third), "in");
    sandbox.until("the comment", || {
        (sandbox.job(&third)["comment"] == "Not Running: Queue not an execution queue.")
            .then_some(())
    });
    let environ = sandbox.job(&third)["Variable_List"]["PBS_O_QUEUE"].clone();
    assert_eq!(environ, "in");
    sandbox.kill("schedd");
    sandbox.run("qdel", &[&first]).ok();
    sandbox.until("the routing of the third job", || {
        (queue_of(&sandbox, &third) == "few").then_some(())
    });
    let never = sandbox.run("qsub", &["-q", "strict", "-l", "walltime=60", "job.sh"]);
    refused(
        &never,
        191,
        "qsub: Job rejected by all possible destinations: long: Job violates",
    );
}

/// P30: jobs in a routing queue survive the deletion of their destination and a crash, and are
/// routed when another destination exists. Held jobs and arrays behave the same.
#[test]
fn jobs_stay_queued_when_their_destination_is_deleted() {
    let sandbox = sandbox();
    let qmgr = |line: &str| sandbox.run("qmgr", &["-c", line]);
    qmgr("create queue soon queue_type = e, started = t").ok();
    qmgr("set queue in route_destinations = soon").ok();
    let submit = |arguments: &[&str]| {
        sandbox
            .run("qsub", &[&["-q", "in"], arguments, &["job.sh"]].concat())
            .line()
    };
    let jobs = [submit(&[]), submit(&["-h"]), submit(&["-J", "1-2"])];
    let queues = || jobs.each_ref().map(|id| queue_of(&sandbox, id));
    assert_eq!(queues(), ["in"; 3], "queue soon is not enabled");
    let deleted = qmgr("delete queue soon");
    assert!(
        deleted.code == 0
            && deleted
                .err
                .contains("warning: the deleted queue soon is still a destination of queue in"),
        "{deleted:?}"
    );
    refused(
        sandbox.run("qsub", &["-q", "in", "job.sh"]),
        191,
        "all possible destinations: soon: Unknown queue",
    );
    sandbox.kill("schedd");
    assert_eq!(queues(), ["in"; 3]);
    qmgr("set queue in route_destinations = workq").ok();
    sandbox.until("the routing of two jobs", || {
        (queues() == ["workq", "in", "workq"]).then_some(())
    });
    assert_eq!(
        sandbox.job(&jobs[0])["Resource_List"]["walltime"],
        "00:10:00",
        "the default of the destination must apply"
    );
    sandbox.run("qrls", &[&jobs[1]]).ok();
    sandbox.until("the routing of the released job", || {
        (queues() == ["workq"; 3]).then_some(())
    });
}

/// I19: the message for a refused job contains the count.
#[test]
fn a_job_above_the_limit_is_refused_with_the_count() {
    let sandbox = Sandbox::configured("[[limit]]\nuser = \"*\"\nqueued = { jobs = 3 }\n");
    sandbox.script("job.sh", "true\n");
    let ids: Vec<String> = (0..2)
        .map(|_| sandbox.run("qsub", &["-h", "job.sh"]).line())
        .collect();
    let user = sandbox.owner(&ids[0]);
    let array = sandbox.run("qsub", &["-h", "-J", "1-2", "job.sh"]);
    refused(
        &array,
        38,
        &format!(
            "qsub: would exceed complex's per-user limit ({user}: 2 of 3 in use, 2 more requested)"
        ),
    );
    sandbox.run("qsub", &["-h", "job.sh"]).line();
    let fourth = sandbox.run("qsub", &["-h", "job.sh"]);
    refused(
        &fourth,
        38,
        &format!(
            "qsub: would exceed complex's per-user limit ({user}: 3 of 3 in use, 1 more requested)"
        ),
    );
    sandbox.kill("schedd");
    refused(
        sandbox.run("qsub", &["-h", "job.sh"]),
        38,
        "3 of 3 in use, 1 more requested",
    );
    sandbox.run("qdel", &[&ids[0]]).ok();
    sandbox.run("qsub", &["-h", "job.sh"]).line();
}

/// P24: the message for an impossible job contains the nearest possible request.
#[test]
fn an_infeasible_job_is_refused_with_the_nearest_feasible_request() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    sandbox.script("job.sh", "true\n");
    let done = sandbox.run("qsub", &["-l", "select=1:ncpus=100000", "job.sh"]);
    refused(
        &done,
        188,
        "it can never run: Insufficient amount of resource: ncpus (R: 100000 A: ",
    );
    let nearest = done
        .err
        .trim_end()
        .rsplit("-l ")
        .next()
        .unwrap()
        .to_string();
    let id = sandbox
        .run("qsub", &["-h", "-l", &nearest, "job.sh"])
        .line();
    assert!(
        sandbox.job(&id)["Resource_List"]["select"]
            .as_str()
            .is_some_and(|select| nearest.ends_with(select))
    );
}

/// P24: a job that became impossible after its submission shows since when, also after a restart.
#[test]
fn a_job_that_became_infeasible_shows_since_when() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let config = |ncpus: u32| {
        format!("[launch]\nlogin = false\n[[node]]\nname = \"{node}\"\nncpus = {ncpus}\n")
    };
    let sandbox = Sandbox::configured(&config(8));
    let first = sandbox.submit(&["-l", "ncpus=8"], "sleep 600\n");
    sandbox.running(&first);
    let waiting = sandbox.submit(&["-l", "ncpus=8"], "true\n");
    let comment = || {
        sandbox.job(&waiting)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    sandbox.until("the job to wait", || {
        comment().starts_with("Not Running: Insuff").then_some(())
    });
    let shrink = || {
        sandbox.run("schedd", &["--stop"]).ok();
        std::fs::write(sandbox.home().join("lanai.toml"), config(4)).unwrap();
        sandbox.run("schedd", &[]).ok();
    };
    // A verdict within ten seconds of eligibility counts as the first one.
    std::thread::sleep(std::time::Duration::from_secs(11));
    shrink();
    let prefix = "Can Never Run: Insufficient amount of resource: ncpus (R: 8 A: 4 T: 4), since ";
    let first = sandbox.until("the comment", || {
        Some(comment()).filter(|comment| comment.starts_with(prefix))
    });
    shrink();
    sandbox.until("the same comment", || (comment() == first).then_some(()));
    let why = sandbox.run("qstat", &["--why", &waiting]).ok();
    assert!(
        why.contains("The job can never start on this system as configured, since "),
        "{why}"
    );
}
