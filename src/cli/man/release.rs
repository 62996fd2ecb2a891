//! What the pages of pbs_release_nodes and qterm say besides their options.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// What becomes of a job that has given nodes back.
pub(super) const RELEASE: Extra = Extra {
    on: Programs(&["pbs_release_nodes"]),
    heading: "WHAT IS GIVEN BACK",
    parts: &[
        Text(
            "Tasks that pbsdsh started on these nodes are ended (TERM, then KILL); where there are none, a node is free at \
              once, else when the last of them has ended. exec_host and exec_vnode tell what is left, Resource_List what \
              was asked for: should the job be run again, it gets all of it again. In PBS_NODEFILE the lines are gone, \
              and the others keep their numbers (PBS_VNODENUM). What a job has of the whole system, as licenses, it keeps.",
        ),
        Text(
            "The job's owner and operators may give nodes back, and the job itself: without -j it is the one that this is \
              called from. Nothing takes them to the job again.",
        ),
    ],
};

/// How pbs_release_nodes ends.
pub(super) const RELEASE_EXIT: Extra = Extra {
    on: Programs(&["pbs_release_nodes"]),
    heading: "EXIT STATUS",
    parts: &[
        Term("0", "They are given back."),
        Term("2", "The command line is wrong, or names no job."),
        Term("153", "There is no such job."),
        Term("159", "It is somebody else's."),
        Term(
            "162",
            "A node is not one of the job's, or is that of its script; or nobody answers.",
        ),
        Term("168", "The job does not run."),
        Term("181", "It is an array: name one of its subjobs."),
    ],
};

/// One for each way to choose.
pub(super) const RELEASE_EXAMPLES: Extra = Extra {
    on: Programs(&["pbs_release_nodes"]),
    heading: "EXAMPLES",
    parts: &[
        Example(
            "At the end of a job script, when only the first host has still to do something:",
            &["pbs_release_nodes -a", "tar czf results.tgz out"],
        ),
        Example(
            "Keep two hosts besides that of the script, whichever:",
            &["pbs_release_nodes -j 12 -k 2"],
        ),
        Example(
            "Keep what is needed for this:",
            &["pbs_release_nodes -j 12 -k select=4:ncpus=8"],
        ),
    ],
};

/// How qterm ends.
pub(super) const TERM_EXIT: Extra = Extra {
    on: Programs(&["qterm"]),
    heading: "EXIT STATUS",
    parts: &[
        Term(
            "0",
            "schedd has left; with -t delay: it will when nothing is waited for any more.",
        ),
        Term("1", "The command line is wrong."),
        Term("2", "The caller is no operator, or nobody answers."),
    ],
};
