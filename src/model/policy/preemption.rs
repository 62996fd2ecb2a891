//! `[preemption]`: who makes way for whom, and how (X12 to X15).

use crate::model::job::preemption::PreemptAction;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

named! {
    /// What makes running jobs give way to one that waits.
    PreemptTrigger {
        /// Who goes before them by cluster and priority (Q8).
        Qube = "qube",
        /// Whose quality of service preempts theirs (M43).
        Qos = "qos",
        /// Who is of a higher level (I20).
        Levels = "levels",
        /// Who has been below its fair share for too long (Y2).
        Starvation = "starvation",
    }
}

named! {
    /// When a job leaves that is preempted by cluster and priority (Q13).
    PreemptMode {
        /// A subjob at its end, a job that is not an array as [`NoAgenda`] says.
        Passive = "passive",
        /// At once.
        Aggressive = "aggressive",
        /// An element at its end if more of it is done than is left to do, else at once.
        Mixed = "mixed",
        /// Never.
        Disabled = "disabled",
    }
}

named! {
    /// When a preempted job that is not an array leaves, where subjobs may finish (Q13).
    NoAgenda {
        /// At once.
        Now = "now",
        /// At its end: all of it is its current work.
        Wait = "wait",
    }
}

named! {
    /// Who makes way first of those that may (X14); ties go to the newest, then to the highest id.
    Victims {
        /// Who started last.
        Newest = "newest",
        /// Who is worth least for each processor that becomes free (M44).
        Cheapest = "cheapest",
        /// Who is worth least.
        Worst = "worst_priority",
    }
}

named! {
    /// What puts a job into a level (I20).
    LevelCondition {
        /// Its queue has a priority of at least [`PreemptionPolicy::express`].
        Express = "express_queue",
        /// It had waited for longer than `max_starve` when it started, or has by now (I21).
        Starving = "starving_jobs",
        /// Whose it is has used more than their share; such a level lies below the normal one.
        FairShare = "fairshare",
        /// It is over a soft limit of its queue.
        QueueSoftLimits = "queue_softlimits",
        /// It is over a soft limit of the server.
        ServerSoftLimits = "server_softlimits",
        /// None of the others that the levels name.
        Normal = "normal_jobs",
    }
}

/// `[preemption]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptionPolicy {
    /// What makes jobs give way, in the order in which it is asked.
    pub triggers: Vec<PreemptTrigger>,
    /// Whether jobs make way where a node has less than its jobs have, or a limit is lower than
    /// what runs.
    pub repair: bool,
    /// When jobs make way under the trigger `qube`.
    pub mode: PreemptMode,
    /// The same for a job that is not an array.
    pub no_agenda: NoAgenda,
    /// Who makes way first.
    pub victims: Victims,
    /// How jobs make way.
    pub actions: Actions,
    /// Whether a command of the site writes down how far a job has come.
    pub checkpoints: bool,
    /// What a suspended job gives up until it goes on, by the names of resources.
    pub releases: Vec<String>,
    /// How long one that is ended is given; None for as long as others that are ended.
    pub grace: Option<Span>,
    /// How long one has that is told by a signal of its own to write down how far it has come
    /// (Y17).
    pub interruption: Span,
    /// How long a job is left alone once it has started; nor does it preempt for so long whom it
    /// made way for.
    pub exempt: Span,
    /// Whether a job that has made way goes before its equals (X25).
    pub boost: bool,
    /// The levels, the highest first.
    pub levels: Vec<Vec<LevelCondition>>,
    /// The priority from which on a queue is an express queue.
    pub express: i32,
}

impl Default for PreemptionPolicy {
    fn default() -> PreemptionPolicy {
        PreemptionPolicy {
            triggers: Vec::new(),
            repair: false,
            mode: PreemptMode::Passive,
            no_agenda: NoAgenda::Now,
            victims: Victims::Newest,
            actions: Actions::from(vec![PreemptAction::Requeue]),
            checkpoints: false,
            releases: vec!["ncpus".to_string()],
            grace: None,
            interruption: Span::seconds(10),
            exempt: Span(0),
            boost: false,
            levels: vec![vec![LevelCondition::Express], vec![LevelCondition::Normal]],
            express: 150,
        }
    }
}

impl PreemptionPolicy {
    /// With one trigger, and else as usual.
    pub fn by(trigger: PreemptTrigger) -> PreemptionPolicy {
        PreemptionPolicy {
            triggers: vec![trigger],
            ..PreemptionPolicy::default()
        }
    }

