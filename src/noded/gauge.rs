//! The actual use of this host by jobs and other processes (M6, M7): load, memory and swap. noded
//! measures the use periodically, and reports noticeable changes to schedd.

use super::probe::Hardware;
use crate::model::node::NodeFacts;
use crate::model::resource::{ResourceList, ResourceValue, Size};
use crate::sys::sensors;

/// The smallest change of the load that is reported, in thousandths of a processor.
const MIN_LOAD_CHANGE: u32 = 250;
/// On hosts with many processors, only changes of the load by at least 1 / `LOAD_STEPS` of the
/// number of processors are reported.
const LOAD_STEPS: u32 = 50;
/// Changes of the used memory or swap are reported only above 1 / `MEMORY_STEPS` of the memory.
const MEMORY_STEPS: u64 = 64;
/// Load in thousandths that does not count as use, because no host is completely idle.
const IDLE: u32 = 100;

/// A measurement of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The load average over one minute, in thousandths.
    pub load: u32,
    /// Memory in use, in kilobytes.
    pub mem_kb: u64,
    /// Swap space in use, in kilobytes.
    pub swap_kb: u64,
}

impl Measured {
    /// Measures the host; None if the kernel does not provide the load or the use of memory.
    pub fn now() -> Option<Measured> {
        let (load, mem_kb) = (sensors::load()?, sensors::memory_in_use_kb()?);
        Some(Measured {
            load,
            mem_kb,
            swap_kb: sensors::swap_in_use_kb().unwrap_or(0),
        })
    }
}

/// Compares measurements with the last reported measurement.
#[derive(Debug)]
pub struct Gauge {
    reported: Measured,
    processors: u32,
    memory_kb: u64,
}

impl Gauge {
    /// Creates a gauge that has not reported a measurement yet.
    pub fn new(hardware: &Hardware) -> Gauge {
        let (processors, memory_kb) = (hardware.host_processors, hardware.memory_kb);
        Gauge {
            reported: Measured::default(),
            processors,
            memory_kb,
        }
    }

    /// Whether a measurement differs noticeably from the last reported measurement. If so, it
    /// counts as reported, and the caller must report it.
    pub fn is_news(&mut self, measured: Measured) -> bool {
        let min_change = MIN_LOAD_CHANGE.max(self.processors.saturating_mul(1000) / LOAD_STEPS);
        let step = self.memory_kb / MEMORY_STEPS;
        let news = measured.load.abs_diff(self.reported.load) >= min_change
            || measured.mem_kb.abs_diff(self.reported.mem_kb) > step
            || measured.swap_kb.abs_diff(self.reported.swap_kb) > step;
        if news {
            self.reported = measured;
        }
        news
    }
}

/// Divides a measurement equally among the nodes of this host.
pub fn set_use(nodes: &mut [NodeFacts], measured: Measured) {
    let count = nodes.len().max(1) as u64;
    let load = (u64::from(measured.load)).div_ceil(count) as u32;
    let memory = Size::kilobytes(measured.mem_kb.div_ceil(count));
    let swap = Size::kilobytes(measured.swap_kb.div_ceil(count));
    let utilized = ResourceList::from([
        ("mem".to_string(), ResourceValue::Size(memory)),
        ("ncpus".to_string(), ResourceValue::Long(processors(load))),
        ("swap".to_string(), ResourceValue::Size(swap)),
    ]);
    for node in nodes {
        (node.load, node.utilized) = (load, utilized.clone());
    }
}

/// The number of processors in use at a load in thousandths: the load above [`IDLE`], rounded up.
fn processors(load: u32) -> i64 {
    i64::from(load.saturating_sub(IDLE).div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge() -> Gauge {
        Gauge {
            reported: Measured::default(),
            processors: 4,
            memory_kb: 64_000,
        }
    }

    fn measured(load: u32, mem_kb: u64) -> Measured {
        Measured {
            load,
            mem_kb,
            swap_kb: 0,
        }
    }

    #[test]
    fn the_load_above_an_idle_load_is_rounded_up_to_processors() {
        // M7: a load of 1.6 means two processors in use; 2.4 and 2.8 mean three.
        let counted: Vec<i64> = [0, 100, 101, 1000, 1100, 1600, 2400, 2800]
            .map(processors)
            .to_vec();
        assert_eq!(counted, [0, 0, 1, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn only_a_noticeable_change_since_the_last_report_is_reported() {
        let mut gauge = gauge();
        assert!(gauge.is_news(measured(1000, 10_000)));
        for (load, mem_kb) in [(1000, 10_000), (1249, 11_000), (751, 9_000)] {
            assert!(!gauge.is_news(measured(load, mem_kb)), "{load} {mem_kb}");
        }
        assert!(gauge.is_news(measured(1250, 10_000)));
        assert!(
            !gauge.is_news(measured(1200, 10_000)),
            "compared with the last report, not with the last measurement"
        );
        assert!(gauge.is_news(measured(1200, 11_001)));
        assert!(gauge.is_news(Measured {
            swap_kb: 1001,
            ..measured(1200, 11_001)
        }));
    }

    #[test]
    fn on_many_processors_only_larger_changes_of_the_load_are_reported() {
        let mut gauge = Gauge {
            processors: 256,
            ..gauge()
        };
        assert!(!gauge.is_news(measured(5119, 0)));
        assert!(gauge.is_news(measured(5120, 0)));
    }

    #[test]
    fn the_use_of_a_host_is_divided_equally_among_its_nodes() {
        let mut nodes = vec![NodeFacts::default(); 2];
        set_use(
            &mut nodes,
            Measured {
                load: 3000,
                mem_kb: 1001,
                swap_kb: 0,
            },
        );
        assert_eq!(
            (nodes[0].load, &nodes[0].utilized["ncpus"]),
            (1500, &ResourceValue::Long(2))
        );
        assert_eq!(
            (nodes[1].utilized["mem"].to_string(), nodes[1].load),
            ("501kb".to_string(), 1500)
        );
    }
}
