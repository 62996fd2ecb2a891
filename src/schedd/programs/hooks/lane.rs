//! Those who wait for hooks, and those about whom hooks are asked: few at a time, and never for
//! long.

use crate::model::hook::{Hook, HookAnswer};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::schedd::clients::Token;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::sys::tool::{Ended, Tool};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// Questions asked at the same time, and of these about the requests of one user.
const AT_ONCE: usize = 16;
const OF_ONE: usize = 8;
/// Requests that may wait in all, and of one user (operators excepted).
const MOST: usize = 4000;
const MOST_OF_ONE: usize = 1000;
/// The memory that they may take together, and those of one user, in bytes.
const BYTES: usize = 256 << 20;
const BYTES_OF_ONE: usize = 64 << 20;

/// A line of cases, in the order in which they came.
#[derive(Default)]
pub struct Lane {
    waiting: VecDeque<Case>,
    asked: Vec<QueuedCall>,
    ended: Vec<Ended>,
}

struct QueuedCall {
    case: Case,
    hook: Hook,
    tool: Tool,
}

/// What a hook has said of a case; an error is its failure, for the log.
pub struct Heard {
    /// About which case.
    pub case: Case,
    /// Which hook.
    pub hook: Hook,
    /// What.
    pub answer: Result<HookAnswer, String>,
}

fn user(case: &Case) -> Option<u32> {
    case.caller().map(|(_, caller)| caller.owner.uid)
}

impl Lane {
    /// What is to be heard.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.asked.iter().flat_map(|asked| asked.tool.watched())
    }

    /// When a hook has taken for long enough.
    pub fn next(&self) -> Option<Span> {
        self.asked.iter().map(|asked| asked.tool.until).min()
    }

    /// Whether nobody waits, and nothing is left of who was asked.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty() && self.ended.is_empty()
    }

    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.waiting
            .iter()
            .chain(self.asked.iter().map(|asked| &asked.case))
    }

    /// Whether a start of this job is here.
    pub fn is_about(&self, job: JobId) -> bool {
        self.cases()
            .any(|case| matches!(case.matter, Matter::Start(other, _) if other == job))
    }

    /// Whether one more may wait.
    pub fn has_room_for(&self, case: &Case) -> bool {
        let is_privileged = case.caller().is_some_and(|(_, caller)| caller.privileged);
        let (mut all, mut own) = ((0, case.size()), (0, case.size()));
        for other in self.cases() {
            all = (all.0 + 1, all.1 + other.size());
            if user(other) == user(case) {
                own = (own.0 + 1, own.1 + other.size());
            }
        }
        let is_modest = own.0 < MOST_OF_ONE && own.1 <= BYTES_OF_ONE;
        all.0 < MOST && all.1 <= BYTES && (is_modest || is_privileged)
    }

    /// Lets a case wait behind the others.
    pub fn push(&mut self, case: Case) {
        self.waiting.push_back(case);
    }

    /// Lets a case wait before the others: it has waited already.
    pub fn push_front(&mut self, case: Case) {
        self.waiting.push_front(case);
    }

    /// Whether one more question may be asked.
    pub fn may_ask(&self) -> bool {
        self.asked.len() < AT_ONCE
    }

    /// The first that may be asked about. Nobody's requests keep all hooks busy.
    pub fn next_case(&mut self) -> Option<Case> {
        if !self.may_ask() {
            return None;
        }
        let of_one = |uid: Option<u32>| {
            self.asked
                .iter()
                .filter(|asked| user(&asked.case) == uid)
                .count()
        };
        let is_next = |case: &Case| user(case).is_none_or(|uid| of_one(Some(uid)) < OF_ONE);
        let place = self.waiting.iter().position(is_next)?;
        self.waiting.remove(place)
    }

    /// A hook has been asked about a case.
    pub fn begin(&mut self, case: Case, hook: Hook, tool: Tool) {
        self.asked.push(QueuedCall { case, hook, tool });
    }

    /// What hooks have said by now. One that takes too long has failed, and is ended.
    pub fn hear(&mut self, now: Span) -> Vec<Heard> {
        self.ended.retain_mut(|ended| !ended.is_gone());
        let mut heard = Vec::new();
        for mut asked in std::mem::take(&mut self.asked) {
            let Some(answer) = asked.answer(now) else {
                self.asked.push(asked);
                continue;
            };
            self.ended.push(asked.tool.end());
            heard.push(Heard {
                case: asked.case,
                hook: asked.hook,
                answer,
            });
        }
        heard
    }

    /// Lets go of those whose client is there no more.
    pub fn forget(&mut self, is_there: impl Fn(Token) -> bool) {
        let waits = |case: &Case| case.caller().is_none_or(|(token, _)| is_there(token));
        self.waiting.retain(waits);
        for asked in std::mem::take(&mut self.asked) {
            match waits(&asked.case) {
                true => self.asked.push(asked),
                false => self.ended.push(asked.tool.end()),
            }
        }
    }

    /// Ends all that is asked.
    pub fn leave(&mut self) {
        self.waiting.clear();
        std::mem::take(&mut self.asked)
            .into_iter()
            .for_each(|asked| drop(asked.tool.end()));
    }
}

impl QueuedCall {
    fn answer(&mut self, now: Span) -> Option<Result<HookAnswer, String>> {
        let answer = match self.tool.outcome() {
            Some(Ok(said)) => HookAnswer::read(&said),
            Some(Err(error)) => Err(error.to_string()),
            None if self.tool.until <= now => Err(format!(
                "it took longer than {} s",
                self.hook.alarm.as_seconds()
            )),
            None => return None,
        };
        Some(answer.map_err(|cause| match self.tool.complaint() {
            Some(complaint) if !complaint.is_empty() => {
                format!("{cause}; it complains: {complaint}")
            }
            _ => cause,
        }))
    }
}
