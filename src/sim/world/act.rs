//! Actions of users, and events of nodes and programs, in a world. The server handles the requests
//! of simulated users like the requests of clients.

use super::World;
use super::behavior::JobBehavior;
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

/// A job or an array that a user submits.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The number of the job.
    pub number: u64,
    /// The user.
    pub owner: Owner,
    /// The options of `qsub`.
    pub settings: Vec<AttributeSetting>,
    /// The simulated behavior of the job.
    pub behavior: JobBehavior,
}

/// An action of a user or an operator, or an event in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum WorldAction {
    /// A command on a job, or on only these subjobs of an array.
    Act(Act, JobId, Option<Indices>),
    /// `qorder` swaps the positions of two jobs.
    Swap(JobId, JobId),
    /// A node stops responding.
    NodeDown(String),
    /// A node has booted, and responds again. The boot has ended its jobs.
    NodeUp(String),
    /// An operator marks a node offline; false clears the mark.
    Offline(String, bool),
    /// A node offers this amount of a resource.
    Offer(String, String, String),
    /// A node measures that this amount of a resource is in use.
    Use(String, String, String),
    /// A node reports this load, in thousandths.
    Load(String, u32),
    /// Processes that are not jobs use these GPUs of a node.
    UseGpus(String, Vec<u16>),
    /// A license server reports the total of a system-wide resource, and the amount used outside
    /// Lanai; None means 0.
    ReportTotal(String, String, Option<String>),
    /// `pbs_rsub` requests a reservation.
    Reserve(Box<ReservationRequest>),
    /// `pbs_rdel` deletes a reservation.
    Unreserve(String),
    /// The site's allocation script is called for a job.
    CallScript(JobId),
    /// The allocation script returns these nodes for a job, the best first.
    ScriptResult(JobId, Vec<String>),
    /// The configuration is replaced by a new one.
    Configure(Box<Config>),
    /// A scheduling cycle is requested.
    Cycle,
}

/// The user of an action for which the scenario names no user.
const OPERATOR: &str = "operator";

