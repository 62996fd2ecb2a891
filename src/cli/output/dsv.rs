//! `-F dsv`: one line for each object, with a delimiter between values.

use super::full;
use crate::shown::attributes::Attributes;
use std::fmt::Write;

/// Writes one object: `Job Id: 12.head|Job_Name=STDIN|...`. In values, each delimiter and each `\`
/// is preceded by `\`, and control characters are displayed as by [`full::printable`].
pub fn write(out: &mut String, heading: &str, id: &str, attributes: &Attributes, delimiter: &str) {
    let _ = write!(out, "{heading}{id}");
    for attribute in &attributes.0 {
        let Some(value) = full::text(attribute) else {
            continue;
        };
        let _ = write!(out, "{delimiter}{}", attribute.name);
        if let Some(resource) = attribute.resource {
            let _ = write!(out, ".{resource}");
        }
        let _ = write!(out, "={}", full::printable(&escaped(&value, delimiter)));
    }
    out.push('\n');
}

fn escaped(value: &str, delimiter: &str) -> String {
    let value = value.replace('\\', "\\\\");
    if delimiter.is_empty() {
        value
    } else {
        value.replace(delimiter, &format!("\\{delimiter}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_and_newlines_within_values_are_escaped() {
        let mut attributes = Attributes::default();
        attributes.text("Error_Path", "head:/w/a|b.e1");
        attributes.text("comment", "one\\two\nthree");
        attributes.number("Priority", -3);
        let mut out = String::new();
        write(&mut out, "Job Id: ", "1.head", &attributes, "|");
        assert_eq!(
            out,
            "Job Id: 1.head|Error_Path=head:/w/a\\|b.e1|comment=one\\\\two\\nthree|Priority=-3\n"
        );
        out.clear();
        write(&mut out, "Job Id: ", "1.head", &attributes, ":");
        assert_eq!(
            out,
            "Job Id: 1.head:Error_Path=head\\:/w/a|b.e1:comment=one\\\\two\\nthree:Priority=-3\n"
        );
    }
}
