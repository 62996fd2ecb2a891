//! Settings of `qmgr` that override the configuration: a row per object, such as a queue, in the
//! order of [`QmgrOverrides`].

use super::{Spool, SpoolError, SpoolReader};
use crate::config::overrides::QmgrOverrides;
use rusqlite::{Connection, Transaction, params};

/// The table. `target` is the object and `said` its settings; both are JSON.
pub(super) const SCHEMA: &str = "CREATE TABLE amendment (place INTEGER PRIMARY KEY, \
                                 target TEXT NOT NULL UNIQUE, said TEXT NOT NULL);";

impl Spool {
    /// All overrides.
    pub fn overrides(&self) -> Result<QmgrOverrides, SpoolError> {
        all(&self.connection)
    }
}

impl SpoolReader {
    /// All overrides.
    pub fn overrides(&self) -> Result<QmgrOverrides, SpoolError> {
        all(&self.connection)
    }
}

fn all(connection: &Connection) -> Result<QmgrOverrides, SpoolError> {
    let mut statement = connection.prepare("SELECT target, said FROM amendment ORDER BY place")?;
    let mut rows = statement.query([])?;
    let mut overrides = QmgrOverrides::default();
    while let Some(row) = rows.next()? {
        let (target, change): (String, String) = (row.get(0)?, row.get(1)?);
        overrides.all.push((
            serde_json::from_str(&target)?,
            serde_json::from_str(&change)?,
        ));
    }
    Ok(overrides)
}

pub(super) fn write(
    transaction: &Transaction,
    overrides: &QmgrOverrides,
) -> Result<(), SpoolError> {
    transaction.execute("DELETE FROM amendment", [])?;
    for (target, change) in &overrides.all {
        let row = params![
            serde_json::to_string(target)?,
            serde_json::to_string(change)?
        ];
        transaction
            .prepare_cached("INSERT INTO amendment (target, said) VALUES (?1, ?2)")?
            .execute(row)?;
    }
    Ok(())
}
