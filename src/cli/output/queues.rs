//! `qstat -Q`, `-q` and `-B`: queues and the server, as lists and as attributes.

use super::job_list::cut;
use super::objects::Objects;
use crate::cli::output::table::FixedColumn::{self, Left, Rest, Right};
use crate::cli::output::table::push_line;
use crate::config::overrides::QmgrObject;
use crate::model::job::state::JobState;
use crate::model::resource::{ResourceType, ResourceValue, Resources, Size};
use crate::shown::attributes::Attributes;
use crate::wire::message::{QueueCounts, ServerFacts};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The number of jobs by state. As in PBS, the running subjobs of an array count in addition to the
/// array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    queued: u64,
    held: u64,
    waiting: u64,
    running: u64,
    begun: u64,
    finished: u64,
}

impl StateCounts {
    /// The counts of one queue.
    pub fn of(queue: &QueueCounts) -> StateCounts {
        StateCounts::sum(std::slice::from_ref(queue))
    }

    /// The counts of all queues together.
    pub fn sum(queues: &[QueueCounts]) -> StateCounts {
        let mut sum = StateCounts {
            running: queues.iter().map(|queue| queue.elements).sum(),
            ..StateCounts::default()
        };
        for &(state, number) in queues.iter().flat_map(|queue| &queue.jobs) {
            *sum.slot(state) += number;
        }
        sum
    }

    fn slot(&mut self, state: JobState) -> &mut u64 {
        match state {
            JobState::Queued => &mut self.queued,
            JobState::Held => &mut self.held,
            JobState::Waiting => &mut self.waiting,
            // As in PBS, suspended jobs count as running.
            JobState::Running | JobState::Suspended => &mut self.running,
            JobState::Begun => &mut self.begun,
            JobState::Finished | JobState::Expired => &mut self.finished,
        }
    }

    /// All jobs, including finished jobs in the history.
    fn total(self) -> u64 {
        self.pending() + self.begun + self.running + self.finished
    }

    fn pending(self) -> u64 {
        self.queued + self.held + self.waiting
    }

    /// The attribute `state_count`, which ends in a blank as in PBS.
    fn text(self) -> String {
        let StateCounts {
            queued,
            held,
            waiting,
            running,
            begun,
            ..
        } = self;
        format!(
            "Transit:0 Queued:{queued} Held:{held} Waiting:{waiting} Running:{running} Exiting:0 Begun:{begun} "
        )
    }

    /// The cells of the columns `Que Run Hld Wat Trn Ext`.
    fn cells(self) -> [String; 6] {
        let counts = [self.queued, self.running, self.held, self.waiting, 0, 0];
        counts.map(count_cell)
    }
}

fn count_cell(number: u64) -> String {
    cut(&number.to_string(), 5).into_owned()
}

/// PBS's older limit on the running jobs of a queue, shown in the lists of queues.
const MAX_RUNNING: &str = "max_running";

/// The list of `qstat -Q`; empty without queues.
pub fn list(queues: &[&QueueCounts], objects: Objects) -> String {
    if queues.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\
Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type
---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----
",
    );
    for counted in queues {
        let (queue, counts) = (&counted.queue, StateCounts::of(counted));
        let most = objects
            .value(&QmgrObject::Queue(queue.name.clone()), MAX_RUNNING, None)
            .unwrap_or("0");
        let (name, most) = (cut(&queue.name, 16), cut(most, 5));
        let (total, by_state) = (count_cell(counts.total()), counts.cells());
        let mut cells = vec![
            &*name,
            &*most,
            &*total,
            yes_or_no(queue.enabled),
            yes_or_no(queue.started),
        ];
        cells.extend(by_state.iter().map(String::as_str));
        cells.push(if queue.route.is_some() {
            "Rou*"
        } else {
            "Exe*"
        });
        push_line(&mut out, LIST, cells);
        out.push('\n');
    }
    out
}

