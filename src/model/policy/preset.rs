//! Presets: settings that reproduce the behavior of other schedulers. A key in `lanai.toml`
//! overrides the value of the preset.

use super::fair_share::{FairShare, Method, TieRule, UsageSubject};
use super::preemption::{Actions, NoAgenda, PreemptTrigger};
use super::{
    Availability, Backfill, Factors, Filling, OwnerPriorityRule, PlacementPolicy, Policy,
    Precedence, PreemptionPolicy, PriorityOrder, Starvation, UserPriority,
};
use crate::model::account::charge::UsageRules;
use crate::model::account::decay::Decay;
use crate::model::account::starvation::Boundary;
use crate::model::job::eligible_time::Accrual;
use crate::model::request::placement_policy::NodeAllocation;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Formula of IT4I (I2).
const IT4I: &str = "1000 * queue_priority + fairshare / 1000 + eligible_time / 864000";

named! {
    /// Name of a preset. Except for `hybrid`, a preset is named after the scheduler or site that it
    /// imitates.
    Preset {
        /// Lanai's own preset: favors short jobs that have waited long, and users below their fair
        /// share.
        Hybrid = "hybrid",
        /// Qube!: every job that fits starts; no bookings.
        Qube = "qube",
        /// Maui: first fit around a single booking; the measured usage of nodes counts, too.
        Maui = "maui",
        /// PBS Pro at IT4I.
        It4i = "it4i",
        /// YTsaurus: every job that fits starts.
        Ytsaurus = "ytsaurus",
        /// Flux.
        Flux = "flux",
    }
}

impl Preset {
    /// Returns the policy: the defaults with the settings of the preset.
    pub fn policy(self) -> Policy {
        let (mut backfill, mut placement) = (Backfill::default(), PlacementPolicy::default());
        match self {
            Preset::Qube | Preset::Ytsaurus => {
                (backfill.policy, backfill.depth) = (Filling::Skip, 0);
                // Jobs fill hosts in configuration order, each host before the next.
                placement.allocation = NodeAllocation::FirstAvailable;
            }
            Preset::Maui => {
                placement.availability = Availability::Combined;
                placement.allocation = NodeAllocation::LastAvailable;
            }
            Preset::Flux => placement.allocation = NodeAllocation::FirstAvailable,
            Preset::It4i | Preset::Hybrid => {}
        }
        Policy {
            precedence: self.precedence(),
            backfill,
            placement,
            fair_share: self.fair_share(),
            usage: UsageRules {
                decay: self.decay(),
                ..UsageRules::default()
            },
            accrual: self.accrual(),
            preemption: self.preemption(),
            starvation: self.starvation(),
            ..Policy::default()
        }
    }

    /// Returns the starvation settings. YTsaurus protects the allocation that crosses a threshold
    /// (Y6): a preempted operation then keeps its fair share and does not become starving.
    fn starvation(self) -> Starvation {
        let boundary = if self == Preset::Ytsaurus {
            Boundary::Keep
        } else {
            Boundary::Give
        };
        Starvation {
            boundary,
            ..Starvation::default()
        }
    }

    /// Returns the preemption settings. Preset `it4i` has no trigger; a site that adds a trigger
    /// gets PBS's order of actions.
    fn preemption(self) -> PreemptionPolicy {
        match self {
            Preset::Qube => PreemptionPolicy {
                no_agenda: NoAgenda::Wait,
                ..PreemptionPolicy::by(PreemptTrigger::Qube)
            },
            Preset::Maui => PreemptionPolicy::by(PreemptTrigger::Qos),
            Preset::It4i => PreemptionPolicy {
                actions: Actions::pbs(),
                ..PreemptionPolicy::default()
            },
            Preset::Ytsaurus => PreemptionPolicy {
                repair: true,
                ..PreemptionPolicy::by(PreemptTrigger::Starvation)
            },
            Preset::Flux | Preset::Hybrid => PreemptionPolicy::default(),
        }
    }

