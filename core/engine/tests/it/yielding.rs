//! A request at the head that takes long is taken away from those behind it, and comes again.

use std::time::Duration;

use crate::cancelling::{CANCELLED, done, hit};
use crate::pool::host::Host;
use crate::toy::pair::{Out, Pair, completed, ends, failure};
use crate::toy::{cancelled, complete, failed, message, settled};
use onetrip_engine::{
    CancelEnd, Cause, End, Feed, Limits, Outcome, Request, SyncPoint, Time, Token, Wanted,
};

const AFTER: Duration = Duration::from_millis(500);
/// What the next one behind a head that was taken away gets, and the one behind that.
const NEXT: [Duration; 2] = [AFTER.checked_div(8).unwrap(), AFTER.checked_div(16).unwrap()];
/// The time of a trip to a server nearby.
const NEAR: Duration = Duration::from_micros(100);
const FAR: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3600);

const COMPLETE: fn(u64) -> Out = |id| Out::Ended(id, End::Complete);

fn new() -> Pair {
    limited(Limits::default())
}

fn limited(limits: Limits) -> Pair {
    let mut pair = Pair::new(Limits { yield_after: AFTER, ..limits });
    pair.client.see_trip(NEAR);
    pair
}

/// One whose server is a trip of 200 ms away.
fn distant() -> Pair {
    let mut pair = Pair::new(Limits { yield_after: AFTER, ..Limits::default() });
    pair.resend(9, "o");
    pair.lose();
    pair.later(FAR);
    pair.reply(&done(9));
    pair.take();
    pair
}

/// Submits and writes requests that may be sent again.
fn sent(ids: std::ops::RangeInclusive<u32>) -> Pair {
    let mut pair = new();
    for id in ids {
        pair.resend(id, "o");
    }
    pair.lose();
    pair
}

impl Pair {
    /// Moves to the engine's next deadline, which must be this much later than now.
    fn due(&mut self, wait: Duration) {
        assert_eq!(self.client.poll_deadline(), Some(self.now.after(wait)));
        self.later(wait);
    }

    /// The head is late after this time, so a cancel is sent, which the server has carried out.
    fn take_away_after(&mut self, wait: Duration) {
        self.due(wait);
        assert_eq!(ends(self.take()), [Out::Cancel]);
        assert!(self.begin());
        self.end(CancelEnd::Closed);
    }

    /// Requests 1, 2, … are taken away one after the other, after these times.
    fn take_each_away_after(&mut self, waits: &[Duration]) {
        for (id, wait) in (1..).zip(waits) {
            self.take_away_after(*wait);
            self.reply(&hit(id));
            assert_eq!(self.take(), [Out::Restarted(id.into())]);
        }
    }

    /// Request 1 was taken away from 2, which is answered.
    fn put_aside() -> Pair {
        let mut pair = sent(1..=2);
        pair.take_away_after(AFTER);
        pair.reply(&[hit(1), done(2)].concat());
        assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2)]);
        pair
    }

    /// Whether a cancel is asked for within an hour.
    fn yields(&mut self) -> bool {
        for _ in 0..10 {
            let due = self.client.poll_deadline();
            self.later(due.map_or(HOUR, |due| due.since(self.now)));
        }
        let outs = self.take();
        assert!(!outs.iter().any(|out| matches!(out, Out::NotCancelled(_))), "{outs:?}");
        outs.contains(&Out::Cancel)
    }
}

#[test]
fn a_late_head_is_taken_away_and_is_sent_again_as_it_was_behind_those_behind_it() {
    let mut pair = new();
    pair.resend(1, "pp");
    let bytes = pair.client.transmit().to_vec();
    pair.resend(2, "o");
    pair.resend(3, "o");
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&[message(b'p', 1, b""), hit(1), done(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2), COMPLETE(3)]);
    assert!(pair.client.transmit().is_empty(), "who holds its lock may need more than one answer");
    pair.due(AFTER);
    assert_eq!(pair.client.transmit(), bytes);
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(pair.take(), [COMPLETE(1)]);
    assert_eq!(pair.replies[&1], done(1), "nothing of the first reply is left");
    assert_eq!((pair.client.is_idle(), pair.client.poll_deadline()), (true, None));
}

#[test]
fn one_in_the_queue_waits_as_well() {
    let mut pair = limited(Limits { in_flight_max: 1, ..Limits::default() });
    pair.resend(1, "o");
    pair.resend(2, "o");
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&hit(1));
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(ends(pair.take()), [Out::Restarted(1), COMPLETE(2)]);
}

