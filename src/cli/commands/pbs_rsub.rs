//! `pbs_rsub`: creates a reservation.

use crate::cli::arguments::getopt;
use crate::cli::arguments::reservations::{
    bounds, call, check_destination, resources, stored_attributes,
};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::cli::client::operand::Operand;
use crate::model::refusal::Refusal;
use crate::model::reservation::request::ReservationRequest;
use crate::model::time::Wall;
use crate::sys::{clock, env};
use crate::wire::message::{ClientRequest, Reply};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Create an advance reservation. Jobs submitted to the queue of the reservation (qsub -q R12) run
/// in the reservation. Give two of start time, end time and duration; with --job, give none.
#[derive(Parser, Clone, Debug, Default)]
#[command(name = "pbs_rsub")]
pub struct PbsRsubArgs {
    /// Start time: [[[[CC]YY]MM]DD]hhmm[.SS], local time
    #[arg(short = 'R', value_name = "start_time")]
    pub from: Option<OsString>,
    /// End time, in the format of -R
    #[arg(short = 'E', value_name = "end_time")]
    pub to: Option<OsString>,
    /// Duration: HH:MM:SS, or seconds
    #[arg(short = 'D', value_name = "duration")]
    pub duration: Option<String>,
    /// Resources: select=N:ncpus=4:mem=8gb, place=scatter, ...
    #[arg(short = 'l', value_name = "resource_list")]
    pub resources: Vec<OsString>,
    /// Name of the reservation
    #[arg(short = 'N', value_name = "reservation_name")]
    pub name: Option<String>,
    /// Permitted users in addition to the owner: user[@host],...; -user excludes a user
    #[arg(short = 'U', value_name = "auth_user_list")]
    pub users: Option<String>,
    /// Permitted groups
    #[arg(short = 'G', value_name = "auth_group_list")]
    pub groups: Option<String>,
    /// Hosts from which jobs may be submitted; stored and shown, but not enforced
    #[arg(short = 'H', value_name = "auth_host_list")]
    pub hosts: Option<String>,
    /// Recurrence: FREQ=HOURLY, DAILY or WEEKLY, with INTERVAL, BYDAY=MO,... and COUNT or UNTIL,
    /// separated by semicolons. The variable PBS_TZID must name the time zone: the server's own, or
    /// UTC
    #[arg(short = 'r', value_name = "rrule_expression")]
    pub rule: Option<String>,
    /// Print the decision, CONFIRMED or DENIED; or UNCONFIRMED if no node is available now and the
    /// reservation begins later. The number of seconds has no effect
    #[arg(short = 'I', value_name = "seconds", allow_hyphen_values = true)]
    pub wait: Option<i64>,
    /// Mail points: n, or one or more of the letters a, b, c and e; stored and shown, but no mail
    /// is sent
    #[arg(short = 'm', value_name = "mail_points")]
    pub mail_points: Option<String>,
    /// Recipients of mail; stored and shown, but no mail is sent
    #[arg(short = 'M', value_name = "mail_list")]
    pub mail_users: Option<String>,
    /// Value of the attribute User_List; stored and shown, without effect
    #[arg(short = 'u', value_name = "user_list")]
    pub as_user: Option<String>,
    /// Value of the attribute group_list; stored and shown, without effect
    #[arg(short = 'g', value_name = "group_list")]
    pub as_group: Option<String>,
    /// Server: @server
    #[arg(short = 'q', value_name = "destination")]
    pub destination: Option<String>,
    /// Maintenance: reserve the hosts given as operands, even if jobs run on them (operators only)
    #[arg(long = "hosts")]
    pub whole: bool,
    /// Reserve the resources of a running job (the operand) until its walltime ends, and move the
    /// job into the reservation
    #[arg(long = "job")]
    pub of_job: bool,
    /// Hosts for --hosts, or the job for --job
    #[arg(value_name = "host|job")]
    pub operands: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsRsubArgs::command())
}

/// Runs pbs_rsub.
pub fn main() -> ExitCode {
    exit::run("pbs_rsub", command, run)
}

fn run() -> Result<u8, Failure> {
    if env::args().count() < 2 {
        return Err(Failure::usage(""));
    }
    let Some(args) = getopt::read::<PbsRsubArgs>(command)? else {
        return Ok(0);
    };
    let mut request = args.request(clock::wall(), env::text("PBS_TZID"))?;
    if args.rule.is_some() && request.zone.is_none() {
        // PBS begins only this message with `pbs_rsub error`.
        let text = "pbs_rsub error: a valid PBS_TZID timezone environment variable is required.\n";
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes())?;
        return Ok(exit::USAGE);
    }
    let mut schedd = LazySchedd::find()?;
    if args.destination.is_some() {
        check_destination(&args.destination, &schedd.name()?)?;
    }
    if args.of_job {
        request.job = Some(args.job(&mut schedd)?);
    }
    request.submit_host = nix::sys::utsname::uname()
        .map_err(std::io::Error::from)?
        .nodename()
        .to_string_lossy()
        .into();
    request.variables.extend(variables(&request));
    match call(&mut schedd, &ClientRequest::Reserve(Box::new(request)))?? {
        Reply::Reserved { id, confirmed } => exit::print(args.answer(&id, confirmed))?,
        _ => return Err(exit::protocol_error()),
    }
    Ok(0)
}

