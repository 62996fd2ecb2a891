//! What the page of qsub says of output.

use super::extras::Extra;
use super::extras::On::Programs;
use super::extras::Part::{Example, Text};

/// Where it is, and when.
pub(super) const OUTPUT: Extra = Extra {
    on: Programs(&["qsub"]),
    heading: "OUTPUT",
    parts: &[
        Text(
            "When a job is over its output is at its place, and whole: in the folder where qsub ran, as jobname.o12 and \
              jobname.e12, or where -o and -e say. While it runs it is written beside that, to jobname.o12.part. Under \
              a name that other jobs may use, too, the job's number is put in (log.12.part, log.12.3.part): each writes \
              its own, and the one that ends last has the place. A file that is there stays until then and leaves its \
              mode to the new one; of a link, that is the file it leads to.",
        ),
        Text(
            "-k oed has output written to its place while the job runs (-k od standard output alone), -k oe in the home \
              folder. So is what goes to a device or a FIFO, to a file of several names or of somebody else's, or into \
              a folder in which the owner can make no file.",
        ),
        Text(
            "Output is brought to its place however a job ends, also when it is deleted. When it is put back into its \
              queue (qrerun, or to make way), or a node fails or a shepherd is killed, it stays in the .part until the \
              job begins anew, if it does, and with a new file of that name (tail -F goes on with it); so it is with a \
              start that failed. A job that runs again because it ended badly (-W retry) or was over a limit brings \
              each time what it has. What cannot be brought to its place stays in the .part, and the comment says so.",
        ),
        Example(
            "See what a running job writes:",
            &["tail -f jobname.o12.part"],
        ),
    ],
};
