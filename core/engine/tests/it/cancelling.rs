//! A cancel at the server affects no request but its target.

use std::time::Duration;

use crate::toy::pair::{Out, Pair, ends, failure, limits, seconds};
use crate::toy::server::Effect;
use crate::toy::{cancelled, complete, failed, message, part, settled};
use onetrip_engine::{
    CancelEnd, Cause, End, Limits, Outcome, Request, SyncPoint, Time, Token, Wanted,
};

pub(crate) const CANCELLED: End = failure(Outcome::Rejected, Cause::Server);

/// The end of a reply.
pub(crate) fn done(id: u32) -> Vec<u8> {
    [complete(id), settled(id)].concat()
}

pub(crate) fn hit(id: u32) -> Vec<u8> {
    [cancelled(id), settled(id)].concat()
}

/// Submits and writes requests that may be sent again.
fn sent(ids: std::ops::RangeInclusive<u32>) -> Pair {
    let mut pair = Pair::new(Limits::default());
    for id in ids {
        pair.resend(id, "o");
    }
    pair.lose();
    pair
}

impl Pair {
    pub(crate) fn want(&mut self, id: u64) {
        let wanted = self.client.want_cancel(self.now, Token(id));
        assert_eq!(wanted, Wanted::Noted(Token(id)));
    }

    pub(crate) fn begin(&mut self) -> bool {
        self.client.begin_cancel(self.now)
    }

    pub(crate) fn end(&mut self, end: CancelEnd) {
        self.client.handle_cancel_end(self.now, end);
    }

    /// Sends a cancel of the request at the head.
    pub(crate) fn cancel(&mut self, id: u64) {
        self.want(id);
        assert_eq!(self.take(), [Out::Cancel]);
        assert!(self.begin());
    }
}

#[test]
fn a_request_at_the_head_is_cancelled() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.reply(&hit(1));
    pair.end(CancelEnd::Closed);
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED)]);
    assert!(!pair.client.is_held());
}

#[test]
fn one_further_back_is_cancelled_when_its_reply_is_due() {
    let mut pair = sent(1..=2);
    pair.want(2);
    assert_eq!(pair.take(), []);
    pair.reply(&done(1));
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete), Out::Cancel]);
}

#[test]
fn one_that_was_not_written_yet_is_not_cancelled_before_it_is() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    pair.want(1);
    assert_eq!(pair.take(), []);
    pair.lose();
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn one_that_ends_before_the_cancel_is_sent_is_not_cancelled() {
    let mut pair = sent(1..=2);
    pair.want(1);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.reply(&done(1));
    assert!(!pair.begin());
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete)]);
}

#[test]
fn nothing_new_is_sent_before_the_victim_was_answered_and_the_cancel_has_ended() {
    for answer_first in [true, false] {
        let mut pair = sent(1..=1);
        pair.cancel(1);
        pair.resend(2, "o");
        assert!(pair.client.transmit().is_empty());
        match answer_first {
            true => pair.reply(&hit(1)),
            false => pair.end(CancelEnd::Closed),
        }
        assert!(pair.client.is_held() && pair.client.transmit().is_empty());
        match answer_first {
            true => pair.end(CancelEnd::Closed),
            false => pair.reply(&hit(1)),
        }
        assert!(!pair.client.is_held() && !pair.client.transmit().is_empty());
    }
}

#[test]
fn a_group_is_held_too() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    let group = pair.group(9);
    pair.lose();
    pair.cancel(1);
    pair.in_group(group, 2, SyncPoint::Own, "o");
    assert!(pair.client.transmit().is_empty());
    assert_eq!(pair.client.group_queued(), 1);
    pair.end(CancelEnd::Closed);
    pair.reply(&done(1));
    assert!(!pair.client.transmit().is_empty());
}

#[test]
fn a_host_that_prepares_a_second_cancel_is_not_asked_for_a_third_meanwhile() {
    let mut pair = sent(1..=3);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.later(Duration::from_millis(100));
    assert_eq!(pair.take(), [Out::Cancel], "it runs on");
    pair.reply(&hit(1));
    pair.want(2);
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED)]);
    assert!(pair.begin(), "the cancel that was asked for is the one of 2");
    pair.end(CancelEnd::Closed);
    pair.reply(&[hit(2), done(3)].concat());
    assert_eq!(pair.take(), [Out::Ended(2, CANCELLED), Out::Ended(3, End::Complete)]);
}

