//! The input of the site's programs that run before and after a job: JSON for hooks, and arguments
//! for prologue and epilogue.

use super::super::variables::parse_environ;
use super::{JobHookRunner, status};
use crate::model::hook::{Hook, HookEvent};
use crate::model::job::{AttemptOutcome, Usage};
use crate::sys::user;
use crate::wire::order::Launch;
use serde_json::{Map, Value, json};

impl JobHookRunner<'_> {
    /// The JSON input of a hook. `ended` is the job's outcome; None for a hook that runs before the
    /// job.
    pub(super) fn document(
        &self,
        hook: &Hook,
        event: HookEvent,
        launch: &Launch,
        ended: Option<&AttemptOutcome>,
    ) -> Vec<u8> {
        let mut job = self.job();
        let mut variables = Map::new();
        for (name, value) in parse_environ(&launch.environ) {
            let value = String::from_utf8_lossy(&value);
            variables.insert(String::from_utf8_lossy(&name).into(), value.into());
        }
        job.insert("Variable_List".into(), Value::Object(variables));
        if let Some(outcome) = ended {
            job.extend(status(outcome).map(|status| ("Exit_status".into(), status.into())));
            job.extend(
                self.session()
                    .map(|session| ("session_id".into(), session.into())),
            );
            if outcome.how.ran() {
                let used = used(&outcome.used)
                    .into_iter()
                    .map(|(name, value)| (name.to_string(), value));
                job.insert("resources_used".into(), Value::Object(used.collect()));
            }
        }
        let document = json!({
            "event": event.name(),
            "hook": hook.name,
            "server": self.job_hooks.server,
            "requestor": "noded",
            "requestor_host": self.site.host,
            "attempt": launch.attempt,
            "job": job,
        });
        document.to_string().into_bytes()
    }

    fn job(&self) -> Map<String, Value> {
        serde_json::from_str(&self.job_hooks.job).unwrap_or_default()
    }

    fn session(&self) -> Option<u32> {
        self.folder
            .trace()
            .ok()
            .flatten()
            .and_then(|trace| trace.session())
    }

    /// TORQUE's prologue arguments: job, user, group, name, limits, queue, account. PBS passes only
    /// the first three.
    pub(super) fn prologue_arguments(&self, launch: &Launch) -> Vec<String> {
        let [job, user, group] = self.attempt_data(launch);
        vec![
            job,
            user,
            group,
            launch.name.clone(),
            self.limits(),
            launch.queue.clone(),
            account(launch),
        ]
    }

    /// PBS's epilogue arguments: job, user, group, name, session, limits, used, queue, account,
    /// exit status.
    pub(super) fn epilogue_arguments(
        &self,
        launch: &Launch,
        outcome: &AttemptOutcome,
    ) -> Vec<String> {
        let [job, user, group] = self.attempt_data(launch);
        let session = self
            .session()
            .map_or(String::new(), |session| session.to_string());
        let used = joined(used(&outcome.used));
        let status = status(outcome).map_or(String::new(), |status| status.to_string());
        let (name, queue) = (launch.name.clone(), launch.queue.clone());
        vec![
            job,
            user,
            group,
            name,
            session,
            self.limits(),
            used,
            queue,
            account(launch),
            status,
        ]
    }

    fn attempt_data(&self, launch: &Launch) -> [String; 3] {
        [
            launch.full_id.clone(),
            self.account.name.clone(),
            user::group_name(self.account.gid),
        ]
    }

    fn limits(&self) -> String {
        let job = self.job();
        let list = job
            .get("Resource_List")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        joined(list)
    }
}

fn account(launch: &Launch) -> String {
    launch.account.clone().unwrap_or_default()
}

/// The usage as `qstat -f` shows it.
fn used(used: &Usage) -> [(&'static str, Value); 6] {
    [
        ("cpupercent", used.cpupercent().into()),
        ("cput", used.cput.to_string().into()),
        ("mem", format!("{}kb", used.mem_kb).into()),
        ("ncpus", used.ncpus.into()),
        ("vmem", format!("{}kb", used.vmem_kb).into()),
        ("walltime", used.walltime.to_string().into()),
    ]
}

/// The list as text: `cput=00:00:01,ncpus=2`.
fn joined<N: AsRef<str>>(list: impl IntoIterator<Item = (N, Value)>) -> String {
    let mut pairs = Vec::new();
    for (name, value) in list {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        pairs.push(format!("{}={text}", name.as_ref()));
    }
    pairs.join(",")
}
