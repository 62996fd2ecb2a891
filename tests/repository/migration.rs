//! Checks `lanai-migration(7)`: every name of the five systems in `tests/repository/migration` has
//! a row, everything of Lanai that the page names exists, and the lists contain every name in the
//! documents that the presets follow.
//!
//! In the tables of the page the first column has a name of another system; names of Lanai are
//! bold, manual pages italic.

use crate::support::root;
use lanai::cli::programs::PROGRAMS;
use lanai::config::Config;
use lanai::config::overrides::QmgrObject;
use lanai::config::overrides::attributes::known;
use lanai::config::sections::{Listed, listed};
use lanai::model::attribute::may_set;
use lanai::model::job::state::JobState;
use lanai::model::job_id::JobId;
use lanai::model::policy::quality::Qualities;
use lanai::model::policy::{Preset, formula};
use lanai::model::reason::{CODES, CycleStage};
use lanai::model::refusal::Refusal;
use lanai::model::report::fair_share_status::FairShareStatus;
use lanai::model::trigger::{AwaitedMoment, JobChange, Trigger};
use std::collections::BTreeSet;

/// A system: heading of its section, its names, one per line, and its document in
/// `../shared/seeds`.
struct System {
    heading: &'static str,
    names: &'static str,
    document: &'static str,
}

const SYSTEMS: [System; 5] = [
    System {
        heading: "QUBE!",
        names: include_str!("migration/qube.txt"),
        document: "000_",
    },
    System {
        heading: "MAUI",
        names: include_str!("migration/maui.txt"),
        document: "001_",
    },
    System {
        heading: "PBS PRO AT IT4I",
        names: include_str!("migration/it4i.txt"),
        document: "002_",
    },
    System {
        heading: "YTSAURUS",
        names: include_str!("migration/ytsaurus.txt"),
        document: "003_",
    },
    System {
        heading: "FLUX",
        names: include_str!("migration/flux.txt"),
        document: "004_",
    },
];

impl System {
    fn names(&self) -> Vec<&'static str> {
        self.names.lines().filter(|line| !line.is_empty()).collect()
    }

    /// Section of the page about this system.
    fn section(&self, page: &str) -> String {
        let heading = format!("\n.SH \"{}\"\n", self.heading);
        let plain = format!("\n.SH {}\n", self.heading);
        let rest = page
            .split_once(&heading)
            .or_else(|| page.split_once(&plain));
        let (_, rest) = rest.unwrap_or_else(|| panic!("the page has no section {}", self.heading));
        rest.split("\n.SH ").next().unwrap_or(rest).to_string()
    }
}

fn page() -> String {
    std::fs::read_to_string(root().join("man/lanai-migration.7")).unwrap()
}

#[test]
fn every_name_of_another_system_has_a_row() {
    let page = page();
    for system in &SYSTEMS {
        let rows = first_column(&system.section(&page));
        let names = system.names();
        let missing: Vec<_> = names.iter().filter(|name| !rows.contains(**name)).collect();
        assert!(
            missing.is_empty(),
            "{}: man/lanai-migration.7 has no row for {missing:?}",
            system.heading
        );
        assert_eq!(
            names.iter().collect::<BTreeSet<_>>().len(),
            names.len(),
            "{}: a name is listed twice",
            system.heading
        );
        assert!(
            names.len() >= 20,
            "{}: only {} names",
            system.heading,
            names.len()
        );
    }
}

#[test]
fn every_name_of_lanai_on_the_page_exists() {
    let page = page();
    let names: BTreeSet<String> = spans(&page, "\\fB").into_iter().collect();
    let wrong: Vec<String> = names.iter().filter_map(|name| check(name).err()).collect();
    assert!(
        wrong.is_empty(),
        "man/lanai-migration.7 has names that do not exist:\n{}",
        wrong.join("\n")
    );
    assert!(
        names.len() >= 150,
        "man/lanai-migration.7 has only {} names in bold type",
        names.len()
    );
    for presets in ["qube", "maui", "it4i", "ytsaurus", "flux"] {
        assert!(
            names.contains(&format!("preset = \"{presets}\"")),
            "man/lanai-migration.7 does not name preset {presets}"
        );
    }
}

