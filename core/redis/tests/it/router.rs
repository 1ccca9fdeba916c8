//! The decisions of a router, one rule at a time, for three masters with a replica each.

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token};
use onetrip_redis::client::router::{
    Failed, FlightId, How, Limits, NodeId, Onward, Output, Refused, Router, Why,
};
use onetrip_redis::client::topology::{Node, Shard, Topology};
use onetrip_redis::redirect::Address;
use onetrip_redis::slots::slot_of;
use onetrip_redis::table::Described;
use onetrip_redis::{Command, Reply};

pub(crate) fn node(port: u16) -> Node {
    Node { id: port.to_string().into(), address: Address::new("h", port).unwrap() }
}

/// Masters at 1, 2 and 3, each with a third of the slots; their replicas at 11, 12 and 13.
fn topology() -> Topology {
    let ranges = [0..=5460, 5461..=10_922, 10_923..=16_383];
    let shards = ranges.into_iter().zip(1..).map(|(range, port)| {
        (Shard { master: node(port), replicas: vec![node(port + 10)] }, vec![range])
    });
    Topology::new(shards).unwrap()
}

pub(crate) struct Host {
    pub(crate) router: Router,
    pub(crate) now: Time,
    ports: std::collections::HashMap<NodeId, u16>,
    sent: Vec<(FlightId, u16, bool)>,
    pub(crate) ended: Vec<(u64, Result<Bytes, Failed>)>,
    /// What was said of sharded channels.
    pub(crate) told: Vec<String>,
    pub(crate) refreshes: u32,
    /// The nodes that were asked for the topology.
    asked: Vec<Option<u16>>,
    closed: Vec<u16>,
}

impl Host {
    fn empty() -> Host {
        let router = Router::new(Limits::default(), 7);
        let (ports, now) = (std::collections::HashMap::new(), Time::from_nanos(1));
        let (sent, ended, told, closed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (refreshes, asked) = (0, Vec::new());
        let mut host = Host { router, now, ports, sent, ended, told, refreshes, asked, closed };
        host.time(Duration::ZERO);
        host
    }

    pub(crate) fn new() -> Host {
        let mut host = Host::empty();
        host.topology(&topology());
        host
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Send { flight, node, asking } => {
                    self.sent.push((flight, self.ports[&node], asking));
                }
                Output::Finish { token, result } => self.ended.push((token.0, result)),
                Output::Refresh { from } => {
                    self.refreshes += 1;
                    self.asked.push(from.map(|node| self.ports[&node]));
                }
                Output::Open { node, address } => {
                    self.ports.insert(node, address.port);
                }
                Output::Unsubscribe { node, channel } => {
                    let name = String::from_utf8_lossy(&channel);
                    self.told.push(format!("unsubscribe {name} at {}", self.ports[&node]));
                }
                Output::Resubscribed { channel } => {
                    self.told.push(format!("{} again", String::from_utf8_lossy(&channel)));
                }
                Output::Close { node } => self.closed.push(self.ports[&node]),
            }
        }
    }

    pub(crate) fn topology(&mut self, topology: &Topology) {
        self.router.handle_topology(self.now, topology);
        self.drain();
    }

    pub(crate) fn time(&mut self, passes: Duration) {
        self.now = self.now.after(passes);
        self.router.handle_time(self.now);
        self.drain();
    }

    fn try_submit(&mut self, token: u64, text: &str, how: How) -> Result<(), Refused> {
        let command = Command::new("").args(text.split(' '));
        let result = self.router.submit(self.now, Token(token), command, how);
        self.drain();
        result
    }

    fn submit(&mut self, token: u64, text: &str) {
        self.try_submit(token, text, How::default()).unwrap();
    }

    /// What was sent since the last call, as port and text.
    pub(crate) fn sent(&self) -> Vec<(u16, String)> {
        let text = |flight| {
            let args: Vec<_> = self.router.command(flight).unwrap().iter().collect();
            String::from_utf8(args.join(&b' ')).unwrap()
        };
        self.sent.iter().map(|(flight, port, _)| (*port, text(*flight))).collect()
    }

    pub(crate) fn reply(&mut self, port: u16, reply: &str) {
        let at = self.sent.iter().position(|sent| sent.1 == port).unwrap();
        let (flight, ..) = self.sent.remove(at);
        self.router.handle_reply(self.now, flight, Bytes::copy_from_slice(reply.as_bytes()));
        self.drain();
    }

    pub(crate) fn fail(&mut self, port: u16, outcome: Outcome) {
        let at = self.sent.iter().position(|sent| sent.1 == port).unwrap();
        let (flight, ..) = self.sent.remove(at);
        self.router.handle_failed(self.now, flight, outcome);
        self.drain();
    }

    pub(crate) fn at(&self, port: u16) -> NodeId {
        *self.ports.iter().find(|(_, other)| **other == port).unwrap().0
    }

    fn ended(&self) -> String {
        let (_, result) = self.ended.last().unwrap();
        String::from_utf8(result.as_ref().unwrap().to_vec()).unwrap()
    }

    fn failed(&self) -> (Outcome, Why) {
        let failed = self.ended.last().unwrap().1.as_ref().unwrap_err();
        (failed.outcome, failed.why)
    }
}

