//! A case: a request or a job start that hooks allow or refuse, and the changes that they made.

use crate::model::attribute::AttributeSetting;
use crate::model::hook::{Hook, HookEvent, hooks_at};
use crate::model::job_id::JobId;
use crate::model::text::Text;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::wire::message::{ClientRequest, NewJob, Payload};
use std::collections::VecDeque;

/// A request or start that hooks allow or refuse.
pub enum Matter {
    /// A request of a client, which waits for the reply.
    Request(Token, Caller, Box<ClientRequest>),
    /// The start of this job on these nodes, which a cycle has planned.
    Start(JobId, Vec<String>),
}

/// A request or start for which the hooks of an event run, one after the other.
pub struct Case {
    /// The request or the start.
    pub matter: Matter,
    /// The event of the hooks.
    pub hook_event: HookEvent,
    /// The hooks that have not finished, in their order.
    pub hooks: VecDeque<Hook>,
    /// The attributes that hooks have set on the job that is to start.
    pub set: Vec<AttributeSetting>,
    /// The last hook that has set an attribute; empty if none has.
    pub by: String,
}

/// The attribute of requested resources.
const LIST: &str = "Resource_List";
/// The prefix of the attributes that set environment variables.
const ENVIRONMENT: &str = "Variable_List.";

impl Case {
    /// A case for all hooks of an event, in their order.
    pub fn new(matter: Matter, hook_event: HookEvent, hooks: &[Hook]) -> Case {
        let hooks = hooks_at(hooks, hook_event).into_iter().cloned().collect();
        Case {
            matter,
            hook_event,
            hooks,
            set: Vec::new(),
            by: String::new(),
        }
    }

    /// The client that waits for a reply, with the user; None for a start.
    pub fn caller(&self) -> Option<(Token, &Caller)> {
        match &self.matter {
            Matter::Request(token, caller, _) => Some((*token, caller)),
            Matter::Start(..) => None,
        }
    }

    /// Approximate memory use of the environment and script of a submission, in bytes; 0 for other
    /// cases.
    pub fn size(&self) -> usize {
        let Matter::Request(_, _, request) = &self.matter else {
            return 0;
        };
        let ClientRequest::Submit(submission) = &**request else {
            return 0;
        };
        submission.environ.len() + script(submission).map_or(0, <[u8]>::len)
    }

    /// Applies the attributes that a hook has set; None unsets an attribute.
    pub fn set_attributes(&mut self, hook: &str, set: Vec<(String, Option<String>)>) {
        self.by = hook.to_string();
        for (name, value) in set {
            match &mut self.matter {
                Matter::Request(_, _, request) => match &mut **request {
                    ClientRequest::Submit(submission) => submit(submission, &name, value),
                    ClientRequest::Alter(_, settings) => {
                        replace(settings, &name, Some(value.unwrap_or_default()))
                    }
                    _ => replace(&mut self.set, &name, Some(value.unwrap_or_default())),
                },
                Matter::Start(..) => replace(&mut self.set, &name, Some(value.unwrap_or_default())),
            }
        }
    }
}

/// The text of a submitted script; None for a command.
pub fn script(submission: &NewJob) -> Option<&[u8]> {
    match &submission.payload {
        Payload::Script(text) => Some(text),
        Payload::Command(_) => None,
    }
}

fn submit(submission: &mut NewJob, name: &str, value: Option<String>) {
    match name.strip_prefix(ENVIRONMENT) {
        Some(variable) => {
            submission.environ = with_variable(&submission.environ, variable, value.as_deref())
        }
        None => replace(&mut submission.settings, name, value),
    }
}

/// Replaces all earlier settings of an attribute by `value`; None only removes the settings.
fn replace(settings: &mut Vec<AttributeSetting>, name: &str, value: Option<String>) {
    let (attribute, resource) = match name.split_once('.') {
        Some((list, resource)) if list.eq_ignore_ascii_case(LIST) => (LIST, Some(resource)),
        _ => (name, None),
    };
    settings.retain(|setting| match (&setting.resource, resource) {
        (Some(one), Some(other)) => !one.eq_ignore_ascii_case(other),
        (None, None) => !setting.attribute.eq_ignore_ascii_case(attribute),
        _ => true,
    });
    settings.extend(value.map(|value| AttributeSetting {
        attribute: attribute.to_string(),
        resource: resource.map(str::to_string),
        value: Text::from(value.as_str()),
    }));
}

/// An environment with a variable set or removed.
fn with_variable(environ: &[u8], name: &str, value: Option<&str>) -> Vec<u8> {
    let begin = [name.as_bytes(), b"="].concat();
    let others = environ
        .split_inclusive(|&byte| byte == 0)
        .filter(|entry| !entry.starts_with(&begin));
    let mut kept: Vec<u8> = others.flatten().copied().collect();
    if let Some(value) = value {
        kept.extend([&begin, value.as_bytes(), b"\0"].concat());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_replaces_all_earlier_settings_of_the_attribute() {
        let mut settings = vec![
            AttributeSetting::new("Job_Name", "a"),
            AttributeSetting::resource("walltime", "60"),
            AttributeSetting::resource("mem", "1gb"),
            AttributeSetting::resource("walltime", "90"),
        ];
        replace(
            &mut settings,
            "resource_list.walltime",
            Some("10".to_string()),
        );
        replace(&mut settings, "Resource_List.mem", None);
        replace(&mut settings, "project", Some("p".to_string()));
        replace(&mut settings, "job_name", None);
        assert_eq!(
            settings,
            [
                AttributeSetting::resource("walltime", "10"),
                AttributeSetting::new("project", "p")
            ]
        );
    }

    #[test]
    fn setting_a_variable_keeps_variables_with_similar_names() {
        let environ = b"AB=1\0A=2\0B=A=3\0";
        assert_eq!(
            with_variable(environ, "A", Some("x=y")),
            b"AB=1\0B=A=3\0A=x=y\0"
        );
        assert_eq!(with_variable(environ, "A", None), b"AB=1\0B=A=3\0");
    }
}
