//! `[backfill]`: how jobs may start ahead of blocked jobs with a higher priority.

use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Table, computed, key};
use crate::config::kinds::Kind;
use crate::config::kinds::{
    A_SECOND_OR_MORE, Custom, List, OneOf, TEXT, WholeNumber, custom, integer, list, table, whole,
};
use crate::model::policy::{
    Backfill, BookingGroup, BookingRetention, FillOrder, Filling, Metric, SetAside,
};
use crate::model::resource::Resources;
use crate::model::time::Span;
use toml::Value;
use toml::de::DeValue;

/// The kind for a number of jobs, or `"all"` for no limit.
pub const DEPTH: Custom<u32> = Custom {
    wanted: || "a whole number of at least 0, or \"all\"".to_string(),
    read: read_depth,
    write: |depth| Some(write_depth(*depth)),
    parse: |text| text.parse().ok(),
    show: |depth| Some(depth.to_string()),
};
const CONSIDER: WholeNumber<u32> = whole("a whole number, 0 for all", |_| true);
const CHUNK_SIZE: WholeNumber<u32> = whole("a number of processors, at least 1", |size| *size > 0);
const GROUPS: List<Custom<BookingGroup>> = list(
    custom(String::new, read_group, write_group),
    "a list of groups, such as [{ qos = [\"high\"], depth = 1 }]",
);

/// `[backfill]`.
pub static BACKFILL: Table<Config> = Table::new(
    "backfill",
    &[
        &key("policy", OneOf(Filling::ALL), |c| {
            &mut c.policy.backfill.policy
        })
        .text("Which jobs may start while a job with a higher priority is blocked."),
        &key("order", OneOf(FillOrder::ALL), |c| {
            &mut c.policy.backfill.order
        })
        .text("The order in which jobs are tried for backfill."),
        &key("metric", OneOf(Metric::ALL), |c| {
            &mut c.policy.backfill.metric
        })
        .text("The measure of job size for the policies \"bestfit\" and \"greedy\"."),
        &key("depth", DEPTH, |c| &mut c.policy.backfill.depth)
            .pbs(&["backfill_depth"])
            .unset("1")
            .text(
                "The largest number of blocked jobs with planned starts, or \"all\" for no limit.",
            ),
        &key("keep", OneOf(BookingRetention::ALL), |c| {
            &mut c.policy.backfill.keep
        })
        .text("What happens to a planned start when another job gets a higher priority."),
        &key("consider", CONSIDER, |c| &mut c.policy.backfill.consider)
            .text("The number of jobs tried after the first blocked job; 0 for all jobs."),
        &computed(
            "chunk_size",
            CHUNK_SIZE,
            |c| c.policy.backfill.chunk.map(|chunk| chunk.size),
            |c, size| chunk(c).size = size,
        )
        .text("Blocked jobs of at least this many processors keep resources that other jobs free.")
        .default("none")
        .example("8"),
        &computed(
            "chunk_duration",
            A_SECOND_OR_MORE,
            |c| c.policy.backfill.chunk.map(|chunk| chunk.duration),
            |c, duration| chunk(c).duration = duration,
        )
        .text("How long, at least a second, these jobs keep freed resources from narrower jobs.")
        .default("none")
        .example("\"5m\""),
        &key("groups", GROUPS, |c| &mut c.policy.backfill.groups)
            .text("Separate values of the key depth for jobs of some qualities of service.")
            .default("none")
            .example("[{ qos = [\"high\"], depth = 1 }]"),
    ],
)
.finish(finish);

fn chunk(config: &mut Config) -> &mut SetAside {
    config.policy.backfill.chunk.get_or_insert(SetAside {
        size: 1,
        duration: Span(0),
    })
}

/// Checks that the section sets either both `chunk_size` and `chunk_duration`, or neither.
fn finish(_: &mut Config, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    for [key, other] in [
        ["chunk_size", "chunk_duration"],
        ["chunk_duration", "chunk_size"],
    ] {
        if section.has(key) && !section.has(other) {
            return Err(section.key_error(key, format!("`{key}` requires `{other}`: set both")));
        }
    }
    Ok(())
}

fn read_depth(value: &DeValue) -> Option<u32> {
    match value.as_str() {
        Some("all") => Some(Backfill::ALL),
        Some(_) => None,
        None => integer(value),
    }
}

