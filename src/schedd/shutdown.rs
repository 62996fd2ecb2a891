//! The exit of schedd. After `qterm`, schedd starts no more jobs, waits for running jobs if
//! requested, and exits.

use crate::model::time::Span;
use crate::schedd::state::Schedd;
use crate::server::requests::shutdown::running;
use crate::spool::Checkpointer;
use crate::sys::{clock, record};
use crate::wire::batch::{Act, Batch};
use crate::wire::message::{ClientRequest, QtermMode};
use crate::wire::order::ScheddOrder;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Maximum time by which waiting notices to users delay the exit.
const EXIT_DELAY: Span = Span::seconds(2);

impl Schedd {
    /// Makes schedd exit. The first cause goes to the log.
    pub(super) fn exit_because(&mut self, cause: String) {
        self.exit_cause.get_or_insert(cause);
    }

    /// After `qterm`, makes schedd exit, and the nodes' daemons too if this is requested. With `-t
    /// delay`, does nothing while jobs still run.
    pub(super) fn exit_after_qterm(&mut self) {
        let Some(mode) = self.shutdown_mode else {
            return;
        };
        if mode.manner == QtermMode::Delay && running(&self.server).next().is_some() {
            return;
        }
        if mode.nodes {
            self.nodes.send_to_all(&ScheddOrder::Leave);
        }
        self.exit_because("qterm".to_string());
    }

    /// Whether schedd refuses a request because of an earlier `qterm`. After `qterm`, requests that
    /// submit or start jobs, or make a reservation, are refused.
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

    /// Ends the parts of schedd in order, in a personal installation also its noded. Running jobs
    /// continue under their shepherds (one process for each job).
    pub(super) fn exit(&mut self) {
        tracing::info!(
            "schedd exits: {}",
            self.exit_cause.as_deref().unwrap_or_default()
        );
        self.mailer.shut_down();
        self.send_last_notices();
        self.notifier.shut_down();
        self.allocation_script.shut_down();
        self.resource_poller.shut_down();
        self.hooks.shut_down();
        if !self.server.setup.shared {
            self.nodes.shut_down();
        }
        let home = &self.home;
        self.listener.remove();
        record::erase(home);
        self.write_cycles();
        let home = &self.home;
        if let Err(error) = Checkpointer::open(&crate::spool::file(home))
            .and_then(|checkpointer| checkpointer.checkpoint())
        {
            tracing::debug!("cannot checkpoint the spool's write-ahead log: {error}");
        }
    }

    /// Sends the waiting notices to users, for up to [`EXIT_DELAY`], and drops the rest.
    fn send_last_notices(&mut self) {
        let until = clock::monotonic() + EXIT_DELAY;
        self.user_notices.queue_digests(Span(i64::MAX));
        loop {
            self.notify_users();
            let left = until.0 - clock::monotonic().0;
            if !self.user_notices.can_send_more() || left <= 0 {
                break;
            }
            self.receive_reports(left);
        }
        self.user_notices.give_up("schedd exits");
    }

    /// Waits up to `milliseconds` for reports of nodeds, and handles them.
    fn receive_reports(&mut self, milliseconds: i64) {
        let (indices, mut fds): (Vec<usize>, Vec<PollFd>) = self
            .nodes
            .watched()
            .map(|(index, fd, _)| (index, PollFd::new(fd, PollFlags::POLLIN)))
            .unzip();
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::ZERO),
        );
        let is_ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        for (index, _) in indices
            .into_iter()
            .zip(is_ready)
            .filter(|&(_, is_ready)| is_ready)
        {
            let events = self.nodes.receive(index);
            self.handle_node_events(events);
        }
    }
}
