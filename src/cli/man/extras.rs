//! What manual pages say beyond the options: exit status, environment, files, examples.

/// A section beyond the options.
pub(super) struct Extra {
    /// Whose pages have it.
    pub(super) on: On,
    /// In capitals.
    pub(super) heading: &'static str,
    /// From top to bottom.
    pub(super) parts: &'static [Part],
}

/// Whose pages have a section.
pub(super) enum On {
    /// All.
    All,
    /// All of a section of the manual.
    Section(u8),
    /// These programs'.
    Programs(&'static [&'static str]),
}

/// A part of a section.
pub(super) enum Part {
    /// A paragraph.
    Text(&'static str),
    /// A term and what it means.
    Term(&'static str, &'static str),
    /// What an example does, and its lines.
    Example(&'static str, &'static [&'static str]),
}

use On::{All, Programs, Section};
use Part::{Example, Term, Text};

/// Commands that act on a job and answer with PBS's codes.
const ACTORS: &[&str] = &["qsub", "qalter", "qdel", "qhold", "qrls", "qrerun", "qsig"];

/// In the order in which they stand on a page.
pub(super) const EXTRAS: &[Extra] = &[
    Extra {
        on: Programs(&["qsub"]),
        heading: "DIRECTIVES",
        parts: &[
            Text(
                "A directive is a line that begins with #PBS (or what -C says) and goes on as a command line does, with \
                  one option or several. Reading ends at the first line that is neither blank nor a comment: what \
                  looks like a directive below it is a comment.",
            ),
            Example(
                "A script that says what it needs:",
                &[
                    "#!/bin/bash",
                    "#PBS -N wave -j oe",
                    "#PBS -l select=1:ncpus=4:mem=8gb -l walltime=2:00:00",
                    "./wave --threads $OMP_NUM_THREADS",
                ],
            ),
        ],
    },
    Extra {
        on: Programs(&["qsub"]),
        heading: "ARRAYS",
        parts: &[
            Text(
                "With -J X-Y:Z%M one submission is many jobs, one for each index from X to Y, or each Z-th of them. The \
                  array is 12[], its subjobs are 12[1], 12[2] and so on; where a command takes subjobs it takes \
                  ranges too, as 12[1-9:2] (in quotes, for the shell). At most M run at once; qalter -W \
                  max_run_subjobs=M changes that. Each finds its index in PBS_ARRAY_INDEX, and writes to \
                  NAME.o12.INDEX and NAME.e12.INDEX; in the paths of -o and -e, ^array_index^ stands for it.",
            ),
            Text(
                "The array is over when all of it is: with exit status 0 if all its subjobs ended so, else 1. -W retry=N \
                  runs a subjob that fails again, up to N times, after -W retry_delay=HH:MM:SS; qrerun --failed runs \
                  all that have failed once more, also when the array is over.",
            ),
            Example(
                "A thousand runs, fifty at a time, and a second try for what fails:",
                &["qsub -J 1-1000%50 -W retry=1 -- ./wave --seed-from-index"],
            ),
        ],
    },
    Extra {
        on: Programs(ACTORS),
        heading: "EXIT STATUS",
        parts: &[
            Term("0", "Done. What qsub was asked to do is on disk when it prints the job id."),
            Term("1", "A job id is malformed, or a file cannot be read."),
            Term("2", "The command line is wrong."),
            Term(
                "N",
                "The request was refused: PBS's error number modulo 256, as 153 for an unknown job id, \
                  159 for a request that the caller may not make, 35 for a job that has finished. With several \
                  operands all are tried, and the last failure counts.",
            ),
        ],
    },
    Extra {
        on: Programs(&["qstat", "qselect", "pbsnodes"]),
        heading: "EXIT STATUS",
        parts: &[
            Term("0", "Done. Nothing to show is no failure, and prints nothing."),
            Term("1, 2", "The command line is wrong."),
            Term(
                "N",
                "PBS's error number modulo 256, as 153 for an unknown job id and 35 for a job that has \
                  finished (ask again with -x). With several operands all are shown, and the last failure counts.",
            ),
        ],
    },
    Extra {
        on: Programs(&["qsub"]),
        heading: "EXAMPLES",
        parts: &[
            Example(
                "Submit a script that asks for four processors and 8 GiB for at most an hour:",
                &["qsub -l select=1:ncpus=4:mem=8gb -l walltime=1:00:00 job.sh"],
            ),
            Example(
                "Submit a command without a script, wait for it, and exit as it does:",
                &["qsub -W block=true -- /usr/bin/make -j4"],
            ),
            Example(
                "Submit from standard input, one output file for both streams:",
                &["echo 'sleep 60; hostname' | qsub -j oe -o result.txt"],
            ),
            Example(
                "Two nodes of their own, with all that is on them:",
                &["qsub -l select=2:ncpus=8 -l place=scatter:excl job.sh"],
            ),
        ],
    },
    Extra {
        on: Programs(&["qstat"]),
        heading: "EXAMPLES",
        parts: &[
            Example("All jobs, and why the waiting ones wait:", &["qstat -s"]),
            Example("All that is known of a job, also when it is over:", &["qstat -x -f 17"]),
            Example("The exit status of a job, for a program:", &["qstat -x -f -F json 17"]),
        ],
    },
    Extra {
        on: Programs(&["qselect"]),
        heading: "EXAMPLES",
        parts: &[Example("Delete all of one's waiting jobs:", &["qdel $(qselect -u $USER -s Q)"])],
    },
    Extra {
        on: Programs(&["schedd"]),
        heading: "EXAMPLES",
        parts: &[
            Example("What runs here, and where its files are:", &["schedd --status"]),
            Example("Leave; running jobs go on, and the next command starts schedd again:", &["schedd --stop"]),
        ],
    },
    Extra {
        on: All,
        heading: "ENVIRONMENT",
        parts: &[
            Term(
                "LANAI_HOME",
                "A folder that holds spool, sockets and lanai.toml of an installation of its own. \
                  Set, it is used whatever /etc/lanai says.",
            ),
            Term(
                "XDG_STATE_HOME, XDG_RUNTIME_DIR, XDG_CONFIG_HOME",
                "Where a personal installation keeps its spool, \
                  its sockets and its lanai.toml, each in a folder lanai.",
            ),
        ],
    },
    Extra {
        on: All,
        heading: "FILES",
        parts: &[
            Term(
                "/etc/lanai/lanai.toml",
                "Configuration of a shared installation. Where it exists, commands speak to \
                  the shared schedd.",
            ),
            Term("~/.config/lanai/lanai.toml", "Configuration of a personal installation; need not exist."),
            Term("~/.local/state/lanai/", "The spool of a personal installation."),
        ],
    },
    Extra {
        on: Programs(&["schedd"]),
        heading: "LOGGING",
        parts: &[Text(
            "In the foreground, to standard error; else to schedd.log in the state folder. LANAI_LOG sets how much: \
             error, warn, info (the default), debug or trace.",
        )],
    },
    Extra {
        on: Section(8),
        heading: "SIGNALS",
        parts: &[Term("TERM, INT", "Leave. Running jobs go on under their shepherds and are found again.")],
    },
];