#[test]
fn every_referenced_page_exists() {
    let page = page();
    let pages: BTreeSet<String> = page.split("\\fI").skip(1).filter_map(reference).collect();
    let missing: Vec<_> = pages
        .iter()
        .filter(|file| !root().join("man").join(file).exists())
        .collect();
    assert!(
        missing.is_empty(),
        "man lacks these referenced pages: {missing:?}"
    );
    assert!(pages.contains("lanai.toml.5"), "{pages:?}");
}

#[test]
fn other_pages_refer_to_the_migration_page() {
    for file in ["lanai.7", "lanai.toml.5", "lanai-scheduling.7"] {
        let page = std::fs::read_to_string(root().join("man").join(file)).unwrap();
        let see_also = page.split(".SH SEE ALSO\n").nth(1).unwrap();
        assert!(
            see_also.contains("\\fIlanai\\-migration\\fR(7)"),
            "SEE ALSO of man/{file} lacks lanai-migration(7)"
        );
    }
}

#[test]
fn every_preset_is_described() {
    let manual = std::fs::read_to_string(root().join("man/lanai.7")).unwrap();
    let manual = manual
        .split("\n.SH PRESETS\n")
        .nth(1)
        .and_then(|rest| rest.split("\n.SH ").next())
        .unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for (name, _) in Preset::ALL {
        assert!(
            manual.contains(&format!("\n.TP\n.B {name}\n")),
            "PRESETS of man/lanai.7 lacks {name}"
        );
        assert!(
            readme.contains(&format!("\n| `{name}` | ")),
            "the table of presets in README.md lacks {name}"
        );
    }
}

/// Checks names that differ from ordinary words: with an underscore, all in capitals, or with inner
/// capitals.
#[test]
fn the_lists_contain_every_name_in_the_documents() {
    let folder = root().join("../shared/seeds");
    let Ok(files) = std::fs::read_dir(&folder) else {
        return println!("skipped: no documents in {}", folder.display());
    };
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    for system in &SYSTEMS {
        let is_document = |path: &&std::path::PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(system.document))
        };
        let file = files
            .iter()
            .find(is_document)
            .unwrap_or_else(|| panic!("no file {}* in ../shared/seeds", system.document));
        let known: BTreeSet<String> = system.names().iter().flat_map(|name| words(name)).collect();
        let text = std::fs::read_to_string(file).unwrap();
        let names: BTreeSet<String> = words(&text)
            .into_iter()
            .filter(|word| is_name(word))
            .collect();
        let missing: Vec<_> = names.iter().filter(|word| !known.contains(*word)).collect();
        assert!(
            missing.is_empty(),
            "tests/repository/migration lacks {missing:?}, which {} names",
            file.display()
        );
        assert!(!names.is_empty(), "no names in {}", file.display());
    }
}

/// Words that only look like names, and names merged in the documents, with replacements.
const NOT_NAMES: [(&str, &str); 9] = [
    ("MAX", ""),
    (
        "exceedpreemption_satisfaction_threshold",
        "preemption_satisfaction_threshold",
    ),
    ("HPC", ""),
    ("SLAs", ""),
    ("jobID", "ID"),
    ("cumulativeusage_shareexceeds", "usage_share"),
    ("thefair_share", "fair_share"),
    ("usageProject", "usage_Project"),
    ("usageTotal", "usage_Total"),
];

/// Words of a text, without formula markup.
fn words(text: &str) -> Vec<String> {
    let text = ["\\frac", "}{"]
        .iter()
        .fold(text.to_string(), |text, mark| text.replace(mark, " "));
    let text: String = text.chars().filter(|c| !"\\{}".contains(*c)).collect();
    let words = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    let meant = |word: &str| {
        NOT_NAMES
            .iter()
            .find(|(known, _)| *known == word)
            .map_or(word.to_string(), |x| x.1.into())
    };
    words.map(meant).filter(|word| !word.is_empty()).collect()
}

