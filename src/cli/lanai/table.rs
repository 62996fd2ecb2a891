//! Tables as wide as the terminal. Without a terminal, each column is as wide as its widest cell.

use comfy_table::presets::NOTHING;
use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, Width,
};

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Heading {
    /// The text at the top.
    pub text: &'static str,
    /// True if the cells are right-justified.
    pub is_right: bool,
    /// True if cells of this column may be cut on a narrow terminal.
    pub is_flexible: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The content, on one line.
    pub text: String,
    /// The color; None for the terminal's default color.
    pub color: Option<Color>,
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text { text, color: None }
    }
}

/// The narrowest width to which a flexible column is cut.
const NARROWEST: usize = 8;

/// The blanks between two columns.
const GAP: usize = 2;

/// A table with headings. The lines end with a line feed. `width` is the width of the terminal;
/// None for no limit. Control characters in cells are replaced.
pub fn render(
    headings: &[Heading],
    rows: Vec<Vec<Text>>,
    width: Option<u16>,
    has_color: bool,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if has_color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let widths = widths(headings, &rows, width);
    let heads = headings
        .iter()
        .map(|heading| cell(heading.text, None, heading));
    table.set_header(Row::from(heads.collect::<Vec<_>>()));
    for row in rows {
        let cells = row
            .iter()
            .zip(headings)
            .zip(&widths)
            .map(|((text, heading), &width)| {
                cell(&cut(&printable(&text.text), width), text.color, heading)
            });
        table.add_row(cells.collect::<Vec<_>>());
    }
    for (column, &width) in table.column_iter_mut().zip(&widths) {
        column.set_padding((0, GAP as u16));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(
            (width + GAP) as u16,
        )));
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

fn cell(text: &str, color: Option<Color>, heading: &Heading) -> Cell {
    let alignment = if heading.is_right {
        CellAlignment::Right
    } else {
        CellAlignment::Left
    };
    let cell = Cell::new(text).set_alignment(alignment);
    match color {
        Some(color) => cell.fg(color),
        None => cell,
    }
}

/// The width of each column. If the table is wider than the terminal, the flexible columns are
/// narrowed, the widest first.
fn widths(headings: &[Heading], rows: &[Vec<Text>], limit: Option<u16>) -> Vec<usize> {
    let mut widths: Vec<usize> = headings
        .iter()
        .map(|heading| heading.text.chars().count())
        .collect();
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.text.chars().count());
        }
    }
    let Some(limit) = limit else {
        return widths;
    };
    let gaps = GAP * headings.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(usize::from(limit));
    while excess > 0 {
        let flexible = headings
            .iter()
            .zip(&mut widths)
            .filter(|(heading, width)| heading.is_flexible && **width > NARROWEST);
        match flexible.map(|(_, width)| width).max() {
            Some(widest) => *widest -= 1,
            None => break,
        }
        excess -= 1;
    }
    widths
}

/// The text, cut to `width` characters. An ellipsis marks a cut text.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// The text on one line, without control characters, which could change the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: [Heading; 3] = [
        Heading {
            text: "ID",
            is_right: true,
            is_flexible: false,
        },
        Heading {
            text: "NAME",
            is_right: false,
            is_flexible: true,
        },
        Heading {
            text: "DETAIL",
            is_right: false,
            is_flexible: true,
        },
    ];

    fn rows() -> Vec<Vec<Text>> {
        [["7", "a_long_name", "Not enough CPUs"], ["12", "b", ""]]
            .map(|row| row.map(|text| text.to_string().into()).to_vec())
            .to_vec()
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let expected = "ID  NAME         DETAIL\n 7  a_long_name  Not enough CPUs\n12  b\n";
        assert_eq!(render(&HEADINGS, rows(), None, false), expected);
    }

    #[test]
    fn on_a_narrow_terminal_flexible_columns_are_cut() {
        let text = render(&HEADINGS, rows(), Some(24), false);
        let expected = "ID  NAME       DETAIL\n 7  a_long_n…  Not enou…\n12  b\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let rows = vec![vec![Text::from("a\u{1b}[2J\n\u{9b}b".to_string())]];
        let text = render(&HEADINGS[1..2], rows, None, false);
        assert_eq!(text, "NAME\na?[2J??b\n");
    }

    #[test]
    fn a_color_applies_to_its_cell() {
        let row = vec![Text {
            text: "failed".into(),
            color: Some(Color::Red),
        }];
        let text = render(&HEADINGS[1..2], vec![row], None, true);
        assert!(text.contains("\u{1b}[38;5;9mfailed"), "{text:?}");
    }
}
