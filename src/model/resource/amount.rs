//! Exact and flexible amounts (Q22): `4`, `4+`, `4*`, `all`, `4-8`.
//!
//! A chunk may have a flexible amount instead of an integer: `select=2:ncpus=4+:mem=8gb`.
//! [`Amount::take`] determines the allocated amount when the job starts.

use crate::model::text::whole_number;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Amount of a resource requested on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Amount {
    /// `N`: exactly N.
    Exactly(u64),
    /// `N+`: everything that is free on the host, at least N.
    AtLeast(u64),
    /// `N*`: everything that an idle host has, at least N. `all` means `1*`.
    Whole(u64),
    /// `N-M`: at least N, at most M.
    Between(u64, u64),
}

impl Amount {
    /// Returns the minimum.
    pub fn least(self) -> u64 {
        match self {
            Amount::Exactly(least) | Amount::AtLeast(least) | Amount::Whole(least) => least,
            Amount::Between(least, _) => least,
        }
    }

    /// Tests whether the amount is independent of the host.
    pub fn is_exact(self) -> bool {
        matches!(self, Amount::Exactly(_))
            || matches!(self, Amount::Between(least, most) if least == most)
    }

    /// Tests whether the host must be idle.
    pub fn needs_idle_host(self) -> bool {
        matches!(self, Amount::Whole(_))
    }

    /// Returns the amount allocated on a host with `open` free; `idle_host` is true if no job uses
    /// the host. None if too little is free, or if a job uses a host that must be idle.
    pub fn take(self, open: u64, idle_host: bool) -> Option<u64> {
        let taken = match self {
            Amount::Exactly(number) => number,
            Amount::AtLeast(_) | Amount::Whole(_) => open,
            Amount::Between(_, most) => open.min(most),
        };
        let serves = open >= self.least() && (idle_host || !self.needs_idle_host());
        serves.then_some(taken)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Amount::Exactly(number) => write!(f, "{number}"),
            Amount::AtLeast(least) => write!(f, "{least}+"),
            Amount::Whole(least) => write!(f, "{least}*"),
            Amount::Between(least, most) => write!(f, "{least}-{most}"),
        }
    }
}

/// Error for an invalid amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not an amount: use N, N+, N*, N-M (N at most M) or all, in whole numbers")]
pub struct NotAmount {
    found: String,
}

impl FromStr for Amount {
    type Err = NotAmount;

    fn from_str(text: &str) -> Result<Amount, NotAmount> {
        read(text).ok_or_else(|| NotAmount {
            found: text.to_string(),
        })
    }
}

fn read(text: &str) -> Option<Amount> {
    if text == "all" {
        return Some(Amount::Whole(1));
    }
    if let Some(least) = text.strip_suffix('+') {
        return whole(least).map(Amount::AtLeast);
    }
    if let Some(least) = text.strip_suffix('*') {
        return whole(least).map(Amount::Whole);
    }
    match text.split_once('-') {
        Some((least, most)) => {
            let (least, most) = (whole(least)?, whole(most)?);
            (least <= most).then_some(Amount::Between(least, most))
        }
        None => whole(text).map(Amount::Exactly),
    }
}

/// Parses digits; None for other texts, and above `i64::MAX`, because amounts are `i64`.
fn whole(digits: &str) -> Option<u64> {
    let number: i64 = whole_number(digits)?;
    u64::try_from(number).ok()
}

impl TryFrom<String> for Amount {
    type Error = NotAmount;

    fn try_from(text: String) -> Result<Amount, NotAmount> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> String {
        amount.to_string()
    }
}

/// Splits a select into chunks: `2:ncpus=4++1:ngpus=1` into `2:ncpus=4+` and `1:ngpus=1`.
///
/// A `+` between chunks is followed by another chunk. A `+` after a digit and before `:`, `+` or
/// the end of the text belongs to an amount: as a separator it would create an empty chunk, which
/// PBS refuses.
pub fn split_chunks(select: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    select.split(move |c: char| {
        let here = at;
        at += c.len_utf8();
        c == '+' && !is_of_amount(select.as_bytes(), here)
    })
}