// "a" is in slot 15495, "b" in 3300, "c" in 7365: one with each master.
#[test]
fn keys_decide_where_a_command_goes() {
    assert_eq!([slot_of(b"a"), slot_of(b"b"), slot_of(b"c")], [15_495, 3_300, 7_365]);
    let mut host = Host::new();
    host.submit(1, "GET a");
    host.submit(2, "GET b");
    host.submit(3, "EVAL x 1 c arg");
    let sent = [(3, "GET a".into()), (1, "GET b".into()), (2, "EVAL x 1 c arg".into())];
    assert_eq!(host.sent(), sent);
    host.reply(1, "$1\r\nB\r\n");
    assert_eq!(host.ended, [(2, Ok(Bytes::from_static(b"$1\r\nB\r\n")))]);
}

#[test]
fn keys_in_two_slots_are_refused_and_both_are_named() {
    let mut host = Host::new();
    let long = "x".repeat(100);
    for text in ["SINTER a b", "MSETNX a 1 b 2", &format!("RENAME a {long}")] {
        let refused = host.try_submit(1, text, How::default()).unwrap_err().to_string();
        assert!(refused.contains("\"a\" (hash slot 15495)"), "{refused}");
        assert!(refused.len() < 300, "{refused}");
    }
    let refused = host.try_submit(1, "SINTER a \n\u{1}", How::default()).unwrap_err().to_string();
    assert!(refused.contains(r#""\n\x01""#), "{refused}");
    assert!(host.sent.is_empty());
    host.submit(2, "SINTER {t}a {t}b");
}

#[test]
fn what_has_no_place_is_refused_unless_its_slot_is_named() {
    let mut host = Host::new();
    let refused = host.try_submit(1, "JSON.GET a", How::default());
    assert_eq!(refused, Err(Refused::KeysUnknown("JSON.GET".into())));
    let refused = host.try_submit(1, "SCAN 0", How::default());
    assert_eq!(refused, Err(Refused::NodeByNode("SCAN".into())));
    let how = How { slot: Some(slot_of(b"a")), ..How::default() };
    host.try_submit(1, "JSON.GET a", how).unwrap();
    assert_eq!(host.sent(), [(3, "JSON.GET a".into())]);
}

#[test]
fn keys_of_commands_that_a_server_described_are_found() {
    let mut host = Host::new();
    let spec = "*1\r\n*6\r\n$5\r\nflags\r\n*0\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
                $4\r\nspec\r\n*2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n\
                $4\r\nspec\r\n*6\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n";
    let flags = "*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n";
    let entry = format!("*1\r\n*10\r\n$8\r\njson.get\r\n:-2\r\n{flags}{spec}*0\r\n");
    let (reply, rest) = Reply::read(entry.as_bytes()).unwrap();
    assert!(rest.is_empty());
    host.router.learn(Described::read(&reply));
    host.submit(1, "JSON.GET a $");
    assert_eq!(host.sent(), [(3, "JSON.GET a $".into())]);
}

#[test]
fn many_keys_are_split_by_slot_and_put_together_in_their_order() {
    let mut host = Host::new();
    host.submit(1, "MGET a b {a}2 c b");
    let sent = [(3, "MGET a {a}2".into()), (1, "MGET b b".into()), (2, "MGET c".into())];
    assert_eq!(host.sent(), sent);
    host.reply(2, "*1\r\n_\r\n");
    host.reply(1, "*2\r\n$1\r\nB\r\n$2\r\nB2\r\n");
    assert!(host.ended.is_empty());
    host.reply(3, "*2\r\n$1\r\nA\r\n$-1\r\n");
    assert_eq!(host.ended(), "*5\r\n$1\r\nA\r\n$1\r\nB\r\n$-1\r\n_\r\n$2\r\nB2\r\n");

    host.submit(2, "DEL a b c");
    (1..=3).for_each(|port| host.reply(port, ":1\r\n"));
    assert_eq!(host.ended(), ":3\r\n");

    host.submit(3, "MSET a 1 b 2 {a} 3");
    assert_eq!(host.sent(), [(3, "MSET a 1 {a} 3".into()), (1, "MSET b 2".into())]);
    host.reply(3, "+OK\r\n");
    host.reply(1, "+OK\r\n");
    assert_eq!(host.ended(), "+OK\r\n");
}

#[test]
fn a_part_that_failed_fails_the_whole_and_says_what_is_known() {
    let mut host = Host::new();
    host.submit(1, "DEL a b");
    host.reply(3, ":1\r\n");
    host.reply(1, "-NOPERM no\r\n");
    assert_eq!(host.failed(), (Outcome::Unknown, Why::Server));

    host.submit(2, "DEL a b");
    host.reply(3, "-NOPERM no\r\n");
    host.reply(1, "-NOPERM no\r\n");
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Server));

    host.submit(3, "MGET a b");
    host.reply(3, "*1\r\n_\r\n");
    host.reply(1, "-NOPERM no\r\n");
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Server));

    host.submit(4, "DEL a b");
    host.reply(3, ":1\r\n");
    host.reply(1, "+what\r\n");
    assert_eq!(host.failed(), (Outcome::Applied, Why::Mismatch));

    host.submit(5, "MGET a b");
    host.reply(3, "*2\r\n_\r\n_\r\n");
    host.reply(1, "*0\r\n");
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Mismatch));
}

