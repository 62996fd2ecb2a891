//! Mail about jobs and arrays: `-m`, `-M`, digests, and the mailer itself.

use crate::support::installation::shared;
use crate::support::mailbox::Mailbox;
use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;
use std::fs;
use std::time::{Duration, Instant};

/// Job id and event line of each mail.
fn events(mails: &[String]) -> Vec<(String, String)> {
    let field = |mail: &String, begin: &str| {
        let line = mail.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin:?}: {mail}"))
            .to_string()
    };
    let event = |mail: &String| {
        let mut lines = mail
            .lines()
            .skip_while(|line| !line.starts_with("Job Name:"))
            .skip(1);
        lines
            .find(|line| !line.starts_with("exec_host:"))
            .unwrap()
            .to_string()
    };
    mails
        .iter()
        .map(|mail| (field(mail, "PBS Job Id: "), event(mail)))
        .collect()
}

const THIRDS_FAIL: &str = "exit $((PBS_ARRAY_INDEX % 3 == 0 ? 2 : 0))\n";

#[test]
fn an_array_gets_one_mail_per_event_with_a_digest_of_its_subjobs() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(&["-J", "1-6", "-m", "abe"], THIRDS_FAIL);
    sandbox.ended(&id);
    let mails = mailbox.mails(&sandbox, 2);
    let (begun, ended) = (
        "Begun execution".to_string(),
        "Execution terminated".to_string(),
    );
    assert_eq!(events(&mails), [(id.clone(), begun), (id, ended)]);
    let digest = "Exit_status=1\n4 subjobs with status 0: 1-2,4-5\n2 subjobs with status 2: 3,6\n";
    assert!(mails[1].ends_with(digest), "{}", mails[1]);
    assert_eq!(mailbox.all().len(), 2);
}

#[test]
fn subjobs_are_mailed_individually_only_on_request() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(&["-J", "1-3", "-m", "ej"], THIRDS_FAIL);
    sandbox.ended(&id);
    let mut mails = events(&mailbox.mails(&sandbox, 4));
    mails.sort();
    let each = [1, 2, 3].map(|index| id.replace("[]", &format!("[{index}]")));
    let all: Vec<&str> = mails.iter().map(|(job, _)| job.as_str()).collect();
    assert_eq!(all, [each[0].as_str(), &each[1], &each[2], &id]);
    assert!(
        mails
            .iter()
            .all(|(_, event)| event == "Execution terminated"),
        "{mails:?}"
    );
}

#[test]
fn invalid_mail_points_are_refused() {
    let sandbox = Mailbox::new().sandbox();
    let refusal = |arguments: &[&str]| {
        let done = sandbox.run("qsub", &[arguments, &["--", "/bin/true"]].concat());
        (
            done.code,
            done.err.lines().next().unwrap_or_default().to_string(),
        )
    };
    let no_array = "qsub: mail option 'j' can not be used without array job".to_string();
    assert_eq!(refusal(&["-m", "aj"]), (1, no_array));
    for mails in ["j", "x", "na", ""] {
        assert_eq!(
            refusal(&["-J", "1-2", "-m", mails]),
            (2, "qsub: illegal -m value".into()),
            "{mails:?}"
        );
    }
    assert_eq!(refusal(&["-M", ""]), (2, "qsub: illegal -M value".into()));
}

/// Recipients that a mailer would treat as a program, a file or an option.
const NO_ADDRESSES: [&str; 6] = [
    "|/bin/sh",
    "/etc/passwd",
    ":include:/etc/passwd",
    "ann,|/bin/sh",
    "-oQ/tmp",
    "a@b\nBcc:c",
];

#[test]
fn only_plain_addresses_are_recipients() {
    let sandbox = Mailbox::new().sandbox();
    let id = sandbox.submit(&["-h", "-M", "ann@far"], "true\n");
    for recipients in NO_ADDRESSES {
        let given = format!("-M{recipients}");
        for (program, operand) in [("qsub", "--"), ("qalter", &id)] {
            let done = sandbox.run(program, &[&given, operand, "/bin/true"]);
            let message = done.err.lines().next().unwrap_or_default();
            assert_eq!(
                message,
                format!("{program}: illegal -M value"),
                "{recipients:?}"
            );
        }
    }
    assert_eq!(sandbox.job(&id)["Mail_Users"], "ann@far");
}

#[test]
fn only_plain_addresses_of_stored_recipients_reach_the_mailer() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(&["-h", "-m", "e", "-M", "ann,program,file"], "true\n");
    sandbox.run("schedd", &["--stop"]).ok();
    let spool = rusqlite::Connection::open(sandbox.home().join("spool/spool.db")).unwrap();
    let old = "UPDATE job SET spec = replace(spec, 'ann,program,file', '|/bin/sh,/etc/passwd,ann')";
    assert_eq!(spool.execute(old, []).unwrap(), 1);
    drop(spool);
    sandbox.run("qrls", &[&id]).ok();
    sandbox.ended(&id);
    let mails = mailbox.mails(&sandbox, 1);
    assert!(mails[0].starts_with("args: -f adm ann\n"), "{mails:?}");
}

