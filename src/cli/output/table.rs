//! Tables of any length, in columns as wide as their widest cell: the rows are gone through twice,
//! and none is kept.

use std::io::{self, Write};

/// Writes rows of equally many cells, of which those from `figures` on stand to the right.
pub fn write<I>(rows: impl Fn() -> I, figures: usize, out: &mut dyn Write) -> io::Result<()>
where
    I: Iterator<Item = Vec<String>>,
{
    let mut widths: Vec<usize> = Vec::new();
    for row in rows() {
        widths.resize(widths.len().max(row.len()), 0);
        widths
            .iter_mut()
            .zip(&row)
            .for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    for row in rows() {
        let cell = |(at, (cell, &width)): (usize, (&String, &usize))| match at < figures {
            true => format!("{cell:width$}"),
            false => format!("{cell:>width$}"),
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_to_the_left_and_figures_to_the_right() {
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
