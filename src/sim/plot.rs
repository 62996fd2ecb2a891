//! Plots a schedule. The upper part shows the jobs on the processors, the lower part the
//! utilization. Up to 4000 pieces (adjacent processors of a job) are drawn separately. If a
//! schedule has more pieces, a grid of cells is drawn instead, because a job narrower than a pixel
//! is invisible.

mod grid;

use self::grid::Grid;
use super::lanes::{self, Piece};
use super::metrics;
use super::replay::{Outcome, Via};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// The size of the picture in pixels.
const SIZE: (u32, u32) = (1200, 800);

/// The maximum number of pieces that are drawn separately.
const MOST_PIECES: usize = 4000;

/// The number of columns, and the largest number of rows, of the grid.
const CELLS: (usize, usize) = (360, 100);

/// The number of time steps in the utilization plot.
const STEPS: usize = 540;

/// The largest job width for each color, as a fraction of the machine. Color-blind people can
/// distinguish these colors.
const WIDTHS: [(f64, RGBColor); 4] = [
    (1.0 / 32.0, RGBColor(0x44, 0x77, 0xaa)),
    (1.0 / 8.0, RGBColor(0x22, 0x88, 0x33)),
    (1.0 / 2.0, RGBColor(0xcc, 0xa3, 0x20)),
    (1.0, RGBColor(0xd9, 0x4f, 0x5c)),
];

/// The color of the utilization over time.
const USED: RGBColor = RGBColor(0x55, 0x55, 0x66);
/// The color of the mean utilization.
const MEAN: RGBColor = RGBColor(0x99, 0x33, 0x99);

/// The opacity of paler shapes.
const PALE: f64 = 0.5;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The SVG of a schedule on this many processors, or the error of the drawing library.
pub fn svg(title: &str, outcomes: &[Outcome], processors: u32) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, &Schedule::new(title, outcomes, processors))
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// The schedule to draw.
struct Schedule<'a> {
    title: &'a str,
    outcomes: &'a [Outcome],
    processors: u32,
    pieces: Vec<Piece>,
    /// The first submission and the last end.
    span: (i64, i64),
    /// The last submission.
    last: i64,
    unit: Unit,
    /// The used fraction of the machine in each time step, 0 to 1.
    used: Vec<f64>,
    /// The utilization between the first and the last submission, 0 to 1.
    utilization: f64,
}

/// A unit of time on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    name: &'static str,
    seconds: f64,
}

impl Unit {
    /// The unit for a time axis of this length.
    fn for_length(seconds: i64) -> Unit {
        const UNITS: [(i64, Unit); 4] = [
            (
                300,
                Unit {
                    name: "seconds",
                    seconds: 1.0,
                },
            ),
            (
                3 * 3600,
                Unit {
                    name: "minutes",
                    seconds: 60.0,
                },
            ),
            (
                4 * 86_400,
                Unit {
                    name: "hours",
                    seconds: 3600.0,
                },
            ),
            (
                i64::MAX,
                Unit {
                    name: "days",
                    seconds: 86_400.0,
                },
            ),
        ];
        UNITS
            .iter()
            .find(|(most, _)| seconds <= *most)
            .map_or(UNITS[3].1, |(_, unit)| *unit)
    }
}

impl<'a> Schedule<'a> {
    fn new(title: &'a str, outcomes: &'a [Outcome], processors: u32) -> Schedule<'a> {
        let first = outcomes
            .iter()
            .map(|outcome| outcome.job.submit)
            .min()
            .unwrap_or(0);
        let last = outcomes
            .iter()
            .map(Outcome::end)
            .max()
            .unwrap_or(first)
            .max(first + 1);
        let mut schedule = Schedule {
            title,
            outcomes,
            processors,
            pieces: lanes::assign(outcomes, processors),
            span: (first, last),
            last: outcomes
                .iter()
                .map(|outcome| outcome.job.submit)
                .max()
                .unwrap_or(first),
            unit: Unit::for_length(last - first),
            used: Vec::new(),
            utilization: metrics::utilization(outcomes, processors),
        };
        schedule.used = Grid::new(&schedule, (STEPS, 1))
            .cells
            .iter()
            .map(|cell| cell.iter().sum())
            .collect();
        schedule
    }

    /// The time since the beginning of the schedule, in the unit of the axis.
    fn time(&self, seconds: f64) -> f64 {
        (seconds - self.span.0 as f64) / self.unit.seconds
    }

    fn end(&self) -> f64 {
        self.time(self.span.1 as f64)
    }

    fn is_crowded(&self) -> bool {
        self.pieces.len() > MOST_PIECES
    }

    fn has_backfilled(&self) -> bool {
        self.outcomes
            .iter()
            .any(|outcome| outcome.via == Via::Backfill)
    }

    /// The index in [`WIDTHS`] of a job's width.
    fn width(&self, outcome: &Outcome) -> usize {
        let part = f64::from(outcome.job.processors) / f64::from(self.processors);
        WIDTHS
            .iter()
            .position(|(most, _)| part <= *most)
            .unwrap_or(WIDTHS.len() - 1)
    }
}

