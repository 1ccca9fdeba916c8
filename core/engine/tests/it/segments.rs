//! Sync points: all requests of a segment succeed or fail together.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits};
use crate::toy::server::Effect;
use crate::toy::{complete, failed, settled};
use onetrip_engine::{Cause, End, Limits, Outcome};

const REJECTED: End = failure(Outcome::Rejected, Cause::Server);
const ABORTED: End = failure(Outcome::Rejected, Cause::Aborted);

#[test]
fn members_are_provisional_until_their_sync_point() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.member(2, "o");
    pair.own(3, "o");
    pair.lose();
    pair.reply(&[complete(1), complete(2)].concat());
    let provisional = [Out::Ended(1, End::Provisional), Out::Ended(2, End::Provisional)];
    assert_eq!(pair.take(), provisional);
    pair.reply(&complete(3));
    assert_eq!(pair.take(), [], "the commit itself may fail");
    pair.reply(&settled(3));
    assert_eq!(completed(&pair.take()), [3]);
}

#[test]
fn what_follows_an_error_up_to_the_sync_point_is_aborted() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.member(2, "e");
    pair.member(3, "o");
    pair.own(4, "o");
    pair.own(5, "o");
    let expected = [
        Out::Ended(1, End::Provisional),
        Out::Ended(2, REJECTED),
        Out::Ended(3, ABORTED),
        Out::Ended(4, ABORTED),
        Out::Ended(5, End::Complete),
    ];
    assert_eq!(pair.run(), expected);
    assert_eq!(pair.server.log[&1], Effect::None);
    assert_eq!(pair.server.log[&5], Effect::Applied);
}

#[test]
fn the_end_of_the_segment_says_what_is_known_of_the_whole() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "u");
    pair.member(2, "o");
    pair.only(3);
    let expected = [
        Out::Ended(1, failure(Outcome::Unknown, Cause::Server)),
        Out::Ended(2, ABORTED),
        Out::Ended(3, failure(Outcome::Unknown, Cause::Aborted)),
    ];
    assert_eq!(pair.run(), expected);
}

/// P13.
#[test]
fn an_error_at_the_sync_point_fails_the_request_that_carries_it() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.own(2, "oE");
    pair.own(3, "o");
    let expected =
        [Out::Ended(1, End::Provisional), Out::Ended(2, REJECTED), Out::Ended(3, End::Complete)];
    assert_eq!(pair.run(), expected);
    let reply = [complete(2), failed(2, Outcome::Rejected, false)].concat();
    assert_eq!(pair.replies[&2], reply);
    assert_eq!(pair.server.log[&1], Effect::None);
}

#[test]
fn a_request_with_its_own_sync_point_behind_a_failed_member_is_skipped() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "e");
    pair.own(2, "ppo");
    assert_eq!(pair.run(), [Out::Ended(1, REJECTED), Out::Ended(2, ABORTED)]);
    assert_eq!(pair.replies[&2], b"");
    assert_eq!(pair.server.runs.get(&2), None);
}

#[test]
fn each_sync_point_ends_what_an_error_takes_along() {
    let mut pair = Pair::new(Limits::default());
    for segment in 0..4 {
        let id = segment * 10;
        pair.member(id, if segment % 2 == 0 { "o" } else { "e" });
        pair.member(id + 1, "o");
        pair.only(id + 2);
    }
    let outs = pair.run();
    let good = [End::Provisional, End::Provisional, End::Complete];
    let bad = [REJECTED, ABORTED, ABORTED];
    let expected: Vec<Out> = (0..4u64)
        .flat_map(|n| {
            let ends = if n % 2 == 0 { good } else { bad };
            (0..3).map(move |i| Out::Ended(n * 10 + i, ends[i as usize]))
        })
        .collect();
    assert_eq!(outs, expected);
}

#[test]
fn members_that_were_not_sent_when_their_segment_failed_are_not_sent_any_more() {
    let mut pair = Pair::new(limits(4));
    pair.member(0, "e");
    for id in 1..20 {
        pair.member(id, "o");
    }
    pair.only(20);
    pair.own(21, "o");
    let outs = ends(pair.run());
    assert_eq!(outs.len(), 22);
    assert_eq!(outs[0], Out::Ended(0, REJECTED));
    assert_eq!(outs[3], Out::Ended(3, ABORTED), "sent, and skipped by the server");
    assert_eq!(outs[4], Out::Ended(4, failure(Outcome::NotSent, Cause::Aborted)));
    assert_eq!(outs[20], Out::Ended(20, ABORTED));
    assert_eq!(outs[21], Out::Ended(21, End::Complete));
    assert_eq!(pair.server.received, [0, 1, 2, 3, 20, 21]);
}

#[test]
fn a_member_submitted_after_its_segment_failed_is_not_even_encoded() {
    let mut pair = Pair::new(limits(2));
    pair.member(0, "e");
    pair.run();
    let request = pair.request(1, onetrip_engine::SyncPoint::Member);
    let never = |_: &mut bytes::BytesMut| -> Result<(), ()> { panic!("it was encoded") };
    pair.client.submit(pair.now, request, never).unwrap();
    pair.only(2);
    let not_sent = failure(Outcome::NotSent, Cause::Aborted);
    assert_eq!(pair.run(), [Out::Ended(1, not_sent), Out::Ended(2, ABORTED)]);
}

#[test]
fn a_lone_sync_point_is_a_request_of_its_own() {
    let mut pair = Pair::new(Limits::default());
    pair.only(1);
    pair.only(2);
    assert_eq!(completed(&pair.run()), [1, 2]);
}
