//! The areas of the panes: one pane on a small screen, all panes on a large one.

use super::state::Pane;
use ratatui::layout::{Constraint, Layout, Rect};

/// The size from which all panes are displayed at once.
const LARGE: (u16, u16) = (140, 36);

/// The areas on the screen. A pane that is not displayed has no area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneLayout {
    /// The line at the top.
    pub head: Rect,
    /// The status line at the bottom.
    pub status: Rect,
    /// The queue.
    pub queue: Option<Rect>,
    /// The nodes.
    pub nodes: Option<Rect>,
    /// The selected job.
    pub details: Option<Rect>,
    /// The timeline.
    pub timeline: Option<Rect>,
}

impl PaneLayout {
    /// The layout of a screen. On a small screen, only the pane `focus` is displayed.
    pub fn new(area: Rect, focus: Pane) -> PaneLayout {
        let lines = [
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [head, main, status] = Layout::vertical(lines).areas(area);
        let shown = |pane| (focus == pane).then_some(main);
        let small = PaneLayout {
            head,
            status,
            queue: shown(Pane::Queue),
            nodes: shown(Pane::Nodes),
            details: shown(Pane::Details),
            timeline: shown(Pane::Timeline),
        };
        if area.width < LARGE.0 || area.height < LARGE.1 {
            return small;
        }
        let halves = [Constraint::Percentage(58), Constraint::Percentage(42)];
        let [upper, lower] = Layout::vertical(halves).areas(main);
        let [queue, details] = Layout::horizontal(halves).areas(upper);
        let [timeline, nodes] = Layout::horizontal(halves).areas(lower);
        PaneLayout {
            head,
            status,
            queue: Some(queue),
            nodes: Some(nodes),
            details: Some(details),
            timeline: Some(timeline),
        }
    }

    /// The number of jobs that fit into the queue: all lines but the border and the headings.
    pub fn queue_rows(&self) -> usize {
        rows(self.queue.unwrap_or_default()).saturating_sub(1)
    }

    /// The number of lines within the border of a pane.
    pub fn lines(&self, pane: Pane) -> usize {
        let area = match pane {
            Pane::Queue => self.queue,
            Pane::Nodes => self.nodes,
            Pane::Details => self.details,
            Pane::Timeline => self.timeline,
        };
        rows(area.unwrap_or_default())
    }
}

fn rows(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_screen_shows_one_pane_and_a_large_screen_all() {
        let small = PaneLayout::new(Rect::new(0, 0, 80, 24), Pane::Nodes);
        assert_eq!(small.nodes, Some(Rect::new(0, 1, 80, 22)));
        assert_eq!(
            (small.queue, small.details, small.timeline),
            (None, None, None)
        );
        let large = PaneLayout::new(Rect::new(0, 0, 200, 60), Pane::Queue);
        assert_eq!(large.queue.unwrap().width, 116);
        assert_eq!(large.queue_rows(), 31);
        assert!(large.nodes.is_some() && large.details.is_some() && large.timeline.is_some());
        // No size is too small to be computed.
        PaneLayout::new(Rect::new(0, 0, 1, 1), Pane::Queue);
    }
}
