//! Quantities over time, as means over the bins of a period.

/// A sum of quantities that each apply for a time range.
#[derive(Clone, Debug)]
pub struct TimeSeries {
    edges: Vec<i64>,
    /// Quantity times milliseconds in each bin.
    sums: Vec<f64>,
}

impl TimeSeries {
    /// A series that is 0 in all bins. Two successive edges bound a bin.
    pub fn new(edges: Vec<i64>) -> TimeSeries {
        TimeSeries {
            sums: vec![0.0; edges.len().saturating_sub(1)],
            edges,
        }
    }

    /// Adds a quantity from `start` to `end`. The part outside the bins is ignored.
    pub fn add(&mut self, start: i64, end: i64, quantity: f64) {
        let first = self
            .edges
            .partition_point(|edge| *edge <= start)
            .saturating_sub(1);
        for (bin, sum) in self.sums.iter_mut().enumerate().skip(first) {
            let (left, right) = (self.edges[bin].max(start), self.edges[bin + 1].min(end));
            if self.edges[bin] >= end {
                break;
            }
            *sum += quantity * (right - left).max(0) as f64;
        }
    }

    /// The mean quantity in each bin.
    pub fn means(&self) -> Vec<f64> {
        self.edges
            .windows(2)
            .zip(&self.sums)
            .map(|(edges, sum)| sum / (edges[1] - edges[0]) as f64)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_counts_in_each_bin_for_its_time() {
        let mut series = TimeSeries::new(vec![0, 10, 20, 25]);
        series.add(5, 22, 2.0);
        assert_eq!(series.means(), [1.0, 2.0, 0.8]);
        series.add(-100, 10, 1.0);
        series.add(24, 1000, 5.0);
        series.add(25, 30, 7.0);
        series.add(-5, 0, 7.0);
        assert_eq!(series.means(), [2.0, 2.0, 1.8]);
    }
}
