//! Redis behind the ABI: settings, a login, commands and replies of any kind.

use bytes::BytesMut;
use onetrip_abi::fuzzing::{Asked, Host, look, outcome};
use onetrip_redis::Command;

use super::abi::{Speech, Test};
use crate::input::{Input, show_debug};

/// A byte of settings, one that says whether the login is answered, then the steps.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let bits = input.u8();
    let mut test = Test::new(Host::redis(&settings(bits)), &SPEECH);
    if input.flag() {
        let unsent = test.host.transmit().len();
        test.host.written(0.0, unsent);
        test.host.receive(0.0, if bits & 1 == 0 { b"%0\r\n" } else { b"+OK\r\n" }, 0);
        test.host.receive(0.0, if bits & 8 == 0 { b"+PONG\r\n" } else { b"+OK\r\n+PONG\r\n" }, 0);
    }
    test.run(&mut input);
}

fn settings(bits: u8) -> Vec<u8> {
    let has = |bit: u8| bits & 1 << bit != 0;
    let pairs = [
        (has(0), "protocol", "2"),
        (has(0), "password", "secret"),
        (has(1), "subscriber", "1"),
        (has(2), "in_flight_max", "2"),
        (has(3), "database", "3"),
        (has(4), "queue_max", "3"),
        (has(5), "reply_bytes_max", "64"),
        (has(6), "in_flight_bytes_max", "50"),
        (bits == 255, "no_such_setting", "1"),
    ];
    let said = pairs.iter().filter(|(applies, ..)| *applies);
    said.flat_map(|(_, name, value)| [name, "\0", value, "\0"]).flat_map(|it| it.bytes()).collect()
}

const SPEECH: Speech = Speech {
    says: &[
        b"+OK\r\n",
        b":7\r\n",
        b"$3\r\nabc\r\n",
        b"$-1\r\n",
        b"_\r\n",
        b"*2\r\n$1\r\na\r\n:1\r\n",
        b"-ERR no\r\n",
        b"-NOSCRIPT No matching script\r\n",
        b"-UNKILLABLE no\r\n",
        b"-BUSY a script runs\r\n",
        b"$1000000\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n",
        b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        b"|1\r\n+key\r\n+value\r\n",
        b"*?\r\n:1\r\n.\r\n",
    ],
    ask,
    submit: |host, now, asked, bytes| host.submit_redis(now, asked, bytes),
    other,
};

fn ask(input: &mut Input<'_>, asked: &mut Asked) -> Vec<u8> {
    asked.replies = input.below(4) as u32;
    let bits = input.u8();
    asked.flags = u32::from(bits & 3) | u32::from(bits & 32) >> 3 | u32::from(bits == 255) << 7;
    if bits & 64 != 0 {
        asked.lens.0 = input.u8().into();
        return input.piece().to_vec();
    }
    let script: &[u8] = if bits & 16 == 0 { b"" } else { b"return 1" };
    asked.lens.0 = script.len();
    let mut bytes = BytesMut::from(script);
    let names = ["GET", "SET", "SUBSCRIBE", "ssubscribe", "EVALSHA", "BLPOP", "NOSUCH"];
    for _ in 0..asked.replies.max(1) {
        let command = Command::new(input.pick(&names));
        command.arg(input.piece()).encode(&mut bytes);
    }
    bytes.to_vec()
}

fn other(test: &mut Test<'_>, input: &mut Input<'_>) {
    match input.below(4) {
        // A count that is too large is reduced to the true one.
        0 => test.write_too_much(),
        1 => show_debug(look(input.piece()).expect("there is memory")),
        2 => assert!((1..=4).contains(&outcome(input.piece(), input.flag()))),
        // A call of the other protocol has no effect.
        _ => {
            assert!(test.host.sync(test.now, 1) < 0.0);
            test.host.want_cancel(test.now, 1, 1);
            test.host.flush(test.now);
            test.host.password(test.now, b"secret");
        }
    }
}
