//! Limits on a running job, and the warning signal before its walltime ends.

use super::Spec;
use super::attempt::NodeShare;
use crate::model::resource::{ResourceList, ResourceValue};
use crate::model::signal;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Requested limits of a job other than the walltime. Limits on the memory of the whole job (`mem`,
/// `vmem`) are not included, because each host enforces a different amount ([`HostMemoryLimit`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Processor time of all processes together.
    pub cput: Option<Span>,
    /// Processor time of one process.
    pub pcput: Option<Span>,
    /// Resident memory of one process, in kilobytes.
    pub pmem_kb: Option<u64>,
    /// Address space of one process, in kilobytes.
    pub pvmem_kb: Option<u64>,
    /// Size of each written file, in kilobytes.
    pub file_kb: Option<u64>,
    /// Signal before the end of the walltime.
    pub warning: Option<Warning>,
}

impl RunLimits {
    /// Returns the limits requested by a job.
    pub fn of(spec: &Spec) -> RunLimits {
        let list = &spec.request.list;
        let TimeLimits { cput, warning, .. } = TimeLimits::of(spec);
        RunLimits {
            cput,
            pcput: time(list, "pcput"),
            pmem_kb: kilobytes(list.get("pmem")),
            pvmem_kb: kilobytes(list.get("pvmem")),
            file_kb: kilobytes(list.get("file")),
            warning,
        }
    }
}

/// Time limits of a job, which `qalter` can change while the job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimits {
    /// Elapsed time without suspensions.
    pub walltime: Option<Span>,
    /// Processor time of all processes together.
    pub cput: Option<Span>,
    /// Signal before the end of the walltime.
    pub warning: Option<Warning>,
}

impl TimeLimits {
    /// Returns the limits requested by a job.
    pub fn of(spec: &Spec) -> TimeLimits {
        let warning = spec
            .other
            .get(Warning::ATTRIBUTE)
            .and_then(|text| Warning::parse(text));
        TimeLimits {
            walltime: spec.walltime(),
            cput: time(&spec.request.list, "cput"),
            warning,
        }
    }
}

/// `-W warn=USR1@120`: signal sent to all processes of the job before its walltime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Signal number.
    pub signal: i32,
    /// Time between the signal and the end of the walltime.
    pub before: Span,
}

impl Warning {
    /// Name of the job attribute.
    pub const ATTRIBUTE: &'static str = "warn";

    /// Parses `signal@time`: a signal name or number, then seconds or `HH:MM:SS`.
    pub fn parse(text: &str) -> Option<Warning> {
        let (name, before) = text.split_once('@')?;
        let signal = signal::parse(name).filter(|&number| number > 0)?;
        Some(Warning {
            signal,
            before: Span::parse(before).filter(|before| before.0 > 0)?,
        })
    }
}

/// Memory limit of a job on one host, in kilobytes; None for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemoryLimit {
    /// Resident memory.
    pub mem: Option<u64>,
    /// Address space.
    pub vmem: Option<u64>,
}

impl HostMemoryLimit {
    /// Returns the limits on `host`: the totals over the job's shares on that host.
    pub fn on(host: &str, shares: &[NodeShare]) -> HostMemoryLimit {
        let here = shares.iter().filter(|share| share.host == host);
        HostMemoryLimit {
            mem: share_kb(here.clone(), "mem"),
            vmem: share_kb(here, "vmem"),
        }
    }
}

/// Returns the total of `mem` or `vmem` over shares on one host, in kilobytes. None (no limit) if a
/// share does not request the resource, or if the total is 0.
fn share_kb<'a>(shares: impl Iterator<Item = &'a NodeShare>, name: &str) -> Option<u64> {
    let mut sum = 0;
    for share in shares {
        let (_, value) = share.taken.iter().find(|(taken, _)| taken == name)?;
        sum += kilobytes(Some(value))?;
    }
    (sum > 0).then_some(sum)
}

fn kilobytes(value: Option<&ResourceValue>) -> Option<u64> {
    match value {
        Some(ResourceValue::Size(size)) => Some(size.bytes().div_ceil(1024)),
        _ => None,
    }
}

fn time(list: &ResourceList, name: &str) -> Option<Span> {
    match list.get(name) {
        Some(ResourceValue::Time(span)) => Some(*span),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::Size;

    #[test]
    fn a_warning_has_a_signal_and_a_time_before_the_end() {
        let read = |text| Warning::parse(text).map(|warning| (warning.signal, warning.before));
        assert_eq!(read("USR1@120"), Some((10, Span::seconds(120))));
        assert_eq!(read("SIGTERM@1:00:00"), Some((15, Span::seconds(3600))));
        assert_eq!(read("2@0:30"), Some((2, Span::seconds(30))));
        for bad in [
            "", "USR1", "@5", "USR1@", "USR1@x", "0@5", "NOSUCH@5", "USR1@-5", "USR1@0",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_host_has_a_limit_only_if_each_share_requests_memory() {
        let share = |mem: Option<&str>| {
            let taken = mem.map(|text| {
                (
                    "mem".to_string(),
                    ResourceValue::Size(Size::parse(text).unwrap()),
                )
            });
            let taken = taken.into_iter().collect();
            NodeShare {
                node: "n".into(),
                host: "n".into(),
                taken,
                cpus: vec![],
                gpus: vec![],
                mpiprocs: 1,
                pooled: vec![],
                ranks: vec![],
            }
        };
        let sum = |mems: &[Option<&str>]| {
            let shares: Vec<NodeShare> = mems.iter().map(|mem| share(*mem)).collect();
            share_kb(shares.iter(), "mem")
        };
        assert_eq!(sum(&[Some("1mb"), Some("500kb")]), Some(1524));
        assert_eq!(sum(&[Some("1mb"), None]), None);
        assert_eq!(sum(&[]), None);
        assert_eq!(sum(&[Some("1b")]), Some(1));
    }
}
