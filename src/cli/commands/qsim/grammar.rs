//! PBS command lines in scenarios, parsed by the parsers of the commands.

use crate::cli::arguments::job_options::SubmissionPlace;
use crate::cli::arguments::reservations::ReservationName;
use crate::cli::arguments::{directives, getopt};
use crate::cli::client::exit::Failure;
use crate::cli::client::operand::Operand;
use crate::cli::commands::job_command::{self, JobCommand};
use crate::cli::commands::{
    pbs_rdel, pbs_rsub, qalter, qdel, qhold, qmove, qorder, qrerun, qrls, qrun, qsig, qsub,
};
use crate::model::attribute::AttributeSetting;
use crate::model::job::suspend::SuspendRequest;
use crate::model::time::Wall;
use crate::sim::scenario::Grammar;
use crate::sim::world::act::WorldAction;
use crate::wire::batch::Act;
use crate::wire::message::Placing;
use clap::FromArgMatches;
use std::ffi::OsString;
use std::path::Path;

/// The grammar of PBS's commands.
pub const GRAMMAR: Grammar = Grammar { qsub, act };

/// The name of the host in scenarios.
const HOST: &str = "sim";

fn place(now: Wall) -> SubmissionPlace<'static> {
    SubmissionPlace {
        workdir: Path::new("/"),
        host: HOST,
        now,
        host_exists: |_| true,
    }
}

fn qsub(text: &str, now: Wall) -> Result<Vec<AttributeSetting>, String> {
    let settings =
        directives::words(text.as_bytes()).and_then(|words| qsub::settings(words, &place(now)));
    settings.map_err(|failure| message("qsub", &failure))
}

/// The message of a failure, or a general message if the command prints only its usage.
fn message(command: &str, failure: &Failure) -> String {
    match failure.text.trim() {
        "" => format!("{command} does not accept these arguments"),
        text => text.to_string(),
    }
}

fn act(text: &str, now: Wall) -> Option<Result<Vec<WorldAction>, String>> {
    let mut words = match directives::words(text.as_bytes()) {
        Ok(words) => words,
        Err(failure) => return Some(Err(message("the command line", &failure))),
    };
    if words.is_empty() {
        return None;
    }
    let command = words.remove(0);
    let command = command.to_str()?;
    let actions = match command {
        "qhold" => acts::<qhold::QholdArgs>(words),
        "qrls" => acts::<qrls::QrlsArgs>(words),
        "qdel" => acts::<qdel::QdelArgs>(words),
        "qalter" => alter(words, now),
        "qrerun" => acts::<qrerun::QrerunArgs>(words),
        "qsig" => suspend(words),
        "qrun" => run(words),
        "qmove" => acts::<qmove::QmoveArgs>(words),
        "qorder" => swap(words),
        "pbs_rsub" => reserve(words, now),
        "pbs_rdel" => unreserve(words),
        _ => return None,
    };
    Some(actions.map_err(|failure| message(command, &failure)))
}

type ScenarioActions = Result<Vec<WorldAction>, Failure>;

fn read<T: FromArgMatches>(mut command: clap::Command, words: Vec<OsString>) -> Result<T, Failure> {
    getopt::read_matches(&getopt::matches(&mut command, words)?)
}

fn read_jobs<C: JobCommand>(words: Vec<OsString>) -> Result<C, Failure> {
    read(job_command::command::<C>(), words)
}

/// The actions of a command that sends the same requests for each of its jobs.
fn acts<C: JobCommand>(words: Vec<OsString>) -> ScenarioActions {
    let args: C = read_jobs(words)?;
    actions_on_each(args.jobs(), args.requests()?)
}

fn alter(words: Vec<OsString>, now: Wall) -> ScenarioActions {
    let args: qalter::QalterArgs = read_jobs(words)?;
    actions_on_each(args.jobs(), qalter::acts(&args, &place(now))?)
}

/// The actions of `qsig`. A scenario accepts only the signals that the scheduler handles.
fn suspend(words: Vec<OsString>) -> ScenarioActions {
    let args: qsig::QsigArgs = read_jobs(words)?;
    let acts = args.requests()?;
    for act in &acts {
        if !matches!(act, Act::Signal(name) if SuspendRequest::named(name).is_some()) {
            return Err(Failure::usage(
                "qsig in a scenario sends only suspend, resume, admin-suspend and admin-resume",
            ));
        }
    }
    actions_on_each(args.jobs(), acts)
}

