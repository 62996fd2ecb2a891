//! The files of a job: private directory, stage-in, stage-out, and removal of output. All functions
//! run as the job's owner.
//!
//! Files are only copied within this host. Files that were staged in are not removed after the job,
//! because the copy and the original may be the same file. The exception is the job's private
//! directory, which is removed with all its files.

use super::child;
use crate::model::job::staging::{Files, Transfer, fits, is_pattern};
use crate::model::text::shortened;
use crate::sys::filesystem;
use crate::sys::user::UserAccount;
use nix::errno::Errno;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Maximum length of the message about one transfer or file, and of the list of missing files, in
/// characters.
const MAX_MESSAGE: usize = 300;

/// The files of one job and their directories.
#[derive(Debug)]
pub struct Staging<'a> {
    /// The requested file operations.
    pub files: &'a Files,
    /// The owner's home directory.
    pub home: &'a Path,
    /// The job directory: the home directory or a private directory.
    pub folder: &'a Path,
    /// The short name of this host.
    pub host: &'a str,
}

impl Staging<'_> {
    /// Checks that the files to stage in from this host exist. The error lists missing files.
    pub fn check_sources(&self) -> Result<(), String> {
        let here = self
            .files
            .before
            .iter()
            .filter(|transfer| self.is_here(transfer));
        let paths = here.map(|transfer| self.home.join(&transfer.remote));
        let missing: Vec<String> = paths
            .filter(|path| is_missing(path))
            .map(|path| path.display().to_string())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(shortened(missing.join(", "), MAX_MESSAGE))
        }
    }

    /// Checks that the owner's home directory exists, if stage-in needs it. The error states that
    /// the directory is missing.
    pub fn find_home(&self, owner: &UserAccount) -> Result<(), String> {
        if self.needs_home() {
            child::find_home(owner, self.host)
        } else {
            Ok(())
        }
    }

    fn needs_home(&self) -> bool {
        self.files.private
            || self.files.before.iter().any(|transfer| {
                self.home.join(&transfer.remote).starts_with(self.home)
                    || self.folder.join(&transfer.local).starts_with(self.home)
            })
    }

    /// Whether the remote host of a transfer is this host.
    fn is_here(&self, transfer: &Transfer) -> bool {
        let host = transfer.host.split('.').next().unwrap_or_default();
        host == self.host || host == "localhost"
    }

    /// Creates the job's private directory, if the job has one, and stages files in. If that fails,
    /// removes the directory.
    pub fn stage_in(&self) -> Result<(), String> {
        self.make_and_fill().inspect_err(|_| self.discard())
    }

    /// Removes the job's private directory with its contents, if the job has one.
    pub fn discard(&self) {
        if self.files.private {
            let _ = filesystem::remove_tree(self.folder);
        }
    }

    fn make_and_fill(&self) -> Result<(), String> {
        if self.files.private {
            let made = DirBuilder::new().mode(0o700).create(self.folder);
            made.map_err(|e| {
                format!(
                    "cannot create the private directory {}: {e}",
                    self.folder.display()
                )
            })?;
        }
        for transfer in &self.files.before {
            self.copy(
                transfer,
                &self.home.join(&transfer.remote),
                &self.folder.join(&transfer.local),
            )
            .map_err(|e| {
                shortened(
                    format!("stage-in failed: {}: {e}", transfer_text(transfer)),
                    MAX_MESSAGE,
                )
            })?;
        }
        Ok(())
    }

    /// Stages files out, then removes the files in `unwanted` and the private directory. The
    /// private directory is kept if stage-out failed.
    pub fn stage_out(&self, unwanted: &[PathBuf]) -> Result<(), String> {
        let mut faults = Vec::new();
        for transfer in &self.files.after {
            let copied = self.copy(
                transfer,
                &self.folder.join(&transfer.local),
                &self.home.join(&transfer.remote),
            );
            faults.extend(copied.err().map(|e| {
                shortened(
                    format!("stage-out failed: {}: {e}", transfer_text(transfer)),
                    MAX_MESSAGE,
                )
            }));
        }
        let kept = !faults.is_empty();
        // Only regular files are removed. An output path may be `/dev/null`.
        for path in unwanted
            .iter()
            .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file()))
        {
            let removed = fs::remove_file(path);
            faults.extend(removed.err().map(|e| {
                shortened(
                    format!("cannot remove {}: {e}", path.display()),
                    MAX_MESSAGE,
                )
            }));
        }
        if self.files.private && kept {
            faults.push(format!(
                "the job's files are left in {}",
                self.folder.display()
            ))
        } else if self.files.private {
            let removed = filesystem::remove_tree(self.folder)
                .err()
                .filter(|e| e.kind() != io::ErrorKind::NotFound);
            faults.extend(removed.map(|e| format!("cannot remove {}: {e}", self.folder.display())));
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("; "))
        }
    }

    fn copy(&self, transfer: &Transfer, from: &Path, to: &Path) -> Result<(), String> {
        if !self.is_here(transfer) {
            return Err(format!(
                "files can only be copied within one host, and this host is {}",
                self.host
            ));
        }
        let sources = expand(from).map_err(|e| format!("{}: {e}", from.display()))?;
        let inside = to.as_os_str().as_bytes().ends_with(b"/") || to.is_dir();
        if sources.len() > 1 && !inside {
            return Err(format!(
                "{}: the target of several files must be a directory",
                to.display()
            ));
        }
        for source in sources {
            let target = match source.file_name() {
                Some(name) if inside => to.join(name),
                _ => to.to_path_buf(),
            };
            copy_all(&source, &target)?;
        }
        Ok(())
    }
}

