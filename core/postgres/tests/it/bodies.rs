//! Malformed bodies of messages are refused, even if no caller reads them.

use onetrip_engine::{Protocol, Step};
use onetrip_postgres::message::TransactionStatus;
use onetrip_postgres::startup::PARAMETERS_MAX;
use onetrip_postgres::{Expect, Postgres};

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &len, body].concat()
}

/// Whether a session that expects this accepts the message.
fn takes(mut expect: Expect, tag: u8, body: &[u8]) -> bool {
    let mut session = Postgres::new(TransactionStatus::Idle);
    session.step(&message(tag, body), Some(&mut expect)).is_ok()
}

#[test]
fn a_body_whose_lengths_do_not_fit_is_a_violation() {
    let column = [&b"\0\x01name\0"[..], &[0; 18]].concat();
    // Not UTF-8: a session may have set another encoding.
    let latin = [&b"\0\x01n\xe4me\0"[..], &[0; 18]].concat();
    let describe = Expect::sync().describe_portal();
    for whole in [&column, &latin] {
        assert!(takes(describe, b'T', whole));
        assert!(!takes(describe, b'T', &whole[..whole.len() - 1]), "it ends too early");
        assert!(!takes(describe, b'T', &[&whole[..], &[0]].concat()), "something is behind it");
    }
    assert!(!takes(describe, b'T', b"\0\x01name"), "a name without an end");
    for (tag, whole) in [
        (b'C', &b"SELECT 1\0"[..]),
        (b'S', b"name\0value\0"),
        (b'A', b"\0\0\0\x01channel\0payload\0"),
        (b'N', b"SNOTICE\0Mtext\0\0"),
    ] {
        let expect = Expect::sync().execute();
        assert!(takes(expect, tag, whole), "{}", char::from(tag));
        for len in 0..whole.len() {
            assert!(!takes(expect, tag, &whole[..len]), "{} up to {len}", char::from(tag));
        }
        assert!(!takes(expect, tag, &[whole, b"x\0"].concat()), "{} and more", char::from(tag));
    }
}

#[test]
fn settings_are_reported_any_number_of_times_but_not_under_any_number_of_names() {
    let mut session = Postgres::new(TransactionStatus::Idle);
    let setting = |number: usize| message(b'S', format!("s{number}\0x\0").as_bytes());
    for number in (0..PARAMETERS_MAX).chain(0..PARAMETERS_MAX) {
        assert!(matches!(session.step(&setting(number), None), Ok(Step::Event(..))));
    }
    assert!(session.step(&setting(PARAMETERS_MAX), None).is_err());
}
