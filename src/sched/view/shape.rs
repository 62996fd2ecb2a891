//! Shapes: the part of a request that decides where a job fits. Jobs of one shape fit on the same
//! nodes.
//!
//! The ids of shapes and of classes (sets of interchangeable jobs, [`ClassKey`]) are hashes of
//! their content alone, so they are the same in every process.

mod class_key;

use super::cluster::{Cluster, KindIx, Need, NodeIx, NodeKind};
pub use super::node_access::{AccessPolicy, JobOwner, User};
use super::node_filter::{AllowedSets, NodeFilter};
use super::stable_hash::stable_hash;
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::request::geometry::Geometry;
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use crate::model::request::placement_requirements::PlacementRequirements;
use crate::model::request::select::{Arrangement, Chunk, Request};
use crate::model::resource::amount::Amount;
use crate::model::resource::{ResourceList, ResourceValue, Size};
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add, counted};
pub use class_key::{ClassId, ClassKey};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The id of a shape: the first eight bytes of a SHA-256 of everything that decides where a job
/// fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ShapeId(u64);

impl ShapeId {
    /// The id of a job's shape.
    pub fn of(job: &Job) -> ShapeId {
        let id = match sharing_array(job) {
            None => stable_hash(&shape_key(job)),
            Some(number) => stable_hash(&(shape_key(job), number)),
        };
        let avoided = job.life.avoided_hosts();
        avoided.map_or(ShapeId(id), |hosts| {
            ShapeId(stable_hash(&(id, "failed_hosts", hosts)))
        })
    }
}

/// The equal chunks of one part of a select statement, such as `3:ncpus=4`.
#[derive(Clone, Debug)]
pub struct ChunkShape {
    /// The number of chunks.
    pub count: u64,
    /// The amounts that each chunk requests: (resource index, amount above zero).
    pub asked: Vec<(usize, i64)>,
    /// The requested values that the node's values must match and that are not counted, such as
    /// `arch=linux`.
    pub needs: Vec<Need>,
    /// The requested consumables, in the order of the request: (resource index, value).
    pub given: Vec<(usize, ResourceValue)>,
    /// The number of lines of each chunk in the node file.
    pub mpiprocs: u32,
    /// Amounts that grow with the free resources of the node (Q22): (resource index, amount).
    pub growing: Vec<(usize, Amount)>,
}

impl ChunkShape {
    /// The maximum number of chunks on one node if the chunks request no amounts. It limits the
    /// size of a plan.
    pub const MAX_EMPTY_PER_NODE: u64 = 1024;

