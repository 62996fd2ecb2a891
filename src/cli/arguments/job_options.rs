//! The options shared by qsub and qalter, and the attribute settings that they produce.
//!
//! This module checks the values that PBS's commands check themselves, and refuses most illegal
//! values with `illegal -X value` and the usage. The server checks the values of the other options.

use super::{date, paths, resources, script};
use crate::cli::client::exit::Failure;
use crate::model::attribute::{self, AttributeSetting, remedy};
use crate::model::job::dependency::{DependencyFault, ParsedDependency};
use crate::model::job::run_limits::Warning;
use crate::model::job::state::Holds;
use crate::model::job::{tags, value_syntax};
use crate::model::text::Text;
use crate::model::time::Wall;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Heading of the most common options in `--help`.
pub const COMMON: &str = "Common options";

/// Heading of the options that affect when and where a job starts.
pub const SCHEDULING: &str = "Scheduling";

/// Heading of the options on output files and mail.
pub const MAIL: &str = "Output and mail";

/// Heading of the options on how the script runs.
pub const EXECUTION: &str = "Execution";

/// Heading of all other options.
pub const OTHER: &str = "Other options";

/// Options of a job, shared by qsub and qalter.
#[derive(Args, Clone, Debug, Default)]
pub struct JobOptions {
    /// Name of the job: up to 230 letters, digits and the characters . - _ +
    #[arg(short = 'N', value_name = "jobname", help_heading = COMMON)]
    pub name: Option<OsString>,
    /// Resources: select=N:ncpus=4:mem=8gb, place=scatter, walltime=HH:MM:SS (or seconds), ...
    /// Units of sizes: b, kb, mb, gb, tb, pb
    #[arg(short = 'l', value_name = "resource_list", help_heading = COMMON)]
    pub resources: Vec<OsString>,
    /// File for standard output: [host:]path; if path is a directory, the file is <job id>.OU
    #[arg(short = 'o', value_name = "path", help_heading = COMMON)]
    pub output: Option<OsString>,
    /// File for standard error: [host:]path; if path is a directory, the file is <job id>.ER
    #[arg(short = 'e', value_name = "path", help_heading = COMMON)]
    pub error: Option<OsString>,
    /// Join output and error: oe (in the output file), eo (in the error file), n (do not join)
    #[arg(short = 'j', value_name = "oe|eo|n", help_heading = COMMON)]
    pub join: Option<OsString>,
    /// Do not start before this time: [[[[CC]YY]MM]DD]hhmm[.SS], local time. Without a day, the
    /// next occurrence of hhmm; the current minute means tomorrow
    #[arg(short = 'a', value_name = "date_time", help_heading = SCHEDULING)]
    pub begin: Option<OsString>,
    /// Priority, -1024 (lowest) to 1023 (highest); if [order] lowest_is_best is set, 1 (highest) to
    /// 9999 (lowest). The site limits how far owners may raise the priority. In the default order,
    /// the priority orders the jobs of one owner in one queue and does not affect other users
    #[arg(short = 'p', value_name = "priority", help_heading = SCHEDULING)]
    pub priority: Option<OsString>,
    /// Account to charge (any text)
    #[arg(short = 'A', value_name = "account_string", help_heading = SCHEDULING)]
    pub account: Option<OsString>,
    /// Project of the job
    #[arg(short = 'P', value_name = "project", help_heading = SCHEDULING)]
    pub project: Option<OsString>,
    /// Whether the job may be requeued and rerun: y or n (default y)
    #[arg(short = 'r', value_name = "y|n", help_heading = SCHEDULING)]
    pub rerunnable: Option<OsString>,
    /// For an array with a limit (-J X-Y%N): run up to this many subjobs when resources would
    /// otherwise be idle; -1 or unlimited for any number, 0 to keep the limit
    #[arg(long, value_name = "most", help_heading = SCHEDULING)]
    pub expand: Option<OsString>,
    /// Scale the job's priority by this factor, 0 to 1 (default 1). Has an effect only if the
    /// order of jobs is a sum of factors
    #[arg(long, value_name = "factor", help_heading = SCHEDULING)]
    pub user_factor: Option<OsString>,
    /// Process group, the scope of the job's label and of its dependencies on labels: up to 230
    /// letters, digits and the characters . - _ +
    #[arg(long, value_name = "group", help_heading = SCHEDULING)]
    pub group: Option<OsString>,
    /// Label of the job: other jobs of the same process group may depend on the label, even before
    /// this job is submitted. See DEPENDENCIES
    #[arg(long, value_name = "label", help_heading = SCHEDULING)]
    pub label: Option<OsString>,
    /// Send mail when the job is aborted (a), begins (b) or ends (e), or never (n). With j, also
    /// for each subjob of an array
    #[arg(short = 'm', value_name = "mail_options", help_heading = MAIL)]
    pub mail_points: Option<OsString>,
    /// Recipients of mail: user[@host],... (default: the owner)
    #[arg(short = 'M', value_name = "user_list", help_heading = MAIL)]
    pub mail_users: Option<OsString>,
    /// Keep standard output (o), standard error (e) or both (oe) in the home directory on the node;
    /// n for none. With d (-k oed), write directly to the paths of -o and -e while the job runs
    #[arg(short = 'k', value_name = "keep", help_heading = MAIL)]
    pub keep: Option<OsString>,
    /// Remove the output file (o) or the error file (e) if the job exits with status 0
    #[arg(short = 'R', value_name = "o|e|oe", help_heading = MAIL)]
    pub remove: Option<OsString>,
    /// Shell that runs the script: path[@host],...
    #[arg(short = 'S', value_name = "path", help_heading = EXECUTION)]
    pub shell: Option<OsString>,
    /// User to run as: user[@host],... Only the owner is accepted
    #[arg(short = 'u', value_name = "user_list", help_heading = EXECUTION)]
    pub users: Option<OsString>,
    /// Checkpoints: n, s, c, w, c=MINUTES or w=MINUTES. With n, the site never checkpoints the job;
    /// the other values are stored and shown but have no effect
    #[arg(short = 'c', value_name = "interval", help_heading = EXECUTION)]
    pub checkpoint: Option<OsString>,
    /// Other attributes, separated by commas: umask=OCTAL, run_count=N, depend=afterok:ID (see
    /// DEPENDENCIES), group_list=GROUP[@HOST], warn=SIGNAL@TIME (send SIGNAL when TIME of the
    /// walltime is left), stagein=LOCAL@HOST:REMOTE, stageout= likewise (^array_index^ in both
    /// stands for the index of a subjob), sandbox=PRIVATE, retry=N (rerun the job up to N times if
    /// it fails), retry_delay=HH:MM:SS, retry_mem=FACTOR and retry_walltime=FACTOR (rerun it with
    /// more if it exceeded its memory or walltime, see RETRIES),
    /// environment=login|submission (see ENVIRONMENT OF THE JOB), max_run_subjobs=N (as -J %N), expand=N (as --expand),
    /// no_preempt=true (do not preempt the job, see lanai-scheduling(7)), interrupt=SIGNAL (sent
    /// instead of TERM when the job is preempted), notify=PATH (your own program; it reads JSON
    /// from standard input when the job begins, ends or fails; noded runs it as you, for at most 30
    /// seconds, with 1 GB of memory and 256 processes, and then ends all its processes),
    /// tag=KEY=VALUE+KEY=VALUE (tags, by which lanai selects jobs: tag.KEY=VALUE), the attributes
    /// of WHERE IT RUNS, or any attribute by name
    #[arg(short = 'W', value_name = "attribute=value", help_heading = OTHER)]
    pub others: Vec<OsString>,
}

