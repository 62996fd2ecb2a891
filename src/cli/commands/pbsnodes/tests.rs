//! Tests of the output and errors of `pbsnodes`.

use super::*;
use crate::cli::example::{self, NOW, System, node, share};
use crate::model::job_id::JobId;
use crate::model::resource::ResourceValue;
use crate::shown::timestamp;

fn system() -> System {
    let mut head = node("head", "head");
    head.jobs.push((JobId::job(1), share(2, Some("1gb"))));
    head.node.used = Some(example::SUBMITTED);
    let mut broken = node("n2", "n2.example.org");
    broken.node.offline = true;
    broken.node.up = false;
    broken.node.comment = Some("broken disk".into());
    System {
        jobs: vec![],
        nodes: vec![head, broken],
    }
}

/// Three nodes on one host.
fn split() -> System {
    let mut nodes = vec![
        node("head", "head"),
        node("head[0]", "head"),
        node("head[1]", "head"),
    ];
    nodes[1].jobs.push((JobId::job(7), share(4, Some("1gb"))));
    nodes[2].exclusive = true;
    System {
        jobs: vec![],
        nodes,
    }
}

fn output_of(system: &System, words: &str) -> Result<NodesOutput, Failure> {
    let args: PbsnodesArgs = example::parse(command, words).map_err(as_failed)?;
    args.check()?;
    args.show(&mut system.ask(), NOW)
}

fn shown(system: &System, words: &str) -> String {
    String::from_utf8(output_of(system, words).unwrap().out).unwrap()
}

