//! `[[job]]`: submissions, with their times, users and simulated behavior.

use super::{Grammar, PlannedSubmission, values, wall};
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::model::attribute::AttributeSetting;
use crate::model::job::Owner;
use crate::model::job::attempt::RunLimit;
use crate::model::resource::{ResourceType, ResourceValue};
use crate::model::time::{Span, Time};
use crate::sim::world::act::Submission;
use crate::sim::world::{JobBehavior, OverLimitPeriod};
use std::collections::BTreeMap;
use toml::de::DeValue;

/// The keys of a `[[job]]`.
const KEYS: &[&str] = &[
    "id", "at", "runs", "qsub", "user", "group", "count", "exit", "fails", "exceeds", "stops",
];

/// The maximum value of `id` and of `count`.
const MOST: u64 = 1_000_000;

/// The lowest uid and gid. Users and groups are numbered in the order of their appearance.
const FIRST_NUMBER: u32 = 1000;

/// The description of the values that [`excess`] reads, for messages.
const AN_EXCESS: &str = "the time, from the start, at which the job begins to exceed a limit, such \
                         as { mem = 600 }, or the begin and end of this excess, such as \
                         { mem = [600, 700] }";

pub(super) struct JobReader<'a, 'f> {
    pub root: &'a Section<'f>,
    pub config: &'a Config,
    pub grammar: Grammar,
    pub zero: Time,
}

/// The submissions, each with its time, and the gids of groups by name.
pub(super) type Submissions = (Vec<(Span, PlannedSubmission)>, BTreeMap<String, u32>);

/// The uids or gids of names, in the order of first use.
#[derive(Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        let next = FIRST_NUMBER + self.0.len() as u32;
        *self.0.entry(name.to_string()).or_insert(next)
    }
}

impl JobReader<'_, '_> {
    /// Reads all submissions, and assigns uids and gids.
    pub(super) fn read(&self) -> Result<Submissions, ConfigError> {
        let (mut users, mut groups) = (Names::default(), Names::default());
        let mut planned: Vec<(Span, PlannedSubmission)> = Vec::new();
        let mut lines: BTreeMap<u64, usize> = BTreeMap::new();
        for section in self.root.sections("job")? {
            section.refuse_unknown(KEYS)?;
            let number =
                |value: &DeValue| values::whole(value).filter(|id: &u64| (1..=MOST).contains(id));
            let id = section.require("id", "a number, 1 to 1000000", number)?;
            let count = section
                .read("count", "a number of equal jobs, 1 to 1000000", number)?
                .unwrap_or(1);
            let owner = self.owner(&section, &mut users, &mut groups)?;
            let at = section
                .read("at", values::A_MOMENT, values::moment)?
                .unwrap_or(Span(0));
            let submission = self.submission(&section, at, owner)?;
            for number in id..id.saturating_add(count) {
                if let Some(line) = lines.insert(number, section.line()) {
                    let message = format!(
                        "job {number} exists already (line {line}): give this job another id"
                    );
                    return Err(section.key_error("id", message));
                }
                let submission = submission.clone().map(|submission| Submission {
                    number,
                    ..submission
                });
                planned.push((
                    at,
                    PlannedSubmission {
                        line: section.line(),
                        number,
                        submission,
                    },
                ));
            }
        }
        Ok((planned, groups.0))
    }

    fn owner(
        &self,
        section: &Section,
        users: &mut Names,
        groups: &mut Names,
    ) -> Result<Owner, ConfigError> {
        let user = section
            .read("user", "the name of a user", values::nonempty_text)?
            .unwrap_or_else(|| "ann".to_string());
        let group = section
            .read("group", "the name of a group", values::nonempty_text)?
            .unwrap_or_else(|| "users".to_string());
        Ok(Owner {
            uid: users.number(&user),
            gid: groups.number(&group),
            user,
        })
    }

    /// Reads one submission. The inner error is an error in the command line of qsub, which a
    /// scenario can expect.
    fn submission(
        &self,
        section: &Section,
        at: Span,
        owner: Owner,
    ) -> Result<Result<Submission, String>, ConfigError> {
        let words = section.require(
            "qsub",
            "the arguments of qsub, such as \"-l select=1:ncpus=4\"",
            values::text,
        )?;
        let settings = match (self.grammar.qsub)(&words, wall(self.zero, at)) {
            Ok(settings) => settings,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let behavior = self.behavior(section, &settings)?;
        Ok(Ok(Submission {
            number: 0,
            owner,
            settings,
            behavior,
        }))
    }

    fn behavior(
        &self,
        section: &Section,
        settings: &[AttributeSetting],
    ) -> Result<JobBehavior, ConfigError> {
        let runs = section
            .read("runs", values::A_MOMENT, values::moment)?
            .or_else(|| self.walltime(settings));
        let code = |value: &DeValue| values::whole(value).filter(|code| (0..=255).contains(code));
        let missing =
            "this job has no `runs` and no walltime: set its run time, such as runs = 3600";
        Ok(JobBehavior {
            runs: runs.ok_or_else(|| section.section_error(missing.to_string()))?,
            code: section
                .read("exit", "an exit code, 0 to 255", code)?
                .unwrap_or(0),
            excess: section.read("exceeds", AN_EXCESS, excess)?,
            stops: section
                .read("stops", values::A_MOMENT, values::moment)?
                .unwrap_or_default(),
            failures: section
                .read("fails", "the number of starts that fail", values::whole)?
                .unwrap_or(0),
        })
    }

    fn walltime(&self, settings: &[AttributeSetting]) -> Option<Span> {
        let walltime = settings
            .iter()
            .rev()
            .find(|setting| setting.resource.as_deref() == Some("walltime"))?;
        match ResourceValue::parse(ResourceType::Time, &walltime.value.lossy()) {
            Some(ResourceValue::Time(span)) => Some(span),
            _ => Some(self.config.policy.default_walltime),
        }
    }
}

fn excess(value: &DeValue) -> Option<OverLimitPeriod> {
    let (name, when) = value
        .as_table()
        .filter(|table| table.len() == 1)?
        .iter()
        .next()?;
    let bounds = [
        RunLimit::Mem,
        RunLimit::Pmem,
        RunLimit::Vmem,
        RunLimit::Cput,
    ];
    let bound = bounds
        .into_iter()
        .find(|bound| bound.name() == name.get_ref().as_ref())?;
    match when.get_ref().as_array() {
        None => Some(OverLimitPeriod {
            bound,
            from: values::moment(when.get_ref())?,
            to: None,
        }),
        Some(_) => match values::list(values::moment)(when.get_ref())?.as_slice() {
            &[from, to] if from < to => Some(OverLimitPeriod {
                bound,
                from,
                to: Some(to),
            }),
            _ => None,
        },
    }
}
