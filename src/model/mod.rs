//! The nouns: jobs, resources, nodes, queues, reasons. No I/O, no clock.

pub mod time;

pub mod text;

pub mod resource;

pub mod select;

pub mod request;

pub mod check;

pub mod spelling;

pub mod attribute;

pub mod state;

pub mod signal;

pub mod checkpoint;

mod runs;

pub mod spans;

pub mod array;

pub mod bounds;

pub mod expression;

pub mod cluster_path;

pub mod amount;

pub mod host_list;

pub mod staging;

pub mod hosts;

pub mod hook;

pub mod indices;

pub mod index_list;

pub mod placeholder;

pub mod job;

pub mod grant;

pub mod credentials;

pub mod member;

pub mod account;

pub mod accounting;

pub mod task;

pub mod digest;

pub mod depend;

// Jobs known by name before they have a number.
pub mod label;

pub mod ties;

pub mod bonds;

pub mod event;

pub mod life;

mod failed_start;

// What is over and runs once more.
pub mod retry;

pub mod trigger;

pub mod suspension;

#[macro_use]
pub mod policy;

pub mod response;

pub mod preemption;

pub mod quality;

pub mod decay;

pub mod accrual;
pub mod charge;

pub mod geometry;

pub mod wishes;

pub mod operands;

pub mod pool;

pub mod node;

pub mod window;

pub mod recurrence;

pub mod reservation;

pub mod reserve;

pub mod site_time;

pub mod queue;

pub mod limit;

pub mod lineage;

pub mod limit_use;

mod whose;

pub mod excess;

pub mod entrance;

pub mod census;

pub mod reason;

pub mod promise;

pub mod outlook;

pub mod worth;

pub mod turn;

pub mod stake;

pub mod owed;

pub mod refusal;

pub mod release;
