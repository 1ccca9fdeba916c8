//! How requests are treated while a BEGIN is pending.

use bytes::{Bytes, BytesMut};
use onetrip_postgres::client::transaction::control::Control;
use onetrip_postgres::client::transaction::pending::{
    Asked, Begin, PendingBegin, Surroundings, Treatment, treatment, treatment_of_sync,
};
use onetrip_postgres::message::TransactionStatus;
use onetrip_postgres::sql::classify;

const ERROR: &[u8] = b"E\0\0\0\x0cC25001\0\0";

/// Nothing is in flight, outside of any transaction.
const IDLE: Surroundings = Surroundings { is_idle: true, is_outside: true, segment_open: false };

/// Something is in flight.
const BUSY: Surroundings = Surroundings { is_idle: false, is_outside: true, segment_open: false };

/// The request follows others in a segment.
const WITHIN: Surroundings = Surroundings { is_idle: false, is_outside: true, segment_open: true };

fn held() -> PendingBegin {
    PendingBegin::new(Begin::new("BEGIN", 7))
}

fn sent() -> PendingBegin {
    let mut pending = held();
    pending.sent();
    pending
}

fn refused() -> PendingBegin {
    let mut pending = sent();
    pending.refused(Bytes::from_static(ERROR));
    pending
}

fn extended(pending: Option<&PendingBegin>, text: &str, at: Surroundings) -> Treatment {
    let asked = Asked { text, is_plain: true, is_simple: false };
    treatment(pending, asked, at, || classify(text))
}

fn simple(pending: &PendingBegin, text: &str) -> Treatment {
    let asked = Asked { text, is_plain: true, is_simple: true };
    treatment(Some(pending), asked, BUSY, || classify(text))
}

#[test]
fn begin_runs_in_a_portal_of_its_own_and_without_a_sync() {
    let mut out = BytesMut::new();
    Begin::new("BEGIN", 7).write(&mut out).unwrap();
    let parse = b"P\0\0\0\x0d\0BEGIN\0\0\0";
    let bind = b"B\0\0\0\x18onetrip_tx_7\0\0\0\0\0\0\0\0";
    let execute = b"E\0\0\0\x15onetrip_tx_7\0\0\0\0\0";
    assert_eq!(&out[..], [&parse[..], bind, execute].concat());
}

#[test]
fn each_transaction_of_a_session_has_a_portal_of_its_own() {
    for number in [0, 9, 10, 65_536, u64::MAX] {
        let mut out = BytesMut::new();
        Begin::new("BEGIN", number).write_guard(&mut out).unwrap();
        let wanted = format!("Ponetrip_tx_{number}\0");
        assert_eq!(&out[5..], wanted.as_bytes());
    }
}

#[test]
fn the_guard_is_a_describe_of_the_portal_in_which_begin_runs() {
    let mut out = BytesMut::new();
    Begin::new("BEGIN", 7).write_guard(&mut out).unwrap();
    assert_eq!(&out[..], b"D\0\0\0\x12Ponetrip_tx_7\0");
}

#[test]
fn begin_is_answered_at_once_only_where_nothing_is_on_its_way_outside_of_a_transaction() {
    assert_eq!(extended(None, "begin", IDLE), Treatment::Answered(Control::Begin));
    assert_eq!(extended(None, "begin", BUSY), Treatment::Plain);
    let in_transaction = Surroundings { is_outside: false, ..IDLE };
    assert_eq!(extended(None, "begin", in_transaction), Treatment::Plain);
    // One with parameters or a name is sent as it is.
    let asked = Asked { text: "begin", is_plain: false, is_simple: false };
    assert_eq!(treatment(None, asked, IDLE, || classify("begin")), Treatment::Plain);
}

#[test]
fn begin_leaves_with_the_first_statement() {
    assert_eq!(extended(Some(&held()), "select 1", IDLE), Treatment::Leads);
    assert_eq!(treatment_of_sync(Some(&held()), false), Treatment::Leads);
}

#[test]
fn a_transaction_without_statements_sends_nothing() {
    for (text, answer) in [("commit", Control::Commit), ("rollback", Control::Rollback)] {
        assert_eq!(extended(Some(&held()), text, IDLE), Treatment::Answered(answer));
    }
}

#[test]
fn the_guard_is_in_front_of_each_statement_until_begin_was_answered() {
    for text in ["select 1", "insert into t values (1)", "savepoint a", "commit"] {
        assert_eq!(extended(Some(&sent()), text, BUSY), Treatment::Guarded, "{text}");
    }
    assert_eq!(treatment_of_sync(Some(&sent()), false), Treatment::Guarded);
    // It undoes nothing if there is no transaction.
    assert_eq!(extended(Some(&sent()), "rollback", BUSY), Treatment::Plain);
}

#[test]
fn what_the_guard_does_not_hold_back_waits() {
    // If BEGIN is refused, it would run outside of any transaction.
    for text in ["copy t from stdin", "commit and chain"] {
        assert_eq!(extended(Some(&sent()), text, BUSY), Treatment::Waits, "{text}");
    }
    // The extended protocol answers these differently.
    for text in ["select 1; select 2", "select $1", "fetch 1 from c", ""] {
        assert_eq!(simple(&sent(), text), Treatment::Waits, "{text}");
        assert_eq!(simple(&held(), text), Treatment::Waits, "{text}");
    }
    assert_eq!(simple(&sent(), "select 1"), Treatment::Guarded);
}

#[test]
fn what_belongs_to_an_open_segment_never_waits() {
    assert_eq!(extended(Some(&sent()), "copy t from stdin", WITHIN), Treatment::Guarded);
    assert_eq!(extended(Some(&refused()), "select 1", WITHIN), Treatment::Guarded);
}

#[test]
fn nothing_behind_a_refused_begin_is_committed() {
    let refused = refused();
    assert_eq!(refused.refusal().unwrap(), ERROR);
    for text in ["select 1", "insert into t values (1)", "commit; insert into t values (1)"] {
        assert_eq!(extended(Some(&refused), text, IDLE), Treatment::Fails, "{text}");
    }
    assert_eq!(treatment_of_sync(Some(&refused), false), Treatment::Fails);
    assert_eq!(extended(Some(&refused), "commit", BUSY), Treatment::Guarded);
}

#[test]
fn the_end_of_a_refused_transaction_is_answered_as_that_of_a_failed_one() {
    for text in ["commit", "rollback"] {
        let answered = Treatment::Answered(Control::Rollback);
        assert_eq!(extended(Some(&refused()), text, IDLE), answered, "{text}");
    }
    assert_eq!(refused().status(), Some(TransactionStatus::Failed));
}

#[test]
fn what_follows_the_end_of_the_transaction_is_not_of_it() {
    for text in ["commit", "rollback; select 1"] {
        let mut pending = sent();
        pending.follow(text);
        assert_eq!(extended(Some(&pending), "select 1", BUSY), Treatment::Plain, "{text}");
        assert_eq!(pending.status(), None);
    }
    let mut pending = sent();
    pending.follow("rollback to a");
    assert_eq!(extended(Some(&pending), "select 1", BUSY), Treatment::Guarded);
}

#[test]
fn a_begin_on_its_way_is_a_transaction_that_nobody_knows_to_be_open() {
    assert!(held().is_held() && !held().is_in_doubt());
    assert!(!sent().is_held() && sent().is_in_doubt());
    assert_eq!(held().status(), Some(TransactionStatus::InTransaction));
    assert_eq!(sent().status(), Some(TransactionStatus::InTransaction));
}
