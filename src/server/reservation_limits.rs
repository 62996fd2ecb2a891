//! Limits on reservations (`resv_...` in `[server]`): allowed users, number, duration and
//! processors.

use crate::model::job::Owner;
use crate::model::node::NodeFacts;
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::reservation::Occurrence;
use crate::model::reservation::Reservation;
use crate::model::resource::ResourceValue;
use crate::model::time::Span;
use crate::server::caller::Caller;
use crate::server::state::ServerState;

/// Maximum number of current and future occurrences of all reservations of a user. Also holds for
/// operators.
const MAX_OCCURRENCES: usize = 1000;

/// Refuses users who may not reserve, and users who would exceed the limit with `more` further
/// occurrences.
pub fn check_number(server: &ServerState, caller: &Caller, more: usize) -> Result<(), Refusal> {
    let bounds = &server.setup.config.server.reserving;
    let owner = &caller.owner;
    let may_reserve = bounds
        .users
        .iter()
        .any(|person| person.is(&owner.user, &server.setup.host));
    if !caller.privileged && !may_reserve {
        let why =
            "only operators and users in resv_users may reserve nodes (see qmgr -c 'list server')";
        return Err(Refusal::unauthorized().because(why));
    }
    let most = if caller.privileged {
        MAX_OCCURRENCES
    } else {
        MAX_OCCURRENCES.min(bounds.number as usize)
    };
    let has = reservations_of(server, owner)
        .map(|made| made.occurrences.len() - made.current)
        .sum::<usize>();
    if has + more > most {
        Err(Refusal::too_many_reservations(most, has, more))
    } else {
        Ok(())
    }
}

/// Refuses a reservation that is too long, or with which the user would reserve too many
/// processors. Operators are not limited. `except` is the id of the reservation being altered.
pub fn check_size(
    server: &ServerState,
    caller: &Caller,
    request: &Request,
    occurrences: &[Occurrence],
    except: Option<&str>,
) -> Result<(), Refusal> {
    if caller.privileged {
        return Ok(());
    }
    let bounds = &server.setup.config.server.reserving;
    for occurrence in occurrences {
        let lasts = Span::seconds(occurrence.to.0.saturating_sub(occurrence.from.0));
        if lasts > bounds.duration {
            return Err(Refusal::reservation_too_long(bounds.duration, lasts));
        }
    }
    let nodes = Processors::of(server);
    if nodes.all == 0 {
        return Err(Refusal::no_processors_yet());
    }
    let (most, more) = (
        (nodes.all as f64 * bounds.share) as u64,
        nodes.requested_by(request),
    );
    for occurrence in occurrences {
        let others =
            reservations_of(server, &caller.owner).filter(|made| except != Some(made.id.as_str()));
        let at_that_time = others.filter(|made| {
            made.occurrences[made.current..]
                .iter()
                .any(|o| overlap(o, occurrence))
        });
        let has = at_that_time
            .map(|made| nodes.requested_by(&made.terms.request))
            .sum::<u64>();
        if has + more > most {
            return Err(Refusal::reservation_too_large(most, has, more));
        }
    }
    Ok(())
}

fn reservations_of<'a>(
    server: &'a ServerState,
    owner: &'a Owner,
) -> impl Iterator<Item = &'a Reservation> {
    let made = server.reservations().map(AsRef::as_ref);
    made.filter(|made: &&Reservation| owner.is_same_account(&made.owner) && made.has_queue())
}

fn overlap(one: &Occurrence, other: &Occurrence) -> bool {
    one.from < other.to && other.from < one.to
}

/// The number of processors of all nodes.
struct Processors {
    all: u64,
    /// Processors of the largest node.
    largest: u64,
}

impl Processors {
    fn of(server: &ServerState) -> Processors {
        let (mut all, mut largest) = (0, 0);
        for node in server.nodes() {
            let has = processors(&node.facts);
            all += has;
            largest = largest.max(has);
        }
        Processors { all, largest }
    }

    /// The number of processors that a request needs. If the request is exclusive, each chunk
    /// counts like the largest node.
    fn requested_by(&self, request: &Request) -> u64 {
        let is_alone = request.place.sharing.is_exclusive();
        let of_chunk = |ncpus: i64| {
            if is_alone {
                self.largest
            } else {
                ncpus.unsigned_abs()
            }
        };
        let chunks = request.select.chunks.iter();
        chunks
            .map(|chunk| of_chunk(chunk.long("ncpus")).saturating_mul(chunk.count.into()))
            .sum()
    }
}

fn processors(facts: &NodeFacts) -> u64 {
    facts
        .available
        .get("ncpus")
        .and_then(ResourceValue::amount)
        .unwrap_or(0)
        .unsigned_abs()
}
