//! Commands that wait for a job or its tasks: `qsub -W block=true`, `qsub -I` and `pbsdsh`.

pub mod block;

pub mod interactive;

pub mod status_line;

pub mod waiting;

pub mod interactive_client;

pub mod task_set;
