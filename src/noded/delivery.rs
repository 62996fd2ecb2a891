//! A job's output files while it runs, and their delivery at its end.
//!
//! Some programs wait for a job by waiting for its output files. So a file must not appear at its
//! final path before it is complete. A job therefore writes its output to a temporary file next to
//! the final path: `job.o12.part` for `job.o12`. Users can read the temporary file while the job
//! runs. When the job ends, the file is renamed, and replaces an earlier file at the final path.
//! Jobs with the same output path write different temporary files. The file at the final path is
//! the output of the job that ended last.
//!
//! Each attempt of a job creates a new temporary file that replaces the file of an earlier attempt.
//! The earlier attempt may still run unnoticed on another host with the same file system. That
//! attempt delivers nothing.
//!
//! All functions run as the job's owner.

use crate::model::job::output_path;
use crate::model::text::Text;
use crate::wire::order::Launch;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::unistd::{AccessFlags, eaccess, geteuid};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// An open output stream.
#[derive(Debug)]
pub struct Opened {
    /// The file that the job writes.
    pub file: File,
    /// The stream to deliver at the end of the job. None if the file is at its final path, or if a
    /// task writes to the temporary file of the job's script.
    pub stream: Option<Stream>,
}

/// A stream that is written to a temporary file next to its final path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    place: Text,
    /// Device and inode of the temporary file. The name does not identify the file, because another
    /// attempt can replace it.
    file: (u64, u64),
}

impl Stream {
    fn new(place: &Path, file: &File) -> io::Result<Stream> {
        let found = file.metadata()?;
        Ok(Stream {
            place: Text(place.as_os_str().as_bytes().to_vec()),
            file: (found.dev(), found.ino()),
        })
    }

    /// The final path.
    pub fn place(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.place.0))
    }

    /// Whether the stream's file is at the final path.
    pub fn is_at_place(&self) -> bool {
        fs::symlink_metadata(self.place()).is_ok_and(|found| self.is_file(&found))
    }

    fn is_file(&self, found: &Metadata) -> bool {
        self.file == (found.dev(), found.ino())
    }
}

/// Opens a stream with the final path `path`. With `direct`, a script's stream is written to that
/// path from the start. `begun` contains the streams that this process already has open.
pub fn open(path: &Path, launch: &Launch, direct: bool, begun: &[Stream]) -> Result<Opened, Errno> {
    let is_script = launch.place.task == 0;
    let opened = if is_script && direct {
        None
    } else if is_script {
        begin(path, launch, begun)
    } else {
        join_script(path, launch)
    };
    match opened {
        Some(opened) => Ok(opened),
        None => Ok(Opened {
            file: open_at_place(path, is_script)?,
            stream: None,
        }),
    }
}

/// Opens the file at a final path. Creates the file if it is missing.
pub fn open_at_place(path: &Path, truncate: bool) -> Result<File, Errno> {
    appending(
        File::options().create(true).truncate(truncate).mode(0o666),
        0,
        path,
    )
}

/// Moves a stream's temporary file to the final path. An error contains the path of the temporary
/// file. A missing temporary file is no error: it was delivered with the job's other stream, or
/// removed by a user. A missing directory is an error.
pub fn deliver(stream: &Stream, launch: &Launch) -> Result<(), String> {
    let place = stream.place();
    let Some(part) = part_path(place, launch) else {
        return Ok(());
    };
    let delivered = fs::symlink_metadata(&part).and_then(|found| {
        if stream.is_file(&found) {
            fs::rename(&part, place).map(|()| true)
        } else {
            Ok(stream.is_at_place())
        }
    });
    match delivered.map_err(errno) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "{}: not delivered: {} now belongs to another attempt",
            place.display(),
            part.display()
        )),
        Err(Errno::ENOENT) if place.parent().is_some_and(Path::is_dir) => Ok(()),
        Err(e) => Err(format!(
            "{}: {}; the output is in {}",
            place.display(),
            e.desc(),
            part.display()
        )),
    }
}

/// The message for an undelivered stream. This function does not access the file system.
pub fn not_delivered(stream: &Stream, launch: &Launch, why: &str) -> String {
    let place = stream.place();
    let part = part_path(place, launch).unwrap_or_else(|| place.to_path_buf());
    format!(
        "{}: not delivered: {why}; the output is in {}",
        place.display(),
        part.display()
    )
}

