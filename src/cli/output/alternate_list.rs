//! The alternate list of `qstat` (`-a -i -r -H -u -n -s -T -G -M`): requested resources and hosts.

use super::full::printable;
use super::job_list::cut;
use crate::cli::output::table::FixedColumn::{self, Left, Right};
use crate::cli::output::table::push_line;
use crate::model::job::state::JobState;
use crate::model::job::{NodeShare, Run};
use crate::model::resource::{ResourceList, ResourceValue, Size};
use crate::model::time::{Span, Wall};
use crate::shown::comment;
use crate::shown::exec_host;
use crate::shown::timestamp;
use crate::wire::message::{JobRecord, ServerFacts};
use std::fmt::Write;

/// The cell of an unknown value.
const NONE: &str = " -- ";

/// Lists of hosts are wrapped before this column.
const PAGE: usize = 78;

/// Width of the columns for the requested and the elapsed time, also with `-w`.
const TIME_COLUMN: usize = 5;

/// The unit of displayed amounts of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryUnit {
    /// The unit of the request.
    #[default]
    Own,
    /// `-G`: gigabytes.
    Gigabytes,
    /// `-M`: megawords (2^20 words of eight bytes).
    Megawords,
}

/// The layout of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternateStyle {
    /// `-w`: wide columns.
    pub wide: bool,
    /// `-n`: hosts of the job.
    pub hosts: bool,
    /// `-s`: comment of the job.
    pub comment: bool,
    /// `-1`: hosts on the line of the job; without hosts, the comment.
    pub one_line: bool,
    /// `-T`: the list shows the planned start instead of the elapsed time. Contains the current
    /// time; None without `-T`.
    pub starts: Option<Wall>,
    /// `-G`, `-M`: unit of memory.
    pub unit: MemoryUnit,
}

/// Widths of id, user, queue, name, session, nodes, tasks.
type AlternateWidths = [usize; 7];

/// A list that is written in parts, as jobs arrive. The heading is written once.
#[derive(Debug)]
pub struct AlternateList {
    style: AlternateStyle,
    widths: AlternateWidths,
    has_heading: bool,
}

impl AlternateList {
    /// An empty list; `longest` is the length of the longest expected id. If an id is longer, the
    /// id column is wider from that call of [`AlternateList::write`] on.
    pub fn new(style: AlternateStyle, longest: usize) -> AlternateList {
        let mut widths: AlternateWidths = if style.wide {
            [30, 15, 15, 15, 8, 4, 5]
        } else {
            [15, 8, 8, 10, 6, 3, 3]
        };
        widths[0] = widths[0].max(longest);
        AlternateList {
            style,
            widths,
            has_heading: false,
        }
    }

    /// Writes further jobs. With `-T`, the jobs of one call are sorted. The first call with jobs
    /// writes the heading.
    pub fn write(&mut self, out: &mut String, records: &[JobRecord], server: &ServerFacts) {
        let ids = records
            .iter()
            .map(|record| record.job.id.full(&server.name).len());
        self.widths[0] = ids.fold(self.widths[0], usize::max);
        if !records.is_empty() && !std::mem::replace(&mut self.has_heading, true) {
            let _ = writeln!(
                out,
                "\n{}: {}",
                server.name,
                server.comment.as_deref().unwrap_or_default()
            );
            heading(out, &self.widths, self.style);
        }
        for record in in_order(records, self.style) {
            row(out, record, server, &self.widths, self.style);
            hosts(out, record, self.style);
            comment_line(out, record, server, self.style);
            out.push('\n');
        }
    }
}

/// The order of the rows: as given. With `-T`, jobs with planned starts come first, sorted by
/// start; then running and suspended jobs, then arrays that have begun, then all other jobs.
fn in_order(records: &[JobRecord], style: AlternateStyle) -> Vec<&JobRecord> {
    let mut order: Vec<&JobRecord> = records.iter().collect();
    if style.starts.is_some() {
        order.sort_by_key(|record| {
            let planned = record.promise.as_ref().map(|promise| promise.at);
            let by_state = match record.job.life.state {
                JobState::Running | JobState::Suspended => 0,
                JobState::Begun => 1,
                _ => 2,
            };
            (planned.is_none(), planned, by_state)
        });
    }
    order
}

const HEADS: [&str; 7] = [
    "Job ID", "Username", "Queue", "Jobname", "SessID", "NDS", "TSK",
];

