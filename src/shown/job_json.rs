//! A job's attributes as a JSON object for hooks and other programs, with the names and types of
//! `qstat -f -F json`.

use super::attributes::{self, AttributeDisplay, Attributes, ShownAttribute};
use super::timestamp;
use crate::model::job::Job;
use crate::wire::message::{JobRecord, ServerFacts};
use serde_json::{Map, Value};

/// The job's full id as `id`, and the job's attributes; with `environ`, also `Variable_List`.
pub fn of_job(job: &Job, environ: Option<Vec<u8>>, server: &ServerFacts) -> Map<String, Value> {
    let record = JobRecord {
        job: job.clone(),
        reason: None,
        never_since: None,
        promise: None,
        waiting_again: 0,
        environ,
        links: Vec::new(),
        score: None,
    };
    let mut object = of(&attributes::of_job(&record, server));
    object.insert("id".into(), job.id.full(&server.name).into());
    object
}

/// The attributes as an object. The resources of a list attribute form a nested object.
pub fn of(attributes: &Attributes) -> Map<String, Value> {
    let mut object = Map::new();
    for group in attributes
        .0
        .chunk_by(|a, b| a.name == b.name && a.resource.is_some())
    {
        let whole = match group[0].resource {
            None => value(&group[0].shown),
            Some(_) => Value::Object(group.iter().map(resource).collect()),
        };
        object.insert(group[0].name.into(), whole);
    }
    object
}

fn resource(attribute: &ShownAttribute) -> (String, Value) {
    (
        attribute.resource.unwrap_or_default().into(),
        value(&attribute.shown),
    )
}

fn value(shown: &AttributeDisplay) -> Value {
    match shown {
        AttributeDisplay::Text(text) => text.as_ref().into(),
        AttributeDisplay::Number(number) => (*number).into(),
        AttributeDisplay::Real(number) => (*number).into(),
        AttributeDisplay::Moment(wall) => timestamp::ctime(*wall).to_string().into(),
        AttributeDisplay::Pairs(pairs) => Value::Object(
            pairs
                .iter()
                .map(|(name, value)| (name.to_string(), value.as_ref().into()))
                .collect(),
        ),
        AttributeDisplay::List(list) => list.as_slice().into(),
        AttributeDisplay::Data(data) => data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{queued, running, server, share};

    #[test]
    fn a_job_has_the_names_and_types_of_qstat() {
        let record = running(
            queued(7, "a", "ncpus=2 walltime=01:00:00"),
            vec![share(2, None)],
        );
        let job = of_job(&record.job, Some(b"A=x=y\0".to_vec()), &server());
        assert_eq!(job["id"], "7.head");
        assert_eq!(job["Resource_List"]["ncpus"], 2);
        assert_eq!(job["Resource_List"]["walltime"], "01:00:00");
        assert_eq!(job["Variable_List"]["A"], "x=y");
        assert_eq!(job["exec_vnode"], "(head:ncpus=2)");
        assert!(
            of_job(&record.job, None, &server())
                .get("Variable_List")
                .is_none()
        );
    }
}
