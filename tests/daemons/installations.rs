//! A personal and a shared installation on one host: commands report which one they use and how to
//! reach the other. Requires root and private copies of /etc, /run and /var/spool.

use crate::clients::transcripts::world::{World, missing};
use std::fs;
use std::time::{Duration, Instant};

const CONFIG: &str = "/etc/lanai/lanai.toml";
const PERSONAL: &str = "/home/alice/.local/state/lanai";

/// A host without a shared installation, where alice has the held job 1 in her personal one. None,
/// with a message on standard output, if that is not possible.
fn host_with_a_personal_job() -> Option<World> {
    if let Some(why) = missing() {
        println!("installations: skipped: {why}");
        return None;
    }
    let world = World::new("[server]\nname = \"cluster\"\n");
    fs::rename(world.outside(CONFIG), world.outside("/etc/lanai/later")).unwrap();
    assert_eq!(
        world.ok("alice", "qsub -h -W block=true true.sh > id 2> wait & until [ -s id ]; do sleep 0.02; done; cat id"),
        "1.head\n"
    );
    Some(world)
}

/// Adds the shared installation and starts its schedd.
fn add_shared_installation(world: &World) {
    fs::rename(world.outside("/etc/lanai/later"), world.outside(CONFIG)).unwrap();
    world.ok("root", "schedd");
}

fn fails(world: &World, command: &str) -> String {
    let done = world
        .run("alice", command, Duration::from_secs(20))
        .unwrap_or_else(|| panic!("{command} does not end within 20 s"));
    assert_ne!(done.code, 0, "{command}: {done:?}");
    done.err
}

#[test]
fn a_job_in_the_other_installation_is_reported_with_a_hint() {
    let Some(world) = host_with_a_personal_job() else {
        return;
    };
    assert!(
        !fails(&world, "qstat 2").contains("LANAI_HOME"),
        "only one installation exists"
    );
    add_shared_installation(&world);
    let hint = format!(
        "this is the shared installation ({CONFIG}); job 1 is in the personal installation ({PERSONAL}); \
         to use that installation: export LANAI_HOME={PERSONAL}\n"
    );
    assert_eq!(
        fails(&world, "qstat 1"),
        format!("qstat: Unknown Job Id 1.cluster\nqstat: {hint}")
    );
    assert_eq!(
        fails(&world, "qdel 1"),
        format!("qdel: Unknown Job Id 1.cluster\nqdel: {hint}")
    );
    assert!(
        fails(&world, "qstat 1.head").ends_with(&hint),
        "with the full job id"
    );
    assert!(
        !fails(&world, "qstat 7").contains("LANAI_HOME"),
        "neither installation has job 7"
    );
    assert!(world.ok("alice", "qstat -Bf").contains(&format!(
        "    installation = shared installation ({CONFIG})\n"
    )));
    let personal = format!("export LANAI_HOME={PERSONAL}; ");
    let server = world.ok("alice", &format!("{personal}qstat -Bf"));
    assert!(
        server.contains(&format!(
            "    installation = personal installation ({PERSONAL})\n"
        )),
        "{server}"
    );
    // In the opposite direction.
    assert_eq!(
        world.ok("alice", "qsub -h true.sh; qsub -h true.sh"),
        "1.cluster\n2.cluster\n"
    );
    let opposite = format!(
        "qstat: this is the personal installation ({PERSONAL}); job 2 is in the shared installation ({CONFIG}); \
         to use that installation: unset LANAI_HOME\n"
    );
    assert!(fails(&world, &format!("{personal}qstat 2")).ends_with(&opposite));
}

#[test]
fn personal_jobs_and_daemons_stay_with_their_installation() {
    let Some(world) = host_with_a_personal_job() else {
        return;
    };
    add_shared_installation(&world);
    let personal = format!("export LANAI_HOME={PERSONAL}; ");
    // New daemons must find the directory, configuration and sockets of the old ones.
    world.ok(
        "alice",
        &format!("{personal}schedd --stop; pkill -u alice noded; true"),
    );
    let submit = "echo 'PATH=$PBS_O_PATH qstat $PBS_JOBID > seen 2>&1' | qsub -W block=true";
    world.ok(
        "alice",
        &format!("{personal}qrls 1; {submit}; until [ -s seen ]; do sleep 0.02; done"),
    );
    let seen = fs::read_to_string(world.outside("/home/alice/w/seen")).unwrap();
    assert!(
        seen.contains("2.head"),
        "qstat in a job must use the installation that runs the job: {seen}"
    );
}

#[test]
fn a_command_that_waits_for_schedd_names_the_installation() {
    let Some(world) = host_with_a_personal_job() else {
        return;
    };
    add_shared_installation(&world);
    let hint = format!(
        "qsub: this is the shared installation ({CONFIG}); to use the personal installation ({PERSONAL}): \
         export LANAI_HOME={PERSONAL}\n"
    );
    let submit = "qsub -h -W block=true true.sh > shared-id 2> shared-wait & until [ -s shared-id ]; do sleep 0.02; done";
    world.ok("alice", submit);
    world.ok("root", "schedd --stop");
    let wait = world.outside("/home/alice/w/shared-wait");
    let started = Instant::now();
    while !fs::read_to_string(&wait).unwrap().contains(&hint) {
        let output = fs::read_to_string(&wait).unwrap();
        assert!(started.elapsed() < Duration::from_secs(30), "{output}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(fails(&world, "qstat").ends_with(&hint.replace("qsub:", "qstat:")));
}