#[test]
fn without_anybody_behind_it_it_is_never_cancelled() {
    let mut pair = sent(1..=1);
    assert_eq!(pair.client.poll_deadline(), None);
    assert!(!pair.yields());
    pair.reply(&done(1));
    assert_eq!(pair.take(), [COMPLETE(1)]);
}

#[test]
fn when_one_comes_behind_it_later_it_is() {
    let mut pair = sent(1..=1);
    pair.later(HOUR);
    pair.resend(2, "o");
    pair.lose();
    pair.later(Duration::ZERO);
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn its_time_begins_when_it_becomes_the_head() {
    let mut pair = sent(1..=3);
    pair.later(AFTER / 2);
    pair.reply(&done(1));
    pair.take();
    pair.due(AFTER);
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn those_that_nobody_waits_for_are_not_held_up() {
    let mut pair = sent(1..=1);
    let follower = Request { resend: true, ..pair.request(2, SyncPoint::Own) };
    let deadline = pair.now.after(AFTER / 2);
    pair.submit(Request { deadline, ..follower }, "o").unwrap();
    pair.lose();
    pair.later(AFTER / 2);
    assert_eq!(pair.take(), [Out::Ended(2, failure(Outcome::Unknown, Cause::Deadline))]);
    assert!(!pair.yields());

    // Nor is a request of the protocol's own, which goes behind each flight.
    let mut pair = new();
    pair.client.protocol_mut().behind = Some(9);
    pair.resend(1, "o");
    pair.client.end_flight(pair.now);
    pair.lose();
    assert!(!pair.yields());
    pair.reply(&[done(1), done(9)].concat());
    assert_eq!(completed(&pair.take()), [1]);
}

#[test]
fn what_may_not_be_sent_again_elsewhere_in_the_order_stays() {
    let head = |change: fn(&mut Request<_>)| {
        let mut pair = new();
        let mut request = Request { resend: true, ..pair.request(1, SyncPoint::Own) };
        change(&mut request);
        pair.submit(request, "o").unwrap();
        pair.client.end_feed(pair.now, Token(1));
        pair.resend(2, "o");
        pair.lose();
        pair.yields()
    };
    assert!(head(|_| {}));
    assert!(!head(|head| head.resend = false));
    assert!(!head(|head| head.pinned = true));
    assert!(!head(|head| head.in_order = true));
    assert!(!head(|head| head.token = Token::DISCARD));
    assert!(!head(|head| head.feed = Feed::Messages));
}

#[test]
fn what_is_part_of_a_segment_or_of_a_group_stays() {
    let mut pair = new();
    pair.member(1, "o");
    pair.resend(2, "o");
    pair.resend(3, "o");
    pair.lose();
    assert!(!pair.yields());
    pair.reply(&complete(1));
    pair.take();
    assert!(!pair.yields(), "it ends a longer segment");

    let mut pair = new();
    let group = pair.group(9);
    let request = Request { group: Some(group), resend: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(request, "o").unwrap();
    pair.client.close_group(pair.now, group);
    pair.resend(2, "o");
    pair.lose();
    assert!(!pair.yields());

    let mut pair = new();
    pair.joins(1..3);
    pair.resend(3, "o");
    pair.lose();
    assert!(!pair.yields(), "its sync point is another's, too");
}

#[test]
fn what_can_not_be_sent_again_protects_a_late_head_until_it_was_answered_or_given_up() {
    let mut pair = sent(1..=1);
    let deadline = pair.now.after(AFTER * 2);
    pair.until(2, deadline);
    pair.resend(3, "o");
    pair.lose();
    pair.due(AFTER);
    assert_eq!(pair.take(), [], "nobody asked for it, so nobody is told");
    pair.due(AFTER);
    assert_eq!(pair.take()[0], Out::Ended(2, failure(Outcome::Unknown, Cause::Deadline)));
    assert!(pair.yields());
}

#[test]
fn a_head_that_is_not_written_is_cancelled_once_it_is() {
    let mut pair = new();
    pair.resend(1, "o");
    pair.resend(2, "o");
    pair.later(AFTER);
    assert_eq!(pair.take(), []);
    pair.lose();
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn one_that_completes_although_the_cancel_was_sent_ends_once() {
    for closed_first in [true, false] {
        let mut pair = sent(1..=2);
        pair.later(AFTER);
        assert!(pair.take() == [Out::Cancel] && pair.begin());
        let reply = [done(1), done(2)].concat();
        match closed_first {
            true => pair.end(CancelEnd::Closed),
            false => pair.reply(&reply),
        }
        match closed_first {
            true => pair.reply(&reply),
            false => pair.end(CancelEnd::Closed),
        }
        assert_eq!(pair.take(), [COMPLETE(1), COMPLETE(2)]);
        assert!(!pair.client.is_held() && pair.client.is_idle());
    }
}

#[test]
fn one_that_fails_otherwise_although_the_cancel_was_sent_fails() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    let rejected = [failed(1, Outcome::Rejected, false), settled(1)].concat();
    pair.reply(&[rejected, done(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED), COMPLETE(2)]);

    // The server does not say that it had no effect.
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.reply(&[message(b'e', 1, &[1, 0, 1]), settled(1), done(2)].concat());
    let unknown = failure(Outcome::Unknown, Cause::Server);
    assert_eq!(pair.take(), [Out::Ended(1, unknown), COMPLETE(2)]);
}

/// PostgreSQL sends the signal to a process and to its group, so one cancel may hit two statements.
#[test]
fn a_follower_that_the_cancel_hits_comes_again_and_a_second_time() {
    let mut pair = sent(1..=3);
    pair.later(AFTER);
    assert!(pair.take() == [Out::Cancel] && pair.begin());
    pair.reply(&[hit(1), hit(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), Out::Restarted(2), COMPLETE(3)]);
    assert!(pair.client.transmit().is_empty(), "the cancel has not ended");
    pair.end(CancelEnd::Closed);
    pair.lose();
    pair.reply(&hit(2));
    assert_eq!(pair.take(), [Out::Restarted(2)]);
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(pair.take(), [COMPLETE(2)]);
}

#[test]
fn a_follower_that_was_hit_may_be_late_itself_when_it_comes_again() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), hit(2)].concat());
    pair.resend(3, "o");
    pair.lose();
    pair.take();
    // Request 1 is due, and goes behind them.
    pair.later(AFTER);
    pair.lose();
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.begin());
    pair.end(CancelEnd::Closed);
    pair.reply(&[hit(2), done(3)].concat());
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(pair.take(), [Out::Restarted(2), COMPLETE(3), COMPLETE(1)]);
}