fn heading(out: &mut String, widths: &AlternateWidths, style: AlternateStyle) {
    let blanks = widths.iter().map(|width| width + 1).sum::<usize>();
    let last = if style.starts.is_some() {
        "Start"
    } else {
        "Elap"
    };
    if style.starts.is_some() {
        let _ = writeln!(out, "{:1$}Est", "", blanks + 15);
    }
    let _ = writeln!(out, "{:blanks$}{:7}{:8}{last}", "", "Req'd", "Req'd");
    let left = widths.map(FixedColumn::Left);
    push_line(out, left, HEADS);
    out.push_str(" Memory Time  S Time\n");
    for width in widths {
        let _ = write!(out, "{} ", "-".repeat(*width));
    }
    out.push_str("------ ----- - -----\n");
}

fn row(
    out: &mut String,
    record: &JobRecord,
    server: &ServerFacts,
    widths: &AlternateWidths,
    style: AlternateStyle,
) {
    let (job, requested) = (&record.job, &record.job.spec.request.list);
    let [id, user, queue, name, session, nodes, tasks] = *widths;
    let run = if has_run(job.life.state) {
        job.life.run.as_ref()
    } else {
        None
    };
    let session_id = run
        .and_then(|run| run.session)
        .map_or(NONE.to_string(), |id| id.to_string());
    let time = requested_time(requested).map_or(NONE.to_string(), |(_, span)| hours_minutes(span));
    let (node_count, cpu_count) = (count(requested, "nodect"), count(requested, "ncpus"));
    let columns = [
        Left(id),
        Left(user),
        Left(queue),
        Left(name),
        Right(session),
        Right(nodes),
        Right(tasks),
        Right(6),
        Right(TIME_COLUMN),
        Left(1),
        Right(TIME_COLUMN),
    ];
    let cells: [&str; 11] = [
        &job.id.full(&server.name),
        &cut(&job.owner.user, user),
        &cut(&job.spec.queue, queue),
        &cut(&job.spec.name, name),
        &cut(&session_id, session),
        &cut(&node_count, nodes),
        &cut(&cpu_count, tasks),
        &memory(requested, style.unit),
        &time,
        &job.life.state.letter().to_string(),
        &last_column(record, server, style),
    ];
    push_line(out, columns, cells);
}

/// The requested amount of a resource; ` -- ` if it is 0 or not requested.
fn count(requested: &ResourceList, name: &str) -> String {
    match long(requested, name) {
        Some(number) if number > 0 => number.to_string(),
        _ => NONE.to_string(),
    }
}

fn has_run(state: JobState) -> bool {
    state.is_under_way() || matches!(state, JobState::Finished | JobState::Expired)
}

fn long(requested: &ResourceList, name: &str) -> Option<i64> {
    match requested.get(name) {
        Some(ResourceValue::Long(number)) => Some(*number),
        _ => None,
    }
}

/// The requested processor time, else the requested walltime, with the name of the resource.
fn requested_time(requested: &ResourceList) -> Option<(&'static str, Span)> {
    ["cput", "walltime"]
        .into_iter()
        .find_map(|name| match requested.get(name) {
            Some(ResourceValue::Time(span)) => Some((name, *span)),
            _ => None,
        })
}

/// Hours and minutes, cut to the width of the column as in PBS: 336 hours are `336:0`.
fn hours_minutes(span: Span) -> String {
    let minutes = span.as_seconds() / 60;
    let text = format!("{:02}:{:02}", minutes / 60, minutes % 60);
    text.chars().take(TIME_COLUMN).collect()
}

fn last_column(record: &JobRecord, server: &ServerFacts, style: AlternateStyle) -> String {
    match style.starts {
        Some(now) => planned_start(record, server, now).unwrap_or_else(|| "--".to_string()),
        None => elapsed(record).unwrap_or_else(|| NONE.to_string()),
    }
}

fn planned_start(record: &JobRecord, server: &ServerFacts, now: Wall) -> Option<String> {
    if record.job.life.state != JobState::Queued {
        return None;
    }
    let start = record.promise.as_ref()?.at;
    timestamp::start_column(server.clock.wall(start), now)
}

fn elapsed(record: &JobRecord) -> Option<String> {
    let life = &record.job.life;
    if life.run.is_none() || !has_run(life.state) {
        return None;
    }
    let by_cput = matches!(
        requested_time(&record.job.spec.request.list),
        Some(("cput", _))
    );
    Some(hours_minutes(if by_cput {
        life.used.cput
    } else {
        life.used.walltime
    }))
}

/// The requested memory, cut to five characters. Except with `-G`, it is scaled to at most four
/// digits.
fn memory(requested: &ResourceList, unit: MemoryUnit) -> String {
    let Some(ResourceValue::Size(size)) = requested.get("mem") else {
        return NONE.to_string();
    };
    let text = match unit {
        MemoryUnit::Gigabytes => format!("{}gb", size.bytes().div_ceil(1 << 30)),
        MemoryUnit::Megawords => scaled(size.bytes().div_ceil(8 << 20), "mw"),
        MemoryUnit::Own => own_unit(*size),
    };
    text.chars().take(5).collect()
}

