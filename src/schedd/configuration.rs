//! Reads `lanai.toml` and the facts about the machine.

use crate::config::Config;
use crate::model::job::Owner;
use crate::schedd::accounts::SystemAccounts;
use crate::server::setup::{Installation, Setup};
use crate::sys::home::Home;
use crate::sys::{record, user};
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

/// The default mail program.
const MAILER: &str = "/usr/sbin/sendmail";

/// The text of `lanai.toml`; empty if the file does not exist.
pub fn text(home: &Home) -> Result<String> {
    match std::fs::read_to_string(&home.config) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| home.config.display().to_string()),
    }
}

/// The configuration of an installation, without changes by `qmgr`.
pub fn read(home: &Home) -> Result<Setup> {
    let text = text(home)?;
    let file = Config::parse(&text).with_context(|| home.config.display().to_string())?;
    Ok(Setup::new(installation(home), text.into(), Arc::new(file)))
}

fn installation(home: &Home) -> Installation {
    let own = user::own();
    Installation {
        host: record::host(),
        own: Owner {
            user: own.name,
            uid: own.uid,
            gid: own.gid,
        },
        system: home.system,
        nested: home.grant().exists(),
        config: home.config.clone(),
        mailer: Some(PathBuf::from(MAILER)).filter(|path| path.exists()),
        accounts: Arc::new(SystemAccounts),
    }
}
