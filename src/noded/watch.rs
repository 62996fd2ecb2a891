//! Watches one running job for its shepherd: start, end, limits, and orders of noded.

mod ending;
mod stopping;

use super::child::ChildMessage;
use super::control::{Cancel, Control};
use super::delivery::Stream;
use super::folder::{AttemptName, Built, Identity};
use super::launch_fault::LaunchFault;
use super::limits::{self, Guard};
use super::meter::UsageMeter;
use super::pause::Pause;
use super::spawner_messages::{SpawnerMessage, send_message};
use super::terminal::{Terminal, TerminalStep};
use super::{sweep, variables};
use crate::model::job::attempt::RunLimit;
use crate::model::job::run_limits::{TimeLimits, Warning};
use crate::model::job::{AttemptOutcome, How};
use crate::model::text::Text;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::process::{self, ProcessEnd, Reaped};
use crate::sys::procfs::{self, Process};
use crate::sys::{clock, packet};
use crate::wire::order::Launch;
use ending::{EndKind, Ending};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::Pid;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Delay of the first usage sample.
const FIRST_SAMPLE: Span = Span::seconds(2);
/// Interval of later usage samples.
const SAMPLE_INTERVAL: Span = Span::seconds(5);
/// Run time before which the walltime warning is not sent, so that a script can set its traps
/// first.
const EARLIEST_WARNING: Span = Span::seconds(1);
/// Delay before a message is sent again after noded's socket was full.
const REPEAT_DELAY: Span = Span(50);

/// The state that a shepherd keeps of its running job.
#[derive(Debug)]
pub struct JobWatch<'a> {
    launch: &'a Launch,
    built: &'a Built,
    noded: &'a OwnedFd,
    session: Pid,
    began: Span,
    times: TimeLimits,
    guard: Guard,
    /// The signal that was sent as walltime warning.
    warned: Option<i32>,
    /// Notes for the job's owner.
    notes: Vec<String>,
    /// Output streams to deliver at the end.
    streams: Vec<Stream>,
    /// The exit status of the job's first process, once that process has ended.
    status: Option<ProcessEnd>,
    /// Why the job could not start.
    fault: Option<LaunchFault>,
    /// The job's standard error.
    errors: Option<OwnedFd>,
    /// The job's standard output.
    output: Option<OwnedFd>,
    /// Whether noded must still be notified that the job runs.
    running_unsent: bool,
    /// The current suspension of the job.
    pause: Option<Pause>,
    /// Total time of earlier suspensions.
    suspended_for: Span,
    /// Whether noded must still be notified of a suspension or resumption.
    pause_unsent: bool,
    /// The processors that the job is bound to.
    bound_cpus: Vec<u16>,
    /// The last signal that was sent because of an order, or to end the job. Orders while the job
    /// is being ended do not count.
    sent: Option<i32>,
    ending: Option<Ending>,
    /// Whether the job's script ended before an order or a limit ended the job.
    on_its_own: bool,
    end_kind: EndKind,
    /// Whether no process of the job is left.
    has_no_process: bool,
    next_sample: Span,
    /// Number of bytes of the order file that have been read.
    orders_seen: u64,
    /// The terminal of an interactive job.
    terminal: Option<&'a mut Terminal>,
}

/// A job that has ended.
#[derive(Debug)]
pub struct WatchedEnd {
    /// The outcome.
    pub outcome: AttemptOutcome,
    /// The output streams to deliver.
    pub streams: Vec<Stream>,
    /// Whether the job runs again. If so, its output is not final and is not delivered.
    pub runs_again: bool,
}

