//! Watching one running job: its start, its end, its walltime, and what noded orders meanwhile.

use super::child::{Fault, Word};
use super::folder::{Built, Name};
use super::meter::Meter;
use super::shepherd::unable;
use super::{spawner, sweep};
use crate::model::job::{How, Outcome};
use crate::model::text::Text;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::process::{self, End, Reaped};
use crate::sys::{clock, packet};
use crate::wire::message::Launch;
use nix::libc::{SIGKILL, SIGTERM};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// When usage is first looked at, and how often after that.
const FIRST_SAMPLE: Span = Span::seconds(2);
const SAMPLES: Span = Span::seconds(5);
/// How soon a word that noded had no room for is said again.
const SAY_AGAIN: Span = Span(50);
/// How long the status of a killed first process is waited for.
const LAST_WAIT: Span = Span::seconds(1);

/// What is known of the running job.
#[derive(Debug)]
pub struct Watch<'a> {
    launch: &'a Launch,
    built: &'a Built,
    noded: &'a OwnedFd,
    session: Pid,
    began: Span,
    limit: Option<Span>,
    /// How its first process ended, once it has.
    status: Option<End>,
    /// Why it could not start.
    fault: Option<Fault>,
    /// The job's standard error, and its standard output.
    errors: Option<OwnedFd>,
    output: Option<OwnedFd>,
    /// Whether noded has still to hear that it runs.
    unsaid: bool,
    /// The last signal sent on somebody's order, or the TERM of an ending.
    sent: Option<i32>,
    ending: Option<Ending>,
    /// No process of it is left.
    alone: bool,
    next_sample: Span,
    /// How much of the orders has been read.
    orders_seen: u64,
}

/// The job has been told to end.
#[derive(Debug)]
struct Ending {
    kill_at: Span,
    overran: Option<How>,
}

impl<'a> Watch<'a> {
    /// Begins to watch the job whose first process is `session`, forked at `began`.
    pub fn new(launch: &'a Launch, built: &'a Built, noded: &'a OwnedFd, session: Pid, began: Span) -> Watch<'a> {
        Watch {
            launch,
            built,
            noded,
            session,
            began,
            limit: launch.walltime,
            status: None,
            fault: None,
            errors: None,
            output: None,
            unsaid: false,
            sent: None,
            ending: None,
            alone: false,
            next_sample: Span(began.0.saturating_add(FIRST_SAMPLE.0)),
            orders_seen: 0,
        }
    }

    /// Watches until the job's script is over, then ends every process it left behind.
    pub fn until_over(
        mut self,
        start: OwnedFd,
        signals: SignalFd,
        cgroup: Option<Cgroup>,
        mut meter: Meter,
    ) -> Outcome {
        let mut start = Some(start);
        while !self.over() {
            let ready = self.wait(start.as_ref(), &signals);
            if ready.start && self.hear(start.as_ref()) {
                start = None;
            }
            if ready.signals {
                self.take_signals(&signals, cgroup.as_ref());
            }
            self.keep_time(cgroup.as_ref());
            if self.due(self.next_sample) && !self.over() {
                self.next_sample = Span(clock::monotonic().0 + SAMPLES.0);
                self.built.folder.write_usage(&meter.sample(cgroup.as_ref(), self.elapsed()));
            }
        }
        while start.is_some() && !self.hear(start.as_ref()) {}
        self.finish(&signals, cgroup, meter)
    }

    /// Its script has ended. If it was told to end, its other processes have the rest of the grace.
    fn over(&self) -> bool {
        self.status.is_some() && (self.alone || self.ending.as_ref().is_none_or(|ending| self.due(ending.kill_at)))
    }

    fn elapsed(&self) -> Span {
        Span(clock::monotonic().0 - self.began.0)
    }

    fn due(&self, moment: Span) -> bool {
        clock::monotonic() >= moment
    }

    fn wait(&self, start: Option<&OwnedFd>, signals: &SignalFd) -> Ready {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(start.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut fds, self.timeout());
        let any = |at: usize| fds.get(at).is_some_and(|fd| fd.any() == Some(true));
        Ready { signals: any(0), start: any(1) }
    }

    fn timeout(&self) -> PollTimeout {
        let now = clock::monotonic().0;
        let walltime = self.limit.filter(|_| self.ending.is_none()).map(|limit| self.began.0.saturating_add(limit.0));
        let kill = self.ending.as_ref().map(|ending| ending.kill_at.0);
        let word = self.unsaid.then_some(now + SAY_AGAIN.0);
        let next = [walltime, kill, word, Some(self.next_sample.0)].into_iter().flatten().min();
        let left = next.unwrap_or(i64::MAX).saturating_sub(now).clamp(0, 3_600_000);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    /// Hears the job's first process before its exec; true when there is no more to hear.
    fn hear(&mut self, start: Option<&OwnedFd>) -> bool {
        let Some(start) = start else { return true };
        let mut buffer = [0; 8192];
        match packet::receive(start.as_fd(), &mut buffer, true) {
            Ok(Some((length, passed))) => {
                match postcard::from_bytes(&buffer[..length]) {
                    Ok(Word::Output) => self.output = passed,
                    Ok(Word::Ready) => self.errors = passed,
                    Ok(Word::Failed(fault)) => self.fault = Some(fault),
                    Err(e) => self.fault = Some(Fault::Node(format!("start: {e}"))),
                }
                false
            }
            Ok(None) | Err(_) => {
                // Closed by a successful exec, if it came as far as that.
                self.unsaid = self.fault.is_none() && self.errors.is_some();
                self.say_running();
                true
            }
        }
    }

    fn say_running(&mut self) {
        let word = spawner::Word::Running(Name::of(self.launch), self.session.as_raw().unsigned_abs());
        if self.unsaid {
            self.unsaid = !spawner::say(self.noded, &word, None, false);
        }
    }

    fn take_signals(&mut self, signals: &SignalFd, cgroup: Option<&Cgroup>) {
        while let Ok(Some(signal)) = signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGUSR1) => self.obey(cgroup),
                // noded had no room on disk for the order.
                Ok(Signal::SIGUSR2) => self.end(cgroup, self.launch.grace, None),
                _ => self.reap(),
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match process::reap(None) {
                Reaped::Living => return self.alone = false,
                Reaped::NoChild => return self.alone = true,
                Reaped::Ended(pid, end) if pid == self.session => self.status = Some(end),
                Reaped::Ended(..) => {}
            }
        }
    }

