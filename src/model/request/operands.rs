//! Names that a requirement may contain (Q20). An unknown name would be undefined on every node,
//! and the job would wait forever. Jobs with unknown names are therefore refused at submission.

use crate::model::expression::Expression;
use crate::model::resource::{ResourceType, Resources};
use crate::model::spelling::nearest;

/// Properties of all nodes and jobs.
const FIXED: &[&str] = &[
    "host.name",
    "host.os",
    "host.groups",
    "host.cluster",
    "host.speed",
    "host.processor_speed",
    "host.load",
    "host.jobs",
    "host.state",
    "host.duty.user",
    "host.duty.id",
    "job.user",
    "job.project",
    "job.queue",
    "job.account",
    "job.qos",
    "job.group",
    "job.cluster",
    "job.select",
    "job.place",
    "job.nodect",
];

/// Names from Maui for properties of nodes, without a prefix `host.`.
pub const MAUI: &[&str] = &[
    "APROCS",
    "CPROCS",
    "AMEM",
    "CMEM",
    "ASWAP",
    "CSWAP",
    "ADISK",
    "CDISK",
    "JOBCOUNT",
    "LOAD",
    "PRIORITY",
    "USAGE",
    "SPEED",
    "PREF",
    "RESAFFINITY",
];

/// Returns an error for the first unknown name, with the nearest known name. Names that contain a
/// dot and do not begin with `host.` or `job.` are accepted, because they may be host names.
pub fn check(expression: &Expression, resources: &Resources) -> Result<(), String> {
    let owned = known(resources);
    let known: Vec<&str> = owned
        .iter()
        .map(String::as_str)
        .chain(FIXED.iter().chain(MAUI).copied())
        .collect();
    for name in expression.names() {
        let is_host_name =
            name.contains('.') && !name.starts_with("host.") && !name.starts_with("job.");
        if !is_host_name && !known.contains(&name) {
            let near = nearest(name, &known).unwrap_or_default();
            return Err(format!(
                "unknown name `{name}`; the nearest known name is `{near}`; \
                 to compare with the text {name}, put it in quotes"
            ));
        }
    }
    Ok(())
}

fn aspects(resource: &str) -> [String; 3] {
    ["total", "avail", "used"].map(|aspect| format!("host.{resource}.{aspect}"))
}

/// Returns the names that resources define, with the aliases `processors` and `memory`.
fn known(resources: &Resources) -> Vec<String> {
    let mut known = Vec::new();
    known.extend(aspects("processors"));
    known.extend(aspects("memory"));
    for (name, definition) in resources.iter() {
        known.extend(aspects(name));
        known.push(format!("host.{name}"));
        known.push(format!("job.{name}"));
        if definition.kind == ResourceType::Boolean {
            known.push(format!("host.flag.{name}"));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::Definition;

    fn checked(text: &str) -> Result<(), String> {
        let mut resources = Resources::builtin();
        let flag = Definition {
            kind: ResourceType::Boolean,
            host_level: true,
            consumable: false,
            requestable: true,
        };
        resources.define("big", flag);
        check(&Expression::parse(text).unwrap(), &resources)
    }

    /// Q20.
    #[test]
    fn errors_for_unknown_names_suggest_the_nearest_known_name() {
        for good in [
            "host.memory.total >= 3 and host.os eq linux",
            "job.user ne guest or host.name ne n1",
            "host.flag.big and host.duty.user has bob",
            "SPEED > 2 and host.ncpus.used < 3 and job.walltime < 3600",
            "host.name eq n1.example.org",
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (bad, near) in [
            ("host.memroy.total >= 3", "host.memory.total"),
            ("host.flag.bgi", "host.flag.big"),
            ("job.usr eq x", "job.user"),
            ("SPEDE > 2", "SPEED"),
        ] {
            assert!(
                checked(bad)
                    .unwrap_err()
                    .contains(&format!("nearest known name is `{near}`")),
                "{bad}: {:?}",
                checked(bad)
            );
        }
    }
}
