//! `[[event]]`: PBS command lines, other events, and changes of the configuration.

use super::machines::Configured;
use super::{Grammar, ScenarioEvent, values, wall};
use crate::config::document::{ConfigError, Section};
use crate::model::spelling::nearest;
use crate::model::time::{Span, Time};
use crate::sim::world::act::WorldAction;

/// The keys of an `[[event]]`.
const KEYS: &[&str] = &["at", "do", "user", "config", "refused"];

/// The events that are not PBS command lines: name, and syntax for messages.
const OWN_EVENTS: &[(&str, &str)] = &[
    ("node-down", "node-down NODE"),
    ("node-up", "node-up NODE"),
    ("node-set", "node-set NODE RESOURCE=AMOUNT ..."),
    ("utilized", "utilized NODE RESOURCE=AMOUNT ..."),
    ("load", "load NODE LOAD"),
    ("gpus-outside", "gpus-outside NODE [NUMBER ...]"),
    ("node-offline", "node-offline NODE"),
    ("node-online", "node-online NODE"),
    ("resource", "resource NAME TOTAL [USED]"),
    ("program-asked", "program-asked JOB"),
    ("program-says", "program-says JOB [NODE ...]"),
    ("cycle", "cycle"),
];

pub(super) struct ActionReader<'a, 'f> {
    pub root: &'a Section<'f>,
    pub machines: &'a Configured,
    pub grammar: Grammar,
    pub zero: Time,
}

impl ActionReader<'_, '_> {
    pub(super) fn read(&self) -> Result<Vec<(Span, ScenarioEvent)>, ConfigError> {
        self.root
            .sections("event")?
            .iter()
            .map(|section| self.event(section))
            .collect()
    }

    fn event(&self, section: &Section) -> Result<(Span, ScenarioEvent), ConfigError> {
        section.refuse_unknown(KEYS)?;
        let at = section.require("at", values::A_MOMENT, values::moment)?;
        let text = section.read(
            "do",
            "a command line, such as \"qhold 3\"",
            values::nonempty_text,
        )?;
        let mut actions = Vec::new();
        if let Some(config) = self.machines.with_config_of(section)? {
            actions.push(WorldAction::Configure(Box::new(config)));
        }
        if let Some(text) = &text {
            actions.extend(
                self.actions(text, at)
                    .map_err(|why| section.key_error("do", why))?,
            );
        }
        if actions.is_empty() {
            let message = "this event has no action: add an action, such as do = \"qhold 3\" \
                           or config = { ... }";
            return Err(section.section_error(message.to_string()));
        }
        let refused = section.read("refused", "a part of the error message", values::text)?;
        let user = section.read("user", "the name of a user", values::nonempty_text)?;
        let text = text.unwrap_or_else(|| "config".to_string());
        Ok((
            at,
            ScenarioEvent {
                line: section.line(),
                text,
                user,
                actions,
                refused,
            },
        ))
    }

    fn actions(&self, text: &str, at: Span) -> Result<Vec<WorldAction>, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (verb, rest) = words.split_first().ok_or("the command is missing")?;
        if let Some((_, form)) = OWN_EVENTS.iter().find(|(known, _)| known == verb) {
            return parse_own(verb, rest)
                .ok_or_else(|| format!("`{text}` must have the form `{form}`"));
        }
        (self.grammar.act)(text, wall(self.zero, at)).unwrap_or_else(|| Err(unknown_command(verb)))
    }
}

fn unknown_command(verb: &str) -> String {
    let mut known: Vec<&str> = OWN_EVENTS.iter().map(|(verb, _)| *verb).collect();
    known.extend([
        "qhold", "qrls", "qdel", "qalter", "qrerun", "qsig", "qrun", "qmove", "qorder", "pbs_rsub",
        "pbs_rdel",
    ]);
    let near = nearest(verb, &known).unwrap_or_default();
    format!("unknown command `{verb}`; the nearest known name is `{near}`")
}

fn parse_own(verb: &str, rest: &[&str]) -> Option<Vec<WorldAction>> {
    Some(match (verb, rest) {
        ("node-down", [node]) => vec![WorldAction::NodeDown(node.to_string())],
        ("node-up", [node]) => vec![WorldAction::NodeUp(node.to_string())],
        ("node-offline", [node]) => vec![WorldAction::Offline(node.to_string(), true)],
        ("node-online", [node]) => vec![WorldAction::Offline(node.to_string(), false)],
        ("node-set", [node, pairs @ ..]) if !pairs.is_empty() => {
            let offer = |pair: &&str| {
                let (name, amount) = pair.split_once('=')?;
                Some(WorldAction::Offer(
                    node.to_string(),
                    name.to_string(),
                    amount.to_string(),
                ))
            };
            pairs.iter().map(offer).collect::<Option<_>>()?
        }
        ("utilized", [node, pairs @ ..]) if !pairs.is_empty() => {
            let used = |pair: &&str| {
                let (name, amount) = pair.split_once('=')?;
                Some(WorldAction::Use(
                    node.to_string(),
                    name.to_string(),
                    amount.to_string(),
                ))
            };
            pairs.iter().map(used).collect::<Option<_>>()?
        }
        ("load", [node, load]) => {
            let load: f64 = load
                .parse()
                .ok()
                .filter(|load: &f64| (0.0..=1e6).contains(load))?;
            vec![WorldAction::Load(
                node.to_string(),
                (load * 1000.0).round() as u32,
            )]
        }
        ("gpus-outside", [node, numbers @ ..]) => {
            let numbers = numbers
                .iter()
                .map(|number| number.parse().ok())
                .collect::<Option<_>>()?;
            vec![WorldAction::UseGpus(node.to_string(), numbers)]
        }
        ("resource", [name, total, used @ ..]) if used.len() < 2 => {
            vec![WorldAction::ReportTotal(
                name.to_string(),
                total.to_string(),
                used.first().map(ToString::to_string),
            )]
        }
        ("program-asked", [job]) => vec![WorldAction::CallScript(job.parse().ok()?)],
        ("program-says", [job, nodes @ ..]) => {
            vec![WorldAction::ScriptResult(
                job.parse().ok()?,
                nodes.iter().map(ToString::to_string).collect(),
            )]
        }
        ("cycle", []) => vec![WorldAction::Cycle],
        _ => return None,
    })
}
