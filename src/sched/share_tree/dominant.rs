//! The dominant share of amounts of several resources. Each amount is divided by the total of its
//! resource; the largest quotient is the dominant share (Y21).

use crate::sched::amounts::Amounts;

/// The total of each resource in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTotal(Amounts);

impl ClusterTotal {
    /// The totals, from the capacity of the cluster by resource index.
    pub fn new(capacity: &[i64]) -> ClusterTotal {
        ClusterTotal(capacity.into())
    }

    /// The index of the resource with the largest fraction, or of the first of several such
    /// resources; None if all amounts are 0.
    pub fn dominant(&self, amounts: &[i64]) -> Option<usize> {
        let all = (0..amounts.len().min(self.0.len())).filter(|&index| amounts[index] > 0);
        all.reduce(|best, next| {
            if part(amounts[next], self.0[next]) > part(amounts[best], self.0[best]) {
                next
            } else {
                best
            }
        })
    }

    /// The dominant share of these amounts, 0 or more.
    pub fn part(&self, amounts: &[i64]) -> f64 {
        amounts
            .iter()
            .zip(&*self.0)
            .filter(|(amount, _)| **amount > 0)
            .map(|(amount, all)| part(*amount, *all))
            .fold(0.0, f64::max)
    }
}

/// An amount as a fraction of the total of its resource; a total of 0 counts as 1.
fn part(amount: i64, all: i64) -> f64 {
    amount as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y21: the cluster has 50,000 CPUs and 180 TiB of memory.
    #[test]
    fn the_dominant_share_is_the_largest_fraction_of_any_resource() {
        let whole = ClusterTotal::new(&[50_000, 180 << 40, 0]);
        assert_eq!(whole.part(&[1_000, 2 << 40, 0]), 0.02);
        assert_eq!(whole.part(&[100, 90 << 40, 0]), 0.5);
        assert_eq!(whole.part(&[0, 0, 0]), 0.0);
        assert_eq!(
            [[1_000, 2 << 40, 0], [100, 90 << 40, 0], [0; 3]]
                .map(|amounts| whole.dominant(&amounts)),
            [Some(0), Some(1), None]
        );
    }
}