fn draw(text: &mut String, schedule: &Schedule) -> Drawn<()> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(76);
    let (above, below) = rest.split_vertically(450);
    draw_headline(&head, schedule)?;
    let rows = f64::from(schedule.processors);
    let mut gantt = chart(&above, schedule, rows, ("", "processors"))?;
    if schedule.is_crowded() {
        draw_cells(&mut gantt, schedule)?
    } else {
        draw_jobs(&mut gantt, schedule)?
    }
    let time = format!("time since the first submission ({})", schedule.unit.name);
    let mut used = chart(&below, schedule, 100.0, (&time, "utilization (%)"))?;
    draw_utilization(&mut used, schedule)?;
    root.present()?;
    Ok(())
}

/// Axes: time from 0 to the end of the schedule, and values from 0 to `top`.
fn chart<'a, 'b>(
    area: &'a Area<'b>,
    schedule: &Schedule,
    top: f64,
    names: (&str, &str),
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin_left(14)
        .margin_right(24)
        .margin_bottom(6)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..schedule.end(), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(names.0)
        .y_desc(names.1)
        .x_labels(12)
        .y_labels(6)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    Ok(chart)
}

/// A number for an axis label, with at most two decimals.
fn short(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    format!("{rounded}")
}

/// Draws each job in pieces; a job too short to be visible is drawn one pixel wide.
fn draw_jobs(chart: &mut Chart, schedule: &Schedule) -> Drawn<()> {
    let (wide, high) = chart.plotting_area().dim_in_pixel();
    let (wide, high) = (
        schedule.end() / f64::from(wide),
        f64::from(schedule.processors) / f64::from(high),
    );
    for piece in &schedule.pieces {
        let outcome = &schedule.outcomes[piece.job];
        let colour = WIDTHS[schedule.width(outcome)].1;
        let colour = if outcome.via == Via::Backfill {
            colour.mix(PALE)
        } else {
            colour.to_rgba()
        };
        let left = schedule.time(outcome.start as f64);
        let right = schedule.time(outcome.end() as f64).max(left + wide);
        let corners = [
            (left, f64::from(piece.first)),
            (right, f64::from(piece.first + piece.count)),
        ];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        if right - left > 3.0 * wide && f64::from(piece.count) > 3.0 * high {
            chart.draw_series([Rectangle::new(corners, WHITE.stroke_width(1))])?;
        }
    }
    Ok(())
}

/// Draws the grid. Adjacent cells of the same color in a row become one rectangle.
fn draw_cells(chart: &mut Chart, schedule: &Schedule) -> Drawn<()> {
    let grid = Grid::new(schedule, CELLS);
    let across = schedule.end() / grid.columns as f64;
    let up = f64::from(schedule.processors) / grid.rows as f64;
    for row in 0..grid.rows {
        let paints: Vec<_> = (0..grid.columns)
            .map(|column| grid.paint(row, column))
            .collect();
        let mut column = 0;
        for run in paints.chunk_by(|a, b| a == b) {
            let from = column as f64;
            column += run.len();
            let Some((width, quarters)) = run[0] else {
                continue;
            };
            let corners = [
                (from * across, row as f64 * up),
                (column as f64 * across, (row + 1) as f64 * up),
            ];
            let colour = WIDTHS[width].1.mix(f64::from(quarters) / 4.0);
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        }
    }
    Ok(())
}

