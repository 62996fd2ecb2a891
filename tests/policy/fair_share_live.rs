//! Fair share with real jobs: starts follow the shares, and the displayed values are those used.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;

/// A node with two processors and a priority that depends on fair share only.
fn sandbox(more: &str) -> Sandbox {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    Sandbox::configured(&format!(
        "[server]\nrefuse_impossible = false\n[order]\nby = \"multifactor\"\n[order.weights]\nwait_time = 0\nqos = 0\nqueue = 0\njob_size = 0\nuser = 0\nslowdown = 0\n\
         fair_share = 10000\n\
         [usage]\ndecay = \"none\"\n{more}\n[[node]]\nname = \"{node}\"\nncpus = 2\n"
    ))
}

const EQUAL_SHARES: &str = "[[account]]\nname = \"heavy\"\n[[account]]\nname = \"light\"\n";

/// Submits a job that records its start and end and runs `command` in between.
fn submit(sandbox: &Sandbox, account: &str, name: &str, cores: u32, command: &str) -> String {
    let script = format!("date +%s.%N > {name}.start\n{command}\ndate +%s.%N > {name}.end\n");
    sandbox.submit(
        &["-A", account, "-N", name, "-l", &format!("ncpus={cores}")],
        &script,
    )
}

fn qstat_json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let text = sandbox
        .run("qstat", &[arguments, &["-F", "json"]].concat())
        .ok();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Row of an account in a list of `qstat -F json`.
fn row(document: &Value, list: &str, account: &str) -> Value {
    let rows = document[list]
        .as_array()
        .unwrap_or_else(|| panic!("{document}"));
    let matches =
        |row: &&Value| row["account"] == account && (list == "Usage" || row["user"].is_null());
    rows.iter().find(matches).cloned().unwrap_or(Value::Null)
}

