//! What a user can do about a refused setting: the accepted form, and an example.
//!
//! PBS's messages name the option or the attribute at most. Commands print these texts on a line of
//! their own after PBS's message.

use super::{AttributeSetting, LIST, resource_remedy};
use crate::model::refusal::Refusal;
use crate::model::resource::Resources;

/// The form of an attribute's values.
struct ValueForm {
    /// The name of the attribute.
    attribute: &'static str,
    /// The option up to the value.
    option: &'static str,
    /// The accepted values.
    form: &'static str,
    /// An accepted value.
    example: &'static str,
}

const fn form(
    attribute: &'static str,
    option: &'static str,
    form: &'static str,
    example: &'static str,
) -> ValueForm {
    ValueForm {
        attribute,
        option,
        form,
        example,
    }
}

/// The forms of values, by attribute.
const FORMS: &[ValueForm] = &[
    form(
        "Execution_Time",
        "-a ",
        "a local time [[[[CC]YY]MM]DD]hhmm[.SS]",
        "0830 for the next 8:30, or -a 12312200 for December 31, 22:00",
    ),
    form(
        "Checkpoint",
        "-c ",
        "n, s, c, w, c=MINUTES or w=MINUTES",
        "c=30",
    ),
    form("Error_Path", "-e ", "[host:]path", "logs/job.err"),
    form("Output_Path", "-o ", "[host:]path", "logs/job.out"),
    form(
        "Hold_Types",
        "-h ",
        "letters of u (user), o (operator), s (system) and p (password), or n",
        "u",
    ),
    form("Join_Path", "-j ", "oe, eo or n", "oe"),
    form(
        "array_indices_submitted",
        "-J ",
        "X-Y[:STEP][%MOST] with X below Y",
        "1-10",
    ),
    form("Keep_Files", "-k ", "letters of o, e and d, or n", "oed"),
    form(
        "Mail_Points",
        "-m ",
        "letters of a (aborted), b (begins), e (ends) and j (each subjob), or n",
        "abe",
    ),
    form("Mail_Users", "-M ", "user[@host],...", "anna@example.org"),
    form(
        "Job_Name",
        "-N ",
        "up to 230 letters, digits and characters . - _ +",
        "my_job-1",
    ),
    form(
        "Priority",
        "-p ",
        "a whole number from -1024 to 1023, or in the range that the site sets",
        "100",
    ),
    form("Rerunable", "-r ", "y or n", "n"),
    form("Remove_Files", "-R ", "letters of o and e", "oe"),
    form(
        "Shell_Path_List",
        "-S ",
        "an absolute path[@host],...",
        "/bin/bash",
    ),
    form(
        "User_List",
        "-u ",
        "user[@host],... with each host once",
        "anna",
    ),
    form(
        "project",
        "-P ",
        "a name without control characters and / [ ] \" ; : | < > + , ? *",
        "genome",
    ),
    form(
        "expand",
        "--expand=",
        "a number of subjobs, -1 or unlimited",
        "100",
    ),
    form("block", "-W block=", "true or false", "true"),
    form(
        "depend",
        "-W depend=",
        "TYPE:ID[:ID...][,TYPE:ID...] with a type such as afterok, afternotok, afterany, after, \
         beforeok or on:NUMBER, and ids of whole jobs",
        "afterok:12",
    ),
    form(
        "group_list",
        "-W group_list=",
        "group[@host],...",
        "physics",
    ),
    form("interactive", "-W interactive=", "true or false", "true"),
    form(
        "max_run_subjobs",
        "-W max_run_subjobs=",
        "a whole number",
        "4",
    ),
    form(
        "notify",
        "-W notify=",
        "the absolute path of a program",
        "/home/anna/notify",
    ),
    form("retry", "-W retry=", "a whole number", "3"),
    form(
        "retry_delay",
        "-W retry_delay=",
        "seconds or [[HH:]MM:]SS",
        "00:05:00",
    ),
    form("run_count", "-W run_count=", "a whole number", "3"),
    form(
        "sandbox",
        "-W sandbox=",
        "PRIVATE, HOME or O_WORKDIR",
        "PRIVATE",
    ),
    form(
        "stagein",
        "-W stagein=",
        "LOCAL@HOST:REMOTE,...",
        "in.dat@localhost:/home/anna/in.dat",
    ),
    form(
        "stageout",
        "-W stageout=",
        "LOCAL@HOST:REMOTE,...",
        "out.dat@localhost:/home/anna/out.dat",
    ),
    form(
        "tolerate_node_failures",
        "-W tolerate_node_failures=",
        "all, job_start or none",
        "job_start",
    ),
    form("umask", "-W umask=", "an octal number up to 777", "027"),
    form(
        "warn",
        "-W warn=",
        "SIGNAL@TIME with the time left of the walltime",
        "USR1@300",
    ),
];

