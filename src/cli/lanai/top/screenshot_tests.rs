//! Makes `docs/lanai-top.svg` from a drawn screen. `BLESS=1` writes the file, otherwise a test
//! fails if the file is not up to date.

use super::draw;
use super::state::{Pane, Snapshot, TopState};
use crate::cli::example::{self, array, finished, node, queued, running, share, with};
use crate::model::job::array::SubjobState;
use crate::model::job::state::{Holds, JobState};
use crate::model::job_id::JobId;
use crate::model::report::outlook::{JobForecast, Prospect};
use crate::model::time::Span;
use crate::wire::message::JobRecord;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use std::fmt::Write;
use std::sync::Arc;

/// Width and height of a character in the SVG file.
const CELL: (usize, usize) = (8, 17);

/// The screen as text, without blanks at the ends of lines.
pub fn text(state: &TopState) -> String {
    let buffer = drawn(state);
    let width = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(width).map(|line| {
        let text: String = line.iter().map(Cell::symbol).collect();
        text.trim_end().to_string() + "\n"
    });
    lines.collect()
}

/// The drawn screen.
pub fn drawn(state: &TopState) -> Buffer {
    let backend = TestBackend::new(state.area.width, state.area.height);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal.draw(|frame| draw::draw(frame, state)).unwrap();
    terminal.backend().buffer().clone()
}

fn on(node: &str, ncpus: i64) -> crate::model::job::NodeShare {
    crate::model::job::NodeShare {
        node: node.into(),
        host: node.into(),
        ..share(ncpus, None)
    }
}

fn owned(mut record: JobRecord, user: &str) -> JobRecord {
    record.job.owner.user = user.into();
    record
}

/// The job, submitted and started this number of seconds before the time of the examples.
fn started(mut record: JobRecord, seconds: i64) -> JobRecord {
    let at = example::server().now + Span::seconds(-seconds);
    if let Some(run) = &mut record.job.life.run {
        run.started = at;
    }
    record
}

/// Jobs of three users on three nodes.
pub fn example_data() -> Snapshot {
    let server = example::server();
    let request = |ncpus: u32, minutes: u32| format!("ncpus={ncpus} walltime=00:{minutes:02}:00");
    let run = |id, name: &str, node: &str, ncpus: u32, seconds, minutes| {
        let job = queued(id, name, &request(ncpus, minutes));
        started(running(job, vec![on(node, ncpus.into())]), seconds)
    };
    let mut sweep = array(queued(108, "sweep", &request(1, 20)), "1-40");
    let elements = sweep.job.elements.as_mut().map(Arc::make_mut).unwrap();
    elements.mark(1, 14, SubjobState::Ended(0));
    elements.mark(15, 15, SubjobState::Ended(1));
    let mut held = queued(112, "publish", &request(1, 5));
    held.job.life.state = JobState::Held;
    held.job.life.holds = Holds::USER;
    let mut waits = queued(109, "train-large", &request(4, 40));
    waits.reason = Some(crate::model::reason::Reason::QueueStopped);
    let ended = |record: JobRecord, status, ago: i64| {
        let mut record = finished(record, status, false);
        record.job.life.obittime = Some(server.now + Span::seconds(-ago));
        record
    };
    let jobs = vec![
        run(101, "train", "gpu1", 4, 900, 30),
        owned(run(104, "simulation-a", "head", 2, 540, 25), "bob"),
        owned(run(105, "simulation-b", "head", 2, 300, 20), "bob"),
        run(106, "evaluate", "node2", 3, 120, 45),
        sweep,
        waits,
        owned(with(queued(110, "align", &request(2, 15)), |_| {}), "carol"),
        held,
        ended(run(102, "prepare", "node2", 4, 1_300, 20), 0, 400),
        ended(run(103, "broken", "gpu1", 1, 1_350, 20), 137, 1_200),
    ];
    let mut nodes: Vec<_> = ["gpu1", "head", "node2"]
        .map(|name| node(name, name))
        .into();
    for (index, job, ncpus) in [(0, 101, 4), (1, 104, 2), (1, 105, 2), (2, 106, 3)] {
        let name = nodes[index].node.facts.name.clone();
        nodes[index].jobs.push((JobId::job(job), on(&name, ncpus)));
    }
    Snapshot {
        server,
        jobs,
        subjobs: Vec::new(),
        nodes,
    }
}

/// The state with the example data.
pub fn example_state(columns: u16, rows: u16) -> TopState {
    let area = Rect::new(0, 0, columns, rows);
    let mut state = TopState::new("alice", true, area);
    state.shows_all = true;
    state.refresh(example_data());
    let now = example::server().now;
    let start = |job, from: i64, minutes: i64, node: &str| JobForecast {
        job: JobId::job(job),
        prospect: Prospect::Starts {
            at: now + Span::seconds(from),
            end: now + Span::seconds(from + 60 * minutes),
            nodes: vec![node.into()],
        },
        range: None,
    };
    state.starts = vec![start(109, 900, 40, "gpu1"), start(110, 960, 15, "head")];
    state
}

fn color(color: Color, default: &'static str) -> &'static str {
    match color {
        Color::Green => "#4ec97b",
        Color::Yellow => "#e5c453",
        Color::Red => "#f26d6d",
        Color::Magenta => "#c98be0",
        Color::Cyan => "#58c4dd",
        Color::DarkGray => "#8a8f98",
        _ => default,
    }
}

fn escape(symbol: &str) -> String {
    symbol
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The foreground and background color of a cell, and whether it is bold.
fn style(cell: &Cell) -> (&'static str, &'static str, bool) {
    let dim = cell.modifier.contains(Modifier::DIM);
    let foreground = color(cell.fg, if dim { "#8a8f98" } else { "#d8dbe0" });
    let background = "#16181d";
    let bold = cell.modifier.contains(Modifier::BOLD);
    if cell.modifier.contains(Modifier::REVERSED) {
        (background, foreground, bold)
    } else {
        (foreground, background, bold)
    }
}

/// The drawn screen as an SVG picture.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (
        usize::from(buffer.area.width),
        usize::from(buffer.area.height),
    );
    let size = (width * CELL.0 + 16, height * CELL.1 + 16);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" \
         height=\"{1}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#16181d\"/>\n",
        size.0, size.1
    );
    for (row, cells) in buffer.content.chunks(width).enumerate() {
        let mut column = 0;
        while column < width {
            let style_here = style(&cells[column]);
            let run = cells[column..]
                .iter()
                .take_while(|cell| style(cell) == style_here)
                .count();
            let symbols: String = cells[column..column + run]
                .iter()
                .map(Cell::symbol)
                .collect();
            let (x, y) = (8 + column * CELL.0, 8 + row * CELL.1);
            let (foreground, background, is_bold) = style_here;
            let length = run * CELL.0;
            if background != "#16181d" {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{length}\" height=\"{}\" fill=\"{background}\"/>",
                    CELL.1
                );
            }
            if !symbols.trim().is_empty() {
                let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
                let _ = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{}\" fill=\"{foreground}\"{weight} textLength=\"{length}\" \
                     xml:space=\"preserve\">{}</text>",
                    y + 13,
                    escape(&symbols)
                );
            }
            column += run;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn the_picture_in_the_readme_is_up_to_date() {
    let mut state = example_state(150, 38);
    state.focus = Pane::Queue;
    state.select(4);
    let expected = svg(&drawn(&state));
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lanai-top.svg");
    if crate::sys::env::var("BLESS").is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    let current = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        current == expected,
        "docs/lanai-top.svg is not up to date: run BLESS=1 cargo test --lib the_picture"
    );
}