    fn obey(&mut self, cgroup: Option<&Cgroup>) {
        let mut seen = None;
        while seen != Some(self.orders_seen) {
            seen = Some(self.orders_seen);
            for order in self.built.folder.orders(&mut self.orders_seen) {
                match order {
                    Control::Cancel(grace) => self.end(cgroup, grace, None),
                    Control::Signal(number) => self.signal(cgroup, number),
                    Control::Walltime(limit) => self.limit = limit,
                    Control::Message { output, errors, text } => self.pass_on(output, errors, &text),
                }
            }
        }
    }

    fn signal(&mut self, cgroup: Option<&Cgroup>, number: i32) {
        if self.ending.is_none() {
            self.sent = Some(number);
        }
        sweep::signal(cgroup, number);
    }

    /// TERM now, KILL after `grace`. Telling it twice changes nothing.
    fn end(&mut self, cgroup: Option<&Cgroup>, grace: Span, overran: Option<How>) {
        if self.ending.is_some() {
            return;
        }
        self.sent = Some(SIGTERM);
        self.ending = Some(Ending { kill_at: Span(clock::monotonic().0.saturating_add(grace.0.max(0))), overran });
        sweep::signal(cgroup, SIGTERM);
    }

    fn keep_time(&mut self, cgroup: Option<&Cgroup>) {
        self.say_running();
        match (&self.ending, self.limit) {
            (None, Some(limit)) if self.elapsed() >= limit && self.status.is_none() => {
                let used = self.elapsed();
                self.tell_owner(used, limit);
                self.end(cgroup, self.launch.grace, Some(How::Overran { used, limit }));
            }
            // The first process first, so that its status is there to be recorded.
            (Some(ending), _) if self.status.is_none() && self.due(ending.kill_at) => {
                process::end(self.session.as_raw());
                self.status = Some(self.last_status());
            }
            _ => {}
        }
    }

    /// How the first process ended, which has just been killed. One that cannot be reaped, traced by
    /// somebody or stuck in the kernel, must not keep the others from being ended.
    fn last_status(&self) -> End {
        let until = Span(clock::monotonic().0 + LAST_WAIT.0);
        loop {
            match process::reap(Some(self.session)) {
                Reaped::Ended(_, end) => return end,
                Reaped::Living if !self.due(until) => clock::sleep(Duration::from_millis(5)),
                _ => return End::Signaled(SIGKILL),
            }
        }
    }

