//! Sharded channels: where they are subscribed, and when they are subscribed again.

use std::time::Duration;

use onetrip_engine::{Outcome, Token};
use onetrip_redis::client::router::unsubscribed;
use onetrip_redis::client::topology::{Shard, Topology};

use super::router::{Host, node};

const SECOND: Duration = Duration::from_secs(1);

// "a" is in slot 15495, "b" in 3300, "c" in 7365: one with each master.
const CONFIRMED: &str = ">3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n";

impl Host {
    fn subscribe(&mut self, token: u64, name: &str) {
        self.router.subscribe(self.now, Token(token), name.as_bytes(), None).unwrap();
        self.drain();
    }

    fn unsubscribe(&mut self, name: &str) {
        self.router.unsubscribe(name.as_bytes());
        self.drain();
    }

    fn unsubscribed_by(&mut self, port: u16, name: &str) {
        self.router.handle_unsubscribed(self.now, self.at(port), name.as_bytes());
        self.drain();
    }

    fn connected(&mut self, port: u16) {
        self.router.handle_connected(self.now, self.at(port));
        self.drain();
    }
}

/// A host that has subscribed to "a" at its master, 3.
fn subscribed() -> Host {
    let mut host = Host::new();
    host.connected(3);
    host.subscribe(1, "a");
    host.reply(3, CONFIRMED);
    assert_eq!(host.ended.pop().unwrap().0, 1);
    host
}

/// The last third of the slots is at the second master now.
fn without_third() -> Topology {
    let ranges = [vec![0..=5460], vec![5461..=16_383]];
    let shards = ranges.into_iter().zip(1..).map(|(ranges, port)| {
        (Shard { master: node(port), replicas: vec![node(port + 10)] }, ranges)
    });
    Topology::new(shards).unwrap()
}

fn ask(port: u16) -> Vec<(u16, String)> {
    vec![(port, "SSUBSCRIBE a".into())]
}

#[test]
fn a_channel_is_subscribed_at_the_node_of_its_slot() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.subscribe(2, "b");
    assert_eq!(host.sent(), [(3, "SSUBSCRIBE a".into()), (1, "SSUBSCRIBE b".into())]);
}

#[test]
fn a_redirect_is_followed_to_the_node_that_has_the_slot() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.reply(3, "-MOVED 15495 h:2\r\n");
    assert_eq!(host.sent(), ask(2));
    host.reply(2, CONFIRMED);
    assert_eq!(host.ended.len(), 1);
    assert!(host.told.is_empty(), "it was never subscribed before");
}

#[test]
fn a_slot_that_moves_takes_its_channels_along_and_readers_are_told() {
    let mut host = subscribed();
    host.unsubscribed_by(3, "a");
    // Where the slot is by now, only the old node knows.
    assert_eq!(host.sent(), ask(3));
    host.reply(3, "-MOVED 15495 h:2\r\n");
    assert!(host.told.is_empty(), "nobody is told before it is subscribed");
    host.reply(2, CONFIRMED);
    assert_eq!(host.told, ["a again"]);
    assert!(host.ended.iter().all(|(token, _)| *token != 1), "its caller is told once");
}

#[test]
fn what_another_node_says_of_a_channel_changes_nothing() {
    let mut host = subscribed();
    host.unsubscribed_by(2, "a");
    host.unsubscribed_by(3, "other");
    host.connected(2);
    assert!(host.sent().is_empty() && host.told.is_empty());
}

#[test]
fn a_new_connection_subscribes_again() {
    let mut host = subscribed();
    host.connected(3);
    assert_eq!(host.sent(), ask(3));
    host.reply(3, CONFIRMED);
    assert_eq!(host.told, ["a again"]);
}

