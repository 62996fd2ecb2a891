//! Tests of the page: escaping, structure and size.

use super::*;
use crate::cli::example;
use crate::cli::lanai::report::aggregate::{Capacity, ReportBuilder};
use crate::cli::lanai::report::period::Period;
use crate::cli::lanai::report::text;
use crate::model::account::accounting::{
    AccountingEntry, AttemptCredentials, AttemptTimes, JobEnd, RequestedResources,
};
use crate::model::job::Usage;
use crate::model::job::held::Held;
use crate::model::job_id::JobId;

const SCRIPT: &str = "<script>alert(1)</script>\"'&";

const PERIOD: Period = Period {
    from: 1_697_400_000_000,
    to: 1_699_992_000_000,
};

/// A job of two processors. The values depend on the number of the job.
fn entry(number: u64, name: &str, user: &str) -> AccountingEntry {
    let spread = number as i64;
    let began = PERIOD.from + spread * 90_000;
    let elapsed = 60_000 + spread * 7_919 % 7_200_000;
    AccountingEntry {
        job: JobId::job(number),
        attempt: 1,
        name: name.into(),
        of: AttemptCredentials {
            user: user.into(),
            queue: format!("queue{}", number % 3),
            ..AttemptCredentials::default()
        },
        stamps: AttemptTimes {
            submitted: began - 1000,
            eligible: Some(began - spread * 104_729 % 40_000_000),
            began: Some(began),
            ended: began + elapsed,
        },
        end: Some(JobEnd {
            status: if number.is_multiple_of(5) { 3 } else { 0 },
            deleted: false,
        }),
        places: vec![(format!("node{}", number % 8), 2)],
        asked: RequestedResources {
            cores: 2,
            mem_kb: Some(4_000_000),
            walltime: Some(Span(2 * elapsed)),
            ..RequestedResources::default()
        },
        held: Held {
            cores: 2,
            ..Held::default()
        },
        used: Usage {
            walltime: Span(elapsed),
            cput: Span(elapsed * (spread % 100) / 50),
            mem_kb: 1_000_000,
            ncpus: 2,
            vmem_kb: 0,
        },
        core_ms: 2 * elapsed,
        factor: 1.0,
        made_way: None,
    }
}

fn report(entries: impl Iterator<Item = AccountingEntry>) -> Report {
    let mut builder = ReportBuilder::new(None, PERIOD);
    entries.for_each(|entry| builder.add_entry(&entry));
    let nodes = (0..8).map(|number| {
        let name = format!("node{number}");
        example::node(&name, &name)
    });
    builder.finish(Capacity::of(&nodes.collect::<Vec<_>>()))
}

fn rendered(report: &Report) -> String {
    page(report, &example::server(), example::NOW)
}

/// Checks that elements are nested correctly, and that `<` and `&` occur in markup only.
fn assert_well_formed(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let mut open = Vec::new();
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect(part);
        assert!(
            !text.contains('>') || open.last() == Some(&"style"),
            "{part}"
        );
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{part}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for part in body.split('&').skip(1) {
        let entity = part.split(';').next().unwrap();
        assert!(
            ["lt", "gt", "amp", "quot", "#39"].contains(&entity),
            "{part}"
        );
    }
}

#[test]
fn text_of_users_is_escaped_everywhere() {
    let entries = (1..20).map(|number| AccountingEntry {
        places: vec![(SCRIPT.into(), 1)],
        of: AttemptCredentials {
            user: SCRIPT.into(),
            queue: SCRIPT.into(),
            ..AttemptCredentials::default()
        },
        ..entry(number, SCRIPT, SCRIPT)
    });
    let page = rendered(&report(entries));
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)"));
    assert_well_formed(&page);
}

#[test]
fn a_page_needs_nothing_from_outside() {
    let page = rendered(&report((1..100).map(|number| entry(number, "a", "ann"))));
    assert_well_formed(&page);
    for word in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("name=\"viewport\"") && page.contains("prefers-color-scheme"));
    let figures = page.matches("<svg").count();
    assert_eq!(figures, 5);
    assert!(page.matches("<details>").count() >= figures);
}

#[test]
fn the_page_of_28000_jobs_is_below_a_megabyte() {
    let name = "a_rather_long_name_of_a_job_with_parameters_alpha=0.25_beta=3";
    let report = report((1..=28_000).map(|number| {
        let user = format!("user{:03}", number % 150);
        entry(number, &format!("{name}_{}", number % 7_000), &user)
    }));
    assert_eq!(report.total.sums.jobs, 28_000);
    assert_eq!(report.gantt.runs.len(), 1_500);
    let page = rendered(&report);
    assert!(page.len() < 1_000_000, "{}", page.len());
    assert_well_formed(&page);
    let text = text::text(&report, Some(80));
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.lines().count() < 60, "{text}");
}

#[test]
fn the_chart_says_that_it_omits_runs() {
    let report = report((1..=3_000).map(|number| entry(number, "a", "ann")));
    let page = rendered(&report);
    assert!(page.contains("The 1500 runs that ended last, of 3000 in the period"));
}

#[test]
fn an_empty_period_has_a_page_and_a_text_that_say_so() {
    let report = report(std::iter::empty());
    let page = rendered(&report);
    assert!(page.contains("No job ran, waited or ended in this period."));
    assert_well_formed(&page);
    let text = text::text(&report, Some(80));
    assert!(text.starts_with("No job ran, waited or ended: jobs of all users, "));
}
