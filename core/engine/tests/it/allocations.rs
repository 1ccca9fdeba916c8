//! In the steady state a request costs no allocation: not for its bytes, its slot or its reply. And
//! memory that was needed once is released again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::toy::{Expect, Toy, complete, parse, put, put_request, settled};
use bytes::BytesMut;
use onetrip_engine::{Connection, Limits, Output, Request, SyncPoint, Time, Token};

/// A client, and a server that answers every request with a part and an end. Each reply is handed
/// over as its own block, and dropped.
struct Loop {
    client: Connection<Toy>,
    input: BytesMut,
    again: bool,
}

impl Loop {
    fn new(limits: Limits, again: bool) -> Loop {
        let client = Connection::new(Time::ZERO, Toy::default(), limits);
        Loop { client, input: BytesMut::with_capacity(64 << 10), again }
    }

    fn submit(&mut self, depth: u32) {
        for id in 0..depth {
            let expect = Expect::new(id, SyncPoint::Own);
            let isolated = Request::isolated(Token(u64::from(id)), expect);
            let request = Request { again: self.again, ..isolated };
            let ticket = self.client.submit(Time::ZERO, request, |out| {
                put_request(out, id, SyncPoint::Own, b"p");
                Ok::<(), ()>(())
            });
            ticket.unwrap();
        }
    }

    /// Writes the bytes to send, and answers them.
    fn answer(&mut self) -> usize {
        let out = self.client.transmit();
        let (len, mut at) = (out.len(), 0);
        while let Ok(message) = parse(&out[at..]) {
            at += message.len;
            for tag in [b'p', b'c', b's'] {
                put(&mut self.input, tag, message.id, b"");
            }
        }
        self.client.handle_written(Time::ZERO, len);
        self.client.handle_bytes(Time::ZERO, &mut self.input);
        std::iter::from_fn(|| self.client.poll_output()).count()
    }

    fn round(&mut self, depth: u32) {
        self.submit(depth);
        for _ in 0..=depth {
            if self.client.is_idle() {
                return;
            }
            self.answer();
        }
        panic!("stuck: {:?}", self.client);
    }
}

fn allocations(limits: Limits, depth: u32, again: bool) -> u64 {
    let mut client = Loop::new(limits, again);
    for _ in 0..10 {
        client.round(depth);
    }
    let rounds = 20_000 / depth;
    allocation_counter::measure(|| {
        for _ in 0..rounds {
            client.round(depth);
        }
    })
    .count_total
}

#[test]
fn a_request_costs_no_allocation_whatever_the_depth() {
    for depth in [1, 10, 1000] {
        for again in [false, true] {
            assert_eq!(allocations(Limits::default(), depth, again), 0, "depth {depth}");
        }
    }
}

#[test]
fn neither_does_one_that_waits_in_the_queue() {
    let limits = Limits { in_flight_max: 16, ..Limits::default() };
    for depth in [10, 100, 1000] {
        assert_eq!(allocations(limits.clone(), depth, false), 0, "depth {depth}");
    }
}

/// P39. A timer for each request, or a queue that is shifted at each removal, would be expensive if
/// many requests wait. Here the cost of each does not grow with their number, and one check covers
/// all deadlines.
#[test]
fn a_hundred_thousand_that_wait_with_deadlines_cost_what_each_of_them_costs() {
    let per_request = [10_000, 100_000].map(|depth| {
        let mut looks = 0;
        let cost = allocation_counter::measure(|| looks = answer_all(&mut waiting(depth)));
        assert_eq!(looks, 0, "nothing was due, and {depth} requests were looked through");
        assert!(cost.count_total < 200, "{depth}: {cost:?}");
        cost.bytes_total / u64::from(depth)
    });
    assert!(per_request[1] <= 2 * per_request[0], "bytes for each: {per_request:?}");
    // Each has its own deadline, within a tenth of a second.
    let mut client = waiting(100_000);
    let (mut looks, mut ended) = (0, 0);
    while let Some(now) = client.client.poll_deadline() {
        client.client.handle_time(now);
        ended += std::iter::from_fn(|| client.client.poll_output()).filter(is_end).count();
        looks += 1;
        assert!(looks <= 101, "too many looks through all of them");
    }
    assert_eq!(ended, 100_000);
}

/// Submits `count` requests, each with a deadline 1 µs after the one before; most of them wait in
/// the queue.
fn waiting(depth: u32) -> Loop {
    let (queue_max, queue_bytes_max) = (usize::MAX, usize::MAX);
    let limits = Limits { queue_max, queue_bytes_max, ..Limits::default() };
    let limits = Limits { stall_timeout: Duration::MAX, ..limits };
    let mut client = Loop::new(limits, false);
    for id in 0..depth {
        let isolated = Request::isolated(Token(u64::from(id)), Expect::new(id, SyncPoint::Own));
        let deadline = Time::ZERO.after(Duration::from_secs(30) + Duration::from_micros(id.into()));
        let ticket = client.client.submit(Time::ZERO, Request { deadline, ..isolated }, |out| {
            put_request(out, id, SyncPoint::Own, b"p");
            Ok::<(), ()>(())
        });
        ticket.unwrap();
    }
    client
}

