//! What would let a waiting job start, in words.

use crate::model::reason::Reason;

/// What would let a job start that waits for this reason, in words; the reason's own text says what
/// is short.
pub fn remedy(reason: &Reason) -> &'static str {
    match reason {
        Reason::NeverEnough { .. } | Reason::NeverMatches { .. } | Reason::NeverNodes { .. } => {
            "only to ask for less (qalter -l), or more or other nodes"
        }
        Reason::QueueRoutes => {
            "a destination of its queue taking it (qstat -Qf), or another queue (qmove)"
        }
        Reason::NestedQueue => {
            "schedd --nested --queue QUEUE in a job of its owner, or another queue (qmove)"
        }
        Reason::NoBackfill => {
            "the start of jobs ahead of it, or another quality of service (qalter -W qos=...)"
        }
        Reason::QueueStopped => "its queue being started, or another queue (qmove)",
        Reason::UnderThreshold { .. } => {
            "a higher priority (qstat -f tells what it has), or a lower [order] formula_threshold"
        }
        Reason::ArrayLimit { .. } => {
            "the end of a running element, or a higher limit (qalter -W max_run_subjobs)"
        }
        Reason::Limited(_) => "the end of jobs that use it, or a higher limit (qstat --limits)",
        Reason::Busy { pooled: true, .. } => "the end of jobs that hold it, or asking for less",
        Reason::Busy { .. } => "the end of jobs that run, or asking for less",
        Reason::Scattered { .. } => {
            "the end of jobs that run, or chunks that fit into what is free (qstat --holes)"
        }
        Reason::Nowhere { .. } => {
            "these nodes, or others, becoming free for it (pbsnodes -l, pbsnodes -a)"
        }
        Reason::NotContiguous | Reason::NoSet { .. } => {
            "the end of jobs that run there (qstat --why)"
        }
        Reason::Booked { .. } => "time: its start is promised",
        Reason::WouldDelayBooking { .. } => {
            "a walltime short enough to be over before that start, or its start"
        }
        Reason::BackfillDepth { .. } => "the start of jobs ahead of it",
        Reason::NoWalltime => "a walltime (qalter -l walltime=...)",
        Reason::KeptForWider { .. } => "time, or asking for more processors at once",
        Reason::Unsuitable { .. } => "other wishes (qalter -W ...), or nodes that suit the job",
        Reason::UsedOutside { .. } => {
            "the end of the processes outside the queue, or of jobs that run"
        }
        Reason::InUse(_) => {
            "less in use on the node (its load is in pbsnodes -a), or asking for less"
        }
        Reason::NoNodes => "a node that answers and is not offline (pbsnodes -l)",
        Reason::Reserved { .. } => {
            "a walltime short enough to be over before that reservation (pbs_rstat), or its end"
        }
        Reason::NotOpen { .. } => {
            "its reservation being opened (pbs_rstat tells when), or another queue (qmove)"
        }
        Reason::OutlastsWindow { .. } => {
            "a shorter walltime (qalter -l walltime=...), or another queue (qmove)"
        }
        Reason::DedicatedTime => "another queue (qmove), or the end or begin of dedicated time",
        Reason::CrossesDedicated { .. } | Reason::CrossesPrime { .. } => {
            "a walltime short enough to be over before then (qalter -l walltime=...), or that moment"
        }
        Reason::PrimeOnly | Reason::NonprimeOnly => {
            "the time of its queue, or another queue (qmove)"
        }
        Reason::AwaitsChoice => "time: the site's program answers soon, or is passed over",
        Reason::Deferred { .. } => "time: it is tried again by itself",
    }
}
