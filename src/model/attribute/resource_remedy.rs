//! What a user can do about a refused resource request (`-l`).

use super::AttributeSetting;
use super::remedy::{shown, value_in_list};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceType, Resources};
use crate::model::spelling::close;
use crate::model::time::Span;

/// The remedy for a refused resource request; None for other refusals, and for texts that already
/// contain the remedy.
pub(super) fn find(
    refusal: &Refusal,
    settings: &[AttributeSetting],
    resources: &Resources,
) -> Option<String> {
    let code = refusal.code;
    if code == Refusal::bad_nodes().code {
        let nodes = value_in_list(settings, "nodes")?;
        let form = "COUNT[:ppn=PROCESSORS][:gpus=GPUS][:PROPERTY]";
        return Some(format!(
            "-l nodes={}: use {form}, for example -l nodes=2:ppn=4",
            shown(&nodes)
        ));
    }
    if code == Refusal::place_without_select().code {
        let place = value_in_list(settings, "place")?;
        return Some(format!(
            "request chunks, too, for example -l select=1:ncpus=1 -l place={place}"
        ));
    }
    let in_list = refusal.setting.strip_prefix("Resource_List.");
    let in_chunk = refusal.setting.strip_prefix("select.");
    let name = in_list.or(in_chunk)?;
    let value = match in_list {
        Some(name) => value_in_list(settings, name),
        None => chunk_value(settings, name),
    };
    let value = value.unwrap_or_default();
    if code == Refusal::unknown_resource("").code {
        return Some(unknown(name, &value, in_chunk.is_some(), resources));
    }
    if code == Refusal::invalid_in_select("").code {
        return Some(format!(
            "{name} applies to the whole job: request it outside of select, for example \
             -l select=1:ncpus=1 -l {name}={value}"
        ));
    }
    if code == Refusal::beside_select("").code {
        let chunk = match value_in_list(settings, "select") {
            Some(select) if !select.contains(['+', '\'', '"']) => format!("{select}:"),
            _ => "1:".to_string(),
        };
        return Some(format!(
            "request {name} in each chunk of select: -l select={chunk}{name}={value}"
        ));
    }
    // A text with a reason of its own needs no remedy.
    let bare = Refusal::illegal_value("");
    let is_bare = *refusal == Refusal::illegal_value(&refusal.setting) || *refusal == bare;
    (code == bare.code && is_bare)
        .then(|| illegal(name, &value, in_chunk.is_some(), resources))
        .flatten()
}

/// The remedy for an illegal value of a resource.
fn illegal(name: &str, value: &str, is_in_chunk: bool, resources: &Resources) -> Option<String> {
    let (form, example) = match name {
        "select" => (
            "COUNT:RESOURCE=VALUE:...+COUNT:... with counts of at least 1",
            "2:ncpus=4:mem=8gb".to_string(),
        ),
        "place" => (
            "free, pack, scatter or vscatter, with :excl, :exclhost or :shared, and :group=RESOURCE",
            "scatter:excl".to_string(),
        ),
        _ => match resources.get(name).map(|definition| definition.kind) {
            Some(ResourceType::Time) => (
                "seconds or [[HH:]MM:]SS",
                duration(value).map_or("01:00:00".to_string(), |span| span.to_string()),
            ),
            Some(ResourceType::Size) => (
                "a whole number and a unit: b, kb, mb, gb, tb or pb",
                size(value).unwrap_or("4gb".to_string()),
            ),
            Some(ResourceType::Long) => ("a whole number", "2".to_string()),
            Some(ResourceType::Float) => ("a number", "1.5".to_string()),
            Some(ResourceType::Boolean) => ("True or False", "True".to_string()),
            Some(ResourceType::String) => return None,
            None => {
                return Some(format!(
                    "{}: use NAME=VALUE,..., for example -l ncpus=2,mem=4gb,walltime=01:00:00",
                    shown(name)
                ));
            }
        },
    };
    let option = if is_in_chunk { "select=1:" } else { "" };
    Some(format!(
        "{name}={}: use {form}, for example -l {option}{name}={example}",
        shown(value)
    ))
}

/// Names of resources in other batch systems and in everyday use, each with PBS's name.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("core", "ncpus"),
    ("cores", "ncpus"),
    ("cpu", "ncpus"),
    ("cpus", "ncpus"),
    ("cpus-per-task", "ncpus"),
    ("gpu", "ngpus"),
    ("gpus", "ngpus"),
    ("memory", "mem"),
    ("nprocs", "ncpus"),
    ("ram", "mem"),
    ("threads", "ncpus"),
    ("time", "walltime"),
    ("wall_time", "walltime"),
    ("wtime", "walltime"),
];

