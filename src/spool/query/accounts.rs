//! Queries of the accounting table: single records, or totals. SQL computes the totals, so memory
//! is needed only for the answer, even with a million records.

use super::super::accounting::{COLUMNS, entry};
use super::super::{SpoolError, load};
use super::{Each, PART, PART_BYTES};
use crate::model::account::accounting::{
    AccountingEntry, AccountingFilter, GroupKey, RequestTotals, UsageTotals,
};
use crate::model::job_id::JobId;
use crate::wire::message::ClientAnswer;
use rusqlite::{Connection, Row, params_from_iter};

/// The columns that [`sums`] reads, in this order. Products of sizes and times are floats, because
/// integers would overflow.
const SUMS: &str = "coalesce(sum(status IS NOT NULL), 0), coalesce(sum(status <> 0), 0), coalesce(sum(attempt > 0), 0),
     coalesce(sum(cput), 0), coalesce(sum(core_ms), 0), total(core_ms * factor), coalesce(sum(min(gpus * walltime, 8796093022207)), 0),
     coalesce(sum(walltime), 0), total(iif(asked_mem_kb IS NULL, 0.0, 1.0 * mem_kb * walltime / 1000)),
     total(1.0 * asked_mem_kb * walltime / 1000), coalesce(sum(max(began - eligible, 0)), 0), count(began - eligible)";

/// Converts a filter to an SQL condition on the columns of `accounting`, with a value for each `?`.
/// A list is one value, as JSON, because SQLite accepts at most 32766 values.
fn condition(inquiry: &AccountingFilter) -> Result<(String, Vec<String>), SpoolError> {
    let (mut conditions, mut values) = (vec!["1".to_string()], Vec::new());
    let lists = [
        ("user", &inquiry.users),
        ("account", &inquiry.accounts),
        ("project", &inquiry.projects),
        ("queue", &inquiry.queues),
    ];
    for (column, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        conditions.push(format!("{column} IN (SELECT value FROM json_each(?))"));
        values.push(serde_json::to_string(names)?);
    }
    let moments = [(">=", inquiry.from), ("<", inquiry.to)];
    for (sign, moment) in moments
        .into_iter()
        .filter_map(|(sign, moment)| Some((sign, moment?)))
    {
        conditions.push(format!("ended {sign} {}", moment.0.saturating_mul(1000)));
    }
    Ok((conditions.join(" AND "), values))
}

/// Passes to `each` the totals of the records that match `inquiry`: one total for each combination
/// of values of `keys`. Without keys, passes one total of all matching records.
pub(super) fn tallies(
    connection: &Connection,
    inquiry: &AccountingFilter,
    keys: &[GroupKey],
    each: Each,
) -> Result<(), SpoolError> {
    let columns: Vec<&str> = keys.iter().map(|key| column(*key)).collect();
    let positions = (1..=columns.len())
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let (condition, values) = condition(inquiry)?;
    let select: String = columns.iter().map(|column| format!("{column}, ")).collect();
    let group = if keys.is_empty() {
        String::new()
    } else {
        format!("GROUP BY {positions} ORDER BY {positions}")
    };
    let sql = format!("SELECT {select}{SUMS} FROM accounting WHERE {condition} {group}");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(&values))?;
    let mut part = Vec::new();
    while let Some(row) = rows.next()? {
        let of = (0..keys.len())
            .map(|at| row.get(at))
            .collect::<Result<_, _>>()?;
        part.push(RequestTotals {
            of,
            sums: sums(row, keys.len())?,
        });
        if part.len() == PART {
            each(ClientAnswer::Tallies(std::mem::take(&mut part)))?;
        }
    }
    each(ClientAnswer::Tallies(part))
}

fn column(key: GroupKey) -> &'static str {
    match key {
        GroupKey::User => "user",
        GroupKey::Account => "account",
        GroupKey::Project => "project",
        GroupKey::Queue => "queue",
        GroupKey::Qos => "qos",
        GroupKey::Quarter => "cast(ended / 900000 * 900 AS TEXT)",
    }
}

fn sums(row: &Row, from: usize) -> Result<UsageTotals, SpoolError> {
    Ok(UsageTotals {
        jobs: row.get(from)?,
        failed: row.get(from + 1)?,
        attempts: row.get(from + 2)?,
        cput_ms: row.get(from + 3)?,
        core_ms: row.get(from + 4)?,
        charged_ms: row.get(from + 5)?,
        gpu_ms: row.get(from + 6)?,
        walltime_ms: row.get(from + 7)?,
        mem_used: row.get(from + 8)?,
        mem_asked: row.get(from + 9)?,
        wait_ms: row.get(from + 10)?,
        waits: row.get(from + 11)?,
    })
}

