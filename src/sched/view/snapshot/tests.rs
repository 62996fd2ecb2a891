//! What a cycle may see, and how it follows what happens.

use super::*;
use crate::sched::fixture::{TestCluster, cluster};

#[test]
fn what_is_assigned_comes_and_goes() {
    let mut scene =
        cluster("2 x ncpus=8:mem=8gb").running(1, "select=2:ncpus=2:mem=1gb", "n1,n1", 60);
    let assigned = scene.state.assigned("n1");
    assert_eq!(assigned.taken["ncpus"].to_string(), "4");
    assert_eq!(assigned.taken["mem"].to_string(), "2097152kb");
    assert_eq!(
        (assigned.jobs, assigned.exclusive),
        (vec![JobId::job(1)], false)
    );
    scene.state.vacate(JobId::job(1));
    assert_eq!(scene.state.assigned("n1"), scene.state.assigned("n2"));
    assert_eq!(scene.state.assigned("nosuch"), Assigned::default());
}

#[test]
fn occupancy_survives_a_change_of_the_node() {
    let scene = cluster("1 x ncpus=8").running(1, "select=1:ncpus=6", "n1", 60);
    let scene = scene
        .node("n1", "ncpus=4", true)
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:ncpus=0");
    assert_eq!(scene.starts(), "3 on n1");
    assert_eq!(
        scene.node("n1", "ncpus=7", true).starts(),
        "2 on n1; 3 on n1"
    );
}

#[test]
fn a_job_found_before_its_node_is_still_there_afterwards() {
    let scene = cluster("")
        .running(1, "select=1:ncpus=6", "n1", 60)
        .node("n1", "ncpus=8", true);
    assert_eq!(
        scene
            .queued(2, "select=1:ncpus=2")
            .queued(3, "select=1:ncpus=1")
            .starts(),
        "2 on n1"
    );
}

#[test]
fn a_withdrawn_job_is_no_candidate() {
    let mut scene = cluster("1 x ncpus=8")
        .queued(1, "select=1:ncpus=1")
        .queued(2, "select=1:ncpus=1");
    let class = scene.state.class_of(JobId::job(1)).unwrap();
    assert_eq!(
        scene.state.jobs_in(class).collect::<Vec<_>>(),
        [JobId::job(1), JobId::job(2)]
    );
    scene.state.withdraw(JobId::job(1));
    assert_eq!(
        (scene.state.class_of(JobId::job(1)), scene.starts().as_str()),
        (None, "2 on n1")
    );
}

#[test]
fn an_array_of_which_no_element_waits_bars_nobody() {
    let scene = cluster("1 x ncpus=1")
        .queued(1, "select=1:ncpus=1:vnode=n1 array=1-2")
        .begun(1, 0, 1);
    assert_eq!(scene.queued(2, "select=1:ncpus=1").starts(), "2 on n1");
}

#[test]
fn a_class_has_the_same_name_in_every_process() {
    let scene = cluster("").queued(1, "select=2:ncpus=4:mem=1gb place=scatter walltime=60");
    assert_eq!(
        scene.state.class_of(JobId::job(1)).unwrap().to_string(),
        "76f8d144b6bca994"
    );
}

#[test]
fn the_only_node_of_a_host_gets_a_neighbour_and_loses_it() {
    let mut scene = cluster("")
        .on_host("h", "1 x ncpus=2")
        .queued(1, "select=2:ncpus=2 place=pack");
    assert_eq!(scene.starts(), "");
    scene = scene.on_host("h", "1 x ncpus=2");
    assert_eq!(scene.starts(), "1 on n1,n2");
    scene.state.remove_node("n1");
    assert_eq!(scene.starts(), "");
}

#[test]
fn jobs_of_a_queue_that_is_gone_do_not_start() {
    let mut scene = cluster("1 x ncpus=8").queued(1, "select=1:ncpus=1");
    scene.state.remove_queue("workq");
    assert_eq!(scene.starts(), "");
}

