//! Properties of every text in PBS's grammars: it either parses or is refused with a message of the
//! contract, and never panics. A parsed text survives display and a second parse unchanged.
//!
//! The property tests and the fuzz targets in `fuzz/` share this file. Each function panics if its
//! text violates a property.

use lanai::cli::arguments::{date, resources};
use lanai::cli::client::exit::Failure;
use lanai::cli::commands::qsub::{self, SubmitEnvironment};
use lanai::cli::output::json::{Document, Preamble};
use lanai::model::attribute::{self, AttributeSetting, Context, Draft, Rights, SubmitContext};
use lanai::model::job::dependency::{self, ParsedDependency};
use lanai::model::job::{DEFAULT_PROJECT, Digest, Job, JobProgram, Life, Owner, Spec};
use lanai::model::job_id::JobId;

use lanai::model::policy::Policy;
use lanai::model::request::select::Request;
use lanai::model::resource::{Definition, ResourceType, Resources};
use lanai::model::time::{ClockTable, Time, Wall};
use lanai::shown::attributes;
use lanai::wire::message::{JobRecord, NewJob, Payload, ServerFacts};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// 14 November 2023, 22:13:20 UTC.
const NOW: Wall = Wall(1_700_000_000);

const SERVER: &str = "head";

/// Result of parsing a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParseResult {
    /// Valid: the text describes a job.
    Parsed,
    /// Refused with PBS's message and exit status.
    Refused,
}

/// Checks a job script: its directives.
pub fn script_header(script: &[u8]) -> ParseResult {
    submit(vec!["job.sh".into()], script)
}

/// Checks a `qsub` command line in any supported dialect.
pub fn command_line(words: Vec<OsString>) -> ParseResult {
    submit(words, b"")
}

/// Checks a value of `-l`.
pub fn resource_list(text: &[u8]) -> ParseResult {
    submit(option("-l", text), b"")
}

/// Checks a select specification, and a place specification after a newline.
pub fn chunks(text: &[u8]) -> ParseResult {
    let mut parts = text.splitn(2, |&b| b == b'\n');
    let mut words = option(
        "-l",
        &[b"select=", parts.next().unwrap_or_default()].concat(),
    );
    if let Some(place) = parts.next() {
        words.extend(option("-l", &[b"place=", place].concat()));
    }
    submit(words, b"")
}

/// Checks a value of `-W depend=`.
pub fn dependency(text: &[u8]) -> ParseResult {
    if let Ok(text) = std::str::from_utf8(text) {
        for server in [None, Some(SERVER)] {
            ParsedDependency::parse(text, server)
                .iter()
                .for_each(check_dependency_display);
        }
    }
    submit(option("-W", &[b"depend=", text].concat()), b"")
}

/// Checks a value of `-a`: accepted exactly if its digits form a valid date.
pub fn date(text: &[u8]) -> ParseResult {
    let result = submit(option("-a", text), b"");
    let (text, begin) = (
        String::from_utf8_lossy(text),
        date::begin(&String::from_utf8_lossy(text), NOW),
    );
    assert_eq!(begin.is_some(), result == ParseResult::Parsed, "{text:?}");
    if let Some(expected) = is_valid_date(&text) {
        assert_eq!(begin.is_some(), expected, "{text:?} is parsed as {begin:?}");
    }
    result
}

