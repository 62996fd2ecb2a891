//! Permanent release of resources by a running job (`pbs_release_nodes`).
//!
//! The job always keeps its resources on the script's host. Released resources are no longer
//! charged to the job. Other jobs may use them at once or, where a task of the job still runs, when
//! that task has ended.

use super::Run;
use super::attempt::{NodeShare, Released};
use crate::model::job::held::Held;
use crate::model::node::NodeFacts;
use crate::model::refusal::Refusal;
use crate::model::request::select::{Chunk, Select};
use crate::model::resource::{ResourceList, ResourceValue};
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Selection of the resources that a job keeps, besides those on the host of its script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptNodes {
    /// Keep no other resources (`-a`).
    Nothing,
    /// Keep all nodes except these; a host name stands for all nodes of the host.
    AllBut(Vec<String>),
    /// Keep the resources on this number of other hosts (`-k 2`).
    Hosts(u32),
    /// Keep the resources that satisfy a select (`-k select=2:ncpus=4`); resources on the script's
    /// host count. The value is the text after `select=`.
    Select(String),
}

/// Kept and released resources of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// Kept shares; the share of the script is the first.
    pub kept: Vec<NodeShare>,
    /// Released shares.
    pub released: Vec<NodeShare>,
}

impl Run {
    /// Divides the resources of the attempt into kept and released resources. `requested` is the
    /// parsed select of [`KeptNodes::Select`]; `facts` looks up a node by its name. As in PBS, a
    /// request that releases no resources is refused.
    pub fn divide<'f>(
        &self,
        keep: &KeptNodes,
        requested: &Select,
        facts: impl Fn(&str) -> Option<&'f NodeFacts>,
    ) -> Result<Division, Refusal> {
        let script = self.shares.first().map_or("", |share| share.host.as_str());
        let on_script_host: Vec<bool> = self
            .shares
            .iter()
            .map(|share| share.host == script)
            .collect();
        let kept = match keep {
            KeptNodes::Nothing => on_script_host,
            KeptNodes::AllBut(names) => self.keep_all_but(names, script)?,
            KeptNodes::Hosts(count) => self.keep_on_hosts(*count, &on_script_host),
            KeptNodes::Select(_) => self.keep_for_select(requested, on_script_host, facts)?,
        };
        if kept.iter().all(|&stays| stays) {
            return Err(Refusal::not_of_the_job(""));
        }
        Ok(self.divided(&kept))
    }

    fn keep_all_but(&self, names: &[String], script: &str) -> Result<Vec<bool>, Refusal> {
        let mut foreign: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let mut kept = Vec::new();
        for share in &self.shares {
            let name = [&share.node, &share.host]
                .into_iter()
                .find(|name| names.contains(name));
            if let Some(name) = name
                && share.host == script
            {
                return Err(Refusal::of_the_script(name));
            }
            foreign.remove(share.node.as_str());
            foreign.remove(share.host.as_str());
            kept.push(name.is_none());
        }
        if foreign.is_empty() {
            Ok(kept)
        } else {
            let foreign: Vec<&str> = foreign.into_iter().collect();
            Err(Refusal::not_of_the_job(&foreign.join(" ")))
        }
    }

    /// Returns for each share whether it is kept. The job keeps the shares on the script's host and
    /// on the first `count` other hosts.
    fn keep_on_hosts(&self, count: u32, on_script_host: &[bool]) -> Vec<bool> {
        let mut others: BTreeSet<&str> = BTreeSet::new();
        let mut kept = Vec::new();
        for (share, &is_on_script_host) in self.shares.iter().zip(on_script_host) {
            if !is_on_script_host && others.len() < count as usize {
                others.insert(&share.host);
            }
            kept.push(is_on_script_host || others.contains(share.host.as_str()));
        }
        kept
    }

    /// Returns for each share whether it is kept. The job keeps the shares on the script's host,
    /// and for each requested chunk the first share that satisfies the chunk and is not used for
    /// another chunk. Fails if a chunk remains without a share.
    fn keep_for_select<'f>(
        &self,
        requested: &Select,
        on_script_host: Vec<bool>,
        facts: impl Fn(&str) -> Option<&'f NodeFacts>,
    ) -> Result<Vec<bool>, Refusal> {
        let (mut kept, mut is_used) = (on_script_host, vec![false; self.shares.len()]);
        for chunk in &requested.chunks {
            let mut left = chunk.count;
            for (at, share) in self.shares.iter().enumerate() {
                if left == 0 {
                    break;
                }
                let available = facts(&share.node).map(|facts| &facts.available);
                if !is_used[at] && suits(share, chunk, available) {
                    (kept[at], is_used[at]) = (true, true);
                    left -= 1;
                }
            }
            if left > 0 {
                return Err(Refusal::too_much_to_keep(&resources_of(chunk)));
            }
        }
        Ok(kept)
    }

    /// Divides the shares according to `kept`. Each share keeps the numbers of its lines in the
    /// node file, because tasks refer to these numbers. The job keeps all system-wide resources.
    fn divided(&self, kept: &[bool]) -> Division {
        let mut division = Division::default();
        for (share, &stays) in with_lines(&self.shares).into_iter().zip(kept) {
            if stays {
                division.kept.push(share)
            } else {
                division.released.push(share)
            }
        }
        let pooled = division
            .released
            .iter_mut()
            .flat_map(|share| std::mem::take(&mut share.pooled));
        if let Some(first) = division.kept.first_mut() {
            first.pooled.extend(pooled);
        }
        division
    }

    /// Records the release of shares.
    pub(super) fn release_shares(&mut self, division: &Division, at: Time) {
        self.shares.clone_from(&division.kept);
        self.released
            .extend(division.released.iter().map(|share| Released {
                share: share.clone(),
                at,
            }));
    }

    /// Returns the released shares on which a task of the job still runs.
    pub fn lingering(&self) -> impl Iterator<Item = &NodeShare> {
        let lines: BTreeSet<u32> = if self.released.is_empty() {
            BTreeSet::new()
        } else {
            self.tasks().open().map(|(_, task)| task.slot).collect()
        };
        self.released
            .iter()
            .map(|released| &released.share)
            .filter(move |share| share.ranks.iter().any(|line| lines.contains(line)))
    }

    /// Returns all shares of the attempt, including released ones.
    pub fn all_shares(&self) -> Vec<NodeShare> {
        self.shares
            .iter()
            .chain(self.released.iter().map(|released| &released.share))
            .cloned()
            .collect()
    }

    /// Returns the time for which the attempt occupied its released shares, in milliseconds times
    /// processors. Each share counts from the start of the attempt to the release of the share.
    pub fn released_core_ms(&self) -> i64 {
        let mut sum = 0i64;
        for released in &self.released {
            let cores = i64::from(Held::of(std::slice::from_ref(&released.share)).cores);
            let time = released.at.since(self.started);
            sum = sum.saturating_add(time.0.saturating_mul(cores));
        }
        sum
    }
}

