//! What is displayed of a job: its attributes by their PBS names, in PBS's order, each with a value
//! that knows its type, so that no display guesses a type from a text.

use super::comment;
use super::place;
use crate::model::array::{self, Counts};
use crate::model::job::{Join, Part, Program, Run};
use crate::model::reason::Reason;
use crate::model::resource::Value;
use crate::model::state::State;
use crate::model::text::Text;
use crate::model::time::{ClockTable, Time, Wall};
use crate::wire::message::{Record, ServerFacts};
use std::borrow::Cow;

/// An attribute: `Job_Name`, or with a resource `Resource_List.ncpus`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute<'a> {
    /// As PBS names it.
    pub name: &'a str,
    /// The resource, where the attribute is a list of them.
    pub resource: Option<&'a str>,
    /// Its value.
    pub shown: Shown<'a>,
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown<'a> {
    /// Text, whatever it looks like.
    Text(Cow<'a, str>),
    /// A whole number.
    Number(i64),
    /// A number.
    Real(f64),
    /// A moment, shown as `ctime` writes it.
    Moment(Wall),
    /// `Variable_List`: names and values.
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    /// Several texts, joined by commas.
    List(Vec<String>),
    /// Lanai's own, for JSON alone.
    Data(serde_json::Value),
}

/// The attributes of one thing, in the order of display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes<'a>(pub Vec<Attribute<'a>>);

impl<'a> Attributes<'a> {
    /// Adds a value of any type.
    pub fn add(&mut self, name: &'a str, shown: Shown<'a>) {
        self.0.push(Attribute { name, resource: None, shown });
    }

    /// Adds a text.
    pub fn text(&mut self, name: &'a str, text: impl Into<Cow<'a, str>>) {
        self.add(name, Shown::Text(text.into()));
    }

    /// Adds a text, if there is one.
    pub fn text_if(&mut self, name: &'a str, text: Option<impl Into<Cow<'a, str>>>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Adds a whole number.
    pub fn number(&mut self, name: &'a str, number: impl Into<i64>) {
        self.add(name, Shown::Number(number.into()));
    }

    /// Adds `True` or `False`.
    pub fn boolean(&mut self, name: &'a str, value: bool) {
        self.text(name, if value { "True" } else { "False" });
    }

    /// Adds one resource of a list.
    pub fn resource(&mut self, name: &'a str, resource: &'a str, value: &Value) {
        self.0.push(Attribute { name, resource: Some(resource), shown: Shown::of(value) });
    }
}

impl Shown<'_> {
    /// A resource's value: numbers stay numbers, all else is text.
    pub fn of(value: &Value) -> Shown<'static> {
        match value {
            Value::Long(number) => Shown::Number(*number),
            Value::Float(number) => Shown::Real(*number),
            other => Shown::Text(other.to_string().into()),
        }
    }
}

/// The attributes of a job.
pub fn of_job<'a>(record: &'a Record, server: &'a ServerFacts) -> Attributes<'a> {
    let mut view = View { record, server, clock: &server.clock, out: Attributes(Vec::with_capacity(56)) };
    view.identity();
    view.used();
    view.standing();
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

/// Attributes kept as given that have a place of their own in PBS's order; all others come last.
const PLACED: [&str; 10] = [
    "Checkpoint",
    "depend",
    "group_list",
    "Keep_Files",
    "Mail_Points",
    "Mail_Users",
    "Remove_Files",
    "sandbox",
    "stagein",
    "stageout",
];

struct View<'a> {
    record: &'a Record,
    server: &'a ServerFacts,
    clock: &'a ClockTable,
    out: Attributes<'a>,
}

impl<'a> View<'a> {
    fn moment(&mut self, name: &'a str, time: Time) {
        self.out.add(name, Shown::Moment(self.clock.wall(time)));
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
        let text = self.record.job.spec.other.get(name).map_or(default, String::as_str);
        self.out.text(name, text);
    }

