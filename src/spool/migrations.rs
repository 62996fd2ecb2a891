//! The spool's schema, as a list of migration steps. schedd runs the steps that are newer than the
//! spool. Therefore a released step is never changed or removed.

use super::SpoolError;
use rusqlite::{Connection, TransactionBehavior};

/// `LANA`: the `PRAGMA application_id` of a spool.
const APPLICATION: i32 = 0x4c41_4e41;

/// Step n migrates `user_version` n to n + 1.
const STEPS: &[&str] = &[
    // In `job`, queries that list and filter jobs use the columns `state` to `ended`. `script` and
    // `environ` are digests: the table `blob` stores equal scripts and environments once. `spec`
    // and `life` have all other data of a job as JSON.
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
     CREATE TABLE clock (since INTEGER NOT NULL, ahead INTEGER NOT NULL);
     CREATE TABLE blob (digest BLOB PRIMARY KEY, bytes BLOB NOT NULL);
     CREATE TABLE job (
         id INTEGER PRIMARY KEY,
         state TEXT NOT NULL,
         owner TEXT NOT NULL,
         uid INTEGER NOT NULL,
         queue TEXT NOT NULL,
         name TEXT NOT NULL,
         cput INTEGER NOT NULL,
         class INTEGER,
         ended INTEGER,
         script BLOB,
         environ BLOB NOT NULL,
         spec TEXT NOT NULL,
         life TEXT NOT NULL);
     CREATE INDEX job_live ON job (id) WHERE state <> 'F';
     CREATE INDEX job_ended ON job (ended) WHERE state = 'F';
     CREATE TABLE token (
         uid INTEGER NOT NULL, token BLOB NOT NULL, job INTEGER NOT NULL, at INTEGER NOT NULL,
         PRIMARY KEY (uid, token)) WITHOUT ROWID;
     CREATE TABLE event (
         job INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, event TEXT NOT NULL,
         PRIMARY KEY (job, seq)) WITHOUT ROWID;
     CREATE TABLE verdict (class INTEGER PRIMARY KEY, reason TEXT NOT NULL);
     CREATE TABLE booking (job INTEGER PRIMARY KEY, at INTEGER NOT NULL, nodes TEXT NOT NULL);
     CREATE TABLE node (name TEXT PRIMARY KEY, node TEXT NOT NULL) WITHOUT ROWID;
     CREATE TABLE queue (name TEXT PRIMARY KEY, queue TEXT NOT NULL) WITHOUT ROWID;",
    // Arrays: subjob states as index ranges (`standing`), and a row in `element` for each subjob
    // that has ever started. `element.spec` is NULL if the subjob has the options of the array. In
    // events, `idx` is -1 for jobs that are not subjobs.
    "ALTER TABLE job ADD COLUMN is_array INTEGER NOT NULL DEFAULT 0;
     CREATE TABLE standing (
         job INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, standing TEXT NOT NULL,
         PRIMARY KEY (job, first)) WITHOUT ROWID;
     CREATE TABLE element (
         job INTEGER NOT NULL,
         idx INTEGER NOT NULL,
         state TEXT NOT NULL,
         cput INTEGER NOT NULL,
         class INTEGER,
         ended INTEGER,
         spec TEXT,
         life TEXT NOT NULL,
         PRIMARY KEY (job, idx)) WITHOUT ROWID;
     CREATE INDEX element_live ON element (job, idx) WHERE state <> 'F';
     CREATE TABLE happened (
         job INTEGER NOT NULL, idx INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, event TEXT NOT NULL,
         PRIMARY KEY (job, idx, seq)) WITHOUT ROWID;
     INSERT INTO happened SELECT job, -1, seq, at, event FROM event;
     DROP TABLE event;
     ALTER TABLE happened RENAME TO event;",
    super::dependencies::SCHEMA,
    super::history_purge::SCHEMA,
    // The index of the subjob that has the planned start; -1 for a job that is not a subjob.
    "ALTER TABLE booking ADD COLUMN idx INTEGER NOT NULL DEFAULT -1;",
    super::reservations::SCHEMA,
    // Some verdicts apply to all jobs with the same request.
    "ALTER TABLE job ADD COLUMN shape INTEGER;
     ALTER TABLE element ADD COLUMN shape INTEGER;",
    // Planned starts: `first` is the start that was planned first for the job.
    "DROP TABLE booking;
     CREATE TABLE promise (
         job INTEGER NOT NULL, idx INTEGER NOT NULL, at INTEGER NOT NULL, first INTEGER NOT NULL, nodes TEXT NOT NULL,
         PRIMARY KEY (job, idx)) WITHOUT ROWID;",
    super::charges::SCHEMA,
    super::overrides::SCHEMA,
    super::charges::FACTORS,
    super::accounting::SCHEMA,
    // `since`: the time since when the reason code of the verdict has not changed.
    "ALTER TABLE verdict ADD COLUMN since INTEGER NOT NULL DEFAULT 0;",
    super::charges::PARTS,
    // `earmark`: the time until which freed resources are held for the preempting job.
    "ALTER TABLE promise ADD COLUMN earmark INTEGER;",
    super::dependencies::LABELS,
    super::cycles::SCHEMA,
    super::license_reports::SCHEMA,
    super::charges::AMOUNTS,
    // No change of tables: large scripts are now files (`scripts`), which an older schedd would not
    // find. The new version number keeps an older schedd from using the spool.
    "",
    super::actions::SCHEMA,
];

/// Migrates the database to the newest schema; for a new file, runs all steps.
pub fn run(connection: &mut Connection) -> Result<(), SpoolError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let version = known_version(&transaction)?;
    for step in &STEPS[version..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", STEPS.len() as i64)?;
    Ok(transaction.commit()?)
}

/// Refuses a database that is not a spool, or has another schema version.
pub fn check(connection: &Connection) -> Result<(), SpoolError> {
    match known_version(connection)? {
        version if version == STEPS.len() => Ok(()),
        version => Err(SpoolError::Older {
            version,
            current: STEPS.len(),
        }),
    }
}

fn known_version(connection: &Connection) -> Result<usize, SpoolError> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if tables > 0 && application != i64::from(APPLICATION) {
        return Err(SpoolError::Foreign);
    }
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    usize::try_from(version)
        .ok()
        .filter(|&version| version <= STEPS.len())
        .ok_or(SpoolError::Newer {
            version,
            current: STEPS.len(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_of_any_older_schema_is_migrated() {
        for version in 0..STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            STEPS[..version]
                .iter()
                .for_each(|step| connection.execute_batch(step).unwrap());
            connection
                .pragma_update(None, "application_id", APPLICATION)
                .unwrap();
            connection
                .pragma_update(None, "user_version", version as i64)
                .unwrap();
            assert!(
                matches!(check(&connection), Err(SpoolError::Older { .. })),
                "{version}"
            );
            run(&mut connection).unwrap();
            check(&connection).unwrap();
            connection.execute_batch("SELECT * FROM tie").unwrap();
        }
    }
}
