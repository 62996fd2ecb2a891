//! Limit usage for `qstat --limits`. The scheduler reports the usage of limits of the stages
//! `running` and `idle`. The server's job counters, which include held jobs, report the usage of
//! limits of the stages `queued` and `waiting`.

use crate::model::limit::usage::LimitUse;
use crate::model::limit::{Limit, LimitKey, LimitScope, LimitStage, Limits, Selector};
use crate::model::queue::counters::uses::Counted;
use crate::model::resource::Resources;
use std::collections::BTreeMap;

/// All limits with their usage, sorted. `group` maps a gid, by which the scheduler identifies a
/// group, to the group's name.
pub fn with_counted(
    considered: Vec<LimitUse>,
    counted: &[Counted],
    limits: &Limits,
    resources: &Resources,
    group: impl Fn(u32) -> String,
) -> Vec<LimitUse> {
    let considered = considered.into_iter().map(|one| LimitUse {
        key: with_group(&one, &group),
        ..one
    });
    let (kept, mut all): (Vec<LimitUse>, Vec<LimitUse>) = considered
        .partition(|one| matches!(one.limit.stage, LimitStage::Queued | LimitStage::Waiting));
    let mut kept: BTreeMap<_, _> = kept
        .into_iter()
        .map(|one| ((one.place, one.key.clone()), one))
        .collect();
    for one in counted {
        let Some(limit) = limits.all.get(one.place) else {
            continue;
        };
        let waiting = kept
            .remove(&(one.place, one.key.clone()))
            .map_or(0, |same| same.waiting);
        all.push(LimitUse {
            waiting,
            ..one.with_texts(limit, resources)
        });
    }
    // A limit that does not count each user, group etc. separately is shown even without jobs.
    let unused = kept
        .into_values()
        .filter(|one| has_only_explicit_names(&one.limit));
    all.extend(unused.map(|one| {
        let bounds = one.limit.bounds();
        let no_jobs = Counted {
            place: one.place,
            key: one.key,
            bounds,
            ..Counted::default()
        };
        no_jobs.with_texts(&one.limit, resources)
    }));
    // Entries without bounds are exemptions, which are not shown.
    all.retain(|one| one.soft.is_some() || one.hard.is_some());
    all.sort_by(|a, b| (a.place, &a.key).cmp(&(b.place, &b.key)));
    all
}

/// The limit key, with the group name instead of the gid in per-group limits.
fn with_group(one: &LimitUse, group: impl Fn(u32) -> String) -> LimitKey {
    let LimitScope {
        queue,
        user,
        group: of_group,
        ..
    } = &one.limit.scope;
    let mut key = one.key.clone();
    let place = [queue, user]
        .into_iter()
        .filter(|selector| **selector != Selector::All)
        .count();
    if *of_group == Selector::Each
        && let Some(name) = key.get_mut(place)
        && let Ok(number) = name.parse()
    {
        *name = group(number);
    }
    key
}

fn has_only_explicit_names(limit: &Limit) -> bool {
    limit
        .scope
        .selectors()
        .into_iter()
        .all(|selector| *selector != Selector::Each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn limits_on_queued_jobs_show_the_usage_of_the_job_counters() {
        let text = "[[limit]]\nuser = \"*\"\nrunning = { jobs = 2 }\nqueued = { mem = \"4gb\" }\n\
                    [[limit]]\nqueue = \"night\"\nqueued = { jobs = 9 }\n";
        let config = Config::parse(text).unwrap();
        let (limits, resources) = (config.effective_policy().limits, config.resources());
        let count = |place: usize, key: &str, used| {
            let bounds = limits.all[place].bounds();
            Counted {
                place,
                key: vec![key.into()],
                bounds,
                used,
                ..Counted::default()
            }
        };
        let considered = |place, key, used, waiting| LimitUse {
            waiting,
            ..count(place, key, used).with_texts(&limits.all[place], &resources)
        };
        // The scheduler's usage is older than the counters, because bob's job has just ended.
        let known = vec![
            considered(0, "ann", 1, 4),
            considered(1, "ann", 1, 4),
            considered(1, "bob", 1, 1),
            considered(2, "night", 3, 0),
        ];
        let all = with_counted(
            known,
            &[count(1, "ann", 3 << 30), count(1, "cid", 1 << 30)],
            &limits,
            &resources,
            |gid| gid.to_string(),
        );
        let shown = |one: &LimitUse| {
            format!(
                "{} {} {} {}",
                one.limit.stage.name(),
                one.key[0],
                one.used.shown,
                one.waiting
            )
        };
        let expected = [
            "running ann 1 4",
            "queued ann 3145728kb 4",
            "queued cid 1048576kb 0",
            "queued night 0 0",
        ];
        assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(
            all[1].hard.as_ref().map(|hard| hard.shown.as_str()),
            Some("4194304kb")
        );
    }
    #[test]
    fn a_gid_is_replaced_by_the_group_name_and_a_user_name_is_not() {
        let text = "[[limit]]\nuser = \"*\"\ngroup = \"*\"\nrunning = { jobs = 2 }\nqueued = { jobs = 9 }\n";
        let config = Config::parse(text).unwrap();
        let (limits, resources) = (config.effective_policy().limits, config.resources());
        let key = |group: &str| vec!["50".to_string(), group.to_string()];
        let of = |place, group, waiting| {
            let one = Counted {
                place,
                key: key(group),
                used: 1,
                ..Counted::default()
            };
            LimitUse {
                waiting,
                hard: Some(Default::default()),
                ..one.with_texts(&limits.all[place], &resources)
            }
        };
        let bounds = limits.all[1].bounds();
        let counted = [Counted {
            place: 1,
            key: key("staff"),
            bounds,
            used: 3,
            ..Counted::default()
        }];
        let name = |gid: u32| {
            if gid == 50 {
                "staff".to_string()
            } else {
                gid.to_string()
            }
        };
        let all = with_counted(
            vec![of(0, "50", 4), of(1, "50", 4)],
            &counted,
            &limits,
            &resources,
            name,
        );
        let shown: Vec<_> = all
            .iter()
            .map(|one| (one.key.clone(), one.waiting))
            .collect();
        assert_eq!(
            shown,
            [(key("staff"), 4), (key("staff"), 4)],
            "the user named 50 is not a group"
        );
    }
}
