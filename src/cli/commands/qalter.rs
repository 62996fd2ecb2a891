//! `qalter`: changes attributes of jobs.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::arguments::job_options::{self, JobOptions, Place};
use crate::cli::arguments::paths;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::model::attribute::Setting;
use crate::model::job::value_syntax;
use crate::sys::{clock, env};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Change attributes of jobs. A refused change changes nothing.
#[derive(Parser, Clone, Debug)]
#[command(name = "qalter")]
pub struct Args {
    /// Options of the job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Holds: letters of u (user), o (operator), s (system), p (password), or n for none
    #[arg(short = 'h', value_name = "hold_list")]
    pub holds: Option<OsString>,
    /// Before all jobs without one, and before those with a lower one: 0 to 1000000, or none; for
    /// operators
    #[arg(long, value_name = "number", require_equals = true)]
    pub system_priority: Option<OsString>,
    /// Run jobs once more that have failed or were deleted: each comes back into its queue under
    /// its id, an array with those of its subjobs that did, a subjob or a range of them (12[3],
    /// 12[1-9]) alone. Stands without other options
    #[arg(long)]
    pub retry: bool,
    /// Have the scheduler look at these jobs now: one that was put off after a failed start, or for
    /// its retry_delay, may start at once. A hold or a begin time stays. Other changes are made
    /// first
    #[arg(long)]
    pub shove: bool,
    /// Jobs, by id: 12, 12.server; 12[] for an array
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qalter.
pub fn main() -> ExitCode {
    exit::run("qalter", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let workdir = env::workdir()?;
    let names = nix::sys::utsname::uname().map_err(std::io::Error::from)?;
    let host = names.nodename().to_string_lossy();
    let settings = settings(
        &args,
        &Place {
            workdir: &workdir,
            host: &host,
            now: clock::wall(),
            knows_host: paths::knows_host,
        },
    )?;
    if args.retry {
        return job_batch::act(
            "qalter",
            command,
            &args.jobs,
            &mut Schedd::find()?,
            &Act::Retry,
        );
    }
    let server = &mut Schedd::find()?;
    if !args.shove || !settings.is_empty() {
        let code = job_batch::act("qalter", command, &args.jobs, server, &Act::Alter(settings))?;
        if !args.shove || code != 0 {
            return Ok(code);
        }
    }
    job_batch::act("qalter", command, &args.jobs, server, &Act::Shove)
}

/// What the options ask for.
pub(super) fn settings(args: &Args, place: &Place) -> Result<Vec<Setting>, Failure> {
    let mut settings = args.job.settings(place)?;
    if let Some(holds) = &args.holds {
        let letters = holds
            .to_str()
            .filter(|letters| value_syntax::holds(letters).is_some());
        settings.push(Setting::new(
            "Hold_Types",
            letters.ok_or_else(|| job_options::illegal('h'))?,
        ));
    }
    if let Some(number) = &args.system_priority {
        settings.push(Setting::new(
            "system_priority",
            system_priority(&number.to_string_lossy())?,
        ));
    }
    match args.retry && !settings.is_empty() {
        true => Err(Failure::usage(
            "--retry stands without other options: change the job once it is back in its queue",
        )),
        false => Ok(settings),
    }
}

/// As the attribute has it: nothing for none.
fn system_priority(text: &str) -> Result<&str, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "--system-priority is 0 to 1000000, or none, not {text}"
        ))
    };
    match text {
        "none" => Ok(""),
        number => value_syntax::system_priority(number)
            .map(|_| number)
            .ok_or_else(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Wall;
    use std::path::Path;

    fn asked(words: &[&str]) -> Result<Vec<Setting>, Failure> {
        let matches = getopt::matches(&mut command(), words.iter().map(OsString::from))?;
        let args: Args = getopt::read_matches(&matches)?;
        settings(
            &args,
            &Place {
                workdir: Path::new("/nosuch"),
                host: "head",
                now: Wall(0),
                knows_host: |_| false,
            },
        )
    }

    #[test]
    fn letters_of_qalter_are_read() {
        assert_eq!(
            asked(&["-h", "n", "12"]).unwrap(),
            [Setting::new("Hold_Types", "n")]
        );
        assert_eq!(
            asked(&["12", "-lwalltime=5"]).unwrap(),
            [Setting::resource("walltime", "5")]
        );
        assert_eq!(asked(&["-h", "x", "12"]), Err(job_options::illegal('h')));
        let system = |number| {
            asked(&[&format!("--system-priority={number}"), "12"])
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
            let failure = asked(&[&format!("-{letter}"), "12"]).unwrap_err();
            assert_eq!(
                failure,
                Failure::usage(format!("invalid option -- '{letter}'"))
            );
        }
    }
}
