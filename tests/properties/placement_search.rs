//! Placement compared with an exhaustive search: on small clusters the scheduler finds a placement
//! exactly if one exists, and its placement is valid.

use crate::fixture::{TestCluster, cluster};
use crate::support::cases;
use proptest::prelude::*;

/// A node: processors, gigabytes, color, and its host.
#[derive(Clone, Debug)]
struct Node {
    ncpus: u32,
    mem: u32,
    color: Option<&'static str>,
    host: usize,
}

/// Chunks: count, processors and gigabytes of each, and a required color of the node.
type Chunks = Vec<(u32, u32, u32, Option<&'static str>)>;

/// Exclusivity of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sharing {
    Shared,
    Nodes,
    Hosts,
}

/// A request: chunks, arrangement, exclusivity, and true if all nodes must have the same color.
#[derive(Clone, Debug)]
struct TestRequest {
    chunks: Chunks,
    arrangement: &'static str,
    sharing: Sharing,
    grouped: bool,
}

impl TestRequest {
    fn text(&self) -> String {
        let chunk = |&(count, ncpus, mem, color): &(u32, u32, u32, Option<&str>)| {
            let color = color.map_or(String::new(), |color| format!(":color={color}"));
            format!("{count}:ncpus={ncpus}:mem={mem}gb{color}")
        };
        let sharing = match self.sharing {
            Sharing::Shared => "",
            Sharing::Nodes => ":excl",
            Sharing::Hosts => ":exclhost",
        };
        let group = if self.grouped { ":group=color" } else { "" };
        let chunks: Vec<String> = self.chunks.iter().map(chunk).collect();
        format!(
            "select={} place={}{sharing}{group}",
            chunks.join("+"),
            self.arrangement
        )
    }

    /// Single chunks, in order.
    fn single(&self) -> Vec<(u32, u32, Option<&'static str>)> {
        let times = |&(count, ncpus, mem, color): &_| (0..count).map(move |_| (ncpus, mem, color));
        self.chunks.iter().flat_map(times).collect()
    }
}

/// A cluster with at most one running job, on node 0, and a new request.
struct Small<'a> {
    nodes: &'a [Node],
    before: Option<(u32, Sharing)>,
    request: &'a TestRequest,
}

impl Small<'_> {
    /// True if these nodes are valid for the first chunks. Every part of a valid placement is
    /// valid, too.
    fn is_valid(&self, picks: &[usize]) -> bool {
        let chunks = self.request.single();
        let each = |node: usize| {
            picks
                .iter()
                .zip(&chunks)
                .filter(move |&(&pick, _)| pick == node)
                .map(|(_, chunk)| chunk)
        };
        let fits = |(place, node): (usize, &Node)| {
            let taken = self
                .before
                .filter(|_| place == 0)
                .map_or(0, |(ncpus, _)| ncpus);
            each(place).map(|chunk| chunk.0).sum::<u32>() + taken <= node.ncpus
                && each(place).map(|chunk| chunk.1).sum::<u32>() <= node.mem
                && each(place).all(|chunk| chunk.2.is_none() || chunk.2 == node.color)
        };
        let alone = |pick: usize| self.request.arrangement == "free" || self.is_alone(picks, pick);
        let colors: Vec<_> = picks.iter().map(|&pick| self.nodes[pick].color).collect();
        let is_same_color = colors
            .iter()
            .all(|color| color.is_some() && *color == colors[0]);
        self.nodes.iter().enumerate().all(fits)
            && (0..picks.len()).all(alone)
            && picks.iter().all(|&pick| self.is_open(pick))
            && (!self.request.grouped || is_same_color)
    }

    /// True if a chunk satisfies the arrangement with respect to the others.
    fn is_alone(&self, picks: &[usize], pick: usize) -> bool {
        let host = |pick: usize| self.nodes[picks[pick]].host;
        let mut others = (0..picks.len()).filter(|&other| other != pick);
        match self.request.arrangement {
            "pack" => others.all(|other| host(other) == host(pick)),
            "scatter" => others.all(|other| host(other) != host(pick)),
            _ => others.all(|other| picks[other] != picks[pick]),
        }
    }

    /// True if neither the running nor the new job excludes the other from a node.
    fn is_open(&self, node: usize) -> bool {
        let Some((_, before)) = self.before else {
            return true;
        };
        let is_near = self.nodes[node].host == self.nodes[0].host;
        let is_barred =
            before == Sharing::Hosts && is_near || before == Sharing::Nodes && node == 0;
        let is_too_near = match self.request.sharing {
            Sharing::Shared => false,
            Sharing::Nodes => node == 0,
            Sharing::Hosts => is_near,
        };
        !is_barred && !is_too_near
    }

    /// True if the chunks fit, given these first nodes; tries every node for each of the others.
    fn fits(&self, picks: &mut Vec<usize>, count: usize) -> bool {
        self.is_valid(picks)
            && (picks.len() == count
                || (0..self.nodes.len()).any(|node| {
                    picks.push(node);
                    let fits = self.fits(picks, count);
                    picks.pop();
                    fits
                }))
    }

    fn snapshot(&self) -> TestCluster {
        let resources = |node: &Node| {
            let color = node
                .color
                .map_or(String::new(), |color| format!(":color={color}"));
            format!("1 x ncpus={}:mem={}gb{color}", node.ncpus, node.mem)
        };
        let fixture = self.nodes.iter().fold(cluster(""), |fixture, node| {
            fixture.on_host(&format!("h{}", node.host), &resources(node))
        });
        let Some((ncpus, sharing)) = self.before else {
            return fixture;
        };
        let place = match sharing {
            Sharing::Shared => "free",
            Sharing::Nodes => "excl",
            Sharing::Hosts => "exclhost",
        };
        fixture.running(
            99,
            &format!("select=1:ncpus={ncpus} place={place}"),
            "n1",
            1000,
        )
    }
}

