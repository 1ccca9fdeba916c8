//! What a request costs at a depth of 10 and at a depth of 10,000: it should be the same.
//!
//! `cargo run --release -p onetrip-engine --example depth`
//!
//! A million requests are submitted, written, answered and drained at each depth, in turns, so that
//! a slow moment of the machine hits both. There is no server: the replies are made up outside of
//! the measured time. Prints nanoseconds per request, and as the last line JSON.

// Unlike the engine, a program that measures has a clock.
#![allow(clippy::disallowed_methods)]

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use onetrip_engine::{Connection, Limits, Output, Protocol, Request, Step, Time, Token, Violation};

const REQUESTS: u32 = 1_000_000;
const ROUNDS: usize = 9;
const DEPTHS: [u32; 2] = [10, 10_000];

/// A request is 32 bytes; its reply is one message of 32, which also answers its sync point.
const LEN: usize = 32;

struct Fixed;

impl Protocol for Fixed {
    type Expect = u32;
    type Event = ();
    const SYNC: &'static [u8] = b"";
    const FLUSH: &'static [u8] = b"";
    const TERMINATE: &'static [u8] = b"";

    fn step(&mut self, input: &[u8], head: Option<&mut u32>) -> Result<Step<()>, Violation> {
        let Some(mut message) = input.get(..LEN) else { return Ok(Step::Need(LEN)) };
        match head {
            Some(id) if *id == message.get_u32() => Ok(Step::Settled(LEN)),
            _ => Err(Violation("not its reply")),
        }
    }

    fn skip(&mut self, _: &mut u32) {}

    fn heal(&mut self, _: &mut u32, _: &mut BytesMut) {}

    fn restart(&mut self, _: &mut u32) {}
}

fn main() {
    let mut nanos = DEPTHS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (depth, nanos) in DEPTHS.into_iter().zip(&mut nanos) {
            let spent = run(depth);
            let each = spent.as_nanos() as f64 / f64::from(REQUESTS);
            println!("round {round}, depth {depth:>6}: {each:.1} ns per request");
            nanos.push(each);
        }
    }
    let [shallow, deep] = nanos.map(median);
    println!("median at depth 10: {shallow:.1} ns, at depth 10,000: {deep:.1} ns");
    println!(
        "{{\"depth_10_ns\":{shallow:.2},\"depth_10000_ns\":{deep:.2},\"ratio\":{:.3}}}",
        deep / shallow
    );
}

/// Runs `REQUESTS` requests through a connection, with a depth of `depth`, and returns the time
/// that the engine took.
fn run(depth: u32) -> Duration {
    let in_flight_max = depth as usize + 1;
    let in_flight_bytes_max = in_flight_max * LEN + 1;
    let limits = Limits { in_flight_max, in_flight_bytes_max, ..Limits::default() };
    let mut client = Connection::new(Time::ZERO, Fixed, limits);
    let mut input = BytesMut::with_capacity(depth as usize * LEN);
    let mut spent = Duration::ZERO;
    for _ in 0..REQUESTS / depth {
        for id in 0..depth {
            input.put_u32(id);
            input.put_bytes(0, LEN - 4);
        }
        let start = Instant::now();
        for id in 0..depth {
            let request = Request::isolated(Token(u64::from(id)), id);
            let sent = client.submit(Time::ZERO, request, |out| {
                out.put_u32(id);
                out.put_bytes(0, LEN - 4);
                Ok::<(), Infallible>(())
            });
            assert!(sent.is_ok());
        }
        let len = client.transmit().len();
        client.handle_written(Time::ZERO, len);
        client.handle_bytes(Time::ZERO, &mut input);
        let mut ended = 0;
        while let Some(output) = client.poll_output() {
            ended += u32::from(matches!(output, Output::Ended { .. }));
        }
        spent += start.elapsed();
        assert_eq!(ended, depth);
    }
    spent
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
