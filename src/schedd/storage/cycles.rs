//! The records of scheduling cycles, for `qstat --cycles`. They are written with the next commit of
//! other changes, when a client queries them, or when schedd exits. Therefore a cycle without
//! changes causes no write.

use crate::model::trigger::CycleRecord;
use crate::update::Update;
use std::collections::VecDeque;

/// The cycle records that are not in the spool yet.
pub struct Cycles {
    last: u64,
    unwritten: VecDeque<CycleRecord>,
}

impl Cycles {
    /// `last` is the number of the last stored record.
    pub fn new(last: u64) -> Cycles {
        Cycles {
            last,
            unwritten: VecDeque::new(),
        }
    }

    /// Adds a record and sets its number.
    pub fn add(&mut self, record: CycleRecord) {
        self.last += 1;
        self.unwritten.push_back(CycleRecord {
            number: self.last,
            ..record
        });
        // The spool keeps only this number of records, so older ones need not be written.
        if self.unwritten.len() as u64 > CycleRecord::KEPT {
            self.unwritten.pop_front();
        }
    }

    /// The updates for the records that are not in the spool yet.
    pub fn changes(&self) -> impl Iterator<Item = Update> {
        self.unwritten.iter().cloned().map(Update::Cycle)
    }

    /// Marks all records as written.
    pub fn written(&mut self) {
        self.unwritten.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;
    use crate::model::trigger::Triggers;

    #[test]
    fn cycles_are_numbered_and_unwritten_records_are_bounded() {
        let mut cycles = Cycles::new(7);
        let triggers = Triggers::default();
        let record = CycleRecord {
            number: 0,
            at: Time(1),
            triggers,
            considered: 0,
            started: 0,
            preempted: 0,
            took: 1,
        };
        (0..CycleRecord::KEPT + 5).for_each(|_| cycles.add(record.clone()));
        let rows: Vec<Update> = cycles.changes().collect();
        assert_eq!(rows.len() as u64, CycleRecord::KEPT);
        assert!(
            matches!(&rows[0], Update::Cycle(record) if record.number == 13),
            "{:?}",
            rows[0]
        );
        cycles.written();
        assert_eq!(cycles.changes().count(), 0);
    }
}