    /// Writes why it is ended to the job's standard error.
    fn tell_owner(&self, used: Span, limit: Span) {
        let (used, limit) = (used.as_seconds(), limit.as_seconds());
        write_line(
            self.errors.as_ref(),
            format!("=>> PBS: job killed: walltime {used} exceeded limit {limit}").as_bytes(),
        );
    }

    /// Writes somebody's message into the files asked for.
    fn pass_on(&self, output: bool, errors: bool, text: &Text) {
        for file in [self.output.as_ref().filter(|_| output), self.errors.as_ref().filter(|_| errors)] {
            write_line(file, &text.0);
        }
    }

    fn finish(self, children: &SignalFd, cgroup: Option<Cgroup>, mut meter: Meter) -> Outcome {
        let elapsed = self.elapsed();
        // Read before the sweep, which removes the group.
        meter.total(cgroup.as_ref(), elapsed);
        sweep::end(cgroup.as_ref(), children);
        let used = meter.total(None, elapsed);
        Outcome { how: self.how(), sent: self.sent, used }
    }

    fn how(&self) -> How {
        let overran = self.ending.as_ref().and_then(|ending| ending.overran.clone());
        match (&self.fault, overran, self.status) {
            (Some(fault), ..) => unable(self.launch, fault.clone()),
            (None, Some(overran), _) => overran,
            (None, None, Some(End::Exited(code))) => How::Exited(code),
            (None, None, Some(End::Signaled(number))) => How::Signaled(number),
            (None, None, _) => How::Signaled(SIGKILL),
        }
    }
}

/// Writes a line into a file that the job has opened, unless that would block.
fn write_line(file: Option<&OwnedFd>, line: &[u8]) {
    let Some(file) = file else { return };
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut fds, PollTimeout::ZERO) == Ok(1) {
        let _ = nix::unistd::write(file, &[line, b"\n"].concat());
    }
}

struct Ready {
    start: bool,
    signals: bool,
}

/// An order as a line in the attempt's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// TERM, then KILL after this grace.
    Cancel(Span),
    /// Send this signal.
    Signal(i32),
    /// A new walltime; None for none.
    Walltime(Option<Span>),
    /// Write a line into the job's files.
    Message {
        /// Whether into its standard output.
        output: bool,
        /// Whether into its standard error.
        errors: bool,
        /// What to say.
        text: Text,
    },
}

impl Control {
    /// The line.
    pub fn line(&self) -> String {
        match self {
            Control::Cancel(grace) => format!("cancel {}", grace.0),
            Control::Signal(number) => format!("signal {number}"),
            Control::Walltime(Some(limit)) => format!("walltime {}", limit.0),
            Control::Walltime(None) => "walltime none".into(),
            // In digits: the text may hold anything, newlines too.
            Control::Message { output, errors, text } => {
                let files = [("o", *output), ("e", *errors)].map(|(letter, is)| if is { letter } else { "" }).concat();
                let digits: String = text.0.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("message {files}:{digits}")
            }
        }
    }

    /// Reads a line; None for one of a version to come.
    pub fn parse(line: &str) -> Option<Control> {
        match line.split_once(' ')? {
            ("cancel", grace) => Some(Control::Cancel(Span(grace.parse().ok()?))),
            ("signal", number) => Some(Control::Signal(number.parse().ok()?)),
            ("walltime", "none") => Some(Control::Walltime(None)),
            ("message", rest) => {
                let (files, digits) = rest.split_once(':')?;
                let text = Text(digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?);
                Some(Control::Message { output: files.contains('o'), errors: files.contains('e'), text })
            }
            ("walltime", limit) => Some(Control::Walltime(Some(Span(limit.parse().ok()?)))),
            _ => None,
        }
    }
}

/// The byte that two digits stand for.
fn byte(digits: &[u8]) -> Option<u8> {
    let is_whole = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    u8::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_whole)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_its_line() {
        for order in [
            Control::Cancel(Span(10_000)),
            Control::Signal(10),
            Control::Walltime(None),
            Control::Walltime(Some(Span(1))),
            Control::Message { output: true, errors: false, text: Text(b"a\n\xff:".to_vec()) },
            Control::Message { output: true, errors: true, text: Text::default() },
        ] {
            assert_eq!(Control::parse(&order.line()), Some(order));
        }
        for junk in ["", "cancel", "cancel x", "dance 5", "message o", "message o:6", "message o:+1"] {
            assert_eq!(Control::parse(junk), None, "{junk}");
        }
    }
}
