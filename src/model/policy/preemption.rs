//! `[preemption]`: which jobs preempt which, and by which actions (X12 to X15).

use crate::model::job::preemption::PreemptAction;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

named! {
    /// Trigger of preemption for a waiting job.
    PreemptTrigger {
        /// Precedence by cluster and priority (Q8).
        Qube = "qube",
        /// Quality of service that preempts others (M43).
        Qos = "qos",
        /// A preemption level above the level of the running job (I20).
        Levels = "levels",
        /// Starvation: a long time below the fair share (Y2).
        Starvation = "starvation",
    }
}

named! {
    /// Time at which a job releases its resources after preemption by the trigger `qube` (Q13).
    PreemptMode {
        /// A subjob: at its end. [`NoAgenda`] defines the time for other jobs.
        Passive = "passive",
        /// Immediately.
        Aggressive = "aggressive",
        /// A subjob: at its end if it has no walltime or at most half of its walltime is left,
        /// otherwise immediately. [`NoAgenda`] defines the time for other jobs.
        Mixed = "mixed",
        /// Never.
        Disabled = "disabled",
    }
}

named! {
    /// Time at which jobs other than subjobs release their resources after preemption by the
    /// trigger `qube` in mode `passive` or `mixed` (Q13).
    NoAgenda {
        /// Immediately.
        Now = "now",
        /// At the end of the job.
        Wait = "wait",
    }
}

named! {
    /// Order of preemption candidates (X14). Subjobs that were started above their array's own
    /// limit always come first (Q15). Equal candidates are ordered by the latest start, then by
    /// the highest id.
    Victims {
        /// Latest start first.
        Newest = "newest",
        /// Lowest priority per freed processor first (M44).
        Cheapest = "cheapest",
        /// Lowest priority first.
        Worst = "worst_priority",
    }
}

named! {
    /// Condition that places a job in a preemption level (I20).
    LevelCondition {
        /// The queue has a priority of at least [`PreemptionPolicy::express`].
        Express = "express_queue",
        /// The job has waited, or had waited before its start, for longer than `max_starve` (I21).
        Starving = "starving_jobs",
        /// The owner's usage exceeds the fair share. Sites usually list this condition after
        /// `normal_jobs`, so that these jobs have a lower level.
        FairShare = "fairshare",
        /// The job counts toward a soft limit in its queue, and the limit is exceeded.
        QueueSoftLimits = "queue_softlimits",
        /// The job counts toward a soft limit for all queues together, and the limit is exceeded.
        ServerSoftLimits = "server_softlimits",
        /// The job meets no other configured condition.
        Normal = "normal_jobs",
    }
}

/// Settings of `[preemption]`: triggers, candidates and actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptionPolicy {
    /// Triggers in the order of evaluation.
    pub triggers: Vec<PreemptTrigger>,
    /// True if running jobs are also preempted when a node has fewer resources than its jobs use,
    /// or when a limit is lowered below the usage.
    pub repair: bool,
    /// Time at which a job releases its resources after preemption by the trigger `qube`.
    pub mode: PreemptMode,
    /// Time at which jobs other than subjobs release their resources after preemption by the
    /// trigger `qube` in mode `passive` or `mixed`.
    pub no_agenda: NoAgenda,
    /// Order of preemption candidates.
    pub victims: Victims,
    /// Actions in the order in which they are tried.
    pub actions: Actions,
    /// True if the site has a checkpoint command.
    pub checkpoints: bool,
    /// Names of the resources that a suspended job releases until it resumes.
    pub releases: Vec<String>,
    /// Time between SIGTERM and SIGKILL for a preempted job; None if it is the same as for jobs
    /// that end for other reasons.
    pub grace: Option<Span>,
    /// Time within which a preempted job must end after its `interrupt` signal (Y17).
    pub interruption: Span,
    /// Time after the start of a job during which the job is not preempted.
    pub exempt: Span,
    /// True if a preempted job precedes waiting jobs of equal priority (X25).
    pub boost: bool,
    /// Preemption levels, the highest first. A job has the first level of which it meets all
    /// conditions.
    pub levels: Vec<Vec<LevelCondition>>,
    /// Minimum priority of an express queue.
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
    /// Returns the default policy with one trigger.
    pub fn by(trigger: PreemptTrigger) -> PreemptionPolicy {
        PreemptionPolicy {
            triggers: vec![trigger],
            ..PreemptionPolicy::default()
        }
    }

    /// Tests whether a trigger is enabled.
    pub fn has(&self, trigger: PreemptTrigger) -> bool {
        self.triggers.contains(&trigger)
    }
}

/// Preemption actions in the order in which they are tried, depending on the walltime left. In
/// PBS's `preempt_order`, `SCR 80 SC 50 S` allows three actions (suspend, checkpoint, requeue)
/// while more than 80 percent of the requested walltime are left, two while more than 50 percent
/// are left, and then only suspend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Actions {
    /// Actions while more of the requested walltime is left than the first percentage in `below`;
    /// if `below` is empty, the actions at any time.
    first: Vec<PreemptAction>,
    /// Percentages in falling order, each with the actions while at most this percentage of the
    /// requested walltime is left. The last entry that applies counts.
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
    /// Returns PBS's default: suspend, else checkpoint, else requeue.
    pub fn pbs() -> Actions {
        Actions::from(vec![
            PreemptAction::Suspend,
            PreemptAction::Checkpoint,
            PreemptAction::Requeue,
        ])
    }

    /// Returns the actions for a job with `left` percent of its walltime left. None (the job has
    /// no walltime) counts as 100.
    pub fn of(&self, left: Option<f64>) -> &[PreemptAction] {
        let left = left.unwrap_or(100.0);
        let entry = self
            .below
            .iter()
            .rev()
            .find(|(from, _)| left <= f64::from(*from));
        entry.map_or(&self.first, |(_, actions)| actions)
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

/// Error for a text that is not of the form `SCR 80 SC 50 S`: words of action letters, with
/// percentages from 100 to 0, in falling order, between the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "letters of {}, such as \"SCR\"; pairs of a percentage and letters may follow, such as \
     \"SCR 80 SC 50 S\": the letters of a pair apply once at most its percentage of the requested \
     walltime is left; the percentages must be in falling order",
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

/// Parses a word of action letters; an error if a letter occurs twice.
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
    fn preemption_actions_depend_on_the_walltime_left() {
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
