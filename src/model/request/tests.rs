//! Tests of requests: their display and their refusal, as in PBS.

use super::*;

fn resources() -> Resources {
    let mut resources = Resources::builtin();
    let mut define = |name: &str, kind, host_level, consumable| {
        resources.define(
            name,
            Definition {
                kind,
                host_level,
                consumable,
                requestable: true,
            },
        );
    };
    define("color", ResourceType::String, true, false);
    define("big", ResourceType::Boolean, true, false);
    define("fl", ResourceType::Float, true, true);
    define("sz", ResourceType::Size, true, true);
    define("lic", ResourceType::Long, false, false);
    resources
}

/// Parses `a=1 | b=2` into pairs.
fn pairs(text: &str) -> NamedTexts {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.trim().to_string(), value.trim().to_string())
    };
    text.split(" | ")
        .filter(|part| !part.is_empty())
        .map(pair)
        .collect()
}

fn parse(text: &str) -> Result<Request, Refusal> {
    Request::parse(&pairs(text), &resources())
}

/// Formats the list as `name=value`, separated by blanks.
fn shown(request: &Request) -> String {
    let shown = request
        .list
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn resource_lists_are_displayed_as_in_pbs() {
    for (asked, expected) in [
        ("", "ncpus=1 nodect=1 place=pack select=1:ncpus=1"),
        ("select=2", "ncpus=2 nodect=2 place=free select=2"),
        (
            "select=2:ncpus=2:mem=1gb",
            "mem=2gb ncpus=4 nodect=2 place=free select=2:ncpus=2:mem=1gb",
        ),
        (
            "select=ncpus=2+ncpus=1",
            "ncpus=3 nodect=2 place=free select=ncpus=2+ncpus=1",
        ),
        (
            "select=2:ncpus=1+3:ncpus=2:mem=512mb",
            "mem=1536mb ncpus=8 nodect=5 place=free select=2:ncpus=1+3:ncpus=2:mem=512mb",
        ),
        (
            "select=1:mem=1024",
            "mem=1024b ncpus=1 nodect=1 place=free select=1:mem=1024",
        ),
        (
            "select=1:ncpus=2:mpiprocs=4",
            "mpiprocs=4 ncpus=2 nodect=1 place=free select=1:ncpus=2:mpiprocs=4",
        ),
        (
            "select=1:ncpus=2:ompthreads=2",
            "ncpus=2 nodect=1 place=free select=1:ncpus=2:ompthreads=2",
        ),
        (
            "select=1:ngpus=1",
            "ncpus=1 ngpus=1 nodect=1 place=free select=1:ngpus=1",
        ),
        (
            "select=1:color=\"red blue\"",
            "ncpus=1 nodect=1 place=free select=1:color=red blue",
        ),
        (
            "select=1:fl=1.5",
            "fl=1.5 ncpus=1 nodect=1 place=free select=1:fl=1.5",
        ),
        (
            "select=01:ncpus=1",
            "ncpus=1 nodect=1 place=free select=01:ncpus=1",
        ),
        (
            "select=1:ncpus=0",
            "ncpus=0 nodect=1 place=free select=1:ncpus=0",
        ),
        (
            "select=1:NCPUS=2",
            "ncpus=2 nodect=1 place=free select=1:NCPUS=2",
        ),
        (
            "select=100000",
            "ncpus=100000 nodect=100000 place=free select=100000",
        ),
        (
            "select=1 | lic=1",
            "lic=1 ncpus=1 nodect=1 place=free select=1",
        ),
        (
            "select=1 | place=SCATTER:EXCL",
            "ncpus=1 nodect=1 place=SCATTER:EXCL select=1",
        ),
        (
            "ncpus=2 | mem=1gb",
            "mem=1gb ncpus=2 nodect=1 place=pack select=1:mem=1gb:ncpus=2",
        ),
        (
            "mem=8192",
            "mem=8192b ncpus=1 nodect=1 place=pack select=1:mem=8192b:ncpus=1",
        ),
        (
            "ngpus=1",
            "ncpus=1 ngpus=1 nodect=1 place=pack select=1:ncpus=1:ngpus=1",
        ),
        (
            "big=true",
            "big=True ncpus=1 nodect=1 place=pack select=1:big=True:ncpus=1",
        ),
        (
            "walltime=1:0",
            "ncpus=1 nodect=1 place=pack select=1:ncpus=1 walltime=00:01:00",
        ),
        (
            "pmem=1gb",
            "ncpus=1 nodect=1 place=pack pmem=1gb select=1:ncpus=1",
        ),
        ("walltime=", "ncpus=1 nodect=1 place=pack select=1:ncpus=1"),
        ("wd", "ncpus=1 nodect=1 place=pack select=1:ncpus=1"),
        (
            "ncpus=2:mem=64mb",
            "mem=64mb ncpus=2 nodect=1 place=pack select=1:mem=64mb:ncpus=2",
        ),
        (
            "ncpus=2 | ncpus=3",
            "ncpus=3 nodect=1 place=pack select=1:ncpus=3",
        ),
    ] {
        assert_eq!(shown(&parse(asked).unwrap()), expected, "{asked}");
    }
}

#[test]
fn nodes_become_a_select() {
    for (asked, select, place, totals) in [
        ("nodes=2", "2:ncpus=1", "scatter", "ncpus=2"),
        (
            "nodes=head:ppn=2",
            "1:ncpus=2:host=head:mpiprocs=2",
            "scatter",
            "mpiprocs=2 ncpus=2",
        ),
        ("nodes=1:cpp=2", "1:ncpus=2", "scatter", "ncpus=2"),
        (
            "nodes=1:ppn=2:cpp=2",
            "1:ncpus=4:mpiprocs=2",
            "scatter",
            "mpiprocs=2 ncpus=4",
        ),
        (
            "nodes=2:ppn=2+1",
            "2:ncpus=2:mpiprocs=2+1:ncpus=1",
            "scatter",
            "mpiprocs=4 ncpus=5",
        ),
        (
            "nodes=1:color",
            "1:ncpus=1:color=True",
            "scatter",
            "ncpus=1",
        ),
        (
            "nodes=2:ppn=2:big",
            "2:ncpus=2:big=True:mpiprocs=2",
            "scatter",
            "mpiprocs=4 ncpus=4",
        ),
        (
            "nodes=1:ppn=2#excl",
            "1:ncpus=2:mpiprocs=2",
            "scatter:excl",
            "mpiprocs=2 ncpus=2",
        ),
        ("nodes=1#shared", "1:ncpus=1", "free", "ncpus=1"),
        ("nodes=1 | ncpus=2", "1:ncpus=2", "scatter", "ncpus=2"),
        (
            "nodes=2:ppn=2 | mem=1gb",
            "2:ncpus=2:mem=524288KB:mpiprocs=2",
            "scatter",
            "mem=1048576kb mpiprocs=4 ncpus=4",
        ),
        (
            "nodes=1:ppn=4:gpus=2",
            "1:ncpus=4:ngpus=2:mpiprocs=4",
            "scatter",
            "mpiprocs=4 ncpus=4 ngpus=2",
        ),
    ] {
        let request = parse(asked).unwrap();
        assert_eq!(
            (request.select.text.as_str(), request.place.text.as_str()),
            (select, place),
            "{asked}"
        );
        let shown = shown(&request);
        assert!(shown.starts_with(totals), "{asked}: {shown}");
    }
}

/// Checks refusals. Each row has a request, and the exit status and text of its refusal.
fn refused(rows: &[(&str, u8, &str)]) {
    for (asked, code, text) in rows {
        let refusal = parse(asked).expect_err(asked);
        assert_eq!(
            (refusal.exit_code(), refusal.text.as_str()),
            (*code, *text),
            "{asked}"
        );
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn invalid_resources_give_the_errors_of_pbs() {
    refused(&[
        ("foo=1", 187, "Unknown resource Resource_List.foo"),
        ("foo", 187, "Unknown resource Resource_List.foo"),
        (
            "preempt_targets=workq",
            166,
            "Illegal attribute or resource value Resource_List.preempt_targets",
        ),
        (
            "ncpus=abc",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "ncpus",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "ncpus=-1",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "ncpus=1.5",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "ncpus==2",
            166,
            "Illegal attribute or resource value Resource_List.ncpus",
        ),
        (
            "mem=1.5gb",
            166,
            "Illegal attribute or resource value Resource_List.mem",
        ),
        (
            "mem=-1gb",
            166,
            "Illegal attribute or resource value Resource_List.mem",
        ),
        (
            "walltime=1:00:00:00",
            166,
            "Illegal attribute or resource value Resource_List.walltime",
        ),
        (
            "walltime=:30",
            166,
            "Illegal attribute or resource value Resource_List.walltime",
        ),
        (
            "1=1",
            166,
            "Illegal attribute or resource value Resource_List.1",
        ),
        (
            "job.sh",
            166,
            "Illegal attribute or resource value Resource_List.job.sh",
        ),
        (
            "+",
            166,
            "Illegal attribute or resource value Resource_List.+",
        ),
        (
            ":ncpus=1",
            166,
            "Illegal attribute or resource value Resource_List.:ncpus",
        ),
        (
            "nodect=2",
            155,
            "Cannot set attribute, read only or insufficient permission  Resource_List.nodect",
        ),
        (
            "cpupercent=3",
            155,
            "Cannot set attribute, read only or insufficient permission  Resource_List.cpupercent",
        ),
        (
            "energy=2",
            155,
            "Cannot set attribute, read only or insufficient permission  Resource_List.energy",
        ),
        (
            "soft_walltime=5",
            155,
            "Cannot set attribute, read only or insufficient permission  Resource_List.soft_walltime",
        ),
        (
            "max_walltime=10",
            58,
            "Cannot have \"max_walltime\" without \"min_walltime\"",
        ),
        (
            "min_walltime=20 | max_walltime=10",
            59,
            "\"min_walltime\" can not be greater than \"max_walltime\"",
        ),
    ]);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn invalid_selects_give_the_errors_of_pbs() {
    refused(&[
        ("select=0", 166, "Illegal attribute or resource value"),
        (
            "select=1:big=yes",
            166,
            "Illegal attribute or resource value",
        ),
        (
            "select=-1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=:1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=a",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:ncpus",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:ncpus=",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1+",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=+1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1++1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:color=\"a+b\"",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:ncpus= 1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=4294967297",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1000000+1",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1000000:ncpus=9000000000000000",
            166,
            "Illegal attribute or resource value Resource_List.select",
        ),
        (
            "select=1:ncpus=abc",
            166,
            "Illegal attribute or resource value select.ncpus",
        ),
        (
            "select=1:ncpus=-1",
            166,
            "Illegal attribute or resource value select.ncpus",
        ),
        (
            "select=1:mem=1.5gb",
            166,
            "Illegal attribute or resource value select.mem",
        ),
        ("select=1:foo=1", 187, "Unknown resource: foo"),
        (
            "select=1:walltime=60",
            4,
            "Resource invalid in \"select\" specification: walltime",
        ),
        (
            "select=1:software=x",
            4,
            "Resource invalid in \"select\" specification: software",
        ),
        (
            "select=1:nodect=1",
            4,
            "Resource invalid in \"select\" specification: nodect",
        ),
        (
            "select=1:lic=1",
            4,
            "Resource invalid in \"select\" specification: lic",
        ),
        (
            "select=1:ncpus=2:ncpus=3",
            12,
            "duplicated resource within a section of a select specification, resource is: ncpus",
        ),
    ]);
}

#[test]
fn invalid_places_and_combinations_of_options_give_the_errors_of_pbs() {
    refused(&[
        (
            "select=1:place=free",
            4,
            "Resource invalid in \"select\" specification: place",
        ),
        (
            "select=1 | ncpus=2",
            5,
            "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is: ncpus",
        ),
        (
            "select=1 | host=head",
            5,
            "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is: host",
        ),
        (
            "place=pack | ncpus=2",
            5,
            "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is: ncpus",
        ),
        ("place=excl", 7, "Cannot have \"place\" without \"select\""),
        (
            "select=1 | nodes=1",
            6,
            "Cannot be used with select or place: nodes",
        ),
        (
            "nodes=1 | place=free",
            6,
            "Cannot be used with select or place: nodes",
        ),
        (
            "select=1 | place=free:pack",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=excl:excl",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=free:",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=foo",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=group=",
            166,
            "Illegal attribute or resource value Resource_List.place",
        ),
        (
            "select=1 | place=group=nosuch",
            187,
            "Unknown resource Resource_List.place",
        ),
    ]);
}

#[test]
fn invalid_nodes_give_the_errors_of_pbs() {
    refused(&[
        ("nodes=0", 241, "node(s) specification error"),
        ("nodes=", 241, "node(s) specification error"),
        ("nodes=1:ppn=0", 241, "node(s) specification error"),
        ("nodes=1:foo=2", 241, "node(s) specification error"),
        ("nodes=1:host=head", 241, "node(s) specification error"),
        ("nodes=1:ppn", 187, "Unknown resource: ppn"),
        ("nodes=1#global", 187, "Unknown resource: global"),
    ]);
}

#[test]
fn a_chunk_without_ncpus_gets_one_processor() {
    let request = parse("select=2:mem=1gb+1").unwrap();
    assert_eq!(request.select.chunks[0].long("ncpus"), 1);
    assert_eq!(
        request.select.chunks[1].resources,
        [("ncpus".to_string(), ResourceValue::Long(1))]
    );
}

#[test]
fn altering_replaces_options_of_the_same_name() {
    let alter = |from: &str, to: &str| parse(from).unwrap().alter(&pairs(to), &resources());
    let shown = |from: &str, to: &str| shown(&alter(from, to).unwrap());
    assert_eq!(
        shown("ncpus=3", "mem=1gb"),
        "mem=1gb ncpus=3 nodect=1 place=pack select=1:mem=1gb:ncpus=3"
    );
    assert_eq!(
        shown("ncpus=3", "select=2:ncpus=4"),
        "ncpus=8 nodect=2 place=pack select=2:ncpus=4"
    );
    assert_eq!(
        shown("select=2 | walltime=5", "walltime=9"),
        "ncpus=2 nodect=2 place=free select=2 walltime=00:00:09"
    );
    assert_eq!(
        shown("walltime=5", "walltime="),
        "ncpus=1 nodect=1 place=pack select=1:ncpus=1"
    );
    assert_eq!(
        shown("ncpus=3", "place=scatter"),
        "ncpus=3 nodect=1 place=scatter select=1:ncpus=3"
    );
    let refused = alter("select=1", "ncpus=2").unwrap_err();
    assert_eq!(refused.exit_code(), 5);
}

#[test]
fn the_parts_of_a_place_can_have_any_order() {
    use super::select::{Arrangement, Sharing};
    let place = |text: &str| parse(&format!("select=1 | place={text}")).unwrap().place;
    assert_eq!(place("scatter:excl").arrangement, Arrangement::Scatter);
    assert_eq!(place("excl:vscatter").arrangement, Arrangement::Vscatter);
    assert_eq!(place("excl:free").sharing, Sharing::Excl);
    assert_eq!(
        place("pack:exclhost:group=color").group.as_deref(),
        Some("color")
    );
}
