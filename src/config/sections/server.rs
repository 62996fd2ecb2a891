//! `[server]`: the installation as a whole.

use super::node::is_host_name;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Table, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, ARRAY_SIZE, AmountTable, BOOLEAN, Custom, FROM_0_TO_1, List, OneOf, Optional,
    PROGRAM, Scalar, ScalarType, list, scalar, time, whole,
};
use crate::config::{Config, LARGEST_SCRIPT_MB, UserPattern, Workdir};
use crate::model::job::value_syntax;
use crate::model::queue::Queue;
use crate::model::resource::{Resources, Size};
use std::path::PathBuf;
use toml::Value;
use toml::de::DeValue;

const HOST_NAME: Scalar<String> =
    scalar("a host name: letters, digits, `-`, `_` and `.`", |name| {
        is_host_name(name)
    });
const USER_PATTERNS: List<Scalar<UserPattern>> = list(
    scalar("a user, such as \"ann\" or \"ann@head\"", |_| true),
    "a list of \"user\", \"user@host\" or \"*\"",
);
const QUEUE_NAME: Scalar<String> = scalar(
    "a queue name: at most 15 letters, digits, `-`, `_` and `.`, with a letter or digit first",
    |name| Queue::is_name(name),
);
const SCRIPT_SIZE: Scalar<Size> = scalar("a size of at most 16mb, such as \"1mb\"", |size| {
    size.bytes() <= Size::megabytes(LARGEST_SCRIPT_MB).bytes()
});
const OPTIONS: Scalar<String> = scalar("options on one line, such as \"-r n -m n\"", |text| {
    value_syntax::is_line(text)
});
/// The path of the mail program; empty for no mail. qmgr does not accept the empty path.
const MAILER: Custom<PathBuf> = Custom {
    wanted: || "the absolute path of a program, or \"\" for no mail".to_string(),
    read: |value| {
        let path = PathBuf::read(value)?;
        (path.is_absolute() || path.as_os_str().is_empty()).then_some(path)
    },
    write: |path| Some(path.write()),
    parse: |text| PathBuf::parse(text).filter(|path| path.is_absolute()),
    show: |path| Some(path.show()),
};
const SENDER: Scalar<String> = scalar(
    "a name without blanks, such as \"lanai\" or \"lanai@head\"",
    |name| {
        let is_other = |c: char| c.is_whitespace() || c.is_control();
        !name.is_empty() && !name.starts_with('-') && !name.contains(is_other)
    },
);
const WORKDIRS: &[(&str, Workdir)] = &[("submit", Workdir::Submit), ("home", Workdir::Home)];

