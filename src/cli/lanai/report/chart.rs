//! Charts: quantities over time, and histograms. Pictures are 640 units wide; the margins leave
//! room for the larger text of narrow screens.

use super::aggregate::{Bin, Report};
use super::axis::{self, Tick};
use super::markup::{Anchor, Picture};
use super::period::formatted;
use super::tables;

/// The width of all pictures.
pub const WIDTH: f64 = 640.0;

/// The left, right, upper and lower border of the plot.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 602.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 240.0;

/// The height of a picture with a plot.
const HEIGHT: f64 = 302.0;

/// The baselines of the labels and of the title of the horizontal axis.
const LABELS: f64 = 264.0;
const TITLE: f64 = 292.0;

/// If a time axis has more labels or a longer label, narrow screens show every second label.
const MOST_NARROW_LABELS: usize = 4;
const SHORT_LABEL: usize = 6;

/// The distance of the middle of a label from the border of the picture.
const MARGIN: f64 = 36.0;

/// A text of a user at the pointer is cut to this number of characters.
pub const LONGEST_NOTE: usize = 40;

/// A quantity over time.
pub struct Curve {
    /// The class of the picture's elements.
    pub class: &'static str,
    /// The value in a bin.
    pub value: fn(&Bin) -> f64,
    /// True for an area, false for a line.
    pub is_area: bool,
}

/// Allocated and busy processors over time, with a line for all processors.
pub fn processors(report: &Report) -> String {
    let curves = [
        Curve {
            class: "c1",
            value: |bin| bin.allocated,
            is_area: true,
        },
        Curve {
            class: "c2",
            value: |bin| bin.busy,
            is_area: false,
        },
    ];
    let all = report.capacity.processors as f64;
    let note = |bin: &Bin| {
        format!(
            "{} of {} CPUs allocated, {} busy",
            tables::mean(bin.allocated),
            report.capacity.processors,
            tables::mean(bin.busy)
        )
    };
    over_time(
        report,
        ("CPUs", "Utilization over time"),
        &curves,
        all,
        &note,
    )
}

/// Waiting jobs over time.
pub fn queue_length(report: &Report) -> String {
    let curves = [Curve {
        class: "c3",
        value: |bin| bin.waiting,
        is_area: true,
    }];
    let note = |bin: &Bin| format!("{} waiting jobs", tables::mean(bin.waiting));
    over_time(
        report,
        ("Waiting jobs", "Queue length over time"),
        &curves,
        0.0,
        &note,
    )
}

/// Curves over time. `limit` is the value of a horizontal line; 0 for none. `note` is the text at
/// the pointer.
fn over_time(
    report: &Report,
    (title, label): (&str, &str),
    curves: &[Curve],
    limit: f64,
    note: &dyn Fn(&Bin) -> String,
) -> String {
    let largest = curves
        .iter()
        .map(|curve| report.peak(curve.value))
        .fold(limit, f64::max);
    let ticks = axis::numbers(largest, largest >= 4.0);
    let top = ticks[ticks.len() - 1].0;
    let mut picture = Picture::default();
    value_axis(&mut picture, title, &ticks);
    let period = report.period;
    let x = |at: i64| time_position(at, (period.from, period.to), (LEFT, RIGHT));
    time_axis(
        &mut picture,
        (period.from, period.to),
        (LEFT, RIGHT),
        (TOP, BOTTOM),
    );
    picture.text(
        "",
        ((LEFT + RIGHT) / 2.0, TITLE),
        Anchor::Middle,
        &axis::time_title(period.from, period.to),
    );
    for curve in curves {
        let path = steps(report, curve, &x, &|value| height(value, top));
        let class = if curve.is_area { "area" } else { "curve" };
        picture.path(&format!("{class} {}", curve.class), &path);
    }
    if limit > 0.0 {
        let y = height(limit, top);
        picture.line("limit", (LEFT, y), (RIGHT, y));
    }
    for bin in &report.bins {
        let (left, right) = (x(bin.from), x(bin.to));
        let time = formatted(bin.from, tables::time_format(report));
        let note = format!("{time}: {}", note(bin));
        let size = (right - left, BOTTOM - TOP);
        picture.rectangle("note", (left, TOP), size, &note);
    }
    picture.finish("plot", (WIDTH, HEIGHT), label)
}

