//! Larger requests for the retry of a job that exceeded a limit.

use super::select::{Chunk, Request};
use super::{NamedTexts, chunk};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceList, ResourceValue, Resources, Size};

/// Increase of the amounts of one resource.
#[derive(Clone, Copy)]
enum Increase {
    /// Multiplies each amount.
    Factor(f64),
    /// Multiplies each amount such that the total `total` becomes `most`.
    UpTo { most: i64, total: i64 },
}

impl Increase {
    /// Returns the increase of a resource with this total; None for a total of zero, and for
    /// resources that are neither sizes nor times.
    fn new(total: &ResourceValue, factor: f64, most: Option<&ResourceValue>) -> Option<Increase> {
        let amount = amount(total)?;
        let wanted = Increase::Factor(factor);
        Some(match most.and_then(ResourceValue::amount) {
            Some(most) if wanted.of(amount) > most => Increase::UpTo {
                // A request above the maximum keeps its amount.
                most: most.max(amount),
                total: amount,
            },
            _ => wanted,
        })
    }

    fn of(self, amount: i64) -> i64 {
        match self {
            Increase::Factor(factor) => (amount as f64 * factor).round() as i64,
            Increase::UpTo { most, total } => {
                let product = i128::from(amount) * i128::from(most) / i128::from(total);
                i64::try_from(product).unwrap_or(i64::MAX)
            }
        }
    }

    /// Returns the increased value in whole kilobytes or seconds: rounded up, but down if a maximum
    /// applies.
    fn value(self, value: &ResourceValue) -> ResourceValue {
        let unit = match value {
            ResourceValue::Size(_) => 1024,
            _ => 1000,
        };
        let Some(before) = amount(value) else {
            return value.clone();
        };
        let units = match self {
            Increase::Factor(_) => self.of(before).saturating_add(unit - 1) / unit,
            Increase::UpTo { .. } => self.of(before) / unit,
        };
        let after = units.saturating_mul(unit);
        if after <= before {
            return value.clone();
        }
        match value {
            ResourceValue::Size(_) => ResourceValue::Size(Size::exactly(after.unsigned_abs())),
            _ => ResourceValue::of_amount(value.kind(), after),
        }
    }
}

/// Returns the positive amount of a size or time.
fn amount(value: &ResourceValue) -> Option<i64> {
    match value {
        ResourceValue::Size(_) | ResourceValue::Time(_) => value.amount().filter(|sum| *sum > 0),
        _ => None,
    }
}

impl Request {
    /// Returns the request with the amounts of these resources multiplied by `factor`, in the whole
    /// job and in each chunk, without the defaults of a queue. The total of a resource stays within
    /// its value in `most`.
    pub fn grown(
        &self,
        names: &[&str],
        factor: f64,
        most: &ResourceList,
        resources: &Resources,
    ) -> Result<Request, Refusal> {
        let mut changes = NamedTexts::new();
        let mut chunks = self.select.chunks.clone();
        for name in names {
            let Some(total) = self.list.get(*name) else {
                continue;
            };
            let Some(increase) = Increase::new(total, factor, most.get(*name)) else {
                continue;
            };
            if self.is_requested_by_chunk(name) {
                chunks
                    .iter_mut()
                    .for_each(|chunk| grow(chunk, name, increase));
            } else {
                changes.push((name.to_string(), increase.value(total).to_string()));
            }
        }
        if chunks != self.select.chunks {
            changes.push(("select".to_string(), chunk::spell(&chunks)));
        }
        self.alter(&changes, resources)
    }

    /// Tests whether the amount of a resource is the total over the chunks, not an option of its
    /// own.
    fn is_requested_by_chunk(&self, name: &str) -> bool {
        let is_asked = |name: &str| self.asked.iter().any(|(known, _)| known == name);
        let has_chunks = is_asked("select") || is_asked("nodes");
        let mut chunks = self.select.chunks.iter();
        has_chunks && !is_asked(name) && chunks.any(|chunk| chunk.get(name).is_some())
    }
}