/// Returns the shares, each with the numbers of its lines in the node file.
fn with_lines(shares: &[NodeShare]) -> Vec<NodeShare> {
    if shares
        .iter()
        .all(|share| share.ranks.len() == share.mpiprocs as usize)
    {
        return shares.to_vec();
    }
    let mut shares = shares.to_vec();
    let mut next = 0;
    for share in &mut shares {
        share.ranks = (next..next + share.mpiprocs).collect();
        next += share.mpiprocs;
    }
    shares
}

/// Tests whether a share satisfies a chunk.
fn suits(share: &NodeShare, chunk: &Chunk, available: Option<&ResourceList>) -> bool {
    chunk
        .resources
        .iter()
        .all(|(name, requested)| match name.as_str() {
            "mpiprocs" => requested
                .amount()
                .is_none_or(|requested| requested <= i64::from(share.mpiprocs)),
            "ompthreads" => true,
            "host" => *requested == ResourceValue::String(share.host.clone()),
            "vnode" => *requested == ResourceValue::String(share.node.clone()),
            _ => match share.taken.iter().find(|(taken, _)| taken == name) {
                Some((_, taken)) => taken.amount() >= requested.amount(),
                None => offers(available.and_then(|list| list.get(name)), requested),
            },
        })
}

fn offers(offered: Option<&ResourceValue>, requested: &ResourceValue) -> bool {
    match (requested, offered) {
        (ResourceValue::Boolean(requested), None) => !requested,
        (ResourceValue::Boolean(_) | ResourceValue::String(_), offered) => {
            offered == Some(requested)
        }
        // The share has nothing of this consumable resource.
        _ => requested.amount() == Some(0),
    }
}