impl<'a> JobWatch<'a> {
    /// Starts watching the job with the first process `session`, forked at `began`. `guard`
    /// enforces the job's limits.
    pub fn new(
        launch: &'a Launch,
        built: &'a Built,
        noded: &'a OwnedFd,
        session: Pid,
        began: Span,
        guard: Guard,
    ) -> JobWatch<'a> {
        JobWatch {
            launch,
            built,
            noded,
            session,
            began,
            times: TimeLimits {
                walltime: launch.walltime,
                cput: launch.limits.cput,
                warning: launch.limits.warning,
            },
            guard,
            warned: None,
            notes: Vec::new(),
            streams: Vec::new(),
            status: None,
            fault: None,
            errors: None,
            output: None,
            running_unsent: false,
            pause: None,
            suspended_for: Span(0),
            pause_unsent: false,
            bound_cpus: variables::here(&launch.shares)
                .flat_map(|share| share.cpus.iter().copied())
                .collect(),
            sent: None,
            ending: None,
            on_its_own: false,
            end_kind: EndKind::Done,
            has_no_process: false,
            next_sample: Span(began.0.saturating_add(FIRST_SAMPLE.0)),
            orders_seen: 0,
            terminal: None,
        }
    }

    /// Sets the job's terminal.
    pub fn with_terminal(self, terminal: Option<&'a mut Terminal>) -> JobWatch<'a> {
        JobWatch { terminal, ..self }
    }

    /// Watches the job until it is over, and then kills the remaining processes. `start` is the
    /// socket to the job's first process.
    pub fn until_end(
        mut self,
        start: OwnedFd,
        signals: SignalFd,
        cgroup: Option<Cgroup>,
        mut meter: UsageMeter,
    ) -> WatchedEnd {
        let mut start = Some(start);
        while !self.is_over() {
            let ready = self.wait(start.as_ref(), &signals);
            if ready.start && self.read_start_messages(start.as_ref()) {
                start = None;
            }
            if ready.signals {
                self.handle_signals(&signals, cgroup.as_ref());
            }
            self.handle_terminal(start.as_ref(), cgroup.as_ref());
            self.check_suspension(cgroup.as_ref());
            self.check_times(cgroup.as_ref());
            self.check_limits(cgroup.as_ref(), &mut meter);
            if self.is_due(self.next_sample) && !self.is_over() {
                self.next_sample = Span(clock::monotonic().0 + SAMPLE_INTERVAL.0);
                self.built
                    .folder
                    .write_usage(&meter.sample(cgroup.as_ref(), self.elapsed()));
            }
        }
        while start.is_some() && !self.read_start_messages(start.as_ref()) {}
        self.finish(&signals, cgroup, meter)
    }

    /// The job's run time without suspensions.
    fn elapsed(&self) -> Span {
        let now = self
            .pause
            .as_ref()
            .map_or_else(clock::monotonic, |pause| pause.since);
        Span(now.0 - self.began.0 - self.suspended_for.0)
    }

    /// The monotonic time at which the job's run time reaches `elapsed`, if the job is not
    /// suspended until then.
    fn moment(&self, elapsed: Span) -> Span {
        Span(
            self.began
                .0
                .saturating_add(self.suspended_for.0)
                .saturating_add(elapsed.0),
        )
    }

    fn is_due(&self, moment: Span) -> bool {
        clock::monotonic() >= moment
    }

    fn wait(&self, start: Option<&OwnedFd>, signals: &SignalFd) -> Ready {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(start.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.terminal.iter().flat_map(|terminal| terminal.watched()));
        let _ = poll(&mut fds, self.timeout());
        Ready {
            signals: fds[0].any() == Some(true),
            start: start.is_some() && fds[1].any() == Some(true),
        }
    }

    fn timeout(&self) -> PollTimeout {
        let now = clock::monotonic().0;
        let is_running = self.ending.is_none() && self.pause.is_none();
        let walltime = match self.max_run_time() {
            Some(max) if is_running => Some(self.moment(max).0),
            _ => None,
        };
        let warning = self.warning().map(|(_, moment)| moment.0);
        let next_check = match self.guard.next() {
            Some(moment) if is_running && self.status.is_none() => Some(moment.0),
            _ => None,
        };
        let kill = self.ending.as_ref().map(|ending| ending.kill_at.0);
        let message = (self.running_unsent || self.pause_unsent).then_some(now + REPEAT_DELAY.0);
        let pause = self.pause.as_ref().map(|pause| pause.next.0);
        let terminal_timeout = self
            .terminal
            .as_ref()
            .and_then(|terminal| terminal.due())
            .map(|due| due.0);
        let next = [
            walltime,
            warning,
            next_check,
            kill,
            message,
            pause,
            terminal_timeout,
            Some(self.next_sample.0),
        ];
        let next = next.into_iter().flatten().min();
        let left = next
            .unwrap_or(i64::MAX)
            .saturating_sub(now)
            .clamp(0, 3_600_000);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    /// Reads one message that the job's first process sent before its exec. Returns true if there
    /// are no more messages. The read must not block, because a process that is stuck in the kernel
    /// keeps its end of the socket open even when it is killed.
    fn read_start_messages(&mut self, start: Option<&OwnedFd>) -> bool {
        let Some(start) = start else { return true };
        let mut buffer = [0; 8192];
        match packet::receive(start.as_fd(), &mut buffer, false) {
            Ok(Some((length, passed))) => {
                match postcard::from_bytes(&buffer[..length]) {
                    Ok(ChildMessage::Ready) => {
                        self.errors = passed;
                        // The process of an interactive job waits for a client before its exec. The
                        // client connects only after noded has reported that the job runs, so noded
                        // is notified now.
                        self.running_unsent = self.terminal.is_some();
                        self.send_running();
                    }
                    Ok(ChildMessage::Beside(stream)) => self.streams.push(stream),
                    Ok(ChildMessage::Note(text)) => self.notes.push(text),
                    Ok(ChildMessage::Output) => self.output = passed,
                    Ok(ChildMessage::Failed(fault)) => self.fault = Some(fault),
                    Err(e) => {
                        self.fault = Some(LaunchFault::Node(format!(
                            "the starting job sent an unreadable message: {e}"
                        )))
                    }
                }
                false
            }
            Ok(None) | Err(_) => {
                // A successful exec closes the socket. The exec is assumed to have succeeded if the
                // child has sent `Ready` and no failure. An interactive job has been reported at
                // `Ready`.
                self.running_unsent |=
                    self.fault.is_none() && self.errors.is_some() && self.terminal.is_none();
                self.send_running();
                true
            }
        }
    }

    fn send_running(&mut self) {
        let message = SpawnerMessage::Running(
            AttemptName::of(self.launch),
            self.session.as_raw().unsigned_abs(),
        );
        if self.running_unsent {
            self.running_unsent = !send_message(self.noded, &message, None, false);
        }
    }

    fn handle_signals(&mut self, signals: &SignalFd, cgroup: Option<&Cgroup>) {
        while let Ok(Some(signal)) = signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGUSR1) => self.execute_orders(cgroup),
                // noded could not write a cancel to the order file, for instance because the disk
                // is full, so the signal carries the cancel.
                Ok(Signal::SIGUSR2) => {
                    self.cancel(cgroup, Cancel::of_value(signal.ssi_int, self.launch.grace))
                }
                _ => self.reap(),
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match process::reap(None) {
                Reaped::Living => return self.has_no_process = false,
                Reaped::NoChild => return self.has_no_process = true,
                Reaped::Ended(pid, end) if pid == self.session => {
                    self.status = Some(end);
                    self.on_its_own = self.ending.is_none();
                }
                Reaped::Ended(..) => {}
            }
        }
    }

    fn execute_orders(&mut self, cgroup: Option<&Cgroup>) {
        let mut seen = None;
        while seen != Some(self.orders_seen) {
            seen = Some(self.orders_seen);
            for order in self.built.folder.orders(&mut self.orders_seen) {
                match order {
                    Control::Cancel(cancel) => self.cancel(cgroup, cancel),
                    Control::Signal(number) => self.signal(cgroup, number),
                    Control::Suspend => self.suspend(cgroup),
                    Control::Resume(cpus) => self.resume(cgroup, cpus),
                    Control::Times(times) => self.set_times(times),
                    Control::Message {
                        output,
                        errors,
                        text,
                    } => self.write_message(output, errors, &text),
                }
            }
        }
    }

    fn set_times(&mut self, times: TimeLimits) {
        self.times = times;
        self.guard.set_cput_limit(times.cput);
    }

    fn signal(&mut self, cgroup: Option<&Cgroup>, number: i32) {
        if self.ending.is_none() {
            self.sent = Some(number);
        }
        match self.pause {
            None => sweep::signal(cgroup, number),
            Some(_) => sweep::signal_stopped(cgroup, number),
        }
    }

    fn handle_terminal(&mut self, start: Option<&OwnedFd>, cgroup: Option<&Cgroup>) {
        match self
            .terminal
            .as_mut()
            .map(|terminal| terminal.handle_events())
        {
            Some(TerminalStep::Begins) => {
                // If the process has ended, sending fails; `reap` handles the end.
                let _ = start.map(|start| packet::send(start.as_fd(), b"go", None, false));
            }
            Some(TerminalStep::HungUp) => self.hang_up(cgroup),
            Some(TerminalStep::Quiet) | None => {}
        }
    }

    fn check_times(&mut self, cgroup: Option<&Cgroup>) {
        self.send_running();
        self.warn(cgroup);
        match (&self.ending, self.times.walltime) {
            (None, Some(limit))
                if self.pause.is_none() && self.is_over_walltime() && self.status.is_none() =>
            {
                let reason = How::Overran {
                    used: self.elapsed(),
                    limit,
                };
                self.write_reason(&reason);
                self.end(cgroup, self.launch.grace, Some(reason));
            }
            // The grace time is over. The first process is killed before the others, so that its
            // status can be recorded.
            (Some(ending), _) if self.status.is_none() && self.is_due(ending.kill_at) => {
                process::end(self.session.as_raw());
                self.status = Some(self.last_status());
            }
            _ => {}
        }
    }

    /// The run time at which the job is ended: its walltime plus the allowed overrun (M50).
    fn max_run_time(&self) -> Option<Span> {
        self.times
            .walltime
            .map(|limit| Span(limit.0.saturating_add(self.launch.overrun.0)))
    }

    fn is_over_walltime(&self) -> bool {
        self.max_run_time().is_some_and(|max| self.elapsed() >= max)
    }

    /// The walltime warning, and when it is sent; None if no warning is to be sent.
    fn warning(&self) -> Option<(Warning, Span)> {
        let runs = self.pause.is_none()
            && self.warned.is_none()
            && self.ending.is_none()
            // Without `errors`, the process is not yet ready for its exec, and the signal would
            // kill the process.
            && self.errors.is_some()
            && self.status.is_none();
        if !runs {
            return None;
        }
        let warning = self.times.warning?;
        let left = self
            .times
            .walltime?
            .0
            .saturating_sub(warning.before.0)
            .max(EARLIEST_WARNING.0);
        Some((warning, self.moment(Span(left))))
    }

    fn warn(&mut self, cgroup: Option<&Cgroup>) {
        if let Some((warning, _)) = self.warning().filter(|&(_, moment)| self.is_due(moment)) {
            self.warned = Some(warning.signal);
            sweep::signal(cgroup, warning.signal);
        }
    }

    fn check_limits(&mut self, cgroup: Option<&Cgroup>, meter: &mut UsageMeter) {
        let is_due = self.guard.next().is_some_and(|moment| self.is_due(moment));
        if !is_due || self.pause.is_some() || self.ending.is_some() || self.status.is_some() {
            return;
        }
        let elapsed = self.elapsed();
        let built = self.built;
        let name = AttemptName::of(self.launch);
        let excess = self
            .guard
            .check(meter, cgroup, || other_processes(built, name), elapsed);
        if let Some(excess) = excess {
            self.write_reason(&excess);
            // A job over its memory limit could use up all memory during a grace time. So a job
            // gets a grace time only if it exceeds its processor time, or if the configuration
            // allows jobs to exceed the limit for some time (`Response::after`).
            let has_grace = match &excess {
                How::Exceeded {
                    bound: RunLimit::Cput,
                    ..
                } => true,
                How::Exceeded { bound, .. } => !self.launch.responses.of(*bound).ends_at_once(),
                _ => false,
            };
            if has_grace {
                self.end(cgroup, self.launch.grace, Some(excess))
            } else {
                self.end_at_once(excess)
            }
        }
    }

    /// Writes the limit that the job exceeded to the job's standard error.
    fn write_reason(&self, how: &How) {
        if let Some(excess) = how.excess() {
            write_line(
                self.errors.as_ref(),
                format!("=>> PBS: job killed: {excess}").as_bytes(),
            );
        }
    }

    /// Writes a user's message to the requested output files.
    fn write_message(&self, output: bool, errors: bool, text: &Text) {
        if output {
            write_line(self.output.as_ref(), &text.0);
        }
        if errors {
            write_line(self.errors.as_ref(), &text.0);
        }
    }
}

