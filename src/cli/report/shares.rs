//! `qstat --shares`: the fair-share tree with entitlement, usage, factor, and the time until usage
//! falls to the entitlement. Corresponds to Slurm's `sshare`.

use super::{ReportContext, fair_share};
use crate::cli::client::exit::{self, Failure};
use crate::cli::output::table::{self, ColumnHead};
use crate::model::account::Shares;
use crate::model::policy::fair_share::{Method, UsageSubject};
use crate::model::report::fair_share_status::FairShareReport;
use crate::model::report::share_status::{ShareStatus, TimeToBalance};
use crate::model::time::Time;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use serde_json::{Value, json};

/// The fair-share tree, as text or JSON. With the preemption trigger `starvation`, the report also
/// has the fair shares of pools and operations.
pub fn report(context: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let (mut table, mut all): (Option<ShareDisplay>, Vec<FairShareReport>) = (None, Vec::new());
    for answer in context.ask(ForecastQuery::Shares)? {
        match answer {
            ForecastAnswer::Shares {
                at,
                method,
                subject,
                shares,
            } => {
                table
                    .get_or_insert_with(|| ShareDisplay {
                        at,
                        method,
                        subject,
                        shares: Vec::new(),
                    })
                    .shares
                    .extend(shares);
            }
            ForecastAnswer::FairShareReports(part) => all.extend(part),
            _ => {}
        }
    }
    let table = table.ok_or_else(exit::protocol_error)?;
    if json {
        return Ok(table.document(&all, context));
    }
    Ok((table.text() + &fair_share::text(&all, &context.server)).into_bytes())
}

struct ShareDisplay {
    at: Time,
    method: Method,
    subject: UsageSubject,
    shares: Vec<ShareStatus>,
}

