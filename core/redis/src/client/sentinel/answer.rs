//! What a Sentinel is asked, and what it says.

use bytes::{Bytes, BytesMut};

use crate::client::login::Login;
use crate::command::Command;
use crate::fields::{field, items, number, text};
use crate::redirect::Address;
use crate::reply::Reply;

/// The questions of a round, as they are sent to each Sentinel, and the subscription behind them.
pub(super) struct Questions {
    pub(super) bytes: Bytes,
    login: Login,
    wants_replicas: bool,
}

/// The channel on which a Sentinel announces that a master was switched.
const SWITCHED: &str = "+switch-master";

/// How a server begins its answer to a command that it does not know.
const UNKNOWN: &[u8] = b"ERR unknown command";

impl Questions {
    pub(super) fn new(name: &str, login: &Login, wants_replicas: bool) -> Questions {
        let mut bytes = BytesMut::new();
        if let Some(auth) = login.auth() {
            auth.encode(&mut bytes);
        }
        Command::new("SENTINEL MYID").encode(&mut bytes);
        // The epoch is asked for first: if the address should change in between, a new address goes
        // with an old epoch, and never the other way round.
        Command::new("SENTINEL MASTER").arg(name).encode(&mut bytes);
        Command::new("SENTINEL GET-MASTER-ADDR-BY-NAME").arg(name).encode(&mut bytes);
        Command::new("SENTINEL SENTINELS").arg(name).encode(&mut bytes);
        if wants_replicas {
            Command::new("SENTINEL REPLICAS").arg(name).encode(&mut bytes);
        }
        Command::new("SUBSCRIBE").arg(SWITCHED).encode(&mut bytes);
        Questions { bytes: bytes.freeze(), login: login.clone(), wants_replicas }
    }

    /// How many replies answer them, without that to the subscription.
    pub(super) fn replies(&self) -> usize {
        4 + usize::from(self.login.auth().is_some()) + usize::from(self.wants_replicas)
    }

    /// Reads the replies. An error says in words why they are no answer.
    pub(super) fn read(&self, replies: &[Bytes]) -> Result<Answer, String> {
        let mut replies = replies.iter().map(|reply| Reply::read(reply).map(|(reply, _)| reply));
        let mut next = || replies.next().and_then(Result::ok).ok_or("it answered no RESP");
        if self.login.auth().is_some()
            && let Reply::Error(error) = next()?
        {
            let (code, hint) = (error.code(), self.login.hint(error.code()));
            return Err(format!("it refused the login ({}){hint}", code.escape_ascii()));
        }
        let id = text(&next()?);
        let (master, address, sentinels) = (next()?, next()?, next()?);
        let address = match &address {
            Reply::Error(error) if error.text().starts_with(UNKNOWN) => {
                return Err("it is no Sentinel: it does not know the command SENTINEL".into());
            }
            Reply::Error(error) => {
                return Err(format!("it refused the question ({})", error.code().escape_ascii()));
            }
            Reply::Nil => return Err("it knows no master of this name".into()),
            reply => read_pair(reply).ok_or("its answer is no address")?,
        };
        let of_master = |name| field(&master, name).and_then(|value| digits(&value));
        let others =
            of_master("num-other-sentinels").and_then(|others| usize::try_from(others).ok());
        let sentinels = read_list(&sentinels);
        Ok(Answer {
            id,
            master: address,
            epoch: of_master("config-epoch"),
            known: others.unwrap_or(sentinels.len()).min(SENTINELS_MAX - 1) + 1,
            sentinels: sentinels.into_iter().map(|(address, id, _)| (address, id)).collect(),
            replicas: match self.wants_replicas {
                true => read_list(&next()?).into_iter().filter_map(usable).collect(),
                false => Vec::new(),
            },
        })
    }
}

/// The most Sentinels of one master. Five are many.
pub(super) const SENTINELS_MAX: usize = 32;

/// What one Sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its own id; `None` if it may not or cannot tell it.
    pub(super) id: Option<String>,
    pub(super) master: Address,
    /// The epoch of this configuration: each failover has a greater one. `None` if the user may not
    /// ask for it.
    pub(super) epoch: Option<u64>,
    /// How many Sentinels it knows, with itself.
    pub(super) known: usize,
    /// The others, with their ids.
    pub(super) sentinels: Vec<(Address, Option<String>)>,
    /// Replicas that can be read from.
    pub(super) replicas: Vec<Address>,
}

/// An address, an id, and whether it is in order.
type Listed = (Address, Option<String>, bool);

fn usable((address, _, is_well): Listed) -> Option<Address> {
    is_well.then_some(address)
}

/// Reads a list of Sentinels or replicas. Entries without an address are left out.
fn read_list(reply: &Reply<'_>) -> Vec<Listed> {
    let entries = items(reply).into_iter().flatten();
    let read = |entry: Reply<'_>| {
        let named = |name| field(&entry, name).and_then(|value| text(&value));
        let port = named("port")?.parse().ok()?;
        let address = Address::new(&named("ip")?, port)?;
        let flags = named("flags").unwrap_or_default();
        let is_down = |flag| matches!(flag, "s_down" | "o_down" | "disconnected");
        let is_linked = named("master-link-status").is_none_or(|status| status == "ok");
        Some((address, named("runid"), is_linked && !flags.split(',').any(is_down)))
    };
    entries.filter_map(read).take(LIST_MAX).collect()
}

/// The most replicas that are kept of an answer.
const LIST_MAX: usize = 64;

/// A host and its port, as two texts.
fn read_pair(reply: &Reply<'_>) -> Option<Address> {
    let mut fields = items(reply)?;
    let (host, port) = (text(&fields.next()?)?, text(&fields.next()?)?);
    Address::new(&host, port.parse().ok()?)
}

/// A number, which Sentinels send as text.
fn digits(reply: &Reply<'_>) -> Option<u64> {
    let number = number(reply).and_then(|number| u64::try_from(number).ok());
    number.or_else(|| text(reply)?.parse().ok())
}

/// The new address in an announcement that a master was switched; `None` if the message is about
/// another one, or is none.
pub(super) fn switched_to(message: &Reply<'_>, name: &str) -> Option<Address> {
    let fields: Vec<String> = items(message)?.filter_map(|field| text(&field)).collect();
    let [kind, channel, payload] = &fields[..] else { return None };
    if kind != "message" || channel != SWITCHED {
        return None;
    }
    // name, old host, old port, new host, new port.
    let words: Vec<&str> = payload.strip_prefix(name)?.split(' ').collect();
    let ["", _, _, host, port] = words[..] else { return None };
    Address::new(host, port.parse().ok()?)
}
