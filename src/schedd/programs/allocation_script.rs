//! Runs the site's allocation script, which ranks nodes for jobs (M8i). Each query is a process of
//! its own. At most [`MAX_RUNNING`] queries run at once, each with a time limit. The event loop
//! does not wait for them.
//!
//! The script reads the job and the candidate nodes as JSON, and writes names of candidates, the
//! best first. After an error, such as a timeout or an unknown name, the job is placed without the
//! script, and the error is logged. After a timeout the script is not run for a while; during this
//! time, jobs without an answer are placed without it.

use crate::model::job::Job;
use crate::model::policy::PlacementPolicy;
use crate::model::resource::{ResourceList, ResourceValue};
use crate::model::time::Span;
use crate::sched::view::snapshot::ClassId;
use crate::server::state::ServerState;
use crate::sys::program::{OutputMode, ProgramCall, ProgramFault, ProgramPool, ProgramResult};
use serde_json::{Map, json};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Maximum number of simultaneous queries.
const MAX_RUNNING: usize = 4;
/// Default time limit of a query.
const DEFAULT_TIMEOUT: Span = Span::seconds(5);
/// How long the script is not run after a timeout.
const TIMEOUT_PAUSE: Span = Span::seconds(60);

/// The running and waiting queries of the allocation script.
#[derive(Debug)]
pub struct AllocationScript {
    program: Option<PathBuf>,
    timeout: Span,
    /// The queries that run: classes of equal waiting jobs, each with its candidate nodes.
    running_queries: ProgramPool<(ClassId, Vec<String>)>,
    /// The job classes with a waiting query.
    waiting: VecDeque<ClassId>,
    paused_until: Option<Span>,
}

impl AllocationScript {
    /// Starts without queries. Without a script in the policy, no query is ever queued.
    pub fn new(placement: &PlacementPolicy) -> AllocationScript {
        let timeout = placement.program_timeout.unwrap_or(DEFAULT_TIMEOUT);
        AllocationScript {
            program: placement.program.clone(),
            timeout,
            running_queries: ProgramPool::new(MAX_RUNNING),
            waiting: VecDeque::new(),
            paused_until: None,
        }
    }

    /// The descriptors that become readable when the script has output.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running_queries.watched()
    }

    /// When the first query exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        self.running_queries.next()
    }

    /// Queues a query for each job class that needs the script and has no answer, and starts queued
    /// queries. The jobs of the class wait for the answer.
    pub fn ask(&mut self, server: &mut ServerState, now: Span) {
        if self.program.is_none() {
            return;
        }
        for class in server.cluster().without_answer(&server.setup.policy) {
            server.note_script_called(class);
            let is_running = self
                .running_queries
                .tasks()
                .any(|(running, _)| *running == class);
            if !is_running && !self.waiting.contains(&class) {
                self.waiting.push_back(class);
            }
        }
        self.start_waiting(server, now);
    }

    /// Starts queued queries, up to the limit. A query that cannot be started, is not needed any
    /// more, or is due during a pause counts as answered without nodes.
    fn start_waiting(&mut self, server: &mut ServerState, now: Span) {
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        while is_paused || self.running_queries.has_room() {
            let Some(class) = self.waiting.pop_front() else {
                return;
            };
            if is_paused || !server.cluster().is_awaited(class) || !self.begin(server, class, now) {
                server.note_answer(class, None);
            }
        }
    }

    /// Starts a query. Returns false if the script cannot be started, no job of the class is left,
    /// or fewer than two nodes are candidates.
    fn begin(&mut self, server: &ServerState, class: ClassId, now: Span) -> bool {
        let candidates: Vec<String> = server
            .cluster()
            .candidates(class)
            .into_iter()
            .map(String::from)
            .collect();
        let first = server
            .cluster()
            .jobs_in(class)
            .next()
            .and_then(|id| server.job(id));
        let (Some(program), Some(job)) = (&self.program, first) else {
            return false;
        };
        if candidates.len() < 2 {
            return false;
        }
        let question = question(server, job, &candidates).to_string();
        let words = [program.display().to_string()];
        let call = ProgramCall {
            input: question.as_bytes(),
            output: OutputMode::UntilClosed,
            ..ProgramCall::new(&words, self.timeout)
        };
        match call.start(now) {
            Ok(running) => {
                self.running_queries.add((class, candidates), None, running);
                true
            }
            Err(error) => {
                tracing::warn!(
                    "cannot run {} for job {}: {error}",
                    program.display(),
                    job.id
                );
                false
            }
        }
    }

    /// Handles the output of finished queries, kills queries that exceed the time limit, and starts
    /// queued queries.
    pub fn poll(&mut self, server: &mut ServerState, now: Span) {
        let finished = self.running_queries.finished(now);
        if finished.is_empty() {
            return;
        }
        for ((class, candidates), result) in finished {
            if matches!(result.exit, Err(ProgramFault::Late(_))) {
                self.paused_until = Some(now + TIMEOUT_PAUSE);
            }
            self.record_answer(server, class, answer(result, &candidates));
        }
        self.start_waiting(server, now);
    }

    fn record_answer(
        &self,
        server: &mut ServerState,
        class: ClassId,
        answer: Result<Vec<String>, String>,
    ) {
        if let (Err(why), Some(program)) = (&answer, &self.program) {
            let job = server.cluster().jobs_in(class).next();
            let of = job.map_or(String::new(), |job| format!(" for job {job}"));
            tracing::warn!("{} selected no nodes{of}: {why}", program.display());
        }
        server.note_answer(class, answer.ok());
    }

    /// Kills all running queries.
    pub fn shut_down(&mut self) {
        self.running_queries.stop(|_| true);
    }
}

