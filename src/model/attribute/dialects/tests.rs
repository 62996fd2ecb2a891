//! Table of requests in foreign names and their PBS equivalents.

use super::*;
use crate::model::resource::{Definition, ResourceType};

/// Translates words of the form `name=text` and returns the settings in this form, and the
/// warnings. A `-` before a name marks an attribute; other names are resources.
fn translate(
    requested: &str,
    resources: &Resources,
) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let setting = |word: &str| {
        let (name, text) = word.split_once('=').unwrap();
        name.strip_prefix('-').map_or_else(
            || AttributeSetting::resource(name, text),
            |name| AttributeSetting::new(name, text),
        )
    };
    let (settings, notes) = translated(
        requested.split_whitespace().map(setting).collect(),
        resources,
    )?;
    let shown = |s: AttributeSetting| {
        s.resource
            .map_or(format!("-{}={}", s.attribute, s.value), |r| {
                format!("{r}={}", s.value)
            })
    };
    Ok((settings.into_iter().map(shown).collect(), notes))
}

#[test]
fn foreign_names_are_translated_to_the_names_of_pbs() {
    for (requested, expected) in [
        (
            "select=2:ncpus=1 walltime=5 foo=1",
            "select=2:ncpus=1 walltime=5 foo=1",
        ),
        ("h_rt=1:0:0", "walltime=3600"),
        ("H_RT=::30", "walltime=30"),
        ("h_rt=90 s_rt=60", "walltime=90 -warn=USR1@30"),
        ("s_rt=0:10:0", "walltime=660 -warn=USR1@60"),
        ("-warn=USR2@9 h_rt=90 s_rt=60", "-warn=USR2@9 walltime=90"),
        ("h_rt=60 s_rt=90", "walltime=60"),
        ("h_cpu=0:1:0 h_fsize=1M", "cput=60 file=1024kb"),
        ("h_vmem=4G", "mem=4194304kb"),
        ("h_vmem=4G mem_free=4.5G", "mem=4718592kb"),
        ("h_vmem=2g ncpus=4", "ncpus=4 mem=8388608kb"),
        ("pe=smp:4", "select=1:ncpus=4"),
        (
            "pe=smp:4 h_vmem=1G h_rt=60",
            "walltime=60 select=1:ncpus=4:mem=4194304kb",
        ),
        ("pe=openmp:4-8", "select=1:ncpus=4-8"),
        ("pe=smp:4- ngpus=1", "select=1:ncpus=4+:ngpus=1"),
        ("pe=smp:-8", "select=1:ncpus=1-8"),
        (
            "pe=mpi:8 h_vmem=1G",
            "select=8:ncpus=1:mpiprocs=1:mem=1048576kb",
        ),
        (
            "pe=orte_rr:4-8 walltime=9",
            "walltime=9 select=4:ncpus=1:mpiprocs=1",
        ),
        ("procs=4", "select=4:ncpus=1:mpiprocs=1"),
        ("procs=1", "select=1:ncpus=1:mpiprocs=1"),
        (
            "procs=3 mem=1gb",
            "select=3:ncpus=1:mpiprocs=1:mem=349526kb",
        ),
        ("hostname=n1|n2", "-hosts=n1,n2"),
        ("q=long", "-queue=long"),
        ("advres=R5", "-resv=R5"),
        ("feature=big:fast", "big=True fast=True"),
        (
            "feature=big nodes=2:ppn=2+1#excl",
            "nodes=2:ppn=2:big+1:big#excl",
        ),
        (
            "feature=big select=1+2:ncpus=2",
            "select=1:big=True+2:ncpus=2:big=True",
        ),
        ("gres=matlab:2", "matlab=2"),
        ("gres=gpu:2 nodes=1:ppn=4", "nodes=1:ppn=4:gpus=2"),
        ("gpus=1", "ngpus=1"),
        ("gres=a+b:3", "a=1 b=3"),
        ("pmem=1gb", "pmem=1gb"),
    ] {
        let (settings, notes) = translate(requested, &Resources::builtin())
            .unwrap_or_else(|no| panic!("{requested}: {}", no.text));
        assert_eq!(
            (settings.join(" ").as_str(), notes.len()),
            (expected, 0),
            "{requested}"
        );
    }
}

#[test]
fn errors_use_the_foreign_name() {
    for name in [
        "h_rt=",
        "h_rt=1:2:3:4",
        "h_rt=x",
        "h_vmem=",
        "h_vmem=0",
        "h_vmem=4X",
        "h_vmem=-1G",
        "procs=0",
    ] {
        let refusal = translate(name, &Resources::builtin()).expect_err(name);
        let resource = name.split('=').next().unwrap();
        assert_eq!(
            refusal.text,
            format!("Illegal attribute or resource value Resource_List.{resource}")
        );
    }
    for text in [
        "pe=smp",
        "pe=smp:",
        "pe=:4",
        "pe=smp:0",
        "pe=smp:8-4",
        "gres=",
        "gres=:2",
        "feature=",
        "feature=a|b",
    ] {
        assert!(translate(text, &Resources::builtin()).is_err(), "{text}");
    }
}

#[test]
fn limits_without_effect_give_a_warning() {
    let (settings, notes) = translate("h_stack=8M", &Resources::builtin()).unwrap();
    assert_eq!(
        (settings, notes),
        (
            vec![],
            vec!["warning: h_stack has no effect: Lanai does not support this limit".to_string()]
        )
    );
}

#[test]
fn site_resources_keep_their_names() {
    let mut resources = Resources::builtin();
    resources.define(
        "h_vmem",
        Definition {
            kind: ResourceType::Size,
            host_level: true,
            consumable: true,
            requestable: true,
        },
    );
    assert_eq!(translate("h_vmem=4G", &resources).unwrap().0, ["h_vmem=4G"]);
}
