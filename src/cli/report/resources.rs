//! `qstat --resources`: resources of the whole system rather than of a node (Q21): total, usage,
//! source and time of the report.

use super::ReportContext;
use super::limits;
use crate::cli::client::exit::Failure;
use crate::cli::output::table::{self, ColumnHead};
use crate::model::resource::{ResourceType, Resources, Size};
use crate::model::system_resource::PoolUse;
use crate::model::time::{Time, Wall};
use crate::shown::timestamp;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use serde_json::{Value, json};

const HEADS: [ColumnHead; 10] = [
    ("Resource", false),
    ("Kind", false),
    ("Total", true),
    ("Short by", true),
    ("By jobs", true),
    ("Elsewhere", true),
    ("Free", true),
    ("Hosts", false),
    ("Source", false),
    ("Updated", false),
];

/// All system-wide resources, as text or JSON.
pub fn shown(inquiry: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let (mut at, mut all) = (Time(0), Vec::new());
    for told in inquiry.ask(ForecastQuery::Resources)? {
        if let ForecastAnswer::Resources {
            at: moment,
            resources,
        } = told
        {
            at = moment;
            all.extend(resources);
        }
    }
    Ok(if json {
        document(inquiry, at, &all)
    } else {
        text(inquiry, &all).into_bytes()
    })
}

fn text(inquiry: &ReportContext, all: &[PoolUse]) -> String {
    if all.is_empty() {
        return "There are no system-wide resources.\n".to_string();
    }
    let rows: Vec<[String; 10]> = all
        .iter()
        .map(|one| row(one, &inquiry.server.resources, |time| inquiry.wall(time)))
        .collect();
    let faults = all.iter().filter_map(|one| {
        Some(format!(
            "{}: its command reports no value: {}\n",
            one.name,
            one.fault.as_ref()?
        ))
    });
    table::with_heads(&HEADS, &rows) + &faults.collect::<String>()
}

fn row(one: &PoolUse, resources: &Resources, wall: impl Fn(Time) -> Wall) -> [String; 10] {
    let reported = one.reported.as_ref();
    let hosts = hosts(one).map_or("all".to_string(), |hosts| hosts.join(","));
    let (pool, name) = (&one.pool, &one.name);
    let [total, missing, jobs, elsewhere, free] = [
        pool.total,
        pool.missing,
        one.jobs,
        pool.elsewhere,
        one.free(),
    ]
    .map(|amount| figure(resources, name, amount));
    [
        name.clone(),
        one.kind().to_string(),
        total,
        missing,
        jobs,
        elsewhere,
        free,
        hosts,
        reported.map_or("--".to_string(), |reported| reported.by.clone()),
        reported.map_or("--".to_string(), |reported| {
            timestamp::ctime(wall(reported.at)).to_string()
        }),
    ]
}

/// An amount for users: a number, or a size in its largest unit.
fn figure(resources: &Resources, name: &str, amount: i64) -> String {
    match resources.get(name).map(|definition| definition.kind) {
        Some(ResourceType::Size) => {
            limits::round(&Size::exactly(amount.max(0).unsigned_abs()).to_string())
        }
        Some(ResourceType::Float) => format!("{:.3}", amount as f64 / 1000.0),
        _ => amount.to_string(),
    }
}

fn hosts(one: &PoolUse) -> Option<Vec<String>> {
    let hosts = one
        .pool
        .scope
        .shown()
        .find(|(part, _)| *part == "hosts")
        .map(|(_, names)| names)?;
    Some(hosts.split(',').map(String::from).collect())
}

fn document(inquiry: &ReportContext, at: Time, all: &[PoolUse]) -> Vec<u8> {
    let mut document = inquiry.document();
    document.fact("at", &inquiry.wall(at).0.into());
    document.fact(
        "Resources",
        &all.iter()
            .map(|one| data(one, |time| inquiry.wall(time)))
            .collect(),
    );
    document.end()
}

fn data(one: &PoolUse, wall: impl Fn(Time) -> Wall) -> Value {
    let told = one
        .reported
        .as_ref()
        .map(|reported| json!({"by": reported.by, "at": wall(reported.at).0}));
    json!({
        "name": one.name,
        "kind": one.kind(),
        "total": one.pool.total,
        "missing": one.pool.missing,
        "by_jobs": one.jobs,
        "elsewhere": one.pool.elsewhere,
        "in_use": one.used(),
        "free": one.free(),
        "hosts": hosts(one),
        "told": told,
        "fault": one.fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::system_resource::{Pool, ReportedCount};

    #[test]
    fn q21_what_the_whole_system_has_is_told_in_columns_and_in_json() {
        let reported = ReportedCount {
            total: Some(40),
            elsewhere: 10,
            at: Time(0),
            by: "ann@head".to_string(),
        };
        let pool = Pool {
            total: 50,
            scope: "hosts=n1,n2".parse().unwrap(),
            ..Pool::default()
        };
        let one = PoolUse {
            name: "nuke".to_string(),
            pool: pool.as_told(Some(&reported)),
            is_license: true,
            jobs: 3,
            reported: Some(reported),
            fault: None,
        };
        let wall = |time: Time| Wall(time.0 / 1000);
        let cells = row(&one, &Resources::default(), wall);
        assert_eq!(
            cells[..9],
            [
                "nuke", "license", "50", "10", "3", "10", "27", "n1,n2", "ann@head"
            ]
            .map(String::from)
        );
        let data = data(&one, wall);
        assert_eq!(
            (&data["in_use"], &data["free"], &data["hosts"]),
            (&json!(23), &json!(27), &json!(["n1", "n2"]))
        );
        let over = PoolUse { jobs: 45, ..one };
        assert_eq!(
            (over.used(), over.free()),
            (65, 0),
            "jobs keep what they have, and nothing is below zero"
        );
    }
}