/// Where and when a command runs: the base of relative paths and dates.
#[derive(Clone, Copy, Debug)]
pub struct SubmissionPlace<'a> {
    /// The working directory.
    pub workdir: &'a Path,
    /// The name of this host.
    pub host: &'a str,
    /// The current time.
    pub now: Wall,
    /// Returns true if a host with this name exists.
    pub host_exists: fn(&str) -> bool,
}

impl JobOptions {
    /// The attribute settings of these options. The settings of `-W` come last.
    pub fn settings(&self, place: &SubmissionPlace) -> Result<Vec<AttributeSetting>, Failure> {
        let mut settings = Vec::new();
        self.push_dates_and_paths(place, &mut settings)?;
        self.push_checked(&mut settings)?;
        self.push_unchecked(&mut settings)?;
        for list in &self.resources {
            settings.extend(resource_list(list)?);
        }
        for list in &self.others {
            settings.extend(others(list)?);
        }
        merge(&mut settings, "depend", b',');
        merge(&mut settings, "tag", b'+');
        Ok(settings)
    }

    fn push_dates_and_paths(
        &self,
        place: &SubmissionPlace,
        settings: &mut Vec<AttributeSetting>,
    ) -> Result<(), Failure> {
        if let Some(text) = &self.begin {
            let begin = date::begin(&text.to_string_lossy(), place.now)
                .ok_or_else(|| illegal_value('a', "Execution_Time", text))?;
            settings.push(AttributeSetting::new("Execution_Time", begin));
        }
        for (letter, attribute, path) in [
            ('e', "Error_Path", &self.error),
            ('o', "Output_Path", &self.output),
        ] {
            if let Some(path) = path
                .as_ref()
                .filter(|path| !paths::is_default(path, place.host))
            {
                let path = paths::resolve(path, place.workdir, place.host, place.host_exists)
                    .ok_or_else(|| illegal_value(letter, attribute, path))?;
                settings.push(AttributeSetting::new(attribute, path));
            }
        }
        Ok(())
    }

