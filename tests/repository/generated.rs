//! Generated files in the repository are up to date: manual pages and completions. `BLESS=1 cargo
//! test --test all generated` (or `make man completions`) regenerates them.

mod completion;

mod man;

mod reference;

use crate::support::{files, root};
use lanai::cli::lanai::families;
use lanai::cli::lanai::openmetrics::MetricType;
use lanai::cli::programs::PROGRAMS;
use lanai::config::overrides::QmgrOverrides;
use lanai::config::sections::{Listed, listed};
use lanai::config::settings::effective;
use lanai::config::{Config, LaunchConfig, ServerConfig};
use lanai::model::policy::Preset;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Instruction at the end of every message.
const REMEDY: &str = "run `make man completions` and commit the result";

/// Compares the files in `folder` with the expected ones, or writes them if `BLESS` is set. Ignores
/// files for which `is_generated` is false.
fn check_or_write(
    folder: &Path,
    expected: &BTreeMap<PathBuf, Vec<u8>>,
    is_generated: impl Fn(&Path) -> bool,
) {
    let present: Vec<PathBuf> = files(folder)
        .into_iter()
        .filter(|path| is_generated(path))
        .collect();
    let superfluous: Vec<_> = present
        .iter()
        .filter(|path| !expected.contains_key(*path))
        .collect();
    let differing: Vec<_> = expected
        .iter()
        .filter(|(path, text)| std::fs::read(path).ok().as_ref() != Some(text))
        .collect();
    if std::env::var_os("BLESS").is_some() {
        superfluous
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
        differing.iter().for_each(|(path, text)| write(path, text));
        return;
    }
    assert!(
        superfluous.is_empty(),
        "{superfluous:?} are no longer generated: {REMEDY}"
    );
    let names: Vec<_> = differing.iter().map(|(path, _)| path).collect();
    assert!(names.is_empty(), "{names:?} are not up to date: {REMEDY}");
}

fn write(path: &Path, text: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Manual pages that are not generated.
const BY_HAND: [&str; 6] = [
    "lanai.7",
    "lanai-metrics.7",
    "lanai-migration.7",
    "lanai-pbs-differences.7",
    "lanai-scheduling.7",
    "lanai.toml.5",
];

#[test]
fn manual_pages_are_current() {
    let folder = root().join("man");
    let pages = PROGRAMS.iter().map(|program| {
        (
            folder.join(man::file_name(program)),
            man::page(program).unwrap(),
        )
    });
    check_or_write(&folder, &pages.collect(), |path| {
        path.parent() == Some(&folder) && !BY_HAND.iter().any(|name| path.ends_with(name))
    });
}

#[test]
fn manual_pages_list_all_keys_and_reasons() {
    let folder = root().join("man");
    let lists = [
        ("lanai.toml.5", "keys", reference::keys()),
        ("lanai-scheduling.7", "reasons", reference::reasons()),
    ];
    let pages = lists.map(|(name, list, content)| {
        let path = folder.join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        let page = reference::with_list(&page, list, &content);
        (path, page.into_bytes())
    });
    let names = pages.clone().map(|(path, _)| path);
    check_or_write(&folder, &pages.into(), |path| names.contains(&path.into()));
}

#[test]
fn the_manual_lists_all_metrics_with_their_units() {
    let page = std::fs::read_to_string(root().join("man/lanai-metrics.7")).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".BR lanai_"))
        .collect();
    assert_eq!(listed.len(), families::ALL.len(), "{listed:?}");
    for (family, line) in families::ALL.iter().zip(listed) {
        let (suffix, kind) = match family.kind {
            MetricType::Counter => ("_total", "counter"),
            MetricType::Gauge => ("", "gauge"),
        };
        let unit = if family.unit.is_empty() {
            String::new()
        } else {
            format!(", {}", family.unit)
        };
        let start = format!("{}{suffix} \" ({kind}{unit}", family.name);
        assert!(
            format!("lanai_{line}").starts_with(&start),
            "{start}: {line}"
        );
    }
}

#[test]
fn completions_are_current() {
    let folder = root().join("completions");
    let scripts = PROGRAMS.iter().flat_map(|program| {
        let folder = &folder;
        completion::SHELLS.iter().map(move |&shell| {
            (
                folder.join(completion::file_name(program, shell)),
                completion::script(program, shell),
            )
        })
    });
    check_or_write(&folder, &scripts.collect(), |_| true);
}

