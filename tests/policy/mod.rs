//! Scheduling policy: scenarios, priorities, limits, preemption, reservations, replayed traces.

mod accuracy;
mod eligible_time;
mod fair_share;
mod fair_share_live;
mod licences;
mod limit_display;
mod placement;
mod preemption;
mod priorities;
mod quality;
mod queues;
mod recording;
pub mod replay;
pub mod reservations;
mod run_limits;
mod scenarios;
mod system_priority;
