//! `qstat --limits`: every active limit with its scope and usage, the counted jobs, and the number
//! of jobs that the limit blocks (P9).

use super::ReportContext;
use crate::cli::client::exit::Failure;
use crate::cli::output::table::{self, ColumnHead};
use crate::model::limit::Quantity;
use crate::model::limit::usage::{Figure, LimitUse};
use crate::model::resource::{ResourceType, Resources};
use crate::model::time::Time;
use crate::sys::user;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// Maximum number of jobs named in a table row. JSON lists all jobs that schedd reports.
const NAMED: usize = 4;

/// All limits. With `users` (`-u`), limits of other single users are omitted; limits of groups,
/// accounts and all jobs remain.
pub fn report(
    context: &mut ReportContext,
    users: Option<&str>,
    json: bool,
) -> Result<Vec<u8>, Failure> {
    let (mut at, mut uses) = (Time(0), Vec::new());
    for answer in context.ask(ForecastQuery::Limits)? {
        if let ForecastAnswer::Limits {
            at: moment,
            uses: part,
        } = answer
        {
            at = moment;
            uses.extend(part);
        }
    }
    let users_shown: Option<Vec<&str>> =
        users.map(|list| list.split(',').map(without_host).collect());
    uses.retain(|limit_use| {
        users_shown
            .as_ref()
            .is_none_or(|users| user_of(limit_use).is_none_or(|user| users.contains(&user)))
    });
    let caller = user::own().name;
    let first = users_shown.unwrap_or_else(|| vec![&caller]);
    uses.sort_by(|a, b| {
        rank(a, &first)
            .cmp(&rank(b, &first))
            .then(nearest_first(a, b))
    });
    let table = LimitTable {
        resources: &context.server.resources,
        server: &context.server.name,
        uses,
    };
    Ok(if json {
        table.document(context, at)
    } else {
        table.text().into_bytes()
    })
}

/// A user's name without the host.
fn without_host(user: &str) -> &str {
    user.split('@').next().unwrap_or(user)
}

/// The user to which a limit applies; None if the limit does not apply to a single user.
fn user_of(limit_use: &LimitUse) -> Option<&str> {
    limit_use
        .limit
        .scope
        .names(&limit_use.key)
        .into_iter()
        .find(|(kind, _)| *kind == "user")
        .map(|(_, name)| name)
}

/// Sort key: limits of the users in `first`, then limits without a user, then limits of other
/// users.
fn rank(limit_use: &LimitUse, first: &[&str]) -> u8 {
    match user_of(limit_use) {
        Some(user) if first.contains(&user) => 0,
        None => 1,
        Some(_) => 2,
    }
}

/// Sorts by the used fraction of the limit, the largest first. Limits with equal fractions keep the
/// order of the configuration.
fn nearest_first(a: &LimitUse, b: &LimitUse) -> Ordering {
    let (limit_a, limit_b) = (tightest(a), tightest(b));
    // Products are compared instead of quotients, because a limit can be 0. Limits of 0 come first.
    let left = i128::from(a.used.amount).saturating_mul(limit_b);
    let right = i128::from(b.used.amount).saturating_mul(limit_a);
    let zero_first = (limit_b == 0).cmp(&(limit_a == 0));
    zero_first
        .then(right.cmp(&left))
        .then(a.place.cmp(&b.place))
        .then(a.key.cmp(&b.key))
}

/// The smaller of the soft and the hard limit.
fn tightest(limit_use: &LimitUse) -> i128 {
    let figures = limit_use.soft.iter().chain(&limit_use.hard);
    figures
        .map(|figure| i128::from(figure.amount))
        .min()
        .unwrap_or(i128::MAX)
        .max(0)
}

fn figure_cell(figure: &Option<Figure>) -> String {
    figure
        .as_ref()
        .map_or("--".to_string(), |figure| round(&figure.shown))
}

struct LimitTable<'a> {
    resources: &'a Resources,
    server: &'a str,
    uses: Vec<LimitUse>,
}

