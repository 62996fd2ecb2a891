//! The effect of keys.

use super::keys::Key;
use super::state::{DetailsContent, JobText, Message, Pane, Prompt, TopState};
use super::tasks::{JobAction, Task};
use super::timeline::ZOOMS;
use crate::model::job_id::JobId;

/// What the program must do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Quit.
    Quit,
    /// Stop until the user continues the program.
    Suspend,
    /// Display the jobs of all users, or only the caller's.
    ChangeScope,
    /// Execute a task in the background.
    Start(Task),
}

impl TopState {
    /// Handles a key.
    pub fn press(&mut self, key: Key) -> Option<Command> {
        match key {
            Key::Control('c') => return Some(Command::Quit),
            Key::Control('z') => return Some(Command::Suspend),
            _ => {}
        }
        self.message = Message::default();
        match self.prompt.clone() {
            Prompt::Commands => self.command(key),
            Prompt::Filter(before) => {
                self.edit_filter(key, &before);
                None
            }
            Prompt::Cancel(job) => {
                self.prompt = Prompt::Commands;
                let is_yes = matches!(key, Key::Char('y' | 'Y'));
                is_yes.then_some(Command::Start(Task::Act(JobAction::Cancel, job)))
            }
            Prompt::Help => {
                self.prompt = Prompt::Commands;
                None
            }
        }
    }

    fn edit_filter(&mut self, key: Key, before: &str) {
        let mut text = self.filter.text().to_string();
        match key {
            Key::Char(c) => text.push(c),
            Key::Backspace => drop(text.pop()),
            Key::Control('u') => text.clear(),
            Key::Enter => {
                self.prompt = Prompt::Commands;
                return;
            }
            Key::Escape => {
                self.prompt = Prompt::Commands;
                text = before.to_string();
            }
            Key::Up | Key::Down | Key::PageUp | Key::PageDown => return self.scroll(key),
            _ => return,
        }
        self.set_filter(&text);
    }

    fn command(&mut self, key: Key) -> Option<Command> {
        match key {
            Key::Char('q') => return Some(Command::Quit),
            Key::Char('a') => {
                self.shows_all = !self.shows_all;
                return Some(Command::ChangeScope);
            }
            Key::Char('?') => self.prompt = Prompt::Help,
            Key::Char('/') => self.prompt = Prompt::Filter(self.filter.text().to_string()),
            Key::Escape => self.go_back(),
            Key::Char('s') => {
                self.sort = self.sort.next();
                self.arrange();
            }
            Key::Char('S') => {
                self.is_reversed = !self.is_reversed;
                self.arrange();
            }
            Key::Char('+') => self.zoom = self.zoom.saturating_sub(1),
            Key::Char('-') => self.zoom = (self.zoom + 1).min(ZOOMS.len() - 1),
            Key::Char(digit @ '1'..='4') => self.focus = Pane::ALL[digit as usize - '1' as usize],
            Key::Tab => self.focus = self.other_pane(1),
            Key::BackTab => self.focus = self.other_pane(3),
            Key::Enter | Key::Char('w') => return self.on_selected(Self::explain),
            Key::Char('l') => return self.on_selected(Self::log),
            Key::Char('h') => return self.on_selected(|_, job| act(JobAction::Hold, job)),
            Key::Char('r') => return self.on_selected(|_, job| act(JobAction::Release, job)),
            Key::Char('c') => {
                return self.on_selected(|state, job| {
                    state.prompt = Prompt::Cancel(job);
                    None
                });
            }
            key => self.scroll(key),
        }
        None
    }

    /// Leaves the log, then removes the filter, then returns to the queue.
    fn go_back(&mut self) {
        if self.details == DetailsContent::Log {
            self.details = DetailsContent::Facts;
            self.offsets[Pane::Details as usize] = 0;
        } else if self.focus != Pane::Queue {
            self.focus = Pane::Queue;
        } else if !self.filter.text().is_empty() {
            self.set_filter("");
        }
    }

    fn other_pane(&self, steps: usize) -> Pane {
        Pane::ALL[(self.focus as usize + steps) % Pane::ALL.len()]
    }

    fn on_selected(
        &mut self,
        effect: impl FnOnce(&mut TopState, JobId) -> Option<Command>,
    ) -> Option<Command> {
        match self.selected {
            Some(job) => effect(self, job),
            None => {
                self.message = Message {
                    text: "No job is selected".to_string(),
                    is_failure: true,
                };
                None
            }
        }
    }

    /// Displays the details of the job. A waiting job is explained.
    fn explain(&mut self, job: JobId) -> Option<Command> {
        self.focus = Pane::Details;
        self.details = DetailsContent::Facts;
        self.offsets[Pane::Details as usize] = 0;
        let is_pending = self
            .selected_job()
            .is_some_and(|view| view.status().is_pending());
        if !is_pending {
            return None;
        }
        self.explanation = Some(JobText { job, text: None });
        Some(Command::Start(Task::Explain(job)))
    }

    fn log(&mut self, job: JobId) -> Option<Command> {
        self.focus = Pane::Details;
        self.details = DetailsContent::Log;
        self.log = Some(JobText { job, text: None });
        Some(Command::Start(Task::Log(job)))
    }

    /// Moves the selection in the queue, or scrolls another pane.
    fn scroll(&mut self, key: Key) {
        let pane = self.focus;
        let page = match pane {
            Pane::Queue => self.layout().queue_rows(),
            _ => self.layout().lines(pane),
        }
        .max(1);
        let at = match pane {
            Pane::Queue => self.selected_row().unwrap_or(0),
            _ => self.offsets[pane as usize].min(self.most_lines(pane)),
        };
        let to = match key {
            Key::Down | Key::Char('j') => at.saturating_add(1),
            Key::Up | Key::Char('k') => at.saturating_sub(1),
            Key::PageDown => at.saturating_add(page),
            Key::PageUp => at.saturating_sub(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => return,
        };
        match pane {
            Pane::Queue => self.select(to),
            _ => self.offsets[pane as usize] = to.min(self.most_lines(pane)),
        }
    }

    /// The largest sensible offset of a pane.
    fn most_lines(&self, pane: Pane) -> usize {
        let lines = match pane {
            Pane::Queue => self.rows.len(),
            Pane::Nodes => 1 + self.snapshot.as_ref().map_or(0, |data| data.nodes.len()),
            Pane::Details => super::details_pane::height(self),
            Pane::Timeline => super::timeline_pane::height(self),
        };
        lines.saturating_sub(self.layout().lines(pane))
    }
}

fn act(action: JobAction, job: JobId) -> Option<Command> {
    Some(Command::Start(Task::Act(action, job)))
}
