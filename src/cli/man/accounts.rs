//! What pages say of the accounts: qacct's, and qstat's of what jobs used of what they asked for.

use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};
use super::extras::{Extra, On};

const QACCT: On = Programs(&["qacct"]);

/// What is in the accounts.
pub(super) const ENTRIES: Extra = Extra {
    on: QACCT,
    heading: "WHAT THE ACCOUNTS HOLD",
    parts: &[
        Text(
            "The accounts have an entry for each attempt of a job that ran, written when it was over, and one without \
                 an attempt (0) for a job that was deleted, or ended by its dependencies, while it waited. Each subjob \
                 of an array that ran has its own; subjobs that never began have none, nor have starts that failed and \
                 were made anew. Entries are kept for as long as [server] accounting of lanai.toml(5) says, also when the \
                 job has left the history or was deleted with qdel -x. Whoever may ask qstat may ask here: everybody, \
                 about all jobs.",
        ),
        Text(
            "All of an attempt belongs to the moment when it was over: -b and -e, days and months go by that, in \
                 the time zone of who asks. A job that ran over the end of a month counts in the month in which it ended.",
        ),
        Text(
            "-b BEGIN takes the first moment of a period, -e END its last, so that -b 2026-11 -e 2026-11 is all of \
                 November. A number and a unit, as 7d or 36h, is so long ago.",
        ),
    ],
};

/// What the columns mean.
pub(super) const COLUMNS: Extra = Extra {
    on: QACCT,
    heading: "COLUMNS",
    parts: &[
        Term(
            "Jobs, Failed",
            "Jobs that ended, and those of them with another exit status than 0. An attempt after which a job went back to its queue is no end of it; what it used counts.",
        ),
        Term(
            "CPU h",
            "Processor time that the processes used, in hours; cpu_seconds in CSV and JSON.",
        ),
        Term(
            "Core h",
            "Processors held, busy or not, times how long, in hours; core_seconds.",
        ),
        Term(
            "Charged h",
            "The same times what queue and quality of service charge ([[queue]] and [[qos]] charge of lanai.toml(5)), in hours; charged_core_seconds. Fair-share counts it so.",
        ),
        Term("CPU", "CPU h of Core h: cpu_efficiency, of 1."),
        Term(
            "Memory",
            "The most memory used of what was asked for, each job counted for as long as it ran; jobs that asked for none are left out. mem_efficiency, of 1.",
        ),
        Term(
            "Wait",
            "How long an attempt waited on average, from when it could start (queued, without a hold) until it did; mean_wait_seconds.",
        ),
        Text(
            "CSV and JSON have attempts, gpu_seconds and walltime_seconds besides; a value that does not exist is \
                 empty, in JSON null. In JSON Accounts is a list of rows, Total has all together, from and to are seconds \
                 since 1970. With -j or --list JSON has Attempts, an object by job and attempt (12.head/1), and CSV a line \
                 for each: times are in seconds, moments (submitted, eligible, started, ended) in seconds since 1970.",
        ),
    ],
};

/// How it ends.
pub(super) const EXIT: Extra = Extra {
    on: QACCT,
    heading: "EXIT STATUS",
    parts: &[
        Term("0", "Done. Nothing in the accounts is no failure."),
        Term(
            "1",
            "A job id is malformed, or the accounts hold nothing of a job. With several all are told.",
        ),
        Term("2", "The command line is wrong."),
        Term(
            "N",
            "PBS's error number modulo 256, as 162 where no server answers.",
        ),
    ],
};

/// How it is used.
pub(super) const EXAMPLES: Extra = Extra {
    on: QACCT,
    heading: "EXAMPLES",
    parts: &[
        Example(
            "Who has used what in November:",
            &["qacct -b 2026-11 -e 2026-11"],
        ),
        Example(
            "Your own last week, day by day:",
            &["qacct -u $USER -b 7d --by day"],
        ),
        Example(
            "For the bill: core-hours charged by account and month, for a spreadsheet:",
            &["qacct --by account,month -F csv"],
        ),
        Example(
            "All that is known of a job, and of the subjobs 3 to 5 of an array:",
            &["qacct -j 17,'18[3-5]'"],
        ),
        Example(
            "Every attempt that ended today, as CSV:",
            &["qacct --list -b today -F csv"],
        ),
    ],
};

/// What `qstat --eff` tells.
pub(super) const EFFICIENCY: Extra = Extra {
    on: Programs(&["qstat"]),
    heading: "WHAT WAS USED OF WHAT WAS ASKED FOR",
    parts: &[
        Text(
            "--eff tells of each job what it used of the processor time, the memory and the walltime that it asked for: \
                 as it stands of one that runs, of others their last attempt, from the accounts (qacct(1)), so also of jobs \
                 out of the history. Of an array it tells percentiles over the subjobs that have ended: half of them used no \
                 more than p50, nine of ten no more than p90. Without jobs, the same of all your jobs that ended in the last \
                 seven days.",
        ),
        Text(
            "The last line says what to ask for next time, if that is a quarter less than what was asked for or more: a \
                 fifth above the memory used, half as much time again, as many processors as were busy; over all chunks, and \
                 for an array by its hungriest subjob. In JSON Efficiency is a list; advice is null where there is none.",
        ),
    ],
};
