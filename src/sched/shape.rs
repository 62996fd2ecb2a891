//! Requests made ready for counting, and the classes of jobs that are alike.
//!
//! Two jobs of one class get the same verdict at the same moment; two classes of one shape fit in
//! the same places. The ids are hashes of the content alone, so they are the same in every process.

use super::amounts::{Amounts, Catalog, add, counted};
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::resource::{Size, Value};
use crate::model::select::{Arrangement, Chunk, Place, Request, Sharing};
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Names a class of jobs alike in chunks, place, walltime, credentials and deferral. Stable: the first
/// eight bytes of a SHA-256 of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u64);

impl ClassId {
    /// The class of a job; of an array, that of its elements.
    pub fn of(job: &Job) -> ClassId {
        ClassKey::id_of(job)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names a shape, likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeId(u64);

/// Who else may be on the nodes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tenancy {
    /// Others that share.
    #[default]
    Shared,
    /// Nobody: `place=excl`.
    Nodes,
    /// Nobody, and nobody on the other nodes of their hosts: `place=exclhost`.
    Hosts,
}

impl Tenancy {
    /// Whether the job has its nodes alone.
    pub fn is_exclusive(self) -> bool {
        self != Tenancy::Shared
    }
}

impl From<bool> for Tenancy {
    fn from(exclusive: bool) -> Tenancy {
        if exclusive { Tenancy::Nodes } else { Tenancy::Shared }
    }
}

impl From<&Place> for Tenancy {
    fn from(place: &Place) -> Tenancy {
        match place.sharing {
            Sharing::Default | Sharing::Shared => Tenancy::Shared,
            Sharing::Excl => Tenancy::Nodes,
            Sharing::Exclhost => Tenancy::Hosts,
        }
    }
}

/// A value that a node must have.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Of which resource.
    pub resource: String,
    /// The value asked for.
    pub value: Value,
}

impl Need {
    /// Whether a node with this value will do. Numbers are a minimum, a boolean that is not set is
    /// false, text must be equal.
    pub fn is_met_by(&self, found: Option<&Value>) -> bool {
        match (&self.value, found) {
            (Value::Boolean(asked), None) => !asked,
            (Value::String(_) | Value::Boolean(_), Some(found)) => self.value == *found,
            (asked, Some(found)) => matches!((counted(asked), counted(found)), (Some(a), Some(f)) if a <= f),
            (_, None) => false,
        }
    }

    /// Whether it names one host or one node, which no other node is alike in.
    pub fn is_pinned(&self) -> bool {
        matches!(self.resource.as_str(), "host" | "vnode")
    }
}

/// A kind of chunk.
#[derive(Clone, Debug)]
pub struct ChunkShape {
    /// How many.
    pub count: u64,
    /// What each takes: (resource index, amount above zero).
    pub asked: Vec<(usize, i64)>,
    /// What its node must have.
    pub needs: Vec<Need>,
    /// The consumables as asked for, in the order given: (resource index, value).
    pub given: Vec<(usize, Value)>,
    /// Lines in the node file.
    pub mpiprocs: u32,
}

impl ChunkShape {
    /// More chunks that ask for nothing at all do not go on one node, so that no request makes a
    /// plan without bound.
    pub const MOST_EMPTY_ON_A_NODE: u64 = 1024;

    fn new(chunk: &Chunk, catalog: &Catalog) -> ChunkShape {
        let (mut asked, mut needs, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in &chunk.resources {
            match (catalog.index(name), counted(value)) {
                (Some(index), Some(amount)) => {
                    given.push((index, value.clone()));
                    asked.push((index, amount));
                }
                _ if matches!(name.as_str(), "mpiprocs" | "ompthreads") => (),
                _ => needs.push(Need { resource: name.clone(), value: value.clone() }),
            }
        }
        asked.retain(|&(_, amount)| amount > 0);
        let mpiprocs = match chunk.get("mpiprocs") {
            Some(_) => chunk.long("mpiprocs").clamp(0, i64::from(u32::MAX)) as u32,
            // Nothing computes in a chunk of no processors.
            None => u32::from(chunk.get("ncpus").is_none() || chunk.long("ncpus") > 0),
        };
        ChunkShape { count: u64::from(chunk.count), asked, needs, given, mpiprocs }
    }

    /// How many of it these free amounts take.
    pub fn times_in(&self, free: &[i64]) -> u64 {
        if !self.asked.iter().all(|&(index, amount)| amount <= free[index]) {
            return 0;
        }
        let times = self.asked.iter().map(|&(index, amount)| (free[index] / amount).unsigned_abs()).min();
        times.unwrap_or(ChunkShape::MOST_EMPTY_ON_A_NODE)
    }

    /// What `count` of it take.
    pub fn amounts(&self, count: u64, catalog: &Catalog) -> Amounts {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut amounts = catalog.nothing();
        for &(index, amount) in &self.asked {
            amounts[index] = amount.saturating_mul(count);
        }
        amounts
    }
}

/// All that decides where a job fits.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name.
    pub id: ShapeId,
    /// In the order given.
    pub chunks: Vec<ChunkShape>,
    /// How the chunks lie; `Free` where there is but one.
    pub arrangement: Arrangement,
    /// Who else may be on the nodes.
    pub tenancy: Tenancy,
    /// All nodes must have the same value of this resource.
    pub group: Option<String>,
    /// What all chunks take together.
    pub total: Amounts,
    /// How many chunks there are in all.
    pub instances: u64,
}

