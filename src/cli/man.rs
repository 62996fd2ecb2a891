//! Manual pages, written from the same definitions that read the command line.
//!
//! What clap does not know (exit status, files, environment, examples) comes from the table
//! [`EXTRAS`]. Pages hold no date: the same source gives the same page.

mod accounts;

mod amending;

mod arrays;

mod dialects;

mod extras;

mod nested;

mod output;

mod queue;

mod release;

mod reservations;

mod scenarios;

mod suspending;

mod tasks;

mod tracejob;

use super::programs::{PROGRAMS, Program};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use extras::On::{All, Programs};
use extras::Part::{Example, Term, Text};
use extras::{EXTRAS, Extra, Part};
use std::io;

/// The file of a program's page: `qsub.1`.
pub fn file_name(program: &Program) -> String {
    format!("{}.{}", program.name, program.section)
}

/// What every piece of roff begins with: an apostrophe that stays one.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The page of a program, as roff.
pub fn page(program: &Program) -> io::Result<Vec<u8>> {
    let man = Man::new((program.command)());
    let mut body = Vec::new();
    man.render_name_section(&mut body)?;
    synopsis(program).to_writer(&mut body)?;
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    commands(program, &mut body)?;
    beyond_options(program).to_writer(&mut body)?;
    let body = String::from_utf8_lossy(&body).replace(PREAMBLE, "");
    Ok(format!("{PREAMBLE}{}\n{body}", title(program)).into_bytes())
}

/// The title line; the empty third field is the date.
fn title(program: &Program) -> String {
    let name = program.name.to_uppercase();
    format!(
        ".TH {name} {} \"\" \"lanai {}\" Lanai",
        program.section,
        env!("CARGO_PKG_VERSION")
    )
}

/// The usage as `--help` has it: a list of thirty letters in brackets would tell less.
fn synopsis(program: &Program) -> Roff {
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

/// What the commands of a program do, a section each with their options.
fn commands(program: &Program, body: &mut Vec<u8>) -> io::Result<()> {
    let mut command = (program.command)();
    command.build();
    for command in command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        let mut text = Vec::new();
        let man = Man::new(command.clone());
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
        let usage = command.clone().render_usage().to_string();
        let mut heading = Roff::new();
        heading.control("SH", [usage.trim_start_matches("Usage: ").trim()]);
        heading.to_writer(body)?;
        let text = String::from_utf8_lossy(&text)
            .replace(".SH DESCRIPTION\n", "")
            .replace(".SH OPTIONS", ".SS Options");
        body.extend(text.into_bytes());
    }
    Ok(())
}

fn beyond_options(program: &Program) -> Roff {
    let mut roff = Roff::new();
    let concerns = |extra: &&Extra| match extra.on {
        All => true,
        Programs(names) => names.contains(&program.name),
    };
    for extra in EXTRAS.iter().filter(concerns) {
        roff.control("SH", [extra.heading]);
        extra.parts.iter().for_each(|part| write(&mut roff, part));
    }
    see_also(&mut roff, program);
    roff
}

fn write(roff: &mut Roff, part: &Part) {
    match part {
        Text(text) => roff.control("PP", []).text([roman(*text)]),
        Term(term, meaning) => roff
            .control("TP", [])
            .text([bold(*term)])
            .text([roman(*meaning)]),
        Example(what, lines) => {
            roff.control("PP", [])
                .text([roman(*what)])
                .control("PP", [])
                .control("RS", ["4"])
                .control("nf", []);
            lines.iter().for_each(|line| {
                roff.text([bold(*line)]);
            });
            roff.control("fi", []).control("RE", [])
        }
    };
}

fn see_also(roff: &mut Roff, program: &Program) {
    let others = PROGRAMS.iter().filter(|other| other.name != program.name);
    let pages = others.map(|other| (other.name, other.section)).chain([
        ("lanai.toml", 5),
        ("lanai", 7),
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

    fn text(program: &Program) -> String {
        String::from_utf8(page(program).unwrap()).unwrap()
    }

    #[test]
    fn every_extra_section_belongs_to_a_program() {
        let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        for extra in EXTRAS {
            let Programs(names) = extra.on else { continue };
            assert!(
                names.iter().all(|name| known.contains(name)),
                "{} of {names:?}",
                extra.heading
            );
        }
    }

    #[test]
    fn a_page_tells_how_a_command_ends() {
        for program in PROGRAMS.iter().filter(|program| program.section == 1) {
            assert!(text(program).contains("EXIT STATUS"), "{}", program.name);
        }
    }

    #[test]
    fn a_page_holds_options_then_extras_and_no_date() {
        let command = || {
            clap::Command::new("qsub")
                .about("Submits")
                .arg(clap::arg!(-N <NAME> "Its name"))
        };
        let page = text(&Program {
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
