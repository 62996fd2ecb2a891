//! The clocks.

#![allow(
    clippy::disallowed_methods,
    reason = "the one place that reads a clock or sleeps"
)]

use crate::model::time::{Span, Wall};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since boot, asleep or awake; no step of the wall clock moves it.
pub fn since_boot() -> Span {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Time since boot, awake; no step of the wall clock moves it.
pub fn monotonic() -> Span {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The same in microseconds: how long something takes that takes little.
pub fn monotonic_micros() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(Duration::ZERO, Duration::from)
        .as_micros() as u64
}

/// What a watch shows, in milliseconds since the Unix epoch.
pub fn wall_millis() -> i64 {
    read(ClockId::CLOCK_REALTIME).0 + stepped()
}

/// What a watch shows.
pub fn wall() -> Wall {
    Wall(wall_millis().div_euclid(1000))
}

fn read(clock: ClockId) -> Span {
    // These clocks exist on every kernel we run on; zero is what an unknown one would give.
    let now = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    Span(now.as_millis() as i64)
}

/// In test builds the file `LANAI_TEST_CLOCK` holds milliseconds by which the wall clock is off.
fn stepped() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let file = super::env::var("LANAI_TEST_CLOCK");
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Names this boot of the machine; another after every reboot.
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

/// Waits.
pub fn sleep(span: Duration) {
    std::thread::sleep(span);
}
