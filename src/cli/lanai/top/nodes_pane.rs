//! Draws the nodes with their free and total resources.

use super::paint::{self, Paint};
use super::state::{Pane, TopState};
use crate::cli::lanai::nodes;
use crate::cli::lanai::table::Text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// The headings, each with the justification of its column.
const HEADINGS: [(&str, bool); 7] = [
    ("NODE", false),
    ("STATE", false),
    ("CPUS FREE", true),
    ("MEM FREE", true),
    ("GPUS FREE", true),
    ("JOBS", true),
    ("COMMENT", false),
];

/// The largest width of a column.
const WIDEST: usize = 20;

/// Draws the nodes within their border.
pub fn draw(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let paint = Paint::new(state);
    let records = state.snapshot.as_ref().map(|snapshot| &snapshot.nodes);
    let count = records.map_or(String::new(), |records| format!("{} nodes", records.len()));
    let area = paint.frame(Pane::Nodes, &count, area, buffer);
    let (Some(records), false) = (records, area.is_empty()) else {
        return;
    };
    let offset = state.offsets[Pane::Nodes as usize];
    let height = usize::from(area.height).saturating_sub(1);
    let rows: Vec<Vec<Text>> = records
        .iter()
        .skip(offset)
        .take(height)
        .map(nodes::row)
        .collect();
    let mut x = area.x;
    for (number, (heading, is_right)) in HEADINGS.iter().enumerate() {
        let lengths = rows.iter().map(|row| row[number].text.chars().count());
        let longest = lengths.max().unwrap_or(0).min(WIDEST).max(heading.len());
        let left = area.right().saturating_sub(x);
        let is_last = number + 1 == HEADINGS.len();
        let width = if is_last {
            left
        } else {
            left.min(longest as u16)
        };
        let mut place = Rect::new(x.min(area.right()), area.y, width, 1);
        let write = if *is_right {
            paint::right_text
        } else {
            paint::text
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        write(buffer, place, heading, bold);
        for row in &rows {
            place.y += 1;
            let cell = &row[number];
            let style = paint.color(cell.color.and_then(paint::terminal_color));
            write(buffer, place, &cell.text, style);
        }
        x = x.saturating_add(width + 2);
    }
}