fn run(words: Vec<OsString>) -> ScenarioActions {
    let args: qrun::QrunArgs = read_jobs(words)?;
    let acts = args.requests()?;
    for act in &acts {
        let Act::Run { on, .. } = act else { continue };
        if *on == Placing::Again {
            return Err(Failure::usage(
                "-H - is not supported in scenarios: name the nodes, such as -H n1+n2",
            ));
        }
    }
    actions_on_each(args.jobs(), acts)
}

fn swap(words: Vec<OsString>) -> ScenarioActions {
    let args: qorder::QorderArgs = read(qorder::command(), words)?;
    Ok(vec![WorldAction::Swap(
        Operand::parse(&args.one)?.id(),
        Operand::parse(&args.other)?.id(),
    )])
}

fn reserve(words: Vec<OsString>, now: Wall) -> ScenarioActions {
    let args: pbs_rsub::PbsRsubArgs = read(pbs_rsub::command(), words)?;
    if args.rule.is_some() || args.of_job {
        return Err(Failure::new(
            1,
            "scenarios support neither -r nor --job: use [[reservation]] in config",
        ));
    }
    Ok(vec![WorldAction::Reserve(Box::new(
        args.request(now, None)?,
    ))])
}

fn unreserve(words: Vec<OsString>) -> ScenarioActions {
    let args: pbs_rdel::PbsRdelArgs = read(pbs_rdel::command(), words)?;
    args.reservations
        .iter()
        .map(|operand| {
            Ok(WorldAction::Unreserve(
                ReservationName::parse(operand)?.local(HOST),
            ))
        })
        .collect()
}

/// The actions for all requests: the first request for each job, then the next request.
fn actions_on_each(jobs: &[OsString], acts: Vec<Act>) -> ScenarioActions {
    let mut actions = Vec::new();
    for act in acts {
        for job in jobs {
            let operand = Operand::parse(job)?;
            actions.push(WorldAction::Act(act.clone(), operand.id(), operand.only()));
        }
    }
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::state::Holds;
    use crate::model::job_id::JobId;

    #[test]
    fn commands_are_parsed_as_in_a_shell() {
        let acted = |text| act(text, Wall(0)).unwrap().unwrap();
        assert_eq!(
            acted("qhold 3 4"),
            [3, 4].map(|id| WorldAction::Act(Act::Hold(Holds::USER), JobId::job(id), None))
        );
        assert_eq!(
            acted("qdel 3[2-4]"),
            [WorldAction::Act(
                Act::Delete {
                    force: false,
                    purge: false
                },
                JobId::array(3),
                Some("2-4".parse().unwrap())
            )]
        );
        let walltime = AttributeSetting::resource("walltime", "1:00");
        assert_eq!(
            acted("qalter -l walltime=1:00 3"),
            [WorldAction::Act(
                Act::Alter(vec![walltime]),
                JobId::job(3),
                None
            )]
        );
        assert_eq!(
            acted("qalter --retry 3[2]"),
            [WorldAction::Act(Act::Retry, JobId::element(3, 2), None)]
        );
        assert!(
            act("qalter --retry -N x 3", Wall(0))
                .unwrap()
                .unwrap_err()
                .contains("with other options")
        );
        assert_eq!(acted("qrun -H n1+n2 3").len(), 1);
        assert_eq!(
            acted("qmove night 3"),
            [WorldAction::Act(
                Act::Move("night".to_string()),
                JobId::job(3),
                None
            )]
        );
        assert_eq!(
            acted("pbs_rdel R1.sim"),
            [WorldAction::Unreserve("R1".to_string())]
        );
        assert!(matches!(
            &acted("pbs_rsub -D 60 -E 0100 -l ncpus=1")[..],
            [WorldAction::Reserve(_)]
        ));
        assert!(
            act("pbs_rsub -D 60 -r FREQ=DAILY", Wall(0))
                .unwrap()
                .unwrap_err()
                .contains("support neither")
        );
        assert_eq!(act("node-down n1", Wall(0)), None);
        assert_eq!(
            act("qhold -h x 3", Wall(0)),
            Some(Err("illegal -h value".to_string()))
        );
    }

    #[test]
    fn scripts_and_terminals_are_refused_in_scenarios() {
        let names = |text| qsub(text, Wall(0)).map(|settings| settings.len());
        assert_eq!(names("-l select=2:ncpus=1 -l walltime=60 -N a"), Ok(3));
        assert_eq!(
            names("-l walltime=60 run.sh"),
            Err("scripts and commands are not allowed in scenarios".to_string())
        );
        assert_eq!(
            names("-I"),
            Err("-I is not allowed in scenarios: there is no terminal".to_string())
        );
        assert_eq!(names("-y"), Err("invalid option -- 'y'".to_string()));
    }
}