fn float(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Recorded run of a job: account, start, end and processors.
struct RecordedRun {
    account: &'static str,
    from: f64,
    to: f64,
    cores: f64,
}

impl RecordedRun {
    fn of(sandbox: &Sandbox, account: &'static str, name: &str, cores: u32) -> RecordedRun {
        let time = |end: &str| {
            sandbox
                .read(&format!("{name}.{end}"))
                .trim()
                .parse()
                .unwrap()
        };
        RecordedRun {
            account,
            from: time("start"),
            to: time("end"),
            cores: cores.into(),
        }
    }

    /// Core seconds used until `at`.
    fn used(&self, at: f64) -> f64 {
        (at.min(self.to) - self.from).max(0.0) * self.cores
    }
}

fn used(all: &[RecordedRun], account: &str, at: f64) -> f64 {
    all.iter()
        .filter(|job| job.account == account)
        .map(|job| job.used(at))
        .sum()
}

#[test]
fn starts_follow_the_shares_and_the_priority_is_shown() {
    let sandbox = sandbox(EQUAL_SHARES);
    let past = submit(
        &sandbox,
        "heavy",
        "past",
        2,
        "while [ ! -e go ]; do sleep 0.02; done",
    );
    sandbox.running(&past);
    let began = std::time::Instant::now();
    let mut jobs = vec![("heavy", "past".to_string(), past.clone(), 2)];
    for number in 1..=6 {
        for account in ["heavy", "light"] {
            let name = format!("{account}{number}");
            let id = submit(&sandbox, account, &name, 1, "sleep $(cat duration)");
            jobs.push((account, name, id, 1));
        }
    }
    assert_priority_is_shown(&sandbox, &jobs[1].2, &jobs[12].2);
    std::thread::sleep(std::time::Duration::from_millis(1200).saturating_sub(began.elapsed()));
    // With this duration, the first job has used as much as 3.5 of the later ones.
    fs::write(
        sandbox.file("duration"),
        format!("{:.3}", began.elapsed().as_secs_f64() * 2.0 / 3.5),
    )
    .unwrap();
    fs::write(sandbox.file("go"), "").unwrap();
    for (.., id, _) in &jobs {
        sandbox.ended(id);
    }
    let mut all: Vec<RecordedRun> = jobs
        .iter()
        .map(|(account, name, _, cores)| RecordedRun::of(&sandbox, account, name, *cores))
        .collect();
    all.sort_by(|a, b| a.from.total_cmp(&b.from));
    assert_starts_follow_shares(&all);
    for account in ["heavy", "light"] {
        let charged = float(&row(&qstat_json(&sandbox, &["--usage"]), "Usage", account)["seconds"]);
        let recorded = used(&all, account, f64::MAX);
        assert!(
            (charged - recorded).abs() <= 1.0,
            "{account}: charged {charged}, recorded {recorded}"
        );
    }
    // F9: the score at start is kept, however shares change later.
    let document = qstat_json(&sandbox, &["--priority", &jobs[1].2, &jobs[2].2]);
    let score = |at: usize| float(&document["Jobs"][&jobs[at].2]["priority"]["score_at_start"]);
    assert!(score(1) < score(2) && score(2) > 9000.0, "{document}");
}

/// Checks the displayed priority of the heavy account's first job and the light account's last,
/// while all jobs wait for the job `past`.
fn assert_priority_is_shown(sandbox: &Sandbox, heavy: &str, light: &str) {
    let place = |id: &str| qstat_json(sandbox, &["--priority", id])["Jobs"][id]["priority"].clone();
    let (first, last) = (place(heavy), place(light));
    assert_eq!(
        [&first["rank"], &first["of"], &last["rank"]],
        [7, 12, 6],
        "{first} {last}"
    );
    assert_eq!(
        (&first["before"]["job"], &last["after"]["job"]),
        (&light.into(), &heavy.into())
    );
    for (place, next) in [(&first, &first["before"]), (&last, &last["after"])] {
        let parts = place["parts"].as_array().unwrap();
        let product = |part: &Value| float(&part["product"]);
        assert!(
            parts
                .iter()
                .all(|part| product(part) == float(&part["factor"]) * float(&part["weight"])),
            "{place}"
        );
        assert_eq!(
            parts.iter().map(product).sum::<f64>(),
            float(&place["score"]),
            "F18"
        );
        let shares = parts
            .iter()
            .find(|part| part["name"] == "fair_share")
            .unwrap();
        let difference = &next["differences"][0];
        assert_eq!(
            (&difference["name"], &difference["own"]),
            (&"fair_share".into(), &shares["product"])
        );
    }
    // The heavy account has all usage, so its factor is 1/4.
    assert_eq!(
        [float(&first["score"]), float(&last["score"])],
        [2500.0, 10000.0]
    );
    let text = sandbox.run("qstat", &["--priority", heavy]).ok();
    assert!(
        text.contains(": place 7 of 12\n")
            && text.contains("Preceded by: job ")
            && text.contains("(place 6, score "),
        "{text}"
    );
    assert!(text.contains("fair_share 10000, this job 2500"), "{text}");
    let queue = qstat_json(sandbox, &["--priority"]);
    let mut ranks: Vec<i64> = queue["Jobs"]
        .as_object()
        .unwrap()
        .values()
        .map(|job| job["priority"]["rank"].as_i64().unwrap())
        .collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (1..=12).collect::<Vec<i64>>());
    assert_eq!(
        sandbox.run("qstat", &["--priority"]).ok().lines().count(),
        2 + 12
    );
    let why = qstat_json(sandbox, &["--why", heavy])["Jobs"][heavy]["why"].clone();
    assert_eq!(
        (&why["reason"]["code"], &why["ahead"]),
        (&"amount.ncpus".into(), &6.into()),
        "{why}"
    );
    let shares = qstat_json(sandbox, &["--shares"]);
    let (heavy, light) = (
        row(&shares, "Shares", "heavy"),
        row(&shares, "Shares", "light"),
    );
    assert_eq!(
        [
            &heavy["used"],
            &heavy["normalised"],
            &heavy["factor"],
            &light["factor"]
        ],
        [1.0, 0.5, 0.25, 1.0]
    );
    assert_eq!(
        (&heavy["in_use"], &heavy["balance_after"]),
        (&2.0.into(), &Value::Null),
        "no other account runs jobs"
    );
    assert_eq!(light["balance_after"], 0.0);
    assert!(
        sandbox
            .run("qstat", &["--shares"])
            .ok()
            .contains("\nheavy ")
    );
    assert_eq!(
        sandbox
            .run("qstat", &["--shares", heavy["account"].as_str().unwrap()])
            .code,
        2
    );
    assert_eq!(sandbox.run("qstat", &["--shares", "--priority"]).code, 2);
    assert_eq!(sandbox.run("qstat", &["--priority", "777"]).code, 153);
}

/// Asserts that, while both accounts have queued jobs, the account with less usage starts the next
/// job. Usage may differ by the delay of a start.
#[track_caller]
fn assert_starts_follow_shares(all: &[RecordedRun]) {
    let order: Vec<&str> = all[1..].iter().map(|job| job.account).collect();
    let both_wait = |at: usize| {
        ["heavy", "light"]
            .iter()
            .all(|account| order[at..].contains(account))
    };
    for at in (0..order.len()).filter(|&at| both_wait(at)) {
        let (job, when) = (&all[at + 1], all[at + 1].from);
        let other = if job.account == "heavy" {
            "light"
        } else {
            "heavy"
        };
        let (own, others) = (used(all, job.account, when), used(all, other, when));
        assert!(
            own <= others + 0.5,
            "start {at} of {order:?}: {own} used, {others} by {other}"
        );
    }
    assert_eq!(order[..3], ["light"; 3], "{order:?}");
    let last_light = order
        .iter()
        .rposition(|account| *account == "light")
        .unwrap();
    assert!(
        order[..last_light].contains(&"heavy"),
        "with equal usage, the accounts must alternate: {order:?}"
    );
}