    fn new(chunk: &Chunk, catalog: &Catalog) -> ChunkShape {
        let (mut asked, mut needs, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in &chunk.resources {
            match (catalog.index_on_node(name), counted(value)) {
                (Some(index), Some(amount)) => {
                    given.push((index, value.clone()));
                    asked.push((index, amount));
                }
                _ if matches!(name.as_str(), "mpiprocs" | "ompthreads") => (),
                _ => needs.push(Need {
                    resource: name.clone(),
                    value: value.clone(),
                }),
            }
        }
        asked.retain(|&(_, amount)| amount > 0);
        let mpiprocs = match chunk.get("mpiprocs") {
            Some(_) => chunk.long("mpiprocs").clamp(0, i64::from(u32::MAX)) as u32,
            // By default, a chunk has one MPI process, but a chunk with `ncpus=0` has none.
            None => u32::from(chunk.get("ncpus").is_none() || chunk.long("ncpus") > 0),
        };
        let growing = chunk
            .growing
            .iter()
            .filter_map(|(name, amount)| Some((catalog.index_on_node(name)?, *amount)));
        ChunkShape {
            count: u64::from(chunk.count),
            asked,
            needs,
            given,
            mpiprocs,
            growing: growing.collect(),
        }
    }

    /// Whether the chunk needs hosts without jobs.
    pub fn needs_idle_hosts(&self) -> bool {
        self.growing
            .iter()
            .any(|(_, amount)| amount.needs_idle_host())
    }

    /// One chunk that is as large as `count` of these chunks together.
    fn joined(&self, count: u64) -> ChunkShape {
        ChunkShape {
            count: 1,
            asked: self
                .asked
                .iter()
                .map(|&(index, amount)| (index, amount.saturating_mul(count as i64)))
                .collect(),
            given: self
                .given
                .iter()
                .map(|(index, value)| (*index, times(value, count)))
                .collect(),
            mpiprocs: self.mpiprocs.saturating_mul(count as u32),
            ..self.clone()
        }
    }

    /// How many such chunks fit into the free amounts, regardless of `count`;
    /// [`ChunkShape::MAX_EMPTY_PER_NODE`] if they request no amounts.
    pub fn times_in(&self, free: &[i64]) -> u64 {
        if !self
            .asked
            .iter()
            .all(|&(index, amount)| amount <= free[index])
        {
            return 0;
        }
        let times = self
            .asked
            .iter()
            .map(|&(index, amount)| (free[index] / amount).unsigned_abs())
            .min();
        times.unwrap_or(ChunkShape::MAX_EMPTY_PER_NODE)
    }

    /// The amounts of `count` chunks.
    pub fn amounts(&self, count: u64, catalog: &Catalog) -> Amounts {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut amounts = catalog.nothing();
        for &(index, amount) in &self.asked {
            amounts[index] = amount.saturating_mul(count);
        }
        amounts
    }
}

/// A resource value multiplied by a count. Text, Boolean and time values stay as they are, and so
/// does a size if the product is too large.
fn times(value: &ResourceValue, count: u64) -> ResourceValue {
    match value {
        ResourceValue::Long(number) => ResourceValue::Long(number.saturating_mul(count as i64)),
        ResourceValue::Size(size) => size
            .times(count)
            .map_or(ResourceValue::Size(*size), ResourceValue::Size),
        ResourceValue::Float(number) => ResourceValue::Float(number * count as f64),
        other => other.clone(),
    }
}

/// Everything that decides where a job fits.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The id of the shape.
    pub id: ShapeId,
    /// The chunks, in the order of the request.
    pub chunks: Vec<ChunkShape>,
    /// The arrangement of the chunks; `Free` for a single chunk.
    pub arrangement: Arrangement,
    /// Which other jobs may share the nodes.
    pub access: AccessPolicy,
    /// The user, if the nodes on which the job fits depend on the user. Otherwise the default
    /// value, so that jobs of different users have the same shape.
    pub user: User,
    /// Whether each node gets at most one chunk (M46, `singletask`).
    pub is_single_task: bool,
    /// The resource of `place=group=`, of which all nodes must have the same value.
    pub group: Option<String>,
    /// The node sets of the site; None if the site has no node sets (M47).
    pub sets: Option<Arc<AllowedSets>>,
    /// The kinds of nodes that the job may use; None for all kinds.
    pub kinds: Option<Arc<BTreeSet<KindIx>>>,
    /// The further conditions of the job on nodes, such as host names and expressions.
    pub node_filter: Option<Arc<NodeFilter>>,
    /// The hosts that the job avoids because starts failed there; None if it avoids no hosts.
    pub failed_hosts: Option<Arc<BTreeSet<String>>>,
    /// Whether to ignore restrictions of nodes, to find out whether the job would fit without them.
    pub ignores_restrictions: bool,
    /// The node allocation policy that the job requests, if any.
    pub allocation: Option<NodeAllocation>,
    /// The answer of the allocation script: the position of each node in the answer (M8i). None if
    /// the script has given no answer.
    pub answer: Option<Arc<BTreeMap<String, usize>>>,
    /// The task distribution that the job requests, if any.
    pub distribution: Option<Distribution>,
    /// The task geometry: groups of tasks, one group for each chunk.
    pub geometry: Option<Arc<Geometry>>,
    /// The end of the job if it started in this cycle; set only if a policy uses it.
    pub end: Option<Time>,
    /// The number of the job's array, if its subjobs can share system-wide resources.
    pub array: Option<u64>,
    /// The requested system-wide resources: (resource index, amount). Some of them are requested
    /// once for each host.
    pub pooled: Vec<(usize, i64)>,
    /// The total of all chunks and of the system-wide resources. Resources that are requested for
    /// each host are counted only once.
    pub total: Amounts,
    /// The total number of chunks.
    pub instances: u64,
}

