//! What users and machines do to a world. Requests go to the server as those of clients do.

use super::World;
use super::fate::Fate;
use crate::config::Config;
use crate::model::attribute::AttributeSetting;
use crate::model::job::array::Indices;
use crate::model::job::{Digest, Owner};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::reservation::Happened;
use crate::model::reservation::request::ReservationRequest;
use crate::model::system_resource::ReportedCount;
use crate::model::text::Text;
use crate::model::trigger::Trigger;
use crate::sched::view::snapshot::ClassId;
use crate::server::caller::Caller;
use crate::server::granted::Granted;
use crate::server::requests;
use crate::update::Update;
use crate::wire::batch::Act;
use crate::wire::message::{self, ClientRequest, Payload, StoredScript};
use std::sync::Arc;

/// What a user submits.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The number of the job.
    pub number: u64,
    /// The user.
    pub owner: Owner,
    /// The options of `qsub`.
    pub settings: Vec<AttributeSetting>,
    /// What the job will do.
    pub fate: Fate,
}

/// Something done.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// What a command does to a job, or to these subjobs of an array only.
    Act(Act, JobId, Option<Indices>),
    /// `qorder`.
    Swap(JobId, JobId),
    /// A node stops responding.
    NodeDown(String),
    /// It was booted, and responds.
    NodeUp(String),
    /// An operator takes a node out of service, or puts it back for false.
    Offline(String, bool),
    /// A node offers this much of a resource.
    Offer(String, String, String),
    /// So much of a resource of a node is really in use.
    Use(String, String, String),
    /// The load of a node, in thousandths.
    Load(String, u32),
    /// Processes outside the queue use these GPUs of a node.
    UseGpus(String, Vec<u16>),
    /// There is so much of a resource of the whole system, and so much of it used elsewhere.
    Tell(String, String, Option<String>),
    /// `pbs_rsub`.
    Reserve(Box<ReservationRequest>),
    /// `pbs_rdel`.
    Unreserve(String),
    /// The site's program is asked about a job.
    AskProgram(JobId),
    /// It has named these nodes for it, the best first.
    HearProgram(JobId, Vec<String>),
    /// Another `lanai.toml`.
    Configure(Box<Config>),
    /// The scheduler looks.
    Cycle,
}

/// The user that acts where a scenario names none.
const OPERATOR: &str = "operator";

impl World {
    /// Submits a job or an array.
    pub fn submit(&mut self, submission: Submission) -> Result<JobId, Refusal> {
        let Submission {
            number,
            owner,
            settings,
            fate,
        } = submission;
        self.users.insert(owner.user.clone(), owner.clone());
        self.server.number_from(number);
        let caller = self.caller(owner);
        // Nothing really runs: one script stands for all.
        let stored = StoredScript {
            digest: Digest([0; 32]),
            size: 0,
        };
        let request = ClientRequest::Submit(Box::new(message::NewJob {
            token: [0; 16],
            settings,
            payload: Payload::Script(Vec::new()),
            environ: Vec::new(),
            workdir: Text::from("/"),
            submit_host: self.server.setup.host.clone(),
            arguments: Text::default(),
            defaults: String::new(),
            stored: Some(Arc::new(stored)),
        }));
        let granted = requests::apply(&mut self.server, &self.history, &caller, &request, None);
        self.commit();
        let Granted::Job(id, notes) = granted? else {
            return Err(Refusal::invalid_request());
        };
        self.fates.insert(number, fate);
        self.notes.insert(id, notes);
        Ok(id)
    }

    /// Does something as this user, else as an operator. The error says why it was refused.
    pub fn act(&mut self, user: Option<&str>, deed: &Deed) -> Result<(), String> {
        let owner = match user {
            None => account(OPERATOR, 0),
            Some(user) => match self.users.get(user) {
                Some(owner) => owner.clone(),
                None => account(user, u32::MAX - 1),
            },
        };
        let caller = self.caller(owner);
        let result = match request(deed) {
            Some(request) => self.ask(&caller, deed, &request),
            None if caller.privileged || *deed == Deed::Cycle => self.happen_to_machine(deed),
            None => Err(Refusal::unauthorized().text),
        };
        self.obey();
        self.commit();
        result
    }

    /// A user with the rights that the configuration grants. All users of a personal installation
    /// are its one user.
    fn caller(&self, owner: Owner) -> Caller {
        let mut caller = Caller::of(owner, &self.server.setup);
        let is_personal = !self.server.setup.shared;
        caller.privileged |= is_personal;
        caller.manager |= is_personal;
        caller
    }

