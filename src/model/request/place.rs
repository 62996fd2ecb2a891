//! Parsing of `place`: an arrangement, a sharing and a grouping, in any order and case.

use super::find;
use crate::model::refusal::Refusal;
use crate::model::request::select::{Arrangement, Place, Sharing};
use crate::model::resource::Resources;

/// Returns the place of a job that requests neither `select`, `nodes` nor `place`.
pub(super) fn pack() -> Place {
    Place {
        arrangement: Arrangement::Pack,
        text: "pack".into(),
        ..Place::default()
    }
}

/// Parses a place. The result contains the unchanged text, too.
pub(super) fn parse(text: &str, resources: &Resources) -> Result<Place, Refusal> {
    let (mut arrangement, mut sharing, mut group) = (None, None, None);
    for word in text.split(':') {
        let lower = word.to_ascii_lowercase();
        if let Some(name) = lower.strip_prefix("group=") {
            group = Some(grouping(name, resources)?);
        } else if let Some(found) = arrangement_of(&lower) {
            set_once(&mut arrangement, found)?;
        } else {
            set_once(&mut sharing, sharing_of(&lower).ok_or_else(malformed)?)?;
        }
    }
    Ok(Place {
        arrangement: arrangement.unwrap_or_default(),
        sharing: sharing.unwrap_or_default(),
        group,
        text: text.to_string(),
    })
}

fn malformed() -> Refusal {
    Refusal::illegal_value("Resource_List.place")
}

/// Stores a part of the place; refuses a second part of the same kind.
fn set_once<T>(slot: &mut Option<T>, found: T) -> Result<(), Refusal> {
    match slot.replace(found) {
        Some(_) => Err(malformed()),
        None => Ok(()),
    }
}

fn grouping(name: &str, resources: &Resources) -> Result<String, Refusal> {
    if name.is_empty() {
        return Err(malformed());
    }
    let found = find(name, resources).map(|(name, _)| name.to_string());
    found.ok_or_else(|| Refusal::unknown_resource("place"))
}

fn arrangement_of(word: &str) -> Option<Arrangement> {
    Some(match word {
        "free" => Arrangement::Free,
        "pack" => Arrangement::Pack,
        "scatter" => Arrangement::Scatter,
        "vscatter" => Arrangement::Vscatter,
        _ => return None,
    })
}

fn sharing_of(word: &str) -> Option<Sharing> {
    Some(match word {
        "excl" => Sharing::Excl,
        "shared" => Sharing::Shared,
        "exclhost" => Sharing::Exclhost,
        _ => return None,
    })
}
