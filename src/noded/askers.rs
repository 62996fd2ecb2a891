//! Processes of jobs that request tasks (`pbsdsh`): they connect to a separate socket and prove
//! their job, and their requests are passed to schedd, one at a time per process.
//!
//! noded stores no request. The process repeats its request until it is fulfilled, so restarts of
//! noded or schedd lose none.

use super::folder::{AttemptName, Folder};
use super::poller::{PollSource, Poller};
use crate::model::job::Attempt;
use crate::model::job::task::TaskToken;
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::sys::{clock, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::order::NodeReport;
use crate::wire::peer;
use crate::wire::task::{LARGEST, Plea, TaskNews, TaskRequest, TaskRequestKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tracing::{debug, warn};

/// Maximum number of connections, in total and per user.
const MOST: usize = 512;
const MOST_OF_ONE: usize = 64;
/// Time limit for a process to prove its job, and for schedd to answer a request before the next is
/// read.
const PATIENCE: Span = Span::seconds(10);
/// Maximum size in bytes of messages before the proof, and after it: a request with its task names.
const FIRST_WORDS: usize = 4 << 10;
const MOST_WORDS: usize = LARGEST + (256 << 10);
/// Maximum size of unread replies in bytes.
const BACKLOG: usize = 1 << 20;
/// Maximum number of tasks that a connection may wait for.
const MOST_TOKENS: usize = 3 * crate::model::job::task::MOST;

/// All connected processes.
#[derive(Debug)]
pub struct Askers {
    listener: UnixListener,
    path: PathBuf,
    mode: u32,
    state: PathBuf,
    connected: BTreeMap<u64, TaskClient>,
    /// Reports to send to schedd.
    said: Vec<NodeReport>,
}

#[derive(Debug)]
struct TaskClient {
    link: FrameSocket,
    uid: u32,
    since: Span,
    /// The process and its attempt, once proven.
    name: Option<AttemptName>,
    tokens: BTreeSet<TaskToken>,
    writing: bool,
    /// When its request was passed to schedd; no other is read until the answer.
    waits: Option<Span>,
}

impl Askers {
    /// Listens in noded's state directory; with `others`, for processes of other users too.
    pub fn open(
        state: &Path,
        path: &Path,
        others: bool,
        poller: &mut Poller,
    ) -> io::Result<Askers> {
        let mode = if others { 0o666 } else { 0o600 };
        let listener = socket::bind(path, mode)?;
        poller.add(&listener, PollSource::AskerListener)?;
        let (path, state) = (path.to_path_buf(), state.to_path_buf());
        Ok(Askers {
            listener,
            path,
            mode,
            state,
            connected: BTreeMap::new(),
            said: Vec::new(),
        })
    }

    /// Accepts pending connections.
    pub fn admit(&mut self, poller: &mut Poller) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Err(e) = self.take_in(stream, poller) {
                debug!("a process that wants tasks was refused: {e}");
            }
        }
    }

    fn take_in(&mut self, stream: UnixStream, poller: &mut Poller) -> io::Result<()> {
        let uid = peer::of(&stream)?.uid();
        let of_one = self
            .connected
            .values()
            .filter(|asker| asker.uid == uid)
            .count();
        if self.connected.len() >= MOST || of_one >= MOST_OF_ONE {
            return Err(io::Error::other(format!(
                "too many connections of user {uid}, or of all"
            )));
        }
        let link = FrameSocket::new(stream)?;
        let number = poller.number();
        poller.add(&link, PollSource::Asker(number))?;
        let since = clock::monotonic();
        let asker = TaskClient {
            link,
            uid,
            since,
            name: None,
            tokens: BTreeSet::new(),
            writing: false,
            waits: None,
        };
        self.connected.insert(number, asker);
        Ok(())
    }

    /// Reads from a process. `reachable` is whether a schedd is connected.
    pub fn hear(&mut self, number: u64, reachable: bool, poller: &mut Poller) {
        while let Some(asker) = self.connected.get_mut(&number) {
            let heard = asker
                .link
                .flush()
                .map_err(FrameError::from)
                .and_then(|()| asker.hear());
            match heard {
                Ok(pleas) => pleas
                    .into_iter()
                    .for_each(|plea| self.take(number, plea, reachable, poller)),
                Err(e) => return self.close(number, &e, poller),
            }
            if !self
                .connected
                .get(&number)
                .is_some_and(TaskClient::may_go_on)
            {
                break;
            }
        }
        self.watch(number, poller);
    }

    /// Continues reading after a request was answered or timed out.
    fn go_on(&mut self, number: u64, poller: &mut Poller) {
        self.connected
            .entry(number)
            .and_modify(|asker| asker.waits = None);
        if self
            .connected
            .get(&number)
            .is_some_and(TaskClient::may_go_on)
        {
            self.hear(number, true, poller)
        } else {
            self.watch(number, poller)
        }
    }

    fn take(&mut self, number: u64, plea: Plea, reachable: bool, poller: &mut Poller) {
        let Some(asker) = self.connected.get_mut(&number) else {
            return;
        };
        match plea {
            Plea::Hello {
                job,
                attempt,
                task,
                cookie,
            } => {
                let name = AttemptName { job, attempt, task };
                if asker.name.is_none() && proved(&self.state, name, &cookie, asker.uid) {
                    asker.name = Some(name);
                    self.say(number, &TaskNews::Welcome, poller);
                } else {
                    self.dismiss(
                        number,
                        format!("this process is not part of job {job} on this node"),
                        poller,
                    )
                }
            }
            Plea::Request(request) => match asker.name {
                None => self.dismiss(number, "a wish before a greeting".into(), poller),
                // Dropped: the process repeats it.
                Some(_) if !reachable => {}
                Some(name) => {
                    asker.note(&request);
                    asker.waits = Some(clock::monotonic());
                    let AttemptName { job, attempt, task } = name;
                    self.said
                        .push(NodeReport::TaskRequest(Box::new(TaskRequest {
                            job,
                            attempt,
                            task,
                            asker: number,
                            kind: request,
                        })));
                }
            },
        }
    }

    /// Closes a connection with a reason.
    fn dismiss(&mut self, number: u64, why: String, poller: &mut Poller) {
        self.say(number, &TaskNews::Refused(why), poller);
        self.close(number, &FrameError::Closed, poller);
    }

    /// Passes news of schedd to the processes of an attempt.
    pub fn tell(
        &mut self,
        attempt: (JobId, Attempt),
        asker: Option<u64>,
        news: &TaskNews,
        poller: &mut Poller,
    ) {
        if let Some(number) = asker {
            if self
                .connected
                .get(&number)
                .is_some_and(|c| c.is_of(attempt))
            {
                self.say(number, news, poller);
                self.go_on(number, poller);
            }
            return;
        }
        let told: Vec<(u64, TaskNews)> = self
            .connected
            .iter()
            .filter(|(_, asker)| asker.is_of(attempt))
            .filter_map(|(&number, asker)| Some((number, asker.part_of(news)?)))
            .collect();
        told.into_iter()
            .for_each(|(number, news)| self.say(number, &news, poller));
    }

    /// Makes processes repeat their requests after schedd was lost: requests and answers may be
    /// lost.
    pub fn again(&mut self, poller: &mut Poller) {
        let numbers: Vec<u64> = self.connected.keys().copied().collect();
        for number in numbers {
            self.say(number, &TaskNews::Again, poller);
            self.go_on(number, poller);
        }
    }

    /// Closes connections without a proof in time, and ends waits for overdue answers.
    pub fn expire(&mut self, poller: &mut Poller) {
        let long_ago = Span(clock::monotonic().0 - PATIENCE.0);
        let slow = self
            .connected
            .iter()
            .filter(|(_, asker)| asker.name.is_none() && asker.since <= long_ago);
        for number in slow.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.close(
                number,
                &FrameError::Io(io::Error::other("it did not say who it is")),
                poller,
            );
        }
        let waiting = self
            .connected
            .iter()
            .filter(|(_, asker)| asker.waits.is_some_and(|since| since <= long_ago));
        for number in waiting.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.go_on(number, poller);
        }
    }

    /// When [`Askers::expire`] is due next.
    pub fn next(&self) -> Option<Span> {
        let since = self
            .connected
            .values()
            .filter_map(|asker| match asker.name {
                None => Some(asker.since),
                Some(_) => asker.waits,
            });
        since.min().map(|since| Span(since.0 + PATIENCE.0))
    }

    /// Takes the reports for schedd.
    pub fn said(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.said)
    }

    /// Listens again if the socket has vanished.
    pub fn listen_again(&mut self, poller: &mut Poller) {
        if self.path.exists() {
            return;
        }
        match socket::bind(&self.path, self.mode) {
            Ok(listener) => {
                poller.remove(&self.listener, PollSource::AskerListener);
                self.listener = listener;
                let _ = poller.add(&self.listener, PollSource::AskerListener);
            }
            Err(e) => warn!("jobs cannot ask for tasks at {}: {e}", self.path.display()),
        }
    }

    fn say(&mut self, number: u64, news: &TaskNews, poller: &mut Poller) {
        let Some(asker) = self.connected.get_mut(&number) else {
            return;
        };
        let sent = asker.link.send(news);
        let backlog = asker.link.backlog();
        match sent {
            Err(e) => self.close(number, &e, poller),
            Ok(()) if backlog > BACKLOG => {
                self.close(number, &FrameError::TooLarge(backlog), poller)
            }
            Ok(()) => self.watch(number, poller),
        }
    }

    /// Updates the polling of a connection: for writing if there is data to write, and not at all
    /// while its request is with schedd.
    fn watch(&mut self, number: u64, poller: &mut Poller) {
        let Some(asker) = self.connected.get_mut(&number) else {
            return;
        };
        let source = PollSource::Asker(number);
        if !poller.watches(source) {
            if asker.waits.is_none() && poller.add(&asker.link, source).is_ok() {
                asker.writing = false;
            }
        } else if asker.waits.is_some() {
            poller.remove(&asker.link, source);
        }
        if poller.watches(source) && asker.writing != asker.link.wants_write() {
            asker.writing = asker.link.wants_write();
            poller.want_write(&asker.link, source, asker.writing);
        }
    }

    fn close(&mut self, number: u64, why: &FrameError, poller: &mut Poller) {
        let Some(mut asker) = self.connected.remove(&number) else {
            return;
        };
        match why {
            FrameError::Closed => {}
            // The process did not wait for the answer.
            FrameError::Io(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) => {}
            FrameError::Version { .. } => asker.link.send_version(),
            _ => warn!(
                "a process of user {} that wants tasks is cut off: {why}",
                asker.uid
            ),
        }
        if poller.watches(PollSource::Asker(number)) {
            poller.remove(&asker.link, PollSource::Asker(number));
        }
    }
}

