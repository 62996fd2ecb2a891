//! Retries with a larger request (`-W retry_mem=`, `-W retry_walltime=`): if an attempt ends because
//! it exceeded its memory or its walltime, the next attempt requests more.

use super::Spec;
use super::attempt::{How, RunLimit};
use serde::{Deserialize, Serialize};

/// Growth of a request after an attempt that exceeded a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The exceeded resource.
    pub exceeded: &'static str,
    /// The resources that grow, those that the job requests.
    pub resources: &'static [&'static str],
    /// Factor of each amount, at least 1.
    pub factor: f64,
}

/// Changed amount of one resource of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownResource {
    /// Name of the resource.
    pub resource: String,
    /// Amount of the earlier attempt, as displayed.
    pub from: String,
    /// Amount of the next attempt, as displayed.
    pub to: String,
}

impl Growth {
    /// Attribute with the factor for memory.
    pub const MEMORY: &'static str = "retry_mem";
    /// Attribute with the factor for the walltime.
    pub const WALLTIME: &'static str = "retry_walltime";
    /// Largest accepted factor.
    const LARGEST: f64 = 1000.0;
    /// Resources that the factor for memory multiplies. All of them grow, because a job that
    /// exceeds one memory limit would exceed the others next.
    const MEMORIES: &'static [&'static str] = &["mem", "vmem", "pmem", "pvmem"];

    /// Returns the growth of a job's request after an attempt with this end. None if the end is no
    /// exceeded memory limit or walltime, or if the job has no factor for this limit or no retries.
    pub fn after(spec: &Spec, how: &How) -> Option<Growth> {
        let (attribute, exceeded, resources) = match how {
            How::Overran { .. } => (Growth::WALLTIME, "walltime", &["walltime"][..]),
            How::Exceeded { bound, .. } => match bound {
                RunLimit::Mem | RunLimit::Pmem | RunLimit::Vmem => {
                    (Growth::MEMORY, bound.name(), Growth::MEMORIES)
                }
                RunLimit::Cput | RunLimit::Processes => return None,
            },
            _ => return None,
        };
        let factor = Growth::factor(spec.other.get(attribute)?)?;
        (spec.retry > 0).then_some(Growth {
            exceeded,
            resources,
            factor,
        })
    }

    /// Parses a factor: a decimal number from 1 to 1000, without sign and exponent.
    pub fn factor(text: &str) -> Option<f64> {
        let is_decimal = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let factor = text.parse().ok().filter(|_| is_decimal);
        factor.filter(|factor| (1.0..=Growth::LARGEST).contains(factor))
    }

    /// Returns the attribute with a factor that has no effect because the job has no retries.
    pub fn without_retry(spec: &Spec) -> Option<&'static str> {
        let mut attributes = [Growth::MEMORY, Growth::WALLTIME].into_iter();
        attributes.find(|name| spec.retry == 0 && spec.other.contains_key(*name))
    }
}

impl GrownResource {
    /// Formats changes as `mem=1536mb instead of 1gb`.
    pub fn list(changes: &[GrownResource]) -> String {
        let one = |change: &GrownResource| {
            format!(
                "{}={} instead of {}",
                change.resource, change.to, change.from
            )
        };
        changes.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::{Digest, JobProgram};
    use crate::model::time::Span;

    fn spec(retry: u32, factors: &[(&str, &str)]) -> Spec {
        let mut spec = Spec::new(
            JobProgram::Command(Vec::new()),
            Digest([0; 32]),
            Default::default(),
        );
        spec.retry = retry;
        spec.other = factors
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        spec
    }

    #[test]
    fn a_factor_is_a_decimal_number_from_1() {
        assert_eq!(
            ["1", "1.5", "2.", "1000"].map(Growth::factor),
            [Some(1.0), Some(1.5), Some(2.0), Some(1000.0)]
        );
        for bad in [
            "", "0.9", "0", "-2", "+2", "1e2", "inf", "nan", "2x", "1000.1", "1,5",
        ] {
            assert_eq!(Growth::factor(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_memory_and_walltime_let_a_request_grow() {
        let over = |bound| How::Exceeded {
            bound,
            used: 2,
            limit: 1,
        };
        let overran = How::Overran {
            used: Span(2),
            limit: Span(1),
        };
        let both = spec(1, &[("retry_mem", "1.5"), ("retry_walltime", "2")]);
        let factor = |how: &How| {
            let growth = Growth::after(&both, how)?;
            Some((growth.exceeded, growth.factor))
        };
        assert_eq!(factor(&over(RunLimit::Mem)), Some(("mem", 1.5)));
        assert_eq!(factor(&over(RunLimit::Pmem)), Some(("pmem", 1.5)));
        assert_eq!(factor(&over(RunLimit::Vmem)), Some(("vmem", 1.5)));
        assert_eq!(factor(&overran), Some(("walltime", 2.0)));
        for other in [
            over(RunLimit::Cput),
            over(RunLimit::Processes),
            How::Exited(1),
            How::Signaled(9),
        ] {
            assert_eq!(factor(&other), None, "{other:?}");
        }
        let memory = spec(1, &[("retry_mem", "1.5")]);
        assert_eq!(Growth::after(&memory, &overran), None);
        let never = spec(0, &[("retry_walltime", "2")]);
        assert_eq!(Growth::after(&never, &overran), None);
        assert_eq!(Growth::without_retry(&never), Some("retry_walltime"));
        assert_eq!(Growth::without_retry(&memory), None);
    }
}
