//! Paths of a job's output files: the final path, and the name of the temporary file that the job
//! writes while it runs.

use super::{Job, placeholder};
use crate::model::job_id::JobId;
use crate::model::text::Text;
use std::ffi::{OsStr, OsString};

/// One of the two output streams of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl OutputStream {
    /// Returns the letter in default file names and in options: `o` or `e`.
    pub fn letter(self) -> char {
        match self {
            OutputStream::Output => 'o',
            OutputStream::Error => 'e',
        }
    }

    /// Returns the ending of the file name if the user requested a directory: `OU` or `ER`.
    pub fn ending(self) -> &'static str {
        match self {
            OutputStream::Output => "OU",
            OutputStream::Error => "ER",
        }
    }
}

/// Returns the path of an output stream: in the home directory if kept there (`qsub -k`), else the
/// given path without `host:`, else the default name in the submission directory. A relative path
/// starts at the home directory of the owner. The path may be a directory.
pub fn requested(job: &Job, stream: OutputStream) -> Text {
    let letter = stream.letter();
    let own = job.id.output_file(&job.spec.name, letter);
    let keep = job.spec.other.get("Keep_Files").map_or("", String::as_str);
    if keep.contains(letter) && !keep.contains('d') {
        return own.as_str().into();
    }
    let given = match stream {
        OutputStream::Output => &job.spec.output,
        OutputStream::Error => &job.spec.error,
    };
    let Some(given) = given else {
        return Text([job.spec.workdir.0.as_slice(), b"/", own.as_bytes()].concat());
    };
    let host_ends = given
        .0
        .iter()
        .position(|&byte| byte == b':' || byte == b'/');
    let path = match host_ends {
        Some(at) if given.0[at] == b':' => &given.0[at + 1..],
        _ => &given.0,
    };
    Text(placeholder::filled(path, job.id, &job.spec.name))
}

/// Returns the name of the file in a requested directory: `<full id>.OU`.
pub fn name_in_directory(full_id: &str, stream: OutputStream) -> String {
    format!("{full_id}.{}", stream.ending())
}

/// Returns the name of the temporary file for the final name `name`: `job.o12.part` or
/// `12.here.OU.part` for a default name. For other names, the job's number is added, because several
/// jobs can have the same output path: `log.12.part`, or `log.12.3.part` for a subjob.
pub fn part_name(name: &OsStr, job: JobId, job_name: &str, full_id: &str) -> OsString {
    let streams = [OutputStream::Output, OutputStream::Error];
    let is_default = streams.iter().any(|&stream| {
        name == OsStr::new(&job.output_file(job_name, stream.letter()))
            || name == OsStr::new(&name_in_directory(full_id, stream))
    });
    let mut part = OsString::from(name);
    if !is_default {
        part.push(format!(".{}", job.number));
        if let Some(index) = job.index() {
            part.push(format!(".{index}"));
        }
    }
    part.push(".part");
    part
}
