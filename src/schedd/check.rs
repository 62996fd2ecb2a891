//! `schedd --check`: is the configuration good, what holds, and what in it may not be what is meant?

use super::setup;
use crate::model::config::Config;
use crate::model::config::caution::cautions;
use crate::model::config::resolved::{Setting, Written, resolved};
use crate::sched::shares::outline;
use crate::sys::home::Home;
use anyhow::{Context, Result};
use serde::Serialize;

/// What is told, for programs.
#[derive(Serialize)]
struct Found {
    file: String,
    settings: Vec<Setting>,
    warnings: Vec<String>,
}

/// Prints it; the error is what is wrong with the file.
pub fn check(home: Home, as_json: bool) -> Result<()> {
    let text = setup::text(&home)?;
    let file = home.config.display().to_string();
    let config = Config::parse(&text).with_context(|| file.clone())?;
    let found = Found { file, settings: resolved(&config, &text), warnings: cautions(&config) };
    match as_json {
        true => println!("{}", serde_json::to_string_pretty(&found)?),
        false => tell(&found, &config),
    }
    Ok(())
}

fn tell(found: &Found, config: &Config) {
    println!("{}: good", found.file);
    found.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    println!("\n{}", Written(&found.settings));
    print!("{}", outline(&config.fair_share));
}
