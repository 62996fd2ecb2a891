//! The clocks of this host.

#![allow(
    clippy::disallowed_methods,
    reason = "only this module reads clocks and sleeps"
)]

use crate::model::time::{Span, Wall};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since boot, including the time that the host was suspended. Steps of the wall clock do not
/// affect it.
pub fn since_boot() -> Span {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Time since boot, without the time that the host was suspended. Steps of the wall clock do not
/// affect it.
pub fn monotonic() -> Span {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Monotonic time in microseconds, to measure short durations.
pub fn monotonic_micros() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(Duration::ZERO, Duration::from)
        .as_micros() as u64
}

/// Processor time that all threads of this process have used, in microseconds.
pub fn processor_micros() -> u64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(Duration::ZERO, Duration::from)
        .as_micros() as u64
}

/// Wall-clock time in milliseconds since the Unix epoch.
pub fn wall_millis() -> i64 {
    read(ClockId::CLOCK_REALTIME).0 + test_offset()
}

/// Wall-clock time in seconds since the Unix epoch.
pub fn wall() -> Wall {
    Wall(wall_millis().div_euclid(1000))
}

fn read(clock: ClockId) -> Span {
    // These clocks exist on every supported kernel, so the fallback to zero is unused.
    let now = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    Span(now.as_millis() as i64)
}

/// The offset of the wall clock in milliseconds. Tests write it to a file, and set the variable
/// `LANAI_TEST_CLOCK` to the path of the file.
fn test_offset() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let file = super::env::var("LANAI_TEST_CLOCK");
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The kernel's boot id, which changes at every reboot.
pub fn boot_id() -> String {
    let file = if cfg!(debug_assertions) {
        super::env::var("LANAI_TEST_BOOT")
    } else {
        None
    };
    let file = file.unwrap_or_else(|| "/proc/sys/kernel/random/boot_id".into());
    std::fs::read_to_string(file)
        .map(|id| id.trim().to_string())
        .unwrap_or_default()
}

/// Blocks this thread for `span`.
pub fn sleep(span: Duration) {
    std::thread::sleep(span);
}