fn write_depth(depth: u32) -> Value {
    if depth == Backfill::ALL {
        "all".into()
    } else {
        i64::from(depth).into()
    }
}

fn read_group(value: &DeValue) -> Option<BookingGroup> {
    let table = value.as_table().filter(|table| table.len() == 2)?;
    Some(BookingGroup {
        qos: list(TEXT, "").read(table.get("qos")?.get_ref())?,
        depth: integer(table.get("depth")?.get_ref())?,
    })
}

fn write_group(group: &BookingGroup) -> Option<Value> {
    Some(table([
        ("qos", group.qos.clone().into()),
        ("depth", i64::from(group.depth).into()),
    ]))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::expression::Expression;
    use crate::model::policy::*;
    use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
    use crate::model::time::Span;

    #[test]
    fn backfill_and_placement_are_read() {
        let config = Config::parse(
            r#"
            preset = "maui"
            [backfill]
            policy = "bestfit"
            order = "shortest"
            metric = "pe"
            depth = "all"
            keep = "highest"
            consider = 5
            chunk_size = 4
            chunk_duration = "5m"
            groups = [{ qos = ["high"], depth = 2 }]
            [placement]
            availability = { default = "combined", mem = "dedicated" }
            allocation = "priority"
            rank = "SPEED"
            distribution = "balanced"
            access = "singleuser"
            sets = { choice = "oneof", by = "switch", values = ["a"], delay = "0s" }
            "#,
        )
        .unwrap();
        let backfill = config.effective_policy().backfill;
        assert_eq!(
            (backfill.policy, backfill.order, backfill.metric),
            (Filling::BestFit, FillOrder::Shortest, Metric::Pe)
        );
        assert_eq!(
            (backfill.depth, backfill.keep, backfill.consider),
            (Backfill::ALL, BookingRetention::Highest, 5)
        );
        assert_eq!(
            backfill.chunk,
            Some(SetAside {
                size: 4,
                duration: Span::seconds(300)
            })
        );
        assert_eq!(
            backfill.groups,
            [BookingGroup {
                qos: vec!["high".to_string()],
                depth: 2
            }]
        );
        let placement = config.effective_policy().placement;
        assert_eq!(placement.availability, Availability::Combined);
        assert_eq!(placement.availabilities["mem"], Availability::Dedicated);
        assert_eq!(
            (placement.allocation, placement.rank),
            (NodeAllocation::Priority, Expression::parse("SPEED").ok())
        );
        assert_eq!(
            (placement.distribution, placement.access),
            (Distribution::Balanced, NodeAccess::SingleUser)
        );
        let sets = placement.sets.unwrap();
        assert_eq!(
            (sets.choice, sets.by.as_str(), sets.delay),
            (SetChoice::OneOf, "switch", Some(Span(0)))
        );
    }

    #[test]
    fn keys_that_the_file_omits_have_the_values_of_the_preset() {
        let policy = |text: &str| Config::parse(text).unwrap().effective_policy();
        assert_eq!(policy("preset = \"qube\"").backfill.policy, Filling::Skip);
        assert_eq!(
            policy("preset = \"qube\"\n[backfill]\npolicy = \"firstfit\"")
                .backfill
                .depth,
            0
        );
        assert_eq!(
            policy("preset = \"maui\"\n[backfill]\ndepth = 3")
                .placement
                .allocation,
            NodeAllocation::LastAvailable
        );
        assert_eq!(policy("preset = \"hybrid\""), Policy::default());
    }

    #[test]
    fn unknown_values_are_refused_with_the_valid_values() {
        let refusal = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert_eq!(
            refusal("[backfill]\npolicy = \"best\""),
            "line 2: `policy` in [backfill] must be \"none\", \"skip\", \"firstfit\", \
             \"bestfit\", \"greedy\" or \"preempt\", not \"best\""
        );
        assert_eq!(
            refusal("[backfill]\nchunk_size = 4"),
            "line 2: `chunk_size` requires `chunk_duration`: set both"
        );
        assert!(
            refusal("preset = \"slurm\"")
                .starts_with("line 1: `preset` in the file must be \"hybrid\"")
        );
    }
}
