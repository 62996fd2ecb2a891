//! `pbs_release_nodes` permanently releases nodes of a running job.

use crate::support::sandbox::{Sandbox, refused_exactly};
use serde_json::{Value, json};
use std::fs;

/// Three hosts with two processors each, and a job on all of them that runs until the file `end`
/// exists. Each task writes its pid to a file named after its host.
fn three_hosts() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "3", "--ncpus", "2", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    let script = "pbsdsh -n 1 -o -- sh -c 'echo $$ > pid.h2; exec sleep 600'\n\
                  pbsdsh -n 2 -o -- sh -c 'echo $$ > pid.h3; exec sleep 600'\n\
                  while [ ! -e end ]; do sleep 0.05; done\n\
                  cat $PBS_NODEFILE > nodes\n\
                  pbsdsh -- sh -c 'echo $PBS_VNODENUM >> ran'\n";
    let id = sandbox.submit(
        &[
            "-l",
            "select=3:ncpus=2",
            "-l",
            "place=scatter",
            "-v",
            "PATH",
            "-e",
            "err",
        ],
        script,
    );
    sandbox.running(&id);
    for host in ["h2", "h3"] {
        sandbox.until("the pid of a task", || pid(&sandbox, host));
    }
    (sandbox, id)
}

fn pid(sandbox: &Sandbox, host: &str) -> Option<i32> {
    fs::read_to_string(sandbox.file(&format!("pid.{host}")))
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn is_running(sandbox: &Sandbox, host: &str) -> bool {
    pid(sandbox, host)
        .is_some_and(|pid| lanai::sys::procfs::process(pid).is_some_and(|process| process.lives()))
}

fn node(sandbox: &Sandbox, name: &str) -> Value {
    let done = sandbox.run("pbsnodes", &["-F", "json", name]);
    serde_json::from_str::<Value>(&done.out).unwrap()["nodes"][name].clone()
}

#[test]
fn a_released_node_stays_free_through_restarts_of_all_daemons() {
    let (sandbox, id) = three_hosts();
    let waiting = sandbox.submit(&["-l", "ncpus=2"], "sleep 600\n");
    assert_eq!(
        sandbox.run("pbs_release_nodes", &["-j", &id, "h2"]).ok(),
        ""
    );
    sandbox.until("the end of the task", || {
        (!is_running(&sandbox, "h2")).then_some(())
    });
    assert_eq!(
        sandbox.running(&waiting)["exec_vnode"],
        json!("(h2:ncpus=2)")
    );
    assert_eq!(
        sandbox.job(&id)["exec_vnode"],
        json!("(h1:ncpus=2)+(h3:ncpus=2)")
    );
    assert!(
        is_running(&sandbox, "h3"),
        "the task on a kept node still runs"
    );
    for daemon in ["schedd", "noded"] {
        sandbox.kill(daemon);
    }
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "3", "--ncpus", "2", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    sandbox.run("schedd", &[]).ok();
    sandbox.until("all nodes to be busy", || {
        ["h1", "h2", "h3"]
            .iter()
            .all(|name| node(&sandbox, name)["state"] == "job-busy")
            .then_some(())
    });
    assert_eq!(sandbox.job(&id)["exec_host"], json!("h1/0*2+h3/0*2"));
    assert_eq!(node(&sandbox, "h2")["jobs"], json!([waiting]));
    fs::write(sandbox.file("end"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{}", sandbox.read("err"));
    assert_eq!(sandbox.read("nodes"), "h1\nh3\n");
    let mut ran: Vec<String> = sandbox.read("ran").lines().map(String::from).collect();
    ran.sort();
    assert_eq!(ran, ["0", "2"], "the kept nodes keep their numbers");
    sandbox.run("qdel", &[&waiting]).ok();
}

#[test]
fn a_job_is_charged_for_released_nodes_until_their_release() {
    let (sandbox, id) = three_hosts();
    assert_eq!(
        sandbox.run("pbs_release_nodes", &["-j", &id, "-a"]).ok(),
        ""
    );
    assert_eq!(sandbox.job(&id)["exec_vnode"], json!("(h1:ncpus=2)"));
    std::thread::sleep(std::time::Duration::from_secs(3));
    fs::write(sandbox.file("end"), "").unwrap();
    sandbox.ended(&id);
    let number = id.split('.').next().unwrap();
    let spool = rusqlite::Connection::open(sandbox.home().join("spool/spool.db")).unwrap();
    let query = |sql: &str| -> Vec<(i64, i64)> {
        let sql = sql.replace("?", number);
        let mut statement = spool.prepare(&sql).unwrap();
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        rows.map(Result::unwrap).collect()
    };
    let charges = query("SELECT cores, ended - began FROM charge WHERE job = ? ORDER BY cores");
    let [(2, whole), (4, partial)] = charges[..] else {
        panic!("{charges:?}")
    };
    assert!(whole >= partial + 2900, "{charges:?}");
    let accounts: Value =
        serde_json::from_str(&sandbox.run("qacct", &["--by", "user", "-F", "json"]).ok()).unwrap();
    let seconds = accounts["Accounts"][0]["core_seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("{accounts}"));
    let charged = (2 * whole + 4 * partial) as f64 / 1000.0;
    assert!(
        (seconds - charged).abs() < 0.1,
        "accounts {seconds}, charges {charged}"
    );
}

#[test]
fn invalid_releases_are_refused_with_the_messages_of_pbs() {
    let (sandbox, id) = three_hosts();
    let release = |arguments: &[&str]| sandbox.run("pbs_release_nodes", arguments);
    let foreign = "pbs_release_nodes: node(s) requested to be released not part of the job: ";
    refused_exactly(
        release(&["-j", &id, "h9", "h2"]),
        162,
        &format!("{foreign}h9 "),
    );
    let primary = "pbs_release_nodes: Can't free 'h1' since it's on a primary execution host ";
    refused_exactly(release(&["-j", &id, "h1", "h2"]), 162, primary);
    refused_exactly(
        release(&["-j", &id, "-k", "2"]),
        162,
        &format!("{foreign} "),
    );
    let many = "pbs_release_nodes: could not satisfy select chunk (ncpus=2) ";
    refused_exactly(release(&["-j", &id, "-k", "select=4:ncpus=2"]), 162, many);
    refused_exactly(
        release(&["-j", "999", "-a"]),
        153,
        "pbs_release_nodes: Unknown Job Id 999.head"
            .replace("head", &server(&id))
            .as_str(),
    );
    refused_exactly(
        release(&["-j", "x", "-a"]),
        2,
        "pbs_release_nodes: illegally formed job identifier: x",
    );
    refused_exactly(release(&["-a"]), 2, "pbs_release_nodes: No jobid given");
    let held = sandbox.submit(&["-h"], "true\n");
    refused_exactly(
        release(&["-j", &held, "-a"]),
        168,
        "pbs_release_nodes: Request invalid for state of job ",
    );
    let array = sandbox.submit(&["-h", "-J", "1-2"], "true\n");
    let arrays = "pbs_release_nodes: not supported for Array Jobs or multiple sub-jobs ";
    refused_exactly(release(&["-j", &array, "-a"]), 181, arrays);
    for wrong in [
        &["-j", &id][..],
        &["-j", &id, "-a", "h2"],
        &["-a", "-k", "1"],
        &["-k", "1", "h2"],
        &["-y"],
    ] {
        let done = release(wrong);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{wrong:?}");
        assert!(done.err.contains(
            "usage: pbs_release_nodes [-j job_identifier] host_or_vnode1 host_or_vnode2 ...\n"
        ));
        assert!(
            done.err.ends_with("       pbs_release_nodes --version\n"),
            "{}",
            done.err
        );
    }
    assert_eq!(
        sandbox.job(&id)["exec_vnode"],
        json!("(h1:ncpus=2)+(h2:ncpus=2)+(h3:ncpus=2)"),
        "nothing has changed"
    );
    release(&["-j", &id, "-k", "select=2:ncpus=1"]).ok();
    assert_eq!(
        sandbox.job(&id)["exec_vnode"],
        json!("(h1:ncpus=2)+(h2:ncpus=2)")
    );
    assert!(
        sandbox
            .run("tracejob", &[&id])
            .ok()
            .contains("Nodes h3 released at request of"),
        "tracejob shows the release"
    );
}

fn server(id: &str) -> String {
    id.split_once('.').unwrap().1.to_string()
}

#[test]
fn release_nodes_on_stageout_releases_the_other_hosts_at_stage_out() {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "2", "--ncpus", "2", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    let stageout = format!(
        "stageout={}@localhost:{}",
        sandbox.file("made").display(),
        sandbox.file("copy").display()
    );
    let two_hosts = [
        "-l",
        "select=2:ncpus=1",
        "-l",
        "place=scatter",
        "-W",
        stageout.as_str(),
        "-W",
    ];
    let submitted = |value: &str| {
        let value = format!("release_nodes_on_stageout={value}");
        sandbox.submit(
            &[&two_hosts[..], &[&value]].concat(),
            "echo > made; while [ ! -e end ]; do sleep 0.05; done\n",
        )
    };
    let [altered, keeps] = ["false", "false"].map(submitted);
    [&altered, &keeps]
        .iter()
        .for_each(|id| drop(sandbox.running(id)));
    sandbox
        .run(
            "qalter",
            &["-W", "release_nodes_on_stageout=true", &altered],
        )
        .ok();
    fs::write(sandbox.file("end"), "").unwrap();
    assert_eq!(sandbox.ended(&altered)["exec_vnode"], json!("(h1:ncpus=1)"));
    assert_eq!(
        sandbox.ended(&keeps)["exec_vnode"],
        json!("(h1:ncpus=1)+(h2:ncpus=1)")
    );
    let output = sandbox.run("tracejob", &[&altered]).ok();
    assert!(
        output.contains("Nodes h2 released at request of schedd@"),
        "{output}"
    );
    assert_eq!(sandbox.read("copy"), "\n");
}

#[test]
fn a_job_can_release_its_nodes_and_its_node_file_is_updated() {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "2", "--ncpus", "2", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    let script = "pbs_release_nodes -a || exit 1\n\
                  until [ $(wc -l < $PBS_NODEFILE) = 1 ]; do sleep 0.05; done\n\
                  pbsdsh -n 1 -- true 2> index; cat $PBS_NODEFILE\n";
    let options = [
        "-l",
        "select=2:ncpus=1",
        "-l",
        "place=scatter",
        "-v",
        "PATH,LANAI_HOME",
        "-o",
        "out",
        "-e",
        "err",
    ];
    let id = sandbox.submit(&options, script);
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        0,
        "{}",
        sandbox.read("err")
    );
    assert_eq!(sandbox.read("out"), "h1\n");
    assert!(
        sandbox
            .read("index")
            .contains(": no line 1 (counted from 0): "),
        "{}",
        sandbox.read("index")
    );
}
