//! Warnings about settings that are valid but probably not intended.

use super::Config;
use super::settings::{KeySetting, SettingOrigin, effective};
use crate::config::overrides::QmgrOverrides;
use crate::model::account::decay::Decay;
use crate::model::policy::formula::asks_for;
use crate::model::policy::{Preset, PriorityOrder, UserPriority};
use crate::model::queue::Queue;
use std::collections::BTreeSet;

/// The least safe difference between queue priorities. In IT4I's formula fair share can equal one
/// step of queue priority, and waiting time adds to it.
const NEAREST: i32 = 2;

/// Returns one sentence per warning. `settings` are those of `config`.
pub fn warnings(config: &Config, settings: &[KeySetting]) -> Vec<String> {
    let rule = &config.policy.precedence;
    let mut all = Vec::new();
    if rule.order == PriorityOrder::Formula
        && !rule.lexicographic
        && let Some(formula) = &rule.formula
        && asks_for(formula, |name| name == "queue_priority")
    {
        let is_it4i = rule.formula == Preset::It4i.policy().precedence.formula;
        all.extend(near_queues(config.queues(), is_it4i));
    }
    all.extend(idle(config, settings));
    all.extend(unused_priorities(config));
    all
}

/// Queue priorities that have no effect.
fn unused_priorities(config: &Config) -> Vec<String> {
    let policy = config.effective_policy();
    let is_unused = |queue: &Queue| queue.priority != 0 && !policy.uses_queue_priority(&queue.name);
    config
        .queues()
        .iter()
        .filter(|queue| is_unused(queue))
        .map(|queue| policy.unused_queue_priority(&queue.name))
        .collect()
}

/// Settings of the file that have no effect. Of the keys of a section with the same cause only the
/// first is listed.
fn idle(config: &Config, settings: &[KeySetting]) -> Vec<String> {
    let preset = Config::with_preset(config.preset);
    let preset = effective(&preset, "", &QmgrOverrides::default());
    let mut said = BTreeSet::new();
    let sentence = |(setting, preset): (&KeySetting, &KeySetting)| {
        let SettingOrigin::Line(line) = setting.origin else {
            return None;
        };
        if setting.value.is_some() && setting.value == preset.value {
            return None;
        }
        let need = need(config, setting).filter(|need| said.insert((setting.section, *need)))?;
        let (key, section) = (&setting.key, setting.section);
        Some(format!(
            "line {line}: `{key}` in [{section}] does not count: that needs {need}"
        ))
    };
    settings.iter().zip(&preset).filter_map(sentence).collect()
}

/// The missing setting that another one requires; None if it is in effect.
fn need(config: &Config, setting: &KeySetting) -> Option<&'static str> {
    let (rule, decay) = (&config.policy.precedence, config.policy.usage.decay);
    let (missing, need) = match (setting.section, &*setting.key) {
        ("order", "formula") => (
            rule.order != PriorityOrder::Formula,
            "[order] by = \"formula\"",
        ),
        ("order", "highest_user_priority") => (
            rule.own_say.user_priority != UserPriority::Clamp,
            "[order] user_priority = \"clamp\"",
        ),
        ("order", "user_priority" | "lowest_is_best") => (
            !rule.uses_job_priority(),
            "an order that uses job priorities: \"multifactor\", \"priority\" or \"cluster\"",
        ),
        ("order.weights", _) => (
            rule.order != PriorityOrder::Multifactor,
            "[order] by = \"multifactor\"",
        ),
        ("usage", "half_life") => {
            let halves = matches!(decay, Decay::Step { .. } | Decay::Continuous { .. });
            (!halves, "[usage] decay = \"step\" or \"continuous\"")
        }
        ("usage", "window" | "windows" | "factor") => (
            !matches!(decay, Decay::Window { .. }),
            "[usage] decay = \"window\"",
        ),
        (section, _) if section.starts_with("order.components") => (
            rule.order != PriorityOrder::Components,
            "[order] by = \"components\"",
        ),
        _ => return None,
    };
    missing.then_some(need)
}

