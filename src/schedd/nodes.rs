//! The connections to the nodeds. schedd connects to them, and starts its own noded if that does
//! not respond.

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
/// Delay between two attempts to connect, while success is expected soon.
const REDIAL_DELAY: Span = Span(10);
/// Maximum delay between two attempts.
const MAX_REDIAL_DELAY: Span = Span::seconds(5);
/// Delay before connecting again to a noded that was refused.
const REFUSED_DELAY: Span = Span::seconds(2);
/// Backlog of unread orders, in bytes, above which a noded gets no more tasks.
const MAX_BACKLOG: usize = 32 << 20;
/// Maximum delay between two starts of schedd's own noded, if it ends before it can be reached.
const MAX_RESTART_DELAY: Span = Span::seconds(2);

/// All nodeds of this schedd.
pub struct Nodes {
    /// By numbers that are never reused, so that a late report is not attributed to another noded.
    targets: BTreeMap<usize, Target>,
    /// The next number.
    next: usize,
    epoch: u64,
    home: Home,
}

/// A noded's socket, and the nodes it may present there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodedAddress {
    socket: PathBuf,
    /// Names it may present; empty: any but those barred.
    bound: Vec<String>,
    /// Names of nodes that have other sockets.
    barred: Vec<String>,
    /// The installation of the noded, if schedd is to start it.
    own: Option<Home>,
}

impl NodedAddress {
    /// The addresses in a configuration: every socket that a `[[node]]` names, and the socket of
    /// this host's noded unless a `[[node]]` with this host's name has another. A personal
    /// installation also starts this host's noded, unless every `[[node]]` of the file has a
    /// socket.
    fn all(setup: &Setup, home: &Home) -> Vec<NodedAddress> {
        let mut places: Vec<NodedAddress> = Vec::new();
        let nodes = &setup.config.nodes;
        for (name, socket) in nodes
            .iter()
            .filter_map(|node| Some((&node.name, node.socket.as_ref()?)))
        {
            match places.iter_mut().find(|place| place.socket == *socket) {
                Some(place) => place.bound.push(name.clone()),
                None => places.push(NodedAddress {
                    socket: socket.clone(),
                    bound: vec![name.clone()],
                    barred: Vec::new(),
                    own: None,
                }),
            }
        }
        let socket = home.runtime.join("noded.sock");
        let barred: Vec<String> = places
            .iter()
            .flat_map(|place| place.bound.clone())
            .collect();
        let mut listed = nodes.iter().filter(|node| node.is_listed).peekable();
        let is_own =
            !home.system && (listed.peek().is_none() || listed.any(|node| node.socket.is_none()));
        let own = is_own.then(|| home.clone());
        if !barred.contains(&setup.host) && !places.iter().any(|place| place.socket == socket) {
            places.push(NodedAddress {
                socket,
                bound: Vec::new(),
                barred,
                own,
            });
        }
        places
    }

    fn admits(&self, node: &String) -> bool {
        (self.bound.is_empty() || self.bound.contains(node)) && !self.barred.contains(node)
    }
}

/// The state of one noded.
struct Target {
    place: NodedAddress,
    /// Nodes it presents.
    presents: Vec<String>,
    link: Option<FrameSocket>,
    boot: String,
    /// The identity of its state directory.
    directory: String,
    received_at: Span,
    pinged_at: Span,
    dial_at: Span,
    pause: Span,
    /// When schedd's own noded was last started; None after its loss.
    started: Option<Span>,
    process: Option<daemon::Started>,
    /// Delay before schedd's own noded is started again.
    restart: Span,
    /// Whether it has ever sent its greeting.
    greeted: bool,
}

