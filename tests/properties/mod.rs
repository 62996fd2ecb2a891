//! Properties that hold for generated input.

mod bookings;
pub mod cycle;
mod events;
mod grammars;
mod limits;
mod messages;
mod placement_search;
mod preemption;
mod round_trips;
mod starvation;
