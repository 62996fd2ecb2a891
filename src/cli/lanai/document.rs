//! JSON documents of `lanai --json`.
//!
//! Every document has a schema version. Times are in the format of RFC 3339, numbers are numbers
//! with the unit in the key, lists may be empty, and no key is ever missing. The JSON Schema is
//! `share/lanai/lanai.schema.json`.

use super::job_view::JobView;
use super::status;
use crate::model::job::Want;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Wall};
use crate::shown::timestamp;
use crate::wire::message::ServerFacts;
use chrono::SecondsFormat;
use serde_json::{Map, Value, json};

/// The version of the schema. It grows when a key changes its meaning or disappears; new keys may
/// be added in the same version.
pub const SCHEMA_VERSION: u32 = 1;

/// A document of this kind, such as `jobs`. `content` is an object with the further keys.
pub fn document(kind: &str, server: &ServerFacts, now: Wall, content: Value) -> String {
    let mut document = Map::new();
    document.insert("schema_version".into(), SCHEMA_VERSION.into());
    document.insert("kind".into(), kind.into());
    document.insert("lanai_version".into(), env!("CARGO_PKG_VERSION").into());
    document.insert("server".into(), server.name.as_str().into());
    document.insert("time".into(), time(now));
    if let Value::Object(content) = content {
        document.extend(content);
    }
    format!("{:#}\n", Value::Object(document))
}

/// A time in the format of RFC 3339, in the local time zone; null for a time that calendars cannot
/// express.
pub fn time(wall: Wall) -> Value {
    timestamp::local(wall)
        .map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, false))
        .into()
}

/// A duration in seconds.
pub fn seconds(span: Span) -> Value {
    json!(span.0 as f64 / 1000.0)
}

/// A job, an array or a subjob.
pub fn job(job: &JobView) -> Value {
    let record = &job.record.job;
    let (spec, life) = (&record.spec, &record.life);
    json!({
        "id": record.id.full(&job.server.name),
        "name": spec.name,
        "user": record.owner.user,
        "queue": spec.queue,
        "project": spec.project,
        "account": spec.account,
        "priority": spec.priority,
        "tags": job.tags(),
        "state": job.status().word(),
        "detail": job.detail(),
        "submitted": time(job.submitted()),
        "started": job.started().map(time),
        "ended": job.ended().map(time),
        "waited_seconds": seconds(job.waited()),
        "elapsed_seconds": job.elapsed().map(seconds),
        "exit_status": job.exit_status(),
        "exit_text": job.exit_status().map(status::exit_text),
        "deleted_by": match &life.want {
            Want::Gone(by) => Some(by),
            _ => None,
        },
        "requested": {
            "cpus": job.processors(),
            "mem_bytes": job.requested("mem").and_then(ResourceValue::amount),
            "gpus": job.requested("ngpus").and_then(ResourceValue::amount).unwrap_or(0),
            "walltime_seconds": job.walltime().map(seconds),
        },
        "used": {
            "walltime_seconds": seconds(life.used.walltime),
            "cpu_seconds": seconds(life.used.cput),
            "mem_bytes": life.used.mem_kb.saturating_mul(1024),
        },
        "nodes": job.nodes(),
        "starts": life.run_count,
        "array": job.counts().map(|counts| json!({
            "total": counts.total,
            "waiting": counts.waiting,
            "running": counts.running,
            "done": counts.done,
            "failed": counts.failed,
            "deleted": counts.deleted,
        })),
        "command": job.command(),
        "working_directory": String::from_utf8_lossy(&spec.workdir.0),
        "submit_host": spec.submit_host,
    })
}

/// A document of kind `jobs`.
pub fn jobs(jobs: &[JobView], server: &ServerFacts, now: Wall) -> String {
    let jobs: Vec<Value> = jobs.iter().map(job).collect();
    document("jobs", server, now, json!({ "jobs": jobs }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, finished, queued, running, share};

    #[test]
    fn every_state_has_the_same_keys() {
        let server = example::server();
        let keys = |record: &crate::wire::message::JobRecord| -> Vec<String> {
            let view = JobView {
                record,
                server: &server,
                now: example::NOW,
            };
            let Value::Object(object) = job(&view) else {
                unreachable!()
            };
            object.keys().cloned().collect()
        };
        let waits = queued(1, "a", "");
        let runs = running(waits.clone(), vec![share(1, None)]);
        assert_eq!(keys(&waits), keys(&runs));
        assert_eq!(keys(&waits), keys(&finished(runs, 3, false)));
    }

    #[test]
    fn times_have_the_format_of_rfc_3339() {
        let text = time(Wall(0));
        let parsed = chrono::DateTime::parse_from_rfc3339(text.as_str().unwrap());
        assert_eq!(parsed.unwrap().timestamp(), 0);
        assert_eq!(time(Wall(i64::MAX)), Value::Null);
    }
}
