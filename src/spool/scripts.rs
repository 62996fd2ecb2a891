//! Large scripts: files in the directory `scripts` of the spool. The name of a file is the digest
//! of the script.
//!
//! A file is written before the transaction that stores the first job with the script. After a
//! crash between these two writes, no job uses the file. Unused files are removed later.

use super::{Spool, SpoolError, SpoolReader, load};
use crate::model::job::Digest;
use crate::sys::{fault, filesystem};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Minimum size in bytes of a script that is stored as a file. Smaller scripts are database rows.
pub const SMALLEST: usize = 256 << 10;

/// The name extension of an incomplete file.
const PART: &str = "part";

/// The directory of a spool's large scripts. Only one thread may write to the directory.
#[derive(Clone, Debug)]
pub struct ScriptFolder {
    spool: PathBuf,
    folder: PathBuf,
}

impl ScriptFolder {
    /// The directory for the scripts of the spool in directory `spool`.
    pub fn of(spool: &Path) -> ScriptFolder {
        ScriptFolder {
            spool: spool.to_path_buf(),
            folder: spool.join("scripts"),
        }
    }

    /// Writes a script and waits until the file is on disk.
    pub fn store(&self, bytes: &[u8]) -> Result<Digest, SpoolError> {
        let digest = Digest::of(bytes);
        let path = self.path(digest);
        self.write(&path, bytes)
            .map_err(|error| self.explain(error, &path))?;
        Ok(digest)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.make_folder()?;
        if !fs::read(path).is_ok_and(|found| found == bytes) {
            let part = path.with_extension(PART);
            let written = write_part(&part, bytes).and_then(|()| fs::rename(&part, path));
            if written.is_err() {
                let _ = fs::remove_file(&part);
            }
            written?;
        }
        fault::point("script.renamed")?;
        // Sync the directory even if the file existed, because the file's name may not be on disk
        // yet.
        sync(&self.folder)?;
        fault::point("script.stored")
    }

    fn make_folder(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        filesystem::make_private(&self.folder)?;
        sync(&self.spool)
    }

    /// The bytes of a script; None if the script has no file.
    pub fn read(&self, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
        let path = self.path(digest);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.explain(error, &path)),
        }
    }

    /// Removes a script. A missing file is no error.
    pub fn remove(&self, digest: Digest) -> Result<(), SpoolError> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.explain(error, &path)),
            _ => Ok(()),
        }
    }

    /// Removes all files except the scripts that a job in the database uses, or for which `is_kept`
    /// is true. Does nothing if there is no database.
    pub fn remove_unused<F>(&self, database: &Path, is_kept: F) -> Result<(), SpoolError>
    where
        F: Fn(Digest) -> bool,
    {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(());
        }
        let in_use = match SpoolReader::open(database)? {
            Some(reader) => reader.scripts()?,
            None => return Ok(()),
        };
        for name in names {
            let is_needed =
                digest_of(&name).is_some_and(|digest| in_use.contains(&digest) || is_kept(digest));
            if !is_needed {
                let path = self.folder.join(&name);
                fs::remove_file(&path).map_err(|error| self.explain(error, &path))?;
            }
        }
        Ok(())
    }

    /// The names of all files in the directory.
    fn names(&self) -> Result<Vec<String>, SpoolError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| self.explain(error, &self.folder))?,
        };
        let names: io::Result<Vec<String>> = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.map_err(|error| self.explain(error, &self.folder))
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(name_of(digest))
    }

    fn explain(&self, error: io::Error, path: &Path) -> SpoolError {
        match SpoolError::of_file(error, &self.spool) {
            SpoolError::Io(error) => SpoolError::Io(io::Error::new(
                error.kind(),
                format!("{}: {error}", path.display()),
            )),
            error => error,
        }
    }
}

fn write_part(part: &Path, bytes: &[u8]) -> io::Result<()> {
    fault::point("script.create")?;
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(part)?;
    file.write_all(bytes)?;
    fault::point("script.sync")?;
    file.sync_all()?;
    fault::point("script.rename")
}

