//! noded's command line.

use crate::model::resource::Size;
use clap::Parser;
use std::path::PathBuf;

/// Runs jobs on this host, as schedd orders.
///
/// Without options it presents this host as one node, with the processors, memory and GPUs that it
/// may use itself, goes into the background and says nothing more.
#[derive(Clone, Debug, Parser)]
#[command(name = "noded", version)]
pub struct NodedArgs {
    /// Present this many nodes, named NAME1, NAME2, ..., each as if it were a host of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,

    /// Processors of each node, instead of those detected
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub ncpus: Option<u32>,

    /// Memory of each node (a PBS size: 512mb, 8gb), instead of that detected
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub mem: Option<Size>,

    /// GPUs of each node, instead of those detected
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16))]
    pub ngpus: Option<u16>,

    /// The node's name, or with --nodes what their names begin with; the host's short name if not
    /// given
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub name: Option<String>,

    /// Only pretend to run jobs: each ends with exit status 0 after HOLLOW_RUNTIME seconds, if that
    /// is set in its environment, else after its walltime, else at once
    #[arg(long)]
    pub hollow: bool,

    /// Listen here instead of at noded.sock in the installation's runtime folder
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Keep running jobs' records here instead of in the installation's state folder
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// As root, run no jobs of users with lower numbers than this, instead of min_uid in lanai.toml
    #[arg(long, value_name = "UID")]
    pub min_uid: Option<u32>,

    /// Take orders from a schedd that runs as this user, besides root and noded's own user
    #[arg(long, value_name = "UID")]
    pub schedd_uid: Option<u32>,

    /// Many users share this installation: never run root's jobs (implied by /etc/lanai/lanai.toml,
    /// and by shared = true in another lanai.toml)
    #[arg(long)]
    pub shared: bool,

    /// Do without control groups: find a job's processes by their parents, even where groups could
    /// be made
    #[arg(long)]
    pub no_cgroups: bool,

    /// Stay in the foreground and log to standard error
    #[arg(long)]
    pub foreground: bool,

    /// Leave when no schedd has been connected and no job has run for this long
    #[arg(long, value_name = "SECONDS")]
    pub exit_when_idle: Option<u32>,
}

fn size(text: &str) -> Result<Size, String> {
    Size::parse(text)
        .ok_or_else(|| "a size is a whole number and a unit, as in 512mb or 8gb".into())
}

fn node_name(text: &str) -> Result<String, String> {
    let is_good = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if text.is_empty() || text.len() > 64 || !is_good {
        return Err("a node's name has letters, digits, '-', '_' and '.', at most 64".into());
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
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