impl Shape {
    /// The shape of a request.
    pub fn new(request: &Request, catalog: &Catalog) -> Shape {
        let chunks: Vec<ChunkShape> =
            request.select.chunks.iter().map(|chunk| ChunkShape::new(chunk, catalog)).filter(|c| c.count > 0).collect();
        let mut total = catalog.nothing();
        for chunk in &chunks {
            add(&mut total, &chunk.amounts(chunk.count, catalog));
        }
        let instances = chunks.iter().map(|chunk| chunk.count).fold(0, u64::saturating_add);
        let arrangement = if instances == 1 { Arrangement::Free } else { request.place.arrangement };
        let tenancy = Tenancy::from(&request.place);
        let id = ShapeId(stable_hash(&shape_key(request)));
        Shape { id, chunks, arrangement, tenancy, group: request.place.group.clone(), total, instances }
    }

    /// The same, on nodes with this value of the resource it groups by.
    pub fn narrowed(&self, resource: &str, value: &Value) -> Shape {
        let mut shape = Shape { group: None, ..self.clone() };
        for chunk in &mut shape.chunks {
            chunk.needs.push(Need { resource: resource.to_string(), value: value.clone() });
        }
        shape
    }

    /// The consumables asked for, in the order first named.
    pub fn resources(&self) -> Vec<usize> {
        let mut named = Vec::new();
        for &(index, _) in self.chunks.iter().flat_map(|chunk| &chunk.asked) {
            if !named.contains(&index) {
                named.push(index);
            }
        }
        named
    }

    /// Whether each chunk needs a node, or a host, of its own.
    pub fn is_spread(&self) -> bool {
        matches!(self.arrangement, Arrangement::Scatter | Arrangement::Vscatter)
    }

    /// All of a resource that is asked for, as shown: in the unit of the request.
    pub fn shown_total(&self, index: usize, catalog: &Catalog) -> String {
        let sizes = self.chunks.iter().flat_map(|c| c.given.iter().map(move |(i, value)| (c.count, *i, value)));
        let mut sum = Size::kilobytes(0);
        for (count, _, value) in sizes.filter(|&(_, i, _)| i == index) {
            let Value::Size(size) = value else { return catalog.value(index, self.total[index]).to_string() };
            let more = size.times(count).and_then(|more| if sum.bytes() == 0 { Some(more) } else { sum.plus(more) });
            match more {
                Some(more) => sum = more,
                None => return format!("{count} x {size}"),
            }
        }
        sum.to_string()
    }

    /// An amount of a resource in the unit the request has for it, where that is exact.
    pub fn shown(&self, index: usize, amount: i64, catalog: &Catalog) -> String {
        let asked = self.chunks.iter().flat_map(|c| &c.given).find(|(i, _)| *i == index);
        match asked {
            Some((_, Value::Size(size))) => in_unit_of(*size, amount),
            _ => catalog.value(index, amount).to_string(),
        }
    }
}

/// `bytes` in the unit of `size` when it is a multiple of that, else in kilobytes, rounded down.
fn in_unit_of(size: Size, bytes: i64) -> String {
    let bytes = bytes.max(0).unsigned_abs();
    let shown = size.to_string();
    let unit = shown.trim_start_matches(|c: char| c.is_ascii_digit());
    match Size::parse(&format!("1{unit}")).map(Size::bytes) {
        Some(one) if bytes.is_multiple_of(one) => format!("{}{unit}", bytes / one),
        _ => Size::kilobytes(bytes / 1024).to_string(),
    }
}

/// Jobs that get the same verdict.
#[derive(Clone, Debug)]
pub struct ClassKey {
    /// Its name.
    pub id: ClassId,
    /// Where they fit.
    pub shape: Arc<Shape>,
    /// How long they may run; None when they did not say.
    pub walltime: Option<Span>,
    /// Whose they are.
    pub who: Arc<Credentials>,
    /// The reservation they ask for, and run nowhere else.
    pub asks_for: Option<String>,
    /// Not to be started before.
    pub not_before: Option<Time>,
    /// How many at most may run at once, for an array that limits itself: it is a class alone.
    pub at_once: Option<u32>,
}

impl ClassKey {
    /// The class of a job.
    pub fn id_of(job: &Job) -> ClassId {
        let spec = &job.spec;
        let shape = shape_key(&spec.request);
        let alike = (shape, spec.walltime(), Credentials::of(job), job.life.not_before);
        match (at_once(job), &spec.reservation) {
            (None, None) => ClassId(stable_hash(&alike)),
            (None, Some(reservation)) => ClassId(stable_hash(&(alike, reservation))),
            (Some(_), _) => ClassId(stable_hash(&(alike, job.id))),
        }
    }

    /// The class of a job, with its shape.
    pub fn of(job: &Job, catalog: &Catalog) -> ClassKey {
        ClassKey {
            id: ClassKey::id_of(job),
            shape: Arc::new(Shape::new(&job.spec.request, catalog)),
            walltime: job.spec.walltime(),
            who: Arc::new(Credentials::of(job)),
            asks_for: job.spec.reservation.clone(),
            not_before: job.life.not_before,
            at_once: at_once(job),
        }
    }
}

/// `max_run_subjobs`, where it limits anything.
fn at_once(job: &Job) -> Option<u32> {
    job.spec.max_run_subjobs.filter(|&limit| job.id.is_array() && limit > 0)
}

/// What of a request decides where it fits; not the spelling.
fn shape_key(request: &Request) -> impl Serialize + '_ {
    let place = &request.place;
    (&request.select.chunks, place.arrangement, place.sharing, &place.group)
}

fn stable_hash(key: &impl Serialize) -> u64 {
    // Writing plain data into a vector cannot fail; were it to, all such jobs would be one class.
    let bytes = postcard::to_stdvec(key).unwrap_or_default();
    let digest = Sha256::digest(&bytes);
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