/// `[server]`.
pub static SERVER: Table<Config> = Table::new(
    "server",
    &[
        &key("name", Optional(HOST_NAME), |c| &mut c.server.name)
            .text("The part of a job id after the dot.")
            .default("the name of the host")
            .example("\"head\""),
        &key("default_queue", QUEUE_NAME, |c| &mut c.server.default_queue)
            .pbs(&["default_queue"])
            .text("The queue of a job submitted without -q."),
        &key("query_other_jobs", BOOLEAN, |c| {
            &mut c.server.query_other_jobs
        })
        .pbs(&["query_other_jobs"])
        .unset("True")
        .text("Whether users see the jobs of others with qstat, qselect and tracejob."),
        &key("default_qsub_arguments", OPTIONS, |c| {
            &mut c.server.default_qsub_arguments
        })
        .pbs(&["default_qsub_arguments"])
        .unset("")
        .hidden_by_default()
        .text("The options of qsub that apply if neither command line nor script sets them."),
        &key("operators", USER_PATTERNS, |c| &mut c.server.operators)
            .pbs(&["operators"])
            .text("The users who may act on the jobs of others: \"user\", \"user@host\" or \"*\".")
            .default("only root and schedd's user")
            .example("[\"ann\", \"bob@head\"]"),
        &key("managers", USER_PATTERNS, |c| &mut c.server.managers)
            .pbs(&["managers"])
            .text(
                "The operators who may also change settings with qmgr: \"user\", \"user@host\" or \
                 \"*\".",
            )
            .default("only root and schedd's user")
            .example("[\"ann@head\"]"),
        &key("history", time("a time, such as \"90d\""), |c| {
            &mut c.server.history
        })
        .pbs(&["job_history_duration", "job_history_enable"])
        .text("The time for which finished jobs are kept for qstat -x and tracejob."),
        &key("accounting", time("a time, such as \"400d\""), |c| {
            &mut c.server.accounting
        })
        .text("The time for which the accounting records of qacct(1) are kept."),
        &key("workdir", OneOf(WORKDIRS), |c| &mut c.server.workdir)
            .text("The directory in which a job starts: \"submit\" (where qsub ran) or \"home\"."),
        &key("jobscript_max_size", SCRIPT_SIZE, |c| {
            &mut c.server.jobscript_max_size
        })
        .text("The size of the largest accepted job script, at most 16mb."),
        &key("max_array_size", Optional(ARRAY_SIZE), |c| {
            &mut c.server.max_array_size
        })
        .pbs(&["max_array_size"])
        .text("The largest number of subjobs of an array.")
        .default("no limit")
        .example("10000"),
        &key("resv_users", USER_PATTERNS, |c| {
            &mut c.server.reserving.users
        })
        .pbs(&["resv_users"])
        .unset("*")
        .text("The users who may make reservations: \"user\", \"user@host\", \"*\"; [] for none."),
        &key(
            "resv_max_number",
            whole("a number of at least 0", |_| true),
            |c| &mut c.server.reserving.number,
        )
        .pbs(&["resv_max_number"])
        .unset("10")
        .text("The largest number of reservations of one user."),
        &key("resv_max_duration", A_SECOND_OR_MORE, |c| {
            &mut c.server.reserving.duration
        })
        .pbs(&["resv_max_duration"])
        .text("The longest duration of a user's reservation."),
        &key("resv_max_share", FROM_0_TO_1, |c| {
            &mut c.server.reserving.share
        })
        .pbs(&["resv_max_share"])
        .unset("0.5")
        .text("The largest part of all processors, 0 to 1, that one user may reserve at once."),
        &key("refuse_impossible", BOOLEAN, |c| {
            &mut c.server.refuse_impossible
        })
        .text("Whether qsub refuses a job that the configured nodes could never run."),
        &key("resources_default", AmountTable, |c| &mut c.server.defaults)
            .pbs(&["resources_default"])
            .text("The defaults of resources that neither the job nor its queue sets.")
            .default("none")
            .example("{ ncpus = 1 }"),
        &key("default_chunk", AmountTable, |c| {
            &mut c.server.chunk_defaults
        })
        .pbs(&["default_chunk"])
        .text("The defaults of chunk resources that neither the job nor its queue sets.")
        .default("none")
        .example("{ ncpus = 1 }"),
        &key("resources_max", AmountTable, |c| &mut c.server.most)
            .pbs(&["resources_max"])
            .text("The largest amounts that a job may request if its queue does not limit them.")
            .default("none")
            .example("{ walltime = \"48:00:00\" }"),
        &key("shared", BOOLEAN, |c| &mut c.server.shared)
            .text("Whether several users share the installation."),
        &key("idle", A_SECOND_OR_MORE, |c| &mut c.server.idle)
            .text("The time without work after which the daemons of a personal installation exit."),
        &key("min_uid", whole("a user id of at least 0", |_| true), |c| {
            &mut c.server.min_uid
        })
        .text("The lowest user id that may run jobs in a shared installation."),
        &key("mailer", Optional(MAILER), |c| &mut c.server.mailer)
            .pbs(&["mailer"])
            .text(
                "The absolute path of the program that sends mail (qsub -m, -M), or \"\" for none.",
            )
            .default("\"/usr/sbin/sendmail\" if it exists, else none")
            .example("\"/usr/sbin/sendmail\""),
        &key("mail_from", Optional(SENDER), |c| &mut c.server.mail_from)
            .pbs(&["mail_from"])
            .text("The sender of mail.")
            .default("the user that schedd runs as")
            .example("\"lanai\""),
        &key("notify", Optional(PROGRAM), |c| &mut c.server.notify)
            .text("The path of the program that schedd runs when a job begins, ends or is aborted.")
            .default("none")
            .example("\"/etc/lanai/notify\""),
        &key("log_jobs", Optional(BOOLEAN), |c| &mut c.server.log_jobs)
            .text("Whether schedd logs the start and the end of each job.")
            .default("true in a shared installation, else false")
            .example("true"),
    ],
)
.finish(finish);

/// Makes schedd keep accounting records at least as long as finished jobs.
fn finish(config: &mut Config, _: &Section, _: &Resources) -> Result<(), ConfigError> {
    config.server.accounting = config.server.accounting.max(config.server.history);
    Ok(())
}

impl ScalarType for UserPattern {
    fn read(value: &DeValue) -> Option<UserPattern> {
        UserPattern::parse(value.as_str()?)
    }

    fn write(&self) -> Value {
        self.to_string().into()
    }

    fn parse(text: &str) -> Option<UserPattern> {
        UserPattern::parse(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
