//! The connections to the nodeds (the daemons of the hosts). schedd connects to each configured
//! noded. A personal schedd also starts the noded of its own host if this noded does not respond.

use crate::model::time::Span;
use crate::server::setup::Setup;
use crate::sys::home::Home;
use crate::sys::{clock, daemon, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::order::{NodeReport, ScheddOrder};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Time without a report after which a noded's connection counts as lost.
const MAX_SILENCE: Span = Span::seconds(30);
/// Interval of pings to a noded.
const PING_INTERVAL: Span = Span::seconds(10);
/// First delay between two attempts to connect to a noded.
const REDIAL_DELAY: Span = Span(10);
/// Maximum delay between two attempts to connect to a noded.
const MAX_REDIAL_DELAY: Span = Span::seconds(5);
/// Delay before connecting again to a noded that was refused.
const REFUSED_DELAY: Span = Span::seconds(2);
/// Backlog of unread orders, in bytes, above which a noded gets no orders to start tasks.
const MAX_BACKLOG: usize = 32 << 20;
/// Maximum delay between two starts of schedd's own noded, if the noded ends before schedd can
/// connect to it.
const MAX_RESTART_DELAY: Span = Span::seconds(2);

/// All nodeds of this schedd.
pub struct Nodes {
    /// The nodeds, by numbers that are never reused. Therefore a late report is never attributed to
    /// another noded.
    targets: BTreeMap<usize, Target>,
    /// The number of the next noded.
    next: usize,
    epoch: u64,
    home: Home,
}

/// A noded's socket, and the names that its nodes may have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodedAddress {
    socket: PathBuf,
    /// Names that the noded's nodes may have; empty for all names that are not excluded.
    allowed: Vec<String>,
    /// Names of nodes at other sockets.
    excluded: Vec<String>,
    /// The installation of the noded, if schedd may start this noded.
    own: Option<Home>,
}

impl NodedAddress {
    /// The addresses in a configuration: each socket that a `[[node]]` names, and the socket of
    /// this host's noded, unless a `[[node]]` with this host's name has another socket. In a
    /// personal installation, schedd may start this host's noded, unless `lanai.toml` has
    /// `[[node]]` sections and each of them has a socket.
    fn all(setup: &Setup, home: &Home) -> Vec<NodedAddress> {
        let mut addresses: Vec<NodedAddress> = Vec::new();
        let nodes = &setup.config.nodes;
        for (name, socket) in nodes
            .iter()
            .filter_map(|node| Some((&node.name, node.socket.as_ref()?)))
        {
            match addresses
                .iter_mut()
                .find(|address| address.socket == *socket)
            {
                Some(address) => address.allowed.push(name.clone()),
                None => addresses.push(NodedAddress {
                    socket: socket.clone(),
                    allowed: vec![name.clone()],
                    excluded: Vec::new(),
                    own: None,
                }),
            }
        }
        let socket = home.runtime.join("noded.sock");
        let excluded: Vec<String> = addresses
            .iter()
            .flat_map(|address| address.allowed.clone())
            .collect();
        let mut listed = nodes.iter().filter(|node| node.is_listed).peekable();
        let is_own =
            !home.system && (listed.peek().is_none() || listed.any(|node| node.socket.is_none()));
        let own = is_own.then(|| home.clone());
        if !excluded.contains(&setup.host)
            && !addresses.iter().any(|address| address.socket == socket)
        {
            addresses.push(NodedAddress {
                socket,
                allowed: Vec::new(),
                excluded,
                own,
            });
        }
        addresses
    }

    fn allows(&self, node: &String) -> bool {
        (self.allowed.is_empty() || self.allowed.contains(node)) && !self.excluded.contains(node)
    }
}

