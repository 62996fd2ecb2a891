//! `pbs_ralter`: changes a reservation.

use crate::cli::arguments::getopt;
use crate::cli::arguments::job_options;
use crate::cli::arguments::reservations::{
    ReservationName, bounds, call, resources, stored_attributes,
};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::cli::commands::pbs_rsub;
use crate::model::reservation::request::ReservationRequest;
use crate::model::time::Wall;
use crate::sys::clock;
use crate::wire::message::{ClientRequest, Reply};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Change a reservation. Changes are all-or-nothing.
#[derive(Parser, Clone, Debug, Default)]
#[command(name = "pbs_ralter")]
pub struct PbsRalterArgs {
    /// New start time: [[[[CC]YY]MM]DD]hhmm[.SS], local time; allowed until the reservation starts
    #[arg(short = 'R', value_name = "start_time")]
    pub from: Option<OsString>,
    /// New end time, in the format of -R
    #[arg(short = 'E', value_name = "end_time")]
    pub to: Option<OsString>,
    /// New duration: HH:MM:SS, or seconds
    #[arg(short = 'D', value_name = "duration")]
    pub duration: Option<String>,
    /// New resources: select=N:ncpus=4; allowed until the reservation starts
    #[arg(short = 'l', value_name = "resource_list")]
    pub resources: Vec<OsString>,
    /// New name of the reservation
    #[arg(short = 'N', value_name = "reservation_name")]
    pub name: Option<String>,
    /// Permitted users: a new list, or +user and -user to add and remove users
    #[arg(short = 'U', value_name = "(+/-)username", allow_hyphen_values = true)]
    pub users: Option<String>,
    /// Permitted groups: a new list, or +group and -group to add and remove groups
    #[arg(short = 'G', value_name = "(+/-)group", allow_hyphen_values = true)]
    pub groups: Option<String>,
    /// Print the decision, CONFIRMED or DENIED; the number of seconds has no effect
    #[arg(short = 'I', value_name = "seconds", allow_hyphen_values = true)]
    pub wait: Option<i64>,
    /// Mail points; stored and shown, but no mail is sent
    #[arg(short = 'm', value_name = "mail_points")]
    pub mail_points: Option<String>,
    /// Recipients of mail; stored and shown, but no mail is sent
    #[arg(short = 'M', value_name = "mail_list")]
    pub mail_users: Option<String>,
    /// force: ignore conflicting jobs and reservations (operators only)
    #[arg(short = 'W', value_name = "force")]
    pub how: Option<String>,
    /// Reservation id: R12 or R12.server
    #[arg(value_name = "resv_id", required = true)]
    pub reservation: OsString,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsRalterArgs::command())
}

/// Runs pbs_ralter.
pub fn main() -> ExitCode {
    exit::run("pbs_ralter", command, run)
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<PbsRalterArgs>(command)? else {
        return Ok(0);
    };
    let force = match args.how.as_deref() {
        None => false,
        Some("force") => true,
        Some(_) => return Err(job_options::illegal('W')),
    };
    let changes = Box::new(args.changes(clock::wall())?);
    let name = ReservationName::parse(&args.reservation)?;
    let mut schedd = LazySchedd::find()?;
    let id = name.local(&schedd.name()?);
    match call(
        &mut schedd,
        &ClientRequest::AlterReservation { id, changes, force },
    )?? {
        Reply::Reserved { id, confirmed } => exit::print(args.answer(&id, confirmed))?,
        _ => return Err(exit::protocol_error()),
    }
    Ok(0)
}

impl PbsRalterArgs {
    fn changes(&self, now: Wall) -> Result<ReservationRequest, Failure> {
        let (from, to) = bounds(self.from.as_ref(), self.to.as_ref(), now)?;
        let other = stored_attributes([
            ("Mail_Points", &self.mail_points),
            ("Mail_Users", &self.mail_users),
        ]);
        Ok(ReservationRequest {
            name: self.name.clone(),
            from,
            to,
            duration: self.duration.clone(),
            users: self.users.clone(),
            groups: self.groups.clone(),
            resources: resources(&self.resources)?,
            other,
            ..ReservationRequest::default()
        })
    }

    fn answer(&self, id: &str, confirmed: Option<bool>) -> String {
        let text = match confirmed {
            Some(is_confirmed) if self.wait.is_some() => pbs_rsub::verdict(is_confirmed),
            _ => "ALTER REQUESTED",
        };
        format!("pbs_ralter: {id} {text}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_contains_only_the_given_changes() {
        let words = ["-N", "new", "-U", "-bob,+eve", "R12"].map(OsString::from);
        let matches = getopt::matches(&mut command(), words).unwrap();
        let args: PbsRalterArgs = getopt::read_matches(&matches).unwrap();
        let changes = args.changes(Wall(0)).unwrap();
        assert_eq!(
            (changes.name.as_deref(), changes.users.as_deref()),
            (Some("new"), Some("-bob,+eve"))
        );
        assert_eq!(
            args.answer("R12.head", Some(false)),
            "pbs_ralter: R12.head ALTER REQUESTED\n"
        );
        let waiting = PbsRalterArgs {
            wait: Some(3),
            ..args
        };
        assert_eq!(
            waiting.answer("R12.head", Some(false)),
            "pbs_ralter: R12.head DENIED\n"
        );
    }
}
