//! The notice that summarizes the notices above a user's rate limit.

use crate::schedd::programs::rate_limit::Fold;
use crate::server::notices::{Body, Notice, Recipient};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Maximum number of events that the summary lists.
const MAX_JOBS: usize = 1000;

/// The notices above the rate limit, collected for a summary.
#[derive(Debug, Default)]
pub struct NoticeDigest {
    count: usize,
    events: Vec<Value>,
    last: Option<(Recipient, String, PathBuf)>,
}

impl Fold for NoticeDigest {
    type Message = Notice;

    fn fold(&mut self, notice: Notice) {
        self.count += 1;
        if let (Body::Job(noticed), true) = (&notice.body, self.events.len() < MAX_JOBS) {
            let id = noticed.job.id.full(&noticed.facts.name);
            self.events
                .push(json!({ "id": id, "event": noticed.event, "what": noticed.what }));
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
                events: self.events,
            },
        })
    }
}