/// Passes to `each` the records that match `inquiry`. If `jobs` is empty, these are the records of
/// all jobs in the order of the job numbers; otherwise the records of `jobs`, in the order of
/// `jobs`. The id of an array stands for all its subjobs.
pub(super) fn entries(
    connection: &Connection,
    inquiry: &AccountingFilter,
    jobs: &[JobId],
    each: Each,
) -> Result<(), SpoolError> {
    let (condition, values) = condition(inquiry)?;
    let mut found = PartialAnswer::default();
    if jobs.is_empty() {
        found.add_all(connection, &condition, &values, each)?;
    }
    for job in jobs {
        let of = [Some(load::number(*job)), job.index().map(i64::from)]
            .into_iter()
            .flatten();
        let values: Vec<String> = of
            .map(|number| number.to_string())
            .chain(values.iter().cloned())
            .collect();
        let element = if job.index().is_some() {
            "AND idx = ?"
        } else {
            ""
        };
        found.add_all(
            connection,
            &format!("job = ? {element} AND {condition}"),
            &values,
            each,
        )?;
    }
    each(ClientAnswer::Entries(found.part))
}

/// The part of an answer that is being filled.
#[derive(Default)]
struct PartialAnswer {
    part: Vec<AccountingEntry>,
    bytes: usize,
}

