//! `pbs_rstat`: displays reservations.

use crate::cli::arguments::getopt;
use crate::cli::arguments::reservations::ReservationName;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::query::{self, Ask, CommandOutput};
use crate::cli::output::attribute_output::preamble;
use crate::cli::output::full;
use crate::cli::output::json::Document;
use crate::cli::output::table::FixedColumn::{Left, Rest};
use crate::cli::output::table::push_line;
use crate::model::refusal::Refusal;
use crate::model::reservation::Reservation;
use crate::model::time::Wall;
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::exec_host;
use crate::shown::timestamp;
use crate::sys::clock;
use crate::wire::message::{Question, ServerFacts};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The exit status of a wrong command line.
const USAGE: u8 = 1;

/// Show reservations.
#[derive(Parser, Clone, Debug, Default)]
#[command(name = "pbs_rstat")]
pub struct PbsRstatArgs {
    /// Show all attributes
    #[arg(short = 'f')]
    pub full: bool,
    /// Show all attributes, as -f does; in JSON if the first operand is json
    #[arg(short = 'F')]
    pub full_too: bool,
    /// Show ids only
    #[arg(short = 'B')]
    pub brief: bool,
    /// Show one line for each reservation (the default)
    #[arg(short = 'S')]
    pub short: bool,
    /// Reservation ids: R12 or R12.server (default: all)
    #[arg(value_name = "reservation-id")]
    pub reservations: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsRstatArgs::command())
}

/// Runs pbs_rstat.
pub fn main() -> ExitCode {
    exit::run("pbs_rstat", command, run)
}

fn run() -> Result<u8, Failure> {
    let read = getopt::read::<PbsRstatArgs>(command).map_err(|failure| failure.with_code(USAGE));
    let Some(args) = read? else {
        return Ok(0);
    };
    let mut source = query::source(|why| query::no_server(why, exit::NO_SERVER))?;
    args.answer(&mut source, clock::wall())?
        .print("pbs_rstat", command)
}

impl PbsRstatArgs {
    /// The reservation ids, and true for JSON. PBS's `-F` takes no value: in `-F json`, `json` is
    /// the first operand.
    fn operands(&self) -> (&[OsString], bool) {
        match self.reservations.split_first() {
            Some((first, rest)) if self.full_too && first == "json" => (rest, true),
            _ => (&self.reservations, false),
        }
    }

    fn answer(&self, ask: &mut Ask, now: Wall) -> Result<CommandOutput, Failure> {
        let (operands, json) = self.operands();
        let answers = ask(&Question::Reservations)?;
        let server = &answers.server;
        let (mut chosen, mut failures) = (Vec::new(), Vec::new());
        for operand in operands {
            let name = match ReservationName::parse(operand) {
                Ok(name) => name.local(&server.name),
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            };
            match answers.reservations.iter().find(|known| known.id == name) {
                Some(reservation) => chosen.push(reservation),
                None => failures.push(Failure::from(Refusal::unknown_reservation())),
            }
        }
        if operands.is_empty() {
            chosen = answers.reservations.iter().collect();
            chosen.sort_by_key(|reservation| reservation.ctime);
        }
        let out = if json {
            document(&chosen, server, now)
        } else if self.full || self.full_too {
            let all = chosen
                .iter()
                .map(|reservation| in_full(reservation, server));
            all.collect::<String>().into_bytes()
        } else if self.brief {
            brief(&chosen, server).into_bytes()
        } else {
            table(&chosen, server, now).into_bytes()
        };
        Ok(CommandOutput { out, failures })
    }
}

fn full_id(reservation: &Reservation, server: &ServerFacts) -> String {
    format!("{}.{}", reservation.id, server.name)
}

fn brief(reservations: &[&Reservation], server: &ServerFacts) -> String {
    reservations
        .iter()
        .map(|reservation| format!("Resv ID: {}\n", full_id(reservation, server)))
        .collect()
}

