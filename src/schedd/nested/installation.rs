//! The installation of a nested instance: a directory in the job's `TMPDIR`, its resources and its
//! configuration.

use crate::config::Config;
use crate::model::job::grant::{self, HostGrant};
use crate::spool::lock;
use crate::sys::home::Home;
use crate::sys::{env, filesystem};
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default configuration of a nested instance: strictly first come, first served.
const FIRST_COME_FIRST_SERVED: &str = "[order]\nby = \"fcfs\"\n[backfill]\npolicy = \"none\"\n";
/// The default idle limit of an instance without a command.
const IDLE: &str = "1m";
/// The hint if `TMPDIR` cannot be used.
const OWN_TMPDIR: &str = "leave TMPDIR as the job was given it, or name a folder of your own with \
                          export TMPDIR=$(mktemp -d)";

/// The options of a nested instance.
#[derive(Debug)]
pub struct NestedOptions<'a> {
    /// `--preset`: its defaults.
    pub preset: Option<&'a str>,
    /// `--config`: its `lanai.toml`.
    pub config: Option<&'a Path>,
    /// `--queue`: the queue of the parent from which it takes jobs.
    pub queue: Option<&'a str>,
    /// The command to run; empty for none.
    pub command: &'a [OsString],
}

/// Creates the installation, and sets the environment of this process and its children to it.
pub fn settle(options: &NestedOptions) -> Result<Home> {
    let remedy = "schedd --nested serves within a job of Lanai: submit it, as in \
                  `qsub -l select=1:ncpus=8 -- schedd --nested`";
    let grant = env::text(grant::VARIABLE).context(remedy)?;
    let granted = HostGrant::parse(&grant)
        .map_err(|why| anyhow!(why))
        .context(grant::VARIABLE)?;
    if granted.ncpus == 0 {
        bail!(
            "this job was given no processors, so none can be offered: ask for some with -l select=1:ncpus=N"
        );
    }
    let folder = own_folder()?.join("lanai");
    let job = env::text("PBS_JOBID").context("PBS_JOBID is not set")?;
    let config = configuration(options, &job)?;
    env::set("LANAI_HOME", &folder);
    let home = Home::find()?;
    if lock::is_held(&home) {
        bail!(
            "this job has a schedd already: export LANAI_HOME={}",
            quoted(&folder)
        );
    }
    if folder.symlink_metadata().is_ok() {
        must_be_ours(&folder)?;
    }
    filesystem::make_private(&folder).with_context(|| folder.display().to_string())?;
    std::fs::write(home.grant(), grant).with_context(|| home.grant().display().to_string())?;
    std::fs::write(&home.config, config).with_context(|| home.config.display().to_string())?;
    Ok(home)
}

/// `TMPDIR` as a canonical path, so that a link cannot redirect it later. A directory that others
/// may write to, such as /tmp, is refused: they could have created ours there.
fn own_folder() -> Result<PathBuf> {
    let folder = env::var("TMPDIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder =
        folder.with_context(|| format!("TMPDIR names no folder to live in: {OWN_TMPDIR}"))?;
    let folder = folder
        .canonicalize()
        .with_context(|| format!("TMPDIR is {}", folder.display()))?;
    must_be_ours(&folder).context("TMPDIR")?;
    Ok(folder)
}

/// Refuses a path that is no directory, or that others own or may write to.
fn must_be_ours(folder: &Path) -> Result<()> {
    let is_ours = filesystem::is_ones_own(folder).with_context(|| folder.display().to_string())?;
    is_ours
        .then_some(())
        .with_context(|| format!("{} is not yours alone: {OWN_TMPDIR}", folder.display()))
}

/// The `lanai.toml` of the instance: the given one, else the default.
fn configuration(options: &NestedOptions, job: &str) -> Result<String> {
    let text = match (options.config, options.preset) {
        (Some(file), _) => {
            std::fs::read_to_string(file).with_context(|| file.display().to_string())?
        }
        (None, Some(preset)) => format!("preset = \"{preset}\"\n"),
        (None, None) => FIRST_COME_FIRST_SERVED.to_string(),
    };
    // Errors are reported with the file's own name and line.
    let place = match options.config {
        Some(file) => file.display().to_string(),
        None => String::new(),
    };
    let config = Config::parse(&text).with_context(|| place.clone())?;
    if config.nodes.iter().any(|node| node.socket.is_some()) {
        bail!(
            "{}: a [[node]] with a socket is not the job's to offer: remove it",
            place
        );
    }
    let mut table: toml::Table = text.parse().with_context(|| place.clone())?;
    let server = table
        .entry("server")
        .or_insert_with(|| toml::Table::new().into());
    if let Some(server) = server.as_table_mut() {
        server.entry("name").or_insert_with(|| name(job).into());
        server.entry("idle").or_insert_with(|| IDLE.into());
        // The queue of one job belongs to its owner.
        server.insert("shared".into(), false.into());
    }
    Ok(toml::to_string(&table)?)
}

/// Server name, the part of its job ids after the dot: `job12.head`, or `job12-3.head` in element 3
/// of an array.
fn name(job: &str) -> String {
    format!("job{}", job.replace('[', "-").replace(']', ""))
}

/// A path, quoted as one shell word.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::{Filling, PriorityOrder};
    use crate::model::time::Span;

    fn config(options: &NestedOptions) -> Config {
        Config::parse(&configuration(options, "12[3].head").unwrap()).unwrap()
    }

    #[test]
    fn it_serves_in_order_unless_it_is_told_otherwise() {
        let options = |preset, config| NestedOptions {
            preset,
            config,
            queue: None,
            command: &[],
        };
        let plain = config(&options(None, None));
        assert_eq!(
            (plain.policy.precedence.order, plain.policy.backfill.policy),
            (PriorityOrder::Fcfs, Filling::None)
        );
        assert_eq!(
            (plain.server.name.as_deref(), plain.server.idle),
            (Some("job12-3.head"), Span::seconds(60))
        );
        assert_ne!(
            config(&options(Some("flux"), None)).policy.precedence.order,
            PriorityOrder::Fcfs
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        std::fs::write(
            &file,
            "[server]\nidle = \"5m\"\nshared = true\n[cycle]\npoll_interval = \"7s\"\n",
        )
        .unwrap();
        let own = config(&options(None, Some(&file)));
        assert_eq!(
            (own.server.idle, own.cycle.poll_interval),
            (Span::seconds(300), Span::seconds(7))
        );
        assert!(!own.server.shared && own.server.name.is_some());
    }

    #[test]
    fn nodes_of_others_and_mistakes_are_refused_by_the_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let refused = |text: &str| {
            std::fs::write(&file, text).unwrap();
            format!(
                "{:#}",
                configuration(
                    &NestedOptions {
                        preset: None,
                        config: Some(&file),
                        queue: None,
                        command: &[]
                    },
                    "1.h"
                )
                .unwrap_err()
            )
        };
        let foreign = refused("[[node]]\nname = \"n2\"\nsocket = \"/run/n2.sock\"\n");
        assert!(
            foreign.contains("own.toml") && foreign.contains("socket"),
            "{foreign}"
        );
        let mistake = refused("[order]\nby = \"fcsf\"\n");
        assert!(
            mistake.contains("own.toml") && mistake.contains("line 2"),
            "{mistake}"
        );
    }

    #[test]
    fn a_folder_is_one_word_to_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/it's here")), r"'/tmp/it'\''s here'");
    }
}
