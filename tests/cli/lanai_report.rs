//! `lanai report`: figures of real jobs compared with qacct, and the page in a browser.

use crate::support::sandbox::{Sandbox, finish, user};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn report(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let arguments = [&["report", "--json", "--since", "1h"], arguments].concat();
    json(&sandbox.run("lanai", &arguments).ok())
}

/// Two nodes, 20 jobs that have ended in several ways, a job that runs and one that waits.
fn used() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(2, 4);
    let mut ids = Vec::new();
    let short = ["-l", "ncpus=2,mem=100mb,walltime=1:00:00"];
    for (count, name, script) in [
        (12, "wave", "sleep 0.3\n"),
        (4, "bad", "exit 3\n"),
        (2, "crash", "kill -9 $$\n"),
    ] {
        for _ in 0..count {
            ids.push(sandbox.submit(&[&short[..], &["-N", name]].concat(), script));
        }
    }
    let deleted = sandbox.submit(&["-N", "long"], "sleep 600\n");
    sandbox.running(&deleted);
    let held = sandbox.submit(&["-h", "-N", "held"], "sleep 600\n");
    sandbox.run("qdel", &[&deleted, &held]).ok();
    ids.extend([deleted, held]);
    ids.iter().for_each(|id| drop(sandbox.ended(id)));
    let runs = sandbox.submit(&["-l", "ncpus=3"], "sleep 600\n");
    sandbox.running(&runs);
    sandbox.submit(&["-l", "select=2:ncpus=4"], "sleep 600\n");
    sandbox
}