#[test]
fn commands_without_keys_go_where_their_description_says() {
    let mut host = Host::new();
    let mut all = |text: &str, ports: &[u16], replies: &[&str], whole: &str| {
        host.submit(1, text);
        let sent: Vec<_> = host.sent.iter().map(|sent| sent.1).collect();
        assert_eq!(sent, ports, "{text}");
        ports.iter().zip(replies).for_each(|(port, reply)| host.reply(*port, reply));
        assert_eq!(host.ended(), whole, "{text}");
    };
    let masters = &[1, 2, 3];
    all("DBSIZE", masters, &[":1\r\n", ":2\r\n", ":4\r\n"], ":7\r\n");
    all("FLUSHALL", masters, &["+OK\r\n"; 3], "+OK\r\n");
    let lists = ["*1\r\n$1\r\na\r\n", "*0\r\n", "*1\r\n$1\r\nb\r\n"];
    all("KEYS *", masters, &lists, "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    let found = ["*2\r\n:1\r\n:1\r\n", "*2\r\n:0\r\n:1\r\n", "*2\r\n:1\r\n:1\r\n"];
    all("SCRIPT EXISTS x y", masters, &found, "*2\r\n:0\r\n:1\r\n");
    let killed = ["-NOTBUSY no\r\n", "+OK\r\n", "-NOTBUSY no\r\n"];
    all("SCRIPT KILL", masters, &killed, "+OK\r\n");
    all("RANDOMKEY", masters, &["_\r\n", "$1\r\nk\r\n", "_\r\n"], "$1\r\nk\r\n");
    all("SCRIPT LOAD x", &[1, 2, 3, 11, 12, 13], &["$1\r\nh\r\n"; 6], "$1\r\nh\r\n");
    let infos = ["$1\r\na\r\n", "$1\r\nb\r\n", "$1\r\nc\r\n"];
    let by_node = "%3\r\n$3\r\nh:1\r\n$1\r\na\r\n$3\r\nh:2\r\n$1\r\nb\r\n$3\r\nh:3\r\n$1\r\nc\r\n";
    all("INFO", masters, &infos, by_node);
}

#[test]
fn commands_without_keys_and_policy_take_turns() {
    let mut host = Host::new();
    (0..6).for_each(|token| host.submit(token, "PUBLISH c m"));
    let mut ports: Vec<_> = host.sent.iter().map(|sent| sent.1).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 1, 2, 2, 3, 3]);
}

#[test]
fn replicas_answer_reads_where_the_caller_allows_it() {
    let mut host = Host::new();
    let how = How { from_replica: true, ..How::default() };
    host.try_submit(1, "GET a", how).unwrap();
    host.try_submit(2, "SET a 1", how).unwrap();
    host.try_submit(3, "EVAL x 1 a", how).unwrap();
    assert_eq!(host.sent.iter().map(|sent| sent.1).collect::<Vec<_>>(), [13, 3, 3]);
    // A replica that no longer has the slot.
    host.reply(13, "-MOVED 15495 h:3\r\n");
    assert_eq!(host.sent().last().unwrap(), &(3, "GET a".into()));
}

#[test]
fn moved_commands_go_to_the_new_node_before_those_that_came_later() {
    let mut host = Host::new();
    ["1", "2", "3"].iter().for_each(|n| host.submit(1, &format!("APPEND a {n}")));
    host.reply(3, "-MOVED 15495 h:1\r\n");
    host.submit(4, "APPEND a 4");
    // The first is in flight; the fourth waits until the old node has answered.
    let to_new = |host: &Host| {
        let sent = host.sent().into_iter().filter(|sent| sent.0 == 1);
        sent.map(|sent| sent.1).collect::<Vec<_>>()
    };
    assert_eq!(to_new(&host), ["APPEND a 1"]);
    host.reply(3, "-MOVED 15495 h:1\r\n");
    host.reply(3, "-MOVED 15495 h:1\r\n");
    assert_eq!(to_new(&host), ["APPEND a 1", "APPEND a 2", "APPEND a 3", "APPEND a 4"]);
    host.submit(5, "APPEND a 5");
    assert_eq!(to_new(&host).len(), 5);
}

#[test]
fn asked_command_goes_there_behind_asking_and_later_ones_do_not() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    host.reply(3, "-ASK 15495 h:2\r\n");
    assert_eq!(host.sent.iter().map(|sent| (sent.1, sent.2)).collect::<Vec<_>>(), [(2, true)]);
    host.submit(2, "GET {a}2");
    assert_eq!(host.sent.last().map(|sent| (sent.1, sent.2)), Some((3, false)));
    assert_eq!(host.refreshes, 1);
}

#[test]
fn what_is_sent_outside_of_the_order_is_sent_on_and_what_it_met_is_learned() {
    let mut host = Host::new();
    let [first, other] = [3_300, 15_495].map(|slot| host.router.node_of(slot).unwrap());
    let refused = |host: &mut Host, slot, reply: &str| {
        let onward = host.router.handle_refused(host.now, slot, first, reply.as_bytes());
        host.drain();
        onward
    };
    let to = |node, asking| Some(Onward::To { node, asking });
    assert_eq!(refused(&mut host, 3_300, "*-1\r\n"), None);
    assert_eq!(refused(&mut host, 3_300, "-WRONGTYPE no\r\n"), None);
    assert_eq!(refused(&mut host, 3_300, "-MOVED 1 h:3\r\n"), None);
    assert_eq!(refused(&mut host, 3_300, "-TRYAGAIN no\r\n"), Some(Onward::Later));
    assert_eq!(refused(&mut host, 3_300, "-MOVED 3300 h:99\r\n"), Some(Onward::Later));
    assert_eq!(refused(&mut host, 3_300, "-ASK 3300 h:3\r\n"), to(other, true));
    assert_eq!(host.router.node_of(3_300), Some(first));
    assert_eq!(refused(&mut host, 3_300, "-MOVED 3300 h:3\r\n"), to(other, false));
    assert_eq!(host.router.node_of(3_300), Some(other));
    // By now the new node is known.
    assert_eq!(refused(&mut host, 3_300, "-MOVED 3300 h:2\r\n"), to(other, false));
    host.submit(1, "GET b");
    assert_eq!(host.sent(), [(3, "GET b".into())]);
}

