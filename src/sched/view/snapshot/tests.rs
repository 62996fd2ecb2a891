//! Tests: the snapshot reflects all changes of nodes, queues and jobs.

use super::*;
use crate::sched::fixture::{TestCluster, cluster};

#[test]
fn assigned_resources_follow_starts_and_ends() {
    let mut fixture =
        cluster("2 x ncpus=8:mem=8gb").running(1, "select=2:ncpus=2:mem=1gb", "n1,n1", 60);
    let assigned = fixture.state.assigned("n1");
    assert_eq!(assigned.taken["ncpus"].to_string(), "4");
    assert_eq!(assigned.taken["mem"].to_string(), "2097152kb");
    assert_eq!(
        (assigned.jobs, assigned.exclusive),
        (vec![JobId::job(1)], false)
    );
    fixture.state.vacate(JobId::job(1));
    assert_eq!(fixture.state.assigned("n1"), fixture.state.assigned("n2"));
    assert_eq!(fixture.state.assigned("nosuch"), Assigned::default());
}

#[test]
fn a_job_keeps_its_resources_when_its_node_changes() {
    let fixture = cluster("1 x ncpus=8").running(1, "select=1:ncpus=6", "n1", 60);
    let fixture = fixture
        .node("n1", "ncpus=4", true)
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:ncpus=0");
    assert_eq!(fixture.starts(), "3 on n1");
    assert_eq!(
        fixture.node("n1", "ncpus=7", true).starts(),
        "2 on n1; 3 on n1"
    );
}

#[test]
fn a_job_that_is_recorded_before_its_node_keeps_its_resources() {
    let fixture = cluster("")
        .running(1, "select=1:ncpus=6", "n1", 60)
        .node("n1", "ncpus=8", true);
    assert_eq!(
        fixture
            .queued(2, "select=1:ncpus=2")
            .queued(3, "select=1:ncpus=1")
            .starts(),
        "2 on n1"
    );
}

#[test]
fn a_withdrawn_job_is_no_candidate() {
    let mut fixture = cluster("1 x ncpus=8")
        .queued(1, "select=1:ncpus=1")
        .queued(2, "select=1:ncpus=1");
    let class = fixture.state.class_of(JobId::job(1)).unwrap();
    assert_eq!(
        fixture.state.jobs_in(class).collect::<Vec<_>>(),
        [JobId::job(1), JobId::job(2)]
    );
    fixture.state.withdraw(JobId::job(1));
    assert_eq!(
        (
            fixture.state.class_of(JobId::job(1)),
            fixture.starts().as_str()
        ),
        (None, "2 on n1")
    );
}

#[test]
fn an_array_without_waiting_subjobs_blocks_no_job() {
    let fixture = cluster("1 x ncpus=1")
        .queued(1, "select=1:ncpus=1:vnode=n1 array=1-2")
        .begun(1, 0, 1);
    assert_eq!(fixture.queued(2, "select=1:ncpus=1").starts(), "2 on n1");
}

#[test]
fn a_class_has_the_same_id_in_every_process() {
    let fixture = cluster("").queued(1, "select=2:ncpus=4:mem=1gb place=scatter walltime=60");
    assert_eq!(
        fixture.state.class_of(JobId::job(1)).unwrap().to_string(),
        "76f8d144b6bca994"
    );
}

#[test]
fn a_packed_job_fits_only_while_its_host_has_two_nodes() {
    let mut fixture = cluster("")
        .on_host("h", "1 x ncpus=2")
        .queued(1, "select=2:ncpus=2 place=pack");
    assert_eq!(fixture.starts(), "");
    fixture = fixture.on_host("h", "1 x ncpus=2");
    assert_eq!(fixture.starts(), "1 on n1,n2");
    fixture.state.remove_node("n1");
    assert_eq!(fixture.starts(), "");
}

#[test]
fn jobs_of_a_removed_queue_do_not_start() {
    let mut fixture = cluster("1 x ncpus=8").queued(1, "select=1:ncpus=1");
    fixture.state.remove_queue("workq");
    assert_eq!(fixture.starts(), "");
}