/// A head with a deadline in a while, and one behind it.
fn until(deadline: Duration) -> Pair {
    let mut pair = new();
    let deadline = Time::ZERO.after(deadline);
    let head = Request { deadline, resend: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(head, "o").unwrap();
    pair.resend(2, "o");
    pair.lose();
    pair
}

#[test]
fn it_keeps_its_deadline_and_what_it_is_told_then_is_true() {
    let late = |outcome| Out::Ended(1, failure(outcome, Cause::Deadline));
    // While the cancel is on its way.
    let mut pair = until(AFTER * 2);
    pair.take_away_after(AFTER);
    pair.later(AFTER);
    assert!(pair.take().contains(&late(Outcome::Unknown)));
    pair.reply(&[hit(1), done(2)].concat());
    assert_eq!(ends(pair.take()), [COMPLETE(2)]);
    assert!(pair.client.is_idle(), "nobody waits for it, so it does not come again");
    // While it is put aside.
    let mut pair = until(AFTER * 3 / 2);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), done(2)].concat());
    pair.due(AFTER / 2);
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2), late(Outcome::Rejected)]);
    assert!(pair.client.is_idle() && !pair.yields());
    // When it was sent again.
    let mut pair = until(AFTER * 3);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), done(2)].concat());
    pair.due(AFTER);
    pair.lose();
    pair.due(AFTER);
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2), late(Outcome::Unknown)]);
}

#[test]
fn one_that_waits_for_the_end_of_the_cancel_was_not_sent_at_its_deadline() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.until(3, pair.now.after(Duration::from_millis(50)));
    pair.later(Duration::from_millis(50));
    assert_eq!(ends(pair.take()), [Out::Ended(3, failure(Outcome::NotSent, Cause::Deadline))]);
}

#[test]
fn one_that_is_to_be_cancelled_at_its_deadline_is_by_the_cancel_that_takes_it_away() {
    let mut pair = new();
    let deadline = Time::ZERO.after(AFTER * 2);
    let head = Request { resend: true, cancel_late: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(Request { deadline, ..head }, "o").unwrap();
    pair.resend(2, "o");
    pair.lose();
    pair.later(AFTER);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.later(AFTER);
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline))]);
    assert!(pair.begin(), "the cancel that was asked for is still wanted");
    pair.end(CancelEnd::Closed);
    pair.reply(&[hit(1), done(2)].concat());
    assert_eq!(pair.take(), [COMPLETE(2)]);
}

#[test]
fn its_caller_can_take_it_back_while_it_is_put_aside() {
    let mut pair = Pair::put_aside();
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::TakenBack);
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Rejected, Cause::Cancelled))]);
    assert!(pair.client.is_idle());
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::Unknown);
}

