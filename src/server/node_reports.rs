//! Node reports and their effects on jobs.

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::event::Event;
use crate::model::job::preemption::job_list_text;
use crate::model::job::run_limits::TimeLimits;
use crate::model::job::state::JobState;
use crate::model::job::task::TaskName;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::node::NodeFacts;
use crate::model::time::Span;
use crate::server::inventory::Inventory;
use crate::server::log_lines::LogLine;
use crate::server::release_nodes;
use crate::server::state::ServerState;
use crate::server::suspension;
use crate::server::tasks;
use crate::server::tasks::cancellation;
use crate::wire::order::AttemptStatus;
use crate::wire::order::ScheddOrder;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Handles an inventory: marks the listed nodes as up, applies the status of each listed script,
/// and handles scripts that these nodes should run but that are missing in the inventory.
/// `report_dispatch` handles the tasks.
pub fn apply_inventory(
    server: &mut ServerState,
    inventory: &Inventory,
    orders: &mut Vec<ScheddOrder>,
) {
    for facts in &inventory.nodes {
        node_up(server, facts, inventory);
    }
    for (job, attempt, _, status) in inventory
        .attempts
        .iter()
        .filter(|(_, _, task, _)| *task == 0)
    {
        handle_attempt(server, *job, *attempt, status, &inventory.boot, orders);
    }
    lose_missing(server, inventory);
}

/// Handles the attempts with a script that a noded should run but does not list in its inventory.
pub fn lose_missing(server: &mut ServerState, inventory: &Inventory) {
    let scripts = inventory
        .attempts
        .iter()
        .filter(|(_, _, task, _)| *task == 0);
    let known: BTreeSet<(JobId, Attempt)> = scripts.map(|known| (known.0, known.1)).collect();
    for job in running_on(server, |node| inventory.presents(node)) {
        if let Some(run) = job.life.open_run()
            && !known.contains(&(job.id, run.attempt))
        {
            not_in_inventory(server, &job, run, &inventory.boot);
        }
    }
}

/// Why a noded is not admitted; None if it is admitted. A noded is refused if its nodes may still
/// run jobs that are recorded in another state directory, because the noded cannot report on these
/// jobs. This happens if the host was reinstalled, or if two hosts use the same node name.
pub fn refusal(server: &ServerState, nodes: &[NodeFacts], directory: &str) -> Option<String> {
    let names: BTreeSet<&str> = nodes.iter().map(|facts| facts.name.as_str()).collect();
    let of_others: Vec<(&Job, &str, &str)> = server
        .holders()
        .filter_map(|job| {
            let mut places = places(server, job).into_iter();
            let (node, own) =
                places.find(|(node, own)| names.contains(node) && *own != directory)?;
            Some((&**job, node, own))
        })
        .collect();
    let &(_, node, own) = of_others.first()?;
    let ids: Vec<JobId> = of_others.iter().map(|(job, ..)| job.id).collect();
    let jobs = job_list_text(&ids, |job| job.full(&server.setup.name));
    let short = |identity: &str| identity.chars().take(8).collect::<String>();
    Some(format!(
        "refused a noded with state directory identity {}: {jobs} may still be running under the \
         noded with state directory identity {}; start noded with the latter directory, or, if the \
         host will not return, run pbsnodes --gone {node}",
        short(directory),
        short(own)
    ))
}

/// The nodes where processes of a job may run, each with the state directory that records the
/// processes. Nodes without a known directory are left out.
fn places<'a>(server: &'a ServerState, job: &'a Job) -> Vec<(&'a str, &'a str)> {
    let Some(run) = job.life.open_run() else {
        return Vec::new();
    };
    let last = |node: &str| server.node(node).and_then(|node| node.directory.as_deref());
    let script = job
        .script_node()
        .and_then(|node| Some((node, run.directory.as_deref().or_else(|| last(node))?)));
    let tasks = run
        .tasks()
        .open()
        .filter_map(|(number, _)| run.share_of_task(number));
    let tasks = tasks.filter_map(|share| Some((share.node.as_str(), last(&share.node)?)));
    script.into_iter().chain(tasks).collect()
}

