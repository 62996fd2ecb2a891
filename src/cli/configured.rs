//! What is configured of queues and the server, among what `qstat` tells of them besides.

use super::attributes::{Attribute, Attributes, Shown};
use crate::model::amendment::description::{Described, Line};
use crate::model::amendment::{Target, known, place};
use crate::model::resource::Resources;
use std::borrow::Cow;

/// Plain attributes that are text though they may look like numbers.
const TEXTS: [&str; 4] = ["comment", "default_queue", "mailer", "mail_from"];

/// What is said of an object; nothing of one that is not configured.
pub fn of<'o>(objects: &'o [Described], target: &Target) -> &'o [Line] {
    objects.iter().find(|described| described.target == *target).map_or(&[], |described| &described.lines)
}

/// The text of an attribute, where it has one; `resource` for one that is a list of them.
pub fn value<'o>(lines: &'o [Line], name: &str, resource: Option<&str>) -> Option<&'o str> {
    let is_it = |line: &&Line| line.name == name && line.resource.as_deref() == resource;
    lines.iter().find(is_it).map(|line| line.value.as_str())
}

/// Adds what is configured to what is told besides, each in its place. Several entries of one limit stand in one
/// text.
pub fn add<'a>(told: &mut Attributes<'a>, target: &Target, lines: &'a [Line], resources: &Resources) {
    let known: Vec<String> = told.0.iter().map(|attribute| attribute.name.to_string()).collect();
    let new: Vec<&Line> = lines.iter().filter(|line| !known.contains(&line.name)).collect();
    let one = |entries: &[&'a Line]| {
        let (first, more) = (entries[0], &entries[1..]);
        let shown = match more.is_empty() {
            true => shown(target, first, resources),
            false => Shown::Text(entries.iter().map(|line| line.value.as_str()).collect::<Vec<_>>().join(",").into()),
        };
        Attribute { name: &first.name, resource: first.resource.as_deref(), shown }
    };
    told.0.extend(new.chunk_by(|one, other| (&one.name, &one.resource) == (&other.name, &other.resource)).map(one));
    told.0.sort_by_key(|attribute| place(target, attribute.name));
}

/// A number where the attribute or resource is one, else the text.
fn shown<'a>(target: &Target, line: &'a Line, resources: &Resources) -> Shown<'a> {
    let text = || Shown::Text(Cow::Borrowed(line.value.as_str()));
    if let Some(resource) = &line.resource {
        return resources.parse(resource, &line.value).map_or_else(|_| text(), |value| Shown::of(&value));
    }
    let is_text = TEXTS.contains(&line.name.as_str()) || known(target, &line.name).is_some_and(|known| known.is_list);
    match line.value.parse() {
        Ok(number) if !is_text => Shown::Number(number),
        _ => text(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::full::text;
    use super::*;

    fn line(name: &str, resource: Option<&str>, value: &str) -> Line {
        Line { name: name.into(), resource: resource.map(str::to_string), value: value.into() }
    }

    #[test]
    fn what_is_configured_stands_in_its_place_and_once() {
        let lines = [
            line("enabled", None, "False"),
            line("resources_max", Some("walltime"), "3600"),
            line("max_run", None, "[u:ann=1]"),
            line("max_run", None, "[u:bob=2]"),
            line("max_running", None, "5"),
            line("acl_users", None, "12"),
        ];
        let mut told = Attributes::default();
        told.text("queue_type", "Execution");
        told.boolean("enabled", true);
        add(&mut told, &Target::Queue("q".into()), &lines, &Resources::builtin());
        let all: Vec<String> =
            told.0.iter().map(|attribute| format!("{}={}", attribute.name, text(attribute).unwrap())).collect();
        let sorted: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(sorted.iter().filter(|entry| entry.starts_with("enabled")).collect::<Vec<_>>(), [&"enabled=True"]);
        assert!(
            sorted.contains(&"max_run=[u:ann=1],[u:bob=2]") && sorted.contains(&"resources_max=01:00:00"),
            "{all:?}"
        );
        let shown =
            |name: &str| told.0.iter().find(|attribute| attribute.name == name).map(|found| found.shown.clone());
        assert!(matches!(shown("max_running"), Some(Shown::Number(5))));
        assert!(matches!(shown("acl_users"), Some(Shown::Text(_))), "a name of digits is a name");
    }
}
