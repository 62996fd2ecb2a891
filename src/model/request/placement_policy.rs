//! How a request may be placed: node access, allocation and distribution policies.

use serde::{Deserialize, Serialize};

named! {
    /// Which of the nodes that would do (M8); ties go by the order of the nodes.
    NodeAllocation {
        /// Those that have least, so that much stays for those that need much.
        MinResource = "minresource",
        /// The first.
        FirstAvailable = "firstavailable",
        /// Those whose next promise comes soonest after the job's end.
        LastAvailable = "lastavailable",
        /// Those with the most idle processors.
        CpuLoad = "cpuload",
        /// The highest by an expression.
        Priority = "priority",
        /// The fastest.
        Fastest = "fastest",
        /// Neighbours.
        Contiguous = "contiguous",
        /// Nodes of equal speed.
        MaxBalance = "maxbalance",
        /// What a program of the site says.
        Site = "local",
    }
}

named! {
    /// How tasks are dealt to the nodes (M9).
    Distribution {
        /// Fill a node, then the next.
        Pack = "pack",
        /// One to each in turn.
        RoundRobin = "roundrobin",
        /// The same number to each.
        Balanced = "balanced",
    }
}

named! {
    /// Who may share a node (M46).
    NodeAccess {
        /// Anybody.
        Shared = "shared",
        /// Jobs of one user.
        SingleUser = "singleuser",
        /// One job.
        SingleJob = "singlejob",
        /// One task of one job.
        SingleTask = "singletask",
    }
}
