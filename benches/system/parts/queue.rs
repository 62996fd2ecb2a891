//! A long queue: the time to list it, and the memory of schedd.

use crate::Scale;
use crate::figures::{median, timed};
use crate::machine::Limits;
use crate::report::{Better, Figure, Report};
use crate::stage::{Stage, must};
use anyhow::{Result, bail};
use lanai::model::attribute::AttributeSetting;
use lanai::wire::client::Client;
use lanai::wire::frame;
use lanai::wire::message::{ClientRequest, NewJob, Payload, Reply};
use std::process::Stdio;

const LISTINGS: usize = 5;
const SINGLES: usize = 30;
/// The number of requests sent before reading replies.
const BATCH: usize = 100;

/// Measures the long queue.
pub fn measure(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let stage = Stage::begin(false)?;
    stage.stop_starts()?;
    let empty = stage.memory()?;
    let (jobs, long) = (scale.jobs * 10, scale.jobs * 100);
    fill(&stage, jobs)?;
    let memory = |what, value, target| Figure {
        what,
        unit: "MiB",
        value,
        limit: None,
        target,
        better: Better::Less,
    };
    report.add(memory("schedd's memory, empty".into(), empty, None));
    report.add(memory(
        format!("schedd's memory, {jobs} queued"),
        stage.memory()?,
        Some(25.0),
    ));
    for (what, arguments, target, count) in [
        ("qstat of all", vec![], 30.0, LISTINGS),
        (
            "qstat -f -F json of all",
            vec!["-f", "-F", "json"],
            48.0,
            LISTINGS,
        ),
        ("qstat of one", vec!["5"], 3.0, SINGLES),
    ] {
        let time = listing(&stage, &arguments, count * scale.repeats)?;
        let what = format!("{what}, {jobs} queued");
        let limit = Some(limits.start_command);
        report.add(Figure {
            what,
            unit: "ms",
            value: time,
            limit,
            target: Some(target),
            better: Better::Less,
        });
    }
    fill(&stage, long - jobs)?;
    report.add(memory(
        format!("schedd's memory, {long} queued"),
        stage.memory()?,
        Some(150.0),
    ));
    stage.end()
}

fn listing(stage: &Stage, arguments: &[&str], count: usize) -> Result<f64> {
    let one = |_| {
        let (time, done) = timed(|| {
            must(
                stage
                    .lanai_command("qstat")
                    .args(arguments)
                    .stdout(Stdio::null()),
            )
        });
        done.map(|()| time)
    };
    Ok(median(&(0..count).map(one).collect::<Result<Vec<_>>>()?))
}

/// Queues this many jobs fast: as `qsub` does, but over one connection.
fn fill(stage: &Stage, jobs: usize) -> Result<()> {
    let client = Client::reach(&stage.home())?;
    let mut stream = client.stream();
    for first in (0..jobs).step_by(BATCH) {
        let batch = first..(first + BATCH).min(jobs);
        for number in batch.clone() {
            frame::write(
                &mut stream,
                &ClientRequest::Submit(Box::new(submission(number)?)),
            )?;
        }
        for _ in batch {
            match frame::read(&mut stream)? {
                Reply::Accepted { .. } => {}
                other => bail!("unexpected reply to a submission: {other:?}"),
            }
        }
    }
    Ok(())
}

fn submission(number: usize) -> Result<NewJob> {
    let environ = format!(
        "PBS_O_HOME=/home/ann\0PBS_O_PATH=/usr/bin:/bin\0PBS_O_SHELL=/bin/sh\0ID={number}\0"
    );
    Ok(NewJob {
        token: lanai::sys::process::random()?,
        settings: vec![
            AttributeSetting::new("Output_Path", "porch:/dev/null"),
            AttributeSetting::new("Error_Path", "porch:/dev/null"),
            AttributeSetting::new("Job_Name", "job.sh"),
        ],
        payload: Payload::Script(b"#!/bin/sh\nexec sleep 1\n".to_vec()),
        environ: environ.into_bytes(),
        inherited: Vec::new(),
        workdir: "/home/ann".into(),
        submit_host: "porch".into(),
        arguments: "-o /dev/null -e /dev/null job.sh".into(),
        defaults: String::new(),
        stored: None,
    })
}