/// True if a text has the form `[[[[CC]YY]MM]DD]hhmm[.SS]` and each part is in range. None near the
/// start of 1970: earlier dates are refused, and the boundary depends on the time zone.
fn is_valid_date(text: &str) -> Option<bool> {
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    let all_digits = digits
        .bytes()
        .chain(seconds.bytes())
        .all(|b| b.is_ascii_digit());
    if !all_digits || seconds.len() != 2 || ![4, 6, 8, 10, 12].contains(&digits.len()) {
        return Some(false);
    }
    let pairs: Vec<u32> = (0..digits.len() / 2)
        .rev()
        .map(|at| digits[2 * at..2 * at + 2].parse().unwrap())
        .collect();
    let within = |at: usize, least: u32, most: u32| {
        pairs
            .get(at)
            .is_none_or(|part| (least..=most).contains(part))
    };
    let year = match pairs.get(4..).unwrap_or_default() {
        [year, century] => 100 * century + year,
        [year] if *year > 68 => 1900 + year,
        _ => 2000,
    };
    let in_bounds = within(0, 0, 59)
        && within(1, 0, 23)
        && within(2, 1, 31)
        && within(3, 1, 12)
        && seconds < "60";
    if [1969, 1970].contains(&year) {
        (!in_bounds).then_some(false)
    } else {
        Some(in_bounds && year > 1970)
    }
}

fn option(letter: &str, value: &[u8]) -> Vec<OsString> {
    vec![letter.into(), OsString::from_vec(value.to_vec())]
}

/// Submission context of all command lines in these tests.
pub fn here() -> SubmitEnvironment {
    let var = |name: &str, value: &str| (name.into(), value.into());
    SubmitEnvironment {
        workdir: "/nosuch/w".into(),
        host: SERVER.into(),
        system: "Linux".into(),
        now: NOW,
        host_exists: |name| name == "far",
        vars: vec![var("HOME", "/home/alice"), var("A", "1")],
    }
}

fn submit(words: Vec<OsString>, script: &[u8]) -> ParseResult {
    let submitted = qsub::submission_of(words, script, &here()).map(|submission| {
        let draft = drafted(&submission.settings, origin(&submission));
        draft
            .map(|draft| (draft, submission))
            .map_err(Failure::from)
    });
    match submitted.and_then(|result| result) {
        Ok((draft, submission)) => {
            check_resubmission(&draft, &submission);
            ParseResult::Parsed
        }
        Err(failure) => {
            assert!(is_of_the_contract(&failure), "{failure:?}");
            ParseResult::Refused
        }
    }
}

fn origin(submission: &NewJob) -> SubmitContext {
    let words = match &submission.payload {
        Payload::Command(words) => Some(words.clone()),
        Payload::Script(_) => None,
    };
    SubmitContext {
        program: words.map_or(JobProgram::Script(Digest([0; 32])), JobProgram::Command),
        environ: Digest([0; 32]),
        workdir: submission.workdir.clone(),
        submit_host: submission.submit_host.clone(),
        arguments: submission.arguments.clone(),
    }
}

/// Defined resources: those of PBS and some site-defined ones.
fn resources_known() -> Resources {
    let mut resources = Resources::builtin();
    for (name, kind, host_level) in [
        ("color", ResourceType::String, true),
        ("bigmem", ResourceType::Boolean, true),
        ("scratch", ResourceType::Size, true),
        ("licenses", ResourceType::Long, false),
        ("weight", ResourceType::Float, false),
    ] {
        let definition = Definition {
            kind,
            host_level,
            consumable: false,
            requestable: true,
        };
        resources.define(name, definition);
    }
    resources
}

fn drafted(
    settings: &[AttributeSetting],
    origin: SubmitContext,
) -> Result<Draft, lanai::model::refusal::Refusal> {
    let context = Context {
        resources: &resources_known(),
        rights: Rights::default(),
        owner: "alice",
        server: SERVER,
        default_queue: Some("workq"),
        policy: &Policy::default(),
        is_member: &|group| group == "staff",
    };
    attribute::submit(settings, origin, &context)
}

/// Converts a valid submission as the server does.
pub fn draft(submission: &NewJob) -> Draft {
    drafted(&submission.settings, origin(submission))
        .unwrap_or_else(|refusal| panic!("{refusal}: {submission:?}"))
}

