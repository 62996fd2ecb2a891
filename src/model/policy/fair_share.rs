//! `[fairshare]`: how what somebody has used makes their jobs go later.

use super::Preset;
use crate::model::account::Account;
use serde::{Deserialize, Serialize};

/// `[fairshare]`, and the accounts it is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FairShare {
    /// How the factor comes from shares and usage.
    pub method: Method,
    /// Whose usage counts for a job.
    pub subject: Subject,
    /// What `fairtree` takes for equal.
    pub ties: Ties,
    /// How `target` measures the distance.
    pub distance: Distance,
    /// `[[account]]`, in the order given; empty where every user is on their own.
    pub accounts: Vec<Account>,
}

impl FairShare {
    /// What a preset sets.
    pub fn of(preset: Preset) -> FairShare {
        let default = FairShare::default();
        match preset {
            Preset::Qube | Preset::Ytsaurus => FairShare { method: Method::Off, ..default },
            Preset::Maui => FairShare { method: Method::Target, ..default },
            Preset::It4i => FairShare { method: Method::Linear, subject: Subject::Account, ..default },
            Preset::Flux => FairShare { ties: Ties::Flux, ..default },
            Preset::Hybrid => default,
        }
    }
}

named! {
    /// How the factor comes from shares and usage (X8).
    Method {
        /// 2 to the power of minus effective usage over shares: 0.5 is served perfectly (F11, I16).
        Classic = "classic",
        /// One minus the part of all usage; shares do not count (I3).
        Linear = "linear",
        /// The rank in a walk through the tree, the least served first (F12).
        Tree = "fairtree",
        /// The distance from a target in percent (M12).
        Target = "target",
        /// Everybody is alike.
        Off = "off",
    }
}

named! {
    /// Whose usage counts for a job (X5).
    Subject {
        /// That of its user under its account.
        Member = "user@account",
        /// That of its account: all its users are alike.
        Account = "account",
        /// That of its user, whatever the accounts.
        User = "user",
        /// That of its pool, which is an account of the tree.
        Pool = "pool",
    }
}

named! {
    /// What `fairtree` takes for equal (F12).
    Ties {
        /// Levels as computed; a user as good as an account shares the rank of its first user.
        Slurm = "slurm",
        /// Levels but for rounding; a user as good as an account goes before it.
        Flux = "flux",
    }
}

named! {
    /// How `target` measures the distance (M12).
    Distance {
        /// Target minus usage, in percent.
        Difference = "difference",
        /// One minus usage over target.
        Ratio = "ratio",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_share_as_those_do_whose_names_they_have() {
        let of = |preset| {
            let FairShare { method, subject, ties, .. } = FairShare::of(preset);
            (method, subject, ties)
        };
        assert_eq!(of(Preset::Flux), (Method::Classic, Subject::Member, Ties::Flux));
        assert_eq!(of(Preset::Hybrid), (Method::Classic, Subject::Member, Ties::Slurm));
        assert_eq!(of(Preset::It4i), (Method::Linear, Subject::Account, Ties::Slurm));
        assert_eq!(of(Preset::Maui).0, Method::Target);
        assert_eq!([Preset::Qube, Preset::Ytsaurus].map(|preset| of(preset).0), [Method::Off; 2]);
    }
}
