//! Draws the queue: a table of jobs.

use super::paint::{self, Paint};
use super::state::{Pane, Prompt, SortKey, TopState};
use crate::cli::lanai::job_view::JobView;
use crate::cli::lanai::relative_time::duration;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// The columns, each with its smallest and largest width and its justification. The last column
/// gets the remaining width.
const COLUMNS: [(&str, usize, usize, bool); 7] = [
    ("ID", 4, 12, true),
    ("NAME", 8, 24, false),
    ("USER", 4, 12, false),
    ("STATE", 9, 9, false),
    ("CPUS", 4, 6, true),
    ("ELAPSED", 8, 8, true),
    ("DETAIL", 0, 0, false),
];

/// Draws the queue within its border.
pub fn draw(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let paint = Paint::new(state);
    let area = paint.frame(Pane::Queue, &title(state), area, buffer);
    if area.is_empty() {
        return;
    }
    let offset = state.offsets[Pane::Queue as usize];
    let rows = usize::from(area.height).saturating_sub(1);
    let jobs: Vec<JobView> = state.jobs().skip(offset).take(rows).collect();
    let cells: Vec<[String; 7]> = jobs.iter().map(cells).collect();
    let columns = columns(&cells, area);
    draw_headings(state, &columns, buffer);
    for (index, (job, cells)) in jobs.iter().zip(&cells).enumerate() {
        let y = area.y + 1 + index as u16;
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        let is_selected = Some(job.record.job.id) == state.selected;
        for (number, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let style = match COLUMNS[number].0 {
                "STATE" => paint.color(paint::status_color(job.status())),
                _ => Style::new(),
            };
            let place = Rect { y, ..*column };
            if COLUMNS[number].3 {
                paint::right_text(buffer, place, cell, style);
            } else {
                paint::text(buffer, place, cell, style);
            }
        }
        if is_selected {
            buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
    if state.rows.is_empty() {
        let place = Rect {
            y: area.y + 1,
            height: 1,
            ..area
        };
        paint::text(buffer, place, empty(state), Style::new());
    }
}

fn empty(state: &TopState) -> &'static str {
    match (&state.snapshot, state.filter.text()) {
        (None, _) => "Reading jobs ...",
        (Some(_), "") if state.shows_all => "There are no jobs.",
        (Some(_), "") => "You have no jobs. Press a for the jobs of all users.",
        (Some(_), _) => "No jobs match the filter. Press Esc to remove it.",
    }
}

/// The filter, and the selected row and the number of rows.
fn title(state: &TopState) -> String {
    let count = match state.selected_row() {
        Some(row) => format!("{}/{}", row + 1, state.rows.len()),
        None => state.rows.len().to_string(),
    };
    let is_edited = matches!(state.prompt, Prompt::Filter(_));
    match state.filter.text() {
        "" if !is_edited => count,
        text => format!("/{text}  {count}"),
    }
}

fn cells(job: &JobView) -> [String; 7] {
    let spec = &job.record.job.spec;
    [
        job.id(),
        spec.name.clone(),
        job.record.job.owner.user.clone(),
        job.status().word().to_string(),
        job.processors().to_string(),
        job.elapsed().map(duration).unwrap_or_default(),
        job.detail(),
    ]
}

/// The areas of the columns: as wide as their cells require, within their limits.
fn columns(cells: &[[String; 7]], area: Rect) -> Vec<Rect> {
    let mut x = area.x;
    let mut columns = Vec::new();
    for (number, (heading, least, most, _)) in COLUMNS.iter().enumerate() {
        let longest = cells.iter().map(|row| row[number].chars().count()).max();
        let width = longest
            .unwrap_or(0)
            .max(heading.len())
            .clamp(*least, (*most).max(*least)) as u16;
        let left = area.right().saturating_sub(x);
        let width = if number + 1 == COLUMNS.len() {
            left
        } else {
            width.min(left)
        };
        columns.push(Rect {
            x: x.min(area.right()),
            width,
            height: 1,
            y: area.y,
        });
        x = x.saturating_add(width + 1);
    }
    columns
}

fn draw_headings(state: &TopState, columns: &[Rect], buffer: &mut Buffer) {
    for (column, (heading, _, _, is_right)) in columns.iter().zip(&COLUMNS) {
        let is_sorted = state.sort.heading() == *heading;
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if is_sorted && (state.sort != SortKey::Progress || state.is_reversed) {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        if *is_right {
            paint::right_text(buffer, *column, heading, style);
        } else {
            paint::text(buffer, *column, heading, style);
        }
    }
}
