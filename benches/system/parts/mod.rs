//! The parts of the measurement.

pub mod array;
pub mod latency;
pub mod queue;
pub mod submit;
pub mod through;

use super::Scale;
use super::machine::Limits;
use super::report::Report;
use anyhow::Result;

/// Measures a part and adds its figures to the report.
pub type Part = fn(&Scale, &Limits, &mut Report) -> Result<()>;
