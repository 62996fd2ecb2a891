//! Command lines of PBS as scenarios hold them: read by the very parsers of the commands.

use crate::cli::arguments::job_options::{self, SubmissionPlace};
use crate::cli::arguments::reservations::ReservationName;
use crate::cli::arguments::{directives, getopt};
use crate::cli::client::exit::Failure;
use crate::cli::client::operand::Operand;
use crate::cli::commands::job_command::{self, JobCommand};
use crate::cli::commands::{
    pbs_rdel, pbs_rsub, qalter, qdel, qhold, qmove, qorder, qrerun, qrls, qrun, qsig, qsub,
};
use crate::model::attribute::{self, AttributeSetting};
use crate::model::job::array::Indices;
use crate::model::job::suspend::SuspendRequest;
use crate::model::job_id::JobId;
use crate::model::time::Wall;
use crate::sim::scenario::Grammar;
use crate::sim::world::act::Deed;
use crate::wire::message::Placing;
use clap::FromArgMatches;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// PBS's.
pub const GRAMMAR: Grammar = Grammar { qsub, act };

/// The host on which scenarios take place.
const HOST: &str = "sim";

fn place(now: Wall) -> SubmissionPlace<'static> {
    SubmissionPlace {
        workdir: Path::new("/"),
        host: HOST,
        now,
        knows_host: |_| true,
    }
}

fn qsub(text: &str, now: Wall) -> Result<Vec<AttributeSetting>, String> {
    let settings =
        directives::words(text.as_bytes()).and_then(|words| qsub::settings(words, &place(now)));
    settings.map_err(|failure| said("qsub", &failure))
}

/// What a command says; some say nothing but their usage.
fn said(command: &str, failure: &Failure) -> String {
    match failure.text.trim() {
        "" => format!("{command} does not take this"),
        text => text.to_string(),
    }
}

fn act(text: &str, now: Wall) -> Option<Result<Vec<Deed>, String>> {
    let mut words = match directives::words(text.as_bytes()) {
        Ok(words) => words,
        Err(failure) => return Some(Err(said("the command line", &failure))),
    };
    let command = (!words.is_empty()).then(|| words.remove(0))?;
    let command = command.to_str()?;
    let deeds = match command {
        "qhold" => hold(words),
        "qrls" => release(words),
        "qdel" => delete(words),
        "qalter" => alter(words, now),
        "qrerun" => rerun(words),
        "qsig" => turn(words),
        "qrun" => run(words),
        "qmove" => put(words),
        "qorder" => swap(words),
        "pbs_rsub" => reserve(words, now),
        "pbs_rdel" => unreserve(words),
        _ => return None,
    };
    Some(deeds.map_err(|failure| said(command, &failure)))
}

type ScenarioActions = Result<Vec<Deed>, Failure>;

fn read<T: FromArgMatches>(mut command: clap::Command, words: Vec<OsString>) -> Result<T, Failure> {
    getopt::read_matches(&getopt::matches(&mut command, words)?)
}

fn read_jobs<C: JobCommand>(words: Vec<OsString>) -> Result<C, Failure> {
    read(job_command::command::<C>(), words)
}

fn hold(words: Vec<OsString>) -> ScenarioActions {
    let args: qhold::QholdArgs = read_jobs(words)?;
    let holds = job_options::holds(args.holds.as_deref())?;
    each(&args.jobs, |job, _| Deed::Hold(job, holds))
}

fn release(words: Vec<OsString>) -> ScenarioActions {
    let args: qrls::QrlsArgs = read_jobs(words)?;
    let holds = job_options::holds(args.holds.as_deref())?;
    each(&args.jobs, |job, _| Deed::Release(job, holds))
}

fn delete(words: Vec<OsString>) -> ScenarioActions {
    let args: qdel::QdelArgs = read_jobs(words)?;
    each(&args.jobs, Deed::Delete)
}

fn alter(words: Vec<OsString>, now: Wall) -> ScenarioActions {
    let args: qalter::QalterArgs = read_jobs(words)?;
    let settings = qalter::settings(&args, &place(now))?;
    if args.retry {
        return each(&args.jobs, Deed::Retry);
    }
    let changes = if args.shove && settings.is_empty() {
        Vec::new()
    } else {
        each(&args.jobs, |job, _| Deed::Alter(job, settings.clone()))?
    };
    let shoves = if args.shove {
        each(&args.jobs, |job, _| Deed::Shove(job))?
    } else {
        Vec::new()
    };
    Ok(changes.into_iter().chain(shoves).collect())
}

fn rerun(words: Vec<OsString>) -> ScenarioActions {
    let args: qrerun::QrerunArgs = read_jobs(words)?;
    each(&args.jobs, |job, _| Deed::Rerun(job))
}

