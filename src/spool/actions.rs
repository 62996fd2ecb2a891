//! The last action of each user, for `lanai undo`. The jobs of an action are stored in parts, one
//! for each request, because one row for each job would slow down the deletion of many jobs.

use super::{Spool, SpoolError};
use crate::model::job::undo::{JobBefore, UserAction};
use rusqlite::{Transaction, params};

/// The tables; actions and lists of jobs are JSON.
pub(super) const SCHEMA: &str =
    "CREATE TABLE user_action (uid INTEGER PRIMARY KEY, action TEXT NOT NULL);
     CREATE TABLE user_action_jobs (
         uid INTEGER NOT NULL, first INTEGER NOT NULL, jobs TEXT NOT NULL,
         PRIMARY KEY (uid, first)) WITHOUT ROWID;";

impl Spool {
    /// The last action of each user.
    pub fn user_actions(&self) -> Result<Vec<UserAction>, SpoolError> {
        let mut actions = Vec::new();
        let mut statement = self
            .connection
            .prepare("SELECT uid, action FROM user_action")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (uid, text): (u32, String) = (row.get(0)?, row.get(1)?);
            let mut action: UserAction = serde_json::from_str(&text)?;
            action.jobs = self.jobs_of_action(uid)?;
            actions.push(action);
        }
        Ok(actions)
    }

    fn jobs_of_action(&self, uid: u32) -> Result<Vec<JobBefore>, SpoolError> {
        let sql = "SELECT jobs FROM user_action_jobs WHERE uid = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([uid])?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            let mut part: Vec<JobBefore> = serde_json::from_str(text)?;
            jobs.append(&mut part);
        }
        Ok(jobs)
    }
}

/// Stores the jobs of an action from position `first` on. If `first` is 0, the action replaces the
/// user's earlier action.
pub(super) fn write(
    transaction: &Transaction,
    uid: u32,
    action: Option<&UserAction>,
    first: usize,
) -> Result<(), SpoolError> {
    if first == 0 {
        transaction
            .prepare_cached("DELETE FROM user_action_jobs WHERE uid = ?1")?
            .execute([uid])?;
    }
    let Some(action) = action else {
        transaction
            .prepare_cached("DELETE FROM user_action WHERE uid = ?1")?
            .execute([uid])?;
        return Ok(());
    };
    transaction
        .prepare_cached("INSERT OR REPLACE INTO user_action (uid, action) VALUES (?1, ?2)")?
        .execute(params![uid, serde_json::to_string(action)?])?;
    let jobs = action.jobs.get(first..).unwrap_or_default();
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO user_action_jobs (uid, first, jobs) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![uid, first, serde_json::to_string(jobs)?])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::Owner;
    use crate::model::job::state::Holds;
    use crate::model::job::undo::UndoKind;
    use crate::model::job_id::JobId;
    use crate::model::time::Time;
    use crate::update::Update;
    use std::sync::Arc;

    fn before(number: u64) -> JobBefore {
        JobBefore {
            job: JobId::job(number),
            at: Time(5),
            attempt: 0,
            had_started: false,
            is_dependent: false,
            held: Holds::USER,
            released: Holds::NONE,
            waiting: vec![(0, 4)],
            dependencies: None,
            alteration: None,
        }
    }

    #[test]
    fn an_action_is_stored_in_parts_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(&folder.path().join("spool.db")).unwrap();
        let mut action = UserAction {
            kind: UndoKind::Hold,
            owner: Owner {
                user: "ann".into(),
                uid: 1000,
                gid: 100,
            },
            at: Time(5),
            unrecorded: 0,
            connection: None,
            jobs: vec![before(1), before(2)],
        };
        let store = |spool: &mut Spool, action: &UserAction, first| {
            let update = Update::UserAction(1000, Some(Arc::new(action.clone())), first);
            spool.commit(&[update]).unwrap();
        };
        store(&mut spool, &action, 0);
        action.jobs.push(before(3));
        action.unrecorded = 4;
        store(&mut spool, &action, 2);
        assert_eq!(spool.user_actions().unwrap(), [action.clone()]);
        action.jobs = vec![before(9)];
        store(&mut spool, &action, 0);
        assert_eq!(spool.user_actions().unwrap(), [action]);
        spool.commit(&[Update::UserAction(1000, None, 0)]).unwrap();
        assert!(spool.user_actions().unwrap().is_empty());
        assert!(spool.jobs_of_action(1000).unwrap().is_empty());
    }
}