    fn state(&self) -> State {
        self.record.job.life.state
    }

    /// The attempt to speak of: a job back in the queue has none.
    fn attempt(&self) -> Option<&'a Run> {
        let run = self.record.job.life.run.as_ref();
        run.filter(|_| matches!(self.state(), State::Running | State::Finished | State::Expired))
    }

    /// Whether it is an element that has started. PBS leaves out what it has from its array then.
    fn is_begun_element(&self) -> bool {
        self.record.job.id.index().is_some() && self.attempt().is_some()
    }

    fn identity(&mut self) {
        let spec = &self.record.job.spec;
        self.out.text("Job_Name", spec.name.as_str());
        self.out.text("Job_Owner", format!("{}@{}", self.record.job.owner.user, spec.submit_host));
    }

    /// Known from the node's first report on.
    fn used(&mut self) {
        let used = self.record.job.life.used;
        let known = used.ncpus > 0 || matches!(self.state(), State::Finished | State::Expired);
        if self.attempt().is_none() || !known {
            return;
        }
        let list = "resources_used";
        let kilobytes = |kb| Value::Size(crate::model::resource::Size::kilobytes(kb));
        self.out.resource(list, "cpupercent", &Value::Long(used.cpupercent()));
        self.out.resource(list, "cput", &Value::Time(used.cput));
        self.out.resource(list, "mem", &kilobytes(used.mem_kb));
        self.out.resource(list, "ncpus", &Value::Long(used.ncpus.into()));
        self.out.resource(list, "vmem", &kilobytes(used.vmem_kb));
        self.out.resource(list, "walltime", &Value::Time(used.walltime));
    }

    fn standing(&mut self) {
        let spec = &self.record.job.spec;
        self.out.text("job_state", self.state().letter().to_string());
        self.out.text("queue", spec.queue.as_str());
        self.out.text("server", self.server.name.as_str());
        self.out.text_if("Account_Name", spec.account.as_deref());
        if !self.is_begun_element() {
            self.given_or("Checkpoint", "u");
        }
        self.moment("ctime", self.record.job.life.ctime);
        self.given("depend");
    }

    fn files_and_hosts(&mut self) {
        let spec = &self.record.job.spec;
        self.out.text("Error_Path", self.path(&spec.error, 'e'));
        if let Some(run) = self.attempt() {
            self.out.text("exec_host", place::exec_host(&run.shares));
            self.out.text("exec_vnode", place::exec_vnode(&run.shares));
        }
        if let Some(begin) = spec.begin {
            self.out.add("Execution_Time", Shown::Moment(begin));
        }
        self.given("group_list");
    }

    /// The path asked for, or the default one: `host:<workdir>/<name>.<letter><number>`, of an array
    /// with a mark for the index of each element.
    fn path(&self, asked: &'a Option<Text>, letter: char) -> Cow<'a, str> {
        let (spec, id) = (&self.record.job.spec, self.record.job.id);
        let path = asked.as_ref().map(Text::lossy).unwrap_or_else(|| {
            let folder = spec.workdir.lossy();
            let each = if id.part == Part::Whole { String::new() } else { format!(".{INDEX_MARK}") };
            let (host, folder) = (&spec.submit_host, folder.trim_end_matches('/'));
            format!("{host}:{folder}/{}.{letter}{}{each}", spec.name, id.number).into()
        });
        match id.index() {
            Some(index) if path.contains(INDEX_MARK) => path.replace(INDEX_MARK, &index.to_string()).into(),
            _ => path,
        }
    }

    fn holds_and_mail(&mut self) {
        let job = &self.record.job;
        if !self.is_begun_element() {
            self.out.text("Hold_Types", job.life.holds.to_string());
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
        self.moment("qtime", life.qtime);
        self.given("Remove_Files");
        self.out.boolean("Rerunable", spec.rerunnable);
        for (name, value) in &spec.request.list {
            self.out.resource("Resource_List", name, value);
        }
    }

    fn run(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        let session = self.attempt().and_then(|run| run.session);
        self.moment_if("stime", self.attempt().map(|run| run.started).or(life.began));
        let over = matches!(life.state, State::Finished | State::Expired);
        self.moment_if("obittime", life.obittime.filter(|_| over));
        if let Some(session) = session {
            self.out.number("session_id", session);
        }
        self.out.text_if("Shell_Path_List", spec.shell.as_ref().map(Text::lossy));
        self.given("sandbox");
        self.out.text_if("jobdir", session.map(|_| spec.workdir.lossy()));
        self.given("stagein");
        self.given("stageout");
        self.out.number("substate", self.substate());
    }

    fn substate(&self) -> i64 {
        let life = &self.record.job.life;
        match (life.state, life.exit) {
            (State::Queued, _) => 10,
            (State::Held, _) => 20,
            (State::Waiting, _) => 30,
            (State::Running, _) if self.attempt().is_some_and(|run| run.session.is_some()) => 42,
            (State::Running, _) => 41,
            (State::Begun, _) => 70,
            (State::Expired, _) => 69,
            (State::Finished, Some(exit)) if !exit.deleted => 92 + i64::from(exit.status != 0),
            (State::Finished, _) => 91,
        }
    }

    fn environment(&mut self) {
        if let Some(environ) = &self.record.environ {
            self.out.add("Variable_List", Shown::Pairs(variables(environ)));
        }
    }

    fn history(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        self.out.text("comment", comment::of(self.record, self.clock));
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
        if matches!(life.state, State::Finished | State::Expired) {
            if life.run.is_some() {
                self.out.number("Stageout_status", 1);
            }
            self.out.number("Exit_status", life.exit.map_or(DELETED, |exit| exit.status));
        }
    }

    fn command(&mut self) {
        let spec = &self.record.job.spec;
        if !self.is_begun_element() {
            self.out.text("Submit_arguments", spec.arguments.lossy());
        }
        let Program::Command(words) = &spec.program else { return };
        let mut tagged = words.iter().map(|word| word.lossy());
        let executable = tagged.next().unwrap_or_default();
        self.out.text("executable", element("Executable", &executable));
        let arguments: String = tagged.map(|word| element("Argument", &word)).collect();
        self.out.text_if("argument_list", Some(arguments).filter(|list| !list.is_empty()));
    }

    fn array(&mut self) {
        let job = &self.record.job;
        if let (Some(array), Some(index)) = (job.id.parent(), job.id.index()) {
            self.out.text("array_id", array.full(&self.server.name));
            self.out.number("array_index", index);
        }
        let (Some(indices), Some(elements)) = (job.indices(), &job.elements) else { return };
        let Counts { waiting, begun, ended } = elements.counts();
        let again = self.record.waiting_again.min(begun);
        let (queued, running) = (waiting + again, begun - again);
        self.out.boolean("array", true);
        let counts = format!("Queued:{queued} Running:{running} Exiting:0 Expired:{ended}");
        self.out.text("array_state_count", counts);
        self.out.text("array_indices_submitted", indices.submitted());
        self.out.text("array_indices_remaining", array::shown(elements.waiting(), indices));
    }

    fn end(&mut self) {
        let (spec, life) = (&self.record.job.spec, &self.record.job.life);
        for (name, text) in spec.other.iter().filter(|(name, _)| !PLACED.contains(&name.as_str())) {
            self.out.text(name, text.as_str());
        }
        let promised = self.record.booked.filter(|_| life.state == State::Queued);
        if let Some(start) = promised {
            let shown = Shown::Moment(self.clock.wall(start));
            self.out.0.push(Attribute { name: "estimated", resource: Some("start_time"), shown });
        }
        if let Some(end) = life.obittime.filter(|_| life.state == State::Finished) {
            self.out.number("history_timestamp", self.clock.wall(end).0);
        }
        self.out.text("project", spec.project.as_str());
        self.out.text("Submit_Host", spec.submit_host.as_str());
        if let Some(most) = spec.max_run_subjobs.filter(|_| self.record.job.id.is_array()) {
            self.out.number("max_run_subjobs", most);
        }
        if spec.retry > 0 {
            self.out.number("retry", spec.retry);
            self.out.text("retry_delay", spec.retry_delay.to_string());
        }
        if let Some(reason) = self.record.reason.as_ref().filter(|_| life.state == State::Queued) {
            self.out.add("lanai_reason", Shown::Data(numbers_of(reason)));
        }
    }
}

/// What stands for the index of an element in the paths of its array.
const INDEX_MARK: &str = "^array_index^";

/// The status of a job that was deleted before it ran.
const DELETED: i32 = 271;

/// The entries of an environment: `K=V`, each ended by a zero byte.
fn variables(environ: &[u8]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let entries = environ.split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let equals = entry.iter().position(|&byte| byte == b'=').unwrap_or(entry.len());
            let value = entry.get(equals + 1..).unwrap_or_default();
            (String::from_utf8_lossy(&entry[..equals]), String::from_utf8_lossy(value))
        })
        .collect()
}