/// Whether a state directory records a task. Also true if the task's attempt is not open, or if no
/// directory is known.
pub fn belongs_to(server: &ServerState, name: TaskName, directory: &str) -> bool {
    let Some(job) = server.job(name.job) else {
        return true;
    };
    let Some(run) = job
        .life
        .open_run()
        .filter(|run| run.attempt == name.attempt)
    else {
        return true;
    };
    let Some(node) = tasks::node_of(job, name.attempt, name.task) else {
        return true;
    };
    let own = match run.directory.as_deref() {
        Some(own) if name.task == 0 => Some(own),
        _ => server.node(node).and_then(|node| node.directory.as_deref()),
    };
    own.is_none_or(|own| own == directory)
}

/// Records why a noded was refused. Orders this noded to end a script or task if its attempt is not
/// open, or if another state directory records it, because the job may run on another node by now.
pub fn refuse(
    server: &mut ServerState,
    inventory: &Inventory,
    why: &str,
    orders: &mut Vec<ScheddOrder>,
) {
    for name in inventory.nodes.iter().map(|facts| &facts.name) {
        let Some(node) = server.node(name).cloned() else {
            continue;
        };
        if node.refused.is_none() {
            tracing::warn!("node {name}: {why}");
        }
        server.set_node(Node {
            refused: Some(why.to_string()),
            ..node
        });
    }
    for &(job, attempt, task, ref status) in &inventory.attempts {
        let open = server
            .job(job)
            .and_then(|job| job.life.open_run())
            .is_some_and(|run| run.attempt == attempt);
        let is_own = open
            && belongs_to(
                server,
                TaskName { job, attempt, task },
                &inventory.directory,
            );
        if !is_own && !matches!(status, AttemptStatus::Ended(_)) {
            let order = if task == 0 {
                abandon(server, job, attempt)
            } else {
                cancellation::cancel(server, job, attempt, task)
            };
            orders.push(order);
        }
    }
}

/// The order to end an attempt that schedd has given up or does not know.
fn abandon(server: &ServerState, job: JobId, attempt: Attempt) -> ScheddOrder {
    let grace = server.setup.config.launch.grace;
    // A later attempt may be writing to the same files.
    let again = server
        .job(job)
        .is_some_and(|job| job.life.state != JobState::Finished);
    ScheddOrder::Cancel {
        job,
        attempt,
        task: 0,
        grace,
        signal: None,
        again,
    }
}

/// Handles an open attempt that an inventory does not list. If the node never reported the
/// attempt's launch, schedd sends the start order again; otherwise the attempt is lost.
fn not_in_inventory(server: &mut ServerState, job: &Job, run: &Run, boot: &str) {
    if run.session.is_none() {
        return;
    }
    let why = if run.boot.as_deref() == Some(boot) {
        "the node has no record of the attempt"
    } else {
        "the node was rebooted"
    };
    server.apply_event(
        job.id,
        Event::Vanished {
            attempt: run.attempt,
            why: why.to_string(),
        },
    );
}

/// The jobs that run their script on a node for which `here` is true.
pub fn running_on(server: &ServerState, here: impl Fn(&str) -> bool) -> Vec<Arc<Job>> {
    let runs_here = |job: &&Arc<Job>| job.script_node().is_some_and(&here);
    server.holders().filter(runs_here).cloned().collect()
}

/// Whether the node that runs a job's script is up. Callers check this before they send an order
/// that schedd does not repeat.
pub fn is_node_up(server: &ServerState, id: JobId) -> bool {
    let node = server
        .job(id)
        .and_then(|job| server.node(job.script_node()?));
    node.is_some_and(|node| node.up)
}

/// Handles a node's report on one attempt.
pub fn handle_attempt(
    server: &mut ServerState,
    id: JobId,
    attempt: Attempt,
    status: &AttemptStatus,
    boot: &str,
    orders: &mut Vec<ScheddOrder>,
) {
    let open = server
        .job(id)
        .and_then(|job| job.life.open_run())
        .filter(|run| run.attempt == attempt && run.has_script());
    let open = open.cloned();
    match (status, open) {
        (AttemptStatus::Ended(outcome), open) => {
            if open.is_some() {
                server.apply_event(
                    id,
                    Event::Ended {
                        attempt,
                        outcome: outcome.clone(),
                    },
                );
            }
            orders.push(ScheddOrder::Confirm {
                job: id,
                attempt,
                task: 0,
            });
        }
        (AttemptStatus::Running(session) | AttemptStatus::Suspended(session), Some(run))
            if run.session.is_none() =>
        {
            server.apply_event(
                id,
                Event::Launched {
                    attempt,
                    session: *session,
                    boot: boot.to_string(),
                },
            );
        }
        // An unknown or abandoned attempt must end.
        (_, None) => orders.push(abandon(server, id, attempt)),
        (AttemptStatus::Running(_) | AttemptStatus::Suspended(_), Some(run)) => {
            if run.silent {
                server.apply_event(id, Event::ContactRegained);
            }
            let times = server
                .job(id)
                .map(|job| TimeLimits::of(&job.spec))
                .unwrap_or_default();
            orders.push(ScheddOrder::Walltime {
                job: id,
                attempt,
                times,
            });
            orders.extend(
                server
                    .job(id)
                    .and_then(|job| release_nodes::node_file_order(job, 0)),
            );
            suspension::handle_part(
                server,
                TaskName {
                    job: id,
                    attempt,
                    task: 0,
                },
                status,
                orders,
            );
        }
        (AttemptStatus::Starting, Some(_)) => {}
    }
}