/// Draws the utilization over time as an area, and its mean between the first and the last
/// submission as a line.
fn draw_utilization(chart: &mut Chart, schedule: &Schedule) -> Drawn<()> {
    let across = schedule.end() / schedule.used.len() as f64;
    let steps = schedule.used.iter().enumerate().flat_map(|(at, part)| {
        let height = 100.0 * part;
        [
            (at as f64 * across, height),
            ((at + 1) as f64 * across, height),
        ]
    });
    let outline: Vec<(f64, f64)> = steps.collect();
    let area = [(0.0, 0.0)]
        .into_iter()
        .chain(outline.iter().copied())
        .chain([(schedule.end(), 0.0)]);
    chart.draw_series([Polygon::new(
        area.collect::<Vec<_>>(),
        USED.mix(PALE).filled(),
    )])?;
    chart.draw_series([PathElement::new(outline, USED.stroke_width(1))])?;
    let mean = 100.0 * schedule.utilization;
    let line = vec![(0.0, mean), (schedule.time(schedule.last as f64), mean)];
    chart.draw_series([PathElement::new(line, MEAN.stroke_width(2))])?;
    Ok(())
}

/// Draws the title and the legend.
fn draw_headline(area: &Area, schedule: &Schedule) -> Drawn<()> {
    area.draw(&Text::new(
        schedule.title.to_string(),
        (80, 14),
        ("sans-serif", 20),
    ))?;
    let paler = if schedule.is_crowded() {
        Some("paler: partly idle")
    } else {
        schedule.has_backfilled().then_some("paler: backfilled")
    };
    let mean = format!(
        "{:.1} % used, first to last submission",
        100.0 * schedule.utilization
    );
    let paler = paler.map(|paler| (WIDTHS[0].1.mix(PALE), paler.to_string()));
    let keys = legend(schedule)
        .into_iter()
        .chain(paler)
        .chain([(MEAN.to_rgba(), mean)]);
    let mut left = 80;
    for (colour, name) in keys {
        area.draw(&Rectangle::new(
            [(left, 48), (left + 14, 62)],
            colour.filled(),
        ))?;
        area.draw(&Text::new(
            name.clone(),
            (left + 20, 48),
            ("sans-serif", 15),
        ))?;
        left += 40 + 8 * name.chars().count() as i32;
    }
    Ok(())
}

/// The widths that jobs can have on this machine, as legend entries with their colors.
fn legend(schedule: &Schedule) -> Vec<(RGBAColor, String)> {
    let (mut keys, mut below) = (Vec::new(), 0);
    for (part, colour) in WIDTHS {
        let most = (f64::from(schedule.processors) * part) as u32;
        if most > below {
            let range = if most == below + 1 {
                format!("{most}")
            } else {
                format!("{}-{most}", below + 1)
            };
            let noun = if most == 1 { "processor" } else { "processors" };
            keys.push((colour.to_rgba(), format!("{range} {noun}")));
            below = most;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceJob;
    use super::*;

    pub(super) fn outcome(start: i64, run: i64, processors: u32) -> Outcome {
        let job = TraceJob {
            id: start,
            submit: start,
            run,
            estimate: run,
            processors,
            user: 1,
            executable: -1,
        };
        Outcome {
            job,
            start,
            nodes: "".into(),
            via: Via::Priority,
        }
    }

    #[test]
    fn the_time_axis_has_a_suitable_unit() {
        let names = [60, 3600, 86_400, 86_400 * 30].map(|seconds| Unit::for_length(seconds).name);
        assert_eq!(names, ["seconds", "minutes", "hours", "days"]);
    }

    #[test]
    fn plots_have_a_bounded_size_and_can_be_empty() {
        let outcomes: Vec<_> = (0..30_000).map(|at| outcome(at, 50, 1)).collect();
        let picture = svg("many", &outcomes, 64).unwrap();
        assert!(picture.contains("paler: partly idle") && picture.contains("utilization (%)"));
        assert!(picture.matches("<rect").count() < CELLS.0 * CELLS.1);
        assert!(
            !svg("in order", &outcomes[..9], 64)
                .unwrap()
                .contains("paler")
        );
        let backfilled = Outcome {
            via: Via::Backfill,
            ..outcome(3, 50, 1)
        };
        assert!(
            svg("few", &[backfilled], 64)
                .unwrap()
                .contains("paler: backfilled")
        );
        assert!(svg("none", &[], 64).unwrap().contains("none"));
    }

    #[test]
    fn the_legend_lists_the_possible_job_widths() {
        let names = |processors| {
            let schedule = Schedule::new("", &[], processors);
            legend(&schedule)
                .into_iter()
                .map(|(_, name)| name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(
            names(128),
            "1-4 processors, 5-16 processors, 17-64 processors, 65-128 processors"
        );
        assert_eq!(names(4), "1-2 processors, 3-4 processors");
    }
}