    /// Adds options that are sent unchanged after a check of their syntax.
    fn push_checked(&self, settings: &mut Vec<AttributeSetting>) -> Result<(), Failure> {
        type Check = fn(&str) -> bool;
        let rows: [(char, &str, &Option<OsString>, Check); 10] = [
            (
                'c',
                "Checkpoint",
                &self.checkpoint,
                value_syntax::checkpoint,
            ),
            ('j', "Join_Path", &self.join, |text| {
                value_syntax::join(text).is_some()
            }),
            ('k', "Keep_Files", &self.keep, value_syntax::keep_files),
            (
                'm',
                "Mail_Points",
                &self.mail_points,
                value_syntax::mail_points,
            ),
            (
                'M',
                "Mail_Users",
                &self.mail_users,
                value_syntax::mail_users,
            ),
            ('p', "Priority", &self.priority, |text| {
                value_syntax::priority(text).is_some()
            }),
            ('r', "Rerunable", &self.rerunnable, |text| {
                text == "y" || text == "n"
            }),
            (
                'R',
                "Remove_Files",
                &self.remove,
                value_syntax::remove_files,
            ),
            (
                'S',
                "Shell_Path_List",
                &self.shell,
                value_syntax::shell_list,
            ),
            ('u', "User_List", &self.users, value_syntax::user_list),
        ];
        for (letter, attribute, value, check) in rows {
            let Some(value) = value else { continue };
            if !check(&value.to_string_lossy()) {
                return Err(illegal_value(letter, attribute, value));
            }
            settings.push(AttributeSetting::new(attribute, text(value)));
        }
        Ok(())
    }

