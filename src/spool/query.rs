//! The queries of `qstat`, `qselect`, `pbsnodes` and other clients. If the owner of the spool runs
//! a command, the command usually reads the spool itself. For other users, a thread of schedd reads
//! it.

use super::{SpoolError, SpoolReader, load};
use crate::config::overrides::QmgrObject;
use crate::config::overrides::description::Described;
use crate::model::job::Owner;
use crate::model::job::state::JobState;
use crate::model::time::Saved;
use crate::sys::clock;
use crate::sys::user::{self, UserAccount};
use crate::wire::message::{ClientAnswer, Detail, Question, ServerFacts};
use rusqlite::Connection;
use search::{SpoolSearch, Visible};
use std::collections::BTreeSet;

mod accounts;
mod elements;
mod offer;
mod queues_and_nodes;
mod run_times;
mod search;

/// Maximum number of jobs, accounting records, totals or cycles in one part of an answer.
const PART: usize = 500;

/// Approximate maximum size, in bytes, of a part with job records or accounting records, because
/// messages to clients have a maximum size.
const PART_BYTES: usize = 1 << 20;

/// The user who sends a query, with the user's rights.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The user.
    pub owner: Owner,
    /// True if the user may see all data of all jobs, the hooks and the cycles: a manager, an
    /// operator, root, or the user of a personal installation.
    pub privileged: bool,
}

impl Viewer {
    /// The user who runs this process, with all rights.
    pub fn own() -> Viewer {
        let UserAccount {
            name: user,
            uid,
            gid,
            ..
        } = user::own();
        Viewer {
            owner: Owner { user, uid, gid },
            privileged: true,
        }
    }
}

/// Function that receives the parts of an answer. If it returns an error, the answer ends early.
type Each<'a> = &'a mut dyn FnMut(ClientAnswer) -> Result<(), SpoolError>;

impl SpoolReader {
    /// Tests whether any node is stored.
    pub fn has_nodes(&self) -> Result<bool, SpoolError> {
        Ok(self
            .connection
            .query_row("SELECT EXISTS (SELECT 1 FROM node)", [], |row| row.get(0))?)
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> Result<BTreeSet<String>, SpoolError> {
        let mut statement = self.connection.prepare("SELECT name FROM node")?;
        let names = statement.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// Passes the answer to a query to `each` in parts, the facts about the server first. An error
    /// of `each` ends the answer early.
    pub fn answer(
        &mut self,
        question: &Question,
        viewer: Viewer,
        each: Each,
    ) -> Result<(), SpoolError> {
        // Use one transaction, so that all parts show the same state.
        let connection = self.connection.transaction()?;
        let server = server(&connection, &viewer)?;
        let sees_others = viewer.privileged || server.query_other_jobs;
        let visible = Visible {
            history: server.history,
            only: (!sees_others).then(|| viewer.owner.clone()),
        };
        let shown = if server.history { "1" } else { "state <> 'F'" };
        each(ClientAnswer::Server(Box::new(server)))?;
        match question {
            // The facts about the server have been passed. Forecasts are not in the spool.
            Question::Server | Question::Ahead(_) => Ok(()),
            Question::Accounts(inquiry, keys) => {
                accounts::tallies(&connection, inquiry, keys, each)
            }
            Question::Entries(inquiry, jobs) => accounts::entries(&connection, inquiry, jobs, each),
            Question::Queues => each(ClientAnswer::Queues(queues_and_nodes::queues(
                &connection,
                shown,
            )?)),
            Question::Nodes => each(ClientAnswer::Nodes(queues_and_nodes::nodes(&connection)?)),
            Question::Objects => {
                let mut objects: Vec<Described> =
                    load::meta(&connection, ServerFacts::OBJECTS)?.unwrap_or_default();
                objects.retain(|described| {
                    viewer.privileged || !matches!(described.target, QmgrObject::Hook(_))
                });
                each(ClientAnswer::Objects(objects))
            }
            Question::Cycles if !viewer.privileged => Ok(()),
            Question::Cycles => {
                let all = super::cycles::all(&connection)?;
                for part in all.chunks(PART) {
                    each(ClientAnswer::Cycles(part.to_vec()))?;
                }
                Ok(())
            }
            Question::Reservations => each(ClientAnswer::Reservations(super::reservations::all(
                &connection,
            )?)),
            Question::JobsById(ids, detail) => {
                SpoolSearch::new(&connection, *detail, viewer, visible)?.by_id(ids, each)
            }
            Question::Jobs(filter, detail) => {
                SpoolSearch::new(&connection, *detail, viewer, visible)?.all(filter, each)
            }
            Question::Trace(id) => {
                let mut search = SpoolSearch::new(&connection, Detail::Whole, viewer, visible)?;
                let is_shown = sees_others || search.shown(*id)?.is_some();
                search.by_id(&[*id], each)?;
                if is_shown {
                    super::trace::answer(&connection, *id, each)
                } else {
                    Ok(())
                }
            }
            Question::Offer { queue, except } => {
                let wanted = offer::OfferRequest {
                    folder: &self.folder,
                    queue,
                    except,
                };
                offer::answer(&connection, &wanted, &viewer, each)
            }
            Question::Elements(id, only, detail) => {
                SpoolSearch::new(&connection, *detail, viewer, visible)?
                    .elements_of(*id, *only, each)
            }
        }
    }
}

fn server(connection: &Connection, viewer: &Viewer) -> Result<ServerFacts, SpoolError> {
    let facts: Option<ServerFacts> = load::meta(connection, "server")?;
    let facts = facts.ok_or_else(|| {
        std::io::Error::other("the spool is new: schedd has not finished its first start")
    })?;
    let table = load::clock(connection)?;
    let saved: Option<Saved> = load::meta(connection, "clock")?;
    let now = saved.and_then(|saved| saved.at(clock::since_boot(), &clock::boot_id()));
    // After a reboot, the saved clock cannot be used until schedd runs, so use the wall clock.
    let now = now.unwrap_or_else(|| table.time(clock::wall()));
    let fair_shares = load::meta(connection, ServerFacts::FAIR_SHARES)?.unwrap_or_default();
    Ok(ServerFacts {
        now,
        clock: table,
        privileged: viewer.privileged,
        fair_shares,
        ..facts
    })
}

fn state_of(letter: &str) -> JobState {
    letter
        .chars()
        .next()
        .and_then(JobState::from_letter)
        .unwrap_or(JobState::Finished)
}