#[test]
fn a_lost_connection_asks_who_has_the_slot_now() {
    let mut host = subscribed();
    let refreshes = host.refreshes;
    host.router.handle_disconnected(host.now, host.at(3));
    host.time(2 * SECOND);
    assert_eq!((host.sent(), host.refreshes), (ask(3), refreshes + 1));
    host.topology(&without_third());
    host.fail(3, Outcome::NotSent);
    host.time(2 * SECOND);
    assert_eq!(host.sent(), ask(2));
    host.reply(2, CONFIRMED);
    assert_eq!(host.told, ["a again"]);
}

#[test]
fn a_subscription_may_wait_for_the_first_connection_of_its_node() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.connected(3);
    host.reply(3, CONFIRMED);
    assert!(host.sent().is_empty() && host.told.is_empty());
}

#[test]
fn a_confirmation_counts_though_no_connection_was_reported() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.reply(3, CONFIRMED);
    assert!(host.sent().is_empty() && host.told.is_empty());
}

#[test]
fn a_node_that_is_gone_leaves_its_channels_to_its_successor() {
    let mut host = subscribed();
    host.topology(&without_third());
    assert_eq!(host.sent(), ask(2));
    host.reply(2, CONFIRMED);
    assert_eq!(host.told, ["unsubscribe a at 3", "a again"]);
}

#[test]
fn a_confirmation_of_a_connection_that_was_lost_does_not_count() {
    let mut host = Host::new();
    host.connected(3);
    host.subscribe(1, "a");
    host.connected(3);
    host.reply(3, CONFIRMED);
    assert_eq!(host.sent(), ask(3), "it is subscribed on the new connection");
    host.reply(3, CONFIRMED);
    assert!(host.sent().is_empty());
}

#[test]
fn a_failure_is_tried_again_after_a_pause_for_as_long_as_the_channel_is_read() {
    let mut host = subscribed();
    host.connected(3);
    for _ in 0..50 {
        host.reply(3, "-NOPERM this user has no permissions\r\n");
        assert!(host.sent().is_empty(), "there is a pause");
        host.time(2 * SECOND);
        assert_eq!(host.sent(), ask(3));
    }
    host.unsubscribe("a");
    host.reply(3, "-NOPERM this user has no permissions\r\n");
    host.time(10 * SECOND);
    assert!(host.sent().is_empty() && host.told.is_empty());
}

#[test]
fn a_lost_attempt_ends_once_and_is_made_again_within_the_limits() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.fail(3, Outcome::Unknown);
    host.time(2 * SECOND);
    assert_eq!(host.sent(), ask(3), "it does no harm twice");
    host.reply(3, CONFIRMED);
    assert_eq!(host.ended.len(), 1);
}

#[test]
fn a_channel_that_nobody_reads_is_unsubscribed_where_it_is() {
    let mut host = subscribed();
    host.unsubscribe("a");
    assert_eq!(host.told, ["unsubscribe a at 3"]);
    host.connected(3);
    assert!(host.sent().is_empty(), "it is forgotten");
}

#[test]
fn a_reader_that_leaves_before_the_confirmation_leaves_nothing_behind() {
    let mut host = Host::new();
    host.subscribe(1, "a");
    host.unsubscribe("a");
    assert!(host.told.is_empty(), "nothing is subscribed yet");
    host.reply(3, CONFIRMED);
    assert_eq!(host.told, ["unsubscribe a at 3"]);
}

#[test]
fn a_push_that_ends_a_channel_is_told_from_others() {
    let ended = b">3\r\n$12\r\nsunsubscribe\r\n$4\r\na\r\nb\r\n:0\r\n";
    assert_eq!(unsubscribed(ended), Some(&b"a\r\nb"[..]));
    for len in 0..ended.len() - 7 {
        assert_eq!(unsubscribed(&ended[..len.min(36)]), None, "{len}");
    }
    assert_eq!(unsubscribed(CONFIRMED.as_bytes()), None);
    let message = b">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert_eq!(unsubscribed(message), None);
}

#[test]
fn a_closed_router_subscribes_to_nothing_any_more() {
    let mut host = subscribed();
    host.router.close();
    host.connected(3);
    host.time(10 * SECOND);
    assert!(host.sent().is_empty());
}
