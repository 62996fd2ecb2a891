//! The output files of a job on this host.
//!
//! While a job runs, it writes a temporary file beside the final path; at its end, the file is
//! renamed. A reader that keeps the file open therefore sees all output.

use crate::cli::client::exit::Failure;
use crate::model::job::output_path::{self, OutputStream};
use crate::model::job::{Job, Join};
use crate::sys::user;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The stream that contains the output of `wanted`: a joined stream contains both.
pub fn stream_of(job: &Job, wanted: OutputStream) -> OutputStream {
    match job.spec.join {
        Join::No => wanted,
        Join::Output => OutputStream::Output,
        Join::Error => OutputStream::Error,
    }
}

/// The paths of a stream's file, in the order in which to look for the file: the temporary file,
/// which only a running attempt has, and the final path.
pub fn paths(job: &Job, stream: OutputStream, server: &str) -> [PathBuf; 2] {
    let requested = output_path::requested(job, stream);
    let home = user::named(&job.owner.user)
        .ok()
        .flatten()
        .map_or_else(|| user::own().home, |account| account.home);
    let mut path = home.join(OsStr::from_bytes(&requested.0));
    let full_id = job.id.full(server);
    if path.is_dir() || requested.0.ends_with(b"/") {
        path.push(output_path::name_in_directory(&full_id, stream));
    }
    // The temporary file is beside the file to which a link leads.
    let target = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let name = target.file_name().unwrap_or_default();
    let part = output_path::part_name(name, job.id, &job.spec.name, &full_id);
    [target.with_file_name(part), path]
}

/// Opens the file of a stream. The error names the final path.
pub fn open(job: &Job, stream: OutputStream, server: &str) -> Result<File, Failure> {
    let [part, place] = paths(job, stream, server);
    match File::open(part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&place, &error)),
        Ok(file) => return Ok(file),
    }
    File::open(&place).map_err(|error| unreadable(&place, &error))
}

/// Tests whether `file` is still the file of the stream. A new attempt of a job creates a new file.
pub fn is_current(file: &File, job: &Job, stream: OutputStream, server: &str) -> bool {
    let Ok(open) = file.metadata() else {
        return false;
    };
    paths(job, stream, server)
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .any(|found| (found.dev(), found.ino()) == (open.dev(), open.ino()))
}

fn unreadable(place: &Path, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "; the file was moved or removed, or it is on another host (qsub -o, -k)"
        }
        _ => "",
    };
    Failure::new(1, format!("{}: {error}{remedy}", place.display()))
}
