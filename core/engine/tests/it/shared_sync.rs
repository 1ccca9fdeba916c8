//! Requests that share a sync point, without effect on their results.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use crate::toy::{self, complete, failed, message, put_request, settled};
use onetrip_engine::{Cause, CloseReason, End, Limits, Outcome, Request, SyncPoint, Time, Token};

const OWN_ERROR: End = failure(Outcome::Rejected, Cause::Server);
const LOST: End = failure(Outcome::Unknown, Cause::Closed);

fn pair() -> Pair {
    Pair::new(Limits::default())
}

fn one(id: u32) -> Out {
    Out::Ended(u64::from(id), End::Complete)
}

/// The requests that were restarted and those that ended, each in order.
fn split(outs: Vec<Out>) -> (Vec<u64>, Vec<Out>) {
    let restarted = outs.iter().filter_map(|out| match out {
        Out::Restarted(token) => Some(*token),
        _ => None,
    });
    let restarted = restarted.collect();
    (restarted, outs.into_iter().filter(|out| !matches!(out, Out::Restarted(_))).collect())
}

#[test]
fn those_that_were_not_written_share_a_sync_point() {
    let mut pair = pair();
    pair.joins(1..5);
    assert_eq!(completed(&pair.run()), [1, 2, 3, 4]);
    assert_eq!(pair.server.syncs, 1);
}

#[test]
fn none_waits_for_others() {
    let mut pair = pair();
    pair.join(1, "o");
    pair.write();
    pair.join(2, "o");
    pair.join(3, "o");
    assert_eq!(completed(&pair.run()), [1, 2, 3]);
    assert_eq!(pair.server.syncs, 2);
    assert_eq!(pair.together, 2, "the first one ended by itself");
}

#[test]
fn one_whose_sync_point_was_written_in_part_keeps_it() {
    let mut pair = pair();
    pair.join(1, "o");
    let len = pair.client.transmit().len();
    pair.write_some(len - 6);
    pair.join(2, "o");
    assert_eq!(completed(&pair.run()), [1, 2]);
    assert_eq!(pair.server.syncs, 2);
    // It may be written up to the sync point.
    pair.join(3, "o");
    pair.write_some(len - 7);
    pair.join(4, "o");
    assert_eq!(completed(&pair.run()), [3, 4]);
    assert_eq!(pair.server.syncs, 3);
}

#[test]
fn others_never_share_one() {
    let mut pair = pair();
    pair.own(1, "o");
    pair.join(2, "o");
    pair.own(3, "e");
    pair.join(4, "o");
    pair.own(5, "o");
    let expected = [one(1), one(2), Out::Ended(3, OWN_ERROR), one(4), one(5)];
    assert_eq!(pair.run(), expected);
    assert_eq!(pair.server.syncs, 2);
}

#[test]
fn nor_what_depends_on_its_place_or_on_its_caller() {
    let mut pair = pair();
    let own = |id| Request { joins: true, ..pair.request(id, SyncPoint::Own) };
    let (in_order, pinned, discard) = (
        Request { in_order: true, ..own(2) },
        Request { pinned: true, ..own(3) },
        Request { token: Token::DISCARD, ..own(4) },
    );
    pair.join(1, "o");
    for request in [in_order, pinned, discard] {
        pair.submit_joining(request, "o");
    }
    pair.join(5, "o");
    assert_eq!(completed(&pair.run()), [1, 2, 3, 5]);
    assert_eq!(pair.server.syncs, 5);
}

#[test]
fn nor_what_ends_a_segment() {
    let mut pair = pair();
    pair.member(1, "o");
    pair.join(2, "o");
    pair.join(3, "o");
    let expected = [Out::Ended(1, End::Provisional), one(2), one(3)];
    assert_eq!(pair.run(), expected);
    assert_eq!(pair.server.syncs, 2);
}

