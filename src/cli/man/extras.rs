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

use super::accounts;
use super::amending;
use super::arrays;
use super::dialects;
use super::nested;
use super::output;
use super::queue;
use super::release;
use super::reservations;
use super::scenarios;
use super::suspending;
use super::tasks;
use super::tracejob;
use On::{All, Programs};
use Part::{Example, Term, Text};

/// Commands that act on a job and answer with PBS's codes.
const ACTORS: &[&str] = &[
    "qsub", "qalter", "qdel", "qhold", "qrls", "qrerun", "qsig", "qmove", "qmsg", "qorder",
];

/// In the order in which they stand on a page.
pub(super) const EXTRAS: &[Extra] = &[
    Extra {
        on: Programs(&["qsub", "qalter"]),
        heading: "WHERE IT RUNS",
        parts: &[
            Text(
                "With -W a job says where it is to run; what it leaves open, the site's policy says.",
            ),
            Term(
                "requirements=EXPRESSION",
                "What must be true of each of its nodes, in host.* and job.*, as 'host.memory.total >= 32000 and \
                 host.os eq linux'. There are host.name, os, groups, cluster, speed, load, jobs, state, flag.NAME (a \
                 boolean resource), duty.user and duty.id (of the jobs there), and processors, memory or any resource \
                 with .total, .avail or .used; sizes in megabytes. job.user, queue, project, account, qos, group, \
                 cluster and what it asks for. -l requirements= is the same.",
            ),
            Term(
                "hosts=N1+N2, groups=G, omit_hosts=N3, omit_groups=H",
                "Only these hosts, or hosts of these groups; never those.",
            ),
            Term(
                "cluster=/A/B, restrictions='/A/+ || /B'",
                "Where the job stands in the tree of clusters, and whose nodes it takes: /A/B that one, /A/+ that one \
                 and all below, /A/* all below.",
            ),
            Term(
                "naccess=shared|singleuser|singlejob|singletask",
                "Who else may be on its nodes: anybody, jobs of the same user, nobody; with singletask each chunk has \
                 a node for itself. -l naccesspolicy= is the same; place=excl stands above it.",
            ),
            Term(
                "qos=NAME",
                "Its quality of service, which the site's policy may go by. -l qos= is the same. Nothing after = \
                 takes it back.",
            ),
            Term(
                "nalloc=POLICY",
                "Which of the nodes that would do: see allocation in lanai.toml(5).",
            ),
            Term(
                "distribution=pack|roundrobin|balanced",
                "How its chunks and tasks are dealt to the nodes. PBS_NODEFILE has a line for each task, in order.",
            ),
            Term(
                "geometry={(0,3)(1,2)}",
                "Which tasks are together on a node: here four, as -l select=4:ncpus=2 asks for, on two nodes.",
            ),
            Text(
                "A number in a chunk may grow with what is free on the node: ncpus=4+ is at least 4 and all that is \
                 free, 4-8 at most 8, 4* a node on which nothing runs and all it has, all the same as 1*. NCPUS and \
                 OMP_NUM_THREADS say what it came to.",
            ),
        ],
    },
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
        on: Programs(&["qsub", "qalter"]),
        heading: "DEPENDENCIES",
        parts: &[
            Text(
                "-W depend=KIND:ID[:ID...][,KIND:ID...] makes a job wait for others; qsub's all count together, and \
                  qalter adds to those there are. The job is held (H, with Hold_Types s) until all are met. When one \
                  can never be met it ends at once: status 271, a comment that says why, and for jobs that wait for it \
                  a bad end. An operator's qrls -h s releases a job from all it waits for. ID may name an array, \
                  12[], but not a subjob. Unknown jobs, and jobs that would wait for one another in a circle, are \
                  refused.",
            ),
            Term("after:ID", "Wait until the other job has begun."),
            Term(
                "afterok:ID, afternotok:ID, afterany:ID",
                "Wait until it has ended: with status 0, otherwise, in any way. \
                  A job that was deleted before it ran has ended otherwise.",
            ),
            Term(
                "after:@LABEL, afterok:@LABEL, afternotok:@LABEL, afterany:@LABEL",
                "Wait for a job of one's own that carries this label (--label) within the same process group (--group; \
                  jobs without one make up a group of their own), whether it is there yet or not. If there is one, the \
                  last to be submitted may decide at once; else the first that comes so far does. What ends otherwise \
                  decides nothing: the job goes on waiting, for another one of that label or for the same to be run \
                  again (qalter --retry). Jobs that would wait for one another's labels for ever, since nobody else carries \
                  them, are refused. Written as done-job-LABEL, failed-job-LABEL and complete-job-LABEL, \
                  too, for afterok, afternotok and afterany. @LABEL[INDEX] is one element of an array of that label, \
                  and so are done-frame-LABEL-INDEX, failed-frame-LABEL-INDEX and complete-frame-LABEL-INDEX; one that is \
                  deleted before it has started decides nothing.",
            ),
            Term(
                "on:N",
                "Wait for N jobs submitted later that name this one in a before...",
            ),
            Term(
                "before:ID, beforeok:ID, beforenotok:ID, beforeany:ID",
                "Make the other job, one's own and submitted with \
                  on, wait for this one in the same ways.",
            ),
            Term(
                "runone:ID",
                "Of this job and the other, and those in a set with them, only one runs: when one begins the \
                  others wait. When it has ended they end too; when it is put back into its queue, the first to start \
                  is chosen anew.",
            ),
            Example(
                "Run a second job when the first has ended well, and a third when it has not:",
                &[
                    "first=$(qsub first.sh)",
                    "qsub -W depend=afterok:$first second.sh",
                    "qsub -W depend=afternotok:$first tidy.sh",
                ],
            ),
            Example(
                "The same by labels, in any order:",
                &[
                    "qsub --group show1 -W depend=done-job-sim comp.sh",
                    "qsub --group show1 -W depend=failed-job-sim tidy.sh",
                    "qsub --group show1 --label sim sim.sh",
                ],
            ),
        ],
    },
    arrays::ARRAYS,
    dialects::DIALECTS,
    Extra {
        on: Programs(ACTORS),
        heading: "EXIT STATUS",
        parts: &[
            Term(
                "0",
                "Done. What qsub was asked to do is on disk when it prints the job id.",
            ),
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
    reservations::QUEUE,
    reservations::EXAMPLES,
    reservations::STATES,
    reservations::EXIT,
    Extra {
        on: Programs(&["qrun"]),
        heading: "EXIT STATUS",
        parts: &[
            Term(
                "0",
                "Each job is on its way to its nodes; with -a, was asked for.",
            ),
            Term("1", "The command line is wrong."),
            Term(
                "2",
                "A job was refused; why is told. With several all are tried.",
            ),
        ],
    },
    tracejob::EXIT,
    tracejob::LINES,
    tracejob::EXAMPLES,
    Extra {
        on: Programs(&["qrun"]),
        heading: "NOTES",
        parts: &[Text(
            "The job starts ahead of all others: its place in the order, its holds, a stopped queue and the promised \
             starts of other jobs bar nothing. What is not free is not given: the job is then refused for the reason \
             that qstat -s shows, or, with -a, waits on.",
        )],
    },
    Extra {
        on: Programs(&["qstat", "qselect", "pbsnodes"]),
        heading: "EXIT STATUS",
        parts: &[
            Term(
                "0",
                "Done. Nothing to show is no failure, and prints nothing.",
            ),
            Term("1, 2", "The command line is wrong."),
            Term(
                "N",
                "PBS's error number modulo 256, as 153 for an unknown job id and 35 for a job that has \
                  finished (ask again with -x). With several operands all are shown, and the last failure counts.",
            ),
        ],
    },
    tasks::TASKS,
    release::RELEASE,
    suspending::SUSPENSION,
    tasks::EXIT,
    release::RELEASE_EXIT,
    release::TERM_EXIT,
    tasks::EXAMPLES,
    release::RELEASE_EXAMPLES,
    Extra {
        on: Programs(&["qsub"]),
        heading: "MPI",
        parts: &[
            Text(
                "mpiprocs says how many MPI processes a chunk has: 1 if it is not given, none in a chunk of no processors. \
                  PBS_NODEFILE has a line for each, the name of its host, chunk by chunk; mpirun takes it as it is. \
                  OMP_NUM_THREADS and NCPUS are the ompthreads of the first chunk, else its ncpus: with several \
                  processes in a chunk, say ompthreads. mpirun reaches further hosts by ssh; pbsdsh needs none.",
            ),
            Example(
                "Two chunks of four processors, each with two processes of two threads:",
                &["qsub -l select=2:ncpus=4:mpiprocs=2:ompthreads=2 job.sh"],
            ),
            Example(
                "In the script, for Open MPI:",
                &["mpirun --hostfile $PBS_NODEFILE ./wave"],
            ),
            Example("For MPICH:", &["mpiexec -f $PBS_NODEFILE ./wave"]),
        ],
    },
    output::OUTPUT,
    Extra {
        on: Programs(&["qsub", "pbsdsh"]),
        heading: "PATH",
        parts: &[Text(
            "noded appends the directory of Lanai's commands to the PATH of a job, after the login profile and after \
             the user's own directories. A startup file that every shell reads, such as ~/.cshrc or ~/.zshenv, can \
             still replace PATH in a script of that shell.",
        )],
    },
    Extra {
        on: Programs(&["qsub"]),
        heading: "INTERACTIVE JOBS",
        parts: &[
            Text(
                "With -I, qsub waits until the job starts, says in one line why it still waits, and then becomes the \
                  terminal of the job's shell: the login shell, or -S, or the command behind --. The job has the \
                  window's size and TERM. qsub ends with the shell's exit status, modulo 256 (15 for a job that was \
                  deleted); 1 if the job ends before it starts. An interactive job is not run twice and has no \
                  output files. Its session goes on while schedd or noded restarts. When qsub goes away the job's \
                  terminal hangs up, and what is left of the job is killed after the grace of lanai.toml.",
            ),
            Term(
                "~.",
                "At the start of a line: ends the session and deletes the job.",
            ),
            Term("~^Z", "At the start of a line: suspends qsub."),
            Term(
                "^C",
                "While it waits: asks whether to delete the job. In the session: a key like any other.",
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
                "A shell on four processors, for an hour; it ends with the shell's exit status:",
                &["qsub -I -l ncpus=4 -l walltime=1:00:00"],
            ),
            Example(
                "Two nodes of their own, with all that is on them:",
                &["qsub -l select=2:ncpus=8 -l place=scatter:excl job.sh"],
            ),
            Example(
                "Is this job valid, and when and where would it start? Nothing is submitted:",
                &["qsub --dry-run -l select=2:ncpus=8 -l walltime=2:00:00 job.sh"],
            ),
        ],
    },
    Extra {
        on: Programs(&["qstat"]),
        heading: "WHAT IS TO COME",
        parts: &[
            Text(
                "Some waiting jobs are promised a start: qstat -f shows it as estimated.start_time and \
                  estimated.exec_vnode, qstat -T in a column of its own. A promise holds if jobs end by their \
                  walltimes and nobody interferes; when it slips all the same, tracejob and qstat --why tell from \
                  when to when, and why.",
            ),
            Text(
                "--start, --holes and --why ask schedd, which runs its own scheduling forward on a copy of all jobs \
                  and nodes: jobs are taken to end at their walltimes, later submissions are not known. An answer is \
                  never older than the last change: it contains what the caller has submitted, altered or deleted \
                  before. While nothing changes, it is shared for up to a second. How far is looked is bounded; a \
                  job that has not started by then is told so, with the moment and the number of cycles.",
            ),
            Text(
                "--why says in a sentence what a job waits for and what would help, then how each stage of the \
                  scheduling went, what the nodes say, and who is in its way; lanai-scheduling(7) tells of the stages \
                  and lists the names of all reasons. -v lists what is in its way at every stage. A held job is told \
                  what would become of it if it were released now, one that runs or is over how it stands.",
            ),
            Text(
                "--holes lists windows, widest first: so many processors (with -l, copies of the request) on so many \
                  nodes are free now for a job with a walltime of at most so long.",
            ),
        ],
    },
    Extra {
        on: Programs(&["qstat"]),
        heading: "WHAT HAS BEEN USED",
        parts: &[Text(
            "--usage lists accounts and users (-- for jobs without an account) with what they have used, in \
                  seconds of processors, unless [usage] of lanai.toml(5) gives other resources a weight: Seconds, as \
                  far back as charges are kept; Decayed, what of it still counts; In use, what runs now, which is \
                  what every second adds. A job is charged what it was given, used or not, from its start to its end, \
                  and counts while it runs. In JSON these are seconds, decayed and in_use, as they were at the moment \
                  at (seconds since 1970).",
        )],
    },
    accounts::EFFICIENCY,
    accounts::ENTRIES,
    accounts::COLUMNS,
    accounts::EXIT,
    accounts::EXAMPLES,
    queue::TURNS,
    queue::SHARES,
    queue::LIMITS,
    Extra {
        on: Programs(&["qstat"]),
        heading: "FOR USERS OF MAUI AND MOAB",
        parts: &[
            Term(
                "showq",
                "qstat -a; qstat -i for what waits, qstat -r for what runs",
            ),
            Term(
                "checkjob ID",
                "qstat --why ID, and qstat -f ID for all that is known of it",
            ),
            Term(
                "showstart ID",
                "qstat --start ID; without an id, for every job that waits",
            ),
            Term(
                "showbf",
                "qstat --holes; with -l select=... for how many of these there is room",
            ),
            Term(
                "diagnose -j, diagnose -n",
                "qstat -s for why each job waits, qstat --why ID for what each node says, pbsnodes -a for the nodes",
            ),
            Term("showhist, tracejob", "tracejob ID"),
            Term(
                "diagnose -p",
                "qstat --priority; with ids for the jobs next in the queue, and what sets them apart",
            ),
            Term(
                "diagnose -f",
                "qstat --shares, and qstat --usage for what was used alone",
            ),
        ],
    },
    Extra {
        on: Programs(&["qstat"]),
        heading: "EXAMPLES",
        parts: &[
            Example("All jobs, and why the waiting ones wait:", &["qstat -s"]),
            Example(
                "All that is known of a job, also when it is over:",
                &["qstat -x -f 17"],
            ),
            Example(
                "The exit status of a job, for a program:",
                &["qstat -x -f -F json 17"],
            ),
            Example(
                "Why does it wait, stage by stage, who is in its way, and until when:",
                &["qstat --why 17"],
            ),
            Example(
                "When does each waiting job start, for a program:",
                &["qstat --start -F json"],
            ),
            Example(
                "Room for how many tasks of 4 processors, and for how long:",
                &["qstat --holes -l select=1:ncpus=4"],
            ),
            Example(
                "What is it worth, made of what, and who is before it:",
                &["qstat --priority 17"],
            ),
            Example(
                "Who has had more than their share, and until when:",
                &["qstat --shares"],
            ),
            Example("Who has used how much:", &["qstat --usage"]),
            Example("Whether a job asked for too much:", &["qstat --eff 17"]),
            Example(
                "Wait for the end of a job, and see what becomes of it meanwhile:",
                &["qstat --watch 17"],
            ),
        ],
    },
    Extra {
        on: Programs(&["qselect"]),
        heading: "EXAMPLES",
        parts: &[Example(
            "Delete all of one's waiting jobs:",
            &["qdel $(qselect -u $USER -s Q)"],
        )],
    },
    scenarios::FORMAT,
    scenarios::WORLD,
    scenarios::CLAIMS,
    Extra {
        on: Programs(&["qsim"]),
        heading: "EXIT STATUS",
        parts: &[
            Term(
                "0",
                "Done; every scenario came out as it expects, every plan as it was recorded.",
            ),
            Term(
                "1",
                "A file cannot be read or written, a line of it is wrong, or jobs never start: one line says which and why. \
                 A scenario or a plan came out otherwise: what differs is told.",
            ),
            Term(
                "2",
                "Wrong command line, or a scenario or a recording that cannot be played: one line says why.",
            ),
        ],
    },
    Extra {
        on: Programs(&["qsim"]),
        heading: "EXAMPLES",
        parts: &[
            Example(
                "How the jobs of a trace would have fared under EASY backfill, with a picture:",
                &["qsim replay KTH-SP2-1996-2.1-cln.swf.gz --policy easy --plot kth.svg"],
            ),
            Example(
                "The same under a configuration that is to be tried, on 32 nodes, with every start:",
                &[
                    "qsim replay trace.swf --config new.toml --nodes 32 --cores-per-node 64 --jobs-out starts.csv",
                ],
            ),
        ],
    },
    nested::NESTED,
    nested::EXAMPLES,
    amending::GRAMMAR,
    amending::OBJECTS,
    amending::STATUS,
    amending::EXAMPLES,
    amending::GATES,
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
                "Configuration of a shared installation. Where it exists, commands use the shared installation.",
            ),
            Term(
                "~/.config/lanai/lanai.toml",
                "Configuration of a personal installation; need not exist.",
            ),
            Term(
                "~/.local/state/lanai/",
                "The spool of a personal installation. Its jobs and daemons stay with it when a shared installation \
                 appears; with LANAI_HOME set to this folder commands use it. qstat -Bf shows which installation \
                 is used.",
            ),
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
        on: Programs(&["schedd", "noded"]),
        heading: "SIGNALS",
        parts: &[Term(
            "TERM, INT",
            "Leave. Running jobs go on under their shepherds and are found again.",
        )],
    },
    Extra {
        on: Programs(&["noded"]),
        heading: "ACCOUNTS",
        parts: &[Text(
            "As root, noded runs no job of an account that has expired (shadow(5)), or with a login shell that is \
             nologin, false, or not in /etc/shells. This holds for scripts, commands, interactive jobs and tasks. \
             The job ends, and its comment gives the reason. A locked password does not matter: the user may log \
             in by key.",
        )],
    },
    Extra {
        on: Programs(&["schedd"]),
        heading: "RELOADING",
        parts: &[Text(
            "On HUP schedd reads lanai.toml anew. A bad file is refused whole, and the log says line and remedy; of a \
             good one the log says what has changed. The server's name, shared and record stay as they are until \
             schedd is started anew. Nodes join and leave by the sockets of [[node]].",
        )],
    },
];
