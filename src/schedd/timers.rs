//! Timers of schedd.

use crate::model::time::Span;
use crate::server::clock::Reading;
use crate::sys::clock;
use std::sync::OnceLock;

/// Reads the machine's clocks and its boot id.
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
    /// Periodic checks of sockets, connections and nodes.
    pub housekeeping: Span,
    /// A scheduling cycle even without an event.
    pub poll: Span,
    /// Removal of old history.
    pub purge: Span,
    /// Writing of the times of last use of nodes.
    pub uses: Span,
    /// Check for starts that nodes have not confirmed.
    pub starts: Span,
    /// Check for idle jobs.
    pub idle: Span,
    /// Retry after a failed commit.
    pub retry: Option<Span>,
    /// Commit of delayed inputs.
    pub delayed_commit: Option<Span>,
}

/// Interval of housekeeping.
pub const HOUSEKEEPING: Span = Span::seconds(1);
/// Delay before schedd stores an important change: a changed code of a reason, a new or slipped
/// planned start, or one that returns after a lapse.
pub const SOON: Span = Span(100);
/// Delay before schedd stores a minor change: changed numbers in a reason, changed fair shares, or
/// a planned start that lapses or changes without a slip.
pub const FIGURES: Span = Span::seconds(2);
/// Maximum interval at which old history is removed.
pub const PURGE: Span = Span::seconds(3600);
/// Interval at which the times of last use of nodes are written.
pub const USES: Span = Span::seconds(60);
/// Maximum delay of a commit that no client waits for.
pub const MAX_COMMIT_DELAY: Span = Span(50);
/// How long a repeated submission is recognized as a repetition.
pub const REPEATED: Span = Span::seconds(24 * 3600);
/// Delay before a failed commit is retried.
pub const RETRY: Span = Span(200);

/// How long finished jobs are kept if the configured duration is 0. Commands that wait for a job
/// can thus still learn how it ended.
const MIN_KEPT: Span = Span::seconds(60);

/// How long finished jobs are kept. `history` is the configured duration.
pub fn retention(history: Span) -> Span {
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
            idle: now,
            retry: None,
            delayed_commit: None,
        }
    }

    /// Whether a timer has expired. If so, restarts the timer.
    pub fn restart_if_expired(timer: &mut Span, interval: Span) -> bool {
        let now = clock::monotonic();
        let has_expired = *timer <= now;
        if has_expired {
            *timer = now + interval;
        }
        has_expired
    }
}
