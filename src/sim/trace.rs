//! Converts the records of a log to jobs that can be replayed (rules N1), and counts the records
//! that each rule changed or dropped. Before comparing the results of two simulators, compare these
//! counts: if they differ, the simulators have replayed different jobs.

use super::swf::{Log, Record};
use std::ops::Range;

/// A job of a trace. Times are whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceJob {
    /// The job number in the file.
    pub id: i64,
    /// The time of submission.
    pub submit: i64,
    /// The run time: above zero, at most the estimate.
    pub run: i64,
    /// The run time that the user requested, or the run time if the request is unknown.
    pub estimate: i64,
    /// The number of processors; above zero.
    pub processors: u32,
    /// The user's number; -1 if unknown.
    pub user: i64,
    /// The number of the executable; -1 if unknown.
    pub executable: i64,
}

/// The number of records that each rule changed or dropped, in the order of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TraceSummary {
    /// Records in the file.
    pub records: usize,
    /// Records with a fraction that was cut off.
    pub fractions_cut: usize,
    /// Jobs with the processors of field 5, because field 8 is not above zero.
    pub processors_as_allocated: usize,
    /// Records dropped because they have no processors.
    pub without_processors: usize,
    /// Records dropped because they have more processors than the machine.
    pub larger_than_machine: usize,
    /// Records dropped because they have no run time.
    pub without_run_time: usize,
    /// Jobs with the run time as their estimate, because field 9 is not above zero.
    pub without_estimate: usize,
    /// Jobs with a run time that was cut to the estimate.
    pub cut_to_estimate: usize,
    /// Records dropped because of a negative submission time.
    pub submitted_before_zero: usize,
    /// Jobs that the file lists after a job with a later submission.
    pub out_of_order: usize,
    /// The jobs that no rule dropped. [`Trace::window`] does not change this number.
    pub jobs: usize,
}

/// The jobs to replay, sorted by submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The jobs. Jobs submitted in the same second keep the order of the file.
    pub jobs: Vec<TraceJob>,
    /// The number of records that each rule changed or dropped.
    pub summary: TraceSummary,
}

/// Two lines with the same job number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lines {first} and {second} both have job number {id}: job numbers must be unique")]
pub struct SameNumber {
    /// The job number.
    pub id: i64,
    /// The first line with the number.
    pub first: usize,
    /// The second line with the number.
    pub second: usize,
}

impl Trace {
    /// The jobs of a log that fit on a machine with this many processors. Returns an error if two
    /// records have the same job number.
    pub fn new(log: &Log, processors: u32) -> Result<Trace, SameNumber> {
        check_numbers(&log.records)?;
        let mut summary = TraceSummary {
            records: log.records.len(),
            ..TraceSummary::default()
        };
        let mut jobs: Vec<TraceJob> = log
            .records
            .iter()
            .filter_map(|record| job(record, processors, &mut summary))
            .collect();
        summary.out_of_order = count_out_of_order(&jobs);
        jobs.sort_by_key(|job| job.submit);
        summary.jobs = jobs.len();
        Ok(Trace { jobs, summary })
    }

    /// Keeps only the jobs at these positions, counted from 0. Ignores positions after the last
    /// job.
    pub fn window(&mut self, places: Range<usize>) {
        let end = places.end.min(self.jobs.len());
        self.jobs.truncate(end);
        self.jobs.drain(..places.start.min(end));
    }
}

fn check_numbers(records: &[Record]) -> Result<(), SameNumber> {
    let mut numbers: Vec<(i64, usize)> = records
        .iter()
        .map(|record| (record.id, record.line))
        .collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(SameNumber {
            id: pair[0].0,
            first: pair[0].1,
            second: pair[1].1,
        }),
        None => Ok(()),
    }
}

/// The job of a record; None if a rule drops the record. A dropped record is counted for the first
/// rule that drops it, and in `fractions_cut` if a fraction was cut off, but for no other rule.
fn job(record: &Record, most: u32, summary: &mut TraceSummary) -> Option<TraceJob> {
    summary.fractions_cut += usize::from(record.truncated);
    let requested = if record.requested > 0 {
        record.requested
    } else {
        record.allocated
    };
    let dropped = match requested {
        ..=0 => Some(&mut summary.without_processors),
        _ if requested > i64::from(most) => Some(&mut summary.larger_than_machine),
        _ if record.run <= 0 => Some(&mut summary.without_run_time),
        _ if record.submit < 0 => Some(&mut summary.submitted_before_zero),
        _ => None,
    };
    if let Some(count) = dropped {
        *count += 1;
        return None;
    }
    let estimate = if record.estimate > 0 {
        record.estimate
    } else {
        record.run
    };
    summary.processors_as_allocated += usize::from(record.requested <= 0);
    summary.without_estimate += usize::from(record.estimate <= 0);
    summary.cut_to_estimate += usize::from(record.run > estimate);
    let run = record.run.min(estimate);
    Some(TraceJob {
        id: record.id,
        submit: record.submit,
        run,
        estimate,
        processors: requested as u32,
        user: record.user,
        executable: record.executable,
    })
}

