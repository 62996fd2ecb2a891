//! The attributes of a job for display, under PBS's names and in PBS's order. Values have types, so
//! that output formats such as JSON need not parse texts.

use super::reason::numbers_of;
use super::{comment, exec_host};
use crate::model::job::array::{self, SubjobCounts};
use crate::model::job::dependency::{self, Edge};
use crate::model::job::state::JobState;
use crate::model::job::{JobProgram, Join, Run, placeholder};
use crate::model::job_id::IdPart;
use crate::model::resource::{ResourceValue, Size};
use crate::model::text::Text;
use crate::model::time::{ClockTable, Time, Wall};
use crate::wire::message::{JobRecord, ServerFacts};
use std::borrow::Cow;

/// What the ending of a job says if files were not staged out; see `noded::shepherd`.
const STAGE_OUT_FAILURES: [&str; 3] = [
    "stage-out failed",
    "stage-out was cancel",
    "stage-out took longer",
];

/// An attribute, such as `Job_Name`, or one resource of a list, such as `Resource_List.ncpus`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownAttribute<'a> {
    /// The PBS name.
    pub name: &'a str,
    /// The resource, if the attribute is a list of resources.
    pub resource: Option<&'a str>,
    /// The value to display.
    pub shown: AttributeDisplay<'a>,
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeDisplay<'a> {
    /// A text, even if it resembles a number.
    Text(Cow<'a, str>),
    /// A whole number.
    Number(i64),
    /// A floating-point number.
    Real(f64),
    /// A time, displayed in the format of `ctime`.
    Moment(Wall),
    /// `Variable_List`: names and values.
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    /// Several texts, displayed with commas between them.
    List(Vec<String>),
    /// A value without a PBS counterpart, for JSON only.
    Data(serde_json::Value),
}

/// Attributes of an object, in display order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes<'a>(pub Vec<ShownAttribute<'a>>);

impl<'a> Attributes<'a> {
    /// Adds a value of any type.
    pub fn add(&mut self, name: &'a str, shown: AttributeDisplay<'a>) {
        self.0.push(ShownAttribute {
            name,
            resource: None,
            shown,
        });
    }

    /// Adds a text.
    pub fn text(&mut self, name: &'a str, text: impl Into<Cow<'a, str>>) {
        self.add(name, AttributeDisplay::Text(text.into()));
    }

    /// Adds a text unless it is None.
    pub fn text_if(&mut self, name: &'a str, text: Option<impl Into<Cow<'a, str>>>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Adds a whole number.
    pub fn number(&mut self, name: &'a str, number: impl Into<i64>) {
        self.add(name, AttributeDisplay::Number(number.into()));
    }

    /// Adds `True` or `False`.
    pub fn boolean(&mut self, name: &'a str, value: bool) {
        self.text(name, if value { "True" } else { "False" });
    }

    /// Adds one resource of a list.
    pub fn resource(&mut self, name: &'a str, resource: &'a str, value: &ResourceValue) {
        self.0.push(ShownAttribute {
            name,
            resource: Some(resource),
            shown: AttributeDisplay::of(value),
        });
    }
}

impl AttributeDisplay<'_> {
    /// Converts a resource value: numbers stay numbers, all other types become text.
    pub fn of(value: &ResourceValue) -> AttributeDisplay<'static> {
        match value {
            ResourceValue::Long(number) => AttributeDisplay::Number(*number),
            ResourceValue::Float(number) => AttributeDisplay::Real(*number),
            other => AttributeDisplay::Text(other.to_string().into()),
        }
    }
}

/// The attributes of a job.
pub fn of_job<'a>(record: &'a JobRecord, server: &'a ServerFacts) -> Attributes<'a> {
    let mut view = AttributeBuilder {
        record,
        server,
        clock: &server.clock,
        out: Attributes(Vec::with_capacity(56)),
    };
    view.identity();
    view.used();
    view.dependencies();
    view.files_and_hosts();
    view.holds_and_mail();
    view.request();
    view.run();
    view.environment();
    view.history();
    view.command();
    view.array();
    view.end();
    view.out
}

/// Attributes that are stored as given (`Spec::other`) and have a fixed position in PBS's order.
/// `AttributeBuilder::end` adds all others.
const PLACED: [&str; 9] = [
    "Checkpoint",
    "group_list",
    "Keep_Files",
    "Mail_Points",
    "Mail_Users",
    "Remove_Files",
    "sandbox",
    "stagein",
    "stageout",
];