/// The columns of `qstat -Q`.
const LIST: [FixedColumn; 12] = [
    Left(16),
    Right(5),
    Right(5),
    Right(3),
    Right(3),
    Right(5),
    Right(5),
    Right(5),
    Right(5),
    Right(5),
    Right(5),
    Rest,
];

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// The list of `qstat -q`; empty without queues.
pub fn limits(queues: &[&QueueCounts], server: &ServerFacts, objects: Objects) -> String {
    if queues.is_empty() {
        return String::new();
    }
    let mut out = format!("\nserver: {}\n", server.name);
    out.push_str(
        "
Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State
---------------- ------ -------- -------- ---- ----- ----- ----  -----
",
    );
    let (mut running, mut pending) = (0, 0);
    for counted in queues {
        let counts = StateCounts::of(counted);
        running += counts.running;
        pending += counts.pending();
        let queue = QmgrObject::Queue(counted.queue.name.clone());
        let mut cells = vec![prefix(&counted.queue.name, 16)];
        for (resource, none, width) in MAXIMA {
            let most = objects.value(&queue, "resources_max", Some(resource));
            cells.push(prefix(most.unwrap_or(none), width));
        }
        cells.extend([counts.running.to_string(), counts.pending().to_string()]);
        let jobs = objects.value(&queue, MAX_RUNNING, None);
        cells.push(prefix(jobs.unwrap_or("--"), 4));
        let enabled = if counted.queue.enabled { 'E' } else { 'D' };
        let started = if counted.queue.started { 'R' } else { 'S' };
        cells.push(format!("  {enabled} {started}"));
        push_line(&mut out, LIMITS, cells.iter().map(String::as_str));
        out.push('\n');
    }
    let blanks = " ".repeat(46);
    let _ = writeln!(out, "{blanks} ----- -----");
    let sums = [&*blanks, &running.to_string(), &pending.to_string()];
    push_line(&mut out, [Left(46), Right(5), Right(5)], sums);
    out.push('\n');
    out
}

/// The columns of `qstat -q`.
const LIMITS: [FixedColumn; 9] = [
    Left(16),
    Right(6),
    Right(8),
    Right(8),
    Right(4),
    Right(5),
    Right(5),
    Right(4),
    Rest,
];

/// The resources in the columns of `qstat -q`: name, text for no limit, column width.
const MAXIMA: [(&str, &str, usize); 4] = [
    ("mem", "--  ", 6),
    ("cput", "--   ", 8),
    ("walltime", "--   ", 8),
    ("nodect", "-- ", 4),
];

/// The first `width` characters of a text.
fn prefix(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// The list of `qstat -B`.
pub fn server_list(queues: &[QueueCounts], server: &ServerFacts) -> String {
    let counts = StateCounts::sum(queues);
    let mut out = String::from(
        "\
Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status
---------------- ----- ----- ----- ----- ----- ----- ----- ----- -----------
",
    );
    let mut columns = [Right(5); 10];
    (columns[0], columns[9]) = (Left(16), Left(10));
    let (name, total) = (cut(&server.name, 16), count_cell(counts.total()));
    let by_state = counts.cells();
    let mut cells = vec![&*name, "0", &*total];
    cells.extend(by_state.iter().map(String::as_str));
    cells.push(state(server));
    push_line(&mut out, columns, cells);
    out.push('\n');
    out
}

/// The server's PBS state: `Idle` if scheduling is off.
fn state(server: &ServerFacts) -> &'static str {
    if server.scheduling { "Active" } else { "Idle" }
}

/// The attributes of a queue.
pub fn of_queue<'a>(counted: &'a QueueCounts, resources: &Resources) -> Attributes<'a> {
    let (queue, counts) = (&counted.queue, StateCounts::of(counted));
    let mut out = Attributes::default();
    out.text(
        "queue_type",
        if queue.route.is_some() {
            "Route"
        } else {
            "Execution"
        },
    );
    if queue.has_priority {
        out.number("Priority", queue.priority);
    }
    if let Some(depth) = queue.backfill_depth {
        out.number("backfill_depth", depth);
    }
    out.number(
        "total_jobs",
        i64::try_from(counts.total()).unwrap_or(i64::MAX),
    );
    out.text("state_count", counts.text());
    for (name, amount) in &counted.assigned {
        out.resource(
            "resources_assigned",
            name,
            &assigned(name, *amount, resources),
        );
    }
    out.boolean("enabled", queue.enabled);
    out.boolean("started", queue.started);
    out
}

/// The attributes of the server; `sums` is the result of [`assigned_in_all`].
pub fn of_server<'a>(
    queues: &[QueueCounts],
    sums: &'a BTreeMap<&'a str, i64>,
    server: &'a ServerFacts,
) -> Attributes<'a> {
    let counts = StateCounts::sum(queues);
    let mut out = Attributes::default();
    out.text("server_state", state(server));
    out.text("server_host", server.host.as_str());
    out.boolean("scheduling", server.scheduling);
    out.number(
        "total_jobs",
        i64::try_from(counts.total()).unwrap_or(i64::MAX),
    );
    out.text("state_count", counts.text());
    for (name, users) in [
        ("managers", &server.managers),
        ("operators", &server.operators),
    ] {
        if !users.is_empty() {
            out.text(name, users.join(","));
        }
    }
    out.text_if("default_queue", server.default_queue.as_deref());
    out.boolean("query_other_jobs", true);
    for (name, amount) in sums {
        out.resource(
            "resources_assigned",
            name,
            &assigned(name, *amount, &server.resources),
        );
    }
    out.text("pbs_version", server.version.as_str());
    out.boolean("eligible_time_enable", true);
    out.boolean("job_history_enable", server.history);
    out
}

