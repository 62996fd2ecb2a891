//! Checks 26 to 33, 39 and 40: output and refusals of `qstat`, `qselect` and `pbsnodes`.

use super::{
    alone, assert_prints, assert_usage_error, busy, finished, host, quiet, running, submitted,
    without_times,
};
use crate::support::sandbox::Sandbox;
use serde_json::Value;

/// The three lines of `qstat` for one job.
fn table(sandbox: &Sandbox, id: &str, name: &str, time: &str, state: &str) -> String {
    let owner = sandbox.owner(id);
    let queue = "workq";
    let row = format!("{id:<17} {name:<16} {owner:<16}  {time:>8} {state:1} {queue:<16}\n");
    let heading = "Job id            Name             User              Time Use S Queue\n";
    format!("{heading}----------------  ---------------- ----------------  -------- - -----\n{row}")
}

#[test]
fn check_26_a_released_job_is_queued() {
    let sandbox = quiet();
    let id = submitted(&sandbox, "-h");
    assert_prints(
        &sandbox,
        &format!("qstat {id}"),
        0,
        &table(&sandbox, &id, "job.sh", "0", "H"),
        "",
    );
    assert_prints(&sandbox, &format!("qrls {id}"), 0, "", "");
    assert_prints(
        &sandbox,
        &format!("qstat {id}"),
        0,
        &table(&sandbox, &id, "job.sh", "0", "Q"),
        "",
    );
}

#[test]
fn check_27_without_jobs_qstat_prints_nothing() {
    let sandbox = alone("");
    assert_prints(&sandbox, "qstat", 0, "", "");
    finished(&sandbox);
    assert_prints(&sandbox, "qstat", 0, "", "");
}

#[test]
fn check_28_qstat_shows_a_job_in_three_lines() {
    let sandbox = busy();
    let id = running(&sandbox, "-l walltime=60");
    let (done, used) = sandbox.until("two equal values of cput", || {
        let used = || {
            sandbox.job(&id)["resources_used"]["cput"]
                .as_str()
                .unwrap_or("00:00:00")
                .to_string()
        };
        let (before, done, after) = (used(), sandbox.shell(&format!("qstat {id}")), used());
        (before == after).then_some((done, after))
    });
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(done.out, table(&sandbox, &id, "job.sh", &used, "R"));
    sandbox.run("qdel", &[&id]).ok();
}

#[test]
fn check_29_an_unknown_job_is_reported_with_its_full_id() {
    assert_prints(
        &quiet(),
        "qstat 999",
        153,
        "",
        "qstat: Unknown Job Id 999.head\n",
    );
}

#[test]
fn check_30_a_finished_job_is_shown_only_with_x() {
    let sandbox = busy();
    let id = finished(&sandbox);
    let expected = format!(
        "qstat: {id} Job has finished, use -x or -H to obtain historical job information\n"
    );
    assert_prints(&sandbox, &format!("qstat {id}"), 35, "", &expected);
    assert_prints(
        &sandbox,
        &format!("qstat -x {id}"),
        0,
        &table(&sandbox, &id, "over", "00:00:00", "F"),
        "",
    );
}

#[test]
fn check_31_an_output_format_requires_full_output() {
    assert_usage_error(
        &quiet(),
        "qstat -F json",
        2,
        "qstat: conflicting options.\n",
    );
}

#[test]
fn check_32_json_without_jobs_is_valid() {
    let done = quiet().shell("qstat -f -F json 999");
    assert_eq!(
        (done.code, done.err.as_str()),
        (153, "qstat: Unknown Job Id 999.head\n")
    );
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "{{\n\t\"timestamp\":\t<EPOCH>,\n\t\"pbs_version\":\t\"{version}\",\n\t\"pbs_server\":\t\"head\"\n}}\n"
    );
    assert_eq!(without_times(&done.out), expected);
    assert!(serde_json::from_str::<Value>(&done.out).unwrap()["timestamp"].is_u64());
}

#[test]
fn check_33_an_unknown_queue_is_reported() {
    assert_prints(
        &quiet(),
        "qstat -Q nosuch",
        170,
        "",
        "qstat: Unknown queue nosuch\n",
    );
}

#[test]
fn check_39_no_match_prints_nothing_and_an_unknown_state_is_refused() {
    let sandbox = quiet();
    assert_prints(&sandbox, "qselect -s R -u nosuchuser", 0, "", "");
    assert_usage_error(&sandbox, "qselect -s Z", 2, "qselect: illegal -s value\n");
}

#[test]
fn check_40_nodes_are_shown_in_the_layout_of_pbs() {
    let sandbox = alone("");
    let id = running(&sandbox, "-l select=1:ncpus=1:mem=1gb");
    assert_prints(
        &sandbox,
        "pbsnodes nosuch",
        1,
        "",
        "Node: nosuch,  Error: Unknown node \n",
    );
    assert_usage_error(&sandbox, "pbsnodes", 1, "");
    let done = sandbox.shell("pbsnodes -a -F json");
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let all: Value = serde_json::from_str(&done.out).unwrap();
    let node = &all["nodes"][&host()];
    assert!(
        all["timestamp"].is_u64() && node["last_state_change_time"].is_u64(),
        "{all}"
    );
    let (text, pcpus) = (without_times(&done.out), node["pcpus"].as_u64().unwrap());
    // PBS shows no load.
    let start = text.find("\t\t\t\"loadave\"").unwrap();
    let end = text.find("\t\t\t\"resv_enable\"").unwrap();
    let text = format!("{}{}", &text[..start], &text[end..]);
    assert_eq!(
        without(&text, &["license", "last_used_time"]),
        nodes_layout(&id, pcpus)
    );
}

/// Removes the lines of these keys from a document with one key per line.
fn without(text: &str, keys: &[&str]) -> String {
    let is_kept = |line: &&str| {
        !keys
            .iter()
            .any(|key| line.trim_start().starts_with(&format!("\"{key}\"")))
    };
    let kept: Vec<&str> = text.lines().filter(is_kept).collect();
    kept.join("\n").replace("<EPOCH>,\n\t\t}", "<EPOCH>\n\t\t}") + "\n"
}

fn nodes_layout(job: &str, pcpus: u64) -> String {
    let (host, version) = (host(), env!("CARGO_PKG_VERSION"));
    format!(
        r#"{{
	"timestamp":	<EPOCH>,
	"pbs_version":	"{version}",
	"pbs_server":	"head",
	"nodes":	{{
		"{host}":	{{
			"Mom":	"{host}",
			"ntype":	"PBS",
			"state":	"free",
			"pcpus":	{pcpus},
			"jobs":	["{job}"],
			"resources_available":	{{
				"arch":	"linux",
				"host":	"{host}",
				"mem":	"8gb",
				"ncpus":	4,
				"vnode":	"{host}"
			}},
			"resources_assigned":	{{
				"mem":	"1048576kb",
				"ncpus":	1
			}},
			"resv_enable":	"True",
			"sharing":	"default_shared",
			"last_state_change_time":	<EPOCH>
		}}
	}}
}}
"#
    )
}
