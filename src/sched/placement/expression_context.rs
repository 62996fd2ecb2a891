//! The values of names in expressions: Qube's `host.*` and `job.*` names (Q20), and Maui's names
//! for the ranking of nodes (M8f). Consumable sizes, such as memory, are in megabytes. Times of
//! jobs are in seconds.

use super::availability_map::AvailabilityMap;
use crate::model::expression::{ExpressionValue, NameScope};
use crate::model::resource;
use crate::sched::view::cluster::{KindIx, NodeIx, NodeKind};
use crate::sched::view::job_facts::JobFacts;
use std::borrow::Cow;

/// The node, or the kind of node, for which an expression is evaluated.
pub struct NodeView<'a> {
    space: &'a AvailabilityMap<'a>,
    kind: Option<&'a NodeKind>,
    node: Option<NodeIx>,
    job: Option<&'a JobFacts>,
}

/// Which amount of a resource a name denotes.
#[derive(Clone, Copy, PartialEq)]
enum Aspect {
    Total,
    Avail,
    Used,
}

/// Maui's names for values that change with the jobs on a node.
const CHANGING_MAUI: [&str; 7] = [
    "APROCS", "AMEM", "ASWAP", "ADISK", "JOBCOUNT", "LOAD", "USAGE",
];

/// Whether a name has the same value for all nodes of a kind.
pub fn is_of_kind(name: &str) -> bool {
    name != "host.name" && !is_changing(name)
}

/// Whether the value of a name can change while a job waits.
pub fn is_changing(name: &str) -> bool {
    let Some(name) = name.strip_prefix("host.") else {
        return CHANGING_MAUI.contains(&name);
    };
    let is_amount = name.ends_with(".used") || name.ends_with(".avail");
    is_amount || name.starts_with("duty.") || ["jobs", "load", "state"].contains(&name)
}

impl<'a> NodeView<'a> {
    /// The view of one node.
    pub fn new(space: &'a AvailabilityMap<'a>, ix: NodeIx) -> NodeView<'a> {
        let kind = space
            .cluster
            .node(ix)
            .kind
            .map(|kind| space.cluster.kind(kind));
        NodeView {
            space,
            kind,
            node: Some(ix),
            job: None,
        }
    }

    /// The view of a kind of node. Properties that differ between nodes of the kind are undefined.
    pub fn of_kind(space: &'a AvailabilityMap<'a>, kind: KindIx) -> NodeView<'a> {
        NodeView {
            space,
            kind: Some(space.cluster.kind(kind)),
            node: None,
            job: None,
        }
    }

    /// Adds the job to which the `job.*` names refer.
    pub fn for_job(self, job: &'a JobFacts) -> NodeView<'a> {
        NodeView {
            job: Some(job),
            ..self
        }
    }

    /// An amount of a consumable resource; sizes are in megabytes.
    fn amount(&self, resource: &str, aspect: Aspect) -> Option<f64> {
        let catalog = &self.space.cluster.catalog;
        let index = catalog.index_on_node(resource)?;
        let total = self.kind?.empty.free[index];
        let free = self.node.map(|node| self.space.room(node).free[index]);
        let amount = match aspect {
            Aspect::Total => total,
            Aspect::Avail => free?.max(0),
            Aspect::Used => total - free?,
        };
        let unit = match catalog.value(index, 0) {
            resource::ResourceValue::Size(_) => 1_048_576.0,
            resource::ResourceValue::Float(_) => 1000.0,
            _ => 1.0,
        };
        Some(amount as f64 / unit)
    }

    fn attribute(&self, name: &str) -> Option<ExpressionValue<'_>> {
        Some(match self.kind?.attributes.get(name)? {
            resource::ResourceValue::String(text) => ExpressionValue::from(text.as_str()),
            resource::ResourceValue::Boolean(flag) => ExpressionValue::Boolean(*flag),
            resource::ResourceValue::Float(number) => ExpressionValue::Number(*number),
            other => ExpressionValue::Number(other.amount()? as f64),
        })
    }

    fn jobs(&self) -> Option<f64> {
        Some(f64::from(self.space.room(self.node?).tenants))
    }

    fn load(&self) -> Option<f64> {
        Some(f64::from(self.space.cluster.node(self.node?).load) / 1000.0)
    }

    fn speed(&self) -> Option<ExpressionValue<'_>> {
        self.kind?;
        Some(
            self.attribute("speed")
                .unwrap_or(ExpressionValue::Number(1.0)),
        )
    }

    /// The value of `host.NAME`.
    fn host(&self, name: &str) -> Option<ExpressionValue<'_>> {
        let terms = &self.kind?.terms;
        let node = self.node.map(|ix| self.space.cluster.node(ix));
        Some(match name {
            "name" => ExpressionValue::from(node?.host.as_str()),
            "os" => return self.attribute("os").or_else(|| self.attribute("arch")),
            "groups" => ExpressionValue::from(terms.groups.as_slice()),
            "cluster" => ExpressionValue::Text(Cow::Owned(terms.cluster.to_string())),
            "processor_speed" | "speed" => {
                return self.attribute("processor_speed").or_else(|| self.speed());
            }
            "jobs" => ExpressionValue::Number(self.jobs()?),
            "load" => ExpressionValue::Number(self.load()?),
            "state" => ExpressionValue::from(if node?.usable { "active" } else { "down" }),
            _ => return self.part(name),
        })
    }

    /// The value of `host.flag.NAME`, `host.duty.PROPERTY`, `host.RESOURCE.used` (or `.avail`,
    /// `.total`), or of another property of the node.
    fn part(&self, name: &str) -> Option<ExpressionValue<'_>> {
        if let Some(flag) = name.strip_prefix("flag.") {
            return Some(
                self.attribute(flag)
                    .unwrap_or(ExpressionValue::Boolean(false)),
            );
        }
        if let Some(property) = name.strip_prefix("duty.") {
            return self.duty(property);
        }
        let Some((resource, aspect)) = name.rsplit_once('.') else {
            return self.attribute(name);
        };
        let resource = match resource {
            "processors" => "ncpus",
            "memory" => "mem",
            other => other,
        };
        let aspect = match aspect {
            "total" => Aspect::Total,
            "avail" => Aspect::Avail,
            "used" => Aspect::Used,
            _ => return None,
        };
        self.amount(resource, aspect).map(ExpressionValue::Number)
    }

    /// A property of all jobs on the node, as a list.
    fn duty(&self, property: &str) -> Option<ExpressionValue<'_>> {
        let cluster = self.space.cluster;
        let tenants = &cluster.node(self.node?).tenants;
        let list: Vec<String> = match property {
            "id" => tenants.keys().map(ToString::to_string).collect(),
            "user" => tenants
                .values()
                .filter_map(|hold| cluster.users.get(&hold.owner.user).cloned())
                .collect(),
            _ => return None,
        };
        Some(ExpressionValue::List(Cow::Owned(list)))
    }

    /// The value of one of Maui's names.
    fn maui(&self, name: &str) -> Option<ExpressionValue<'_>> {
        let number = match name {
            "APROCS" => self.amount("ncpus", Aspect::Avail)?,
            "CPROCS" => self.amount("ncpus", Aspect::Total)?,
            "AMEM" => self.amount("mem", Aspect::Avail)?,
            "CMEM" => self.amount("mem", Aspect::Total)?,
            "ASWAP" => self.amount("swap", Aspect::Avail)?,
            "CSWAP" => self.amount("swap", Aspect::Total)?,
            "ADISK" => self.amount("disk", Aspect::Avail)?,
            "CDISK" => self.amount("disk", Aspect::Total)?,
            "JOBCOUNT" => self.jobs()?,
            "LOAD" => self.load()?,
            "PRIORITY" => f64::from(self.kind?.terms.priority),
            "USAGE" => {
                let total = self.amount("ncpus", Aspect::Total)?;
                100.0 * self.amount("ncpus", Aspect::Used)? / total.max(1.0)
            }
            "SPEED" => return self.speed(),
            "PREF" | "RESAFFINITY" => 0.0,
            _ => return None,
        };
        Some(ExpressionValue::Number(number))
    }
}

