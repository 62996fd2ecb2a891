//! `qstat --shares`: who owns which share of the machine, has had how much of it, how that stands,
//! and when it is in balance again. What Slurm's users know as `sshare`.

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

/// The fair-share tree, as text or JSON.
pub fn shown(inquiry: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let (mut table, mut all): (Option<ShareDisplay>, Vec<FairShareReport>) = (None, Vec::new());
    for told in inquiry.ask(ForecastQuery::Shares)? {
        match told {
            ForecastAnswer::Shares {
                at,
                method,
                subject,
                stakes,
            } => {
                table
                    .get_or_insert_with(|| ShareDisplay {
                        at,
                        method,
                        subject,
                        stakes: Vec::new(),
                    })
                    .stakes
                    .extend(stakes);
            }
            ForecastAnswer::Owed(part) => all.extend(part),
            _ => {}
        }
    }
    let table = table.ok_or_else(exit::garbled)?;
    if json {
        return Ok(table.document(&all, inquiry));
    }
    Ok((table.text() + &fair_share::text(&all, &inquiry.server)).into_bytes())
}

struct ShareDisplay {
    at: Time,
    method: Method,
    subject: UsageSubject,
    stakes: Vec<ShareStatus>,
}

/// A column: its head, whether it stands to the right, and what stands in it.
type ShareColumn = (&'static str, bool, fn(&ShareStatus) -> String);

const COLUMNS: [ShareColumn; 9] = [
    ("Shares", true, |stake| stake.shares.to_string()),
    ("Owed", true, |stake| percent(stake.normalised)),
    ("Used", true, |stake| percent(stake.used)),
    ("Effective", true, |stake| percent(stake.effective)),
    ("Decayed", true, |stake| format!("{:.1}", stake.decayed)),
    ("In use", true, |stake| stake.in_use.to_string()),
    ("Factor", true, |stake| format!("{:.6}", stake.factor)),
    ("Rank", true, |stake| stake.rank.to_string()),
    ("Balance", true, |stake| balance(stake.balance)),
];

/// Columns for methods with levels and for targets.
const LEVEL: ShareColumn = ("Level", true, |stake| {
    stake
        .level
        .map_or("--".to_string(), |level| format!("{level:.4}"))
});
const TARGET: ShareColumn = ("Target", true, |stake| {
    stake
        .target
        .map_or("--".to_string(), |target| target.to_string())
});

impl ShareDisplay {
    fn text(&self) -> String {
        let mut columns: Vec<ShareColumn> = vec![("Account or user", false, |stake| name(stake))];
        columns.extend(COLUMNS);
        if self.stakes.iter().any(|stake| stake.level.is_some()) {
            columns.push(LEVEL);
        }
        if self.stakes.iter().any(|stake| stake.target.is_some()) {
            columns.push(TARGET);
        }
        let heads: Vec<ColumnHead> = columns
            .iter()
            .map(|(head, is_right, _)| (*head, *is_right))
            .collect();
        let rows: Vec<Vec<String>> = self
            .stakes
            .iter()
            .map(|stake| columns.iter().map(|(_, _, cell)| cell(stake)).collect())
            .collect();
        format!(
            "fairshare: {}, by {}\n{}",
            self.method.name(),
            self.subject.name(),
            table::with_heads(&heads, &rows)
        )
    }

    fn document(&self, all: &[FairShareReport], inquiry: &ReportContext) -> Vec<u8> {
        let mut document = inquiry.document();
        document.fact("at", &inquiry.wall(self.at).0.into());
        document.fact("method", &self.method.name().into());
        document.fact("subject", &self.subject.name().into());
        document.fact("Shares", &self.stakes.iter().map(data).collect());
        document.fact(
            "FairShares",
            &all.iter()
                .map(|owed| fair_share::data(owed, &inquiry.server))
                .collect(),
        );
        document.end()
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}%", 100.0 * part)
}

/// Those below others stand further to the right.
fn name(stake: &ShareStatus) -> String {
    let name = stake.user.as_ref().unwrap_or(&stake.account);
    format!(
        "{:width$}{}",
        "",
        if name.is_empty() { "--" } else { name },
        width = 2 * stake.depth as usize
    )
}

fn balance(balance: TimeToBalance) -> String {
    match balance {
        TimeToBalance::Kept => "kept".to_string(),
        TimeToBalance::After(span) => span.to_string(),
        TimeToBalance::Never => "never".to_string(),
    }
}

fn data(stake: &ShareStatus) -> Value {
    let shares = match stake.shares {
        Shares::Of(shares) => json!(shares),
        Shares::Parent => json!("parent"),
    };
    // JSON has no infinity.
    let level = stake.level.map(|level| {
        if level.is_finite() {
            json!(level)
        } else {
            json!("infinite")
        }
    });
    let after = match stake.balance {
        TimeToBalance::Kept => json!(0.0),
        TimeToBalance::After(span) => json!(span.0 as f64 / 1000.0),
        TimeToBalance::Never => Value::Null,
    };
    json!({
        "account": stake.account,
        "user": stake.user,
        "depth": stake.depth,
        "shares": shares,
        "target": stake.target.map(|target| target.to_string()),
        "normalised": stake.normalised,
        "seconds": stake.raw,
        "decayed": stake.decayed,
        "in_use": stake.in_use,
        "used": stake.used,
        "effective": stake.effective,
        "level": level,
        "factor": stake.factor,
        "rank": stake.rank,
        "capped": stake.is_capped,
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
    fn the_tree_is_told_in_columns_and_in_json() {
        let stakes = vec![
            share_row("", None, TimeToBalance::After(Span::seconds(3723))),
            share_row("", Some("ann"), TimeToBalance::Never),
        ];
        let table = ShareDisplay {
            at: Time(0),
            method: Method::Tree,
            subject: UsageSubject::Member,
            stakes,
        };
        let expected = "\
fairshare: fairtree, by user@account
Account or user Shares   Owed   Used Effective Decayed In use   Factor Rank  Balance Level
--------------- ------ ------ ------ --------- ------- ------ -------- ---- -------- -----
--                  40 40.00% 75.00%    80.00%  3600.2      4 0.250000    2 01:02:03    --
  ann               40 40.00% 75.00%    80.00%  3600.2      4 0.250000    2    never   inf
";
        assert_eq!(table.text(), expected);
        let json = data(&table.stakes[0]);
        assert_eq!(
            (&json["decayed"], &json["balance_after"], &json["user"]),
            (&json!(3600.25), &json!(3723.0), &Value::Null)
        );
        assert_eq!(
            (
                &data(&table.stakes[1])["level"],
                &data(&table.stakes[1])["balance_after"]
            ),
            (&json!("infinite"), &Value::Null)
        );
    }
}
