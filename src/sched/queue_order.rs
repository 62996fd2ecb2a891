//! The queue as a cycle looks at it: every waiting job with its place and what it is worth (I12).

use super::merit::Merit;
use super::snapshot::{Class, ClassId, Place, State};
use super::yardstick::Yardstick;
use crate::model::job::JobId;
use crate::model::policy::Policy;
use crate::model::time::Time;
use crate::model::turn::{Neighbours, Turn};
use crate::model::worth::Worth;
use std::collections::BTreeMap;

/// All waiting jobs in the order in which they are looked at, an array once.
pub struct QueueOrder<'s> {
    state: &'s State,
    yardstick: Yardstick<'s>,
    /// First who asks for a reservation (M1), then who is worth most, then who came first.
    seats: Vec<Seat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    is_unreserved: bool,
    merit: Merit,
    place: Place,
    class: ClassId,
}

impl<'s> QueueOrder<'s> {
    /// The order at a moment, under a policy.
    pub fn of(state: &'s State, policy: &'s Policy, now: Time) -> QueueOrder<'s> {
        let yardstick = Yardstick::new(state, policy, now);
        let mut seats: Vec<Seat> = state.classes.values().flat_map(|class| seats(class, &yardstick)).collect();
        seats.sort_unstable();
        QueueOrder { state, yardstick, seats }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The places, first to last.
    pub fn turns(&self) -> impl Iterator<Item = Turn> {
        (0..self.len()).filter_map(|at| self.turn(at))
    }

    /// The places of these jobs, each with those next to it, in the order of the queue; an element has that
    /// of its array. Who does not wait is left out.
    pub fn places_of(&self, jobs: &[JobId]) -> Vec<Neighbours> {
        let mut wanted: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        for &job in jobs.iter().filter(|job| self.state.class_of(**job).is_some()) {
            let seated = if self.state.jobs.contains_key(&job) { Some(job) } else { job.parent() };
            seated.into_iter().for_each(|seated| wanted.entry(seated).or_default().push(job));
        }
        let seats = self.seats.iter().enumerate();
        let found = seats.filter_map(|(at, seat)| Some((at, wanted.get(&seat.place.1)?)));
        found.flat_map(|(at, jobs)| jobs.iter().filter_map(move |&job| self.neighbours(at, job))).collect()
    }

    fn neighbours(&self, at: usize, job: JobId) -> Option<Neighbours> {
        let mut own = self.turn(at)?;
        own.worth.job = job;
        let above = at.checked_sub(1).and_then(|above| self.turn(above));
        Some(Neighbours { own, above, below: self.turn(at + 1) })
    }

    fn turn(&self, at: usize) -> Option<Turn> {
        let seat = self.seats.get(at)?;
        let class = &self.state.classes.get(&seat.class)?.key;
        let (job, merit) = (seat.place.1, seat.merit);
        let parts = self.yardstick.rate(class).parts(self.state.wait(job)?);
        Some(Turn {
            rank: at as u64 + 1,
            user: class.who.user.clone(),
            account: class.who.account.clone(),
            queue: class.who.queue.clone(),
            is_reserved: !seat.is_unreserved,
            worth: Worth { job, tier: merit.tier(), score: merit.score(), parts },
        })
    }
}

fn seats<'c>(class: &'c Class, yardstick: &'c Yardstick) -> impl Iterator<Item = Seat> {
    let (rating, id) = (yardstick.rate(&class.key), class.key.id);
    let is_unreserved = class.key.asks_for.is_none();
    class.jobs.keys().filter_map(move |&place| {
        let merit = rating.merit(yardstick.state.wait(place.1)?);
        Some(Seat { is_unreserved, merit, place, class: id })
    })
}