/// An event of a noded's connection.
#[derive(Debug)]
pub enum NodedEvent {
    /// A noded sent a report.
    Report(usize, NodeReport),
    /// A noded no longer responds; these are its nodes.
    Lost(Vec<String>),
    /// schedd's own noded has served a schedd with a higher epoch. This spool is locked, so the
    /// other schedd had another spool, which no longer exists. Continue with this epoch.
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
        nodes.follow(setup);
        nodes
    }

    /// Applies a changed configuration: connects to new nodeds and drops removed ones. A noded that
    /// may present other nodes than before is reconnected.
    pub fn follow(&mut self, setup: &Setup) -> Vec<NodedEvent> {
        let mut places = NodedAddress::all(setup, &self.home);
        let mut events = Vec::new();
        let mut gone = Vec::new();
        for (&number, target) in &mut self.targets {
            match places
                .iter()
                .position(|place| place.socket == target.place.socket)
            {
                Some(at) => events.extend(target.move_to(places.swap_remove(at))),
                None => {
                    events.extend(
                        target
                            .link
                            .is_some()
                            .then(|| target.lose("it is no longer in the configuration")),
                    );
                    gone.push(number);
                }
            }
        }
        for number in gone {
            self.targets.remove(&number);
        }
        for place in places {
            self.targets.insert(self.next, Target::new(place));
            self.next += 1;
        }
        events
    }

    /// Makes the connections that are due.
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
    pub fn await_own(&self) -> bool {
        self.targets
            .values()
            .any(|target| target.place.own.is_some() && !target.greeted)
    }

    /// When [`Nodes::dial`] or [`Nodes::ping`] is due next.
    pub fn next(&self) -> Span {
        self.targets
            .values()
            .map(Target::next)
            .min()
            .unwrap_or(PING_INTERVAL)
    }

    /// The descriptors to poll for reading, and whether also for writing.
    pub fn watched(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, bool)> {
        self.targets.iter().filter_map(|(&index, target)| {
            target
                .link
                .as_ref()
                .map(|link| (index, link.as_fd(), link.wants_write()))
        })
    }

    /// Reads what a noded has sent.
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
                let overtaken = reports.iter().find_map(|report| target.overtaken(report));
                let mut events: Vec<NodedEvent> = reports
                    .into_iter()
                    .map(|report| target.admit(index, report))
                    .collect();
                if let Some(epoch) = overtaken {
                    self.epoch = epoch;
                    events.push(NodedEvent::Epoch(epoch));
                }
                events
            }
            Err(error) => vec![target.lose(&error.to_string())],
        }
    }

    /// Pings nodeds, and drops those that have not responded to earlier pings.
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
                events.push(target.lose("it does not respond"));
            } else {
                target.pinged_at = now;
                events.extend(target.send(&ScheddOrder::Ping));
            }
        }
        events
    }

    /// Sends an order to the noded that presents `node`. A noded that is not connected gets the
    /// order when it connects.
    pub fn send(&mut self, node: &str, order: &ScheddOrder) -> Vec<NodedEvent> {
        let target = self
            .targets
            .values_mut()
            .find(|target| target.presents.iter().any(|name| name == node));
        target.map_or_else(Vec::new, |target| target.send(order).into_iter().collect())
    }

    /// The socket of the connected noded that presents `node`.
    pub fn socket_of(&self, node: &str) -> Option<&Path> {
        self.targets
            .values()
            .find(|target| target.link.is_some() && target.presents(node))
            .map(|target| target.place.socket.as_path())
    }

    /// This schedd's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the noded that presents `node` has a large backlog of unread orders.
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

    /// Sends an order to one noded.
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

    /// The noded that notifies a user of a job: preferably on this `host`, then on the node where
    /// the job ran, then any. None while none is connected.
    pub fn notifier(&self, host: &str, ran_on: Option<&str>) -> Option<usize> {
        let admitted = self
            .targets
            .iter()
            .filter(|(_, target)| target.is_admitted());
        admitted
            .min_by_key(|(_, target)| target.distance(host, ran_on))
            .map(|(&index, _)| index)
    }

    /// Whether a noded is connected and presents nodes.
    pub fn is_admitted(&self, index: usize) -> bool {
        self.targets.get(&index).is_some_and(Target::is_admitted)
    }

    /// The nodes a noded presents. Its reports count for these only.
    pub fn presents(&self, index: usize) -> &[String] {
        self.targets
            .get(&index)
            .map_or(&[], |target| &target.presents)
    }

    /// The kernel's boot id, as a noded reported it.
    pub fn boot(&self, index: usize) -> String {
        self.targets
            .get(&index)
            .map(|target| target.boot.clone())
            .unwrap_or_default()
    }

    /// The identity of a noded's state directory.
    pub fn directory(&self, index: usize) -> String {
        self.targets
            .get(&index)
            .map(|target| target.directory.clone())
            .unwrap_or_default()
    }

    /// Refuses a noded with a reason, and connects to it again later, when the reason may no longer
    /// apply.
    pub fn refuse(&mut self, index: usize, why: String) {
        let Some(target) = self.targets.get_mut(&index) else {
            return;
        };
        target.send(&ScheddOrder::Refuse { why });
        target.presents.clear();
        target.link = None;
        target.dial_at = clock::monotonic() + REFUSED_DELAY;
    }

    /// Makes schedd's own noded exit with schedd, even if it has just been started.
    pub fn leave(&mut self) {
        for target in self
            .targets
            .values_mut()
            .filter(|target| target.place.own.is_some())
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

    /// When to connect to this noded, or to ping it.
    fn next(&self) -> Span {
        if self.link.is_some() {
            self.pinged_at + PING_INTERVAL
        } else {
            self.dial_at
        }
    }

    /// Preference for a notification, lowest first: 0 on `host`, 1 on the node where the job ran,
    /// else 2.
    fn distance(&self, host: &str, ran_on: Option<&str>) -> u8 {
        if self.place.bound.is_empty() || self.presents(host) {
            0
        } else if ran_on.is_some_and(|node| self.presents(node)) {
            1
        } else {
            2
        }
    }

    fn new(place: NodedAddress) -> Target {
        let zero = Span(0);
        Target {
            place,
            presents: Vec::new(),
            link: None,
            boot: String::new(),
            directory: String::new(),
            received_at: zero,
            pinged_at: zero,
            dial_at: zero,
            pause: REDIAL_DELAY,
            started: None,
            process: None,
            restart: REDIAL_DELAY,
            greeted: false,
        }
    }

    /// Applies the configuration of this socket; reconnects if its nodes have changed.
    fn move_to(&mut self, place: NodedAddress) -> Option<NodedEvent> {
        let before = std::mem::replace(&mut self.place, place);
        let is_other = (&before.bound, &before.barred) != (&self.place.bound, &self.place.barred);
        self.dial_at = Span(0);
        (is_other && self.link.is_some()).then(|| {
            let events = self.lose("the configuration has changed the nodes of this socket");
            (self.dial_at, self.pause) = (Span(0), REDIAL_DELAY);
            events
        })
    }

    fn dial(&mut self, epoch: u64, now: Span) {
        // A noded with a full accept queue is not waited for.
        let connected = socket::connect_nonblocking(&self.place.socket).and_then(FrameSocket::new);
        match connected {
            Ok(link) => {
                self.link = Some(link);
                (self.received_at, self.pinged_at) = (now, now);
                self.send(&ScheddOrder::Hello { epoch });
            }
            Err(error) => {
                self.start_own(now);
                self.dial_at = now + self.pause;
                self.pause = Span((self.pause.0 * 5 / 4).min(MAX_REDIAL_DELAY.0));
                tracing::debug!("{}: {error}", self.place.socket.display());
            }
        }
    }

    /// Starts schedd's own noded, unless it is starting already. If it ends before it can be
    /// reached, it is started again after growing delays.
    fn start_own(&mut self, now: Span) {
        let Some(home) = self.place.own.clone() else {
            return;
        };
        if self.is_alive()
            || self
                .started
                .is_some_and(|started| now < started + self.restart)
        {
            return;
        }
        (self.started, self.pause) = (Some(now), REDIAL_DELAY);
        self.restart = Span((self.restart.0 * 2).min(MAX_RESTART_DELAY.0));
        match daemon::start("noded", &["--foreground", "--exit-when-idle", "600"], &home) {
            Ok(process) => {
                tracing::info!("started noded");
                self.process = Some(process);
            }
            Err(error) => tracing::error!("cannot start noded: {error:#}"),
        }
    }

    /// Whether the noded that schedd started last still runs. Reaps it if not.
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
            Err(error) => Some(self.lose(&error.to_string())),
        }
    }

    /// The epoch to continue with, if schedd's own noded has seen a higher one.
    fn overtaken(&self, report: &NodeReport) -> Option<u64> {
        match report {
            NodeReport::Fenced { epoch } if self.place.own.is_some() => Some(epoch + 1),
            _ => None,
        }
    }

    /// Accepts the greeting of a noded. It presents only nodes configured for its socket: a tunnel
    /// proves which socket it leads to, but not which noded is at its far end.
    fn admit(&mut self, index: usize, report: NodeReport) -> NodedEvent {
        match report {
            NodeReport::Hello {
                boot,
                directory,
                mut nodes,
                attempts,
            } => {
                nodes.retain(|facts| self.place.admits(&facts.name));
                self.presents = nodes.iter().map(|facts| facts.name.clone()).collect();
                (self.boot, self.directory) = (boot.clone(), directory.clone());
                (self.pause, self.restart) = (REDIAL_DELAY, REDIAL_DELAY);
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
                self.lose(&format!("it serves a newer schedd (epoch {epoch})"))
            }
            other => NodedEvent::Report(index, other),
        }
    }

    fn lose(&mut self, why: &str) -> NodedEvent {
        tracing::warn!("lost the noded at {}: {why}", self.place.socket.display());
        self.link = None;
        self.started = None;
        // A noded that closes every connection is tried less and less often.
        self.dial_at = clock::monotonic() + self.pause;
        self.pause = Span((self.pause.0 * 2).min(MAX_REDIAL_DELAY.0));
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
    fn a_noded_that_accepts_no_connection_is_not_waited_for() {
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
            let place = NodedAddress {
                socket: path,
                bound: Vec::new(),
                barred: Vec::new(),
                own: None,
            };
            let mut target = Target::new(place);
            target.dial(1, clock::monotonic());
            done.send(target.link.is_none())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
}
