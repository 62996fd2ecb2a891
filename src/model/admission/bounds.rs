//! Bounds on requests in a queue: `resources_min` and `resources_max`.

use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::resource::{ResourceValue, Resources};
use std::cmp::Ordering;

/// Refuses a request below the minimum or above the maximum of a queue. A consumable that is not
/// requested counts as 0 for its minimum. Other resources are checked only if they are requested.
pub(super) fn check(
    queue: &Queue,
    request: &Request,
    resources: &Resources,
) -> Result<(), Refusal> {
    for (name, least) in &queue.least {
        let requested = requested_value(request, name);
        let is_counted = resources
            .get(name)
            .is_some_and(|definition| definition.consumable);
        if requested.is_none() && is_counted && least.amount() > Some(0) {
            let fault = format!("no {name} requested, below the minimum {least}");
            return Err(out_of_bounds(queue, &fault, name));
        }
        if let Some(requested) = requested.filter(|requested| is_less(requested, least)) {
            let fault = format!("{name} {requested} is below the minimum {least}");
            return Err(out_of_bounds(queue, &fault, "more"));
        }
    }
    for (name, most) in &queue.most {
        if let Some(requested) =
            requested_value(request, name).filter(|requested| is_less(most, requested))
        {
            let fault = format!("{name} {requested} is above the maximum {most}");
            return Err(out_of_bounds(queue, &fault, "less"));
        }
    }
    Ok(())
}

fn out_of_bounds(queue: &Queue, fault: &str, remedy: &str) -> Refusal {
    Refusal::out_of_bounds(&format!(
        "{fault} of queue {}; request {remedy}, or another queue (-q)",
        queue.name
    ))
}

/// Returns the requested value. If a job requests `min_walltime` but no `walltime`, the value of
/// `min_walltime` counts as its `walltime`.
fn requested_value<'a>(request: &'a Request, name: &str) -> Option<&'a ResourceValue> {
    let requested = request.list.get(name);
    if requested.is_none() && name == "walltime" {
        request.list.get("min_walltime")
    } else {
        requested
    }
}

/// Tests whether `one` is less than `other`; for values that are not numbers, whether they differ.
fn is_less(one: &ResourceValue, other: &ResourceValue) -> bool {
    match (one, other) {
        (ResourceValue::Float(one), ResourceValue::Float(other)) => one < other,
        _ => match one.amount().zip(other.amount()) {
            Some((one, other)) => one.cmp(&other) == Ordering::Less,
            None => one != other,
        },
    }
}
