//! What the page of tracejob says.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// Whether something was found.
pub(super) const EXIT: Extra = Extra {
    on: Programs(&["tracejob"]),
    heading: "EXIT STATUS",
    parts: &[
        Term("0", "Done."),
        Term("1", "The command line is wrong, or a job was not found."),
    ],
};

/// What each line is made of.
pub(super) const LINES: Extra = Extra {
    on: Programs(&["tracejob"]),
    heading: "LINES",
    parts: &[
        Text(
            "Each line has the local time, a letter for who knows of it, and what happened in words.",
        ),
        Term(
            "S",
            "The server: what was asked of it and by whom, and how the job ended.",
        ),
        Term(
            "L",
            "The scheduler: where it started the job, or why the job waits now.",
        ),
        Term(
            "M",
            "The node: start and end of each attempt, and what that used.",
        ),
        Term("A", "Accounting: what was asked for, given and used."),
        Text(
            "Everybody may ask about every job; the arguments with which it was submitted are told to its owner \
             and to operators alone. A job that has left the history has no story any more; \
             qacct -j has its figures.",
        ),
    ],
};

/// Of one job, and of days.
pub(super) const EXAMPLES: Extra = Extra {
    on: Programs(&["tracejob"]),
    heading: "EXAMPLES",
    parts: &[
        Example(
            "What happened to a job within the last week:",
            &["tracejob -n 7 17"],
        ),
        Example("Only what people did to it:", &["tracejob -alm 17"]),
    ],
};
