//! Draws the timeline.

use super::paint::{self, Paint};
use super::state::{Pane, TopState};
use super::timeline::{Lane, Period, Run, RunKind, lanes};
use crate::cli::lanai::relative_time::duration;
use crate::model::time::Span;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The smallest distance between two labels of the time axis, in columns.
const LABEL_WIDTH: i64 = 12;

/// Distances between labels of the time axis, in seconds.
const STEPS: [i64; 15] = [
    30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800,
    604_800,
];

/// The largest width of the names of the nodes.
const NAME_WIDTH: u16 = 16;

/// The number of lines: the time axis and the lines of the nodes.
pub fn height(state: &TopState) -> usize {
    1 + lanes(state).len()
}

/// Draws the timeline within its border.
pub fn draw(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let paint = Paint::new(state);
    let title = "█ running  ░ until walltime  ▓ finished  ▒ planned";
    let area = paint.frame(Pane::Timeline, title, area, buffer);
    let (Some(snapshot), false) = (&state.snapshot, area.is_empty()) else {
        return;
    };
    let lanes = lanes(state);
    let names = lanes.iter().filter_map(|lane| lane.node.as_ref());
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let name_width = NAME_WIDTH.min(longest as u16 + 1).min(area.width / 3);
    let chart = Rect {
        x: area.x + name_width,
        width: area.width - name_width,
        ..area
    };
    let period = Period::around(snapshot.now().0, state.zoom);
    draw_axis(&period, chart, buffer);
    let offset = state.offsets[Pane::Timeline as usize];
    let rows = (area.y + 1..area.bottom()).zip(lanes.iter().skip(offset));
    for (y, lane) in rows {
        if let Some(node) = &lane.node {
            let name_area = Rect::new(area.x, y, name_width.saturating_sub(1), 1);
            paint::text(buffer, name_area, node, Style::new());
        }
        let row = Rect {
            y,
            height: 1,
            ..chart
        };
        draw_lane(lane, &period, row, &paint, buffer);
    }
}

/// Labels such as `-20m`, `now` and `+20m`.
fn draw_axis(period: &Period, chart: Rect, buffer: &mut Buffer) {
    let width = i64::from(chart.width).max(1);
    let fits = |step: &&i64| **step * width / period.length >= LABEL_WIDTH;
    let step = STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
    let first = (period.from - period.now) / step;
    let last = (period.from + period.length - period.now) / step;
    for number in first..=last {
        let column = period.column(period.now + number * step, chart.width);
        let Ok(column) = u16::try_from(column) else {
            continue;
        };
        let distance = duration(Span::seconds((number * step).abs()));
        let label = match number {
            0 => "now".to_string(),
            1.. => format!("+{distance}"),
            _ => format!("-{distance}"),
        };
        if usize::from(column) + label.len() <= usize::from(chart.width) {
            let style = Style::new().add_modifier(Modifier::DIM);
            buffer.set_string(chart.x + column, chart.y, label, style);
        }
    }
}

fn draw_lane(lane: &Lane, period: &Period, row: Rect, paint: &Paint, buffer: &mut Buffer) {
    for run in &lane.runs {
        draw_run(run, period, row, paint, buffer);
    }
    let now = period.column(period.now, row.width);
    if let Ok(column) = u16::try_from(now)
        && column < row.width
        && let Some(cell) = buffer.cell_mut((row.x + column, row.y))
        && cell.symbol() == " "
    {
        cell.set_symbol("│");
        cell.set_style(Style::new().add_modifier(Modifier::DIM));
    }
}

/// A bar with the id of the job. Each run is at least one column wide.
fn draw_run(run: &Run, period: &Period, row: Rect, paint: &Paint, buffer: &mut Buffer) {
    let column = |time| period.column(time, row.width);
    let from = column(run.from).max(0);
    let end = column(run.expected).max(from + 1).min(row.width.into());
    let until = column(run.until).max(from + 1);
    let (symbol, color) = match run.kind {
        RunKind::Planned => ("▒", Some(Color::Cyan)),
        RunKind::Past(status) if status.is_finished() => ("▓", paint::status_color(status)),
        RunKind::Past(status) => ("█", paint::status_color(status)),
    };
    let style = paint.color(color);
    for x in from..end {
        let symbol = if x < until { symbol } else { "░" };
        buffer.set_string(row.x + x as u16, row.y, symbol, style);
    }
    let label = run.job.to_string();
    let room = (end - from) as usize;
    if label.len() < room {
        let style = style.add_modifier(Modifier::REVERSED);
        buffer.set_string(row.x + from as u16, row.y, label, style);
    }
}
