//! The requests and starts that wait for the site's hooks, and the hooks that run.

pub mod case;

pub mod judging;

pub mod lane;

pub mod programs;

pub mod question;

pub mod permissions;

use crate::model::attribute::AttributeSetting;
use crate::model::hook::{Hook, HookEvent};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::schedd::programs::hooks::lane::Lane;
use crate::schedd::programs::hooks::permissions::StartPermissions;
use std::os::fd::BorrowedFd;

/// The decision of hooks about a start.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// This hook allows it, with these attributes.
    Granted(String, Vec<AttributeSetting>),
    /// This hook refuses it, for this reason.
    Refused(String, String),
}

/// The requests and starts that wait for hooks, and what hooks have decided about starts.
pub struct Hooks {
    /// The requests that wait for hooks.
    pub requests: Lane,
    /// The starts that wait for hooks.
    pub starts: Lane,
    /// The starts that hooks have allowed.
    pub permissions: StartPermissions,
    /// The starts that the last cycle wanted and hooks have not allowed yet, with their nodes.
    pub wanted: Vec<(JobId, Vec<String>)>,
}

impl Hooks {
    /// Empty queues; no hook runs.
    pub fn new() -> Hooks {
        Hooks {
            requests: Lane::new(),
            starts: Lane::new(),
            permissions: StartPermissions::default(),
            wanted: Vec::new(),
        }
    }

    /// The descriptors to poll for output of hooks.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.requests.watched().chain(self.starts.watched())
    }

    /// When the first hook exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        self.requests
            .next()
            .into_iter()
            .chain(self.starts.next())
            .min()
    }

    /// Forgets allowed starts, after the hooks have changed.
    pub fn forget_permissions(&mut self) {
        self.permissions = StartPermissions::default();
    }

    /// Whether nothing waits and no hook runs.
    pub fn is_idle(&self) -> bool {
        self.requests.is_idle() && self.starts.is_idle() && self.wanted.is_empty()
    }

    /// Drops what waits and kills the hooks that run.
    pub fn leave(&mut self) {
        self.requests.leave();
        self.starts.leave();
    }

    /// The queue for this kind of case.
    pub fn lane(&mut self, matter: &Matter) -> &mut Lane {
        match matter {
            Matter::Request(..) => &mut self.requests,
            Matter::Start(..) => &mut self.starts,
        }
    }

    /// The next case for which a hook may run.
    pub fn next_case(&mut self, hooks: &[Hook]) -> Option<Case> {
        self.requests
            .next_case()
            .or_else(|| self.starts.next_case())
            .or_else(|| self.next_start(hooks))
    }

    fn next_start(&mut self, hooks: &[Hook]) -> Option<Case> {
        while self.starts.can_run_more() && !self.wanted.is_empty() {
            let (job, nodes) = self.wanted.remove(0);
            if !self.starts.is_about(job) {
                return Some(Case::new(
                    Matter::Start(job, nodes),
                    HookEvent::RunJob,
                    hooks,
                ));
            }
        }
        None
    }
}
