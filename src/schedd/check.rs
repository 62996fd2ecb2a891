//! `schedd --check`: validates the configuration, prints the settings in force, and warns about
//! likely mistakes.

use crate::config::Config;
use crate::config::overrides::QmgrOverrides;
use crate::config::settings::{KeySetting, Written, effective};
use crate::config::warnings::warnings;
use crate::sched::share_tree::outline;
use crate::schedd::configuration;
use crate::spool::{self, SpoolError, SpoolReader};
use crate::sys::home::Home;
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// The result as JSON.
#[derive(Serialize)]
struct Found {
    file: String,
    settings: Vec<KeySetting>,
    warnings: Vec<String>,
}

/// Prints the result. Fails if the file is invalid.
pub fn check(home: Home, as_json: bool) -> Result<()> {
    let text = configuration::text(&home)?;
    let file = home.config.display().to_string();
    let of_file = Config::parse(&text).with_context(|| file.clone())?;
    let (overrides, unread) = match said(&home) {
        Ok(overrides) => (overrides, None),
        Err(error) => (
            QmgrOverrides::default(),
            Some(format!("what qmgr has said is not told, since {error:#}")),
        ),
    };
    let (config, misfits) = of_file.with_overrides(&overrides);
    let settings = effective(&config, &text, &overrides);
    let misfits = misfits
        .iter()
        .map(|misfit| format!("what qmgr has said does not fit, and does not count: {misfit}"));
    let warnings = warnings(&config, &settings)
        .into_iter()
        .chain(misfits)
        .chain(unread)
        .collect();
    let found = Found {
        file,
        settings,
        warnings,
    };
    let said = if as_json {
        format!("{}\n", serde_json::to_string_pretty(&found)?)
    } else {
        told(&found, &config, home.config.exists())
    };
    match std::io::stdout().write_all(said.as_bytes()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// The overrides of `qmgr` in the spool, if the caller may read it.
fn said(home: &Home) -> Result<QmgrOverrides> {
    let file = spool::file(home);
    match SpoolReader::open(&file) {
        Ok(reader) => Ok(reader
            .map(|reader| reader.overrides())
            .transpose()?
            .unwrap_or_default()),
        // This spool is older than qmgr overrides.
        Err(SpoolError::Older { .. }) => Ok(QmgrOverrides::default()),
        Err(error) => Err(error).with_context(|| format!("it cannot be read: {}", file.display())),
    }
}

/// The settings as a `lanai.toml`; everything else is in comments.
fn told(found: &Found, config: &Config, is_there: bool) -> String {
    let head = if is_there {
        format!("{}: good", found.file)
    } else {
        format!("{}: there is no such file, and none is needed", found.file)
    };
    let warnings = found
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let head: Vec<String> = std::iter::once(head).chain(warnings).collect();
    let (head, shares) = (
        remark(&head.join("\n")),
        remark(&outline(&config.policy.fair_share)),
    );
    format!("{head}\n{}\n{shares}", Written(&found.settings))
}

fn remark(text: &str) -> String {
    text.lines().map(|line| format!("# {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_configuration_again_with_all_remarks() {
        let text =
            "preset = \"it4i\"\n[order.weights]\nqos = 1\n[[account]]\nname = \"a\"\nshares = 2\n";
        let config = Config::parse(text).unwrap();
        let settings = effective(&config, text, &QmgrOverrides::default());
        let warnings = warnings(&config, &settings);
        let found = Found {
            file: "/etc/a.toml".into(),
            settings,
            warnings,
        };
        let said = told(&found, &config, true);
        assert!(
            said.starts_with("# /etc/a.toml: good\n# warning: line 3: `qos` "),
            "{said}"
        );
        assert!(
            said.contains("\n# fairshare: linear, by account\n#   a: shares 2"),
            "{said}"
        );
        assert_eq!(
            Config::parse(&said).unwrap().policy.precedence,
            config.policy.precedence,
            "{said}"
        );
        assert!(told(&found, &config, false).starts_with("# /etc/a.toml: there is no such file"));
    }
}