/// The amounts assigned to running jobs in all queues.
pub fn assigned_in_all(queues: &[QueueCounts]) -> BTreeMap<&str, i64> {
    let mut sums = BTreeMap::new();
    for (name, amount) in queues.iter().flat_map(|queue| &queue.assigned) {
        let sum: &mut i64 = sums.entry(name.as_str()).or_default();
        *sum = sum.saturating_add(*amount);
    }
    sums
}

/// An amount as a resource value. As in PBS, a size has the largest unit that leaves a whole
/// number.
fn assigned(name: &str, amount: i64, resources: &Resources) -> ResourceValue {
    match resources.get(name) {
        Some(definition) if definition.kind == ResourceType::Size => {
            ResourceValue::Size(Size::exactly(amount.max(0).unsigned_abs()))
        }
        Some(definition) => ResourceValue::of_amount(definition.kind, amount),
        None => ResourceValue::Long(amount),
    }
}

#[cfg(test)]
mod tests {
    use super::super::full::{self, Lines};
    use super::*;
    use crate::cli::example::{System, queued, running, server, share};

    const NONE: Objects = Objects(&[]);

    fn system() -> System {
        let mut held = queued(3, "c", "");
        held.job.life.state = JobState::Held;
        let jobs = vec![
            running(queued(1, "a", ""), vec![share(2, Some("512mb"))]),
            queued(2, "b", ""),
            held,
        ];
        System {
            jobs,
            nodes: vec![],
        }
    }

    #[test]
    fn the_list_of_queues_has_the_layout_of_pbs() {
        let mut queue = system().queue();
        let expected = "\
Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type
---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----
workq                0     3 yes yes     1     1     1     0     0     0 Exe*
";
        assert_eq!(list(&[&queue], NONE), expected);
        queue.queue.enabled = false;
        assert!(list(&[&queue], NONE).contains("workq                0     3  no yes     1"));
        assert_eq!(list(&[], NONE), "");
        assert_eq!(limits(&[], &server(), NONE), "");
    }

    #[test]
    fn a_begun_array_and_its_running_subjobs_are_counted() {
        let mut begun = queued(4, "d", "");
        begun.job.life.state = JobState::Begun;
        let jobs = [system().jobs, vec![begun]].concat();
        let queue = QueueCounts {
            elements: 2,
            ..System {
                jobs,
                nodes: vec![],
            }
            .queue()
        };
        assert!(list(&[&queue], NONE).ends_with(
            "workq                0     6 yes yes     1     3     1     0     0     0 Exe*\n"
        ));
        assert!(
            server_list(&[queue], &server())
                .contains("head                 0     6     1     3     1")
        );
    }

    #[test]
    fn the_list_of_limits_has_the_layout_of_pbs() {
        let expected = "
server: head

Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State
---------------- ------ -------- -------- ---- ----- ----- ----  -----
workq              --      --       --     --      1     2   --   E R
                                               ----- -----
                                                   1     2
";
        assert_eq!(limits(&[&system().queue()], &server(), NONE), expected);
    }

    #[test]
    fn the_list_of_servers_has_the_layout_of_pbs() {
        let expected = "\
Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status
---------------- ----- ----- ----- ----- ----- ----- ----- ----- -----------
head                 0     3     1     1     1     0     0     0 Active    \n";
        assert_eq!(server_list(&[system().queue()], &server()), expected);
    }

    #[test]
    fn the_state_counts_of_a_queue_wrap_as_in_pbs() {
        let (queue, facts) = (system().queue(), server());
        let mut out = String::new();
        full::write(
            &mut out,
            "Queue",
            "workq",
            &of_queue(&queue, &facts.resources),
            Lines::Wrapped,
        );
        let expected = "\
Queue: workq
    queue_type = Execution
    total_jobs = 3
    state_count = Transit:0 Queued:1 Held:1 Waiting:0 Running:1 Exiting:0 Begun
\t:0 \n    resources_assigned.mem = 512mb
    resources_assigned.ncpus = 2
    enabled = True
    started = True

";
        assert_eq!(out, expected);
    }
}
