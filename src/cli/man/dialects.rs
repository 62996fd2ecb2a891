//! What qsub's page says of lines and scripts written for TORQUE and for Grid Engine.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Term, Text};

/// Words of others, and what they mean here.
pub(super) const DIALECTS: Extra = Extra {
    on: Programs(&["qsub"]),
    heading: "SCRIPTS FOR TORQUE AND GRID ENGINE",
    parts: &[
        Text(
            "Most scripts and command lines written for TORQUE or Grid Engine run as they are. A word counts as theirs only where \
             PBS would refuse it; names of resources only where the site has none of that name. The answer is one line with the \
             job's id, as PBS's is.",
        ),
        Text(
            "Lines that begin with #$ and go on with an option are directives of a script that has none of PBS's, and neither -C nor \
             PBS_DPREFIX is given; then they count in the whole script. What stands behind the script on the command line are \
             its arguments: all of it behind a line in Grid Engine's words, else if it is more than options.",
        ),
        Term(
            "-l nodes=N:ppn=P:gpus=G:PROPERTY",
            "TORQUE's chunks; ppn=all is a whole node. -l procs=N is N chunks of one processor, -l gpus=N is \
             ngpus, -l feature=A:B asks for nodes that have both, -l gres=NAME:N+... for amounts, -l advres=R for a reservation. \
             -l pmem= bounds each process, and asks for nothing.",
        ),
        Term(
            "-t, -d, -w, -F, -n, -L, -b SECONDS, -W x=",
            "See the options; the last two say nothing here. afterokarray and its kin in -W depend= are afterok and its kin, \
             of arrays; counts behind the array's id are not there. -P is the project, not another user, and -x is not there.",
        ),
        Term(
            "-cwd, -wd DIR",
            "Start where qsub runs (where jobs start anyway, unless the site has workdir = \"home\"); as -w DIR.",
        ),
        Term(
            "-pe NAME N[-M]",
            "N slots on one host; where NAME has mpi, orte, mvapich, pvm, fill, round, rr or make in it, N chunks of one processor \
             anywhere. Of a range on one host the job gets what is free, else the least.",
        ),
        Term(
            "-l h_rt=, s_rt=, h_vmem=, mem_free=, ...",
            "walltime; a signal (USR1) at that time, which ends a job without h_rt a minute later; memory of each slot (also s_vmem, h_rss, \
             s_rss, virtual_free: the largest counts). h_cpu is cput, h_fsize is file, hostname=A|B is hosts, qname is the queue. Sizes may \
             be fractions.",
        ),
        Term(
            "-hold_jid LIST",
            "Wait for the end of these jobs: ids, or names of jobs of one's own that are not over, in which * and ? stand for anything. \
             Where nobody bears a name, qsub says so and the job does not wait. With -hold_jid_ad too all of an array is waited for.",
        ),
        Term(
            "-sync y, -tc N, -notify, -ar R, -verify",
            "-W block=true; N tasks at once; SIGUSR2 a minute before the walltime is over; a reservation; --dry-run.",
        ),
        Term(
            "-b y COMMAND ARGS",
            "As -- COMMAND ARGS, and the job is called as the command; what is no program but a line of shell, /bin/sh runs, unless -shell n.",
        ),
        Term(
            "-j y|n, -r yes|no, -m beas, -h u, -@ FILE",
            "As in Grid Engine; nobody is mailed about suspension.",
        ),
        Term(
            "-q A,B",
            "The first of these queues that there is. Names of queues at hosts are not there: behind @ stands a server.",
        ),
        Term(
            "-o, -e",
            "$JOB_ID, $JOB_NAME and $TASK_ID in a path are filled in; a folder gets NAME.oID and NAME.eID. For all jobs \
             ^job_number^ and ^job_name^ are filled in, as ^array_index^ is.",
        ),
        Term(
            "-terse, -now, -R, -ac, -dc, -sc, -binding, -clear, -w e|w|n, -soft",
            "Accepted, without effect; of -now y and of what stands behind -soft qsub says so.",
        ),
        Text(
            "Jobs find TORQUE's variables: PBS_ARRAYID, PBS_NUM_NODES, PBS_NUM_PPN, PBS_NP, PBS_VNODENUM, PBS_WALLTIME (in seconds), PBS_GPUFILE and \
             PBS_O_SERVER. Those submitted in Grid Engine's words find JOB_ID, JOB_NAME, QUEUE, NSLOTS, NHOSTS, PE, PE_HOSTFILE, RESTARTED, \
             SGE_TASK_ID, SGE_TASK_FIRST, SGE_TASK_LAST, SGE_TASK_STEPSIZE (undefined where there is no array), SGE_O_WORKDIR, SGE_O_HOST, \
             SGE_O_HOME, SGE_O_LOGNAME, SGE_O_PATH and SGE_O_SHELL.",
        ),
        Example(
            "A script for Grid Engine, with an argument, and one for TORQUE behind it:",
            &[
                "first=$(qsub -terse -pe smp 4 -l h_vmem=2G align.sh sample7)",
                "qsub -W depend=afterok:$first -l nodes=1:ppn=4 -F sample7 call.sh",
            ],
        ),
    ],
};
