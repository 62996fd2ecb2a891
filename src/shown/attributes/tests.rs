//! Tests of the displayed attributes of jobs.

use super::super::timestamp;
use super::*;
use crate::cli::example::{self, SUBMITTED, array, finished, queued, running, server, share, with};
use crate::cli::output::full::{self, Lines};
use crate::model::job::array::SubjobState;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::Span;
use crate::shown::reason::numbers_of;

fn text(record: &JobRecord) -> String {
    let mut out = String::new();
    full::write(
        &mut out,
        "Job Id",
        "1001.head",
        &of_job(record, &server()),
        Lines::Whole,
    );
    out
}

fn bench() -> JobRecord {
    let list = "mem=512mb mpiprocs=2 ncpus=2 nodect=1 place=free select=1:ncpus=2:mem=512mb walltime=1:00:00";
    let record = with(queued(1001, "bench", list), |spec| {
        spec.account = Some("acct7".into());
        spec.join = Join::Output;
        spec.arguments = "-N bench job.sh".into();
    });
    let mut record = running(record, vec![share(2, Some("512mb"))]);
    record.environ = Some(b"PBS_O_HOME=/home/alice\0N=4\0S=a,b\\c\0".to_vec());
    record
}

#[test]
fn an_array_shows_the_states_of_its_subjobs() {
    let mut record = array(queued(9, "an", ""), "1-10:2");
    let elements = std::sync::Arc::make_mut(record.job.elements.as_mut().unwrap());
    elements.mark(0, 2, SubjobState::Begun);
    elements.mark(1, 1, SubjobState::Ended(3));
    record.waiting_again = 1;
    let shown = text(&with(record, |spec| {
        (spec.max_run_subjobs, spec.expand) = (Some(2), 5)
    }));
    let expected = "    array = True\n    array_state_count = Queued:3 Running:1 Exiting:0 Expired:1\n    \
                    array_indices_submitted = 1-10:2\n    array_indices_remaining = 7-9:2\n    \
                    array_indices_failed = 3\n    project = _pbs_project_default\n    Submit_Host = head\n    max_run_subjobs = 2\n    expand = 5\n\n";
    assert!(shown.ends_with(expected), "{shown}");
    assert!(
        shown.contains("    Output_Path = head:/home/alice/w/an.o9.^array_index^\n"),
        "{shown}"
    );
}

#[test]
fn a_subjob_is_shown_with_its_paths_and_index() {
    let parent = with(array(queued(9, "an", ""), "1-3"), |spec| {
        spec.error = Some("head:/e.^array_index^".into())
    });
    let element = |index| JobRecord {
        job: parent.job.subjob_without_record(index).unwrap(),
        ..parent.clone()
    };
    let waits = text(&element(3));
    assert!(
        waits.contains("    Error_Path = head:/e.3\n") && waits.contains("/w/an.o9.3\n"),
        "{waits}"
    );
    assert!(
        waits.contains("    array_id = 9[].head\n    array_index = 3\n"),
        "{waits}"
    );
    assert!(
        waits.contains("    Hold_Types = n\n") && !waits.contains("array_state_count"),
        "{waits}"
    );
    let runs = text(&running(element(2), vec![share(1, None)]));
    assert!(
        !["Hold_Types", "Checkpoint", "Submit_arguments"]
            .iter()
            .any(|name| runs.contains(name)),
        "{runs}"
    );
}

#[test]
fn a_finished_job_is_shown_in_the_order_of_pbs() {
    let date =
        |span| timestamp::ctime(server().clock.wall(SUBMITTED + Span::seconds(span))).to_string();
    let day = timestamp::comment_time(server().clock.wall(SUBMITTED)).to_string();
    let expected = "\
Job Id: 1001.head
    Job_Name = bench
    Job_Owner = alice@head
    resources_used.cpupercent = 98
    resources_used.cput = 00:04:55
    resources_used.mem = 5952kb
    resources_used.ncpus = 2
    resources_used.vmem = 9032kb
    resources_used.walltime = 00:05:01
    job_state = F
    queue = workq
    server = head
    Account_Name = acct7
    Checkpoint = u
    ctime = <0>
    Error_Path = head:/home/alice/w/bench.e1001
    exec_host = head/0*2
    exec_vnode = (head:ncpus=2:mem=524288kb)
    Hold_Types = n
    Join_Path = oe
    Keep_Files = n
    Mail_Points = a
    mtime = <0>
    Output_Path = head:/home/alice/w/bench.o1001
    Priority = 0
    qtime = <0>
    Rerunable = True
    Resource_List.mem = 512mb
    Resource_List.mpiprocs = 2
    Resource_List.ncpus = 2
    Resource_List.nodect = 1
    Resource_List.place = free
    Resource_List.select = 1:ncpus=2:mem=512mb
    Resource_List.walltime = 01:00:00
    stime = <0>
    obittime = <301>
    session_id = 4711
    jobdir = /home/alice
    substate = 93
    Variable_List = PBS_O_HOME=/home/alice,N=4,S=a\\,b\\\\c
    comment = Job run at <day> on (head:ncpus=2:mem=524288kb) and failed
    etime = <0>
    run_count = 1
    eligible_time = 00:00:00
    accrue_type = 0
    Stageout_status = 1
    Exit_status = 3
    Submit_arguments = -N bench job.sh
    history_timestamp = 1700000301
    project = _pbs_project_default
    Submit_Host = head

";
    let expected = expected
        .replace("<0>", &date(0))
        .replace("<301>", &date(301))
        .replace("<day>", &day);
    assert_eq!(text(&finished(bench(), 3, false)), expected);
}

