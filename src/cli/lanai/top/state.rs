//! What `lanai top` displays: the jobs and nodes of the last refresh, the selection, the filter and
//! the panes. No I/O; the current time comes with the data.

use super::layout::PaneLayout;
use super::live_filter::LiveFilter;
use super::tasks::{JobAction, TaskResult};
use crate::cli::lanai::filter::FilterContext;
use crate::cli::lanai::job_view::JobView;
use crate::cli::lanai::status::JobStatus;
use crate::model::job_id::JobId;
use crate::model::report::outlook::JobForecast;
use crate::model::time::{Span, Time, Wall};
use crate::wire::message::{JobRecord, NodeRecord, ServerFacts};
use chrono::{DateTime, Local};
use ratatui::layout::Rect;
use std::cmp::Reverse;

/// The jobs and nodes at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The server, with its current time.
    pub server: ServerFacts,
    /// Unfinished jobs, and jobs that finished recently.
    pub jobs: Vec<JobRecord>,
    /// The running subjobs of arrays, for the timeline.
    pub subjobs: Vec<JobRecord>,
    /// All nodes.
    pub nodes: Vec<NodeRecord>,
}

/// A part of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The jobs.
    #[default]
    Queue,
    /// The nodes.
    Nodes,
    /// The selected job.
    Details,
    /// Past and planned runs by node.
    Timeline,
}

impl Pane {
    /// All panes in the order of their numbers.
    pub const ALL: [Pane; 4] = [Pane::Queue, Pane::Nodes, Pane::Details, Pane::Timeline];

    /// The heading of the pane.
    pub fn title(self) -> &'static str {
        match self {
            Pane::Queue => "Queue",
            Pane::Nodes => "Nodes",
            Pane::Details => "Details",
            Pane::Timeline => "Timeline",
        }
    }
}

/// The column by which jobs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Running jobs, then waiting jobs, then finished jobs.
    #[default]
    Progress,
    /// The id.
    Id,
    /// The name.
    Name,
    /// The owner.
    User,
    /// The requested processors, largest first.
    Cpus,
    /// The time since the start, longest first.
    Elapsed,
}

impl SortKey {
    /// The key that follows in the cycle of the `s` key.
    pub fn next(self) -> SortKey {
        match self {
            SortKey::Progress => SortKey::Id,
            SortKey::Id => SortKey::Name,
            SortKey::Name => SortKey::User,
            SortKey::User => SortKey::Cpus,
            SortKey::Cpus => SortKey::Elapsed,
            SortKey::Elapsed => SortKey::Progress,
        }
    }

    /// The heading of the column.
    pub fn heading(self) -> &'static str {
        match self {
            SortKey::Progress => "STATE",
            SortKey::Id => "ID",
            SortKey::Name => "NAME",
            SortKey::User => "USER",
            SortKey::Cpus => "CPUS",
            SortKey::Elapsed => "ELAPSED",
        }
    }
}

/// What the next key answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// Keys are commands.
    #[default]
    Commands,
    /// Keys change the filter; contains the text before the change.
    Filter(String),
    /// `y` cancels this job.
    Cancel(JobId),
    /// The help is displayed until the next key.
    Help,
}

/// A text about one job, which a background task produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobText {
    /// The job.
    pub job: JobId,
    /// The text; None until the task has finished.
    pub text: Option<String>,
}

/// What the details pane displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetailsContent {
    /// Facts about the selected job, and why it waits.
    #[default]
    Facts,
    /// The end of the output of the job.
    Log,
}

/// A message in the status line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The text; empty for no message.
    pub text: String,
    /// True for a failure.
    pub is_failure: bool,
}

/// The state of the display.
#[derive(Clone, Debug)]
pub struct TopState {
    /// The caller's user name.
    pub user: String,
    /// True if the jobs of all users are displayed.
    pub shows_all: bool,
    /// True if the terminal displays colors.
    pub has_color: bool,
    /// The size of the screen.
    pub area: Rect,
    /// The data of the last refresh; None before the first one.
    pub snapshot: Option<Snapshot>,
    /// Positions of the matching jobs in the snapshot, in the order of display.
    pub rows: Vec<usize>,
    /// The selected job.
    pub selected: Option<JobId>,
    /// The first displayed row of the queue, of the nodes, of the details and of the timeline.
    pub offsets: [usize; 4],
    /// The pane that handles the arrow keys.
    pub focus: Pane,
    /// The filter of the queue.
    pub filter: LiveFilter,
    /// The column by which the queue is sorted.
    pub sort: SortKey,
    /// True if the order is reversed.
    pub is_reversed: bool,
    /// What the next key answers.
    pub prompt: Prompt,
    /// The message in the status line.
    pub message: Message,
    /// Why there are no current data; None if schedd responds.
    pub offline: Option<String>,
    /// What the details pane displays.
    pub details: DetailsContent,
    /// Why the selected job waits.
    pub explanation: Option<JobText>,
    /// The end of the output of a job.
    pub log: Option<JobText>,
    /// The predicted starts of waiting jobs.
    pub starts: Vec<JobForecast>,
    /// The length of the displayed part of the timeline.
    pub zoom: usize,
}

