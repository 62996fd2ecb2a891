//! The properties of a job that expressions can use as `job.*` (Q20). Sizes are in megabytes, times
//! in seconds.

use crate::model::credentials::Credentials;
use crate::model::expression::ExpressionValue;
use crate::model::resource::{self, ResourceList};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The properties of a job by name. The names lack the prefix `job.`.
pub type JobFacts = BTreeMap<String, ExpressionValue<'static>>;

/// The properties of a job with these credentials, requests (`-l`) and cluster label.
pub fn facts(who: &Credentials, list: &ResourceList, cluster: Option<String>) -> JobFacts {
    let text = |text: &str| ExpressionValue::Text(text.to_string().into());
    let mut facts: JobFacts = list
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), shown(value)?)))
        .collect();
    let named = [
        ("user", &who.user),
        ("project", &who.project),
        ("queue", &who.queue),
    ];
    facts.extend(named.map(|(name, value)| (name.to_string(), text(value))));
    let optional = [("account", &who.account), ("qos", &who.qos)];
    facts.extend(
        optional
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_string(), text(value.as_ref()?)))),
    );
    facts.insert(
        "group".to_string(),
        ExpressionValue::Number(f64::from(who.gid)),
    );
    facts.insert(
        "cluster".to_string(),
        text(cluster.as_deref().unwrap_or("/")),
    );
    facts
}

/// A resource value as an expression sees it; always `Some`.
pub fn shown(value: &resource::ResourceValue) -> Option<ExpressionValue<'static>> {
    Some(match value {
        resource::ResourceValue::String(text) => ExpressionValue::Text(Cow::Owned(text.clone())),
        resource::ResourceValue::Boolean(flag) => ExpressionValue::Boolean(*flag),
        resource::ResourceValue::Float(number) => ExpressionValue::Number(*number),
        resource::ResourceValue::Size(size) => {
            ExpressionValue::Number(size.bytes() as f64 / 1_048_576.0)
        }
        resource::ResourceValue::Time(span) => ExpressionValue::Number(span.0 as f64 / 1000.0),
        resource::ResourceValue::Long(number) => ExpressionValue::Number(*number as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::ResourceType as Type;

    #[test]
    fn expressions_see_sizes_in_megabytes_and_times_in_seconds() {
        let number = |kind, text| shown(&resource::ResourceValue::parse(kind, text).unwrap());
        assert_eq!(
            number(Type::Size, "2gb"),
            Some(ExpressionValue::Number(2048.0))
        );
        assert_eq!(
            number(Type::Time, "1:00:00"),
            Some(ExpressionValue::Number(3600.0))
        );
        assert_eq!(
            number(Type::Float, "0.5"),
            Some(ExpressionValue::Number(0.5))
        );
        assert_eq!(number(Type::Long, "3"), Some(ExpressionValue::Number(3.0)));
        assert_eq!(
            number(Type::Boolean, "true"),
            Some(ExpressionValue::Boolean(true))
        );
        assert_eq!(
            number(Type::String, "linux"),
            Some(ExpressionValue::from("linux"))
        );
    }
}