#[test]
fn deletion_of_a_dependent_job_is_mailed_with_its_cause() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let parent = sandbox.submit(&["-h"], "exit 1\n");
    let depends = format!("depend=afterok:{parent}");
    let [plain, silent, altered] = [&[][..], &["-m", "n"], &["-M", "ann"]]
        .map(|options| sandbox.submit(&[options, &["-W", depends.as_str()]].concat(), "true\n"));
    sandbox
        .run("qalter", &["-m", "a", "-M", "bob@far,eve", &altered])
        .ok();
    sandbox.run("qrls", &[&parent]).ok();
    for id in [&plain, &silent, &altered] {
        sandbox.ended(id);
    }
    let mails = mailbox.mails(&sandbox, 2);
    let why = format!(
        "Job deleted as result of dependency on job {parent}: afterok, but it ended with status 1"
    );
    assert_eq!(events(&mails), [(plain, why.clone()), (altered, why)]);
    assert!(
        mails[1].starts_with("args: -f adm bob@far eve\n"),
        "{}",
        mails[1]
    );
    assert_eq!(mailbox.all().len(), 2);
}

#[test]
fn begin_and_end_mails_are_sent_on_request() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(
        &["-N", "named", "-m", "abe", "-M", "ann@far,bob"],
        "sleep 0.2; exit 4\n",
    );
    sandbox.ended(&id);
    let mails = mailbox.mails(&sandbox, 2);
    let begin =
        format!("Subject: PBS JOB {id}\n\nPBS Job Id: {id}\nJob Name:   named\nexec_host:  ");
    assert!(
        mails[0].starts_with("args: -f adm ann@far bob\nFrom: adm\nTo: ann@far, bob\n"),
        "{}",
        mails[0]
    );
    assert!(
        mails[0].contains(&begin) && mails[0].ends_with("\nBegun execution\n"),
        "{}",
        mails[0]
    );
    assert!(
        mails[1].contains("\nExecution terminated\nExit_status=4\nresources_used.cpupercent="),
        "{}",
        mails[1]
    );
    assert!(
        mails[1].contains("\nresources_used.walltime=00:00:00\n"),
        "{}",
        mails[1]
    );
}

#[test]
fn by_default_only_aborts_are_mailed_to_the_owner() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let quiet = sandbox.submit(&["-m", "n", "-l", "walltime=1"], "sleep 60\n");
    let fine = sandbox.submit(&[], "sleep 0.1; exit 1\n");
    let owner = sandbox.owner(&fine);
    let ended = sandbox.submit(&["-l", "walltime=1"], "sleep 60\n");
    for id in [&quiet, &fine, &ended] {
        sandbox.ended(id);
    }
    let mails = mailbox.mails(&sandbox, 1);
    assert_eq!(mails.len(), 1, "{mails:?}");
    let expected = "\nJob exceeded resource walltime\nSee job standard error file\n(walltime 1 exceeded limit 1)\nExit_status=-29\n";
    assert!(
        mails[0].contains(&format!("PBS Job Id: {ended}\n")) && mails[0].contains(expected),
        "{}",
        mails[0]
    );
    assert!(
        mails[0].starts_with(&format!("args: -f adm {owner}\n")),
        "{}",
        mails[0]
    );
}

#[test]
fn many_mails_become_a_digest_and_no_job_waits_for_the_mailer() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    sandbox.run("schedd", &[]).ok();
    let line = "for i in $(seq 60); do qsub -m b -o /dev/null -e /dev/null -- true || exit 1; done";
    sandbox.shell(line).ok();
    sandbox.until("the end of all jobs", || {
        sandbox.run("qstat", &[]).out.is_empty().then_some(())
    });
    sandbox.run("schedd", &["--stop"]).ok();
    let mails = mailbox.mails(&sandbox, 21);
    assert_eq!(mails.len(), 21);
    assert!(
        mails[20].contains("\n40 more messages about jobs of "),
        "{}",
        mails[20]
    );
}

#[test]
fn a_hanging_or_missing_mailer_blocks_no_job() {
    let mailbox = Mailbox::new();
    fs::write(&mailbox.program, "#!/bin/sh\nexec sleep 60\n").unwrap();
    for program in [
        mailbox.program.display().to_string(),
        "/no/such/mailer".into(),
    ] {
        let sandbox = Sandbox::configured(&format!("[server]\nmailer = \"{program}\"\n"));
        let started = Instant::now();
        let ids: Vec<String> = (0..5)
            .map(|_| sandbox.submit(&["-m", "abe"], "true\n"))
            .collect();
        ids.iter()
            .for_each(|id| assert_eq!(sandbox.ended(id)["Exit_status"], 0));
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{:?}",
            started.elapsed()
        );
    }
}

#[test]
fn a_mail_names_the_user_who_deleted_the_job() {
    let Some([ann, _]) = two_users("mail") else {
        return;
    };
    let mailbox = Mailbox::new();
    let sandbox = shared(&format!("mailer = \"{}\"\n", mailbox.program.display()));
    let own = ann.submit(&sandbox, &["-h"], "true");
    let other = ann.submit(&sandbox, &["-h"], "true");
    ann.run(&sandbox, "qdel", &[&own]).ok();
    sandbox.run("qdel", &[&other]).ok();
    let mails = mailbox.mails(&sandbox, 1);
    assert!(
        mails[0].contains(&format!("PBS Job Id: {other}\n")),
        "{mails:?}"
    );
    assert!(
        mails[0].contains("\nJob deleted at request of root@"),
        "{mails:?}"
    );
    assert_eq!(mailbox.all().len(), 1);
}
