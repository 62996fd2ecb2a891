//! Runs a scenario to its end, and compares the result with its expectations.

use super::expectation::comparison::Course;
use super::expectation::{Difference, Expectation};
use super::scenario::{PlannedSubmission, Scenario, ScenarioEvent};
use super::schedule;
use super::world::World;
use crate::model::time::{Span, Time};
use std::collections::BTreeMap;

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The expectations that were not met.
    pub differences: Vec<Difference>,
    /// The attempts and waiting jobs, as a table.
    pub schedule: String,
}

/// Runs a scenario. Equal scenarios give equal reports.
pub fn play(scenario: &Scenario) -> CheckReport {
    let mut play = Play::new(scenario);
    while play.step() {}
    play.check_before(None);
    play.check_rest();
    let schedule = schedule::table(&play.world, scenario.zero);
    CheckReport {
        differences: play.differences,
        schedule,
    }
}

struct Play<'a> {
    scenario: &'a Scenario,
    world: World,
    /// The remaining submissions and events, the next one last.
    jobs: Vec<&'a (Span, PlannedSubmission)>,
    events: Vec<&'a (Span, ScenarioEvent)>,
    /// The remaining expectations with a time.
    timed: Vec<&'a Expectation>,
    /// The messages that refused submissions, by job number.
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

    /// Advances to the next instant with an event. Returns false if there is none.
    fn step(&mut self) -> bool {
        let Some(now) = self.next() else { return false };
        self.check_before(Some(now));
        self.world.reach(now);
        while let Some((_, event)) = self
            .events
            .pop_if(|(at, _)| self.scenario.zero + *at <= now)
        {
            self.carry_out(event);
        }
        while let Some((_, planned)) = self.jobs.pop_if(|(at, _)| self.scenario.zero + *at <= now) {
            self.submit(planned);
        }
        let decided = self.world.decide();
        decided.is_ok() || self.fault(decided.err().unwrap_or_default())
    }

    fn next(&self) -> Option<Time> {
        let zero = self.scenario.zero;
        let job = self.jobs.last().map(|(at, _)| zero + *at);
        let event = self.events.last().map(|(at, _)| zero + *at);
        let ahead = job.is_some() || event.is_some() || !self.timed.is_empty();
        // Recurring reservations have infinitely many events, which count only while something
        // else is left.
        let own = if ahead || !self.world.is_over() {
            self.world.next()
        } else {
            None
        };
        let next = [job, event, own].into_iter().flatten().min();
        next.filter(|next| *next <= zero + self.scenario.until)
    }

    /// Records a plan that cannot be carried out, and ends the run.
    fn fault(&mut self, why: String) -> bool {
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
        let result = actions.try_for_each(|deed| self.world.act(event.user.as_deref(), deed));
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

    /// Checks the expectations for times before this one; all with a time if None.
    fn check_before(&mut self, before: Option<Time>) {
        let zero = self.scenario.zero;
        let is_past = |expectation: &mut &Expectation| {
            let at = zero + expectation.at.unwrap_or_default();
            before.is_none_or(|before| at < before)
        };
        while let Some(expectation) = self.timed.pop_if(is_past) {
            let found = expectation.differences(&self.course());
            self.differences.extend(found);
        }
    }

    /// Checks the expectations without a time, and that the other submissions were accepted.
    fn check_rest(&mut self) {
        for expectation in self
            .scenario
            .expectations
            .iter()
            .filter(|expectation| expectation.at.is_none())
        {
            let found = expectation.differences(&self.course());
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

    fn course(&self) -> Course<'_> {
        Course {
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
    /// Whether all expectations were met.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty()
    }

    /// The unmet expectations by line, and the schedule below them.
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