#[test]
fn if_its_caller_wants_it_cancelled_meanwhile_it_ends_and_does_not_come_again() {
    // Before the cancel was sent, and after.
    for began in [false, true] {
        let mut pair = sent(1..=2);
        pair.later(AFTER);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(!began || pair.begin());
        pair.want(1);
        assert!(began || pair.begin());
        pair.end(CancelEnd::Closed);
        pair.reply(&[hit(1), done(2)].concat());
        assert_eq!(pair.take(), [Out::Ended(1, CANCELLED), COMPLETE(2)]);
        assert!(pair.client.is_idle());
    }
}

#[test]
fn its_caller_hears_if_the_server_is_not_asked() {
    for began in [false, true] {
        let mut pair = sent(1..=2);
        pair.later(AFTER);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(!began || pair.begin());
        pair.want(1);
        pair.end(CancelEnd::NotSent);
        assert_eq!(pair.take(), [Out::NotCancelled(1)]);
    }
}

#[test]
fn the_end_of_the_connection_ends_it_and_what_it_is_told_is_true() {
    let closed = |outcome| Out::Ended(1, failure(outcome, Cause::Closed));
    let mut pair = Pair::put_aside();
    pair.client.handle_closed();
    assert!(pair.take().contains(&closed(Outcome::Rejected)));
    // While the cancel is on its way, and once it was sent again.
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.client.handle_closed();
    assert!(pair.take().contains(&closed(Outcome::Unknown)));
    let mut pair = Pair::put_aside();
    pair.due(AFTER);
    pair.lose();
    pair.client.handle_closed();
    assert!(pair.take().contains(&closed(Outcome::Unknown)));
}

#[test]
fn it_is_unanswered_while_it_is_put_aside_and_a_goodbye_waits_for_it() {
    let mut pair = Pair::put_aside();
    assert_eq!((pair.client.queued(), pair.client.is_idle()), (1, false));
    assert_eq!(pair.client.paused(), 1);
    pair.client.terminate(pair.now);
    assert!(!pair.client.is_closed());
    pair.due(AFTER);
    assert_eq!((pair.client.queued(), pair.client.is_idle()), (0, false));
    assert_eq!(pair.client.paused(), 0);
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(pair.take()[0], COMPLETE(1));
    assert!(pair.client.is_closed());
}

#[test]
fn requests_that_come_while_it_is_put_aside_go_first() {
    let mut pair = Pair::put_aside();
    for id in 3..6 {
        pair.resend(id, "o");
        assert!(!pair.client.transmit().is_empty(), "at once");
        pair.lose();
        pair.reply(&done(id));
    }
    assert_eq!(completed(&pair.take()), [3, 4, 5]);
}

#[test]
fn it_has_a_place_of_its_own_again_when_its_pause_is_over() {
    let mut pair = Pair::put_aside();
    pair.later(AFTER / 2);
    pair.resend(3, "o");
    pair.lose();
    pair.due(AFTER / 2);
    pair.lose();
    pair.resend(4, "o");
    pair.lose();
    pair.reply(&[done(3), done(1), done(4)].concat());
    assert_eq!(completed(&pair.take()), [3, 1, 4]);
}

#[test]
fn several_may_be_put_aside_and_come_again_one_after_the_other() {
    let mut pair = sent(1..=3);
    pair.take_each_away_after(&[AFTER, NEXT[0]]);
    pair.reply(&done(3));
    // The pause of the first began when it was taken away.
    pair.due(AFTER - NEXT[0]);
    assert_eq!((pair.client.queued(), pair.client.in_flight()), (1, 1));
    pair.lose();
    pair.reply(&done(1));
    pair.due(NEXT[0]);
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(completed(&pair.take()), [3, 1, 2]);
}

/// P52. The bound is for who waits, not for each of those in front of him.
#[test]
fn who_waits_behind_many_waits_for_little_longer_than_behind_one() {
    for in_flight_max in [1, 64] {
        let mut pair = limited(Limits { in_flight_max, ..Limits::default() });
        for id in 1..=40 {
            pair.resend(id, "o");
        }
        pair.lose();
        let begin = pair.now;
        for id in 1..40 {
            while !pair.take().contains(&Out::Cancel) {
                let due = pair.client.poll_deadline().unwrap();
                pair.later(due.since(pair.now));
            }
            assert!(pair.begin());
            pair.end(CancelEnd::Closed);
            pair.reply(&hit(id));
            pair.lose();
        }
        let waited = pair.now.since(begin);
        assert!(waited < 2 * AFTER, "{waited:?}");
        pair.reply(&done(40));
        assert!(pair.take().contains(&COMPLETE(40)));
    }
}

