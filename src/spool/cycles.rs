//! The last looks of the scheduler, each with why it was made: a ring of rows, so that none has to
//! be looked for to be taken away.

use super::{Spool, SpoolError};
use crate::model::trigger::CycleRecord;
use rusqlite::{Connection, Transaction, params};

/// The table; a record is JSON, its place its number by the length of the ring.
pub(super) const SCHEMA: &str = "CREATE TABLE cycle (place INTEGER PRIMARY KEY, number INTEGER NOT NULL, record TEXT NOT NULL);";

impl Spool {
    /// The number of the last look that is known; 0 for none.
    pub fn last_cycle(&self) -> Result<u64, SpoolError> {
        let sql = "SELECT coalesce(max(number), 0) FROM cycle";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }
}

/// All that are known, the first first.
pub(super) fn all(connection: &Connection) -> Result<Vec<CycleRecord>, SpoolError> {
    let mut statement = connection.prepare("SELECT record FROM cycle ORDER BY number")?;
    let texts: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    texts
        .iter()
        .map(|text| Ok(serde_json::from_str(text)?))
        .collect()
}

pub(super) fn write(transaction: &Transaction, record: &CycleRecord) -> Result<(), SpoolError> {
    let sql = "INSERT OR REPLACE INTO cycle (place, number, record) VALUES (?1, ?2, ?3)";
    let row = params![
        record.number % CycleRecord::KEPT,
        record.number,
        serde_json::to_string(record)?
    ];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}
