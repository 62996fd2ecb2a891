//! Default requests of a queue (`resources_default`, `default_chunk`).

use super::{NamedTexts, shapes_chunks};
use crate::model::resource::{ResourceList, ResourceValue, Resources};

/// Defaults of a queue for a job. Default values do not count as requested. After `qmove`, the job
/// therefore has the defaults of the new queue instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    list: ResourceList,
    chunk: ResourceList,
}

/// Names in `resources_default` that define chunks and placement instead of an amount.
const SHAPES: [&str; 3] = ["select", "place", "nodes"];

impl Defaults {
    /// Creates defaults: `list` for the whole job, `chunk` for each chunk.
    pub fn new(list: ResourceList, chunk: ResourceList) -> Defaults {
        Defaults { list, chunk }
    }

    /// Adds the queue's maximum times, such as its maximum walltime, as defaults, unless the queue
    /// has defaults for these times. Skips names that end with `_walltime`.
    pub fn bounded(mut self, most: &ResourceList) -> Defaults {
        let times = most.iter().filter(|(name, value)| {
            matches!(value, ResourceValue::Time(_)) && !name.ends_with("_walltime")
        });
        for (name, value) in times {
            self.list
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        self
    }

    /// Returns the defaults of each chunk.
    pub(super) fn chunk(&self) -> &ResourceList {
        &self.chunk
    }

    /// Returns the given options. Adds the default select if these options define no chunks. Adds
    /// the default place if there is then a select, but no place.
    pub(super) fn completed(&self, asked: &NamedTexts, resources: &Resources) -> NamedTexts {
        let mut asked = asked.clone();
        let has_chunks = asked
            .iter()
            .any(|(name, _)| name != "place" && shapes_chunks(name, resources));
        if !has_chunks && let Some(select) = self.list.get("select") {
            asked.push(("select".to_string(), select.to_string()));
        }
        let has_select = asked.iter().any(|(name, _)| name == "select");
        let has_place = asked.iter().any(|(name, _)| name == "place");
        if has_select
            && !has_place
            && let Some(place) = self.list.get("place")
        {
            asked.push(("place".to_string(), place.to_string()));
        }
        asked
    }

    /// Adds the default values of resources that were not requested. Host-level defaults apply
    /// only without `select`, `place` and `nodes`, because chunks have defaults of their own.
    pub(super) fn fill(
        &self,
        values: &mut ResourceList,
        asked: &NamedTexts,
        resources: &Resources,
    ) {
        let has_chunks = asked
            .iter()
            .any(|(name, _)| SHAPES.contains(&name.as_str()));
        // With min_walltime, the scheduler chooses the walltime; the default does not apply.
        let is_range = values.contains_key("min_walltime");
        for (name, value) in self
            .list
            .iter()
            .filter(|(name, _)| !SHAPES.contains(&name.as_str()))
        {
            let is_of_hosts = resources
                .get(name)
                .is_some_and(|definition| definition.host_level);
            let is_left_open = is_range && name == "walltime";
            if !(is_of_hosts && has_chunks || is_left_open) {
                values.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::select::Request;

    fn list(pairs: &[(&str, &str)]) -> ResourceList {
        let resources = Resources::builtin();
        pairs
            .iter()
            .map(|(name, text)| (name.to_string(), resources.parse(name, text).unwrap()))
            .collect()
    }

    fn shown(asked: &[(&str, &str)], defaults: &Defaults) -> String {
        let asked: Vec<(String, String)> = asked
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        let request = Request::parse(&asked, &Resources::builtin()).unwrap();
        let filled = request.with(defaults, &Resources::builtin()).unwrap();
        assert_eq!(
            filled.asked, request.asked,
            "defaults do not count as requested"
        );
        filled
            .list
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn defaults_apply_to_resources_that_a_job_does_not_request() {
        let defaults = Defaults::new(
            list(&[("walltime", "1:00:00"), ("ncpus", "4")]),
            list(&[("mem", "1gb")]),
        );
        assert_eq!(
            shown(&[], &defaults),
            "mem=1gb ncpus=4 nodect=1 place=pack select=1:mem=1gb:ncpus=4 walltime=01:00:00"
        );
        assert_eq!(
            shown(
                &[("select", "2:ncpus=3+1:mem=2gb"), ("walltime", "60")],
                &defaults
            ),
            "mem=4gb ncpus=7 nodect=3 place=free select=2:ncpus=3+1:mem=2gb walltime=00:01:00",
            "the first chunk requests no memory and gets 1gb; the second gets one processor"
        );
    }

    #[test]
    fn a_queue_can_have_default_chunks_and_a_default_place() {
        let defaults = Defaults::new(
            list(&[("select", "2:ncpus=2"), ("place", "scatter")]),
            list(&[("ncpus", "3")]),
        );
        assert_eq!(
            shown(&[], &defaults),
            "ncpus=4 nodect=2 place=scatter select=2:ncpus=2"
        );
        assert_eq!(
            shown(&[("select", "2:mem=1gb")], &defaults),
            "mem=2gb ncpus=6 nodect=2 place=scatter select=2:mem=1gb"
        );
        assert_eq!(
            shown(&[("ncpus", "1")], &defaults),
            "ncpus=1 nodect=1 place=pack select=1:ncpus=1"
        );
    }

    #[test]
    fn the_maximum_walltime_is_the_default() {
        let defaults = Defaults::new(list(&[("cput", "60")]), ResourceList::new());
        let defaults = defaults.bounded(&list(&[
            ("walltime", "2:00:00"),
            ("cput", "90"),
            ("ncpus", "64"),
        ]));
        assert_eq!(
            shown(&[], &defaults),
            "cput=00:01:00 ncpus=1 nodect=1 place=pack select=1:ncpus=1 walltime=02:00:00"
        );
        assert!(!shown(&[("min_walltime", "60")], &defaults).contains(" walltime"));
    }
}