impl State {
    /// What these candidates are worth at a moment: what stays with them when they start (F9).
    pub fn scores(&self, policy: &Policy, now: Time, jobs: impl Iterator<Item = JobId>) -> BTreeMap<JobId, f64> {
        let mut jobs = jobs.peekable();
        if jobs.peek().is_none() {
            return BTreeMap::new();
        }
        let yardstick = Yardstick::new(self, policy, now);
        let score = |job| Some((job, yardstick.rate(self.waiting_class(job)?).merit(self.wait(job)?).score()));
        jobs.filter_map(score).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::{Order, Precedence};
    use crate::model::turn::Difference;
    use crate::sched::fixture::{Scene, cluster};

    /// Jobs that differ in all that may count.
    fn scene(order: Order) -> Scene {
        let mut scene = cluster("99 x ncpus=4").queued(1, "select=2:ncpus=1 walltime=60");
        scene = scene.owned("bob").queued(2, "select=1:ncpus=4 walltime=600 qos=expedite");
        scene =
            scene.queued(3, "select=1:ncpus=1 walltime=9 rank=0").queued(4, "select=7:ncpus=1 walltime=9 qos=standby");
        scene = scene.owned("eve").queued(5, "array=0-3 select=1:ncpus=2 walltime=60").at(1000);
        scene.policy.precedence =
            Precedence { order, formula: Some("nodect * 10 + walltime".to_string()), ..Precedence::default() };
        scene
    }

    fn order(scene: &Scene) -> Vec<u64> {
        let order = QueueOrder::of(&scene.state, &scene.policy, scene.now);
        order.turns().map(|turn| turn.worth.job.number).collect()
    }

    /// I12.
    #[test]
    fn the_queue_is_told_in_the_order_in_which_a_cycle_starts_jobs() {
        for by in [Order::Fcfs, Order::Priority, Order::Formula, Order::Multifactor] {
            let scene = scene(by);
            let mut started: Vec<u64> = scene.plan().starts.iter().map(|start| start.job.number).collect();
            started.dedup();
            assert_eq!((order(&scene), started.len()), (started, 5), "{by:?}");
        }
        assert_eq!(order(&scene(Order::Formula)), [2, 1, 4, 5, 3]);
    }

    #[test]
    fn ranks_and_worths_are_those_of_the_jobs() {
        let scene = scene(Order::Multifactor);
        for (at, turn) in QueueOrder::of(&scene.state, &scene.policy, scene.now).turns().enumerate() {
            assert_eq!(turn.rank, at as u64 + 1);
            assert_eq!(scene.state.worth(&scene.policy, scene.now, turn.worth.job), Some(turn.worth));
        }
    }

    #[test]
    fn a_job_is_told_with_who_is_next_to_it_and_what_differs() {
        let scene = scene(Order::Formula);
        let queue = QueueOrder::of(&scene.state, &scene.policy, scene.now);
        let jobs = [JobId::job(3), JobId::element(5, 2), JobId::job(2), JobId::job(77)];
        let told: Vec<_> = queue.places_of(&jobs);
        let ids = |turn: &Option<Turn>| turn.as_ref().map(|turn| (turn.rank, turn.worth.job.number));
        let shown: Vec<_> =
            told.iter().map(|told| (ids(&told.above), told.own.worth.job, told.own.rank, ids(&told.below))).collect();
        assert_eq!(
            shown,
            [
                (None, JobId::job(2), 1, Some((2, 1))),
                (Some((3, 4)), JobId::element(5, 2), 4, Some((5, 3))),
                (Some((4, 5)), JobId::job(3), 5, None),
            ]
        );
        let differences = told[2].own.differences(told[2].above.as_ref().unwrap());
        assert!(
            matches!(&differences[..], [Difference::Part(own, other)]
            if (own.name.as_str(), own.factor, other.factor) == ("walltime", 9.0, 60.0)),
            "{differences:?}"
        );
    }

    #[test]
    fn who_starts_keeps_what_it_was_worth() {
        let scene = scene(Order::Formula);
        let jobs = [JobId::job(2), JobId::element(5, 1), JobId::job(77)];
        let scores = scene.state.scores(&scene.policy, scene.now, jobs.into_iter());
        assert_eq!(scores, [(JobId::job(2), 610.0), (JobId::element(5, 1), 70.0)].into());
    }
}
