//! Placement requested on the command line: preferences with `-W`, quality of service, and the
//! site's allocation script (M8i).

use crate::support::sandbox::Sandbox;
use std::fs;
use std::time::{Duration, Instant};

/// A sandbox with this configuration and three simulated hosts of four processors.
fn three_nodes(config: &str) -> Sandbox {
    let sandbox = Sandbox::configured(config);
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "3", "--ncpus", "4", "--mem", "4gb", "--name", "n",
            ],
        )
        .ok();
    sandbox
}

/// The three nodes with an allocation script of the site.
fn with_allocation_script(script: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let program = sandbox.script("choose", script);
    let placement = format!(
        "[placement]\nallocation = \"local\"\nprogram = \"{}\"\n{more}\n",
        program.display()
    );
    let config = format!("[launch]\nlogin = false\n{placement}");
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    sandbox.start_nodes(3, 4);
    sandbox
}

/// Waits for the end of a job; returns its `exec_vnode`.
fn place(sandbox: &Sandbox, id: &str) -> String {
    sandbox.ended(id)["exec_vnode"]
        .as_str()
        .unwrap_or_default()
        .to_string()
}

/// Exit status and message of a qsub that is refused.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String) {
    sandbox.script("job.sh", "true");
    let done = sandbox.run("qsub", &[arguments, &["job.sh"]].concat());
    assert_eq!(done.out, "", "{arguments:?}");
    (done.code, done.err.trim_end().to_string())
}

#[test]
fn an_invalid_placement_preference_is_refused_with_position_and_hint() {
    let sandbox = three_nodes("");
    for (option, code, message) in [
        (
            "requirements=host.memory.total >= ",
            166,
            "requirements: column 22: expected a name, a number or a text in quotes, found the end",
        ),
        (
            "requirements=host.memroy.total >= 32",
            166,
            "the nearest known name is `host.memory.total`",
        ),
        (
            "nalloc=fastset",
            166,
            "nalloc: `fastset` is not one of minresource, firstavailable, ",
        ),
        (
            "naccess=singel",
            166,
            "naccess: `singel` is not one of shared, singleuser, singlejob, singletask",
        ),
        ("geometry={(0,0)}", 166, "geometry"),
        (
            "omit_hots=n1",
            154,
            "Undefined attribute  omit_hots; the nearest known name is `omit_hosts`",
        ),
        ("qos=very high", 166, "qos"),
    ] {
        let (found, text) = refused(&sandbox, &["-W", option]);
        assert!(
            found == code && text.contains(message),
            "{option}: {found} {text}"
        );
    }
}

#[test]
fn a_job_runs_on_its_preferred_nodes_and_shows_them() {
    let sandbox = three_nodes("");
    let script = "echo $NCPUS; cat $PBS_NODEFILE\n";
    for (request, nodes, shown, output) in [
        (
            &["-W", "hosts=n2"][..],
            "(n2:ncpus=1)",
            "hosts = n2",
            "1\nn2\n",
        ),
        (
            &["-W", "omit_hosts=n1+n2"],
            "(n3:ncpus=1)",
            "omit_hosts = n1,n2",
            "1\nn3\n",
        ),
        (
            &[
                "-W",
                "requirements=host.name eq n3 and host.memory.total >= 4000",
            ],
            "(n3:ncpus=1)",
            "requirements = ",
            "1\nn3\n",
        ),
        (&["-l", "select=1:ncpus=2+"], "(n1:ncpus=4)", "", "4\nn1\n"),
        (
            &["-l", "select=4:ncpus=1", "-W", "geometry={(0,3)(1,2)}"],
            "(n1:ncpus=2)+(n2:ncpus=2)",
            "geometry = {(0,3)(1,2)}",
            "2\nn1\nn2\nn2\nn1\n",
        ),
        (
            &["-l", "select=2:ncpus=1", "-W", "naccess=singletask"],
            "(n1:ncpus=1)+(n2:ncpus=1)",
            "naccess = singletask",
            "1\nn1\nn2\n",
        ),
    ] {
        let id = sandbox.submit(&[request, &["-j", "oe", "-o", "out"]].concat(), script);
        assert_eq!(place(&sandbox, &id), nodes, "{request:?}");
        assert_eq!(sandbox.read("out"), output, "{request:?}");
        let full = sandbox.run("qstat", &["-xf", &id]).ok();
        assert!(full.contains(shown), "{request:?}: {full}");
    }
}

