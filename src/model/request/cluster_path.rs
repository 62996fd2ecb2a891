//! Clusters, as in Qube: a tree of labels for workers (nodes) and jobs, such as `/film/shot3`.
//! Restrictions limit which job may use which worker (Q19); distances order jobs (Q17).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Position in the tree of clusters: `/` or `/a/b`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterPath(String);

impl Default for ClusterPath {
    fn default() -> ClusterPath {
        ClusterPath::root()
    }
}

impl ClusterPath {
    /// Returns the root, the position of workers and jobs without a cluster.
    pub fn root() -> ClusterPath {
        ClusterPath("/".to_string())
    }

    /// Tests whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// Returns the labels from the root down.
    fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|label| !label.is_empty())
    }

    /// Returns the number of levels below the root.
    pub fn depth(&self) -> usize {
        self.labels().count()
    }

    /// Tests whether this position is `other` or below it.
    pub fn is_within(&self, other: &ClusterPath) -> bool {
        self.common_depth(other) == other.depth()
    }

    /// Returns the depth of the lowest common ancestor.
    fn common_depth(&self, other: &ClusterPath) -> usize {
        self.labels()
            .zip(other.labels())
            .take_while(|(own, others)| own == others)
            .count()
    }
}

/// Returns the distance of a job from a worker (Q17): 0 if both are in the same cluster, or if the
/// worker is at the root. Otherwise the distance is 1 plus the number of levels from the worker up
/// to the common ancestor; levels down to the job's cluster do not count.
pub fn distance(worker: &ClusterPath, job: &ClusterPath) -> usize {
    if worker.is_root() || worker == job {
        return 0;
    }
    1 + worker.depth() - worker.common_depth(job)
}

impl fmt::Display for ClusterPath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error for an invalid cluster or restriction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {wanted}")]
pub struct NotCluster {
    found: String,
    wanted: &'static str,
}

impl NotCluster {
    fn path(found: &str) -> NotCluster {
        NotCluster {
            found: found.to_string(),
            wanted: "cluster: use `/` or labels, as in `/film/shot3`",
        }
    }

    fn restriction(found: &str) -> NotCluster {
        let wanted = "restriction: join clusters with ||, each as `/a/b`, `/a/+` (/a and all \
                      clusters below) or `/a/*` (only clusters below /a)";
        NotCluster {
            found: found.to_string(),
            wanted,
        }
    }
}

/// Tests whether a label is valid: it contains no blanks and no syntax of restrictions and lists.
fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label != "+"
        && !label.contains(|c: char| c.is_whitespace() || c.is_control() || "|,*\"'".contains(c))
}

impl FromStr for ClusterPath {
    type Err = NotCluster;

    fn from_str(text: &str) -> Result<ClusterPath, NotCluster> {
        let labels = text
            .strip_prefix('/')
            .ok_or_else(|| NotCluster::path(text))?;
        let is_path = labels.is_empty() || labels.split('/').all(is_label);
        is_path
            .then(|| ClusterPath(text.to_string()))
            .ok_or_else(|| NotCluster::path(text))
    }
}

impl TryFrom<String> for ClusterPath {
    type Error = NotCluster;

    fn try_from(text: String) -> Result<ClusterPath, NotCluster> {
        text.parse()
    }
}

impl From<ClusterPath> for String {
    fn from(path: ClusterPath) -> String {
        path.0
    }
}

/// Part of the tree that a term of a restriction accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Reach {
    /// `/a/b`: this cluster only.
    Exact,
    /// `/a/+`: this cluster and all clusters below.
    Within,
    /// `/a/*`: only the clusters below.
    Below,
}

/// Restriction of a worker to the jobs of some clusters, or of a job to the workers of some
/// clusters (Q19).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Restriction(Vec<(ClusterPath, Reach)>);

impl Restriction {
    /// Parses a restriction such as `/a/b || /a/+ or /c/*`.
    pub fn parse(text: &str) -> Result<Restriction, NotCluster> {
        let spaced = text.replace("||", " or ");
        let mut words = spaced.split_whitespace();
        let mut terms = Vec::new();
        loop {
            terms.push(term(words.next().unwrap_or_default())?);
            match words.next() {
                None => return Ok(Restriction(terms)),
                Some("or") => {}
                Some(word) => return Err(NotCluster::restriction(word)),
            }
        }
    }

    /// Tests whether a term of the restriction accepts `path`.
    pub fn accepts(&self, path: &ClusterPath) -> bool {
        self.0.iter().any(|(cluster, reach)| match reach {
            Reach::Exact => path == cluster,
            Reach::Within => path.is_within(cluster),
            Reach::Below => path.is_within(cluster) && path != cluster,
        })
    }
}