#[test]
fn what_is_given_back_at_a_moment_is_that_of_those_who_still_end_then() {
    let scene = cluster("2 x ncpus=8")
        .running(1, "select=1:ncpus=1", "n1", 60)
        .running(2, "select=1:ncpus=2", "n1", 60);
    let mut scene = scene.running(3, "select=1:ncpus=4", "n2", 70);
    let ncpus = scene.state.cluster.catalog.index("ncpus").unwrap();
    let given_back = |scene: &TestCluster| {
        scene
            .state
            .releases
            .iter()
            .map(|(until, taken)| (until.0 / 1000, taken[ncpus]))
            .collect::<Vec<_>>()
    };
    assert_eq!(given_back(&scene), [(60, 3), (70, 4)]);
    scene.state.vacate(JobId::job(2));
    assert_eq!(given_back(&scene), [(60, 1), (70, 4)]);
    scene.state.vacate(JobId::job(1));
    assert_eq!(given_back(&scene), [(70, 4)]);
}

#[test]
fn an_element_is_a_candidate_until_it_begins() {
    let scene = cluster("1 x ncpus=8")
        .queued(1, "select=1:ncpus=1 array=4-6")
        .begun(1, 1, 1);
    let class = |index| scene.state.class_of(JobId::element(1, index));
    assert_eq!(
        [4, 5, 6].map(|index| class(index).is_some()),
        [true, false, true]
    );
    assert!(class(7).is_none() && !scene.state.is_idle());
    assert_eq!(
        scene.state.waits_since(JobId::element(1, 4)),
        scene.state.waits_since(JobId::array(1))
    );
}

#[test]
fn a_node_that_a_job_has_alone_is_said_to_be_taken_so() {
    let scene = cluster("2 x ncpus=8").running(1, "select=1:ncpus=1 place=excl", "n1", 60);
    let scene = scene.running(2, "select=1:ncpus=1 place=shared", "n2", 60);
    assert_eq!(
        ["n1", "n2"].map(|node| scene.state.assigned(node).exclusive),
        [true, false]
    );
    assert_eq!(
        [1, 2].map(|job| scene.state.running[&JobId::job(job)].alone),
        [true, false]
    );
}

/// M32: what was promised is given with the start.
#[test]
fn a_job_that_has_started_is_promised_nothing_more() {
    let mut scene = cluster("1 x ncpus=8")
        .running(1, "select=1:ncpus=8", "n1", 60)
        .queued(2, "select=1:ncpus=8");
    let plan = scene.plan();
    scene.apply(&plan);
    assert!(
        scene.state.standing.promise(JobId::job(2)).is_some()
            && scene.state.standing.is_as_planned()
    );
    scene.state.vacate(JobId::job(1));
    let scene = scene.running(2, "select=1:ncpus=8", "n1", 120);
    assert!(
        scene.state.standing.promise(JobId::job(2)).is_none()
            && !scene.state.standing.is_as_planned()
    );
}

#[test]
fn a_state_is_idle_when_nothing_waits() {
    let mut scene = cluster("1 x ncpus=8").running(1, "select=1:ncpus=1", "n1", 60);
    assert!(scene.state.is_idle());
    scene = scene.queued(2, "select=1:ncpus=1");
    assert!(!scene.state.is_idle());
    scene.state.withdraw(JobId::job(2));
    assert!(scene.state.is_idle());
}

/// I23.
#[test]
fn what_lies_ahead_of_the_calendar_is_told_as_it_was_set() {
    let mut scene = cluster("");
    let dedicated = Some(vec![(Time(60_000), Time(120_000))]);
    let ahead = SiteTime {
        dedicated,
        ..SiteTime::default()
    };
    assert_eq!(*scene.state.site_time(), SiteTime::default());
    scene.state.set_site_time(ahead.clone());
    assert_eq!(*scene.state.site_time(), ahead);
}
