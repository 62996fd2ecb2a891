//! The server's attributes, and the scheduler's.

use super::preempting::RELEASES;
use super::texts::{boolean, seconds, span, truth};
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, at};
use crate::config::{Config, Reserving};
use crate::model::expression::Expression;
use crate::model::policy::PriorityOrder;
use crate::model::resource::ResourceType;
use crate::model::time::Span;

pub(super) const SERVER_HEAD: &[QmgrAttribute] = &[
    at("server_state", AttributeForm::ReadOnly),
    at("server_host", AttributeForm::ReadOnly),
    at("scheduling", AttributeForm::Key),
    at("total_jobs", AttributeForm::ReadOnly),
    at("state_count", AttributeForm::ReadOnly),
];

pub(super) const SERVER: &[QmgrAttribute] = &[
    at("acl_roots", AttributeForm::Kept(ResourceType::String)),
    at("managers", AttributeForm::Key),
    at("operators", AttributeForm::Key),
    at("default_queue", AttributeForm::Key),
    at("log_events", AttributeForm::Kept(ResourceType::Long)),
    at("mailer", AttributeForm::Key),
    at("mail_from", AttributeForm::Key),
    at("query_other_jobs", AttributeForm::Key),
    at("resources_available", AttributeForm::Totals),
    at("resources_default", AttributeForm::Amounts),
    at("default_chunk", AttributeForm::Amounts),
    at("resources_max", AttributeForm::Amounts),
    at("resources_assigned", AttributeForm::ReadOnly),
    at("scheduler_iteration", AttributeForm::Key),
    at("flatuid", AttributeForm::Kept(ResourceType::Boolean)),
    at("resv_enable", AttributeForm::Always("True")),
    at("node_fail_requeue", AttributeForm::Kept(ResourceType::Long)),
    at("max_array_size", AttributeForm::Key),
    at("resv_users", AttributeForm::Key),
    at("resv_max_number", AttributeForm::Key),
    at(
        "resv_max_duration",
        AttributeForm::Server(
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
    at("resv_max_share", AttributeForm::Key),
    at("resend_term_delay", AttributeForm::Kept(ResourceType::Long)),
    at("pbs_license_min", AttributeForm::Kept(ResourceType::Long)),
    at("pbs_license_max", AttributeForm::Kept(ResourceType::Long)),
    at(
        "pbs_license_linger_time",
        AttributeForm::Kept(ResourceType::Long),
    ),
    at("license_count", AttributeForm::ReadOnly),
    at("pbs_version", AttributeForm::ReadOnly),
    at("eligible_time_enable", AttributeForm::Always("True")),
    at(
        "job_history_enable",
        AttributeForm::Server(
            |config| boolean(config.server.history > Span(0)),
            |config, text| {
                truth(text, false)
                    .map(|is_on| config.server.history = history(config.server.history, is_on))
                    .is_some()
            },
        ),
    ),
    at(
        "job_history_duration",
        AttributeForm::Server(
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
    at(
        "max_concurrent_provision",
        AttributeForm::Kept(ResourceType::Long),
    ),
    at("backfill_depth", AttributeForm::Key),
    at(
        "job_sort_formula",
        AttributeForm::Server(formula, set_formula),
    ),
    at("job_sort_formula_threshold", AttributeForm::Key),
    at(
        "clear_topjob_estimates_enable",
        AttributeForm::Kept(ResourceType::Boolean),
    ),
    at("power_provisioning", AttributeForm::ReadOnly),
    at(
        "max_job_sequence_id",
        AttributeForm::Kept(ResourceType::Long),
    ),
    at("default_qsub_arguments", AttributeForm::Key),
    at("default_qdel_arguments", AttributeForm::Missing),
    at("acl_host_enable", AttributeForm::Missing),
    at("acl_hosts", AttributeForm::Missing),
    at("acl_user_enable", AttributeForm::Missing),
    at("acl_users", AttributeForm::Missing),
    at("node_group_enable", AttributeForm::Missing),
    at("node_group_key", AttributeForm::Missing),
    at("comment", AttributeForm::Kept(ResourceType::String)),
];

/// The scheduler's attributes. Those shared with the server are stored there.
pub(super) const SCHED: &[QmgrAttribute] = &[
    at("sched_host", AttributeForm::ReadOnly),
    at("pbs_version", AttributeForm::ReadOnly),
    // Cycles never wait for a job to start.
    at("throughput_mode", AttributeForm::Always("True")),
    at("scheduling", AttributeForm::Key),
    at("scheduler_iteration", AttributeForm::Key),
    at("job_sort_formula_threshold", AttributeForm::Key),
    at("state", AttributeForm::ReadOnly),
    at("sched_cycle_length", AttributeForm::Missing),
    at("job_run_wait", AttributeForm::Missing),
    at("partition", AttributeForm::Missing),
    at("sched_priv", AttributeForm::Missing),
    at("sched_log", AttributeForm::Missing),
    at("do_not_span_psets", AttributeForm::Missing),
    at("only_explicit_psets", AttributeForm::Missing),
];

/// The attributes after those of preemption.
pub(super) const SCHED_TAIL: &[QmgrAttribute] = &[
    at("log_events", AttributeForm::Missing),
    at("server_dyn_res_alarm", AttributeForm::Missing),
];

/// The time for which finished jobs are kept if it is only enabled.
const HISTORY: Span = Span::seconds(90 * 24 * 3600);

fn history(before: Span, is_on: bool) -> Span {
    if !is_on {
        Span(0)
    } else if before > Span(0) {
        before
    } else {
        HISTORY
    }
}

fn formula(config: &Config) -> Option<String> {
    let rule = &config.policy.precedence;
    if rule.order != PriorityOrder::Formula {
        return None;
    }
    Some(rule.formula.as_ref()?.text().to_string())
}

/// Sets the formula and orders jobs by it. Without one the preset's order applies.
fn set_formula(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        let preset = config.preset.policy().precedence;
        (
            config.policy.precedence.order,
            config.policy.precedence.formula,
        ) = (preset.order, preset.formula);
        return true;
    };
    let resources = config.resources();
    let read = Expression::parse(text)
        .ok()
        .filter(|formula| config.knows_names_of(formula, &resources));
    let Some(formula) = read else { return false };
    (
        config.policy.precedence.order,
        config.policy.precedence.formula,
    ) = (PriorityOrder::Formula, Some(formula));
    true
}
