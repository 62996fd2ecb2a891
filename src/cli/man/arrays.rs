//! What the page of qsub says of arrays.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Text};

/// Forms of a range, subjobs, and how an array ends.
pub(super) const ARRAYS: Extra = Extra {
    on: Programs(&["qsub"]),
    heading: "ARRAYS",
    parts: &[
        Text(
            "With -J X-Y:Z%M one submission is many subjobs, one for each index from X to Y, or every Z-th of them. \
             The array is 12[], its subjobs are 12[1], 12[2] and so on. Commands that take subjobs also take ranges \
             of them, as 12[1-9:2] (quoted, because of the shell). Each subjob finds its index in PBS_ARRAY_INDEX, \
             and writes to NAME.o12.INDEX and NAME.e12.INDEX; in the paths of -o and -e, ^array_index^ stands for it.",
        ),
        Text(
            "X, Y, Z and M are whole numbers; X is 0 or more and below Y, Z is 1 or more. At most M subjobs run at \
             once; with 0 any number. qalter -W max_run_subjobs=M changes that. max_array_size of lanai.toml(5) limits \
             the number of subjobs.",
        ),
        Example(
            "-J accepts:",
            &["1-10  0-9  01-10  1-10:3  1-10:20  1-10%2  1-10:3%2  1-10%0"],
        ),
        Example(
            "As in PBS, -J refuses single indices, lists, and ranges without a second index:",
            &["5  5-5  10-1  1-  1-10:0  1-3,5  1-10%  1-10%x  a-b"],
        ),
        Example(
            "-t accepts what -J accepts, and also:",
            &["5  5-5  5%1  1-3,5  1,2  1-10:3,20%2"],
        ),
        Example("-t refuses:", &["10-1  1-  1-10:0  1-3,  1-10%x  a-b"]),
        Text(
            "An array has finished when all its subjobs have: with exit status 0 if each of them had 0, else 1. \
             -W retry=N runs a subjob that fails again, up to N times, after -W retry_delay=HH:MM:SS; qrerun --failed \
             runs all failed subjobs again, also when the array has finished. While subjobs are left, the comment of \
             the array says that it is failing, and array_indices_failed lists the failed subjobs.",
        ),
        Text(
            "With --expand E an array that runs M subjobs starts more, up to E, on resources that no other job needs. \
             These start last in each cycle, after all waiting jobs, and delay no planned start. When another job \
             needs the resources, it gets them as the additional subjobs end, until no more than M run.",
        ),
        Example(
            "A thousand subjobs, fifty at a time, and a second attempt for those that fail:",
            &["qsub -J 1-1000%50 -W retry=1 -- ./wave --seed-from-index"],
        ),
        Example(
            "Two at a time, and up to twenty while the cluster is idle:",
            &["qsub -J 1-1000%2 --expand 20 frames.sh"],
        ),
    ],
};
