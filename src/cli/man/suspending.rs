//! What the page of qsig says of what is no signal.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Term, Text};

/// Standing still, and going on.
pub(super) const SUSPENSION: Extra = Extra {
    on: Programs(&["qsig"]),
    heading: "SUSPENSION",
    parts: &[
        Text(
            "With these words for a signal, which are for operators, a running job stands still and goes on (state S). \
             All its processes on all its nodes are stopped where they are; it keeps its memory and what else it has, \
             but gives up its processors, or what [preemption] releases in lanai.toml(5) says. The time that it stands \
             still is none of its walltime, no other limit comes nearer, and it is charged nothing. Of an array it \
             concerns the subjobs that run.",
        ),
        Term("suspend", "Stand still until it is resumed (substate 43)."),
        Term(
            "resume",
            "Go on as soon as there is room on its nodes (substate 45): in its turn, before jobs that wait and are worth \
             no more than it was when it started. What is free of that is kept for it meanwhile.",
        ),
        Term(
            "admin-suspend",
            "Stand still and keep everything; its nodes take no other jobs (state maintenance) until the last such job \
             goes on or is over.",
        ),
        Term("admin-resume", "Go on after admin-suspend, at once."),
        Text(
            "A signal that is sent to a suspended job reaches it when it goes on, KILL at once, and CONT does not wake it. \
             It can be deleted and put back into its queue (qdel, qrerun) like any running job.",
        ),
    ],
};