/// PBS shows `umask=0022` as the number 22.
fn in_octal_digits(umask: u32) -> i64 {
    format!("{umask:o}").parse().unwrap_or(0)
}

fn element(name: &str, text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<jsdl-hpcpa:{name}>{escaped}</jsdl-hpcpa:{name}>")
}

/// Code, stage and numbers of a reason, in one object.
fn numbers_of(reason: &Reason) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("code".into(), reason.code().into());
    object.insert("stage".into(), serde_json::to_value(reason.stage()).unwrap_or_default());
    if let Ok(serde_json::Value::Object(variant)) = serde_json::to_value(reason) {
        let numbers = variant.into_iter().filter_map(|(_, fields)| fields.as_object().cloned());
        object.extend(numbers.flatten());
    }
    serde_json::Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::super::example::{self, SUBMITTED, array, finished, queued, running, server, share, with};
    use super::super::full::{self, Lines};
    use super::super::when;
    use super::*;
    use crate::model::array::Standing;
    use crate::model::time::Span;

    fn text(record: &Record) -> String {
        let mut out = String::new();
        full::write(&mut out, "Job Id", "1001.head", &of_job(record, &server()), Lines::Whole);
        out
    }

    fn bench() -> Record {
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
    fn an_array_says_how_its_elements_stand() {
        let mut record = array(queued(9, "an", ""), "1-10:2");
        let elements = std::sync::Arc::make_mut(record.job.elements.as_mut().unwrap());
        elements.mark(0, 2, Standing::Begun);
        elements.mark(1, 1, Standing::Ended(3));
        record.waiting_again = 1;
        let shown = text(&with(record, |spec| spec.max_run_subjobs = Some(2)));
        let expected = "    array = True\n    array_state_count = Queued:3 Running:1 Exiting:0 Expired:1\n    \
                        array_indices_submitted = 1-10:2\n    array_indices_remaining = 7-9:2\n    \
                        project = _pbs_project_default\n    Submit_Host = head\n    max_run_subjobs = 2\n\n";
        assert!(shown.ends_with(expected), "{shown}");
        assert!(shown.contains("    Output_Path = head:/home/alice/w/an.o9.^array_index^\n"), "{shown}");
    }

    #[test]
    fn an_element_has_its_own_paths_and_index() {
        let parent = with(array(queued(9, "an", ""), "1-3"), |spec| spec.error = Some("head:/e.^array_index^".into()));
        let element = |index| Record { job: parent.job.unrecorded(index).unwrap(), ..parent.clone() };
        let waits = text(&element(3));
        assert!(waits.contains("    Error_Path = head:/e.3\n") && waits.contains("/w/an.o9.3\n"), "{waits}");
        assert!(waits.contains("    array_id = 9[].head\n    array_index = 3\n"), "{waits}");
        assert!(waits.contains("    Hold_Types = n\n") && !waits.contains("array_state_count"), "{waits}");
        let runs = text(&running(element(2), vec![share(1, None)]));
        assert!(!["Hold_Types", "Checkpoint", "Submit_arguments"].iter().any(|name| runs.contains(name)), "{runs}");
    }

    #[test]
    fn a_finished_job_is_shown_in_the_order_of_pbs() {
        let date = |span| when::ctime(server().clock.wall(SUBMITTED + Span::seconds(span))).to_string();
        let day = when::comment_time(server().clock.wall(SUBMITTED)).to_string();
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
    jobdir = /home/alice/w
    substate = 93
    Variable_List = PBS_O_HOME=/home/alice,N=4,S=a\\,b\\\\c
    comment = Job run at <day> on (head:ncpus=2:mem=524288kb) and failed
    etime = <0>
    run_count = 1
    Stageout_status = 1
    Exit_status = 3
    Submit_arguments = -N bench job.sh
    history_timestamp = 1700000301
    project = _pbs_project_default
    Submit_Host = head

";
        let expected = expected.replace("<0>", &date(0)).replace("<301>", &date(301)).replace("<day>", &day);
        assert_eq!(text(&finished(bench(), 3, false)), expected);
    }

    #[test]
    fn what_is_given_seldom_stands_in_its_place() {
        let record = with(queued(7, "STDIN", "ncpus=1"), |spec| {
            spec.umask = Some(0o22);
            spec.block = true;
            spec.program = Program::Command(vec!["/bin/echo".into(), "b c".into(), "<&>".into()]);
            spec.output = Some("head:/tmp/out".into());
            spec.other.insert("Mail_Users".into(), "5".into());
            spec.other.insert("tolerate_node_failures".into(), "none".into());
        });
        let shown = text(&record);
        for line in [
            "Output_Path = head:/tmp/out\n",
            "Mail_Points = a\n    Mail_Users = 5\n    mtime",
            "umask = 22\n    block = True\n    Submit_arguments = job.sh\n    \
             executable = <jsdl-hpcpa:Executable>/bin/echo</jsdl-hpcpa:Executable>\n    \
             argument_list = <jsdl-hpcpa:Argument>b c</jsdl-hpcpa:Argument>\
             <jsdl-hpcpa:Argument>&lt;&amp;&gt;</jsdl-hpcpa:Argument>\n    \
             tolerate_node_failures = none\n    project",
            "substate = 10\n",
        ] {
            assert!(shown.contains(line), "{line}\n{shown}");
        }
        assert!(!shown.contains("resources_used") && !shown.contains("exec_host") && !shown.contains("stime"));
    }

    #[test]
    fn the_substate_tells_how_far_a_job_got() {
        let substate = |record: &Record| {
            let server = server();
            let attributes = of_job(record, &server).0;
            let found = attributes.iter().find(|attribute| attribute.name == "substate");
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
    fn a_reason_is_told_in_json_alone_with_its_numbers() {
        let mut record = queued(1, "a", "ncpus=1");
        let text_of = |text: &str| text.to_string();
        record.reason = Some(Reason::Busy {
            resource: text_of("ncpus"),
            requested: text_of("4"),
            available: text_of("0"),
            total: text_of("4"),
            until: Some(SUBMITTED),
        });
        assert!(!text(&record).contains("lanai"));
        assert!(
            text(&record).contains("comment = Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 4)\n")
        );
        let facts = example::server();
        let attributes = of_job(&record, &facts).0;
        let Shown::Data(data) = &attributes.last().unwrap().shown else { panic!("no data") };
        assert_eq!((&data["code"], &data["stage"]), (&"busy".into(), &"matching".into()));
        assert_eq!(data["requested"], "4");
    }
}
