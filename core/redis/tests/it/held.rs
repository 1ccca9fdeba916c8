//! How much a server can make a host keep.

use onetrip_engine::{Protocol, Step, Violation};
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Expect, Redis};

const UNASKED: Violation = Violation("the server answered a request that was not sent");

fn small() -> ScanLimits {
    ScanLimits { push_bytes_max: 100, ..ScanLimits::default() }
}

#[test]
fn of_a_reply_that_nobody_asked_for_no_more_than_its_type_is_read() {
    for begin in ["$", "*", ":", "+", "%", "|0\r\n~"] {
        let mut redis = Redis::new(ScanLimits::default());
        assert_eq!(redis.step(begin.as_bytes(), None).unwrap_err(), UNASKED, "{begin:?}");
    }
}

#[test]
fn an_error_that_nobody_asked_for_is_read_since_it_says_why() {
    let mut redis = Redis::new(ScanLimits::default());
    let bytes = b"-ERR Protocol error: invalid bulk length\r\n";
    assert!(matches!(redis.step(&bytes[..10], None).unwrap(), Step::Need(12)));
    assert!(matches!(redis.step(bytes, None).unwrap(), Step::Fatal(len) if len == bytes.len()));
}

#[test]
fn a_push_is_kept_up_to_a_limit() {
    for (mut redis, kind) in [(Redis::new(small()), '>'), (Redis::subscriber(small()), '*')] {
        let endless = format!("{kind}1000\r\n{}", ":1\r\n".repeat(50));
        let passes = redis.step(&endless.as_bytes()[..90], None);
        assert!(matches!(passes, Ok(Step::Need(_))), "{passes:?}");
        redis.step(endless.as_bytes(), None).unwrap_err();
    }
}

#[test]
fn the_answer_to_what_heals_is_kept_up_to_a_limit() {
    let mut redis = Redis::new(small());
    let mut expect = Expect::reply().script(b"return 1"[..].into());
    redis.heal(&mut expect, &mut bytes::BytesMut::new());
    redis.step(b"$101\r\n", Some(&mut expect)).unwrap_err();
}

#[test]
fn a_reply_is_handed_on_in_parts_whatever_its_length() {
    let mut redis = Redis::new(small());
    let mut expect = Expect::reply();
    let bytes = [&b"$100000\r\n"[..], &[b'x'; 50_000]].concat();
    let step = redis.step(&bytes, Some(&mut expect)).unwrap();
    assert!(matches!(step, Step::Part(len) if len == bytes.len()));
}
