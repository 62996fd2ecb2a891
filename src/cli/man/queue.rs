//! What qstat's page says of the order of the queue, of who owns which share, and of limits.

use super::extras::On::Programs;
use super::extras::Part::Text;
use super::extras::{Extra, On};

const QSTAT: On = Programs(&["qstat"]);

/// What `--priority` tells.
pub(super) const TURNS: Extra = Extra {
    on: QSTAT,
    heading: "WHOSE TURN IT IS",
    parts: &[
        Text(
            "--priority lists what waits in the order in which the scheduler looks at it: with what each job is \
                  worth under [order] of lanai.toml(5) and what that is made of, an array once. The first \
                  hundred are listed, and the rest counted; -F json has all. First come the jobs that ask for a reservation, \
                  then the highest tier (who has waited too long, the queue's priority, whose turn it is, where the order \
                  heeds these), then the highest score, then who came first.",
        ),
        Text(
            "With jobs, each is told with its rank among all; for each part of its worth the input, the factor made \
                  of it, the weight and the product, or the value in the formula; and the jobs right before and after \
                  it with what sets them apart, that which counts most first. What a job that runs was worth when it \
                  started stays. All are told as they were rated last: with an update_period that was a while ago.",
        ),
        Text(
            "In JSON a job's priority holds rank, of (how many places there are), reserved, cluster, tier, precedence (the tier in words), score, and parts \
                  with name, input, factor, weight and product (null in a formula); with jobs named before and after \
                  too, with job, Job_Owner and differences (name, own, other). Of a job that has started it holds \
                  score_at_start.",
        ),
        Text(
            "Where the order computes scores, which is every order except by = \"fcfs\", qstat -f shows the score of \
                  a job as the attribute score: of a job that waits the present one, which needs a running schedd; \
                  of a job that runs the one it started with. Other jobs, as held ones, have none.",
        ),
        Text(
            "Under by = \"cluster\" a job precedes the jobs of all other clusters on the nodes of its own cluster, \
                  whatever the scores are. --priority and --why show its cluster: in JSON as cluster in priority, and \
                  as cluster in rank of --why, beside before and waiting; null under all other orders.",
        ),
    ],
};

/// What `--shares` tells.
pub(super) const SHARES: Extra = Extra {
    on: QSTAT,
    heading: "WHO OWNS WHICH SHARE",
    parts: &[
        Text(
            "--shares lists the tree of accounts and users of lanai.toml(5), those in an account below it, with all \
                  who have jobs that wait or have been charged: Shares, as the file has them; Owed, what these are of the machine \
                  (by method fairtree of what the account above has); Used, what they have had of all that still \
                  counts; Effective, what the method holds against them; Decayed and In use as --usage has them; \
                  Factor, from 0 (had too much) to 1 (had nothing), 0.5 by method classic for who has had just what is \
                  theirs; Rank, 1 for whose jobs go first, among accounts or among users; Level, what the method goes \
                  by before it scales; Target, where there is one.",
        ),
        Text(
            "Balance is how long they would have to use nothing from now on, while everybody else goes on as they \
                  do now, until what is held against them is no more than what they are owed (by method target: until \
                  they are no longer above their target): kept if that is so now, never if it never will be at the \
                  present rate of the others. Where nobody else uses anything usage fades alike for all, and nobody \
                  comes back into balance before it is forgotten. An account uses nothing when nobody in it does.",
        ),
        Text(
            "In JSON Shares is a list of rows with account, user (null for an account), depth, shares, target, \
                  normalised (Owed), seconds, decayed, in_use, used, effective, level (infinite for nothing used by \
                  fairtree), factor, rank, capped and balance_after in seconds (0 for kept, null for never); method, \
                  subject and at (seconds since 1970) stand beside it.",
        ),
        Text(
            "Where who has less than its fair share for too long has others make way (triggers in [preemption] of \
                  lanai.toml(5)), a second table follows, of what is there now and not of the past: each pool, and in it the \
                  operations (jobs, arrays with all their subjobs, and jobs that wait and are alike in all, by the first of \
                  them). Fair share, of the cluster; Usage, the largest part of any resource that it has, with what others \
                  leave for it; Satisfied, the latter of the former; Resource, which one that is; Status, normal, \
                  below_fair_share, starving or aggressively_starving; Below since. In JSON FairShares is a list of rows \
                  with pool, operation (null for a pool), alike, depth, fair_share, usage_share, satisfaction, \
                  dominant_resource, status and below_since. qstat --why says the same of a waiting job (fair_share).",
        ),
        Text(
            "Where the order goes by fair-share with method linear, qstat -f shows a waiting job's fair-share \
                  priority, from 0 to 1,000,000, as Resource_List.fairshare: as the scheduler had it last, two seconds \
                  ago at the most.",
        ),
    ],
};

/// What `--limits` tells.
pub(super) const LIMITS: Extra = Extra {
    on: QSTAT,
    heading: "WHAT IS LIMITED",
    parts: &[
        Text(
            "--limits lists every limit in force ([[limit]] of lanai.toml(5), or qmgr), as it stands for each whose jobs count \
             together: the caller's own first, then those of no user in particular, then other users', of these the one \
             nearest to being reached first. With -u USER,... those come first who are named, and other users' are left out.",
        ),
        Text(
            "Whose says whose jobs count together; those of an account are also of all accounts above it. Stage says which \
             of them: running, those that run; idle, those that wait and may be considered; queued, all that are not over; \
             waiting, those of them in state Q. Jobs that are held, that wait for others or for a time, are in \
             queued and in none else. What says what is counted of them, and Used how much there is: jobs, \
             nodes (chunks, as nodect), pe (processor equivalents), procseconds and seconds (what is left of processors \
             times walltime, or of walltime, less with every second), or a resource as asked for in all, sizes in the largest \
             unit that fits. A job array counts for as many jobs as it has subjobs at that stage.",
        ),
        Text(
            "Hard is never exceeded; Soft only by jobs for which there is room when all within theirs have started or \
             been promised a start. Barred is how many jobs wait because of this limit, each looked at for itself: with it there \
             would be more than allowed. Limits on queued and waiting bar nobody, but refuse what is submitted. \
             Used by names jobs, the elements of an array that run each, those that wait once.",
        ),
        Text(
            "In JSON Limits is a list of rows with whose, scope (user, group, project, account, qos, queue, those that matter), \
             stage, quantity, unit (sizes in bytes; null where a resource of the site's own says), used, soft and hard \
             (numbers in that unit, null for none; shown has them as the scheduler writes them), overrides, jobs (at most 20), \
             more_jobs, waiting (how many wait that it concerns) and barred; at (seconds since 1970) stands beside it.",
        ),
    ],
};
