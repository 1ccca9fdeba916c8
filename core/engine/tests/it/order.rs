//! Order of commits, slots that are never freed early, and replies that arrive in arbitrary pieces.

use crate::toy::pair::{Out, Pair, completed, limits};
use crate::toy::{self, Toy, complete, notice, part, settled};
use onetrip_engine::{Connection, End, Limits, SubmitError, SyncPoint, Ticket, Time, Token};

#[test]
fn requests_are_answered_in_the_order_in_which_they_were_submitted() {
    let mut pair = Pair::new(Limits::default());
    pair.owns(0..20);
    assert_eq!(completed(&pair.run()), Vec::from_iter(0..20));
    assert_eq!(pair.server.received, Vec::from_iter(0..20));
    assert!(pair.client.is_idle());
}

#[test]
fn a_request_is_on_its_way_before_the_call_returns() {
    let mut pair = Pair::new(Limits::default());
    assert_eq!(pair.own(1, "o"), Ticket::Sent);
    assert!(!pair.client.transmit().is_empty());
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 0));
    assert_eq!(pair.client.in_flight_bytes(), pair.client.transmit().len());
}

#[test]
fn an_encoder_that_fails_leaves_nothing_on_the_wire() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    let before = pair.client.transmit().to_vec();
    let request = pair.request(2, SyncPoint::Own);
    let refused = pair.client.submit(pair.now, request, |out| {
        out.extend_from_slice(b"half a requ");
        Err("no such type")
    });
    assert_eq!(refused, Err(SubmitError::Encode("no such type")));
    assert_eq!(pair.client.transmit(), before);
    pair.own(3, "o");
    assert_eq!(completed(&pair.run()), [1, 3]);
}

#[test]
fn an_encoder_that_fails_leaves_nothing_in_the_queue() {
    let mut pair = Pair::new(limits(1));
    pair.owns(0..2);
    let before = pair.client.queued_bytes();
    let request = pair.request(2, SyncPoint::Own);
    let refused = pair.client.submit(pair.now, request, |out| {
        out.extend_from_slice(b"half a requ");
        Err(())
    });
    assert_eq!(refused, Err(SubmitError::Encode(())));
    assert_eq!((pair.client.queued(), pair.client.queued_bytes()), (1, before));
    pair.own(3, "o");
    assert_eq!(toy::pair::ends(pair.run()).len(), 3);
    assert_eq!(pair.server.received, [0, 1, 3]);
}

#[test]
fn an_encoder_that_panics_leaves_nothing() {
    let mut pair = Pair::new(Limits::default());
    let request = pair.request(1, SyncPoint::Own);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<_, SubmitError<()>> = pair.client.submit(Time::ZERO, request, |out| {
            out.extend_from_slice(b"half a requ");
            std::panic::resume_unwind(Box::new(()))
        });
    }));
    assert!(panicked.is_err());
    assert!(pair.client.transmit().is_empty() && pair.client.is_idle());
    pair.own(2, "o");
    assert_eq!(completed(&pair.run()), [2]);
}

#[test]
fn a_request_that_cannot_be_taken_back_keeps_its_slot() {
    let mut pair = Pair::new(Limits::default());
    let ticket = pair.own(1, "pp");
    pair.own(2, "o");
    assert!(!pair.client.cancel(pair.now, ticket));
    assert_eq!(pair.client.in_flight(), 2);
    assert_eq!(completed(&pair.run()), [1, 2]);
}

#[test]
fn a_discarded_request_is_drained_and_its_neighbours_get_their_own_replies() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "p");
    let mut request = pair.request(2, SyncPoint::Own);
    request.token = Token::DISCARD;
    pair.submit(request, "ppp").unwrap();
    pair.own(3, "p");
    assert_eq!(completed(&pair.run()), [1, 3]);
    assert_eq!(pair.replies[&3], [part(3), complete(3), settled(3)].concat());
    assert_eq!(pair.replies.len(), 2);
}

#[test]
fn replies_are_the_same_whole_byte_by_byte_and_with_trailing_bytes() {
    let run = |chunk| {
        let mut pair = Pair::new(Limits::default());
        pair.chunk = chunk;
        pair.own(1, "pp");
        pair.member(2, "p");
        pair.member(3, "pe");
        pair.member(4, "o");
        pair.own(5, "o");
        pair.own(6, "ppu");
        pair.again(7, "pn");
        pair.own(8, "pE");
        pair.own(9, "ppp");
        let outs = pair.run();
        (outs, pair.replies, pair.server.log)
    };
    let whole = run(usize::MAX);
    assert_eq!(whole.0.len(), 9);
    for chunk in 1..60 {
        assert_eq!(run(chunk), whole, "in pieces of {chunk} bytes");
    }
}

#[test]
fn what_is_not_whole_stays_with_the_host_and_the_answer_says_how_much_is_needed() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    let reply = [complete(1), settled(1)].concat();
    let mut input = bytes::BytesMut::from(&reply[..10]);
    assert_eq!(pair.client.handle_bytes(pair.now, &mut input), 7);
    assert_eq!(input, reply[7..10], "the whole message was taken, the next one left");
    input.extend_from_slice(&reply[10..]);
    assert!(pair.client.handle_bytes(pair.now, &mut input) > 0);
    assert!(input.is_empty());
    assert_eq!(completed(&pair.take()), [1]);
}

#[test]
fn an_event_between_the_parts_of_a_reply_belongs_to_no_request() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "pp");
    pair.lose();
    let bytes = [notice(70), part(1), notice(71), complete(1), notice(72), settled(1), notice(73)];
    pair.reply(&bytes.concat());
    let outs = pair.take();
    let ended = Out::Ended(1, End::Complete);
    assert_eq!(outs, [Out::Event(70), Out::Event(71), Out::Event(72), ended, Out::Event(73)]);
    assert_eq!(pair.replies[&1], [part(1), complete(1), settled(1)].concat());
}

#[test]
fn debug_shows_no_bytes() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "secret");
    assert!(!format!("{:?}", pair.client).contains("secret"));
    pair.write();
    let bytes = [toy::message(b'p', 1, b"secret"), complete(1), settled(1)].concat();
    pair.reply(&bytes);
    let output = pair.client.poll_output().unwrap();
    assert!(!format!("{output:?}").contains("secret"), "{output:?}");
}

#[test]
fn a_connection_moves_between_threads() {
    fn is_send<T: Send + Sync>() {}
    is_send::<Connection<Toy>>();
}