/// A statement that comes later has not waited yet.
#[test]
fn one_that_came_behind_those_that_have_waited_gets_the_whole_time() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.reply(&hit(1));
    pair.resend(3, "o");
    pair.resend(4, "o");
    pair.lose();
    pair.reply(&done(2));
    pair.take();
    pair.take_away_after(AFTER);
    pair.reply(&[hit(3), done(4)].concat());
    assert_eq!(pair.take(), [Out::Restarted(3), COMPLETE(4)]);
}

#[test]
fn nothing_gets_less_than_a_trip_to_a_distant_server() {
    let mut pair = distant();
    for id in 1..=3 {
        pair.resend(id, "o");
    }
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&hit(1));
    pair.take();
    pair.take_away_after(FAR);
}

/// P52. Its pause is for those who may hold a lock.
#[test]
fn it_is_back_as_soon_as_nobody_has_a_connection_to_himself() {
    let look = Duration::from_millis(50);
    let mut host = Host::taken(1);
    let mut pair = sent(1..=2);
    pair.client.yield_to(host.pool.timings().holders().clone());
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), done(2)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2)]);
    pair.due(look);
    assert!(pair.client.transmit().is_empty());
    host.release(0);
    pair.due(look);
    assert!(!pair.client.transmit().is_empty());
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(pair.take(), [COMPLETE(1)]);
}

/// P52. Its lock's holder may be waiting for one of them.
#[test]
fn behind_a_head_that_stays_what_was_not_sent_is_given_up_in_time_and_what_was_put_aside_too() {
    let waits = Duration::from_secs(3);
    for are_holders in [true, false] {
        let mut host = Host::taken(1);
        let holders = host.pool.timings().holders().clone();
        let limits = Limits { in_flight_max: 1, wait_behind_max: waits, ..Limits::default() };
        let mut pair = limited(limits);
        pair.client.yield_to(holders);
        // 1 is put aside; 2, which can't be taken away, becomes the head; 3 waits in the queue.
        pair.resend(1, "o");
        pair.lose();
        pair.only(2);
        pair.take_away_after(AFTER);
        pair.reply(&hit(1));
        assert_eq!(pair.take(), [Out::Restarted(1)]);
        pair.lose();
        pair.resend(3, "o");
        if !are_holders {
            host.release(0);
        }
        pair.later(waits - Duration::from_millis(1));
        assert!(pair.take().is_empty() && pair.client.transmit().is_empty());
        pair.later(Duration::from_millis(1));
        let given_up = |id, outcome| Out::Ended(id, failure(outcome, Cause::Deadline));
        match are_holders {
            true => {
                let both = [given_up(1, Outcome::Rejected), given_up(3, Outcome::NotSent)];
                assert_eq!(pair.take(), both);
            }
            false => assert_eq!(pair.take(), [], "nobody can be waiting for one of them"),
        }
    }
}

#[test]
fn what_was_put_aside_is_not_sent_behind_a_head_that_stays_while_somebody_may_hold_its_lock() {
    let mut pair = Pair::put_aside();
    let host = Host::taken(1);
    pair.client.yield_to(host.pool.timings().holders().clone());
    pair.only(3);
    pair.lose();
    pair.later(HOUR);
    assert!(pair.client.transmit().is_empty());
    pair.reply(&done(3));
    assert_eq!(pair.take(), [COMPLETE(3)]);
    pair.later(Duration::ZERO);
    assert!(!pair.client.transmit().is_empty());
}

#[test]
fn each_time_it_waits_longer_and_from_the_seventeenth_on_it_may_run_longer() {
    let mut pair = sent(1..=1);
    let pauses = [500, 1000, 2000].into_iter().chain(std::iter::repeat(4000));
    let runs = std::iter::repeat_n(500, 17).chain([1000, 2000]);
    for (follower, (runs, pause)) in (2..).zip(runs.zip(pauses)) {
        pair.resend(follower, "o");
        pair.lose();
        pair.take_away_after(Duration::from_millis(runs));
        pair.reply(&[hit(1), done(follower)].concat());
        assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(follower.into())]);
        pair.due(Duration::from_millis(pause));
        pair.lose();
    }
    pair.reply(&done(1));
    assert_eq!(completed(&pair.take()), [1]);
}

#[test]
fn of_several_that_were_put_aside_one_comes_back_at_a_time() {
    let mut pair = sent(1..=4);
    pair.take_each_away_after(&[AFTER, NEXT[0], NEXT[1]]);
    pair.reply(&done(4));
    assert_eq!(completed(&pair.take()), [4]);
    pair.later(AFTER);
    pair.lose();
    // The first is back, and the pauses of all are over.
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 2));
    // Whoever comes now waits for one of them alone.
    pair.resend(5, "o");
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), done(5)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(5)]);
    for id in [2, 3] {
        assert_eq!(pair.client.in_flight(), 1);
        pair.lose();
        pair.reply(&done(id));
        assert_eq!(completed(&pair.take()), [u64::from(id)]);
    }
    pair.due(2 * AFTER);
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(completed(&pair.take()), [1]);
    assert!(pair.client.is_idle());
}

