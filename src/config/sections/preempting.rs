//! `[preemption]`: who makes way for whom.

use super::scheduling::named;
use super::{BOOLEAN, boolean, by_name, keys, list, one_of, span, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::job::preemption::PreemptAction;
use crate::model::policy::preemption::{
    Actions, Condition, Mode, NoAgenda, Preemption, Trigger, Victims,
};
use toml::de::DeValue;

/// `[preemption]`.
pub fn preemption(section: &Section, preset: &Preemption) -> Result<Preemption, ConfigError> {
    section.only(keys("preemption"))?;
    let preset = preset.clone();
    let triggers = format!("a list of {}", one_of(Trigger::ALL));
    let all_actions = format!(
        "{}, a list of them in the order in which they are tried, or PBS's letters with percents \
         of the walltime left, as \"SCR 80 SC 50 S\"",
        one_of(&PreemptAction::configurable())
    );
    Ok(Preemption {
        triggers: section
            .read("triggers", &triggers, list(trigger))?
            .unwrap_or(preset.triggers),
        repair: section
            .read("repair", BOOLEAN, boolean)?
            .unwrap_or(preset.repair),
        mode: named(section, "mode", Mode::ALL, Mode::named)?.unwrap_or(preset.mode),
        no_agenda: named(section, "no_agenda", NoAgenda::ALL, NoAgenda::named)?
            .unwrap_or(preset.no_agenda),
        victims: named(section, "victims", Victims::ALL, Victims::named)?.unwrap_or(preset.victims),
        actions: section
            .read("action", &all_actions, actions)?
            .unwrap_or(preset.actions),
        grace: section
            .read("grace", "a time, as \"10s\"", span)?
            .or(preset.grace),
        interruption: section
            .read("interruption", "a time, as \"10s\"", span)?
            .unwrap_or(preset.interruption),
        exempt: section
            .read("exempt", "a time, as \"60s\"", span)?
            .unwrap_or(preset.exempt),
        boost: section
            .read("preempted_boost", BOOLEAN, boolean)?
            .unwrap_or(preset.boost),
        levels: section
            .read("levels", LEVELS, list(level))?
            .unwrap_or(preset.levels),
        // Said in `[launch]`.
        checkpoints: preset.checkpoints,
        // Read once all resources are known.
        releases: preset.releases,
        express: section
            .read("express", "a priority of queues, as 150", whole)?
            .unwrap_or(preset.express),
    })
}

const LEVELS: &str = "a list of levels, the highest first, as [\"express_queue\", \"normal_jobs\"]; of express_queue, \
                      starving_jobs, fairshare, queue_softlimits, server_softlimits and normal_jobs, joined by `+`";

fn trigger(value: &DeValue) -> Option<Trigger> {
    by_name(Trigger::named)(value)
}

fn actions(value: &DeValue) -> Option<Actions> {
    if let Some(text) = value.as_str() {
        return action(value)
            .map(|one| vec![one].into())
            .or_else(|| text.parse().ok());
    }
    let all = list(action)(value).filter(|all| !all.is_empty())?;
    let is_double = |place: usize| all[..place].contains(&all[place]);
    if (0..all.len()).any(is_double) {
        None
    } else {
        Some(all.into())
    }
}

/// `cancel` is Maui's word.
fn action(value: &DeValue) -> Option<PreemptAction> {
    match value.as_str()? {
        "cancel" => Some(PreemptAction::Delete),
        name => PreemptAction::named(name).filter(|action| !action.waits_for_end()),
    }
}

fn level(value: &DeValue) -> Option<Vec<Condition>> {
    value
        .as_str()?
        .split('+')
        .map(|word| Condition::named(word.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::job::preemption::PreemptAction;
    use crate::model::policy::preemption::{Condition, Mode, Trigger, Victims};
    use crate::model::time::Span;

    #[test]
    fn who_makes_way_is_said_by_name() {
        let text = "[preemption]\ntriggers = [\"qos\", \"levels\"]\nmode = \"aggressive\"\nvictims = \"cheapest\"\n\
                    action = [\"suspend\", \"cancel\"]\ngrace = \"2s\"\nexempt = \"1m\"\nrepair = false\n\
                    levels = [\"starving_jobs + express_queue\", \"normal_jobs\"]\nexpress = 200\n";
        let found = Config::parse(text).unwrap().policy().preemption;
        assert_eq!(found.triggers, [Trigger::Qos, Trigger::Levels]);
        assert_eq!(
            (found.mode, found.victims, found.repair),
            (Mode::Aggressive, Victims::Cheapest, false)
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
                vec![Condition::Starving, Condition::Express],
                vec![Condition::Normal]
            ]
        );
        let text = "[preemption]\naction = \"SCR 80 SC 50 S\"\n";
        assert_eq!(
            Config::parse(text)
                .unwrap()
                .policy()
                .preemption
                .actions
                .of(Some(10.0)),
            [PreemptAction::Suspend]
        );
    }

    #[test]
    fn what_nobody_can_do_is_refused_with_its_line() {
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
            let said = Config::parse(&format!("[preemption]\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(said.contains("line 2"), "{wrong}: {said}");
        }
    }
}
