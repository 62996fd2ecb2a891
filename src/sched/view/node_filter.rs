//! The conditions of a job on nodes beyond its chunks: host names, cluster labels, expressions and
//! node sets.

use super::job_facts::{JobFacts, facts};
use crate::model::credentials::Credentials;
use crate::model::expression::Expression;
use crate::model::job::Job;
use crate::model::policy::NodeSets;
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::host_list::HostList;
use std::collections::BTreeSet;

/// The conditions of a job on nodes beyond its chunks, and the condition of the site (`veto`).
#[derive(Clone, Debug, Default)]
pub struct NodeFilter {
    /// The cluster label of the job, such as `/film/shot3`.
    pub cluster: ClusterPath,
    /// The cluster labels of the nodes that the job accepts.
    pub restriction: Option<Restriction>,
    /// The hosts that the job accepts.
    pub hosts: HostList,
    /// The hosts on which a deferred job must not start now, because starts failed there. Empty
    /// unless starts on other hosts are to be tried.
    pub failed_hosts: BTreeSet<String>,
    /// The condition that a node must meet.
    pub requirement: Option<Expression>,
    /// The condition of the site that a node and the job must not meet together.
    pub veto: Option<Expression>,
    /// The properties of the job that expressions can use.
    pub job: JobFacts,
}

impl NodeFilter {
    /// The filter of a job; None for a job without cluster label, host names, requirements and
    /// restrictions.
    pub fn of(job: &Job) -> Option<NodeFilter> {
        let placement = &job.spec.placement;
        let has_no_condition = placement.hosts.is_empty()
            && placement.requirements.is_none()
            && placement.restrictions.is_none();
        if has_no_condition && placement.cluster.is_none() {
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

/// The node sets of the site, and whether a job must stay within one set (M47).
#[derive(Clone, Debug)]
pub struct AllowedSets {
    /// The node sets as configured.
    pub sets: NodeSets,
    /// Whether the job may span several sets, because it has waited long enough for a single set or
    /// need not wait.
    pub may_span: bool,
}
