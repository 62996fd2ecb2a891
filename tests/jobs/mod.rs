//! The life of a job or array: resources, files, hooks, messages, accounting.

mod accounting;
mod arrays;
mod checkpoint;
mod dependencies;
mod environment;
mod exit_status;
mod expanding_arrays;
mod file_delivery;
mod gpus;
mod idle;
mod job_path;
mod mail;
mod mpi;
mod nested;
mod node_hooks;
mod notify;
mod output;
mod overrun;
mod release_nodes;
mod resource_limits;
mod retry_growth;
mod server_hooks;
mod staging;
mod suspend;
mod usage;