fn own_unit(size: Size) -> String {
    let text = size.to_string();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    scaled(text[..digits].parse().unwrap_or(u64::MAX), &text[digits..])
}

/// The count with its unit. The count is divided by 1024 and rounded up until it has at most four
/// digits or the unit has the prefix `p`.
fn scaled(mut count: u64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "m", "g", "t", "p"];
    let (prefix, base) = unit.split_at(unit.len() - 1);
    let mut scale = PREFIXES.iter().position(|p| *p == prefix).unwrap_or(0);
    while count > 9999 && scale + 1 < PREFIXES.len() {
        count = count.div_ceil(1024);
        scale += 1;
    }
    format!("{count}{}{base}", PREFIXES[scale])
}

/// Writes the hosts of a job (`-n`).
fn hosts(out: &mut String, record: &JobRecord, style: AlternateStyle) {
    if !style.hosts {
        return;
    }
    let run = if has_run(record.job.life.state) {
        record.job.life.run.as_ref()
    } else {
        None
    };
    let text = run.map_or(NONE.to_string(), |run| {
        exec_host::exec_host(&without_domains(run))
    });
    if style.one_line {
        let _ = write!(out, " {text}");
    } else {
        wrapped_hosts(out, &text);
    }
}

fn without_domains(run: &Run) -> Vec<NodeShare> {
    let mut shares = run.shares.clone();
    for share in &mut shares {
        share
            .host
            .truncate(share.host.find('.').unwrap_or(share.host.len()));
    }
    shares
}

fn wrapped_hosts(out: &mut String, text: &str) {
    out.push_str("\n   ");
    let mut column = 3;
    for piece in text.split_inclusive('+') {
        if column > 3 && column + piece.len() >= PAGE {
            out.push_str("\n   ");
            column = 3;
        }
        out.push_str(piece);
        column += piece.len();
    }
}

