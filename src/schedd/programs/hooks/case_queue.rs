//! A queue of cases (requests or starts) for hooks, and the running hooks. The number and the
//! memory of the cases are limited.

use crate::model::hook::{Hook, HookAnswer};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::server::effects::Token;
use crate::sys::program::{ProgramPool, ProgramResult, RunningProgram};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// Maximum number of hooks of one queue that run at once.
const MAX_RUNNING: usize = 16;
/// Maximum number of hooks that run at once for the requests of one user.
const MAX_RUNNING_PER_USER: usize = 8;
/// Maximum number of undecided requests of all users together.
const MAX_WAITING: usize = 4000;
/// Maximum number of undecided requests of a user who is not an operator.
const MAX_WAITING_PER_USER: usize = 1000;
/// Maximum memory of the scripts and environments of all undecided requests, in bytes.
const MAX_BYTES: usize = 256 << 20;
/// Maximum memory, in bytes, of the scripts and environments of a user's undecided requests, unless
/// the user is an operator.
const MAX_BYTES_PER_USER: usize = 64 << 20;

/// A queue of cases, in order of arrival.
pub struct CaseQueue {
    waiting: VecDeque<Case>,
    running: ProgramPool<QueuedCall>,
}

struct QueuedCall {
    case: Case,
    hook: Hook,
}

/// The answer of a hook to a case.
pub struct HookResult {
    /// The case.
    pub case: Case,
    /// The hook.
    pub hook: Hook,
    /// The hook's answer; the error is the cause of the hook's failure.
    pub answer: Result<HookAnswer, String>,
}

fn user(case: &Case) -> Option<u32> {
    case.caller().map(|(_, caller)| caller.owner.uid)
}

impl CaseQueue {
    /// An empty queue.
    pub fn new() -> CaseQueue {
        CaseQueue {
            waiting: VecDeque::new(),
            running: ProgramPool::with_user_limit(MAX_RUNNING, MAX_RUNNING_PER_USER),
        }
    }

    /// The descriptors that become readable when [`poll`](Self::poll) has something to do.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.watched()
    }

    /// When the first hook exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        self.running.next()
    }

    /// Whether no case waits and no hook runs.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.waiting
            .iter()
            .chain(self.running.tasks().map(|running| &running.case))
    }

    /// Whether a start of this job waits, or a hook is running for it.
    pub fn has_start_of(&self, job: JobId) -> bool {
        self.cases()
            .any(|case| matches!(case.matter, Matter::Start(other, _) if other == job))
    }

    /// Whether the limits allow one more case.
    pub fn has_room_for(&self, case: &Case) -> bool {
        let is_privileged = case.caller().is_some_and(|(_, caller)| caller.privileged);
        let (mut all, mut own) = ((0, case.size()), (0, case.size()));
        for other in self.cases() {
            all = (all.0 + 1, all.1 + other.size());
            if user(other) == user(case) {
                own = (own.0 + 1, own.1 + other.size());
            }
        }
        let is_within_user_limits = own.0 < MAX_WAITING_PER_USER && own.1 <= MAX_BYTES_PER_USER;
        all.0 < MAX_WAITING && all.1 <= MAX_BYTES && (is_within_user_limits || is_privileged)
    }

    /// Adds a case at the end.
    pub fn push(&mut self, case: Case) {
        self.waiting.push_back(case);
    }

    /// Adds a case at the front, for the case's next hook.
    pub fn push_front(&mut self, case: Case) {
        self.waiting.push_front(case);
    }

    /// Whether the limit allows one more hook to run.
    pub fn can_run_more(&self) -> bool {
        self.running.has_room()
    }

    /// Takes the first case for which the limits allow a hook to run.
    pub fn next_case(&mut self) -> Option<Case> {
        let place = self
            .waiting
            .iter()
            .position(|case| self.running.has_room_for(user(case)))?;
        self.waiting.remove(place)
    }

    /// Adds the hook that has been started for a case.
    pub fn begin(&mut self, case: Case, hook: Hook, running: RunningProgram) {
        let user = user(&case);
        self.running.add(QueuedCall { case, hook }, user, running);
    }

    /// Takes the answers of finished hooks. A hook that exceeds its time limit is killed and counts
    /// as failed.
    pub fn poll(&mut self, now: Span) -> Vec<HookResult> {
        let mut results = Vec::new();
        for (QueuedCall { case, hook }, result) in self.running.finished(now) {
            let answer = answer(&result);
            results.push(HookResult { case, hook, answer });
        }
        results
    }

    /// Drops the cases of disconnected clients, and kills the hooks that run for these cases.
    pub fn forget(&mut self, is_connected: impl Fn(Token) -> bool) {
        let is_gone = |case: &Case| case.caller().is_some_and(|(token, _)| !is_connected(token));
        self.waiting.retain(|case| !is_gone(case));
        self.running.stop(|running| is_gone(&running.case));
    }

    /// Drops all cases, and kills running hooks.
    pub fn shut_down(&mut self) {
        self.waiting.clear();
        self.running.stop(|_| true);
    }
}

fn answer(result: &ProgramResult) -> Result<HookAnswer, String> {
    let answer = match &result.exit {
        Ok(exit) => HookAnswer::read(exit),
        Err(fault) => Err(fault.to_string()),
    };
    answer.map_err(|cause| result.blame(cause))
}
