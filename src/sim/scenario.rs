//! Scenarios: a cluster, the events in it, and the expected decisions of the scheduler, in one
//! file.
//!
//! ```toml
//! name = "a backfilled job does not delay a planned start"
//!
//! [[node]]
//! name = "n1"
//! ncpus = 16
//!
//! [[job]]
//! id = 1
//! qsub = "-l select=1:ncpus=8 -l walltime=1:00:00"
//!
//! [[expect]]
//! job = 1
//! start = 0
//! ```
//!
//! A time is a number of seconds, or a text such as "1h" or "1:30:00". Points in time are counted
//! from the beginning of the scenario. A file with an error is refused as a whole, and the message
//! names the line. But if the arguments of `qsub` have an error, only that job is refused, so a
//! scenario can expect the refusal.

mod events;

mod jobs;

mod machines;

pub(super) mod values;

use super::expectation::{Expectation, reading};
use super::world::act::Submission;
use super::world::act::WorldAction;
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::model::attribute::AttributeSetting;
use crate::model::node::NodeFacts;
use crate::model::time::{Span, Time, Wall};
use chrono::{Local, NaiveDateTime, TimeZone};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// The actions of a command line, or the error in the command line.
pub type ParsedActions = Result<Vec<WorldAction>, String>;

/// The parsers for PBS commands. The second argument is the wall-clock time of the command.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Parses the arguments of `qsub`.
    pub qsub: fn(&str, Wall) -> Result<Vec<AttributeSetting>, String>,
    /// Parses a command line that acts on jobs or reservations; None for an unknown command.
    pub act: fn(&str, Wall) -> Option<ParsedActions>,
}

/// A parsed scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The behavior that the scenario shows, in a sentence.
    pub name: String,
    /// The wall-clock time of the beginning.
    pub zero: Time,
    /// The time, from the beginning, at which the scenario ends at the latest.
    pub until: Span,
    /// The configuration at the beginning.
    pub config: Config,
    /// The nodes, with their states at the beginning.
    pub nodes: Vec<ScenarioNode>,
    /// The submissions, each with its time from the beginning, in the order of the file.
    pub jobs: Vec<(Span, PlannedSubmission)>,
    /// The gids of the groups of the jobs' owners, by group name.
    pub groups: BTreeMap<String, u32>,
    /// The other events, each with its time from the beginning, in the order of the file.
    pub events: Vec<(Span, ScenarioEvent)>,
    /// The expectations.
    pub expectations: Vec<Expectation>,
}

/// A node and its state at the beginning.
#[derive(Clone, Debug)]
pub struct ScenarioNode {
    /// The node's attributes and resources.
    pub facts: NodeFacts,
    /// Whether the node responds.
    pub up: bool,
    /// Whether an operator has marked the node offline.
    pub offline: bool,
}

/// A submission and its place in the file.
#[derive(Clone, Debug)]
pub struct PlannedSubmission {
    /// The line in the file.
    pub line: usize,
    /// The number of the job.
    pub number: u64,
    /// The submission, or the error in its command line.
    pub submission: Result<Submission, String>,
}

/// An event: one or more actions at one time.
#[derive(Clone, Debug)]
pub struct ScenarioEvent {
    /// The line in the file.
    pub line: usize,
    /// The command line as written; the word `config` if the event has no command line.
    pub text: String,
    /// The acting user; None for an operator.
    pub user: Option<String>,
    /// The actions.
    pub actions: Vec<WorldAction>,
    /// A part of the message with which the event must be refused; None if the event must succeed.
    pub refused: Option<String>,
}

/// The names of the sections, and the keys before the first section.
const KEYS: &[&str] = &[
    "name", "config", "clock", "until", "node", "job", "event", "expect",
];

/// The default beginning: midnight of a Monday, local time.
const CLOCK: &str = "2024-01-01 00:00";

/// The default of `until`: ten years from the beginning.
const LONGEST: Span = Span::seconds(10 * 366 * 24 * 3600);

impl Scenario {
    /// Reads the text of a scenario.
    pub fn parse(text: &str, grammar: Grammar) -> Result<Scenario, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::syntax(text, &error))?;
        let root = Section::root(text, table.get_ref());
        root.refuse_unknown(KEYS)?;
        let name = root.read(
            "name",
            "a sentence that describes the scenario",
            values::nonempty_text,
        )?;
        let name = name.ok_or_else(|| {
            root.section_error("the scenario has no `name`: describe it in a sentence".into())
        })?;
        let zero = root.read(
            "clock",
            "a local date and time, such as \"2024-01-31 17:30\"",
            clock,
        )?;
        let zero = zero.or_else(|| local(CLOCK)).unwrap_or(Time(0));
        let machines = machines::Configured::read(&root)?;
        let config = machines.config.clone();
        let reader = jobs::JobReader {
            root: &root,
            config: &config,
            grammar,
            zero,
        };
        let (jobs, groups) = reader.read()?;
        let events = events::ActionReader {
            root: &root,
            machines: &machines,
            grammar,
            zero,
        }
        .read()?;
        let expectations = reading::read_all(&root)?;
        let until = root.read("until", values::A_MOMENT, values::moment)?;
        Ok(Scenario {
            name,
            zero,
            until: until.unwrap_or(LONGEST),
            config,
            nodes: machines.nodes,
            jobs,
            groups,
            events,
            expectations,
        })
    }
}

fn clock(value: &toml::de::DeValue) -> Option<Time> {
    local(value.as_str()?)
}

fn local(text: &str) -> Option<Time> {
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").ok()?;
    Some(Time(
        Local
            .from_local_datetime(&naive)
            .earliest()?
            .timestamp_millis(),
    ))
}

/// The wall-clock time at an offset from the beginning.
pub(super) fn wall(zero: Time, at: Span) -> Wall {
    Wall((zero + at).0.div_euclid(1000))
}
