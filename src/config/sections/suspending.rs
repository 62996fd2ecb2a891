//! `[preemption]`, as far as suspended jobs go: what of theirs others may have meanwhile.

use super::{keys, list, text};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::job::suspension::Releases;
use crate::model::resource::Resources;
use std::collections::BTreeSet;

/// `releases`: the names of resources that are counted, each once.
pub fn releases(section: &Section, resources: &Resources) -> Result<Releases, ConfigError> {
    section.only(keys("preemption"))?;
    let counted: BTreeSet<&str> = resources
        .consumables()
        .into_iter()
        .chain(resources.pooled())
        .collect();
    let named = section.read(
        "releases",
        "a list of names of resources, as [\"ncpus\"]",
        list(text),
    )?;
    let mut seen = BTreeSet::new();
    for name in named.iter().flatten() {
        let fault = match (counted.contains(name.as_str()), seen.insert(name.as_str())) {
            (false, _) => {
                format!("`{name}` is no resource that is counted: name such as ncpus, ngpus or mem")
            }
            (true, false) => format!("`{name}` is named twice: once is enough"),
            (true, true) => continue,
        };
        return Err(section.wrong_at("releases", fault));
    }
    Ok(named.map(Releases).unwrap_or_default())
}