impl Shape {
    /// The shape of a job.
    pub fn new(job: &Job, catalog: &Catalog) -> Shape {
        Shape {
            id: ShapeId::of(job),
            node_filter: NodeFilter::of(job).map(Arc::new),
            array: sharing_array(job),
            failed_hosts: job.life.avoided_hosts().cloned().map(Arc::new),
            ..Shape::from_request(&job.spec.request, &job.spec.placement, catalog)
        }
    }

    /// The shape of a request without a job. Its id depends on the chunks and the place
    /// specification only.
    pub fn of_request(request: &Request, catalog: &Catalog) -> Shape {
        let place = &request.place;
        let key = (
            &request.select.chunks,
            place.arrangement,
            place.sharing,
            &place.group,
        );
        Shape {
            id: ShapeId(stable_hash(&key)),
            ..Shape::from_request(request, &PlacementRequirements::default(), catalog)
        }
    }

    fn from_request(
        request: &Request,
        placement: &PlacementRequirements,
        catalog: &Catalog,
    ) -> Shape {
        let mut chunks: Vec<ChunkShape> = request
            .select
            .chunks
            .iter()
            .map(|chunk| ChunkShape::new(chunk, catalog))
            .filter(|c| c.count > 0)
            .collect();
        let gone = undefined_needs(request, catalog);
        for chunk in &mut chunks {
            chunk.needs.extend(gone.iter().cloned());
        }
        let mut arrangement = request.place.arrangement;
        if let (Some(geometry), [chunk]) = (&placement.geometry, &chunks[..]) {
            chunks = geometry
                .groups()
                .iter()
                .map(|group| chunk.joined(group.len() as u64))
                .collect();
            arrangement = Arrangement::Vscatter;
        }
        let pooled = pooled(&request.list, catalog);
        let mut total = catalog.nothing();
        for chunk in &chunks {
            add(&mut total, &chunk.amounts(chunk.count, catalog));
        }
        for &(index, amount) in &pooled {
            total[index] = amount;
        }
        let instances = chunks
            .iter()
            .map(|chunk| chunk.count)
            .fold(0, u64::saturating_add);
        Shape {
            id: ShapeId(0),
            chunks,
            arrangement: if instances == 1 {
                Arrangement::Free
            } else {
                arrangement
            },
            access: AccessPolicy::requested(&request.place, placement),
            user: User::default(),
            is_single_task: placement.access == Some(NodeAccess::SingleTask),
            group: request.place.group.clone(),
            sets: None,
            kinds: None,
            node_filter: None,
            failed_hosts: None,
            ignores_restrictions: false,
            allocation: placement.allocation,
            answer: None,
            distribution: placement.distribution,
            geometry: placement.geometry.clone().map(Arc::new),
            end: None,
            array: None,
            pooled,
            total,
            instances,
        }
    }

    /// The owner and the access policy of the jobs of this shape.
    pub fn owner(&self) -> JobOwner {
        JobOwner {
            access: self.access,
            user: self.user,
        }
    }

    /// Whether the shape contains no properties of a single job, so that jobs can share it.
    pub fn is_common(&self) -> bool {
        self.node_filter.is_none() && self.failed_hosts.is_none()
    }