fn is_name(word: &str) -> bool {
    let capitals = word.chars().filter(|c| c.is_ascii_uppercase()).count();
    let inner = word.chars().skip(1).any(|c| c.is_ascii_uppercase());
    let letters = word.chars().all(|c| c.is_ascii_alphabetic());
    word.contains('_') || (letters && inner && (capitals > 2 || word.len() > capitals))
}

/// Entries in the first column of all tables: `name|...`, or on a line of their own above `|...`.
fn first_column(section: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for table in section.split("\n.TS\n").skip(1) {
        let (mut in_format, mut in_block) = (true, false);
        for line in table.lines().take_while(|line| *line != ".TE") {
            match line {
                ".T&" => in_format = true,
                _ if in_format => in_format = !line.ends_with('.'),
                _ if line.starts_with("T}") => in_block = line.ends_with("T{"),
                _ if in_block => {}
                _ => {
                    in_block = line.ends_with("T{");
                    names.extend(
                        line.split('|')
                            .next()
                            .map(plain)
                            .filter(|name| !name.is_empty()),
                    );
                }
            }
        }
    }
    names
}

/// All texts in a font.
fn spans(page: &str, font: &str) -> Vec<String> {
    page.split(font)
        .skip(1)
        .filter_map(|rest| rest.split_once("\\fR"))
        .map(|(text, _)| plain(text))
        .collect()
}

/// File name of a manual page from `lanai\-scheduling\fR(7)...`.
fn reference(rest: &str) -> Option<String> {
    let (name, rest) = rest.split_once("\\fR(")?;
    Some(format!("{}.{}", plain(name), rest.split_once(')')?.0))
}

/// Text without troff escapes.
fn plain(text: &str) -> String {
    let escapes = [
        ("\\-", "-"),
        ("\\(dq", "\""),
        ("\\(aq", "'"),
        ("\\:", ""),
        ("\\&", ""),
        ("\\e", "\\"),
    ];
    escapes
        .iter()
        .fold(text.to_string(), |text, (escape, meant)| {
            text.replace(escape, meant)
        })
}

/// Checks that Lanai has what a bold text names; the error describes what is missing.
fn check(name: &str) -> Result<(), String> {
    let first = name.split(' ').next().unwrap_or_default();
    if name.starts_with('[') {
        return check_key(name);
    }
    if name.starts_with("preset = ") {
        return Config::parse(name)
            .map(|_| ())
            .map_err(|error| error.to_string());
    }
    if let Some(words) = name.strip_prefix("set ") {
        return check_qmgr(words);
    }
    if PROGRAMS.iter().any(|program| program.name == first) {
        return check_command(name);
    }
    let is_known =
        states().contains(name) || is_trigger(name) || is_reason(name) || is_attribute(name);
    let is_stage = CycleStage::ALL.iter().any(|stage| stage.name() == name);
    let is_status = FairShareStatus::ALL
        .iter()
        .any(|(status, _)| *status == name);
    let is_quality = Qualities::default().factors().contains_key(name);
    let is_used = is_known || is_stage || is_status || is_quality || formula::NAMES.contains(&name);
    if is_used {
        Ok(())
    } else {
        Err(format!("`{name}`"))
    }
}

/// Values that require another key.
const NEEDS: [(&str, &str); 2] = [
    ("by = \"formula\"", "formula = \"1\""),
    ("user_priority = \"clamp\"", "highest_user_priority = 1"),
];

/// Checks `[section] key`, `[[section]] key = value` or `[section]`.
fn check_key(name: &str) -> Result<(), String> {
    let (section, rest) = name
        .split_once("] ")
        .map_or((name, ""), |(head, rest)| (&name[..head.len() + 1], rest));
    let bare = section.trim_matches(['[', ']']);
    let manual = std::fs::read_to_string(root().join("man/lanai.toml.5")).unwrap();
    let is_heading = |line: &str| {
        line == format!(".SH \"SECTION {section}\"")
            || line == format!(".SH \"SECTIONS {section}\"")
    };
    if !manual.lines().any(is_heading) {
        return Err(format!("`{name}`: no such section"));
    }
    let section_listed = listed().into_iter().find(|known| known.name == bare);
    let keys = section_listed
        .as_ref()
        .map(Listed::names)
        .unwrap_or_default();
    let key = rest.split(' ').next().unwrap_or_default();
    if !key.is_empty() && !keys.contains(&key) {
        return Err(format!("`{name}`: no such key"));
    }
    if !rest.contains('=') {
        return Ok(());
    }
    let name_key = if section.starts_with("[[") && key != "name" {
        "name = \"x\""
    } else {
        ""
    };
    let needs = NEEDS
        .iter()
        .find(|(value, _)| *value == rest)
        .map_or(name_key, |(_, needs)| needs);
    let config = Config::parse(&format!("{section}\n{needs}\n{rest}\n"));
    config
        .map(|_| ())
        .map_err(|error| format!("`{name}`: {error}"))
}

