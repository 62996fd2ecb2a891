//! Draws the details of the selected job: facts, why it waits, or the end of its output.

use super::paint::{self, Paint};
use super::state::{DetailsContent, JobText, Pane, TopState};
use crate::cli::lanai::show;
use crate::model::job_id::JobId;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The number of lines.
pub fn height(state: &TopState) -> usize {
    let width = state.layout().details.map_or(80, |area| area.width);
    lines(state, usize::from(width).saturating_sub(2)).len()
}

/// Draws the details within their border.
pub fn draw(state: &TopState, area: Rect, buffer: &mut Buffer) {
    let paint = Paint::new(state);
    let title = match (state.details, state.selected) {
        (_, None) => String::new(),
        (DetailsContent::Facts, Some(job)) => format!("job {job}"),
        (DetailsContent::Log, Some(job)) => format!("output of job {job}, Esc to leave"),
    };
    let area = paint.frame(Pane::Details, &title, area, buffer);
    let lines = lines(state, usize::from(area.width));
    let most = lines.len().saturating_sub(usize::from(area.height));
    let offset = state.offsets[Pane::Details as usize].min(most);
    for (y, line) in (area.y..area.bottom()).zip(&lines[offset..]) {
        let place = Rect {
            y,
            height: 1,
            ..area
        };
        paint::text(buffer, place, line, Style::new());
    }
}

/// The lines of the text, each at most `width` characters long.
fn lines(state: &TopState, width: usize) -> Vec<String> {
    let text = match (state.selected_job(), state.details) {
        (None, _) => "No job is selected.".to_string(),
        (Some(job), DetailsContent::Log) => {
            let reading = "Reading the output ...";
            shown(&state.log, job.record.job.id, reading).unwrap_or_default()
        }
        (Some(job), DetailsContent::Facts) => {
            let facts = show::text(&job);
            let reading = "Asking the scheduler ...";
            match shown(&state.explanation, job.record.job.id, reading) {
                Some(text) if job.status().is_pending() => format!("{facts}\n{text}"),
                None if job.status().is_pending() => {
                    format!("{facts}\nPress w to see why the job waits.")
                }
                _ => facts,
            }
        }
    };
    text.lines()
        .flat_map(|line| wrap(&line.replace('\t', "    "), width.max(1)))
        .collect()
}

/// The text about this job; `reading` before it is known. None if it was not requested.
fn shown(text: &Option<JobText>, job: JobId, reading: &str) -> Option<String> {
    let text = text.as_ref().filter(|text| text.job == job)?;
    Some(text.text.clone().unwrap_or_else(|| reading.to_string()))
}

/// Breaks a line at blanks. Further lines get the indentation of the first one.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let indentation: String = line.chars().take_while(|c| *c == ' ').collect();
    let indentation = if indentation.len() * 2 < width {
        indentation
    } else {
        String::new()
    };
    let mut rest: Vec<char> = line.chars().collect();
    let mut lines = Vec::new();
    while rest.len() > width {
        let blank = (indentation.len() + 1..=width)
            .rev()
            .find(|&at| rest[at] == ' ');
        let end = blank.unwrap_or(width);
        lines.push(rest[..end].iter().collect());
        let next = rest.split_off(end);
        rest = indentation
            .chars()
            .chain(next.into_iter().skip_while(|c| *c == ' '))
            .collect();
    }
    lines.push(rest.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_blanks() {
        assert_eq!(wrap("short", 10), ["short"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("      ab", 4), ["    ", "ab"]);
    }
}
