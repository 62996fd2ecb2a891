//! `qstat --usage`: usage by account and user, raw and decayed.

use super::ReportContext;
use crate::cli::client::exit::Failure;
use crate::cli::output::table::FixedColumn::{Left, Right};
use crate::cli::output::table::push_line;
use crate::model::account::charge::Used;
use crate::model::time::{Time, Wall};
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use serde_json::json;
use std::fmt::Write as _;

/// The usage of all accounts and users, as text or JSON.
pub fn report(context: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let (mut at, mut all) = (Time(0), Vec::new());
    for answer in context.ask(ForecastQuery::Usage)? {
        if let ForecastAnswer::Usage { at: time, used } = answer {
            at = time;
            all.extend(used);
        }
    }
    Ok(if json {
        document(context, context.wall(at), &all)
    } else {
        table(&all).into_bytes()
    })
}

fn document(context: &ReportContext, at: Wall, all: &[Used]) -> Vec<u8> {
    let mut document = context.document();
    document.add_value("at", &at.0.into());
    document.add_value("Usage", &all.iter().map(data).collect::<Vec<_>>().into());
    document.end()
}

fn data(used: &Used) -> serde_json::Value {
    json!({
        "account": used.member.account,
        "user": used.member.user,
        "seconds": used.raw,
        "decayed": used.decayed,
        "in_use": used.now,
    })
}

fn table(all: &[Used]) -> String {
    let (mut account, mut user) = (8, 8);
    for used in all {
        account = account.max(self::account(used).chars().count());
        user = user.max(used.member.user.chars().count());
    }
    let mut out = String::new();
    let columns = [Left(account), Left(user), Right(16), Right(16), Right(10)];
    let heads = ["Account", "Username", "Seconds", "Decayed", "In use"];
    push_line(&mut out, columns, heads);
    let rule = [account, user, 16, 16, 10].map(|width| "-".repeat(width));
    let _ = writeln!(out, "\n{}", rule.join(" "));
    for used in all {
        let cells: [&str; 5] = [
            self::account(used),
            &used.member.user,
            &format!("{:.1}", used.raw),
            &format!("{:.1}", used.decayed),
            &used.now.to_string(),
        ];
        push_line(&mut out, columns, cells);
        out.push('\n');
    }
    out
}

fn account(used: &Used) -> &str {
    if used.member.account.is_empty() {
        "--"
    } else {
        &used.member.account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::member::Member;

    #[test]
    fn usage_is_shown_as_table_and_as_json() {
        let used = |account: &str, user: &str| Used {
            member: Member {
                account: account.into(),
                user: user.into(),
            },
            raw: 7200.0,
            decayed: 3600.25,
            now: 4.0,
        };
        let expected = "\
Account          Username          Seconds          Decayed     In use
---------------- -------- ---------------- ---------------- ----------
--               ann                7200.0           3600.2          4
wave_propagation bob                7200.0           3600.2          4
";
        assert_eq!(
            table(&[used("", "ann"), used("wave_propagation", "bob")]),
            expected
        );
        let expected =
            r#"{"account":"a","decayed":3600.25,"in_use":4.0,"seconds":7200.0,"user":"ann"}"#;
        assert_eq!(data(&used("a", "ann")).to_string(), expected);
    }
}