#[test]
fn a_singlejob_node_runs_no_other_job() {
    let sandbox = three_nodes("");
    let script = "while [ ! -e go ]; do sleep 0.02; done\n";
    let alone = sandbox.submit(&["-W", "naccess=singlejob", "-l", "walltime=60"], script);
    let job = sandbox.running(&alone);
    let other = sandbox.submit(
        &["-l", "select=1:ncpus=1:vnode=n1", "-l", "walltime=60"],
        "true\n",
    );
    assert_eq!(job["exec_vnode"], "(n1:ncpus=1)");
    sandbox.until("the reason of the waiting job", || {
        sandbox.job(&other)["comment"]
            .as_str()
            .filter(|comment| comment.starts_with("Not Running"))
            .map(|_| ())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(place(&sandbox, &other), "(n1:ncpus=1)");
}

#[test]
fn a_quality_of_service_is_set_changed_and_shown() {
    let sandbox = three_nodes("");
    let qos = |id: &str| {
        let full = sandbox.run("qstat", &["-f", id]).ok();
        full.lines()
            .find_map(|line| line.trim().strip_prefix("qos = ").map(String::from))
    };
    let id = sandbox.submit(&["-h", "-W", "qos=high"], "true\n");
    assert_eq!(qos(&id).as_deref(), Some("high"));
    sandbox.run("qalter", &["-l", "qos=low", &id]).ok();
    assert_eq!(qos(&id).as_deref(), Some("low"));
    sandbox.run("qalter", &["-W", "qos=", &id]).ok();
    assert_eq!(qos(&id), None);
    let id = sandbox.submit(&["-h", "-l", "qos=batch"], "true\n");
    assert_eq!(qos(&id).as_deref(), Some("batch"));
}

/// M8i: the script chooses among the candidate nodes.
#[test]
fn an_allocation_script_chooses_the_nodes() {
    let sandbox = with_allocation_script("cat >> $0.input; echo >> $0.input; cat $0.output", "");
    let answer = |names: &str| fs::write(sandbox.file("choose.output"), names).unwrap();
    answer("n2\nn3\n");
    let id = sandbox.submit(&["-l", "select=1:ncpus=4", "-W", "qos=high"], "true\n");
    assert_eq!(place(&sandbox, &id), "(n2:ncpus=4)");
    let queries = || fs::read_to_string(sandbox.file("choose.input")).unwrap();
    let query: serde_json::Value = serde_json::from_str(queries().trim()).unwrap();
    assert_eq!(
        (
            &query["job"]["qos"],
            &query["job"]["Resource_List"]["ncpus"]
        ),
        (&"high".into(), &4.into())
    );
    let names: Vec<&str> = query["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|n| n["name"].as_str())
        .collect();
    assert_eq!(
        (names, &query["nodes"][0]["resources_available"]["ncpus"]),
        (vec!["n1", "n2", "n3"], &4.into())
    );
    // One query for equal jobs.
    let wide = sandbox.submit(&["-J", "1-6", "-l", "select=1:ncpus=3"], "sleep 0.2\n");
    sandbox.ended(&wide);
    assert_eq!(queries().lines().count(), 2, "{}", queries());
    // A name that is no candidate node is reported; schedd then selects the nodes.
    answer("nX\n");
    let id = sandbox.submit(&["-l", "select=1:ncpus=2"], "true\n");
    assert_eq!(place(&sandbox, &id), "(n1:ncpus=2)");
    let log = sandbox.log();
    assert!(log.contains("`nX` is not a candidate node"), "{log}");
}

/// M8i: after the timeout the script and its child processes are killed.
#[test]
fn a_hanging_allocation_script_times_out_with_its_children() {
    let sandbox = with_allocation_script("sleep 61.5 & wait", "program_timeout = \"1s\"");
    let started = Instant::now();
    let id = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    sandbox.until("the reason", || {
        sandbox.job(&id)["comment"]
            .as_str()
            .filter(|comment| comment.contains("program that chooses nodes"))
            .map(|_| ())
    });
    let requested = Instant::now();
    sandbox.run("qstat", &["--version"]).ok();
    let other = sandbox.submit(&["-h"], "true\n");
    assert!(
        !other.is_empty() && requested.elapsed() < Duration::from_millis(900),
        "{:?}",
        requested.elapsed()
    );
    assert_eq!(place(&sandbox, &id), "(n1:ncpus=1)");
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    let children = || {
        let lines = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| line.starts_with(b"sleep\x0061.5\0"))
            .count()
    };
    sandbox.until("the end of the script's children", || {
        (children() == 0).then_some(())
    });
    let again = Instant::now();
    let id = sandbox.submit(&["-l", "select=1:ncpus=2"], "true\n");
    assert_eq!(place(&sandbox, &id), "(n1:ncpus=2)");
    assert!(
        again.elapsed() < Duration::from_secs(1),
        "the script must not run again soon after a timeout: {:?}",
        again.elapsed()
    );
    assert!(
        sandbox.log().contains("the script took too long"),
        "{}",
        sandbox.log()
    );
}
