//! `lanai top`: a live view of jobs and nodes.
//!
//! The main thread handles keys and signals and draws. A second thread reads the data when schedd
//! reports a change ([`feed`]); requests about single jobs have threads of their own ([`tasks`]).
//! There are no signal handlers: signals are blocked and read from a descriptor.

mod details_pane;

mod draw;

mod feed;

mod input;

mod keys;

mod layout;

mod live_filter;

mod nodes_pane;

mod pace;

mod paint;

mod queue_pane;

mod screen;

#[cfg(test)]
mod screenshot_tests;

mod state;

mod tasks;

mod timeline;

mod timeline_pane;

use super::session::OutputOptions;
use crate::cli::client::exit::Failure;
use crate::model::time::{Span, Time};
use crate::sys::home::Home;
use crate::sys::pipe::{self, WakeupReceiver};
use crate::sys::terminal::{self, TerminalSize};
use crate::sys::{clock, process, user};
use crate::wire::client::Client;
use clap::Args;
use feed::{Event, EventSender, Feed};
use input::Command;
use keys::KeyDecoder;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use ratatui::layout::Rect;
use screen::Screen;
use state::TopState;
use std::io::{self, IsTerminal, stdin, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use tasks::{Task, TaskResult};

/// The time after which an escape byte without successors is the key Escape, in milliseconds.
const ESCAPE_DELAY: u16 = 50;

/// The time between two updates of elapsed times, in microseconds.
const TICK: u64 = 1_000_000;

/// The shortest and the longest time between two forecasts, in microseconds.
const FORECAST_PAUSE: (u64, u64) = (5_000_000, 120_000_000);

/// The time between two forecasts as a multiple of the duration of a forecast.
const FORECAST_FACTOR: u64 = 50;

/// The signals that lanai top handles.
const SIGNALS: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// Options of `lanai top`.
#[derive(Args, Clone, Debug, Default)]
pub struct TopArgs {
    /// Jobs of all users
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Words that the id, name or user contains, and conditions, such as state=running
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

impl TopArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        if output.json {
            let text = "top has no JSON output; for JSON, type: lanai list --json";
            return Err(Failure::new(2, text));
        }
        if !stdin().is_terminal() || !stdout().is_terminal() {
            let text = "top requires a terminal; for a list of jobs, type: lanai list";
            return Err(Failure::new(2, text));
        }
        let home = Home::find()?;
        // A failure to connect is reported before the screen changes.
        drop(Client::connect(&home)?);
        let mut state = TopState::new(&user::own().name, output.has_color(), screen_area());
        state.shows_all = self.all;
        state.set_filter(&self.filter.join(" "));
        if let Some(error) = state.filter.error() {
            return Err(Failure::new(2, error));
        }
        let signal_set: SigSet = SIGNALS.into_iter().collect();
        signal_set.thread_block().map_err(io::Error::from)?;
        let signals = process::signals(&SIGNALS)?;
        let (sender, events) = mpsc::channel();
        let (bell, wakeups) = pipe::bell()?;
        let sender = EventSender::new(sender, bell);
        let feed = Feed::start(home.clone(), state.user.clone(), self.all, sender.clone())?;
        let mut top = Top {
            screen: Screen::enter(state.area, state.has_color)?,
            home,
            state,
            feed,
            sender,
            events,
            wakeups,
            signals,
            decoder: KeyDecoder::default(),
            server_time: (Time::default(), 0),
            last_draw: 0,
            forecasts: Forecasts::default(),
        };
        top.run()
    }
}

/// The size of the terminal.
fn screen_area() -> Rect {
    let size = terminal::window(stdout()).unwrap_or(TerminalSize::USUAL);
    Rect::new(0, 0, size.columns, size.rows)
}

/// The running program.
struct Top {
    home: Home,
    state: TopState,
    screen: Screen,
    feed: Feed,
    sender: EventSender,
    events: Receiver<Event>,
    wakeups: WakeupReceiver,
    signals: SignalFd,
    decoder: KeyDecoder,
    /// The server's time in the last data, and the monotonic time at which the data arrived, in
    /// microseconds.
    server_time: (Time, u64),
    /// The monotonic time at which the screen was drawn, in microseconds.
    last_draw: u64,
    forecasts: Forecasts,
}

/// When the forecast of starts is requested. It is requested only for the timeline.
#[derive(Debug, Default)]
struct Forecasts {
    /// True if the data have changed since the last request.
    is_due: bool,
    /// The monotonic time of the request that has not been answered, in microseconds.
    requested: Option<u64>,
    /// The monotonic time of the next request, in microseconds.
    earliest: u64,
}

