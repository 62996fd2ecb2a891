//! The end of schedd after `qterm`: until it exits it starts no more jobs.

use crate::schedd::Schedd;
use crate::server::requests::shutdown::running;
use crate::wire::batch::{Act, Batch};
use crate::wire::message::{ClientRequest, QtermMode};
use crate::wire::order::ScheddOrder;

impl Schedd {
    /// Exits after `qterm`, once the jobs that it waits for have ended.
    pub(super) fn wind_down(&mut self) {
        let Some(mode) = self.shutdown_mode else {
            return;
        };
        if mode.manner == QtermMode::Delay && running(&self.server).next().is_some() {
            return;
        }
        if mode.nodes {
            self.nodes.send_to_all(&ScheddOrder::Leave);
        }
        self.stopping = true;
    }

    /// Whether a request would start something while schedd shuts down.
    pub(super) fn is_too_late_for(&self, request: &ClientRequest) -> bool {
        let begins = matches!(
            request,
            ClientRequest::Submit(_) | ClientRequest::Run { .. } | ClientRequest::Reserve(_)
        ) || matches!(
            request,
            ClientRequest::Batch(Batch {
                act: Act::Run { .. },
                ..
            })
        );
        self.shutdown_mode.is_some() && begins
    }
}