/// The remedy for an unknown resource.
fn unknown(name: &str, value: &str, is_in_chunk: bool, resources: &Resources) -> String {
    let lower = name.to_ascii_lowercase();
    let other = OTHER_NAMES
        .iter()
        .find(|(other, _)| *other == lower)
        .map(|(_, name)| *name);
    let known: Vec<&str> = resources
        .iter()
        .filter(|(_, definition)| definition.requestable)
        .map(|(name, _)| name)
        .collect();
    let near = other.or_else(|| close(&lower, &known));
    let (start, value) = if is_in_chunk {
        ("-l select=1:", value)
    } else {
        ("-l ", value)
    };
    match near {
        Some(near) if value.is_empty() => format!("{name}: the nearest known resource is {near}"),
        Some(near) => {
            format!("{name}: the nearest known resource is {near}: {start}{near}={value}")
        }
        None => {
            let builtin = Resources::default();
            let own: Vec<&str> = known
                .into_iter()
                .filter(|name| builtin.get(name).is_none())
                .collect();
            let own = if own.is_empty() {
                String::new()
            } else {
                format!("; the site's own are {}", own.join(", "))
            };
            format!(
                "{}: the most common resources are select, place, ncpus, mem, ngpus and \
                 walltime{own}",
                shown(name)
            )
        }
    }
}

/// The value of a resource in a select.
fn chunk_value(settings: &[AttributeSetting], name: &str) -> Option<String> {
    let select = value_in_list(settings, "select")?;
    let found = select.split([':', '+']).find_map(|part| {
        let (given, value) = part.split_once('=')?;
        given.eq_ignore_ascii_case(name).then_some(value)
    });
    found.map(str::to_string)
}

/// Seconds of the units in which users write times.
const UNITS: [(&str, i64); 12] = [
    ("d", 86400),
    ("day", 86400),
    ("days", 86400),
    ("h", 3600),
    ("hour", 3600),
    ("hours", 3600),
    ("m", 60),
    ("min", 60),
    ("minutes", 60),
    ("s", 1),
    ("sec", 1),
    ("w", 604_800),
];

/// The duration that a user probably meant: `2d`, `1h30m`, `1-12:00:00` (days) or `1:00:00:00`.
/// PBS refuses these texts.
fn duration(text: &str) -> Option<Span> {
    let days = match text.split_once('-') {
        Some((days, clock)) => Some((days, clock)),
        None if text.matches(':').count() == 3 => text.split_once(':'),
        None => None,
    };
    if let Some((days, clock)) = days {
        let days: i64 = days.parse().ok().filter(|days| *days >= 0)?;
        // Slurm's `D-HH` and `D-HH:MM`.
        let clock = match clock.matches(':').count() {
            0 => format!("{clock}:00:00"),
            1 => format!("{clock}:00"),
            _ => clock.to_string(),
        };
        let rest = Span::parse(&clock)?.as_seconds();
        return Some(Span::seconds(days.checked_mul(86400)?.checked_add(rest)?));
    }
    let (mut seconds, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(end);
        let end = behind
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = UNITS
            .iter()
            .find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
        let part = number.parse::<i64>().ok()?.checked_mul(unit.1)?;
        seconds = seconds.checked_add(part)?;
        rest = behind;
    }
    (seconds > 0).then(|| Span::seconds(seconds))
}

/// The size that a user probably meant with a fraction: `1.5gb` is `1536mb`. Other spellings of
/// units are accepted: `8GiB` is `8gb`.
fn size(text: &str) -> Option<String> {
    const SMALLER: [(char, &str); 5] = [
        ('p', "tb"),
        ('t', "gb"),
        ('g', "mb"),
        ('m', "kb"),
        ('k', "b"),
    ];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().chars().next()?.to_ascii_lowercase();
    let (_, smaller) = SMALLER.iter().find(|(letter, _)| *letter == unit)?;
    let number: f64 = number.parse().ok().filter(|number| *number > 0.0)?;
    if number.fract() == 0.0 {
        return Some(format!("{number}{unit}b"));
    }
    Some(format!("{}{smaller}", (number * 1024.0).ceil()))
}

#[cfg(test)]
mod tests {
    use super::super::LIST;
    use super::*;

    fn list(pairs: &[(&str, &str)]) -> Vec<AttributeSetting> {
        let setting = |(name, value): &(&str, &str)| AttributeSetting::resource(name, *value);
        pairs.iter().map(setting).collect()
    }

    fn remedy(refusal: Refusal, pairs: &[(&str, &str)]) -> Option<String> {
        find(&refusal, &list(pairs), &Resources::default())
    }