/// Answers all of them, one window per millisecond. Returns how often a deadline was due in
/// between.
fn answer_all(client: &mut Loop) -> usize {
    let (mut now, mut looks) = (Time::ZERO, 0);
    while !client.client.is_idle() {
        client.answer();
        now = now.after(Duration::from_millis(1));
        if client.client.poll_deadline().is_some_and(|due| due <= now) {
            client.client.handle_time(now);
            looks += 1;
        }
    }
    looks
}

fn is_end(output: &Output<u32>) -> bool {
    matches!(output, Output::Ended { .. })
}

#[test]
fn the_memory_of_a_huge_request_is_given_back() {
    for in_flight_max in [1, 1024] {
        let mut client = Loop::new(Limits { in_flight_max, ..Limits::default() }, false);
        client.round(10);
        let left = allocation_counter::measure(|| {
            client.submit(1);
            let request = Request::isolated(Token(1), Expect::new(1, SyncPoint::Own));
            let huge = |out: &mut BytesMut| {
                out.resize(out.len() + (16 << 20), 0);
                Ok::<(), ()>(())
            };
            client.client.submit(Time::ZERO, request, huge).unwrap();
            for id in 0..2 {
                let len = client.client.transmit().len();
                client.client.handle_written(Time::ZERO, len);
                let mut reply = BytesMut::from(&[complete(id), settled(id)].concat()[..]);
                client.client.handle_bytes(Time::ZERO, &mut reply);
                while client.client.poll_output().is_some() {}
            }
            assert!(client.client.is_idle());
        });
        assert!(left.bytes_total > 16 << 20);
        assert!(left.bytes_current < 1 << 20, "{left:?}");
    }
}

#[test]
fn requests_and_callers_that_left_a_line_that_does_not_move_hold_no_memory() {
    let limits = Limits { in_flight_max: 1, ..Limits::default() };
    let mut client = Connection::new(Time::ZERO, Toy::default(), limits);
    let submit = |client: &mut Connection<Toy>, id: u32| {
        let request = Request::isolated(Token(u64::from(id)), Expect::new(id, SyncPoint::Own));
        let script = [b'p'; 200];
        client.submit(Time::ZERO, request, |out| {
            put_request(out, id, SyncPoint::Own, &script);
            Ok::<(), ()>(())
        })
    };
    submit(&mut client, 0).unwrap();
    submit(&mut client, 1).unwrap();
    let left = allocation_counter::measure(|| {
        for id in 0..100_000 {
            let ticket = submit(&mut client, id).unwrap();
            assert!(client.cancel(Time::ZERO, ticket));
            while client.poll_output().is_some() {}
        }
    });
    assert!(left.bytes_current < 1 << 20, "{left:?}");

    let limits = Limits { in_flight_max: 1, queue_max: 0, ..Limits::default() };
    let mut client = Connection::new(Time::ZERO, Toy::default(), limits);
    submit(&mut client, 0).unwrap();
    client.wait(Token(1), Time::NEVER).unwrap();
    let left = allocation_counter::measure(|| {
        for token in 2..100_000 {
            let ticket = client.wait(Token(token), Time::NEVER).unwrap();
            assert!(client.cancel(Time::ZERO, ticket));
            while client.poll_output().is_some() {}
        }
    });
    assert!(left.bytes_current < 1 << 16, "{left:?}");
}

#[test]
fn those_who_stay_in_a_line_need_no_second_buffer_when_others_come_and_go() {
    let limits = Limits { in_flight_max: 1, ..Limits::default() };
    let mut client = Connection::new(Time::ZERO, Toy::default(), limits);
    let script = [b'p'; 1000];
    let submit = |client: &mut Connection<Toy>, id: u32| {
        let request = Request::isolated(Token(u64::from(id)), Expect::new(id, SyncPoint::Own));
        let written = client.submit(Time::ZERO, request, |out| {
            put_request(out, id, SyncPoint::Own, &script);
            Ok::<(), ()>(())
        });
        written.unwrap()
    };
    submit(&mut client, 0);
    let mut leaving: VecDeque<_> = (1..=10_000).map(|id| submit(&mut client, id)).collect();
    leaving.drain(..5000);
    let more = allocation_counter::measure(|| {
        for id in 10_001..40_000 {
            assert!(client.cancel(Time::ZERO, leaving.pop_front().unwrap()));
            while client.poll_output().is_some() {}
            leaving.push_back(submit(&mut client, id));
        }
    });
    // The list of positions grows once; the bytes themselves, 10 MB of them, do not.
    assert!(more.bytes_max < 4 << 20, "{more:?}");
}

#[test]
fn the_counter_counts() {
    let kept = allocation_counter::measure(|| {
        let mut client = Loop::new(Limits::default(), false);
        client.round(1);
    });
    assert!(kept.count_total > 0);
}
