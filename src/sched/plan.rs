//! What comes out of a cycle: starts, promises, and one verdict for every class that waits.

use super::cluster::{Hold, NodeIx, Room};
use super::pools::Pools;
use super::shape::{ClassId, Shape, Tenant};
use super::snapshot::State;
use crate::model::job::{JobId, Share};
use crate::model::reason::Reason;
use crate::model::select::Arrangement;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A job to be started now.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Which.
    pub job: JobId,
    /// What it gets, chunk by chunk; the first share's node runs the script.
    pub shares: Vec<Share>,
    /// Whose it is and who else may be there. To be handed to `State::occupy` as it is.
    pub exclusive: Tenant,
    /// When its walltime is over.
    pub until: Time,
    /// The first job in the order that waits while this one starts.
    pub passed: Option<JobId>,
    /// It has room that others are promised, and must make way when they are due (M34).
    pub preemptible: bool,
}

/// A job that is to be put back into the queue, for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Which.
    pub job: JobId,
    /// For which.
    pub by: JobId,
}

/// The promise of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// To which job.
    pub job: JobId,
    /// Its class.
    pub class: ClassId,
    /// When, at the latest, if all jobs end by their walltime.
    pub at: Time,
    /// When it would be over at the latest.
    pub until: Time,
    /// Where, chunk by chunk, as far as can be told now.
    pub nodes: Arc<[String]>,
    /// What was promised before, where that was another moment.
    pub was: Option<Time>,
    /// Why it is later than that.
    pub cause: Option<Cause>,
}

impl Booking {
    /// The nodes, each once.
    pub fn distinct_nodes(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.nodes.iter().filter(|node| seen.insert(*node)).cloned().collect()
    }
}

/// Why a promise was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A node on which it stood takes no jobs any more.
    NodeLost {
        /// Which.
        node: String,
    },
    /// A job runs on past its walltime.
    Overdue {
        /// Which.
        job: JobId,
    },
    /// The place is set aside by a reservation.
    Window {
        /// Which, as its window is called.
        id: String,
    },
    /// A job that is now ahead in the order has the place.
    Overtaken {
        /// Which.
        by: JobId,
    },
    /// Jobs, nodes or the policy were changed by hand.
    Changed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Cause::NodeLost { node } => write!(f, "node {node} takes no jobs now"),
            Cause::Overdue { job } => write!(f, "job {job} runs on past its walltime"),
            Cause::Window { id } => write!(f, "reservation {id} has the place"),
            Cause::Overtaken { by } => write!(f, "job {by} is ahead of it now"),
            Cause::Changed => f.write_str("jobs, nodes or the policy were changed"),
        }
    }
}

/// The decisions of a cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// When it was made.
    pub now: Time,
    /// In the order decided.
    pub starts: Vec<Start>,
    /// Jobs that are to make way; once they have, another cycle starts those they make way for.
    pub preempts: Vec<Preemption>,
    /// The promises in force.
    pub bookings: Vec<Booking>,
    /// Why a class does not start, or does not any further; classes of one shape may share a reason.
    pub verdicts: Vec<(ClassId, Arc<Reason>)>,
    /// When a further look could help though nothing happens before.
    pub next: Option<Time>,
    /// How many jobs were looked at; the others shared a refusal.
    pub considered: usize,
    /// Resources of which nodes may be given more than they have, because only what is in use counts (M7).
    pub by_use: Vec<usize>,
}

impl Plan {
    /// Nothing decided.
    pub fn new(now: Time) -> Plan {
        Plan {
            now,
            starts: Vec::new(),
            preempts: Vec::new(),
            bookings: Vec::new(),
            verdicts: Vec::new(),
            next: None,
            considered: 0,
            by_use: Vec::new(),
        }
    }

    /// A further look at this moment could help.
    pub fn look_again(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Whether the starts can all happen in this state: each job waits there, gets all its chunks
    /// as arranged, and no node is given away twice. The error names the job and the fault.
    pub fn audit(&self, state: &State) -> Result<(), String> {
        let pools = state.cluster.pools.clone();
        let mut audit = Audit { state, by_use: &self.by_use, pools, rooms: BTreeMap::new(), numbers: BTreeSet::new() };
        let mut seen = BTreeSet::new();
        for start in &self.starts {
            let once = if seen.insert(start.job) { Ok(()) } else { Err("started twice".to_string()) };
            once.and_then(|()| audit.start(start)).map_err(|fault| format!("job {}: {fault}", start.job))?;
        }
        Ok(())
    }
}

/// The rooms while the starts are carried out one by one.
struct Audit<'a> {
    state: &'a State,
    by_use: &'a [usize],
    pools: Pools,
    rooms: BTreeMap<NodeIx, Room>,
    numbers: BTreeSet<(NodeIx, bool, u16)>,
}

