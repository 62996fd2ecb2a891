//! The plain list of `qstat`: one line per job. Ids are never cut; the id column grows instead.

use crate::cli::output::table::FixedColumn::{self, Left, Rest, Right};
use crate::cli::output::table::push_line;
use crate::model::job::state::JobState;
use crate::model::time::Span;
use crate::wire::message::ServerFacts;
use std::borrow::Cow;
use std::fmt::Write;

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLine<'a> {
    /// The full id.
    pub id: String,
    /// `Job_Name`.
    pub name: &'a str,
    /// The owner's user name.
    pub owner: &'a str,
    /// The text under `Time Use` or `% done`.
    pub used: String,
    /// The state.
    pub state: JobState,
    /// The queue.
    pub queue: &'a str,
}

/// The layout of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListStyle {
    /// `-w`: wide columns.
    pub wide: bool,
    /// `-p`: percent done instead of processor time.
    pub percent: bool,
}

/// Widths of the id column, of the text columns, and of the queue's underline.
struct ListWidths {
    id: usize,
    text: usize,
    underline: usize,
}

/// A list that is written in parts, as lines arrive. The heading is written once.
#[derive(Debug)]
pub struct JobList {
    style: ListStyle,
    id: usize,
    has_heading: bool,
    comment: Option<String>,
}

impl JobList {
    /// An empty list; `longest` is the length of the longest expected id. If an id is longer, the
    /// id column is wider from that call of [`JobList::write`] on.
    pub fn new(style: ListStyle, longest: usize, server: &ServerFacts) -> JobList {
        let id = longest.max(if style.wide { 30 } else { 17 });
        JobList {
            style,
            id,
            has_heading: false,
            comment: server.comment.clone(),
        }
    }

    /// Writes further lines. The first call with lines writes the heading.
    pub fn write(&mut self, out: &mut String, lines: &[JobLine]) {
        self.id = lines
            .iter()
            .map(|line| line.id.len())
            .fold(self.id, usize::max);
        let (text, underline) = if self.style.wide { (15, 15) } else { (16, 5) };
        let widths = ListWidths {
            id: self.id,
            text,
            underline,
        };
        out.reserve((lines.len() + 2) * (widths.id + 66));
        if !lines.is_empty() && !std::mem::replace(&mut self.has_heading, true) {
            if let Some(comment) = &self.comment {
                out.extend([comment.as_str(), "\n"]);
            }
            heading(out, &widths, self.style);
        }
        for line in lines {
            row(out, line, &widths);
        }
    }
}

impl ListWidths {
    fn columns(&self) -> [FixedColumn; 6] {
        let ListWidths { id, text, .. } = *self;
        // Two blanks follow the user name.
        let user = Left(text + 1);
        [Left(id), Left(text), user, Right(8), Left(1), Left(text)]
    }
}

fn heading(out: &mut String, widths: &ListWidths, style: ListStyle) {
    let used = if style.percent { "% done " } else { "Time Use" };
    let heads = ["Job id", "Name", "User", used, "S", "Queue"];
    let [id, name, user, used, state, _] = widths.columns();
    push_line(out, [id, name, user, used, state, Rest], heads);
    let (id_line, text_line) = ("-".repeat(widths.id - 1), "-".repeat(widths.text));
    let _ = writeln!(
        out,
        "\n{id_line}  {text_line} {text_line}  -------- - {}",
        "-".repeat(widths.underline)
    );
}

fn row(out: &mut String, line: &JobLine, widths: &ListWidths) {
    let text = widths.text;
    let mut state = [0; 4];
    let queue: String = line.queue.chars().take(text).collect();
    let cells: [&str; 6] = [
        &line.id,
        // PBS cuts a job name that is as long as its column is wide, but a user name only if it is
        // longer.
        &cut_from(line.name, text, text),
        &cut(line.owner, text),
        &line.used,
        line.state.letter().encode_utf8(&mut state),
        &queue,
    ];
    push_line(out, widths.columns(), cells);
    out.push('\n');
}

/// Cuts a text longer than `width` characters; the last character is then `*`.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    cut_from(text, width + 1, width)
}

/// Cuts a text of at least `length` characters to `width` characters; the last one is then `*`.
fn cut_from(text: &str, length: usize, width: usize) -> Cow<'_, str> {
    if text.len() < length || text.chars().count() < length {
        return text.into();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('*');
    short.into()
}

/// `Time Use`: the processor time; `0` if it is unknown, or if it is below a second and the job is
/// not running, suspended or finished.
pub fn time_used(cput: Option<Span>, state: JobState) -> String {
    let has_run = matches!(
        state,
        JobState::Running | JobState::Suspended | JobState::Finished | JobState::Expired
    );
    match cput {
        Some(cput) if has_run || cput.as_seconds() > 0 => cput.to_string(),
        _ => "0".to_string(),
    }
}

