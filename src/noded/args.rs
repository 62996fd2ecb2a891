//! noded's command line.

use crate::model::resource::Size;
use clap::Parser;
use std::path::PathBuf;

/// Run the jobs that schedd assigns to this host.
///
/// Without options, noded presents this host as one node, with the processors, memory and GPUs
/// available to noded, and runs in the background.
#[derive(Clone, Debug, Parser)]
#[command(name = "noded", version)]
pub struct NodedArgs {
    /// Present N nodes, named NAME1, NAME2, ..., each like a separate host
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,

    /// Processors of each node (default: the detected processors, divided among the nodes)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub ncpus: Option<u32>,

    /// Memory of each node, such as 512mb or 8gb (default: the detected memory, divided among the
    /// nodes)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub mem: Option<Size>,

    /// GPUs of each node (default: the detected GPUs, or 0 with several nodes)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16))]
    pub ngpus: Option<u16>,

    /// Node name, or with --nodes the prefix of all node names (default: the host's short name)
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub name: Option<String>,

    /// Simulate jobs instead of running them: a job ends with exit status 0 after HOLLOW_RUNTIME
    /// seconds (if set in the job's environment), else after its walltime, else at once
    #[arg(long)]
    pub hollow: bool,

    /// Socket to listen on (default: noded.sock in the installation's runtime directory)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Directory for records of running jobs (default: in the installation's state directory)
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// As root, refuse jobs of users with a lower uid (default: min_uid in lanai.toml)
    #[arg(long, value_name = "UID")]
    pub min_uid: Option<u32>,

    /// Accept orders from a schedd that runs as this user, in addition to root and noded's own user
    #[arg(long, value_name = "UID")]
    pub schedd_uid: Option<u32>,

    /// Run jobs of many users, but never jobs of root (implied by /etc/lanai/lanai.toml, and by
    /// shared = true in another lanai.toml)
    #[arg(long)]
    pub shared: bool,

    /// Do not use cgroups, even if they are available: find the processes of a job by their parents
    #[arg(long)]
    pub no_cgroups: bool,

    /// Stay in the foreground and log to standard error
    #[arg(long)]
    pub foreground: bool,

    /// Exit after this time without a connected schedd and without running jobs
    #[arg(long, value_name = "SECONDS")]
    pub exit_when_idle: Option<u32>,
}

fn size(text: &str) -> Result<Size, String> {
    Size::parse(text).ok_or_else(|| "expected a size, such as 512mb or 8gb".into())
}

fn node_name(text: &str) -> Result<String, String> {
    let is_valid = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if text.is_empty() || text.len() > 64 || !is_valid {
        return Err("a node name consists of 1 to 64 letters, digits, '-', '_' and '.'".into());
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn valid_arguments_are_parsed_and_invalid_ones_refused() {
        NodedArgs::command().debug_assert();
        let args = NodedArgs::try_parse_from(["noded", "--nodes", "4", "--mem", "8gb"]).unwrap();
        assert_eq!(
            (args.nodes, args.mem.unwrap().to_string()),
            (4, "8gb".into())
        );
        for bad in [
            ["noded", "--nodes", "0"],
            ["noded", "--mem", "much"],
            ["noded", "--name", "a b"],
        ] {
            assert!(NodedArgs::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }
}