/// Tests whether the `+` at position `at` belongs to an amount.
fn is_of_amount(select: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| select.get(before));
    before.is_some_and(u8::is_ascii_digit) && matches!(select.get(at + 1), None | Some(b':' | b'+'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    /// Q22: the host has 8 processors; a job uses 2, and 6 are free.
    #[test]
    fn the_allocated_amount_is_the_free_amount_up_to_the_maximum() {
        let taken = ["1+", "1*", "all", "4-8", "7+", "6", "7", "1-3", "7-9"]
            .map(|text| amount(text).take(6, false));
        assert_eq!(
            taken,
            [
                Some(6),
                None,
                None,
                Some(6),
                None,
                Some(6),
                None,
                Some(3),
                None
            ]
        );
    }

    #[test]
    fn a_whole_host_is_taken_only_when_it_is_idle_and_large_enough() {
        assert_eq!(amount("1*").take(8, true), Some(8));
        assert_eq!(amount("all").take(8, true), Some(8));
        assert_eq!(amount("9*").take(8, true), None);
        assert_eq!(amount("all").take(0, true), None);
    }

    #[test]
    fn amounts_are_parsed_and_displayed() {
        for text in ["0", "4", "4+", "4*", "4-8", "4-4", "9223372036854775807"] {
            assert_eq!(amount(text).to_string(), text);
        }
        assert_eq!(amount("all").to_string(), "1*");
        for bad in [
            "",
            "+",
            "*",
            "-",
            "4-",
            "-4",
            "8-4",
            "4++",
            "+4",
            "4 +",
            "4.5",
            "4gb",
            "All",
            "9223372036854775808",
        ] {
            assert!(bad.parse::<Amount>().is_err(), "{bad:?}");
        }
        assert!(
            [amount("4"), amount("4-4")]
                .into_iter()
                .all(Amount::is_exact)
                && !amount("4+").is_exact()
        );
    }

    #[test]
    fn amounts_are_stored_as_text() {
        assert_eq!(serde_json::to_string(&amount("4+")).unwrap(), r#""4+""#);
        assert_eq!(
            serde_json::from_str::<Amount>(r#""4-8""#).unwrap(),
            Amount::Between(4, 8)
        );
    }

    #[test]
    fn a_plus_separates_chunks_unless_it_belongs_to_an_amount() {
        let chunks = |select| split_chunks(select).collect::<Vec<_>>();
        assert_eq!(chunks("2:ncpus=4+1:ngpus=1"), ["2:ncpus=4", "1:ngpus=1"]);
        assert_eq!(
            chunks("2:ncpus=4+:mem=8gb+1:ngpus=1"),
            ["2:ncpus=4+:mem=8gb", "1:ngpus=1"]
        );
        assert_eq!(
            chunks("2:ncpus=4++1:ngpus=1+"),
            ["2:ncpus=4+", "1:ngpus=1+"]
        );
        assert_eq!(chunks("1:arch=linux++1"), ["1:arch=linux", "", "1"]);
        assert_eq!(chunks("ä+1"), ["ä", "1"]);
        assert_eq!(chunks(""), [""]);
    }

    proptest! {
        #[test]
        fn the_amount_taken_is_free_and_sufficient(least in 0u64..20, more in 0u64..20, open in 0u64..40, idle: bool) {
            for amount in
                [Amount::Exactly(least), Amount::AtLeast(least), Amount::Whole(least), Amount::Between(least, least + more)]
            {
                let taken = amount.take(open, idle);
                prop_assert!(taken.is_none_or(|taken| (least..=open).contains(&taken)));
                prop_assert!(taken.is_some() || open < least || !idle);
                prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            }
        }
    }
}