/// The processes of the same attempt on this host that run under other shepherds.
fn other_processes(built: &Built, own: AttemptName) -> Vec<Process> {
    let mut shepherds = built.folder.other_shepherds(own);
    shepherds.retain(is_alive);
    shepherds
        .iter()
        .flat_map(|shepherd| procfs::family(shepherd.pid))
        .collect()
}

fn is_alive(shepherd: &Identity) -> bool {
    procfs::process(shepherd.pid).is_some_and(|process| process.started == shepherd.started)
}

/// Writes a line to a file that the job has open, unless that would block.
fn write_line(file: Option<&OwnedFd>, line: &[u8]) {
    let Some(file) = file else { return };
    let line = [line, b"\n"].concat();
    let file_type =
        fstat(file).map(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT);
    let _ = match file_type {
        Ok(SFlag::S_IFREG) => nix::unistd::write(file, &line)
            .map(drop)
            .map_err(io::Error::from),
        // A write to a terminal or pipe may block. So the file is opened again without blocking,
        // because the flags of the job's descriptor must not change.
        _ => process::open_again(file).and_then(|mut own| own.write_all(&line)),
    };
}

struct Ready {
    start: bool,
    signals: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::terminal;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_line_that_does_not_fit_into_a_terminal_does_not_block() {
        let pair = terminal::pair(None).unwrap();
        let mut own = process::open_again(&pair.screen).unwrap();
        while own.write(b"xxxxxxx").is_ok() {}
        // Read until the terminal has room for a few bytes.
        let mut fds = [PollFd::new(pair.screen.as_fd(), PollFlags::POLLOUT)];
        while poll(&mut fds, PollTimeout::ZERO) == Ok(0) {
            nix::unistd::read(&pair.keyboard, &mut [0; 16]).unwrap();
        }
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            write_line(Some(&pair.screen), &[b'y'; 200_000]);
            done.send(())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn a_line_is_written_at_the_current_position_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        nix::unistd::write(&file, b"begun\n").unwrap();
        write_line(Some(&file.as_file().try_clone().unwrap().into()), b"said");
        assert_eq!(
            std::fs::read_to_string(file.path()).unwrap(),
            "begun\nsaid\n"
        );
    }
}
