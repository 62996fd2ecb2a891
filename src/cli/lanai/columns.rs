//! The columns of job tables: `lanai list -o id,name,state`, `--sort -elapsed`.

use super::job_view::JobView;
use super::relative_time::{duration, relative};
use super::status;
use super::table::{Heading, Text};
use crate::cli::client::exit::Failure;
use crate::model::job::DEFAULT_PROJECT;
use crate::model::spelling;
use crate::model::time::{Span, Wall};
use std::cmp::Ordering;

/// A column of job tables.
#[derive(Debug)]
pub struct Column {
    /// The name in `-o` and `--sort`.
    pub name: &'static str,
    /// The meaning, for the manual page.
    pub help: &'static str,
    heading: Heading,
    /// The cell of a job.
    value: fn(&JobView) -> Value,
}

/// The content of a cell. Values of the same kind can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// No value; sorts before all others.
    Nothing,
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A number of bytes or another amount, with its text.
    Amount(i64, String),
    /// A duration.
    Duration(Span),
    /// A time, displayed relative to the current time.
    Moment(Wall),
}

impl Value {
    fn or_nothing<T>(value: Option<T>, of: fn(T) -> Value) -> Value {
        value.map_or(Value::Nothing, of)
    }

    fn text(&self, now: Wall) -> String {
        match self {
            Value::Nothing => "-".to_string(),
            Value::Text(text) | Value::Amount(_, text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Duration(span) => duration(*span),
            Value::Moment(at) => relative(*at, now),
        }
    }
}

const fn left(text: &'static str) -> Heading {
    Heading {
        text,
        is_right: false,
        is_flexible: false,
    }
}

const fn right(text: &'static str) -> Heading {
    Heading {
        is_right: true,
        ..left(text)
    }
}

const fn flexible(text: &'static str) -> Heading {
    Heading {
        is_flexible: true,
        ..left(text)
    }
}

/// All columns.
pub static COLUMNS: [Column; 22] = [
    Column {
        name: "id",
        help: "job id",
        heading: left("ID"),
        value: |job| Value::Text(job.id()),
    },
    Column {
        name: "name",
        help: "job name",
        heading: flexible("NAME"),
        value: |job| Value::Text(job.record.job.spec.name.clone()),
    },
    Column {
        name: "user",
        help: "owner",
        heading: left("USER"),
        value: |job| Value::Text(job.record.job.owner.user.clone()),
    },
    Column {
        name: "queue",
        help: "queue",
        heading: left("QUEUE"),
        value: |job| Value::Text(job.record.job.spec.queue.clone()),
    },
    Column {
        name: "state",
        help: "state",
        heading: left("STATE"),
        value: |job| Value::Text(job.status().word().to_string()),
    },
    Column {
        name: "exit",
        help: "exit status",
        heading: right("EXIT"),
        value: |job| Value::or_nothing(job.exit_status(), |status| Value::Number(status.into())),
    },
    Column {
        name: "end",
        help: "how the job ended, in words",
        heading: left("END"),
        value: |job| {
            Value::or_nothing(job.exit_status(), |exit| {
                Value::Text(status::exit_text(exit))
            })
        },
    },
    Column {
        name: "progress",
        help: "finished and failed subjobs of an array",
        heading: left("PROGRESS"),
        value: |job| Value::or_nothing(job.progress(), Value::Text),
    },
    Column {
        name: "submitted",
        help: "time of the submission",
        heading: right("SUBMITTED"),
        value: |job| Value::Moment(job.submitted()),
    },
    Column {
        name: "started",
        help: "time of the start",
        heading: right("STARTED"),
        value: |job| Value::or_nothing(job.started(), Value::Moment),
    },
    Column {
        name: "ended",
        help: "time of the end",
        heading: right("ENDED"),
        value: |job| Value::or_nothing(job.ended(), Value::Moment),
    },
    Column {
        name: "waited",
        help: "time from the submission to the start, or until now",
        heading: right("WAITED"),
        value: |job| Value::Duration(job.waited()),
    },
    Column {
        name: "elapsed",
        help: "time since the start, or from the start to the end",
        heading: right("ELAPSED"),
        value: |job| Value::or_nothing(job.elapsed(), Value::Duration),
    },
    Column {
        name: "walltime",
        help: "requested walltime",
        heading: right("WALLTIME"),
        value: |job| Value::or_nothing(job.walltime(), Value::Duration),
    },
    Column {
        name: "cpus",
        help: "requested processors",
        heading: right("CPUS"),
        value: |job| Value::Number(job.processors()),
    },
    Column {
        name: "mem",
        help: "requested memory",
        heading: right("MEM"),
        value: |job| amount(job, "mem"),
    },
    Column {
        name: "gpus",
        help: "requested GPUs",
        heading: right("GPUS"),
        value: |job| amount(job, "ngpus"),
    },
    Column {
        name: "nodes",
        help: "nodes of the latest attempt",
        heading: flexible("NODES"),
        value: |job| match job.nodes().join(",") {
            nodes if nodes.is_empty() => Value::Nothing,
            nodes => Value::Text(nodes),
        },
    },
    Column {
        name: "project",
        help: "project",
        heading: left("PROJECT"),
        value: |job| match job.record.job.spec.project.as_str() {
            DEFAULT_PROJECT => Value::Nothing,
            project => Value::Text(project.to_string()),
        },
    },
    Column {
        name: "account",
        help: "account",
        heading: left("ACCOUNT"),
        value: |job| Value::or_nothing(job.record.job.spec.account.clone(), Value::Text),
    },
    Column {
        name: "tags",
        help: "tags",
        heading: flexible("TAGS"),
        value: |job| {
            let tags = job.tags();
            if tags.is_empty() {
                return Value::Nothing;
            }
            let words: Vec<String> = tags
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            Value::Text(words.join(" "))
        },
    },
    Column {
        name: "detail",
        help: "why the job waits, where it runs, or how it ended",
        heading: flexible("DETAIL"),
        value: |job| Value::Text(job.detail()),
    },
];

fn amount(job: &JobView, resource: &str) -> Value {
    Value::or_nothing(job.requested(resource), |value| {
        Value::Amount(value.amount().unwrap_or(0), value.to_string())
    })
}

/// The columns with these names, separated by commas.
pub fn parse(names: &str) -> Result<Vec<&'static Column>, Failure> {
    names.split(',').map(find).collect()
}