    /// Adds the job name, and options that only the server checks.
    fn push_unchecked(&self, settings: &mut Vec<AttributeSetting>) -> Result<(), Failure> {
        if let Some(name) = &self.name {
            settings.push(AttributeSetting::new("Job_Name", script::job_name(name)?));
        }
        let given = [
            ("Account_Name", &self.account),
            ("project", &self.project),
            ("user_factor", &self.user_factor),
            ("expand", &self.expand),
            ("process_group", &self.group),
            ("label", &self.label),
        ];
        for (attribute, value) in given {
            settings.extend(
                value
                    .iter()
                    .map(|value| AttributeSetting::new(attribute, text(value))),
            );
        }
        Ok(())
    }
}

/// Parses the holds of `-h`; without a value, a user hold.
pub fn holds(named: Option<&OsStr>) -> Result<Holds, Failure> {
    let Some(letters) = named else {
        return Ok(Holds::USER);
    };
    value_syntax::holds(&letters.to_string_lossy())
        .ok_or_else(|| illegal_value('h', "Hold_Types", letters))
}

/// The failure `illegal -X value`, with the usage.
pub fn illegal(letter: char) -> Failure {
    Failure::usage(format!("illegal -{letter} value"))
}

/// The failure `illegal -X value` for an option that sets `attribute`, with the usage and a hint:
/// the value, the accepted form, and an example.
pub fn illegal_value(letter: char, attribute: &str, value: &OsStr) -> Failure {
    illegal(letter).hint_if(remedy::of_value(attribute, &value.to_string_lossy()))
}

/// The failure for a PBS feature that this version does not support.
pub fn unsupported(what: &str) -> Failure {
    Failure::new(
        crate::cli::client::exit::USAGE,
        format!("{what} is not supported by this version"),
    )
}

fn text(value: &OsStr) -> Text {
    Text(value.as_bytes().to_vec())
}

/// Parses one `-l` value.
pub fn resource_list(list: &OsStr) -> Result<Vec<AttributeSetting>, Failure> {
    let pairs = list.to_str().and_then(resources::split).ok_or_else(|| {
        let given = remedy::shown(&list.to_string_lossy());
        illegal('l').hint(format!(
            "-l {given}: use NAME=VALUE,..., for example -l ncpus=2,mem=4gb,walltime=01:00:00"
        ))
    })?;
    Ok(pairs
        .iter()
        .map(|(name, value)| AttributeSetting::resource(name, value.as_str()))
        .collect())
}

/// The settings of one `-W`: `attribute=value` pairs separated by commas; a value may be quoted.
fn others(list: &OsStr) -> Result<Vec<AttributeSetting>, Failure> {
    let pairs = split_others(list.as_bytes()).ok_or_else(|| {
        let given = remedy::shown(&list.to_string_lossy());
        illegal('W').hint(format!(
            "-W {given}: use ATTRIBUTE=VALUE,..., for example -W umask=027,depend=afterok:12"
        ))
    })?;
    let mut settings = Vec::new();
    for (name, value) in pairs {
        let value_text = String::from_utf8_lossy(&value);
        if !is_well_formed(&name, &value_text) {
            return Err(illegal('W').hint_if(remedy::of_value(&name, &value_text)));
        }
        match name.as_str() {
            // Moab's extensions are ignored.
            "x" => continue,
            _ => attribute::may_set(&name, true)?,
        }
        settings.push(AttributeSetting::new(&name, value));
    }
    Ok(settings)
}

/// Merges repeated settings of `attribute` into one setting, with `separator` between the values,
/// because all values apply.
fn merge(settings: &mut Vec<AttributeSetting>, attribute: &str, separator: u8) {
    let given: Vec<Vec<u8>> = settings
        .extract_if(.., |setting| setting.attribute == attribute)
        .map(|setting| setting.value.0)
        .collect();
    if !given.is_empty() {
        settings.push(AttributeSetting::new(
            attribute,
            Text(given.join(&separator)),
        ));
    }
}

