//! When a client asks what a text takes.

use std::time::Duration;

use onetrip_postgres::client::first_use::asks;

#[test]
fn callers_share_a_question_until_it_is_late() {
    assert!(asks(None));
    assert!(!asks(Some(Duration::ZERO)));
    assert!(!asks(Some(Duration::from_millis(499))));
    assert!(asks(Some(Duration::from_millis(500))));
}