#[test]
fn one_that_is_back_gives_way_to_another_whose_pause_is_over() {
    let mut pair = sent(1..=3);
    pair.take_each_away_after(&[AFTER, NEXT[0]]);
    pair.reply(&done(3));
    assert_eq!(completed(&pair.take()), [3]);
    pair.due(AFTER - NEXT[0]);
    pair.lose();
    // Nobody is behind the first on the wire.
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 1));
    pair.due(NEXT[0]);
    pair.due(AFTER - NEXT[0]);
    assert_eq!(pair.take(), [Out::Cancel], "the pause of the second is over");
    assert!(pair.begin());
    pair.end(CancelEnd::Closed);
    pair.reply(&hit(1));
    assert_eq!(pair.take(), [Out::Restarted(1)]);
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(completed(&pair.take()), [2]);
}

#[test]
fn a_host_that_can_not_cancel_is_asked_again_after_the_same_time_and_nobody_is_told() {
    for began in [false, true, true] {
        let mut pair = sent(1..=2);
        for _ in 0..3 {
            pair.due(AFTER);
            assert_eq!(pair.take(), [Out::Cancel]);
            assert!(!began || pair.begin());
            pair.end(CancelEnd::NotSent);
            assert_eq!(pair.take(), []);
        }
        pair.reply(&[done(1), done(2)].concat());
        assert_eq!(completed(&pair.take()), [1, 2]);
    }
}

#[test]
fn a_cancel_that_came_too_early_is_sent_again() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    for pause in [100, 1000] {
        pair.take_away_after(Duration::from_millis(pause));
    }
    pair.reply(&[hit(1), done(2)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2)]);
}

#[test]
fn if_the_cancel_is_lost_it_may_still_come_and_no_other_is_sent() {
    let mut pair = sent(1..=3);
    pair.later(AFTER);
    assert!(pair.take() == [Out::Cancel] && pair.begin());
    pair.end(CancelEnd::Lost);
    assert_eq!(pair.take(), [Out::Astray]);
    assert!(!pair.yields());
    pair.reply(&[hit(1), hit(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), Out::Restarted(2), COMPLETE(3)]);
    pair.lose();
    pair.reply(&done(2));
    pair.due(AFTER);
    pair.lose();
    pair.reply(&done(1));
    assert_eq!(completed(&pair.take()), [2, 1]);
}

/// A server whose own time limit ends a statement says the same as after a cancel.
#[test]
fn a_lost_cancel_has_nothing_sent_again_without_end() {
    let mut pair = sent(1..=3);
    pair.later(AFTER);
    assert!(pair.take() == [Out::Cancel] && pair.begin());
    pair.end(CancelEnd::Lost);
    pair.reply(&[hit(1), hit(2), done(3)].concat());
    pair.take();
    pair.lose();
    pair.reply(&hit(2));
    assert_eq!(pair.take(), [Out::Ended(2, CANCELLED)]);
    pair.due(AFTER);
    for _ in 0..2 {
        pair.lose();
        pair.reply(&hit(1));
    }
    assert_eq!(pair.take(), [Out::Restarted(1), Out::Ended(1, CANCELLED)]);
}

#[test]
fn one_that_never_started_while_it_was_to_be_taken_away_may_be_late_again() {
    for began in [false, true] {
        let mut pair = new();
        let head = Request { resend: true, again: true, ..pair.request(1, SyncPoint::Own) };
        pair.submit(head, "o").unwrap();
        pair.resend(2, "o");
        pair.lose();
        pair.later(AFTER);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(!began || pair.begin());
        let never = [failed(1, Outcome::Rejected, true), settled(1)].concat();
        pair.reply(&[never, done(2)].concat());
        assert_eq!(pair.take(), [COMPLETE(2)]);
        match began {
            true => pair.end(CancelEnd::Closed),
            false => assert!(!pair.begin()),
        }
        pair.resend(3, "o");
        pair.lose();
        assert_eq!(pair.take(), [], "it is not late yet");
        pair.take_away_after(AFTER);
        pair.reply(&[hit(1), done(3)].concat());
        assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(3)]);
    }
}

