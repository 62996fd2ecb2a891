//! What was last told of the resources of the whole system, by who knows: it holds until something
//! else is told, whatever becomes of schedd.

use super::{Spool, SpoolError};
use crate::model::system_resource::ReportedCount;
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// The table; what was told is JSON.
pub(super) const SCHEMA: &str =
    "CREATE TABLE telling (resource TEXT PRIMARY KEY, telling TEXT NOT NULL) WITHOUT ROWID;";

impl Spool {
    /// All that was told, by resource.
    pub fn license_reports(&self) -> Result<BTreeMap<String, ReportedCount>, SpoolError> {
        let mut statement = self
            .connection
            .prepare("SELECT resource, telling FROM telling")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let texts: Vec<(String, String)> = rows.collect::<Result<_, _>>()?;
        texts
            .into_iter()
            .map(|(resource, telling)| Ok((resource, serde_json::from_str(&telling)?)))
            .collect()
    }
}

pub(super) fn write(
    transaction: &Transaction,
    resource: &str,
    telling: Option<&ReportedCount>,
) -> Result<(), SpoolError> {
    let Some(telling) = telling else {
        transaction
            .prepare_cached("DELETE FROM telling WHERE resource = ?1")?
            .execute([resource])?;
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO telling (resource, telling) VALUES (?1, ?2)";
    transaction
        .prepare_cached(sql)?
        .execute(params![resource, serde_json::to_string(telling)?])?;
    Ok(())
}