#[test]
fn a_second_cancel_that_nobody_needs_any_more_is_not_sent() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.later(Duration::from_millis(100));
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.reply(&hit(1));
    assert!(!pair.client.is_held() && !pair.begin());
    pair.want(2);
    assert_eq!(ends(pair.take()), [Out::Ended(1, CANCELLED), Out::Cancel]);
}

#[test]
fn a_follower_that_is_hit_is_sent_again_as_it_was() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    let before = pair.client.transmit().len();
    pair.resend(2, "pp");
    let bytes = pair.client.transmit()[before..].to_vec();
    pair.lose();
    pair.cancel(1);
    pair.reply(&[done(1), part(2), hit(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete), Out::Restarted(2)]);
    assert!(pair.client.transmit().is_empty(), "the cancel has not ended");
    pair.end(CancelEnd::Closed);
    assert_eq!(pair.client.transmit(), bytes);
    pair.lose();
    pair.reply(&done(2));
    assert_eq!(pair.take(), [Out::Ended(2, End::Complete)]);
    assert_eq!(pair.replies[&2], done(2), "nothing of the first reply is left");
}

#[test]
fn it_goes_in_front_of_what_waits() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.resend(3, "o");
    pair.reply(&[done(1), hit(2)].concat());
    pair.end(CancelEnd::Closed);
    pair.lose();
    pair.reply(&[done(2), done(3)].concat());
    let ended = |id| Out::Ended(id, End::Complete);
    assert_eq!(ends(pair.take()), [ended(1), Out::Restarted(2), ended(2), ended(3)]);
}

#[test]
fn once_and_no_more() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.reply(&[done(1), hit(2)].concat());
    pair.end(CancelEnd::Closed);
    pair.lose();
    pair.take();
    pair.reply(&hit(2));
    assert_eq!(pair.take(), [Out::Ended(2, CANCELLED)]);
}

#[test]
fn one_that_was_sent_again_is_not_risked_a_second_time() {
    let mut pair = sent(1..=3);
    pair.cancel(1);
    pair.reply(&[done(1), hit(2)].concat());
    pair.end(CancelEnd::Closed);
    pair.lose();
    pair.take();
    pair.want(3);
    assert_eq!(pair.take(), [Out::NotCancelled(3)]);
    pair.reply(&done(3));
    pair.take();
    pair.cancel(2);
}

#[test]
fn what_can_not_be_sent_again_protects_those_in_front_of_it() {
    let mut pair = sent(1..=2);
    pair.own(3, "o");
    pair.lose();
    pair.want(1);
    assert_eq!(pair.take(), [Out::NotCancelled(1)]);
    pair.reply(&[done(1), done(2), done(3)].concat());
    assert_eq!(ends(pair.take()).len(), 3);
}

#[test]
fn so_does_one_that_is_sent_while_the_cancel_is_prepared() {
    let mut pair = sent(1..=1);
    pair.want(1);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.own(2, "o");
    assert!(!pair.begin());
    assert_eq!(pair.take(), [Out::NotCancelled(1)]);
}

#[test]
fn what_keeps_its_place_in_the_order_is_risked_only_if_nothing_is_behind_it() {
    let in_order = |pair: &mut Pair, id| {
        let request = Request { resend: true, in_order: true, ..pair.request(id, SyncPoint::Own) };
        pair.submit(request, "o").unwrap();
    };
    let mut pair = sent(1..=1);
    in_order(&mut pair, 2);
    pair.lose();
    pair.cancel(1);
    pair.reply(&[done(1), hit(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete), Out::Restarted(2)]);

    let mut pair = sent(1..=1);
    in_order(&mut pair, 2);
    in_order(&mut pair, 3);
    pair.lose();
    pair.want(1);
    assert_eq!(pair.take(), [Out::NotCancelled(1)]);
}

#[test]
fn a_follower_that_ended_otherwise_is_not_sent_again() {
    let mut pair = sent(1..=4);
    pair.cancel(1);
    let error = [failed(2, Outcome::Rejected, false), settled(2)].concat();
    let partial = [message(b'e', 3, &[1, 0, 1]), settled(3)].concat();
    pair.reply(&[done(1), error, partial].concat());
    let unknown = failure(Outcome::Unknown, Cause::Server);
    let ended = [(1, End::Complete), (2, CANCELLED), (3, unknown)];
    assert_eq!(pair.take(), ended.map(|(id, end)| Out::Ended(id, end)));
}

