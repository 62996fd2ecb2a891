//! What `qmgr` has said: a row for each object, in the order in which they were named first.

use super::{Spool, SpoolError, SpoolReader};
use crate::config::overrides::{QmgrObject, QmgrOverride, QmgrOverrides};
use rusqlite::{Connection, Transaction, params};

/// The table; a target and what was said of it are JSON.
pub(super) const SCHEMA: &str = "CREATE TABLE amendment (place INTEGER PRIMARY KEY, target TEXT NOT NULL UNIQUE, said TEXT NOT NULL);";

impl Spool {
    /// All that was said.
    pub fn overrides(&self) -> Result<QmgrOverrides, SpoolError> {
        all(&self.connection)
    }
}

impl SpoolReader {
    /// All that was said.
    pub fn amendments(&self) -> Result<QmgrOverrides, SpoolError> {
        all(&self.connection)
    }
}

fn all(connection: &Connection) -> Result<QmgrOverrides, SpoolError> {
    let mut statement = connection.prepare("SELECT target, said FROM amendment ORDER BY place")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let texts: Vec<(String, String)> = rows.collect::<Result<_, _>>()?;
    let read = |(target, said): &(String, String)| {
        let pair: (QmgrObject, QmgrOverride) =
            (serde_json::from_str(target)?, serde_json::from_str(said)?);
        Ok::<_, SpoolError>(pair)
    };
    Ok(QmgrOverrides {
        all: texts.iter().map(read).collect::<Result<_, _>>()?,
    })
}

pub(super) fn write(
    transaction: &Transaction,
    amendments: &QmgrOverrides,
) -> Result<(), SpoolError> {
    transaction.execute("DELETE FROM amendment", [])?;
    for (target, said) in &amendments.all {
        let row = params![serde_json::to_string(target)?, serde_json::to_string(said)?];
        transaction
            .prepare_cached("INSERT INTO amendment (target, said) VALUES (?1, ?2)")?
            .execute(row)?;
    }
    Ok(())
}
