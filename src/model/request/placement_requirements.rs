//! Placement requirements of a job beyond its resources: `qsub -W requirements=...`.

use super::cluster_path::{ClusterPath, Restriction};
use super::geometry::Geometry;
use super::host_list::HostList;
use crate::model::expression::Expression;
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Placement requirements of a job. If `allocation`, `access` or `distribution` is None, the policy
/// decides. Other fields that are None or empty require nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRequirements {
    /// Choice among suitable nodes (M8).
    pub allocation: Option<NodeAllocation>,
    /// Sharing of the job's nodes (M46).
    pub access: Option<NodeAccess>,
    /// Distribution of tasks over the nodes (M9).
    pub distribution: Option<Distribution>,
    /// Grouping of tasks by node (M9).
    pub geometry: Option<Geometry>,
    /// Expression that must be true on each node (Q3).
    pub requirements: Option<Expression>,
    /// Clusters of the nodes that the job accepts (Q19).
    pub restrictions: Option<Restriction>,
    /// Position of the job in the tree of clusters.
    pub cluster: Option<ClusterPath>,
    /// Hosts that the job may use, and hosts that it excludes (Q24).
    pub hosts: HostList,
}

/// Names of the attributes in `-W`.
pub const ATTRIBUTES: [&str; 11] = [
    "nalloc",
    "naccess",
    "distribution",
    "geometry",
    "requirements",
    "restrictions",
    "cluster",
    "hosts",
    "groups",
    "omit_hosts",
    "omit_groups",
];

/// Names in `-l`, as in Maui and Qube, and the attributes that they set.
const AS_RESOURCES: [(&str, &str); 4] = [
    ("nallocpolicy", "nalloc"),
    ("naccesspolicy", "naccess"),
    ("requirements", "requirements"),
    ("qos", "qos"),
];

/// Returns the attribute that `-l name=` sets; None if `-l name=` sets no attribute.
pub fn by_resource(name: &str) -> Option<&'static str> {
    AS_RESOURCES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, attribute)| *attribute)
}

impl PlacementRequirements {
    /// Sets one of the [`ATTRIBUTES`] from a text; an empty text clears the attribute. Errors in
    /// expressions include the column.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "nalloc" => self.allocation = choice(text, NodeAllocation::ALL)?,
            "naccess" => self.access = choice(text, NodeAccess::ALL)?,
            "distribution" => self.distribution = choice(text, Distribution::ALL)?,
            "geometry" => self.geometry = read(text)?,
            "requirements" => self.requirements = read(text)?,
            "restrictions" => self.restrictions = read(text)?,
            "cluster" => self.cluster = read(text)?,
            _ => {
                self.hosts = self
                    .hosts
                    .with(name, text)
                    .map_err(|error| error.to_string())?
            }
        }
        Ok(())
    }

    /// Returns the attributes that are set, as displayed.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let texts = [
            (
                "nalloc",
                self.allocation.map(|choice| choice.name().to_string()),
            ),
            (
                "naccess",
                self.access.map(|choice| choice.name().to_string()),
            ),
            (
                "distribution",
                self.distribution.map(|choice| choice.name().to_string()),
            ),
            ("geometry", self.geometry.as_ref().map(ToString::to_string)),
            (
                "requirements",
                self.requirements
                    .as_ref()
                    .map(|requirement| requirement.text().to_string()),
            ),
            (
                "restrictions",
                self.restrictions.as_ref().map(ToString::to_string),
            ),
            ("cluster", self.cluster.as_ref().map(ToString::to_string)),
        ];
        let mut shown: Vec<(&str, String)> = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)))
            .collect();
        shown.extend(self.hosts.shown());
        shown.retain(|(_, text)| !text.is_empty());
        shown
    }
}

fn choice<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = all
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
        .map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Err(format!("`{text}` is not one of {}", names.join(", ")));
    }
    Ok(found)
}

fn read<T: FromStr<Err: ToString>>(text: &str) -> Result<Option<T>, String> {
    if text.is_empty() {
        Ok(None)
    } else {
        text.parse()
            .map(Some)
            .map_err(|error: T::Err| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_and_shown_by_name() {
        let mut placement = PlacementRequirements::default();
        let given = [
            ("nalloc", "fastest"),
            ("naccess", "singleuser"),
            ("distribution", "balanced"),
            ("geometry", "{(0,3)(1,2)}"),
            ("requirements", "host.memory.total >= 32000"),
            ("restrictions", "/post/+ || /promo"),
            ("cluster", "/post/x"),
            ("hosts", "n1,n2"),
            ("omit_hosts", "n2"),
        ];
        for (name, text) in given {
            placement.set(name, text).unwrap();
        }
        let shown: Vec<(&str, &str)> = given.to_vec();
        assert_eq!(
            placement
                .shown()
                .iter()
                .map(|(name, text)| (*name, text.as_str()))
                .collect::<Vec<_>>(),
            shown
        );
        let stored = serde_json::to_string(&placement).unwrap();
        assert_eq!(
            serde_json::from_str::<PlacementRequirements>(&stored).unwrap(),
            placement
        );
        for (name, _) in given {
            placement.set(name, "").unwrap();
        }
        assert_eq!(placement, PlacementRequirements::default());
    }

    /// Q20: errors in expressions include the column.
    #[test]
    fn invalid_requirements_are_refused() {
        let mut placement = PlacementRequirements::default();
        let error = |placement: &mut PlacementRequirements, name, text| {
            placement.set(name, text).unwrap_err()
        };
        assert!(
            error(&mut placement, "nalloc", "best")
                .starts_with("`best` is not one of minresource, ")
        );
        assert!(
            error(&mut placement, "requirements", "host.memory.total >= ").starts_with("column ")
        );
        assert!(error(&mut placement, "geometry", "{(0,0)}").contains("geometry"));
        assert!(error(&mut placement, "cluster", "post").contains("`post` is not a cluster"));
        assert_eq!(placement, PlacementRequirements::default());
    }
}