/// Checks the syntax of an attribute's value. True for attributes that only the server checks.
fn is_well_formed(name: &str, value: &str) -> bool {
    match name {
        "depend" => ParsedDependency::parse(value, None) != Err(DependencyFault::Malformed),
        "group_list" => !value.is_empty(),
        "block" | "interactive" => value_syntax::boolean(value).is_some(),
        "umask" => value_syntax::umask(value).is_some(),
        "run_count" => value_syntax::run_count(value).is_some(),
        "sandbox" => value_syntax::sandbox(value),
        "notify" => value_syntax::program(value),
        "stagein" | "stageout" => value_syntax::staging(value),
        "tolerate_node_failures" => value_syntax::tolerance(value),
        "tag" => value.is_empty() || tags::are_valid(value),
        Warning::ATTRIBUTE => value.is_empty() || Warning::parse(value).is_some(),
        _ => true,
    }
}

/// Splits a `-W` value into names and values. None if a `=`, a name or a closing quote is missing,
/// or if a name is illegal.
fn split_others(list: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let (mut pairs, mut rest) = (Vec::new(), list);
    loop {
        let equals = rest.iter().position(|&b| b == b'=').filter(|&at| at > 0)?;
        let name = std::str::from_utf8(&rest[..equals])
            .ok()?
            .trim()
            .to_string();
        let (value, behind) = split_value(&rest[equals + 1..])?;
        if name.is_empty() || name.contains(',') {
            return None;
        }
        pairs.push((name, value));
        match behind {
            None => return Some(pairs),
            Some(behind) => rest = behind,
        }
    }
}

/// Returns the value at the start of `text`, without quotes, and the text after the comma that ends
/// the value; no text if the value is the last one. Only an unquoted comma before another `name=`
/// ends a value: `depend=afterok:1,afterany:2,umask=22` sets two attributes. None if a quotation
/// does not end.
fn split_value(text: &[u8]) -> Option<(Vec<u8>, Option<&[u8]>)> {
    let (mut value, mut quote) = (Vec::new(), None);
    for (at, &byte) in text.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b',') if begins_with_name(&text[at + 1..]) => {
                return Some((value, Some(&text[at + 1..])));
            }
            _ => value.push(byte),
        }
    }
    quote.is_none().then_some((value, None))
}

fn begins_with_name(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| b",=\"'".contains(byte));
    end.is_some_and(|end| text[end] == b'=')
}

