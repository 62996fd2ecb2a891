//! The lock on a file in the spool's directory. It ensures that only one schedd uses a spool.

use crate::sys::home::Home;
use crate::sys::{filesystem, record};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The lock on a spool, held until this value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

/// Reason why the spool cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process of this host holds the lock.
    #[error("another schedd holds the spool {}", .0.display())]
    Held(PathBuf),
    /// A schedd of another host used the spool last. It still runs, or did not exit normally.
    #[error(
        "the spool {} is in use by schedd on host {host}, or that schedd did not exit normally. \
         A spool serves one host: use another directory on this host, such as \
         export LANAI_HOME={remedy}; if host {host} no longer exists, remove {}",
        folder.display(), record.display()
    )]
    OtherHost {
        /// The spool's directory.
        folder: PathBuf,
        /// The host of the other schedd.
        host: String,
        /// A directory that can be used instead.
        remedy: String,
        /// The file that records the host which uses the spool.
        record: PathBuf,
    },
    /// The spool is on a network file system.
    #[error(
        "the spool {} is on a network file system ({kind}), where locks and the database log are \
         unreliable. Use a directory on a local disk: export LANAI_HOME={remedy}", folder.display()
    )]
    Network {
        /// The spool's directory.
        folder: PathBuf,
        /// The type of the file system.
        kind: &'static str,
        /// A directory that can be used instead.
        remedy: String,
    },
    /// An error of the file system.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operation on the file or directory.
        error: io::Error,
    },
}

impl Lock {
    /// Creates the spool's directory in `home` and locks the spool. Fails if another process holds
    /// the lock, another host uses the spool, or the file system is a network file system.
    pub fn take(home: &Home) -> Result<Lock, LockError> {
        let folder = home.spool();
        filesystem::make_private(&folder).map_err(|error| on(&folder, error))?;
        if let Some(kind) = filesystem::network(&folder).map_err(|error| on(&folder, error))? {
            return Err(LockError::Network {
                folder,
                kind,
                remedy: local_folder(),
            });
        }
        let path = folder.join("lock");
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| on(&path, error))?;
        let file =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    nix::errno::Errno::EWOULDBLOCK => LockError::Held(folder.clone()),
                    errno => on(&path, errno.into()),
                },
            )?;
        refuse_other_host(home, &folder)?;
        Ok(Lock { _file: file })
    }
}

fn on(path: &Path, error: io::Error) -> LockError {
    LockError::Io {
        path: path.to_path_buf(),
        error,
    }
}

fn refuse_other_host(home: &Home, folder: &Path) -> Result<(), LockError> {
    match record::read(home) {
        Some(record) if record.machine != record::machine() => Err(LockError::OtherHost {
            folder: folder.to_path_buf(),
            host: record.host,
            remedy: local_folder(),
            record: home.record(),
        }),
        _ => Ok(()),
    }
}

/// A directory on the local disk, with the uid and the host in its name.
fn local_folder() -> String {
    format!(
        "/var/tmp/lanai-{}-{}",
        nix::unistd::geteuid(),
        record::host()
    )
}

/// Tests whether a process holds the lock of the spool of `home`. False if the lock file cannot be
/// opened.
pub fn is_held(home: &Home) -> bool {
    let Ok(file) = File::open(home.spool().join("lock")) else {
        return false;
    };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> Home {
        Home {
            state: folder.into(),
            runtime: folder.into(),
            config: folder.join("lanai.toml"),
            system: false,
        }
    }

    #[test]
    fn a_spool_is_locked_by_one_process() {
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
    fn a_spool_in_use_by_another_host_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        drop(Lock::take(&home).unwrap());
        record::write(&home, Path::new("/s")).unwrap();
        drop(Lock::take(&home).unwrap());
        let foreign = record::SpoolRecord {
            machine: "elsewhere".into(),
            host: "ship".into(),
            ..record::read(&home).unwrap()
        };
        std::fs::write(home.record(), serde_json::to_vec(&foreign).unwrap()).unwrap();
        let refused = Lock::take(&home).unwrap_err().to_string();
        assert!(
            refused.contains("host ship") && refused.contains("LANAI_HOME"),
            "{refused}"
        );
    }
}
