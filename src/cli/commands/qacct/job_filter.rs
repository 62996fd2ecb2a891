//! The operands of `-j`, and whether accounting entries were found for each of them.

use crate::cli::client::operand::Operand;
use crate::model::job_id::JobId;
use std::collections::BTreeMap;

/// Selects accounting entries by the operands of `-j`.
#[derive(Debug, Default)]
pub struct JobFilter {
    /// The operands, each with true if an entry was found.
    named: Vec<(Operand, bool)>,
    /// Indices into `named` by job number.
    by_number: BTreeMap<u64, Vec<usize>>,
}

impl JobFilter {
    /// A filter for these operands; no entries have been found.
    pub fn new(operands: Vec<Operand>) -> JobFilter {
        let mut by_number: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, operand) in operands.iter().enumerate() {
            by_number.entry(operand.id().number).or_default().push(at);
        }
        JobFilter {
            named: operands
                .into_iter()
                .map(|operand| (operand, false))
                .collect(),
            by_number,
        }
    }

    /// The ids to query.
    pub fn ids(&self) -> Vec<JobId> {
        self.named.iter().map(|(operand, _)| operand.id()).collect()
    }

    /// True if at least one operand matches this job. Marks all matching operands as found.
    pub fn mark(&mut self, id: JobId) -> bool {
        let mut is_match = false;
        for &at in self.by_number.get(&id.number).into_iter().flatten() {
            let (operand, is_found) = &mut self.named[at];
            if matches(operand, id) {
                (is_match, *is_found) = (true, true);
            }
        }
        is_match
    }

    /// The operands without an entry.
    pub fn missing(&self) -> impl Iterator<Item = &Operand> {
        self.named
            .iter()
            .filter(|(_, is_found)| !is_found)
            .map(|(operand, _)| operand)
    }
}

/// True if an operand matches the job. The id of an array, with or without `[]`, matches all its
/// subjobs; a range matches the subjobs in the range.
fn matches(operand: &Operand, id: JobId) -> bool {
    let wanted = operand.id();
    if wanted.number != id.number || wanted.index().is_some() && wanted != id {
        return false;
    }
    match (operand.only(), id.index()) {
        (Some(only), Some(index)) => only.position(index).is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn an_array_matches_all_its_subjobs_and_a_range_those_within() {
        let operands = ["7", "8[]", "9[2-5]", "9[7]", "10"]
            .map(|text| Operand::parse(OsStr::new(text)).unwrap());
        let mut wanted = JobFilter::new(operands.to_vec());
        let mut is_match = |number, index| match index {
            Some(index) => wanted.mark(JobId::element(number, index)),
            None => wanted.mark(JobId::job(number)),
        };
        assert!(is_match(7, None) && is_match(8, Some(3)) && is_match(9, Some(5)));
        assert!(!is_match(9, Some(6)) && !is_match(11, None));
        let missing: Vec<String> = wanted
            .missing()
            .map(|operand| operand.full("head"))
            .collect();
        assert_eq!(missing, ["9[7].head", "10.head"]);
    }
}