/// Whether a path or pattern matches nothing, or matches a dangling link.
fn is_missing(path: &Path) -> bool {
    match expand(path) {
        Ok(sources) => sources
            .iter()
            .any(|source| fs::metadata(source).is_err_and(|error| is_absent(&error))),
        Err(error) => is_absent(&error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Expands patterns in the components of a path. Returns the paths that exist; an error if there
/// are none.
fn expand(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in path.components() {
        let Component::Normal(name) = part else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let mut paths = found.iter().map(|path| path.join(name));
        if !is_pattern(name.as_bytes()) || paths.all(|path| fs::symlink_metadata(path).is_ok()) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let mut deeper = Vec::new();
        for folder in &found {
            let entries = fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name());
            let mut names: Vec<_> = entries
                .filter(|entry| fits(name.as_bytes(), entry.as_bytes()))
                .collect();
            names.sort_unstable();
            deeper.extend(names.into_iter().map(|name| folder.join(name)));
        }
        found = deeper;
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    if found.is_empty() {
        Err(Errno::ENOENT.into())
    } else {
        Ok(found)
    }
}

/// Copies a file, or a directory with its contents. Symbolic links in a directory are copied as
/// links.
fn copy_all(source: &Path, target: &Path) -> Result<(), String> {
    let found = fs::metadata(source).map_err(|e| fault(source, &e))?;
    if fs::metadata(target).is_ok_and(|there| is_same_file(&there, &found)) {
        return Ok(());
    }
    if found.is_file() {
        return fs::copy(source, target)
            .map(|_| ())
            .map_err(|e| fault(target, &e));
    }
    if !found.is_dir() {
        return Err(format!(
            "{}: neither a file nor a directory",
            source.display()
        ));
    }
    let made = fs::create_dir(target).or_else(|e| if target.is_dir() { Ok(()) } else { Err(e) });
    made.map_err(|e| fault(target, &e))?;
    let (whole, own) = (fs::canonicalize(source), fs::canonicalize(target));
    if let (Ok(whole), Ok(own)) = (whole, own)
        && own.starts_with(&whole)
    {
        return Err(format!(
            "{}: the target is inside the directory to copy",
            target.display()
        ));
    }
    for entry in fs::read_dir(source).map_err(|e| fault(source, &e))? {
        let entry = entry.map_err(|e| fault(source, &e))?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if entry
            .file_type()
            .map_err(|e| fault(&from, &e))?
            .is_symlink()
        {
            copy_link(&from, &to).map_err(|e| fault(&to, &e))?
        } else {
            copy_all(&from, &to)?
        }
    }
    fs::set_permissions(target, found.permissions()).map_err(|e| fault(target, &e))
}

fn fault(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    let target = fs::read_link(from)?;
    match std::os::unix::fs::symlink(&target, to) {
        Err(_) if fs::read_link(to).is_ok_and(|there| there == target) => Ok(()),
        made => made,
    }
}

fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn transfer_text(transfer: &Transfer) -> String {
    let Transfer {
        local,
        host,
        remote,
    } = transfer;
    format!("{local}@{host}:{remote}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::staging::transfers;

    struct TestHome {
        folder: tempfile::TempDir,
    }

    impl TestHome {
        fn new() -> TestHome {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("home")).unwrap();
            TestHome { folder }
        }

        fn home(&self) -> PathBuf {
            self.folder.path().join("home")
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.home().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.home().join(name)).unwrap_or_default()
        }

        fn stage(&self, before: &str, after: &str) -> (Result<(), String>, Result<(), String>) {
            let list = |text: &str| {
                if text.is_empty() {
                    Vec::new()
                } else {
                    transfers(text).unwrap()
                }
            };
            let files = Files {
                before: list(before),
                after: list(after),
                ..Files::default()
            };
            let home = self.home();
            let staging = Staging {
                files: &files,
                home: &home,
                folder: &home,
                host: "n1",
            };
            (staging.stage_in(), staging.stage_out(&[]))
        }
    }

    #[test]
    fn files_directories_and_matches_of_patterns_are_copied() {
        let test = TestHome::new();
        test.write("d/a.dat", "a");
        test.write("d/b.dat", "b");
        test.write("d/sub/c", "c");
        std::os::unix::fs::symlink("a.dat", test.home().join("d/link")).unwrap();
        fs::create_dir(test.home().join("many")).unwrap();
        let (before, after) = test.stage(
            "one@n1:d/a.dat,whole@n1.some.where:d",
            "d/*.dat@localhost:many/",
        );
        assert_eq!((before, after), (Ok(()), Ok(())));
        assert_eq!(test.read("one"), "a");
        assert_eq!(test.read("whole/sub/c"), "c");
        assert_eq!(
            fs::read_link(test.home().join("whole/link")).unwrap(),
            Path::new("a.dat")
        );
        assert_eq!(test.read("many/a.dat") + &test.read("many/b.dat"), "ab");
    }

    #[test]
    fn a_file_copied_to_itself_keeps_its_contents() {
        let test = TestHome::new();
        test.write("x", "kept");
        assert_eq!(test.stage("x@n1:x", "x@n1:./x"), (Ok(()), Ok(())));
        assert_eq!(test.read("x"), "kept");
    }

    #[test]
    fn the_error_of_a_copy_contains_the_file_and_the_reason() {
        let test = TestHome::new();
        test.write("d/e/x", "");
        test.write("1", "");
        test.write("2", "");
        nix::unistd::mkfifo(&test.home().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (list, why) in [
            (
                "x@elsewhere:y",
                "files can only be copied within one host, and this host is n1",
            ),
            ("x@n1:no/such", "No such file or directory"),
            ("x@n1:none*", "No such file or directory"),
            ("x@n1:?", "the target of several files must be a directory"),
            ("d/e/f@n1:d", "the target is inside the directory to copy"),
            ("x@n1:pipe", "neither a file nor a directory"),
            ("no/such/x@n1:1", "No such file or directory"),
        ] {
            let (before, _) = test.stage(list, "");
            let error = before.expect_err(list);
            assert!(
                error.starts_with(&format!("stage-in failed: {list}: ")) && error.contains(why),
                "{error}"
            );
        }
    }

    #[test]
    fn missing_files_on_this_host_are_listed() {
        let test = TestHome::new();
        test.write("there", "");
        std::os::unix::fs::symlink("nothing", test.home().join("link")).unwrap();
        let home = test.home();
        let missing = |list: &str| {
            let files = Files {
                before: transfers(list).unwrap(),
                ..Files::default()
            };
            Staging {
                files: &files,
                home: &home,
                folder: &home,
                host: "n1",
            }
            .check_sources()
        };
        assert_eq!(missing("x@n1:there,y@elsewhere:z"), Ok(()));
        let path = |name: &str| home.join(name).display().to_string();
        assert_eq!(
            missing("x@n1:no,y@n1:there,z@localhost:d/*"),
            Err(format!("{}, {}", path("no"), path("d/*")))
        );
        assert_eq!(missing("x@n1:link"), Err(path("link")));
        assert_eq!(missing("x@n1:there/below"), Err(path("there/below")));
    }

    #[test]
    fn a_private_directory_is_removed_unless_a_copy_failed() {
        let test = TestHome::new();
        let (home, folder) = (test.home(), test.home().join("pbs.1.x"));
        let private = Files {
            private: true,
            ..Files::default()
        };
        let undeliverable = Files {
            after: transfers("out@n1:no/such/out").unwrap(),
            ..private.clone()
        };
        let staging = Staging {
            files: &undeliverable,
            home: &home,
            folder: &folder,
            host: "n1",
        };
        staging.stage_in().unwrap();
        fs::write(folder.join("out"), "out").unwrap();
        let error = staging.stage_out(&[]).unwrap_err();
        assert!(
            error.contains("stage-out failed") && error.contains("left in"),
            "{error}"
        );
        assert!(folder.join("out").exists());
        assert_eq!(
            Staging {
                files: &private,
                ..staging
            }
            .stage_out(&[]),
            Ok(())
        );
        assert!(!folder.exists());
    }

    #[test]
    fn only_regular_files_are_removed() {
        let test = TestHome::new();
        test.write("out", "");
        let files = Files::default();
        let home = test.home();
        let staging = Staging {
            files: &files,
            home: &home,
            folder: &home,
            host: "n1",
        };
        let unwanted = [
            home.join("out"),
            "/dev/null".into(),
            home.clone(),
            home.join("none"),
        ];
        assert_eq!(staging.stage_out(&unwanted), Ok(()));
        assert!(!home.join("out").exists() && Path::new("/dev/null").exists() && home.exists());
    }
}
