//! Notices for users' own notification programs (`qsub -W notify=PATH`). schedd sends the notices
//! to nodeds, which run the programs. For each user only one program runs at once, so that hanging
//! programs of one user do not delay other users.

use crate::model::time::Span;
use crate::schedd::nodes::NodedEvent;
use crate::schedd::nodes::Nodes;
use crate::schedd::programs::notice_digest::NoticeDigest;
use crate::schedd::programs::rate_limit::RateLimit;
use crate::server::notices::Notice;
use crate::server::notices::Recipient;
use crate::wire::order::{Notification, ScheddOrder};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Maximum number of waiting notices per user.
const MAX_WAITING: usize = 64;
/// Maximum number of programs that run at once.
const MAX_RUNNING: usize = 16;
/// Maximum time that notices wait for a noded.
const MAX_WAIT: Span = Span::seconds(300);
/// If noded has not reported the end of a program after this time, the program counts as lost.
/// noded kills a program after 30 s and reports its end.
const REPORT_TIMEOUT: Span = Span::seconds(60);

/// Waiting notices and running programs.
#[derive(Debug)]
pub struct UserNotices {
    rate_limit: RateLimit<NoticeDigest>,
    /// The waiting notices of each user.
    waiting: BTreeMap<String, VecDeque<Notice>>,
    /// The running program of each user.
    running: BTreeMap<String, RunningUserNotice>,
    /// The last user that got a turn.
    served: String,
    last_token: u64,
    /// Since when notices wait because no noded is connected; None if a noded was found for the
    /// last notice.
    unreachable: Option<Span>,
    /// The user of the last dropped notice. Further dropped notices of this user are not logged.
    flooded: Option<String>,
}

#[derive(Debug)]
struct RunningUserNotice {
    token: u64,
    noded: usize,
    program: String,
    until: Span,
}

