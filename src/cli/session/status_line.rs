//! A status line on a terminal for a command that waits.

use crate::sys::terminal::{self, TerminalSize};
use std::io::{IsTerminal, Write, stderr};

/// The delay in milliseconds before the status line is displayed. Most jobs start earlier.
pub const DELAY: u16 = 250;

/// A line on standard error that shows the current status and is overwritten by the next status.
/// Not displayed if standard error is not a terminal.
pub struct StatusLine {
    is_terminal: bool,
    text: String,
    is_shown: bool,
    /// True if the text is displayed after [`DELAY`], unless the job changes before.
    pub is_due: bool,
}

impl Default for StatusLine {
    fn default() -> StatusLine {
        StatusLine::new()
    }
}

impl StatusLine {
    /// A line that shows nothing yet.
    pub fn new() -> StatusLine {
        StatusLine {
            is_terminal: stderr().is_terminal(),
            text: String::new(),
            is_shown: false,
            is_due: false,
        }
    }

    /// Sets the text; if no text is displayed yet, the caller displays it after [`DELAY`].
    pub fn show_soon(&mut self, text: &str) {
        if self.is_shown {
            return self.show(text);
        }
        self.text = text.to_string();
        self.is_due = self.is_terminal;
    }

    /// Displays this text.
    pub fn show(&mut self, text: &str) {
        if self.is_terminal && !(self.is_shown && text == self.text) {
            self.text = text.to_string();
            self.show_again();
        }
    }

    /// Displays the text again, for example after the terminal's size has changed.
    pub fn show_again(&mut self) {
        self.is_due = false;
        if !self.is_terminal || self.text.is_empty() {
            return;
        }
        let width = terminal::window(stderr())
            .unwrap_or(TerminalSize::USUAL)
            .columns;
        let fits: String = self
            .text
            .chars()
            .filter(|c| !c.is_control())
            .take(usize::from(width) - 1)
            .collect();
        let _ = write!(stderr(), "\r\x1b[K{fits}");
        self.is_shown = true;
    }

    /// Removes the text from the terminal.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