#[test]
fn rare_attributes_are_shown_in_the_order_of_pbs() {
    let record = with(queued(7, "STDIN", "ncpus=1"), |spec| {
        spec.umask = Some(0o22);
        spec.block = true;
        spec.program = JobProgram::Command(vec!["/bin/echo".into(), "b c".into(), "<&>".into()]);
        spec.output = Some("head:/tmp/out".into());
        spec.other.insert("Mail_Users".into(), "5".into());
        spec.other
            .insert("tolerate_node_failures".into(), "none".into());
    });
    let shown = text(&record);
    for line in [
        "Output_Path = head:/tmp/out\n",
        "Mail_Points = a\n    Mail_Users = 5\n    mtime",
        "umask = 22\n    block = True\n    eligible_time = 00:00:00\n    accrue_type = 0\n    Submit_arguments = job.sh\n    \
         executable = <jsdl-hpcpa:Executable>/bin/echo</jsdl-hpcpa:Executable>\n    \
         argument_list = <jsdl-hpcpa:Argument>b c</jsdl-hpcpa:Argument>\
         <jsdl-hpcpa:Argument>&lt;&amp;&gt;</jsdl-hpcpa:Argument>\n    \
         tolerate_node_failures = none\n    project",
        "substate = 10\n",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(
        !shown.contains("resources_used")
            && !shown.contains("exec_host")
            && !shown.contains("stime")
    );
}

#[test]
fn the_substate_follows_the_progress_of_the_job() {
    let substate = |record: &JobRecord| {
        let server = server();
        let attributes = of_job(record, &server).0;
        let found = attributes
            .iter()
            .find(|attribute| attribute.name == "substate");
        format!("{:?}", found.unwrap().shown)
    };
    let mut record = bench();
    assert_eq!(substate(&record), "Number(42)");
    record.job.life.run.as_mut().unwrap().session = None;
    assert_eq!(substate(&record), "Number(41)");
    assert_eq!(substate(&finished(record.clone(), 0, false)), "Number(92)");
    assert_eq!(substate(&finished(record, 271, true)), "Number(91)");
}

#[test]
fn the_fields_of_a_reason_are_shown_only_in_json() {
    let mut record = queued(1, "a", "ncpus=1");
    let text_of = |text: &str| text.to_string();
    record.reason = Some(Reason::Busy {
        resource: text_of("ncpus"),
        requested: text_of("4"),
        available: text_of("0"),
        total: text_of("4"),
        until: Some(SUBMITTED),
        pooled: false,
    });
    assert!(!text(&record).contains("lanai"));
    assert!(text(&record).contains(
        "comment = Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 4)\n"
    ));
    let facts = example::server();
    let attributes = of_job(&record, &facts).0;
    let AttributeDisplay::Data(data) = &attributes.last().unwrap().shown else {
        panic!("no data")
    };
    assert_eq!(
        (&data["code"], &data["stage"]),
        (&"amount.ncpus".into(), &"match".into())
    );
    assert_eq!(data["requested"], "4");
    assert_eq!(
        data["until"],
        facts.clock.wall(SUBMITTED).0,
        "seconds since 1970"
    );
}

#[test]
fn reasons_in_json_have_times_in_seconds_and_full_job_ids() {
    let facts = example::server();
    let numbers = |at| {
        numbers_of(
            &Reason::WouldDelayBooking {
                holder: JobId::job(7),
                at,
            },
            &facts,
        )
    };
    let seconds = facts.clock.wall(SUBMITTED).0;
    assert_eq!(
        (&numbers(SUBMITTED)["at"], &numbers(SUBMITTED)["holder"]),
        (&seconds.into(), &"7.head".into())
    );
    assert!(numbers(Time::NEVER)["at"].is_null());
}
