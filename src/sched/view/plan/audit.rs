//! The audit of a plan: checks that the plan can be carried out in the state for which it was made.

use super::{Plan, Resume, Start};
use crate::model::job::NodeShare;
use crate::model::request::select::Arrangement;
use crate::sched::amounts::subtract;
use crate::sched::view::cluster::{FreeResources, Hold, NodeIx};
use crate::sched::view::pools::Pools;
use crate::sched::view::shape::{JobOwner, Shape};
use crate::sched::view::shared_hosts::SharedHosts;
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

impl Plan {
    /// Checks that all starts are possible in this state: each job is a candidate (it waits) and
    /// gets all its chunks in its arrangement, its nodes accept it, and no resource is allocated
    /// twice. Checks that resumed jobs get their earlier nodes, and that the resources that they
    /// released are free. The error names the job and the fault.
    pub fn audit(&self, state: &ClusterState) -> Result<(), String> {
        let pools = state.cluster.pools.clone();
        let (free, numbers, shared) = Default::default();
        let mut audit = Audit {
            state,
            by_use: &self.by_use,
            pools,
            free,
            numbers,
            shared,
        };
        let mut seen = BTreeSet::new();
        for start in &self.starts {
            let once = if seen.insert(start.job) {
                Ok(())
            } else {
                Err("started twice".to_string())
            };
            once.and_then(|()| audit.start(start))
                .map_err(|fault| format!("job {}: {fault}", start.job))?;
        }
        for resume in &self.resumes {
            audit
                .resume(resume)
                .map_err(|fault| format!("job {}: {fault}", resume.job))?;
        }
        Ok(())
    }
}

/// The resources that are left while the audit carries out the plan start by start.
struct Audit<'a> {
    state: &'a ClusterState,
    by_use: &'a [usize],
    pools: Pools,
    free: BTreeMap<NodeIx, FreeResources>,
    /// The allocated CPU and GPU numbers: (node, whether the number is a GPU's, number).
    numbers: BTreeSet<(NodeIx, bool, u16)>,
    shared: SharedHosts,
}

impl Audit<'_> {
    fn start(&mut self, start: &Start) -> Result<(), String> {
        let class = self
            .state
            .class_of(start.job)
            .and_then(|id| self.state.classes.get(&id));
        let shape = &class.ok_or("not a candidate")?.key.shape;
        self.arrangement(start, shape)?;
        let mut holds = self.state.holds_of(&start.shares, start.exclusive)?;
        self.share(shape, &mut holds);
        for (ix, hold) in holds {
            self.node(ix, &hold, start.exclusive)?;
        }
        Ok(())
    }

    /// Removes per-host resources (counted once on each host) from the holds of a subjob if other
    /// subjobs of its array already use these resources on the host (G2).
    fn share(&mut self, shape: &Shape, holds: &mut BTreeMap<NodeIx, Hold>) {
        let (Some(number), cluster) = (shape.array, &self.state.cluster) else {
            return;
        };
        for (&ix, hold) in holds {
            for index in cluster.pools.by_host() {
                let key = (number, cluster.node(ix).host.clone(), index);
                if hold.taken[index] > 0
                    && (cluster.shared.contains_key(&key) || !self.shared.insert(key))
                {
                    hold.taken[index] = 0;
                }
            }
        }
    }

    /// Checks the nodes of a resumed job, and the resources that the job needs again.
    fn resume(&mut self, resume: &Resume) -> Result<(), String> {
        let suspended = self
            .state
            .suspended
            .get(&resume.job)
            .ok_or("does not wait to resume")?;
        let nodes = resume.shares.iter().map(|share| &share.node);
        if !nodes.eq(suspended.shares.iter().map(|share| &share.node)) {
            return Err("resumes on other nodes".to_string());
        }
        let again = suspended
            .needed
            .iter()
            .zip(&resume.shares)
            .map(|(needed, whole)| {
                let takes = |name: &str| needed.taken.iter().any(|(taken, _)| taken == name);
                NodeShare {
                    cpus: if takes("ncpus") {
                        whole.cpus.clone()
                    } else {
                        Vec::new()
                    },
                    gpus: if takes("ngpus") {
                        whole.gpus.clone()
                    } else {
                        Vec::new()
                    },
                    ..needed.clone()
                }
            });
        for (ix, hold) in self
            .state
            .cluster
            .holds(&again.collect::<Vec<_>>(), resume.exclusive)?
        {
            self.amounts(ix, &hold)?;
        }
        Ok(())
    }

    fn arrangement(&self, start: &Start, shape: &Shape) -> Result<(), String> {
        if start.shares.len() as u64 != shape.instances {
            return Err(format!(
                "{} shares for {} chunks",
                start.shares.len(),
                shape.instances
            ));
        }
        let hosts: BTreeSet<&str> = start
            .shares
            .iter()
            .map(|share| share.host.as_str())
            .collect();
        let nodes: BTreeSet<&str> = start
            .shares
            .iter()
            .map(|share| share.node.as_str())
            .collect();
        let is_arranged = match shape.arrangement {
            Arrangement::Free => true,
            Arrangement::Pack => hosts.len() < 2,
            Arrangement::Scatter => hosts.len() == start.shares.len(),
            Arrangement::Vscatter => nodes.len() == start.shares.len(),
        };
        if is_arranged {
            Ok(())
        } else {
            Err(format!("not arranged as {:?}", shape.arrangement))
        }
    }

    fn node(&mut self, ix: NodeIx, hold: &Hold, owner: JobOwner) -> Result<(), String> {
        let node = self.state.cluster.node(ix);
        let room = self.free.entry(ix).or_insert_with(|| node.room.clone());
        let takes_nothing = hold.taken.iter().all(|taken| *taken == 0);
        if node.kind.is_none() || (!node.usable && !takes_nothing) {
            return Err(format!("{} does not accept jobs", node.name));
        }
        if !room.admits(owner) {
            return Err(format!("{} does not admit the job", node.name));
        }
        self.amounts(ix, hold)?;
        let room = self.free.entry(ix).or_insert_with(|| node.room.clone());
        room.join(owner);
        Ok(())
    }

    /// Checks that the resources of a hold are free on the node and in the whole system, and
    /// subtracts them.
    fn amounts(&mut self, ix: NodeIx, hold: &Hold) -> Result<(), String> {
        let node = self.state.cluster.node(ix);
        let room = self.free.entry(ix).or_insert_with(|| node.room.clone());
        let mut amounts = hold.taken.iter().zip(&room.free).enumerate();
        if amounts.any(|(index, (taken, free))| {
            *taken > 0 && taken > free && !self.by_use.contains(&index)
        }) {
            return Err(format!("{} is overcommitted", node.name));
        }
        self.pools.take(&hold.taken);
        let pooled = self.state.cluster.catalog.pooled();
        if pooled
            .into_iter()
            .any(|index| hold.taken[index] > 0 && self.pools.free(index) < 0)
        {
            return Err("exceeds a system-wide resource".to_string());
        }
        subtract(&mut room.free, &hold.taken);
        let cpus = hold.cpus.iter().map(|&number| (false, number));
        let gpus = hold.gpus.iter().map(|&number| (true, number));
        for (is_gpu, number) in cpus.chain(gpus) {
            let mut holds = node.tenants.values();
            let is_taken =
                holds.any(|other| if is_gpu { &other.gpus } else { &other.cpus }.contains(&number));
            if is_taken || !self.numbers.insert((ix, is_gpu, number)) {
                return Err(format!(
                    "CPU or GPU {number} of {} is allocated twice",
                    node.name
                ));
            }
        }
        Ok(())
    }
}
