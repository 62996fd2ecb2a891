//! Tests of shapes (the parts of requests that decide where jobs fit).

use super::*;
use crate::model::resource::{self, Definition};
use crate::sched::fixture::{TestCluster, cluster};

fn shape(fixture: &TestCluster, text: &str) -> Shape {
    Shape::new(&fixture.job(1, text), &fixture.state.cluster.catalog)
}

fn amount(shape: &Shape, fixture: &TestCluster, name: &str) -> i64 {
    shape.total[fixture.state.cluster.catalog.index(name).unwrap()]
}

/// M9: the tasks of a group form one chunk on one node.
#[test]
fn each_group_of_a_task_geometry_requests_the_total_of_its_tasks() {
    let fixture = cluster("2 x ncpus=6:mem=6gb");
    let text = "select=4:ncpus=2:mem=2gb geometry={(0,1,2)(3)}";
    let shape = shape(&fixture, text);
    assert_eq!(
        (
            amount(&shape, &fixture, "ncpus"),
            amount(&shape, &fixture, "mem")
        ),
        (8, 8 << 30)
    );
    assert_eq!(fixture.clone().queued(1, text).starts(), "1 on n1,n2");
    assert_eq!(
        cluster("1 x ncpus=6:mem=5gb, 1 x ncpus=2:mem=2gb")
            .queued(1, text)
            .starts(),
        ""
    );
}

/// M9.
#[test]
fn each_group_of_a_task_geometry_requests_the_total_of_fractional_amounts() {
    let mut resources = crate::sched::fixture::resources();
    let share = Definition {
        kind: resource::ResourceType::Float,
        host_level: true,
        consumable: true,
        requestable: true,
    };
    resources.define("share", share);
    let catalog = Catalog::new(&resources);
    let mut job = cluster("").job(1, "select=3:ncpus=1 geometry={(0,1)(2)}");
    let spec = Arc::make_mut(&mut job.spec);
    Arc::make_mut(&mut spec.request).select.chunks[0]
        .resources
        .push(("share".to_string(), ResourceValue::Float(0.5)));
    let shape = Shape::new(&job, &catalog);
    let index = catalog.index("share").unwrap();
    let given: Vec<_> = shape
        .chunks
        .iter()
        .flat_map(|chunk| chunk.given.iter().filter(|(i, _)| *i == index))
        .collect();
    assert_eq!(
        given,
        [
            &(index, ResourceValue::Float(1.0)),
            &(index, ResourceValue::Float(0.5))
        ]
    );
    assert_eq!(shape.total[index], 1500);
}

#[test]
fn a_total_is_shown_in_the_unit_of_the_request() {
    let fixture = cluster("");
    let catalog = &fixture.state.cluster.catalog;
    let shown = |text: &str, name: &str| {
        shape(&fixture, text).shown_total(catalog.index(name).unwrap(), catalog)
    };
    assert_eq!(shown("select=3:mem=1gb", "mem"), "3gb");
    assert_eq!(shown("select=1:mem=1gb+2:mem=1gb", "mem"), "3gb");
    assert_eq!(shown("select=3:ncpus=2+1:ncpus=1", "ncpus"), "7");
    assert_eq!(shown("site_lic=4", "site_lic"), "4");
}

/// The definition of a requested resource can be removed before a restart of schedd.
#[test]
fn a_request_for_an_undefined_resource_becomes_a_condition_that_no_node_meets() {
    let job = cluster("").job(1, "site_lic=4 walltime=60");
    let needs = |catalog: &Catalog| {
        let chunks = Shape::new(&job, catalog).chunks;
        chunks
            .into_iter()
            .flat_map(|chunk| chunk.needs)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        needs(&Catalog::new(&crate::sched::fixture::resources())),
        []
    );
    let without = needs(&Catalog::new(&resource::Resources::builtin()));
    assert_eq!(
        without,
        [Need {
            resource: "site_lic".to_string(),
            value: ResourceValue::Long(4)
        }]
    );
}

/// No chunk fits on a node with negative free amounts, even if other resources are free.
#[test]
fn a_chunk_fits_only_if_all_its_resources_are_free() {
    let fixture = cluster("");
    let catalog = &fixture.state.cluster.catalog;
    let shape = shape(&fixture, "select=1:ncpus=2:mem=2b");
    let times = |ncpus: i64, mem: i64| {
        let mut free = catalog.node_zeros();
        (
            free[catalog.index("ncpus").unwrap()],
            free[catalog.index("mem").unwrap()],
        ) = (ncpus, mem);
        shape.chunks[0].times_in(&free)
    };
    assert_eq!(
        [times(8, 6), times(8, 1), times(-4, 8), times(8, -4)],
        [3, 0, 0, 0]
    );
}

#[test]
fn the_shape_id_of_a_request_without_a_job_depends_on_chunks_and_not_on_walltime() {
    let fixture = cluster("");
    let shape = |text: &str| {
        Shape::of_request(
            &fixture.job(1, text).spec.request,
            &fixture.state.cluster.catalog,
        )
    };
    assert_eq!(
        shape("select=1:ncpus=2").id,
        shape("select=1:ncpus=2 walltime=60").id
    );
    assert_ne!(shape("select=1:ncpus=2").id, shape("select=1:ncpus=3").id);
}

/// Q20: if both jobs had the same shape, they would be refused together.
#[test]
fn equal_requirements_that_use_job_properties_are_evaluated_for_each_job() {
    let text = "requirements=host.name!=\"n9\"&&job.user==\"bob\"";
    let fixture = cluster("1 x ncpus=2")
        .queued(1, text)
        .owned("bob")
        .queued(2, text);
    assert_eq!(fixture.starts(), "2 on n1");
}

/// Q22: amounts such as `2+` grow with the free resources of the node.
#[test]
fn a_request_with_a_growing_chunk_is_not_unbound() {
    let is_unbound = |select: &str| shape(&cluster(""), &format!("select={select}")).is_unbound();
    assert_eq!(
        ["1:ncpus=2", "1:ncpus=2+", "1:ncpus=2++1:ncpus=1"].map(is_unbound),
        [true, false, false]
    );
}
