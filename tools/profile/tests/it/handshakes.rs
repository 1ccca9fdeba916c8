//! What comes before a login, or in place of one: each is counted as what it is.

use onetrip_profile::{Piece, Profile, Profiler, Side};

use crate::speaker::{RTT, message};

const SSL: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
const GSS: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x30";
/// Of protocol 3.0 with a key of 4 bytes, and of 3.2 with one of 32.
const CANCEL: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01key!";
const LONG_CANCEL: &[u8] = b"\0\0\0\x2c\x04\xd2\x16\x2e\0\0\0\x01a key of as many as thirty-two b";
const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0a\0\0";
const STARTUP_3_2: &[u8] = b"\0\0\0\x10\0\x03\0\x02user\0a\0\0";
const HELLO: &[u8] = b"\x16\x03\x01\x00\x05hello";

/// Conversations by one connection each, of which one side speaks after the other.
fn told(conversations: &[&[(Side, &[u8])]], size: usize) -> Profile {
    let mut profiler = Profiler::new();
    for (connection, turns) in (0..).zip(conversations) {
        let mut at = connection * 1000 * RTT;
        for (from, bytes) in *turns {
            at += RTT;
            for piece in bytes.chunks(size) {
                profiler.piece(Piece { at, connection, from: *from, bytes: piece });
                at += 1000;
            }
        }
        profiler.closed(connection);
    }
    profiler.finish()
}

fn welcome(key: &[u8]) -> Vec<u8> {
    let key = message(b'K', &[&[0, 0, 0, 1], key].concat());
    [message(b'R', &[0; 4]), key, message(b'Z', b"I")].concat()
}

fn query() -> (Vec<u8>, Vec<u8>) {
    (message(b'Q', b"vacuum\0"), [message(b'C', b"VACUUM\0"), message(b'Z', b"I")].concat())
}

#[test]
fn refusals_of_encryption_are_trips_of_the_login() {
    use Side::{Client, Server};
    let (ask, answer) = query();
    let welcome = welcome(b"key!");
    for size in [1, 3, 8, 1000] {
        let profile = told(
            &[&[
                (Client, GSS),
                (Server, b"N"),
                (Client, SSL),
                (Server, b"N"),
                (Client, STARTUP),
                (Server, &welcome),
                (Client, &ask),
                (Server, &answer),
            ]],
            size,
        );
        assert_eq!(profile.trips.now, 4.0, "pieces of {size}");
        assert_eq!((profile.connections, profile.opaque.len()), (1, 0), "pieces of {size}");
    }
}

#[test]
fn requests_to_cancel_are_no_trips_of_the_program() {
    use Side::{Client, Server};
    for size in [1, 3, 8, 1000] {
        for request in [CANCEL, LONG_CANCEL] {
            let refused: &[_] = &[(Client, SSL), (Server, b"N"), (Client, request)];
            let profile = told(&[&[(Client, request)], refused], size);
            assert_eq!((profile.connections, profile.units), (0, 0), "pieces of {size}");
            assert_eq!(profile.trips.now, 0.0, "pieces of {size}");
            assert!(profile.shapes.is_empty() && profile.opaque.is_empty(), "{profile:?}");
        }
    }
}

#[test]
fn a_version_that_is_agreed_on_lower_or_with_longer_keys_is_read() {
    use Side::{Client, Server};
    let (ask, answer) = query();
    let lower = [message(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]), welcome(b"key!")].concat();
    let longer = welcome(b"a key of as many as thirty-two b");
    for size in [1, 3, 8, 1000] {
        for welcome in [&lower, &longer] {
            let profile = told(
                &[&[(Client, STARTUP_3_2), (Server, welcome), (Client, &ask), (Server, &answer)]],
                size,
            );
            assert_eq!(profile.trips.now, 2.0, "pieces of {size}");
            assert_eq!((profile.connections, profile.opaque.len()), (1, 0), "pieces of {size}");
        }
    }
}

#[test]
fn what_is_encrypted_is_counted_by_its_times() {
    use Side::{Client, Server};
    let rest: &[(Side, &[u8])] = &[
        (Client, HELLO),
        (Server, HELLO),
        (Client, b"\x17\x03\x03\0\x01a"),
        (Server, b"\x17\x03\x03\0\x01b"),
    ];
    for size in [1, 3, 8, 1000] {
        let asked: &[&[(Side, &[u8])]] =
            &[&[], &[(Client, SSL), (Server, b"S")], &[(Client, GSS), (Server, b"G")]];
        for begin in asked {
            let profile = told(&[&[begin, rest].concat()], size);
            let trips = 2.0 + begin.len() as f64 / 2.0;
            assert_eq!(profile.trips.now, trips, "{begin:?} in pieces of {size}");
            assert_eq!(profile.opaque, [("encrypted".to_owned(), 1)], "pieces of {size}");
        }
    }
}
