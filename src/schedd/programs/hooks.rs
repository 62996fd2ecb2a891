//! The requests and the job starts that wait for the site's hooks, and the hooks that run.

pub mod case;

pub mod judging;

pub mod case_queue;

pub mod programs;

pub mod question;

pub mod permissions;

use crate::model::attribute::AttributeSetting;
use crate::model::hook::{Hook, HookEvent};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::schedd::programs::hooks::case_queue::CaseQueue;
use crate::schedd::programs::hooks::permissions::StartPermissions;
use std::os::fd::BorrowedFd;

/// The decision of hooks about the start of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// The hooks allow the start. The values are the name of the last hook that has set attributes
    /// (empty if none has), and the attributes that the hooks together have set.
    Granted(String, Vec<AttributeSetting>),
    /// A hook refuses the start. The values are the name of the hook and the reason.
    Refused(String, String),
}

/// The requests and starts that wait for hooks, and the starts that hooks have allowed.
pub struct Hooks {
    /// The requests that wait for hooks.
    pub requests: CaseQueue,
    /// The starts that wait for hooks.
    pub starts: CaseQueue,
    /// The starts that hooks have allowed.
    pub permissions: StartPermissions,
    /// The starts that the last cycle planned without permission of the hooks, and for which no
    /// hook has been started yet. Each has its nodes.
    pub wanted: Vec<(JobId, Vec<String>)>,
}

impl Hooks {
    /// Starts with empty queues.
    pub fn new() -> Hooks {
        Hooks {
            requests: CaseQueue::new(),
            starts: CaseQueue::new(),
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

    /// Whether no request or job start waits, and no hook runs.
    pub fn is_idle(&self) -> bool {
        self.requests.is_idle() && self.starts.is_idle() && self.wanted.is_empty()
    }

    /// Drops all cases in both queues, and kills running hooks.
    pub fn shut_down(&mut self) {
        self.requests.shut_down();
        self.starts.shut_down();
    }

    /// The queue for requests or for starts.
    pub fn queue_for(&mut self, matter: &Matter) -> &mut CaseQueue {
        match matter {
            Matter::Request(..) => &mut self.requests,
            Matter::Start(..) => &mut self.starts,
        }
    }

    /// Takes the next case (request or start) for which the limits allow a hook to run; None if
    /// there is none.
    pub fn next_case(&mut self, hooks: &[Hook]) -> Option<Case> {
        self.requests
            .next_case()
            .or_else(|| self.starts.next_case())
            .or_else(|| self.next_start(hooks))
    }

    fn next_start(&mut self, hooks: &[Hook]) -> Option<Case> {
        while self.starts.can_run_more() && !self.wanted.is_empty() {
            let (job, nodes) = self.wanted.remove(0);
            if !self.starts.has_start_of(job) {
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