fn node() -> impl Strategy<Value = Node> {
    let color = prop_oneof![Just(None), Just(Some("red")), Just(Some("blue"))];
    (1..7u32, 1..5u32, color, 0..3usize).prop_map(|(ncpus, mem, color, host)| Node {
        ncpus,
        mem,
        color,
        host,
    })
}

fn sharing() -> impl Strategy<Value = Sharing> {
    prop_oneof![3 => Just(Sharing::Shared), 1 => Just(Sharing::Nodes), 1 => Just(Sharing::Hosts)]
}

fn request() -> impl Strategy<Value = TestRequest> {
    let color = prop_oneof![6 => Just(None), 1 => Just(Some("red"))];
    let chunks = prop::collection::vec((1..4u32, 0..5u32, 0..3u32, color), 1..4);
    let chunks = chunks.prop_filter("few chunks", |chunks| {
        chunks.iter().map(|chunk| chunk.0).sum::<u32>() <= 7
    });
    let arrangement = prop_oneof![3 => Just("free"), 1 => Just("pack"), 1 => Just("scatter"), 1 => Just("vscatter")];
    (chunks, arrangement, sharing(), prop::bool::weighted(0.2)).prop_map(
        |(chunks, arrangement, sharing, grouped)| TestRequest {
            chunks,
            arrangement,
            sharing,
            grouped,
        },
    )
}

proptest! {
    #![proptest_config(cases(2000))]

    /// I11: a request starts exactly if the search finds a placement.
    #[test]
    fn a_request_fits_exactly_where_an_exhaustive_search_finds_a_placement(
        nodes in prop::collection::vec(node(), 1..4), request in request(), before in prop::option::of((0..4u32, sharing())),
    ) {
        let before = before.map(|(ncpus, sharing)| (ncpus.min(nodes[0].ncpus), sharing));
        let small = Small { nodes: &nodes, before, request: &request };
        let fixture = small.snapshot().queued(1, &request.text());
        let plan = fixture.plan();
        let count = request.single().len();
        prop_assert_eq!(!plan.starts.is_empty(), small.fits(&mut Vec::new(), count), "{}", request.text());
        for start in &plan.starts {
            let pick = |name: &str| name[1..].parse::<usize>().unwrap() - 1;
            let picks: Vec<usize> = start.shares.iter().map(|share| pick(&share.node)).collect();
            prop_assert!(picks.len() == count && small.is_valid(&picks), "{} on {:?}", request.text(), picks);
        }
    }
}