/// Checks an object and attribute of `qmgr`'s `set`, such as `server scheduling`.
fn check_qmgr(words: &str) -> Result<(), String> {
    let (object, attribute) = words.split_once(' ').unwrap_or((words, ""));
    let target = match object {
        "server" => QmgrObject::Server,
        "sched" => QmgrObject::Sched,
        "queue" => QmgrObject::Queue("x".to_string()),
        _ => return Err(format!("`set {words}`: no such object")),
    };
    known(&target, attribute)
        .map(|_| ())
        .ok_or_else(|| format!("`set {words}`: no such attribute"))
}

/// Checks a command with options, such as `qsub -W qos=`, `qstat --why`, `qsim check`.
fn check_command(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let program = PROGRAMS
        .iter()
        .find(|program| program.name == name)
        .ok_or(format!("`{line}`: no such command"))?;
    let command = (program.command)();
    let has = |option: &str| {
        command
            .get_arguments()
            .any(|argument| match option.strip_prefix("--") {
                Some(long) => argument.get_long() == Some(long),
                None => argument
                    .get_short()
                    .is_some_and(|short| option == format!("-{short}")),
            })
    };
    while let Some(word) = words.next() {
        let exists = if word.starts_with('-') {
            has(word)
        } else {
            command.find_subcommand(word).is_some()
        };
        if !exists {
            return Err(format!("`{line}`: `{word}` is no option of {name}"));
        }
        let attribute = if word == "-W" { words.next() } else { None };
        if let Some(attribute) = attribute {
            let attribute = attribute.strip_suffix('=').unwrap_or(attribute);
            may_set(attribute, true).map_err(|refusal| format!("`{line}`: {refusal}"))?;
        }
    }
    Ok(())
}

fn states() -> BTreeSet<String> {
    JobState::ALL
        .iter()
        .map(|state| state.letter().to_string())
        .collect()
}

/// True for a trigger such as `submit:JOB` or `poll`; capitals stand for a name.
fn is_trigger(name: &str) -> bool {
    let jobs = [
        JobChange::Submit,
        JobChange::Release,
        JobChange::Retry,
        JobChange::Unblock,
        JobChange::Alter,
        JobChange::Shove,
        JobChange::Launch,
    ];
    let text = |what: &str| what.to_string();
    let others = [
        Trigger::SlotFree(text("HOST")),
        Trigger::ResourceFree(text("NAME")),
        Trigger::Resource(text("NAME")),
        Trigger::Node(text("NAME")),
        Trigger::Reservation(text("NAME")),
        Trigger::Timer(AwaitedMoment::Plan),
        Trigger::Timer(AwaitedMoment::Calendar),
        Trigger::Config,
        Trigger::Poll,
    ];
    let of_job = |turn: JobChange| {
        Trigger::Job(turn, JobId::job(1))
            .to_string()
            .replace(":1", ":JOB")
    };
    jobs.map(of_job).contains(&text(name))
        || others.iter().any(|trigger| trigger.to_string() == name)
}

fn is_reason(name: &str) -> bool {
    CODES.iter().any(|code| code.name == name) || name == "amount.RESOURCE"
}

/// True if jobs have this attribute, settable or read-only.
fn is_attribute(name: &str) -> bool {
    match name.strip_prefix("Resource_List.") {
        Some(resource) => formula::NAMES.contains(&resource),
        None => may_set(name, true)
            .err()
            .is_none_or(|refusal| refusal.code == Refusal::read_only(name).code),
    }
}
