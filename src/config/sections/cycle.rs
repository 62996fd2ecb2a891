//! `[cycle]`: when the scheduler runs, and what it records.

use crate::config::Config;
use crate::config::key::{Table, computed, key};
use crate::config::kinds::{A_SECOND_OR_MORE, BOOLEAN, Scalar, scalar};
use crate::model::resource::Size;
use std::path::PathBuf;

const RECORD: Scalar<PathBuf> = scalar("the absolute path of a file, or \"\" for none", |path| {
    path.is_absolute() || path.as_os_str().is_empty()
});
const RECORD_SIZE: Scalar<Size> = scalar("a size, such as \"64mb\"", |_| true);

/// `[cycle]`.
pub static CYCLE: Table<Config> = Table::new(
    "cycle",
    &[
        &key("scheduling", BOOLEAN, |c| &mut c.cycle.scheduling)
            .pbs(&["scheduling"])
            .unset("True")
            .text("Whether scheduling cycles run; without them, only qrun starts jobs."),
        &key("poll_interval", A_SECOND_OR_MORE, |c| {
            &mut c.cycle.poll_interval
        })
        .pbs(&["scheduler_iteration"])
        .unset("600")
        .text("Without events, the longest time between two scheduling cycles, at least a second."),
        &key("default_walltime", A_SECOND_OR_MORE, |c| {
            &mut c.policy.default_walltime
        })
        .text("The walltime that the scheduler assumes for a job without one."),
        &computed(
            "record",
            RECORD,
            |c| Some(c.cycle.record.clone().unwrap_or_default()),
            |c, path| c.cycle.record = Some(path).filter(|path| path.is_absolute()),
        )
        .text("The absolute path of the file to which cycles are recorded, or \"\" for none."),
        &key("record_size", RECORD_SIZE, |c| &mut c.cycle.record_size)
            .text("The file size at which recording stops."),
    ],
);