/// The words of a command line in the format of `Submit_arguments`: joined by blanks, without empty
/// words.
pub fn joined(words: &[OsString]) -> Text {
    let words: Vec<&OsStr> = words
        .iter()
        .map(OsString::as_os_str)
        .filter(|word| !word.is_empty())
        .collect();
    Text(words.join(OsStr::new(" ")).into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn settings(words: &[&str]) -> Result<Vec<String>, Failure> {
        let mut command = JobOptions::augment_args(Command::new("qsub").args_override_self(true))
            .disable_help_flag(true)
            .disable_version_flag(true);
        let matches =
            super::super::getopt::matches(&mut command, words.iter().map(OsString::from))?;
        let options = JobOptions::from_arg_matches(&matches).unwrap();
        let place = SubmissionPlace {
            workdir: Path::new("/nosuch/w"),
            host: "head",
            now: Wall(0),
            host_exists: |_| false,
        };
        let shown = |s: AttributeSetting| match s.resource {
            Some(resource) => format!("{}.{resource}={}", s.attribute, s.value),
            None => format!("{}={}", s.attribute, s.value),
        };
        Ok(options.settings(&place)?.into_iter().map(shown).collect())
    }

    #[test]
    fn options_become_settings() {
        for (words, expected) in [
            (&["-N", "a", "-Nb"][..], &["Job_Name=b"][..]),
            (&["-N=psij"], &["Job_Name=psij"]),
            (&["-rn", "-p", "-5"], &["Priority=-5", "Rerunable=n"]),
            (&["-o", "x"], &["Output_Path=head:/nosuch/w/x"]),
            (
                &["-lselect=2:ncpus=1", "-l", "walltime=5"],
                &["Resource_List.select=2:ncpus=1", "Resource_List.walltime=5"],
            ),
            (
                &["-W", "umask=22,run_count=2"],
                &["umask=22", "run_count=2"],
            ),
            (
                &["-W", "depend=afterok:1,on:2,umask=22"],
                &["umask=22", "depend=afterok:1,on:2"],
            ),
            (
                &["-W", "umask=22,depend=afterok:1"],
                &["umask=22", "depend=afterok:1"],
            ),
            (
                &["-Wdepend=afterok:1:2", "-W", "depend=after:3"],
                &["depend=afterok:1:2,after:3"],
            ),
            (
                &["-W", "group_list='a,b',Priority=5"],
                &["group_list=a,b", "Priority=5"],
            ),
            (&["-W", "x=FLAGS:y"], &[]),
            (&["-A", "-x"], &["Account_Name=-x"]),
            (&["-A", ""], &["Account_Name="]),
            (&["-u", "alice@head"], &["User_List=alice@head"]),
            (&["--user-factor", ".2"], &["user_factor=.2"]),
            (&["--user-factor=0"], &["user_factor=0"]),
            (
                &["--expand", "-1", "--label=sim"],
                &["expand=-1", "label=sim"],
            ),
            (&["--group", "show1"], &["process_group=show1"]),
            (&["-W", "depend=done-job-sim"], &["depend=done-job-sim"]),
        ] {
            assert_eq!(settings(words).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn illegal_values_are_reported_with_their_option() {
        for (letter, value) in [
            ('a', "9999"),
            ('c', "u"),
            ('c', "wd"),
            ('e', ""),
            ('o', "a:b:c"),
            ('j', "o"),
            ('k', "no"),
            ('l', "=1"),
            ('m', "x"),
            ('M', ""),
            ('N', "a b"),
            ('p', "10000"),
            ('r', ""),
            ('R', "x"),
            ('S', "sh"),
            ('u', "a,b"),
            ('W', ""),
            ('W', "foo"),
            ('W', "umask=abc"),
            ('W', "run_count=-1"),
            ('W', "sandbox=FOO"),
            ('W', "stagein=x"),
            ('W', "block=maybe"),
            ('W', "tolerate_node_failures=x"),
            ('W', "warn=USR1"),
            ('W', "depend="),
            ('W', "depend=afterok"),
            ('W', "depend=afterok:1,"),
            ('W', "umask=22,"),
            ('W', "depend=afterok:1[2]"),
        ] {
            let failure = settings(&[&format!("-{letter}"), value]).expect_err(value);
            assert_eq!(failure.text, illegal(letter).text, "{letter} {value}");
            let [hint] = &failure.hints[..] else {
                panic!("{letter} {value}: {:?}", failure.hints)
            };
            let expected = [
                format!("-{letter} {}: use ", remedy::shown(value)),
                ": use ".into(),
            ];
            let is_attribute = letter == 'W' && value.contains('=');
            assert!(
                hint.contains(&expected[usize::from(is_attribute)]),
                "{hint}"
            );
            assert!(hint.contains("for example -"), "{hint}");
        }
    }

    #[test]
    fn other_errors_have_specific_messages() {
        for (words, code, message) in [
            (&["-W", "foo=1"][..], 154, "Undefined attribute  foo"),
            (
                &["-W", "queue=x"],
                155,
                "Cannot set attribute, read only or insufficient permission  queue",
            ),
            (&["-y"], 2, "invalid option -- 'y'"),
            (&["--foo"], 2, "invalid option -- '-'"),
            (&["-N"], 2, "option requires an argument -- 'N'"),
            (
                &["--user-factor"],
                2,
                "option requires an argument -- 'user-factor'",
            ),
        ] {
            let failure = settings(words).expect_err(message);
            assert_eq!(
                (failure.code, failure.text.as_str()),
                (code, message),
                "{words:?}"
            );
        }
    }
}
