//! `qalter`: changes attributes of jobs.

use super::job_command::JobCommand;
use crate::cli::arguments::job_options::{self, JobOptions, SubmissionPlace};
use crate::cli::arguments::paths;
use crate::cli::client::exit::Failure;
use crate::model::attribute::AttributeSetting;
use crate::model::job::value_syntax;
use crate::sys::{clock, env};
use crate::wire::batch::Act;
use clap::Parser;
use std::ffi::OsString;

/// Change attributes of jobs. For each job, changes are all-or-nothing.
#[derive(Parser, Clone, Debug)]
#[command(name = "qalter")]
pub struct QalterArgs {
    /// Options of the job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Holds: letters of u (user), o (operator), s (system), p (password), or n (none)
    #[arg(short = 'h', value_name = "hold_list")]
    pub holds: Option<OsString>,
    /// System priority, 0 to 1000000, or none to remove it (operators only). In its tier (see
    /// lanai-scheduling(7)), the job precedes jobs with a lower or no system priority
    #[arg(long, value_name = "number", require_equals = true)]
    pub system_priority: Option<OsString>,
    /// Run failed or deleted jobs again: each job returns to its queue and keeps its id. For an
    /// array, all failed and deleted subjobs run again; for 12[3] or 12[1-9], only the given
    /// subjobs. Cannot be combined with other options
    #[arg(long)]
    pub retry: bool,
    /// Consider the jobs now: a job that waits after a failed start, or for its retry_delay, can
    /// start at once. Holds and begin times still apply. Changes by other options are made first
    #[arg(long)]
    pub shove: bool,
    /// Job ids: 12 or 12.server; 12[] for an array
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QalterArgs {
    const NAME: &'static str = "qalter";

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        let workdir = env::workdir()?;
        let names = nix::sys::utsname::uname().map_err(std::io::Error::from)?;
        let place = SubmissionPlace {
            workdir: &workdir,
            host: &names.nodename().to_string_lossy(),
            now: clock::wall(),
            host_exists: paths::host_exists,
        };
        acts(self, &place)
    }
}

/// The requests for each job.
pub(super) fn acts(args: &QalterArgs, place: &SubmissionPlace) -> Result<Vec<Act>, Failure> {
    let settings = settings(args, place)?;
    if args.retry {
        return Ok(vec![Act::Retry]);
    }
    if !args.shove {
        return Ok(vec![Act::Alter(settings)]);
    }
    if settings.is_empty() {
        return Ok(vec![Act::Shove]);
    }
    Ok(vec![Act::Alter(settings), Act::Shove])
}

/// The attribute settings of the options.
fn settings(args: &QalterArgs, place: &SubmissionPlace) -> Result<Vec<AttributeSetting>, Failure> {
    let mut settings = args.job.settings(place)?;
    if let Some(holds) = &args.holds {
        let letters = holds
            .to_str()
            .filter(|letters| value_syntax::holds(letters).is_some())
            .ok_or_else(|| job_options::illegal_value('h', "Hold_Types", holds))?;
        settings.push(AttributeSetting::new("Hold_Types", letters));
    }
    if let Some(number) = &args.system_priority {
        settings.push(AttributeSetting::new(
            "system_priority",
            system_priority(&number.to_string_lossy())?,
        ));
    }
    if args.retry && (args.shove || !settings.is_empty()) {
        return Err(Failure::usage(
            "--retry cannot be combined with other options: change the job after --retry",
        ));
    }
    Ok(settings)
}

/// The value of the attribute `system_priority`: empty for `none`.
fn system_priority(text: &str) -> Result<&str, Failure> {
    if text == "none" {
        return Ok("");
    }
    if value_syntax::system_priority(text).is_none() {
        let text = format!("--system-priority must be 0 to 1000000 or none, not {text}");
        return Err(Failure::usage(text));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::getopt;
    use crate::cli::commands::job_command;
    use crate::model::time::Wall;
    use std::path::Path;

    fn settings_of(words: &[&str]) -> Result<Vec<AttributeSetting>, Failure> {
        let matches = getopt::matches(
            &mut job_command::command::<QalterArgs>(),
            words.iter().map(OsString::from),
        )?;
        let args: QalterArgs = getopt::read_matches(&matches)?;
        settings(
            &args,
            &SubmissionPlace {
                workdir: Path::new("/nosuch"),
                host: "head",
                now: Wall(0),
                host_exists: |_| false,
            },
        )
    }

    #[test]
    fn options_become_settings() {
        assert_eq!(
            settings_of(&["-h", "n", "12"]).unwrap(),
            [AttributeSetting::new("Hold_Types", "n")]
        );
        assert_eq!(
            settings_of(&["12", "-lwalltime=5"]).unwrap(),
            [AttributeSetting::resource("walltime", "5")]
        );
        assert_eq!(
            settings_of(&["-h", "x", "12"]).unwrap_err().text,
            job_options::illegal('h').text
        );
        let system = |number| {
            settings_of(&[&format!("--system-priority={number}"), "12"])
                .map(|settings| settings[0].value.lossy().into_owned())
        };
        assert_eq!(
            (system("5"), system("none")),
            (Ok("5".to_string()), Ok(String::new()))
        );
        assert!(
            ["-1", "1000001", "high", ""]
                .iter()
                .all(|number| system(number).is_err())
        );
        for letter in ["v", "q", "X", "J"] {
            let failure = settings_of(&[&format!("-{letter}"), "12"]).unwrap_err();
            assert_eq!(
                failure,
                Failure::usage(format!("invalid option -- '{letter}'"))
            );
        }
    }
}