impl Audit<'_> {
    fn start(&mut self, start: &Start) -> Result<(), String> {
        let class = self.state.class_of(start.job).and_then(|id| self.state.classes.get(&id));
        let shape = &class.ok_or("is no candidate")?.key.shape;
        self.arrangement(start, shape)?;
        for (ix, hold) in self.state.holds_of(&start.shares, start.exclusive)? {
            self.node(ix, &hold, start.exclusive)?;
        }
        Ok(())
    }

    fn arrangement(&self, start: &Start, shape: &Shape) -> Result<(), String> {
        if start.shares.len() as u64 != shape.instances {
            return Err(format!("{} shares for {} chunks", start.shares.len(), shape.instances));
        }
        let hosts: BTreeSet<&str> = start.shares.iter().map(|share| share.host.as_str()).collect();
        let nodes: BTreeSet<&str> = start.shares.iter().map(|share| share.node.as_str()).collect();
        let is_arranged = match shape.arrangement {
            Arrangement::Free => true,
            Arrangement::Pack => hosts.len() < 2,
            Arrangement::Scatter => hosts.len() == start.shares.len(),
            Arrangement::Vscatter => nodes.len() == start.shares.len(),
        };
        if is_arranged { Ok(()) } else { Err(format!("not arranged as {:?}", shape.arrangement)) }
    }

    fn node(&mut self, ix: NodeIx, hold: &Hold, tenant: Tenant) -> Result<(), String> {
        let node = self.state.cluster.node(ix);
        let room = self.rooms.entry(ix).or_insert_with(|| node.room.clone());
        let is_barred_only = hold.taken.iter().all(|taken| *taken == 0);
        if node.kind.is_none() || (!node.usable && !is_barred_only) {
            return Err(format!("{} takes no jobs", node.name));
        }
        if !room.admits(tenant) {
            return Err(format!("{} is not free to join", node.name));
        }
        let mut amounts = hold.taken.iter().zip(&room.free).enumerate();
        if amounts.any(|(index, (taken, free))| *taken > 0 && taken > free && !self.by_use.contains(&index)) {
            return Err(format!("{} is over-committed", node.name));
        }
        self.pools.take(&hold.taken);
        let pooled = self.state.cluster.catalog.pooled();
        if pooled.into_iter().any(|index| hold.taken[index] > 0 && self.pools.free(index) < 0) {
            return Err("takes more than the system has".to_string());
        }
        room.admit(&hold.taken, hold.tenant);
        let cpus = hold.cpus.iter().map(|&number| (ix, false, number));
        let gpus = hold.gpus.iter().map(|&number| (ix, true, number));
        let is_taken = |&(_, is_gpu, number): &(NodeIx, bool, u16)| {
            node.tenants.values().any(|other| if is_gpu { &other.gpus } else { &other.cpus }.contains(&number))
        };
        match cpus.chain(gpus).find(|number| is_taken(number) || !self.numbers.insert(*number)) {
            Some((_, _, number)) => Err(format!("number {number} of {} is given twice", node.name)),
            None => Ok(()),
        }
    }
}

/// One line for each decision; times are spans from the moment of the plan.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for start in &self.starts {
            let nodes: Vec<&str> = start.shares.iter().map(|share| share.node.as_str()).collect();
            write!(f, "start  {}  {}", start.job, runs(&nodes))?;
            if start.exclusive.tenancy.is_exclusive() {
                f.write_str(" alone")?;
            }
            writeln!(f, ", for {}", self.ahead(start.until))?;
        }
        for Preemption { job, by } in &self.preempts {
            writeln!(f, "put back  {job}  for {by}")?;
        }
        for booking in &self.bookings {
            let nodes: Vec<&str> = booking.nodes.iter().map(String::as_str).collect();
            write!(f, "book   {}  {}, in {}", booking.job, runs(&nodes), self.ahead(booking.at))?;
            match (booking.was, &booking.cause) {
                (Some(was), Some(cause)) => writeln!(f, ", not in {}: {cause}", self.ahead(was))?,
                _ => writeln!(f)?,
            }
        }
        for (class, reason) in &self.verdicts {
            writeln!(f, "wait   {class}  {reason}")?;
        }
        Ok(())
    }
}

impl Plan {
    fn ahead(&self, time: Time) -> String {
        if time == Time::NEVER { "ever".to_string() } else { time.since(self.now).to_string() }
    }
}

/// `n1,n2*3,n4`: names in a row that are equal are counted.
fn runs(names: &[&str]) -> String {
    let runs = names.chunk_by(|a, b| a == b).map(|run| match run.len() {
        1 => run[0].to_string(),
        count => format!("{}*{count}", run[0]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    #[test]
    fn a_plan_reads_line_by_line() {
        let scene = cluster("2 x ncpus=4")
            .queued(1, "select=3:ncpus=2 walltime=1:00:00")
            .queued(2, "select=2:ncpus=4 walltime=1:00:00");
        let class = scene.state.class_of(crate::model::job::JobId::job(2)).unwrap();
        let wanted = format!(
            "start  1  n1*2,n2, for 01:00:00\nbook   2  n1,n2, in 01:00:00\n\
             wait   {class}  Not Running: Insufficient amount of resource: ncpus (R: 8 A: 2 T: 8)\n"
        );
        assert_eq!(scene.plan().to_string(), wanted);
    }

    #[test]
    fn the_audit_finds_faults() {
        let mut scene = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=4");
        let plan = scene.plan();
        let mut twice = plan.clone();
        twice.starts.extend(plan.starts.clone());
        assert_eq!(twice.audit(&scene.state), Err("job 1: started twice".to_string()));
        let mut short = plan.clone();
        short.starts[0].shares.clear();
        assert_eq!(short.audit(&scene.state), Err("job 1: 0 shares for 1 chunks".to_string()));
        let full = scene.clone().running(2, "select=1:ncpus=1", "n1", 60);
        assert_eq!(plan.audit(&full.state), Err("job 1: n1 is over-committed".to_string()));
        let barred = scene.clone().running(2, "select=1:ncpus=0 place=excl", "n1", 60);
        assert_eq!(plan.audit(&barred.state), Err("job 1: n1 is not free to join".to_string()));
        scene.apply(&plan);
        assert_eq!(plan.audit(&scene.state), Err("job 1: is no candidate".to_string()));
    }
}
