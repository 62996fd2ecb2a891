//! Results of the default policy compared with EASY on the same traces. Every test run uses the
//! traces in this repository. `make quality` uses all available ones and prints the table of
//! lanai-scheduling(7).

use crate::policy::replay::{load, run, trace_directory};
use crate::support::root;
use lanai::config::Config;
use lanai::sim::metrics::Metrics;
use lanai::sim::replay;
use lanai::sim::trace::Trace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Metrics of both policies on a trace.
struct Pair {
    name: String,
    easy: Metrics,
    /// Metrics of Lanai's default policy.
    own: Metrics,
}

/// Accounts with one share for each user of the trace.
fn accounts(trace: &Trace) -> String {
    let users: BTreeSet<i64> = trace.jobs.iter().map(|job| job.user).collect();
    let shares: Vec<String> = users
        .iter()
        .map(|user| format!("\"user{user}\" = 1"))
        .collect();
    format!(
        "[[account]]\nname = \"root\"\nusers = {{ {} }}\n",
        shares.join(", ")
    )
}

/// A metric of the default policy relative to EASY, with goals for the geometric mean and for the
/// worst trace.
struct Goal {
    name: &'static str,
    metric: fn(&Metrics) -> f64,
    mean: f64,
    worst: f64,
}

const GOALS: [Goal; 4] = [
    Goal {
        name: "wait",
        metric: |metrics| metrics.wait.mean,
        mean: 0.65,
        worst: 0.95,
    },
    Goal {
        name: "slowdown",
        metric: |metrics| metrics.bounded_slowdown.mean,
        mean: 0.52,
        worst: 0.75,
    },
    Goal {
        name: "p99",
        metric: |metrics| metrics.wait.p99,
        mean: 0.80,
        worst: 1.35,
    },
    Goal {
        name: "longest",
        metric: |metrics| metrics.wait.max,
        mean: 1.30,
        worst: 1.75,
    },
];

impl Goal {
    fn ratio(&self, pair: &Pair) -> f64 {
        (self.metric)(&pair.own) / (self.metric)(&pair.easy)
    }
}

impl Pair {
    fn of(path: &Path, name: &str) -> Pair {
        let (machine, trace) = load(path);
        let config = Config::parse(&accounts(&trace)).unwrap();
        let own = replay::run(
            &trace.jobs,
            machine,
            &config,
            &config.effective_policy(),
            |_| (),
        )
        .unwrap();
        let metrics = |outcomes: &[_]| Metrics::new(outcomes, machine.processors());
        Pair {
            name: name.to_string(),
            easy: metrics(&run(machine, &trace, "easy")),
            own: metrics(&own),
        }
    }

    /// True for a trace of a real machine, false for a synthetic one.
    fn is_real(&self) -> bool {
        !["syn-", "lublin"]
            .iter()
            .any(|prefix| self.name.starts_with(prefix))
    }

    /// Additional utilization of the default policy over EASY, in percentage points.
    fn utilization_gain(&self) -> f64 {
        100.0 * (self.own.utilization - self.easy.utilization)
    }

    fn row(&self) -> String {
        let ratios: String = GOALS
            .iter()
            .map(|goal| format!(" {:>8.3}", goal.ratio(self)))
            .collect();
        let (easy, own) = (&self.easy, &self.own);
        format!(
            "{:<10} {:>9.0} {:>9.1} {:>9.0} {:>9.1}{ratios} {:>+8.2}",
            self.name,
            easy.wait.mean,
            easy.bounded_slowdown.mean,
            own.wait.mean,
            own.bounded_slowdown.mean,
            self.utilization_gain()
        )
    }
}

#[test]
fn the_default_policy_waits_less_than_easy() {
    for name in ["syn-tiny", "syn-small"] {
        let pair = Pair::of(
            &root().join(format!("tests/policy/traces/{name}.swf.gz")),
            name,
        );
        let [wait, slowdown, ..] = GOALS;
        assert!(
            wait.ratio(&pair) < wait.worst && slowdown.ratio(&pair) < slowdown.worst,
            "{}",
            pair.row()
        );
        assert!(pair.utilization_gain().abs() < 0.2, "{}", pair.row());
    }
}

#[test]
#[ignore = "takes minutes in a release build: make quality"]
fn quality_on_all_traces() {
    let Some(folder) = trace_directory() else {
        return;
    };
    let mut remaining: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    remaining.retain(|path| path.to_string_lossy().ends_with(".swf.gz"));
    remaining.sort_by_key(|path| path.metadata().map_or(0, |metadata| metadata.len()));
    let (remaining, done) = (Mutex::new(remaining), Mutex::new(Vec::new()));
    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>9}{} {:>8}",
        "",
        "EASY wait",
        "slowdown",
        "own wait",
        "slowdown",
        goal_names(),
        "used"
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || remaining.lock().unwrap().pop();
                while let Some(path) = next() {
                    let name = path
                        .file_name()
                        .unwrap()
                        .to_string_lossy()
                        .replace(".swf.gz", "");
                    let pair = Pair::of(&path, &name);
                    println!("{}", pair.row());
                    done.lock().unwrap().push(pair);
                }
            });
        }
    });
    let real: Vec<Pair> = done
        .into_inner()
        .unwrap()
        .into_iter()
        .filter(Pair::is_real)
        .collect();
    GOALS.iter().for_each(|goal| print_result(goal, &real));
}

fn goal_names() -> String {
    GOALS
        .iter()
        .map(|goal| format!(" {:>8}", goal.name))
        .collect()
}

/// Prints the result for a goal over the traces of real machines.
fn print_result(goal: &Goal, real: &[Pair]) {
    let ratios: Vec<f64> = real.iter().map(|pair| goal.ratio(pair)).collect();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let met = |is_met: bool| if is_met { "met" } else { "missed" };
    println!(
        "{:<10} geometric mean {mean:.3} ({} goal {}), worst {worst:.3} ({} goal {})",
        goal.name,
        met(mean <= goal.mean),
        goal.mean,
        met(worst <= goal.worst),
        goal.worst
    );
}