    /// Whether only the place specification and the chunks, all of fixed size, decide where the job
    /// fits.
    pub fn is_unbound(&self) -> bool {
        let is_fixed = self.chunks.iter().all(|chunk| chunk.growing.is_empty());
        is_fixed
            && self.is_common()
            && self.pooled.is_empty()
            && self.geometry.is_none()
            && !self.is_single_task
    }

    /// Whether at most one chunk fits on a node of this kind.
    pub fn is_one_to_a_node(&self, kind: &NodeKind) -> bool {
        self.is_spread() || self.is_single_task || kind.terms.access == NodeAccess::SingleTask
    }

    /// This shape with an id that also depends on the properties `besides`.
    pub fn renamed(self, besides: &impl Serialize) -> Shape {
        Shape {
            id: ShapeId(stable_hash(&(self.id.0, besides))),
            ..self
        }
    }

    /// The system-wide resources of a job of this shape on `nodes`: (node, resource index, amount).
    /// These amounts are counted on the first node; per-host resources on the first node of each
    /// host.
    pub fn pooled_amounts(
        &self,
        cluster: &Cluster,
        nodes: impl Iterator<Item = NodeIx>,
    ) -> Vec<(NodeIx, usize, i64)> {
        if self.pooled.is_empty() {
            return Vec::new();
        }
        let mut hosts = BTreeSet::new();
        let mut amounts = Vec::new();
        for ix in nodes {
            let is_first = hosts.is_empty();
            if hosts.insert(cluster.node(ix).host.as_str()) {
                for &(index, amount) in &self.pooled {
                    if is_first || cluster.pools.get(index).is_some_and(|pool| pool.per_host) {
                        amounts.push((ix, index, amount));
                    }
                }
            }
        }
        amounts
    }

    /// The shape restricted to nodes of these kinds.
    pub fn on(self, kinds: BTreeSet<KindIx>) -> Shape {
        let kinds = match &self.kinds {
            Some(own) => own.intersection(&kinds).copied().collect(),
            None => kinds,
        };
        Shape {
            kinds: Some(Arc::new(kinds)),
            ..self
        }
    }

    /// The shape restricted to nodes with this value of the resource of `place=group=`.
    pub fn narrowed(&self, resource: &str, value: &ResourceValue) -> Shape {
        let mut shape = Shape {
            group: None,
            ..self.clone()
        };
        for chunk in &mut shape.chunks {
            chunk.needs.push(Need {
                resource: resource.to_string(),
                value: value.clone(),
            });
        }
        shape
    }

    /// The indexes of the requested consumables: first the resources of the chunks, in the order of
    /// the request, then the system-wide resources.
    pub fn resources(&self) -> Vec<usize> {
        let mut named = Vec::new();
        for &(index, _) in self.chunks.iter().flat_map(|chunk| &chunk.asked) {
            if !named.contains(&index) {
                named.push(index);
            }
        }
        named.extend(self.pooled.iter().map(|&(index, _)| index));
        named
    }

    /// Whether each chunk needs its own node or host.
    pub fn is_spread(&self) -> bool {
        matches!(
            self.arrangement,
            Arrangement::Scatter | Arrangement::Vscatter
        )
    }

    /// The total request of a resource as text. A size that chunks request keeps its unit.
    pub fn shown_total(&self, index: usize, catalog: &Catalog) -> String {
        let sizes = self
            .chunks
            .iter()
            .flat_map(|c| c.given.iter().map(move |(i, value)| (c.count, *i, value)));
        if self.pooled.iter().any(|&(pooled, _)| pooled == index) {
            return catalog.value(index, self.total[index]).to_string();
        }
        let mut sum = Size::kilobytes(0);
        for (count, _, value) in sizes.filter(|&(_, i, _)| i == index) {
            let ResourceValue::Size(size) = value else {
                return catalog.value(index, self.total[index]).to_string();
            };
            let more = size.times(count).and_then(|more| {
                if sum.bytes() == 0 {
                    Some(more)
                } else {
                    sum.plus(more)
                }
            });
            match more {
                Some(more) => sum = more,
                None => return format!("{count} x {size}"),
            }
        }
        sum.to_string()
    }

