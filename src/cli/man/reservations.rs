//! What pages say of reservations and their queues.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// What becomes of the queue and its jobs.
pub(super) const QUEUE: Extra = Extra {
    on: Programs(&["pbs_rsub"]),
    heading: "THE RESERVATION'S QUEUE",
    parts: &[
        Text(
            "A reservation R12 has a queue R12, which is started while the reservation lasts. Jobs submitted to it \
             run in the reservation and nowhere else, and end with it. Its owner and those named by -U and -G may \
             submit. A standing one, S12, lasts again and again; at the end of each time running jobs go back into \
             its queue, or are deleted if they may not be run again.",
        ),
        Text(
            "Windows that the configuration makes, [[reservation]] in lanai.toml, have no queue: who has access uses \
             them as any other nodes, and a job submitted with -W resv=NAME runs there and nowhere else.",
        ),
    ],
};

/// How one is made.
pub(super) const EXAMPLES: Extra = Extra {
    on: Programs(&["pbs_rsub"]),
    heading: "EXAMPLES",
    parts: &[
        Example(
            "Four processors on each of two nodes, today from 14:00 to 16:00, and a job for them:",
            &[
                "pbs_rsub -R 1400 -E 1600 -l select=2:ncpus=4",
                "qsub -q R12 job.sh",
            ],
        ),
        Example(
            "An hour from 9:00 on, on ten working days:",
            &[
                "PBS_TZID=UTC pbs_rsub -R 0900 -D 1:00:00 -r 'FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=10'",
            ],
        ),
    ],
};

/// As `pbs_rstat` shows them.
pub(super) const STATES: Extra = Extra {
    on: Programs(&["pbs_rstat"]),
    heading: "STATES",
    parts: &[
        Term(
            "UN",
            "Not known yet whether it can be had: no node answers.",
        ),
        Term(
            "CO, RN",
            "Confirmed: it has its nodes. Running: its time has come.",
        ),
        Term(
            "DG",
            "Degraded: some of its nodes are down or offline, and there are no others.",
        ),
        Term(
            "FN, DJ",
            "Finished, or being deleted: its jobs are being ended.",
        ),
    ],
};

/// As jobs' commands have them.
pub(super) const EXIT: Extra = Extra {
    on: Programs(&["pbs_rsub", "pbs_rstat", "pbs_ralter", "pbs_rdel"]),
    heading: "EXIT STATUS",
    parts: &[
        Term(
            "0",
            "Done. A reservation that cannot be had is no failure of pbs_rsub: -I tells.",
        ),
        Term(
            "1",
            "The id of a reservation is malformed, or of pbs_rstat the command line.",
        ),
        Term("2", "The command line is wrong."),
        Term(
            "N",
            "PBS's error number modulo 256, as 236 for an unknown reservation, 238 for times that are none, \
              159 for what the caller may not do.",
        ),
    ],
};
