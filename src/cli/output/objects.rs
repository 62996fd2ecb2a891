//! Attributes of queues and the server as configured, merged with the attributes that the server
//! reports, for `qstat -Q`, `-q` and `-B`.

use crate::config::overrides::QmgrObject;
use crate::config::overrides::attributes::place;
use crate::config::overrides::description::{AttributeValue, Described};
use crate::model::resource::Resources;
use crate::shown::attributes::{AttributeDisplay, Attributes, ShownAttribute};
use std::borrow::Cow;

/// Attributes that are text even if the value looks like a number.
const WORDS: [&str; 5] = [
    "comment",
    "default_queue",
    "default_qsub_arguments",
    "mail_from",
    "job_sort_formula",
];

/// The configured attributes of all objects.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a>(pub &'a [Described]);

impl<'a> Objects<'a> {
    /// The configured value of an object's attribute; None if the attribute is not set.
    pub fn value(
        &self,
        target: &QmgrObject,
        name: &str,
        resource: Option<&str>,
    ) -> Option<&'a str> {
        self.lines(target)
            .iter()
            .find(|line| line.name == name && line.resource.as_deref() == resource)
            .map(|line| line.value.as_str())
    }

    /// The attributes of an object in PBS's order: the configured attributes, and the reported
    /// attributes that are not configured.
    pub fn joined(
        &self,
        target: &QmgrObject,
        reported: Attributes<'a>,
        resources: &Resources,
    ) -> Attributes<'a> {
        let parts = self
            .lines(target)
            .chunk_by(|line, next| (&line.name, &line.resource) == (&next.name, &next.resource));
        let configured: Vec<ShownAttribute> =
            parts.map(|lines| attribute(lines, resources)).collect();
        let mut all = reported.0;
        all.retain(|attribute| {
            !configured
                .iter()
                .any(|other| (other.name, other.resource) == (attribute.name, attribute.resource))
        });
        all.extend(configured);
        all.sort_by_key(|attribute| place(target, attribute.name));
        Attributes(all)
    }

    fn lines(&self, target: &QmgrObject) -> &'a [AttributeValue] {
        self.0
            .iter()
            .find(|described| described.target == *target)
            .map_or(&[], |described| &described.lines)
    }
}

/// An attribute from its configured values. Only a limit can have several values: one for each
/// user, group or project.
fn attribute<'a>(lines: &'a [AttributeValue], resources: &Resources) -> ShownAttribute<'a> {
    let (line, value) = (&lines[0], joined_values(lines));
    let shown = match &line.resource {
        Some(resource) => {
            let amount = resources.parse(resource, &value).ok();
            amount.map(|amount| AttributeDisplay::of(&amount))
        }
        None if WORDS.contains(&line.name.as_str()) => None,
        None => value.parse().ok().map(AttributeDisplay::Number),
    };
    ShownAttribute {
        name: &line.name,
        resource: line.resource.as_deref(),
        shown: shown.unwrap_or(AttributeDisplay::Text(value)),
    }
}

fn joined_values(lines: &[AttributeValue]) -> Cow<'_, str> {
    match lines {
        [line] => line.value.as_str().into(),
        _ => lines
            .iter()
            .map(|line| line.value.as_str())
            .collect::<Vec<_>>()
            .join(",")
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, resource: Option<&str>, value: &str) -> AttributeValue {
        AttributeValue {
            name: name.into(),
            resource: resource.map(str::to_string),
            value: value.into(),
        }
    }

    #[test]
    fn configured_attributes_replace_reported_ones_in_the_order_of_pbs() {
        let workq = QmgrObject::Queue("workq".into());
        let lines = vec![
            line("enabled", None, "False"),
            line("comment", None, "7"),
            line("max_running", None, "7"),
            line("max_run", None, "[u:ann=3]"),
            line("max_run", None, "[u:bob=4]"),
            line("resources_max", Some("mem"), "1gb"),
            line("resources_max", Some("ncpus"), "4"),
        ];
        let described = [Described {
            target: workq.clone(),
            lines,
        }];
        let objects = Objects(&described);
        let mut reported = Attributes::default();
        reported.number("total_jobs", 2);
        reported.boolean("enabled", true);
        let all = objects.joined(&workq, reported, &Resources::builtin());
        let shown = |name: &str| {
            all.0
                .iter()
                .filter(|a| a.name == name)
                .map(|a| &a.shown)
                .collect::<Vec<_>>()
        };
        assert_eq!(shown("enabled"), [&AttributeDisplay::Text("False".into())]);
        assert_eq!(shown("comment"), [&AttributeDisplay::Text("7".into())]);
        assert_eq!(shown("max_running"), [&AttributeDisplay::Number(7)]);
        assert_eq!(
            shown("max_run"),
            [&AttributeDisplay::Text("[u:ann=3],[u:bob=4]".into())]
        );
        assert_eq!(
            shown("resources_max"),
            [
                &AttributeDisplay::Text("1gb".into()),
                &AttributeDisplay::Number(4)
            ]
        );
        assert_eq!(shown("total_jobs"), [&AttributeDisplay::Number(2)]);
        let places: Vec<usize> = all
            .0
            .iter()
            .map(|attribute| place(&workq, attribute.name))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(
            objects.value(&workq, "resources_max", Some("ncpus")),
            Some("4")
        );
        assert_eq!(objects.value(&workq, "resources_max", None), None);
        assert_eq!(objects.value(&QmgrObject::Server, "comment", None), None);
    }
}
