//! The table of the last scheduling cycles and their triggers. The number of rows is limited: when
//! the table is full, a new cycle overwrites the oldest row.

use super::{Spool, SpoolError, load};
use crate::model::trigger::CycleRecord;
use rusqlite::{Connection, Transaction, params};

/// The table. A record is JSON; the place of a cycle is its number modulo [`CycleRecord::KEPT`].
pub(super) const SCHEMA: &str = "CREATE TABLE cycle (place INTEGER PRIMARY KEY, number INTEGER NOT NULL, record TEXT NOT NULL);";

impl Spool {
    /// The number of the last recorded cycle; 0 if no cycle is recorded.
    pub fn last_cycle(&self) -> Result<u64, SpoolError> {
        let sql = "SELECT coalesce(max(number), 0) FROM cycle";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }
}

/// The recorded cycles, oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<CycleRecord>, SpoolError> {
    load::records(connection, "SELECT record FROM cycle ORDER BY number")
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