#[test]
fn completions_for_bash_parse_as_bash() {
    for path in files(&root().join("completions/bash")) {
        let Ok(status) = std::process::Command::new("bash")
            .arg("-n")
            .arg(&path)
            .status()
        else {
            return;
        };
        assert!(status.success(), "{}", path.display());
    }
}

#[test]
fn the_manual_describes_every_key_of_the_configuration() {
    let page = std::fs::read_to_string(root().join("man/lanai.toml.5")).unwrap();
    let (page, _summary) = page.split_once("\n.SH \"SUMMARY OF KEYS\"\n").unwrap();
    for section in listed() {
        for key in section.names() {
            assert!(
                page.contains(&format!("\n.B {key}\n")),
                "man/lanai.toml.5 lacks `.B {key}` of {}",
                section.title()
            );
        }
    }
}

/// Covers the keys that have a value under every preset.
#[test]
fn the_manual_names_every_preset_that_changes_a_default() {
    let page = std::fs::read_to_string(root().join("man/lanai.toml.5")).unwrap();
    let settings = |preset: &str| {
        let text = format!("preset = \"{preset}\"");
        let settings = effective(
            &Config::parse(&text).unwrap(),
            "",
            &QmgrOverrides::default(),
        );
        settings
            .into_iter()
            .filter(|setting| setting.name.is_none() && setting.key != "preset")
    };
    let mut missing = Vec::new();
    for (preset, _) in Preset::ALL {
        for (own, default) in settings(preset).zip(settings(Preset::default().name())) {
            assert_eq!((own.section, &own.key), (default.section, &default.key));
            let is_other =
                own.value != default.value && own.value.is_some() && default.value.is_some();
            let section = page
                .split(&format!(".SH \"SECTION [{}]\"\n", own.section))
                .nth(1)
                .unwrap();
            let section = section.split("\n.SH ").next().unwrap();
            let (intro, entries) = section.split_once("\n.TP\n").unwrap();
            let entry = entries
                .split(".TP\n")
                .find(|entry| entry.starts_with(&format!(".B {}\n", own.key)));
            let name = format!("\\(dq{preset}\\(dq");
            if is_other
                && !entry.unwrap().contains(&name)
                && !(intro.contains(&name) && intro.contains(&*own.key))
            {
                missing.push(format!("{} under preset {preset}", own.title()));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "man/lanai.toml.5 does not give the default of {missing:#?}"
    );
}

#[test]
fn hand_written_pages_name_the_current_version() {
    for name in BY_HAND {
        let page = std::fs::read_to_string(root().join("man").join(name)).unwrap();
        let version = concat!("\"lanai ", env!("CARGO_PKG_VERSION"), "\"");
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(
            title.contains(version),
            "write {version} into the first line of man/{name}"
        );
    }
}

#[test]
fn the_example_configuration_shows_the_defaults() {
    let example = std::fs::read_to_string(root().join("etc/lanai.toml.example")).unwrap();
    assert_eq!(
        Config::parse(&example).unwrap(),
        Config::default(),
        "etc/lanai.toml.example sets a value: comment it out"
    );
    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let text: String = example
        .lines()
        .map(|line| format!("{}\n", if is_setting(line) { &line[1..] } else { line }))
        .collect();
    for key in listed().iter().flat_map(Listed::names) {
        let is_shown =
            text.contains(&format!("\n{key} = ")) || text.contains(&format!(".{key}]\n"));
        assert!(is_shown, "etc/lanai.toml.example lacks `{key}`");
    }
    let parsed = Config::parse(&text)
        .unwrap_or_else(|error| panic!("etc/lanai.toml.example uncommented: {error}"));
    let default = Config::default();
    let (scripts, checkpoint) = (
        default.launch.scripts.clone(),
        default.launch.checkpoint.clone(),
    );
    let launch = LaunchConfig {
        scripts,
        checkpoint,
        // Their defaults depend on the installation.
        login: default.launch.login,
        environment: default.launch.environment,
        ..parsed.launch
    };
    assert_eq!((launch, parsed.cycle), (default.launch, default.cycle));
    let unnamed = ServerConfig {
        name: None,
        max_array_size: None,
        operators: Vec::new(),
        managers: Vec::new(),
        mailer: None,
        mail_from: None,
        notify: None,
        log_jobs: None,
        defaults: default.server.defaults.clone(),
        chunk_defaults: default.server.chunk_defaults.clone(),
        most: default.server.most.clone(),
        ..parsed.server
    };
    assert_eq!(unnamed, default.server);
}
