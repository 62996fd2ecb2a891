//! The last reported counts of system-wide resources, such as licenses. A report is valid until the
//! next report, even after a restart of schedd.

use super::{Spool, SpoolError};
use crate::model::system_resource::ReportedCount;
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// The table; a report is JSON.
pub(super) const SCHEMA: &str =
    "CREATE TABLE telling (resource TEXT PRIMARY KEY, telling TEXT NOT NULL) WITHOUT ROWID;";

impl Spool {
    /// The last report of each resource.
    pub fn license_reports(&self) -> Result<BTreeMap<String, ReportedCount>, SpoolError> {
        let mut statement = self
            .connection
            .prepare("SELECT resource, telling FROM telling")?;
        let mut rows = statement.query([])?;
        let mut reports = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let report: String = row.get(1)?;
            reports.insert(row.get(0)?, serde_json::from_str(&report)?);
        }
        Ok(reports)
    }
}

pub(super) fn write(
    transaction: &Transaction,
    resource: &str,
    report: Option<&ReportedCount>,
) -> Result<(), SpoolError> {
    let Some(report) = report else {
        transaction
            .prepare_cached("DELETE FROM telling WHERE resource = ?1")?
            .execute([resource])?;
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO telling (resource, telling) VALUES (?1, ?2)";
    transaction
        .prepare_cached(sql)?
        .execute(params![resource, serde_json::to_string(report)?])?;
    Ok(())
}
