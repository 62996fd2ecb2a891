//! Warnings about settings that are valid but probably not intended.

use super::Config;
use super::settings::{KeySetting, SettingOrigin, effective};
use crate::config::overrides::QmgrOverrides;
use crate::model::account::decay::Decay;
use crate::model::policy::formula::uses_name;
use crate::model::policy::{Preset, PriorityOrder, UserPriority};
use crate::model::queue::Queue;
use std::collections::BTreeSet;

/// Different queue priorities give a warning if their difference is below this number. In IT4I's
/// formula, fair share and waiting time together can add more than a difference of 1 adds.
const SMALLEST_DIFFERENCE: i32 = 2;

/// Returns one sentence per warning. `settings` are those of `config`.
pub fn warnings(config: &Config, settings: &[KeySetting]) -> Vec<String> {
    let rule = &config.policy.precedence;
    let mut all = Vec::new();
    if rule.order == PriorityOrder::Formula
        && !rule.lexicographic
        && let Some(formula) = &rule.formula
        && uses_name(formula, |name| name == "queue_priority")
    {
        let is_it4i = rule.formula == Preset::It4i.policy().precedence.formula;
        all.extend(near_queues(config.queues(), is_it4i));
    }
    all.extend(ineffective(config, settings));
    all.extend(unused_priorities(config));
    all
}

/// One sentence for each queue priority, except 0, that has no effect.
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

/// One sentence for each setting of the file that has no effect because another setting is missing.
/// A setting with the preset's value is not reported. If several keys of a section require the same
/// missing setting, only the first key is reported.
fn ineffective(config: &Config, settings: &[KeySetting]) -> Vec<String> {
    let preset = Config::with_preset(config.preset);
    let preset = effective(&preset, "", &QmgrOverrides::default());
    let mut reported = BTreeSet::new();
    let sentence = |(setting, preset): (&KeySetting, &KeySetting)| {
        let SettingOrigin::Line(line) = setting.origin else {
            return None;
        };
        if setting.value.is_some() && setting.value == preset.value {
            return None;
        }
        let need = unmet_requirement(config, setting)
            .filter(|need| reported.insert((setting.section, *need)))?;
        let (key, section) = (&setting.key, setting.section);
        Some(format!(
            "line {line}: `{key}` in [{section}] has no effect without {need}"
        ))
    };
    settings.iter().zip(&preset).filter_map(sentence).collect()
}

/// The missing setting without which `setting` has no effect; None if no required setting is
/// missing.
fn unmet_requirement(config: &Config, setting: &KeySetting) -> Option<&'static str> {
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
            "an order that uses job priorities: \"multifactor\", \"priority\" or \"cluster\", or a \
             formula with job_priority",
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
        ("idle", "cpu" | "end_interactive") => (config.idle.after.is_none(), "[idle] after"),
        (section, _) if section.starts_with("order.components") => (
            rule.order != PriorityOrder::Components,
            "[order] by = \"components\"",
        ),
        _ => return None,
    };
    missing.then_some(need)
}