fn count_out_of_order(jobs: &[TraceJob]) -> usize {
    let mut latest = i64::MIN;
    let is_early = |job: &&TraceJob| {
        let is_early = job.submit < latest;
        latest = latest.max(job.submit);
        is_early
    };
    jobs.iter().filter(is_early).count()
}

#[cfg(test)]
mod tests {
    use super::super::swf;
    use super::*;

    /// Lines of `id submit run allocated requested estimate` on a machine of 8 processors.
    fn trace(lines: &[[i64; 6]]) -> Result<Trace, SameNumber> {
        let line = |[id, submit, run, allocated, requested, estimate]: &[i64; 6]| {
            format!(
                "{id} {submit} -1 {run} {allocated} -1 -1 {requested} {estimate} -1 -1 5 -1 -1 -1 -1 -1 -1\n"
            )
        };
        let text: String = lines.iter().map(line).collect();
        Trace::new(&swf::read(text.as_bytes()).unwrap(), 8)
    }

    #[test]
    fn each_rule_drops_or_corrects_records_and_is_counted() {
        let trace = trace(&[
            [1, 5, 10, 2, 4, 20],
            [2, 6, 10, 2, -1, 20],
            [3, 7, 10, 2, 0, -1],
            [4, 8, 30, 2, 4, 20],
            [5, 9, 10, -1, 0, 20],
            [6, 9, 10, 2, 9, 20],
            [7, 9, 0, 2, 4, 20],
            [8, -1, 10, 2, 4, 20],
            [9, 4, 10, 2, 8, 20],
        ])
        .unwrap();
        let job = |id, submit, run, estimate, processors| TraceJob {
            id,
            submit,
            run,
            estimate,
            processors,
            user: 5,
            executable: -1,
        };
        let wanted = [
            job(9, 4, 10, 20, 8),
            job(1, 5, 10, 20, 4),
            job(2, 6, 10, 20, 2),
            job(3, 7, 10, 10, 2),
        ];
        assert_eq!(trace.jobs[..4], wanted);
        assert_eq!(trace.jobs[4..], [job(4, 8, 20, 20, 4)]);
        let summary = TraceSummary {
            records: 9,
            fractions_cut: 0,
            processors_as_allocated: 2,
            without_processors: 1,
            larger_than_machine: 1,
            without_run_time: 1,
            without_estimate: 1,
            cut_to_estimate: 1,
            submitted_before_zero: 1,
            out_of_order: 1,
            jobs: 5,
        };
        assert_eq!(trace.summary, summary);
    }

    #[test]
    fn jobs_of_the_same_second_keep_the_order_of_the_file() {
        let trace = trace(&[[3, 7, 1, 1, 1, 1], [1, 7, 1, 1, 1, 1], [2, 6, 1, 1, 1, 1]]).unwrap();
        assert_eq!(
            trace.jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
            [2, 3, 1]
        );
    }

    #[test]
    fn equal_job_numbers_are_refused_with_both_lines() {
        let error =
            trace(&[[4, 0, 1, 1, 1, 1], [5, 0, 1, 1, 1, 1], [4, 9, 0, 1, 1, 1]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "lines 1 and 3 both have job number 4: job numbers must be unique"
        );
    }

    #[test]
    fn a_window_selects_jobs_by_position() {
        let lines: Vec<[i64; 6]> = (0..10).map(|id| [id, id, 1, 1, 1, 1]).collect();
        let window = |from, to| {
            let mut trace = trace(&lines).unwrap();
            trace.window(from..to);
            trace.jobs.iter().map(|job| job.id).collect::<Vec<_>>()
        };
        assert_eq!(window(3, 6), [3, 4, 5]);
        assert_eq!(window(8, usize::MAX), [8, 9]);
        assert!(window(20, 30).is_empty());
    }
}