/// Opens the temporary file for a script's stream. None if the stream must be written at its final
/// path, because no temporary file can be created, or because the existing file cannot be replaced:
/// it is special, is read-only, has other links, or belongs to another user.
fn begin(path: &Path, launch: &Launch, begun: &[Stream]) -> Option<Opened> {
    let place = resolve_links(path)?;
    let part = part_path(&place, launch)?;
    if let Some(opened) = begun_at(&part, begun) {
        return Some(opened);
    }
    let old = match fs::symlink_metadata(&place) {
        Ok(found) if is_replaceable(&found, &place) => Some(found),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        _ => return None,
    };
    let file = match make(&part) {
        Err(Errno::EEXIST) => replace_part(&part, launch),
        made => made.ok(),
    }?;
    if let Some(old) = old {
        // Set the group first. Otherwise the mode would grant rights to the wrong group.
        let _ = fchown(&file, None, Some(old.gid()));
        file.set_permissions(old.permissions()).ok()?;
    }
    let stream = Stream::new(&place, &file).ok()?;
    Some(Opened {
        file,
        stream: Some(stream),
    })
}

/// Opens the temporary file again if it belongs to a stream that this process already has open.
fn begun_at(part: &Path, begun: &[Stream]) -> Option<Opened> {
    if begun.is_empty() {
        return None;
    }
    let file = existing_part(part)?;
    let found = file.metadata().ok()?;
    let stream = begun.iter().find(|stream| stream.is_file(&found))?;
    Some(Opened {
        file,
        stream: Some(stream.clone()),
    })
}

fn make(part: &Path) -> Result<File, Errno> {
    appending(File::options().create_new(true).mode(0o666), 0, part)
}

/// Creates a temporary file that replaces the file of an earlier attempt. The new file is created
/// before the old file is removed, so that their inodes differ.
fn replace_part(part: &Path, launch: &Launch) -> Option<File> {
    existing_part(part)?;
    let mut own = part.as_os_str().to_os_string();
    own.push(format!(".{}", launch.attempt));
    let file = make(Path::new(&own)).ok()?;
    fs::rename(&own, part)
        .inspect_err(|_| drop(fs::remove_file(&own)))
        .ok()?;
    Some(file)
}

/// Opens the temporary file of the script's stream, to which a task appends. None if the file does
/// not exist, for instance because the script runs on a host with other files.
fn join_script(path: &Path, launch: &Launch) -> Option<Opened> {
    let file = existing_part(&part_path(&resolve_links(path)?, launch)?)?;
    Some(Opened { file, stream: None })
}

fn is_replaceable(found: &Metadata, place: &Path) -> bool {
    let own = found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1;
    own && eaccess(place, AccessFlags::W_OK).is_ok()
}

/// Opens an existing temporary file, which another process of the job or an earlier attempt has
/// created. None if the file is missing, belongs to another user, is special or has other links.
fn existing_part(part: &Path) -> Option<File> {
    let file = appending(&mut File::options(), libc::O_NOFOLLOW, part).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1).then_some(file)
}

/// Opens a file for appending. So joined streams, and the streams of a job's tasks, do not
/// overwrite each other.
fn appending(options: &mut OpenOptions, flags: i32, path: &Path) -> Result<File, Errno> {
    // O_NONBLOCK: a FIFO without a reader causes an error instead of blocking.
    let flags = flags | libc::O_APPEND | libc::O_NOCTTY | libc::O_NONBLOCK;
    let file = options
        .write(true)
        .custom_flags(flags)
        .open(path)
        .map_err(errno)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(file)
}

/// The path of the file to which `path` leads; the file need not exist. If `path` is a symbolic
/// link, the temporary file must be next to the link's target: the delivery replaces the target
/// instead of the link, by a rename, which works only within a file system. The kernel resolves the
/// links. None if the kernel refuses, for instance because `fs.protected_symlinks` prevents
/// following other users' links in /tmp.
fn resolve_links(path: &Path) -> Option<PathBuf> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Some(path.to_path_buf());
    }
    match File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
    {
        Ok(file) => real_path(&file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => resolve_dangling(path),
        Err(_) => None,
    }
}

