//! Whether a connection is still between MULTI and EXEC after a list was answered.

use onetrip_engine::{Protocol, Step, Violation};
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Expect, Redis};

/// Feeds these replies, and returns what the last one was taken for.
fn heard(mut expect: Expect, replies: &[&str]) -> Result<Step<onetrip_redis::Event>, Violation> {
    let mut redis = Redis::new(ScanLimits::default());
    let (last, first) = replies.split_last().unwrap();
    for reply in first {
        let frame = format!("{reply}\r\n");
        let step = redis.step(frame.as_bytes(), Some(&mut expect)).unwrap();
        assert!(matches!(step, Step::Part(_)), "{reply}: {step:?}");
    }
    redis.step(format!("{last}\r\n").as_bytes(), Some(&mut expect))
}

#[test]
fn an_exec_that_is_refused_within_multi_ends_the_connection() {
    for refusal in ["-ERR unknown command 'EXEC'", "-LOADING data", "-NOPERM", "-NOAUTH no"] {
        heard(Expect::atomic(1), &["+OK", "+QUEUED", refusal]).unwrap_err();
        let behind = Expect::atomic(1).behind_asking();
        heard(behind, &["+OK", "+OK", "+QUEUED", refusal]).unwrap_err();
    }
}

#[test]
fn an_exec_that_has_ended_multi_is_a_reply_like_others() {
    for reply in [
        "*1\r\n-ERR in a script",
        "*-1",
        "_",
        "-EXECABORT Transaction discarded because of previous errors.",
        "-MOVED 3999 127.0.0.1:6381",
        "-ASK 3999 127.0.0.1:6381",
        "-CLUSTERDOWN Hash slot not served",
        "-ERR Transaction contains write commands but instance is now a read-only slave. EXEC aborted.",
    ] {
        let step = heard(Expect::atomic(1), &["+OK", "+QUEUED", reply]).unwrap();
        assert!(matches!(step, Step::Settled(_)), "{reply}: {step:?}");
    }
}

#[test]
fn where_multi_was_refused_exec_may_be_refused_by_any_words() {
    let replies = ["-NOPERM no multi", ":1", "-NOPERM no exec"];
    assert!(matches!(heard(Expect::atomic(1), &replies), Ok(Step::Settled(_))));
    let replies = ["+OK", "-NOPERM no multi", ":1", "-ERR unknown command 'EXEC'"];
    assert!(matches!(heard(Expect::atomic(1).behind_asking(), &replies), Ok(Step::Settled(_))));
}

#[test]
fn a_reset_that_is_refused_ends_the_connection() {
    heard(Expect::reply().resetting(), &["-NOPERM no"]).unwrap_err();
    assert!(matches!(heard(Expect::reply().resetting(), &["+OK"]), Ok(Step::Settled(_))));
}
