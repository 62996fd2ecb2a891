//! What qsim's page says of scenarios: the whole of the format.

use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};
use super::extras::{Extra, On};

const QSIM: On = Programs(&["qsim"]);

/// The format of scenarios.
pub(super) const FORMAT: Extra = Extra {
    on: QSIM,
    heading: "SCENARIOS",
    parts: &[
        Text(
            "qsim check plays scenarios: TOML files that describe a cluster, what happens to it, and what is expected of \
             the scheduler. Time begins at 0 and jumps from one instant to the next. Of what happens at one instant, jobs \
             end first, then come the events, then the submissions, each in the order of the file, and then the scheduler \
             looks. A scenario takes milliseconds, and the same file always comes out the same. One without an \
             expectation is refused, and so is a key that is not known. Moments and lengths are seconds (90, 0.5) or \
             texts (\"1h 30m\", \"1:30:00\").",
        ),
        Example(
            "A filler may pass a blocked job only if it is over in time:",
            &[
                "name = \"a filler may not delay the booked job\"",
                "config = { preset = \"hybrid\" }",
                "",
                "[[node]]",
                "name = \"n1\"",
                "ncpus = 16",
                "",
                "[[job]]",
                "id = 1",
                "runs = 3600",
                "qsub = \"-l select=1:ncpus=8 -l walltime=1:00:00\"",
                "",
                "[[job]]",
                "id = 2",
                "user = \"bob\"",
                "qsub = \"-l select=1:ncpus=16 -l walltime=1:00:00\"",
                "",
                "[[job]]",
                "id = 3",
                "at = \"5m\"",
                "qsub = \"-l select=1:ncpus=8 -l walltime=2:00:00\"",
                "",
                "[[event]]",
                "at = 600",
                "do = \"qalter -l walltime=30:00 3\"",
                "",
                "[[expect]]",
                "at = 300",
                "job = 3",
                "reason = \"would_delay_booking\"",
                "",
                "[[expect]]",
                "job = 3",
                "start = 600",
                "via = \"backfill\"",
                "nodes = [\"n1\"]",
            ],
        ),
        Term("name", "What the scenario shows, in a sentence. Required."),
        Term(
            "config",
            "What lanai.toml(5) may hold, read in the same way, as a table: { backfill = { depth = 2 } }.",
        ),
        Term(
            "clock",
            "The local date and time at which it begins, for what goes by the calendar: \"2024-01-05 18:00\"; if not \
             given, midnight of Monday, 1 January 2024.",
        ),
        Term(
            "until",
            "When it ends at the latest; if not given, when nothing happens any more.",
        ),
    ],
};

/// What happens in a scenario.
pub(super) const WORLD: Extra = Extra {
    on: QSIM,
    heading: "NODES, JOBS AND EVENTS",
    parts: &[
        Term(
            "[[node]]",
            "A node: name, what a [[node]] of lanai.toml may say (ncpus = 16, mem = \"64gb\", ngpus = 4, resources of the \
             site), and besides: count = N for N nodes alike named after the first, as n1, n2; host, if several are on \
             one; state = \"free\", \"down\" or \"offline\".",
        ),
        Term(
            "[[job]]",
            "A submission. id: its number, from 1 on. qsub: what stands behind qsub on a command line, without a script. \
             at: when (0). runs: how long it really runs (if not given, for its walltime). user (\"ann\") and group \
             (\"users\"); where config says server = { shared = true }, they are no operators unless it names them. exit: its exit code (0). fails = N: its first N starts fail by a fault of the node. stops: how long it takes to end once it was told \
             to make way (0). \
             exceeds: over which limit it goes, from when to when, { mem = [600, 700] }, or from when on, { mem = 600 }. count = N: N \
             jobs alike, numbered on. An array (-J) has the id N[], its subjobs N[1], N[2].",
        ),
        Term(
            "[[event]]",
            "What else happens. at: when. do: a command line of qhold, qrls, qdel, qalter, qrerun, qsig \
             (-s suspend, -s resume), qrun, qmove, qorder, \
             pbs_rsub (reservations are called R1, R2, ... in their order) or pbs_rdel, or one of the lines below. user: who does it; an operator, if not given. config: what is to hold from then on, laid over the \
             scenario's. refused: a part of what is said when it is refused, if that is expected.",
        ),
        Term(
            "node-down NODE",
            "The node answers no more; its jobs are neither ended nor known to run.",
        ),
        Term(
            "node-up NODE",
            "It has been booted and answers: the jobs it had are gone, and put back or ended as in schedd.",
        ),
        Term(
            "node-offline NODE, node-online NODE",
            "An operator takes it out of service and puts it back.",
        ),
        Term(
            "node-set NODE RESOURCE=AMOUNT ...",
            "From now on it offers this much.",
        ),
        Term(
            "utilized NODE RESOURCE=AMOUNT ...",
            "So much of its ncpus, mem or swap is really in use, by whomever.",
        ),
        Term(
            "load NODE LOAD",
            "Its load average: 2.5 keeps two processors and a half busy.",
        ),
        Term(
            "gpus-outside NODE [NUMBER ...]",
            "Processes outside the queue use these of its GPUs.",
        ),
        Term(
            "resource NAME TOTAL [USED]",
            "So much of a resource of the whole system is there, and so much of it is used elsewhere, as a license \
             server would say.",
        ),
        Term(
            "program-asked JOB",
            "The site's program (allocation = \"local\") is asked about the job and those alike, which wait for its answer.",
        ),
        Term(
            "program-says JOB [NODE ...]",
            "It names these nodes, the best first.",
        ),
        Term("cycle", "The scheduler looks though nothing has happened."),
    ],
};