/// The path of a curve: a horizontal line in each bin.
fn steps(report: &Report, curve: &Curve, x: &dyn Fn(i64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    use super::markup::unit;
    let mut path = String::new();
    for bin in &report.bins {
        let y = unit(y((curve.value)(bin)));
        if path.is_empty() && curve.is_area {
            path.push_str(&format!("M{} {BOTTOM}", unit(x(bin.from))));
        }
        if path.is_empty() {
            path.push_str(&format!("M{} {y}", unit(x(bin.from))));
        } else {
            path.push_str(&format!("V{y}"));
        }
        path.push_str(&format!("H{}", unit(x(bin.to))));
    }
    if curve.is_area {
        path.push_str(&format!("V{BOTTOM}Z"));
    }
    path
}

/// The position of a value on an axis from 0 to `top`.
fn height(value: f64, top: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * value / top
}

/// The position of a time on an axis.
pub fn time_position(at: i64, (from, to): (i64, i64), (left, right): (f64, f64)) -> f64 {
    left + (right - left) * (at - from) as f64 / (to - from).max(1) as f64
}

/// The vertical axis with its title above.
fn value_axis(picture: &mut Picture, title: &str, ticks: &[Tick<f64>]) {
    let top = ticks[ticks.len() - 1].0;
    picture.text("", (4.0, 20.0), Anchor::Start, title);
    for (value, label) in ticks {
        let y = height(*value, top);
        picture.line("grid", (LEFT, y), (RIGHT, y));
        picture.text("", (LEFT - 8.0, y + 5.0), Anchor::End, label);
    }
}

/// A horizontal time axis between `left` and `right`, with lines from `top` to `bottom`.
pub fn time_axis(
    picture: &mut Picture,
    (from, to): (i64, i64),
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let ticks = axis::times(from, to);
    let is_crowded = ticks.len() > MOST_NARROW_LABELS
        || ticks.iter().any(|(_, label)| label.len() > SHORT_LABEL);
    for (index, (at, label)) in ticks.into_iter().enumerate() {
        let x = time_position(at, (from, to), (left, right));
        picture.line("grid", (x, top), (x, bottom));
        // A label in the middle would exceed the picture near its borders.
        let anchor = if x > WIDTH - MARGIN {
            Anchor::End
        } else if x < MARGIN {
            Anchor::Start
        } else {
            Anchor::Middle
        };
        let class = if is_crowded && index % 2 == 1 {
            "minor"
        } else {
            ""
        };
        picture.text(class, (x, bottom + LABELS - BOTTOM), anchor, &label);
    }
}

/// The values of a histogram's bins, by series.
pub struct Histogram<'a> {
    /// What the picture shows.
    pub label: &'a str,
    /// The titles of the horizontal and the vertical axis.
    pub titles: (&'a str, &'a str),
    /// The labels at the left borders of the bins; an empty label is omitted.
    pub borders: Vec<String>,
    /// The series: class, name and values.
    pub series: Vec<(&'static str, &'static str, Vec<u64>)>,
    /// The description of a bin.
    pub range: fn(usize) -> String,
}

/// A histogram. The bars of the series are side by side in each bin.
pub fn histogram(content: &Histogram) -> String {
    let values = content.series.iter().flat_map(|series| &series.2);
    let largest = values.copied().max().unwrap_or(0) as f64;
    let ticks = axis::numbers(largest, true);
    let top = ticks[ticks.len() - 1].0;
    let mut picture = Picture::default();
    value_axis(&mut picture, content.titles.1, &ticks);
    let bins = content.borders.len();
    let width = (RIGHT - LEFT) / bins as f64;
    for (bin, border) in content.borders.iter().enumerate() {
        let x = LEFT + width * bin as f64;
        let class = if bin % 2 == 1 { "minor" } else { "" };
        picture.text(class, (x, LABELS), Anchor::Middle, border);
        picture.line("tick", (x, BOTTOM), (x, BOTTOM + 6.0));
    }
    let middle = (LEFT + RIGHT) / 2.0;
    picture.text("", (middle, TITLE), Anchor::Middle, content.titles.0);
    let bar = (width - 4.0) / content.series.len() as f64;
    for (index, (class, name, values)) in content.series.iter().enumerate() {
        for (bin, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            // A small value remains visible.
            let y = height(*value as f64, top).min(BOTTOM - 1.0);
            let x = LEFT + width * bin as f64 + 2.0 + bar * index as f64;
            let note = format!("{name}, {}: {value}", (content.range)(bin));
            let size = (bar, BOTTOM - y);
            picture.rectangle(&format!("bar {class}"), (x, y), size, &note);
        }
    }
    picture.finish("plot", (WIDTH, HEIGHT), content.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_inside_the_plot() {
        let text = histogram(&Histogram {
            label: "test",
            titles: ("x", "y"),
            borders: vec!["0".into(), "1".into()],
            series: vec![("c1", "a", vec![0, 7]), ("c2", "b", vec![1, 1_000_000])],
            range: |bin| bin.to_string(),
        });
        let bars: Vec<&str> = text.split("<rect").skip(1).collect();
        assert_eq!(bars.len(), 3);
        for bar in bars {
            let number = |key: &str| -> f64 {
                let rest = bar.split_once(&format!(" {key}=\"")).unwrap().1;
                rest.split('"').next().unwrap().parse().unwrap()
            };
            assert!(number("x") >= LEFT && number("x") + number("width") <= RIGHT);
            assert!(number("y") >= TOP - 0.1 && number("y") + number("height") <= BOTTOM + 0.1);
        }
    }
}