/// `% done`: the used percentage of the requested processor time or walltime, at most 100. If both
/// are requested, the higher percentage; if neither is requested, 0. `--` if the job is not
/// running, suspended, begun (an array) or finished. `spent` contains the requested and the used
/// time, for processor time and for walltime.
pub fn percent_done(spent: &[(Option<Span>, Span)], state: JobState) -> String {
    let known = spent.iter().filter_map(|(requested, used)| {
        Some((requested.filter(|requested| requested.0 > 0)?, used))
    });
    let percent = known
        .map(|(requested, used)| used.0.saturating_mul(100) / requested.0)
        .max();
    match (state, percent) {
        (
            JobState::Running | JobState::Suspended | JobState::Begun | JobState::Finished,
            percent,
        ) => {
            format!("{:>3} ", percent.unwrap_or(0).min(100))
        }
        _ => "-- ".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::server;

    fn list(lines: &[JobLine], style: ListStyle) -> String {
        let mut out = String::new();
        JobList::new(style, 0, &server()).write(&mut out, lines);
        out
    }

    fn line<'a>(
        id: &str,
        name: &'a str,
        owner: &'a str,
        used: &str,
        state: JobState,
    ) -> JobLine<'a> {
        JobLine {
            id: id.into(),
            name,
            owner,
            used: used.into(),
            state,
            queue: "workq",
        }
    }

    #[test]
    fn the_plain_list_has_the_layout_of_pbs() {
        let lines = [
            line("1001.head", "r1", "alice", "00:00:05", JobState::Running),
            line(
                "1002.head",
                "exactly15chars_",
                "exactly16chars__",
                "0",
                JobState::Held,
            ),
            line(
                "1003.head",
                "exactly16chars__",
                "longusername17chr",
                "0",
                JobState::Waiting,
            ),
        ];
        let expected = "\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
1001.head         r1               alice             00:00:05 R workq           \n\
1002.head         exactly15chars_  exactly16chars__         0 H workq           \n\
1003.head         exactly16chars_* longusername17c*         0 W workq           \n";
        assert_eq!(list(&lines, ListStyle::default()), expected);
    }

    #[test]
    fn the_wide_list_has_the_layout_of_pbs() {
        let lines = [
            line("1001.head", "r1", "alice", "00:00:05", JobState::Running),
            line(
                "1004.head",
                "exactly15chars_",
                "alice",
                "0",
                JobState::Queued,
            ),
        ];
        let expected = "\
Job id                         Name            User             Time Use S Queue
-----------------------------  --------------- ---------------  -------- - ---------------
1001.head                      r1              alice            00:00:05 R workq          \n\
1004.head                      exactly15chars* alice                   0 Q workq          \n";
        assert_eq!(
            list(
                &lines,
                ListStyle {
                    wide: true,
                    percent: false
                }
            ),
            expected
        );
    }

    #[test]
    fn an_id_is_never_cut() {
        let id = "1234567.head.example.org";
        let shown = list(
            &[line(id, "a", "b", "0", JobState::Queued)],
            ListStyle::default(),
        );
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[0],
            format!(
                "{:24} Name             User              Time Use S Queue",
                "Job id"
            )
        );
        assert_eq!(
            lines[1],
            format!(
                "{}  ---------------- ----------------  -------- - -----",
                "-".repeat(23)
            )
        );
        assert!(
            lines[2].starts_with("1234567.head.example.org a  "),
            "{}",
            lines[2]
        );
    }

    #[test]
    fn a_list_in_parts_has_one_heading_and_one_width() {
        let (short, long) = (
            line("1.head", "a", "b", "0", JobState::Queued),
            "1[].head.example.org",
        );
        let (mut out, mut parts) = (
            String::new(),
            JobList::new(ListStyle::default(), long.len(), &server()),
        );
        parts.write(&mut out, &[]);
        parts.write(&mut out, std::slice::from_ref(&short));
        parts.write(&mut out, &[line(long, "a", "b", "0", JobState::Queued)]);
        assert_eq!(
            out,
            list(
                &[short, line(long, "a", "b", "0", JobState::Queued)],
                ListStyle::default()
            )
        );
    }

    #[test]
    fn percent_done_is_the_larger_percentage() {
        let (hour, minute) = (Span::seconds(3600), Span::seconds(60));
        let spent = [
            (Some(hour), minute),
            (Some(minute), Span::seconds(30)),
            (None, hour),
        ];
        assert_eq!(percent_done(&spent, JobState::Running), " 50 ");
        assert_eq!(
            percent_done(&[(Some(minute), hour)], JobState::Running),
            "100 "
        );
        assert_eq!(percent_done(&spent, JobState::Queued), "-- ");
        assert_eq!(percent_done(&[(None, hour)], JobState::Begun), "  0 ");
        let shown = list(
            &[line("1.head", "a", "b", " 50 ", JobState::Running)],
            ListStyle {
                wide: false,
                percent: true,
            },
        );
        let expected = "\
Job id            Name             User               % done  S Queue
----------------  ---------------- ----------------  -------- - -----
1.head            a                b                      50  R workq           \n";
        assert_eq!(shown, expected);
        assert_eq!(list(&[], ListStyle::default()), "");
    }
}
