//! Connections of processes that request tasks for their job (`pbsdsh`). Such a process connects to
//! a separate socket and proves that it belongs to the job. noded passes the requests of a process
//! to schedd one at a time: it reads the next request when schedd has replied, or after a timeout.
//!
//! noded stores no requests. A process repeats its request until the request is fulfilled, so
//! restarts of noded or schedd lose no requests.

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
use crate::wire::task::{LARGEST, TaskClientMessage, TaskNews, TaskRequest, TaskRequestKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tracing::{debug, warn};

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of connections of a user.
const MAX_CONNECTIONS_PER_USER: usize = 64;
/// Time in which a process must prove that it belongs to its job. Also the time after which noded
/// reads the next request of a process even if schedd has not replied.
const TIMEOUT: Span = Span::seconds(10);
/// Maximum size of a greeting in bytes.
const MAX_GREETING: usize = 4 << 10;
/// Maximum size of a request in bytes, including its program and task tokens.
const MAX_REQUEST: usize = LARGEST + (256 << 10);
/// Maximum size in bytes of replies that a process has not read.
const MAX_BACKLOG: usize = 1 << 20;
/// Maximum number of tasks about which a connection gets news.
const MAX_TOKENS: usize = 3 * crate::model::job::task::MOST;

/// All connected processes.
#[derive(Debug)]
pub struct TaskClients {
    listener: UnixListener,
    path: PathBuf,
    mode: u32,
    state: PathBuf,
    connected: BTreeMap<u64, TaskClient>,
    /// Reports to send to schedd.
    reports: Vec<NodeReport>,
}

#[derive(Debug)]
struct TaskClient {
    link: FrameSocket,
    uid: u32,
    since: Span,
    /// The task that the process has proved to belong to; None before the proof.
    name: Option<AttemptName>,
    /// The process gets news about these tasks.
    tokens: BTreeSet<TaskToken>,
    writing: bool,
    /// When noded passed a request to schedd; None if no reply is outstanding.
    awaits_reply_since: Option<Span>,
}

impl TaskClients {
    /// Listens at `path`. With `others`, accepts processes of other users. `state` is noded's state
    /// directory.
    pub fn open(
        state: &Path,
        path: &Path,
        others: bool,
        poller: &mut Poller,
    ) -> io::Result<TaskClients> {
        let mode = if others { 0o666 } else { 0o600 };
        let listener = socket::bind(path, mode)?;
        poller.add(&listener, PollSource::TaskListener)?;
        let (path, state) = (path.to_path_buf(), state.to_path_buf());
        Ok(TaskClients {
            listener,
            path,
            mode,
            state,
            connected: BTreeMap::new(),
            reports: Vec::new(),
        })
    }

    /// Accepts pending connections.
    pub fn admit(&mut self, poller: &mut Poller) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Err(e) = self.add_client(stream, poller) {
                debug!("refused a connection for task requests: {e}");
            }
        }
    }

    fn add_client(&mut self, stream: UnixStream, poller: &mut Poller) -> io::Result<()> {
        let uid = peer::of(&stream)?.uid();
        let of_user = self
            .connected
            .values()
            .filter(|client| client.uid == uid)
            .count();
        if self.connected.len() >= MAX_CONNECTIONS || of_user >= MAX_CONNECTIONS_PER_USER {
            return Err(io::Error::other(format!(
                "too many connections, of uid {uid} or in total"
            )));
        }
        let link = FrameSocket::new(stream)?;
        let number = poller.number();
        poller.add(&link, PollSource::TaskClient(number))?;
        let since = clock::monotonic();
        let client = TaskClient {
            link,
            uid,
            since,
            name: None,
            tokens: BTreeSet::new(),
            writing: false,
            awaits_reply_since: None,
        };
        self.connected.insert(number, client);
        Ok(())
    }

    /// Reads messages of a process. `reachable` is whether noded can pass requests to schedd.
    pub fn read(&mut self, number: u64, reachable: bool, poller: &mut Poller) {
        while let Some(client) = self.connected.get_mut(&number) {
            let received = client
                .link
                .flush()
                .map_err(FrameError::from)
                .and_then(|()| client.receive());
            match received {
                Ok(messages) => messages
                    .into_iter()
                    .for_each(|message| self.handle(number, message, reachable, poller)),
                Err(e) => return self.close(number, &e, poller),
            }
            if !self
                .connected
                .get(&number)
                .is_some_and(TaskClient::has_unread)
            {
                break;
            }
        }
        self.update_polling(number, poller);
    }

    /// Continues reading from a process after the reply to its request, or after the timeout.
    fn resume_reading(&mut self, number: u64, poller: &mut Poller) {
        self.connected
            .entry(number)
            .and_modify(|client| client.awaits_reply_since = None);
        if self
            .connected
            .get(&number)
            .is_some_and(TaskClient::has_unread)
        {
            self.read(number, true, poller)
        } else {
            self.update_polling(number, poller)
        }
    }

    fn handle(
        &mut self,
        number: u64,
        message: TaskClientMessage,
        reachable: bool,
        poller: &mut Poller,
    ) {
        let Some(client) = self.connected.get_mut(&number) else {
            return;
        };
        match message {
            TaskClientMessage::Hello {
                job,
                attempt,
                task,
                cookie,
            } => {
                let name = AttemptName { job, attempt, task };
                if client.name.is_none() && is_authentic(&self.state, name, &cookie, client.uid) {
                    client.name = Some(name);
                    self.notify(number, &TaskNews::Welcome, poller);
                } else {
                    self.reject(
                        number,
                        format!("this process is not part of job {job} on this node"),
                        poller,
                    )
                }
            }
            TaskClientMessage::Request(request) => match client.name {
                None => self.reject(
                    number,
                    "the first message must be a greeting".into(),
                    poller,
                ),
                // Drop the request, because the process repeats it.
                Some(_) if !reachable => {}
                Some(name) => {
                    client.note_tokens(&request);
                    client.awaits_reply_since = Some(clock::monotonic());
                    let AttemptName { job, attempt, task } = name;
                    self.reports
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

    /// Refuses a message and closes the connection.
    fn reject(&mut self, number: u64, why: String, poller: &mut Poller) {
        self.notify(number, &TaskNews::Refused(why), poller);
        self.close(number, &FrameError::Closed, poller);
    }

    /// Passes news of schedd to the process `client` of an attempt, and then reads the next request
    /// of that process. If `client` is None, passes the news to all processes of the attempt, but
    /// to each process only the stages of tasks that it waits for.
    pub fn send_news(
        &mut self,
        attempt: (JobId, Attempt),
        client: Option<u64>,
        news: &TaskNews,
        poller: &mut Poller,
    ) {
        if let Some(number) = client {
            if self
                .connected
                .get(&number)
                .is_some_and(|c| c.belongs_to(attempt))
            {
                self.notify(number, news, poller);
                self.resume_reading(number, poller);
            }
            return;
        }
        let recipients: Vec<(u64, TaskNews)> = self
            .connected
            .iter()
            .filter(|(_, client)| client.belongs_to(attempt))
            .filter_map(|(&number, client)| Some((number, client.relevant_part(news)?)))
            .collect();
        recipients
            .into_iter()
            .for_each(|(number, news)| self.notify(number, &news, poller));
    }

    /// Notifies all processes that they must repeat their requests. Called for each new connection
    /// of a schedd, because requests and replies may have been lost.
    pub fn request_repetition(&mut self, poller: &mut Poller) {
        let numbers: Vec<u64> = self.connected.keys().copied().collect();
        for number in numbers {
            self.notify(number, &TaskNews::Again, poller);
            self.resume_reading(number, poller);
        }
    }

    /// Closes connections on which no greeting arrived in time, and stops waiting for overdue
    /// replies.
    pub fn expire(&mut self, poller: &mut Poller) {
        let cutoff = Span(clock::monotonic().0 - TIMEOUT.0);
        let slow = self
            .connected
            .iter()
            .filter(|(_, client)| client.name.is_none() && client.since <= cutoff);
        for number in slow.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.close(
                number,
                &FrameError::Io(io::Error::other("no greeting arrived in time")),
                poller,
            );
        }
        let waiting = self.connected.iter().filter(|(_, client)| {
            client
                .awaits_reply_since
                .is_some_and(|since| since <= cutoff)
        });
        for number in waiting.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.resume_reading(number, poller);
        }
    }

    /// When [`TaskClients::expire`] is due next; None if no greeting and no reply is awaited.
    pub fn next(&self) -> Option<Span> {
        let since = self
            .connected
            .values()
            .filter_map(|client| match client.name {
                None => Some(client.since),
                Some(_) => client.awaits_reply_since,
            });
        since.min().map(|since| Span(since.0 + TIMEOUT.0))
    }

    /// Takes the reports for schedd.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    /// Recreates the socket if it is missing.
    pub fn recreate_socket(&mut self, poller: &mut Poller) {
        if self.path.exists() {
            return;
        }
        match socket::bind(&self.path, self.mode) {
            Ok(listener) => {
                poller.remove(&self.listener, PollSource::TaskListener);
                self.listener = listener;
                let _ = poller.add(&self.listener, PollSource::TaskListener);
            }
            Err(e) => warn!(
                "jobs cannot request tasks: cannot listen at {}: {e}",
                self.path.display()
            ),
        }
    }

    fn notify(&mut self, number: u64, news: &TaskNews, poller: &mut Poller) {
        let Some(client) = self.connected.get_mut(&number) else {
            return;
        };
        let sent = client.link.send(news);
        let backlog = client.link.backlog();
        match sent {
            Err(e) => self.close(number, &e, poller),
            Ok(()) if backlog > MAX_BACKLOG => {
                self.close(number, &FrameError::TooLarge(backlog), poller)
            }
            Ok(()) => self.update_polling(number, poller),
        }
    }

    /// Updates how a connection is polled: not at all while a reply of schedd is awaited; otherwise
    /// for reading, and also for writing if there is data to write.
    fn update_polling(&mut self, number: u64, poller: &mut Poller) {
        let Some(client) = self.connected.get_mut(&number) else {
            return;
        };
        let source = PollSource::TaskClient(number);
        if !poller.watches(source) {
            if client.awaits_reply_since.is_none() && poller.add(&client.link, source).is_ok() {
                client.writing = false;
            }
        } else if client.awaits_reply_since.is_some() {
            poller.remove(&client.link, source);
        }
        if poller.watches(source) && client.writing != client.link.wants_write() {
            client.writing = client.link.wants_write();
            poller.want_write(&client.link, source, client.writing);
        }
    }

    fn close(&mut self, number: u64, why: &FrameError, poller: &mut Poller) {
        let Some(mut client) = self.connected.remove(&number) else {
            return;
        };
        match why {
            FrameError::Closed => {}
            // The process did not wait for the reply.
            FrameError::Io(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) => {}
            FrameError::Version { .. } => client.link.send_version(),
            _ => warn!(
                "closed the task connection of a process with uid {}: {why}",
                client.uid
            ),
        }
        if poller.watches(PollSource::TaskClient(number)) {
            poller.remove(&client.link, PollSource::TaskClient(number));
        }
    }
}

impl TaskClient {
    /// Whether the process belongs to the attempt.
    fn belongs_to(&self, (job, attempt): (JobId, Attempt)) -> bool {
        self.name
            .is_some_and(|name| name.job == job && name.attempt == attempt)
    }

    /// The next message, if it has arrived completely. A message that is too large is an error.
    fn receive(&mut self) -> Result<Vec<TaskClientMessage>, FrameError> {
        let messages = self.link.receive_some(1)?;
        let limit = if self.name.is_some() {
            MAX_REQUEST
        } else {
            MAX_GREETING
        };
        // After a complete message, a part of the next message may have arrived. Its size is
        // checked by the next call.
        match self.link.partial() {
            partial if messages.is_empty() && partial > limit => Err(FrameError::TooLarge(partial)),
            _ => Ok(messages),
        }
    }

    /// Whether more data has arrived, and no reply is awaited.
    fn has_unread(&self) -> bool {
        self.awaits_reply_since.is_none() && self.link.has_more()
    }

    /// Adds started and queried tasks to `tokens`, and removes released tasks. If there are more
    /// than [`MAX_TOKENS`] tasks, removes those with the lowest tokens.
    fn note_tokens(&mut self, request: &TaskRequestKind) {
        match request {
            TaskRequestKind::Start(program) => self
                .tokens
                .extend(program.tasks.iter().map(|&(token, _)| token)),
            TaskRequestKind::Ask(tokens) => self.tokens.extend(tokens),
            TaskRequestKind::Release(tokens) => self.tokens.retain(|token| !tokens.contains(token)),
            TaskRequestKind::End(_) => {}
        }
        while self.tokens.len() > MAX_TOKENS {
            self.tokens.pop_first();
        }
    }

    /// The news without the stages of tasks outside `tokens`; None if no stage is left.
    fn relevant_part(&self, news: &TaskNews) -> Option<TaskNews> {
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

/// Whether a process with this uid and cookie belongs to the running attempt `name`.
fn is_authentic(state: &Path, name: AttemptName, cookie: &str, uid: u32) -> bool {
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
    fn a_client_gets_news_of_its_tasks_until_it_releases_them() {
        let (near, _far) = UnixStream::pair().unwrap();
        let link = FrameSocket::new(near).unwrap();
        let mut client = TaskClient {
            link,
            uid: 1,
            since: Span(0),
            name: None,
            tokens: BTreeSet::new(),
            writing: false,
            awaits_reply_since: None,
        };
        let stages = |tokens: &[TaskToken]| {
            TaskNews::Stages(
                tokens
                    .iter()
                    .map(|&token| (token, TaskStage::Running))
                    .collect(),
            )
        };
        assert_eq!(client.relevant_part(&stages(&[1])), None);
        client.note_tokens(&TaskRequestKind::Ask(vec![1, 2]));
        assert_eq!(client.relevant_part(&stages(&[3, 2])), Some(stages(&[2])));
        client.note_tokens(&TaskRequestKind::Release(vec![2]));
        assert_eq!(client.relevant_part(&stages(&[3, 2])), None);
        client.note_tokens(&TaskRequestKind::Ask((0..100_000).collect()));
        assert_eq!(client.tokens.len(), MAX_TOKENS);
    }
}
