//! Grouping of tasks by node (M9): `{(0,3)(1,2)}`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Groups of task numbers, one group for each node. Every task number from 0 up occurs once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Geometry(Vec<Vec<u32>>);

/// Maximum number of tasks in a geometry.
const MOST: usize = 100_000;

impl Geometry {
    /// Returns the task numbers of each node.
    pub fn groups(&self) -> &[Vec<u32>] {
        &self.0
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// Error for an invalid geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a geometry: list each task from 0 once, grouped by node, as in {{(0,3)(1,2)}}"
)]
pub struct NotGeometry {
    found: String,
}

impl FromStr for Geometry {
    type Err = NotGeometry;

    fn from_str(text: &str) -> Result<Geometry, NotGeometry> {
        read(text).ok_or_else(|| NotGeometry {
            found: text.chars().take(60).collect(),
        })
    }
}

fn read(text: &str) -> Option<Geometry> {
    let inner: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = inner
        .strip_prefix('{')?
        .strip_suffix('}')?
        .strip_prefix('(')?
        .strip_suffix(')')?;
    let groups = inner.split(")(").map(group).collect::<Option<Vec<_>>>()?;
    let mut all: Vec<u32> = groups.iter().flatten().copied().collect();
    all.sort_unstable();
    let is_each_once = all
        .iter()
        .enumerate()
        .all(|(place, task)| *task as usize == place);
    (is_each_once && all.len() <= MOST).then_some(Geometry(groups))
}

fn group(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("{")?;
        for group in &self.0 {
            let tasks: Vec<String> = group.iter().map(u32::to_string).collect();
            write!(f, "({})", tasks.join(","))?;
        }
        f.write_str("}")
    }
}

impl TryFrom<String> for Geometry {
    type Error = NotGeometry;

    fn try_from(text: String) -> Result<Geometry, NotGeometry> {
        text.parse()
    }
}

impl From<Geometry> for String {
    fn from(geometry: Geometry) -> String {
        geometry.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M9.
    #[test]
    fn a_geometry_contains_each_task_once() {
        let geometry: Geometry = "{(0,3)( 1,2)}".parse().unwrap();
        assert_eq!(
            (geometry.groups(), geometry.tasks()),
            (&[vec![0, 3], vec![1, 2]][..], 4)
        );
        assert_eq!(geometry.to_string(), "{(0,3)(1,2)}");
        for bad in [
            "",
            "{}",
            "{()}",
            "(0)",
            "{(0,2)}",
            "{(0)(0)}",
            "{(0),(1)}",
            "{(-1)}",
        ] {
            assert!(bad.parse::<Geometry>().is_err(), "{bad}");
        }
    }
}
