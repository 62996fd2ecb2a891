//! Timers of schedd.

use crate::model::time::Span;
use crate::server::clock::Reading;
use crate::sys::clock;
use std::sync::OnceLock;

/// Reads the machine's clocks.
pub fn read_clocks() -> Reading {
    static BOOT: OnceLock<String> = OnceLock::new();
    let boot = BOOT.get_or_init(clock::boot_id).clone();
    Reading {
        since_boot: clock::since_boot(),
        wall: clock::wall_millis(),
        boot,
    }
}

/// When each timer expires next, in monotonic time.
#[derive(Debug)]
pub struct Timers {
    /// Check sockets and connections.
    pub housekeeping: Span,
    /// Run a cycle without an event.
    pub poll: Span,
    /// Delete old history.
    pub purge: Span,
    /// Write the last uses of nodes.
    pub uses: Span,
    /// Check for unconfirmed starts.
    pub starts: Span,
    /// Retry a failed commit.
    pub retry: Option<Span>,
    /// Commit inputs that may linger.
    pub linger: Option<Span>,
}

/// Interval of housekeeping.
pub const HOUSEKEEPING: Span = Span::seconds(1);
/// Delay before a verdict of a new kind is written.
pub const SOON: Span = Span(100);
/// Delay before changed figures of a verdict are written.
pub const FIGURES: Span = Span::seconds(2);
/// Interval at which old history is deleted, if it is kept for longer.
pub const PURGE: Span = Span::seconds(3600);
/// Interval at which the last uses of nodes are written.
pub const USES: Span = Span::seconds(60);
/// Maximum delay of a commit that no client waits for.
pub const LINGER: Span = Span(50);
/// How long a repeated submission is recognized.
pub const REPEATED: Span = Span::seconds(24 * 3600);
/// Delay before a failed commit is retried.
pub const RETRY: Span = Span(200);

/// How long finished jobs are kept without a history: a command may still wait for their end.
const MIN_KEPT: Span = Span::seconds(60);

/// How long finished jobs are kept.
pub fn kept(history: Span) -> Span {
    if history > Span(0) { history } else { MIN_KEPT }
}

impl Timers {
    /// Starts all timers.
    pub fn new(poll: Span) -> Timers {
        let now = clock::monotonic();
        Timers {
            housekeeping: now + HOUSEKEEPING,
            poll: now + poll,
            purge: now,
            uses: now + USES,
            starts: now,
            retry: None,
            linger: None,
        }
    }

    /// Whether a timer has expired. If so, it restarts.
    pub fn ring(timer: &mut Span, interval: Span) -> bool {
        let now = clock::monotonic();
        let has_expired = *timer <= now;
        if has_expired {
            *timer = now + interval;
        }
        has_expired
    }
}
