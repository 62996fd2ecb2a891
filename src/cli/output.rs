//! How jobs, queues, nodes and events are displayed.

pub mod full;

pub mod dsv;

pub mod json;

pub mod job_json;

pub mod attribute_output;

pub mod table;

pub mod field;

pub mod job_selection;

pub mod conditions;

pub mod job_list;

pub mod alternate_list;

pub mod queues;

pub mod objects;

pub mod nodes;

pub mod event_text;
