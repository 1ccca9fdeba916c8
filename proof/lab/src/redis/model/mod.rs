//! A model of a Redis server. It does on demand, and repeatably, what a real server can't be made
//! to do.
//!
//! [`Model`] is one session without I/O. It reads commands strictly, has a few keys and scripts,
//! and channels that only this session is subscribed to. An argument that begins with `op:` and a
//! number gives a command an identity, which its error repeats. The [`Log`] records what became of
//! each identity, so a test can compare what a client was told with what happened.
//!
//! On demand it pushes, refuses commands before they begin (`-LOADING`, `-CLUSTERDOWN` and their
//! like), forgets its scripts, ends the session, and turns hostile. Two commands are its own: `FAIL
//! CODE op:1` begins and fails with this code, and `REPLY KIND op:1 SIZE` answers with a value of
//! any RESP3 type ([`shape`]).
//!
//! If their configuration says so, several models are the nodes of a cluster. Then a command with
//! one of the model's [keys](slots) runs on the node that has its slot, and any other node
//! redirects it.
//!
//! Deliberately absent: login, TLS, every command that is not named in `commands`, and
//! everything about a server that a client can't see.

mod commands;
mod input;
mod reply;
pub mod slots;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

pub use crate::seeded::{Effect, Entry, Log, Rng};
pub use commands::script_hash;
pub use reply::{ATTRIBUTE, SHAPES, bulk, confirmation_start, integer, message, shape, simple};

use commands::Store;
use input::Input;
use slots::Slots;

/// How a model behaves.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Whether pushes are arrays, as on a RESP2 connection that subscribes. Default: no.
    pub resp2: bool,
    /// Attributes in front of replies and pushes between them: one in so many messages. Default:
    /// none.
    pub noise: Option<(Rng, u64)>,
    /// Commands that are refused before they begin: one in so many. Default: none.
    pub refusals: Option<(Rng, u64)>,
    /// Which node of which cluster it is. Default: none.
    pub node: Option<Member>,
}

/// One node of a cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// What all nodes know.
    pub shared: Arc<Mutex<Slots>>,
    /// Which one it is.
    pub node: usize,
}

impl Member {
    /// The current slots, as all nodes know them.
    pub fn slots(&self) -> MutexGuard<'_, Slots> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ModelConfig {
    /// RESP3, and nothing out of the ordinary.
    fn default() -> Self {
        Self { resp2: false, noise: None, refusals: None, node: None }
    }
}

/// One session of a model server.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    log: Log,
    input: Input,
    out: BytesMut,
    store: Store,
    /// Between MULTI and EXEC: what is queued, and whether something was refused.
    queued: Option<(Vec<Vec<Vec<u8>>>, bool)>,
    /// Whether ASKING came: the next command may be for a slot that is moving here.
    asking: bool,
    pushes: Vec<Bytes>,
    closed: bool,
}

impl Model {
    /// A session that has logged in.
    #[must_use]
    pub fn new(config: ModelConfig, log: Log) -> Self {
        Self {
            config,
            log,
            input: Input::default(),
            out: BytesMut::new(),
            store: Store::default(),
            queued: None,
            asking: false,
            pushes: Vec::new(),
            closed: false,
        }
    }

    /// A new session with the same server, which has no scripts any more.
    #[must_use]
    pub fn reopened(&mut self) -> Self {
        let mut config = self.config.clone();
        let refusals = self.config.refusals.as_mut();
        config.refusals = refusals.map(|(rng, one_in)| (rng.split(), *one_in));
        Self::new(config, self.log.clone())
    }

    /// What happened to each identity.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Which node of a cluster it is.
    #[must_use]
    pub fn member(&self) -> Option<&Member> {
        self.config.node.as_ref()
    }

    /// The bytes to write next.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        &self.out
    }

    /// This many bytes were written.
    pub fn handle_written(&mut self, bytes: usize) {
        let _ = self.out.split_to(bytes);
    }

    /// Whether it reads.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        !self.closed
    }

    /// Whether it has ended; what [`transmit`](Self::transmit) shows is still to be written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The client has ended.
    pub fn handle_closed(&mut self) {
        self.closed = true;
    }

    /// Everything that it pushed so far, in order, without the confirmations of subscriptions.
    #[must_use]
    pub fn pushes(&self) -> &[Bytes] {
        &self.pushes
    }

    /// Takes bytes from the client, and runs the whole commands in them.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
        while !self.closed {
            match self.input.next() {
                Ok(Some(arguments)) => self.obey(arguments),
                Ok(None) => return,
                Err(what) => {
                    self.log.violation(what.clone());
                    self.end(&what);
                }
            }
        }
    }

    /// Sends a push between two replies.
    pub fn push(&mut self, frame: Bytes) {
        if !self.closed {
            self.out.extend_from_slice(&frame);
            self.pushes.push(frame);
        }
    }

    /// A message as another client may publish it.
    pub fn push_message(&mut self, payload: &[u8]) {
        self.push(message(self.config.resp2, b"elsewhere", payload));
    }

    /// The end of a subscription whose hash slot has moved.
    pub fn push_end_of_subscription(&mut self) {
        let items = [bulk(b"sunsubscribe"), bulk(b"moved"), integer(0)];
        self.push(reply::pushed(self.config.resp2, &items));
    }

    /// Forgets all scripts, as SCRIPT FLUSH and a restart do.
    pub fn lose_scripts(&mut self) {
        self.store.scripts.clear();
    }

    /// Ends the session with the error that says so.
    pub fn shut_down(&mut self) {
        self.end("the model was told to end");
    }

    /// Writes these bytes, whatever they are.
    pub fn garble(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn end(&mut self, why: &str) {
        let line = format!("-ERR Protocol error: {why}\r\n");
        self.out.extend_from_slice(line.as_bytes());
        self.closed = true;
    }

    /// Inserts noise in front of the next reply, to which it does not belong.
    fn make_noise(&mut self) {
        let Some((rng, one_in)) = &mut self.config.noise else { return };
        if !rng.one_in(*one_in) {
            return;
        }
        match rng.below(3) {
            _ if self.config.resp2 => self.push_message(b"noise"),
            0 => self.push_message(b"noise"),
            1 => self.push(Bytes::from_static(b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n")),
            _ => self.out.extend_from_slice(ATTRIBUTE),
        }
    }

    /// Whether this command is refused, and how.
    fn refusal(&mut self) -> Option<&'static str> {
        let (rng, one_in) = self.config.refusals.as_mut()?;
        rng.one_in(*one_in).then(|| rng.pick(&REFUSALS))
    }
}

/// Errors that refuse a command before it begins, in a server's words.
pub const REFUSALS: [&str; 6] = [
    "LOADING Redis is loading the dataset in memory",
    "CLUSTERDOWN Hash slot not served",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "BUSY Redis is busy running a script",
    "NOPERM this user has no permissions to run the command",
];