impl UserNotices {
    /// Starts with empty queues. Notices are identified by tokens, which contain the epoch (a
    /// number that grows with each start of schedd). Therefore a report for an earlier schedd
    /// matches no notice.
    pub fn new(epoch: u64) -> UserNotices {
        UserNotices {
            rate_limit: RateLimit::default(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            served: String::new(),
            last_token: epoch << 32,
            unreachable: None,
            flooded: None,
        }
    }

    /// Queues notices, within the rate limits of their users. Further notices are added to
    /// summaries.
    pub fn queue(&mut self, notices: Vec<Notice>, now: Span) {
        for notice in notices {
            let user = notice.user.clone();
            let due = self.rate_limit.allow(&user, notice, now);
            due.into_iter().for_each(|notice| self.enqueue(notice));
        }
    }

    fn enqueue(&mut self, notice: Notice) {
        let queue = self.waiting.entry(notice.user.clone()).or_default();
        if queue.len() < MAX_WAITING {
            return queue.push_back(notice);
        }
        if self.flooded.as_ref() != Some(&notice.user) {
            tracing::warn!(
                "{} is too slow: schedd drops notifications",
                notice.program.display()
            );
            self.flooded = Some(notice.user);
        }
    }

    /// Handles the end of a program; `why` is the error if the program failed.
    pub fn handle_end(&mut self, noded: usize, token: u64, why: Option<String>) {
        let before = self.running.len();
        self.running
            .retain(|_, running| (running.noded, running.token) != (noded, token));
        if let Some(why) = why
            && self.running.len() < before
        {
            tracing::warn!("{why}");
        }
    }

    /// Whether notices wait and [`send`](Self::send) last found a connected noded.
    pub fn can_send_more(&self) -> bool {
        !self.waiting.is_empty() && self.unreachable.is_none()
    }

    /// Queues the summaries of the rate limit's periods that have ended by `now`.
    pub fn queue_digests(&mut self, now: Span) {
        self.rate_limit
            .due(now)
            .into_iter()
            .for_each(|notice| self.enqueue(notice));
    }

    /// Queues due summaries, and sends the notices that can be sent now. Forgets a program if its
    /// noded is disconnected, or has not reported the program's end in time. Drops all waiting
    /// notices once no noded has been found for `MAX_WAIT`.
    pub fn send(&mut self, nodes: &mut Nodes, host: &str, now: Span) -> Vec<NodedEvent> {
        self.queue_digests(now);
        self.running.retain(|user, running| {
            let is_lost = now >= running.until || !nodes.is_admitted(running.noded);
            if is_lost {
                tracing::warn!(
                    "the node did not report the end of the notification program {} of user {user}",
                    running.program
                );
            }
            !is_lost
        });
        let mut events = Vec::new();
        for user in self.next_users() {
            let node = self
                .waiting
                .get(&user)
                .and_then(VecDeque::front)
                .and_then(Notice::node);
            let Some(noded) = nodes.notifier(host, node) else {
                self.wait_for_node(now);
                break;
            };
            self.unreachable = None;
            let Some(notice) = self.waiting.get_mut(&user).and_then(VecDeque::pop_front) else {
                continue;
            };
            let program = notice.program.display().to_string();
            let Some(order) = self.order(notice) else {
                continue;
            };
            let (token, until) = (self.last_token, now + REPORT_TIMEOUT);
            self.running.insert(
                user,
                RunningUserNotice {
                    token,
                    noded,
                    program,
                    until,
                },
            );
            events.extend(nodes.send_to(noded, &order));
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        events
    }

    /// The users that get a notice now, up to the limit: users with a waiting notice and without a
    /// running program, in alphabetical order, beginning after the last user that got a turn.
    /// Therefore each user gets a turn.
    fn next_users(&mut self) -> Vec<String> {
        let served = self.served.as_str();
        let later = self
            .waiting
            .range::<str, _>((Bound::Excluded(served), Bound::Unbounded));
        let earlier = self
            .waiting
            .range::<str, _>((Bound::Unbounded, Bound::Included(served)));
        let users = later
            .chain(earlier)
            .map(|(user, _)| user)
            .filter(|user| !self.running.contains_key(*user));
        let users: Vec<String> = users
            .take(MAX_RUNNING.saturating_sub(self.running.len()))
            .cloned()
            .collect();
        if let Some(user) = users.last() {
            self.served.clone_from(user);
        }
        users
    }

    /// Keeps notices while no noded is connected. Drops them after [`MAX_WAIT`].
    fn wait_for_node(&mut self, now: Span) {
        let since = *self.unreachable.get_or_insert(now);
        if now >= since + MAX_WAIT {
            self.give_up("no node was connected");
            self.unreachable = None;
        }
    }

    fn order(&mut self, notice: Notice) -> Option<ScheddOrder> {
        let document = notice.document();
        let Recipient::User(owner) = notice.recipient else {
            return None;
        };
        self.last_token += 1;
        let notification = Notification {
            token: self.last_token,
            owner,
            program: notice.program,
            document,
        };
        Some(ScheddOrder::Notify(Box::new(notification)))
    }

    /// Drops the waiting notices.
    pub fn give_up(&mut self, why: &str) {
        for (user, queue) in std::mem::take(&mut self.waiting)
            .into_iter()
            .filter(|(_, queue)| !queue.is_empty())
        {
            tracing::warn!(
                "schedd drops {} waiting notifications for user {user}: {why}",
                queue.len()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::Owner;
    use crate::server::notices::Body;

    #[test]
    fn all_users_are_served_once_before_any_user_is_served_again() {
        let mut notices = UserNotices::new(1);
        let users: Vec<String> = (b'a'..=b'z')
            .map(|letter| char::from(letter).to_string())
            .collect();
        for user in users.iter().chain(&users) {
            let recipient = Recipient::User(Owner {
                user: user.clone(),
                uid: 1000,
                gid: 1000,
            });
            let body = Body::Digest {
                count: 0,
                events: Vec::new(),
            };
            notices.enqueue(Notice {
                recipient,
                user: user.clone(),
                program: "/p".into(),
                body,
            });
        }
        assert_eq!(notices.next_users(), users[..MAX_RUNNING]);
        // The other users come first, and then again the first users, because each of these has a
        // second notice.
        let second = [
            &users[MAX_RUNNING..],
            &users[..2 * MAX_RUNNING - users.len()],
        ]
        .concat();
        assert_eq!(notices.next_users(), second);
    }
}