impl TopState {
    /// The state before the first refresh.
    pub fn new(user: &str, has_color: bool, area: Rect) -> TopState {
        TopState {
            user: user.to_string(),
            shows_all: false,
            has_color,
            area,
            snapshot: None,
            rows: Vec::new(),
            selected: None,
            offsets: [0; 4],
            focus: Pane::Queue,
            filter: LiveFilter::default(),
            sort: SortKey::default(),
            is_reversed: false,
            prompt: Prompt::default(),
            message: Message::default(),
            offline: None,
            details: DetailsContent::default(),
            explanation: None,
            log: None,
            starts: Vec::new(),
            zoom: super::timeline::DEFAULT_ZOOM,
        }
    }

    /// The panes on the screen.
    pub fn layout(&self) -> PaneLayout {
        PaneLayout::new(self.area, self.focus)
    }

    /// Replaces the data.
    pub fn refresh(&mut self, snapshot: Snapshot) {
        // The rows refer to the old data.
        let row_before = self.selected_row();
        self.snapshot = Some(snapshot);
        self.offline = None;
        self.arrange_from(row_before);
    }

    /// Sets the server's current time, from which elapsed times are computed.
    pub fn set_time(&mut self, now: Time) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.server.now = now;
        }
    }

    /// The jobs in the order of display.
    pub fn jobs(&self) -> impl Iterator<Item = JobView<'_>> {
        let snapshot = self.snapshot.as_ref();
        self.rows
            .iter()
            .filter_map(move |&row| snapshot.and_then(|snapshot| snapshot.view(row)))
    }

    /// The selected job.
    pub fn selected_job(&self) -> Option<JobView<'_>> {
        self.jobs()
            .find(|job| Some(job.record.job.id) == self.selected)
    }

    /// The row of the selected job.
    pub fn selected_row(&self) -> Option<usize> {
        self.jobs()
            .position(|job| Some(job.record.job.id) == self.selected)
    }

    /// What filters need to know about the caller.
    fn filter_context(&self) -> FilterContext {
        let now = self
            .snapshot
            .as_ref()
            .map_or(Wall(0), |snapshot| snapshot.now());
        let utc = DateTime::from_timestamp(now.0, 0).unwrap_or_default();
        FilterContext {
            now: utc.with_timezone(&Local),
            user: self.user.clone(),
        }
    }

    /// Changes the filter.
    pub fn set_filter(&mut self, text: &str) {
        self.filter = LiveFilter::parse(text, &self.filter, &self.filter_context());
        self.arrange();
    }

    /// Determines the matching jobs and their order. The selection stays on its job; if the job is
    /// no longer displayed, the selection stays in its row.
    pub fn arrange(&mut self) {
        self.arrange_from(self.selected_row());
    }

    /// Arranges the rows. If the selected job is no longer displayed, selects the job in its row.
    fn arrange_from(&mut self, row_before: Option<usize>) {
        let Some(snapshot) = &self.snapshot else {
            return;
        };
        let mut rows: Vec<(usize, JobView)> = (0..snapshot.jobs.len())
            .filter_map(|row| Some((row, snapshot.view(row)?)))
            .filter(|(_, job)| self.filter.matches(job))
            .collect();
        sort(&mut rows, self.sort);
        if self.is_reversed {
            rows.reverse();
        }
        self.rows = rows.into_iter().map(|(row, _)| row).collect();
        if self.selected_row().is_none() {
            self.select(row_before.unwrap_or(0));
        }
        self.scroll_to_selection();
    }

    /// Selects the job in this row, or in the last row.
    pub fn select(&mut self, row: usize) {
        let row = row.min(self.rows.len().saturating_sub(1));
        let job = self.jobs().nth(row).map(|job| job.record.job.id);
        if job != self.selected {
            self.selected = job;
            self.details = DetailsContent::Facts;
            self.offsets[Pane::Details as usize] = 0;
        }
        self.scroll_to_selection();
    }

    /// Scrolls the queue so that the selected job is visible.
    pub fn scroll_to_selection(&mut self) {
        let height = self.layout().queue_rows().max(1);
        let row = self.selected_row().unwrap_or(0);
        let most = self.rows.len().saturating_sub(height);
        let offset = &mut self.offsets[Pane::Queue as usize];
        *offset = (*offset)
            .clamp((row + 1).saturating_sub(height), row)
            .min(most);
    }

    /// Adopts the result of a background task.
    pub fn finish(&mut self, result: TaskResult) {
        match result {
            TaskResult::Explained(job, text) => {
                if self.explanation.as_ref().is_some_and(|of| of.job == job) {
                    let text = Some(text);
                    self.explanation = Some(JobText { job, text });
                }
            }
            TaskResult::Log(job, text) => {
                if self.log.as_ref().is_some_and(|of| of.job == job) {
                    let text = Some(text);
                    self.log = Some(JobText { job, text });
                    // The end of the log is displayed first.
                    self.offsets[Pane::Details as usize] = usize::MAX;
                }
            }
            TaskResult::Acted(action, job, outcome) => {
                self.message = match outcome {
                    Ok(()) => Message {
                        text: done(action, job),
                        is_failure: false,
                    },
                    Err(text) => Message {
                        text,
                        is_failure: true,
                    },
                };
            }
            TaskResult::Starts(starts) => self.starts = starts,
        }
    }

    /// Tests whether the display changes with the time: it contains running jobs.
    pub fn shows_time(&self) -> bool {
        let layout = self.layout();
        if layout.timeline.is_some() && self.snapshot.is_some() {
            return true;
        }
        let is_active =
            |job: &JobView| matches!(job.status(), JobStatus::Running | JobStatus::Suspended);
        let queue = layout.queue.is_some()
            && self
                .jobs()
                .skip(self.offsets[Pane::Queue as usize])
                .take(layout.queue_rows())
                .any(|job| is_active(&job));
        let details =
            layout.details.is_some() && self.selected_job().as_ref().is_some_and(is_active);
        queue || details
    }

    /// Tests whether the display needs predicted starts.
    pub fn needs_starts(&self) -> bool {
        let is_pending = |snapshot: &Snapshot| {
            (0..snapshot.jobs.len())
                .filter_map(|row| snapshot.view(row))
                .any(|job| job.status() == JobStatus::Queued)
        };
        self.layout().timeline.is_some() && self.snapshot.as_ref().is_some_and(is_pending)
    }
}

