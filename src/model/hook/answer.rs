//! Answers of hooks: empty output accepts the event; a JSON object may reject the event or change
//! the job.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum length of a hook's message to the user, in characters.
const LONGEST: usize = 500;

/// Exit of a hook's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookExit {
    /// Exit status; None if a signal ended the program.
    pub status: Option<i32>,
    /// Standard output.
    pub text: String,
}

/// Answer of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// The event is accepted, and the job gets these attributes, such as
    /// (`Resource_List.walltime`, `1:00:00`). A value of None clears the attribute.
    Accept(Vec<(String, Option<String>)>),
    /// The event is rejected, with a message for the user.
    Reject(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HookOutput {
    #[serde(default)]
    accept: Option<bool>,
    reject: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

impl HookAnswer {
    /// Parses an answer. The error is the end of a sentence such as `hook 'limits' failed: ...`.
    pub fn read(exit: &HookExit) -> Result<HookAnswer, String> {
        match exit.status {
            Some(0) => {}
            Some(status) => return Err(format!("it ended with status {status}")),
            None => return Err("a signal ended it".to_string()),
        }
        if exit.text.trim().is_empty() {
            return Ok(HookAnswer::Accept(Vec::new()));
        }
        let output: HookOutput = serde_json::from_str(&exit.text)
            .map_err(|error| format!("its output is not a valid answer: {error}"))?;
        match output {
            HookOutput {
                reject: Some(why),
                accept: None | Some(false),
                ..
            } => Ok(HookAnswer::Reject(message(&why))),
            HookOutput {
                reject: None,
                accept: Some(false),
                ..
            } => Ok(HookAnswer::Reject(message(""))),
            HookOutput {
                reject: Some(_), ..
            } => Err("its answer both accepts and rejects".to_string()),
            HookOutput { set, .. } => set
                .into_iter()
                .map(setting)
                .collect::<Result<_, _>>()
                .map(HookAnswer::Accept),
        }
    }
}

/// Converts a message to one line of at most [`LONGEST`] characters without control characters. An
/// empty message is replaced by a default.
fn message(why: &str) -> String {
    let line: String = why
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect();
    if line.is_empty() {
        "rejected by a site hook".to_string()
    } else {
        line
    }
}

fn setting((name, value): (String, Value)) -> Result<(String, Option<String>), String> {
    let text = match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_set) => Some(if is_set { "True" } else { "False" }.to_string()),
        Value::Array(_) | Value::Object(_) => {
            return Err(format!(
                "the value of `{name}` is not a text, number or boolean"
            ));
        }
    };
    Ok((name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: Option<i32>, text: &str) -> Result<HookAnswer, String> {
        HookAnswer::read(&HookExit {
            status,
            text: text.to_string(),
        })
    }

    #[test]
    fn empty_output_accepts_and_json_may_reject_or_modify() {
        let accept = |set: &[(&str, Option<&str>)]| {
            Ok(HookAnswer::Accept(
                set.iter()
                    .map(|(k, v)| (k.to_string(), v.map(String::from)))
                    .collect(),
            ))
        };
        assert_eq!(read(Some(0), " \n"), accept(&[]));
        assert_eq!(read(Some(0), r#"{"accept": true}"#), accept(&[]));
        assert_eq!(
            read(
                Some(0),
                r#"{"set": {"queue": "short", "Priority": 5, "project": null}}"#
            ),
            accept(&[
                ("Priority", Some("5")),
                ("project", None),
                ("queue", Some("short"))
            ])
        );
        assert_eq!(
            read(Some(0), r#"{"reject": "no\nsuch account"}"#),
            Ok(HookAnswer::Reject("no such account".into()))
        );
        assert_eq!(
            read(Some(0), r#"{"accept": false}"#),
            Ok(HookAnswer::Reject("rejected by a site hook".into()))
        );
    }

    #[test]
    fn invalid_answers_are_errors() {
        for (status, text) in [
            (Some(1), ""),
            (None, ""),
            (Some(0), "yes"),
            (Some(0), r#"{"rejekt": "x"}"#),
            (Some(0), r#"{"accept": true, "reject": "x"}"#),
            (Some(0), r#"{"set": {"queue": ["a"]}}"#),
        ] {
            assert!(read(status, text).is_err(), "{status:?} {text}");
        }
    }
}