impl NameScope for NodeView<'_> {
    fn value(&self, name: &str) -> Option<ExpressionValue<'_>> {
        if let Some(name) = name.strip_prefix("job.") {
            return self.job?.get(name).map(ExpressionValue::borrowed);
        }
        match name.strip_prefix("host.") {
            Some(name) => self.host(name),
            None => self.maui(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::{NodeFacts, NodeTerms};
    use crate::model::resource::{Definition, ResourceList, ResourceType as Type};
    use crate::sched::fixture::{TestCluster, cluster, resources};
    use crate::sched::view::snapshot::ClusterState;

    const RESOURCES: &str = "ncpus=8:mem=16gb:swap=32gb:disk=1024gb:heat=6.5:speed=2:\
                             arch=linux:processor_speed=3:big=true";

    /// Node n1 runs bob's job 7 and has a load of 1.5. Node n2 is down and has no resources.
    fn fixture() -> TestCluster {
        let mut known = resources();
        let custom = [
            ("swap", Type::Size, true),
            ("disk", Type::Size, true),
            ("heat", Type::Float, true),
        ];
        for (name, kind, consumable) in
            custom
                .into_iter()
                .chain([("processor_speed", Type::Long, false)])
        {
            known.define(
                name,
                Definition {
                    kind,
                    host_level: true,
                    consumable,
                    requestable: true,
                },
            );
        }
        let value = |word: &str| {
            let (name, text) = word.split_once('=').unwrap();
            (
                name.to_string(),
                resource::ResourceValue::parse(known.get(name).unwrap().kind, text).unwrap(),
            )
        };
        let available: ResourceList = RESOURCES.split(':').map(value).collect();
        let terms = NodeTerms {
            priority: 7,
            cluster: "/post/x".parse().unwrap(),
            groups: vec!["gpu".to_string()],
            ..NodeTerms::default()
        };
        let facts = |name: &str| NodeFacts {
            name: name.to_string(),
            host: format!("{name}.site"),
            ..Default::default()
        };
        let mut fixture = cluster("").owned("bob");
        fixture.state = ClusterState::new(&known);
        fixture.state.set_node(
            &NodeFacts {
                available,
                terms,
                load: 1500,
                ..facts("n1")
            },
            true,
        );
        let plain: ResourceList = ["ncpus=0"].map(value).into();
        fixture.state.set_node(
            &NodeFacts {
                available: plain,
                ..facts("n2")
            },
            false,
        );
        fixture.running(7, "select=1:ncpus=2:mem=4gb", "n1", 600)
    }

    /// The value of a name on a node, as text.
    fn value_of(fixture: &TestCluster, node: &str, name: &str) -> String {
        let space = AvailabilityMap::now(&fixture.state.cluster);
        let view = NodeView::new(&space, fixture.state.cluster.find(node).unwrap());
        match view.value(name) {
            Some(ExpressionValue::Number(number)) => format!("{number}"),
            Some(ExpressionValue::Boolean(flag)) => format!("{flag}"),
            Some(ExpressionValue::Text(text)) => text.to_string(),
            Some(ExpressionValue::List(list)) => list.join(","),
            Some(ExpressionValue::Undefined) | None => "undefined".to_string(),
        }
    }

    fn assert_values(node: &str, expected: &[(&str, &str)]) {
        let fixture = fixture();
        let found: Vec<(&str, String)> = expected
            .iter()
            .map(|(name, _)| (*name, value_of(&fixture, node, name)))
            .collect();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    /// M8f.
    #[test]
    fn maui_names_give_resources_and_load() {
        let sizes = [
            ("AMEM", "12288"),
            ("CMEM", "16384"),
            ("ASWAP", "32768"),
            ("CSWAP", "32768"),
        ];
        let counts = [
            ("APROCS", "6"),
            ("CPROCS", "8"),
            ("JOBCOUNT", "1"),
            ("LOAD", "1.5"),
            ("USAGE", "25"),
        ];
        let others = [
            ("PRIORITY", "7"),
            ("SPEED", "2"),
            ("PREF", "0"),
            ("RESAFFINITY", "0"),
            ("NOSUCH", "undefined"),
        ];
        assert_values(
            "n1",
            &[
                &sizes[..],
                &[("ADISK", "1048576"), ("CDISK", "1048576")],
                &counts,
                &others,
            ]
            .concat(),
        );
        assert_values(
            "n2",
            &[
                ("USAGE", "0"),
                ("SPEED", "1"),
                ("ADISK", "0"),
                ("PRIORITY", "0"),
                ("LOAD", "0"),
            ],
        );
    }

    /// Q20.
    #[test]
    fn qube_names_give_properties_of_a_host() {
        let names = [
            ("host.name", "n1.site"),
            ("host.os", "linux"),
            ("host.groups", "gpu"),
            ("host.cluster", "/post/x"),
        ];
        let speeds = [
            ("host.speed", "3"),
            ("host.processor_speed", "3"),
            ("host.load", "1.5"),
            ("host.jobs", "1"),
        ];
        let flags = [
            ("host.state", "active"),
            ("host.flag.big", "true"),
            ("host.flag.small", "false"),
        ];
        assert_values("n1", &[&names[..], &speeds, &flags].concat());
        assert_values(
            "n2",
            &[
                ("host.state", "down"),
                ("host.speed", "1"),
                ("host.os", "undefined"),
                ("host.nosuch", "undefined"),
            ],
        );
    }

    /// Q20.
    #[test]
    fn qube_names_give_usage_and_user() {
        let processors = [
            ("host.processors.total", "8"),
            ("host.processors.used", "2"),
            ("host.processors.avail", "6"),
        ];
        let memory = [
            ("host.memory.total", "16384"),
            ("host.memory.used", "4096"),
            ("host.memory.avail", "12288"),
        ];
        let heat = [("host.heat.total", "6.5"), ("host.heat.most", "undefined")];
        let duty = [
            ("host.duty.id", "7"),
            ("host.duty.user", "bob"),
            ("host.duty.shoes", "undefined"),
        ];
        assert_values("n1", &[&processors[..], &memory, &heat, &duty].concat());
    }

    /// Conditions on changing values or on the host name must be checked for each node. All other
    /// conditions have the same result for all nodes of a kind.
    #[test]
    fn values_of_names_depend_on_the_node_or_its_kind_and_can_change() {
        for changing in [
            "host.memory.avail",
            "host.processors.used",
            "host.duty.user",
            "host.jobs",
            "host.load",
            "AMEM",
            "LOAD",
        ] {
            assert!(is_changing(changing) && !is_of_kind(changing), "{changing}");
        }
        for constant in [
            "host.memory.total",
            "host.os",
            "host.flag.big",
            "job.user",
            "job.used",
            "CMEM",
            "SPEED",
        ] {
            assert!(!is_changing(constant) && is_of_kind(constant), "{constant}");
        }
        assert!(!is_of_kind("host.name") && !is_changing("host.name"));
    }
}
