//! Draws the screen.

use super::paint::{self, Paint};
use super::state::{Pane, Prompt, TopState};
use super::{details_pane, nodes_pane, queue_pane, timeline_pane};
use crate::cli::lanai::status::JobStatus;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, Widget};

/// Keys with their meanings, for the help.
const HELP: [(&str, &str); 18] = [
    ("Up Down j k", "select a job, or scroll"),
    (
        "PgUp PgDn Home End",
        "move by pages, to the first or the last line",
    ),
    ("Tab, 1 2 3 4", "queue, nodes, details, timeline"),
    ("Enter, w", "details of the job, and why it waits"),
    ("l", "the last lines of the job's output"),
    ("h", "hold the job (qhold)"),
    ("r", "release the job (qrls)"),
    ("c", "cancel the job (qdel), after a confirmation"),
    ("/", "filter: text, or terms such as state=running"),
    ("Esc", "leave the log or pane, remove the filter"),
    ("a", "jobs of all users, or only yours"),
    ("s S", "next sort column, reverse order"),
    ("+ -", "shorter or longer period of the timeline"),
    ("Ctrl-Z", "suspend lanai top"),
    ("q Ctrl-C", "quit"),
    ("", ""),
    ("", "The screen changes when a job changes."),
    ("", "Press any key to leave this help."),
];

/// Draws the screen.
pub fn draw(frame: &mut Frame, state: &TopState) {
    let layout = state.layout();
    let buffer = frame.buffer_mut();
    draw_head(state, layout.head, buffer);
    if let Some(area) = layout.queue {
        queue_pane::draw(state, area, buffer);
    }
    if let Some(area) = layout.nodes {
        nodes_pane::draw(state, area, buffer);
    }
    if let Some(area) = layout.details {
        details_pane::draw(state, area, buffer);
    }
    if let Some(area) = layout.timeline {
        timeline_pane::draw(state, area, buffer);
    }
    draw_status(state, layout.status, buffer);
    if state.prompt == Prompt::Help {
        draw_help(state.area, buffer);
    }
}

/// The names of the panes, and the number of jobs in each state.
fn draw_head(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    for (number, pane) in Pane::ALL.into_iter().enumerate() {
        let mut style = Style::new();
        if pane == state.focus {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let label = format!(" {} {} ", number + 1, pane.title());
        let left = area.right().saturating_sub(x);
        paint::text(
            buffer,
            Rect {
                x,
                width: left,
                ..area
            },
            &label,
            style,
        );
        x += (label.len() as u16).min(left);
    }
    let left = area.right().saturating_sub(x + 1);
    let place = Rect {
        x: area.right() - left,
        width: left,
        ..area
    };
    let counts = counts(state);
    paint::right_text(
        buffer,
        place,
        &paint::cut(&counts, left.into()),
        Style::new(),
    );
}

/// The displayed jobs: `my jobs: 2 running, 3 queued`.
fn counts(state: &TopState) -> String {
    let scope = if state.shows_all {
        "all jobs"
    } else {
        "my jobs"
    };
    let mut parts = Vec::new();
    let statuses: Vec<JobStatus> = state.jobs().map(|job| job.status()).collect();
    for status in JobStatus::ALL {
        let count = statuses.iter().filter(|one| **one == status).count();
        if count > 0 {
            parts.push(format!("{count} {}", status.word()));
        }
    }
    if parts.is_empty() {
        return scope.to_string();
    }
    format!("{scope}: {}", parts.join(", "))
}

/// A question, a message, or the most important keys.
fn draw_status(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let paint = Paint::new(state);
    let failure = paint.color(Some(Color::Red)).add_modifier(Modifier::BOLD);
    let (text, style) = match (&state.prompt, state.filter.error(), &state.offline) {
        (Prompt::Cancel(job), _, _) => (
            format!("Cancel job {job}? y or n"),
            paint
                .color(Some(Color::Yellow))
                .add_modifier(Modifier::BOLD),
        ),
        (Prompt::Filter(_), Some(error), _) => {
            (format!("/{}_  {error}", state.filter.text()), failure)
        }
        (Prompt::Filter(_), None, _) => (
            format!("/{}_  Enter: keep, Esc: cancel", state.filter.text()),
            Style::new(),
        ),
        _ if !state.message.text.is_empty() => {
            let style = if state.message.is_failure {
                failure
            } else {
                paint.color(Some(Color::Green))
            };
            (state.message.text.clone(), style)
        }
        (_, _, Some(why)) => (format!("Waiting for schedd: {why}"), failure),
        _ => (
            "q quit  / filter  w why  l log  h hold  r release  c cancel  s sort  a all  ? help"
                .to_string(),
            Style::new().add_modifier(Modifier::DIM),
        ),
    };
    paint::text(buffer, area, &text, style);
}

fn draw_help(area: Rect, buffer: &mut Buffer) {
    let width = 72.min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    let block = Block::bordered().title(" lanai top ");
    let inner = block.inner(place);
    block.render(place, buffer);
    for (y, (keys, meaning)) in (inner.y..inner.bottom()).zip(HELP) {
        let line = Rect {
            y,
            height: 1,
            ..inner
        };
        paint::text(buffer, line, &format!(" {keys:<20}{meaning}"), Style::new());
    }
}