/// The nodes that the script has selected, or why the script failed.
fn answer(result: ProgramResult, candidates: &[String]) -> Result<Vec<String>, String> {
    match result.exit {
        Ok(exit) => parse_names(&exit.text, candidates),
        Err(ProgramFault::Late(_)) => Err(format!(
            "the script took too long and is not run again for {} s",
            TIMEOUT_PAUSE.as_seconds()
        )),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The names in the output, in order. Fails without names, or if a name is not a candidate.
fn parse_names(output: &str, candidates: &[String]) -> Result<Vec<String>, String> {
    let names: Vec<String> = output.split_whitespace().map(String::from).collect();
    match names.iter().find(|name| !candidates.contains(name)) {
        Some(unknown) => Err(format!(
            "`{}` is not a candidate node",
            unknown.escape_debug()
        )),
        None if names.is_empty() => Err("the script named no node".to_string()),
        None => Ok(names),
    }
}

/// The input of the script: the first job of the class and the candidate nodes.
fn question(server: &ServerState, job: &Job, candidates: &[String]) -> serde_json::Value {
    let spec = &job.spec;
    let nodes = candidates.iter().filter_map(|name| {
        let (facts, assigned) = (&server.node(name)?.facts, server.cluster().assigned(name));
        Some(json!({
            "name": name,
            "host": facts.host,
            "resources_available": plain(&facts.available),
            "resources_assigned": plain(&assigned.taken),
            "jobs": assigned.jobs.len(),
            "load": f64::from(facts.load) / 1000.0,
        }))
    });
    json!({
        "job": {
            "id": job.id.full(&server.setup.name),
            "user": job.owner.user,
            "project": spec.project,
            "account": spec.account,
            "qos": spec.qos,
            "queue": spec.queue,
            "Resource_List": plain(&spec.request.list),
        },
        "nodes": nodes.collect::<Vec<_>>(),
    })
}

fn plain(list: &ResourceList) -> Map<String, serde_json::Value> {
    let mut map = Map::new();
    for (name, value) in list {
        let value = match value {
            ResourceValue::Long(number) => json!(number),
            ResourceValue::Float(number) => json!(number),
            ResourceValue::Boolean(is_set) => json!(is_set),
            other => json!(other.to_string()),
        };
        map.insert(name.clone(), value);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::parse_names;

    #[test]
    fn m8i_an_answer_without_names_or_with_unknown_names_is_invalid() {
        let candidates = ["n1", "n2"].map(String::from);
        assert_eq!(
            parse_names("n2\nn1\n", &candidates),
            Ok(vec!["n2".to_string(), "n1".to_string()])
        );
        assert_eq!(parse_names("n2", &candidates), Ok(vec!["n2".to_string()]));
        assert_eq!(
            parse_names("n2 nX", &candidates),
            Err("`nX` is not a candidate node".to_string())
        );
        assert!(parse_names(" \n", &candidates).is_err());
    }
}
