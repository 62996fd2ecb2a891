//! The resource component: the requested resources of a job (M15).

use crate::sched::priority::inputs::PriorityInputs;
use crate::sched::view::processor_equivalents::equivalents;
use crate::sched::view::shape::ClassKey;

/// The unit of memory, swap and disk.
const MEGABYTE: f64 = 1_048_576.0;

/// The requested resources of a job of a class: nodes (chunks), CPUs, memory, swap and disk in
/// megabytes, CPU seconds (CPUs times walltime), processor equivalents, and seconds of walltime.
pub fn values(inputs: &PriorityInputs, class: &ClassKey) -> [f64; 8] {
    let amount = |resource| inputs.amount(class, resource).unwrap_or(0.0);
    let (processors, walltime) = (amount("ncpus"), inputs.walltime(class).as_seconds() as f64);
    [
        class.shape.instances as f64,
        processors,
        amount("mem") / MEGABYTE,
        amount("swap") / MEGABYTE,
        amount("disk") / MEGABYTE,
        processors * walltime,
        equivalents(&class.shape, &inputs.state.cluster),
        walltime,
    ]
}
