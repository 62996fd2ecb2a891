//! A grid of time and processors, for schedules with more pieces of jobs than can be drawn
//! separately, and for the utilization over time.

use super::{Schedule, WIDTHS};

/// A grid of cells. For each cell and each job width, the fraction of the cell that jobs of this
/// width occupy.
pub(super) struct Grid {
    /// The number of columns.
    pub(super) columns: usize,
    /// The number of rows; at most the number of processors.
    pub(super) rows: usize,
    /// The cells, row by row.
    pub(super) cells: Vec<[f64; WIDTHS.len()]>,
}

impl Grid {
    /// The grid of a schedule, with this many columns and at most this many rows.
    pub(super) fn new(schedule: &Schedule, (columns, rows): (usize, usize)) -> Grid {
        let rows = rows.min(schedule.processors as usize).max(1);
        let mut grid = Grid {
            columns,
            rows,
            cells: vec![[0.0; WIDTHS.len()]; columns * rows],
        };
        let across = columns as f64 / (schedule.span.1 - schedule.span.0) as f64;
        let up = rows as f64 / f64::from(schedule.processors);
        for piece in &schedule.pieces {
            let outcome = &schedule.outcomes[piece.job];
            let moment = |seconds: i64| (seconds - schedule.span.0) as f64 * across;
            let time = (moment(outcome.start), moment(outcome.end()));
            let space = (
                f64::from(piece.first) * up,
                f64::from(piece.first + piece.count) * up,
            );
            grid.add(time, space, schedule.width(outcome));
        }
        grid
    }

    /// Adds a rectangle that jobs of the width `width` occupy. `time` and `space` are in units of
    /// cells.
    fn add(&mut self, time: (f64, f64), space: (f64, f64), width: usize) {
        for (row, high) in overlaps(space, self.rows) {
            for (column, wide) in overlaps(time, self.columns) {
                self.cells[row * self.columns + column][width] += high * wide;
            }
        }
    }

    /// The color of a cell: the index of the job width that occupies the largest part, and the
    /// occupied quarters of the cell, rounded. None for zero quarters.
    pub(super) fn paint(&self, row: usize, column: usize) -> Option<(usize, u8)> {
        let cell = &self.cells[row * self.columns + column];
        let most = (0..WIDTHS.len()).max_by(|a, b| cell[*a].total_cmp(&cell[*b]))?;
        let quarters = (cell.iter().sum::<f64>() * 4.0).round() as u8;
        (quarters > 0).then_some((most, quarters.min(4)))
    }
}

/// The cells that a span touches, each with its covered fraction.
fn overlaps((from, to): (f64, f64), cells: usize) -> impl Iterator<Item = (usize, f64)> {
    let last = (to.ceil() as usize).min(cells);
    (from as usize..last).map(move |cell| (cell, to.min(cell as f64 + 1.0) - from.max(cell as f64)))
}

#[cfg(test)]
mod tests {
    use super::super::Schedule;
    use super::super::tests::outcome;
    use super::*;

    #[test]
    fn cells_cover_the_whole_area_of_the_jobs() {
        let outcomes: Vec<_> = (0..300)
            .map(|at| outcome(at * 7, 3 + at % 41, 1 + (at % 9) as u32))
            .collect();
        let schedule = Schedule::new("", &outcomes, 100);
        let area: i64 = outcomes
            .iter()
            .map(|outcome| outcome.job.run * i64::from(outcome.job.processors))
            .sum();
        for size in [(1, 1), (7, 13), (200, 500)] {
            let grid = Grid::new(&schedule, size);
            let cell = (schedule.span.1 - schedule.span.0) as f64 / grid.columns as f64 * 100.0
                / grid.rows as f64;
            let sum: f64 = grid.cells.iter().flatten().sum();
            assert!(
                (sum * cell - area as f64).abs() < 1e-6 * area as f64,
                "{size:?}"
            );
            assert!(
                grid.cells
                    .iter()
                    .all(|cell| cell.iter().sum::<f64>() < 1.0 + 1e-9),
                "{size:?}"
            );
        }
    }

    #[test]
    fn a_cell_shows_its_dominant_width_and_its_occupancy() {
        let outcomes = [outcome(0, 10, 1), outcome(0, 4, 60)];
        let grid = Grid::new(&Schedule::new("", &outcomes, 64), (2, 1));
        assert_eq!((grid.paint(0, 0), grid.paint(0, 1)), (Some((3, 3)), None));
    }
}
