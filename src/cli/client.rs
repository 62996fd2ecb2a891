//! Code that the commands share: exit statuses, error messages, job ids, and queries to the spool
//! or schedd.

pub mod exit;

pub mod unreachable_server;

pub mod installation;

pub mod logout;

pub mod operand;

pub mod source;

pub mod query;

pub mod job_batch;

pub mod reconnect;
