//! Rows of text in columns as wide as what stands in them.

/// What stands above a column, and whether its cells are numbers, which stand to the right.
pub type Head = (&'static str, bool);

/// A line of heads, a rule, and a line for each row.
pub fn table<const N: usize>(heads: &[Head; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.fold(heads[column].0.chars().count(), usize::max)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let names = heads.map(|(head, _)| head.to_string());
    let rule: [String; N] = std::array::from_fn(|column| "-".repeat(widths[column]));
    let mut out = String::new();
    for row in [&names, &rule].into_iter().chain(rows) {
        let pad = |(column, cell): (usize, &String)| match heads[column].1 {
            true => format!("{cell:>width$}", width = widths[column]),
            false => format!("{cell:width$}", width = widths[column]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(pad).collect();
        out.push_str(cells.join(" ").trim_end());
        out.push('\n');
    }
    out
}
