//! `[idle]`: what happens to running jobs that use no processor time.

use crate::config::Config;
use crate::config::key::{Table, key};
use crate::config::kinds::{A_SECOND_OR_MORE, BOOLEAN, FROM_0_TO_1, Optional};

/// `[idle]`.
pub static IDLE: Table<Config> = Table::new(
    "idle",
    &[
        &key("after", Optional(A_SECOND_OR_MORE), |c| &mut c.idle.after)
            .text("The time after which a running job that uses almost no processor time is idle.")
            .default("never")
            .example("\"2h\""),
        &key("cpu", FROM_0_TO_1, |c| &mut c.idle.cpu).text(
            "The use of processors below which a job is idle, as part of one processor, from 0 to \
             1.",
        ),
        &key("end_interactive", BOOLEAN, |c| &mut c.idle.end_interactive)
            .text("Whether schedd ends interactive jobs (qsub -I) that are idle."),
    ],
);