#[test]
fn a_shared_sync_group_has_a_limit() {
    let mut pair = Pair::new(Limits { shared_sync_max: 3, ..Limits::default() });
    pair.joins(1..8);
    assert_eq!(completed(&pair.run()).len(), 7);
    assert_eq!(pair.server.syncs, 3);
    let mut pair = Pair::new(Limits { shared_sync_bytes_max: 40, ..Limits::default() });
    pair.joins(1..5);
    assert_eq!(completed(&pair.run()).len(), 4);
    assert_eq!(pair.server.syncs, 2, "two of 16 bytes each fit");
    for shared_sync_max in [0, 1] {
        let mut pair = Pair::new(Limits { shared_sync_max, ..Limits::default() });
        pair.joins(1..5);
        assert_eq!(completed(&pair.run()).len(), 4);
        assert_eq!(pair.server.syncs, 4);
    }
}

#[test]
fn those_that_wait_in_the_queue_share_one_when_they_leave() {
    let mut pair = Pair::new(limits(4));
    pair.owns(0..4);
    pair.joins(4..8);
    assert_eq!(ends(pair.run()).len(), 8);
    assert_eq!(pair.server.syncs, 1);
}

#[test]
fn nobody_hears_of_its_end_before_the_sync_point_is_answered() {
    let mut pair = pair();
    pair.joins(1..4);
    pair.lose();
    pair.reply(&[complete(1), complete(2), complete(3)].concat());
    assert_eq!(pair.take(), []);
    assert_eq!(pair.client.in_flight(), 3);
    pair.reply(&settled(3));
    assert_eq!(completed(&pair.take()), [1, 2, 3]);
    assert!(pair.client.is_idle());
}

#[test]
fn each_reply_goes_to_its_own_however_it_arrives() {
    for chunk in 1..40 {
        let mut pair = pair();
        pair.chunk = chunk;
        for id in 1..6 {
            pair.join(id, "ppo");
        }
        assert_eq!(completed(&pair.run()), [1, 2, 3, 4, 5]);
        for id in 1..5 {
            let expected = [toy::part(id), toy::part(id), complete(id)].concat();
            assert_eq!(pair.replies[&u64::from(id)], expected);
        }
    }
}

#[test]
fn one_that_fails_fails_alone() {
    for at in 1..=5 {
        let mut pair = pair();
        for id in 1..=5 {
            pair.join(id, if id == at { "pe" } else { "po" });
        }
        let (restarted, ended) = split(pair.run());
        let others: Vec<u32> = (1..=5).filter(|id| *id != at).collect();
        assert_eq!(restarted, others.iter().map(|id| u64::from(*id)).collect::<Vec<_>>());
        let own = Out::Ended(u64::from(at), OWN_ERROR);
        assert_eq!(ended[0], own);
        assert_eq!(ended[1..], others.iter().map(|id| one(*id)).collect::<Vec<_>>());
        for id in others {
            let reply = [toy::part(id), complete(id), settled(id)].concat();
            assert_eq!(pair.replies[&u64::from(id)], reply, "of the second time alone");
            let runs = if id < at { 2 } else { 1 };
            assert_eq!(
                pair.server.runs[&id], runs,
                "{id} of a shared-Sync group in which {at} failed"
            );
        }
        assert_eq!(pair.server.syncs, 1 + 4, "each has its own the second time");
    }
}

#[test]
fn several_that_fail_fail_by_themselves() {
    let mut pair = pair();
    for (id, script) in [(1, "o"), (2, "e"), (3, "e"), (4, "o")] {
        pair.join(id, script);
    }
    let (restarted, ended) = split(pair.run());
    assert_eq!(restarted, [1, 3, 4], "once each");
    let error = |id| Out::Ended(id, OWN_ERROR);
    assert_eq!(ended, [error(2), one(1), error(3), one(4)]);
    assert!(pair.client.is_idle());
}

/// P13.
#[test]
fn an_error_of_the_sync_point_is_nobodys_own() {
    let mut pair = pair();
    pair.joins(1..3);
    pair.lose();
    let commit_fails = [failed(2, Outcome::Rejected, false), settled(2)].concat();
    pair.reply(&[complete(1), complete(2), commit_fails].concat());
    assert_eq!(split(pair.take()).0, [1, 2]);
    pair.lose();
    pair.reply(
        &[complete(1), settled(1), complete(2), failed(2, Outcome::Rejected, false)].concat(),
    );
    pair.reply(&settled(2));
    assert_eq!(pair.take(), [one(1), Out::Ended(2, OWN_ERROR)], "now it is its own");
}