impl Snapshot {
    /// The current time.
    pub fn now(&self) -> Wall {
        self.server.clock.wall(self.server.now)
    }

    /// The running subjobs.
    pub fn subjobs(&self) -> impl Iterator<Item = JobView<'_>> {
        self.subjobs.iter().map(|record| JobView {
            record,
            server: &self.server,
            now: self.now(),
        })
    }

    /// A job with the facts for its display.
    pub fn view(&self, row: usize) -> Option<JobView<'_>> {
        Some(JobView {
            record: self.jobs.get(row)?,
            server: &self.server,
            now: self.now(),
        })
    }
}

fn done(action: JobAction, job: JobId) -> String {
    match action {
        JobAction::Hold => format!("Job {job} is held"),
        JobAction::Release => format!("Job {job} is released"),
        JobAction::Cancel => format!("Job {job} is being canceled"),
    }
}

/// Active jobs, then waiting jobs, then finished jobs.
fn progress(status: JobStatus) -> u8 {
    match status {
        JobStatus::Running | JobStatus::Suspended => 0,
        JobStatus::Queued => 1,
        JobStatus::Waiting | JobStatus::Held => 2,
        JobStatus::Done | JobStatus::Failed | JobStatus::Deleted => 3,
    }
}

/// Sorts by a column, then by id. The latest of the finished jobs is the first one of them.
fn sort(rows: &mut [(usize, JobView)], key: SortKey) {
    let id = |job: &JobView| job.record.job.id;
    match key {
        SortKey::Progress => rows.sort_by_key(|(_, job)| {
            let end = job.ended().unwrap_or(Wall(0));
            (progress(job.status()), Reverse(end), id(job))
        }),
        SortKey::Id => rows.sort_by_key(|(_, job)| id(job)),
        SortKey::Name => rows.sort_by(|(_, a), (_, b)| {
            let name = |job: &JobView| job.record.job.spec.name.as_str().to_owned();
            name(a).cmp(&name(b)).then(id(a).cmp(&id(b)))
        }),
        SortKey::User => rows.sort_by(|(_, a), (_, b)| {
            let user = |job: &JobView| job.record.job.owner.user.clone();
            user(a).cmp(&user(b)).then(id(a).cmp(&id(b)))
        }),
        SortKey::Cpus => rows.sort_by_key(|(_, job)| (Reverse(job.processors()), id(job))),
        SortKey::Elapsed => {
            rows.sort_by_key(|(_, job)| (Reverse(job.elapsed().map(Span::as_seconds)), id(job)));
        }
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