/// Writes the comment of a job (`-s`). With `-1` and without `-n`, it is on the job's line,
/// otherwise on the next line.
fn comment_line(out: &mut String, record: &JobRecord, server: &ServerFacts, style: AlternateStyle) {
    if !style.comment {
        return;
    }
    let same_line = style.one_line && !style.hosts;
    out.push_str(if same_line { "    " } else { "\n   " });
    let comment = comment::of(record, server);
    let comment = printable(&comment);
    let width = if style.wide { 110 } else { 70 };
    if comment.chars().count() > width + 3 {
        out.extend(comment.chars().take(width).chain("...".chars()))
    } else {
        out.push_str(&comment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{queued, running, server, share, with};
    use crate::model::job::state::Holds;
    use crate::model::reason::Reason;

    fn list(records: &[JobRecord], server: &ServerFacts, style: AlternateStyle) -> String {
        let mut out = String::new();
        AlternateList::new(style, 0).write(&mut out, records, server);
        out
    }

    fn jobs() -> Vec<JobRecord> {
        let reason = Reason::NeverEnough {
            resource: "mem".into(),
            requested: "60gb".into(),
            available: "8gb".into(),
            total: "8gb".into(),
        };
        let mut never = queued(1006, "never", "mem=60gb ncpus=24 nodect=3");
        never.reason = Some(reason);
        let mut held = queued(1003, "a2345678901234567890", "ncpus=1 nodect=1");
        held.job.life.state = JobState::Held;
        held.job.life.holds = Holds::USER;
        held.job.life.comment = Some("held\nagain".into());
        vec![
            running(
                queued(1001, "r1", "mem=512mb ncpus=2 nodect=1 walltime=1:00:00"),
                vec![share(2, Some("512mb"))],
            ),
            held,
            queued(
                1005,
                "exactly16chars__",
                "cput=2:00:00 ncpus=3 nodect=1 walltime=500:00:00",
            ),
            never,
            with(
                queued(
                    1010,
                    "STDIN",
                    "mem=8192mb ncpus=1 nodect=1 walltime=500:00:00",
                ),
                |spec| {
                    spec.queue = "longqueuename".into();
                },
            ),
        ]
    }

    #[test]
    fn the_alternate_list_has_the_layout_of_pbs() {
        let expected = "
head: \n                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
1001.head       alice    workq    r1           4711   1   2  512mb 01:00 R 00:05
1003.head       alice    workq    a23456789*    --    1   1    --    --  H   -- \n\
1005.head       alice    workq    exactly16*    --    1   3    --  02:00 Q   -- \n\
1006.head       alice    workq    never         --    3  24   60gb   --  Q   -- \n\
1010.head       alice    longque* STDIN         --    1   1  8192m 500:0 Q   -- \n";
        assert_eq!(
            list(&jobs(), &server(), AlternateStyle::default()),
            expected
        );
    }

    #[test]
    fn the_wide_list_with_planned_starts_has_the_layout_of_pbs() {
        let style = AlternateStyle {
            wide: true,
            starts: Some(Wall(1_700_000_300)),
            ..AlternateStyle::default()
        };
        let shown = list(&jobs()[..2], &server(), style);
        let blanks = " ".repeat(99);
        let expected = format!(
            "
head: \n{blanks}               Est
{blanks}Req'd  Req'd   Start
Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time
------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----
1001.head                      alice           workq           r1                  4711    1     2  512mb 01:00 R    --
1003.head                      alice           workq           a2345678901234*      --     1     1    --    --  H    --
"
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn long_times_are_cut_to_five_columns_as_in_pbs() {
        for (seconds, expected) in [
            (0, "00:00"),
            (59, "00:00"),
            (3661, "01:01"),
            (99 * 3600 + 59 * 60, "99:59"),
            (100 * 3600, "100:0"),
            (100 * 3600 + 30 * 60, "100:3"),
            (336 * 3600, "336:0"),
            (1000 * 3600, "1000:"),
            (87_600 * 3600, "87600"),
        ] {
            assert_eq!(hours_minutes(Span::seconds(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn requested_and_elapsed_times_share_one_format() {
        let request = "ncpus=1 nodect=1 walltime=336:00:00";
        let mut long = running(queued(1, "long", request), vec![share(1, None)]);
        long.job.life.used.walltime = Span::seconds(400_500);
        for wide in [false, true] {
            let shown = list(
                &[long.clone()],
                &server(),
                AlternateStyle {
                    wide,
                    ..AlternateStyle::default()
                },
            );
            assert!(shown.ends_with(" 336:0 R 111:1\n"), "{shown}");
        }
    }

    fn lines(style: AlternateStyle) -> Vec<String> {
        list(&jobs(), &server(), style)
            .lines()
            .skip(5)
            .map(str::to_string)
            .collect()
    }

    #[test]
    fn hosts_and_comments_are_below_or_on_the_line_of_the_job() {
        let style = AlternateStyle {
            hosts: true,
            comment: true,
            ..AlternateStyle::default()
        };
        let below = lines(style);
        assert_eq!(below[5], "   held\\nagain");
        assert_eq!(below[1], "   head/0*2");
        assert_eq!(below[4], "    -- ");
        let never = "   Can Never Run: Insufficient amount of resource: mem (R: 60gb A: 8gb T:...";
        assert!(below.iter().any(|line| line == never), "{below:#?}");
        let same_line = lines(AlternateStyle {
            one_line: true,
            ..style
        });
        assert!(
            same_line[0].ends_with("R 00:05 head/0*2"),
            "{}",
            same_line[0]
        );
        assert!(same_line[2].ends_with("H   --   -- "), "{}", same_line[2]);
        assert_eq!(
            same_line[6],
            "1006.head       alice    workq    never         --    3  24   60gb   --  Q   --   -- "
        );
        assert_eq!(same_line[7], never);
        let comment = lines(AlternateStyle {
            comment: true,
            one_line: true,
            wide: true,
            ..AlternateStyle::default()
        });
        assert!(comment[3].ends_with(
            "Q   --     Can Never Run: Insufficient amount of resource: mem (R: 60gb A: 8gb T: 8gb)"
        ));
    }

    #[test]
    fn memory_is_scaled_to_five_columns() {
        let shown = |size: &str, unit| {
            let requested = ResourceList::from([(
                "mem".to_string(),
                ResourceValue::Size(Size::parse(size).unwrap()),
            )]);
            memory(&requested, unit)
        };
        assert_eq!(shown("512mb", MemoryUnit::Gigabytes), "1gb");
        assert_eq!(shown("512mb", MemoryUnit::Megawords), "64mw");
        assert_eq!(shown("100mb", MemoryUnit::Megawords), "13mw");
        assert_eq!(shown("60gb", MemoryUnit::Megawords), "7680m");
        assert_eq!(shown("8388608kb", MemoryUnit::Own), "8192m");
        assert_eq!(shown("20000", MemoryUnit::Own), "20kb");
    }

    #[test]
    fn many_hosts_are_wrapped_before_column_78() {
        let mut out = String::new();
        wrapped_hosts(&mut out, &["node01/0*64"; 12].join("+"));
        assert!(out.lines().all(|line| line.len() < 78), "{out}");
        assert_eq!(out.lines().count(), 3, "{out}");
        assert_eq!(out.replace("\n   ", ""), ["node01/0*64"; 12].join("+"));
    }
}
