//! Planned starts of blocked jobs, reservations, and what may start without delaying them.

pub(crate) mod bookings;
pub(crate) mod calendar;
pub(crate) mod limits;
pub(crate) mod measure;
pub(crate) mod pins;
pub(crate) mod reservation_access;
pub mod reservation_window;
pub(crate) mod tally;
pub(crate) mod timeline;