/// The column with this name.
pub fn find(name: &str) -> Result<&'static Column, Failure> {
    let column = COLUMNS.iter().find(|column| column.name == name);
    column.ok_or_else(|| {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let hint = match spelling::close(name, &names) {
            Some(near) => format!("; did you mean {near}?"),
            None => String::new(),
        };
        Failure::new(
            2,
            format!(
                "unknown column '{name}'{hint}\nThe columns are {}.",
                names.join(", ")
            ),
        )
    })
}

/// Sorts jobs by the columns in `keys`, separated by commas. A column after `-` is sorted in
/// descending order.
pub fn sort(jobs: &mut [JobView], keys: &str) -> Result<(), Failure> {
    let mut columns = Vec::new();
    for key in keys.split(',') {
        let (name, is_descending) = match key.strip_prefix('-') {
            Some(name) => (name, true),
            None => (key, false),
        };
        columns.push((find(name)?, is_descending));
    }
    jobs.sort_by(|a, b| {
        columns
            .iter()
            .map(|(column, is_descending)| {
                let order = column.compare(a, b);
                if *is_descending {
                    order.reverse()
                } else {
                    order
                }
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    Ok(())
}

impl Column {
    /// Ids are compared by number, not as text.
    fn compare(&self, a: &JobView, b: &JobView) -> Ordering {
        if self.name == "id" {
            return a.record.job.id.cmp(&b.record.job.id);
        }
        (self.value)(a).cmp(&(self.value)(b))
    }
}

/// A table of jobs.
pub fn table(jobs: &[JobView], columns: &[&Column], width: Option<u16>, has_color: bool) -> String {
    let headings: Vec<Heading> = columns.iter().map(|column| column.heading).collect();
    let rows = jobs
        .iter()
        .map(|job| columns.iter().map(|column| column.cell(job)).collect())
        .collect();
    super::table::render(&headings, rows, width, has_color)
}

impl Column {
    fn cell(&self, job: &JobView) -> Text {
        Text {
            text: (self.value)(job).text(job.now),
            color: (self.name == "state")
                .then(|| job.status().color())
                .flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, queued, running, share};

    #[test]
    fn jobs_are_sorted_by_several_columns() {
        let server = example::server();
        let records = [
            queued(10, "b", ""),
            running(queued(9, "a", ""), vec![share(1, None)]),
            queued(8, "a", ""),
        ];
        let mut jobs: Vec<JobView> = records
            .iter()
            .map(|record| JobView {
                record,
                server: &server,
                now: example::NOW,
            })
            .collect();
        let ids = |jobs: &[JobView]| jobs.iter().map(JobView::id).collect::<Vec<_>>().join(" ");
        sort(&mut jobs, "id").unwrap();
        assert_eq!(ids(&jobs), "8 9 10");
        sort(&mut jobs, "name,-id").unwrap();
        assert_eq!(ids(&jobs), "9 8 10");
        let failure = sort(&mut jobs, "nme").unwrap_err();
        assert!(failure.text.contains("did you mean name?"));
    }

    #[test]
    fn every_column_has_a_cell_for_every_job() {
        let server = example::server();
        let record = running(queued(9, "a", "mem=1gb"), vec![share(1, None)]);
        let job = JobView {
            record: &record,
            server: &server,
            now: example::NOW,
        };
        let columns: Vec<&Column> = COLUMNS.iter().collect();
        let text = table(&[job], &columns, None, false);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("1gb") && text.contains("5m ago"), "{text}");
    }
}