/// The state of one noded.
struct Target {
    address: NodedAddress,
    /// The nodes that the noded has reported as its own.
    presents: Vec<String>,
    link: Option<FrameSocket>,
    boot: String,
    /// The identity of the noded's state directory.
    directory: String,
    received_at: Span,
    pinged_at: Span,
    dial_at: Span,
    redial_delay: Span,
    /// When schedd last started its own noded; None after the connection was lost.
    started: Option<Span>,
    process: Option<daemon::Started>,
    /// Delay before schedd's own noded is started again.
    restart_delay: Span,
    /// Whether the noded has ever sent its greeting, the first report on a connection.
    greeted: bool,
}

/// An event of a noded's connection.
#[derive(Debug)]
pub enum NodedEvent {
    /// A noded sent a report.
    Report(usize, NodeReport),
    /// The connection to a noded is lost; these are its nodes.
    Lost(Vec<String>),
    /// schedd's own noded has served a schedd with a higher epoch (a number that grows with each
    /// start of schedd). That schedd had another spool, because this spool is locked. schedd
    /// continues with the epoch of this event, which is higher than the epochs of both schedds.
    Epoch(u64),
}

impl Nodes {
    /// The nodeds of the configuration.
    pub fn new(setup: &Setup, home: &Home, epoch: u64) -> Nodes {
        let mut nodes = Nodes {
            targets: BTreeMap::new(),
            next: 0,
            epoch,
            home: home.clone(),
        };
        nodes.apply_setup(setup);
        nodes
    }

    /// Applies a changed configuration: connects to new nodeds, and drops removed nodeds.
    /// Reconnects to a noded if the allowed names of its nodes have changed.
    pub fn apply_setup(&mut self, setup: &Setup) -> Vec<NodedEvent> {
        let mut addresses = NodedAddress::all(setup, &self.home);
        let mut events = Vec::new();
        let mut gone = Vec::new();
        for (&number, target) in &mut self.targets {
            match addresses
                .iter()
                .position(|address| address.socket == target.address.socket)
            {
                Some(at) => events.extend(target.change_address(addresses.swap_remove(at))),
                None => {
                    events.extend(target.link.is_some().then(|| {
                        target.lose_connection("the configuration no longer contains this noded")
                    }));
                    gone.push(number);
                }
            }
        }
        for number in gone {
            self.targets.remove(&number);
        }
        for address in addresses {
            self.targets.insert(self.next, Target::new(address));
            self.next += 1;
        }
        events
    }

    /// Tries to connect to the disconnected nodeds that have waited for their delay.
    pub fn dial(&mut self) {
        let now = clock::monotonic();
        for target in self
            .targets
            .values_mut()
            .filter(|target| target.link.is_none() && target.dial_at <= now)
        {
            target.dial(self.epoch, now);
        }
    }

    /// Whether the noded that schedd starts has not sent its greeting yet.
    pub fn awaits_own(&self) -> bool {
        self.targets
            .values()
            .any(|target| target.address.own.is_some() && !target.greeted)
    }

    /// When [`Nodes::dial`] or [`Nodes::ping`] is due next.
    pub fn next(&self) -> Span {
        self.targets
            .values()
            .map(Target::next)
            .min()
            .unwrap_or(PING_INTERVAL)
    }

    /// The number of each connected noded, and the descriptor to poll for reading. The flag is true
    /// if the descriptor is polled for writing, too.
    pub fn watched(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, bool)> {
        self.targets.iter().filter_map(|(&index, target)| {
            target
                .link
                .as_ref()
                .map(|link| (index, link.as_fd(), link.wants_write()))
        })
    }

    /// Reads the reports of a noded, as events. A lost connection is an event, too.
    pub fn receive(&mut self, index: usize) -> Vec<NodedEvent> {
        let Some(target) = self.targets.get_mut(&index) else {
            return Vec::new();
        };
        let Some(link) = &mut target.link else {
            return Vec::new();
        };
        let received = link
            .flush()
            .map_err(FrameError::from)
            .and_then(|()| link.receive::<NodeReport>());
        match received {
            Ok(reports) => {
                target.received_at = clock::monotonic();
                let higher_epoch = reports
                    .iter()
                    .find_map(|report| target.higher_epoch(report));
                let mut events: Vec<NodedEvent> = reports
                    .into_iter()
                    .map(|report| target.accept_report(index, report))
                    .collect();
                if let Some(epoch) = higher_epoch {
                    self.epoch = epoch;
                    events.push(NodedEvent::Epoch(epoch));
                }
                events
            }
            Err(error) => vec![target.lose_connection(&error.to_string())],
        }
    }

