//! A job as JSON in memory, with all that `qstat -f -F json` shows of it: what hooks of the site
//! are told.

use crate::shown::attributes;
use crate::shown::job_json;
use crate::wire::message::{JobRecord, ServerFacts};
use serde_json::{Map, Value};

/// The attributes of a job.
pub fn of_job(record: &JobRecord, server: &ServerFacts) -> Map<String, Value> {
    job_json::of(&attributes::of_job(record, server))
}

#[cfg(test)]
mod tests {
    use super::super::json::{Document, Preamble};
    use super::*;
    use crate::cli::example::{self, NOW};

    #[test]
    fn a_job_is_told_of_as_it_is_shown() {
        let (mut record, server) = (
            example::queued(1, "a", "select=2:ncpus=4 walltime=60"),
            example::server(),
        );
        record.environ = Some(b"A=1\0B=x,y\0".to_vec());
        let mut document = Document::begin(&Preamble {
            timestamp: NOW,
            version: "1",
            server: "head",
        });
        document.thing("Jobs", "1.head", &attributes::of_job(&record, &server));
        let document: Value = serde_json::from_slice(&document.end()).unwrap();
        let portrait = Value::Object(of_job(&record, &server));
        assert_eq!(portrait, document["Jobs"]["1.head"]);
        assert_eq!(portrait["Variable_List"]["B"], "x,y");
    }
}
