//! Who may cancel what: which server a key of a program belongs to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use onetrip_postgres::client::early::Key;
use onetrip_postgres::message::{CancelRequest, InitialMessage, Secret};

use super::dial::Place;
use super::servers::Servers;

/// A key as programs send it: the process and the secret.
type Name = (i32, Box<[u8]>);

/// The keys of the programs that are connected.
#[derive(Default)]
pub(super) struct Keys {
    known: Mutex<HashMap<Name, Held>>,
}

/// What belongs to a program's key.
struct Held {
    servers: Arc<Servers>,
    place: Place,
    /// The key that the server gave.
    its: Key,
    was_used: bool,
}

/// A key that is known until this is dropped.
pub(super) struct Known {
    keys: Arc<Keys>,
    name: Name,
}

impl Keys {
    fn known(&self) -> MutexGuard<'_, HashMap<Name, Held>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers which server the key of a program belongs to. `None` if two servers gave the same
    /// one, of which the first is remembered.
    pub(super) fn know(
        self: &Arc<Keys>,
        theirs: &Key,
        servers: &Arc<Servers>,
        place: Place,
        its: Key,
    ) -> Option<Known> {
        let name = (theirs.process_id, theirs.secret.as_bytes().into());
        match self.known().entry(name.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(entry) => {
                entry.insert(Held { servers: servers.clone(), place, its, was_used: false })
            }
        };
        Some(Known { keys: self.clone(), name })
    }

    /// The server that a request to cancel is for, and the request in its words.
    pub(super) fn find(&self, packet: &[u8]) -> Option<(Arc<Servers>, Place, BytesMut)> {
        let Ok(InitialMessage::Cancel(request)) = InitialMessage::decode(packet.get(4..)?) else {
            return None;
        };
        let mut known = self.known();
        let held = known.get_mut(&(request.process_id, request.secret_key.0.into()))?;
        held.was_used = true;
        let secret_key = Secret(held.its.secret.as_bytes());
        let request = CancelRequest { process_id: held.its.process_id, secret_key };
        let mut out = BytesMut::new();
        request.encode(&mut out).ok()?;
        Some((held.servers.clone(), held.place, out))
    }
}

impl Known {
    /// Forgets it. Returns whether it was used: such a request may still be on its way to the server.
    pub(super) fn forget(self) -> bool {
        self.keys.known().remove(&self.name).is_none_or(|it| it.was_used)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.keys.known().remove(&self.name);
    }
}