/// The entries of `Variable_List`.
fn variables(request: &ReservationRequest) -> Vec<(String, String)> {
    let user = env::text("LOGNAME")
        .or_else(|| env::text("USER"))
        .map(|user| ("PBS_O_LOGNAME".to_string(), user));
    let host = ("PBS_O_HOST".to_string(), request.submit_host.clone());
    let mail = env::text("MAIL").map(|mail| ("PBS_O_MAIL".to_string(), mail));
    let mut all: Vec<_> = user.into_iter().chain([host]).chain(mail).collect();
    if request.rule.is_some()
        && let Some(zone) = &request.zone
    {
        all.push(("PBS_TZID".to_string(), zone.clone()));
    }
    all
}

/// The decision as text, which `pbs_rsub` and `pbs_ralter` print.
pub(super) fn verdict(is_confirmed: bool) -> &'static str {
    if is_confirmed { "CONFIRMED" } else { "DENIED" }
}

impl PbsRsubArgs {
    /// The request for schedd. `zone` is the time zone of a recurrence rule.
    pub fn request(&self, now: Wall, zone: Option<String>) -> Result<ReservationRequest, Failure> {
        if self.operands.is_empty() == (self.whole || self.of_job) || (self.whole && self.of_job) {
            return Err(Failure::usage(""));
        }
        let (from, to) = bounds(self.from.as_ref(), self.to.as_ref(), now)?;
        let hosts = if self.whole { &self.operands[..] } else { &[] };
        let nodes = hosts.iter().map(|host| host.to_string_lossy().into_owned());
        let other = stored_attributes([
            ("Mail_Points", &self.mail_points),
            ("Mail_Users", &self.mail_users),
            ("User_List", &self.as_user),
            ("group_list", &self.as_group),
        ]);
        Ok(ReservationRequest {
            name: self.name.clone(),
            from,
            to,
            duration: self.duration.clone(),
            users: self.users.clone(),
            groups: self.groups.clone(),
            hosts: self.hosts.clone(),
            resources: resources(&self.resources)?,
            nodes: nodes.collect(),
            rule: self.rule.clone(),
            zone: zone.filter(|zone| !zone.is_empty() && self.rule.is_some()),
            job: None,
            other,
            variables: Vec::new(),
            submit_host: String::new(),
        })
    }

    fn job(&self, schedd: &mut LazySchedd) -> Result<crate::model::job_id::JobId, Failure> {
        let [job] = self.operands.as_slice() else {
            return Err(Failure::usage(""));
        };
        let operand = Operand::parse(job)?;
        let unknown = Failure::of_job("pbs_rsub", &Refusal::unknown_job(), &operand.short());
        operand.job(&schedd.name()?).ok_or(unknown)
    }

    /// The output. With `-I` or `--job`: the decision, or `UNCONFIRMED` if schedd cannot decide
    /// yet. Otherwise always `UNCONFIRMED`, as in PBS, which does not wait for the decision.
    fn answer(&self, id: &str, confirmed: Option<bool>) -> String {
        let text = match confirmed {
            Some(is_confirmed) if self.wait.is_some() || self.of_job => verdict(is_confirmed),
            _ => "UNCONFIRMED",
        };
        format!("{id} {text}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Result<ReservationRequest, Failure> {
        let matches = getopt::matches(&mut command(), words.iter().map(OsString::from))?;
        let args: PbsRsubArgs = getopt::read_matches(&matches)?;
        args.request(Wall(1_795_000_000), Some("UTC".into()))
    }

    #[test]
    fn options_become_a_request() {
        let reserving = request(&[
            "-D",
            "600",
            "-l",
            "select=1:ncpus=2",
            "-N",
            "x",
            "-R",
            "202612312359",
        ])
        .unwrap();
        assert_eq!(
            (reserving.duration.as_deref(), reserving.name.as_deref()),
            (Some("600"), Some("x"))
        );
        assert_eq!(
            reserving.resources,
            [("select".to_string(), "1:ncpus=2".to_string())]
        );
        assert!(reserving.from.is_some() && reserving.zone.is_none());
        assert_eq!(
            request(&["-r", "FREQ=DAILY;COUNT=2"])
                .unwrap()
                .zone
                .as_deref(),
            Some("UTC")
        );
        assert_eq!(
            request(&["--hosts", "n1", "n2", "-D60"]).unwrap().nodes,
            ["n1", "n2"]
        );
    }

    #[test]
    fn inconsistent_options_print_the_usage() {
        assert_eq!(
            request(&["-R", "9999", "-D", "60"]),
            Err(Failure::usage("illegal -R time value"))
        );
        assert_eq!(
            request(&["-y"]),
            Err(Failure::usage("invalid option -- 'y'"))
        );
        for wrong in [&["n1"][..], &["--hosts"], &["--hosts", "--job", "1"]] {
            assert_eq!(request(wrong), Err(Failure::usage("")), "{wrong:?}");
        }
    }

    #[test]
    fn option_i_prints_the_decision() {
        let args = |wait| PbsRsubArgs {
            wait,
            ..PbsRsubArgs::default()
        };
        assert_eq!(
            args(None).answer("R1.head", Some(false)),
            "R1.head UNCONFIRMED\n"
        );
        assert_eq!(
            args(Some(5)).answer("R1.head", Some(false)),
            "R1.head DENIED\n"
        );
        assert_eq!(
            args(Some(5)).answer("R1.head", Some(true)),
            "R1.head CONFIRMED\n"
        );
        assert_eq!(
            args(Some(5)).answer("R1.head", None),
            "R1.head UNCONFIRMED\n"
        );
    }
}
