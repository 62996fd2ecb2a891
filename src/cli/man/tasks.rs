//! What the page of pbsdsh says of tasks.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// What a task has, and how it ends.
pub(super) const TASKS: Extra = Extra {
    on: Programs(&["pbsdsh"]),
    heading: "TASKS",
    parts: &[
        Text(
            "Each program that pbsdsh starts is a task of the job. It reads from /dev/null; what it writes is added to \
              the job's own output and error files, which on a host that does not share them are files of the same \
              names there. It is bound to the processors and sees the GPUs of its place in the job. It finds in its \
              environment all that pbsdsh was given, and PBS_NODENUM (its host among the job's, counted from 0), \
              PBS_VNODENUM (its line of the node file, counted from 0), PBS_TASKNUM (the script is 1) and a \
              PBS_NODEFILE of its own. On the host of the script it shares the script's TMPDIR, elsewhere it has one \
              of its own, which is removed at its end.",
        ),
        Text(
            "Tasks end when the job's script ends, or the job is deleted: TERM, then KILL. What they use is added to \
              what the job uses. A task is started once and its end is told even if schedd or a noded is killed and \
              started anew meanwhile: pbsdsh waits for them.",
        ),
        Text(
            "pbsdsh finds the noded of its host by LANAI_TASKS, and shows by PBS_JOBID, LANAI_ATTEMPT, PBS_TASKNUM and \
              PBS_JOBCOOKIE that it belongs to the job: a script that clears its environment must keep these. A job \
              may have 4096 tasks at a time; arguments and environment may take 1 MiB.",
        ),
    ],
};

/// Those of the tasks, and its own.
pub(super) const EXIT: Extra = Extra {
    on: Programs(&["pbsdsh"]),
    heading: "EXIT STATUS",
    parts: &[
        Term(
            "0",
            "All tasks ended with 0, or were not waited for; also when -n names a line that is not there.",
        ),
        Term(
            "1",
            "pbsdsh was not called from within a job, or wrongly, or schedd refused to start tasks.",
        ),
        Term(
            "254",
            "The last task that failed could not be executed, or was lost with its node.",
        ),
        Term(
            "128+N",
            "The last task that failed was ended by signal N, or pbsdsh itself was, and ended its tasks.",
        ),
        Term(
            "N",
            "The exit status of the last task that failed, in the order of the node file.",
        ),
    ],
};

/// One for each way to choose.
pub(super) const EXAMPLES: Extra = Extra {
    on: Programs(&["pbsdsh"]),
    heading: "EXAMPLES",
    parts: &[
        Example(
            "In a job script: on every line of the node file, at once:",
            &["pbsdsh -- ./part --of 12"],
        ),
        Example(
            "Once for each host, when there are several lines for each:",
            &["for host in $(sort -u $PBS_NODEFILE); do pbsdsh -o -h $host -- ./serve; done"],
        ),
    ],
};
