//! What schedd's page says of a queue within a job, and its examples.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// What `--nested` makes.
pub(super) const NESTED: Extra = Extra {
    on: Programs(&["schedd"]),
    heading: "A QUEUE WITHIN A JOB",
    parts: &[
        Text(
            "Within a job, schedd --nested makes an installation of its own in the job's TMPDIR, whose noded offers the processors, \
             memory and GPUs that the job was given on this host, by number where it was given numbers, and no more. To the queue \
             outside all that is one job. Jobs within are submitted, seen and deleted with the same commands, \
             which find that queue by LANAI_HOME; one that asks for more than the outer job has is refused. Their ids end in the outer job's, as in 3.job12.head. Within them the \
             same can be done again.",
        ),
        Text(
            "With a COMMAND, that is run, with LANAI_HOME set; once it has ended and no job is left that waits or runs, schedd ends \
             with the command's exit status (128 and more: by that signal; 126 and 127: it could not be started). Jobs that are held then \
             end with it, and so do jobs that can never run: schedd says which and why, and ends with status 1 if the command \
             ended with 0. Without a COMMAND the first line on standard output says how commands on the same host find the queue (qsub -k od \
             has it at its place while the job runs), and schedd serves until nothing has waited, run or been asked for a minute, or as long as idle in its configuration says.",
        ),
        Text(
            "Jobs go first come, first served, and none passes another. --preset takes another scheduler's habits, --config a \
             lanai.toml. The user's own installation and its configuration have no part in it.",
        ),
        Text(
            "With --queue QUEUE, jobs of the same user that wait in that queue outside are moved into the nested queue, one at a time, \
             whenever no job waits there. The queue must say so (nested in lanai.toml(5), set queue QUEUE nested = True in \
             qmgr(8)); its jobs start nowhere else. A job that was moved is over outside, without an exit status, and qstat -xf there names its new id; \
             from then on it is a job of the nested queue and ends with it. Arrays, jobs with a label, interactive and blocking jobs, \
             jobs of a reservation and jobs that others depend on are not moved. No mail and no notification tells that a job was moved. \
             Once COMMAND has ended, or a signal has told schedd to end, no more jobs are moved. A schedd outside that was stopped is not started.",
        ),
        Text(
            "Everything ends with the outer job: qdel, its walltime or the end of its script end all processes of the jobs within, \
             and their records go with TMPDIR, which must be a folder of yours that nobody else may write to. Memory is the host's where the outer job has asked for none. Of a job on several hosts \
             only the first is used, the one that runs its script; resources of the site's own are not offered.",
        ),
        Term(
            "LANAI_GRANT",
            "In the environment of every job: what it has of its host, as JSON with ncpus, mem_kb (null where it is held to no memory), \
             cpus and gpus (numbers; empty where it is bound to none).",
        ),
        Example(
            "Twenty runs, eight at a time, as one job:",
            &["qsub -l select=1:ncpus=8 -V -- schedd --nested -- ./sweep.sh"],
        ),
        Example(
            "where sweep.sh is:",
            &[
                "#!/bin/sh",
                "for seed in $(seq 20); do qsub -V -l select=1:ncpus=1 -- ./run $seed; done",
            ],
        ),
    ],
};

/// What else is asked of schedd.
pub(super) const EXAMPLES: Extra = Extra {
    on: Programs(&["schedd"]),
    heading: "EXAMPLES",
    parts: &[
        Example(
            "What runs here, and where its files are:",
            &["schedd --status"],
        ),
        Example(
            "Leave; running jobs go on, and the next command starts schedd again:",
            &["schedd --stop"],
        ),
    ],
};
