//! The files of a nested installation: a directory in the job's `TMPDIR`, with the granted
//! resources and the configuration.

use crate::config::Config;
use crate::model::job::grant::{self, HostGrant};
use crate::spool::lock;
use crate::sys::home::Home;
use crate::sys::{env, filesystem};
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default configuration of a nested installation: strictly first come, first served.
const FIRST_COME_FIRST_SERVED: &str = "[order]\nby = \"fcfs\"\n[backfill]\npolicy = \"none\"\n";
/// The default idle limit of a nested schedd.
const DEFAULT_IDLE: &str = "1m";
/// The hint if `TMPDIR` cannot be used.
const TMPDIR_HINT: &str = "keep the TMPDIR of the job, or use a private directory: \
                           export TMPDIR=$(mktemp -d -p /tmp)";

/// The options of a nested installation.
#[derive(Debug)]
pub struct NestedOptions<'a> {
    /// `--preset`: the preset of the nested installation.
    pub preset: Option<&'a str>,
    /// `--config`: the `lanai.toml` of the nested installation.
    pub config: Option<&'a Path>,
    /// `--queue`: the queue of the parent server from which jobs are taken.
    pub queue: Option<&'a str>,
    /// The command to run; empty for none.
    pub command: &'a [OsString],
}

/// Creates the installation, and sets `LANAI_HOME` of this process and its children to it.
pub fn create_installation(options: &NestedOptions) -> Result<Home> {
    let remedy = "schedd --nested runs only inside a job of Lanai; submit a job that runs it, for \
                  example `qsub -l select=1:ncpus=8 -- schedd --nested`";
    let grant = env::text(grant::VARIABLE).context(remedy)?;
    let granted = HostGrant::parse(&grant)
        .map_err(|why| anyhow!(why))
        .context(grant::VARIABLE)?;
    if granted.ncpus == 0 {
        bail!("this job has no processors for nested jobs: request some with -l select=1:ncpus=N");
    }
    let folder = job_tmpdir()?.join("lanai");
    let job = env::text("PBS_JOBID").context("PBS_JOBID is not set")?;
    let config = configuration(options, &job)?;
    env::set("LANAI_HOME", &folder);
    let home = Home::find()?;
    if lock::is_held(&home) {
        bail!(
            "this job already has a nested schedd: export LANAI_HOME={}",
            quoted(&folder)
        );
    }
    if folder.symlink_metadata().is_ok() {
        must_be_private(&folder)?;
    }
    filesystem::make_private(&folder).with_context(|| folder.display().to_string())?;
    std::fs::write(home.grant(), grant).with_context(|| home.grant().display().to_string())?;
    std::fs::write(&home.config, config).with_context(|| home.config.display().to_string())?;
    Ok(home)
}

/// `TMPDIR` as a canonical path, so that a changed link cannot redirect it later. A directory to
/// which other users may write, such as /tmp, is refused, because they could have created the
/// installation's directory.
fn job_tmpdir() -> Result<PathBuf> {
    let folder = env::var("TMPDIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder =
        folder.with_context(|| format!("TMPDIR is not set to an absolute path: {TMPDIR_HINT}"))?;
    let folder = folder
        .canonicalize()
        .with_context(|| format!("TMPDIR is {}", folder.display()))?;
    must_be_private(&folder).context("TMPDIR")?;
    Ok(folder)
}

/// Refuses a path that is not a directory, or that other users own or may write to.
fn must_be_private(folder: &Path) -> Result<()> {
    let is_private =
        filesystem::is_protected(folder).with_context(|| folder.display().to_string())?;
    is_private.then_some(()).with_context(|| {
        format!(
            "{} is not a private directory: {TMPDIR_HINT}",
            folder.display()
        )
    })
}

/// The `lanai.toml` of the nested installation: the file of `--config`, the preset, or the default.
/// Adds the server's name and idle limit, if missing, and makes the server personal.
fn configuration(options: &NestedOptions, job: &str) -> Result<String> {
    let text = match (options.config, options.preset) {
        (Some(file), _) => {
            std::fs::read_to_string(file).with_context(|| file.display().to_string())?
        }
        (None, Some(preset)) => format!("preset = \"{preset}\"\n"),
        (None, None) => FIRST_COME_FIRST_SERVED.to_string(),
    };
    // Errors name the file of `--config`, not the file that is written from it.
    let place = match options.config {
        Some(file) => file.display().to_string(),
        None => String::new(),
    };
    let config = Config::parse(&text).with_context(|| place.clone())?;
    if config.nodes.iter().any(|node| node.socket.is_some()) {
        bail!(
            "{}: a nested installation cannot have a [[node]] with a socket: remove this section",
            place
        );
    }
    let mut table: toml::Table = text.parse().with_context(|| place.clone())?;
    let server = table
        .entry("server")
        .or_insert_with(|| toml::Table::new().into());
    if let Some(server) = server.as_table_mut() {
        server.entry("name").or_insert_with(|| name(job).into());
        server.entry("idle").or_insert_with(|| DEFAULT_IDLE.into());
        // A nested installation serves only the owner of the job in which it runs.
        server.insert("shared".into(), false.into());
    }
    Ok(toml::to_string(&table)?)
}

/// The name of the nested server in job ids: `job12.head` inside job 12 of server head,
/// `job12-3.head` inside subjob `12[3]`.
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
    fn the_default_order_is_fcfs_and_options_override_it() {
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
    fn the_refusal_of_an_invalid_configuration_names_the_file() {
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
    fn a_path_is_quoted_as_one_shell_word() {
        assert_eq!(quoted(Path::new("/tmp/it's here")), r"'/tmp/it'\''s here'");
    }
}
