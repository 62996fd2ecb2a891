//! Display of jobs, queues, nodes and events.

pub mod alternate_list;
pub mod attribute_output;
pub mod conditions;
pub mod dsv;
pub mod event_text;
pub mod field;
pub mod full;
pub mod job_list;
pub mod job_selection;
pub mod json;
pub mod nodes;
pub mod objects;
pub mod queues;
pub mod table;
