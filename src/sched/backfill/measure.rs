//! Decides whether nodes are interchangeable. If they are, the calendar can count amounts instead
//! of assigning planned starts to nodes.
//!
//! Nodes are not interchangeable if the policy, the terms of nodes, or a request distinguishes
//! between nodes. Otherwise they are interchangeable in two cases: the cluster has only one node,
//! which all jobs share; or every chunk of the waiting jobs requests the same amount of one
//! resource (a *piece*), and the running jobs use only whole pieces.

use crate::model::job_id::JobId;
use crate::model::request::select::Arrangement;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::view::cluster::Joinable;
use crate::sched::view::shape::{AccessPolicy, Shape};
use crate::sched::view::snapshot::{ClusterState, RunningJob};

/// The counted resources: for each, its index and the amount that counts as 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMeasure {
    parts: Vec<(usize, i64)>,
}

impl ResourceMeasure {
    /// The resources to count in this state, and their free counts in `space`; None if nodes are
    /// not interchangeable.
    pub fn of(
        state: &ClusterState,
        space: &AvailabilityMap,
    ) -> Option<(ResourceMeasure, Vec<i64>)> {
        let mut shapes = state.shapes();
        if !space.guide().is_interchangeable()
            || !shapes
                .all(|shape| shape.is_unbound() && !space.guide().restricts_combination(shape))
        {
            return None;
        }
        ResourceMeasure::of_the_only_node(state, space)
            .or_else(|| ResourceMeasure::of_pieces(state, space))
    }

    /// The measure for a cluster with one shared node: counts each requested resource.
    fn of_the_only_node(
        state: &ClusterState,
        space: &AvailabilityMap,
    ) -> Option<(ResourceMeasure, Vec<i64>)> {
        let mut buckets = space.buckets().iter().filter(|bucket| bucket.len() > 0);
        let (bucket, None) = (buckets.next()?, buckets.next()) else {
            return None;
        };
        let mut shapes = state.shapes();
        let is_shared = shapes.all(|shape| shape.access <= AccessPolicy::Shared)
            && !state.running.values().any(|running| running.alone);
        if state.cluster.slots() != 1 || bucket.key.condition == Joinable::Alone || !is_shared {
            return None;
        }
        let mut is_requested = vec![false; bucket.key.free.len()];
        for chunk in state.shapes().flat_map(|shape| &shape.chunks) {
            for &(index, _) in &chunk.asked {
                is_requested[index] = true;
            }
        }
        let parts: Vec<_> = (0..is_requested.len())
            .filter(|&index| is_requested[index])
            .map(|index| (index, 1))
            .collect();
        let free = parts
            .iter()
            .map(|&(index, _)| bucket.key.free[index])
            .collect();
        Some((ResourceMeasure { parts }, free))
    }

    /// The measure for jobs that consist of equal pieces: counts the pieces.
    fn of_pieces(
        state: &ClusterState,
        space: &AvailabilityMap,
    ) -> Option<(ResourceMeasure, Vec<i64>)> {
        let piece = piece_of(state.shapes().next()?)?;
        if !state.shapes().all(|shape| piece_of(shape) == Some(piece)) {
            return None;
        }
        if !state
            .running
            .iter()
            .all(|(&job, running)| is_in_pieces(state, job, running, piece))
        {
            return None;
        }
        let mut free: u64 = 0;
        for place in 0..space.buckets().len() {
            let head = space.head(place);
            if head.condition != Joinable::Alone {
                let times = space.times(place, &[piece]).unwrap_or(0);
                free = free.saturating_add(head.nodes.saturating_mul(times));
            }
        }
        Some((
            ResourceMeasure { parts: vec![piece] },
            vec![i64::try_from(free).ok()?],
        ))
    }

    /// Converts the amounts of all resources into counts of the counted resources.
    pub fn count(&self, amounts: &[i64]) -> Vec<i64> {
        self.counts(amounts).collect()
    }

    /// Like [`count`](Self::count), as an iterator.
    pub fn counts<'a>(&'a self, amounts: &'a [i64]) -> impl Iterator<Item = i64> + 'a {
        self.parts
            .iter()
            .map(|&(index, size)| amounts[index] / size)
    }
}

/// The resource and the amount that every chunk of a request consists of. None if the chunks differ
/// or request several resources, or if the request restricts the nodes or their sharing.
fn piece_of(shape: &Shape) -> Option<(usize, i64)> {
    let is_anywhere =
        shape.arrangement == Arrangement::Free && shape.access <= AccessPolicy::Shared;
    if !is_anywhere || shape.group.is_some() {
        return None;
    }
    let piece = *shape.chunks.first()?.asked.first()?;
    let are_equal = shape
        .chunks
        .iter()
        .all(|chunk| chunk.asked == [piece] && chunk.needs.is_empty());
    are_equal.then_some(piece)
}

/// Whether a running job uses only whole pieces and shares its nodes, and the pieces will be free
/// after the job's end, because its nodes are usable and not overcommitted.
fn is_in_pieces(
    state: &ClusterState,
    job: JobId,
    running: &RunningJob,
    (index, size): (usize, i64),
) -> bool {
    let uses_only_pieces = running
        .taken
        .iter()
        .enumerate()
        .all(|(i, taken)| i == index || *taken == 0);
    let are_whole = running.nodes.iter().all(|&ix| {
        let node = state.cluster.node(ix);
        let hold = node.tenants.get(&job);
        node.usable
            && node.room.free[index] >= 0
            && hold.is_none_or(|hold| hold.taken[index] % size == 0)
    });
    !running.alone && uses_only_pieces && are_whole
}

#[cfg(test)]
mod tests;