    /// Pings nodeds, and drops the connections of nodeds that have not responded to earlier pings.
    /// Also reaps the noded that schedd has started, if it has ended.
    pub fn ping(&mut self) -> Vec<NodedEvent> {
        let now = clock::monotonic();
        let mut events = Vec::new();
        for target in self.targets.values_mut() {
            target.is_alive();
        }
        for target in self
            .targets
            .values_mut()
            .filter(|target| target.link.is_some() && target.pinged_at + PING_INTERVAL <= now)
        {
            if target.received_at + MAX_SILENCE < now {
                events.push(target.lose_connection("noded does not respond"));
            } else {
                target.pinged_at = now;
                events.extend(target.send(&ScheddOrder::Ping));
            }
        }
        events
    }

    /// Sends an order to the noded of `node`. If this noded is not connected, the order is dropped;
    /// orders for jobs are sent again when a noded connects.
    pub fn send(&mut self, node: &str, order: &ScheddOrder) -> Vec<NodedEvent> {
        let target = self
            .targets
            .values_mut()
            .find(|target| target.presents.iter().any(|name| name == node));
        target.map_or_else(Vec::new, |target| target.send(order).into_iter().collect())
    }

    /// The socket of the noded of `node`; None if this noded is not connected.
    pub fn socket_of(&self, node: &str) -> Option<&Path> {
        self.targets
            .values()
            .find(|target| target.link.is_some() && target.presents(node))
            .map(|target| target.address.socket.as_path())
    }

    /// This schedd's epoch, a number that grows with each start of schedd.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the noded of `node` has a large backlog of unread orders.
    pub fn is_behind(&self, node: &str) -> bool {
        let target = self
            .targets
            .values()
            .find(|target| target.presents.iter().any(|name| name == node));
        let backlog = target
            .and_then(|target| target.link.as_ref())
            .map_or(0, FrameSocket::backlog);
        backlog > MAX_BACKLOG
    }

    /// Sends an order to one noded, if it is connected.
    pub fn send_to(&mut self, index: usize, order: &ScheddOrder) -> Vec<NodedEvent> {
        self.targets
            .get_mut(&index)
            .map_or_else(Vec::new, |target| target.send(order).into_iter().collect())
    }

    /// Sends an order to every connected noded.
    pub fn send_to_all(&mut self, order: &ScheddOrder) -> Vec<NodedEvent> {
        self.targets
            .values_mut()
            .filter_map(|target| target.send(order))
            .collect()
    }

    /// The noded that runs a user's notification program: preferably the noded of this `host`, else
    /// the noded of the node where the job ran, else any noded. None while no noded is connected.
    pub fn notifier(&self, host: &str, ran_on: Option<&str>) -> Option<usize> {
        let admitted = self
            .targets
            .iter()
            .filter(|(_, target)| target.is_admitted());
        admitted
            .min_by_key(|(_, target)| target.notification_rank(host, ran_on))
            .map(|(&index, _)| index)
    }

    /// Whether a noded is connected and has nodes.
    pub fn is_admitted(&self, index: usize) -> bool {
        self.targets.get(&index).is_some_and(Target::is_admitted)
    }

    /// The nodes of a noded; empty while it is not connected. If the noded reports other nodes,
    /// these are ignored.
    pub fn presents(&self, index: usize) -> &[String] {
        self.targets
            .get(&index)
            .map_or(&[], |target| &target.presents)
    }

    /// The kernel's boot id, as a noded reported it; empty before its first greeting.
    pub fn boot(&self, index: usize) -> String {
        self.targets
            .get(&index)
            .map(|target| target.boot.clone())
            .unwrap_or_default()
    }