#[test]
fn one_that_never_started_is_healed_and_the_others_are_sent_again_as_they_were() {
    let mut pair = pair();
    let heals = |id| Request { again: true, joins: true, ..pair.request(id, SyncPoint::Own) };
    let (first, second, third) = (heals(1), heals(2), heals(3));
    pair.submit_joining(first, "o");
    pair.submit_joining(second, "n");
    pair.submit_joining(third, "o");
    let (restarted, ended) = split(pair.run());
    assert_eq!((restarted, ended), (vec![1, 2, 3], vec![one(1), one(2), one(3)]));
    assert_eq!(pair.client.protocol().heals, 1);
}

#[test]
fn one_that_was_sent_again_may_still_be_healed() {
    let mut pair = pair();
    let heals = |id| Request { again: true, joins: true, ..pair.request(id, SyncPoint::Own) };
    let (first, second) = (heals(1), heals(2));
    pair.submit_joining(first, "e");
    pair.submit_joining(second, "n");
    let (restarted, ended) = split(pair.run());
    assert_eq!((restarted, ended), (vec![2], vec![Out::Ended(1, OWN_ERROR), one(2)]));
    assert_eq!(pair.client.protocol().heals, 1);
}

#[test]
fn what_is_sent_again_goes_before_what_is_queued_and_shares_no_sync_point() {
    let mut pair = Pair::new(limits(2));
    pair.join(1, "o");
    pair.join(2, "e");
    pair.joins(3..5);
    pair.run();
    assert_eq!(pair.server.received, [1, 2, 1, 3, 4]);
    assert_eq!(pair.server.syncs, 1 + 1 + 2, "3 left while 1 was unwritten");
}

#[test]
fn nobody_joins_a_shared_sync_group_that_has_failed() {
    let mut pair = pair();
    pair.join(1, "e");
    pair.join(2, "o");
    pair.client.handle_written(pair.now, 10);
    pair.reply(&failed(1, Outcome::Rejected, false));
    pair.join(3, "o");
    pair.lose();
    pair.reply(&[settled(2), complete(3), settled(3)].concat());
    let (restarted, ended) = split(pair.take());
    assert_eq!((restarted, ended), (vec![2], vec![Out::Ended(1, OWN_ERROR), one(3)]));
}

#[test]
fn a_deadline_takes_no_neighbour_along() {
    let deadline = Time::ZERO.after(seconds(1));
    for script in ["o", "e"] {
        let mut pair = pair();
        pair.join(1, "o");
        let late = Request { deadline, joins: true, ..pair.request(2, SyncPoint::Own) };
        pair.submit_joining(late, "o");
        pair.join(3, script);
        pair.write();
        pair.later(seconds(1));
        assert_eq!(pair.take(), [Out::Ended(2, failure(Outcome::Unknown, Cause::Deadline))]);
        let (restarted, ended) = split(pair.run());
        match script {
            "o" => assert_eq!((restarted, ended), (vec![], vec![one(1), one(3)])),
            _ => {
                assert_eq!((restarted, ended), (vec![1], vec![Out::Ended(3, OWN_ERROR), one(1)]));
                assert_eq!(pair.server.runs[&2], 1, "nobody would hear of it");
            }
        }
        assert!(pair.client.is_idle());
    }
}

#[test]
fn the_deadline_of_one_that_failed_tells_what_the_server_said() {
    let deadline = Time::ZERO.after(seconds(1));
    let mut pair = pair();
    pair.join(1, "o");
    let late = Request { deadline, joins: true, ..pair.request(2, SyncPoint::Own) };
    pair.submit_joining(late, "o");
    pair.join(3, "o");
    pair.lose();
    pair.reply(&[complete(1), failed(2, Outcome::Rejected, false)].concat());
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(2, failure(Outcome::Rejected, Cause::Deadline))]);
    pair.reply(&settled(3));
    assert_eq!(split(pair.take()), (vec![1, 3], vec![]));
}