/// A column: its head, whether it is right-justified, and its cell.
type ShareColumn = (&'static str, bool, fn(&ShareStatus) -> String);

const COLUMNS: [ShareColumn; 9] = [
    ("Shares", true, |share| share.shares.to_string()),
    ("Fair share", true, |share| percent(share.normalised)),
    ("Used", true, |share| percent(share.used)),
    ("Effective", true, |share| percent(share.effective)),
    ("Decayed", true, |share| format!("{:.1}", share.decayed)),
    ("In use", true, |share| share.in_use.to_string()),
    ("Factor", true, |share| format!("{:.6}", share.factor)),
    ("Rank", true, |share| share.rank.to_string()),
    ("Balance", true, |share| balance(share.balance)),
];

/// A column that is shown if the method computes levels.
const LEVEL: ShareColumn = ("Level", true, |share| {
    share
        .level
        .map_or("--".to_string(), |level| format!("{level:.4}"))
});
/// A column that is shown if any account or user has a target.
const TARGET: ShareColumn = ("Target", true, |share| {
    share
        .target
        .map_or("--".to_string(), |target| target.to_string())
});

impl ShareDisplay {
    fn text(&self) -> String {
        let mut columns: Vec<ShareColumn> = vec![("Account or user", false, |share| name(share))];
        columns.extend(COLUMNS);
        if self.shares.iter().any(|share| share.level.is_some()) {
            columns.push(LEVEL);
        }
        if self.shares.iter().any(|share| share.target.is_some()) {
            columns.push(TARGET);
        }
        let heads: Vec<ColumnHead> = columns
            .iter()
            .map(|(head, is_right, _)| (*head, *is_right))
            .collect();
        let rows: Vec<Vec<String>> = self
            .shares
            .iter()
            .map(|share| columns.iter().map(|(_, _, cell)| cell(share)).collect())
            .collect();
        format!(
            "fairshare: {}, by {}\n{}",
            self.method.name(),
            self.subject.name(),
            table::with_heads(&heads, &rows)
        )
    }

    fn document(&self, all: &[FairShareReport], context: &ReportContext) -> Vec<u8> {
        let mut document = context.document();
        document.add_value("at", &context.wall(self.at).0.into());
        document.add_value("method", &self.method.name().into());
        document.add_value("subject", &self.subject.name().into());
        document.add_value("Shares", &self.shares.iter().map(data).collect());
        document.add_value(
            "FairShares",
            &all.iter()
                .map(|report| fair_share::data(report, &context.server))
                .collect(),
        );
        document.end()
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}%", 100.0 * part)
}

/// The name of an account or user, indented by its depth in the tree.
fn name(share: &ShareStatus) -> String {
    let name = share.user.as_ref().unwrap_or(&share.account);
    format!(
        "{:width$}{}",
        "",
        if name.is_empty() { "--" } else { name },
        width = 2 * share.depth as usize
    )
}

fn balance(balance: TimeToBalance) -> String {
    match balance {
        TimeToBalance::Kept => "kept".to_string(),
        TimeToBalance::After(span) => span.to_string(),
        TimeToBalance::Never => "never".to_string(),
    }
}

fn data(share: &ShareStatus) -> Value {
    let shares = match share.shares {
        Shares::Of(shares) => json!(shares),
        Shares::Parent => json!("parent"),
    };
    // JSON has no infinity.
    let level = share.level.map(|level| {
        if level.is_finite() {
            json!(level)
        } else {
            json!("infinite")
        }
    });
    let after = match share.balance {
        TimeToBalance::Kept => json!(0.0),
        TimeToBalance::After(span) => json!(span.0 as f64 / 1000.0),
        TimeToBalance::Never => Value::Null,
    };
    json!({
        "account": share.account,
        "user": share.user,
        "depth": share.depth,
        "shares": shares,
        "target": share.target.map(|target| target.to_string()),
        "normalised": share.normalised,
        "seconds": share.raw,
        "decayed": share.decayed,
        "in_use": share.in_use,
        "used": share.used,
        "effective": share.effective,
        "level": level,
        "factor": share.factor,
        "rank": share.rank,
        "capped": share.is_capped,
        "balance_after": after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Span;

    fn share_row(account: &str, user: Option<&str>, balance: TimeToBalance) -> ShareStatus {
        ShareStatus {
            account: account.to_string(),
            user: user.map(str::to_string),
            depth: user.iter().len() as u32,
            shares: Shares::Of(40.0),
            target: None,
            normalised: 0.4,
            raw: 7200.0,
            decayed: 3600.25,
            in_use: 4.0,
            used: 0.75,
            effective: 0.8,
            level: user.map(|_| f64::INFINITY),
            factor: 0.25,
            rank: 2,
            is_capped: false,
            balance,
        }
    }

    #[test]
    fn the_tree_is_shown_as_table_and_as_json() {
        let shares = vec![
            share_row("", None, TimeToBalance::After(Span::seconds(3723))),
            share_row("", Some("ann"), TimeToBalance::Never),
        ];
        let table = ShareDisplay {
            at: Time(0),
            method: Method::Tree,
            subject: UsageSubject::Member,
            shares,
        };
        let expected = "\
fairshare: fairtree, by user@account
Account or user Shares Fair share   Used Effective Decayed In use   Factor Rank  Balance Level
--------------- ------ ---------- ------ --------- ------- ------ -------- ---- -------- -----
--                  40     40.00% 75.00%    80.00%  3600.2      4 0.250000    2 01:02:03    --
  ann               40     40.00% 75.00%    80.00%  3600.2      4 0.250000    2    never   inf
";
        assert_eq!(table.text(), expected);
        let json = data(&table.shares[0]);
        assert_eq!(
            (&json["decayed"], &json["balance_after"], &json["user"]),
            (&json!(3600.25), &json!(3723.0), &Value::Null)
        );
        assert_eq!(
            (
                &data(&table.shares[1])["level"],
                &data(&table.shares[1])["balance_after"]
            ),
            (&json!("infinite"), &Value::Null)
        );
    }
}