/// Handles the facts of a node that responds.
fn node_up(server: &mut ServerState, facts: &NodeFacts, inventory: &Inventory) {
    server.note_reported_facts(facts);
    let facts = server.setup.configured_facts(facts);
    let (boot, now) = (inventory.boot.clone(), server.now);
    let known = server.node(&facts.name).cloned();
    if known.as_ref().is_none_or(|node| !node.up) {
        let line = LogLine::info(format!("node {}: up", facts.name));
        server.log(Some(line));
    }
    let node = known.unwrap_or_else(|| Node::new(facts.clone(), boot.clone(), now));
    server.set_node(Node {
        facts,
        changed: if node.up { node.changed } else { now },
        up: true,
        boot,
        directory: Some(inventory.directory.clone()),
        refused: None,
        ..node
    });
}

/// Handles changed facts of a node that is up.
pub fn node_changed(server: &mut ServerState, facts: &NodeFacts) {
    if let Some(node) = server.node(&facts.name).filter(|node| node.up).cloned() {
        server.note_reported_facts(facts);
        let facts = server.setup.configured_facts(facts);
        if facts.as_measured_in(&node.facts) == node.facts {
            server.measure(&node.facts.name, facts)
        } else {
            server.set_node(Node { facts, ..node })
        }
    }
}

/// Sets nodes offline after the failure of a hook with a `fail_action` that requires this.
pub fn set_offline(server: &mut ServerState, nodes: &[String], why: &str) {
    let now = server.now;
    // An offline node keeps its earlier comment.
    let serve = nodes
        .iter()
        .filter_map(|name| server.node(name))
        .filter(|node| !node.offline);
    for node in serve.cloned().collect::<Vec<_>>() {
        let line = format!("node {}: offline, because {why}", node.facts.name);
        server.log(Some(LogLine::warning(line)));
        server.set_node(Node {
            offline: true,
            comment: Some(why.to_string()),
            changed: now,
            ..node
        });
    }
}

/// When a node has been down for this time, its jobs are marked as out of contact.
const CONTACT_LOST_AFTER: Span = Span::seconds(5);

/// Marks jobs as out of contact if their node has been down for `CONTACT_LOST_AFTER`.
pub fn mark_lost_contacts(server: &mut ServerState) {
    let now = server.now;
    let silent = server
        .nodes()
        .filter(|node| !node.up && now.since(node.changed) >= CONTACT_LOST_AFTER);
    let silent: Vec<String> = silent.map(|node| node.facts.name.clone()).collect();
    for node in silent {
        lose_contact(server, &node);
    }
}

/// Marks the jobs of an unresponsive node as out of contact.
pub fn lose_contact(server: &mut ServerState, node: &str) {
    let mut jobs = running_on(server, |name| name == node);
    let tasks = tasks::running_on(server, |name| name == node).into_iter();
    jobs.extend(tasks.filter(|job| job.life.state.is_under_way()));
    for job in jobs {
        let run = server.job(job.id).and_then(|job| job.life.open_run());
        if run.is_some_and(|run| !run.silent) {
            let node = node.to_string();
            server.apply_event(job.id, Event::ContactLost { node });
        }
    }
}

/// Marks a node as down. The node's jobs keep their state until the node responds again.
pub fn node_down(server: &mut ServerState, name: &str) {
    let now = server.now;
    if let Some(node) = server.node(name).filter(|node| node.up).cloned() {
        server.log(Some(LogLine::warning(format!("node {name}: down"))));
        server.set_node(Node {
            up: false,
            changed: now,
            ..node
        });
    }
}
