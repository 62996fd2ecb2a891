//! The terminal: raw mode and the alternate screen, which are left at the end of the program, at an
//! error and at a panic.

use super::draw;
use super::state::TopState;
use crate::sys::terminal::Raw;
use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, BufWriter, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while the terminal displays the alternate screen.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// The alternate screen of the terminal in raw mode. Dropping the value restores the terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    raw: Option<Raw>,
}

impl Screen {
    /// Switches the terminal to raw mode and to the alternate screen.
    pub fn enter(area: Rect, has_color: bool) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        // In a release build, a panic does not drop values, so the panic hook restores the screen.
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave_alternate();
                next(panic);
            }));
        });
        // The option --color has precedence over the variable NO_COLOR, which crossterm reads.
        crossterm::style::force_color_output(has_color);
        let viewport = Viewport::Fixed(area);
        let backend = CrosstermBackend::new(BufWriter::new(stdout()));
        let mut screen = Screen {
            terminal: Terminal::with_options(backend, TerminalOptions { viewport })?,
            raw: None,
        };
        screen.renew(area)?;
        Ok(screen)
    }

    /// Switches to raw mode and to the alternate screen again, after another program has used the
    /// terminal.
    pub fn renew(&mut self, area: Rect) -> io::Result<()> {
        // The modes of the other program must be read after the old modes are restored.
        self.raw = None;
        self.raw = Some(Raw::enter()?);
        IS_ACTIVE.store(true, Ordering::Relaxed);
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        self.resize(area)
    }

    /// Clears the screen, which has this size now.
    pub fn resize(&mut self, area: Rect) -> io::Result<()> {
        self.terminal.resize(area)
    }

    /// Draws the parts of the screen that have changed.
    pub fn draw(&mut self, state: &TopState) -> io::Result<()> {
        self.terminal.draw(|frame| draw::draw(frame, state))?;
        Ok(())
    }

    /// Restores the terminal.
    pub fn leave(&mut self) {
        leave_alternate();
        self.raw = None;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Ignores errors, because the terminal can be closed.
fn leave_alternate() {
    if IS_ACTIVE.swap(false, Ordering::Relaxed) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}