const HEADS: [ColumnHead; 8] = [
    ("Scope", false),
    ("Stage", false),
    ("Quantity", false),
    ("Used", true),
    ("Soft", true),
    ("Hard", true),
    ("Blocked", true),
    ("Used by", false),
];

impl LimitTable<'_> {
    fn text(&self) -> String {
        if self.uses.is_empty() {
            return "There are no active limits to show.\n".to_string();
        }
        let rows: Vec<[String; 8]> = self
            .uses
            .iter()
            .map(|limit_use| self.row(limit_use))
            .collect();
        table::with_heads(&HEADS, &rows)
    }

    fn row(&self, limit_use: &LimitUse) -> [String; 8] {
        let limit = &limit_use.limit;
        let overrides = if limit.overrides {
            " (overrides others)"
        } else {
            ""
        };
        [
            limit.scope.scope_text(&limit_use.key) + overrides,
            limit.stage.name().to_string(),
            limit.quantity.name().to_string(),
            round(&limit_use.used.shown),
            figure_cell(&limit_use.soft),
            figure_cell(&limit_use.hard),
            limit_use.barred.to_string(),
            self.jobs(limit_use),
        ]
    }

    fn jobs(&self, limit_use: &LimitUse) -> String {
        let named = limit_use
            .by
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        match limit_use.more + limit_use.by.len().saturating_sub(NAMED) as u64 {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }

    fn document(&self, context: &ReportContext, at: Time) -> Vec<u8> {
        let mut document = context.document();
        document.add_value("at", &context.wall(at).0.into());
        document.add_value(
            "Limits",
            &self
                .uses
                .iter()
                .map(|limit_use| self.data(limit_use))
                .collect(),
        );
        document.end()
    }

    fn data(&self, limit_use: &LimitUse) -> Value {
        let limit = &limit_use.limit;
        let names = limit
            .scope
            .names(&limit_use.key)
            .into_iter()
            .map(|(kind, name)| (kind.to_string(), json!(name)));
        let (soft, hard) = (limit_use.soft.as_ref(), limit_use.hard.as_ref());
        json!({
            "whose": limit.scope.scope_text(&limit_use.key),
            "scope": names.collect::<Map<_, _>>(),
            "stage": limit.stage.name(),
            "quantity": limit.quantity.name(),
            "unit": self.unit(&limit.quantity),
            "used": limit_use.used.amount,
            "soft": soft.map(|figure| figure.amount),
            "hard": hard.map(|figure| figure.amount),
            "shown": {
                "used": limit_use.used.shown,
                "soft": soft.map(|figure| &figure.shown),
                "hard": hard.map(|figure| &figure.shown),
            },
            "overrides": limit.overrides,
            "jobs": limit_use.by.iter().map(|job| job.full(self.server)).collect::<Vec<_>>(),
            "more_jobs": limit_use.more,
            "waiting": limit_use.waiting,
            "barred": limit_use.barred,
        })
    }

    /// The unit of a quantity; None for all resources other than `ncpus`, `ngpus` and sizes.
    fn unit(&self, quantity: &Quantity) -> Option<&'static str> {
        match quantity {
            Quantity::Jobs => Some("jobs"),
            Quantity::Nodes => Some("chunks"),
            Quantity::Equivalents => Some("processor equivalents"),
            Quantity::ProcessorSeconds => Some("processor seconds"),
            Quantity::Seconds => Some("seconds"),
            Quantity::Resource(name) if name == "ncpus" => Some("processors"),
            Quantity::Resource(name) if name == "ngpus" => Some("GPUs"),
            Quantity::Resource(name) => match self.resources.get(name)?.kind {
                ResourceType::Size => Some("bytes"),
                _ => None,
            },
        }
    }
}