/// The accepted form of an attribute's values, with the refused value and an example. None if the
/// attribute has no entry.
pub fn of_value(attribute: &str, value: &str) -> Option<String> {
    let form = FORMS
        .iter()
        .find(|form| form.attribute.eq_ignore_ascii_case(attribute))?;
    let ValueForm {
        option,
        form,
        example,
        ..
    } = form;
    let given = shown(value);
    Some(format!(
        "{option}{given}: use {form}, for example {option}{example}"
    ))
}

/// The longest value in a message, in characters.
const LONGEST_SHOWN: usize = 60;

/// A value as it can be typed: in quotes if it is empty or contains blanks, without control
/// characters, and shortened.
pub fn shown(value: &str) -> String {
    let mut text: String = value
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(LONGEST_SHOWN)
        .collect();
    if value.chars().count() > LONGEST_SHOWN {
        text.push_str("...");
    }
    if text.is_empty() || text.contains(char::is_whitespace) {
        format!("'{text}'")
    } else {
        text
    }
}

/// Adds the remedy to a refusal of settings, unless it has one.
pub(super) fn add(
    refusal: Refusal,
    settings: &[AttributeSetting],
    resources: &Resources,
) -> Refusal {
    if !refusal.remedy.is_empty() {
        return refusal;
    }
    let remedy = resource_remedy::find(&refusal, settings, resources).or_else(|| {
        let is_illegal = refusal.code == Refusal::illegal_value("").code;
        let name = refusal.setting.as_str();
        // A text with a reason of its own needs no remedy.
        let is_bare = is_illegal && Refusal::illegal_value(name) == refusal
            || refusal.setting == "Checkpoint";
        let value = value_of(settings, name, None).filter(|_| is_bare)?;
        of_value(name, &value)
    });
    match remedy {
        Some(remedy) => refusal.with_remedy(remedy),
        None => refusal,
    }
}

/// The last value of an attribute, or of a resource.
pub(super) fn value_of(
    settings: &[AttributeSetting],
    attribute: &str,
    resource: Option<&str>,
) -> Option<String> {
    let found = settings.iter().rev().find(|setting| {
        let is_same = match (resource, setting.resource.as_deref()) {
            (Some(wanted), Some(given)) => wanted.eq_ignore_ascii_case(given),
            (wanted, given) => wanted == given,
        };
        is_same && setting.attribute.eq_ignore_ascii_case(attribute)
    });
    found.map(|setting| setting.value.lossy().into_owned())
}

/// The last value of a resource in the list.
pub(super) fn value_in_list(settings: &[AttributeSetting], resource: &str) -> Option<String> {
    value_of(settings, LIST, Some(resource))
}

#[cfg(test)]
mod tests {
    use super::super::table::TABLE;
    use super::*;

    #[test]
    fn a_remedy_names_the_value_the_form_and_an_example() {
        assert_eq!(
            of_value("Mail_Points", "foo").unwrap(),
            "-m foo: use letters of a (aborted), b (begins), e (ends) and j (each subjob), or n, \
             for example -m abe"
        );
        assert_eq!(
            of_value("umask", "").unwrap(),
            "-W umask='': use an octal number up to 777, for example -W umask=027"
        );
        assert_eq!(of_value("nosuch", "x"), None);
    }

    #[test]
    fn long_and_unprintable_values_are_shortened() {
        assert_eq!(shown("a b"), "'a b'");
        assert_eq!(shown("a\nb"), "a?b");
        assert_eq!(shown(&"x".repeat(61)), format!("{}...", "x".repeat(60)));
    }

    #[test]
    fn forms_are_of_known_attributes() {
        for form in FORMS {
            assert!(
                TABLE.iter().any(|rule| rule.name == form.attribute),
                "{}",
                form.attribute
            );
        }
    }
}
