//! Reading at the pace of a reader.

use std::time::Duration;

use crate::toy::pair::{Out, Pair, limits};
use crate::toy::{complete, part, settled};
use onetrip_engine::{CloseReason, End, Limits, Request, SyncPoint, Token};

fn pair() -> Pair {
    Pair::new(Limits { untaken_bytes_max: 5 * part(1).len(), ..limits(8) })
}

fn metered(pair: &mut Pair, id: u32) {
    let request = Request { metered: true, ..pair.request(id, SyncPoint::Own) };
    pair.submit(request, "o").unwrap();
    pair.lose();
}

#[test]
fn reading_stops_at_the_limit_and_goes_on_at_half() {
    let (mut pair, len) = (pair(), part(1).len());
    metered(&mut pair, 1);
    for _ in 0..4 {
        pair.reply(&part(1));
        assert!(pair.client.wants_bytes());
    }
    pair.reply(&part(1));
    assert_eq!((pair.client.wants_bytes(), pair.client.untaken_bytes()), (false, 5 * len));
    // Bytes that were read already may still be handed over.
    pair.reply(&part(1));
    for _ in 0..3 {
        pair.client.handle_taken(len);
        assert!(!pair.client.wants_bytes());
    }
    pair.client.handle_taken(len);
    assert!(pair.client.wants_bytes());
    assert_eq!(pair.take(), []);
}

#[test]
fn the_last_of_a_reply_counts_too() {
    let mut pair = pair();
    metered(&mut pair, 1);
    pair.reply(&[part(1).repeat(5), complete(1), settled(1)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete)]);
    assert!(!pair.client.wants_bytes());
    pair.client.handle_taken(pair.client.untaken_bytes());
    assert!(pair.client.wants_bytes());
}

#[test]
fn other_replies_do_not_count() {
    let mut pair = pair();
    pair.own(1, "o");
    let discarded =
        Request { token: Token::DISCARD, metered: true, ..pair.request(2, SyncPoint::Own) };
    pair.submit(discarded, "o").unwrap();
    pair.lose();
    pair.reply(&[part(1).repeat(50), complete(1), settled(1)].concat());
    pair.reply(&[part(2).repeat(50), complete(2), settled(2)].concat());
    assert!(pair.client.wants_bytes() && pair.client.untaken_bytes() == 0);
}

#[test]
fn a_connection_that_ended_has_nothing_to_stop() {
    let mut pair = pair();
    metered(&mut pair, 1);
    pair.reply(&part(1).repeat(9));
    assert!(!pair.client.wants_bytes());
    pair.client.handle_closed();
    assert!(pair.client.wants_bytes());
}

/// A server may stop reading if its client does not read.
#[test]
fn a_peer_that_is_not_read_from_is_not_declared_dead() {
    let stall_timeout = Duration::from_secs(30);
    let limits = Limits { stall_timeout, untaken_bytes_max: 1, ..limits(8) };
    let mut pair = Pair::new(limits);
    metered(&mut pair, 1);
    pair.reply(&part(1));
    assert!(!pair.client.wants_bytes());
    pair.own(2, "o");
    assert_eq!(pair.client.poll_deadline(), None);
    pair.later(stall_timeout * 10);
    assert_eq!(pair.take(), []);
    // From here on it has the usual time.
    pair.client.handle_taken(part(1).len());
    pair.later(Duration::ZERO);
    assert_eq!(pair.take(), []);
    pair.later(stall_timeout - Duration::from_secs(1));
    assert_eq!(pair.take(), []);
    pair.later(Duration::from_secs(1));
    assert_eq!(pair.take()[0], Out::Closed(CloseReason::Stalled));
}