    /// The identity of a noded's state directory; empty before its first greeting.
    pub fn directory(&self, index: usize) -> String {
        self.targets
            .get(&index)
            .map(|target| target.directory.clone())
            .unwrap_or_default()
    }

    /// Refuses a noded with a reason, and closes the connection. schedd connects again after
    /// `REFUSED_DELAY`, in case the reason no longer holds.
    pub fn refuse(&mut self, index: usize, why: String) {
        let Some(target) = self.targets.get_mut(&index) else {
            return;
        };
        target.send(&ScheddOrder::Refuse { why });
        target.presents.clear();
        target.link = None;
        target.dial_at = clock::monotonic() + REFUSED_DELAY;
    }

    /// Makes schedd's own noded exit, even if it has just been started.
    pub fn shut_down(&mut self) {
        for target in self
            .targets
            .values_mut()
            .filter(|target| target.address.own.is_some())
        {
            target.send(&ScheddOrder::Leave);
            target
                .process
                .iter_mut()
                .for_each(daemon::Started::send_away);
        }
    }
}

impl Target {
    fn presents(&self, node: &str) -> bool {
        self.presents.iter().any(|name| name == node)
    }

    /// When to ping this noded next or, without a connection, when to connect.
    fn next(&self) -> Span {
        if self.link.is_some() {
            self.pinged_at + PING_INTERVAL
        } else {
            self.dial_at
        }
    }

    /// Rank of this noded for running a notification program, lowest first: 0 on `host`, 1 on the
    /// node where the job ran, else 2.
    fn notification_rank(&self, host: &str, ran_on: Option<&str>) -> u8 {
        if self.address.allowed.is_empty() || self.presents(host) {
            0
        } else if ran_on.is_some_and(|node| self.presents(node)) {
            1
        } else {
            2
        }
    }

    fn new(address: NodedAddress) -> Target {
        let zero = Span(0);
        Target {
            address,
            presents: Vec::new(),
            link: None,
            boot: String::new(),
            directory: String::new(),
            received_at: zero,
            pinged_at: zero,
            dial_at: zero,
            redial_delay: REDIAL_DELAY,
            started: None,
            process: None,
            restart_delay: REDIAL_DELAY,
            greeted: false,
        }
    }

    /// Replaces the address by one that has the same socket. Drops the connection if other node
    /// names are allowed now.
    fn change_address(&mut self, address: NodedAddress) -> Option<NodedEvent> {
        let before = std::mem::replace(&mut self.address, address);
        let is_other =
            (&before.allowed, &before.excluded) != (&self.address.allowed, &self.address.excluded);
        self.dial_at = Span(0);
        (is_other && self.link.is_some()).then(|| {
            let events =
                self.lose_connection("the configuration now allows other nodes at this socket");
            (self.dial_at, self.redial_delay) = (Span(0), REDIAL_DELAY);
            events
        })
    }

    fn dial(&mut self, epoch: u64, now: Span) {
        // Connecting does not block, even if the accept queue of noded is full.
        let connected =
            socket::connect_nonblocking(&self.address.socket).and_then(FrameSocket::new);
        match connected {
            Ok(link) => {
                self.link = Some(link);
                (self.received_at, self.pinged_at) = (now, now);
                self.send(&ScheddOrder::Hello { epoch });
            }
            Err(error) => {
                self.start_own(now);
                self.dial_at = now + self.redial_delay;
                self.redial_delay = Span((self.redial_delay.0 * 5 / 4).min(MAX_REDIAL_DELAY.0));
                tracing::debug!("{}: {error}", self.address.socket.display());
            }
        }
    }

