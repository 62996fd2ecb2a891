//! Sort keys of jobs. A job with higher priority has a lower key, and thus comes first (X18).

/// The priority of a job as a key: first the tier, then the score. Jobs of a higher tier come first
/// whatever their scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    tier: i64,
    score: i64,
}

impl SortKey {
    /// The key of a tier and a score.
    pub fn of(tier: i64, score: f64) -> SortKey {
        SortKey {
            tier: tier.saturating_neg(),
            score: highest_first(score),
        }
    }

    /// The key of the next lower priority in the same tier.
    pub fn next_below(self) -> SortKey {
        SortKey {
            score: self.score.saturating_add(1),
            ..self
        }
    }

    /// The tier, which is compared before the score.
    pub fn tier(self) -> i64 {
        self.tier.saturating_neg()
    }

    /// The score.
    pub fn score(self) -> f64 {
        let rising = self.score.wrapping_neg();
        let bits = if rising < 0 {
            i64::MIN.wrapping_sub(rising)
        } else {
            rising
        };
        f64::from_bits(bits as u64)
    }
}

/// Converts a number to an integer so that higher numbers become lower integers.
pub fn highest_first(value: f64) -> i64 {
    // As integers, the bits of non-negative numbers are in the order of the numbers, and the bits
    // of negative numbers are in the reverse order.
    let bits = value.to_bits() as i64;
    let rising = if bits < 0 {
        i64::MIN.wrapping_sub(bits)
    } else {
        bits
    };
    rising.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 9] = [
        f64::MAX,
        900.0,
        400.1,
        1.0,
        1e-300,
        0.0,
        -1e-300,
        -2.0,
        f64::MIN,
    ];

    #[test]
    fn the_key_of_the_highest_score_comes_first() {
        let keys: Vec<SortKey> = VALUES.iter().map(|&value| SortKey::of(0, value)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(SortKey::of(0, -0.0), SortKey::of(0, 0.0));
        assert_eq!(SortKey::of(0, 0.0), SortKey::default());
    }

    /// X18.
    #[test]
    fn a_higher_tier_precedes_any_score() {
        assert!(
            SortKey::of(1, -5.0) < SortKey::of(0, f64::MAX)
                && SortKey::of(-1, f64::MAX) > SortKey::of(0, f64::MIN)
        );
    }

    #[test]
    fn the_key_of_the_next_lower_priority_follows_directly() {
        for value in [900.0, 1.0, 0.0, -2.0] {
            let sort_key = SortKey::of(3, value);
            let next = sort_key.next_below();
            assert!(
                sort_key < next
                    && next.tier() == 3
                    && next.score() < value
                    && next.score() >= value - 1e-9
            );
        }
    }

    #[test]
    fn tier_and_score_can_be_read_back() {
        for value in VALUES {
            assert_eq!(
                (
                    SortKey::of(-7, value).score(),
                    SortKey::of(-7, value).tier()
                ),
                (value, -7)
            );
        }
    }
}
