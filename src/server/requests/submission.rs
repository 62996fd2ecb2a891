//! `qsub`: validates a submission and adds the job.

use crate::model::attribute;
use crate::model::attribute::AttributeSetting;
use crate::model::attribute::Context;
use crate::model::attribute::Draft;
use crate::model::attribute::Rights;
use crate::model::attribute::SubmitContext;
use crate::model::job::Digest;
use crate::model::job::Job;
use crate::model::job::JobProgram;
use crate::model::job::Life;
use crate::model::job::Owner;
use crate::model::job::Spec;
use crate::model::job::dependency::ParsedDependency;
use crate::model::job::dependency::effects;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::staging::transfers;
use crate::model::job::state::JobState;
use crate::model::job::value_syntax::for_host;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::server_name;
use crate::server::dependencies::grant::DependencyRequest;
use crate::server::granted::Granted;
use crate::server::request_context::RequestContext;
use crate::server::request_context::is_member;
use crate::update::Update;
use crate::wire::message::NewJob;
use crate::wire::message::Payload;
use std::sync::Arc;

impl RequestContext<'_> {
    /// Adds a job, or repeats the reply to an earlier submission with the same token.
    pub(crate) fn submit(&mut self, submission: &NewJob) -> Result<Granted, Refusal> {
        let owner = self.job_owner()?;
        if let Some(granted) = self.earlier_submission(submission.token)? {
            return Ok(granted);
        }
        let (draft, dependencies, _) = self.validated(&owner, submission)?;
        if let (None, Payload::Script(text)) = (&submission.stored, &submission.payload) {
            self.store(text);
        }
        let environ = self.store(&with_queue(
            &submission.environ,
            &self.requested_queue(submission),
        ));
        let elements = self.new_subjobs(&draft.spec)?;
        let id = self.server.take_number(elements.is_some());
        self.server.add_update(Update::Token(
            owner.uid,
            submission.token,
            id,
            self.server.now,
        ));
        let mut life = Life::new(draft.holds, draft.run_count, self.server.now);
        life.comment = draft.comment;
        life.bars = dependencies.bars();
        life.awaits = dependencies.labels.clone();
        draft
            .eligible_time
            .into_iter()
            .for_each(|time| life.eligibility.set(time, self.server.now));
        self.server.insert(Job {
            id,
            owner,
            spec: Arc::new(Spec {
                environ,
                ..draft.spec
            }),
            life,
            elements,
        });
        effects::bind(self.server, id, &dependencies, false);
        Ok(Granted::Job(id, draft.notes))
    }

    /// Validates a submission, and checks that its job can ever run. Returns the draft, the
    /// dependencies, and the job with the number that it would get.
    pub(crate) fn validated(
        &mut self,
        owner: &Owner,
        submission: &NewJob,
    ) -> Result<(Draft, JobDependencies, Job), Refusal> {
        let (draft, dependencies) = self.draft(owner, submission)?;
        let job = Job {
            id: JobId::job(self.server.next_number()),
            owner: owner.clone(),
            spec: Arc::new(draft.spec.clone()),
            life: Life::new(draft.holds, draft.run_count, self.server.now),
            elements: None,
        };
        self.server.refuse_impossible(&job)?;
        Ok((draft, dependencies, job))
    }

    /// Validates a submission. Returns the draft of its job, and the dependencies.
    pub(crate) fn draft(
        &self,
        owner: &Owner,
        submission: &NewJob,
    ) -> Result<(Draft, JobDependencies), Refusal> {
        let origin = self.origin(submission)?;
        let is_member = |group: &str| is_member(&self.server.setup, owner, group);
        let mut draft = attribute::submit(
            &submission.settings,
            origin,
            &self.context(owner, false, &is_member),
        )?;
        self.grant_group(owner, None, &draft.spec)?;
        self.check_hosts(None, &draft.spec)?;
        self.add_named_dependencies(owner, &mut draft);
        let mut dependencies = self.dependencies(None, &draft.depend)?;
        dependencies.labels =
            self.unmet_labels(None, (owner, &draft.spec), &draft.depend.labels)?;
        self.refuse_label_circles(None, (owner, &draft.spec), &dependencies)?;
        let is_held = !draft.holds.is_none() || !dependencies.bars().are_open();
        let is_early = draft
            .spec
            .begin
            .is_some_and(|begin| begin > self.server.wall());
        let state = if is_held {
            JobState::Held
        } else if is_early {
            JobState::Waiting
        } else {
            JobState::Queued
        };
        let entered = self.enter(owner, &draft.spec, state)?;
        draft.spec = entered.spec;
        draft.notes.extend(entered.notes);
        Ok((draft, dependencies))
    }

    /// The value of `PBS_O_QUEUE`, the queue before routing: the queue that a submission names, or
    /// else the default queue.
    fn requested_queue(&self, submission: &NewJob) -> String {
        let setup = &self.server.setup;
        let named = submission
            .settings
            .iter()
            .rev()
            .find(|setting| setting.attribute == "queue");
        let queue =
            named.and_then(|named| attribute::destination(&named.value.lossy(), &setup.name).ok());
        queue
            .filter(|queue| !queue.is_empty())
            .unwrap_or_else(|| setup.config.server.default_queue.clone())
    }

    /// Resolves requested dependencies. `job` is None for a job that is being submitted.
    pub(crate) fn dependencies(
        &self,
        job: Option<JobId>,
        dependency: &ParsedDependency,
    ) -> Result<JobDependencies, Refusal> {
        if dependency.is_empty() {
            Ok(JobDependencies::default())
        } else {
            DependencyRequest {
                server: self.server,
                history: self.history,
                caller: self.caller,
                job,
            }
            .grant(dependency)
        }
    }

    /// The job of an earlier submission with this token, whether that submission is stored yet or
    /// not.
    pub(crate) fn earlier_submission(&self, token: [u8; 16]) -> Result<Option<Granted>, Refusal> {
        let uid = self.caller.owner.uid;
        let found = match self.server.recorded(uid, token) {
            Some(id) => Some(id),
            None => self.history.submitted(uid, token)?,
        };
        Ok(found.map(|id| Granted::Job(id, Vec::new())))
    }

    /// The caller as the owner of a new job. A shared installation refuses root, and accounts with
    /// a uid below `min_uid`.
    pub(crate) fn job_owner(&self) -> Result<Owner, Refusal> {
        let owner = self.caller.owner.clone();
        let setup = &self.server.setup;
        let lowest = setup.config.server.min_uid.max(1);
        if setup.shared && owner.uid < lowest {
            Err(Refusal::bad_uid().with_remedy(format!(
                "user {} has uid {}, and jobs need a uid of at least {lowest} (min_uid in \
                 [server]): submit as another user",
                owner.user, owner.uid
            )))
        } else {
            Ok(owner)
        }
    }

    fn origin(&self, submission: &NewJob) -> Result<SubmitContext, Refusal> {
        check_size(submission)?;
        let most = self.server.setup.config.server.jobscript_max_size.bytes();
        if !is_working_directory(&submission.workdir.0) {
            return Err(Refusal::illegal_value("PBS_O_WORKDIR"));
        }
        if submission
            .script_size()
            .is_some_and(|size| size as u64 > most)
        {
            return Err(Refusal::script_too_large());
        }
        let program = match (&submission.stored, &submission.payload) {
            (Some(stored), _) => JobProgram::Script(stored.digest),
            (None, Payload::Command(words)) if words.is_empty() => {
                return Err(Refusal::invalid_request());
            }
            (None, Payload::Command(words)) => JobProgram::Command(words.clone()),
            (None, Payload::Script(text)) => JobProgram::Script(Digest::of(text)),
        };
        Ok(SubmitContext {
            program,
            environ: Digest::of(&submission.environ),
            workdir: submission.workdir.clone(),
            submit_host: submission.submit_host.clone(),
            arguments: submission.arguments.clone(),
        })
    }

    pub(crate) fn context<'a>(
        &'a self,
        owner: &'a Owner,
        running: bool,
        is_member: &'a dyn Fn(&str) -> bool,
    ) -> Context<'a> {
        let setup = &self.server.setup;
        Context {
            resources: &setup.resources,
            rights: Rights {
                privileged: self.caller.privileged,
                running,
            },
            owner: &owner.user,
            server: &setup.name,
            default_queue: Some(&setup.config.server.default_queue),
            policy: &setup.policy,
            is_member,
        }
    }

    /// Refuses a group of which the owner is not a member. `before` is the spec before an
    /// alteration; None for a new job.
    pub(crate) fn grant_group(
        &self,
        owner: &Owner,
        before: Option<&Spec>,
        after: &Spec,
    ) -> Result<(), Refusal> {
        let setup = &self.server.setup;
        let Some(list) = changed_text(before, after, "group_list") else {
            return Ok(());
        };
        let Some(name) = for_host(list.as_bytes(), &setup.host) else {
            return Ok(());
        };
        let accounts = &setup.installation.accounts;
        let gid = accounts
            .membership(owner, &String::from_utf8_lossy(name))?
            .ok_or_else(Refusal::bad_gid)?;
        // In a personal installation noded runs as the user, and cannot change to every group.
        if setup.shared || accounts.may_set_group(gid) {
            Ok(())
        } else {
            Err(Refusal::bad_gid())
        }
    }

    /// Refuses stage-in from and stage-out to hosts other than this host and hosts with a node.
    pub(crate) fn check_hosts(&self, before: Option<&Spec>, after: &Spec) -> Result<(), Refusal> {
        let setup = &self.server.setup;
        let known = |host: &str| {
            let short = host.split('.').next().unwrap_or_default();
            let is = |name: &str| server_name::same_server(name, short);
            short == "localhost"
                || is(&setup.host)
                || self.server.nodes().any(|node| is(&node.facts.host))
        };
        for name in ["stagein", "stageout"] {
            let list = changed_text(before, after, name)
                .and_then(transfers)
                .unwrap_or_default();
            if let Some(transfer) = list.iter().find(|transfer| !known(&transfer.host)) {
                return Err(Refusal::other_host(name, &transfer.host));
            }
        }
        Ok(())
    }
}