/// What is expected.
pub(super) const CLAIMS: Extra = Extra {
    on: QSIM,
    heading: "EXPECTATIONS",
    parts: &[
        Text(
            "An [[expect]] is about a job = ID, about a moment at = TIME, or both, and claims one thing or several. What is \
             expected of a moment is compared when all that happens then has happened.",
        ),
        Term("start, end", "When the job first starts and last ends."),
        Term("starts", "All its starts: [0, 3600]."),
        Term("never = true", "It never starts."),
        Term(
            "preempted, made_way_for, made_way_by, made_way_because",
            "How often it has made way; for which job it did so last (false for nobody), how: \"requeue\", \"suspend\", \
             \"finish\" (its own end), \"checkpoint\" or \"delete\"; and why: \"qube\", \"qos\", \"levels\", \"starvation\", \
             \"aggressive_starvation\", \"promise\", \"overcommit\" or \"limit\".",
        ),
        Term(
            "nodes",
            "Its nodes, chunk by chunk, [\"n1\", \"n1\", \"n2\"], or how many chunks on which, { n1 = 2, n2 = 1 }.",
        ),
        Term(
            "via",
            "\"backfill\" if its first start passes a job that was promised one, else \"priority\".",
        ),
        Term(
            "state",
            "Q, H, W, R, S, B or F, at the moment or in the end.",
        ),
        Term("exit", "Its exit status, as qstat shows it."),
        Term("refused", "A part of what its submission is refused with."),
        Term(
            "warned",
            "A part of what was said when it was submitted or altered last, or false for nothing.",
        ),
        Term(
            "reason, stage",
            "Of a moment: the code of the reason why it waits, and the stage of the cycle that says so.",
        ),
        Term("comment", "Of a moment: a part of the comment."),
        Term(
            "booked",
            "Of a moment: the start it is promised, or false for none; booked_on: on which nodes.",
        ),
        Term(
            "eligible_time",
            "Of a moment: the eligible time that the job has then.",
        ),
        Term(
            "score",
            "Of a moment: what the job is worth then under the order while it waits, or was worth when it started, to as \
             many digits as are given.",
        ),
        Term(
            "foreseen",
            "Of a moment: the start that qstat --start tells, or false for none.",
        ),
        Term("running", "Of a moment, of no job: all that run, [1, 3]."),
        Term(
            "usage",
            "Of a moment, of no job: what of these accounts' usage counts, in seconds, to as many digits as are given: \
             { P1 = 3600, P2 = 4242.64 }.",
        ),
        Term(
            "in_use",
            "Of a moment, of no job: how much of resources of the whole system is in use or not there, of how much: \
             { nuke = \"20/50\" }.",
        ),
        Term(
            "order",
            "Of no job: these start in this order, others do not matter: [2, 1, \"4[3]\"].",
        ),
        Term(
            "cycles",
            "Of no job: the moments at which the scheduler looks: [0, 600].",
        ),
        Term(
            "trigger",
            "Of a moment, of no job: why the scheduler looks then, in the words of qstat --cycles, first things first: \
             \"shove:3\", [\"slot_free:n1\", \"submit:4\"], or false where it does not look.",
        ),
        Text(
            "What differs is told with its line, as expected and as found, and the whole schedule is shown below it. Three \
             scenarios to begin with are among Lanai's documents, in scenarios/.",
        ),
        Example(
            "Whether a configuration still does what it is meant to:",
            &["qsim check /etc/lanai/scenarios"],
        ),
        Example(
            "Whether the scheduler of today would have decided what that of yesterday did (record in lanai.toml(5)):",
            &["qsim check --recorded /var/tmp/lanai.record"],
        ),
    ],
};