fn term(text: &str) -> Result<(ClusterPath, Reach), NotCluster> {
    let ends = [("/+", Reach::Within), ("/*", Reach::Below)];
    let end = ends
        .into_iter()
        .find_map(|(end, reach)| Some((text.strip_suffix(end)?, reach)));
    let (path, reach) = end.unwrap_or((text, Reach::Exact));
    let path = if path.is_empty() && reach != Reach::Exact {
        "/"
    } else {
        path
    };
    path.parse()
        .map(|path| (path, reach))
        .map_err(|_| NotCluster::restriction(text))
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (position, (path, reach)) in self.0.iter().enumerate() {
            let between = if position == 0 { "" } else { " || " };
            let parent = if path.is_root() { "" } else { path.0.as_str() };
            match reach {
                Reach::Exact => write!(f, "{between}{path}")?,
                Reach::Within => write!(f, "{between}{parent}/+")?,
                Reach::Below => write!(f, "{between}{parent}/*")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Restriction {
    type Err = NotCluster;

    fn from_str(text: &str) -> Result<Restriction, NotCluster> {
        Restriction::parse(text)
    }
}

impl TryFrom<String> for Restriction {
    type Error = NotCluster;

    fn try_from(text: String) -> Result<Restriction, NotCluster> {
        Restriction::parse(&text)
    }
}

impl From<Restriction> for String {
    fn from(restriction: Restriction) -> String {
        restriction.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> ClusterPath {
        text.parse().unwrap()
    }

    /// Q17.
    #[test]
    fn distance_counts_the_levels_up_to_the_common_ancestor() {
        let from_worker = |job: &str| distance(&path("/A/B"), &path(job));
        let ranks = ["/A/B/C", "/A/B", "/A/D", "/X", "/A", "/"].map(from_worker);
        assert_eq!(ranks, [1, 0, 2, 3, 2, 3]);
        assert_eq!(
            ["/", "/A", "/A/B"].map(|job| distance(&path("/"), &path(job))),
            [0, 0, 0]
        );
    }

    /// Q19.
    #[test]
    fn a_restriction_accepts_the_clusters_of_its_terms() {
        let accepted = |restriction: &str, paths: [&str; 4]| {
            let restriction = Restriction::parse(restriction).unwrap();
            paths.map(|text| restriction.accepts(&path(text)))
        };
        let promos = ["/post", "/post/x", "/promo", "/promo/y"];
        assert_eq!(
            accepted("/post/+ || /promo", promos),
            [true, true, true, false]
        );
        assert_eq!(
            accepted("/post/* or /promo/*", promos),
            [false, true, false, true]
        );
        assert_eq!(
            accepted("/post||/promo/+", promos),
            [true, false, true, true]
        );
        assert_eq!(
            accepted("/po/+", ["/post", "/po", "/po/st", "/"]),
            [false, true, true, false]
        );
        assert_eq!(
            accepted("/*", ["/", "/a", "/a/b", "/b"]),
            [false, true, true, true]
        );
        assert_eq!(accepted("/+", ["/", "/a", "/a/b", "/b"]), [true; 4]);
        assert_eq!(
            accepted("/", ["/", "/a", "/a/b", "/b"]),
            [true, false, false, false]
        );
    }

    #[test]
    fn invalid_clusters_and_restrictions_are_refused() {
        for bad in [
            "", "a", "a/b", "//", "/a/", "/a//b", "/a b", "/+", "/a/*", "/a|b", "/a,b",
        ] {
            assert!(bad.parse::<ClusterPath>().is_err(), "{bad:?}");
        }
        for bad in [
            "",
            "||",
            "/a ||",
            "|| /a",
            "/a /b",
            "/a and /b",
            "/a/+/b",
            "/a || or /b",
            "+",
            "*",
            "a/+",
        ] {
            assert!(Restriction::parse(bad).is_err(), "{bad:?}");
        }
        let error = Restriction::parse("/a || b/+").unwrap_err().to_string();
        assert!(
            error.starts_with("`b/+` is not a restriction: join clusters with ||"),
            "{error}"
        );
    }

    #[test]
    fn clusters_and_restrictions_are_stored_as_text() {
        let restriction = Restriction::parse("/post/+ or /promo||/x/*").unwrap();
        let stored = serde_json::to_string(&restriction).unwrap();
        assert_eq!(stored, r#""/post/+ || /promo || /x/*""#);
        assert_eq!(
            serde_json::from_str::<Restriction>(&stored).unwrap(),
            restriction
        );
        assert_eq!(serde_json::to_string(&path("/a/b")).unwrap(), r#""/a/b""#);
        assert!(serde_json::from_str::<ClusterPath>(r#""a""#).is_err());
    }

    proptest! {
        #[test]
        fn plus_accepts_a_cluster_and_all_below(a in "(/[ab]){1,3}", b in "(/[ab]){1,3}") {
            let accepts = |end: &str| Restriction::parse(&format!("{a}{end}")).unwrap().accepts(&path(&b));
            prop_assert_eq!(accepts("/+"), accepts("/*") ^ accepts(""));
            prop_assert_eq!(accepts(""), distance(&path(&a), &path(&b)) == 0);
        }

        #[test]
        fn formatting_and_parsing_keep_a_restriction(text in "[/+*|or ab]{0,12}") {
            if let Ok(restriction) = Restriction::parse(&text) {
                prop_assert_eq!(Restriction::parse(&restriction.to_string()), Ok(restriction));
            }
        }
    }
}