/// I7: the value is a number, from the last cycle.
#[test]
fn the_fair_share_priority_is_shown_on_the_job() {
    let sandbox = sandbox(&format!(
        "[fairshare]\nmethod = \"linear\"\nsubject = \"account\"\n{EQUAL_SHARES}"
    ));
    for account in ["heavy", "heavy", "light"] {
        let id = submit(&sandbox, account, "past", 2, "sleep 0.4");
        sandbox.ended(&id);
    }
    let usage = qstat_json(&sandbox, &["--usage"]);
    let [heavy, light] =
        ["heavy", "light"].map(|account| float(&row(&usage, "Usage", account)["decayed"]));
    // Requests more processors than exist: the job stays queued and uses nothing.
    let id = submit(&sandbox, "heavy", "waits", 3, "true");
    let expected = 1e6 * (1.0 - heavy / (heavy + light));
    let shown = sandbox.until("the priority", || {
        let shown = sandbox.job(&id)["Resource_List"]["fairshare"].clone();
        (!shown.is_null()).then_some(shown)
    });
    assert!(
        (float(&shown) - expected).abs() < 1e-3,
        "{shown}, expected {expected}"
    );
    let text = sandbox.run("qstat", &["-f", &id]).ok();
    assert!(text.contains("\n    Resource_List.fairshare = 3"), "{text}");
    let place = qstat_json(&sandbox, &["--priority", &id])["Jobs"][&id]["priority"].clone();
    let share = place["parts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["name"] == "fair_share")
        .unwrap();
    assert_eq!(float(&share["factor"]) * 1e6, float(&shown));
}

/// A cycle also sets the value of a running job if its account has no queued jobs.
#[test]
fn the_fair_share_priority_is_shown_for_a_running_job() {
    let sandbox = sandbox(&format!(
        "[fairshare]\nmethod = \"linear\"\nsubject = \"account\"\n{EQUAL_SHARES}"
    ));
    let id = submit(
        &sandbox,
        "heavy",
        "runs",
        1,
        "while [ ! -e go ]; do sleep 0.05; done",
    );
    sandbox.running(&id);
    // Requests more processors than exist, so the job stays queued.
    let other = submit(&sandbox, "light", "waits", 3, "true");
    let share = |id: &str| sandbox.job(id)["Resource_List"]["fairshare"].clone();
    sandbox.until("a cycle", || (!share(&other).is_null()).then_some(()));
    assert!(share(&id).is_number(), "{}", sandbox.job(&id));
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
}

/// Y1, Y2: a job that stays below its fair share is shown as starving, with the start of that time.
#[test]
fn a_starving_job_is_shown_by_shares_and_why() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let sandbox = Sandbox::configured(&format!(
        "[preemption]\ntriggers = [\"starvation\"]\n[preemption.starvation]\ntimeout = \"2s\"\n\
         [[node]]\nname = \"{node}\"\nncpus = 2\n"
    ));
    let first = sandbox.submit(&["-l", "ncpus=2", "-W", "no_preempt=true"], "sleep 60\n");
    sandbox.running(&first);
    let second = sandbox.submit(&["-l", "ncpus=1"], "sleep 60\n");
    let row = |id: &str| {
        let rows = qstat_json(&sandbox, &["--shares"])["FairShares"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        rows.into_iter().find(|row| row["operation"] == id)
    };
    let status = |id: &str| row(id).and_then(|row| row["status"].as_str().map(String::from));
    sandbox.until("usage below the fair share", || {
        status(&second).filter(|status| status == "below_fair_share")
    });
    sandbox.until("starvation", || {
        status(&second).filter(|status| status == "starving")
    });
    let [one, two] = [row(&first).unwrap(), row(&second).unwrap()];
    assert_eq!(
        (&one["usage_share"], &one["status"], &one["below_since"]),
        (&1.0.into(), &"normal".into(), &Value::Null)
    );
    assert_eq!(
        (&two["usage_share"], &two["dominant_resource"]),
        (&0.0.into(), &"ncpus".into())
    );
    assert!(
        two["below_since"].is_number() && float(&two["fair_share"]) == 0.5,
        "{two}"
    );
    let text = sandbox.run("qstat", &["--shares"]).ok();
    assert!(
        text.contains("current fair shares of the cluster") && text.contains(" starving "),
        "{text}"
    );
    let why = sandbox.run("qstat", &["--why", &second]).ok();
    assert!(
        why.contains("usage 0.00% of ncpus, fair share 50.00%") && why.contains("starving"),
        "{why}"
    );
    println!("{text}\n{why}");
}