/// Waits until the names in a directory are on disk.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn name_of(digest: Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest in the name of a script's file; None for other files.
fn digest_of(name: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Digest(bytes)).filter(|digest| name_of(*digest) == name)
}

impl Spool {
    /// The script stored under a digest, in the database or in a file.
    pub fn script(&self, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
        script(&self.connection, &self.folder, digest)
    }
}

/// The script stored under a digest, in the database or in a file of the spool's directory.
pub(super) fn script(
    connection: &Connection,
    folder: &Path,
    digest: Digest,
) -> Result<Option<Vec<u8>>, SpoolError> {
    match load::blob(connection, digest)? {
        Some(bytes) => Ok(Some(bytes)),
        None => ScriptFolder::of(folder).read(digest),
    }
}

impl SpoolReader {
    /// The digests of the scripts of all jobs.
    fn scripts(&self) -> Result<BTreeSet<Digest>, SpoolError> {
        let sql = "SELECT DISTINCT script FROM job WHERE script IS NOT NULL";
        let mut statement = self.connection.prepare(sql)?;
        let digests = statement.query_map([], |row| Ok(Digest(row.get(0)?)))?;
        Ok(digests.collect::<Result<_, _>>()?)
    }

    /// Tests whether a job has this script. The search begins with the newest job, and is therefore
    /// fast for scripts of new jobs.
    pub fn has_script(&self, digest: Digest) -> Result<bool, SpoolError> {
        let sql = "SELECT 1 FROM job WHERE script = ?1 ORDER BY id DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement
            .query_row([digest.0], |_| Ok(()))
            .optional()?
            .is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::{Job, JobProgram, Spec};
    use crate::sched::fixture::cluster;
    use crate::update::Update;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    const DATABASE: &str = "spool.db";

    fn job_with(script: Digest) -> Update {
        let mut job: Job = cluster("1 x ncpus=1").job(7, "select=1:ncpus=1");
        job.spec = Arc::new(Spec {
            program: JobProgram::Script(script),
            ..Spec::clone(&job.spec)
        });
        Update::Job(Arc::new(job), None)
    }

    #[test]
    fn a_stored_script_is_private_and_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let scripts = ScriptFolder::of(folder.path());
        let bytes: Vec<u8> = (0..=255).cycle().take(SMALLEST).collect();
        let digest = scripts.store(&bytes).unwrap();
        assert_eq!(scripts.read(digest).unwrap(), Some(bytes.clone()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&scripts.folder), mode(&scripts.path(digest))),
            (0o700, 0o600)
        );
        fs::write(scripts.path(digest), "damaged").unwrap();
        scripts.store(&bytes).unwrap();
        assert_eq!(
            scripts.read(digest).unwrap(),
            Some(bytes),
            "a damaged file is written again"
        );
        scripts.remove(digest).unwrap();
        assert_eq!(scripts.read(digest).unwrap(), None);
        scripts.remove(digest).unwrap();
    }

    #[test]
    fn an_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let scripts = ScriptFolder::of(folder.path());
        let path = scripts.path(Digest::of(b"x"));
        fs::create_dir_all(&path).unwrap();
        let error = scripts.store(b"x").unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(!path.with_extension(PART).exists());
    }

    #[test]
    fn only_unused_scripts_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(DATABASE);
        let mut spool = Spool::open(&database).unwrap();
        let scripts = ScriptFolder::of(folder.path());
        scripts.remove_unused(&database, |_| false).unwrap();
        let texts = [b"used", b"kept", b"none"];
        let [used, kept, unused] = texts.map(|text| scripts.store(text).unwrap());
        fs::write(scripts.path(unused).with_extension(PART), "half").unwrap();
        spool.commit(&[job_with(used)]).unwrap();
        let reader = SpoolReader::open(&database).unwrap().unwrap();
        assert!(reader.has_script(used).unwrap() && !reader.has_script(kept).unwrap());
        scripts
            .remove_unused(&database, |digest| digest == kept)
            .unwrap();
        let mut left = scripts.names().unwrap();
        left.sort();
        let mut expected = [used, kept].map(name_of);
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(spool.script(used).unwrap(), Some(b"used".to_vec()));
        assert_eq!(spool.script(unused).unwrap(), None);
    }
}