impl PartialAnswer {
    /// Adds all records that satisfy a condition. Passes each full part to `each`.
    fn add_all(
        &mut self,
        connection: &Connection,
        condition: &str,
        values: &[String],
        each: Each,
    ) -> Result<(), SpoolError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM accounting WHERE {condition} ORDER BY job, idx, attempt"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let entry = entry(row)?;
            self.bytes += 500
                + entry.asked.select.len()
                + entry
                    .places
                    .iter()
                    .map(|place| 16 + place.0.len())
                    .sum::<usize>();
            self.part.push(entry);
            if self.part.len() >= PART || self.bytes >= PART_BYTES {
                self.bytes = 0;
                each(ClientAnswer::Entries(std::mem::take(&mut self.part)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::accounting::{
        AttemptCredentials, AttemptTimes, JobEnd, RequestedResources,
    };
    use crate::model::job::Usage;
    use crate::model::job::held::Held;
    use crate::model::time::{Span, Time, Wall};
    use crate::spool::Spool;
    use crate::spool::query::SpoolReader;
    use crate::update::Update;

    const HOUR: i64 = 3_600_000;

    /// A record of an attempt that ended `ended` hours after the epoch. The attempt ran for one
    /// hour on two processors, one of which was busy.
    fn hour(job: JobId, attempt: u32, user: &str, ended: i64) -> AccountingEntry {
        let stamps = AttemptTimes {
            submitted: 0,
            eligible: Some(0),
            began: Some((ended - 1) * HOUR),
            ended: ended * HOUR,
        };
        AccountingEntry {
            job,
            attempt,
            name: "wave".into(),
            of: AttemptCredentials {
                user: user.into(),
                queue: "workq".into(),
                ..AttemptCredentials::default()
            },
            stamps,
            end: Some(JobEnd {
                status: 0,
                deleted: false,
            }),
            places: vec![("n1".into(), 2)],
            asked: RequestedResources {
                mem_kb: Some(4000),
                cores: 2,
                ..RequestedResources::default()
            },
            held: Held {
                nodes: 1,
                cores: 2,
                gpus: 1,
                mem_kb: 4000,
            },
            used: Usage {
                walltime: Span(HOUR),
                cput: Span(HOUR),
                mem_kb: 1000,
                vmem_kb: 2000,
                ncpus: 2,
            },
            core_ms: 2 * HOUR,
            factor: 0.5,
            made_way: None,
        }
    }

    struct AccountingTable {
        folder: tempfile::TempDir,
        spool: Spool,
    }

    impl AccountingTable {
        fn of(entries: Vec<AccountingEntry>) -> AccountingTable {
            let folder = tempfile::tempdir().unwrap();
            let spool = Spool::open(&folder.path().join("spool.db")).unwrap();
            let mut table = AccountingTable { folder, spool };
            let written =
                |entry: AccountingEntry| Update::Entry(Time(entry.stamps.ended), Box::new(entry));
            table
                .spool
                .commit(&entries.into_iter().map(written).collect::<Vec<_>>())
                .unwrap();
            table
        }

        fn reader(&self) -> SpoolReader {
            SpoolReader::open(&self.folder.path().join("spool.db"))
                .unwrap()
                .unwrap()
        }

        fn tallies(&self, inquiry: &AccountingFilter, keys: &[GroupKey]) -> Vec<RequestTotals> {
            let mut found = Vec::new();
            let each = &mut |part| {
                if let ClientAnswer::Tallies(tallies) = part {
                    found.extend(tallies);
                }
                Ok(())
            };
            tallies(&self.reader().connection, inquiry, keys, each).unwrap();
            found
        }

        fn entries(&self, inquiry: &AccountingFilter, jobs: &[JobId]) -> Vec<AccountingEntry> {
            let mut found = Vec::new();
            let each = &mut |part| {
                if let ClientAnswer::Entries(entries) = part {
                    found.extend(entries);
                }
                Ok(())
            };
            entries(&self.reader().connection, inquiry, jobs, each).unwrap();
            found
        }
    }

    #[test]
    fn an_accounting_record_is_written_once_and_read_back_unchanged() {
        let entry = hour(JobId::job(7), 1, "ann", 3);
        let again = AccountingEntry {
            name: "other".into(),
            ..entry.clone()
        };
        let waited = AccountingEntry {
            end: None,
            stamps: AttemptTimes {
                began: None,
                eligible: None,
                ..entry.stamps
            },
            ..entry.clone()
        };
        let element = AccountingEntry {
            job: JobId::element(8, 2),
            ..waited
        };
        let table = AccountingTable::of(vec![entry.clone(), again, element.clone()]);
        assert_eq!(
            table.entries(&AccountingFilter::default(), &[]),
            [entry, element]
        );
    }

    #[test]
    fn arrays_and_subjobs_are_found_by_their_ids() {
        let jobs = [
            JobId::job(7),
            JobId::element(8, 1),
            JobId::element(8, 2),
            JobId::job(9),
        ];
        let table = AccountingTable::of(jobs.map(|job| hour(job, 1, "ann", 2)).to_vec());
        let found = |of: &[JobId]| {
            let entries = table.entries(&AccountingFilter::default(), of);
            entries
                .iter()
                .map(|entry| entry.job.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(&[JobId::job(9), JobId::array(8)]),
            ["9", "8[1]", "8[2]"]
        );
        assert_eq!(found(&[JobId::element(8, 2), JobId::job(5)]), ["8[2]"]);
        assert_eq!(found(&[JobId::job(8)]).len(), 2);
        assert_eq!(found(&[JobId::job(u64::MAX)]).len(), 0);
    }

    #[test]
    fn a_later_attempt_waits_from_the_end_of_the_previous_attempt() {
        let job = JobId::job(7);
        let first = AccountingEntry {
            end: None,
            ..hour(job, 1, "ann", 3)
        };
        let table = AccountingTable::of(vec![first, hour(job, 2, "ann", 5)]);
        let waits: Vec<_> = table
            .entries(&AccountingFilter::default(), &[])
            .iter()
            .map(AccountingEntry::wait_ms)
            .collect();
        assert_eq!(waits, [Some(2 * HOUR), Some(HOUR)]);
        let sums = table.tallies(&AccountingFilter::default(), &[])[0].sums;
        assert_eq!(
            (sums.jobs, sums.attempts, sums.waits, sums.wait_ms),
            (1, 2, 2, 3 * HOUR)
        );
    }

    #[test]
    fn totals_are_grouped_by_the_requested_keys() {
        let mut failed = hour(JobId::job(3), 1, "bob", 30);
        failed.end = Some(JobEnd {
            status: 1,
            deleted: false,
        });
        failed.asked.mem_kb = None;
        let mut waited = hour(JobId::job(4), 0, "bob", 31);
        waited.end = Some(JobEnd {
            status: 271,
            deleted: true,
        });
        (
            waited.stamps.began,
            waited.used,
            waited.core_ms,
            waited.held,
        ) = (None, Usage::default(), 0, Held::default());
        let table = AccountingTable::of(vec![
            hour(JobId::job(1), 1, "ann", 2),
            hour(JobId::job(2), 1, "ann", 3),
            failed,
            waited,
        ]);
        let of = |inquiry: AccountingFilter| table.tallies(&inquiry, &[GroupKey::User]);
        let [ann, bob] = of(AccountingFilter::default()).try_into().unwrap();
        let expected = UsageTotals {
            jobs: 2,
            failed: 0,
            attempts: 2,
            cput_ms: 2 * HOUR,
            core_ms: 4 * HOUR,
            charged_ms: (2 * HOUR) as f64,
            gpu_ms: 2 * HOUR,
            walltime_ms: 2 * HOUR,
            mem_used: 2.0 * 3600.0 * 1000.0,
            mem_asked: 2.0 * 3600.0 * 4000.0,
            wait_ms: 3 * HOUR,
            waits: 2,
        };
        assert_eq!((ann.of, ann.sums), (vec!["ann".to_string()], expected));
        let found = (
            bob.sums.jobs,
            bob.sums.failed,
            bob.sums.attempts,
            bob.sums.waits,
            bob.sums.mem_used,
        );
        assert_eq!(found, (2, 2, 1, 1, 0.0));
        let between = AccountingFilter {
            from: Some(Wall(3 * 3600)),
            to: Some(Wall(31 * 3600)),
            ..AccountingFilter::default()
        };
        let jobs: Vec<_> = of(between)
            .iter()
            .map(|tally| (tally.of[0].clone(), tally.sums.jobs))
            .collect();
        assert_eq!(jobs, [("ann".to_string(), 1), ("bob".to_string(), 1)]);
        assert_eq!(
            of(AccountingFilter {
                users: vec!["eve".into(), "bob".into()],
                ..AccountingFilter::default()
            })
            .len(),
            1
        );
        let quarters = table.tallies(
            &AccountingFilter::default(),
            &[GroupKey::Quarter, GroupKey::Queue],
        );
        let of: Vec<_> = quarters.iter().map(|tally| tally.of.join(" ")).collect();
        assert_eq!(
            of,
            ["10800 workq", "108000 workq", "111600 workq", "7200 workq"]
        );
        assert_eq!(
            table.tallies(
                &AccountingFilter {
                    queues: vec!["none".into()],
                    ..AccountingFilter::default()
                },
                &[]
            )[0]
            .sums,
            UsageTotals::default()
        );
    }

    #[test]
    fn filters_accept_any_number_of_arbitrary_names() {
        let odd = "it's, \"odd\" [1]\\";
        let table = AccountingTable::of(
            [odd, "ann", "bob"]
                .map(|user| hour(JobId::job(user.len() as u64), 1, user, 2))
                .to_vec(),
        );
        let names = |last: &[&str]| {
            (0..40_000)
                .map(|at| format!("u{at}"))
                .chain(last.iter().map(|n| n.to_string()))
                .collect()
        };
        let of = |inquiry: AccountingFilter| table.tallies(&inquiry, &[])[0].sums.jobs;
        assert_eq!(
            of(AccountingFilter {
                users: names(&[odd]),
                ..AccountingFilter::default()
            }),
            1
        );
        let both = AccountingFilter {
            users: names(&["ann"]),
            queues: names(&["workq"]),
            ..AccountingFilter::default()
        };
        assert_eq!(table.entries(&both, &[JobId::job(3)]).len(), 1);
    }

    /// The sum over 100 records with maximum values is less than 1/10000 of `i64::MAX`, so the sum
    /// over a million of these records does not overflow.
    #[test]
    fn no_sum_overflows() {
        let mut entry = hour(JobId::job(1), 1, "ann", 2);
        (entry.core_ms, entry.used.cput, entry.used.walltime) =
            (i64::MAX, Span(i64::MAX), Span(i64::MAX));
        entry.used.mem_kb = u64::MAX;
        let table = AccountingTable::of(
            (1..=100)
                .map(|attempt| AccountingEntry {
                    attempt,
                    ..entry.clone()
                })
                .collect(),
        );
        let sums = table.tallies(&AccountingFilter::default(), &[])[0].sums;
        assert!(
            sums.core_ms > 0 && sums.core_ms < i64::MAX / 10_000,
            "{sums:?}"
        );
    }

    #[test]
    fn accounting_records_outlive_their_jobs_and_expire() {
        let mut table = AccountingTable::of(vec![
            hour(JobId::job(1), 1, "ann", 2),
            hour(JobId::job(2), 1, "ann", 3),
        ]);
        table
            .spool
            .commit(&[Update::Forget(JobId::job(1)), Update::Purge(Time::NEVER)])
            .unwrap();
        assert_eq!(table.entries(&AccountingFilter::default(), &[]).len(), 2);
        let before = Time(3 * HOUR);
        assert_eq!(
            [before, Time(2 * HOUR)].map(|at| table.spool.has_entries_before(at).unwrap()),
            [true, false]
        );
        table
            .spool
            .commit(&[Update::ForgetEntries(before)])
            .unwrap();
        assert_eq!(
            table.entries(&AccountingFilter::default(), &[])[0].job,
            JobId::job(2)
        );
        assert!(!table.spool.has_entries_before(before).unwrap());
    }
}
