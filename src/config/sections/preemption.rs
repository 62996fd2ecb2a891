//! `[preemption]`: which running jobs are preempted for which waiting jobs, and how.

use super::starvation::STARVATION;
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Nested, Table, key};
use crate::config::kinds::{
    BOOLEAN, Custom, List, OneOf, Optional, Scalar, TEXT, WholeNumber, list, one_of, time, whole,
};
use crate::model::job::preemption::PreemptAction;
use crate::model::policy::preemption::{
    Actions, LevelCondition, NoAgenda, PreemptMode, PreemptTrigger, Victims,
};
use crate::model::resource::Resources;
use std::collections::BTreeSet;
use toml::de::DeValue;

const TRIGGERS: List<OneOf<PreemptTrigger>> = list(OneOf(PreemptTrigger::ALL), "");
const ACTIONS: Custom<Actions> = Custom {
    wanted: || {
        format!(
            "{}; a list of these, tried in this order; PBS's letters, such as \"SCR\"; or several \
             words of these letters, separated by falling percentages, such as \
             \"SCR 80 SC 50 S\": the word after a percentage applies once at most this part of the \
             requested walltime is left",
            one_of(&PreemptAction::configurable())
        )
    },
    read: read_actions,
    write: |actions| Some(actions.to_string().into()),
    parse: |text| text.parse().ok(),
    show: |actions| Some(actions.to_string()),
};
const LEVELS: Custom<Vec<Vec<LevelCondition>>> = Custom {
    wanted: || {
        "a list of levels, the highest first, such as [\"express_queue\", \"normal_jobs\"]; \
         a level is express_queue, starving_jobs, fairshare, queue_softlimits, \
         server_softlimits or normal_jobs, or several of these joined by `+`"
            .to_string()
    },
    read: read_levels,
    write: |levels| Some(level_names(levels).into()),
    parse: parse_levels,
    show: |levels| Some(level_names(levels).join(", ")),
};
/// qmgr accepts PBS's only value, [`NEWEST`], and the names of `lanai.toml`.
const VICTIMS: Custom<Victims> = Custom {
    wanted: || one_of(Victims::ALL),
    read: |value| Victims::named(value.as_str()?),
    write: |victims| Some(victims.name().into()),
    parse: |text| match text.trim() {
        NEWEST => Some(Victims::Newest),
        name => Victims::named(name),
    },
    show: |victims| match victims {
        Victims::Newest => Some(NEWEST.to_string()),
        other => Some(other.name().to_string()),
    },
};
const NEWEST: &str = "min_time_since_start";
const EXPRESS: WholeNumber<i32> = whole("a queue priority, such as 150", |_| true);
const RELEASES: List<Scalar<String>> = list(TEXT, "a list of resources, such as [\"ncpus\"]");

/// `[preemption]`.
pub static PREEMPTION: Table<Config> = Table::new(
    "preemption",
    &[
        &key("triggers", TRIGGERS, |c| &mut c.policy.preemption.triggers)
            .text("The conditions under which waiting jobs preempt, in the order tried."),
        &key("repair", BOOLEAN, |c| &mut c.policy.preemption.repair)
            .text("Whether jobs are preempted if a node or a limit becomes too small for them."),
        &key("mode", OneOf(PreemptMode::ALL), |c| {
            &mut c.policy.preemption.mode
        })
        .text("When a job preempted by the trigger \"qube\" releases its resources."),
        &key("no_agenda", OneOf(NoAgenda::ALL), |c| {
            &mut c.policy.preemption.no_agenda
        })
        .text(
            "The effect of the modes \"passive\" and \"mixed\" on a job that is no subjob: \"now\" \
             (it is preempted at once) or \"wait\" (it runs to its end).",
        ),
        &key("victims", VICTIMS, |c| &mut c.policy.preemption.victims)
            .pbs(&["preempt_sort"])
            .unset_by(Config::of_preset)
            .text("Which running jobs are preempted first."),
        &key("action", ACTIONS, |c| &mut c.policy.preemption.actions)
            .pbs(&["preempt_order"])
            .unset_by(Config::of_preset)
            .text("How jobs are preempted: an action, a list of actions, or PBS's letters."),
        &key("grace", Optional(time("a time, such as \"10s\"")), |c| {
            &mut c.policy.preemption.grace
        })
        .text("The time between TERM and KILL for a preempted job.")
        .default("as [launch] grace")
        .example("\"10s\""),
        &key("interruption", time("a time, such as \"10s\""), |c| {
            &mut c.policy.preemption.interruption
        })
        .text("How long a preempted job may take to end after its signal (qsub -W interrupt=)."),
        &key("exempt", time("a time, such as \"60s\""), |c| {
            &mut c.policy.preemption.exempt
        })
        .text("A job is not preempted for this time after its start."),
        &key("preempted_boost", BOOLEAN, |c| {
            &mut c.policy.preemption.boost
        })
        .text("Whether a job requeued by preemption comes before all jobs of the same priority."),
        &key("levels", LEVELS, |c| &mut c.policy.preemption.levels)
            .pbs(&["preempt_prio"])
            .unset_by(Config::of_preset)
            .text("The levels of the trigger \"levels\", the highest first."),
        &key("express", EXPRESS, |c| &mut c.policy.preemption.express)
            .pbs(&["preempt_queue_prio"])
            .unset_by(Config::of_preset)
            .text("The lowest priority of an express queue."),
        &key("releases", RELEASES, |c| &mut c.policy.preemption.releases)
            .pbs(&["restrict_res_to_release_on_suspend"])
            .text("The resources that a suspended job releases."),
        &Nested::new(
            "starvation",
            &STARVATION,
            "The settings of the trigger \"starvation\"; see [preemption.starvation].",
        ),
    ],
)
.finish(finish);