/// One sentence for each two queues that are adjacent in order of priority, if their priorities are
/// so close that a job of the queue with the lower priority can come first (I2b).
fn near_queues(mut queues: Vec<Queue>, is_it4i: bool) -> Vec<String> {
    queues.sort_by(|one, other| (one.priority, &one.name).cmp(&(other.priority, &other.name)));
    let is_near = |low: &Queue, high: &Queue| {
        (1..SMALLEST_DIFFERENCE).contains(&(high.priority - low.priority))
    };
    let warning = |pair: &[Queue]| {
        let [low, high] = pair else { return None };
        let difference = if is_it4i {
            "at least 2"
        } else {
            "more than the other terms of the formula can add"
        };
        is_near(low, high).then(|| {
            format!(
                "queues `{}` (priority {}) and `{}` (priority {}) are so close that fair share and \
                 waiting time can put a job of the queue with the lower priority first: let the \
                 priorities differ by {difference}, or set [order] lexicographic = true",
                low.name, low.priority, high.name, high.priority,
            )
        })
    };
    queues.windows(2).filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Written;

    fn warnings_of(text: &str) -> Vec<String> {
        let config = Config::parse(text).unwrap();
        warnings(
            &config,
            &effective(&config, text, &QmgrOverrides::default()),
        )
    }

    /// I2b.
    #[test]
    fn queue_priorities_that_are_too_close_for_a_formula_are_reported() {
        let queues = "[[queue]]\nname = \"low\"\npriority = 100\n[[queue]]\nname = \"high\"\npriority = 101\n\
                      [[queue]]\nname = \"top\"\npriority = 103\n[[queue]]\nname = \"also\"\npriority = 103\n";
        let warnings_of = |head: &str| warnings_of(&format!("{head}\n{queues}"));
        let warned = warnings_of("preset = \"it4i\"");
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0]
                .starts_with("queues `low` (priority 100) and `high` (priority 101) are so close"),
            "{warned:?}"
        );
        assert!(warned[0].contains("differ by at least 2, or"), "{warned:?}");
        assert!(warnings_of("preset = \"it4i\"\norder = { lexicographic = true }").is_empty());
        let unused = warnings_of("preset = \"it4i\"\norder = { formula = \"fairshare\" }");
        assert!(
            unused.iter().all(|text| !text.contains("are so close")),
            "the formula ignores queue priority: {unused:?}"
        );
        let other = warnings_of(
            "preset = \"it4i\"\norder = { formula = \"queue_priority + eligible_time\" }",
        );
        assert!(
            other[0].contains("differ by more than the other terms of the formula can add"),
            "{other:?}"
        );
        assert!(warnings_of("preset = \"hybrid\"").is_empty());
    }

    #[test]
    fn a_queue_priority_without_effect_is_reported() {
        let queues = "[[queue]]\nname = \"short\"\npriority = 50\n[[queue]]\nname = \"plain\"\n";
        let warnings_of = |head: &str, more: &str| warnings_of(&format!("{head}\n{queues}{more}"));
        assert!(warnings_of("", "").is_empty());
        let by_fcfs =
            "the priority of queue `short` has no effect: [order] by = \"fcfs\" does not use it";
        assert_eq!(warnings_of("order = { by = \"fcfs\" }", ""), [by_fcfs]);
        let factor = warnings_of(
            "",
            "[[queue]]\nname = \"long\"\npriority = 5\nfactor = 0.5\n",
        );
        assert_eq!(
            factor,
            [
                "the priority of queue `long` has no effect: its `factor` in [[queue]] is used instead"
            ]
        );
        assert!(
            warnings_of(
                "[preemption]\ntriggers = [\"levels\"]\n[order]\nby = \"fcfs\"",
                ""
            )
            .is_empty()
        );
    }

    #[test]
    fn settings_without_effect_are_reported_with_their_line_and_condition() {
        let expected =
            "line 2: `formula` in [order] has no effect without [order] by = \"formula\"";
        assert_eq!(warnings_of("[order]\nformula = \"ncpus\"\n"), [expected]);
        assert!(warnings_of("[order]\nby = \"formula\"\nformula = \"ncpus\"\n").is_empty());
        for (text, key) in [
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
            let found = warnings_of(text);
            assert!(
                matches!(&found[..], [one] if one.contains(&format!(": `{key}` in [")) ),
                "{text}: {found:?}"
            );
        }
        assert!(warnings_of("[order.weights]\nqos = 1\n[usage]\nhalf_life = \"1d\"\n").is_empty());
        for (name, _) in Preset::ALL {
            let text = format!("preset = \"{name}\"\n");
            let written = Written(&effective(
                &Config::parse(&text).unwrap(),
                &text,
                &QmgrOverrides::default(),
            ))
            .to_string();
            assert_eq!(
                warnings_of(&written),
                [""; 0],
                "{name}: the preset's own values give no warning"
            );
        }
    }
}
