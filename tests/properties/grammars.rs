//! Random texts in PBS's grammars, and texts close to them, satisfy the properties in
//! `tests/support/grammars.rs`.

use crate::support::grammars::{self, ParseResult};
use crate::support::{cases, files, root};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// One of the items of a list separated by `|`.
fn one_of(list: &'static str) -> impl Strategy<Value = &'static str> {
    prop::sample::select(list.split('|').collect::<Vec<_>>())
}

/// A sequence of items of a grammar, mixed with arbitrary bytes.
fn pieces(known: &'static str, most: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        12 => one_of(known).prop_map(|text| text.as_bytes().to_vec()),
        2 => "[0-9]{1,3}".prop_map(String::into_bytes),
        1 => "[ -~]{1,3}".prop_map(String::into_bytes),
        1 => prop::sample::select(ODD).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// Bytes that no user means to write.
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

const LIST: &str = "\
    ncpus=|mem=|walltime=|cput=|file=|nodes=|select=|place=|software=|licenses=|weight=|nice=|nodect=|\
    min_walltime=|max_walltime=|h_rt=|s_rt=|h_vmem=|pe=smp:|pe=mpi:|procs=|gres=|feature=|gpus=|hostname=|q=|\
    naccesspolicy=|requirements=|qos=|wd|host=|color=|bigmem=|ncpus|ppn=|ppn=all|1|2|4|0|8gb|512mb|1:00:00|1.5|\
    10|True|,|,|,|:|:|+|#excl|=| |\"|'|-|smp|a,b|free|n1";

const SELECT: &str = "\
    1|2|4|10|0|01|:|:|:|:|+|+|ncpus=|mem=|ngpus=|color=|bigmem=|scratch=|host=|mpiprocs=|ompthreads=|walltime=|\
    NCPUS=|foo=|vnode=|accelerator=|8gb|512mb|all|4-8|4+|2*|True|\"a b\"|'a:b'|red|\n|free|pack|scatter|\
    vscatter|excl|shared|exclhost|group=host|group=|SCATTER";

const DEPEND: &str = "\
    after|afterok|afternotok|afterany|before|beforeok|beforenotok|beforeany|runone|on|synccount|syncwith|array|\
    :|:|:|:|:|,|1|12|7|12[]|3[2]|.head|@head|.head.example.org|@elsewhere|0| |umask=22";

const HEADER: &str = "\
    #PBS |#PBS |#PBS |#PBS |\n#PBS |\n#PBS |\n#$ |#$ |\n|\n| | | | |\\\n|#!/bin/sh\n|echo\n|-N |-l |-l |-W |-W |\
    -A |-P |-J |-t |-v |-V|-o |-e |-q |-a |-p |-r |-m |-M |-k |-R |-S |-u |-h|-z|-c |-j |-I|-X|-C |-d |-w |-F |\
    -L |-n|-cwd|-wd |-pe |-hold_jid |-hold_jid_ad |-sync |-tc |-ar |-notify|-b |-shell |-soft |-hard |-now |\
    -binding |-terse|--dry-run|--|name|y|n|oe|1-3|1-3:2%1|select=2:ncpus=4|walltime=1:00|place=scatter|\
    nodes=2:ppn=4|h_rt=1:0:0|depend=afterok:1|umask=022|block=true|group_list=staff|run_count=3|\
    retry=2,retry_delay=5|hosts=n1+n2|geometry={(0,1)(2)}|requirements='ncpus>=4'|Priority=7|\
    Execution_Time=99999999999|stagein=a@head:b|sandbox=PRIVATE|warn=USR1@60|x=y|A=1,B|A|2359.30|202612312359|\
    -5|c=5|/bin/sh|alice|a@b,c|abe|tasks=2:lprocs=4|smp 4|mpi 2-8|linear:4|out|head:/x/^job_name^|$JOB_NAME|\
    workq|all.q@head|\"a b\"|'|\"|\\|#";

/// A text of the grammar; with a probability of 0.3 odd bytes are inserted.
fn with_odd_bytes(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::option::weighted(
        0.3,
        (any::<prop::sample::Index>(), prop::sample::select(ODD)),
    );
    (text, odd).prop_map(|(text, odd)| {
        let mut bytes = text.into_bytes();
        if let Some((at, odd)) = odd {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, odd.iter().copied());
        }
        bytes
    })
}

/// Dependencies such as `kind:id:id,kind:id`.
fn dependencies() -> impl Strategy<Value = Vec<u8>> {
    let kinds = [
        "after",
        "afterok",
        "afternotok",
        "afterany",
        "before",
        "beforeok",
        "beforenotok",
        "beforeany",
        "runone",
    ];
    let id = r"(0?[0-9]{1,3}|[0-9]{1,3}\[\])(\.head)?(@head)?";
    let edges = (
        prop::sample::select(kinds.to_vec()),
        prop::collection::vec(id, 1..4),
    );
    let edges = edges.prop_map(|(kind, ids)| format!("{kind}:{}", ids.join(":")));
    let arrays = r"(after|before)(ok|notok|any|start)array:[0-9]{1,2}\[\]";
    let clause = prop_oneof![6 => edges, 1 => "on:[0-9]{1,2}", 1 => arrays];
    with_odd_bytes(prop::collection::vec(clause, 1..4).prop_map(|clauses| clauses.join(",")))
}

/// Directives with one to three options each, some with an invalid prefix or option.
fn headers() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![9 => one_of(OPTIONS), 1 => one_of(HEADER)];
    let options = prop::collection::vec(option, 1..4).prop_map(|options| options.join(" "));
    let line = (
        prop::sample::select(&["#PBS ", "#PBS ", "#PBS ", "#$ "][..]),
        options,
    );
    let line = line.prop_map(|(prefix, options)| format!("{prefix}{options}"));
    with_odd_bytes(prop::collection::vec(line, 1..5).prop_map(|lines| lines.join("\n")))
}