impl Top {
    /// Handles keys, signals and data until the user quits. Returns the exit status.
    fn run(&mut self) -> Result<u8, Failure> {
        loop {
            self.feed
                .request(self.state.shows_all, self.state.layout().timeline.is_some());
            self.request_forecast();
            self.draw()?;
            let (has_input, has_signal, is_woken) = self.wait();
            if has_signal && let Some(code) = self.handle_signals()? {
                return Ok(code);
            }
            if is_woken {
                self.wakeups.clear_wakeups();
                self.handle_events();
            }
            let keys = if has_input {
                let mut buffer = [0; 1024];
                match nix::unistd::read(stdin(), &mut buffer) {
                    // The terminal is closed.
                    Ok(0) | Err(nix::errno::Errno::EIO) => return Ok(1),
                    Ok(length) => self.decoder.decode(&buffer[..length]),
                    Err(error) => return Err(io::Error::from(error).into()),
                }
            } else if !has_signal && !is_woken && self.decoder.is_pending() {
                self.decoder.end().into_iter().collect()
            } else {
                Vec::new()
            };
            for key in keys {
                match self.state.press(key) {
                    Some(Command::Quit) => return Ok(0),
                    Some(Command::Suspend) => self.suspend()?,
                    Some(Command::Start(task)) => self.start(task),
                    Some(Command::ChangeScope) | None => {}
                }
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        self.last_draw = clock::monotonic_micros();
        let (server_time, arrived) = self.server_time;
        let passed = (self.last_draw - arrived) / 1000;
        self.state.set_time(server_time + Span(passed as i64));
        self.screen.draw(&self.state)
    }

    /// Waits for input, a signal, an event, or the next tick. Returns which of the first three have
    /// arrived.
    fn wait(&self) -> (bool, bool, bool) {
        let timeout = if self.decoder.is_pending() {
            PollTimeout::from(ESCAPE_DELAY)
        } else if self.state.shows_time() {
            let next = self.last_draw + TICK;
            let left = next.saturating_sub(clock::monotonic_micros());
            PollTimeout::from(u16::try_from(left.div_ceil(1000)).unwrap_or(u16::MAX))
        } else {
            PollTimeout::NONE
        };
        let (input, signals) = (stdin(), self.signals.as_fd());
        let mut fds = [input.as_fd(), signals, self.wakeups.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        if poll(&mut fds, timeout).is_err() {
            return (false, false, false);
        }
        let [input, signals, events] = fds.map(|fd| fd.any() == Some(true));
        (input, signals, events)
    }

    fn handle_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Snapshot(snapshot) => {
                    self.server_time = (snapshot.server.now, clock::monotonic_micros());
                    self.state.refresh(*snapshot);
                    self.forecasts.is_due = true;
                }
                Event::Offline(why) => self.state.offline = Some(why),
                Event::Done(result) => {
                    if matches!(result, TaskResult::Starts(_)) {
                        self.end_forecast();
                    }
                    self.state.finish(result);
                }
            }
        }
    }

    /// Handles signals. Returns the exit status if a signal ends the program.
    fn handle_signals(&mut self) -> Result<Option<u8>, Failure> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGWINCH) => {
                    self.state.area = screen_area();
                    self.state.scroll_to_selection();
                    self.screen.resize(self.state.area)?;
                }
                Ok(Signal::SIGCONT) => self.resume()?,
                Ok(Signal::SIGTSTP) => self.suspend()?,
                _ => return Ok(Some(128 + signal.ssi_signo as u8)),
            }
        }
        Ok(None)
    }

    /// Restores the terminal and stops the processes of the shell's job. The kernel ignores the
    /// signal if no shell could continue them.
    fn suspend(&mut self) -> Result<(), Failure> {
        self.screen.leave();
        let stop = SigSet::from(Signal::SIGTSTP);
        stop.thread_unblock().map_err(io::Error::from)?;
        let sent = kill(Pid::from_raw(0), Signal::SIGTSTP);
        stop.thread_block().map_err(io::Error::from)?;
        sent.map_err(io::Error::from)?;
        self.resume()
    }

    fn resume(&mut self) -> Result<(), Failure> {
        self.state.area = screen_area();
        self.state.scroll_to_selection();
        Ok(self.screen.renew(self.state.area)?)
    }

    fn start(&self, task: Task) {
        let (home, sender) = (self.home.clone(), self.sender.clone());
        thread::spawn(move || sender.send(Event::Done(task.run(&home))));
    }

    /// Requests the predicted starts if the timeline is displayed, the data have changed, and the
    /// last request was not too recent.
    fn request_forecast(&mut self) {
        let now = clock::monotonic_micros();
        let is_busy = self.forecasts.requested.is_some() || now < self.forecasts.earliest;
        if !self.forecasts.is_due || is_busy || self.state.layout().timeline.is_none() {
            return;
        }
        self.forecasts.is_due = false;
        if self.state.needs_starts() {
            self.forecasts.requested = Some(now);
            self.start(Task::Starts);
        } else {
            self.state.starts.clear();
        }
    }

    fn end_forecast(&mut self) {
        let now = clock::monotonic_micros();
        let requested = self.forecasts.requested.take().unwrap_or(now);
        let pause = (now - requested).saturating_mul(FORECAST_FACTOR);
        self.forecasts.earliest = now + pause.clamp(FORECAST_PAUSE.0, FORECAST_PAUSE.1);
    }
}
