//! What a job requires of nodes beside its chunks: a filter on nodes, and sets of nodes.

use super::job_facts::{JobFacts, facts};
use crate::model::credentials::Credentials;
use crate::model::expression::Expression;
use crate::model::job::Job;
use crate::model::policy::NodeSets;
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::host_list::HostList;
use std::collections::BTreeSet;

/// What a job requires of nodes beside its chunks, and what the site requires of both.
#[derive(Clone, Debug, Default)]
pub struct NodeFilter {
    /// The job's place in the tree of clusters.
    pub cluster: ClusterPath,
    /// The clusters whose nodes it takes.
    pub restriction: Option<Restriction>,
    /// The hosts it takes.
    pub hosts: HostList,
    /// The hosts on which starts of the job failed, while it is to start elsewhere.
    pub failed_hosts: BTreeSet<String>,
    /// What must be true of a node.
    pub requirement: Option<Expression>,
    /// What must not be true of a node and the job.
    pub veto: Option<Expression>,
    /// The facts of the job that expressions can read.
    pub job: JobFacts,
}

impl NodeFilter {
    /// The filter of a job; None for one that only requests chunks.
    pub fn of(job: &Job) -> Option<NodeFilter> {
        let placement = &job.spec.placement;
        let is_silent = placement.hosts.is_empty()
            && placement.requirements.is_none()
            && placement.restrictions.is_none();
        if is_silent && placement.cluster.is_none() {
            return None;
        }
        Some(NodeFilter {
            cluster: placement.cluster.clone().unwrap_or_default(),
            restriction: placement.restrictions.clone(),
            hosts: placement.hosts.clone(),
            failed_hosts: BTreeSet::new(),
            requirement: placement.requirements.clone(),
            veto: None,
            job: facts(
                &Credentials::of(job),
                &job.spec.request.list,
                placement.cluster.as_ref().map(ToString::to_string),
            ),
        })
    }
}

/// The node sets that a job must stay within (M47).
#[derive(Clone, Debug)]
pub struct AllowedSets {
    /// The sets of the site, and how many a job may span.
    pub sets: NodeSets,
    /// Whether the job may span sets: it has waited long enough for one, or need not wait.
    pub may_span: bool,
}
