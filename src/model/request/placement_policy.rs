//! Placement policies: node access, allocation and distribution.

use serde::{Deserialize, Serialize};

named! {
    /// Choice among suitable nodes (M8). Equally good nodes keep their order.
    NodeAllocation {
        /// Nodes with the least resources, to save large nodes for large jobs.
        MinResource = "minresource",
        /// First suitable nodes in the order of the nodes: first the configured nodes in the order
        /// of the configuration, then all others by name.
        FirstAvailable = "firstavailable",
        /// Nodes with the shortest idle time between the job's end and the next booking.
        LastAvailable = "lastavailable",
        /// Nodes with the most idle processors.
        CpuLoad = "cpuload",
        /// Nodes with the highest value of an expression.
        Priority = "priority",
        /// Nodes with the highest speed.
        Fastest = "fastest",
        /// Adjacent nodes.
        Contiguous = "contiguous",
        /// Nodes of similar speed.
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
        /// Assign one task to each node in turn.
        RoundRobin = "roundrobin",
        /// Divide the tasks equally among the nodes that `Pack` would use.
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
        /// Used by one job only.
        SingleJob = "singlejob",
        /// Used by one task of one job only.
        SingleTask = "singletask",
    }
}
