//! The configured limits and how much of each limit is used (P9), computed on demand with the
//! counters of a cycle.

use crate::model::limit::usage::LimitUse;
use crate::model::limit::{Limit, LimitKey, LimitStage, Selector};
use crate::model::policy::Policy;
use crate::model::time::Time;
use crate::sched::cycle::eligibility;
use crate::sched::cycle::limits::LimitCounters;
use crate::sched::cycle::state::CycleState;
use crate::sched::placement::resolution::Resolved;
use crate::sched::view::class::Class;
use crate::sched::view::eligible::Eligible;
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;

/// The use of every limit, in the order of the configuration. A limit on each user (or queue,
/// account and so on) has one entry for each user with waiting jobs, or with jobs that count
/// towards the limit. All other limits have one entry, even without jobs.
///
/// Of the waiting jobs, only those that a cycle can consider are counted here. Held jobs, jobs
/// that wait for their start time, and jobs with unmet dependencies are not counted, although
/// `queued` and `waiting` limits count them at submission.
pub fn limits_in_force(state: &ClusterState, policy: &Policy, now: Time) -> Vec<LimitUse> {
    if policy.limits.all.is_empty() {
        return Vec::new();
    }
    let state = &*state.prioritised(policy, now);
    let resolved = Resolved::new(state, policy, now);
    let mut all = Vec::new();
    for (_, stage) in LimitStage::ALL {
        if let Some(in_force) = InForce::new((state, policy, &resolved), stage, now) {
            all.extend(in_force.uses());
        }
    }
    all.sort_by(|a, b| (a.place, &a.key).cmp(&(b.place, &b.key)));
    all
}

/// The limits on a stage, such as running or queued, with counters.
struct InForce<'s> {
    state: &'s ClusterState,
    policy: &'s Policy,
    stage: LimitStage,
    counters: LimitCounters<'s>,
    eligible: Eligible,
}

impl<'s> InForce<'s> {
    /// The limits on a stage, with all jobs that count towards them; None if no limit is on the
    /// stage.
    fn new(
        view: (&'s ClusterState, &'s Policy, &'s Resolved),
        stage: LimitStage,
        now: Time,
    ) -> Option<InForce<'s>> {
        let (state, policy, resolved) = view;
        if stage == LimitStage::Idle {
            let mut cycle = CycleState::open(state, policy, resolved, now);
            let (eligible, counters) =
                eligibility::list_with_counters(policy, resolved, &mut cycle)?;
            return Some(InForce {
                state,
                policy,
                stage,
                counters,
                eligible,
            });
        }
        let mut counters = LimitCounters::blank(state, policy, stage, now)?;
        if stage != LimitStage::Waiting {
            counters = counters.with_running();
        }
        if stage != LimitStage::Running {
            for class in state.classes.values() {
                enter(class, &mut counters);
            }
        }
        Some(InForce {
            state,
            policy,
            stage,
            counters,
            eligible: Eligible::default(),
        })
    }

    fn uses(mut self) -> Vec<LimitUse> {
        for (place, limit) in self
            .policy
            .limits
            .all
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.stage == self.stage)
        {
            if let Some(key) = named(limit) {
                self.counters.note(place, key);
            }
        }
        let counts = self.waits();
        let used = (0..self.counters.accounts().len())
            .map(|account| use_of(&self.counters, self.state, self.policy, account));
        used.zip(counts)
            .map(|(used, (waiting, barred))| LimitUse {
                waiting,
                barred,
                ..used
            })
            .collect()
    }

    /// For each counter, the number of waiting jobs to which its limit applies, and the number of
    /// these jobs that the limit stops. A limit on running jobs stops each job that would exceed
    /// the soft limit (if there is none, the hard limit) by starting next. A limit on idle jobs
    /// stops the jobs that the cycle does not consider. The second number is 0 for limits that are
    /// checked at submission.
    fn waits(&mut self) -> Vec<(u64, u64)> {
        let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for class in self.state.classes.values() {
            let jobs = waiting(class);
            for &account in &*self.counters.counters_of(&class.key.who) {
                let (all, barred) = counts.entry(account).or_default();
                *all += jobs;
                *barred += self.barred(account, class, jobs);
            }
        }
        (0..self.counters.accounts().len())
            .map(|account| counts.remove(&account).unwrap_or_default())
            .collect()
    }

    fn barred(&self, account: usize, class: &Class, jobs: u64) -> u64 {
        let bounds = self.counters.accounts()[account].bounds;
        match self.stage {
            LimitStage::Running
                if self
                    .counters
                    .exceeds(account, &class.key, bounds.soft_limit()) =>
            {
                jobs
            }
            LimitStage::Idle => self
                .eligible
                .count(class.key.id)
                .map_or(0, |listed| jobs.saturating_sub(listed)),
            LimitStage::Running | LimitStage::Queued | LimitStage::Waiting => 0,
        }
    }
}