    #[test]
    fn illegal_values_get_the_form_and_the_probable_value() {
        for (name, value, expected) in [
            (
                "walltime",
                "2d",
                "walltime=2d: use seconds or [[HH:]MM:]SS, for example -l walltime=48:00:00",
            ),
            (
                "walltime",
                "abc",
                "walltime=abc: use seconds or [[HH:]MM:]SS, for example -l walltime=01:00:00",
            ),
            (
                "mem",
                "1.5gb",
                "mem=1.5gb: use a whole number and a unit: b, kb, mb, gb, tb or pb, for example \
                 -l mem=1536mb",
            ),
            (
                "ncpus",
                "",
                "ncpus='': use a whole number, for example -l ncpus=2",
            ),
            (
                "select",
                "0:ncpus=1",
                "select=0:ncpus=1: use COUNT:RESOURCE=VALUE:...+COUNT:... with counts of at least \
                 1, for example -l select=2:ncpus=4:mem=8gb",
            ),
            (
                "job.sh",
                "",
                "job.sh: use NAME=VALUE,..., for example -l ncpus=2,mem=4gb,walltime=01:00:00",
            ),
        ] {
            let refusal = Refusal::illegal_value(&format!("{LIST}.{name}"));
            let found = remedy(refusal, &[(name, value)]);
            assert_eq!(found.as_deref(), Some(expected));
        }
        let refusal = Refusal::illegal_value("select.ncpus");
        assert_eq!(
            remedy(refusal, &[("select", "2:mem=1gb:ncpus=x")]).unwrap(),
            "ncpus=x: use a whole number, for example -l select=1:ncpus=2"
        );
    }

    #[test]
    fn unknown_resources_get_the_nearest_name() {
        let remedy = |name: &str, value: &str| {
            remedy(Refusal::unknown_resource(name), &[(name, value)]).unwrap()
        };
        assert_eq!(
            remedy("cpus", "3"),
            "cpus: the nearest known resource is ncpus: -l ncpus=3"
        );
        assert_eq!(
            remedy("waltime", "60"),
            "waltime: the nearest known resource is walltime: -l walltime=60"
        );
        let common =
            "zebra: the most common resources are select, place, ncpus, mem, ngpus and walltime";
        assert_eq!(remedy("zebra", "1"), common);
        let mut own = Resources::default();
        own.define("scratch", own.get("ncpus").unwrap().clone());
        let refusal = Refusal::unknown_in_select("zebra");
        let found = find(&refusal, &list(&[("select", "1:zebra=1")]), &own).unwrap();
        assert_eq!(found, format!("{common}; the site's own are scratch"));
    }

    #[test]
    fn misplaced_resources_get_their_place() {
        assert_eq!(
            remedy(
                Refusal::invalid_in_select("walltime"),
                &[("select", "1:walltime=60")]
            )
            .unwrap(),
            "walltime applies to the whole job: request it outside of select, for example \
             -l select=1:ncpus=1 -l walltime=60"
        );
        assert_eq!(
            remedy(
                Refusal::beside_select("ncpus"),
                &[("select", "2"), ("ncpus", "4")]
            )
            .unwrap(),
            "request ncpus in each chunk of select: -l select=2:ncpus=4"
        );
        assert_eq!(
            remedy(Refusal::place_without_select(), &[("place", "pack")]).unwrap(),
            "request chunks, too, for example -l select=1:ncpus=1 -l place=pack"
        );
        assert!(remedy(Refusal::bad_nodes(), &[("nodes", "1:ppn=x")]).is_some());
        assert_eq!(remedy(Refusal::unknown_queue(), &[]), None);
    }

    #[test]
    fn durations_with_units_become_clock_times() {
        let shown = |text| duration(text).map(|span| span.to_string());
        for (text, expected) in [
            ("2d", "48:00:00"),
            ("48h", "48:00:00"),
            ("1h30m", "01:30:00"),
            ("30min", "00:30:00"),
            ("1-12:00:00", "36:00:00"),
            ("1-12", "36:00:00"),
            ("1:00:00:00", "24:00:00"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for none in ["abc", "", "-1", "2x", "h", "99999999999999999999d", "0s"] {
            assert_eq!(shown(none), None, "{none}");
        }
    }

    #[test]
    fn sizes_with_fractions_become_whole() {
        for (text, expected) in [
            ("1.5gb", Some("1536mb")),
            ("8GiB", Some("8gb")),
            ("0.5t", Some("512gb")),
            ("abc", None),
            ("5x", None),
            ("-1gb", None),
        ] {
            assert_eq!(size(text).as_deref(), expected, "{text}");
        }
    }
}
