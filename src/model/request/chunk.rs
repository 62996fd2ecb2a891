//! Parsing of `select`: chunks separated by `+`, each a count and resources separated by `:`.

use super::{find, in_range};
use crate::model::refusal::Refusal;
use crate::model::request::select::{Chunk, Select};
use crate::model::resource::amount::{Amount, split_chunks};
use crate::model::resource::{ResourceList, ResourceType, ResourceValue, Resources};
use crate::model::text::is_number;

/// Maximum total number of chunks of a job.
const MAX_CHUNKS: u64 = 1_000_000;

/// Maximum number of parts separated by `+`.
const MAX_PARTS: usize = 10_000;

/// Parses a select. `each` contains the default resources of a chunk. A chunk that has no `ncpus`
/// even with these defaults gets one processor.
pub(super) fn parse(
    text: &str,
    each: &ResourceList,
    resources: &Resources,
) -> Result<Select, Refusal> {
    if split_chunks(text).nth(MAX_PARTS).is_some() {
        return Err(malformed());
    }
    let chunks = split_chunks(text)
        .map(|part| chunk(part, each, resources))
        .collect::<Result<Vec<_>, _>>()?;
    let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.count)).sum();
    if total > MAX_CHUNKS {
        return Err(malformed());
    }
    Ok(Select {
        chunks,
        text: text.replace(['"', '\''], ""),
    })
}

fn malformed() -> Refusal {
    Refusal::illegal_value("Resource_List.select")
}

fn chunk(text: &str, each: &ResourceList, resources: &Resources) -> Result<Chunk, Refusal> {
    let parts = split(text).ok_or_else(malformed)?;
    let counted = is_number(&parts[0]);
    let count = if counted { count(&parts[0])? } else { 1 };
    let mut chunk = Chunk {
        count,
        resources: Vec::new(),
        growing: Vec::new(),
    };
    for part in &parts[usize::from(counted)..] {
        add(&mut chunk, part, resources)?;
    }
    let one = ("ncpus".to_string(), ResourceValue::Long(1));
    for (name, value) in each.iter().chain([(&one.0, &one.1)]) {
        if chunk.get(name).is_none() {
            chunk.resources.push((name.clone(), value.clone()));
        }
    }
    Ok(chunk)
}

/// Parses a chunk count. As in PBS, the error for a count of zero names no attribute.
fn count(digits: &str) -> Result<u32, Refusal> {
    match digits.parse() {
        Ok(0) => Err(Refusal::illegal_value("").of_setting("Resource_List.select")),
        Ok(count) => Ok(count),
        Err(_) => Err(malformed()),
    }
}

fn add(chunk: &mut Chunk, part: &str, resources: &Resources) -> Result<(), Refusal> {
    let (name, text) = part
        .split_once('=')
        .filter(|(name, text)| !name.is_empty() && !text.is_empty())
        .ok_or_else(malformed)?;
    let (name, definition) =
        find(name, resources).ok_or_else(|| Refusal::unknown_in_select(name))?;
    if !definition.host_level {
        return Err(Refusal::invalid_in_select(name));
    }
    if chunk.get(name).is_some() {
        return Err(Refusal::duplicate_in_chunk(name));
    }
    let shown = if definition.kind == ResourceType::Boolean {
        String::new()
    } else {
        format!("select.{name}")
    };
    let value = if definition.consumable
        && definition.kind == ResourceType::Long
        && let Ok(amount) = text.parse::<Amount>()
        && !amount.is_exact()
    {
        chunk.growing.push((name.to_string(), amount));
        i64::try_from(amount.least()).ok().map(ResourceValue::Long)
    } else {
        ResourceValue::parse(definition.kind, text)
    };
    let value = value
        .filter(|value| in_range(name, value))
        .ok_or_else(|| Refusal::illegal_value(&shown).of_setting(format!("select.{name}")))?;
    chunk.resources.push((name.to_string(), value));
    Ok(())
}

/// Splits at colons and removes quotes. None for an unclosed quote or a blank outside quotes.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut quote) = (vec![String::new()], None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ':') => parts.push(String::new()),
            (None, _) if c.is_whitespace() => return None,
            _ => parts.last_mut()?.push(c),
        }
    }
    quote.is_none().then_some(parts)
}

/// Formats chunks as a select, with quotes where necessary. The text parses to the same chunks,
/// unless a value contains a quote or `+`.
pub(super) fn spell(chunks: &[Chunk]) -> String {
    let chunks: Vec<String> = chunks.iter().map(spell_one).collect();
    chunks.join("+")
}

fn spell_one(chunk: &Chunk) -> String {
    let mut text = chunk.count.to_string();
    for (name, value) in &chunk.resources {
        match chunk.growing.iter().find(|(growing, _)| growing == name) {
            Some((_, amount)) => text.push_str(&format!(":{name}={amount}")),
            None => text.push_str(&format!(":{name}={}", quoted(value))),
        }
    }
    text
}

fn quoted(value: &ResourceValue) -> String {
    let text = value.to_string();
    let plain = !text.contains(|c: char| c.is_whitespace() || c == ':');
    if plain { text } else { format!("\"{text}\"") }
}