impl TaskClient {
    /// Whether the process belongs to this attempt.
    fn is_of(&self, (job, attempt): (JobId, Attempt)) -> bool {
        self.name
            .is_some_and(|name| name.job == job && name.attempt == attempt)
    }

    /// The next message, if it has arrived completely.
    fn hear(&mut self) -> Result<Vec<Plea>, FrameError> {
        let pleas = self.link.receive_some(1)?;
        let most = if self.name.is_some() {
            MOST_WORDS
        } else {
            FIRST_WORDS
        };
        // The next message may have arrived partially with it.
        match self.link.partial() {
            partial if pleas.is_empty() && partial > most => Err(FrameError::TooLarge(partial)),
            _ => Ok(pleas),
        }
    }

    /// Whether more messages have arrived and may be read.
    fn may_go_on(&self) -> bool {
        self.waits.is_none() && self.link.has_more()
    }

    /// Records the tasks that it waits for.
    fn note(&mut self, request: &TaskRequestKind) {
        match request {
            TaskRequestKind::Start(program) => self
                .tokens
                .extend(program.tasks.iter().map(|&(token, _)| token)),
            TaskRequestKind::Ask(tokens) => self.tokens.extend(tokens),
            TaskRequestKind::Release(tokens) => self.tokens.retain(|token| !tokens.contains(token)),
            TaskRequestKind::End(_) => {}
        }
        while self.tokens.len() > MOST_TOKENS {
            self.tokens.pop_first();
        }
    }