/// After a failover the topology may not have the former master for a moment.
#[test]
fn a_node_that_has_left_still_says_where_commands_outside_of_the_order_go() {
    let mut host = Host::new();
    let [first, other] = [3_300, 15_495].map(|slot| host.router.node_of(slot).unwrap());
    let ranges = [(11, 0..=5460), (2, 5461..=10_922), (3, 10_923..=16_383)];
    let alone = |port| Shard { master: node(port), replicas: Vec::new() };
    let shards = ranges.map(|(port, slots)| (alone(port), vec![slots]));
    host.topology(&Topology::new(shards).unwrap());
    assert!(host.closed.contains(&1));
    let next = host.router.node_of(3_300).unwrap();
    let mut refused = |reply: &str| {
        let onward = host.router.handle_refused(host.now, 3_300, first, reply.as_bytes());
        host.drain();
        onward
    };
    let to = |node, asking| Some(Onward::To { node, asking });
    assert_eq!(refused("-MOVED 3300 h:11\r\n"), to(next, false));
    assert_eq!(refused("-ASK 3300 h:3\r\n"), to(other, true));
    assert_eq!(refused("-MOVED 3300 :11\r\n"), Some(Onward::Later), "at which host?");
    assert_eq!(refused("-MOVED 1 h:3\r\n"), None, "that is of a script");
}

/// The flight that was sent last.
fn last(host: &Host) -> FlightId {
    host.sent.last().unwrap().0
}

const OWN: How =
    How { own: true, repeatable: false, from_replica: false, slot: None, deadline: None };

#[test]
fn what_blocks_is_sent_on_and_keeps_no_other_from_its_order() {
    let mut host = Host::new();
    host.try_submit(1, "BLPOP a 0", OWN).unwrap();
    host.submit(2, "GET a");
    host.reply(3, "-ASK 15495 h:2\r\n");
    assert_eq!(host.sent.last().map(|sent| (sent.1, sent.2)), Some((2, true)));
    host.submit(3, "GET a");
    assert_eq!(host.sent.len(), 3, "it does not wait for what is blocked");
    host.reply(2, "-MOVED 15495 h:3\r\n");
    assert_eq!(host.sent.last().map(|sent| (sent.1, sent.2)), Some((3, false)));
    host.reply(3, "$-1\r\n");
    host.reply(3, "$-1\r\n");
    host.reply(3, "-MOVED 15495 h:1\r\n");
    assert_eq!(host.router.node_of(15_495), host.router.node_of(3_300));
    host.reply(1, "*2\r\n$1\r\na\r\n$1\r\nx\r\n");
    assert_eq!(host.ended.last().unwrap().0, 1);
}

