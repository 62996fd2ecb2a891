//! The server: handles requests of clients and reports of nodes.
//!
//! The server does no input or output. Two traits give access to the machine:
//! [`JobHistory`](outside::JobHistory) finds stored jobs, [`Accounts`](outside::Accounts) looks up
//! users, groups and time zones. Changes are emitted as [`crate::update::Update`]s to be stored.
//! schedd implements the traits with the spool (its database) and the system's accounts; the
//! simulator implements both in memory.

pub mod accounting;

pub mod caller;

pub mod charging;

pub mod checkpoint;

pub mod clock;

pub mod dependencies;

pub mod effects;

pub mod granted;

pub mod grantees;

pub mod idle_jobs;

pub mod inventory;

pub mod job_comment;
pub mod job_environment;

pub mod launch_timeout;

mod license_counts;

pub mod log_lines;

pub mod mail;

pub mod node_reports;

pub mod node_uses;

pub mod notices;

pub mod orders;

pub mod outside;

pub mod plan;

pub mod queue_admission;

pub mod release_nodes;

pub mod report_dispatch;

pub mod request_context;

pub mod requests;

pub mod reservation_limits;

pub mod reservations;

pub mod routing;

pub mod scheduler_view;

pub mod setup;

pub mod shared_requests;

pub mod site_calendar;

pub mod startup;

pub mod state;

pub mod suspension;

pub mod tasks;

mod undo_log;
