//! `pbsdsh`: runs a program on the nodes of the job that calls it.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::session::task_set::{Membership, TaskOptions, TaskSet};
use crate::model::text::Text;
use crate::sys::env;
use crate::wire::task::{LARGEST, TaskProgram};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// Run a program on the nodes of the current job, once for each line of the node file.
///
/// The program runs as the owner of the job, in the working directory of the job, with the
/// environment of pbsdsh. The output of the program goes to the output of the job. When the job
/// ends, the program is ended.
#[derive(Parser, Clone, Debug, Default)]
#[command(
    name = "pbsdsh",
    override_usage = "pbsdsh [-c copies | -n index | -h host] [-s] [-v] [-o] -- program [args ...]"
)]
pub struct PbsdshArgs {
    /// Run this number of copies, on the lines of the node file in order; after the last line, the
    /// first follows again
    #[arg(short = 'c', value_name = "copies")]
    pub copies: Option<OsString>,
    /// Run one copy, on this line of the node file, counted from 0
    #[arg(short = 'n', value_name = "index")]
    pub index: Option<OsString>,
    /// Run one copy, on this host
    #[arg(short = 'h', value_name = "host")]
    pub host: Option<OsString>,
    /// Run one copy after another instead of all at once
    #[arg(short = 's')]
    pub sequential: bool,
    /// Report each start and end
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Do not wait for the programs to end
    #[arg(short = 'o')]
    pub no_wait: bool,
    /// The program and its arguments; put -- before a program with options
    #[arg(value_name = "program")]
    pub program: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsdshArgs::command())
}

/// Runs pbsdsh.
pub fn main() -> ExitCode {
    exit::run("pbsdsh", command, || run().map_err(usage_is_1))
}

/// Replaces the exit status of a usage error: PBS's pbsdsh exits with 1 for all its own errors.
fn usage_is_1(failure: Failure) -> Failure {
    if failure.usage {
        failure.with_code(1)
    } else {
        failure
    }
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<PbsdshArgs>(command)? else {
        return Ok(0);
    };
    let words = words(&args.program);
    if words.is_empty() {
        return Err(Failure::usage(""));
    }
    let (Some(membership), Some(lines)) = (Membership::of_this_process(), node_file()) else {
        return Err(Failure::new(1, "not executing under PBS"));
    };
    let slots = slots(&args, &lines)?;
    let program = TaskProgram {
        words,
        environ: environment(),
        tasks: Vec::new(),
    };
    if program.size() > LARGEST {
        let text = format!(
            "the program's arguments and environment are {} bytes long: the maximum is {LARGEST}",
            program.size()
        );
        return Err(Failure::new(1, text));
    }
    let options = TaskOptions {
        verbose: args.verbose,
        leave: args.no_wait,
    };
    let batch_size = if args.sequential {
        1
    } else {
        slots.len().max(1)
    };
    let mut tasks = TaskSet::new(membership, program, options)?;
    for batch in slots.chunks(batch_size) {
        if !tasks.run(batch)? {
            break;
        }
    }
    Ok(tasks.status())
}

/// The program and its arguments, without the first `--`.
fn words(given: &[OsString]) -> Vec<Text> {
    let divider = given.iter().position(|word| word == "--");
    let words = given
        .iter()
        .enumerate()
        .filter(|&(at, _)| Some(at) != divider);
    words
        .map(|(_, word)| Text(word.clone().into_vec()))
        .collect()
}

/// The hosts in the node file, line by line; None outside of jobs, or if the file cannot be read.
fn node_file() -> Option<Vec<String>> {
    let text = std::fs::read(env::var("PBS_NODEFILE")?).ok()?;
    Some(
        String::from_utf8_lossy(&text)
            .lines()
            .map(str::to_string)
            .collect(),
    )
}

/// This process's environment, as `K=V` entries, each terminated by a zero byte.
fn environment() -> Vec<u8> {
    let mut environ = Vec::new();
    for (name, value) in env::vars() {
        environ.extend(name.into_vec());
        environ.push(b'=');
        environ.extend(value.into_vec());
        environ.push(0);
    }
    environ
}

/// For each task, the number of its line in the node file, from 0.
fn slots(args: &PbsdshArgs, lines: &[String]) -> Result<Vec<u32>, Failure> {
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    match (&args.copies, &args.index, &args.host) {
        (None, None, None) => Ok((0..count).collect()),
        (Some(copies), None, None) => {
            let copies = number(copies)
                .filter(|&copies| copies > 0)
                .ok_or_else(|| illegal('c'))?;
            if count == 0 {
                return Ok(Vec::new());
            }
            Ok((0..copies).map(|copy| copy % count).collect())
        }
        (None, Some(index), None) => {
            let index = number(index).ok_or_else(|| illegal('n'))?;
            if index >= count {
                // As in PBS, the exit status is 0; the message is an addition.
                let noun = if count == 1 { "line" } else { "lines" };
                eprintln!(
                    "pbsdsh: no line {index} (counted from 0): the node file of this job has \
                     {count} {noun}"
                );
                return Ok(Vec::new());
            }
            Ok(vec![index])
        }
        (None, None, Some(host)) => {
            let host = host.to_string_lossy();
            let at = lines.iter().position(|line| *line == host).or_else(|| {
                lines
                    .iter()
                    .position(|line| line.split('.').next() == host.split('.').next())
            });
            match at {
                Some(at) => Ok(vec![at as u32]),
                None => {
                    let text = format!(
                        "host {host} does not belong to this job: the hosts of the job are {}",
                        lines.join(", ")
                    );
                    Err(Failure::new(1, text))
                }
            }
        }
        _ => Err(Failure::usage("-c, -n and -h cannot be combined")),
    }
}

fn number(value: &OsString) -> Option<u32> {
    value.to_str()?.parse().ok()
}

fn illegal(letter: char) -> Failure {
    crate::cli::arguments::job_options::illegal(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_runs_on_each_line_or_on_selected_lines() {
        let lines: Vec<String> = ["n1", "n1", "n2.site"].map(String::from).to_vec();
        let selected = |args: &PbsdshArgs| slots(args, &lines);
        let of = |text: &str| Some(OsString::from(text));
        assert_eq!(selected(&PbsdshArgs::default()), Ok(vec![0, 1, 2]));
        assert_eq!(
            selected(&PbsdshArgs {
                copies: of("5"),
                ..PbsdshArgs::default()
            }),
            Ok(vec![0, 1, 2, 0, 1])
        );
        assert_eq!(
            selected(&PbsdshArgs {
                index: of("2"),
                ..PbsdshArgs::default()
            }),
            Ok(vec![2])
        );
        assert_eq!(
            selected(&PbsdshArgs {
                index: of("3"),
                ..PbsdshArgs::default()
            }),
            Ok(vec![])
        );
        assert_eq!(
            selected(&PbsdshArgs {
                host: of("n2"),
                ..PbsdshArgs::default()
            }),
            Ok(vec![2])
        );
        assert!(
            selected(&PbsdshArgs {
                host: of("n3"),
                ..PbsdshArgs::default()
            })
            .is_err()
        );
        assert!(
            selected(&PbsdshArgs {
                copies: of("0"),
                ..PbsdshArgs::default()
            })
            .is_err()
        );
        assert!(
            selected(&PbsdshArgs {
                copies: of("1"),
                index: of("1"),
                ..PbsdshArgs::default()
            })
            .is_err()
        );
    }
}
