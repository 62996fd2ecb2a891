//! A table of free amounts with a row for each node class or node. A search for rows with enough
//! free resources skips thousands of rows in a microsecond.
//!
//! The amounts of one resource are adjacent in memory. The table also stores the maximum of every
//! 16 amounts (a stride), and the maximum of every 16 strides (a block). A search skips a whole
//! stride or block with one comparison if it needs more than the maximum.

/// The number of rows in a stride.
const STRIDE: usize = 16;

/// The number of rows in a block.
const BLOCK: usize = STRIDE * 16;

/// The amount of a row that is closed to all jobs.
const CLOSED: i64 = -1;

/// The table: one column for each resource.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

/// The free amounts of one resource in all rows.
#[derive(Clone, Debug, Default)]
struct Column {
    free: Vec<i64>,
    /// The maximum of each stride.
    strides: Vec<i64>,
    /// The maximum of each block.
    blocks: Vec<i64>,
}

impl Columns {
    /// A table with `rows` rows that are all closed to jobs. `width` is the number of resources.
    pub fn closed(width: usize, rows: usize) -> Columns {
        let column = Column {
            free: vec![CLOSED; rows],
            strides: vec![CLOSED; rows.div_ceil(STRIDE)],
            blocks: vec![CLOSED; rows.div_ceil(BLOCK)],
        };
        Columns {
            columns: vec![column; width],
            rows,
        }
    }

    /// Adds a closed row.
    pub fn push(&mut self) {
        for column in &mut self.columns {
            column.free.push(CLOSED);
            column
                .strides
                .resize(column.free.len().div_ceil(STRIDE), CLOSED);
            column
                .blocks
                .resize(column.free.len().div_ceil(BLOCK), CLOSED);
        }
        self.rows += 1;
    }

    /// Opens these closed rows, and sets their free amounts.
    pub fn fill<'a>(&mut self, rows: impl Iterator<Item = (usize, &'a [i64])>) {
        for (place, free) in rows {
            for (column, amount) in self.columns.iter_mut().zip(free) {
                column.free[place] = *amount;
            }
        }
        self.columns.iter_mut().for_each(Column::sum_up);
    }

    /// Sets the free amounts of a row. None closes the row to jobs.
    pub fn set(&mut self, place: usize, free: Option<&[i64]>) {
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.set(place, free.map_or(CLOSED, |free| free[index]));
        }
    }

    /// The free amount of a resource in a row.
    pub fn get(&self, index: usize, place: usize) -> i64 {
        self.columns[index].free[place]
    }

    /// The open rows with at least these amounts (resource, amount above zero). If `amounts` is
    /// empty, returns all rows, including closed rows. Fastest if the scarcest resource comes
    /// first.
    pub fn at_least(&self, amounts: Vec<(usize, i64)>) -> AtLeast<'_> {
        AtLeast {
            columns: self,
            amounts,
            place: 0,
        }
    }
}

/// The maximum of amounts; [`CLOSED`] if there are none.
fn largest(amounts: &[i64]) -> i64 {
    amounts.iter().copied().max().unwrap_or(CLOSED)
}

impl Column {
    /// Computes the maximum of each stride and of each block.
    fn sum_up(&mut self) {
        self.strides = self.free.chunks(STRIDE).map(largest).collect();
        self.blocks = self.strides.chunks(BLOCK / STRIDE).map(largest).collect();
    }

    fn set(&mut self, place: usize, amount: i64) {
        let before = std::mem::replace(&mut self.free[place], amount);
        let changed = renew(
            &mut self.strides[place / STRIDE],
            (before, amount),
            &self.free,
            place,
            STRIDE,
        );
        if let Some(change) = changed {
            renew(
                &mut self.blocks[place / BLOCK],
                change,
                &self.strides,
                place / STRIDE,
                BLOCK / STRIDE,
            );
        }
    }
}

/// Updates `largest`, the maximum of a stride or block, after one amount has changed from `before`
/// to `amount`. Returns the old and the new maximum if the maximum has changed.
fn renew(
    largest: &mut i64,
    (before, amount): (i64, i64),
    all: &[i64],
    place: usize,
    size: usize,
) -> Option<(i64, i64)> {
    let earlier = *largest;
    if amount >= earlier {
        *largest = amount;
    } else if before == earlier {
        let from = place / size * size;
        *largest = all[from..all.len().min(from + size)]
            .iter()
            .copied()
            .max()
            .unwrap_or(CLOSED);
    }
    (*largest != earlier).then_some((earlier, *largest))
}

/// An iterator over the rows with at least the requested amounts, in order.
pub struct AtLeast<'a> {
    columns: &'a Columns,
    amounts: Vec<(usize, i64)>,
    place: usize,
}

impl Iterator for AtLeast<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let columns = &self.columns.columns;
        while self.place < self.columns.rows {
            let place = self.place;
            let any = |of: fn(&Column) -> &[i64], size: usize| {
                self.amounts
                    .iter()
                    .all(|&(index, amount)| of(&columns[index])[place / size] >= amount)
            };
            if place.is_multiple_of(BLOCK) && !any(|column| &column.blocks, BLOCK) {
                self.place += BLOCK;
            } else if place.is_multiple_of(STRIDE) && !any(|column| &column.strides, STRIDE) {
                self.place += STRIDE;
            } else {
                self.place += 1;
                if any(|column| &column.free, 1) {
                    return Some(place);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_rows_with_enough_are_found() {
        let mut columns = Columns::closed(2, 600);
        let mut plain: Vec<Option<[i64; 2]>> = vec![None; 600];
        for step in 0..20_000_i64 {
            let place = (step * 7919 % 700) as usize;
            while place >= plain.len() {
                columns.push();
                plain.push(None);
            }
            plain[place] = (step % 5 != 0).then_some([step * 31 % 1701, step * 37 % 1103]);
            columns.set(place, plain[place].as_ref().map(|amounts| &amounts[..]));
            let (first, second) = (step % 1900, step % 1201);
            let found: Vec<usize> = columns.at_least(vec![(0, first), (1, second)]).collect();
            let has = |place: &usize| {
                plain[*place].is_some_and(|free| free[0] >= first && free[1] >= second)
            };
            assert_eq!(
                found,
                (0..plain.len()).filter(has).collect::<Vec<_>>(),
                "step {step}"
            );
        }
        assert_eq!(columns.at_least(Vec::new()).count(), plain.len());
        let mut at_once = Columns::closed(2, plain.len());
        let open = plain
            .iter()
            .enumerate()
            .filter_map(|(place, free)| Some((place, &free.as_ref()?[..])));
        at_once.fill(open);
        let as_one_by_one = |index: usize| {
            let (a, b) = (&at_once.columns[index], &columns.columns[index]);
            (&a.free, &a.strides, &a.blocks) == (&b.free, &b.strides, &b.blocks)
        };
        assert!(as_one_by_one(0) && as_one_by_one(1));
    }
}
