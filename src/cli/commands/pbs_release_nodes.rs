//! `pbs_release_nodes`: releases nodes of a running job before its end.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::cli::client::operand::Operand;
use crate::model::job::release::KeptNodes;
use crate::model::refusal::Refusal;
use crate::sys::env;
use crate::wire::message::{ClientRequest, Reply};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

const COMMAND: &str = "pbs_release_nodes";

/// The exit status if the job id is missing or malformed.
const USAGE: u8 = 2;

/// Release nodes of a running job before it ends.
///
/// The job keeps its resources on the host of its script. Tasks of the job on released nodes are
/// ended, and the lines of these nodes are removed from PBS_NODEFILE. Other jobs can use a released
/// node as soon as no task of the job runs on it. The job is charged for a node until the node is
/// released.
#[derive(Parser, Clone, Debug, Default)]
#[command(
    name = COMMAND,
    override_usage = "pbs_release_nodes [-j job_identifier] host_or_vnode1 host_or_vnode2 ...\n       \
                      pbs_release_nodes [-j job_identifier] -a\n       \
                      pbs_release_nodes [-j job_identifier] -k <select string>\n       \
                      pbs_release_nodes [-j job_identifier] -k <node count>"
)]
pub struct PbsReleaseNodesArgs {
    /// Job id (default: the job in which the command runs)
    #[arg(short = 'j', value_name = "job_identifier")]
    pub job: Option<OsString>,
    /// Release all nodes except those on the host of the script
    #[arg(short = 'a')]
    pub all: bool,
    /// Keep this number of hosts in addition to the host of the script, or keep the resources that
    /// satisfy this select, such as select=2:ncpus=4+1:ngpus=1; release all others. The host of the
    /// script is always kept, and its resources count for the select
    #[arg(short = 'k', value_name = "select|count")]
    pub keep: Option<OsString>,
    /// Nodes to release, or hosts to release with all their nodes
    #[arg(value_name = "host_or_vnode")]
    pub nodes: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsReleaseNodesArgs::command())
}

/// Runs pbs_release_nodes.
pub fn main() -> ExitCode {
    exit::run(COMMAND, command, run)
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<PbsReleaseNodesArgs>(command)? else {
        return Ok(0);
    };
    let keep = keep(&args)?;
    let word = args
        .job
        .or_else(|| env::var("PBS_JOBID"))
        .filter(|word| !word.is_empty());
    let word = word.ok_or_else(|| Failure::new(USAGE, "No jobid given"))?;
    let operand = Operand::parse(&word).map_err(|failure| failure.with_code(USAGE))?;
    let mut schedd = LazySchedd::find()?;
    let name = schedd.name()?;
    let job = operand
        .job(&name)
        .ok_or_else(|| operand.wrong_server(&word))?;
    match schedd.call(&ClientRequest::ReleaseNodes(job, keep))? {
        Reply::Done => Ok(0),
        Reply::Refused(refusal) => {
            // PBS appends a blank and the job id if the job is unknown, but only a blank to other
            // refusals.
            let id = if refusal == Refusal::unknown_job() {
                operand.full(&name)
            } else {
                String::new()
            };
            Err(Failure::of_job(COMMAND, &refusal, &id))
        }
        _ => Err(exit::protocol_error()),
    }
}

/// The nodes that the job keeps.
fn keep(args: &PbsReleaseNodesArgs) -> Result<KeptNodes, Failure> {
    if let Some(text) = &args.keep {
        return if args.all {
            Err(Failure::usage("-a and -k options cannot be used together"))
        } else if !args.nodes.is_empty() {
            Err(Failure::usage("cannot supply node list with -k option"))
        } else {
            Ok(counted_or_selected(&text.to_string_lossy()))
        };
    }
    if args.all != args.nodes.is_empty() {
        return Err(Failure::usage(""));
    }
    if args.all {
        return Ok(KeptNodes::Nothing);
    }
    let names = args
        .nodes
        .iter()
        .map(|name| name.to_string_lossy().into_owned());
    Ok(KeptNodes::AllBut(names.collect()))
}

fn counted_or_selected(text: &str) -> KeptNodes {
    match text.trim().parse() {
        Ok(count) => KeptNodes::Hosts(count),
        Err(_) => KeptNodes::Select(text.strip_prefix("select=").unwrap_or(text).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_nodes_or_kept_nodes_are_given_but_not_both() {
        let of = |all, kept: Option<&str>, nodes: &[&str]| {
            let nodes = nodes.iter().map(OsString::from).collect();
            keep(&PbsReleaseNodesArgs {
                job: None,
                all,
                keep: kept.map(OsString::from),
                nodes,
            })
        };
        assert_eq!(of(true, None, &[]), Ok(KeptNodes::Nothing));
        assert_eq!(
            of(false, None, &["n2", "n3"]),
            Ok(KeptNodes::AllBut(vec!["n2".into(), "n3".into()]))
        );
        assert_eq!(of(false, Some("2"), &[]), Ok(KeptNodes::Hosts(2)));
        assert_eq!(
            of(false, Some("select=2:ncpus=1"), &[]),
            Ok(KeptNodes::Select("2:ncpus=1".into()))
        );
        for (all, kept, nodes) in [
            (false, None, &[][..]),
            (true, None, &["n2"]),
            (true, Some("1"), &[]),
            (false, Some("1"), &["n2"]),
        ] {
            assert!(of(all, kept, nodes).is_err_and(|failure| failure.usage && failure.code == 2));
        }
    }
}