/// The table of reservations. Ids are never cut; the id column grows instead.
fn table(reservations: &[&Reservation], server: &ServerFacts, now: Wall) -> String {
    if reservations.is_empty() {
        return String::new();
    }
    let ids: Vec<String> = reservations
        .iter()
        .map(|reservation| full_id(reservation, server))
        .collect();
    let longest = ids.iter().map(|id| id.chars().count()).max();
    let width = longest.unwrap_or(0).max(10);
    let columns = [Left(width), Left(8), Left(8), Left(5), Rest];
    let title = format!("{:>34}{:14}", "Start / Duration / End", "");
    let mut out = String::new();
    push_line(
        &mut out,
        columns,
        ["Resv ID", "Queue", "User", "State", &title],
    );
    let _ = writeln!(out, "\n{}", "-".repeat(69 + width - 10));
    for (reservation, id) in reservations.iter().zip(&ids) {
        let time = reservation.occurrence();
        let length = time.to.0.saturating_sub(time.from.0);
        let owner = format!("{}@{}", reservation.owner.user, reservation.submit_host);
        let queue = if reservation.has_queue() {
            &reservation.id
        } else {
            "--"
        };
        let from = timestamp::day_and_time(time.from, now);
        let to = timestamp::day_and_time(time.to, now);
        let cells: [&str; 5] = [
            id,
            &format!("{queue:.8}"),
            &format!("{owner:.8}"),
            &format!("{:.5}", reservation.short_state()),
            &format!("{from:>17.17} / {length} / {to:<17.17}"),
        ];
        push_line(&mut out, columns, cells);
        out.push('\n');
    }
    out
}

fn in_full(reservation: &Reservation, server: &ServerFacts) -> String {
    let mut out = format!("Resv ID: {}\n", full_id(reservation, server));
    for attribute in &attributes(reservation, server).0 {
        let Some(value) = full::text(attribute) else {
            continue;
        };
        let dot = if attribute.resource.is_some() {
            "."
        } else {
            ""
        };
        let resource = attribute.resource.unwrap_or_default();
        let _ = writeln!(
            out,
            "{}{dot}{resource} = {}",
            attribute.name,
            full::printable(&value)
        );
    }
    out.push('\n');
    out
}

fn document(reservations: &[&Reservation], server: &ServerFacts, now: Wall) -> Vec<u8> {
    let mut document = Document::begin(&preamble(server, now));
    for reservation in reservations {
        let attributes = attributes(reservation, server);
        document.add_object("Reservations", &full_id(reservation, server), &attributes);
    }
    document.end()
}

/// Adds names joined by commas, if there are any.
fn list_if<'a>(out: &mut Attributes<'a>, attribute: &'a str, names: &[String]) {
    if !names.is_empty() {
        out.text(attribute, names.join(","));
    }
}

/// All attributes, in PBS's order.
fn attributes<'a>(reservation: &'a Reservation, server: &'a ServerFacts) -> Attributes<'a> {
    let (terms, time) = (&reservation.terms, reservation.occurrence());
    let mut out = Attributes::default();
    out.text("Reserve_Name", terms.name.as_deref().unwrap_or("NULL"));
    out.text(
        "Reserve_Owner",
        format!("{}@{}", reservation.owner.user, reservation.submit_host),
    );
    out.text("reserve_state", reservation.long_state());
    out.number("reserve_substate", reservation.substate());
    out.add("reserve_start", AttributeDisplay::Moment(time.from));
    out.add("reserve_end", AttributeDisplay::Moment(time.to));
    out.number("reserve_duration", time.to.0.saturating_sub(time.from.0));
    out.text_if(
        "queue",
        reservation.has_queue().then_some(reservation.id.as_str()),
    );
    if !terms.whole {
        requested(&mut out, reservation);
    }
    out.text_if(
        "resv_nodes",
        (!time.shares.is_empty()).then(|| exec_host::exec_vnode(&time.shares)),
    );
    list_if(&mut out, "Authorized_Users", &terms.users);
    list_if(&mut out, "Authorized_Groups", &terms.groups);
    list_if(&mut out, "Authorized_Hosts", &terms.hosts);
    out.text("server", server.name.as_str());
    out.add(
        "ctime",
        AttributeDisplay::Moment(server.clock.wall(reservation.ctime)),
    );
    out.add(
        "mtime",
        AttributeDisplay::Moment(server.clock.wall(reservation.mtime)),
    );
    for (name, text) in &terms.other {
        out.text(name, text.as_str());
    }
    let variables = terms
        .variables
        .iter()
        .map(|(name, text)| (name.as_str().into(), text.as_str().into()));
    out.add(
        "Variable_List",
        AttributeDisplay::Pairs(variables.collect()),
    );
    if let Some(rule) = &terms.rule {
        out.text("reserve_rrule", rule.rule.as_str());
        out.number(
            "reserve_index",
            i64::try_from(reservation.current + 1).unwrap_or(i64::MAX),
        );
    }
    out.number(
        "reserve_count",
        i64::try_from(reservation.occurrences.len()).unwrap_or(i64::MAX),
    );
    out.text_if("reserve_job", terms.job.map(|job| job.full(&server.name)));
    list_if(&mut out, "lost_nodes", &reservation.lost);
    out.text("Submit_Host", reservation.submit_host.as_str());
    out
}

