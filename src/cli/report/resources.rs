//! `qstat --resources`: resources that belong to no node (Q21), with total and usage, and the
//! source and time of the last count.

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
pub fn report(context: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let (mut at, mut all) = (Time(0), Vec::new());
    for answer in context.ask(ForecastQuery::Resources)? {
        if let ForecastAnswer::Resources {
            at: time,
            resources,
        } = answer
        {
            at = time;
            all.extend(resources);
        }
    }
    Ok(if json {
        document(context, at, &all)
    } else {
        text(context, &all).into_bytes()
    })
}

fn text(context: &ReportContext, all: &[PoolUse]) -> String {
    if all.is_empty() {
        return "There are no system-wide resources.\n".to_string();
    }
    let rows: Vec<[String; 10]> = all
        .iter()
        .map(|pool_use| {
            row(pool_use, &context.server.resources, |time| {
                context.wall(time)
            })
        })
        .collect();
    let faults = all.iter().filter_map(|pool_use| {
        Some(format!(
            "{}: the command that counts this resource reports no value: {}\n",
            pool_use.name,
            pool_use.fault.as_ref()?
        ))
    });
    table::with_heads(&HEADS, &rows) + &faults.collect::<String>()
}

fn row(pool_use: &PoolUse, resources: &Resources, wall: impl Fn(Time) -> Wall) -> [String; 10] {
    let reported = pool_use.reported.as_ref();
    let hosts = hosts(pool_use).map_or("all".to_string(), |hosts| hosts.join(","));
    let (pool, name) = (&pool_use.pool, &pool_use.name);
    let [total, missing, jobs, elsewhere, free] = [
        pool.total,
        pool.missing,
        pool_use.jobs,
        pool.elsewhere,
        pool_use.free(),
    ]
    .map(|amount| figure(resources, name, amount));
    [
        name.clone(),
        pool_use.kind().to_string(),
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

/// An amount as text for users; a size in the largest unit that leaves a whole number.
fn figure(resources: &Resources, name: &str, amount: i64) -> String {
    match resources.get(name).map(|definition| definition.kind) {
        Some(ResourceType::Size) => {
            limits::round(&Size::exactly(amount.max(0).unsigned_abs()).to_string())
        }
        Some(ResourceType::Float) => format!("{:.3}", amount as f64 / 1000.0),
        _ => amount.to_string(),
    }
}

fn hosts(pool_use: &PoolUse) -> Option<Vec<String>> {
    let hosts = pool_use
        .pool
        .scope
        .shown()
        .find(|(part, _)| *part == "hosts")
        .map(|(_, names)| names)?;
    Some(hosts.split(',').map(String::from).collect())
}

fn document(context: &ReportContext, at: Time, all: &[PoolUse]) -> Vec<u8> {
    let mut document = context.document();
    document.add_value("at", &context.wall(at).0.into());
    document.add_value(
        "Resources",
        &all.iter()
            .map(|pool_use| data(pool_use, |time| context.wall(time)))
            .collect(),
    );
    document.end()
}

fn data(pool_use: &PoolUse, wall: impl Fn(Time) -> Wall) -> Value {
    let report = pool_use
        .reported
        .as_ref()
        .map(|reported| json!({"by": reported.by, "at": wall(reported.at).0}));
    json!({
        "name": pool_use.name,
        "kind": pool_use.kind(),
        "total": pool_use.pool.total,
        "missing": pool_use.pool.missing,
        "by_jobs": pool_use.jobs,
        "elsewhere": pool_use.pool.elsewhere,
        "in_use": pool_use.used(),
        "free": pool_use.free(),
        "hosts": hosts(pool_use),
        "told": report,
        "fault": pool_use.fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::system_resource::{Pool, ReportedCount};

    #[test]
    fn q21_system_wide_resources_are_shown_as_table_and_as_json() {
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
        let pool_use = PoolUse {
            name: "nuke".to_string(),
            pool: pool.with_reported_counts(Some(&reported)),
            is_license: true,
            jobs: 3,
            reported: Some(reported),
            fault: None,
        };
        let wall = |time: Time| Wall(time.0 / 1000);
        let cells = row(&pool_use, &Resources::default(), wall);
        assert_eq!(
            cells[..9],
            [
                "nuke", "license", "50", "10", "3", "10", "27", "n1,n2", "ann@head"
            ]
            .map(String::from)
        );
        let data = data(&pool_use, wall);
        assert_eq!(
            (&data["in_use"], &data["free"], &data["hosts"]),
            (&json!(23), &json!(27), &json!(["n1", "n2"]))
        );
        let over = PoolUse {
            jobs: 45,
            ..pool_use
        };
        assert_eq!(
            (over.used(), over.free()),
            (65, 0),
            "jobs keep their amounts, and the free amount is never negative"
        );
    }
}