/// The value of an attribute, if it differs from the value before the alteration.
fn changed_text<'a>(before: Option<&Spec>, after: &'a Spec, name: &str) -> Option<&'a str> {
    let text = after.other.get(name)?;
    let known = before.and_then(|spec| spec.other.get(name));
    (known != Some(text)).then_some(text.as_str())
}

/// Maximum length of a path with its final NUL, in bytes: `PATH_MAX` of Linux.
const MAX_PATH: usize = 4096;

/// Whether a path can be a working directory: absolute and valid for the kernel.
fn is_working_directory(path: &[u8]) -> bool {
    path.starts_with(b"/") && path.len() < MAX_PATH && !path.contains(&0)
}

/// Maximum size of a job's environment, in bytes.
const MAX_ENVIRON: usize = 1 << 20;
/// Maximum size of a job without its script and environment, in bytes. This part is kept in memory.
pub(crate) const LARGEST_REST: usize = 256 << 10;

/// Refuses oversized submissions, which would use memory and disk space that all users share.
fn check_size(submission: &NewJob) -> Result<(), Refusal> {
    if submission.environ.len() > MAX_ENVIRON {
        return Err(Refusal::too_large("an environment", MAX_ENVIRON));
    }
    // Even empty words and settings use memory.
    let words = match &submission.payload {
        Payload::Command(words) => words.iter().map(|word| word.0.len() + 32).sum(),
        Payload::Script(_) => 0,
    };
    let rest =
        submission.arguments.0.len() + submission.workdir.0.len() + submission.submit_host.len();
    match words + rest + size_of(&submission.settings) {
        size if size > LARGEST_REST => Err(Refusal::too_large("a request", LARGEST_REST)),
        _ => Ok(()),
    }
}

/// Approximate memory use of settings, in bytes.
pub(crate) fn size_of(settings: &[AttributeSetting]) -> usize {
    let one = |setting: &AttributeSetting| {
        setting.attribute.len()
            + setting.value.0.len()
            + setting.resource.as_ref().map_or(0, String::len)
            + 96
    };
    settings.iter().map(one).sum()
}

/// The variable before which `PBS_O_QUEUE` is inserted, as in PBS.
const HOST: &[u8] = b"\0PBS_O_HOST=";

/// Adds `PBS_O_QUEUE` to an environment. Only the server can determine the queue.
fn with_queue(environ: &[u8], queue: &str) -> Vec<u8> {
    let entry = format!("PBS_O_QUEUE={queue}\0");
    let host = environ
        .windows(HOST.len())
        .rposition(|part| part == HOST)
        .map(|at| at + 1);
    let (before, behind) = environ.split_at(host.unwrap_or(environ.len()));
    [before, entry.as_bytes(), behind].concat()
}