#[test]
fn what_was_in_front_of_it_for_the_moment_is_not_sent_again_and_nothing_is_cut_off() {
    let mut pair = new();
    pair.resend(1, "o");
    let bytes = pair.client.transmit().to_vec();
    let mut pair = new();
    pair.client.protocol_mut().front = b"G\0\x07\0\0\0\0";
    pair.resend(1, "o");
    assert_eq!(pair.client.transmit().len(), 7 + bytes.len());
    pair.lose();
    for (follower, pause) in [(2, 1), (3, 2), (4, 4)] {
        pair.resend(follower, "o");
        pair.lose();
        pair.take_away_after(AFTER);
        pair.reply(&[hit(1), done(follower)].concat());
        assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(follower.into())]);
        pair.due(AFTER * pause);
        assert_eq!(pair.client.transmit(), bytes);
        pair.lose();
    }
}

#[test]
fn what_it_left_in_the_session_is_cleared_in_front_of_it() {
    let mut pair = new();
    pair.client.protocol_mut().renews = true;
    pair.resend(1, "o");
    let bytes = [message(b'R', 1, b""), pair.client.transmit().to_vec()].concat();
    pair.lose();
    for (follower, pause) in [(2, 1), (3, 2)] {
        pair.resend(follower, "o");
        pair.lose();
        pair.take_away_after(AFTER);
        pair.reply(&[hit(1), done(follower)].concat());
        assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(follower.into())]);
        pair.due(AFTER * pause);
        assert_eq!(pair.client.transmit(), bytes, "once, and it stays with it");
        pair.lose();
    }
}

#[test]
fn where_one_segment_is_in_flight_at_a_time_all_that_wait_count() {
    let one = || limited(Limits { one_segment: true, ..Limits::default() });
    // A group that has the right to send.
    let mut pair = one();
    pair.resend(1, "o");
    let group = pair.group(9);
    pair.in_group(group, 2, SyncPoint::Own, "o");
    pair.lose();
    assert_eq!((pair.client.in_flight(), pair.client.group_queued()), (1, 1));
    pair.take_away_after(AFTER);
    pair.reply(&hit(1));
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(ends(pair.take()), [Out::Restarted(1), COMPLETE(2)]);
    // One that was put aside before.
    let mut pair = one();
    for id in 1..=3 {
        pair.resend(id, "o");
    }
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&hit(1));
    pair.lose();
    pair.reply(&done(2));
    pair.lose();
    pair.later(AFTER);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 1));
    assert_eq!(ends(pair.take()).last(), Some(&Out::Cancel));
}

#[test]
fn a_whole_shared_sync_group_behind_it_is_answered_or_comes_again() {
    let mut pair = sent(1..=1);
    pair.joins(2..4);
    pair.lose();
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), cancelled(2), settled(3)].concat());
    pair.lose();
    pair.reply(&[done(2), done(3)].concat());
    let restarted = [1, 2, 3].map(Out::Restarted);
    assert_eq!(pair.take(), [&restarted[..], &[COMPLETE(2), COMPLETE(3)]].concat());
}

#[test]
fn one_whose_caller_has_gone_makes_way_for_those_behind_it() {
    let late = Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline));
    for cancel_late in [false, true] {
        let mut pair = new();
        let deadline = Time::ZERO.after(AFTER / 2);
        let head = Request { resend: true, cancel_late, ..pair.request(1, SyncPoint::Own) };
        pair.submit(Request { deadline, ..head }, "o").unwrap();
        pair.resend(2, "o");
        pair.lose();
        pair.later(AFTER / 2);
        assert_eq!(pair.take()[0], late);
        if cancel_late {
            // The host can't cancel then.
            assert!(pair.begin());
            pair.end(CancelEnd::NotSent);
            assert_eq!(pair.take(), []);
        }
        pair.take_away_after(AFTER / 2);
        pair.reply(&[hit(1), done(2)].concat());
        assert_eq!(ends(pair.take()), [COMPLETE(2)]);
        assert!(pair.client.is_idle(), "it does not come again");
    }
}

#[test]
fn without_anybody_behind_it_one_whose_caller_has_gone_runs_on() {
    let mut pair = new();
    let deadline = Time::ZERO.after(AFTER / 2);
    let head = Request { deadline, resend: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(head, "o").unwrap();
    pair.lose();
    assert!(!pair.yields());
}

#[test]
fn one_that_could_not_be_cancelled_for_its_caller_may_be_taken_away_later() {
    let mut pair = sent(1..=2);
    pair.want(1);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.end(CancelEnd::NotSent);
    assert_eq!(pair.take(), [Out::NotCancelled(1)]);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), done(2)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), COMPLETE(2)]);
}

#[test]
fn one_that_the_cancel_of_another_has_hit_may_be_taken_away_like_any_other() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.reply(&[hit(1), hit(2)].concat());
    pair.end(CancelEnd::Closed);
    pair.resend(3, "o");
    pair.lose();
    assert_eq!(ends(pair.take()), [Out::Ended(1, CANCELLED), Out::Restarted(2)]);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(2), COMPLETE(3)]);
}

