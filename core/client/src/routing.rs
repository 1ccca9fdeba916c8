//! A cluster with what its host keeps of it, for hosts in Rust: who waits for a command, what was
//! sent for it, and the nodes.

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{NumberMap, Outcome, Time};
use onetrip_redis::Reply;
use onetrip_redis::client::router::Limits;

use crate::cluster::{Cluster, Unanswered, flag};
use crate::completion::Record;
use crate::redis::Packed;

/// A cluster with the calls, flights and nodes of its host.
#[allow(missing_debug_implementations, reason = "it holds what nobody should read")]
pub struct Routing<C, F, N> {
    cluster: Cluster,
    calls: NumberMap<u32, (C, Vec<F>)>,
    nodes: NumberMap<u32, (N, (String, u16))>,
    tokens: u32,
    armed: Time,
}

/// How a command is routed.
#[derive(Clone, Copy, Debug)]
pub struct Routed {
    /// Running it twice is harmless.
    pub is_repeatable: bool,
    /// A replica may answer it if it only reads.
    pub from_replica: bool,
    /// It has a connection to itself.
    pub is_own: bool,
    /// When it fails.
    pub deadline: Time,
}

/// What was sent to a node.
#[derive(Clone, Debug)]
pub enum Flight {
    /// A command, or a part of one.
    Command {
        /// The call.
        token: u32,
        /// The flight.
        number: u32,
        /// ASKING was sent in front of it.
        is_asking: bool,
    },
    /// The question for the topology, and who was asked: a node may leave its own host out.
    Topology(String, u16),
    /// The end of a subscription to a sharded channel, at this node.
    Unsubscription(u32),
}

impl<C, F, N> Routing<C, F, N> {
    /// A cluster that knows no node yet. `seed`: a different number for each.
    pub fn new(limits: Limits, seed: u64) -> Routing<C, F, N> {
        Routing {
            cluster: Cluster::new(limits, seed),
            calls: NumberMap::default(),
            nodes: NumberMap::default(),
            tokens: 0,
            armed: Time::NEVER,
        }
    }

    // --- calls ---

    /// Takes a command of a caller. `call` makes what the host keeps of it, by its token.
    pub fn submit(&mut self, now: Time, packed: &Packed, how: Routed, call: impl FnOnce(u32) -> C) {
        let flags = [
            (how.is_repeatable, flag::REPEATABLE),
            (how.from_replica, flag::FROM_REPLICA),
            (how.is_own, flag::OWN),
            (packed.is_whole(), flag::WHOLE),
        ];
        let flags = flags.iter().filter(|it| it.0).fold(0, |flags, it| flags | it.1);
        let token = self.token(call);
        self.cluster.submit(now, token, flags, packed.commands(), how.deadline);
    }

    /// Keeps a call, by a token that no other has. The greatest is that of the router's own.
    fn token(&mut self, call: impl FnOnce(u32) -> C) -> u32 {
        // Far fewer wait than there are numbers.
        self.tokens = self.tokens % (u32::MAX - 1) + 1;
        let token = self.tokens;
        self.calls.insert(token, (call(token), Vec::new()));
        token
    }

    /// The call of this token.
    pub fn call(&self, token: u32) -> Option<&C> {
        self.calls.get(&token).map(|(call, _)| call)
    }

    /// A call has ended: it, and what was sent for it.
    pub fn finish(&mut self, token: u32) -> Option<(C, Vec<F>)> {
        self.calls.remove(&token)
    }

    /// The caller of a command no longer waits for it. What was sent for it.
    pub fn give_up(&mut self, now: Time, token: u32) -> Vec<F> {
        let flights = self.calls.get_mut(&token).map(|(_, flights)| std::mem::take(flights));
        self.cluster.give_up(now, token);
        flights.unwrap_or_default()
    }

    /// Nothing is sent any more.
    pub fn close(&mut self) {
        self.cluster.close();
    }

    // --- sharded channels ---

    /// Subscribes to a sharded channel. `call` as for [`submit`](Self::submit).
    pub fn subscribe(&mut self, now: Time, channel: &[u8], call: impl FnOnce(u32) -> C) {
        let token = self.token(call);
        self.cluster.subscribe(now, token, channel, Time::NEVER);
    }