fn grow(chunk: &mut Chunk, name: &str, increase: Increase) {
    for (_, value) in chunk
        .resources
        .iter_mut()
        .filter(|(known, _)| known == name)
    {
        *value = increase.value(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::Defaults;

    const MEMORIES: &[&str] = &["mem", "vmem", "pmem"];

    fn texts(pairs: &[(&str, &str)]) -> NamedTexts {
        let own = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
        pairs.iter().map(own).collect()
    }

    fn list(pairs: &[(&str, &str)]) -> ResourceList {
        let resources = Resources::builtin();
        let value =
            |(name, text): &(&str, &str)| (name.to_string(), resources.parse(name, text).unwrap());
        pairs.iter().map(value).collect()
    }

    /// The grown request as displayed, without the number of chunks.
    fn grown(asked: &[(&str, &str)], names: &[&str], factor: f64, most: &[(&str, &str)]) -> String {
        let resources = Resources::builtin();
        let request = Request::parse(&texts(asked), &resources).unwrap();
        let grown = request.grown(names, factor, &list(most), &resources);
        shown(&grown.unwrap())
    }

    fn shown(request: &Request) -> String {
        let entries = request.list.iter().filter(|(name, _)| *name != "nodect");
        let entries = entries.map(|(name, value)| format!("{name}={value}"));
        entries.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_plain_request_grows_by_the_factor() {
        let asked = [("mem", "1gb"), ("ncpus", "2"), ("walltime", "10")];
        assert_eq!(
            grown(&asked, MEMORIES, 1.5, &[]),
            "mem=1536mb ncpus=2 place=pack select=1:mem=1536mb:ncpus=2 walltime=00:00:10"
        );
        assert_eq!(
            grown(&asked, &["walltime"], 1.25, &[]),
            "mem=1gb ncpus=2 place=pack select=1:mem=1gb:ncpus=2 walltime=00:00:13",
            "12.5 seconds are rounded up"
        );
    }

    #[test]
    fn each_chunk_grows_and_keeps_its_other_resources_and_its_place() {
        let asked = [
            ("select", "2:ncpus=3:mem=1gb+1:ncpus=1"),
            ("place", "scatter"),
            ("pmem", "100mb"),
        ];
        assert_eq!(
            grown(&asked, MEMORIES, 2.0, &[]),
            "mem=4gb ncpus=7 place=scatter pmem=200mb select=2:ncpus=3:mem=2gb+1:ncpus=1"
        );
    }

    #[test]
    fn the_total_of_a_nodes_request_grows() {
        let asked = [("nodes", "2:ppn=2"), ("mem", "2gb")];
        let text = grown(&asked, MEMORIES, 2.0, &[]);
        assert!(
            text.starts_with("mem=4194304kb") && text.contains("nodes=2:ppn=2"),
            "{text}"
        );
    }

    #[test]
    fn a_default_of_the_queue_grows() {
        let resources = Resources::builtin();
        let defaults = Defaults::new(list(&[("walltime", "60")]), list(&[("mem", "1gb")]));
        for asked in [
            &[("select", "2:ncpus=1")][..],
            &[("ncpus", "1")],
            &[("nodes", "2")],
        ] {
            let request = Request::parse(&texts(asked), &resources).unwrap();
            let request = request.with(&defaults, &resources).unwrap();
            let grown = request.grown(&["mem", "walltime"], 2.0, &list(&[]), &resources);
            let grown = grown.unwrap().with(&defaults, &resources).unwrap();
            let chunk = &grown.select.chunks[0];
            assert_eq!(chunk.get("mem").unwrap().to_string(), "2gb", "{asked:?}");
            assert_eq!(grown.list["walltime"].to_string(), "00:02:00", "{asked:?}");
            assert_eq!(
                grown.place.arrangement, request.place.arrangement,
                "{asked:?}"
            );
        }
    }

    #[test]
    fn a_maximum_bounds_the_total() {
        let most = [("mem", "5gb"), ("walltime", "30")];
        let asked = [("select", "2:ncpus=1:mem=2gb"), ("walltime", "20")];
        assert_eq!(
            grown(&asked, &["mem", "walltime"], 3.0, &most),
            "mem=5120mb ncpus=2 place=free select=2:ncpus=1:mem=2560mb walltime=00:00:30"
        );
        let at_most = [("mem", "5gb"), ("walltime", "30")];
        assert_eq!(
            grown(&at_most, &["mem", "walltime"], 3.0, &most),
            "mem=5gb ncpus=1 place=pack select=1:mem=5gb:ncpus=1 walltime=00:00:30"
        );
        let above = [("walltime", "40")];
        assert!(grown(&above, &["walltime"], 2.0, &most).ends_with("walltime=00:00:40"));
    }

    #[test]
    fn resources_without_request_do_not_grow() {
        let asked = [("ncpus", "2")];
        assert_eq!(
            grown(&asked, &["mem", "walltime"], 2.0, &[]),
            "ncpus=2 place=pack select=1:ncpus=2"
        );
    }
}
