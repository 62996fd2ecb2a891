//! Runs a scenario to its end, and compares the result with its expectations.

use super::expectation::comparison::ScenarioState;
use super::expectation::{Difference, Expectation};
use super::scenario::{PlannedSubmission, Scenario, ScenarioEvent};
use super::schedule;
use super::world::World;
use crate::model::time::{Span, Time};
use std::collections::BTreeMap;

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The differences between the expected and the actual results, including unexpected refusals
    /// and an error of the scheduler.
    pub differences: Vec<Difference>,
    /// The attempts, and the jobs without attempts, as a table (see [`schedule::table`]).
    pub schedule: String,
}

/// Runs a scenario. Equal scenarios give equal reports.
pub fn play(scenario: &Scenario) -> CheckReport {
    let mut play = Play::new(scenario);
    while play.step() {}
    play.check_before(None);
    play.check_untimed();
    let schedule = schedule::table(&play.world, scenario.zero);
    CheckReport {
        differences: play.differences,
        schedule,
    }
}

/// A scenario while it runs.
struct Play<'a> {
    scenario: &'a Scenario,
    world: World,
    /// The remaining submissions; the next submission is the last element.
    jobs: Vec<&'a (Span, PlannedSubmission)>,
    /// The remaining events; the next event is the last element.
    events: Vec<&'a (Span, ScenarioEvent)>,
    /// The remaining expectations with a time; the next expectation is the last element.
    timed: Vec<&'a Expectation>,
    /// The messages of refused submissions, by job number.
    refused: BTreeMap<u64, String>,
    differences: Vec<Difference>,
}

impl<'a> Play<'a> {
    fn new(scenario: &'a Scenario) -> Play<'a> {
        let mut jobs: Vec<_> = scenario.jobs.iter().collect();
        let mut events: Vec<_> = scenario.events.iter().collect();
        let mut timed: Vec<_> = scenario
            .expectations
            .iter()
            .filter(|expectation| expectation.at.is_some())
            .collect();
        // The sort is stable: entries of the same time keep the file's order. The lists are
        // reversed because entries are taken from the end.
        jobs.sort_by_key(|(at, _)| *at);
        events.sort_by_key(|(at, _)| *at);
        timed.sort_by_key(|expectation| expectation.at);
        jobs.reverse();
        events.reverse();
        timed.reverse();
        let world = world(scenario);
        Play {
            scenario,
            world,
            jobs,
            events,
            timed,
            refused: BTreeMap::new(),
            differences: Vec::new(),
        }
    }

    /// Advances to the next instant with an event. Returns false if the scenario has ended, or if
    /// the scheduler has failed.
    fn step(&mut self) -> bool {
        let Some(now) = self.next_instant() else {
            return false;
        };
        self.check_before(Some(now));
        self.world.advance_to(now);
        while let Some((_, event)) = self
            .events
            .pop_if(|(at, _)| self.scenario.zero + *at <= now)
        {
            self.carry_out(event);
        }
        while let Some((_, planned)) = self.jobs.pop_if(|(at, _)| self.scenario.zero + *at <= now) {
            self.submit(planned);
        }
        let decided = self.world.run_scheduler();
        decided.is_ok() || self.record_error(decided.err().unwrap_or_default())
    }

    fn next_instant(&self) -> Option<Time> {
        let zero = self.scenario.zero;
        let job = self.jobs.last().map(|(at, _)| zero + *at);
        let event = self.events.last().map(|(at, _)| zero + *at);
        let ahead = job.is_some() || event.is_some() || !self.timed.is_empty();
        // Recurring reservations have infinitely many events. These events alone do not prolong
        // the scenario.
        let own = if ahead || !self.world.all_finished() {
            self.world.next()
        } else {
            None
        };
        let next = [job, event, own].into_iter().flatten().min();
        next.filter(|next| *next <= zero + self.scenario.until)
    }

    /// Records an error of the scheduler. Returns false, which ends the scenario.
    fn record_error(&mut self, why: String) -> bool {
        let what = "a plan that can be carried out".to_string();
        self.differences.push(Difference {
            line: 1,
            what: "plan".to_string(),
            expected: what,
            found: why,
        });
        false
    }

    fn carry_out(&mut self, event: &ScenarioEvent) {
        let mut actions = event.actions.iter();
        let result =
            actions.try_for_each(|action| self.world.perform(event.user.as_deref(), action));
        let (expected, found) = match (&event.refused, result) {
            (None, Ok(())) => return,
            (Some(part), Err(why)) if why.contains(part.as_str()) => return,
            (Some(part), Err(why)) => (
                format!("refused: ... {part} ..."),
                format!("refused: {why}"),
            ),
            (Some(part), Ok(())) => (format!("refused: ... {part} ..."), "done".to_string()),
            (None, Err(why)) => ("done".to_string(), format!("refused: {why}")),
        };
        self.differences.push(Difference {
            line: event.line,
            what: format!("event `{}`", event.text),
            expected,
            found,
        });
    }

    fn submit(&mut self, planned: &PlannedSubmission) {
        let submitted = planned.submission.clone();
        let submitted =
            submitted.and_then(|job| self.world.submit(job).map_err(|refusal| refusal.text));
        if let Err(why) = submitted {
            self.refused.insert(planned.number, why);
        }
    }

    /// Checks the remaining expectations for times before `before`, or all remaining expectations
    /// with a time if `before` is None.
    fn check_before(&mut self, before: Option<Time>) {
        let zero = self.scenario.zero;
        let is_past = |expectation: &mut &Expectation| {
            let at = zero + expectation.at.unwrap_or_default();
            before.is_none_or(|before| at < before)
        };
        while let Some(expectation) = self.timed.pop_if(is_past) {
            let found = expectation.differences(&self.state());
            self.differences.extend(found);
        }
    }

    /// Checks the expectations without a time. Also reports each refused submission of a job that
    /// no expectation names.
    fn check_untimed(&mut self) {
        for expectation in self
            .scenario
            .expectations
            .iter()
            .filter(|expectation| expectation.at.is_none())
        {
            let found = expectation.differences(&self.state());
            self.differences.extend(found);
        }
        for (_, planned) in &self.scenario.jobs {
            let number = planned.number;
            let mut expected = self.scenario.expectations.iter();
            if expected.any(|expectation| expectation.job.is_some_and(|job| job.number == number)) {
                continue;
            }
            if let Some(why) = self.refused.get(&number) {
                self.differences.push(Difference {
                    line: planned.line,
                    what: format!("job {number}: submission"),
                    expected: "accepted".into(),
                    found: format!("refused: {why}"),
                });
            }
        }
        self.differences.sort_by_key(|difference| difference.line);
    }

    fn state(&self) -> ScenarioState<'_> {
        ScenarioState {
            world: &self.world,
            zero: self.scenario.zero,
            refused: &self.refused,
        }
    }
}

fn world(scenario: &Scenario) -> World {
    let mut world = World::new(
        scenario.config.clone(),
        scenario.groups.clone(),
        scenario.zero,
    );
    for machine in &scenario.nodes {
        world.add_node(machine.facts.clone(), machine.up, machine.offline);
    }
    world
}

impl CheckReport {
    /// Whether there are no differences.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty()
    }

    /// The differences by line, and the schedule below them.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for Difference {
            line,
            what,
            expected,
            found,
        } in &self.differences
        {
            text += &format!(
                "  line {line}: {what}\n    expected  {expected}\n    found     {found}\n"
            );
        }
        text + "\n" + &self.schedule
    }
}
