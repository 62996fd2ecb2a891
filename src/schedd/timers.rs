//! When schedd has something to do though nobody asks.

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

/// Things that come round: each at its own pace, on a clock that no step moves.
#[derive(Debug)]
pub struct Timers {
    /// Look after sockets and connections.
    pub housekeeping: Span,
    /// A cycle though nothing happened.
    pub poll: Span,
    /// Drop old history.
    pub purge: Span,
    /// Write when nodes were last used.
    pub uses: Span,
    /// Look for starts of which nothing is heard.
    pub starts: Span,
    /// Try again what the disk refused.
    pub retry: Option<Span>,
    /// Write at the latest what nobody waits for.
    pub linger: Option<Span>,
}

/// The pace of housekeeping.
pub const HOUSEKEEPING: Span = Span::seconds(1);
/// A verdict of a new kind is written after this long, if nothing else is written before.
pub const SOON: Span = Span(100);
/// A verdict whose figures alone have changed is written after this long.
pub const FIGURES: Span = Span::seconds(2);
/// The pace at which old history is dropped, where it is kept for longer.
pub const PURGE: Span = Span::seconds(3600);
/// The pace at which it is written when nodes were last used.
pub const USES: Span = Span::seconds(60);
/// What nobody waits for may stay unwritten this long.
pub const LINGER: Span = Span(50);
/// A submission is recognised when it is repeated within this time.
pub const REPEATED: Span = Span::seconds(24 * 3600);
/// The pause before what the disk refused is tried again.
pub const RETRY: Span = Span(200);

/// How long a job is kept that nobody is shown any more: a command may still wait for its end.
const UNSHOWN: Span = Span::seconds(60);

/// How long finished jobs are kept.
pub fn kept(history: Span) -> Span {
    if history > Span(0) { history } else { UNSHOWN }
}

impl Timers {
    /// All timers, from now on.
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

    /// Whether a timer has run out; it is set anew.
    pub fn ring(timer: &mut Span, pace: Span) -> bool {
        let now = clock::monotonic();
        let rings = *timer <= now;
        if rings {
            *timer = now + pace;
        }
        rings
    }
}
