//! Lines of schedd's log about jobs, nodes and requests of operators. The server collects the lines
//! of a transaction; schedd writes them after the commit, so that the log contains only changes
//! that are stored.

use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::server::caller::Caller;
use crate::server::charging;
use crate::server::state::ServerState;
use crate::wire::message::ClientRequest;
use crate::wire::message::Placing;
use crate::wire::message::QtermMode;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Whether the line is a warning.
    pub warns: bool,
    /// The text, without a line end.
    pub text: String,
}

impl LogLine {
    /// A line at level info.
    pub fn info(text: String) -> LogLine {
        LogLine { warns: false, text }
    }

    /// A line at level warn.
    pub fn warning(text: String) -> LogLine {
        LogLine { warns: true, text }
    }
}

/// A job before an event, as far as the log needs it.
#[derive(Clone, Copy)]
pub struct JobBefore {
    state: JobState,
    has_script: bool,
}

impl JobBefore {
    /// The state of a job before an event is applied.
    pub fn of(job: &Job) -> JobBefore {
        JobBefore {
            state: job.life.state,
            has_script: job.life.open_run().is_some_and(Run::has_script),
        }
    }
}

/// The line about an event that started, requeued or ended a job; None for other events. `job` is
/// the job after the event.
pub fn job_line(server: &str, before: JobBefore, job: &Job, event: &Event) -> Option<LogLine> {
    let was_finished = before.state == JobState::Finished;
    let is_finished = job.life.state == JobState::Finished;
    let has_script = job.life.open_run().is_some_and(Run::has_script);
    let what = match event {
        Event::Started { .. } => "started",
        _ if is_finished && !was_finished => "ended",
        _ if before.has_script && !has_script && !was_finished => "requeued",
        _ => return None,
    };
    let spec = &job.spec;
    let mut text = format!(
        "job {} {what}: user {}, queue {}",
        job.id.full(server),
        job.owner.user,
        spec.queue
    );
    let run = job.life.run.as_ref();
    if let Some(run) = run.filter(|_| before.has_script || what == "started") {
        text.push_str(&format!(", nodes {}", node_list(run)));
    }
    if what == "started" {
        text.push_str(&format!(", attempt {}", job.life.attempt));
        return Some(LogLine::info(text));
    }
    if let Some(exit) = job.life.exit.filter(|_| is_finished) {
        text.push_str(&format!(", exit status {}", exit.status));
    }
    if before.has_script {
        let elapsed = charging::lasted(job, Some(event));
        text.push_str(&format!(", elapsed {elapsed}"));
    }
    if let (true, Want::Gone(by)) = (is_finished, &job.life.want) {
        text.push_str(&format!(", deleted at request of {by}"));
    }
    Some(LogLine::info(text))
}

/// Number of nodes that a line names. The line of a larger job has the number of further nodes.
const MAX_NODES: usize = 4;

/// The nodes of an attempt, joined by `+`, such as `n1+n2` or `n1+n2+n3+n4 and 96 more`.
fn node_list(run: &Run) -> String {
    let mut nodes: Vec<&str> = Vec::new();
    let mut last = "";
    let mut more = 0;
    for share in &run.shares {
        if share.node == last {
            continue;
        }
        last = &share.node;
        if nodes.len() < MAX_NODES {
            nodes.push(last);
        } else {
            more += 1;
        }
    }
    let nodes = nodes.join("+");
    if more == 0 {
        nodes
    } else {
        format!("{nodes} and {more} more")
    }
}

/// The line about a change of a node by `by`; None if neither state nor comment has changed.
/// Comments are quoted, because they can contain any character.
pub fn mark_line(before: &Node, after: &Node, by: &str) -> Option<LogLine> {
    let mut changes = Vec::new();
    if before.offline != after.offline {
        changes.push(if after.offline { "offline" } else { "online" }.to_string());
    }
    if before.comment != after.comment {
        changes.push(match &after.comment {
            Some(comment) => format!("comment {comment:?}"),
            None => "comment removed".to_string(),
        });
    }
    let name = &after.facts.name;
    let line = || {
        LogLine::info(format!(
            "node {name}: {}, at request of {by}",
            changes.join(", ")
        ))
    };
    (!changes.is_empty()).then(line)
}

/// The line about a request that an operator sent, if it is not about a job of the operator. None
/// for other requests, and for requests with lines of their own, such as those of qmgr and
/// pbsnodes. Must be called before the request is applied, because the job may be removed.
pub fn request_line(
    server: &ServerState,
    caller: &Caller,
    request: &ClientRequest,
) -> Option<LogLine> {
    if !caller.privileged {
        return None;
    }
    let by = caller.shown();
    let (command, id) = match request {
        ClientRequest::Terminate { manner, nodes } => {
            let nodes = if *nodes { " -m" } else { "" };
            return Some(LogLine::info(format!(
                "qterm -t {}{nodes} at request of {by}",
                qterm_word(*manner)
            )));
        }
        ClientRequest::Run { job, on, .. } => {
            let nodes = match on {
                Placing::On(nodes) => format!(" -H {}", nodes.join("+")),
                Placing::Anywhere | Placing::Again => String::new(),
            };
            let owner = owner_of(server, *job)?;
            let job = job.full(&server.setup.name);
            return Some(LogLine::info(format!(
                "qrun{nodes} of job {job} (owner {owner}) at request of {by}"
            )));
        }
        other => job_command(other)?,
    };
    let job = server.known(id)?;
    if caller.owner.is_same_account(&job.owner) {
        return None;
    }
    Some(LogLine::info(format!(
        "{command} of job {} (owner {}) at request of {by}",
        id.full(&server.setup.name),
        job.owner.user
    )))
}

