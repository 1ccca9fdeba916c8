//! `onetrip proxy`: how it ends.

use std::process::Stdio;

use crate::process::{Onetrip, closed, full};
use rustix::process::Signal;

const ARGUMENTS: [&str; 3] = ["proxy", "--upstream", "127.0.0.1:5432"];

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut proxy = Onetrip::start(&ARGUMENTS, Stdio::piped());
        let line = proxy.first_line();
        assert!(line.contains("-> 127.0.0.1:5432"), "{line}");
        proxy.signal(signal);
        let (status, said) = proxy.end();
        assert!(status.success() && said.is_empty(), "{signal:?}: {said}");
    }
}

#[test]
fn an_address_that_cannot_be_told_ends_it() {
    let (status, said) = Onetrip::start(&ARGUMENTS, full()).end();
    assert_eq!(status.code(), Some(2));
    assert!(said.starts_with("onetrip: can't write to standard output"), "{said}");
    let (status, said) = Onetrip::start(&ARGUMENTS, closed()).end();
    assert!(status.success() && said.is_empty(), "{said}");
}