#[test]
fn what_the_server_cancels_for_itself_is_reported() {
    let mut pair = sent(1..=1);
    pair.reply(&hit(1));
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED)]);
}

#[test]
fn a_follower_that_was_on_its_way_is_sent_again_however_late_its_error_comes() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.reply(&done(1));
    assert!(!pair.client.is_held());
    pair.resend(3, "o");
    pair.lose();
    pair.take();
    pair.later(seconds(60));
    pair.reply(&hit(2));
    assert_eq!(pair.take(), [Out::Restarted(2)]);
    pair.reply(&hit(3));
    assert_eq!(pair.take(), [Out::Ended(3, CANCELLED)], "it was sent behind the cancel");
}

#[test]
fn behind_a_pooler_a_cancel_may_arrive_a_little_later() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.reply(&done(1));
    pair.resend(2, "o");
    pair.lose();
    pair.take();
    pair.reply(&hit(2));
    assert_eq!(pair.take(), [Out::Restarted(2)]);
}

#[test]
fn a_late_request_is_cancelled_where_that_is_wanted() {
    for cancel_late in [true, false] {
        let mut pair = Pair::new(Limits::default());
        let deadline = Time::ZERO.after(seconds(1));
        let late = Request { deadline, cancel_late, ..pair.request(1, SyncPoint::Own) };
        pair.submit(late, "o").unwrap();
        pair.resend(2, "o");
        pair.lose();
        pair.later(seconds(2));
        let timeout = Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline));
        match cancel_late {
            false => assert_eq!(pair.take(), [timeout]),
            true => {
                assert_eq!(pair.take(), [timeout, Out::Cancel]);
                assert!(pair.begin());
                pair.reply(&[hit(1), done(2)].concat());
                assert_eq!(pair.take(), [Out::Ended(2, End::Complete)]);
            }
        }
    }
}

#[test]
fn late_requests_do_not_protect_one_another() {
    let mut pair = Pair::new(Limits::default());
    for id in 1..=3 {
        let deadline = Time::ZERO.after(seconds(1));
        let late = Request { deadline, cancel_late: true, ..pair.request(id, SyncPoint::Own) };
        pair.submit(late, "o").unwrap();
    }
    pair.lose();
    pair.later(seconds(2));
    assert_eq!(pair.take().last(), Some(&Out::Cancel));
    assert!(pair.begin());
    pair.reply(&hit(1));
    assert_eq!(pair.take(), [], "one after the other");
    pair.end(CancelEnd::Closed);
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn a_pinned_request_that_is_late_protects_those_in_front_of_it() {
    let mut pair = sent(1..=1);
    let deadline = Time::ZERO.after(seconds(1));
    let pinned = Request { deadline, pinned: true, ..pair.request(2, SyncPoint::Own) };
    pair.submit(pinned, "o").unwrap();
    pair.lose();
    pair.later(seconds(2));
    pair.want(1);
    assert_eq!(ends(pair.take()).last(), Some(&Out::NotCancelled(1)));
}

#[test]
fn a_pinned_request_in_the_queue_is_cancelled_when_the_server_runs_it() {
    let mut pair = Pair::new(limits(1));
    pair.own(1, "o");
    let pinned = Request { pinned: true, ..pair.request(2, SyncPoint::Own) };
    pair.submit(pinned, "o").unwrap();
    pair.lose();
    pair.want(2);
    pair.reply(&done(1));
    pair.take();
    pair.lose();
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn what_begins_a_transaction_is_not_risked_with_anything_behind_it() {
    for follower in [true, false] {
        let mut pair = Pair::new(Limits::default());
        pair.member(1, "o");
        pair.own(2, "o");
        if follower {
            pair.resend(3, "o");
        }
        pair.lose();
        pair.want(2);
        let answer = if follower { Out::NotCancelled(2) } else { Out::Cancel };
        assert_eq!(pair.take(), [answer]);
    }
}

#[test]
fn a_member_can_not_be_cancelled_by_itself() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.own(2, "o");
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::NotPossible);
    assert_eq!(pair.client.want_cancel(pair.now, Token(3)), Wanted::Unknown);
}