    /// Nobody reads a sharded channel any more.
    pub fn unsubscribe(&mut self, channel: &[u8]) {
        self.cluster.unsubscribe(channel);
    }

    /// The connection of a node that all share is open, before anything is sent there; or it was
    /// lost.
    pub fn connected(&mut self, now: Time, node: u32, is_open: bool) {
        self.cluster.connected(now, node, is_open);
    }

    /// A push came from a node. Whether it was for the router.
    pub fn pushed(&mut self, now: Time, node: u32, push: &[u8]) -> bool {
        self.cluster.pushed(now, node, push)
    }

    // --- flights ---

    /// The subscription that a flight has; `None` for other commands.
    pub fn subscription(&self, number: u32) -> Option<Packed> {
        self.cluster.subscription(number)
    }

    /// What is sent of a flight. `of`: what was submitted.
    pub fn flight(&self, number: u32, of: &Packed, asking: bool) -> Option<Packed> {
        self.cluster.flight(number, of, asking)
    }

    /// It was sent for this call.
    pub fn flies(&mut self, token: u32, flight: F) {
        if let Some((_, flights)) = self.calls.get_mut(&token) {
            flights.push(flight);
        }
    }

    /// A flight has ended. Returns the call that this answers, and its reply. `is_list`: what flew
    /// was a list that runs as one.
    pub fn landed(
        &mut self,
        now: Time,
        flight: &Flight,
        reply: Result<Bytes, Unanswered>,
        is_list: bool,
    ) -> Option<(u32, Bytes)> {
        match (flight, reply) {
            (Flight::Topology(host, port), reply) => {
                self.cluster.topology(now, &reply.unwrap_or_default(), (host, *port));
                None
            }
            (Flight::Unsubscription(node), reply) => {
                self.cluster.pushed(now, *node, &reply.unwrap_or_default());
                None
            }
            (Flight::Command { number, .. }, Err(why)) => {
                self.cluster.unanswered(now, *number, why);
                None
            }
            (Flight::Command { token, number, is_asking }, Ok(mut reply)) => {
                if *is_asking && let Ok((_, rest)) = Reply::read(&reply) {
                    reply = reply.slice(reply.len() - rest.len()..);
                }
                let is_final = self.cluster.replied(now, *number, &reply, is_list);
                is_final.then_some((*token, reply))
            }
        }
    }

    /// A flight was not sent.
    pub fn grounded(&mut self, now: Time, number: u32) {
        self.cluster.unanswered(now, number, Unanswered::Lost(Outcome::NotSent));
    }

    // --- nodes ---

    /// A node was opened, at this host and port.
    pub fn opened(&mut self, number: u32, node: N, at: (String, u16)) {
        self.nodes.insert(number, (node, at));
    }

    /// A node, and where it is.
    pub fn node(&self, number: u32) -> Option<&(N, (String, u16))> {
        self.nodes.get(&number)
    }

    /// A node is left.
    pub fn left(&mut self, number: u32) -> Option<N> {
        self.nodes.remove(&number).map(|(node, _)| node)
    }

    /// The node that has a hash slot.
    pub fn node_at(&mut self, slot: u16) -> Option<&N> {
        let number = self.cluster.node_at(Some(slot));
        self.node(number).map(|(node, _)| node)
    }

    // --- what is to be done, and when ---

    /// The records since the last call.
    pub fn drain(&mut self) -> Vec<Record> {
        self.cluster.drain().collect()
    }

    /// It is so late.
    pub fn time(&mut self, now: Time) {
        self.armed = Time::NEVER;
        self.cluster.time(now);
    }