    /// An amount of a resource as text: in the unit of the request if the amount is a multiple of
    /// that unit.
    pub fn shown(&self, index: usize, amount: i64, catalog: &Catalog) -> String {
        let asked = self
            .chunks
            .iter()
            .flat_map(|c| &c.given)
            .find(|(i, _)| *i == index);
        match asked {
            Some((_, ResourceValue::Size(size))) => in_unit_of(*size, amount),
            _ => catalog.value(index, amount).to_string(),
        }
    }
}

/// `bytes` in the unit of `size` if they are a multiple of that unit, else in kilobytes, rounded
/// down.
fn in_unit_of(size: Size, bytes: i64) -> String {
    let bytes = bytes.max(0).unsigned_abs();
    let shown = size.to_string();
    let unit = shown.trim_start_matches(|c: char| c.is_ascii_digit());
    match Size::parse(&format!("1{unit}")).map(Size::bytes) {
        Some(one) if bytes.is_multiple_of(one) => format!("{}{unit}", bytes / one),
        _ => Size::kilobytes(bytes / 1024).to_string(),
    }
}

/// The properties of a job that decide where it fits. Equal requests with different spelling have
/// equal keys.
fn shape_key(job: &Job) -> impl Serialize + '_ {
    let (request, placement) = (&job.spec.request, &job.spec.placement);
    let place = &request.place;
    let pooled: Vec<(&str, &ResourceValue)> = request
        .list
        .iter()
        .filter(|(name, value)| is_job_wide(name, value, request))
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let uses_job = placement
        .requirements
        .as_ref()
        .is_some_and(|text| text.names().iter().any(|name| name.starts_with("job.")));
    let job = uses_job.then(|| (Credentials::of(job), job.spec.walltime(), &job.spec.name));
    (
        (
            &request.select.chunks,
            place.arrangement,
            place.sharing,
            &place.group,
        ),
        pooled,
        placement,
        job,
    )
}

/// For an array or a subjob, the number of the array if the request can include system-wide
/// resources; otherwise None.
fn sharing_array(job: &Job) -> Option<u64> {
    let request = &job.spec.request;
    let is_array = job.elements.is_some() || job.id.index().is_some();
    let is_shared = is_array
        && request
            .list
            .iter()
            .any(|(name, value)| is_job_wide(name, value, request));
    is_shared.then_some(job.id.number)
}

/// Whether a value of the resource list (`-l`) can be a request for a system-wide resource.
fn is_job_wide(name: &str, value: &ResourceValue, request: &Request) -> bool {
    let is_amount = matches!(value, ResourceValue::Long(_) | ResourceValue::Size(_));
    is_amount
        && name != "nodect"
        && !request
            .select
            .chunks
            .iter()
            .any(|chunk| chunk.get(name).is_some())
}

/// Conditions for requested resources that are no longer defined. No node meets these conditions,
/// so the job waits and its reason names the resources.
fn undefined_needs(request: &Request, catalog: &Catalog) -> Vec<Need> {
    let gone = request
        .list
        .iter()
        .filter(|(name, value)| is_job_wide(name, value, request) && !catalog.is_known(name));
    gone.map(|(resource, value)| Need {
        resource: resource.clone(),
        value: value.clone(),
    })
    .collect()
}

/// The system-wide resources of a resource list: (resource index, amount above zero).
fn pooled(list: &ResourceList, catalog: &Catalog) -> Vec<(usize, i64)> {
    let pooled = list
        .iter()
        .filter_map(|(name, value)| Some((catalog.index(name)?, counted(value)?)));
    pooled
        .filter(|&(index, amount)| catalog.pooled().contains(&index) && amount > 0)
        .collect()
}

#[cfg(test)]
mod tests;
