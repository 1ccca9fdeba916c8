//! A model of a server: it executes scripts, skips after errors, commits at sync points, and keeps
//! a log of what took effect.

use std::collections::HashMap;

use super::{FLAG_ONLY, FLAG_SYNC, message, parse};

/// What has become of a request at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It ran, and its segment is still open.
    Pending,
    Applied,
    /// It ran without effect, was undone, or was skipped.
    None,
    /// It failed in a way that may leave effects.
    Some,
}

#[derive(Default)]
pub struct Server {
    input: Vec<u8>,
    /// Replies that are kept until a sync point or a Flush.
    held: Vec<u8>,
    /// Replies that were sent.
    pub output: Vec<u8>,
    /// What has become of each request, by id.
    pub log: HashMap<u32, Effect>,
    /// Ids of the requests that arrived, in order, including skipped ones.
    pub received: Vec<u32>,
    /// How often each request ran.
    pub runs: HashMap<u32, usize>,
    pub flushes: usize,
    pub terminated: bool,
    /// Sync points that arrived as their own messages.
    pub syncs: usize,
    /// The next sync point fails.
    sync_fails: bool,
    segment: Vec<u32>,
    aborted: bool,
    healed: Option<u32>,
}

impl Server {
    pub fn feed(&mut self, bytes: &[u8]) {
        assert!(!self.terminated, "bytes after the goodbye");
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Ok(message) = parse(&input[at..]) {
            at += message.len;
            match message.tag {
                b'Q' => self.request(message.id, message.rest[0], &message.rest[1..]),
                b'F' => {
                    self.flushes += 1;
                    self.output.append(&mut self.held);
                }
                b'S' => {
                    let last = self.received.last().copied().unwrap();
                    self.sync(last, false);
                    self.syncs += 1;
                }
                b'H' => self.healed = Some(message.id),
                b'X' => self.terminated = true,
                tag => panic!("the client sent an unknown message {tag}"),
            }
        }
        self.input = input[at..].to_vec();
    }

    /// Whether the last message is incomplete.
    pub fn is_mid_message(&self) -> bool {
        !self.input.is_empty()
    }

    fn request(&mut self, id: u32, flags: u8, script: &[u8]) {
        self.received.push(id);
        if flags & FLAG_ONLY == 0 {
            match self.aborted {
                true => drop(self.log.insert(id, Effect::None)),
                false => self.run(id, script),
            }
        }
        if flags & FLAG_SYNC != 0 {
            self.sync(id, script.contains(&b'E'));
        }
    }

    fn run(&mut self, id: u32, script: &[u8]) {
        let healed = self.healed.take() == Some(id);
        *self.runs.entry(id).or_default() += 1;
        for action in script {
            match action {
                b'E' => self.sync_fails = true,
                b'p' => self.held.extend(message(b'p', id, b"part")),
                b'e' => return self.fail(id, Effect::None, &[0, 0]),
                b'u' => return self.fail(id, Effect::Some, &[1, 0]),
                b'n' if !healed => {
                    self.runs.remove(&id);
                    return self.fail(id, Effect::None, &[0, 1]);
                }
                _ => {}
            }
        }
        self.held.extend(message(b'c', id, b""));
        self.segment.push(id);
        self.log.insert(id, Effect::Pending);
    }

    fn fail(&mut self, id: u32, effect: Effect, rest: &[u8]) {
        self.held.extend(message(b'e', id, rest));
        self.log.insert(id, effect);
        self.undo();
    }

    fn undo(&mut self) {
        self.aborted = true;
        for id in self.segment.drain(..) {
            self.log.insert(id, Effect::None);
        }
    }

    fn sync(&mut self, id: u32, fails: bool) {
        let fails = std::mem::take(&mut self.sync_fails) || fails;
        if fails && !self.aborted {
            self.held.extend(message(b'e', id, &[0, 0]));
            self.undo();
        }
        for id in self.segment.drain(..) {
            self.log.insert(id, Effect::Applied);
        }
        self.aborted = false;
        self.held.extend(message(b's', id, b""));
        self.output.append(&mut self.held);
    }
}