#[test]
fn gpus_are_shown_with_their_jobs() {
    let mut system = system();
    let head = &mut system.nodes[0];
    head.node
        .facts
        .available
        .insert("ngpus".into(), ResourceValue::Long(4));
    head.node.facts.gpus = vec![3, 0, 1, 2];
    head.node.facts.gpus_outside = vec![0, 2];
    let mut held = share(1, None);
    (held.gpus, held.taken) = (vec![2, 3], vec![("ngpus".into(), ResourceValue::Long(2))]);
    head.jobs.push((JobId::job(5), held));
    let text = shown(&system, "head");
    for line in [
        "     gpus = 3,0,1,2\n     gpus_assigned = 2=5.head,3=5.head\n     gpus_used_outside = 0,2\n",
        "     comment = GPUs 0,2 are in use by processes that belong to no job\n",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    let document: serde_json::Value =
        serde_json::from_str(&shown(&system, "-aSj -F json")).unwrap();
    assert_eq!(document["nodes"]["head"]["ngpus f/t"], "1/4");
    system.nodes[0].node.comment = Some("mine".into());
    assert!(
        shown(&system, "head").contains("     comment = mine\n"),
        "the administrator's comment takes precedence"
    );
}

#[test]
fn all_attributes_of_a_node_are_in_the_format_of_pbs() {
    let date = timestamp::ctime(example::server().clock.wall(example::SUBMITTED));
    let expected = format!(
        "\
head
     Mom = head
     ntype = PBS
     state = free
     pcpus = 4
     jobs = 1.head/0, 1.head/1
     resources_available.arch = linux
     resources_available.host = head
     resources_available.mem = 8gb
     resources_available.ncpus = 4
     resources_available.vnode = head
     resources_assigned.accelerator_memory = 0kb
     resources_assigned.hbmem = 0kb
     resources_assigned.mem = 1048576kb
     resources_assigned.naccelerators = 0
     resources_assigned.ncpus = 2
     resources_assigned.vmem = 0kb
     resv_enable = True
     sharing = default_shared
     last_state_change_time = {date}
     last_used_time = {date}

"
    );
    for words in ["head", "-v head", "-H head"] {
        assert_eq!(shown(&system(), words), expected, "{words}");
    }
    assert!(shown(&system(), "-a").starts_with(&expected));
}

#[test]
fn summaries_have_the_layout_of_pbs() {
    let expected = "\
vnode           state           OS       hardware host            queue        mem     ncpus   nmics   ngpus  comment
--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- ------- ---------
head            free            --       --       head            --              8gb       4       0       0 --
n2              offline,down    --       --       n2.example.org  --              8gb       4       0       0 broken disk
";
    assert_eq!(shown(&system(), "-aS"), expected);
    let expected =
        "                                                        mem       ncpus   nmics   ngpus
vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs
--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------
head            free                 1     1      0      7gb/8gb     2/4     0/0     0/0 1
n2              offline,down         0     0      0      8gb/8gb     4/4     0/0     0/0 --
";
    assert_eq!(shown(&system(), "-aSj"), expected);
}

#[test]
fn the_nodes_of_a_host_are_shown_as_one_without_v_and_h() {
    assert_eq!(
        shown(&split(), "-a")
            .lines()
            .filter(|line| !line.contains(' '))
            .collect::<Vec<_>>(),
        ["head", ""]
    );
    let sum = "\nhead            <various>       --       --       head            --             24gb      12       0       0 --\n";
    assert!(
        shown(&split(), "-aS").ends_with(sum),
        "{}",
        shown(&split(), "-aS")
    );
    let states: Vec<String> = shown(&split(), "-avS")
        .lines()
        .skip(2)
        .map(|line| line[16..31].trim().into())
        .collect();
    assert_eq!(states, ["free", "job-busy", "job-exclusive"]);
    assert_eq!(shown(&split(), "-H head").matches("Mom = head").count(), 3);
    assert_eq!(
        output_of(&split(), "head[0]").unwrap().complaints,
        ["Node: head[0],  Error: Unknown node \n"]
    );
    assert!(
        output_of(&split(), "-v head[0]")
            .unwrap()
            .complaints
            .is_empty()
    );
    let apart = System {
        jobs: vec![],
        nodes: vec![node("n1", "box"), node("n2", "box")],
    };
    assert_eq!(shown(&apart, "-aS").lines().count(), 4);
}

#[test]
fn json_has_times_as_numbers_and_each_job_once() {
    let read: serde_json::Value =
        serde_json::from_str(&shown(&system(), "-F json head nosuch")).unwrap();
    let head = &read["nodes"]["head"];
    assert_eq!(head["jobs"], serde_json::json!(["1.head"]));
    assert_eq!(
        head["resources_assigned"],
        serde_json::json!({"mem": "1048576kb", "ncpus": 2})
    );
    assert_eq!(head["last_state_change_time"], 1_700_000_000);
    assert_eq!(read["nodes"]["nosuch"]["Error"], "Unknown node ");
    assert_eq!(
        output_of(&system(), "-F json nosuch")
            .unwrap()
            .complaints
            .len(),
        1
    );
    let read: serde_json::Value = serde_json::from_str(&shown(&system(), "-aSj -F json")).unwrap();
    let expected = serde_json::json!({
        "State": "free", "state": "free", "Total Jobs": 1, "Running Jobs": 1, "Suspended Jobs": 0,
        "mem f/t": "7gb/8gb", "ncpus f/t": "2/4", "nmics f/t": "0/0", "ngpus f/t": "0/0", "jobs": ["1.head"],
    });
    assert_eq!(read["nodes"]["head"], expected);
}

#[test]
fn dsv_and_the_list_of_unavailable_nodes_have_the_format_of_pbs() {
    assert!(
        shown(&system(), "-a -F dsv")
            .starts_with("Name=head|Mom=head|ntype=PBS|state=free|pcpus=4|jobs=1.head/0,1.head/1|")
    );
    let expected = "vnode=head:state=free:OS=--:hardware=--:host=head:queue=--:mem=8gb:ncpus=4:nmics=0:ngpus=0:comment=--";
    assert_eq!(
        shown(&system(), "-aS -F dsv -D :").lines().next(),
        Some(expected)
    );
    assert_eq!(
        shown(&system(), "-l"),
        "n2                   offline,down broken disk\n"
    );
}

#[test]
fn the_exit_status_of_all_errors_is_1() {
    for words in [
        "",
        "-S",
        "-a -F xml",
        "-ao",
        "-l head",
        "-o",
        "-C text",
        "-a head",
        "-y",
    ] {
        let failure = output_of(&system(), words).unwrap_err();
        assert_eq!((failure.usage, failure.code), (true, 1), "{words}");
    }
    assert_eq!(output_of(&system(), "-s nosuch -a").unwrap_err().code, 1);
    assert_eq!(
        output_of(&System::default(), "-a").unwrap_err().text,
        "Server has no node list"
    );
}

#[test]
fn every_named_node_is_marked_and_each_refusal_reported() {
    let args: PbsnodesArgs = example::parse(command, "-o -C broken nosuch head").unwrap();
    args.check().unwrap();
    let mut sent = Vec::new();
    let mut send = |request: &ClientRequest| {
        let ClientRequest::MarkNode {
            node,
            offline,
            comment,
        } = request
        else {
            panic!("{request:?}")
        };
        sent.push((node.clone(), *offline, comment.clone()));
        Ok(if node == "nosuch" {
            Reply::Refused(Refusal::unknown_node())
        } else {
            Reply::Done
        })
    };
    let output = args.mark(&mut split().ask(), &mut send).unwrap();
    assert_eq!(
        output.complaints,
        ["Error marking node nosuch - Unknown node \n"]
    );
    let names: Vec<&str> = sent.iter().map(|(node, ..)| node.as_str()).collect();
    assert_eq!(names, ["nosuch", "head", "head[0]", "head[1]"]);
    assert_eq!(
        sent[1],
        ("head".to_string(), Some(true), Some("broken".to_string()))
    );
}
