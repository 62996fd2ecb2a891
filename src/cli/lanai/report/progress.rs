//! The progress of reading accounting records, on a terminal and after a second only.

use crate::cli::client::exit::Failure;
use crate::cli::lanai::session::Session;
use crate::model::account::accounting::AccountingFilter;
use crate::model::time::Span;
use crate::sys::clock;
use crate::wire::message::Question;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// The time before the bar appears.
const DELAY: Span = Span::seconds(1);

/// A progress bar on standard error.
pub struct ReadingBar {
    bar: ProgressBar,
    started: Span,
    read: usize,
}

impl ReadingBar {
    /// A bar for the records that match a filter. It is invisible for the first second.
    pub fn new(session: &mut Session, filter: &AccountingFilter) -> Result<ReadingBar, Failure> {
        let mut records = 0;
        if stderr().is_terminal() {
            let question = Question::Accounts(Box::new(filter.clone()), Vec::new());
            let totals = session.ask(&question)?.tallies;
            records = totals
                .iter()
                .map(|total| total.sums.jobs.max(total.sums.attempts))
                .sum();
        }
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} records, {eta} left");
        let bar = ProgressBar::with_draw_target(
            u64::try_from(records).ok(),
            ProgressDrawTarget::hidden(),
        );
        Ok(ReadingBar {
            bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            started: clock::monotonic(),
            read: 0,
        })
    }

    /// Adds records that were read.
    pub fn add(&mut self, records: usize) {
        self.read += records;
        if self.bar.is_hidden() && clock::monotonic().0 - self.started.0 >= DELAY.0 {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(self.read as u64);
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
