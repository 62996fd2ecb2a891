//! `lanai metrics` with real daemons: jobs, nodes and schedd, with and without a running schedd.

use super::drain::home;
use crate::support::sandbox::{Sandbox, user};
use lanai::cli::lanai::metrics::{MetricsArgs, collect, run_in};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|known| known == line), "{line}\n{text}");
}

#[test]
fn metrics_show_jobs_nodes_and_schedd() {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(3, 2);
    let running = sandbox.submit(&["-l", "select=1:ncpus=2:mem=1gb"], "sleep 1000\n");
    sandbox.running(&running);
    sandbox.run("pbsnodes", &["-o", "n3"]).ok();
    let array = sandbox.submit(&["-J", "0-4", "-l", "ncpus=2"], "sleep 1000\n");
    sandbox.submit(&["-h"], "true\n");
    let user = user();
    let text = sandbox.until("a running subjob", || {
        let text = collect(&home(&sandbox), 100).unwrap();
        let is_running = text.contains("lanai_jobs{state=\"running\"} 2\n");
        (is_running && !text.contains("not_considered")).then_some(text)
    });
    let blocked = text
        .lines()
        .find(|line| line.starts_with("lanai_blocked_jobs{"));
    let by_processors = "lanai_blocked_jobs{reason=\"amount.ncpus\"} 4";
    assert_eq!(blocked, Some(by_processors), "{text}");
    for line in [
        "lanai_up 1",
        "lanai_job_starts_total 2",
        "lanai_job_ends_total 0",
        "lanai_jobs{state=\"running\"} 2",
        "lanai_jobs{state=\"queued\"} 4",
        "lanai_jobs{state=\"held\"} 1",
        "lanai_queue_jobs{queue=\"workq\",state=\"running\"} 2",
        &format!("lanai_user_jobs{{user=\"{user}\",state=\"queued\"}} 4"),
        &format!("lanai_user_processors{{user=\"{user}\",state=\"running\"}} 4"),
        "lanai_job_processors{state=\"queued\"} 8",
        "lanai_job_memory_bytes{state=\"running\"} 1073741824",
        "lanai_nodes{state=\"busy\"} 2",
        "lanai_nodes{state=\"offline\"} 1",
        "lanai_node_processors{amount=\"all\"} 6",
        "lanai_node_processors{amount=\"usable\"} 4",
        "lanai_node_processors{amount=\"assigned\"} 4",
        "# UNIT lanai_spool_size_bytes bytes",
        "# TYPE lanai_scheduler_cycles counter",
    ] {
        has(&text, line);
    }
    assert!(text.ends_with("\n# EOF\n"), "{text}");

    // The text file replaces an older one, and no temporary file remains.
    sandbox.run("qdel", &[&running, &array]).ok();
    sandbox.ended(&running);
    let folder = sandbox.file("textfile");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("lanai.prom");
    fs::write(&file, "old").unwrap();
    let args = MetricsArgs {
        textfile: Some(file.clone()),
        ..MetricsArgs::default()
    };
    sandbox.until("the ends of two attempts", || {
        assert_eq!(run_in(&home(&sandbox), &args), Ok(0));
        let text = fs::read_to_string(&file).unwrap();
        text.contains("lanai_job_ends_total 2\n").then_some(())
    });
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let args = MetricsArgs {
        textfile: Some(folder.join("missing/lanai.prom")),
        ..args
    };
    let failure = run_in(&home(&sandbox), &args).unwrap_err();
    assert!(
        failure.text.contains("missing/lanai.prom"),
        "{}",
        failure.text
    );

    sandbox.run("schedd", &["--stop"]).ok();
    let text = sandbox.until("schedd has exited", || {
        let text = collect(&home(&sandbox), 100).unwrap();
        text.contains("lanai_up 0\n").then_some(text)
    });
    has(&text, "lanai_jobs{state=\"held\"} 1");
    assert!(!text.contains("lanai_job_starts"), "{text}");
}
