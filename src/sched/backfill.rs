//! Planned starts of blocked jobs, reservations, and backfill: starting other jobs if they delay
//! no planned start and no reservation.

pub(in crate::sched) mod bookings;
pub(in crate::sched) mod calendar;
pub(in crate::sched) mod limits;
pub(in crate::sched) mod measure;
pub(in crate::sched) mod pins;
pub(in crate::sched) mod reservation_access;
pub mod reservation_window;
pub(in crate::sched) mod tally;
pub(in crate::sched) mod timeline;
