//! Colors, borders and texts of the panes.

use super::state::{Pane, TopState};
use crate::cli::lanai::status::JobStatus;
use crate::cli::lanai::table::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Widget};

/// The style of the panes.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    has_color: bool,
    focus: Pane,
}

impl Paint {
    /// The style for this state.
    pub fn new(state: &TopState) -> Paint {
        Paint {
            has_color: state.has_color,
            focus: state.focus,
        }
    }

    /// The style with this color, if the terminal displays colors.
    pub fn color(&self, color: Option<Color>) -> Style {
        match color {
            Some(color) if self.has_color => Style::new().fg(color),
            _ => Style::new(),
        }
    }

    /// Draws the border of a pane with the pane's number and title, and `more` at the right.
    /// Returns the area within the border.
    pub fn frame(&self, pane: Pane, more: &str, area: Rect, buffer: &mut Buffer) -> Rect {
        let style = if self.focus == pane {
            self.color(Some(Color::Cyan)).add_modifier(Modifier::BOLD)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        };
        let title = format!(" {} {} ", pane as usize + 1, pane.title());
        let room = usize::from(area.width).saturating_sub(title.chars().count() + 5);
        let mut block = Block::bordered().border_style(style).title(title);
        if !more.is_empty() && room > 8 {
            let more = cut(&printable(more), room);
            block = block.title(Line::from(format!(" {more} ")).right_aligned());
        }
        let inner = block.inner(area);
        block.render(area, buffer);
        inner
    }
}

/// The color of a state of jobs.
pub fn status_color(status: JobStatus) -> Option<Color> {
    status.color().and_then(terminal_color)
}

/// The same color in the terms of ratatui.
pub fn terminal_color(color: comfy_table::Color) -> Option<Color> {
    Some(match color {
        comfy_table::Color::Green | comfy_table::Color::DarkGreen => Color::Green,
        comfy_table::Color::Yellow => Color::Yellow,
        comfy_table::Color::Red => Color::Red,
        comfy_table::Color::Magenta => Color::Magenta,
        comfy_table::Color::DarkGrey => Color::DarkGray,
        _ => return None,
    })
}

/// Writes a text into the first line of `area`, without control characters. A text that does not
/// fit is cut.
pub fn text(buffer: &mut Buffer, area: Rect, text: &str, style: Style) {
    let text = cut(&printable(text), usize::from(area.width));
    let width = usize::from(area.width);
    buffer.set_stringn(area.x, area.y, text, width, style);
}

/// Like [`text`], at the right of `area`.
pub fn right_text(buffer: &mut Buffer, area: Rect, content: &str, style: Style) {
    let blanks = usize::from(area.width).saturating_sub(content.chars().count());
    let area = Rect {
        x: area.x + blanks as u16,
        width: area.width - blanks as u16,
        ..area
    };
    text(buffer, area, content, style);
}

/// The text, cut to `width` characters. An ellipsis marks a cut text.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}