fn owner_of(server: &ServerState, id: JobId) -> Option<String> {
    Some(server.known(id)?.owner.user.clone())
}

fn qterm_word(manner: QtermMode) -> &'static str {
    match manner {
        QtermMode::Quick => "quick",
        QtermMode::Delay => "delay",
        QtermMode::Immediate => "immediate",
    }
}

/// The command that sends a request about one job, and the job; None for other requests.
fn job_command(request: &ClientRequest) -> Option<(String, JobId)> {
    let (command, id) = match request {
        ClientRequest::Alter(id, _) => ("qalter", *id),
        ClientRequest::Hold(id, _) => ("qhold", *id),
        ClientRequest::Release(id, _) => ("qrls", *id),
        ClientRequest::Delete { job, force, .. } if *force => ("qdel -W force", *job),
        ClientRequest::Delete { job, .. } => ("qdel", *job),
        ClientRequest::Rerun { job, .. } => ("qrerun", *job),
        ClientRequest::RerunFailed(id) => ("qrerun --failed", *id),
        ClientRequest::Retry { job, .. } => ("qalter --retry", *job),
        ClientRequest::Signal { job, signal, .. } => {
            return Some((format!("qsig -s {signal:?}"), *job));
        }
        ClientRequest::Move(id, to) => return Some((format!("qmove {to:?}"), *id)),
        ClientRequest::Swap(id, _) => ("qorder", *id),
        ClientRequest::Message { job, .. } => ("qmsg", *job),
        ClientRequest::Shove(id) => ("qalter --shove", *id),
        ClientRequest::ReleaseNodes(id, _) => ("pbs_release_nodes", *id),
        _ => return None,
    };
    Some((command.to_string(), id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::{AttemptOutcome, How, Usage};
    use crate::model::node::NodeFacts;
    use crate::model::time::{Span, Time};
    use crate::sched::fixture;

    fn job() -> Job {
        fixture::cluster("2 x ncpus=2").job(1, "select=2:ncpus=1")
    }

    /// The text of the line about `event`, after the part about the user and the queue.
    fn apply(job: &mut Job, event: Event) -> Option<String> {
        let before = JobBefore::of(job);
        job.apply(&event, fixture::moment(5));
        let (user, queue) = (job.owner.user.clone(), job.spec.queue.clone());
        let line = job_line("head", before, job, &event)?;
        assert!(!line.warns);
        let who = format!(": user {user}, queue {queue}");
        assert!(line.text.contains(&who), "{}", line.text);
        Some(line.text.replace(&who, ""))
    }

    fn started(nodes: &[&str]) -> Event {
        Event::Started {
            attempt: 1,
            shares: nodes.iter().map(|node| fixture::share(node)).collect(),
            score: None,
            extra: false,
        }
    }

    fn ended(how: How) -> Event {
        let used = Usage {
            walltime: Span::seconds(83),
            ..Usage::default()
        };
        let outcome = AttemptOutcome {
            how,
            sent: None,
            used,
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        Event::Ended {
            attempt: 1,
            outcome,
        }
    }

    #[test]
    fn starts_and_ends_of_jobs_have_lines() {
        let mut job = job();
        assert_eq!(apply(&mut job, Event::Submitted), None);
        let line = apply(&mut job, started(&["n1", "n1", "n2"]));
        assert_eq!(
            line.as_deref(),
            Some("job 1.head started, nodes n1+n2, attempt 1")
        );
        let launched = Event::Launched {
            attempt: 1,
            session: 4,
            boot: "b".into(),
        };
        assert_eq!(apply(&mut job, launched), None);
        let line = apply(&mut job, ended(How::Exited(3)));
        assert_eq!(
            line.as_deref(),
            Some("job 1.head ended, nodes n1+n2, exit status 3, elapsed 00:01:23")
        );
        assert_eq!(apply(&mut job, ended(How::Exited(3))), None, "only once");
    }

    #[test]
    fn requeued_and_deleted_jobs_have_lines() {
        let mut job = job();
        apply(&mut job, Event::Submitted);
        apply(&mut job, started(&["n1"]));
        let by = "ann@head".to_string();
        assert_eq!(apply(&mut job, Event::RerunWanted { by: by.clone() }), None);
        let line = apply(&mut job, ended(How::Exited(1)));
        assert_eq!(
            line.as_deref(),
            Some("job 1.head requeued, nodes n1, elapsed 00:01:23")
        );
        let line = apply(&mut job, Event::DeleteWanted { by, force: false });
        assert_eq!(
            line.as_deref(),
            Some("job 1.head ended, exit status 271, deleted at request of ann@head")
        );
    }

    #[test]
    fn lines_of_large_jobs_are_short() {
        let mut job = job();
        apply(&mut job, Event::Submitted);
        let line = apply(&mut job, started(&["a", "b", "c", "d", "e", "f"])).unwrap();
        assert!(line.contains(", nodes a+b+c+d and 2 more, "), "{line}");
    }

    #[test]
    fn changes_of_nodes_have_lines_with_the_user() {
        let facts = NodeFacts {
            name: "n1".into(),
            ..NodeFacts::default()
        };
        let online = Node::new(facts, "b".into(), Time(0));
        let offline = Node {
            offline: true,
            comment: Some("fans\nnode n2: up".into()),
            ..online.clone()
        };
        let text = |before: &Node, after: &Node| {
            mark_line(before, after, "ann@head").map(|line| line.text)
        };
        assert_eq!(
            text(&online, &offline).as_deref(),
            Some(r#"node n1: offline, comment "fans\nnode n2: up", at request of ann@head"#),
            "a comment has no line end of its own"
        );
        assert_eq!(
            text(&offline, &online).as_deref(),
            Some("node n1: online, comment removed, at request of ann@head")
        );
        assert_eq!(text(&online, &online), None);
    }
}
