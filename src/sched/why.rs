//! Why does this job wait? What the cycle says of it, and what the forecast makes of that: nothing is
//! stored, all is found out again by the same functions that decide.

use super::cycle;
use super::forecast::Outlook;
use super::snapshot::State;
use crate::model::job::JobId;
use crate::model::outlook::{Explanation, Foreseen, Occupant, Prospect};
use crate::model::policy::Policy;
use crate::model::time::Time;

/// Explains a job that waits; None for one that is no candidate. `outlook` is a forecast from the
/// same state and moment. Who passed the job is not known here.
pub fn explain(state: &State, policy: &Policy, now: Time, job: JobId, outlook: &Outlook) -> Option<Explanation> {
    let class = state.class_of(job)?;
    let plan = cycle::run(state, policy, now);
    let is_meant = |id: JobId| id == job || (job.is_array() && id.parent() == Some(job));
    let starts = plan.starts.iter().any(|start| is_meant(start.job));
    let said = state.classes.get(&class).and_then(|class| plan.verdict(&class.key)).cloned();
    let prospect = outlook.of(job).map_or(Prospect::Beyond, |foreseen| foreseen.prospect.clone());
    let place = outlook.starts.iter().position(|foreseen| is_meant(foreseen.job));
    let mut occupants = occupants(state, &prospect);
    let more = occupants.len().saturating_sub(Explanation::MOST) as u64;
    occupants.truncate(Explanation::MOST);
    Some(Explanation {
        job,
        reason: said.filter(|_| !starts),
        ahead: ahead(&outlook.starts, place),
        prospect,
        horizon: outlook.horizon,
        occupants,
        more,
        overtakers: Vec::new(),
    })
}

/// How many jobs start before the one at this place, or were seen to start at all.
fn ahead(starts: &[Foreseen], place: Option<usize>) -> u64 {
    place.unwrap_or(starts.len()) as u64
}

/// The running jobs that are over when the job starts, on the nodes that it gets; soonest end first.
fn occupants(state: &State, prospect: &Prospect) -> Vec<Occupant> {
    let Prospect::Starts { at, nodes, .. } = prospect else { return Vec::new() };
    let occupant = |&(end, job): &(Time, JobId)| {
        let held = state.running.get(&job).into_iter().flat_map(|running| &running.nodes);
        let held = held.map(|&ix| state.cluster.node(ix).name.clone());
        let shared: Vec<String> = held.filter(|name| nodes.contains(name)).collect();
        (!shared.is_empty()).then_some(Occupant { job, end, nodes: shared })
    };
    state.ends.iter().take_while(|(end, _)| end <= at).filter_map(occupant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outlook::Horizon;
    use crate::sched::fixture::{Scene, cluster};
    use crate::sched::forecast::{self, Budget};

    fn explained(scene: &Scene, job: u64) -> Explanation {
        let outlook = forecast::run(scene.state.clone(), &scene.policy, scene.now, Budget::default());
        explain(&scene.state, &scene.policy, scene.now, JobId::job(job), &outlook).unwrap()
    }

    #[test]
    fn a_blocked_job_is_told_whose_ends_it_waits_for() {
        let scene = cluster("3 x ncpus=4")
            .running(1, "select=1:ncpus=4", "n1", 100)
            .running(2, "select=1:ncpus=4", "n2", 50)
            .running(3, "select=1:ncpus=4", "n3", 500)
            .queued(4, "select=2:ncpus=4 walltime=60")
            .queued(5, "select=1:ncpus=4 walltime=10");
        let why = explained(&scene, 4);
        assert_eq!((why.reason.unwrap().code(), why.ahead, why.more), ("busy", 1, 0));
        let occupant =
            |job, end, node: &str| Occupant { job: JobId::job(job), end: Time(end), nodes: vec![node.into()] };
        assert_eq!(why.occupants, [occupant(2, 50_000, "n2"), occupant(1, 100_000, "n1")]);
        assert!(matches!(why.prospect, Prospect::Starts { at: Time(100_000), .. }));
    }

    #[test]
    fn a_job_that_starts_now_has_no_reason_and_one_that_never_does_no_start() {
        let scene = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=1").queued(2, "select=1:ncpus=9");
        assert_eq!(explained(&scene, 1).reason, None);
        let why = explained(&scene, 2);
        assert_eq!(why.prospect, Prospect::Waits(why.reason.clone().unwrap()));
        assert_eq!(
            why.horizon,
            Horizon { from: Time(0), until: why.horizon.until, cycles: why.horizon.cycles, is_whole: true }
        );
        let outlook = forecast::run(scene.state.clone(), &scene.policy, scene.now, Budget::default());
        assert_eq!(explain(&scene.state, &scene.policy, scene.now, JobId::job(9), &outlook), None);
    }

    #[test]
    fn no_more_jobs_are_named_than_fit_on_a_screen() {
        let mut scene = cluster("1 x ncpus=30");
        for job in 1..=30 {
            scene = scene.running(job, "select=1:ncpus=1", "n1", 100);
        }
        let why = explained(&scene.queued(99, "select=1:ncpus=30"), 99);
        assert_eq!((why.occupants.len(), why.more), (Explanation::MOST, 10));
    }

    #[test]
    fn an_array_is_explained_by_the_first_of_its_elements() {
        let scene = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=2 walltime=60");
        let scene = scene.queued(2, "select=1:ncpus=2 walltime=60 array=1-2");
        let outlook = forecast::run(scene.state.clone(), &scene.policy, scene.now, Budget::default());
        let of = |id| explain(&scene.state, &scene.policy, scene.now, id, &outlook).unwrap();
        let array = of(JobId::array(2));
        assert_eq!((array.reason, array.ahead), (None, 1));
        assert!(matches!(array.prospect, Prospect::Starts { at: Time(0), .. }));
        let last = of(JobId::element(2, 2));
        assert_eq!((last.reason.map(|reason| reason.code()), last.ahead), (Some("busy"), 2));
        let wide = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=4 walltime=60");
        let wide = wide.queued(2, "select=1:ncpus=2 walltime=60 array=1-2");
        let outlook = forecast::run(wide.state.clone(), &wide.policy, wide.now, Budget::default());
        let waits = explain(&wide.state, &wide.policy, wide.now, JobId::array(2), &outlook).unwrap();
        assert!(matches!(waits.prospect, Prospect::Starts { at: Time(60_000), .. }) && waits.ahead == 1);
        assert_eq!((explained(&scene, 1).reason, explained(&scene, 1).ahead), (None, 0));
    }
}
