//! Placement policies: node access, allocation and distribution.

use serde::{Deserialize, Serialize};

named! {
    /// Choice among suitable nodes (M8); ties keep the order of the nodes.
    NodeAllocation {
        /// Nodes with the least resources, to save large nodes for large jobs.
        MinResource = "minresource",
        /// First nodes in order.
        FirstAvailable = "firstavailable",
        /// Nodes whose next booking follows soonest after the job's end.
        LastAvailable = "lastavailable",
        /// Nodes with the most idle processors.
        CpuLoad = "cpuload",
        /// Nodes with the highest value of an expression.
        Priority = "priority",
        /// Fastest nodes.
        Fastest = "fastest",
        /// Adjacent nodes.
        Contiguous = "contiguous",
        /// Nodes of equal speed.
        MaxBalance = "maxbalance",
        /// Nodes chosen by a program of the site.
        Site = "local",
    }
}

named! {
    /// Distribution of tasks over the nodes (M9).
    Distribution {
        /// Fill each node before the next.
        Pack = "pack",
        /// One task to each node in turn.
        RoundRobin = "roundrobin",
        /// Equal numbers on each node.
        Balanced = "balanced",
    }
}

named! {
    /// Sharing of a node (M46).
    NodeAccess {
        /// Shared by all jobs.
        Shared = "shared",
        /// Shared by jobs of one user.
        SingleUser = "singleuser",
        /// One job.
        SingleJob = "singlejob",
        /// One task of one job.
        SingleTask = "singletask",
    }
}
