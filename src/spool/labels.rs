//! Jobs by the label they carry (Q29), in the history too. A job without one costs nothing: it is
//! in no index.

use super::{Spool, SpoolError};
use crate::model::job::dependency::label::Mark;
use crate::model::job_id::JobId;
use rusqlite::OptionalExtension;

/// What a job carries: `group:label`.
pub(super) const SCHEMA: &str = "ALTER TABLE job ADD COLUMN label TEXT;
    CREATE INDEX job_label ON job (uid, label, id) WHERE label IS NOT NULL;";

impl Spool {
    /// The job that carries a mark and was submitted last, but for this one.
    pub fn labelled(&self, mark: &Mark, but: Option<JobId>) -> Result<Option<JobId>, SpoolError> {
        let sql = "SELECT id, is_array FROM job WHERE uid = ?1 AND label = ?2 AND id <> ?3 ORDER BY id DESC LIMIT 1";
        let but = but.map_or(-1, super::load::number);
        let mut statement = self.connection.prepare_cached(sql)?;
        let row = |row: &rusqlite::Row| Ok((row.get::<_, u64>(0)?, row.get::<_, bool>(1)?));
        let found = statement
            .query_row((mark.uid, &mark.text, but), row)
            .optional()?;
        Ok(found.map(|(number, is_array)| {
            if is_array {
                JobId::array(number)
            } else {
                JobId::job(number)
            }
        }))
    }
}