#[test]
fn a_connection_that_ends_within_a_shared_sync_group_leaves_all_of_it_unknown() {
    let mut pair = pair();
    pair.joins(1..4);
    pair.lose();
    pair.joins(4..5);
    pair.reply(&[complete(1), complete(2)].concat());
    pair.client.handle_closed();
    let not_sent = failure(Outcome::NotSent, Cause::Closed);
    let lost = |id| Out::Ended(id, LOST);
    let expected =
        [Out::Closed(CloseReason::Host), lost(1), lost(2), lost(3), Out::Ended(4, not_sent)];
    assert_eq!(pair.take(), expected);
}

#[test]
fn the_one_that_failed_says_so_though_the_connection_ended_before_the_sync_point() {
    let mut pair = pair();
    pair.joins(1..4);
    pair.lose();
    pair.reply(&[complete(1), failed(2, Outcome::Rejected, false)].concat());
    pair.client.handle_closed();
    let expected = [
        Out::Closed(CloseReason::Host),
        Out::Ended(1, LOST),
        Out::Ended(2, OWN_ERROR),
        Out::Ended(3, LOST),
    ];
    assert_eq!(pair.take(), expected);
}

#[test]
fn one_that_waits_to_be_sent_again_when_the_connection_ends_had_no_effect() {
    let mut pair = pair();
    pair.join(1, "o");
    pair.join(2, "e");
    pair.lose();
    pair.reply(&[complete(1), failed(2, Outcome::Rejected, false), settled(2)].concat());
    pair.client.handle_closed();
    let (restarted, ended) = split(pair.take());
    assert_eq!(restarted, [1]);
    assert_eq!(ended[0], Out::Ended(2, OWN_ERROR));
    assert_eq!(ended[2], Out::Ended(1, failure(Outcome::Rejected, Cause::Closed)));
}

#[test]
fn a_sync_point_that_is_answered_too_early_ends_the_connection() {
    for hostile in [settled(1), [complete(1), settled(1)].concat(), settled(2)] {
        let mut pair = pair();
        pair.joins(1..3);
        pair.lose();
        pair.reply(&hostile);
        let violated = |out: &Out| matches!(out, Out::Closed(CloseReason::Violation(_)));
        assert!(pair.take().iter().any(violated), "{hostile:?}");
    }
}

#[test]
fn a_second_error_ends_the_connection() {
    let mut pair = pair();
    pair.joins(1..3);
    pair.lose();
    let error = |id| failed(id, Outcome::Rejected, false);
    pair.reply(&[error(1), error(2)].concat());
    let violated = |out: &Out| matches!(out, Out::Closed(CloseReason::Violation(_)));
    assert!(pair.take().iter().any(violated));
}

#[test]
fn an_encoder_that_fails_leaves_the_sync_point_before_it() {
    let mut pair = pair();
    pair.join(1, "o");
    let before = pair.client.transmit().to_vec();
    let request = Request { joins: true, ..pair.request(2, SyncPoint::Own) };
    let encoded = pair.client.submit(pair.now, request, |out| {
        out.extend_from_slice(b"half");
        Err(())
    });
    assert!(encoded.is_err());
    assert_eq!(pair.client.transmit(), before);
}

#[test]
fn bytes_that_end_otherwise_are_left_as_they_are() {
    let mut pair = pair();
    let odd = Request { joins: true, ..pair.request(1, SyncPoint::Own) };
    let write = |out: &mut bytes::BytesMut| {
        put_request(out, 1, SyncPoint::Own, b"o");
        Ok::<(), ()>(())
    };
    pair.client.submit(pair.now, odd, write).unwrap();
    pair.join(2, "o");
    assert_eq!(completed(&pair.run()), [1, 2]);
    assert_eq!(pair.server.syncs, 1);
}

#[test]
fn in_flight_bytes_are_those_on_the_wire() {
    let mut pair = pair();
    pair.joins(1..5);
    assert_eq!(pair.client.in_flight_bytes(), pair.client.transmit().len());
    assert_eq!(pair.client.transmit().len(), 4 * message(b'Q', 0, b"\0o").len() + 7);
    pair.run();
    assert_eq!(pair.client.in_flight_bytes(), 0);
}