/// Adds the requested resources in PBS's order: select, place and walltime come last.
fn requested<'a>(out: &mut Attributes<'a>, reservation: &'a Reservation) {
    let list = &reservation.terms.request.list;
    let last = ["select", "place", "walltime"];
    let first = list
        .iter()
        .filter(|(name, _)| !last.contains(&name.as_str()));
    let last = last.iter().filter_map(|name| list.get_key_value(*name));
    for (name, value) in first.chain(last) {
        out.resource("Resource_List", name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::source::Answers;
    use crate::cli::example;
    use crate::model::reservation::tests::reservation;

    fn shown(args: &PbsRstatArgs) -> CommandOutput {
        let mut ask = |_: &Question| {
            let mut answers = Answers::from(example::server());
            answers.reservations = vec![reservation(1)];
            Ok(answers)
        };
        args.answer(&mut ask, Wall(0)).unwrap()
    }

    fn text(args: &PbsRstatArgs) -> String {
        String::from_utf8(shown(args).out).unwrap()
    }

    #[test]
    fn the_list_has_the_layout_of_pbs() {
        let table = text(&PbsRstatArgs::default());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "Resv ID    Queue    User     State             Start / Duration / End              "
        );
        assert_eq!(lines[1], "-".repeat(69));
        assert!(
            lines[2].starts_with("R12.head   R12      alice@he UN    "),
            "{table}"
        );
        assert!(
            lines[2].contains(" / 3600 / ") && lines[2].len() >= 70,
            "{table}"
        );
        assert_eq!(
            text(&PbsRstatArgs {
                brief: true,
                ..PbsRstatArgs::default()
            }),
            "Resv ID: R12.head\n"
        );
    }

    #[test]
    fn attributes_are_not_indented() {
        let full = text(&PbsRstatArgs {
            full: true,
            ..PbsRstatArgs::default()
        });
        assert!(
            full.starts_with(
                "Resv ID: R12.head\nReserve_Name = NULL\nReserve_Owner = alice@head\n"
            ),
            "{full}"
        );
        assert!(
            full.contains("\nreserve_state = RESV_UNCONFIRMED\nreserve_substate = 1\n"),
            "{full}"
        );
        assert!(full.ends_with("Submit_Host = head\n\n"), "{full}");
    }

    #[test]
    fn json_is_one_document_even_for_unknown_ids() {
        let json = |ids: &[&str]| {
            let reservations = ["json"].iter().chain(ids).map(OsString::from).collect();
            let output = shown(&PbsRstatArgs {
                full_too: true,
                reservations,
                ..PbsRstatArgs::default()
            });
            let value: serde_json::Value = serde_json::from_slice(&output.out).unwrap();
            (value, output.failures)
        };
        assert_eq!(
            json(&["R12"]).0["Reservations"]["R12.head"]["reserve_duration"],
            3600
        );
        let (document, failures) = json(&["R99"]);
        assert!(document["Reservations"].is_null());
        assert_eq!(failures, [Failure::new(236, "Unknown Reservation Id")]);
    }
}