#[test]
fn what_blocks_at_a_master_that_becomes_a_replica_is_sent_again() {
    let mut host = Host::new();
    host.try_submit(1, "BLPOP a 0", OWN).unwrap();
    host.reply(3, "-UNBLOCKED force unblock from blocking operation, instance state changed\r\n");
    assert!(host.ended.is_empty() && host.sent.is_empty());
    host.time(Duration::from_secs(1));
    assert_eq!(host.sent(), [(3, "BLPOP a 0".into())]);
    host.reply(3, "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    assert_eq!(host.ended(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
}

#[test]
fn what_blocks_waits_for_a_node_to_have_its_slot() {
    let mut host = Host::new();
    host.topology(&topology_with_a_gap());
    host.try_submit(1, "BLPOP c 0", OWN).unwrap();
    host.try_submit(2, "BLPOP a 0", OWN).unwrap();
    assert_eq!(host.sent(), [(3, "BLPOP a 0".into())]);
    host.time(Duration::from_secs(1));
    host.topology(&topology());
    assert_eq!(host.sent.len(), 2);
}

#[test]
fn a_deadline_ends_what_waits_and_what_is_on_its_way() {
    let mut host = Host::new();
    let deadline = Some(host.now.after(Duration::from_secs(1)));
    let how = How { deadline, ..How::default() };
    host.topology(&topology_with_a_gap());
    host.try_submit(1, "GET c", how).unwrap();
    host.try_submit(2, "INCR a", how).unwrap();
    host.time(Duration::from_secs(1));
    assert_eq!((host.ended.len(), host.failed()), (1, (Outcome::NotSent, Why::Deadline)));
    let flight = last(&host);
    host.router.handle_expired(host.now, flight, Outcome::Unknown);
    host.drain();
    assert_eq!((host.ended.len(), host.failed()), (2, (Outcome::Unknown, Why::Deadline)));

    let mut host = Host::empty();
    let deadline = Some(host.now.after(Duration::from_secs(1)));
    host.try_submit(1, "DBSIZE", How { deadline, ..How::default() }).unwrap();
    host.time(Duration::from_secs(1));
    assert_eq!(host.failed(), (Outcome::NotSent, Why::Deadline));
}

#[test]
fn what_is_given_up_ends_at_once_and_its_late_reply_is_nobodys() {
    let mut host = Host::new();
    host.submit(1, "INCR a");
    host.router.give_up(host.now, Token(1));
    host.drain();
    assert_eq!(host.failed(), (Outcome::Unknown, Why::GivenUp));
    host.reply(3, "-MOVED 15495 h:1\r\n");
    assert!(host.sent.is_empty(), "nobody wants it sent again");
    assert_eq!((host.ended.len(), host.router.unanswered()), (1, 0));

    host.topology(&topology_with_a_gap());
    host.submit(2, "GET c");
    host.router.give_up(host.now, Token(2));
    host.drain();
    assert_eq!(host.failed(), (Outcome::NotSent, Why::GivenUp));
    host.submit(3, "INCR a");
    let flight = last(&host);
    host.router.handle_taken_back(host.now, flight);
    host.drain();
    assert_eq!((host.ended.len(), host.failed()), (3, (Outcome::NotSent, Why::GivenUp)));
    assert_eq!((host.router.unanswered(), host.router.held()), (0, 0));
}

#[test]
fn a_part_that_was_answered_makes_what_is_given_up_unknown() {
    let mut host = Host::new();
    host.submit(1, "DEL a b");
    host.reply(3, ":1\r\n");
    host.router.handle_taken_back(host.now, host.sent[0].0);
    host.drain();
    assert_eq!(host.failed(), (Outcome::Unknown, Why::GivenUp));
}

#[test]
fn a_closed_router_holds_nothing_and_sends_nothing_again() {
    let mut host = Host::new();
    host.submit(1, "INCR a");
    host.topology(&topology_with_a_gap());
    host.submit(2, "GET c");
    host.router.close();
    host.drain();
    assert_eq!((host.ended.len(), host.failed()), (1, (Outcome::NotSent, Why::Closed)));
    host.fail(3, Outcome::NotSent);
    assert_eq!((host.ended.len(), host.failed()), (2, (Outcome::NotSent, Why::Closed)));
    assert_eq!((host.router.poll_deadline(), host.router.unanswered()), (None, 0));
}

#[test]
fn a_reply_may_stay_with_the_host_unless_more_is_made_of_it() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    assert!(host.router.handle_reply_in_place(host.now, last(&host), b"$1\r\nA\r\n"));
    assert!(!host.router.handle_reply_in_place(host.now, last(&host), b"$1\r\nA\r\n"));
    host.drain();
    assert!(host.ended.is_empty() && host.router.unanswered() == 0);
    host.sent.clear();
    host.submit(2, "MGET a b");
    for (at, reply) in [b"*1\r\n:1\r\n", b"*1\r\n:2\r\n"].into_iter().enumerate() {
        assert!(!host.router.handle_reply_in_place(host.now, host.sent[at].0, reply));
    }
    host.drain();
    assert_eq!(host.ended(), "*2\r\n:1\r\n:2\r\n");
    host.submit(3, "GET a");
    assert!(!host.router.handle_reply_in_place(host.now, last(&host), b"-ERR no\r\n"));
    host.drain();
    assert_eq!(host.ended(), "-ERR no\r\n");
}

#[test]
fn a_list_is_followed_by_what_its_replies_say() {
    let mut host = Host::new();
    let how = How { slot: Some(15_495), ..How::default() };
    host.try_submit(1, "MULTI", how).unwrap();
    let moved = b"+OK\r\n-MOVED 15495 h:1\r\n-EXECABORT no\r\n";
    assert!(!host.router.handle_list_in_place(host.now, last(&host), moved));
    host.drain();
    assert_eq!(host.sent.last().map(|sent| sent.1), Some(1));
    let refused = b"+OK\r\n-ERR no\r\n-EXECABORT no\r\n";
    assert!(host.router.handle_list_in_place(host.now, last(&host), refused));
}

#[test]
fn nothing_waits_for_a_cluster_that_never_said_what_it_looks_like() {
    let mut host = Host::empty();
    host.submit(1, "GET a");
    host.submit(2, "DBSIZE");
    host.router.handle_no_topology(host.now);
    host.drain();
    assert_eq!((host.ended.len(), host.failed()), (2, (Outcome::NotSent, Why::Unserved)));
}

#[test]
fn where_a_node_does_not_know_the_topology_others_are_asked_at_once() {
    let mut host = Host::new();
    host.time(Duration::from_secs(60));
    assert_eq!(host.refreshes, 2);
    host.router.handle_no_topology(host.now);
    host.drain();
    assert_eq!(host.refreshes, 3);
    host.router.handle_no_topology(host.now);
    host.drain();
    assert_eq!(host.refreshes, 3, "there is a pause");
}

#[test]
fn redirects_are_counted_anew_behind_each_pause() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    // The slot moves, and its new node can't take the command for a while.
    for _ in 0..8 {
        host.reply(3, "-ASK 15495 h:1\r\n");
        host.reply(1, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
        host.time(Duration::from_secs(1));
    }
    host.reply(3, "-ASK 15495 h:1\r\n");
    host.reply(1, "+OK\r\n");
    assert_eq!(host.ended(), "+OK\r\n");
}

#[test]
fn redirects_are_followed_five_times() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    let mut ports = [3, 1].iter().cycle();
    for _ in 0..6 {
        let (from, to) = (*ports.next().unwrap(), if host.sent[0].1 == 3 { 1 } else { 3 });
        host.reply(from, &format!("-MOVED 15495 h:{to}\r\n"));
    }
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Redirects));
    assert!(host.sent.is_empty());
}

