//! `qstat --holes`: resources that are free from now on for a period (free windows), the largest
//! first. Corresponds to Maui's `showbf`.

use super::ReportContext;
use crate::cli::client::exit::{self, Failure};
use crate::cli::output::table::FixedColumn::{Left, Rest, Right};
use crate::cli::output::table::push_line;
use crate::model::report::outlook::FreeWindow;
use crate::model::time::{Span, Wall};
use crate::shown::timestamp;
use crate::wire::ahead::ForecastAnswer;
use std::ffi::OsString;
use std::fmt::Write as _;

/// The free windows, as text or JSON.
pub fn report(
    context: &ReportContext,
    answers: &[ForecastAnswer],
    request: &[OsString],
    json: bool,
) -> Result<Vec<u8>, Failure> {
    let Some(ForecastAnswer::Windows(windows)) = answers.first() else {
        return Err(exit::protocol_error());
    };
    let (windows, why) = match windows {
        Ok(windows) => (windows.as_slice(), None),
        Err(reason) => (&[][..], Some(reason.to_string())),
    };
    if json {
        let mut document = context.document();
        let all: Vec<_> = windows
            .iter()
            .map(|window| data(window, request.is_empty(), context.now))
            .collect();
        document.add_value("Windows", &all.into());
        if let Some(why) = why {
            document.add_value("comment", &why.into());
        }
        return Ok(document.end());
    }
    let text = match (why, windows) {
        (Some(why), _) => format!("{why}\n"),
        (None, []) => "No unreserved resources are free.\n".to_string(),
        (None, windows) => table(windows, request.is_empty(), context.now),
    };
    Ok(text.into_bytes())
}

/// The end of a window that begins now; None if its duration is unlimited.
fn end(duration: Option<Span>, now: Wall) -> Option<Wall> {
    duration.map(|duration| Wall(now.0.saturating_add(duration.as_seconds())))
}

fn data(window: &FreeWindow, by_processors: bool, now: Wall) -> serde_json::Value {
    let copies = if by_processors {
        "processors"
    } else {
        "copies"
    };
    serde_json::json!({
        "nodes": window.nodes,
        copies: window.copies,
        "seconds": window.lasts.map(Span::as_seconds),
        "until": end(window.lasts, now).map(|end| end.0),
    })
}

fn table(windows: &[FreeWindow], by_processors: bool, now: Wall) -> String {
    let copies = if by_processors {
        "Processors"
    } else {
        "Copies"
    };
    let columns = [Right(8), Right(10), Right(12), Left(0), Rest];
    let mut out = String::new();
    push_line(
        &mut out,
        columns,
        ["Nodes", copies, "Duration", "", "Until"],
    );
    let rule = [8, 10, 12, 0, 24].map(|width| "-".repeat(width));
    let _ = writeln!(out, "\n{}", rule.join(" "));
    for window in windows {
        let duration = window
            .lasts
            .map_or("unlimited".to_string(), |duration| duration.to_string());
        let until = end(window.lasts, now)
            .map_or("--".to_string(), |end| timestamp::ctime(end).to_string());
        let (nodes, copies) = (window.nodes.to_string(), window.copies.to_string());
        push_line(&mut out, columns, [&*nodes, &copies, &duration, "", &until]);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_shown_as_table_and_as_json() {
        let windows = [
            FreeWindow {
                copies: 32,
                nodes: 4,
                lasts: Some(Span::seconds(3600)),
            },
            FreeWindow {
                copies: 8,
                nodes: 1,
                lasts: None,
            },
        ];
        let now = Wall(1_700_000_000);
        let until = timestamp::ctime(Wall(1_700_003_600));
        let expected = format!(
            "   Nodes Processors     Duration  Until
-------- ---------- ------------  ------------------------
       4         32     01:00:00  {until}
       1          8    unlimited  --\n"
        );
        assert_eq!(table(&windows, true, now), expected);
        let json = data(&windows[0], false, now);
        assert_eq!(
            json.to_string(),
            r#"{"copies":32,"nodes":4,"seconds":3600,"until":1700003600}"#
        );
        assert!(data(&windows[1], true, now)["until"].is_null());
    }
}