/// Options with values that PBS, TORQUE or Grid Engine accept.
const OPTIONS: &str = "\
    -N name|-N 007|-A 'a b'|-A \"x,y\"|-P proj|-l select=2:ncpus=4:mem=8gb|-l walltime=1:00:00,file=1gb|\
    -l nodes=2:ppn=4|-l ncpus=2 -l mem=1gb|-l place=scatter:excl -l select=3|-l select=1:color='a b'+2|\
    -l h_rt=1:0:0,h_vmem=1.5G|-l software=\"a b\"|-J 1-10:2%3|-t 1-5,8%2|-t 3|-a 2359.30|-a 203012312359|-p -5|\
    -r n|-r y|-m abe|-m n|-M a@b,c|-k oed|-R oe|-S /bin/sh@head,/bin/bash|-u alice|-c c=5|-h|-z|-j oe|-j y|\
    -o out|-o head:/x/^job_name^|-e err/|-q workq|-q workq@head|-v A,B=2|-V|-d /tmp|-w sub|-F \"a 'b c'\"|\
    -L tasks=2:lprocs=4|-n|-W depend=afterok:1:2,umask=022|-W depend=on:2|-W block=true|-W group_list=staff|\
    -W sandbox=PRIVATE|-W run_count=3|-W retry=2,retry_delay=5|-W hosts=n1+n2|-W omit_hosts=n3|\
    -W geometry={(0,1)(2)}|-W requirements='ncpus>=4'|-W Priority=7|-W Execution_Time=99999999999|\
    -W Execution_Time=9223372036854775807|-W stagein=a@head:b|-W stageout='c@head:d,e@head:f'|-W warn=USR1@60|\
    -W x=y|-W qos=none|-W resv=R1|-W max_run_subjobs=2|-W notify=/bin/true|-W tolerate_node_failures=all|\
    -W create_resv_from_job=t|-W nalloc=fastest|-W naccess=singleuser|-W distribution=balanced|\
    -W restrictions=/a|-W cluster=/a/b|-W groups=g|-W hold_jid=x|--user-factor 0.5|--user-factor .0000001|-cwd|\
    -wd sub|-pe smp 4|-pe mpi 2-8|-hold_jid a,12,b*|-hold_jid_ad 3|-sync y|-tc 3|-ar 5|-notify|-shell n|\
    -soft -l x=1 -hard|-now y|-binding linear:4|-terse|-w e|-R y|-m bes";

