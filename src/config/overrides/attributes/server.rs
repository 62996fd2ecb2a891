//! The attributes of the server and of the scheduler.

use super::preempting::RELEASES;
use super::texts::{boolean, parse_boolean, parse_span, seconds};
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, attribute};
use crate::config::{Config, ReservationLimits};
use crate::model::expression::Expression;
use crate::model::policy::PriorityOrder;
use crate::model::resource::ResourceType;
use crate::model::time::Span;

pub(super) const SERVER_HEAD: &[QmgrAttribute] = &[
    attribute("server_state", AttributeForm::ReadOnly),
    attribute("server_host", AttributeForm::ReadOnly),
    attribute("scheduling", AttributeForm::Key),
    attribute("total_jobs", AttributeForm::ReadOnly),
    attribute("state_count", AttributeForm::ReadOnly),
];

pub(super) const SERVER: &[QmgrAttribute] = &[
    attribute("acl_roots", AttributeForm::Kept(ResourceType::String)),
    attribute("managers", AttributeForm::Key),
    attribute("operators", AttributeForm::Key),
    attribute("default_queue", AttributeForm::Key),
    attribute("log_events", AttributeForm::Kept(ResourceType::Long)),
    attribute("mailer", AttributeForm::Key),
    attribute("mail_from", AttributeForm::Key),
    attribute("query_other_jobs", AttributeForm::Key),
    attribute("resources_available", AttributeForm::Totals),
    attribute("resources_default", AttributeForm::Amounts),
    attribute("default_chunk", AttributeForm::Amounts),
    attribute("resources_max", AttributeForm::Amounts),
    attribute("resources_assigned", AttributeForm::ReadOnly),
    attribute("scheduler_iteration", AttributeForm::Key),
    attribute("flatuid", AttributeForm::Kept(ResourceType::Boolean)),
    attribute("resv_enable", AttributeForm::Always("True")),
    attribute("node_fail_requeue", AttributeForm::Kept(ResourceType::Long)),
    attribute("max_array_size", AttributeForm::Key),
    attribute("resv_users", AttributeForm::Key),
    attribute("resv_max_number", AttributeForm::Key),
    attribute(
        "resv_max_duration",
        AttributeForm::Server(
            |config| seconds(Some(config.server.reserving.duration)),
            |config, text| {
                let duration = parse_span(text)
                    .map(|given| given.unwrap_or(ReservationLimits::default().duration));
                duration
                    .map(|duration| config.server.reserving.duration = duration)
                    .is_some()
            },
        ),
    ),
    attribute("resv_max_share", AttributeForm::Key),
    attribute("resend_term_delay", AttributeForm::Kept(ResourceType::Long)),
    attribute("pbs_license_min", AttributeForm::Kept(ResourceType::Long)),
    attribute("pbs_license_max", AttributeForm::Kept(ResourceType::Long)),
    attribute(
        "pbs_license_linger_time",
        AttributeForm::Kept(ResourceType::Long),
    ),
    attribute("license_count", AttributeForm::ReadOnly),
    attribute("pbs_version", AttributeForm::ReadOnly),
    attribute("eligible_time_enable", AttributeForm::Always("True")),
    attribute(
        "job_history_enable",
        AttributeForm::Server(
            |config| boolean(config.server.history > Span(0)),
            |config, text| {
                parse_boolean(text, false)
                    .map(|is_on| config.server.history = history(config.server.history, is_on))
                    .is_some()
            },
        ),
    ),
    attribute(
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
    attribute("restrict_res_to_release_on_suspend", RELEASES),
    attribute(
        "max_concurrent_provision",
        AttributeForm::Kept(ResourceType::Long),
    ),
    attribute("backfill_depth", AttributeForm::Key),
    attribute(
        "job_sort_formula",
        AttributeForm::Server(formula, set_formula),
    ),
    attribute("job_sort_formula_threshold", AttributeForm::Key),
    attribute(
        "clear_topjob_estimates_enable",
        AttributeForm::Kept(ResourceType::Boolean),
    ),
    attribute("power_provisioning", AttributeForm::ReadOnly),
    attribute(
        "max_job_sequence_id",
        AttributeForm::Kept(ResourceType::Long),
    ),
    attribute("default_qsub_arguments", AttributeForm::Key),
    attribute("default_qdel_arguments", AttributeForm::Missing),
    attribute("acl_host_enable", AttributeForm::Missing),
    attribute("acl_hosts", AttributeForm::Missing),
    attribute("acl_user_enable", AttributeForm::Missing),
    attribute("acl_users", AttributeForm::Missing),
    attribute("node_group_enable", AttributeForm::Missing),
    attribute("node_group_key", AttributeForm::Missing),
    attribute("comment", AttributeForm::Kept(ResourceType::String)),
];

/// The scheduler's attributes before the preemption attributes, in display order. The server stores
/// the attributes that it shares with the scheduler.
pub(super) const SCHED: &[QmgrAttribute] = &[
    attribute("sched_host", AttributeForm::ReadOnly),
    attribute("pbs_version", AttributeForm::ReadOnly),
    // Cycles never wait for a job to start.
    attribute("throughput_mode", AttributeForm::Always("True")),
    attribute("scheduling", AttributeForm::Key),
    attribute("scheduler_iteration", AttributeForm::Key),
    attribute("job_sort_formula_threshold", AttributeForm::Key),
    attribute("state", AttributeForm::ReadOnly),
    attribute("sched_cycle_length", AttributeForm::Missing),
    attribute("job_run_wait", AttributeForm::Missing),
    attribute("partition", AttributeForm::Missing),
    attribute("sched_priv", AttributeForm::Missing),
    attribute("sched_log", AttributeForm::Missing),
    attribute("do_not_span_psets", AttributeForm::Missing),
    attribute("only_explicit_psets", AttributeForm::Missing),
];

/// The scheduler's attributes after the preemption attributes, in display order.
pub(super) const SCHED_TAIL: &[QmgrAttribute] = &[
    attribute("log_events", AttributeForm::Missing),
    attribute("server_dyn_res_alarm", AttributeForm::Missing),
];

/// The duration of the job history after qmgr enables the disabled history, or unsets the attribute
/// `job_history_duration`.
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

/// Sets the formula, and orders jobs by this formula. If `text` is None, restores the order and the
/// formula of the preset. Returns false for an invalid formula.
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
