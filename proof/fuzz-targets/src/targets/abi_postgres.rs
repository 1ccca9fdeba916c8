//! PostgreSQL behind the ABI: settings, a login, statements and messages of any kind.

use onetrip_abi::fuzzing::{Asked, Host, classify};

use super::abi::{Speech, Test};
use crate::input::Input;

/// A byte of settings, one that says whether the login is answered, then the steps.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let bits = input.u8();
    let mut test = Test::new(Host::postgres(&settings(bits)), &SPEECH);
    if input.flag() {
        let unsent = test.host.transmit().len();
        test.host.written(0.0, unsent);
        test.host.receive(0.0, LOGGED_IN, 0);
    }
    test.run(&mut input);
}

/// AuthenticationOk, BackendKeyData, ReadyForQuery.
const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

fn settings(bits: u8) -> Vec<u8> {
    let has = |bit: u8| bits & 1 << bit != 0;
    let pairs = [
        (bits != 255, "user", "me"),
        (has(0), "hold_begin", "1"),
        (has(1), "prepare_threshold", "2"),
        (has(2), "in_flight_max", "1"),
        (has(3), "queue_max", "3"),
        (has(4), "statements_max", "1"),
        (has(5), "pieces", "1"),
        (has(6), "ask_password", "1"),
        (has(7), "message_bytes_max", "200000"),
    ];
    let said = pairs.iter().filter(|(applies, ..)| *applies);
    said.flat_map(|(_, name, value)| [name, "\0", value, "\0"]).flat_map(|it| it.bytes()).collect()
}

const SPEECH: Speech = Speech {
    says: &[
        b"1\0\0\0\x04",
        b"2\0\0\0\x04",
        b"3\0\0\0\x04",
        b"n\0\0\0\x04",
        b"t\0\0\0\x06\0\0",
        b"T\0\0\0\x06\0\0",
        b"D\0\0\0\x06\0\0",
        b"C\0\0\0\x0dSELECT 1\0",
        b"C\0\0\0\x0aBEGIN\0",
        b"C\0\0\0\x13DEALLOCATE ALL\0",
        b"Z\0\0\0\x05I",
        b"Z\0\0\0\x05T",
        b"Z\0\0\0\x05E",
        b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\0\0C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
        b"1\0\0\0\x04t\0\0\0\x06\0\0n\0\0\0\x042\0\0\0\x04C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
        b"2\0\0\0\x04C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I",
        b"E\0\0\0\x13SERROR\0C42601\0\0Z\0\0\0\x05I",
        b"E\0\0\0\x13SERROR\0C26000\0\0Z\0\0\0\x05I",
        b"E\0\0\0\x13SERROR\0C57014\0\0Z\0\0\0\x05E",
        b"E\0\0\0\x13SFATAL\0C57P01\0\0",
        b"G\0\0\0\x07\0\0\0",
        b"H\0\0\0\x07\0\0\0",
        b"d\0\0\0\x05x",
        b"c\0\0\0\x04",
        b"D\0\x04\0\0\0\x01",
        b"N\0\0\0\x05\0",
        b"A\0\0\0\x0b\0\0\0\x01a\0\0",
        b"S\0\0\0\x08a\0b\0",
        b"R\0\0\0\x08\0\0\0\x03",
    ],
    ask,
    submit: |host, now, asked, bytes| host.submit_postgres(now, asked, bytes),
    other,
};

const TEXTS: [&str; 12] = [
    "select 1",
    "select 2",
    "select $1",
    "begin",
    "commit",
    "rollback",
    "select 1; select 2",
    "copy t from stdin",
    "copy t to stdout",
    "begin; select 1",
    "",
    "deallocate all",
];

fn ask(input: &mut Input<'_>, asked: &mut Asked) -> Vec<u8> {
    let bits = input.u8();
    asked.flags = u32::from(bits & 15);
    if bits & 64 != 0 {
        asked.lens = (input.u8().into(), input.u8().into());
        return input.piece().to_vec();
    }
    let text = input.pick(&TEXTS);
    let name = if bits & 16 == 0 { "" } else { input.pick(&["a", "b"]) };
    let parameters: &[u8] = if bits & 32 == 0 { b"" } else { b"\0\0\0\x01\0\0\0\x01x" };
    asked.lens = (text.len(), name.len());
    [text.as_bytes(), name.as_bytes(), parameters].concat()
}

fn other(test: &mut Test<'_>, input: &mut Input<'_>) {
    match input.below(6) {
        0 => test.write_too_much(),
        1 | 2 => {
            let token = input.below(32) as u32 + 1;
            let place = test.host.sync(test.now, token);
            test.began(token, place);
        }
        3 => test.host.flush(test.now),
        4 => {
            let (token, end) = (input.below(33) as u32, input.below(4) as u32);
            test.host.want_cancel(test.now, token, end);
        }
        _ => {
            assert!(classify(input.piece()) < 1 << 17);
            test.host.password(test.now, b"secret");
        }
    }
}
