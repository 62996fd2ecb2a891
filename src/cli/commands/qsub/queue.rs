//! Which of the queues that Grid Engine's `-q a,b` names the job goes to: the first that there is.

use super::request::SubmissionPlan;
use crate::cli::client::exit::Failure;
use crate::model::refusal::Refusal;
use crate::sys::home::Home;
use crate::wire::client::{Client, Continue};
use crate::wire::message::{ClientAnswer, Question};

/// Settles on one queue. Where none of them is there, whoever asks in Grid Engine's words - in
/// which `all.q` goes without saying - is told which are.
pub(super) fn settle(plan: &mut SubmissionPlan, home: &Home) -> Result<(), Failure> {
    let is_grid_engine = plan.is_grid_engine;
    let Some(setting) = plan
        .submission
        .settings
        .iter_mut()
        .find(|setting| setting.attribute == "queue")
    else {
        return Ok(());
    };
    let asked = setting.value.lossy().into_owned();
    // Another server's, or one whose answer says all there is to say.
    if asked.contains('@') || !is_grid_engine && !asked.contains(',') {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    Client::connect(home)?.ask(&Question::Queues, |part| {
        if let ClientAnswer::Queues(queues) = part {
            known.extend(queues.into_iter().map(|counts| counts.queue.name));
        }
        Continue::Wanted
    })?;
    match asked
        .split(',')
        .find(|name| known.iter().any(|known| known == name))
    {
        Some(name) => setting.value = name.into(),
        None => {
            let refusal = Refusal::unknown_queue();
            let remedy = format!(
                "{} {asked}: the queues are {}",
                refusal.text,
                known.join(", ")
            );
            return Err(Failure::new(refusal.exit_code(), remedy));
        }
    }
    Ok(())
}
