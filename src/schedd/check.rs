//! `schedd --check`: validates the configuration, prints all settings, and warns about likely
//! mistakes.

mod missing;

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
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};

/// The result of `schedd --check`, as `-F json` prints it.
#[derive(Serialize)]
struct CheckResult {
    file: String,
    settings: Vec<KeySetting>,
    warnings: Vec<String>,
}

/// Checks the configuration and prints the result. Fails if the file is invalid.
pub fn check(home: Home, as_json: bool) -> Result<()> {
    let text = configuration::text(&home)?;
    let file = home.config.display().to_string();
    let of_file = Config::parse(&text).with_context(|| file.clone())?;
    let (Stored { overrides, nodes }, unread) = match stored(&home) {
        Ok(stored) => (stored, None),
        Err(error) => (
            Stored::default(),
            Some(format!("the settings of qmgr are not shown: {error:#}")),
        ),
    };
    let (config, conflicts) = of_file.with_overrides(&overrides);
    let settings = effective(&config, &text, &overrides);
    let conflicts = conflicts.iter().map(|conflict| {
        format!("a setting of qmgr conflicts with the file and is ignored: {conflict}")
    });
    let warnings = warnings(&config, &settings)
        .into_iter()
        .chain(missing::warnings(&config, &nodes))
        .chain(conflicts)
        .chain(unread)
        .collect();
    let result = CheckResult {
        file,
        settings,
        warnings,
    };
    let output = if as_json {
        format!("{}\n", serde_json::to_string_pretty(&result)?)
    } else {
        as_toml(&result, &config, home.config.exists())
    };
    match std::io::stdout().write_all(output.as_bytes()) {
        // The reader of the output has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// The contents of the spool (schedd's database) that the check uses.
#[derive(Default)]
struct Stored {
    overrides: QmgrOverrides,
    /// The names of all nodes.
    nodes: BTreeSet<String>,
}

/// Reads the overrides of `qmgr` and the nodes from the spool; none if there is no spool, or if
/// schedd must first upgrade the schema of the spool.
fn stored(home: &Home) -> Result<Stored> {
    let file = spool::file(home);
    match SpoolReader::open(&file) {
        Ok(None) => Ok(Stored::default()),
        Ok(Some(reader)) => Ok(Stored {
            overrides: reader.overrides()?,
            nodes: reader.node_names()?,
        }),
        // The spool cannot be read before schedd has upgraded its schema.
        Err(SpoolError::Older { .. }) => Ok(Stored::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// The settings as a valid `lanai.toml`, with warnings and the share tree as comments.
fn as_toml(result: &CheckResult, config: &Config, exists: bool) -> String {
    let head = if exists {
        format!("{}: valid", result.file)
    } else {
        format!("{}: no such file; the defaults apply", result.file)
    };
    let warnings = result
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let head: Vec<String> = std::iter::once(head).chain(warnings).collect();
    let (head, shares) = (
        commented(&head.join("\n")),
        commented(&outline(&config.policy.fair_share)),
    );
    format!("{head}\n{}\n{shares}", Written(&result.settings))
}

fn commented(text: &str) -> String {
    text.lines().map(|line| format!("# {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_a_valid_configuration() {
        let text =
            "preset = \"it4i\"\n[order.weights]\nqos = 1\n[[account]]\nname = \"a\"\nshares = 2\n";
        let config = Config::parse(text).unwrap();
        let settings = effective(&config, text, &QmgrOverrides::default());
        let warnings = warnings(&config, &settings);
        let result = CheckResult {
            file: "/etc/a.toml".into(),
            settings,
            warnings,
        };
        let output = as_toml(&result, &config, true);
        assert!(
            output.starts_with("# /etc/a.toml: valid\n# warning: line 3: `qos` "),
            "{output}"
        );
        assert!(
            output.contains("\n# fairshare: linear, by account\n#   a: shares 2"),
            "{output}"
        );
        assert_eq!(
            Config::parse(&output).unwrap().policy.precedence,
            config.policy.precedence,
            "{output}"
        );
        assert!(as_toml(&result, &config, false).starts_with("# /etc/a.toml: no such file"));
    }
}