    /// Sends a request to the server.
    fn ask(&mut self, caller: &Caller, deed: &Deed, request: &ClientRequest) -> Result<(), String> {
        if let Deed::Reserve(_) = deed {
            self.server.number_from(self.reservations + 1);
        }
        let granted = requests::apply(&mut self.server, &self.history, caller, request, None);
        match (deed, granted.map_err(|refusal| refusal.text)?) {
            (Deed::Act(Act::Alter(_), id, _), Granted::Altered(_, notes)) => {
                self.notes.insert(*id, notes);
            }
            (Deed::Act(Act::Move(_), id, _), Granted::Noted(note)) => {
                self.notes.insert(*id, vec![note]);
            }
            (Deed::Act(Act::Move(_), id, _), _) => {
                self.notes.insert(*id, Vec::new());
            }
            (Deed::Act(Act::Run { .. }, id, _), _) => {
                self.launch(*id, false);
            }
            (_, Granted::Reserved(_, Some(false))) => {
                let why = self.commit().into_iter().find_map(denial);
                return Err(format!("it cannot be had: {}", why.unwrap_or_default()));
            }
            (_, Granted::Reserved(..)) => self.reservations += 1,
            _ => {}
        }
        Ok(())
    }

    /// What no client requests.
    fn happen_to_machine(&mut self, deed: &Deed) -> Result<(), String> {
        match deed {
            Deed::NodeDown(name) => self.lose_node(name),
            Deed::NodeUp(name) => self.regain_node(name),
            Deed::Offer(name, resource, text) => self.offer(name, resource, text),
            Deed::Use(name, resource, text) => self.note_use(name, resource, text),
            Deed::Load(name, load) => self.change_facts(name, |facts| facts.load = *load),
            Deed::UseGpus(name, gpus) => {
                self.change_facts(name, |facts| facts.gpus_outside.clone_from(gpus))
            }
            Deed::Tell(name, total, used) => self.tell(name, total, used.as_deref()),
            Deed::AskProgram(id) => self.ask_program(*id),
            Deed::HearProgram(id, nodes) => self.hear_program(*id, nodes),
            Deed::Configure(config) => self.configure(Config::clone(config)),
            _ => {
                self.server.want_cycle(Trigger::Asked);
                Ok(())
            }
        }
    }

    /// A license server reports how much there is of a resource, and how much others use (Q21).
    fn tell(&mut self, name: &str, total: &str, used: Option<&str>) -> Result<(), String> {
        let pools = &self.server.setup.config.pools;
        if !pools.iter().any(|(known, _)| known == name) {
            return Err(format!("the whole system has no `{name}`"));
        }
        let amount = |text: &str| {
            let amount = self.value(name, text)?.amount();
            let amount = amount.filter(|amount| *amount >= 0);
            amount.ok_or_else(|| format!("`{text}` is no amount of `{name}`"))
        };
        let (total, elsewhere) = (Some(amount(total)?), used.map_or(Ok(0), amount)?);
        let reported = ReportedCount {
            total,
            elsewhere,
            at: self.server.now,
            by: "license@sim".to_string(),
        };
        self.server.tell(name, Some(reported));
        Ok(())
    }

    /// The allocation script of the site is asked about a job and those alike: they wait for its
    /// answer (M8i).
    fn ask_program(&mut self, job: JobId) -> Result<(), String> {
        let class = self.waiting_class(job)?;
        self.server.note_asked(class);
        Ok(())
    }

    /// The script names nodes, the best first. An answer with a node that is no candidate counts as
    /// none.
    fn hear_program(&mut self, job: JobId, nodes: &[String]) -> Result<(), String> {
        let class = self.waiting_class(job)?;
        let candidates = self.server.cluster().candidates(class);
        let is_good =
            !nodes.is_empty() && nodes.iter().all(|name| candidates.contains(&name.as_str()));
        let answer = is_good.then(|| nodes.to_vec());
        self.server.note_answer(class, answer);
        Ok(())
    }

    fn waiting_class(&self, job: JobId) -> Result<ClassId, String> {
        let class = self.server.cluster().class_of(job);
        class.ok_or_else(|| format!("job {job} does not wait to be started"))
    }
}

/// A user whose group has the same number.
fn account(user: &str, number: u32) -> Owner {
    Owner {
        user: user.to_string(),
        uid: number,
        gid: number,
    }
}

/// The request that a client sends for this; None for what no client requests.
fn request(deed: &Deed) -> Option<ClientRequest> {
    Some(match deed.clone() {
        Deed::Act(act, job, only) => act.on(job, only),
        Deed::Swap(one, other) => ClientRequest::Swap(one, other),
        Deed::Offline(node, offline) => ClientRequest::MarkNode {
            node,
            offline: Some(offline),
            comment: None,
        },
        Deed::Reserve(request) => ClientRequest::Reserve(request),
        Deed::Unreserve(id) => ClientRequest::DeleteReservation(id),
        _ => return None,
    })
}

/// Why a reservation was denied, if this update says so.
fn denial(update: Update) -> Option<String> {
    match update {
        Update::ReservationEvent(_, _, Happened::Denied(why)) => Some(why),
        _ => None,
    }
}