/// Makes a job record, number 7 of alice, from a draft.
pub fn record(draft: &Draft) -> JobRecord {
    let elements = draft.spec.elements().map(Arc::new);
    let job = Job {
        id: if elements.is_some() {
            JobId::array(7)
        } else {
            JobId::job(7)
        },
        owner: Owner {
            user: "alice".into(),
            uid: 1000,
            gid: 1000,
        },
        spec: Arc::new(draft.spec.clone()),
        life: Life::new(draft.holds, draft.run_count, Time(1000 * NOW.0)),
        elements,
    };
    JobRecord {
        job,
        reason: None,
        never_since: None,
        promise: None,
        waiting_again: 0,
        environ: None,
        links: vec![],
        score: None,
    }
}

/// Facts about the server that the job's display needs.
pub fn server() -> ServerFacts {
    ServerFacts {
        name: SERVER.into(),
        host: SERVER.into(),
        version: "1".into(),
        default_queue: Some("workq".into()),
        comment: None,
        default_qsub_arguments: String::new(),
        query_other_jobs: true,
        clock: ClockTable::default(),
        now: Time(1000 * NOW.0),
        resources: resources_known(),
        managers: vec![],
        operators: vec![],
        privileged: false,
        history: true,
        scheduling: true,
        fair_shares: vec![],
        has_scores: false,
    }
}

/// The job's attributes as `qstat -f -F json` prints them.
pub fn as_json(record: &JobRecord, server: &ServerFacts) -> Map<String, Value> {
    let mut document = Document::begin(&Preamble {
        timestamp: NOW,
        version: "1",
        server: SERVER,
    });
    document.add_object("Jobs", "7.head", &attributes::of_job(record, server));
    let document: Value = serde_json::from_slice(&document.end()).expect("the document is JSON");
    document["Jobs"]["7.head"]
        .as_object()
        .expect("a job is an object")
        .clone()
}

/// Asserts that resubmitting a job from its displayed attributes gives the same job.
fn check_resubmission(draft: &Draft, submission: &NewJob) {
    let depend = draft.depend.clone();
    check_dependency_display(&depend);
    let shown = as_json(&record(draft), &server());
    if is_ambiguous(draft, &shown) {
        return;
    }
    let settings = as_settings(draft, &shown);
    let again = drafted(&settings, origin(submission));
    let again = again.unwrap_or_else(|refusal| panic!("{refusal}: {settings:?}"));
    same_request(&draft.spec.request, &again.spec.request);
    let mut spec = again.spec;
    // These are displayed separately, joined by spaces, or not at all.
    spec.request = draft.spec.request.clone();
    spec.job_arguments = draft.spec.job_arguments.clone();
    spec.interactive = draft.spec.interactive;
    if spec.retry == 0 {
        spec.retry_delay = draft.spec.retry_delay;
    }
    assert_eq!(spec, draft.spec, "{settings:?}");
    assert_eq!(again.holds, draft.holds);
}

fn check_dependency_display(depend: &ParsedDependency) {
    let shown = dependency::shown(depend.on, &depend.edges, &depend.labels, SERVER);
    let again = shown
        .as_deref()
        .map_or(Ok(ParsedDependency::default()), |shown| {
            ParsedDependency::parse(shown, Some(SERVER))
        });
    let mut again = again.unwrap_or_else(|fault| panic!("{shown:?}: {fault:?}"));
    // The display groups edges of the same type.
    let mut edges = depend.edges.clone();
    edges.sort();
    again.edges.sort();
    assert_eq!((depend.on, edges), (again.on, again.edges), "{shown:?}");
}

/// True if the displayed select cannot be parsed back. PBS stores and displays quoted values
/// without quotes, so a space, colon or plus in a value looks like a separator.
fn is_ambiguous(draft: &Draft, shown: &Map<String, Value>) -> bool {
    let select = shown["Resource_List"]["select"]
        .as_str()
        .unwrap_or_default();
    let values = draft
        .spec
        .request
        .select
        .chunks
        .iter()
        .flat_map(|chunk| &chunk.resources);
    let separators = |c: char| c.is_whitespace() || "+:\"'".contains(c);
    let has_separator = values.clone().any(|(_, value)| {
        value.kind() == ResourceType::String && value.to_string().contains(separators)
    });
    has_separator || select.is_empty()
}