/// Counts all jobs of a class (a set of interchangeable jobs).
fn enter(class: &Class, counters: &mut LimitCounters) {
    let jobs: Vec<_> = class
        .jobs()
        .map(|((_, job), _)| job)
        .take(LimitUse::MOST)
        .collect();
    let more = class.jobs().count() - jobs.len();
    counters.enter_many(&class.key, waiting(class), (&jobs, more as u64));
}

/// The key of a limit that has only one counter: a limit for named users (or queues, accounts and
/// so on), or for all jobs together. None for a limit on each user (or queue, account and so on).
fn named(limit: &Limit) -> Option<LimitKey> {
    let selectors = limit.scope.selectors().into_iter();
    selectors
        .filter(|selector| **selector != Selector::All)
        .map(|selector| match selector {
            Selector::Named(name) => Some(name.clone()),
            Selector::All | Selector::Each => None,
        })
        .collect()
}

fn waiting(class: &Class) -> u64 {
    class.jobs().map(|(_, waiting)| waiting.count()).sum()
}

fn use_of(
    counters: &LimitCounters,
    state: &ClusterState,
    policy: &Policy,
    account: usize,
) -> LimitUse {
    let account = &counters.accounts()[account];
    let (limit, count) = (
        &policy.limits.all[account.place],
        counters.count(account.place),
    );
    let figure = |amount| count.figure(amount, &state.cluster.catalog);
    let mut by: Vec<_> = account.jobs().take(LimitUse::MOST).collect();
    by.sort_unstable();
    LimitUse {
        place: account.place,
        limit: limit.clone(),
        key: account.key.clone(),
        used: figure(account.used),
        soft: account.bounds.soft.map(|soft| figure(count.most(soft))),
        hard: account.bounds.hard.map(|hard| figure(count.most(hard))),
        more: account.size() - by.len() as u64,
        by,
        waiting: 0,
        barred: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::sched::fixture::{TestCluster, cluster};

    /// The limits as text: `STAGE QUANTITY NAME: USED of SOFT/HARD by JOBS, REFUSED/WAITING`.
    fn lines(fixture: &TestCluster) -> Vec<String> {
        let all = limits_in_force(&fixture.state, &fixture.policy, fixture.now);
        let one = |one: &LimitUse| {
            let (stage, quantity, key) = (
                one.limit.stage.name(),
                one.limit.quantity.name(),
                one.key.join("/"),
            );
            let shown = |figure: &Option<crate::model::limit::usage::Figure>| {
                figure
                    .as_ref()
                    .map_or("-".to_string(), |figure| figure.shown.clone())
            };
            let by = one
                .by
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",");
            let more = if one.more > 0 {
                format!("+{}", one.more)
            } else {
                String::new()
            };
            let (used, soft, hard) = (&one.used.shown, shown(&one.soft), shown(&one.hard));
            format!(
                "{stage} {quantity} {key}: {used} of {soft}/{hard} by {by}{more}, {}/{}",
                one.barred, one.waiting
            )
        };
        all.iter().map(one).collect()
    }

    fn limited(limits: &str) -> TestCluster {
        let mut fixture = cluster("1 x ncpus=40:mem=64gb");
        fixture.policy.limits = Config::parse(limits).unwrap().effective_policy().limits;
        fixture
    }

    /// P9.
    #[test]
    fn each_limit_is_listed_with_its_use_and_the_number_of_refused_waiting_jobs() {
        let limits = "[[limit]]\nuser = \"*\"\nrunning = { jobs = 3, mem = \"6gb\" }\nrunning_soft = { jobs = 2 }\n\
                      queued = { jobs = 30 }\n[[limit]]\nqueue = \"night\"\nrunning = { nodes = 4 }\n";
        let fixture = limited(limits)
            .running(1, "select=2:ncpus=1:mem=1gb", "n1,n1", 60)
            .running(2, "select=1:ncpus=1:mem=3gb", "n1", 60)
            .queued(3, "select=1:ncpus=1:mem=1gb")
            .queued(4, "select=1:ncpus=1:mem=2gb")
            .queued(5, "select=1:ncpus=1:mem=2gb array=1-7");
        let expected = [
            "running jobs ann: 2 of 2/3 by 1,2, 9/9",
            "running mem ann: 5242880kb of -/6291456kb by 1,2, 8/9",
            "queued jobs ann: 11 of -/30 by 1,2,3,4,5[], 0/9",
            "running nodes night: 0 of -/4 by , 0/0",
        ];
        assert_eq!(lines(&fixture), expected);
        let many = (10..60).fold(limited(limits), |fixture, id| {
            fixture.queued(id, "select=1:ncpus=1")
        });
        assert!(
            lines(&many)[0].starts_with("running jobs ann: 0 of 2/3 by , 0/50"),
            "{:?}",
            lines(&many)
        );
        assert!(
            lines(&many).iter().any(
                |line| line.starts_with("queued jobs ann: 50 of") && line.contains("+30, 0/50")
            )
        );
    }

    /// M24.
    #[test]
    fn only_considered_jobs_count_towards_a_limit_on_idle_jobs() {
        let fixture = limited("[[limit]]\nuser = \"*\"\nidle = { jobs = 2 }\n")
            .queued(1, "select=1:ncpus=99");
        let fixture = (2..6).fold(fixture, |fixture, id| {
            fixture.queued(id, "select=1:ncpus=1")
        });
        assert_eq!(lines(&fixture), ["idle jobs ann: 2 of -/2 by 2,3, 2/5"]);
        let fixture =
            limited("[[limit]]\nidle = { ncpus = 5 }\n").queued(1, "select=1:ncpus=2 array=1-9");
        assert_eq!(lines(&fixture), ["idle ncpus : 4 of -/5 by 1[1],1[2], 7/9"]);
    }

    /// M21: limits on `procseconds` and `seconds` count the remaining use of running jobs.
    #[test]
    fn the_remaining_use_of_running_jobs_decreases_until_their_ends() {
        let limits =
            "[[limit]]\nuser = \"*\"\nrunning = { procseconds = 57600, seconds = 30000, pe = 7 }\n";
        let fixture = limited(limits)
            .running(1, "select=1:ncpus=4", "n1", 3600)
            .running(2, "select=1:ncpus=1:mem=4gb", "n1", 21600)
            .queued(3, "select=1:ncpus=1 walltime=1:00:00");
        let used = |at: i64| {
            limits_in_force(&fixture.state, &fixture.policy, Time(at * 1000))
                .into_iter()
                .map(|one| one.used)
        };
        let shown = |at| used(at).map(|used| used.shown).collect::<Vec<_>>();
        assert_eq!(
            [shown(0), shown(600)],
            [["6.500", "36000", "25200"], ["6.500", "33000", "24000"]]
        );
        assert_eq!(shown(7200), ["6.500", "14400", "14400"], "job 1 is overdue");
    }
}