#[test]
fn redirect_to_a_stranger_waits_for_a_topology_that_knows_it() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    host.submit(2, "GET {a}2");
    host.reply(3, "-MOVED 15495 evil:1\r\n");
    host.reply(3, "-ASK 15495 h:4\r\n");
    assert!(host.sent.is_empty());
    host.time(Duration::from_secs(1));
    assert_eq!(host.refreshes, 2);
    // The node at port 4 has joined; the other one is not part of the cluster.
    let mut shards: Vec<_> = topology().shards().to_vec();
    shards.push(Shard { master: node(4), replicas: vec![] });
    let ranges = [vec![0..=5460], vec![5461..=10_922], vec![10_923..=16_383], vec![]];
    host.topology(&Topology::new(shards.into_iter().zip(ranges)).unwrap());
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Outside));
    assert_eq!(host.sent.iter().map(|sent| (sent.1, sent.2)).collect::<Vec<_>>(), [(4, true)]);
}

#[test]
fn only_a_redirect_of_the_slot_that_was_asked_for_is_one() {
    let mut host = Host::new();
    host.submit(1, "EVAL x 1 a");
    host.reply(3, "-MOVED 1 h:1\r\n");
    assert_eq!(host.ended(), "-MOVED 1 h:1\r\n");
    // A node never redirects to itself.
    host.submit(4, "EVAL x 1 a");
    host.reply(3, "-MOVED 15495 h:3\r\n");
    assert_eq!(host.ended(), "-MOVED 15495 h:3\r\n");
    host.submit(2, "DBSIZE");
    host.reply(1, "-MOVED 1 h:1\r\n");
    assert!(host.sent.iter().all(|sent| sent.1 != 1));
}

#[test]
fn what_a_node_refuses_for_a_while_is_sent_again_after_a_pause() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    for _ in 0..9 {
        host.reply(3, "-LOADING the data set\r\n");
        assert!(host.sent.is_empty() && host.ended.is_empty());
        assert!(host.router.poll_deadline().unwrap() > host.now);
        host.time(Duration::from_secs(1));
        assert_eq!(host.sent(), [(3, "GET a".into())]);
    }
    // It may wait for ten seconds in all.
    host.reply(3, "-LOADING the data set\r\n");
    host.time(Duration::from_secs(1));
    assert_eq!(host.ended(), "-LOADING the data set\r\n");
}

#[test]
fn what_a_script_answers_in_the_words_of_a_node_is_its_own_error() {
    for own in ["LOADING mine", "TRYAGAIN later", "CLUSTERDOWN no", "MASTERDOWN no"] {
        let mut host = Host::new();
        host.submit(1, "EVAL x 1 a");
        host.reply(3, &format!("-{own}\r\n"));
        assert_eq!(host.ended(), format!("-{own}\r\n"));
        assert!(host.sent.is_empty());
    }
    for refusal in [
        "LOADING Redis is loading the dataset in memory",
        "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ] {
        let mut host = Host::new();
        host.submit(1, "EVAL x 1 a");
        host.reply(3, &format!("-{refusal}\r\n"));
        host.time(Duration::from_secs(1));
        assert_eq!(host.sent(), [(3, "EVAL x 1 a".into())], "{refusal}");
    }
}

#[test]
fn script_that_its_node_does_not_know_is_sent_again_unless_it_is_followed() {
    const UNKNOWN: &str = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    let mut host = Host::new();
    host.submit(1, "EVAL x 1 a");
    host.submit(2, "GET b");
    host.reply(3, UNKNOWN);
    assert_eq!(host.sent(), [(1, "GET b".into()), (3, "EVAL x 1 a".into())]);
    host.submit(3, "GET a");
    host.reply(3, UNKNOWN);
    assert_eq!(host.ended(), UNKNOWN);
    // The caller that sent the hash gets the error.
    host.submit(4, "EVALSHA x 1 c");
    host.reply(2, UNKNOWN);
    assert_eq!(host.ended(), UNKNOWN);
}

#[test]
fn what_was_lost_is_sent_again_only_if_it_can_be() {
    let mut host = Host::new();
    host.submit(1, "INCR a");
    host.fail(3, Outcome::Unknown);
    assert_eq!(host.failed(), (Outcome::Unknown, Why::Lost));

    host.submit(2, "INCR a");
    host.fail(3, Outcome::NotSent);
    host.time(Duration::from_secs(1));
    host.reply(3, ":1\r\n");
    assert_eq!(host.ended(), ":1\r\n");

    host.try_submit(3, "GET a", How { repeatable: true, ..How::default() }).unwrap();
    host.fail(3, Outcome::Unknown);
    host.time(Duration::from_secs(1));
    host.reply(3, "_\r\n");
    assert_eq!(host.ended(), "_\r\n");
}

#[test]
fn what_was_lost_once_is_unknown_whatever_is_said_of_it_later() {
    for last in ["-WRONGTYPE no\r\n", "-OOM no\r\n"] {
        let mut host = Host::new();
        host.try_submit(1, "GET a", How { repeatable: true, ..How::default() }).unwrap();
        host.fail(3, Outcome::Unknown);
        host.time(Duration::from_secs(1));
        host.reply(3, last);
        assert_eq!(host.failed(), (Outcome::Unknown, Why::Server));
    }
}

