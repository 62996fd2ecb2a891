//! The server's attributes, and the scheduler's.

use super::preempting::RELEASES;
use super::texts::{seconds, span, told, truth};
use super::{Attribute, Form, at};
use crate::config::{Config, Reserving};
use crate::model::expression::Expression;
use crate::model::policy::Order;
use crate::model::resource::Kind;
use crate::model::time::Span;

pub(super) const SERVER_HEAD: &[Attribute] = &[
    at("server_state", Form::ReadOnly),
    at("server_host", Form::ReadOnly),
    at("scheduling", Form::Key),
    at("total_jobs", Form::ReadOnly),
    at("state_count", Form::ReadOnly),
];

pub(super) const SERVER: &[Attribute] = &[
    at("acl_roots", Form::Kept(Kind::String)),
    at("managers", Form::Key),
    at("operators", Form::Key),
    at("default_queue", Form::Key),
    at("log_events", Form::Kept(Kind::Long)),
    at("mailer", Form::Key),
    at("mail_from", Form::Key),
    at("query_other_jobs", Form::Key),
    at("resources_available", Form::Totals),
    at("resources_default", Form::Amounts),
    at("default_chunk", Form::Amounts),
    at("resources_max", Form::Amounts),
    at("resources_assigned", Form::ReadOnly),
    at("scheduler_iteration", Form::Key),
    at("flatuid", Form::Kept(Kind::Boolean)),
    at("resv_enable", Form::Always("True")),
    at("node_fail_requeue", Form::Kept(Kind::Long)),
    at("max_array_size", Form::Key),
    at("resv_users", Form::Key),
    at("resv_max_number", Form::Key),
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
    at("resv_max_share", Form::Key),
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
    at("backfill_depth", Form::Key),
    at("job_sort_formula", Form::Server(formula, set_formula)),
    at("job_sort_formula_threshold", Form::Key),
    at("clear_topjob_estimates_enable", Form::Kept(Kind::Boolean)),
    at("power_provisioning", Form::ReadOnly),
    at("max_job_sequence_id", Form::Kept(Kind::Long)),
    at("default_qsub_arguments", Form::Key),
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
    at("scheduling", Form::Key),
    at("scheduler_iteration", Form::Key),
    at("job_sort_formula_threshold", Form::Key),
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
