//! Manual pages, written from the same definitions that read the command line.
//!
//! What clap does not know (exit status, files, environment, examples) comes from [`EXTRAS`].
//! Pages hold no date: the same source gives the same page.

use super::{PROGRAMS, Program};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::io;

/// A section beyond the options.
struct Extra {
    /// The programs whose page has it; none for all.
    programs: &'static [&'static str],
    heading: &'static str,
    parts: &'static [Part],
}

/// A part of a section.
enum Part {
    /// A paragraph.
    Text(&'static str),
    /// A term and what it means.
    Term(&'static str, &'static str),
    /// What an example does, and its lines.
    Example(&'static str, &'static [&'static str]),
}

use Part::{Example, Term, Text};

/// Commands that act on a job and answer with PBS's codes.
const ACTORS: &[&str] = &["qsub", "qalter", "qdel", "qhold", "qrls", "qrerun", "qsig"];

/// The daemons.
const DAEMONS: &[&str] = &["schedd", "noded"];

/// In the order in which they stand on a page.
const EXTRAS: &[Extra] = &[
    Extra {
        programs: &["qsub"],
        heading: "DIRECTIVES",
        parts: &[Text(
            "Lines at the top of a script that begin with #PBS hold options, as on the command line, up to the \
                  first line that is a command. The command line beats a directive.",
        )],
    },
    Extra {
        programs: ACTORS,
        heading: "EXIT STATUS",
        parts: &[
            Term("0", "Done. What qsub was asked to do is on disk when it prints the job id."),
            Term("1", "A job id is malformed, or a file cannot be read."),
            Term("2", "The command line is wrong."),
            Term(
                "N",
                "The request was refused: PBS's error number modulo 256, as 153 for an unknown job id, \
                  159 for a request that the caller may not make, 35 for a job that has finished. With several \
                  operands all are tried, and the last failure counts.",
            ),
        ],
    },
    Extra {
        programs: &["qstat", "qselect", "pbsnodes"],
        heading: "EXIT STATUS",
        parts: &[
            Term("0", "Done. Nothing to show is no failure, and prints nothing."),
            Term("1, 2", "The command line is wrong."),
            Term(
                "N",
                "PBS's error number modulo 256, as 153 for an unknown job id and 35 for a job that has \
                  finished (ask again with -x). With several operands all are shown, and the last failure counts.",
            ),
        ],
    },
    Extra {
        programs: &["qsub"],
        heading: "EXAMPLES",
        parts: &[
            Example(
                "Submit a script that asks for four processors and 8 GiB for at most an hour:",
                &["qsub -l select=1:ncpus=4:mem=8gb -l walltime=1:00:00 job.sh"],
            ),
            Example(
                "Submit a command without a script, wait for it, and exit as it does:",
                &["qsub -W block=true -- /usr/bin/make -j4"],
            ),
            Example(
                "Submit from standard input, one output file for both streams:",
                &["echo 'sleep 60; hostname' | qsub -j oe -o result.txt"],
            ),
            Example(
                "Two nodes of their own, with all that is on them:",
                &["qsub -l select=2:ncpus=8 -l place=scatter:excl job.sh"],
            ),
        ],
    },
    Extra {
        programs: &["qstat"],
        heading: "EXAMPLES",
        parts: &[
            Example("All jobs, and why the waiting ones wait:", &["qstat -s"]),
            Example("All that is known of a job, also when it is over:", &["qstat -x -f 17"]),
            Example("The exit status of a job, for a program:", &["qstat -x -f -F json 17"]),
        ],
    },
    Extra {
        programs: &["qselect"],
        heading: "EXAMPLES",
        parts: &[Example("Delete all of one's waiting jobs:", &["qdel $(qselect -u $USER -s Q)"])],
    },
    Extra {
        programs: &["schedd"],
        heading: "EXAMPLES",
        parts: &[
            Example("What runs here, and where its files are:", &["schedd --status"]),
            Example("Leave; running jobs go on, and the next command starts schedd again:", &["schedd --stop"]),
        ],
    },
    Extra {
        programs: &[],
        heading: "ENVIRONMENT",
        parts: &[
            Term(
                "LANAI_HOME",
                "A folder that holds spool, sockets and lanai.toml of an installation of its own. \
                  Set, it is used whatever /etc/lanai says.",
            ),
            Term(
                "XDG_STATE_HOME, XDG_RUNTIME_DIR, XDG_CONFIG_HOME",
                "Where a personal installation keeps its spool, \
                  its sockets and its lanai.toml, each in a folder lanai.",
            ),
        ],
    },
    Extra {
        programs: &[],
        heading: "FILES",
        parts: &[
            Term(
                "/etc/lanai/lanai.toml",
                "Configuration of a shared installation. Where it exists, commands speak to \
                  the shared schedd.",
            ),
            Term("~/.config/lanai/lanai.toml", "Configuration of a personal installation; need not exist."),
            Term("~/.local/state/lanai/", "The spool of a personal installation."),
        ],
    },
    Extra {
        programs: DAEMONS,
        heading: "SIGNALS",
        parts: &[Term("TERM, INT", "Leave. Running jobs go on under their shepherds and are found again.")],
    },
];

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
    extras(program).to_writer(&mut body)?;
    let body = String::from_utf8_lossy(&body).replace(PREAMBLE, "");
    Ok(format!("{PREAMBLE}{}\n{body}", title(program)).into_bytes())
}

/// The title line; the empty third field is the date.
fn title(program: &Program) -> String {
    let name = program.name.to_uppercase();
    format!(".TH {name} {} \"\" \"lanai {}\" Lanai", program.section, env!("CARGO_PKG_VERSION"))
}

/// The usage as `--help` has it: a list of thirty letters in brackets would tell less.
fn synopsis(program: &Program) -> Roff {
    let usage = (program.command)().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        roff.text([bold(name), roman(format!(" {rest}"))]).control("br", []);
    }
    roff
}

fn extras(program: &Program) -> Roff {
    let mut roff = Roff::new();
    let concerns = |extra: &&Extra| extra.programs.is_empty() || extra.programs.contains(&program.name);
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
        Term(term, meaning) => roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]),
        Example(what, lines) => {
            roff.control("PP", []).text([roman(*what)]).control("PP", []).control("RS", ["4"]).control("nf", []);
            lines.iter().for_each(|line| {
                roff.text([bold(*line)]);
            });
            roff.control("fi", []).control("RE", [])
        }
    };
}

fn see_also(roff: &mut Roff, program: &Program) {
    let others = PROGRAMS.iter().filter(|other| other.name != program.name);
    let pages = others.map(|other| (other.name, other.section)).chain([("lanai.toml", 5), ("lanai", 7)]);
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
            assert!(extra.programs.iter().all(|name| known.contains(name)), "{} of {known:?}", extra.heading);
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
        let command = || clap::Command::new("qsub").about("Submits").arg(clap::arg!(-N <NAME> "Its name"));
        let page = text(&Program { name: "qsub", section: 1, command });
        let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words} in {page}"));
        assert!(page.contains(concat!(".TH QSUB 1 \"\" \"lanai ", env!("CARGO_PKG_VERSION"), "\" Lanai")), "{page}");
        assert!(at("\\fBqsub\\fR [OPTIONS]") < at(".SH OPTIONS"), "{page}");
        assert!(at(".SH OPTIONS") < at(".SH DIRECTIVES") && at(".SH DIRECTIVES") < at(".SH \"EXIT STATUS\""));
        assert!(at("\\-W block=true") < at(".SH \"SEE ALSO\""));
    }
}
