//! What is mailed about arrays, about jobs that depend on others, and what `-m` and `-M` take; of
//! single jobs `limits.rs` tells.

use crate::jobs::resource_limits::Mailbox;

/// Which job each letter is about, and the line that says what happened.
fn told(letters: &[String]) -> Vec<(String, String)> {
    let of = |letter: &String, begin: &str| {
        let line = letter.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin:?}: {letter}"))
            .to_string()
    };
    let what = |letter: &String| {
        let mut lines = letter
            .lines()
            .skip_while(|line| !line.starts_with("Job Name:"))
            .skip(1);
        lines
            .find(|line| !line.starts_with("exec_host:"))
            .unwrap()
            .to_string()
    };
    letters
        .iter()
        .map(|letter| (of(letter, "PBS Job Id: "), what(letter)))
        .collect()
}

const THIRDS_FAIL: &str = "exit $((PBS_ARRAY_INDEX % 3 == 0 ? 2 : 0))\n";

#[test]
fn an_array_is_mailed_about_as_one_with_a_digest_of_its_subjobs() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(&["-J", "1-6", "-m", "abe"], THIRDS_FAIL);
    sandbox.ended(&id);
    let letters = mailbox.letters(&sandbox, 2);
    let (begun, over) = (
        "Begun execution".to_string(),
        "Execution terminated".to_string(),
    );
    assert_eq!(told(&letters), [(id.clone(), begun), (id, over)]);
    let digest = "Exit_status=1\n4 subjobs with status 0: 1-2,4-5\n2 subjobs with status 2: 3,6\n";
    assert!(letters[1].ends_with(digest), "{}", letters[1]);
    assert_eq!(mailbox.all().len(), 2);
}

#[test]
fn subjobs_are_mailed_about_one_by_one_only_if_that_is_asked_for() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let id = sandbox.submit(&["-J", "1-3", "-m", "ej"], THIRDS_FAIL);
    sandbox.ended(&id);
    let mut letters = told(&mailbox.letters(&sandbox, 4));
    letters.sort();
    let each = [1, 2, 3].map(|index| id.replace("[]", &format!("[{index}]")));
    let all: Vec<&str> = letters.iter().map(|(job, _)| job.as_str()).collect();
    assert_eq!(all, [each[0].as_str(), &each[1], &each[2], &id]);
    assert!(
        letters
            .iter()
            .all(|(_, what)| what == "Execution terminated"),
        "{letters:?}"
    );
}

#[test]
fn letters_of_m_that_make_no_sense_are_refused() {
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
    for letters in ["j", "x", "na", ""] {
        assert_eq!(
            refusal(&["-J", "1-2", "-m", letters]),
            (2, "qsub: illegal -m value".into()),
            "{letters:?}"
        );
    }
    assert_eq!(refusal(&["-M", ""]), (2, "qsub: illegal -M value".into()));
}

/// Recipients that a mailer delivers to a program or a file, or takes for an option.
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
            let said = done.err.lines().next().unwrap_or_default();
            assert_eq!(
                said,
                format!("{program}: illegal -M value"),
                "{recipients:?}"
            );
        }
    }
    assert_eq!(sandbox.job(&id)["Mail_Users"], "ann@far");
}

#[test]
fn a_recipient_of_an_earlier_version_reaches_the_mailer_only_as_a_plain_address() {
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
    let letters = mailbox.letters(&sandbox, 1);
    assert!(letters[0].starts_with("args: -f adm ann\n"), "{letters:?}");
}

#[test]
fn who_waited_in_vain_is_told_why_and_at_the_address_of_the_last_word() {
    let mailbox = Mailbox::new();
    let sandbox = mailbox.sandbox();
    let parent = sandbox.submit(&["-h"], "exit 1\n");
    let depends = format!("depend=afterok:{parent}");
    let [plain, silent, moved] = [&[][..], &["-m", "n"], &["-M", "ann"]]
        .map(|options| sandbox.submit(&[options, &["-W", depends.as_str()]].concat(), "true\n"));
    sandbox
        .run("qalter", &["-m", "a", "-M", "bob@far,eve", &moved])
        .ok();
    sandbox.run("qrls", &[&parent]).ok();
    for id in [&plain, &silent, &moved] {
        sandbox.ended(id);
    }
    let letters = mailbox.letters(&sandbox, 2);
    let why = format!(
        "Job deleted as result of dependency on job {parent}: afterok, but it ended with status 1"
    );
    assert_eq!(told(&letters), [(plain, why.clone()), (moved, why)]);
    assert!(
        letters[1].starts_with("args: -f adm bob@far eve\n"),
        "{}",
        letters[1]
    );
    assert_eq!(mailbox.all().len(), 2);
}