/// Converts displayed attributes to settings, as a client that resubmits a job does.
fn as_settings(draft: &Draft, shown: &Map<String, Value>) -> Vec<AttributeSetting> {
    let mut settings = vec![AttributeSetting::new("queue", draft.spec.queue.as_str())];
    for (name, value) in shown {
        match value {
            Value::Object(list) if name == "Resource_List" => settings.extend(list_settings(list)),
            Value::String(text) => settings.extend(as_setting(name, text, &draft.spec)),
            Value::Number(number) => {
                settings.extend(as_setting(name, &number_text(number), &draft.spec))
            }
            _ => {}
        }
    }
    settings.extend(byte_settings(&draft.spec));
    settings
}

fn number_text(number: &serde_json::Number) -> String {
    number.as_i64().map_or_else(
        || number.as_f64().unwrap_or(f64::NAN).to_string(),
        |whole| whole.to_string(),
    )
}

/// Settings for job-wide resources. Host-level resources are in `select`; the list only shows their
/// totals.
fn list_settings(list: &Map<String, Value>) -> Vec<AttributeSetting> {
    let known = resources_known();
    let is_of_job = |name: &str| {
        !known
            .get(name)
            .is_none_or(|definition| definition.host_level)
    };
    let job_wide = list
        .iter()
        .filter(|(name, _)| is_of_job(name) && !["nodect", "nodes"].contains(&name.as_str()));
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), String::from)
    };
    job_wide
        .map(|(name, value)| AttributeSetting::resource(name, text(value)))
        .collect()
}

/// Attributes with byte values. JSON cannot represent bytes that are not valid text.
const BYTES: [&str; 4] = [
    "Output_Path",
    "Error_Path",
    "Shell_Path_List",
    "init_work_dir",
];

fn byte_settings(spec: &Spec) -> Vec<AttributeSetting> {
    let values = [&spec.output, &spec.error, &spec.shell, &spec.init_workdir];
    let set = BYTES
        .iter()
        .zip(values)
        .filter_map(|(name, value)| Some((name, value.clone()?)));
    set.map(|(name, value)| AttributeSetting::new(name, value))
        .collect()
}

fn as_setting(name: &str, text: &str, spec: &Spec) -> Option<AttributeSetting> {
    let is_settable = attribute::may_set(name, false).is_ok() && !BYTES.contains(&name);
    match (name, text) {
        _ if !is_settable => None,
        // PBS displays defaults for these, but does not accept them.
        ("Checkpoint" | "Keep_Files" | "Mail_Points", _) if !spec.other.contains_key(name) => None,
        ("Hold_Types", "n") => None,
        ("project", DEFAULT_PROJECT) => None,
        ("Execution_Time", text) => Some(AttributeSetting::new(name, date_text(text))),
        ("interactive" | "job_arguments", _) => None,
        ("resv", _) => spec
            .reservation
            .as_deref()
            .map(|id| AttributeSetting::new(name, id)),
        _ => Some(AttributeSetting::new(name, text)),
    }
}

/// Converts `Fri Nov 11 17:57:05 2016` to seconds since the Unix epoch. A time outside the calendar
/// range is already displayed in seconds and returned unchanged.
fn date_text(text: &str) -> String {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, clock, year] = parts[..] else {
        return text.to_string();
    };
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = 1 + months
        .iter()
        .position(|known| *known == month)
        .expect("a month name");
    let (clock, second) = clock.rsplit_once(':').expect("a time with seconds");
    let digits = format!(
        "{year:0>4}{month:02}{day:0>2}{}.{second}",
        clock.replace(':', "")
    );
    date::begin(&digits, Wall(0)).unwrap_or_else(|| panic!("{text} is not a date: {digits}"))
}

