//! Shares equal requests between jobs. This saves memory, because queued jobs often have equal
//! requests, and a request is the largest part of a job.

use crate::model::job::Job;
use crate::model::job::Spec;
use crate::model::request::select::Request;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Unused requests are removed for the first time at this number of requests.
const FIRST_SWEEP: usize = 1024;

/// The requests in memory, by their select text.
pub struct SharedRequests {
    known: BTreeMap<String, Vec<Arc<Request>>>,
    size: usize,
    sweep_at: usize,
}

impl Default for SharedRequests {
    fn default() -> SharedRequests {
        SharedRequests {
            known: BTreeMap::new(),
            size: 0,
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl SharedRequests {
    /// Makes a job share an equal request that is in memory. If there is none, later jobs can share
    /// the request of this job.
    pub fn share(&mut self, job: &mut Job) {
        let same = self
            .known
            .entry(job.spec.request.select.text.clone())
            .or_default();
        match same.iter().find(|request| **request == job.spec.request) {
            Some(request) if Arc::ptr_eq(request, &job.spec.request) => {}
            Some(request) => {
                let request = request.clone();
                job.spec = Arc::new(Spec {
                    request,
                    ..Arc::unwrap_or_clone(job.spec.clone())
                });
            }
            None => {
                same.push(job.spec.request.clone());
                self.size += 1;
            }
        }
        if self.size >= self.sweep_at {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        for same in self.known.values_mut() {
            same.retain(|request| Arc::strong_count(request) > 1);
        }
        self.known.retain(|_, same| !same.is_empty());
        self.size = self.known.values().map(Vec::len).sum();
        self.sweep_at = FIRST_SWEEP.max(2 * self.size);
    }
}
