//! The spool: the durable copy of schedd's state, a SQLite database. All SQL of Lanai is in this
//! module.
//!
//! Only schedd writes; it holds the [`lock`]. All changes of one turn of schedd's loop (a tick) are
//! one transaction ([`commit`]). Readers see the last committed transaction ([`query`]).

mod accounting;
mod actions;
mod charges;
pub mod commit;
mod cycles;
pub mod dependencies;
mod history_purge;
mod license_reports;
pub mod load;
pub mod lock;
pub mod migrations;
mod overrides;
pub mod query;
mod reservations;
pub mod scripts;
mod trace;

use crate::sys::filesystem;
use crate::sys::home::Home;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reason why the spool cannot be used, or why a change was not written.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The spool's file system is full, or a disk quota is used up.
    #[error("no space left for the spool: make space on the spool's file system")]
    Full,
    /// The spool's file system is read-only.
    #[error("the spool's file system is read-only: remount {} read-write", .0.display())]
    ReadOnly(PathBuf),
    /// No file descriptor is left.
    #[error("no file descriptor is left: raise the limit (ulimit -n, LimitNOFILE= of the service)")]
    Descriptors,
    /// The file is not a SQLite database, or is a database of another program.
    #[error("not a Lanai spool: move this file away, or set LANAI_HOME to another directory")]
    Foreign,
    /// The spool was written by a newer Lanai.
    #[error(
        "the spool was written by a newer Lanai (schema {version}, supported {current}): run the \
         newer version"
    )]
    Newer {
        /// The schema of the file.
        version: i64,
        /// The newest schema that this version of Lanai supports.
        current: usize,
    },
    /// The schema is older; only schedd migrates spools.
    #[error(
        "the spool has the older schema {version} (current: {current}): start schedd once to \
         upgrade the spool"
    )]
    Older {
        /// The schema of the file.
        version: usize,
        /// The newest schema that this version of Lanai supports.
        current: usize,
    },
    /// A row cannot be parsed.
    #[error("the spool contains a damaged record: {0}")]
    Damaged(#[from] serde_json::Error),
    /// Any other SQLite error.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
    /// An error of the file system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<rusqlite::Error> for SpoolError {
    fn from(error: rusqlite::Error) -> SpoolError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => SpoolError::Full,
            Some(ErrorCode::NotADatabase) => SpoolError::Foreign,
            _ => SpoolError::Sqlite(error),
        }
    }
}

impl SpoolError {
    /// Converts an error of an operation on a file of the spool in `folder`.
    pub fn of_file(error: io::Error, folder: &Path) -> SpoolError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SpoolError::Full,
            ErrorKind::ReadOnlyFilesystem => SpoolError::ReadOnly(folder.to_path_buf()),
            _ if filesystem::lacks_descriptors(&error) => SpoolError::Descriptors,
            _ => SpoolError::Io(error),
        }
    }

    /// Replaces a vague SQLite error by the cause that a test write finds, because SQLite's error
    /// code does not distinguish a read-only file system, a lack of file descriptors and a broken
    /// disk. If the test write succeeds, the error stays unchanged.
    fn explained(self, folder: &Path) -> SpoolError {
        let SpoolError::Sqlite(error) = &self else {
            return self;
        };
        let is_vague = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        );
        match filesystem::probe(folder) {
            Err(cause) if is_vague => SpoolError::of_file(cause, folder),
            _ => self,
        }
    }
}

/// The database file.
pub fn file(home: &Home) -> PathBuf {
    home.spool().join("spool.db")
}

/// The write-ahead log of the database, which grows until a checkpoint has copied all of it.
pub fn log(home: &Home) -> PathBuf {
    home.spool().join("spool.db-wal")
}

/// The writer's connection to the spool (see [`commit`] and [`load`]).
#[derive(Debug)]
pub struct Spool {
    connection: Connection,
    folder: PathBuf,
}

impl Spool {
    /// Opens the spool, or creates it, and migrates its schema. The caller must hold the [`lock`].
    pub fn open(file: &Path) -> Result<Spool, SpoolError> {
        let mut connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // A separate connection runs checkpoints, so commits do not wait for them.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.set_prepared_statement_cache_capacity(64);
        migrations::run(&mut connection)?;
        Ok(Spool {
            connection,
            folder: folder_of(file),
        })
    }
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_path_buf()
}

/// A reader's connection to the spool (see [`query`]).
#[derive(Debug)]
pub struct SpoolReader {
    connection: Connection,
    folder: PathBuf,
}

impl SpoolReader {
    /// Opens the spool; None if the file does not exist.
    pub fn open(file: &Path) -> Result<Option<SpoolReader>, SpoolError> {
        if !file.try_exists()? {
            return Ok(None);
        }
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        migrations::check(&connection)?;
        Ok(Some(SpoolReader {
            connection,
            folder: folder_of(file),
        }))
    }
}

/// A connection that checkpoints the spool's log while schedd commits.
#[derive(Debug)]
pub struct Checkpointer {
    connection: Connection,
}

impl Checkpointer {
    /// Opens the spool.
    pub fn open(file: &Path) -> Result<Checkpointer, SpoolError> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Checkpointer { connection })
    }

    /// Copies the log to the database file as far as readers allow, without blocking the writer.
    pub fn checkpoint(&self) -> Result<(), SpoolError> {
        checkpoint(&self.connection)
    }
}

impl Spool {
    /// Copies the part of the log that was written since the [`Checkpointer`] ran. Only the writer
    /// can ensure that nothing is added during the copy. A log that is completely copied is
    /// overwritten from the beginning instead of growing.
    pub fn finish_checkpoint(&self) -> Result<(), SpoolError> {
        checkpoint(&self.connection)
    }
}

fn checkpoint(connection: &Connection) -> Result<(), SpoolError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_and_newer_spools_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spool.db");
        let error = |file: &Path| Spool::open(file).map(|_| ()).unwrap_err().to_string();
        Connection::open(&file)
            .unwrap()
            .execute_batch("CREATE TABLE cats (name TEXT)")
            .unwrap();
        assert!(error(&file).contains("not a Lanai spool"));
        std::fs::write(&file, "x".repeat(5000)).unwrap();
        assert!(error(&file).contains("not a Lanai spool"));
        std::fs::remove_file(&file).unwrap();
        Spool::open(&file)
            .unwrap()
            .connection
            .pragma_update(None, "user_version", 999)
            .unwrap();
        assert!(error(&file).contains("newer Lanai"));
    }
}
