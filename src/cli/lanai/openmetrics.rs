//! Text in the format OpenMetrics 1.0. Prometheus' text format, which node_exporter reads, accepts
//! the same text, because only the types gauge and counter occur.

use std::fmt::Write as _;

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A current value.
    Gauge,
    /// A sum that only grows, until a restart.
    Counter,
}

/// The definition of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// The name, ending with the unit if there is one; of a counter, without `_total`.
    pub name: &'static str,
    /// The type.
    pub kind: MetricType,
    /// The unit; empty for a number of objects.
    pub unit: &'static str,
    /// The description.
    pub help: &'static str,
}

/// The text of a set of metrics.
#[derive(Debug, Default)]
pub struct OpenMetrics(String);

impl OpenMetrics {
    /// Adds the samples of a family: the labels and the value of each. Without samples, adds
    /// nothing.
    pub fn add<'a>(
        &mut self,
        family: &MetricFamily,
        samples: impl IntoIterator<Item = (Vec<(&'a str, String)>, f64)>,
    ) {
        let MetricFamily {
            name,
            kind,
            unit,
            help,
        } = family;
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let (kind, suffix) = match kind {
            MetricType::Gauge => ("gauge", ""),
            MetricType::Counter => ("counter", "_total"),
        };
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(help));
        for (labels, value) in samples {
            let labels: Vec<String> = labels
                .iter()
                .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
                .collect();
            let labels = match labels.len() {
                0 => String::new(),
                _ => format!("{{{}}}", labels.join(",")),
            };
            let _ = writeln!(self.0, "{name}{suffix}{labels} {value}");
        }
    }

    /// The complete text.
    pub fn end(self) -> String {
        format!("{}# EOF\n", self.0)
    }
}

/// A label value or a description: backslash, quote and line end are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A checker of the grammar of OpenMetrics 1.0, for tests.
#[cfg(test)]
pub mod grammar {
    use std::collections::BTreeSet;

    /// Checks a whole text. Returns the samples, as `name{labels}` and value.
    pub fn check(text: &str) -> Result<Vec<(String, f64)>, String> {
        let body = text
            .strip_suffix("# EOF\n")
            .ok_or("the text does not end with # EOF")?;
        let (mut families, mut samples) = (BTreeSet::new(), Vec::new());
        let mut current: Option<(String, String)> = None;
        for line in body.lines() {
            let fault = |why: &str| format!("{why}: {line}");
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let (keyword, name, value) = (words.next(), words.next(), words.next());
                let name = name.ok_or_else(|| fault("no name"))?;
                let value = value.ok_or_else(|| fault("no value"))?;
                match keyword {
                    Some("TYPE") => {
                        if !["gauge", "counter"].contains(&value) || !is_name(name) {
                            return Err(fault("unknown type or wrong name"));
                        }
                        if !families.insert(name.to_string()) {
                            return Err(fault("two families with this name"));
                        }
                        current = Some((name.to_string(), value.to_string()));
                        continue;
                    }
                    Some("UNIT") if name.ends_with(&format!("_{value}")) => {}
                    Some("HELP") if unescape(value).is_some() => {}
                    _ => return Err(fault("unknown metadata")),
                }
                if current.as_ref().is_none_or(|(family, _)| family != name) {
                    return Err(fault("metadata before TYPE"));
                }
                continue;
            }
            let (family, kind) = current.as_ref().ok_or_else(|| fault("no TYPE"))?;
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| fault("no value"))?;
            let value: f64 = value.parse().map_err(|_| fault("no number"))?;
            let name = series.split('{').next().unwrap_or_default();
            let expected = match kind.as_str() {
                "counter" => format!("{family}_total"),
                _ => family.clone(),
            };
            if name != expected || (kind == "counter" && (value.is_nan() || value < 0.0)) {
                return Err(fault("a sample outside its family"));
            }
            check_labels(&series[name.len()..]).map_err(|why| fault(&why))?;
            if samples.iter().any(|(known, _)| known == series) {
                return Err(fault("two samples with these labels"));
            }
            samples.push((series.to_string(), value));
        }
        Ok(samples)
    }

    fn is_name(name: &str) -> bool {
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
    }

    /// The text without escapes; None if an escape is invalid or a quote is not escaped.
    fn unescape(text: &str) -> Option<String> {
        let mut chars = text.chars();
        let mut plain = String::new();
        while let Some(c) = chars.next() {
            plain.push(match c {
                '\\' => match chars.next()? {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                },
                '"' => return None,
                c => c,
            });
        }
        Some(plain)
    }

    /// Checks `{name="value",...}` or the empty text.
    fn check_labels(labels: &str) -> Result<(), String> {
        if labels.is_empty() {
            return Ok(());
        }
        let mut rest = labels
            .strip_prefix('{')
            .and_then(|labels| labels.strip_suffix('}'))
            .ok_or("labels without braces")?;
        let mut names = BTreeSet::new();
        loop {
            let (name, value) = rest.split_once("=\"").ok_or("a label without value")?;
            if !is_name(name) || !names.insert(name) {
                return Err(format!("label {name} is invalid or repeated"));
            }
            let mut is_escaped = false;
            let end = value.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let end = end.ok_or("a label value without end")?;
            unescape(&value[..end]).ok_or("an invalid escape")?;
            rest = &value[end + 1..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None if rest.is_empty() => return Ok(()),
                None => return Err("no comma between labels".to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: MetricFamily = MetricFamily {
        name: "lanai_jobs",
        kind: MetricType::Gauge,
        unit: "",
        help: "Jobs.",
    };
    const AGE: MetricFamily = MetricFamily {
        name: "lanai_age_seconds",
        kind: MetricType::Counter,
        unit: "seconds",
        help: "A \"quoted\" text\\.",
    };

    #[test]
    fn families_have_metadata_and_escaped_labels() {
        let mut out = OpenMetrics::default();
        out.add(&JOBS, [(vec![("user", "a\"b\\c\nd".to_string())], 2.0)]);
        out.add(&AGE, [(vec![], 0.25)]);
        out.add(&JOBS, []);
        let text = out.end();
        let expected = "# TYPE lanai_jobs gauge\n\
                        # HELP lanai_jobs Jobs.\n\
                        lanai_jobs{user=\"a\\\"b\\\\c\\nd\"} 2\n\
                        # TYPE lanai_age_seconds counter\n\
                        # UNIT lanai_age_seconds seconds\n\
                        # HELP lanai_age_seconds A \\\"quoted\\\" text\\\\.\n\
                        lanai_age_seconds_total 0.25\n\
                        # EOF\n";
        assert_eq!(text, expected);
        assert_eq!(grammar::check(&text).unwrap().len(), 2);
    }

    #[test]
    fn the_grammar_refuses_invalid_texts() {
        for text in [
            "",
            "a 1\n# EOF\n",
            "# TYPE a gauge\na{b=\"c} 1\n# EOF\n",
            "# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n# EOF\n",
            "# TYPE a gauge\na 1\na 2\n# EOF\n",
            "# TYPE a gauge\na x\n# EOF\n",
            "# TYPE a counter\na 1\n# EOF\n",
            "# TYPE a counter\na_total -1\n# EOF\n",
            "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n",
            "# TYPE a gauge\na 1\n# TYPE a gauge\na{b=\"c\"} 1\n# EOF\n",
            "# TYPE a gauge\na 1\n",
        ] {
            assert!(grammar::check(text).is_err(), "{text}");
        }
    }
}
