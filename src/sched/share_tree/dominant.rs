//! The dominant share of amounts of several resources: the largest part of any total (Y21).

use crate::sched::amounts::Amounts;

/// The total of each resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTotal(Amounts);

impl ClusterTotal {
    /// The total of these resources.
    pub fn new(capacity: &[i64]) -> ClusterTotal {
        ClusterTotal(capacity.into())
    }

    /// The dominant resource of these amounts, the first of equals; None if all are 0.
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

    /// The dominant share, 0 or more.
    pub fn part(&self, amounts: &[i64]) -> f64 {
        amounts
            .iter()
            .zip(&*self.0)
            .filter(|(amount, _)| **amount > 0)
            .map(|(amount, all)| part(*amount, *all))
            .fold(0.0, f64::max)
    }
}

/// The part of a resource's total.
fn part(amount: i64, all: i64) -> f64 {
    amount as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y21: 1,000 of 50,000 CPUs and 2 of 180 TiB.
    #[test]
    fn the_largest_part_of_any_resource_counts() {
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