/// Queues with different priorities that are too close for the higher one to always precede (I2b).
fn near_queues(mut queues: Vec<Queue>, is_it4i: bool) -> Vec<String> {
    queues.sort_by(|one, other| (one.priority, &one.name).cmp(&(other.priority, &other.name)));
    let is_near =
        |low: &Queue, high: &Queue| (1..NEAREST).contains(&(high.priority - low.priority));
    let said = |pair: &[Queue]| {
        let [low, high] = pair else { return None };
        is_near(low, high).then(|| {
            format!(
                "queues `{}` ({}) and `{}` ({}) are so near that fair-share and waiting can put a job of the lower \
                 one first: let their priorities differ by {}, or set [order] lexicographic = true",
                low.name,
                low.priority,
                high.name,
                high.priority,
                if is_it4i { "2" } else { "more than all else can add to the formula" }
            )
        })
    };
    queues.windows(2).filter_map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Written;

    fn said(text: &str) -> Vec<String> {
        let config = Config::parse(text).unwrap();
        warnings(
            &config,
            &effective(&config, text, &QmgrOverrides::default()),
        )
    }

    /// I2b.
    #[test]
    fn queues_that_are_too_near_are_named_where_priorities_are_summed_up() {
        let queues = "[[queue]]\nname = \"low\"\npriority = 100\n[[queue]]\nname = \"high\"\npriority = 101\n\
                      [[queue]]\nname = \"top\"\npriority = 103\n[[queue]]\nname = \"also\"\npriority = 103\n";
        let said = |head: &str| said(&format!("{head}\n{queues}"));
        let warned = said("preset = \"it4i\"");
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].starts_with("queues `low` (100) and `high` (101) are so near"),
            "{warned:?}"
        );
        assert!(warned[0].contains("differ by 2, or"), "{warned:?}");
        assert!(said("preset = \"it4i\"\norder = { lexicographic = true }").is_empty());
        let unused = said("preset = \"it4i\"\norder = { formula = \"fairshare\" }");
        assert!(
            unused.iter().all(|said| !said.contains("are so near")),
            "they do not count: {unused:?}"
        );
        let other =
            said("preset = \"it4i\"\norder = { formula = \"queue_priority + eligible_time\" }");
        assert!(
            other[0].contains("differ by more than all else can add"),
            "{other:?}"
        );
        assert!(said("preset = \"hybrid\"").is_empty());
    }

    #[test]
    fn a_queue_priority_without_effect_is_named() {
        let queues = "[[queue]]\nname = \"short\"\npriority = 50\n[[queue]]\nname = \"plain\"\n";
        let said = |head: &str, more: &str| said(&format!("{head}\n{queues}{more}"));
        assert!(said("", "").is_empty());
        let by_fcfs =
            "the priority of queue `short` has no effect: [order] by = \"fcfs\" does not use it";
        assert_eq!(said("order = { by = \"fcfs\" }", ""), [by_fcfs]);
        let factor = said(
            "",
            "[[queue]]\nname = \"long\"\npriority = 5\nfactor = 0.5\n",
        );
        assert_eq!(
            factor,
            [
                "the priority of queue `long` has no effect: its `factor` in [[queue]] counts instead"
            ]
        );
        assert!(
            said(
                "[preemption]\ntriggers = [\"levels\"]\n[order]\nby = \"fcfs\"",
                ""
            )
            .is_empty()
        );
    }

    #[test]
    fn what_has_no_effect_is_named_with_its_line_and_what_it_needs() {
        let expected =
            "line 2: `formula` in [order] does not count: that needs [order] by = \"formula\"";
        assert_eq!(said("[order]\nformula = \"ncpus\"\n"), [expected]);
        assert!(said("[order]\nby = \"formula\"\nformula = \"ncpus\"\n").is_empty());
        for (text, idle) in [
            (
                "preset = \"it4i\"\n[order.weights]\nqos = 1\nqueue = 2\n",
                "qos",
            ),
            (
                "[order]\nhighest_user_priority = 5\n",
                "highest_user_priority",
            ),
            ("[order.components.service]\nqueue_time = 2\n", "queue_time"),
            (
                "[usage]\ndecay = \"none\"\nhalf_life = \"1d\"\n",
                "half_life",
            ),
            ("[usage]\nwindow = \"1d\"\n", "window"),
        ] {
            let said = said(text);
            assert!(
                matches!(&said[..], [one] if one.contains(&format!(": `{idle}` in [")) ),
                "{text}: {said:?}"
            );
        }
        assert!(said("[order.weights]\nqos = 1\n[usage]\nhalf_life = \"1d\"\n").is_empty());
        for (name, _) in Preset::ALL {
            let text = format!("preset = \"{name}\"\n");
            let written = Written(&effective(
                &Config::parse(&text).unwrap(),
                &text,
                &QmgrOverrides::default(),
            ))
            .to_string();
            assert_eq!(
                said(&written),
                [""; 0],
                "{name}: what is as the preset has it is nobody's mistake"
            );
        }
    }
}
