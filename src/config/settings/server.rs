//! `[server]`, key by key.

use super::{Known, amounts, span};
use crate::config::{Person, ServerConfig, Workdir};
use toml::Value;

/// What the installation as a whole is.
pub(super) fn server(server: &ServerConfig) -> Vec<Known> {
    let people = |people: &[Person]| {
        Some(
            people
                .iter()
                .map(Person::to_string)
                .collect::<Vec<String>>()
                .into(),
        )
    };
    let workdir = match server.workdir {
        Workdir::Submit => "submit",
        Workdir::Home => "home",
    };
    vec![
        ("name", server.name.clone().map(Value::from)),
        ("default_queue", Some(server.default_queue.clone().into())),
        ("query_other_jobs", Some(server.query_other_jobs.into())),
        (
            "default_qsub_arguments",
            Some(server.default_qsub_arguments.clone().into()),
        ),
        ("operators", people(&server.operators)),
        ("managers", people(&server.managers)),
        ("history", Some(span(server.history))),
        ("accounting", Some(span(server.accounting))),
        ("workdir", Some(workdir.into())),
        (
            "jobscript_max_size",
            Some(server.jobscript_max_size.to_string().into()),
        ),
        (
            "max_array_size",
            server.max_array_size.map(|most| i64::from(most).into()),
        ),
        ("resv_users", people(&server.reserving.users)),
        (
            "resv_max_number",
            Some(i64::from(server.reserving.number).into()),
        ),
        ("resv_max_duration", Some(span(server.reserving.duration))),
        ("resv_max_share", Some(server.reserving.share.into())),
        ("refuse_impossible", Some(server.refuse_impossible.into())),
        ("resources_default", amounts(&server.defaults)),
        ("default_chunk", amounts(&server.chunk_defaults)),
        ("resources_max", amounts(&server.most)),
        ("shared", Some(server.shared.into())),
        ("idle", Some(span(server.idle))),
        ("min_uid", Some(i64::from(server.min_uid).into())),
        (
            "mailer",
            server
                .mailer
                .as_ref()
                .map(|path| path.display().to_string().into()),
        ),
        ("mail_from", server.mail_from.clone().map(Value::from)),
        (
            "notify",
            server
                .notify
                .as_ref()
                .map(|path| path.display().to_string().into()),
        ),
    ]
}
