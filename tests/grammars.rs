//! Texts in PBS's grammars, and texts nearly in them: what holds of each (`tests/support/grammars.rs`) holds of
//! thousands of them.

use crate::support::cases;
use crate::support::grammars::{self, Fate};
use proptest::prelude::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Pieces of a grammar one after the other, and among them whatever bytes there are.
fn pieces(known: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        12 => prop::sample::select(known).prop_map(|text| text.as_bytes().to_vec()),
        2 => "[0-9]{1,3}".prop_map(String::into_bytes),
        1 => "[ -~]{1,3}".prop_map(String::into_bytes),
        1 => prop::sample::select(ODD).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// What nobody means to write.
const ODD: &[&[u8]] = &[
    b"\xff",
    b"\xc3",
    "\u{e4}".as_bytes(),
    "\u{661}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"\0",
    b"\n",
    b"\t",
    b"\x1b[31m",
    b"\\",
    b"\"",
    b"'",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"99999999999999999999",
    b"-1",
    b"1e5",
    b"007",
    b"true",
    b"0x10",
    b"",
];

const LIST: &[&str] = &[
    "ncpus=",
    "mem=",
    "walltime=",
    "cput=",
    "file=",
    "nodes=",
    "select=",
    "place=",
    "software=",
    "licenses=",
    "weight=",
    "nice=",
    "nodect=",
    "min_walltime=",
    "max_walltime=",
    "h_rt=",
    "s_rt=",
    "h_vmem=",
    "pe=smp:",
    "pe=mpi:",
    "procs=",
    "gres=",
    "feature=",
    "gpus=",
    "hostname=",
    "q=",
    "naccesspolicy=",
    "requirements=",
    "qos=",
    "wd",
    "host=",
    "color=",
    "bigmem=",
    "ncpus",
    "ppn=",
    "ppn=all",
    "1",
    "2",
    "4",
    "0",
    "8gb",
    "512mb",
    "1:00:00",
    "1.5",
    "10",
    "True",
    ",",
    ",",
    ",",
    ":",
    ":",
    "+",
    "#excl",
    "=",
    " ",
    "\"",
    "'",
    "-",
    "smp",
    "a,b",
    "free",
    "n1",
];

const SELECT: &[&str] = &[
    "1",
    "2",
    "4",
    "10",
    "0",
    "01",
    ":",
    ":",
    ":",
    ":",
    "+",
    "+",
    "ncpus=",
    "mem=",
    "ngpus=",
    "color=",
    "bigmem=",
    "scratch=",
    "host=",
    "mpiprocs=",
    "ompthreads=",
    "walltime=",
    "NCPUS=",
    "foo=",
    "vnode=",
    "accelerator=",
    "8gb",
    "512mb",
    "all",
    "4-8",
    "4+",
    "2*",
    "True",
    "\"a b\"",
    "'a:b'",
    "red",
    "\n",
    "free",
    "pack",
    "scatter",
    "vscatter",
    "excl",
    "shared",
    "exclhost",
    "group=host",
    "group=",
    "SCATTER",
];

const DEPEND: &[&str] = &[
    "after",
    "afterok",
    "afternotok",
    "afterany",
    "before",
    "beforeok",
    "beforenotok",
    "beforeany",
    "runone",
    "on",
    "synccount",
    "syncwith",
    "array",
    ":",
    ":",
    ":",
    ":",
    ":",
    ",",
    "1",
    "12",
    "7",
    "12[]",
    "3[2]",
    ".head",
    "@head",
    ".head.example.org",
    "@elsewhere",
    "0",
    " ",
    "umask=22",
];

const HEADER: &[&str] = &[
    "#PBS ",
    "#PBS ",
    "#PBS ",
    "#PBS ",
    "\n#PBS ",
    "\n#PBS ",
    "\n#$ ",
    "#$ ",
    "\n",
    "\n",
    " ",
    " ",
    " ",
    " ",
    "\\\n",
    "#!/bin/sh\n",
    "echo\n",
    "-N ",
    "-l ",
    "-l ",
    "-W ",
    "-W ",
    "-A ",
    "-P ",
    "-J ",
    "-t ",
    "-v ",
    "-V",
    "-o ",
    "-e ",
    "-q ",
    "-a ",
    "-p ",
    "-r ",
    "-m ",
    "-M ",
    "-k ",
    "-R ",
    "-S ",
    "-u ",
    "-h",
    "-z",
    "-c ",
    "-j ",
    "-I",
    "-X",
    "-C ",
    "-d ",
    "-w ",
    "-F ",
    "-L ",
    "-n",
    "-cwd",
    "-wd ",
    "-pe ",
    "-hold_jid ",
    "-hold_jid_ad ",
    "-sync ",
    "-tc ",
    "-ar ",
    "-notify",
    "-b ",
    "-shell ",
    "-soft ",
    "-hard ",
    "-now ",
    "-binding ",
    "-terse",
    "--dry-run",
    "--",
    "name",
    "y",
    "n",
    "oe",
    "1-3",
    "1-3:2%1",
    "select=2:ncpus=4",
    "walltime=1:00",
    "place=scatter",
    "nodes=2:ppn=4",
    "h_rt=1:0:0",
    "depend=afterok:1",
    "umask=022",
    "block=true",
    "group_list=staff",
    "run_count=3",
    "retry=2,retry_delay=5",
    "hosts=n1+n2",
    "geometry={(0,1)(2)}",
    "requirements='ncpus>=4'",
    "Priority=7",
    "Execution_Time=99999999999",
    "stagein=a@head:b",
    "sandbox=PRIVATE",
    "warn=USR1@60",
    "x=y",
    "A=1,B",
    "A",
    "2359.30",
    "202612312359",
    "-5",
    "c=5",
    "/bin/sh",
    "alice",
    "a@b,c",
    "abe",
    "tasks=2:lprocs=4",
    "smp 4",
    "mpi 2-8",
    "linear:4",
    "out",
    "head:/x/^job_name^",
    "$JOB_NAME",
    "workq",
    "all.q@head",
    "\"a b\"",
    "'",
    "\"",
    "\\",
    "#",
];

/// A date, and what is nearly one.
fn dates() -> impl Strategy<Value = Vec<u8>> {
    let pair = prop_oneof![4 => "[0-2][0-9]", 1 => "[0-9][0-9]"];
    let date = (prop::collection::vec(pair, 0..8), prop_oneof![Just(String::new()), "\\.[0-9]{2}", "\\.[0-9]{0,3}"]);
    let plain = date.prop_map(|(pairs, seconds)| format!("{}{seconds}", pairs.concat()).into_bytes());
    prop_oneof![8 => plain, 1 => pieces(&["23", "59", ".", " ", "-", "+", "e"], 6)]
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn any_resource_list_is_parsed_or_refused(text in pieces(LIST, 14)) {
        grammars::resource_list(&text);
    }

    #[test]
    fn any_select_and_any_place_are_parsed_or_refused(text in pieces(SELECT, 14)) {
        grammars::chunks(&text);
    }

    #[test]
    fn any_dependency_is_parsed_or_refused(text in pieces(DEPEND, 14)) {
        grammars::dependency(&text);
    }

    #[test]
    fn any_date_is_parsed_or_refused(text in dates()) {
        grammars::date(&text);
    }

    #[test]
    fn any_script_header_is_parsed_or_refused(text in pieces(HEADER, 16)) {
        grammars::script_header(&text);
    }

    #[test]
    fn any_command_line_is_parsed_or_refused(
        words in prop::collection::vec(pieces(HEADER, 3), 0..8),
        trimmed: bool,
    ) {
        let word = |bytes: Vec<u8>| if trimmed { bytes.trim_ascii().to_vec() } else { bytes };
        grammars::command_line(words.into_iter().map(|bytes| OsString::from_vec(word(bytes))).collect());
    }

    #[test]
    fn any_quoted_resource_list_is_split_as_it_was_put_together(
        pairs in prop::collection::vec(("[a-z_]{1,8}", r#"[ -!#-&(-~é]{0,12}|['a ,]{0,5}|["b ,]{0,5}"#), 0..6),
    ) {
        grammars::list_is_split(&pairs);
    }
}

/// What the generators make is not all refused, nor all parsed.
#[test]
fn texts_of_both_kinds_are_tried() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut parsed = |strategy: &dyn Fn(&mut proptest::test_runner::TestRunner) -> Fate| {
        (0..400).filter(|_| strategy(&mut runner) == Fate::Parsed).count()
    };
    let made = |strategy: BoxedStrategy<Vec<u8>>, runner: &mut proptest::test_runner::TestRunner| {
        proptest::strategy::ValueTree::current(&strategy.new_tree(runner).unwrap())
    };
    let counts = [
        parsed(&|runner| grammars::resource_list(&made(pieces(LIST, 14).boxed(), runner))),
        parsed(&|runner| grammars::chunks(&made(pieces(SELECT, 14).boxed(), runner))),
        parsed(&|runner| grammars::dependency(&made(pieces(DEPEND, 14).boxed(), runner))),
        parsed(&|runner| grammars::date(&made(dates().boxed(), runner))),
        parsed(&|runner| grammars::script_header(&made(pieces(HEADER, 16).boxed(), runner))),
    ];
    assert!(counts.iter().all(|count| (10..390).contains(count)), "{counts:?}");
}