/// Checks that the key `releases` contains only consumable resources, and each at most once.
fn finish(
    config: &mut Config,
    section: &Section,
    resources: &Resources,
) -> Result<(), ConfigError> {
    if !section.has("releases") {
        return Ok(());
    }
    let nodes = resources.consumables().into_iter();
    let counted: BTreeSet<&str> = nodes.chain(resources.pooled()).collect();
    let mut seen = BTreeSet::new();
    for name in &config.policy.preemption.releases {
        let fault = if !counted.contains(name.as_str()) {
            format!("`{name}` is not a consumable resource, such as ncpus, ngpus or mem")
        } else if !seen.insert(name.as_str()) {
            format!("`{name}` is listed twice: remove one of the entries")
        } else {
            continue;
        };
        return Err(section.key_error("releases", fault));
    }
    Ok(())
}

fn read_actions(value: &DeValue) -> Option<Actions> {
    if let Some(text) = value.as_str() {
        let one = read_action(text).map(|action| vec![action].into());
        return one.or_else(|| text.parse().ok());
    }
    let mut actions = Vec::new();
    for item in value.as_array()? {
        let action = read_action(item.get_ref().as_str()?)?;
        if actions.contains(&action) {
            return None;
        }
        actions.push(action);
    }
    (!actions.is_empty()).then(|| actions.into())
}

/// Reads an action. `cancel` is Maui's name for `delete`.
fn read_action(name: &str) -> Option<PreemptAction> {
    match name {
        "cancel" => Some(PreemptAction::Delete),
        name => PreemptAction::named(name).filter(|action| !action.waits_for_end()),
    }
}

fn read_levels(value: &DeValue) -> Option<Vec<Vec<LevelCondition>>> {
    let levels = value.as_array()?.iter();
    levels
        .map(|level| parse_level(level.get_ref().as_str()?))
        .collect()
}

/// Parses the conditions of a level: `express_queue+fairshare`.
fn parse_level(text: &str) -> Option<Vec<LevelCondition>> {
    text.split('+')
        .map(|word| LevelCondition::named(word.trim()))
        .collect()
}

/// Parses levels, the highest first: `express_queue+fairshare, normal_jobs`. None if a level is
/// invalid or repeated.
fn parse_levels(text: &str) -> Option<Vec<Vec<LevelCondition>>> {
    let levels: Vec<Vec<LevelCondition>> =
        text.split(',').map(parse_level).collect::<Option<_>>()?;
    let is_double = |at: usize| levels[..at].contains(&levels[at]);
    (!(1..levels.len()).any(is_double)).then_some(levels)
}

fn level_names(levels: &[Vec<LevelCondition>]) -> Vec<String> {
    let joined = |level: &Vec<LevelCondition>| {
        let names: Vec<&str> = level.iter().map(|condition| condition.name()).collect();
        names.join("+")
    };
    levels.iter().map(joined).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::job::preemption::PreemptAction;
    use crate::model::policy::preemption::{LevelCondition, PreemptMode, PreemptTrigger, Victims};
    use crate::model::time::Span;

    #[test]
    fn preemption_settings_are_read() {
        let text = "[preemption]\ntriggers = [\"qos\", \"levels\"]\nmode = \"aggressive\"\n\
                    victims = \"cheapest\"\naction = [\"suspend\", \"cancel\"]\ngrace = \"2s\"\n\
                    exempt = \"1m\"\nrepair = false\n\
                    levels = [\"starving_jobs + express_queue\", \"normal_jobs\"]\n\
                    express = 200\n";
        let found = Config::parse(text).unwrap().effective_policy().preemption;
        assert_eq!(
            found.triggers,
            [PreemptTrigger::Qos, PreemptTrigger::Levels]
        );
        assert_eq!(
            (found.mode, found.victims, found.repair),
            (PreemptMode::Aggressive, Victims::Cheapest, false)
        );
        assert_eq!(
            found.actions.of(None),
            [PreemptAction::Suspend, PreemptAction::Delete]
        );
        assert_eq!(
            (found.grace, found.exempt),
            (Some(Span::seconds(2)), Span::seconds(60))
        );
        assert_eq!(
            found.levels,
            [
                vec![LevelCondition::Starving, LevelCondition::Express],
                vec![LevelCondition::Normal]
            ]
        );
        let text = "[preemption]\naction = \"SCR 80 SC 50 S\"\n";
        assert_eq!(
            Config::parse(text)
                .unwrap()
                .effective_policy()
                .preemption
                .actions
                .of(Some(10.0)),
            [PreemptAction::Suspend]
        );
    }

    #[test]
    fn invalid_preemption_settings_are_refused_with_their_line() {
        let wrong = [
            "triggers = [\"rank\"]",
            "action = \"finish\"",
            "action = []",
            "action = [\"requeue\", \"requeue\"]",
        ];
        for wrong in wrong.into_iter().chain([
            "levels = [\"best\"]",
            "mode = \"soon\"",
            "grace = 3",
            "harsh = true",
        ]) {
            let error = Config::parse(&format!("[preemption]\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains("line 2"), "{wrong}: {error}");
        }
    }
}