#[test]
fn expected_releases_do_not_include_jobs_that_have_ended() {
    let fixture = cluster("2 x ncpus=8")
        .running(1, "select=1:ncpus=1", "n1", 60)
        .running(2, "select=1:ncpus=2", "n1", 60);
    let mut fixture = fixture.running(3, "select=1:ncpus=4", "n2", 70);
    let ncpus = fixture.state.cluster.catalog.index("ncpus").unwrap();
    let releases = |fixture: &TestCluster| {
        fixture
            .state
            .releases
            .iter()
            .map(|(until, taken)| (until.0 / 1000, taken[ncpus]))
            .collect::<Vec<_>>()
    };
    assert_eq!(releases(&fixture), [(60, 3), (70, 4)]);
    fixture.state.vacate(JobId::job(2));
    assert_eq!(releases(&fixture), [(60, 1), (70, 4)]);
    fixture.state.vacate(JobId::job(1));
    assert_eq!(releases(&fixture), [(70, 4)]);
}

#[test]
fn a_subjob_has_a_class_until_it_starts() {
    let fixture = cluster("1 x ncpus=8")
        .queued(1, "select=1:ncpus=1 array=4-6")
        .begun(1, 1, 1);
    let class = |index| fixture.state.class_of(JobId::element(1, index));
    assert_eq!(
        [4, 5, 6].map(|index| class(index).is_some()),
        [true, false, true]
    );
    assert!(class(7).is_none() && !fixture.state.is_idle());
    assert_eq!(
        fixture.state.waits_since(JobId::element(1, 4)),
        fixture.state.waits_since(JobId::array(1))
    );
}

#[test]
fn an_exclusive_node_is_reported_as_exclusive() {
    let fixture = cluster("2 x ncpus=8").running(1, "select=1:ncpus=1 place=excl", "n1", 60);
    let fixture = fixture.running(2, "select=1:ncpus=1 place=shared", "n2", 60);
    assert_eq!(
        ["n1", "n2"].map(|node| fixture.state.assigned(node).exclusive),
        [true, false]
    );
    assert_eq!(
        [1, 2].map(|job| fixture.state.running[&JobId::job(job)].alone),
        [true, false]
    );
}

/// M32: when a job starts, its planned start is removed.
#[test]
fn a_started_job_has_no_planned_start() {
    let mut fixture = cluster("1 x ncpus=8")
        .running(1, "select=1:ncpus=8", "n1", 60)
        .queued(2, "select=1:ncpus=8");
    let plan = fixture.plan();
    fixture.apply(&plan);
    assert!(
        fixture.state.bookings.promise(JobId::job(2)).is_some()
            && fixture.state.bookings.is_as_planned()
    );
    fixture.state.vacate(JobId::job(1));
    let fixture = fixture.running(2, "select=1:ncpus=8", "n1", 120);
    assert!(
        fixture.state.bookings.promise(JobId::job(2)).is_none()
            && !fixture.state.bookings.is_as_planned()
    );
}

#[test]
fn a_state_without_waiting_jobs_is_idle() {
    let mut fixture = cluster("1 x ncpus=8").running(1, "select=1:ncpus=1", "n1", 60);
    assert!(fixture.state.is_idle());
    fixture = fixture.queued(2, "select=1:ncpus=1");
    assert!(!fixture.state.is_idle());
    fixture.state.withdraw(JobId::job(2));
    assert!(fixture.state.is_idle());
}

/// I23.
#[test]
fn the_site_time_is_stored_as_it_was_set() {
    let mut fixture = cluster("");
    let dedicated = Some(vec![(Time(60_000), Time(120_000))]);
    let ahead = SiteTime {
        dedicated,
        ..SiteTime::default()
    };
    assert_eq!(*fixture.state.site_time(), SiteTime::default());
    fixture.state.set_site_time(ahead.clone());
    assert_eq!(*fixture.state.site_time(), ahead);
}