/// The path of the file that opening a dangling link creates. Only creating the file shows whether
/// the kernel follows the link. The file is removed at once, because an incomplete file must not be
/// at its final path.
fn resolve_dangling(path: &Path) -> Option<PathBuf> {
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
    let file = File::options()
        .write(true)
        .create(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let place = real_path(&file)?;
    let found = file.metadata().ok()?;
    if found.is_file() && found.len() == 0 {
        fs::remove_file(&place).ok()?;
    }
    Some(place)
}

/// The path of an open file; None if that path leads to another file.
fn real_path(file: &File) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let (found, there) = (file.metadata().ok()?, fs::symlink_metadata(&path).ok()?);
    ((found.dev(), found.ino()) == (there.dev(), there.ino())).then_some(path)
}

/// The path of the temporary file for a final path; None if that path has no file name.
fn part_path(place: &Path, launch: &Launch) -> Option<PathBuf> {
    let name = place.file_name()?;
    let part = output_path::part_name(name, launch.job, &launch.name, &launch.full_id);
    Some(place.with_file_name(part))
}

/// The final path of a stream. A relative `path` starts at the home directory. If `path` is a
/// directory or ends with a slash, the file in it is named `<full id>.<ending>`.
pub fn place(path: &[u8], home: &Path, full_id: &str, ending: &str) -> PathBuf {
    let path = home.join(OsStr::from_bytes(path));
    if path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/") {
        path.join(format!("{full_id}.{ending}"))
    } else {
        path
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;
    use crate::model::job_id::JobId;
    use crate::wire::task::TaskPlace;
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A test directory, and the job that writes its output to it.
    struct Writing {
        folder: tempfile::TempDir,
        launch: Launch,
    }

    impl Writing {
        fn of(job: JobId) -> Writing {
            Writing {
                folder: tempfile::tempdir().unwrap(),
                launch: Launch { job, ..launch() },
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }

        /// Opens a stream and writes `text`. Returns the stream to deliver.
        fn write(&self, name: &str, text: &str) -> Option<Stream> {
            self.write_as(&self.launch, name, text)
        }

        fn write_as(&self, launch: &Launch, name: &str, text: &str) -> Option<Stream> {
            let mut opened = open(&self.path(name), launch, false, &[]).unwrap();
            opened.file.write_all(text.as_bytes()).unwrap();
            opened.stream
        }
    }

    #[test]
    fn a_stream_is_in_a_part_file_until_it_is_delivered() {
        let at = Writing::of(JobId::job(12));
        let place = at.write("job.o12", "new").unwrap();
        assert_eq!(
            (at.names(), place.place()),
            (vec!["job.o12.part".to_string()], &*at.path("job.o12"))
        );
        assert!(!place.is_at_place());
        assert_eq!(deliver(&place, &at.launch), Ok(()));
        assert_eq!(
            (at.names(), at.read("job.o12")),
            (vec!["job.o12".to_string()], Some("new".into()))
        );
        assert!(place.is_at_place());
        assert_eq!(deliver(&place, &at.launch), Ok(()), "a repeated delivery");
    }

    #[test]
    fn a_moved_directory_is_reported() {
        let at = Writing::of(JobId::job(12));
        fs::create_dir(at.path("here")).unwrap();
        let place = at.write("here/job.o12", "new").unwrap();
        fs::rename(at.path("here"), at.path("there")).unwrap();
        let error = deliver(&place, &at.launch).unwrap_err();
        assert!(
            error.contains("job.o12: No such file") && error.contains("job.o12.part"),
            "{error}"
        );
    }

    #[test]
    fn part_files_of_different_jobs_have_different_names() {
        let part_path = |job, name: &str| {
            let part = part_path(&Path::new("/d").join(name), &Launch { job, ..launch() }).unwrap();
            part.file_name().unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(part_path(JobId::job(12), "job.e12"), "job.e12.part");
        assert_eq!(part_path(JobId::job(1), "1.here.OU"), "1.here.OU.part");
        assert_eq!(
            part_path(JobId::element(12, 3), "job.o12.3"),
            "job.o12.3.part"
        );
        assert_eq!(part_path(JobId::job(12), "log"), "log.12.part");
        assert_eq!(part_path(JobId::job(12), "job.o13"), "job.o13.12.part");
        assert_eq!(part_path(JobId::element(12, 3), "log"), "log.12.3.part");
    }

    #[test]
    fn the_output_of_the_last_job_to_end_replaces_that_of_other_jobs() {
        let at = Writing::of(JobId::job(12));
        let other = Launch {
            job: JobId::job(13),
            ..launch()
        };
        let place = at.write("log", "12").unwrap();
        let others = at.write_as(&other, "log", "13").unwrap();
        assert_eq!(
            (at.read("log.12.part"), at.read("log.13.part")),
            (Some("12".into()), Some("13".into()))
        );
        deliver(&others, &other).unwrap();
        assert_eq!(at.read("log"), Some("13".into()));
        deliver(&place, &at.launch).unwrap();
        assert_eq!(
            (at.names(), at.read("log")),
            (vec!["log".to_string()], Some("12".into()))
        );
    }

    #[test]
    fn both_streams_of_a_job_can_share_a_file() {
        let at = Writing::of(JobId::job(12));
        let mut errors = open(&at.path("log"), &at.launch, false, &[]).unwrap();
        let begun = errors.stream.clone().unwrap();
        let mut output = open(&at.path("log"), &at.launch, false, &[begun]).unwrap();
        errors.file.write_all(b"e").unwrap();
        output.file.write_all(b"o").unwrap();
        errors.file.write_all(b"e").unwrap();
        for place in [errors.stream, output.stream] {
            assert_eq!(deliver(&place.unwrap(), &at.launch), Ok(()));
        }
        assert_eq!(at.read("log"), Some("eoe".into()));
    }

    #[test]
    fn delivery_replaces_an_old_file_and_keeps_its_mode_and_group() {
        let at = Writing::of(JobId::job(12));
        fs::write(at.path("log"), "old").unwrap();
        fs::set_permissions(at.path("log"), Permissions::from_mode(0o624)).unwrap();
        // Only privileged users can change the group.
        let _ = std::os::unix::fs::chown(at.path("log"), None, Some(4242));
        let group = fs::metadata(at.path("log")).unwrap().gid();
        let place = at.write("log", "new").unwrap();
        assert_eq!(at.read("log"), Some("old".into()));
        for name in ["log.12.part", "log"] {
            let found = fs::metadata(at.path(name)).unwrap();
            assert_eq!(
                (found.mode() & 0o777, found.gid()),
                (0o624, group),
                "{name}"
            );
            deliver(&place, &at.launch).unwrap();
        }
        assert_eq!(at.read("log"), Some("new".into()));
    }

    #[test]
    fn the_part_file_of_an_earlier_attempt_is_replaced() {
        let at = Writing::of(JobId::job(12));
        at.write("log", "the first attempt").unwrap();
        at.write("log", "second").unwrap();
        assert_eq!(
            (at.names(), at.read("log.12.part")),
            (vec!["log.12.part".to_string()], Some("second".into()))
        );
    }

    #[test]
    fn an_earlier_attempt_cannot_change_or_replace_the_file_of_the_next() {
        let at = Writing::of(JobId::job(12));
        let mut unseen = open(&at.path("log"), &at.launch, false, &[]).unwrap();
        let next = at
            .write_as(
                &Launch {
                    attempt: 2,
                    ..at.launch.clone()
                },
                "log",
                "next",
            )
            .unwrap();
        unseen.file.write_all(b"unseen").unwrap();
        let error = deliver(&unseen.stream.unwrap(), &at.launch).unwrap_err();
        assert!(
            error.contains("log: not delivered: ")
                && error.contains("log.12.part now belongs to another"),
            "{error}"
        );
        assert_eq!(
            (at.names(), at.read("log.12.part")),
            (vec!["log.12.part".to_string()], Some("next".into()))
        );
        assert_eq!(deliver(&next, &at.launch), Ok(()));
        assert_eq!(
            (at.names(), at.read("log")),
            (vec!["log".to_string()], Some("next".into()))
        );
    }

    #[test]
    fn a_link_is_kept_and_its_target_replaced() {
        let at = Writing::of(JobId::job(12));
        fs::create_dir(at.path("d")).unwrap();
        fs::write(at.path("d/log"), "old").unwrap();
        symlink("d/to", at.path("link")).unwrap();
        symlink("log", at.path("d/to")).unwrap();
        let place = at.write("link", "new").unwrap();
        assert_eq!(
            (at.read("d/log"), at.read("d/log.12.part")),
            (Some("old".into()), Some("new".into()))
        );
        deliver(&place, &at.launch).unwrap();
        assert_eq!(
            (at.read("link"), at.read("d/log")),
            (Some("new".into()), Some("new".into()))
        );
        assert_eq!(
            (at.names().len(), fs::read_link(at.path("link")).unwrap()),
            (2, PathBuf::from("d/to"))
        );
        symlink("not/yet", at.path("dangling")).unwrap();
        assert!(
            open(&at.path("dangling"), &at.launch, false, &[]).is_err_and(|e| e == Errno::ENOENT)
        );
        fs::create_dir(at.path("not")).unwrap();
        assert_eq!(
            at.write("dangling", "").unwrap().place(),
            at.path("not/yet")
        );
    }

    #[test]
    fn special_and_hard_linked_files_are_written_at_their_paths() {
        let at = Writing::of(JobId::job(12));
        assert!(
            open(Path::new("/dev/null"), &at.launch, false, &[])
                .unwrap()
                .stream
                .is_none()
        );
        nix::unistd::mkfifo(&at.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(
            open(&at.path("fifo"), &at.launch, false, &[]).unwrap_err(),
            Errno::ENXIO
        );
        fs::write(at.path("one"), "old").unwrap();
        fs::hard_link(at.path("one"), at.path("two")).unwrap();
        assert_eq!(at.write("one", "x"), None);
        assert_eq!(at.read("two"), Some("x".into()));
        assert_eq!(at.names(), ["fifo", "one", "two"]);
        let direct = open(&at.path("direct"), &at.launch, true, &[]).unwrap();
        assert!(direct.stream.is_none() && at.path("direct").exists());
    }

    #[test]
    fn links_and_directories_with_the_name_of_a_part_file_are_not_written() {
        let at = Writing::of(JobId::job(12));
        let files = ["diary", "letter"];
        files
            .iter()
            .for_each(|name| fs::write(at.path(name), "kept").unwrap());
        symlink("diary", at.path("log.12.part")).unwrap();
        fs::create_dir(at.path("out.12.part")).unwrap();
        fs::hard_link(at.path("letter"), at.path("err.12.part")).unwrap();
        let task = Launch {
            place: TaskPlace {
                task: 1,
                ..TaskPlace::default()
            },
            ..at.launch.clone()
        };
        for name in ["log", "out", "err"] {
            assert_eq!(
                (at.write(name, "script, "), at.write_as(&task, name, "task")),
                (None, None)
            );
            assert_eq!(at.read(name), Some("script, task".into()));
            assert_eq!(
                files.map(|name| at.read(name)),
                files.map(|_| Some("kept".into())),
                "{name}"
            );
        }
    }

    #[test]
    fn a_file_in_a_directory_has_the_job_id_as_name_and_a_relative_path_starts_at_home() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("logs")).unwrap();
        let at = |path: &str| place(path.as_bytes(), home.path(), "12.here", "OU");
        assert_eq!(at("log"), home.path().join("log"));
        assert_eq!(at("/var/log"), Path::new("/var/log/12.here.OU"));
        assert_eq!(at("logs"), home.path().join("logs/12.here.OU"));
        assert_eq!(
            at("none/"),
            home.path().join("none/12.here.OU"),
            "a missing directory"
        );
    }

    #[test]
    fn a_task_appends_to_the_part_file_of_its_script_or_to_the_final_file() {
        let at = Writing::of(JobId::job(12));
        let task = Launch {
            place: TaskPlace {
                task: 1,
                ..TaskPlace::default()
            },
            ..at.launch.clone()
        };
        assert_eq!(
            (at.write_as(&task, "log", "elsewhere"), at.names()),
            (None, vec!["log".to_string()])
        );
        let place = at.write("log", "script, ").unwrap();
        assert_eq!(at.write_as(&task, "log", "task"), None);
        assert_eq!(at.read("log"), Some("elsewhere".into()));
        deliver(&place, &at.launch).unwrap();
        assert_eq!(at.write_as(&task, "log", ", late"), None);
        assert_eq!(
            (at.read("log"), at.names().len()),
            (Some("script, task, late".into()), 1)
        );
    }

    #[test]
    fn delivery_to_a_directory_is_an_error_and_keeps_the_part_file() {
        let at = Writing::of(JobId::job(12));
        let place = at.write("log", "text").unwrap();
        fs::create_dir(at.path("log")).unwrap();
        let error = deliver(&place, &at.launch).unwrap_err();
        let (place, part) = (place.place().display(), at.path("log.12.part"));
        assert_eq!(
            error,
            format!(
                "{place}: Is a directory; the output is in {}",
                part.display()
            )
        );
        assert_eq!(at.read("log.12.part"), Some("text".into()));
    }
}
