//! The users at the other end of connections, as reported by the kernel.

use crate::model::job::Owner;
use crate::model::time::Span;
use crate::server::caller::Caller;
use crate::server::setup::Setup;
use crate::sys::clock;
use crate::wire::peer::Peer;
use nix::unistd::User;
use std::collections::BTreeMap;

/// How long a user name is cached, because a lookup can be slow.
const CACHE_TIME: Span = Span::seconds(5);

/// Cache of user names.
#[derive(Default)]
pub struct Callers {
    known: BTreeMap<u32, Known>,
}

/// A user name, and when it was looked up.
struct Known {
    name: String,
    at: Span,
}

impl Callers {
    /// The user's name, and whether it was looked up now. If the uid has no account, the name is
    /// the uid as text. If the lookup fails, the last known name is used, if any, else the uid.
    fn name(&mut self, uid: u32) -> (String, bool) {
        let now = clock::monotonic();
        if let Some(known) = self
            .known
            .get(&uid)
            .filter(|known| now < known.at + CACHE_TIME)
        {
            return (known.name.clone(), false);
        }
        match User::from_uid(uid.into()) {
            Ok(Some(user)) => {
                self.known.insert(
                    uid,
                    Known {
                        name: user.name.clone(),
                        at: now,
                    },
                );
                (user.name, true)
            }
            Ok(None) => {
                self.known.remove(&uid);
                (uid.to_string(), true)
            }
            Err(_) => (
                self.known
                    .get(&uid)
                    .map_or_else(|| uid.to_string(), |known| known.name.clone()),
                false,
            ),
        }
    }

    /// The caller at the other end of a connection.
    pub fn of(&mut self, peer: Peer, setup: &Setup) -> Caller {
        let uid = peer.uid();
        let (user, is_new) = self.name(uid);
        let owner = Owner {
            user,
            uid,
            gid: peer.gid(),
        };
        let caller = Caller::of(owner, setup);
        if is_new {
            caller.warn_of_other_account(setup);
        }
        caller
    }
}
