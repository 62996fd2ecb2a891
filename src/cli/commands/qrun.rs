//! `qrun`: starts jobs now, regardless of the order.

use super::job_command::JobCommand;
use crate::cli::arguments::job_options;
use crate::cli::client::exit::Failure;
use crate::wire::batch::Act;
use crate::wire::message::Placing;
use clap::Parser;
use std::ffi::{OsStr, OsString};

/// Start jobs now, before all other jobs, if the requested resources are free (operators only).
#[derive(Parser, Clone, Debug)]
#[command(name = "qrun")]
pub struct QrunArgs {
    /// Exit with status 0 even if the job cannot start now; the job then continues to wait
    #[arg(short = 'a')]
    pub detached: bool,
    /// Use only these nodes: n1+n2, or - for the nodes on which the job last ran. The format of
    /// exec_vnode, (n1:ncpus=2)+(n2:ncpus=2), is also accepted; the amounts in it have no effect
    #[arg(short = 'H', value_name = "vnode_specification")]
    pub nodes: Option<OsString>,
    /// Job ids: 12 or 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

impl JobCommand for QrunArgs {
    const NAME: &'static str = "qrun";
    const STATUSES: Option<(u8, u8)> = Some((1, 2));

    fn jobs(&self) -> &[OsString] {
        &self.jobs
    }

    fn requests(&self) -> Result<Vec<Act>, Failure> {
        let on = match self.nodes.as_deref() {
            Some(nodes) => placing(nodes)?,
            None => Placing::Anywhere,
        };
        let detached = self.detached;
        Ok(vec![Act::Run { on, detached }])
    }
}

/// Parses the nodes of `-H`.
pub(super) fn placing(text: &OsStr) -> Result<Placing, Failure> {
    let text = text.to_str().map(str::trim).unwrap_or_default();
    if text == "-" {
        return Ok(Placing::Again);
    }
    let mut names = Vec::new();
    for chunk in text.split('+') {
        let chunk = chunk.trim_matches(|c: char| "() ".contains(c));
        let name = chunk.split(':').next().unwrap_or_default();
        if name.is_empty() {
            return Err(job_options::illegal('H'));
        }
        names.push(name.to_string());
    }
    Ok(Placing::On(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_given_by_name_or_as_exec_vnode() {
        let on = |names: &[&str]| Ok(Placing::On(names.iter().map(ToString::to_string).collect()));
        for (text, expected) in [
            ("-", Ok(Placing::Again)),
            ("n1", on(&["n1"])),
            ("n1 + n2", on(&["n1", "n2"])),
            ("(n1:ncpus=2)+(n2:ncpus=2:mem=1gb)", on(&["n1", "n2"])),
            ("(a[0]:ncpus=1+a[1]:ncpus=1)", on(&["a[0]", "a[1]"])),
        ] {
            assert_eq!(placing(text.as_ref()), expected, "{text}");
        }
        for bad in ["", " ", "+", "n1+", "(:ncpus=2)"] {
            assert!(placing(bad.as_ref()).is_err(), "{bad}");
        }
    }
}
