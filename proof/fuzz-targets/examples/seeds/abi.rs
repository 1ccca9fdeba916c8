//! Inputs of the ABI targets: the steps of a host, which `src/targets/abi.rs` defines.

use std::io;

use super::Corpus;

/// The steps: submit under the token that follows; write everything; let the peer send the message
/// of this number; cancel; let time pass; say goodbye.
const ASK: u8 = 0;
const WRITE: u8 = 7;
const SAY: u8 = 8;
const BYTES: u8 = 10;
const TAKE_BACK: u8 = 11;
const TIME: u8 = 12;
const GOODBYE: u8 = 13;
const OTHER: u8 = 15;

pub(super) fn write(corpus: &mut Corpus) -> io::Result<()> {
    for (name, bytes) in REDIS {
        corpus.add("abi_redis", name, &[bytes])?;
    }
    for (name, bytes) in POSTGRES {
        corpus.add("abi_postgres", name, &[bytes])?;
    }
    Ok(())
}

/// Settings, whether the login is answered, steps.
const REDIS: [(&str, &[u8]); 7] = [
    ("answered", &[0, 1, ASK, 0, 0, 0, 0, 1, b'a', WRITE, SAY, 2, 0]),
    (
        "in_pieces",
        &[0, 1, ASK, 0, 0, 0, 0, 1, b'a', WRITE, BYTES, 2, b'$', b'1', 1, BYTES, 1, b'\r', 0],
    ),
    ("several", &[0, 1, ASK, 1, 2, 0, 0, 0, 1, 0, WRITE, SAY, 0, 0, SAY, 6, 0]),
    ("script", &[0, 1, ASK, 1, 0, 17, 4, 1, b'x', WRITE, SAY, 7, 0, WRITE, SAY, 0, 0, SAY, 0, 0]),
    ("subscribed", &[3, 1, ASK, 1, 1, 2, 2, 1, b'c', WRITE, SAY, 13, 0, SAY, 11, 0]),
    (
        "queued",
        &[
            20, 1, ASK, 1, 0, 0, 0, 0, ASK, 2, 0, 0, 0, 0, ASK, 66, 0, 0, 0, 0, TAKE_BACK, 1, TIME,
            1, 0,
        ],
    ),
    (
        "looked_at",
        &[
            0, 0, ASK, 1, 0, 0, 0, 0, OTHER, 1, 8, b'*', b'1', b'\r', b'\n', b'$', b'0', b'\r',
            b'\n',
        ],
    ),
];

const POSTGRES: [(&str, &[u8]); 10] = [
    (
        "begin_answered_by_a_row",
        &[33, 1, ASK, 0, 0, 3, ASK, 1, 0, 0, WRITE, SAY, 0, 0, SAY, 1, 0, SAY, 24, 0],
    ),
    ("answered", &[0, 1, ASK, 0, 0, 0, WRITE, SAY, 13, 0]),
    (
        "prepared",
        &[
            2, 1, ASK, 0, 0, 0, ASK, 1, 0, 0, WRITE, SAY, 13, 0, SAY, 14, 0, ASK, 2, 0, 0, WRITE,
            SAY, 15, 0,
        ],
    ),
    (
        "healed",
        &[0, 1, ASK, 0, 16, 0, 0, WRITE, SAY, 14, 0, ASK, 1, 16, 0, 0, WRITE, SAY, 17, 0, WRITE],
    ),
    (
        "begin_held",
        &[1, 1, ASK, 0, 0, 3, ASK, 1, 0, 0, WRITE, SAY, 0, 0, SAY, 1, 0, SAY, 8, 0, SAY, 16, 0],
    ),
    (
        "begin_then_copy",
        &[1, 1, ASK, 0, 0, 3, ASK, 1, 1, 7, ASK, 2, 0, 4, WRITE, SAY, 16, 0, WRITE],
    ),
    ("segment", &[0, 1, ASK, 0, 4, 0, ASK, 1, 4, 1, OTHER, 1, 7, WRITE, SAY, 0, 0, SAY, 16, 0]),
    ("long_row", &[128, 1, ASK, 0, 0, 0, WRITE, SAY, 0, 0, SAY, 24, 0, BYTES, 3, 1, 2, 3, 0]),
    (
        "goodbye_behind_a_cancel",
        &[0, 1, ASK, 0, 0, 0, OTHER, 4, 1, 0, WRITE, GOODBYE, 0, SAY, 13, 0],
    ),
    (
        "late_and_not_cancelled",
        &[0, 1, ASK, 64, 0, 0, OTHER, 4, 1, 0, TIME, 0, 100, WRITE, OTHER, 4, 0, 0],
    ),
];