    /// The part of the news about tasks that it waits for.
    fn part_of(&self, news: &TaskNews) -> Option<TaskNews> {
        let TaskNews::Stages(stages) = news else {
            return Some(news.clone());
        };
        let own: Vec<_> = stages
            .iter()
            .filter(|(token, _)| self.tokens.contains(token))
            .copied()
            .collect();
        (!own.is_empty()).then_some(TaskNews::Stages(own))
    }
}

/// Whether a process of user `uid` with this cookie belongs to the running attempt of that name.
fn proved(state: &Path, name: AttemptName, cookie: &str, uid: u32) -> bool {
    let folder = Folder::of(state, name);
    let same = folder
        .identity()
        .is_ok_and(|identity| identity.uid == uid && identity.cookie == cookie);
    same && matches!(folder.outcome(), Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::task::TaskStage;

    #[test]
    fn one_hears_of_the_tasks_it_has_asked_for_until_it_lets_them_go() {
        let (near, _far) = UnixStream::pair().unwrap();
        let link = FrameSocket::new(near).unwrap();
        let mut asker = TaskClient {
            link,
            uid: 1,
            since: Span(0),
            name: None,
            tokens: BTreeSet::new(),
            writing: false,
            waits: None,
        };
        let stages = |tokens: &[TaskToken]| {
            TaskNews::Stages(
                tokens
                    .iter()
                    .map(|&token| (token, TaskStage::Running))
                    .collect(),
            )
        };
        assert_eq!(asker.part_of(&stages(&[1])), None);
        asker.note(&TaskRequestKind::Ask(vec![1, 2]));
        assert_eq!(asker.part_of(&stages(&[3, 2])), Some(stages(&[2])));
        asker.note(&TaskRequestKind::Release(vec![2]));
        assert_eq!(asker.part_of(&stages(&[3, 2])), None);
        asker.note(&TaskRequestKind::Ask((0..100_000).collect()));
        assert_eq!(asker.tokens.len(), MOST_TOKENS);
    }
}
