//! Data types of the batch system: jobs, requests, resources, nodes, queues, reasons. No I/O, no
//! clock.
//!
//! Each file and directory imports only those before it in this order, which
//! `tests/repository/architecture.rs` enforces: `time`, `text`, `signal`, `spelling`,
//! `server_name`, `job_id`, `refusal`, `indices`, `resource`, `expression`, `request`,
//! `system_resource`, `node`, `credentials`, `limit`, `reason`, `job`, `account`, `queue`,
//! `policy`, `attribute`, `admission`, `reservation`, `hook`, `trigger`, `report`.

#[macro_use]
mod named;

pub mod account;
pub mod admission;
pub mod attribute;
pub mod credentials;
pub mod expression;
pub mod hook;
pub mod indices;
pub mod job;
pub mod job_id;
pub mod limit;
pub mod node;
pub mod policy;
pub mod queue;
pub mod reason;
pub mod refusal;
pub mod report;
pub mod request;
pub mod reservation;
pub mod resource;
pub mod server_name;
pub mod signal;
pub mod spelling;
pub mod system_resource;
pub mod text;
pub mod time;
pub mod trigger;
