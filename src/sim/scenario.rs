//! A scenario: a cluster, what happens to it, and what is expected of the scheduler, in one file.
//!
//! ```toml
//! name = "a filler may not delay the booked job"
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
//! Moments are seconds from the beginning of the scenario, or texts as "1h" and "1:30:00". A file
//! is read whole or refused with the line and the remedy.

mod deeds;

mod jobs;

mod machines;

pub(super) mod values;

use super::expectation::{Expectation, reading};
use super::world::act::Deed;
use super::world::act::Submission;
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::model::attribute::AttributeSetting;
use crate::model::node::NodeFacts;
use crate::model::time::{Span, Time, Wall};
use chrono::{Local, NaiveDateTime, TimeZone};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// What a command line does, or what is said of one that is wrong.
pub type Deeds = Result<Vec<Deed>, String>;

/// How commands of PBS are read; the second argument is what a watch shows at that moment.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// What stands behind `qsub`.
    pub qsub: fn(&str, Wall) -> Result<Vec<AttributeSetting>, String>,
    /// A whole command line that acts on jobs or nodes; None for a command that is not known.
    pub act: fn(&str, Wall) -> Option<Deeds>,
}

/// A scenario, read.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows.
    pub name: String,
    /// What a watch shows at its beginning, as a time.
    pub zero: Time,
    /// When it ends at the latest, from its beginning.
    pub until: Span,
    /// What holds at its beginning.
    pub config: Config,
    /// The nodes there are, and those of them that are away or offline from the beginning.
    pub nodes: Vec<ScenarioNode>,
    /// What is submitted, by moment from the beginning, then in the order of the file.
    pub jobs: Vec<(Span, Planned)>,
    /// The numbers of the groups that submit.
    pub groups: BTreeMap<String, u32>,
    /// What else is done, likewise.
    pub events: Vec<(Span, Done)>,
    /// What is expected.
    pub expectations: Vec<Expectation>,
}

/// A node and how it stands at the beginning.
#[derive(Clone, Debug)]
pub struct ScenarioNode {
    /// What it offers.
    pub facts: NodeFacts,
    /// Whether it answers.
    pub up: bool,
    /// Whether an operator has taken it out of service.
    pub offline: bool,
}

/// A submission, or what the command line was refused for.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The line in the file.
    pub line: usize,
    /// The number of the job.
    pub number: u64,
    /// What is submitted.
    pub submission: Result<Submission, String>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Done {
    /// The line in the file.
    pub line: usize,
    /// As it is written.
    pub text: String,
    /// Who does it; None for an operator.
    pub user: Option<String>,
    /// What is done.
    pub deeds: Vec<Deed>,
    /// It is to be refused, in words that contain these.
    pub refused: Option<String>,
}

/// The keys before the first section, and the sections.
const KEYS: &[&str] = &[
    "name", "config", "clock", "until", "node", "job", "event", "expect",
];

/// Midnight of a Monday, by the local clock, where a scenario does not say when it begins.
const CLOCK: &str = "2024-01-01 00:00";

/// A scenario goes on for so long at most after the last moment it speaks of.
const LONGEST: Span = Span::seconds(10 * 366 * 24 * 3600);

impl Scenario {
    /// Reads the text of a scenario.
    pub fn parse(text: &str, grammar: Grammar) -> Result<Scenario, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::syntax(text, &error))?;
        let root = Section::root(text, table.get_ref());
        root.only(KEYS)?;
        let name = root.read("name", "a text that says what is shown", values::words)?;
        let name = name.ok_or_else(|| {
            root.wrong("a scenario has a `name`: say in a sentence what it shows".into())
        })?;
        let zero = root.read(
            "clock",
            "a local date and time, as \"2024-01-31 17:30\"",
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
        let events = deeds::ActionReader {
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

/// What a watch shows so long after the beginning.
pub(super) fn wall(zero: Time, at: Span) -> Wall {
    Wall((zero + at).0.div_euclid(1000))
}
