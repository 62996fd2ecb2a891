//! Factors of a job's priority (F1): a table with the name, weights and description of each
//! factor. `sched::priority::factors` has the functions that compute factors.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// Factor of a job's priority, usually from 0 to 1. The discriminant is the index in [`FACTORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Eligible time as a fraction of `max_wait`, at most 1 (F2).
    WaitTime,
    /// Fair-share factor (F3); with method `classic`, 0.5 if the effective usage equals the fair
    /// share.
    FairShare,
    /// Factor of the quality of service (F4).
    Qos,
    /// Factor of the queue (F5): the configured factor, or the queue's priority divided by 1024.
    Queue,
    /// Minimum number of nodes for the job as a fraction of all nodes (F6). With `favor = "small"`,
    /// fewer nodes give a higher factor.
    JobSize,
    /// Factor set by the owner with `--user-factor` (F7).
    User,
    /// Eligible time divided by walltime, as a fraction of `slowdown_cap - 1`, at most 1.
    Slowdown,
}

/// Row of the table of factors.
pub struct FactorRow {
    /// Factor that this row describes.
    pub factor: Factor,
    /// Key in `[order.weights]` and name in `qstat --priority`.
    pub name: &'static str,
    /// Weights in preset `flux` (F1) and in preset `hybrid`, the default (decision 36).
    weights: [f64; 2],
    /// Description for the manual, one line.
    pub about: &'static str,
}

const fn row(
    factor: Factor,
    name: &'static str,
    weights: [f64; 2],
    about: &'static str,
) -> FactorRow {
    FactorRow {
        factor,
        name,
        weights,
        about,
    }
}

/// All factors, in the order of display.
///
/// With the weights of `hybrid`, only `wait_time`, `fair_share` and `slowdown` distinguish jobs of
/// the same queue, quality of service and user factor. Quality `expedite` instead of `normal`, or a
/// queue factor of 1 instead of 0, raises the priority by 10000, as much as the highest slowdown.
pub const FACTORS: &[FactorRow] = &[
    row(
        Factor::WaitTime,
        "wait_time",
        [1000.0, 5000.0],
        "The eligible time of the job, as a fraction of max_wait, at most 1.",
    ),
    row(
        Factor::FairShare,
        "fair_share",
        [10000.0, 2000.0],
        "The fair-share factor of the job, see [fairshare].",
    ),
    row(
        Factor::Qos,
        "qos",
        [5000.0, 20000.0],
        "The factor of the job's quality of service, see [[qos]].",
    ),
    row(
        Factor::Queue,
        "queue",
        [500.0, 10000.0],
        "The factor of the job's queue. If none is configured, it is the queue's priority divided \
         by 1024, from -1 to 1.",
    ),
    row(
        Factor::JobSize,
        "job_size",
        [1000.0, 0.0],
        "A lower bound of the number of nodes that the job needs when nothing else runs, as a \
         fraction of all nodes. With favor = \"small\", fewer nodes give a higher factor.",
    ),
    row(
        Factor::User,
        "user",
        [1000.0, 10000.0],
        "The factor that the owner sets with --user-factor, 1 by default; \
         it only lowers the priority.",
    ),
    row(
        Factor::Slowdown,
        "slowdown",
        [0.0, 10000.0],
        "The eligible time of the job divided by its walltime, as a fraction of slowdown_cap - 1, \
         at most 1.",
    ),
];

const COUNT: usize = FACTORS.len();

/// One number per factor: the values of the factors for a job, or their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors([f64; COUNT]);

impl Factors {
    /// 0 for each factor.
    pub const NONE: Factors = Factors([0.0; COUNT]);

    /// Weights of preset `flux`.
    pub const FLUX: Factors = Factors::column(0);

    /// Weights of preset `hybrid`.
    pub const HYBRID: Factors = Factors::column(1);

    const fn column(column: usize) -> Factors {
        let mut weights = [0.0; COUNT];
        let mut place = 0;
        while place < COUNT {
            weights[place] = FACTORS[place].weights[column];
            place += 1;
        }
        Factors(weights)
    }

    /// Returns a copy with the number of one factor replaced.
    pub fn with(mut self, factor: Factor, number: f64) -> Factors {
        self[factor] = number;
        self
    }

    /// Returns the priority of a job (F1): the sum of its factors, each multiplied by its weight.
    pub fn weighed(&self, weights: &Factors) -> f64 {
        let products = self.0.iter().zip(weights.0);
        products.map(|(factor, weight)| factor * weight).sum()
    }
}

impl Default for Factors {
    fn default() -> Factors {
        Factors::HYBRID
    }
}

impl Index<Factor> for Factors {
    type Output = f64;

    fn index(&self, factor: Factor) -> &f64 {
        &self.0[factor as usize]
    }
}

impl IndexMut<Factor> for Factors {
    fn index_mut(&mut self, factor: Factor) -> &mut f64 {
        &mut self.0[factor as usize]
    }
}

impl Serialize for Factors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(FACTORS.iter().map(|row| (row.name, self[row.factor])))
    }
}

/// A missing factor counts as 0, because recordings of older versions lack newer factors.
impl<'de> Deserialize<'de> for Factors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Factors, D::Error> {
        let numbers: BTreeMap<String, f64> = BTreeMap::deserialize(deserializer)?;
        let mut factors = Factors::NONE;
        for row in FACTORS {
            factors[row.factor] = numbers.get(row.name).copied().unwrap_or(0.0);
        }
        Ok(factors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_discriminant_of_a_factor_is_its_row() {
        for (place, row) in FACTORS.iter().enumerate() {
            assert_eq!(row.factor as usize, place, "{}", row.name);
        }
    }

    #[test]
    fn weights_are_stored_by_name_and_missing_weights_are_zero() {
        let text = concat!(
            r#"{"wait_time":1000.0,"fair_share":10000.0,"qos":5000.0,"queue":500.0,"#,
            r#""job_size":1000.0,"user":1000.0,"slowdown":0.0}"#
        );
        assert_eq!(serde_json::to_string(&Factors::FLUX).unwrap(), text);
        assert_eq!(
            serde_json::from_str::<Factors>(text).unwrap(),
            Factors::FLUX
        );
        assert_eq!(
            serde_json::from_str::<Factors>(r#"{"qos":3.0}"#).unwrap(),
            Factors::NONE.with(Factor::Qos, 3.0)
        );
    }
}
