//! What a program of the site says of the nodes for a job (M8i). Who writes a scenario is the
//! program.

use super::World;
use crate::model::job_id::JobId;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::sched::view::snapshot::ClassId;

impl World {
    /// The program is asked about a job and those alike: they wait for what it says.
    pub(super) fn ask_program(&mut self, job: JobId) -> Result<(), String> {
        let class = self.waiting_class(job)?;
        self.state.make(&Change::Asked(class));
        Ok(())
    }

    /// The program has said where they should go, the best node first. One that is no candidate
    /// spoils the answer, as in schedd: then it has said nothing.
    pub(super) fn hear_program(&mut self, job: JobId, nodes: &[String]) -> Result<(), String> {
        let class = self.waiting_class(job)?;
        let candidates = self.state.candidates(class);
        let is_good =
            !nodes.is_empty() && nodes.iter().all(|name| candidates.contains(&name.as_str()));
        self.state
            .make(&Change::Answered(class, is_good.then(|| nodes.to_vec())));
        self.want_cycle(Trigger::Answer);
        Ok(())
    }

    fn waiting_class(&self, job: JobId) -> Result<ClassId, String> {
        self.state
            .class_of(job)
            .ok_or_else(|| format!("job {job} does not wait to be started"))
    }
}