/// P64.
#[test]
fn a_segment_that_is_given_up_while_it_is_sent_is_undone_and_the_rest_is_not_sent() {
    for in_flight_max in 1..8 {
        let mut pair = Pair::new(Limits { in_flight_max, ..Limits::default() });
        (1..=5).for_each(|id| _ = pair.member(id, "o"));
        pair.only(6);
        let is_queued = in_flight_max < 6;
        pair.want(6);
        pair.write();
        let behind = [1, 2, 3, 4, 5].map(|id| pair.server.log.contains_key(&id));
        pair.own(7, "o");
        if pair.begin() {
            pair.end(CancelEnd::Closed);
        }
        let mut outs = pair.run();
        pair.later(seconds(10));
        outs.extend(pair.run());
        let all_sent = in_flight_max >= 5;
        assert_eq!(behind.contains(&false), !all_sent, "{in_flight_max}");
        assert_eq!(pair.server.log[&7], Effect::Applied);
        for id in 1..=5 {
            let effect = pair.server.log.get(&id).copied().unwrap_or(Effect::None);
            let known = if is_queued { Effect::None } else { Effect::Applied };
            assert_eq!(effect, known, "{in_flight_max}: {id}");
        }
        let rejected = Out::Ended(6, failure(Outcome::Rejected, Cause::Aborted));
        assert_eq!(outs.contains(&rejected), is_queued, "{in_flight_max}: {outs:?}");
    }
}

/// P64.
#[test]
fn of_a_segment_that_is_given_up_in_line_nothing_is_sent() {
    let mut pair = Pair::new(limits(1));
    pair.own(1, "o");
    pair.member(2, "o");
    pair.only(3);
    pair.own(4, "o");
    assert_eq!(pair.client.want_cancel(pair.now, Token(3)), Wanted::TakenBack);
    let outs = pair.run();
    for id in [2, 3] {
        let not_sent = Out::Ended(id, failure(Outcome::NotSent, Cause::Cancelled));
        assert!(outs.contains(&not_sent), "{outs:?}");
    }
    assert_eq!(pair.server.received, [1, 4]);
}

/// P64. Its statement waits in the server, which reads no more of what is on its way.
#[test]
fn the_server_is_asked_to_stop_a_segment_before_all_of_it_is_written() {
    let mut pair = Pair::new(Limits::default());
    let first = {
        pair.member(1, "o");
        pair.client.transmit().len()
    };
    pair.member(2, "o");
    pair.only(3);
    pair.want(3);
    assert_eq!(pair.take(), []);
    pair.client.handle_written(pair.now, first);
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn a_member_in_line_can_not_be_cancelled_by_itself() {
    let mut pair = Pair::new(Limits { in_flight_max: 1, ..Limits::default() });
    let group = pair.group(9);
    pair.in_group(group, 1, SyncPoint::Member, "o");
    pair.in_group(group, 2, SyncPoint::Member, "o");
    assert_eq!(pair.client.want_cancel(pair.now, Token(2)), Wanted::NotPossible);
}

#[test]
fn one_that_a_cancel_has_hit_ends_with_the_connection_and_not_with_the_cancel() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.reply(&[done(1), cancelled(2)].concat());
    pair.end(CancelEnd::Closed);
    pair.client.handle_closed();
    let rejected = failure(Outcome::Rejected, Cause::Closed);
    assert_eq!(pair.take().last(), Some(&Out::Ended(2, rejected)));
}

#[test]
fn a_group_is_cancelled_by_segments() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(9);
    pair.in_group(group, 1, SyncPoint::Member, "o");
    pair.lose();
    assert_eq!(pair.client.want_cancel_group(pair.now, group), Wanted::NotPossible, "it is open");
    pair.in_group(group, 2, SyncPoint::Only, "");
    pair.in_group(group, 3, SyncPoint::Own, "o");
    pair.lose();
    assert_eq!(pair.client.want_cancel_group(pair.now, group), Wanted::Noted(Token(2)));
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.begin());
    pair.reply(&[cancelled(1), settled(2), done(3)].concat());
    let aborted = failure(Outcome::Rejected, Cause::Aborted);
    let ended = [(1, CANCELLED), (2, aborted), (3, End::Complete)];
    assert_eq!(pair.take(), ended.map(|(id, end)| Out::Ended(id, end)));
}

#[test]
fn a_group_protects_those_in_front_of_it() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    let group = pair.group(9);
    pair.in_group(group, 2, SyncPoint::Own, "o");
    pair.lose();
    pair.want(1);
    assert_eq!(pair.take(), [Out::NotCancelled(1)]);
}

