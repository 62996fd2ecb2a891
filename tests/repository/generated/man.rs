//! Generates the manual pages from the definitions of the command lines.
//!
//! The sections that clap does not know (exit status, files, environment, examples) come from the
//! text files in `man/parts`. Pages contain no date, so that the same
//! source gives the same page.
//!
//! A section of those files begins with `# HEADING (page, page)`; one without pages is on every
//! page. Blank lines separate blocks. A block is a paragraph, a term with its indented description,
//! or, when all of it is indented, an example.

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use lanai::cli::programs::{CliProgram, PROGRAMS};
use std::io;

/// The prose of the pages. A page shows its sections in this order.
const PARTS: &[&str] = &[
    include_str!("../../../man/parts/lanai.txt"),
    include_str!("../../../man/parts/pbsdsh.txt"),
    include_str!("../../../man/parts/qsub.txt"),
    include_str!("../../../man/parts/qsig.txt"),
    include_str!("../../../man/parts/reservations.txt"),
    include_str!("../../../man/parts/qrun.txt"),
    include_str!("../../../man/parts/tracejob.txt"),
    include_str!("../../../man/parts/pbs_release_nodes.txt"),
    include_str!("../../../man/parts/qterm.txt"),
    include_str!("../../../man/parts/qstat.txt"),
    include_str!("../../../man/parts/qselect.txt"),
    include_str!("../../../man/parts/qacct.txt"),
    include_str!("../../../man/parts/qsim.txt"),
    include_str!("../../../man/parts/qmgr.txt"),
    include_str!("../../../man/parts/nested.txt"),
    include_str!("../../../man/parts/common.txt"),
    include_str!("../../../man/parts/daemons.txt"),
];

/// The indentation of descriptions and examples in [`PARTS`].
const INDENTATION: &str = "    ";

/// A section of [`PARTS`].
struct ManualPart {
    heading: &'static str,
    /// The pages that show the section, separated by `, `; None for all pages.
    pages: Option<&'static str>,
    text: &'static str,
}

/// The file of a program's page: `qsub.1`.
pub fn file_name(program: &CliProgram) -> String {
    format!("{}.{}", program.name, program.section)
}

/// First lines of all output of `Roff`. They define the string `Aq`, a plain apostrophe.
pub const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The page of a program, as roff.
pub fn page(program: &CliProgram) -> io::Result<Vec<u8>> {
    let man = Man::new((program.command)());
    let mut body = Vec::new();
    man.render_name_section(&mut body)?;
    synopsis(program).to_writer(&mut body)?;
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    commands(program, &mut body)?;
    part_sections(program).to_writer(&mut body)?;
    let body = String::from_utf8_lossy(&body).replace(PREAMBLE, "");
    Ok(format!("{PREAMBLE}{}\n{body}", title(program)).into_bytes())
}

/// The title line; the empty third field is the date.
fn title(program: &CliProgram) -> String {
    let name = program.name.to_uppercase();
    format!(
        ".TH {name} {} \"\" \"lanai {}\" Lanai",
        program.section,
        env!("CARGO_PKG_VERSION")
    )
}

/// The usage line of `--help`, which is shorter than a list of all options.
fn synopsis(program: &CliProgram) -> Roff {
    let usage = (program.command)().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage
        .trim_start_matches("Usage:")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        roff.text([bold(name), roman(format!(" {rest}"))])
            .control("br", []);
    }
    roff
}

/// A section for each subcommand of a program, with its description and options.
fn commands(program: &CliProgram, body: &mut Vec<u8>) -> io::Result<()> {
    let mut command = (program.command)();
    command.build();
    subcommands(&command, body)
}

/// Appends the subcommands of a command, each followed by its own subcommands.
fn subcommands(command: &clap::Command, body: &mut Vec<u8>) -> io::Result<()> {
    for command in command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        let mut text = Vec::new();
        let man = Man::new(without_common_options(command));
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
        let usage = command.clone().render_usage().to_string();
        let usage = usage.lines().next().unwrap_or_default();
        let mut heading = Roff::new();
        heading.control("SH", [usage.trim_start_matches("Usage: ").trim()]);
        heading.to_writer(body)?;
        let text = String::from_utf8_lossy(&text)
            .replace(".SH DESCRIPTION\n", "")
            .replace(".SH OPTIONS", ".SS Options");
        body.extend(text.into_bytes());
        subcommands(command, body)?;
    }
    Ok(())
}

/// A subcommand without the options that its program has too, and without `--help`.
fn without_common_options(command: &clap::Command) -> clap::Command {
    command.clone().mut_args(|arg| {
        let is_common = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(is_common)
    })
}

/// The program's sections of [`PARTS`], and SEE ALSO with all pages.
fn part_sections(program: &CliProgram) -> Roff {
    let mut roff = Roff::new();
    for section in sections().filter(|section| section.is_on(program.name)) {
        roff.control("SH", [section.heading]);
        write_blocks(&mut roff, section.text);
    }
    see_also(&mut roff, program);
    roff
}

fn sections() -> impl Iterator<Item = ManualPart> {
    PARTS
        .iter()
        .flat_map(|part| part.split("\n# "))
        .map(ManualPart::parse)
}