    /// Returns the order of jobs.
    fn precedence(self) -> Precedence {
        let mut precedence = match self {
            Preset::It4i => Precedence::by_formula(IT4I),
            _ => Precedence::default(),
        };
        match self {
            Preset::Flux => {
                precedence.weights = Factors::FLUX;
                precedence.update_period = Span::seconds(60);
            }
            Preset::Qube => precedence.order = PriorityOrder::Cluster,
            Preset::Maui => precedence.order = PriorityOrder::Components,
            Preset::Ytsaurus => precedence.order = PriorityOrder::Pool,
            Preset::Hybrid | Preset::It4i => {}
        }
        precedence.own_say = self.owner_priority_rule();
        precedence
    }

    /// Returns the maximum time between two cycles when no event occurs.
    pub fn poll_interval(self) -> Span {
        match self {
            Preset::It4i => Span::seconds(600),
            Preset::Ytsaurus => Span::seconds(1),
            Preset::Qube | Preset::Maui | Preset::Flux | Preset::Hybrid => Span::seconds(60),
        }
    }

    /// Returns the policy for eligible time (M17, X9). Preset `maui` has Maui's default; preset
    /// `flux` counts all waiting.
    fn accrual(self) -> Accrual {
        match self {
            Preset::Maui => Accrual::QueuePolicy,
            Preset::Flux => Accrual::Always,
            Preset::Qube | Preset::It4i | Preset::Ytsaurus | Preset::Hybrid => Accrual::Pbs,
        }
    }

    /// Returns the priorities that owners may set (X1, X22). In Qube the lowest number is the best
    /// priority; PBS lets owners set any priority.
    fn owner_priority_rule(self) -> OwnerPriorityRule {
        match self {
            Preset::Qube => OwnerPriorityRule {
                lowest_is_best: true,
                user_priority: UserPriority::Clamp,
                highest_user_priority: Some(1),
                ..OwnerPriorityRule::default()
            },
            Preset::It4i => OwnerPriorityRule {
                user_priority: UserPriority::Free,
                ..OwnerPriorityRule::default()
            },
            Preset::Maui | Preset::Ytsaurus | Preset::Flux | Preset::Hybrid => {
                OwnerPriorityRule::default()
            }
        }
    }

    /// Returns the decay of usage (X7).
    fn decay(self) -> Decay {
        match self {
            Preset::Hybrid | Preset::Flux => Decay::default(),
            Preset::It4i => Decay::Step {
                half_life: Decay::WEEK,
            },
            Preset::Maui => Decay::Window {
                length: Span::seconds(24 * 3600),
                count: 7,
                factor: 1.0,
            },
            Preset::Qube | Preset::Ytsaurus => Decay::None,
        }
    }

    /// Returns the fair-share settings (F11, F12, I3, M12).
    fn fair_share(self) -> FairShare {
        let default = FairShare::default();
        match self {
            Preset::Qube | Preset::Ytsaurus => FairShare {
                method: Method::Off,
                ..default
            },
            Preset::Maui => FairShare {
                method: Method::Target,
                ..default
            },
            Preset::It4i => FairShare {
                method: Method::Linear,
                subject: UsageSubject::Account,
                ..default
            },
            Preset::Flux => FairShare {
                tie_rule: TieRule::Flux,
                ..default
            },
            Preset::Hybrid => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_fair_share_of_their_schedulers() {
        let of = |preset: Preset| {
            let FairShare {
                method,
                subject,
                tie_rule,
                ..
            } = preset.fair_share();
            (method, subject, tie_rule)
        };
        assert_eq!(
            of(Preset::Flux),
            (Method::Classic, UsageSubject::Member, TieRule::Flux)
        );
        assert_eq!(
            of(Preset::Hybrid),
            (Method::Classic, UsageSubject::Member, TieRule::Slurm)
        );
        assert_eq!(
            of(Preset::It4i),
            (Method::Linear, UsageSubject::Account, TieRule::Slurm)
        );
        assert_eq!(of(Preset::Maui).0, Method::Target);
        assert_eq!(
            [Preset::Qube, Preset::Ytsaurus].map(|preset| of(preset).0),
            [Method::Off; 2]
        );
    }
}
