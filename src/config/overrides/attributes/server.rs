//! The server's attributes, and the scheduler's.

use super::preempting::RELEASES;
use super::texts::{count, joined, names, number, seconds, span, told, truth};
use super::{Attribute, Form, at};
use crate::config::{Config, Person, Reserving};
use crate::model::expression::Expression;
use crate::model::job::value_syntax;
use crate::model::policy::Order;
use crate::model::queue::Queue;
use crate::model::resource::Kind;
use crate::model::time::Span;
use std::path::PathBuf;

pub(super) const SERVER_HEAD: &[Attribute] = &[
    at("server_state", Form::ReadOnly),
    at("server_host", Form::ReadOnly),
    at("scheduling", SCHEDULING),
    at("total_jobs", Form::ReadOnly),
    at("state_count", Form::ReadOnly),
];

const SCHEDULING: Form = Form::Server(
    |config| told(config.cycle.scheduling),
    |config, text| {
        truth(text, true)
            .map(|is_on| config.cycle.scheduling = is_on)
            .is_some()
    },
);

const ITERATION: Form = Form::Server(
    |config| Some(config.cycle.poll_interval.as_seconds().to_string()),
    |config, text| {
        let pace = number(text, "600").filter(|seconds| (1..=100_000_000).contains(seconds));
        pace.map(|seconds| config.cycle.poll_interval = Span::seconds(seconds))
            .is_some()
    },
);

/// The scheduler's in PBS; the server's, too, so that what `print server` says makes the whole
/// again.
const THRESHOLD: Form = Form::Server(
    |config| config.precedence.threshold.map(|least| least.to_string()),
    |config, text| {
        let least = text.map(|text| {
            text.trim()
                .parse()
                .ok()
                .filter(|least: &f64| least.is_finite())
        });
        config.precedence.threshold = least.flatten();
        least != Some(None)
    },
);

pub(super) const SERVER: &[Attribute] = &[
    at("acl_roots", Form::Kept(Kind::String)),
    at(
        "managers",
        Form::Server(
            |config| people(&config.server.managers),
            |config, text| {
                persons(text)
                    .map(|people| config.server.managers = people)
                    .is_some()
            },
        ),
    ),
    at(
        "operators",
        Form::Server(
            |config| people(&config.server.operators),
            |config, text| {
                persons(text)
                    .map(|people| config.server.operators = people)
                    .is_some()
            },
        ),
    ),
    at(
        "default_queue",
        Form::Server(
            |config| Some(config.server.default_queue.clone()),
            |config, text| {
                let name = text.filter(|name| Queue::is_name(name));
                name.map(|name| config.server.default_queue = name.to_string())
                    .is_some()
            },
        ),
    ),
    at("log_events", Form::Kept(Kind::Long)),
    at(
        "mailer",
        Form::Server(
            |config| {
                config
                    .server
                    .mailer
                    .as_ref()
                    .map(|path| path.display().to_string())
            },
            |config, text| {
                config.server.mailer = text.map(PathBuf::from);
                config
                    .server
                    .mailer
                    .as_ref()
                    .is_none_or(|path| path.is_absolute())
            },
        ),
    ),
    at(
        "mail_from",
        Form::Server(
            |config| config.server.mail_from.clone(),
            |config, text| {
                config.server.mail_from = text.map(str::to_string);
                text.is_none_or(|text| {
                    !text.is_empty()
                        && !text.starts_with('-')
                        && !text.contains(char::is_whitespace)
                })
            },
        ),
    ),
    at(
        "query_other_jobs",
        Form::Server(
            |config| told(config.server.query_other_jobs),
            |config, text| {
                truth(text, true)
                    .map(|is_so| config.server.query_other_jobs = is_so)
                    .is_some()
            },
        ),
    ),
    at("resources_available", Form::Totals),
    at(
        "resources_default",
        Form::ServerAmounts(
            |config| &config.server.defaults,
            |config| &mut config.server.defaults,
        ),
    ),
    at(
        "default_chunk",
        Form::ServerAmounts(
            |config| &config.server.chunk_defaults,
            |config| &mut config.server.chunk_defaults,
        ),
    ),
    at(
        "resources_max",
        Form::ServerAmounts(
            |config| &config.server.most,
            |config| &mut config.server.most,
        ),
    ),
    at("resources_assigned", Form::ReadOnly),
    at("scheduler_iteration", ITERATION),
    at("flatuid", Form::Kept(Kind::Boolean)),
    at("resv_enable", Form::Always("True")),
    at("node_fail_requeue", Form::Kept(Kind::Long)),
    at(
        "max_array_size",
        Form::Server(
            |config| config.server.max_array_size.map(|most| most.to_string()),
            |config, text| {
                count(text)
                    .map(|most| config.server.max_array_size = most)
                    .is_some()
            },
        ),
    ),
    at(
        "resv_users",
        Form::Server(
            |config| people(&config.server.reserving.users),
            |config, text| {
                persons(text.or(Some("*")))
                    .map(|users| config.server.reserving.users = users)
                    .is_some()
            },
        ),
    ),
    at(
        "resv_max_number",
        Form::Server(
            |config| Some(config.server.reserving.number.to_string()),
            |config, text| {
                let number = text.map_or(Some(Reserving::default().number), |text| {
                    text.trim().parse().ok()
                });
                number
                    .map(|number| config.server.reserving.number = number)
                    .is_some()
            },
        ),
    ),
    at(
        "resv_max_duration",
        Form::Server(
            |config| seconds(Some(config.server.reserving.duration)),
            |config, text| {
                let duration =
                    span(text).map(|given| given.unwrap_or(Reserving::default().duration));
                duration
                    .map(|duration| config.server.reserving.duration = duration)
                    .is_some()
            },
        ),
    ),
    at(
        "resv_max_share",
        Form::Server(
            |config| Some(config.server.reserving.share.to_string()),
            |config, text| {
                let share = text.map_or(Some(Reserving::default().share), value_syntax::fraction);
                share
                    .map(|share| config.server.reserving.share = share)
                    .is_some()
            },
        ),
    ),
    at("resend_term_delay", Form::Kept(Kind::Long)),
    at("pbs_license_min", Form::Kept(Kind::Long)),
    at("pbs_license_max", Form::Kept(Kind::Long)),
    at("pbs_license_linger_time", Form::Kept(Kind::Long)),
    at("license_count", Form::ReadOnly),
    at("pbs_version", Form::ReadOnly),
    at("eligible_time_enable", Form::Always("True")),
    at(
        "job_history_enable",
        Form::Server(
            |config| told(config.server.history > Span(0)),
            |config, text| {
                truth(text, false)
                    .map(|is_on| config.server.history = history(config.server.history, is_on))
                    .is_some()
            },
        ),
    ),
    at(
        "job_history_duration",
        Form::Server(
            |config| {
                Some(config.server.history)
                    .filter(|span| *span > Span(0))
                    .map(|span| span.to_string())
            },
            |config, text| {
                let span = text
                    .map_or(Some(HISTORY), Span::parse)
                    .filter(|span| *span > Span(0));
                span.map(|span| config.server.history = span).is_some()
            },
        ),
    ),
    at("restrict_res_to_release_on_suspend", RELEASES),
    at("max_concurrent_provision", Form::Kept(Kind::Long)),
    at(
        "backfill_depth",
        Form::Server(
            |config| Some(config.backfill.depth.to_string()),
            |config, text| {
                let depth = text.map_or(Ok(1), str::parse).ok();
                depth.map(|depth| config.backfill.depth = depth).is_some()
            },
        ),
    ),
    at("job_sort_formula", Form::Server(formula, set_formula)),
    at("job_sort_formula_threshold", THRESHOLD),
    at("clear_topjob_estimates_enable", Form::Kept(Kind::Boolean)),
    at("power_provisioning", Form::ReadOnly),
    at("max_job_sequence_id", Form::Kept(Kind::Long)),
    at(
        "default_qsub_arguments",
        Form::Server(
            |config| {
                Some(config.server.default_qsub_arguments.clone()).filter(|words| !words.is_empty())
            },
            |config, text| {
                config.server.default_qsub_arguments = text.unwrap_or_default().to_string();
                value_syntax::is_line(&config.server.default_qsub_arguments)
            },
        ),
    ),
    at("default_qdel_arguments", Form::Missing),
    at("acl_host_enable", Form::Missing),
    at("acl_hosts", Form::Missing),
    at("acl_user_enable", Form::Missing),
    at("acl_users", Form::Missing),
    at("node_group_enable", Form::Missing),
    at("node_group_key", Form::Missing),
    at("comment", Form::Kept(Kind::String)),
];