#[test]
fn topology_is_asked_for_once_at_a_time_and_not_too_often() {
    let mut host = Host::new();
    assert_eq!(host.refreshes, 1);
    for token in 0..1_000 {
        host.submit(token, "GET a");
    }
    for _ in 0..1_000 {
        host.reply(3, "-MOVED 15495 h:1\r\n");
    }
    assert_eq!(host.refreshes, 1, "the pause is over");
    host.time(Duration::from_secs(1));
    assert_eq!(host.refreshes, 2);
    for _ in 0..10 {
        host.time(Duration::from_secs(10));
    }
    assert_eq!(host.refreshes, 2, "the answer has not come");
    host.router.handle_no_topology(host.now);
    host.time(Duration::from_secs(1));
    assert_eq!(host.refreshes, 3);
    host.topology(&topology());
    host.time(Duration::from_secs(59));
    assert_eq!(host.refreshes, 3);
    host.time(Duration::from_secs(1));
    assert_eq!(host.refreshes, 4, "a minute has passed");
}

#[test]
fn commands_wait_for_the_first_topology_and_not_for_ever() {
    let mut host = Host::empty();
    host.submit(1, "GET a");
    host.submit(2, "DBSIZE");
    host.submit(3, "PUBLISH c m");
    assert!(host.sent.is_empty());
    host.topology(&topology());
    assert_eq!(host.sent.len(), 5);

    let mut host = Host::empty();
    host.submit(1, "GET a");
    host.submit(2, "DBSIZE");
    host.submit(3, "PUBLISH c m");
    host.time(Duration::from_secs(10));
    assert_eq!(host.ended.len(), 3);
    assert_eq!(host.failed(), (Outcome::NotSent, Why::Unserved));
    assert_eq!((host.router.held(), host.router.unanswered()), (0, 0));
}

#[test]
fn cluster_without_nodes_serves_nobody() {
    let mut host = Host::empty();
    host.submit(1, "DBSIZE");
    host.submit(2, "PUBLISH c m");
    for _ in 0..10 {
        host.topology(&Topology::new([]).unwrap());
        host.time(Duration::from_secs(1));
    }
    assert_eq!(host.ended.len(), 2);
    assert_eq!(host.failed(), (Outcome::NotSent, Why::Unserved));
}

/// No node serves the slots of the second master.
fn topology_with_a_gap() -> Topology {
    let shards = topology().shards().to_vec().into_iter();
    let ranges = [vec![0..=5460], vec![], vec![10_923..=16_383]];
    Topology::new(shards.zip(ranges)).unwrap()
}

#[test]
fn too_many_that_wait_are_refused_and_others_are_not() {
    let mut host = Host::empty();
    host.topology(&topology_with_a_gap());
    for token in 0..10_000 {
        host.submit(token, "GET c");
    }
    for text in ["GET c", "MGET a c"] {
        assert_eq!(host.try_submit(0, text, How::default()), Err(Refused::Full), "{text}");
    }
    for text in ["GET a", "DBSIZE", "PUBLISH c m"] {
        host.submit(0, text);
    }
}

#[test]
fn slot_that_is_nobodys_is_asked_about_until_somebody_has_it() {
    let mut host = Host::empty();
    host.topology(&topology_with_a_gap());
    host.submit(1, "GET c");
    for refreshes in 2..5 {
        host.time(Duration::from_secs(1));
        assert_eq!(host.refreshes, refreshes);
        assert!(host.sent.is_empty());
        host.topology(&topology_with_a_gap());
    }
    host.time(Duration::from_secs(1));
    host.topology(&topology());
    assert_eq!(host.sent(), [(2, "GET c".into())]);
    host.time(Duration::from_secs(1));
    assert_eq!(host.refreshes, 5, "all is known");
}

#[test]
fn asked_command_survives_that_the_node_leaves() {
    let mut host = Host::new();
    host.submit(1, "GET c");
    host.submit(2, "GET {c}2");
    host.reply(2, "-ASK 7365 h:4\r\n");
    host.time(Duration::from_secs(1));
    // Neither the node that it was sent to nor a node that serves the slot exists any more.
    host.topology(&topology_with_a_gap());
    host.reply(2, "-ASK 7365 h:1\r\n");
    assert_eq!(host.failed(), (Outcome::Rejected, Why::Outside));
    host.reply(1, "_\r\n");
    assert_eq!(host.ended(), "_\r\n");
    assert_eq!((host.router.held(), host.router.unanswered()), (0, 0));
}

#[test]
fn node_that_left_is_closed_when_nothing_is_unanswered_there() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    let shards = topology().shards().to_vec();
    let mut shards: Vec<_> =
        shards.into_iter().zip([0..=5460, 5461..=10_922, 10_923..=16_383]).collect();
    shards[2].0 = Shard { master: node(13), replicas: vec![] };
    let shards = shards.into_iter().map(|(shard, range)| (shard, vec![range]));
    host.topology(&Topology::new(shards).unwrap());
    assert!(host.closed.is_empty());
    host.reply(3, "_\r\n");
    assert_eq!(host.closed, [3]);
    host.submit(2, "GET a");
    assert_eq!(host.sent(), [(13, "GET a".into())]);
}

#[test]
fn what_comes_late_is_ignored() {
    let mut host = Host::new();
    host.submit(1, "GET a");
    let (flight, ..) = host.sent[0];
    host.reply(3, "_\r\n");
    host.router.handle_reply(host.now, flight, Bytes::from_static(b":1\r\n"));
    host.router.handle_failed(host.now, flight, Outcome::Unknown);
    host.drain();
    assert_eq!(host.ended.len(), 1);
    assert!(host.router.command(flight).is_none());
}

