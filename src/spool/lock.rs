//! One schedd per spool: a lock held for life on the spool's folder, and beside it a record of
//! who holds it and where it listens, which clients follow.

use crate::sys::home::Home;
use crate::sys::{clock, filesystem};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Who holds the spool. Written by the holder once it listens; left behind by a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The host's name, for messages.
    pub host: String,
    /// The host's identity: its machine id, else its name.
    pub machine: String,
    /// The kernel's boot id.
    pub boot: String,
    /// The daemon's process.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
}

/// The lock, held as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

/// Why the spool cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another schedd of this host holds it.
    #[error("another schedd holds the spool {}", .0.display())]
    Held(PathBuf),
    /// A schedd of another host held it last and never left.
    #[error(
        "the spool {} is in use by schedd on host {host}. One spool serves one host: \
         give this one a folder of its own, e.g. export LANAI_HOME={remedy}; if that host is gone for good, \
         remove {}", folder.display(), record.display()
    )]
    OtherHost {
        /// The spool's folder.
        folder: PathBuf,
        /// The host that holds it.
        host: String,
        /// A folder that would do.
        remedy: String,
        /// The record to be removed.
        record: PathBuf,
    },
    /// A file system that several hosts share.
    #[error(
        "the spool {} lies on a network file system ({kind}), where neither locks nor the log can be trusted. \
         Use a folder on a local disk: export LANAI_HOME={remedy}", folder.display()
    )]
    Network {
        /// The spool's folder.
        folder: PathBuf,
        /// The file system's kind.
        kind: &'static str,
        /// A folder that would do.
        remedy: String,
    },
    /// The file system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// On what.
        path: PathBuf,
        /// What.
        error: io::Error,
    },
}

impl Lock {
    /// Takes the spool of `home`, making its folders; nobody else may hold it.
    pub fn take(home: &Home) -> Result<Lock, LockError> {
        let folder = home.spool();
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| LockError::Io { path, error }
        };
        filesystem::make_private(&folder).map_err(at(&folder))?;
        if let Some(kind) = filesystem::network(&folder).map_err(at(&folder))? {
            return Err(LockError::Network { folder, kind, remedy: local_folder() });
        }
        let path = folder.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => LockError::Held(folder.clone()),
            errno => LockError::Io { path: path.clone(), error: errno.into() },
        })?;
        refuse_other_host(home, &folder)?;
        Ok(Lock { _file: file })
    }
}

fn refuse_other_host(home: &Home, folder: &Path) -> Result<(), LockError> {
    match read(home) {
        Some(record) if record.machine != machine() => Err(LockError::OtherHost {
            folder: folder.to_path_buf(),
            host: record.host,
            remedy: local_folder(),
            record: home.record(),
        }),
        _ => Ok(()),
    }
}

/// A folder on the local disk that no other user and no other host shares.
fn local_folder() -> String {
    format!("/var/tmp/lanai-{}-{}", nix::unistd::geteuid(), host())
}

/// Whether somebody holds the spool of `home`.
pub fn is_held(home: &Home) -> bool {
    let Ok(file) = File::open(home.spool().join("lock")) else { return false };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

/// The record of who holds the spool, or held it last.
pub fn read(home: &Home) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(home.record()).ok()?).ok()
}

/// Writes the record; the caller holds the lock.
pub fn write(home: &Home, socket: &Path) -> io::Result<()> {
    let record = Record {
        host: host(),
        machine: machine(),
        boot: clock::boot_id(),
        pid: std::process::id(),
        socket: socket.to_path_buf(),
    };
    filesystem::replace(&home.record(), &serde_json::to_vec_pretty(&record)?, 0o644)
}

/// Removes the record: the holder leaves in order.
pub fn erase(home: &Home) {
    let _ = std::fs::remove_file(home.record());
}

/// This host's name.
pub fn host() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|_| "localhost".into())
}

/// What tells this host from others, also when they are named alike.
fn machine() -> String {
    let test = crate::sys::env::text("LANAI_TEST_MACHINE").filter(|_| cfg!(debug_assertions));
    let id = test.or_else(|| std::fs::read_to_string("/etc/machine-id").ok());
    id.map(|id| id.trim().to_string()).filter(|id| !id.is_empty()).unwrap_or_else(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> Home {
        Home { state: folder.into(), runtime: folder.into(), config: folder.join("lanai.toml"), system: false }
    }

    #[test]
    fn a_spool_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let first = Lock::take(&home).unwrap();
        assert!(matches!(Lock::take(&home), Err(LockError::Held(_))));
        assert!(is_held(&home));
        drop(first);
        assert!(!is_held(&home));
        Lock::take(&home).unwrap();
    }

    #[test]
    fn the_record_of_another_host_is_respected() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        drop(Lock::take(&home).unwrap());
        write(&home, Path::new("/s")).unwrap();
        drop(Lock::take(&home).unwrap());
        let foreign = Record { machine: "elsewhere".into(), host: "ship".into(), ..read(&home).unwrap() };
        std::fs::write(home.record(), serde_json::to_vec(&foreign).unwrap()).unwrap();
        let refused = Lock::take(&home).unwrap_err().to_string();
        assert!(refused.contains("host ship") && refused.contains("LANAI_HOME"), "{refused}");
    }
}