    /// After which time that is to be said next, if that is sooner than what was returned last.
    pub fn wait(&mut self, now: Time) -> Option<Duration> {
        let at = self.cluster.deadline();
        let is_sooner = at < self.armed;
        self.armed = self.armed.min(at);
        is_sooner.then(|| at.since(now))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use onetrip_redis::Command;

    use super::*;
    use crate::completion::kind;

    const HOW: Routed =
        Routed { is_repeatable: false, from_replica: false, is_own: false, deadline: Time::NEVER };
    const SLOTS: &[u8] = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n";

    type Kept = Routing<u32, u32, &'static str>;

    fn packed() -> Packed {
        Packed::command(None, &Command::new("SET").arg("a").arg(1))
    }

    /// A cluster of one node, which has got a command; the flight's number.
    fn sent() -> (Kept, u32) {
        let mut routing = Kept::new(Limits::default(), 1);
        let now = Time::ZERO;
        routing.submit(now, &packed(), HOW, |token| token);
        assert_eq!(routing.drain()[0].kind, kind::CLUSTER_ASK);
        let asked = Flight::Topology("127.0.0.1".to_owned(), 7000);
        routing.landed(now, &asked, Ok(Bytes::from_static(SLOTS)), false);
        let mut number = 0;
        for record in routing.drain() {
            match record.kind {
                kind::CLUSTER_OPEN => {
                    routing.opened(record.a, "node", ("127.0.0.1".to_owned(), 7000));
                }
                kind::CLUSTER_SEND => (number, routing.tokens) = (record.a, record.token),
                _ => {}
            }
        }
        (routing, number)
    }

    #[test]
    fn a_command_is_answered_by_its_flight() {
        let (mut routing, number) = sent();
        let token = routing.tokens;
        assert_eq!(
            routing.flight(number, &packed(), false).unwrap().commands(),
            packed().commands()
        );
        routing.flies(token, 7);
        assert_eq!(routing.node_at(3), Some(&"node"));
        let flight = Flight::Command { token, number, is_asking: true };
        let reply = Ok(Bytes::from_static(b"+OK\r\n+OK\r\n"));
        let answered = routing.landed(Time::ZERO, &flight, reply, false);
        assert_eq!(answered, Some((token, Bytes::from_static(b"+OK\r\n"))));
        assert_eq!(routing.finish(token), Some((token, vec![7])));
        assert_eq!(routing.call(token), None);
    }

    #[test]
    fn a_sharded_channel_is_subscribed_again_when_its_node_says_that_it_is_gone() {
        let (mut routing, number) = sent();
        let (token, now) = (routing.tokens, Time::ZERO);
        let set = Flight::Command { token, number, is_asking: false };
        routing.landed(now, &set, Ok(Bytes::from_static(b"+OK\r\n")), false);
        routing.connected(now, 1, true);
        routing.subscribe(now, b"news", |token| token);
        let [Record { kind: kind::CLUSTER_SEND, token, a: number, .. }] = routing.drain()[..]
        else {
            panic!("it is not sent")
        };
        let sent = routing.subscription(number).unwrap();
        assert_eq!(sent.commands(), b"*2\r\n$10\r\nSSUBSCRIBE\r\n$4\r\nnews\r\n");
        let flight = Flight::Command { token, number, is_asking: false };
        let confirmed = Bytes::from_static(b">3\r\n$10\r\nssubscribe\r\n$4\r\nnews\r\n:1\r\n");
        assert_eq!(routing.landed(now, &flight, Ok(confirmed.clone()), false), None);
        assert_eq!(routing.drain()[0].kind, kind::CLUSTER_REPLY);
        assert!(!routing.pushed(now, 1, &confirmed));

        let gone = b">3\r\n$12\r\nsunsubscribe\r\n$4\r\nnews\r\n:0\r\n";
        assert!(routing.pushed(now, 1, gone));
        let again = routing.drain().into_iter().find(|it| it.kind == kind::CLUSTER_SEND).unwrap();
        let flight = Flight::Command { token: again.token, number: again.a, is_asking: false };
        routing.landed(now, &flight, Ok(confirmed), false);
        let told = routing.drain().into_iter().find(|it| it.kind == kind::CLUSTER_RESUBSCRIBED);
        assert_eq!(told.unwrap().block, "news");
        routing.unsubscribe(b"news");
        let [Record { kind: kind::CLUSTER_UNSUBSCRIBE, a: 1, .. }] = routing.drain()[..] else {
            panic!("it is not unsubscribed")
        };
    }

    #[test]
    fn what_was_given_up_has_its_flights_back() {
        let (mut routing, _) = sent();
        routing.flies(1, 7);
        assert_eq!(routing.give_up(Time::ZERO, 1), [7]);
        assert_eq!(routing.call(1), Some(&1));
        assert_eq!(routing.drain()[0].kind, kind::CLUSTER_FAILED);
    }
}