    /// Starts schedd's own noded, unless it runs or has just been started. The delay between two
    /// starts grows until the noded sends its greeting.
    fn start_own(&mut self, now: Span) {
        let Some(home) = self.address.own.clone() else {
            return;
        };
        if self.is_alive()
            || self
                .started
                .is_some_and(|started| now < started + self.restart_delay)
        {
            return;
        }
        (self.started, self.redial_delay) = (Some(now), REDIAL_DELAY);
        self.restart_delay = Span((self.restart_delay.0 * 2).min(MAX_RESTART_DELAY.0));
        match daemon::start("noded", &["--foreground", "--exit-when-idle", "600"], &home) {
            Ok(process) => {
                tracing::info!("schedd has started noded");
                self.process = Some(process);
            }
            Err(error) => tracing::error!("cannot start noded: {error:#}"),
        }
    }

    /// Whether the noded that schedd last started still runs. Reaps the process if it has ended.
    fn is_alive(&mut self) -> bool {
        self.process = self
            .process
            .take()
            .and_then(|mut process| process.lives().then_some(process));
        self.process.is_some()
    }

    fn is_admitted(&self) -> bool {
        self.link.is_some() && !self.presents.is_empty()
    }

    fn send(&mut self, order: &ScheddOrder) -> Option<NodedEvent> {
        match self.link.as_mut()?.send(order) {
            Ok(()) => None,
            Err(error @ (FrameError::TooLarge(_) | FrameError::Malformed(_))) => {
                tracing::error!("cannot send an order to a noded: {error}");
                None
            }
            Err(error) => Some(self.lose_connection(&error.to_string())),
        }
    }

    /// The epoch to continue with, if schedd's own noded has served a schedd with a higher epoch.
    fn higher_epoch(&self, report: &NodeReport) -> Option<u64> {
        match report {
            NodeReport::Fenced { epoch } if self.address.own.is_some() => Some(epoch + 1),
            _ => None,
        }
    }

    /// Turns a report into an event. A greeting sets the noded's nodes; only names that are allowed
    /// at the noded's socket are accepted, because the socket can be the end of a tunnel to any
    /// noded. A noded that serves a newer schedd is disconnected.
    fn accept_report(&mut self, index: usize, report: NodeReport) -> NodedEvent {
        match report {
            NodeReport::Hello {
                boot,
                directory,
                mut nodes,
                attempts,
            } => {
                nodes.retain(|facts| self.address.allows(&facts.name));
                self.presents = nodes.iter().map(|facts| facts.name.clone()).collect();
                (self.boot, self.directory) = (boot.clone(), directory.clone());
                (self.redial_delay, self.restart_delay) = (REDIAL_DELAY, REDIAL_DELAY);
                self.greeted = true;
                NodedEvent::Report(
                    index,
                    NodeReport::Hello {
                        boot,
                        directory,
                        nodes,
                        attempts,
                    },
                )
            }
            NodeReport::Fenced { epoch } => {
                self.lose_connection(&format!("noded serves a newer schedd (epoch {epoch})"))
            }
            other => NodedEvent::Report(index, other),
        }
    }

    fn lose_connection(&mut self, why: &str) -> NodedEvent {
        tracing::warn!(
            "schedd lost the noded at {}: {why}",
            self.address.socket.display()
        );
        self.link = None;
        self.started = None;
        // The delay grows if a noded closes each connection at once.
        self.dial_at = clock::monotonic() + self.redial_delay;
        self.redial_delay = Span((self.redial_delay.0 * 2).min(MAX_REDIAL_DELAY.0));
        NodedEvent::Lost(std::mem::take(&mut self.presents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
    };
    use std::os::fd::AsRawFd;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn connecting_to_a_noded_that_does_not_accept_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noded.sock");
        let stuck = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::empty(),
            None,
        )
        .unwrap();
        bind(stuck.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&stuck, Backlog::new(1).unwrap()).unwrap();
        let connections: Vec<_> =
            std::iter::from_fn(|| crate::sys::socket::connect_nonblocking(&path).ok())
                .take(10)
                .collect();
        assert!(connections.len() < 10);
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let address = NodedAddress {
                socket: path,
                allowed: Vec::new(),
                excluded: Vec::new(),
                own: None,
            };
            let mut target = Target::new(address);
            target.dial(1, clock::monotonic());
            done.send(target.link.is_none())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
}