impl ManualPart {
    fn parse(section: &'static str) -> ManualPart {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let title = title.trim_start_matches("# ");
        let (heading, pages) = match title.strip_suffix(')').and_then(|t| t.rsplit_once(" (")) {
            Some((heading, pages)) => (heading, Some(pages)),
            None => (title, None),
        };
        ManualPart {
            heading,
            pages,
            text,
        }
    }

    fn is_on(&self, page: &str) -> bool {
        self.pages
            .is_none_or(|pages| pages.split(", ").any(|name| name == page))
    }
}

fn write_blocks(roff: &mut Roff, text: &str) {
    let blocks: Vec<&str> = text
        .split("\n\n")
        .map(|block| block.trim_matches('\n'))
        .collect();
    // A blank line does not end an example.
    let runs = blocks
        .chunk_by(|block, next| block.starts_with(INDENTATION) && next.starts_with(INDENTATION));
    for run in runs {
        write_block(roff, &run.join("\n\n"));
    }
}

fn write_block(roff: &mut Roff, block: &str) {
    if block.starts_with(INDENTATION) {
        roff.control("PP", [])
            .control("RS", ["4"])
            .control("nf", []);
        for line in block.lines() {
            roff.text([bold(line.strip_prefix(INDENTATION).unwrap_or(line))]);
        }
        roff.control("fi", []).control("RE", []);
    } else if let Some((term, description)) = block.split_once('\n')
        && description.starts_with(INDENTATION)
    {
        roff.control("TP", [])
            .text([bold(term)])
            .text([roman(on_one_line(description))]);
    } else {
        roff.control("PP", []).text([roman(on_one_line(block))]);
    }
}

fn on_one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    lines.join(" ")
}

fn see_also(roff: &mut Roff, program: &CliProgram) {
    let others = PROGRAMS.iter().filter(|other| other.name != program.name);
    let pages = others.map(|other| (other.name, other.section)).chain([
        ("lanai.toml", 5),
        ("lanai", 7),
        ("lanai-metrics", 7),
        ("lanai-pbs-differences", 7),
        ("lanai-scheduling", 7),
    ]);
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for (name, section) in pages {
        let comma = if line.is_empty() { "" } else { ", " };
        line.extend([roman(comma), italic(name), roman(format!("({section})"))]);
    }
    roff.text(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(program: &CliProgram) -> String {
        String::from_utf8(page(program).unwrap()).unwrap()
    }

    #[test]
    fn every_section_has_text_and_names_existing_pages() {
        let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        for section in sections() {
            let pages = section.pages.unwrap_or(known[0]);
            assert!(
                pages.split(", ").all(|name| known.contains(&name)),
                "section {} names a page that does not exist: {pages}",
                section.heading
            );
            assert_eq!(section.heading, section.heading.to_uppercase());
            assert!(
                !section.text.trim().is_empty(),
                "section {} is empty",
                section.heading
            );
        }
    }

    #[test]
    fn every_file_in_man_parts_is_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/man/parts");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(PARTS.contains(&&*text), "PARTS lacks {}", path.display());
        }
    }

    #[test]
    fn paragraphs_terms_and_examples_are_distinguished() {
        let mut roff = Roff::new();
        let text = "\nA paragraph\non two lines.\n\nterm, other\n    What it\n    means.\n\n\
                    \u{20}   a\n\n      b\n\nEnd.\n";
        write_blocks(&mut roff, text);
        assert_eq!(
            roff.to_roff(),
            ".PP\nA paragraph on two lines.\n\
             .TP\n\\fBterm, other\\fR\nWhat it means.\n\
             .PP\n.RS 4\n.nf\n\\fBa\\fR\n\\fB\\fR\n\\fB  b\\fR\n.fi\n.RE\n\
             .PP\nEnd.\n"
        );
    }

    #[test]
    fn every_command_page_has_an_exit_status_section() {
        for program in PROGRAMS.iter().filter(|program| program.section == 1) {
            assert!(
                text(program).contains("EXIT STATUS"),
                "no EXIT STATUS in the page of {}",
                program.name
            );
        }
    }

    #[test]
    fn a_page_has_options_then_other_sections_and_no_date() {
        let command = || {
            clap::Command::new("qsub")
                .about("Submits")
                .arg(clap::arg!(-N <NAME> "Its name"))
        };
        let page = text(&CliProgram {
            name: "qsub",
            section: 1,
            command,
            main: None,
        });
        let at = |words: &str| {
            page.find(words)
                .unwrap_or_else(|| panic!("no {words} in {page}"))
        };
        assert!(
            page.contains(concat!(
                ".TH QSUB 1 \"\" \"lanai ",
                env!("CARGO_PKG_VERSION"),
                "\" Lanai"
            )),
            "{page}"
        );
        assert!(at("\\fBqsub\\fR [OPTIONS]") < at(".SH OPTIONS"), "{page}");
        assert!(
            at(".SH OPTIONS") < at(".SH DIRECTIVES")
                && at(".SH DIRECTIVES") < at(".SH \"EXIT STATUS\"")
        );
        assert!(at("\\-W block=true") < at(".SH \"SEE ALSO\""));
    }
}