/// Of signals a scenario knows only those that the scheduler sees.
fn turn(words: Vec<OsString>) -> ScenarioActions {
    let args: qsig::QsigArgs = read_jobs(words)?;
    let turn = args
        .signal
        .as_ref()
        .and_then(|name| SuspendRequest::named(&name.to_string_lossy()));
    let turn = turn.ok_or_else(|| {
        Failure::usage("of signals a scenario knows suspend, resume and their admin- kin")
    })?;
    each(&args.jobs, |job, _| Deed::Turn(job, turn))
}

fn run(words: Vec<OsString>) -> ScenarioActions {
    let args: qrun::QrunArgs = read_jobs(words)?;
    let on = match args.nodes.as_deref().map(qrun::placing).transpose()? {
        Some(Placing::On(names)) => names.into_iter().collect(),
        Some(Placing::Again) => return Err(Failure::usage("name the nodes, as -H n1+n2")),
        _ => BTreeSet::new(),
    };
    each(&args.jobs, |job, _| Deed::Run(job, on.clone()))
}

fn put(words: Vec<OsString>) -> ScenarioActions {
    let args: qmove::QmoveArgs = read_jobs(words)?;
    let named = qsub::destination(&args.destination)?;
    let queue = attribute::destination(&named, HOST)?;
    each(&args.jobs, |job, _| Deed::Move(job, queue.clone()))
}

fn swap(words: Vec<OsString>) -> ScenarioActions {
    let args: qorder::QorderArgs = read(qorder::command(), words)?;
    Ok(vec![Deed::Swap(
        Operand::parse(&args.one)?.id(),
        Operand::parse(&args.other)?.id(),
    )])
}

fn reserve(words: Vec<OsString>, now: Wall) -> ScenarioActions {
    let args: pbs_rsub::PbsRsubArgs = read(pbs_rsub::command(), words)?;
    if args.rule.is_some() || args.of_job {
        return Err(Failure::new(
            1,
            "a scenario knows neither -r nor --job: [[reservation]] in its config comes again",
        ));
    }
    Ok(vec![Deed::Reserve(Box::new(args.asked(now, None)?))])
}

fn unreserve(words: Vec<OsString>) -> ScenarioActions {
    let args: pbs_rdel::PbsRdelArgs = read(pbs_rdel::command(), words)?;
    let name = |operand: &OsString| {
        ReservationName::parse(operand).map(|name| Deed::Unreserve(name.local(HOST)))
    };
    args.reservations.iter().map(name).collect()
}

fn each(jobs: &[OsString], deed: impl Fn(JobId, Option<Indices>) -> Deed) -> ScenarioActions {
    jobs.iter()
        .map(|job| Operand::parse(job).map(|operand| deed(operand.id(), operand.only())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::state::Holds;

    #[test]
    fn commands_act_as_at_a_shell() {
        let acted = |text| act(text, Wall(0)).unwrap().unwrap();
        assert_eq!(
            acted("qhold 3 4"),
            [3, 4].map(|id| Deed::Hold(JobId::job(id), Holds::USER))
        );
        assert_eq!(
            acted("qdel 3[2-4]"),
            [Deed::Delete(JobId::array(3), Some("2-4".parse().unwrap()))]
        );
        let walltime = AttributeSetting::resource("walltime", "1:00");
        assert_eq!(
            acted("qalter -l walltime=1:00 3"),
            [Deed::Alter(JobId::job(3), vec![walltime])]
        );
        assert_eq!(
            acted("qalter --retry 3[2]"),
            [Deed::Retry(JobId::element(3, 2), None)]
        );
        assert!(
            act("qalter --retry -N x 3", Wall(0))
                .unwrap()
                .unwrap_err()
                .contains("without other options")
        );
        assert_eq!(acted("qrun -H n1+n2 3").len(), 1);
        assert_eq!(
            acted("qmove night 3"),
            [Deed::Move(JobId::job(3), "night".to_string())]
        );
        assert_eq!(
            acted("pbs_rdel R1.sim"),
            [Deed::Unreserve("R1".to_string())]
        );
        assert!(matches!(
            &acted("pbs_rsub -D 60 -E 0100 -l ncpus=1")[..],
            [Deed::Reserve(_)]
        ));
        assert!(
            act("pbs_rsub -D 60 -r FREQ=DAILY", Wall(0))
                .unwrap()
                .unwrap_err()
                .contains("knows neither")
        );
        assert_eq!(act("node-down n1", Wall(0)), None);
        assert_eq!(
            act("qhold -h x 3", Wall(0)),
            Some(Err("illegal -h value".to_string()))
        );
    }

    #[test]
    fn a_script_has_no_place_in_a_scenario() {
        let names = |text| qsub(text, Wall(0)).map(|settings| settings.len());
        assert_eq!(names("-l select=2:ncpus=1 -l walltime=60 -N a"), Ok(3));
        assert_eq!(
            names("-l walltime=60 run.sh"),
            Err("no script and no command is named here".to_string())
        );
        assert_eq!(
            names("-I"),
            Err("there is no terminal here for -I".to_string())
        );
        assert_eq!(names("-y"), Err("invalid option -- 'y'".to_string()));
    }
}