/// What the only scheduler says of itself. What it shares with the server is kept there.
pub(super) const SCHED: &[Attribute] = &[
    at("sched_host", Form::ReadOnly),
    at("pbs_version", Form::ReadOnly),
    // Cycles never wait for a job to begin.
    at("throughput_mode", Form::Always("True")),
    at("scheduling", SCHEDULING),
    at("scheduler_iteration", ITERATION),
    at("job_sort_formula_threshold", THRESHOLD),
    at("state", Form::ReadOnly),
    at("sched_cycle_length", Form::Missing),
    at("job_run_wait", Form::Missing),
    at("partition", Form::Missing),
    at("sched_priv", Form::Missing),
    at("sched_log", Form::Missing),
    at("do_not_span_psets", Form::Missing),
    at("only_explicit_psets", Form::Missing),
];

/// What comes after how jobs make way.
pub(super) const SCHED_TAIL: &[Attribute] = &[
    at("log_events", Form::Missing),
    at("server_dyn_res_alarm", Form::Missing),
];

/// How long finished jobs are kept, where only that they are is said.
const HISTORY: Span = Span::seconds(90 * 24 * 3600);

fn history(before: Span, is_on: bool) -> Span {
    match (is_on, before > Span(0)) {
        (true, true) => before,
        (true, false) => HISTORY,
        (false, _) => Span(0),
    }
}

fn formula(config: &Config) -> Option<String> {
    let rule = &config.precedence;
    let formula = rule
        .formula
        .as_ref()
        .filter(|_| rule.order == Order::Formula);
    formula.map(|formula| formula.text().to_string())
}

/// Who sets a formula wants it to count; without one the preset's order does.
fn set_formula(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        let preset = config.preset.policy().precedence;
        (config.precedence.order, config.precedence.formula) = (preset.order, preset.formula);
        return true;
    };
    let resources = config.resources();
    let read = Expression::parse(text)
        .ok()
        .filter(|formula| config.knows_names_of(formula, &resources));
    let Some(formula) = read else { return false };
    (config.precedence.order, config.precedence.formula) = (Order::Formula, Some(formula));
    true
}

fn people(people: &[Person]) -> Option<String> {
    joined(&people.iter().map(Person::to_string).collect::<Vec<_>>())
}

fn persons(text: Option<&str>) -> Option<Vec<Person>> {
    names(text.unwrap_or_default())
        .iter()
        .map(|name| Person::parse(name))
        .collect()
}
