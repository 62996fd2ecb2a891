//! Finds out whether a job can never run and, if so, the nearest request that fits on the
//! configured nodes (P24).

use super::availability_map::AvailabilityMap;
use super::guide::Guide;
use super::resolution::Resolution;
use super::{place, shortage};
use crate::model::job::{Job, Spec};
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::request;
use crate::model::request::select::{Chunk, Request};
use crate::model::resource::{ResourceValue, Resources};
use crate::model::time::Time;
use crate::sched::view::shape::{ClassId, ClassKey, Shape};
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Why a job can never run, and the nearest request that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Never {
    /// Why the job can never run.
    pub reason: Reason,
    /// The nearest select statement that fits. None if no smaller request fits, or if the request
    /// has too many kinds of chunks to compute one.
    pub nearest: Option<String>,
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = self.reason.to_string();
        write!(
            f,
            "it can never run: {}",
            text.strip_prefix("Can Never Run: ").unwrap_or(&text)
        )?;
        match &self.nearest {
            Some(select) => write!(f, "; the nearest request that fits is -l select={select}"),
            None => Ok(()),
        }
    }
}

/// The maximum number of cached requests.
const MAX_CACHED: usize = 10_000;

/// If a request has more kinds of chunks than this, no nearest request is computed. This bounds the
/// computing time.
const MAX_PARTS: usize = 16;

/// A cache of results of [`never()`] by request and user, because most submissions repeat an
/// earlier request.
#[derive(Clone, Debug, Default)]
pub struct Possible {
    /// The edition of the cluster for which the results hold.
    edition: u64,
    known: BTreeMap<(ClassId, u32), Option<Never>>,
}

impl Possible {
    /// The result of [`never()`], cached until nodes change or the cache is full.
    pub fn never(
        &mut self,
        (state, policy, resources): (&ClusterState, &Policy, &Resources),
        job: &Job,
        now: Time,
    ) -> Option<Never> {
        let edition = state.cluster.edition();
        if self.edition != edition || self.known.len() >= MAX_CACHED {
            *self = Possible {
                edition,
                known: BTreeMap::new(),
            };
        }
        self.known
            .entry((ClassId::of_request(job), job.owner.uid))
            .or_insert_with(|| never(state, policy, resources, job, now))
            .clone()
    }
}

/// Why a job could not run even if every node were up and without jobs. None if the job could run,
/// or if there are no nodes.
pub fn never(
    state: &ClusterState,
    policy: &Policy,
    resources: &Resources,
    job: &Job,
    now: Time,
) -> Option<Never> {
    let cluster = &state.cluster;
    let guide = Arc::new(Guide::new(&policy.placement, cluster));
    let vacant = AvailabilityMap::vacant(cluster).guided(guide);
    let resolution = Resolution::needed(state, policy, now);
    let shape_of = |job: &Job| {
        let class = ClassKey::of(job, &cluster.catalog);
        match &resolution {
            Some(resolution) => resolution.class(&class, true).shape,
            None => class.shape,
        }
    };
    let own = shape_of(job);
    if vacant.has_no_nodes() || place::fits(&vacant, &own) {
        return None;
    }
    let nearest = nearest_request(&vacant, &own, &job.spec.request, resources, |request| {
        let spec = Arc::new(Spec {
            request: Arc::new(request.clone()),
            ..Spec::clone(&job.spec)
        });
        let altered = shape_of(&Job {
            spec,
            ..job.clone()
        });
        place::fits(&vacant, &altered)
    });
    Some(Never {
        reason: shortage::never(&vacant, &own),
        nearest,
    })
}

/// The select statement with each chunk reduced so that it fits on a node, and with as many chunks
/// as fit. None if no such request fits, or if the request has more than [`MAX_PARTS`] kinds of
/// chunks.
fn nearest_request(
    vacant: &AvailabilityMap,
    shape: &Shape,
    request: &Request,
    resources: &Resources,
    fits: impl Fn(&Request) -> bool,
) -> Option<String> {
    let requested = &request.select.chunks;
    if requested.len() > MAX_PARTS {
        return None;
    }
    let chunks = requested.iter().enumerate();
    let chunks: Vec<Chunk> = chunks
        .map(|(place, chunk)| cut(vacant, shape, place, chunk))
        .collect::<Option<_>>()?;
    let most = chunks.iter().map(|chunk| chunk.count).max()?;
    let with = |part: u32| {
        let text = reduced(&chunks, part, most);
        let altered = request
            .alter(&[("select".to_string(), text.clone())], resources)
            .ok()?;
        fits(&altered).then_some(text)
    };
    let (mut least, mut too_many) = (1, most + 1);
    let mut found = with(1)?;
    while too_many - least > 1 {
        let middle = least + (too_many - least) / 2;
        match with(middle) {
            Some(text) => (found, least) = (text, middle),
            None => too_many = middle,
        }
    }
    Some(found)
}

/// The select statement of these chunks. The count of each chunk is multiplied by `part / most` and
/// rounded down, but is at least 1.
fn reduced(chunks: &[Chunk], part: u32, most: u32) -> String {
    let mut fewer = chunks.to_vec();
    for chunk in &mut fewer {
        let count = u64::from(chunk.count) * u64::from(part) / u64::from(most);
        chunk.count = count.max(1) as u32;
    }
    request::spelled(&fewer)
}