    /// Whether this trigger is asked.
    pub fn has(&self, trigger: PreemptTrigger) -> bool {
        self.triggers.contains(&trigger)
    }
}

/// How jobs make way: what is tried first, and what else; by how much of its walltime a job has
/// left. `SCR 80 SC 50 S` in PBS's `preempt_order`: by any of three ways while more than 80 percent
/// are left, by two while more than 50 are, else only suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Actions {
    /// What holds for all that no other stretch is for.
    first: Vec<PreemptAction>,
    /// From how many percent left downwards what holds, falling.
    below: Vec<(u8, Vec<PreemptAction>)>,
}

impl From<Vec<PreemptAction>> for Actions {
    fn from(first: Vec<PreemptAction>) -> Actions {
        Actions {
            first,
            below: Vec::new(),
        }
    }
}

impl Actions {
    /// PBS's own: suspended, else checkpointed, else put back.
    pub fn pbs() -> Actions {
        Actions::from(vec![
            PreemptAction::Suspend,
            PreemptAction::Checkpoint,
            PreemptAction::Requeue,
        ])
    }

    /// What is tried with a job that has so many percent of its walltime left; None for one without
    /// an end, which has everything left.
    pub fn of(&self, left: Option<f64>) -> &[PreemptAction] {
        let left = left.unwrap_or(100.0);
        let stretch = self
            .below
            .iter()
            .rev()
            .find(|(from, _)| left <= f64::from(*from));
        stretch.map_or(&self.first, |(_, actions)| actions)
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&codes(&self.first))?;
        for (from, actions) in &self.below {
            write!(f, " {from} {}", codes(actions))?;
        }
        Ok(())
    }
}

fn codes(actions: &[PreemptAction]) -> String {
    actions
        .iter()
        .filter_map(|action| action.letter())
        .collect()
}

/// The text is no list of actions: letters, with falling percentages between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "letters of {}, as \"SCR\", with falling percents of the walltime left between, \
     as \"SCR 80 SC 50 S\"",
    PreemptAction::order_characters()
)]
pub struct NoActions;

impl FromStr for Actions {
    type Err = NoActions;

    fn from_str(text: &str) -> Result<Actions, NoActions> {
        let mut words = text.split_ascii_whitespace();
        let first = actions(words.next().ok_or(NoActions)?)?;
        let (mut below, mut least) = (Vec::new(), 101);
        while let Some(word) = words.next() {
            let from: u8 = word.parse().map_err(|_| NoActions)?;
            if from >= least {
                return Err(NoActions);
            }
            least = from;
            below.push((from, actions(words.next().ok_or(NoActions)?)?));
        }
        Ok(Actions { first, below })
    }
}

/// The actions of a word of letters. No letter occurs twice.
fn actions(word: &str) -> Result<Vec<PreemptAction>, NoActions> {
    let mut actions = Vec::new();
    for letter in word.chars() {
        let action = PreemptAction::from_letter(letter).ok_or(NoActions)?;
        if actions.contains(&action) {
            return Err(NoActions);
        }
        actions.push(action);
    }
    Ok(actions)
}

impl TryFrom<String> for Actions {
    type Error = NoActions;

    fn try_from(text: String) -> Result<Actions, NoActions> {
        text.parse()
    }
}

impl From<Actions> for String {
    fn from(actions: Actions) -> String {
        actions.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I20.
    #[test]
    fn how_a_job_makes_way_goes_by_what_it_has_left() {
        let actions: Actions = "SCR 80 SC 50 S".parse().unwrap();
        let first = |left| actions.of(left).len();
        assert_eq!(
            [
                None,
                Some(81.0),
                Some(80.0),
                Some(51.0),
                Some(50.0),
                Some(0.0)
            ]
            .map(first),
            [3, 3, 2, 2, 1, 1]
        );
        assert_eq!(actions.to_string(), "SCR 80 SC 50 S");
        assert_eq!(Actions::from(vec![PreemptAction::Requeue]).to_string(), "R");
        for wrong in [
            "",
            "X",
            "SS",
            "S 50",
            "S 50 R 50 D",
            "S 101 R",
            "S 50 R 60 D",
        ] {
            assert!(wrong.parse::<Actions>().is_err(), "{wrong}");
        }
    }
}