#[test]
fn the_user_of_a_whole_connection_may_cancel_what_runs_whatever_is_behind_it() {
    let mut pair = Pair::new(Limits::default());
    pair.owns(1..3);
    pair.lose();
    assert_eq!(pair.client.want_cancel_first(pair.now, |_| true), Wanted::Noted(Token(1)));
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.begin());
    pair.reply(&[done(1), hit(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, End::Complete), Out::Ended(2, CANCELLED)]);
}

#[test]
fn what_belongs_to_one_caller_waits_while_the_cancel_is_prepared() {
    let pinned = |pair: &mut Pair, id| {
        let request = Request { pinned: true, ..pair.request(id, SyncPoint::Own) };
        pair.submit(request, "o").unwrap();
        pair.lose();
    };
    let mut pair = Pair::new(Limits::default());
    pinned(&mut pair, 1);
    pair.want(1);
    assert_eq!(pair.take(), [Out::Cancel]);
    pinned(&mut pair, 2);
    assert_eq!(pair.client.queued(), 1);
    assert!(pair.begin());
    pair.end(CancelEnd::Closed);
    pair.reply(&hit(1));
    assert_eq!((pair.client.queued(), pair.client.in_flight()), (0, 1));

    let mut pair = Pair::new(Limits::default());
    pinned(&mut pair, 1);
    pair.want(1);
    pinned(&mut pair, 2);
    assert_eq!(pair.client.poll_deadline(), Some(pair.now.after(seconds(5))));
    pair.later(seconds(5));
    assert_eq!(pair.client.queued(), 0);
    assert!(ends(pair.take()).contains(&Out::NotCancelled(1)));
    assert!(!pair.begin());
}

#[test]
fn a_cancel_that_could_not_be_sent_holds_nobody_up() {
    for began in [true, false] {
        let mut pair = sent(1..=1);
        pair.want(1);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(!began || pair.begin());
        pair.end(CancelEnd::NotSent);
        assert_eq!(pair.take(), [Out::NotCancelled(1)]);
        pair.resend(2, "o");
        assert!(!pair.client.transmit().is_empty());
    }
}

#[test]
fn a_cancel_whose_end_nobody_knows_holds_the_connection_up_for_a_while() {
    for told in [true, false] {
        let mut pair = sent(1..=1);
        pair.cancel(1);
        pair.resend(2, "o");
        pair.take();
        match told {
            true => pair.end(CancelEnd::Lost),
            false => {
                assert_eq!(pair.client.poll_deadline(), Some(pair.now.after(seconds(5))));
                pair.later(seconds(5));
            }
        }
        assert_eq!(ends(pair.take()), [Out::Astray]);
        assert!(pair.client.is_astray() && !pair.client.transmit().is_empty());
        pair.lose();
        pair.reply(&done(1));
        pair.later(seconds(60));
        pair.take();
        pair.reply(&hit(2));
        assert_eq!(pair.take(), [Out::Restarted(2)]);
        // No other cancel is sent on this connection.
        pair.lose();
        pair.want(2);
        assert_eq!(pair.take(), [Out::NotCancelled(2)]);
    }
}

#[test]
fn a_victim_that_never_started_is_not_sent_again() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "o");
    pair.lose();
    pair.want(1);
    pair.take();
    pair.reply(&[failed(1, Outcome::Rejected, true), settled(1)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Rejected, Cause::Cancelled))]);
    assert!(!pair.begin());
}

#[test]
fn one_that_waits_to_be_sent_again_is_taken_back() {
    let mut pair = Pair::new(limits(1));
    pair.again(1, "o");
    let group = pair.client.open_group(pair.now, Token(9)).unwrap();
    pair.lose();
    pair.take();
    pair.reply(&[failed(1, Outcome::Rejected, true), settled(1)].concat());
    // The group has the right to send, so the request waits until the group ends.
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::TakenBack);
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Rejected, Cause::Cancelled))]);
    pair.client.close_group(pair.now, group);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_the_cancel() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.resend(2, "o");
    pair.client.handle_closed();
    pair.take();
    pair.end(CancelEnd::Closed);
    pair.end(CancelEnd::Lost);
    assert!(!pair.begin());
    assert_eq!((pair.take(), pair.client.poll_deadline()), (vec![], None));
}