/// The chunk reduced to the resources of the nearest node. For each suitable node, the node's
/// amount of each requested resource is divided by the requested amount. The quotients, each at
/// most 1, are multiplied. The nearest node has the largest product. None if no suitable node has
/// some of each requested resource.
fn cut(vacant: &AvailabilityMap, shape: &Shape, place: usize, chunk: &Chunk) -> Option<Chunk> {
    let (cluster, requested) = (vacant.cluster, shape.chunks.get(place)?);
    let nodes = cluster
        .indices()
        .filter(|ix| vacant.is_open(*ix) && cluster.node_meets(*ix, &requested.needs));
    let mut best: Option<(f64, &[i64])> = None;
    for ix in nodes {
        let free: &[i64] = &vacant.room(ix).free;
        let part: f64 = requested
            .asked
            .iter()
            .map(|&(index, amount)| (free[index] as f64 / amount as f64).min(1.0))
            .product();
        if part > best.map_or(0.0, |(best, _)| best) {
            best = Some((part, free));
        }
    }
    let (_, free) = best?;
    let mut chunk = Chunk {
        growing: Vec::new(),
        ..chunk.clone()
    };
    for &(index, amount) in requested
        .asked
        .iter()
        .filter(|&&(index, amount)| amount > free[index])
    {
        let name = &cluster.catalog.names()[index];
        let text = shape.shown(index, free[index].min(amount), &cluster.catalog);
        let kind = chunk.get(name)?.kind();
        for (_, value) in chunk
            .resources
            .iter_mut()
            .filter(|(known, _)| known == name)
        {
            *value = ResourceValue::parse(kind, &text).unwrap_or_else(|| value.clone());
        }
    }
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::{TestCluster, cluster, resources};

    fn refusal(fixture: &TestCluster, request: &[(&str, &str)]) -> Option<String> {
        let mut job = fixture.job(1, "select=1:ncpus=1");
        let request: Vec<_> = request
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        Arc::make_mut(&mut job.spec).request =
            Arc::new(Request::parse(&request, &resources()).unwrap());
        never(&fixture.state, &fixture.policy, &resources(), &job, Time(0))
            .map(|never| never.to_string())
    }

    /// P24.
    #[test]
    fn the_nearest_request_that_fits_is_reported() {
        let fixture = cluster("2 x ncpus=8:mem=16gb, 1 x ncpus=4:mem=64gb");
        let nearest = |select: &str| {
            let text = refusal(&fixture, &[("select", select)])?;
            Some(
                text.split("the nearest request that fits is ")
                    .nth(1)
                    .unwrap_or(&text)
                    .to_string(),
            )
        };
        assert_eq!(nearest("2:ncpus=8+1:mem=60gb"), None, "this fits");
        assert_eq!(nearest("1:ncpus=9").as_deref(), Some("-l select=1:ncpus=8"));
        assert_eq!(
            nearest("1:ncpus=8:mem=32gb").as_deref(),
            Some("-l select=1:ncpus=8:mem=16gb")
        );
        assert_eq!(nearest("9:ncpus=4").as_deref(), Some("-l select=5:ncpus=4"));
        assert_eq!(nearest("7:ncpus=9").as_deref(), Some("-l select=2:ncpus=8"));
        assert_eq!(
            nearest("2:ncpus=9").as_deref(),
            Some("-l select=2:ncpus=8"),
            "the same number of smaller chunks"
        );
        assert_eq!(
            nearest("1:ncpus=9+9:ncpus=4").as_deref(),
            Some("-l select=1:ncpus=8+3:ncpus=4")
        );
        assert_eq!(
            refusal(&fixture, &[("ncpus", "9")]).unwrap(),
            "it can never run: Insufficient amount of resource: ncpus (R: 9 A: 8 T: 20); the \
             nearest request that fits is -l select=1:ncpus=8"
        );
    }

    /// P24: a chunk is reduced to the nearest suitable node, which need not be the first or the
    /// largest node.
    #[test]
    fn chunks_are_reduced_to_the_nearest_node() {
        let nearest = |nodes: &str, select: &str| {
            let text = refusal(&cluster(nodes), &[("select", select)]).unwrap();
            text.split("the nearest request that fits is -l select=")
                .nth(1)
                .unwrap_or("none")
                .to_string()
        };
        assert_eq!(
            nearest("1 x ncpus=4, 1 x ncpus=8, 1 x ncpus=6", "1:ncpus=9"),
            "1:ncpus=8"
        );
        let both = "1 x ncpus=2:mem=8gb, 1 x ncpus=4:mem=6gb, 1 x ncpus=8:mem=1gb";
        assert_eq!(
            nearest(both, "1:ncpus=8:mem=8gb"),
            "1:ncpus=4:mem=6gb",
            "the nearest in both resources together"
        );
        let red = "1 x ncpus=4:color=red, 1 x ncpus=8:color=blue";
        assert_eq!(nearest(red, "1:ncpus=9:color=red"), "1:ncpus=4:color=red");
    }

    #[test]
    fn cached_results_hold_until_nodes_change() {
        let (small, large) = (cluster("1 x ncpus=2"), cluster("1 x ncpus=2, 1 x ncpus=8"));
        let mut possible = Possible::default();
        let mut is_impossible = |fixture: &TestCluster| {
            let job = fixture.job(1, "select=1:ncpus=4");
            possible
                .never(
                    (&fixture.state, &fixture.policy, &resources()),
                    &job,
                    Time(0),
                )
                .is_some()
        };
        assert!(is_impossible(&small) && is_impossible(&small));
        assert!(!is_impossible(&large), "the cluster has a larger node now");
    }

    #[test]
    fn without_a_nearest_request_only_the_reason_is_reported() {
        let fixture = cluster("2 x ncpus=8");
        let text = refusal(&fixture, &[("select", "1:ncpus=1:arch=aix")]).unwrap();
        assert!(
            text.starts_with("it can never run: ")
                && text.contains("aix")
                && !text.contains("nearest"),
            "{text}"
        );
        assert_eq!(
            refusal(&cluster(""), &[("ncpus", "1000")]),
            None,
            "without nodes, no request is impossible"
        );
    }
}