impl World {
    /// Submits a job or an array.
    pub fn submit(&mut self, submission: Submission) -> Result<JobId, Refusal> {
        let Submission {
            number,
            owner,
            settings,
            behavior,
        } = submission;
        self.users.insert(owner.user.clone(), owner.clone());
        self.server.number_from(number);
        let caller = self.caller(owner);
        // Simulated jobs run no script, so all of them can share one.
        let stored = StoredScript {
            digest: Digest([0; 32]),
            size: 0,
        };
        let request = ClientRequest::Submit(Box::new(message::NewJob {
            token: [0; 16],
            settings,
            payload: Payload::Script(Vec::new()),
            environ: Vec::new(),
            inherited: Vec::new(),
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
        self.behaviors.insert(number, behavior);
        self.notes.insert(id, notes);
        Ok(id)
    }

    /// Performs an action as this user, or as an operator if `user` is None. The error is the text
    /// of the refusal.
    pub fn perform(&mut self, user: Option<&str>, action: &WorldAction) -> Result<(), String> {
        let owner = match user {
            None => account(OPERATOR, 0),
            Some(user) => match self.users.get(user) {
                Some(owner) => owner.clone(),
                None => account(user, u32::MAX - 1),
            },
        };
        let caller = self.caller(owner);
        let result = match request(action) {
            Some(request) => self.send(&caller, action, &request),
            None if caller.privileged || *action == WorldAction::Cycle => {
                self.change_cluster(action)
            }
            None => Err(Refusal::unauthorized().text),
        };
        self.carry_out_orders();
        self.commit();
        result
    }

    /// A user with the rights that the configuration grants. In a personal installation every user
    /// has all rights.
    fn caller(&self, owner: Owner) -> Caller {
        let mut caller = Caller::of(owner, &self.server.setup);
        let is_personal = !self.server.setup.shared;
        caller.privileged |= is_personal;
        caller.manager |= is_personal;
        caller
    }

    /// Sends a request to the server.
    fn send(
        &mut self,
        caller: &Caller,
        action: &WorldAction,
        request: &ClientRequest,
    ) -> Result<(), String> {
        if let WorldAction::Reserve(_) = action {
            self.server.number_from(self.reservations + 1);
        }
        let granted = requests::apply(&mut self.server, &self.history, caller, request, None);
        match (action, granted.map_err(|refusal| refusal.text)?) {
            (WorldAction::Act(Act::Alter(_), id, _), Granted::Altered(_, notes)) => {
                self.notes.insert(*id, notes);
            }
            (WorldAction::Act(Act::Move(_), id, _), Granted::Noted(note)) => {
                self.notes.insert(*id, vec![note]);
            }
            (WorldAction::Act(Act::Move(_), id, _), _) => {
                self.notes.insert(*id, Vec::new());
            }
            (WorldAction::Act(Act::Run { .. }, id, _), _) => {
                self.launch(*id, false);
            }
            (_, Granted::Reserved(_, Some(false))) => {
                let why = self.commit().into_iter().find_map(denial_reason);
                return Err(format!(
                    "the reservation is denied: {}",
                    why.unwrap_or_default()
                ));
            }
            (_, Granted::Reserved(..)) => self.reservations += 1,
            _ => {}
        }
        Ok(())
    }

    /// Performs an action that no client can request.
    fn change_cluster(&mut self, action: &WorldAction) -> Result<(), String> {
        match action {
            WorldAction::NodeDown(name) => self.lose_node(name),
            WorldAction::NodeUp(name) => self.regain_node(name),
            WorldAction::Offer(name, resource, text) => self.offer(name, resource, text),
            WorldAction::Use(name, resource, text) => self.note_use(name, resource, text),
            WorldAction::Load(name, load) => self.change_facts(name, |facts| facts.load = *load),
            WorldAction::UseGpus(name, gpus) => {
                self.change_facts(name, |facts| facts.gpus_outside.clone_from(gpus))
            }
            WorldAction::ReportTotal(name, total, used) => {
                self.report_total(name, total, used.as_deref())
            }
            WorldAction::CallScript(id) => self.call_script(*id),
            WorldAction::ScriptResult(id, nodes) => self.return_nodes(*id, nodes),
            WorldAction::Configure(config) => self.configure(Config::clone(config)),
            _ => {
                self.server.want_cycle(Trigger::Asked);
                Ok(())
            }
        }
    }

    /// A license server reports the total of a resource and the use outside Lanai (Q21).
    fn report_total(&mut self, name: &str, total: &str, used: Option<&str>) -> Result<(), String> {
        let pools = &self.server.setup.config.pools;
        if !pools.iter().any(|(known, _)| known == name) {
            return Err(format!("there is no system-wide resource `{name}`"));
        }
        let amount = |text: &str| {
            let amount = self.value(name, text)?.amount();
            let amount = amount.filter(|amount| *amount >= 0);
            amount.ok_or_else(|| format!("`{text}` is not an amount of `{name}`"))
        };
        let (total, elsewhere) = (Some(amount(total)?), used.map_or(Ok(0), amount)?);
        let reported = ReportedCount {
            total,
            elsewhere,
            at: self.server.now,
            by: "license@sim".to_string(),
        };
        self.server.set_reported(name, Some(reported));
        Ok(())
    }

    /// Simulates a call of the site's allocation script for the class of a job, that is, for all
    /// waiting jobs with equal properties. The jobs of this class then wait for
    /// [`WorldAction::ScriptResult`] (M8i).
    fn call_script(&mut self, job: JobId) -> Result<(), String> {
        let class = self.waiting_class(job)?;
        self.server.note_script_called(class);
        Ok(())
    }

    /// The script returns nodes, the best first. An empty answer, or an answer with a node that is
    /// not a candidate, counts as no answer.
    fn return_nodes(&mut self, job: JobId, nodes: &[String]) -> Result<(), String> {
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
        class.ok_or_else(|| format!("job {job} is not waiting to be started"))
    }
}

/// A user with this number as uid and gid.
fn account(user: &str, number: u32) -> Owner {
    Owner {
        user: user.to_string(),
        uid: number,
        gid: number,
    }
}

/// The client request for an action; None if no client can request it.
fn request(action: &WorldAction) -> Option<ClientRequest> {
    Some(match action.clone() {
        WorldAction::Act(act, job, only) => act.on(job, only),
        WorldAction::Swap(one, other) => ClientRequest::Swap(one, other),
        WorldAction::Offline(node, offline) => ClientRequest::MarkNode {
            node,
            offline: Some(offline),
            comment: None,
        },
        WorldAction::Reserve(request) => ClientRequest::Reserve(request),
        WorldAction::Unreserve(id) => ClientRequest::DeleteReservation(id),
        _ => return None,
    })
}

/// The reason of the denial if this update denies a reservation, else None.
fn denial_reason(update: Update) -> Option<String> {
    match update {
        Update::ReservationEvent(_, _, Happened::Denied(why)) => Some(why),
        _ => None,
    }
}