/// A date, or a text close to one.
fn dates() -> impl Strategy<Value = Vec<u8>> {
    let pair = prop_oneof![4 => "[0-2][0-9]", 1 => "[0-9][0-9]"];
    let date = (
        prop::collection::vec(pair, 0..8),
        prop_oneof![Just(String::new()), "\\.[0-9]{2}", "\\.[0-9]{0,3}"],
    );
    let plain =
        date.prop_map(|(pairs, seconds)| format!("{}{seconds}", pairs.concat()).into_bytes());
    prop_oneof![8 => plain, 1 => pieces("23|59|.| |-|+|e", 6)]
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
    fn any_dependency_is_parsed_or_refused(text in prop_oneof![dependencies(), pieces(DEPEND, 10)]) {
        grammars::dependency(&text);
    }

    #[test]
    fn any_date_is_parsed_or_refused(text in dates()) {
        grammars::date(&text);
    }

    #[test]
    fn any_script_header_is_parsed_or_refused(text in prop_oneof![headers(), pieces(HEADER, 12)]) {
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
    fn a_quoted_resource_list_splits_into_the_pairs_it_was_built_from(
        pairs in prop::collection::vec(("[a-z_]{1,8}", r#"[ -!#-&(-~é]{0,12}|['a ,]{0,5}|["b ,]{0,5}"#), 0..6),
    ) {
        grammars::list_is_split(&pairs);
    }
}

/// A check of a text in a grammar.
type Check = fn(&[u8]) -> ParseResult;

/// The initial corpus of the fuzz targets, including texts that caused failures.
#[test]
fn every_seed_of_the_fuzz_targets_is_parsed_or_refused() {
    let rows: [(&str, Check); 5] = [
        ("directives", grammars::script_header),
        ("resources", grammars::resource_list),
        ("select", grammars::chunks),
        ("date", grammars::date),
        ("depend", grammars::dependency),
    ];
    for (target, check) in rows {
        let seeds = files(&root().join("fuzz/seeds").join(target));
        assert!(
            seeds.len() > 10,
            "fuzz/seeds/{target} has only {} files",
            seeds.len()
        );
        let results: BTreeSet<ParseResult> = seeds
            .iter()
            .map(|seed| check(&std::fs::read(seed).unwrap()))
            .collect();
        assert_eq!(results.len(), 2, "{target}: only {results:?}");
    }
}

/// The generators produce valid and invalid texts.
#[test]
fn generators_produce_valid_and_invalid_texts() {
    let rows: [(Check, BoxedStrategy<Vec<u8>>); 5] = [
        (grammars::resource_list, pieces(LIST, 14).boxed()),
        (grammars::chunks, pieces(SELECT, 14).boxed()),
        (grammars::dependency, dependencies().boxed()),
        (grammars::date, dates().boxed()),
        (grammars::script_header, headers().boxed()),
    ];
    let mut runner = TestRunner::deterministic();
    for (number, (check, texts)) in rows.into_iter().enumerate() {
        let text = || texts.new_tree(&mut runner).unwrap().current();
        let parsed = std::iter::repeat_with(text)
            .take(400)
            .filter(|text| check(text) == ParseResult::Parsed)
            .count();
        assert!(
            (12..388).contains(&parsed),
            "grammar {number}: {parsed} of 400 texts are valid"
        );
    }
}