struct AttributeBuilder<'a> {
    record: &'a JobRecord,
    server: &'a ServerFacts,
    clock: &'a ClockTable,
    out: Attributes<'a>,
}

impl<'a> AttributeBuilder<'a> {
    fn moment(&mut self, name: &'a str, time: Time) {
        self.out
            .add(name, AttributeDisplay::Moment(self.clock.wall(time)));
    }

    fn moment_if(&mut self, name: &'a str, time: Option<Time>) {
        if let Some(time) = time {
            self.moment(name, time);
        }
    }

    fn given(&mut self, name: &'a str) {
        self.out.text_if(name, self.record.job.spec.other.get(name));
    }

    fn given_or(&mut self, name: &'a str, default: &'static str) {
        let text = self
            .record
            .job
            .spec
            .other
            .get(name)
            .map_or(default, String::as_str);
        self.out.text(name, text);
    }

    fn state(&self) -> JobState {
        self.record.job.life.state
    }

    /// The last attempt of a job that runs, is suspended or has finished. None for a waiting job,
    /// even if an earlier attempt is stored.
    fn attempt(&self) -> Option<&'a Run> {
        let run = self.record.job.life.run.as_ref();
        if self.state().is_under_way()
            || matches!(self.state(), JobState::Finished | JobState::Expired)
        {
            run
        } else {
            None
        }
    }

    /// Tests whether the job is a subjob that has started. PBS omits some attributes that such a
    /// subjob inherits from its array.
    fn is_started_subjob(&self) -> bool {
        self.record.job.id.index().is_some() && self.attempt().is_some()
    }

    fn identity(&mut self) {
        let spec = &self.record.job.spec;
        self.out.text("Job_Name", spec.name.as_str());
        self.out.text(
            "Job_Owner",
            format!("{}@{}", self.record.job.owner.user, spec.submit_host),
        );
    }

    /// Adds the usage, which is unknown until the node first reports it.
    fn used(&mut self) {
        let used = self.record.job.life.used;
        let known =
            used.ncpus > 0 || matches!(self.state(), JobState::Finished | JobState::Expired);
        if self.attempt().is_none() || !known {
            return;
        }
        let list = "resources_used";
        self.out
            .resource(list, "cpupercent", &ResourceValue::Long(used.cpupercent()));
        self.out
            .resource(list, "cput", &ResourceValue::Time(used.cput));
        self.out.resource(
            list,
            "mem",
            &ResourceValue::Size(Size::kilobytes(used.mem_kb)),
        );
        self.out
            .resource(list, "ncpus", &ResourceValue::Long(used.ncpus.into()));
        self.out.resource(
            list,
            "vmem",
            &ResourceValue::Size(Size::kilobytes(used.vmem_kb)),
        );
        self.out
            .resource(list, "walltime", &ResourceValue::Time(used.walltime));
    }

    fn dependencies(&mut self) {
        let spec = &self.record.job.spec;
        self.out
            .text("job_state", self.state().letter().to_string());
        self.out.text("queue", spec.queue.as_str());
        self.out.text("server", self.server.name.as_str());
        self.out.text_if("Account_Name", spec.account.as_deref());
        if !self.is_started_subjob() {
            self.given_or("Checkpoint", "u");
        }
        self.moment("ctime", self.record.job.life.ctime);
        self.depend();
    }

    fn depend(&mut self) {
        let edges: Vec<Edge> = self.record.links.iter().map(|link| link.edge).collect();
        let life = &self.record.job.life;
        let shown = dependency::shown(life.bars.on, &edges, &life.awaits, &self.server.name);
        self.out.text_if("depend", shown);
    }

    fn files_and_hosts(&mut self) {
        let spec = &self.record.job.spec;
        self.out.text("Error_Path", self.path(&spec.error, 'e'));
        if let Some(run) = self.attempt() {
            self.out
                .text("exec_host", exec_host::exec_host(&run.shares));
            self.out
                .text("exec_vnode", exec_host::exec_vnode(&run.shares));
            self.out
                .text_if("exec_gpus", exec_host::exec_gpus(&run.shares));
        }
        if let Some(begin) = spec.begin {
            self.out
                .add("Execution_Time", AttributeDisplay::Moment(begin));
        }
        self.given("group_list");
    }

    /// The requested path, or the default `host:<workdir>/<name>.<letter><number>`. The default
    /// path of an array ends with a placeholder for the index of a subjob. In the path of a subjob,
    /// the index replaces the placeholder.
    fn path(&self, requested: &'a Option<Text>, letter: char) -> Cow<'a, str> {
        let (spec, id) = (&self.record.job.spec, self.record.job.id);
        let path = requested.as_ref().map(Text::lossy).unwrap_or_else(|| {
            let folder = spec.workdir.lossy();
            let each = if id.part == IdPart::Whole {
                String::new()
            } else {
                format!(".{}", placeholder::INDEX)
            };
            let (host, folder) = (&spec.submit_host, folder.trim_end_matches('/'));
            format!("{host}:{folder}/{}.{letter}{}{each}", spec.name, id.number).into()
        });
        if path.contains('^') {
            String::from_utf8_lossy(&placeholder::filled(path.as_bytes(), id, &spec.name))
                .into_owned()
                .into()
        } else {
            path
        }
    }

    fn holds_and_mail(&mut self) {
        let job = &self.record.job;
        if !self.is_started_subjob() {
            self.out
                .text("Hold_Types", job.life.shown_holds().to_string());
        }
        if job.spec.interactive {
            self.out.boolean("interactive", true);
        }
        let join = match job.spec.join {
            Join::No => "n",
            Join::Output => "oe",
            Join::Error => "eo",
        };
        self.out.text("Join_Path", join);
        self.given_or("Keep_Files", "n");
        self.given_or("Mail_Points", "a");
        self.given("Mail_Users");
        self.moment("mtime", job.life.mtime);
    }

    fn request(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        self.out.text("Output_Path", self.path(&spec.output, 'o'));
        self.out.number("Priority", spec.priority);
        if spec.user_factor != 1.0 {
            self.out
                .add("user_factor", AttributeDisplay::Real(spec.user_factor));
        }
        if let Some(number) = spec.system_priority {
            self.out.number("system_priority", number);
        }
        self.score();
        self.moment("qtime", life.qtime);
        self.given("Remove_Files");
        self.out.boolean("Rerunable", spec.rerunnable);
        for (name, value) in &spec.request.list {
            self.out.resource("Resource_List", name, value);
        }
        self.fair_share();
    }

    /// Adds the priority: the current priority of a waiting job, or the priority that a running job
    /// had when it started.
    fn score(&mut self) {
        let run = if self.server.has_scores && self.state().is_under_way() {
            self.attempt()
        } else {
            None
        };
        if let Some(score) = self.record.score.or_else(|| run?.score) {
            self.out.add("score", AttributeDisplay::Real(score));
        }
    }

    /// Adds the fair-share value of the last scheduling cycle as `Resource_List.fairshare` (I7).
    fn fair_share(&mut self) {
        let (owner, spec) = (&self.record.job.owner, &self.record.job.spec);
        let is_shown = matches!(
            self.state(),
            JobState::Queued | JobState::Begun | JobState::Running | JobState::Suspended
        );
        if is_shown
            && let Some(priority) = self.server.fair_share(&owner.user, spec.account.as_deref())
        {
            self.out.resource(
                "Resource_List",
                "fairshare",
                &ResourceValue::Float(priority),
            );
        }
    }

    fn run(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        let session = self.attempt().and_then(|run| run.session);
        self.moment_if(
            "stime",
            self.attempt().map(|run| run.started).or(life.began),
        );
        let over = matches!(life.state, JobState::Finished | JobState::Expired);
        self.moment_if("obittime", if over { life.obittime } else { None });
        if let Some(session) = session {
            self.out.number("session_id", session);
        }
        self.out
            .text_if("Shell_Path_List", spec.shell.as_ref().map(Text::lossy));
        self.given("sandbox");
        // The path of a private sandbox is known only to the node.
        let known = if spec
            .other
            .get("sandbox")
            .is_none_or(|sandbox| sandbox != "PRIVATE")
        {
            session
        } else {
            None
        };
        let folder = spec.init_workdir.as_ref().map(|folder| folder.lossy());
        self.out.text_if(
            "jobdir",
            known.and_then(|_| folder.or_else(|| self.home().map(Into::into))),
        );
        self.given("stagein");
        self.given("stageout");
        self.out.number("substate", self.substate());
    }

    /// The owner's home directory; None if the job's environment is unknown or lacks `PBS_O_HOME`.
    fn home(&self) -> Option<String> {
        let environ = self.record.environ.as_deref()?;
        let home = environ
            .split(|&byte| byte == 0)
            .find_map(|entry| entry.strip_prefix(b"PBS_O_HOME="))?;
        Some(String::from_utf8_lossy(home).into_owned())
    }

    fn substate(&self) -> i64 {
        let life = &self.record.job.life;
        match (life.state, life.exit) {
            (JobState::Queued, _) => 10,
            (JobState::Held, _) if !life.bars.are_open() => 22,
            (JobState::Held, _) => 20,
            (JobState::Waiting, _) => 30,
            (JobState::Running, _) if self.attempt().is_some_and(|run| run.session.is_some()) => 42,
            (JobState::Running, _) => 41,
            (JobState::Suspended, _) if self.record.job.suspension().is_some_and(|it| it.waits) => {
                45
            }
            (JobState::Suspended, _) => 43,
            (JobState::Begun, _) => 70,
            (JobState::Expired, _) => 69,
            (JobState::Finished, _) if life.moved_to.is_some() => 94,
            (JobState::Finished, _) if life.bars.broken => 92,
            (JobState::Finished, Some(exit)) if !exit.deleted => 92 + i64::from(exit.status != 0),
            (JobState::Finished, _) => 91,
        }
    }

    fn environment(&mut self) {
        if let Some(environ) = &self.record.environ {
            self.out
                .add("Variable_List", AttributeDisplay::Pairs(variables(environ)));
        }
    }

    fn history(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        let comment = comment::of(self.record, self.server);
        // PBS displays no comment for a job that a user has suspended.
        if !comment.is_empty() || self.state() != JobState::Suspended {
            self.out.text("comment", comment);
        }
        self.moment_if("etime", life.etime);
        if let Some(umask) = spec.umask {
            self.out.number("umask", in_octal_digits(umask));
        }
        if spec.block {
            self.out.boolean("block", true);
        }
        if life.run_count > 0 {
            self.out.number("run_count", life.run_count);
        }
        if life.preempted > 0 {
            self.out.number("preempted", life.preempted);
        }
        self.out.text(
            "eligible_time",
            life.eligibility.at(self.server.now).to_string(),
        );
        if self.server.privileged {
            self.out
                .number("accrue_type", life.eligibility.accrues.number());
        }
        match &spec.reservation {
            Some(id) if *id == spec.queue => self
                .out
                .text("reserve_ID", format!("{id}.{}", self.server.name)),
            other => self.out.text_if("resv", other.as_deref()),
        }
        let is_over = matches!(life.state, JobState::Finished | JobState::Expired);
        if is_over && life.run.is_some() {
            let failed = life.ending.as_deref().is_some_and(|text| {
                STAGE_OUT_FAILURES
                    .iter()
                    .any(|failure| text.contains(failure))
            });
            self.out.number("Stageout_status", i64::from(!failed));
        }
        if is_over && life.moved_to.is_none() {
            self.out
                .number("Exit_status", life.exit.map_or(DELETED, |exit| exit.status));
        }
    }

    fn command(&mut self) {
        let spec = &self.record.job.spec;
        if !self.is_started_subjob() {
            self.out.text("Submit_arguments", spec.arguments.lossy());
        }
        let given = spec
            .job_arguments
            .0
            .split(|&byte| byte == 0)
            .map(String::from_utf8_lossy);
        let given = given.collect::<Vec<_>>().join(" ").trim_end().to_string();
        self.out.text_if(
            "job_arguments",
            Some(given).filter(|given| !given.is_empty()),
        );
        self.out
            .text_if("init_work_dir", spec.init_workdir.as_ref().map(Text::lossy));
        let JobProgram::Command(words) = &spec.program else {
            return;
        };
        let mut tagged = words.iter().map(|word| word.lossy());
        let executable = tagged.next().unwrap_or_default();
        self.out
            .text("executable", element("Executable", &executable));
        let arguments: String = tagged.map(|word| element("Argument", &word)).collect();
        self.out.text_if(
            "argument_list",
            Some(arguments).filter(|list| !list.is_empty()),
        );
    }

    fn array(&mut self) {
        let job = &self.record.job;
        if let (Some(array), Some(index)) = (job.id.parent(), job.id.index()) {
            self.out.text("array_id", array.full(&self.server.name));
            self.out.number("array_index", index);
        }
        let (Some(indices), Some(elements)) = (job.indices(), &job.elements) else {
            return;
        };
        let SubjobCounts {
            waiting,
            begun,
            ended,
        } = elements.counts();
        let again = self.record.waiting_again.min(begun);
        let (queued, running) = (waiting + again, begun - again);
        self.out.boolean("array", true);
        let counts = format!("Queued:{queued} Running:{running} Exiting:0 Expired:{ended}");
        self.out.text("array_state_count", counts);
        let list = job.spec.array_list.as_ref().map(ToString::to_string);
        self.out.text(
            "array_indices_submitted",
            list.unwrap_or_else(|| indices.submitted()),
        );
        self.out.text(
            "array_indices_remaining",
            array::shown(elements.waiting(), indices),
        );
        let failed = Some(elements.failed()).filter(|failed| !failed.is_empty());
        self.out.text_if(
            "array_indices_failed",
            failed.map(|failed| array::shown(&failed, indices)),
        );
    }

    /// Adds the planned start of a queued job as `estimated.start_time` and `estimated.exec_vnode`
    /// (I29).
    fn estimated(&mut self) {
        let job = &self.record.job;
        let Some(promise) = &self.record.promise else {
            return;
        };
        if job.life.state != JobState::Queued {
            return;
        }
        let start = AttributeDisplay::Moment(self.clock.wall(promise.at));
        let vnodes = AttributeDisplay::Text(
            exec_host::planned_vnode(
                &job.spec.request.select,
                &promise.nodes,
                &self.server.resources,
            )
            .into(),
        );
        for (resource, shown) in [("exec_vnode", vnodes), ("start_time", start)] {
            self.out.0.push(ShownAttribute {
                name: "estimated",
                resource: Some(resource),
                shown,
            });
        }
    }

    fn end(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        for (name, text) in spec.placement.shown() {
            self.out.text(name, text);
        }
        for (name, text) in spec
            .other
            .iter()
            .filter(|(name, _)| !PLACED.contains(&name.as_str()))
        {
            self.out.text(name, text.as_str());
        }
        self.estimated();
        if life.state == JobState::Finished
            && let Some(end) = life.obittime
        {
            self.out.number("history_timestamp", self.clock.wall(end).0);
        }
        self.out.text("project", spec.project.as_str());
        self.out.text_if("label", spec.label.as_deref());
        self.out
            .text_if("process_group", spec.process_group.as_deref());
        self.out.text_if("qos", spec.qos.as_deref());
        self.out.text("Submit_Host", spec.submit_host.as_str());
        if self.record.job.id.is_array()
            && let Some(most) = spec.max_run_subjobs
        {
            self.out.number("max_run_subjobs", most);
        }
        match spec.expand {
            0 => {}
            u32::MAX => self.out.text("expand", "unlimited"),
            most => self.out.number("expand", most),
        }
        if spec.retry > 0 {
            self.out.number("retry", spec.retry);
            self.out.text("retry_delay", spec.retry_delay.to_string());
        }
        if life.state == JobState::Queued
            && let Some(reason) = &self.record.reason
        {
            self.out.add(
                "lanai_reason",
                AttributeDisplay::Data(numbers_of(reason, self.server)),
            );
        }
    }
}

/// `Exit_status` of a finished job that was deleted before it ran and has no exit status.
const DELETED: i32 = 271;

/// The variables of an environment, which consists of texts `NAME=VALUE` that end with a zero byte.
fn variables(environ: &[u8]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let entries = environ
        .split(|&byte| byte == 0)
        .filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let equals = entry
                .iter()
                .position(|&byte| byte == b'=')
                .unwrap_or(entry.len());
            let value = entry.get(equals + 1..).unwrap_or_default();
            (
                String::from_utf8_lossy(&entry[..equals]),
                String::from_utf8_lossy(value),
            )
        })
        .collect()
}

/// The octal digits of a umask, read as a decimal number: PBS displays umask 0022 as 22.
fn in_octal_digits(umask: u32) -> i64 {
    format!("{umask:o}").parse().unwrap_or(0)
}

fn element(name: &str, text: &str) -> String {
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<jsdl-hpcpa:{name}>{escaped}</jsdl-hpcpa:{name}>")
}

#[cfg(test)]
mod tests;