#[test]
fn nobody_is_told_of_a_cancel_that_is_not_made_of_a_request_that_has_ended() {
    let mut pair = Pair::new(Limits::default());
    pair.until(1, pair.now.after(seconds(1)));
    pair.lose();
    pair.cancel(1);
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline))]);
    pair.end(CancelEnd::NotSent);
    assert_eq!(pair.take(), []);
}

#[test]
fn a_goodbye_is_the_end_of_the_cancel() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.client.terminate(pair.now);
    pair.reply(&done(1));
    pair.take();
    assert!(pair.client.is_closed());
    pair.lose();
    pair.end(CancelEnd::Lost);
    assert_eq!((pair.take(), pair.client.poll_deadline()), (vec![], None));
}

#[test]
fn one_that_was_hit_and_waits_to_be_sent_again_was_rejected() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.reply(&[done(1), hit(2)].concat());
    pair.take();
    pair.client.handle_closed();
    let rejected = failure(Outcome::Rejected, Cause::Closed);
    assert_eq!(pair.take().last(), Some(&Out::Ended(2, rejected)));
}

impl Pair {
    /// Moves to the engine's next deadline, which must be this much later than now.
    fn pass(&mut self, millis: u64) {
        let due = self.now.after(Duration::from_millis(millis));
        assert_eq!(self.client.poll_deadline(), Some(due));
        self.now = due;
        self.client.handle_time(due);
    }
}

/// A server ignores a cancel that comes before the request has begun.
#[test]
fn a_victim_that_runs_on_is_cancelled_again_after_a_pause_and_after_a_longer_one() {
    let mut pair = sent(1..=2);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    for pause in [100, 1000] {
        pair.pass(pause);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(pair.client.is_held() && pair.begin());
        assert!(!pair.begin(), "once for each time that it was asked for");
        pair.end(CancelEnd::Closed);
    }
    assert_eq!(pair.client.poll_deadline(), None);
    pair.reply(&[hit(1), hit(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED), Out::Restarted(2)]);
    assert!(!pair.client.is_held());
}

#[test]
fn a_victim_that_was_answered_meanwhile_is_not_cancelled_again() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.pass(100);
    assert_eq!(pair.take(), [Out::Cancel]);
    pair.reply(&hit(1));
    assert!(!pair.client.is_held(), "the cancel before has ended");
    assert!(!pair.begin());
    pair.resend(2, "o");
    assert!(!pair.client.transmit().is_empty());
}

#[test]
fn another_cancel_that_comes_to_nothing_leaves_the_first_as_it_was() {
    for end in [Some(CancelEnd::NotSent), None] {
        let mut pair = sent(1..=1);
        pair.cancel(1);
        pair.end(CancelEnd::Closed);
        pair.pass(100);
        assert_eq!(pair.take(), [Out::Cancel]);
        match end {
            Some(end) => pair.end(end),
            // The result of the cancel is never reported.
            None => pair.pass(5000),
        }
        assert!(pair.client.is_held() && !pair.client.is_astray());
        pair.pass(1000);
        assert_eq!(pair.take(), [Out::Cancel]);
        pair.reply(&hit(1));
        assert_eq!(pair.take(), [Out::Ended(1, CANCELLED)]);
        assert!(!pair.client.is_held());
    }
}

#[test]
fn another_cancel_may_be_lost() {
    let mut pair = sent(1..=1);
    pair.cancel(1);
    pair.end(CancelEnd::Closed);
    pair.pass(100);
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.begin());
    pair.end(CancelEnd::Lost);
    assert_eq!(pair.take(), [Out::Astray]);
    assert!(pair.client.is_astray() && !pair.client.is_held());
}

/// P75. Two that their callers give up together: neither stands in the way of the other.
#[test]
fn requests_that_are_given_up_together_are_cancelled_whatever_order_they_are_named_in() {
    for tokens in [[Token(1), Token(2)], [Token(2), Token(1)]] {
        let mut pair = Pair::new(Limits::default());
        pair.owns(1..3);
        pair.lose();
        let wanted = pair.client.want_cancel_all(pair.now, &tokens);
        let noted = |id| (Token(id), Wanted::Noted(Token(id)));
        assert_eq!(wanted, [noted(1), noted(2)]);
        assert_eq!(pair.take(), [Out::Cancel]);
        assert!(pair.begin());
    }
}
