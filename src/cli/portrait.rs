//! A job as JSON in memory, with all that `qstat -f -F json` shows of it: what hooks of the site are told.

use super::attributes::{self, Attribute, Shown};
use super::when;
use crate::wire::message::{Record, ServerFacts};
use serde_json::{Map, Value};

/// The attributes of a job.
pub fn of_job(record: &Record, server: &ServerFacts) -> Map<String, Value> {
    let attributes = attributes::of_job(record, server).0;
    let groups = attributes.chunk_by(|a, b| a.name == b.name && a.resource.is_some());
    groups.map(|group| (group[0].name.to_string(), of_group(group))).collect()
}

/// Attributes of one name that stand together are one object of their resources.
fn of_group(group: &[Attribute]) -> Value {
    let resource = |one: &Attribute| Some((one.resource?.to_string(), value(&one.shown)));
    match group[0].resource {
        None => value(&group[0].shown),
        Some(_) => Value::Object(group.iter().filter_map(resource).collect()),
    }
}

fn value(shown: &Shown) -> Value {
    match shown {
        Shown::Text(text) => Value::from(text.as_ref()),
        Shown::Number(number) => Value::from(*number),
        Shown::Real(number) => Value::from(*number),
        Shown::Moment(wall) => Value::from(when::ctime(*wall).to_string()),
        Shown::Pairs(pairs) => {
            Value::Object(pairs.iter().map(|(name, value)| (name.to_string(), Value::from(value.as_ref()))).collect())
        }
        Shown::List(list) => Value::from(list.as_slice()),
        Shown::Data(data) => data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributes;
    use super::super::example::{self, NOW};
    use super::super::json::{Document, Preamble};
    use super::*;

    #[test]
    fn a_job_is_told_of_as_it_is_shown() {
        let (mut record, server) = (example::queued(1, "a", "select=2:ncpus=4 walltime=60"), example::server());
        record.environ = Some(b"A=1\0B=x,y\0".to_vec());
        let mut document = Document::begin(&Preamble { timestamp: NOW, version: "1", server: "head" });
        document.thing("Jobs", "1.head", &attributes::of_job(&record, &server));
        let document: Value = serde_json::from_slice(&document.end()).unwrap();
        let portrait = Value::Object(of_job(&record, &server));
        assert_eq!(portrait, document["Jobs"]["1.head"]);
        assert_eq!(portrait["Variable_List"]["B"], "x,y");
    }
}