/// Formats the resources of a chunk as in `select`, without the count.
fn resources_of(chunk: &Chunk) -> String {
    let resources = chunk
        .resources
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    resources.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::TaskNumber;
    use crate::model::request::select::Request;
    use crate::model::resource::Resources;

    fn share(node: &str, host: &str, ncpus: i64, mpiprocs: u32) -> NodeShare {
        NodeShare {
            node: node.into(),
            host: host.into(),
            taken: vec![("ncpus".into(), ResourceValue::Long(ncpus))],
            pooled: vec![],
            cpus: vec![],
            gpus: vec![],
            mpiprocs,
            ranks: vec![],
        }
    }

    /// Creates an attempt with two shares on host a, two on host b and one on host c. The share on
    /// host c contains the licenses.
    fn run() -> Run {
        let mut shares = vec![
            share("a[0]", "a", 1, 1),
            share("a[1]", "a", 1, 2),
            share("b[0]", "b", 2, 1),
            share("b[1]", "b", 4, 1),
            share("c", "c", 4, 2),
        ];
        shares[4]
            .pooled
            .push(("lic".into(), ResourceValue::Long(3)));
        Run::new(1, shares, Time(1000))
    }

    fn kept(keep: KeptNodes) -> Result<String, String> {
        let select = match &keep {
            KeptNodes::Select(text) => {
                Request::parse(&[("select".into(), text.clone())], &Resources::builtin())
                    .unwrap()
                    .select
            }
            _ => Select::default(),
        };
        let division = run()
            .divide(&keep, &select, |_| None)
            .map_err(|refusal| refusal.text)?;
        Ok(division
            .kept
            .iter()
            .map(|share| share.node.as_str())
            .collect::<Vec<_>>()
            .join(" "))
    }

    fn named(names: &[&str]) -> KeptNodes {
        KeptNodes::AllBut(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn named_nodes_are_released_but_never_those_of_the_script() {
        assert_eq!(kept(KeptNodes::Nothing).unwrap(), "a[0] a[1]");
        assert_eq!(kept(named(&["b[1]", "c"])).unwrap(), "a[0] a[1] b[0]");
        assert_eq!(
            kept(named(&["b"])).unwrap(),
            "a[0] a[1] c",
            "a host name selects all its nodes"
        );
        let home = kept(named(&["c", "a[1]"])).unwrap_err();
        assert_eq!(
            home,
            "Can't free 'a[1]' since it's on a primary execution host"
        );
        let foreign = kept(named(&["x", "c", "y"])).unwrap_err();
        assert_eq!(
            foreign,
            "node(s) requested to be released not part of the job: x y"
        );
    }

    #[test]
    fn a_number_of_hosts_is_kept_besides_the_scripts_host() {
        assert_eq!(kept(KeptNodes::Hosts(0)).unwrap(), "a[0] a[1]");
        assert_eq!(kept(KeptNodes::Hosts(1)).unwrap(), "a[0] a[1] b[0] b[1]");
        assert_eq!(
            kept(KeptNodes::Hosts(2)).unwrap_err(),
            "node(s) requested to be released not part of the job: "
        );
    }

    #[test]
    fn a_select_keeps_only_the_shares_that_satisfy_it() {
        let select = |text: &str| kept(KeptNodes::Select(text.into()));
        assert_eq!(
            select("ncpus=1").unwrap(),
            "a[0] a[1]",
            "the script's host satisfies the chunk"
        );
        assert_eq!(select("2:ncpus=1+ncpus=4").unwrap(), "a[0] a[1] b[1]");
        assert_eq!(select("ncpus=4:mpiprocs=2").unwrap(), "a[0] a[1] c");
        assert_eq!(
            select("3:ncpus=4").unwrap_err(),
            "could not satisfy select chunk (ncpus=4)"
        );
        assert_eq!(select("host=b:ncpus=2").unwrap(), "a[0] a[1] b[0]");
    }

    #[test]
    fn tasks_keep_their_line_numbers_and_the_job_its_system_wide_resources() {
        let mut run = run();
        run.tasks_mut().make(1, 4, 0);
        let task: TaskNumber = run.tasks_mut().make(2, 3, 0);
        let division = run
            .divide(&named(&["b"]), &Select::default(), |_| None)
            .unwrap();
        run.release_shares(&division, Time(3000));
        assert_eq!(run.share_of_task(task).unwrap().node, "b[0]");
        assert_eq!(
            run.lingering()
                .map(|share| share.node.as_str())
                .collect::<Vec<_>>(),
            ["b[0]", "b[1]"]
        );
        assert_eq!(run.places(), Some(vec![0, 1, 2, 5, 6]));
        assert_eq!(run.share_of_slot(5).unwrap().node, "c");
        assert_eq!(run.released_core_ms(), 2000 * 6);
        let division = run
            .divide(&KeptNodes::Nothing, &Select::default(), |_| None)
            .unwrap();
        run.release_shares(&division, Time(4000));
        assert_eq!(
            run.shares[0].pooled,
            [("lic".to_string(), ResourceValue::Long(3))]
        );
        assert_eq!(run.all_shares().len(), 5);
    }
}