/// A size in the largest unit, up to tb, that leaves a whole number: `6gb` for `6291456kb`. Text
/// that is no number of kb is returned unchanged.
pub(super) fn round(shown: &str) -> String {
    let Some(mut amount) = shown
        .strip_suffix("kb")
        .and_then(|number| number.parse::<u64>().ok())
    else {
        return shown.to_string();
    };
    let mut units = ["kb", "mb", "gb", "tb"].into_iter().peekable();
    while amount > 0 && amount.is_multiple_of(1024) && units.len() > 1 {
        amount /= 1024;
        units.next();
    }
    format!("{amount}{}", units.next().unwrap_or("kb"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::limit::{Limit, LimitScope, LimitStage, Selector};

    fn limit_use(place: usize, scope: LimitScope, key: &[&str], used: i64, hard: i64) -> LimitUse {
        let figure = |amount: i64| Figure {
            amount,
            shown: amount.to_string(),
        };
        let limit = Limit {
            scope,
            stage: LimitStage::Running,
            quantity: Quantity::Jobs,
            soft: None,
            hard: Some(hard),
            overrides: false,
        };
        LimitUse {
            place,
            limit,
            key: key.iter().map(|name| name.to_string()).collect(),
            used: figure(used),
            soft: None,
            hard: Some(figure(hard)),
            by: (1..=6).map(JobId::job).collect(),
            more: 3,
            waiting: 7,
            barred: 2,
        }
    }

    fn of_users() -> LimitScope {
        LimitScope {
            user: Selector::Each,
            ..LimitScope::default()
        }
    }

    fn sorted(mut uses: Vec<LimitUse>) -> Vec<String> {
        uses.sort_by(|a, b| {
            rank(a, &["ann"])
                .cmp(&rank(b, &["ann"]))
                .then(nearest_first(a, b))
        });
        uses.iter()
            .map(|limit_use| {
                format!(
                    "{} {}",
                    limit_use.limit.scope.scope_text(&limit_use.key),
                    limit_use.used.amount
                )
            })
            .collect()
    }

    #[test]
    fn limits_of_the_user_come_first_sorted_by_used_fraction() {
        let uses = vec![
            limit_use(0, of_users(), &["bob"], 10, 10),
            limit_use(1, LimitScope::default(), &[], 5, 6),
            limit_use(2, of_users(), &["ann"], 1, 10),
            limit_use(3, of_users(), &["ann"], 2, 3),
            limit_use(4, of_users(), &["ann"], 0, 0),
        ];
        let expected = [
            "user ann 0",
            "user ann 2",
            "user ann 1",
            "all jobs 5",
            "user bob 10",
        ];
        assert_eq!(sorted(uses), expected);
    }

    /// Rule P9.
    #[test]
    fn a_limit_has_a_table_row_and_json() {
        let scope = LimitScope {
            queue: Selector::Named("night".into()),
            user: Selector::Each,
            ..LimitScope::default()
        };
        let table = LimitTable {
            resources: &Resources::default(),
            server: "head",
            uses: vec![limit_use(0, scope, &["night", "ann"], 2, 4)],
        };
        let expected = "\
Scope                   Stage   Quantity Used Soft Hard Blocked Used by
----------------------- ------- -------- ---- ---- ---- ------- ------------------
user ann in queue night running jobs        2   --    4       2 1,2,3,4 and 5 more
";
        assert_eq!(table.text(), expected);
        let data = table.data(&table.uses[0]);
        assert_eq!(data["scope"], json!({"queue": "night", "user": "ann"}));
        assert_eq!(
            (&data["unit"], &data["hard"], &data["soft"]),
            (&json!("jobs"), &json!(4), &Value::Null)
        );
        assert_eq!(
            (&data["jobs"][0], &data["more_jobs"], &data["barred"]),
            (&json!("1.head"), &json!(3), &json!(2))
        );
        let nothing = LimitTable {
            uses: Vec::new(),
            ..table
        };
        assert_eq!(nothing.text(), "There are no active limits to show.\n");
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        assert_eq!(
            [
                round("6291456kb"),
                round("1500kb"),
                round("0kb"),
                round("6.500")
            ],
            ["6gb", "1500kb", "0kb", "6.500"]
        );
    }
}
