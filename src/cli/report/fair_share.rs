//! Current fair share and starvation of pools and operations (an operation is a job, or an array
//! with all its subjobs): a table of `qstat --shares`, and a sentence of `qstat --why`.

use crate::cli::output::table::{self, ColumnHead};
use crate::model::report::fair_share_status::{FairShareReport, FairShareStatus, ShareHolder};
use crate::shown::timestamp;
use crate::wire::message::ServerFacts;
use serde_json::{Value, json};

const HEADS: [ColumnHead; 7] = [
    ("Pool or operation", false),
    ("Fair share", true),
    ("Usage", true),
    ("Satisfied", true),
    ("Resource", false),
    ("Status", false),
    ("Below since", false),
];

/// A table below the share tree; empty without the preemption trigger `starvation`.
pub fn text(all: &[FairShareReport], server: &ServerFacts) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows = all.iter().map(|report| {
        [
            "  ".repeat(report.pools.len()) + &name(report, server),
            percent(report.fair),
            percent(report.used),
            satisfaction(report).map_or("--".into(), |part| format!("{part:.2}")),
            report.resource.clone().unwrap_or_else(|| "--".into()),
            report.status.name().to_string(),
            since(report, server).unwrap_or_else(|| "--".into()),
        ]
    });
    format!(
        "\ncurrent fair shares of the cluster\n{}",
        table::with_heads(&HEADS, &rows.collect::<Vec<_>>())
    )
}

/// The fair share and usage of a waiting job's operation, as a sentence.
pub fn sentence(report: &FairShareReport, server: &ServerFacts) -> String {
    let of = report
        .resource
        .as_ref()
        .map_or(String::new(), |resource| format!(" of {resource}"));
    let figures = format!(
        "usage {}{of}, fair share {}",
        percent(report.used),
        percent(report.fair)
    );
    let Some(since) = since(report, server) else {
        return format!("{figures}: not below its fair share");
    };
    match report.status {
        FairShareStatus::Normal => figures,
        FairShareStatus::Below => {
            format!("{figures}: below its fair share since {since}, not starving yet")
        }
        FairShareStatus::Starving => {
            format!("{figures}: below its fair share since {since}, starving")
        }
        FairShareStatus::Aggressive => {
            format!("{figures}: below its fair share since {since}, starving aggressively")
        }
    }
}

/// The report on a pool or operation as JSON.
pub fn data(report: &FairShareReport, server: &ServerFacts) -> Value {
    let (pool, operation, jobs) = match &report.who {
        ShareHolder::Pool(name) => (Some(name), None, None),
        ShareHolder::Operation(job) => {
            (report.pools.first(), Some(job.full(&server.name)), Some(1))
        }
        ShareHolder::Alike(job, number) => (
            report.pools.first(),
            Some(job.full(&server.name)),
            Some(*number),
        ),
    };
    json!({
        "pool": pool,
        "operation": operation,
        "alike": jobs,
        "depth": report.pools.len(),
        "fair_share": report.fair,
        "usage_share": report.used,
        "satisfaction": satisfaction(report),
        "dominant_resource": report.resource,
        "status": report.status.name(),
        "below_since": report.since.map(|since| server.clock.wall(since).0),
    })
}

fn name(report: &FairShareReport, server: &ServerFacts) -> String {
    match &report.who {
        ShareHolder::Pool(name) => name.clone(),
        ShareHolder::Operation(job) | ShareHolder::Alike(job, 1) => job.full(&server.name),
        ShareHolder::Alike(job, number) => {
            format!("{} and {} more", job.full(&server.name), number - 1)
        }
    }
}

/// The usage divided by the fair share; None if the fair share is zero.
fn satisfaction(report: &FairShareReport) -> Option<f64> {
    (report.fair > 0.0).then(|| report.used / report.fair)
}

fn percent(part: f64) -> String {
    format!("{:.2}%", 100.0 * part)
}

fn since(report: &FairShareReport, server: &ServerFacts) -> Option<String> {
    Some(timestamp::ctime(server.clock.wall(report.since?)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::model::job_id::JobId;

    fn report(who: ShareHolder, pools: &[&str], status: FairShareStatus) -> FairShareReport {
        let pools = pools.iter().map(|pool| pool.to_string()).collect();
        let since = (status != FairShareStatus::Normal).then_some(example::SUBMITTED);
        FairShareReport {
            who,
            pools,
            fair: 0.5,
            used: 0.25,
            resource: Some("ncpus".into()),
            status,
            since,
        }
    }

    #[test]
    fn a_report_has_a_table_row_a_sentence_and_json() {
        let server = example::server();
        let (prod, id) = (ShareHolder::Pool("prod".into()), JobId::array(7));
        let all = [
            report(prod, &[], FairShareStatus::Normal),
            report(
                ShareHolder::Operation(id),
                &["prod"],
                FairShareStatus::Starving,
            ),
            report(
                ShareHolder::Alike(JobId::job(9), 3),
                &["prod"],
                FairShareStatus::Below,
            ),
        ];
        let text = text(&all, &server);
        let since = since(&all[1], &server).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "current fair shares of the cluster");
        assert!(lines[4].starts_with("prod "), "{text}");
        let words = |line: &str| {
            line.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let full = id.full(&server.name);
        assert_eq!(
            words(lines[5]),
            words(&format!("{full} 50.00% 25.00% 0.50 ncpus starving {since}"))
        );
        assert!(
            lines[6].contains(&format!("{} and 2 more", JobId::job(9).full(&server.name))),
            "{text}"
        );
        assert!(super::text(&[], &server).is_empty());
        assert_eq!(
            sentence(&all[1], &server),
            format!(
                "usage 25.00% of ncpus, fair share 50.00%: below its fair share since {since}, starving"
            )
        );
        let data = data(&all[2], &server);
        assert_eq!(
            (&data["alike"], &data["status"], &data["pool"]),
            (&json!(3), &json!("below_fair_share"), &json!("prod"))
        );
    }
}