const MS: Duration = Duration::from_millis(1);

/// The same cluster where the replica of the third master has taken over.
fn taken_over() -> Topology {
    let ranges = [0..=5460, 5461..=10_922, 10_923..=16_383];
    let masters = ranges.into_iter().zip([1, 2, 13]);
    Topology::new(
        masters
            .map(|(range, port)| (Shard { master: node(port), replicas: Vec::new() }, vec![range])),
    )
    .unwrap()
}

/// A client whose third node has lost its connection, with one command that tries it.
fn cut_off() -> Host {
    let mut host = Host::new();
    let third = host.at(3);
    host.router.handle_connected(host.now, third);
    host.router.handle_disconnected(host.now, third);
    host.submit(1, "INCR a");
    assert_eq!(host.sent(), [(3, "INCR a".into())]);
    host
}

#[test]
fn one_command_at_a_time_tries_a_node_without_a_connection() {
    let mut host = cut_off();
    for token in 2..10 {
        host.submit(token, "INCR a");
        host.submit(token + 10, "GET {a}2");
    }
    host.submit(100, "GET b");
    for _ in 0..5 {
        assert_eq!(host.sent(), [(3, "INCR a".into()), (1, "GET b".into())]);
        host.fail(3, Outcome::NotSent);
        assert_eq!(host.sent(), [(1, "GET b".into())], "there is a pause");
        host.time(Duration::from_secs(1));
        host.sent.reverse();
    }
    let third = host.at(3);
    host.router.handle_connected(host.now, third);
    host.drain();
    assert_eq!(host.sent.iter().filter(|sent| sent.1 == 3).count(), 17, "all go there at once");
}

#[test]
fn what_waits_for_a_node_goes_in_order_to_the_one_that_takes_over() {
    let mut host = cut_off();
    host.submit(2, "INCR {a}2");
    host.submit(3, "INCR a");
    for _ in 0..3 {
        host.fail(3, Outcome::NotSent);
        host.time(Duration::from_secs(1));
    }
    host.fail(3, Outcome::NotSent);
    assert!(host.sent.is_empty());
    host.topology(&taken_over());
    let commands = ["INCR a", "INCR {a}2", "INCR a"];
    assert_eq!(host.sent(), commands.map(|command| (13, command.to_owned())));
}

#[test]
fn while_commands_wait_for_a_node_the_topology_is_asked_for_again_and_again_elsewhere() {
    let mut host = cut_off();
    let before = host.refreshes;
    host.submit(2, "INCR a");
    for _ in 0..8 {
        host.time(Duration::from_secs(1));
        host.topology(&topology());
    }
    assert!((before + 6..=before + 9).contains(&host.refreshes), "{}", host.refreshes);
    assert!(!host.asked.contains(&Some(3)), "it can't be reached");
}

#[test]
fn a_command_waits_for_a_node_as_long_as_it_may_in_all() {
    let mut host = cut_off();
    host.submit(2, "INCR a");
    host.submit(3, "DBSIZE");
    host.try_submit(4, "GET a", How { deadline: Some(host.now.after(MS)), ..How::default() })
        .unwrap();
    host.time(MS);
    assert_eq!((host.ended.len(), host.failed()), (1, (Outcome::NotSent, Why::Deadline)));
    // The host's line keeps it for a while, again and again.
    for second in 1..10 {
        host.time(Duration::from_secs(1));
        assert_eq!(host.ended.len(), 1, "after {second} s");
        host.fail(3, Outcome::NotSent);
        host.time(Duration::ZERO);
    }
    host.time(Duration::from_secs(2));
    assert_eq!(host.failed(), (Outcome::NotSent, Why::Lost));
    host.sent.iter().for_each(|sent| assert_ne!(sent.1, 3));
    assert_eq!(host.ended.len(), 3);
}

#[test]
fn a_command_that_waits_in_the_line_of_its_node_for_long_goes_on() {
    let mut host = Host::new();
    let deadline = host.now.after(Duration::from_secs(5));
    host.try_submit(1, "GET a", How { deadline: Some(deadline), ..How::default() }).unwrap();
    host.topology(&taken_over());
    host.time(Duration::from_secs(1));
    host.router.handle_expired(host.now, last(&host), Outcome::NotSent);
    host.drain();
    assert_eq!(host.sent()[1], (13, "GET a".into()));
}

#[test]
fn reads_go_past_a_replica_that_cannot_be_reached() {
    let mut host = Host::new();
    let how = How { from_replica: true, ..How::default() };
    host.try_submit(1, "GET a", how).unwrap();
    host.fail(13, Outcome::NotSent);
    assert_eq!(host.sent(), [(3, "GET a".into())], "the master has it, too");
    host.try_submit(2, "GET a", how).unwrap();
    host.try_submit(3, "GET b", how).unwrap();
    let ports: Vec<u16> = host.sent.iter().map(|sent| sent.1).collect();
    assert_eq!(ports, [3, 3, 11]);
}

#[test]
fn what_any_node_can_do_goes_past_a_master_that_cannot_be_reached() {
    let mut host = cut_off();
    for token in 2..8 {
        host.submit(token, "PUBLISH c m");
    }
    assert_eq!(host.sent.iter().filter(|sent| sent.1 == 3).count(), 1, "what tries it");
    assert_eq!(host.sent.len(), 7);
}
