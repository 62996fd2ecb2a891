//! schedd and noded as processes: start, restart, failures, joining and leaving nodes.

mod clock_steps;
mod cycle_triggers;
mod disk_full;
mod dynamic_nodes;
mod fault_injection;
mod first_command;
mod first_job;
mod installations;
mod large_scripts;
mod launch_failures;
mod logout;
mod lost_replies;
mod multi_node;
mod node_load;
mod noded;
mod personal;
mod recovery;
mod server_log;
mod state_directories;
mod torture;
