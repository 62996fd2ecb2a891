//! The message that summarizes the notices above a user's rate limit.

use crate::schedd::programs::rate_limit::Fold;
use crate::server::notices::{Body, Notice, Recipient};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Maximum number of jobs in the message.
const MAX_JOBS: usize = 1000;

/// The notices of a round above the limit.
#[derive(Debug, Default)]
pub struct NoticeDigest {
    count: usize,
    turns: Vec<Value>,
    last: Option<(Recipient, String, PathBuf)>,
}

impl Fold for NoticeDigest {
    type Message = Notice;

    fn fold(&mut self, notice: Notice) {
        self.count += 1;
        if let (Body::Job(turn), true) = (&notice.body, self.turns.len() < MAX_JOBS) {
            let id = turn.job.id.full(&turn.facts.name);
            self.turns
                .push(json!({ "id": id, "event": turn.event, "what": turn.what }));
        }
        self.last = Some((notice.recipient, notice.user, notice.program));
    }

    fn summary(self, _: String) -> Option<Notice> {
        let (recipient, user, program) = self.last?;
        Some(Notice {
            recipient,
            user,
            program,
            body: Body::Digest {
                count: self.count,
                turns: self.turns,
            },
        })
    }
}
