//! Text tables, with or without heads. Columns are as wide as their widest cells, or have a fixed
//! width.

use std::io::{self, Write};

/// The head of a column, and whether its cells are right-justified.
pub type ColumnHead<'a> = (&'a str, bool);

/// A column of fixed width. A longer cell is not cut: the cells after it move to the right.
#[derive(Clone, Copy, Debug)]
pub enum FixedColumn {
    /// Left-justified.
    Left(usize),
    /// Right-justified.
    Right(usize),
    /// As wide as the cell; for the last column.
    Rest,
}

/// Appends one line of fixed columns, separated by blanks, without a line feed.
pub fn push_line<'a>(
    out: &mut String,
    columns: impl IntoIterator<Item = FixedColumn>,
    cells: impl IntoIterator<Item = &'a str>,
) {
    for (at, (column, cell)) in columns.into_iter().zip(cells).enumerate() {
        if at > 0 {
            out.push(' ');
        }
        column.push(out, cell);
    }
}

impl FixedColumn {
    fn push(self, out: &mut String, cell: &str) {
        match self {
            FixedColumn::Left(width) => {
                out.push_str(cell);
                push_blanks(out, cell, width);
            }
            FixedColumn::Right(width) => {
                push_blanks(out, cell, width);
                out.push_str(cell);
            }
            FixedColumn::Rest => out.push_str(cell),
        }
    }
}

/// Appends the blanks with which `cell` fills a column; none if `cell` is as wide or wider.
fn push_blanks(out: &mut String, cell: &str, width: usize) {
    let blanks = width.saturating_sub(cell.chars().count());
    out.extend(std::iter::repeat_n(' ', blanks));
}

/// A line of heads, a rule, and a line for each row. Each column is as wide as its widest cell.
pub fn with_heads<R: AsRef<[String]>>(heads: &[ColumnHead], rows: &[R]) -> String {
    let names: Vec<String> = heads.iter().map(|(name, _)| name.to_string()).collect();
    let mut widths = vec![0; heads.len()];
    for row in std::iter::once(names.as_slice()).chain(rows.iter().map(AsRef::as_ref)) {
        widen(&mut widths, row);
    }
    let columns: Vec<FixedColumn> = heads
        .iter()
        .zip(&widths)
        .map(|((_, is_right), &width)| {
            if *is_right {
                FixedColumn::Right(width)
            } else {
                FixedColumn::Left(width)
            }
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut out = String::new();
    let lines = [names.as_slice(), rule.as_slice()];
    for row in lines.into_iter().chain(rows.iter().map(AsRef::as_ref)) {
        let mut line = String::new();
        push_line(
            &mut line,
            columns.iter().copied(),
            row.iter().map(String::as_str),
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Widens columns to the cells of `row`.
fn widen(widths: &mut Vec<usize>, row: &[String]) {
    widths.resize(widths.len().max(row.len()), 0);
    for (width, cell) in widths.iter_mut().zip(row) {
        *width = (*width).max(cell.chars().count());
    }
}

/// Writes any number of rows with equal numbers of cells. The first `text_columns` columns are
/// left-justified, the others right-justified; two blanks separate columns. `rows` is called twice,
/// so that no row is stored.
pub fn write<I>(rows: impl Fn() -> I, text_columns: usize, out: &mut dyn Write) -> io::Result<()>
where
    I: Iterator<Item = Vec<String>>,
{
    let mut widths: Vec<usize> = Vec::new();
    for row in rows() {
        widen(&mut widths, &row);
    }
    for row in rows() {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if at > 0 {
                line.push_str("  ");
            }
            let column = if at < text_columns {
                FixedColumn::Left(width)
            } else {
                FixedColumn::Right(width)
            };
            column.push(&mut line, cell);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_justified_and_numbers_right_justified() {
        let rows = [
            ["User", "Jobs", "Wait"],
            ["j\u{f6}rg", "12345", "--"],
            ["bo", "1", ""],
        ];
        let mut out = Vec::new();
        write(
            || rows.iter().map(|row| row.map(String::from).to_vec()),
            1,
            &mut out,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "User   Jobs  Wait\nj\u{f6}rg  12345    --\nbo        1\n"
        );
        let mut out = Vec::new();
        write(std::iter::empty::<Vec<String>>, 0, &mut out).unwrap();
        assert!(out.is_empty());
    }
}