/// It is late itself by then, and no cancel was sent for that yet.
#[test]
fn one_that_the_cancel_of_another_has_hit_while_it_was_to_be_taken_away_comes_again() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.reply(&done(1));
    assert_eq!(pair.take(), [COMPLETE(1)]);
    pair.resend(3, "o");
    pair.lose();
    pair.later(AFTER);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.reply(&[hit(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(2), COMPLETE(3)]);
    assert!(!pair.begin());
    pair.lose();
    assert_eq!(pair.take(), [], "nobody wants it cancelled any more");
    pair.reply(&done(2));
    assert_eq!(pair.take(), [COMPLETE(2)]);
}

#[test]
fn a_follower_is_hit_some_times_but_not_without_end() {
    let mut pair = sent(1..=2);
    pair.take_away_after(AFTER);
    pair.reply(&[hit(1), hit(2)].concat());
    pair.lose();
    let mut restarts = 0;
    loop {
        match &pair.take()[..] {
            [Out::Ended(2, CANCELLED)] => break,
            _ => restarts += 1,
        }
        assert!(restarts < 20);
        pair.reply(&hit(2));
        pair.lose();
    }
    assert!(restarts > 2);
}

#[test]
fn where_the_window_is_small_it_comes_again_behind_those_that_wait_by_then() {
    let mut pair = limited(Limits { in_flight_max: 1, ..Limits::default() });
    for id in 1..=4 {
        pair.resend(id, "o");
    }
    pair.lose();
    for (id, wait) in [(1, AFTER), (2, NEXT[0])] {
        pair.take_away_after(wait);
        pair.reply(&hit(id));
        pair.lose();
        assert_eq!(pair.take(), [Out::Restarted(id.into())]);
    }
    // Request 3 is at the head. Request 1 is due again, but 4 was there before it.
    pair.later(AFTER);
    pair.resend(5, "o");
    pair.take();
    assert!(pair.begin());
    pair.end(CancelEnd::Closed);
    let mut order = vec![3];
    pair.reply(&done(3));
    for _ in 0..4 {
        let next = crate::toy::parse(pair.client.transmit()).unwrap().id;
        order.push(next);
        pair.lose();
        pair.reply(&done(next));
        pair.later(Duration::ZERO);
    }
    assert_eq!(order[..4], [3, 4, 1, 2]);
    assert_eq!(order[4], 5, "whoever came later goes behind");
}

#[test]
fn by_default_nothing_is_taken_away() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    pair.resend(2, "o");
    pair.lose();
    assert!(!pair.yields());
    // A host may learn of the limit later.
    pair.client.set_yield_after(AFTER, Duration::MAX);
    assert!(pair.yields());
}

/// A connection whose round trip is known, and whose head has been there for 50 ms.
fn late() -> Pair {
    let mut pair = new();
    pair.resend(9, "o");
    pair.lose();
    pair.reply(&done(9));
    pair.take();
    pair.resend(1, "o");
    pair.lose();
    pair.later(Duration::from_millis(50));
    pair
}

#[test]
fn a_segment_that_a_cancel_must_not_hit_waits_until_a_late_head_was_taken_away() {
    let mut pair = late();
    pair.member(2, "o");
    pair.only(3);
    assert!(pair.client.transmit().is_empty(), "it would protect the head");
    pair.take_away_after(AFTER - Duration::from_millis(50));
    pair.reply(&hit(1));
    assert_eq!(pair.take()[0], Out::Restarted(1));
    assert!(!pair.client.transmit().is_empty());
    pair.lose();
    pair.reply(&[&complete(2)[..], &settled(3)[..]].concat());
    let outs = ends(pair.take());
    assert!(outs.contains(&COMPLETE(3)), "{outs:?}");
}

#[test]
fn a_group_waits_as_well() {
    let mut pair = late();
    let asked = pair.client.open_group(pair.now, Token(7));
    assert!(asked.is_some());
    assert_eq!(pair.take(), []);
    pair.take_away_after(AFTER - Duration::from_millis(50));
    pair.reply(&hit(1));
    let outs = pair.take();
    assert!(outs.contains(&Out::Granted(7)), "{outs:?}");
}

#[test]
fn nothing_is_kept_back_because_the_server_is_far_away() {
    let mut pair = distant();
    pair.resend(1, "o");
    pair.lose();
    pair.later(Duration::from_millis(150));
    pair.member(2, "o");
    pair.only(3);
    assert!(!pair.client.transmit().is_empty());
}
