//! The report: a table of figures with the machine's bounds and the targets.

use super::machine::Limits;
use anyhow::Result;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs;

/// Whether a small or a large value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller is better: times, memory.
    Less,
    /// Larger is better: rates.
    More,
}

/// A measured figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of the figure.
    pub what: String,
    /// The unit of all its numbers.
    pub unit: &'static str,
    /// The measured value.
    pub value: f64,
    /// The machine's bound, if known.
    pub limit: Option<f64>,
    /// The target, if there is one.
    pub target: Option<f64>,
    /// The good direction.
    pub better: Better,
}

/// The figures so far, and the load of the machine since the beginning.
pub struct Report {
    figures: Vec<Figure>,
    begun: Meter,
}

/// Processor seconds of the whole machine, and of this process and its children.
#[derive(Clone, Copy, Debug)]
struct Meter {
    busy: f64,
    all: f64,
    own: f64,
}

impl Meter {
    fn read() -> Result<Meter> {
        let stat = fs::read_to_string("/proc/stat")?;
        let fields = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8);
        let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
        let all: f64 = ticks.iter().sum();
        let idle: f64 = ticks.iter().skip(3).take(2).sum();
        let own = seconds(UsageWho::RUSAGE_SELF)? + seconds(UsageWho::RUSAGE_CHILDREN)?;
        Ok(Meter {
            busy: (all - idle) / 100.0,
            all: all / 100.0,
            own,
        })
    }
}

fn seconds(processes: UsageWho) -> Result<f64> {
    let usage = getrusage(processes)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// The processor seconds of all ended child processes.
pub fn spent() -> Result<f64> {
    seconds(UsageWho::RUSAGE_CHILDREN)
}

impl Report {
    /// Begins to measure the load, and makes this process the parent of orphaned descendants.
    pub fn begin() -> Result<Report> {
        nix::sys::prctl::set_child_subreaper(true)?;
        Ok(Report {
            figures: Vec::new(),
            begun: Meter::read()?,
        })
    }

    /// Prints the machine's bounds.
    pub fn limits(&self, limits: &Limits) {
        println!(
            "Speed of the machine: start of /bin/true {:.2} ms, of a Lanai command {:.2} ms \
             ({:.0} /s with four in parallel),",
            limits.start_true, limits.start_command, limits.start_command_rate
        );
        println!(
            "the job's script without Lanai {:.2} ms ({:.0} /s with eight forked processes),",
            limits.script, limits.shepherd_rate
        );
        println!(
            "login shells {:.0} /s, a durable commit {:.3} ms, a round trip by socket {:.3} ms.\n",
            limits.login_rate, limits.commit, limits.round_trip
        );
    }

    /// Adds a figure, and prints it at once as progress.
    pub fn add(&mut self, figure: Figure) {
        eprintln!(
            "  {}: {} {}",
            figure.what,
            number(figure.value),
            figure.unit
        );
        self.figures.push(figure);
    }

    /// Prints the table, and the load of the machine.
    pub fn end(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "figure", "unit", "measured", "bound", "ratio", "target", "met",
        ]);
        for figure in &self.figures {
            table.add_row(figure.row());
        }
        for column in table.column_iter_mut().skip(2).take(4) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}\n");
        let now = Meter::read()?;
        let share = |busy: f64| busy / (now.all - self.begun.all).max(0.01) * cores();
        let own = share(now.own - self.begun.own);
        let others = share(now.busy - self.begun.busy) - own;
        println!(
            "Average load: this run {own:.2}, other processes {others:.2} of {:.0} processors.",
            cores()
        );
        Ok(())
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

impl Figure {
    fn row(&self) -> [String; 7] {
        let shown = |value: Option<f64>| value.map(number).unwrap_or_default();
        let met = self.target.map(|target| match self.better {
            Better::Less => self.value <= target,
            Better::More => self.value >= target,
        });
        [
            self.what.clone(),
            self.unit.to_string(),
            number(self.value),
            shown(self.limit),
            self.limit
                .map(|limit| format!("{:.2}", self.value / limit))
                .unwrap_or_default(),
            shown(self.target),
            met.map(|met| if met { "yes" } else { "no" }.to_string())
                .unwrap_or_default(),
        ]
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
