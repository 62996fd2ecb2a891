//! The commands, one file each.
//!
//! [`programs`] is the table of them, and [`multicall`] the one program that contains them all. Next
//! comes what the commands share: how the words of a command line are read ([`getopt`]), how job
//! ids are read ([`operand`]), and how a command ends ([`exit`]).

pub mod programs;

pub mod multicall;

pub mod exit;

pub mod away;

pub mod getopt;

pub mod operand;

pub mod source;

pub mod qsub;

pub mod options;

pub mod resources;

pub mod directives;

pub mod scores;

mod script;

pub mod environ;

pub mod paths;

pub mod date;

pub mod submission;

pub mod again;

pub mod block;

mod installation;

pub mod interactive;

pub mod waiting;

pub mod seat;

pub mod qalter;

pub mod qdel;

pub mod qhold;

pub mod qrls;

pub mod qrerun;

pub mod qsig;

pub mod qmove;

pub mod qorder;

pub mod qmsg;

pub mod qrun;

pub mod qterm;

pub mod pbsdsh;

pub mod crowd;

pub mod each;

pub mod ask;

pub mod ahead;

mod remedy;

pub mod qstat;

pub mod watch;

pub mod listing;

pub mod layout;

pub mod display;

pub mod sheet;

pub mod alternate;

pub mod queues;

mod objects;

pub mod qselect;

pub mod selection;

pub mod reservations;

pub mod pbs_rsub;

pub mod pbs_rstat;

pub mod pbs_ralter;

pub mod pbs_rdel;

pub mod pbs_release_nodes;

pub mod qacct;

pub mod period;

mod cell;

mod columns;

mod efficiency;

pub mod tracejob;

pub mod story;

pub mod pbsnodes;

pub mod qmgr;

pub mod portrait;

pub mod gates;

pub mod nodes;

pub mod full;

pub mod dsv;

pub mod json;

pub mod qsim;

pub mod man;

pub mod completion;

use crate::shown::attributes;
use crate::shown::comment;
use crate::shown::place;
use crate::shown::when;

#[cfg(test)]
pub(crate) mod example;
