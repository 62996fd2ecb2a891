//! One file for each command, or for several similar commands. The further files of a command are
//! in a directory with its name.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "doc comments of options are help texts, in which brackets are no links"
)]

pub mod job_command;

pub mod pbs_ralter;

pub mod pbs_rdel;

pub mod pbs_release_nodes;

pub mod pbs_rstat;

pub mod pbs_rsub;

pub mod pbsdsh;

pub mod pbsnodes;

pub mod qacct;

pub mod qalter;

pub mod qdel;

pub mod qhold;

pub mod qmgr;

pub mod qmove;

pub mod qmsg;

pub mod qorder;

pub mod qrerun;

pub mod qrls;

pub mod qrun;

pub mod qselect;

pub mod qsig;

pub mod qsim;

pub mod qstat;

pub mod qsub;

pub mod qterm;

pub mod queue_state;

pub mod tracejob;