#[test]
fn the_figures_of_a_report_agree_with_qacct() {
    let sandbox = used();
    let report = report(&sandbox, &[]);
    let qacct = json(&sandbox.run("qacct", &["-b", "1h", "-F", "json"]).ok());
    let total = &qacct["Total"];
    let jobs = &report["jobs"];
    assert_eq!(report["kind"], "report");
    assert_eq!(jobs["ended"], 20);
    assert_eq!(jobs["ended"], total["jobs"]);
    assert_eq!(jobs["attempts"], total["attempts"]);
    let counts = ["done", "failed", "deleted"].map(|key| jobs[key].as_i64().unwrap());
    assert_eq!(counts, [12, 6, 2]);
    assert_eq!(total["failed"], 8);
    assert_eq!(
        (&jobs["running_now"], &jobs["waiting_now"]),
        (&1.into(), &1.into())
    );
    let row = &report["users"][0];
    assert_eq!(row["name"], user());
    for (own, key) in [
        ("ended_core_seconds", "core_seconds"),
        ("ended_charged_core_seconds", "charged_core_seconds"),
        ("ended_cpu_seconds", "cpu_seconds"),
    ] {
        let (own, key) = (row[own].as_f64().unwrap(), total[key].as_f64().unwrap());
        assert!((own - key).abs() < 0.001, "{own} {key}");
    }
    let efficiency = &report["efficiency"];
    for (own, key) in [
        ("cpu_fraction", "cpu_efficiency"),
        ("mem_fraction", "mem_efficiency"),
    ] {
        let (own, key) = (
            efficiency[own].as_f64().unwrap(),
            total[key].as_f64().unwrap(),
        );
        assert!((own - key).abs() < 1e-6, "{own} {key}");
    }
    assert_eq!(report["capacity"]["cpus"], 8);
    let mean = report["utilization"]["mean_allocated_cpus"]
        .as_f64()
        .unwrap();
    let seconds = report["period"]["seconds"].as_f64().unwrap();
    let core_seconds = report["utilization"]["allocated_core_seconds"]
        .as_f64()
        .unwrap();
    assert!((mean * seconds - core_seconds).abs() < 0.01, "{report}");
    assert!(core_seconds >= row["ended_core_seconds"].as_f64().unwrap());
    let reasons = report["failures"]["by_reason"].as_array().unwrap();
    let reasons: Vec<_> = reasons
        .iter()
        .map(|row| {
            (
                row["reason"].as_str().unwrap(),
                row["jobs"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        reasons,
        [("exit 3", 4), ("deleted", 2), ("signal 9 (KILL)", 2)]
    );
    let names = report["failures"]["by_name"].as_array().unwrap();
    assert_eq!(
        (&names[0]["name"], &names[0]["failed"]),
        (&"bad".into(), &4.into())
    );
    assert_eq!(names[1]["name"], "crash");
    let runs = report["runs"]["list"].as_array().unwrap();
    assert_eq!(runs.len(), 20);
    assert_eq!(runs[19]["outcome"], "running");
}

#[test]
fn a_report_is_text_json_or_a_page() {
    let sandbox = used();
    let text = sandbox
        .run("lanai", &["report", "--all", "--since", "1h"])
        .ok();
    assert!(text.starts_with("Report on jobs of all users\n"), "{text}");
    for part in [
        "20 ended: 12 done, 6 failed, 2 deleted",
        "of 8 CPUs on 2 nodes",
        "exit 3",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = sandbox
        .run("lanai", &["report", "--html", "-", "--since", "1h"])
        .ok();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script"));
    let done = sandbox.run("lanai", &["report", "--html", "report.html"]);
    assert!(done.ok().starts_with("Wrote report.html ("));
    assert!(sandbox.read("report.html").ends_with("</html>\n"));
    // No job had been submitted a day ago.
    let past = ["report", "--since", "2d", "--until", "1d"];
    let text = sandbox.run("lanai", &past).ok();
    assert!(
        text.starts_with("No job ran, waited or ended: jobs of "),
        "{text}"
    );
    let page = sandbox
        .run("lanai", &[&past[..], &["--html", "-"]].concat())
        .ok();
    assert!(page.contains("No job ran, waited or ended in this period."));
    for (arguments, message) in [
        (&["--since", "1x"][..], "--since 1x: expected"),
        (&["--since", "1d", "--until", "2d"], "before --until"),
        (&["--html", "-", "--json"], "cannot be combined"),
    ] {
        let done = sandbox.run("lanai", &[&["report"], arguments].concat());
        assert!(done.code == 2 && done.err.contains(message), "{done:?}");
    }
    let done = sandbox.run("lanai", &["report", "--html", "missing/report.html"]);
    assert!(
        done.code == 1 && done.err.contains("missing/report.html"),
        "{done:?}"
    );
}

/// The path of Chromium; None if it is not installed.
fn browser() -> Option<PathBuf> {
    let paths = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    paths
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
}

/// Runs Chromium without a window, with a profile in `folder`. Returns its output.
fn browse(browser: &Path, folder: &Path, arguments: &[&str], page: &Path) -> String {
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
    ];
    let mut command = Command::new(browser);
    command
        .args(flags)
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null());
    finish(command.output().unwrap()).ok()
}

/// A page that shows the report in frames of these widths, and reports by how much the content of
/// each frame is too wide. A window cannot be narrower than about 500 pixels.
fn frames(widths: &[u32]) -> String {
    let frames = widths.iter().map(|width| {
        format!(
            "<iframe src=\"report.html\" style=\"width:{width}px;height:900px;border:0\"></iframe>"
        )
    });
    format!(
        "<!DOCTYPE html><html><body style=\"margin:0\">{}<pre id=\"result\"></pre><script>\
         onload=()=>{{result.textContent=[...document.querySelectorAll('iframe')].map(f=>\
         'width '+f.contentWindow.innerWidth+' overflow '+\
         (f.contentDocument.documentElement.scrollWidth-\
         f.contentDocument.documentElement.clientWidth)+' background '+\
         f.contentWindow.getComputedStyle(f.contentDocument.body).backgroundColor\
         ).join('\\n')}}</script></body></html>",
        frames.collect::<String>()
    )
}

#[test]
fn the_page_fits_narrow_and_wide_screens_in_both_schemes() {
    let Some(browser) = browser() else {
        println!("skipped: Chromium is not installed");
        return;
    };
    let sandbox = used();
    sandbox
        .run(
            "lanai",
            &["report", "--html", "report.html", "--since", "1h"],
        )
        .ok();
    let page = sandbox.file("frames.html");
    // All tables are open, because the content of closed ones has no width.
    let report = sandbox
        .read("report.html")
        .replace("<details>", "<details open=\"\">");
    fs::write(sandbox.file("report.html"), report).unwrap();
    fs::write(&page, frames(&[360, 1280])).unwrap();
    let schemes = [("0", "rgb(17, 20, 24)"), ("1", "rgb(255, 255, 255)")];
    for (scheme, background) in schemes {
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let arguments = ["--allow-file-access-from-files", "--dump-dom", &scheme];
        let dom = browse(&browser, &sandbox.work(), &arguments, &page);
        for width in [360, 1280] {
            let line = format!("width {width} overflow 0 background {background}");
            assert!(dom.contains(&line), "{line}\n{dom}");
        }
    }
}
