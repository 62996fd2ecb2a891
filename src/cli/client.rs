//! What every command needs: exit statuses and error messages, job ids, and a way to ask the spool or schedd.

pub mod exit;

pub mod unreachable_server;

pub mod installation;

pub mod operand;

pub mod source;

pub mod query;

pub mod job_batch;

pub mod reconnect;
