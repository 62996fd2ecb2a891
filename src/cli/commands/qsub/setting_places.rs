//! Where the settings of a submission come from, for messages about refused settings.

use crate::cli::arguments::directives::Directive;
use crate::cli::arguments::script::ScriptSource;
use crate::cli::client::exit::Failure;
use crate::model::attribute::AttributeSetting;
use crate::model::refusal::Refusal;

/// The settings of the command line and of each directive.
#[derive(Debug, Default)]
pub(super) struct SettingPlaces {
    /// The name of the script in messages.
    script: String,
    /// The settings of the command line.
    command_line: Vec<AttributeSetting>,
    /// The settings of each directive, with the number and text of its line.
    lines: Vec<(usize, String, Vec<AttributeSetting>)>,
}

impl SettingPlaces {
    /// No settings yet. `source` names the script in messages.
    pub(super) fn of(source: &ScriptSource, command_line: &[AttributeSetting]) -> SettingPlaces {
        SettingPlaces {
            script: script_name(source),
            command_line: command_line.to_vec(),
            lines: Vec::new(),
        }
    }

    /// Adds the settings of a directive.
    pub(super) fn add(&mut self, directive: &Directive, settings: &[AttributeSetting]) {
        let text = String::from_utf8_lossy(&directive.text);
        self.lines
            .push((directive.line, text.trim().to_string(), settings.to_vec()));
    }

    /// Adds the line of a directive to the failure that the directive causes.
    pub(super) fn in_line(&self, directive: &Directive, failure: Failure) -> Failure {
        let text = String::from_utf8_lossy(&directive.text);
        self.with_line(directive.line, text.trim(), failure)
    }

    /// The failure for a refused submission, with the line of the script that has the refused
    /// setting.
    pub(super) fn failure(&self, refusal: Refusal) -> Failure {
        let setting = refusal.setting.clone();
        let failure = Failure::from(refusal);
        match self.line_of(&setting) {
            Some((number, text)) => self.with_line(number, text, failure),
            None => failure,
        }
    }

    /// The directive that sets `name`, such as `queue`, `Resource_List.mem` or `select.mem`. None
    /// for a setting of the command line, which takes precedence.
    fn line_of(&self, name: &str) -> Option<(usize, &str)> {
        if name.is_empty()
            || self
                .command_line
                .iter()
                .any(|setting| is_named(setting, name))
        {
            return None;
        }
        let (number, text, _) = self
            .lines
            .iter()
            .find(|(_, _, settings)| settings.iter().any(|setting| is_named(setting, name)))?;
        Some((*number, text))
    }

    fn with_line(&self, number: usize, text: &str, mut failure: Failure) -> Failure {
        let place = format!("line {number} of {}", self.script);
        match failure.hints.first_mut() {
            Some(hint) => *hint = format!("{place}: {hint}"),
            None => failure.hints.push(format!("{place}: {text}")),
        }
        failure
    }
}

/// The script in messages.
pub(super) fn script_name(source: &ScriptSource) -> String {
    match source {
        ScriptSource::File(file) => file.to_string_lossy().into_owned(),
        ScriptSource::Stdin | ScriptSource::Command(_) => "the script".to_string(),
    }
}

fn is_named(setting: &AttributeSetting, name: &str) -> bool {
    let Some(resource) = &setting.resource else {
        return setting.attribute.eq_ignore_ascii_case(name);
    };
    let is_in_select = name.starts_with("select.") && ["select", "nodes"].contains(&&**resource);
    is_in_select || format!("{}.{resource}", setting.attribute).eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_setting_is_found_in_its_line() {
        let setting = |name, value: &str| AttributeSetting::resource(name, value);
        let source = ScriptSource::File("job.sh".into());
        let mut places = SettingPlaces::of(&source, &[setting("mem", "1gb")]);
        let directive = Directive {
            line: 3,
            text: b" -l walltime=2d -l mem=x ".to_vec(),
        };
        let settings = [setting("walltime", "2d"), setting("mem", "x")];
        places.add(&directive, &settings);
        let hints = |refusal| places.failure(refusal).hints;
        let walltime = Refusal::illegal_value("Resource_List.walltime");
        assert_eq!(
            hints(walltime.clone()),
            ["line 3 of job.sh: -l walltime=2d -l mem=x"]
        );
        assert_eq!(
            hints(walltime.with_remedy("use seconds")),
            ["line 3 of job.sh: use seconds"]
        );
        // The command line takes precedence over the script.
        assert!(hints(Refusal::illegal_value("Resource_List.mem")).is_empty());
        assert!(hints(Refusal::unknown_queue()).is_empty());
        places.add(&directive, &[setting("select", "1:foo=1")]);
        let failure = places.failure(Refusal::unknown_in_select("foo"));
        assert!(failure.hints[0].starts_with("line 3 of job.sh: "));
    }
}
