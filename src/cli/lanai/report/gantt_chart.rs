//! The Gantt chart: the runs on each host over time.

use super::axis;
use super::chart::{LONGEST_NOTE, WIDTH, time_axis, time_position};
use super::gantt::{Gantt, HostRun, lanes};
use super::markup::{Anchor, Picture, cut};
use super::period::formatted;
use super::tables;

/// The left and right border of the plot.
const SIDES: (f64, f64) = (8.0, 632.0);

/// The maximum number of hosts in the chart.
pub const MOST_HOSTS: usize = 40;

/// The height of a host's name above its runs, and the distance to the next host.
const NAME: f64 = 22.0;
const GAP: f64 = 6.0;

/// The height of a lane, and the least and the greatest height of a host.
const LANE: f64 = 4.0;
const LEAST: f64 = 16.0;
const GREATEST: f64 = 64.0;

/// The height of the axis below the hosts.
const AXIS: f64 = 64.0;

/// The least width of a run.
const NARROWEST: f64 = 0.8;

/// The chart up to the end of the period.
pub fn picture(gantt: &Gantt, until: i64) -> String {
    let span = (gantt.since, until);
    let hosts: Vec<(&String, &u32)> = gantt.hosts.iter().take(MOST_HOSTS).collect();
    let mut rows = Picture::default();
    let mut y = 0.0;
    let mut body = Vec::new();
    for (host, processors) in hosts {
        let runs: Vec<&HostRun> = gantt.runs.iter().filter(|run| run.host == *host).collect();
        let (count, assigned) = lanes(&runs, *processors);
        let height = (count as f64 * LANE).clamp(LEAST, GREATEST);
        body.push((host, processors, y + NAME, height, count, runs, assigned));
        y += NAME + height + GAP;
    }
    time_axis(&mut rows, span, SIDES, (0.0, y));
    let title = axis::time_title(span.0, span.1);
    rows.text("", (WIDTH / 2.0, y + AXIS - 10.0), Anchor::Middle, &title);
    for (host, processors, top, height, count, runs, assigned) in body {
        let size = tables::count((*processors).into(), "CPU");
        let name = format!("{} ({size})", cut(host, LONGEST_NOTE));
        rows.text("host", (SIDES.0, top - 6.0), Anchor::Start, &name);
        rows.rectangle("lane", (SIDES.0, top), (SIDES.1 - SIDES.0, height), "");
        let lane = height / count as f64;
        for (run, (first, width)) in runs.into_iter().zip(assigned) {
            let left = time_position(run.start, span, SIDES).min(SIDES.1 - NARROWEST);
            let right = time_position(run.end, span, SIDES);
            let size = ((right - left).max(NARROWEST), lane * width as f64);
            let at = (left, top + lane * first as f64);
            rows.rectangle(&format!("run {}", run.outcome.word()), at, size, &note(run));
        }
    }
    rows.finish(
        "plot wide",
        (WIDTH, y + AXIS),
        "Runs on each host over time",
    )
}

/// The text of a run at the pointer.
fn note(run: &HostRun) -> String {
    format!(
        "{} {}, {}, {}, {} - {}, {}",
        run.job,
        cut(&run.name, LONGEST_NOTE),
        cut(&run.user, LONGEST_NOTE),
        tables::count(run.processors.into(), "CPU"),
        formatted(run.start, "%m-%d %H:%M:%S"),
        formatted(run.end, "%H:%M:%S"),
        tables::outcome(run)
    )
}
