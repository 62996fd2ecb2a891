//! Tests of the text of each event.

use super::*;
use crate::cli::example::{self, SUBMITTED, finished, queued, running, share};
use crate::model::job::state::Holds;
use crate::model::job::{AttemptOutcome, How};
use crate::model::job_id::JobId;
use crate::model::time::Span;

fn trace(record: &JobRecord, events: Vec<Event>) -> Vec<String> {
    let events: Vec<_> = events.into_iter().map(|event| (SUBMITTED, event)).collect();
    let lines = event_lines(record, &events, &example::server(), SUBMITTED);
    lines
        .into_iter()
        .map(|line| format!("{} {}", line.source.letter(), line.text))
        .collect()
}

#[test]
fn requests_are_shown_with_their_users() {
    let record = queued(1, "a", "ncpus=1");
    let by = || "bob@head".to_string();
    let events = vec![
        Event::Held {
            holds: Holds::USER,
            by: by(),
        },
        Event::Moved {
            by: by(),
            from: "workq".into(),
            to: "night".into(),
        },
        Event::Taken {
            by: by(),
            to: "7.job1.head".into(),
        },
        Event::Reordered {
            by: by(),
            with: JobId::job(7),
        },
        Event::Messaged {
            by: by(),
            output: true,
            errors: true,
        },
        Event::Signalled {
            by: by(),
            signal: 10,
        },
    ];
    let expected = [
        "S Holds u set at request of bob@head",
        "S Job moved from queue workq to night at request of bob@head",
        "S Job moved to another installation as 7.job1.head at request of bob@head",
        "S Place in the queue exchanged with job 7.head at request of bob@head",
        "S Message written to the job's standard output and standard error at request of bob@head",
        "S Signal 10 (USR1) sent at request of bob@head",
    ];
    assert_eq!(trace(&record, events), expected);
}

#[test]
fn node_server_and_accounting_report_the_end_of_a_job() {
    let record = finished(
        running(queued(1, "a", "ncpus=1"), vec![share(1, None)]),
        3,
        false,
    );
    let outcome = AttemptOutcome {
        how: How::Exited(3),
        sent: None,
        used: Usage {
            cput: Span(2000),
            ..Usage::default()
        },
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    };
    let lines = trace(
        &record,
        vec![Event::Ended {
            attempt: 1,
            outcome,
        }],
    );
    assert_eq!(lines[0], "M Exited with code 3 (attempt 1)");
    assert!(
        lines[1].starts_with("M resources_used.cpupercent=0 resources_used.cput=00:00:02"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("S Exit_status=3 resources_used."),
        "{lines:?}"
    );
    assert!(
        lines[3].starts_with("A user=alice ") && lines[3].contains(" Exit_status=3 "),
        "{lines:?}"
    );
}

#[test]
fn submission_shows_the_first_queue_and_a_known_command_line() {
    let mut record = queued(1, "a", "ncpus=1");
    let moved = Event::Moved {
        by: "b@h".into(),
        from: "early".into(),
        to: "workq".into(),
    };
    let lines = trace(&record, vec![Event::Submitted, moved.clone()]);
    assert!(
        lines[0].ends_with("job name = a, queue = early"),
        "{lines:?}"
    );
    record = example::with(record, |spec| spec.arguments = "".into());
    assert!(
        trace(&record, vec![Event::Submitted])
            .iter()
            .all(|line| !line.contains("Submitted as"))
    );
    record = example::with(record, |spec| spec.arguments = "-N a x".into());
    assert_eq!(
        trace(&record, vec![Event::Submitted, moved])[1],
        "S Submitted as: qsub -N a x"
    );
}