/// Asserts that two requests are equal. Ignores host-level values in the list that the select
/// replaces: those that are not consumable, and all of them beside `nodes`.
fn same_request(first: &Request, second: &Request) {
    let (known, by_nodes) = (resources_known(), first.list.contains_key("nodes"));
    let is_of_select = |name: &str| {
        known
            .get(name)
            .is_some_and(|definition| definition.host_level)
    };
    let is_total = |name: &str| {
        known
            .get(name)
            .is_some_and(|definition| definition.consumable)
            && !by_nodes
    };
    let list = |request: &Request| {
        let names = request.list.iter().filter(|(name, _)| *name != "nodes");
        let shown = names.filter(|(name, _)| !is_of_select(name) || is_total(name));
        shown
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(list(first), list(second));
    assert_eq!(
        (&first.select, &first.place),
        (&second.select, &second.place)
    );
}

/// Exit status and message prefix of every refusal in the contract.
const REFUSALS: &[(u8, &str)] = &[
    (1, "cannot send environment with the job"),
    (1, "script contains cr, lf"),
    (1, "unmatched "),
    (1, "directive error: "),
    (1, "mail option 'j' can not be used without array job"),
    (1, "X11 Forwarding possible only for interactive jobs"),
    (
        1,
        "\tstandard input and output must be a terminal for\n\tinteractive job submission",
    ),
    (2, "Job name is too long "),
    (2, "illegally formed destination: "),
    (2, "-X is not supported by this version"),
    (3, "Array job exceeds server or queue size limit"),
    (4, "Resource invalid in \"select\" specification: "),
    (
        5,
        "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is: ",
    ),
    (6, "Cannot be used with select or place: nodes"),
    (7, "Cannot have \"place\" without \"select\""),
    (
        12,
        "duplicated resource within a section of a select specification, resource is: ",
    ),
    (58, "Cannot have \"max_walltime\" without \"min_walltime\""),
    (
        59,
        "\"min_walltime\" can not be greater than \"max_walltime\"",
    ),
    (
        61,
        "\"min_walltime\" and \"max_walltime\" are not valid resources for a job array",
    ),
    (127, "Attribute has to be set on an array job"),
    (153, "Unknown Job Id "),
    (154, "Undefined attribute "),
    (
        155,
        "Cannot set attribute, read only or insufficient permission  ",
    ),
    (159, "Unauthorized Request "),
    (160, "Access from host not allowed, or unknown host"),
    (166, "Illegal attribute or resource value"),
    (175, "Bad UID for job execution"),
    (187, "Unknown resource Resource_List."),
    (187, "Unknown resource: "),
    (241, "node(s) specification error"),
];

/// Messages that are followed by the usage text.
const WITH_USAGE: &[&str] = &[
    "illegal -",
    "invalid option -- '",
    "option requires an argument -- '",
    "multiple max_run_subjobs values found",
    "interactive and array job submission cannot be used together",
    "-b y needs a command",
    "DISPLAY not set",
];

fn is_of_the_contract(failure: &Failure) -> bool {
    let Failure {
        text, usage, code, ..
    } = failure;
    if let Some((why, directive)) = text.split_once("\nqsub: directive error: ") {
        let known = WITH_USAGE
            .iter()
            .any(|known| why.trim_start().starts_with(known));
        return *code == 1 && !usage && known && directive.ends_with(' ');
    }
    if *usage {
        *code == 2 && (text.is_empty() || WITH_USAGE.iter().any(|known| text.starts_with(known)))
    } else {
        REFUSALS
            .iter()
            .any(|(status, known)| status == code && text.starts_with(known))
    }
}

/// Splitting a `-l` list by PBS's rules returns exactly the names and values it was built from.
pub fn list_is_split(pairs: &[(String, String)]) {
    let quoted = |value: &str| {
        if value.contains('"') {
            format!("'{value}'")
        } else {
            format!("\"{value}\"")
        }
    };
    let text: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", quoted(value)))
        .collect();
    assert_eq!(
        resources::split(&text.join(",")).as_deref(),
        Some(pairs),
        "{text:?}"
    );
}
